"""What rows could take at least: ``python -m benchmarks.bounds FILE``.

FILE is what ``python -m benchmarks --json FILE`` wrote on this machine, with as many threads. Of
each row's program the floating point operations, the functions (exp, log, ...) and the bytes of
arguments and results are counted; no program that does this work is quicker than the longest of

    operations / the rate of the quickest product of matrices
    functions / the rate of exp on what is in the caches
    bytes / the rate of loops that read (a sum) or copy as many bytes, and do nothing else

which are measured here, as phix reaches them. The share of its time that a row's bound takes says
how much is left to win at most; the geometric means would be those of the last lines then. Rows
that take less than ``LEAST`` are bound by calls and by chains of dependent steps, of which none of
the three knows; so are sorts, factorisations and long loops, whose shares are small though nobody
is quicker.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, report
from benchmarks.__main__ import load_rows, pin

LEAST = 100e-6  # seconds
_REPEATS = 15


@dataclass(frozen=True)
class Bound:
    """The least seconds of a row, and which of the three it is."""

    seconds: float
    by: str


def _lowest(call: Callable[[], Any]) -> float:
    found = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


@functools.cache
def operations_a_second() -> float:
    """Of the quickest product of float32 matrices that fit in the caches."""
    import phix

    run = phix.jit(lambda x, y: x @ y)
    found = []
    for n in (256, 384, 512, 768):
        x = phix.to_tensor(harness.normal(n, n))
        found.append(2 * n**3 / _lowest(functools.partial(run, x, x)))
    return max(found)


@functools.cache
def functions_a_second() -> float:
    """Calls of exp on float32 in the caches, many of each value: memory counts for nothing."""
    import phix

    x = phix.to_tensor(harness.normal(1 << 14))
    run = phix.jit(lambda x: sum(phix.ops.exp(x + float(k)) for k in range(64)))
    return 64 * (1 << 14) / _lowest(lambda: run(x))


@functools.cache
def seconds_a_byte(size: int) -> tuple[float, float]:
    """To read one and to write one, by loops over ``size`` bytes in all: a sum, and ``x + 1``."""
    import phix

    x = phix.to_tensor(np.ones(size // 4, np.float32))
    half = x[: size // 8] + 0.0
    total, copy = phix.jit(phix.ops.sum), phix.jit(lambda x: x + 1.0)
    read = _lowest(lambda: total(x)) / size
    return read, max(read, 2 * _lowest(lambda: copy(half)) / size - read)


def bound(case: harness.Case) -> Bound | None:
    """Of a row that is one program whose work can be counted."""
    import phix
    from benchmarks import peers

    if case.mode == "uncompiled" or "phix" not in case.functions:
        return None
    library = peers.Functional("phix")
    arrays = peers.tree_map(library.array, case.args)
    lowered = phix.jit(library.wrapped(case.functions["phix"], case.mode)).lower(*arrays)
    cost, memory = lowered.cost_analysis(), lowered.memory_analysis()
    sizes = (memory.argument_size_in_bytes, memory.output_size_in_bytes)
    counts = (cost.flops, cost.transcendentals, cost.bytes_read, *sizes)
    if not all(isinstance(n, (int, float)) for n in counts):
        return None  # the data say how much it is
    read = min(memory.argument_size_in_bytes, cost.bytes_read)  # less where rows are picked
    written = memory.output_size_in_bytes
    reading, writing = seconds_a_byte(1 << max(16, round(math.log2(read + written + 1))))
    times = {
        "operations": cost.flops / operations_a_second(),
        "functions": cost.transcendentals / functions_a_second(),
        "memory": read * reading + written * writing,
    }
    by = max(times, key=lambda word: times[word])
    return Bound(times[by], by)


def bounds(rows: Mapping[str, Mapping[str, float]]) -> dict[str, Bound]:
    """Row -> its bound, of those that have one and take ``LEAST`` or more."""
    found = {}
    for name, times in rows.items():
        if name in harness.ROWS and times.get("phix", 0.0) >= LEAST:
            case = harness.ROWS[name].build()
            one = bound(case) if case.unknown is None else None
            if one is not None:
                found[name] = one
    return found


def table(rows: Mapping[str, Mapping[str, float]], found: Mapping[str, Bound]) -> str:
    """A line a row with a bound, those nearest to it first."""
    share = {name: one.seconds / rows[name]["phix"] for name, one in found.items()}
    width = 2 + max(map(len, found), default=0)
    lines = [f"{'row':<{width}}{'phix':>10}{'bound':>10}{'share':>8}  by"]
    for name in sorted(found, key=lambda n: -share[n]):
        times = (harness.amount(name, t) for t in (rows[name]["phix"], found[name].seconds))
        cells = "".join(f"{cell:>10}" for cell in times)
        lines.append(f"{name:<{width}}{cells}{share[name]:>8.2f}  {found[name].by}")
    return "\n".join(lines)


def means(rows: Mapping[str, Mapping[str, float]], found: Mapping[str, Bound]) -> list[str]:
    """A line a peer: the geometric mean of its times over those of phix, and what it would be if
    each row with a bound took that."""
    lines = []
    for peer in harness.PEERS:
        mine = {name: harness.ratios(times)[peer] for name, times in rows.items()
                if peer in harness.ratios(times)}  # fmt: skip
        if not mine:
            continue
        at_best = [r * rows[n]["phix"] / found[n].seconds if n in found else r
                   for n, r in mine.items()]  # fmt: skip
        measured = f"{_mean(mine.values()):.2f} over {len(mine)} rows"
        bounded = sum(name in found for name in mine)
        lines.append(f"{peer}: {measured}, {_mean(at_best):.2f} if {bounded} took their bounds")
    return lines


def _mean(ratios: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.bounds", description=__doc__)
    parser.add_argument("file", type=Path, help="of python -m benchmarks --json")
    parser.add_argument("--threads", type=int, default=2, help="as in that run (2)")
    parser.add_argument("--row", metavar="PART", default="", help="only rows whose names hold this")
    args = parser.parse_args()
    pin(args.threads)
    load_rows()
    _, measurements = report.read([args.file])
    rows = harness.by_row(measurements, lowest=True)
    rows = {name: times for name, times in rows.items() if args.row in name}
    found = bounds(rows)
    print(table(rows, found))
    print(*means(rows, found), sep="\n")


if __name__ == "__main__":
    main()
