"""``python -m benchmarks.programs [--program PART] [--sizes] [--json FILE]``.

Published programs that phix was not made for, each written once: over ``phix.numpy`` and ``phix``,
or ``jax.numpy`` and ``jax``, whose functions have the same names. One thread for each, in turns in
one process, results compared before anything is timed. It shows the time of a call and of the first
one (tracing, compiling, running; caches empty), those of JAX over phix's, and what lies below 0.8.

A program is a function of a :class:`Library` and a size in ``programs_*.py``; it gives a function
to compile and the NumPy arrays it takes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.published import PROGRAMS, Library, Program, libraries, load

SLOWER = 0.8  # of JAX: a program below wants a reason
_REPEATS, _BUDGET = 15, 6.0  # seconds of a contender


@dataclass(frozen=True)
class Found:
    """Seconds, the lowest of the calls and the first of them, of phix and JAX."""

    program: str
    size: int
    phix: float
    jax: float
    first_phix: float
    first_jax: float

    @property
    def ratio(self) -> float:
        return self.jax / self.phix

    @property
    def first_ratio(self) -> float:
        return self.first_jax / self.first_phix


# -- measuring -------------------------------------------------------------------------------------
def measured(entry: Program, size: int, over: dict[str, Library]) -> Found:
    """One program at one size.

    Raises:
        AssertionError: the libraries' results differ.
    """
    from benchmarks import harness, peers

    calls, first, results = {}, {}, {}
    for name, library in over.items():
        function, args = entry.build(library, size)
        contender = peers.Functional(name)
        call = contender.bind(function, "call", args)
        start = time.perf_counter()
        result = call()
        first[name] = time.perf_counter() - start
        calls[name] = call
        results[name] = [np.asarray(x) for x in peers.leaves(library.fx.tree.leaves(result))]
    harness.check_equal(f"{entry.name}, {size}", results, entry.tolerance)
    times = harness.time_calls(entry.name, calls, _REPEATS, _BUDGET)
    lowest = {m.contender: m.lowest for m in times}
    return Found(entry.name, size, lowest["phix"], lowest["jax"], first["phix"], first["jax"])


def everything(part: str, all_sizes: bool) -> Iterator[Found]:
    over = libraries()
    for library in over.values():  # the first compilation of a process imports the compiler
        library.fx.jit(lambda x: x + 1.0)(np.float32(1.0))
    for entry in PROGRAMS.values():
        if part in entry.name:
            for size in entry.sizes if all_sizes else entry.sizes[:1]:
                yield measured(entry, size, over)


# -- showing ---------------------------------------------------------------------------------------
def mean(ratios: list[float]) -> float:
    """Geometric."""
    return math.exp(statistics.fmean(math.log(r) for r in ratios))


def line(found: Found) -> str:
    from benchmarks.harness import amount

    times = [found.phix, found.jax, found.first_phix, found.first_jax]
    ours, theirs, first_ours, first_theirs = (amount("", t) for t in times)
    mark = " <" if found.ratio < SLOWER else ""
    return (
        f"{found.program + ', ' + str(found.size):<58}{ours:>9}{theirs:>9}{found.ratio:>7.2f}"
        f"{first_ours:>10}{first_theirs:>9}{found.first_ratio:>7.2f}{mark}"
    )


def summary(all_found: list[Found]) -> str:
    slower = [f for f in all_found if f.ratio < SLOWER]
    lines = [
        f"{len(all_found)} rows; JAX / phix, geometric means: a call "
        f"{mean([f.ratio for f in all_found]):.2f}, the first one "
        f"{mean([f.first_ratio for f in all_found]):.2f}; below {SLOWER}: {len(slower)}"
    ]
    return "\n".join(lines + [line(f) for f in sorted(slower, key=lambda f: f.ratio)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.programs", description=__doc__)
    parser.add_argument("--program", default="", help="only programs whose names hold this")
    parser.add_argument("--sizes", action="store_true", help="all sizes, not only the known one")
    parser.add_argument("--json", type=Path, help="write what was measured")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    os.environ["JAX_ENABLE_X64"] = "1"  # before it is imported
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PHIX_CACHE_DIR"] = folder  # first calls compile
        from benchmarks.__main__ import pin

        pin(1)
        load()
        found = []
        for one in everything(args.program, args.sizes):
            print(line(one), flush=True)
            found.append(one)
    if found:
        print(summary(found))
    if args.json:
        args.json.write_text(json.dumps([asdict(f) for f in found], indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
