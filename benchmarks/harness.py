"""What all benchmarks share: rows that are checked, timed in turns, and shown."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Call, leaves

# A repeat is made of enough calls to last this long, in seconds, behind some for longer that are
# not timed: caches hold what others read, and cores that have slept take a while to come to speed.
_SPAN, _WARM = 0.005, 0.02
# Threads of the contender before may still be waiting for work, in a loop that keeps a core busy
# (OpenMP's do for some milliseconds, OpenBLAS's for a tenth of a second at times): what follows
# waits until the process does nothing for so many seconds, but no longer than some.
_IDLE, _MOST_IDLE = 0.02, 0.5
# phix compiled for one size, beside phix compiled for any.
SIZED = "sized"
COMPILED = "torch.compile"
# Modes of a case that hold a gradient.
_DERIVED = ("vjp", "value_and_grad", "sgd")


@dataclass(frozen=True)
class Measurement:
    """The median time of one call, in seconds, of one contender in one row."""

    row: str
    contender: str
    median: float
    lowest: float
    repeats: int


@dataclass(frozen=True)
class Case:
    """One function, written for each library.

    Args:
        args: NumPy arrays, or trees of them; each library gets them as its own arrays.
        functions: contender -> function of the args.
        mode: what is timed of the compiled function:
            "call": its value.
            "vjp": value and pullback; the first of the args is the cotangent, the function takes
                the rest, and all of them are differentiated.
            "value_and_grad": value, and gradient in the first of the args.
            "sgd": value, and the first of the args moved against the gradient.
            "uncompiled": the function as it stands, not compiled by phix and JAX either.
        tolerance: the largest difference of a result, relative to the largest entry of its tensor.
        unknown: dims of the args, a tuple of sizes and names for each array, in trees like those of
            the args. phix is then compiled for every size of the named ones, and beside it, as the
            contender "sized", for the sizes of the args alone.
        is_long_loop: torch's function is a Python loop of a hundred steps or more, which
            torch.compile would unroll, for minutes if not hours: eager torch alone takes part.
    """

    args: tuple[Any, ...]
    functions: Mapping[str, Callable[..., Any]]
    mode: str = "call"
    tolerance: float = 2e-5
    unknown: tuple[Any, ...] | None = None
    is_long_loop: bool = False


@dataclass(frozen=True)
class Row:
    """A line of the table. ``wanted``: peer -> the ratio peer / phix to reach."""

    name: str
    build: Callable[[], Case]
    wanted: Mapping[str, float] = field(default_factory=dict)


ROWS: dict[str, Row] = {}


def row(name: str, **wanted: float) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Register a function that builds a :class:`Case`."""

    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        assert name not in ROWS, name
        ROWS[name] = Row(name, build, wanted)
        return build

    return register


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32 data."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (scale * values).astype(np.float32)


# -- running -------------------------------------------------------------------------------------
def check_equal(row: str, results: Mapping[str, list[np.ndarray]], tolerance: float = 1e-5) -> None:
    """Raise AssertionError unless all contenders of a row gave the same values."""
    first, *others = results
    for name in others:
        assert len(results[name]) == len(results[first]), f"{row}: other results in {name}"
        for a, b in zip(results[name], results[first]):
            size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
            np.testing.assert_allclose(
                a, b, rtol=0, atol=tolerance * size, err_msg=f"{row}: {name} is not {first}"
            )


def run_row(
    row: Row, libraries: Mapping[str, Any], repeats: int, budget: float
) -> tuple[list[Measurement], list[str]]:
    """The measurements of a row, and notes on contenders left out."""
    case, notes = row.build(), []
    calls: dict[str, Call] = {}
    results: dict[str, list[np.ndarray]] = {}
    for name, library in _contenders(case, libraries).items():
        function = case.functions.get("phix" if name == SIZED else name.partition(".")[0])
        if function is None or (case.mode in _DERIVED and not library.differentiates):
            continue
        try:
            call = library.bind(function, case.mode, case.args)
            results[name] = [library.numpy(x) for x in leaves(call())]
        except Exception as error:
            notes.append(f"{row.name}: {name} left out: {type(error).__name__}: {error!s:.200}")
        else:
            calls[name] = call
    check_equal(row.name, results, case.tolerance)
    return (time_calls(row.name, calls, repeats, budget) if calls else []), notes


def _contenders(case: Case, libraries: Mapping[str, Any]) -> Mapping[str, Any]:
    if case.is_long_loop:
        libraries = {n: library for n, library in libraries.items() if n != COMPILED}
    if case.unknown is None or "phix" not in libraries:
        return libraries
    return {"phix": libraries["phix"].for_unknown(case.unknown), SIZED: libraries["phix"]}


def measure(row: str, calls: dict[str, Call], repeats: int) -> list[Measurement]:
    """Check the contenders against each other, then time them in turns."""
    results = {name: [np.asarray(x) for x in leaves(call())] for name, call in calls.items()}
    check_equal(row, results)
    return time_calls(row, calls, repeats)


def time_calls(
    row: str, calls: Mapping[str, Call], repeats: int, budget: float = math.inf
) -> list[Measurement]:
    """Medians of calls in turns: a slow contender stops, after 3, when its budget is used up."""
    counts = {name: _calls_per_repeat(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    for number in range(repeats):
        for name, call in calls.items():
            if number >= 3 and spent[name] > budget:
                continue
            settle()
            _warm(call, counts[name])
            times[name].append(_time(call, counts[name]))
            spent[name] += times[name][-1] * counts[name]
    return [summary(row, name, found) for name, found in times.items()]


def settle() -> None:
    """Wait until no thread of this process works."""
    end = time.perf_counter() + _MOST_IDLE
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(_IDLE)
        if time.process_time() - before < _IDLE / 10:
            return


def summary(row: str, contender: str, times: list[float]) -> Measurement:
    return Measurement(row, contender, statistics.median(times), min(times), len(times))


def _warm(call: Call, count: int) -> None:
    start = time.perf_counter()
    while time.perf_counter() - start < _WARM:
        _time(call, count)


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


# -- showing -------------------------------------------------------------------------------------
def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "as each likes"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "llvmlite", "jax", "torch")},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


PEERS = ("jax", "torch", "numpy", SIZED)


def by_row(measurements: Iterable[Measurement], lowest: bool) -> dict[str, dict[str, float]]:
    """Row -> contender -> median (or lowest); "torch" is the better of eager and compiled."""
    table: dict[str, dict[str, float]] = {}
    for m in measurements:
        name = "torch" if m.contender == COMPILED else m.contender
        times = table.setdefault(m.row, {})
        value = m.lowest if lowest else m.median
        times[name] = min(value, times.get(name, math.inf))
    return table


def ratios(times: Mapping[str, float]) -> dict[str, float]:
    """Peer -> its time over that of phix: above 1, phix is faster."""
    own = times.get("phix")
    return {p: times[p] / own for p in PEERS if p in times} if own else {}


def means(measurements: Iterable[Measurement], lowest: bool) -> dict[str, tuple[float, int]]:
    """Peer -> the geometric mean of the ratios, and of how many rows."""
    found: dict[str, list[float]] = {}
    for times in by_row(measurements, lowest).values():
        for peer, ratio in ratios(times).items():
            found.setdefault(peer, []).append(math.log(ratio))
    return {p: (math.exp(statistics.fmean(logs)), len(logs)) for p, logs in found.items()}


def table(measurements: list[Measurement], lowest: bool = False) -> str:
    """A line a row: times, and the ratios peer / phix, with what is wanted of them."""
    rows = by_row(measurements, lowest)
    peers = [p for p in PEERS if any(p in times for times in rows.values())]
    head = "".join(f"{c:>10}" for c in ("phix", *peers)) + "".join(f"{p:>14}" for p in peers)
    width = 2 + max(map(len, rows), default=0)
    lines = [f"{'row':<{width}}{head}   (the last: time / phix's; in brackets: wanted)"]
    for name, times in rows.items():
        cells = [amount(name, times[c]) if c in times else "-" for c in ("phix", *peers)]
        line = f"{name:<{width}}" + "".join(f"{c:>10}" for c in cells)
        wanted = wanted_of(name)
        for peer in peers:
            ratio = ratios(times).get(peer)
            shown = "-" if ratio is None else f"{ratio:.2f}"
            line += f"{shown:>8}" + (f"{f'({wanted[peer]:g})':<6}" if peer in wanted else " " * 6)
        lines.append(line.rstrip())
    found = means(measurements, lowest).items()
    shown_means = ", ".join(f"{p} {mean:.2f} ({n} rows)" for p, (mean, n) in found)
    return "\n".join([*lines, f"geometric means of the ratios: {shown_means}"])


def wanted_of(name: str) -> Mapping[str, float]:
    """Peer -> the ratio that a row is to reach."""
    return ROWS[name].wanted if name in ROWS else WANTED.get(name, {})


# What is wanted of rows measured in processes of their own; see processes.py.
WANTED: dict[str, dict[str, float]] = {}
# Rows that are called so hold bytes, not seconds.
BYTES = "memory"


def amount(row: str, value: float) -> str:
    """A time, or of a row of memory a size, for people."""
    if row.startswith(BYTES):
        return f"{value / 2**20:.1f} MiB"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value / size:.0f} s"
    return f"{value * 1e9:.0f} ns"


def write_json(path: Path, measurements: Iterable[Measurement], **more: Any) -> None:
    content = {"machine": machine(), **more, "measurements": [asdict(m) for m in measurements]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> list[Measurement]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return [Measurement(**m) for m in content["measurements"]]


def write_plot(path: Path, measurements: list[Measurement], lowest: bool = False) -> None:
    """Bars of the ratios to JAX and PyTorch on a logarithmic axis; 1 is drawn as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = {name: ratios(times) for name, times in by_row(measurements, lowest).items()}
    rows = {name: r for name, r in reversed(rows.items()) if "jax" in r or "torch" in r}
    figure, axes = plt.subplots(figsize=(8, 1.5 + 0.28 * len(rows)), layout="constrained")
    for place, (peer, colour) in enumerate((("jax", "tab:blue"), ("torch", "tab:orange"))):
        found = [(k, r[peer]) for k, r in enumerate(rows.values()) if peer in r]
        heights = [k + 0.18 - 0.36 * place for k, _ in found]
        axes.barh(heights, [r - 1 for _, r in found], 0.34, left=1, color=colour, label=peer)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_xlabel("time / time of phix (right of the line: phix is faster)")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)
