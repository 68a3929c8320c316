"""What all benchmarks share: rows that are checked, timed in turns, and shown."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], Any]
# A repeat is made of enough calls to last this long, in seconds.
_SPAN = 0.005


@dataclass(frozen=True)
class Measurement:
    """The median time of one call, in seconds, of one contender in one row."""

    row: str
    contender: str
    median: float
    lowest: float
    repeats: int


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def check_equal(row: str, calls: dict[str, Call]) -> None:
    """Raise AssertionError unless all contenders of a row give the same values."""
    results = {name: np.asarray(call()) for name, call in calls.items()}
    names = iter(results)
    first = next(names)
    for name in names:
        np.testing.assert_allclose(
            results[name], results[first], rtol=1e-5, err_msg=f"{row}: {name} is not {first}"
        )


def measure(row: str, calls: dict[str, Call], repeats: int) -> list[Measurement]:
    """Check the contenders against each other, then time them in turns."""
    check_equal(row, calls)
    counts = {name: _calls_per_repeat(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(_time(call, counts[name]))
    return [summary(row, name, found) for name, found in times.items()]


def summary(row: str, contender: str, times: list[float]) -> Measurement:
    return Measurement(row, contender, statistics.median(times), min(times), len(times))


def _time(call: Call, count: int) -> float:
    turns = range(count)
    start = time.perf_counter()
    for _ in turns:
        call()
    return (time.perf_counter() - start) / count


def _calls_per_repeat(call: Call) -> int:
    count = 1
    while _time(call, count) * count < _SPAN:
        count *= 2
    return count


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def table(measurements: Iterable[Measurement]) -> str:
    """The measurements as text, one line each."""
    lines = [f"{'row':<44} {'contender':<10} {'median':>10} {'lowest':>10}"]
    for m in measurements:
        shown = (_duration(m.median), _duration(m.lowest))
        lines.append(f"{m.row:<44} {m.contender:<10} {shown[0]:>10} {shown[1]:>10}")
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def write_json(path: Path, measurements: Iterable[Measurement]) -> None:
    content = {"machine": machine(), "measurements": [asdict(m) for m in measurements]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
