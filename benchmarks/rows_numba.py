"""The library numba beside LLVM, Numba alone and JAX.

``python -m benchmarks.rows_numba [--row PART] [--quick] [--lowest]``, on one thread: the programs
of some rows, printed as Numba source in place of LLVM IR; the same work in loops by hand under
``numba.njit`` (``benchmarks/numba_peers.py``, with ``fastmath=True``); and in JAX, where it is
installed. Results are checked equal first. Shown are the median (or lowest) times of calls, all in
turns, and the seconds to compile, with the first call and without the trace.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.__main__ import load_rows, pin

SECONDS, QUICK_SECONDS = 3.0, 1.0
WAYS = ("llvm", "numba", "alone", "jax")
Call = Callable[..., Any]


def ways(name: str) -> tuple[str, dict[str, Callable[[], Call]], list[np.ndarray], float]:
    """A row: its name, what compiles it in each way, its inputs, and how far they may be apart."""
    import numba

    import phix
    from benchmarks import harness, numba_peers, peers
    from phix.core import libraries
    from phix.kernels.cpu import ENGINE

    row = next(r for n, r in harness.ROWS.items() if n.startswith(name))
    case = row.build()
    library = peers.Functional("phix")
    arrays = peers.tree_map(library.array, case.args)
    lowered = phix.jit(library.wrapped(case.functions["phix"], case.mode)).lower(*arrays)
    inputs = [x.data for x in phix.tree.leaves(arrays)]
    compiled, contiguous = lowered._traced.compiled, (True,) * len(inputs)

    def by(pinned: str | None) -> Callable[[], Call]:
        def make() -> Call:
            with libraries.pinning(pinned):
                program = ENGINE.compile(compiled.graph, contiguous, compiled.lower)
                launch: Call = program.launcher(tuple(x.shape for x in inputs))
                return launch

        return make

    made = {"llvm": by(None), "numba": by("numba")}
    by_hand = numba_peers.ALONE[name]
    if not isinstance(by_hand, str):
        made["alone"] = lambda: numba.njit(fastmath=True)(by_hand)
    if peers.is_installed("jax"):
        made["jax"] = _in_jax(case)
    return row.name, made, inputs, case.tolerance


def _in_jax(case: Any) -> Callable[[], Call]:
    from benchmarks import peers

    library = peers.Functional("jax")
    given = peers.tree_map(library.array, case.args)
    traced = peers.jax.jit(library.wrapped(case.functions["jax"], case.mode)).lower(*given)

    def make() -> Call:
        run = traced.compile()
        return lambda *_: peers.jax.block_until_ready(run(*given))

    return make


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def measure(
    name: str, seconds: float, of: Callable[..., float]
) -> tuple[str, dict[str, float], dict[str, float]]:
    """The row, the seconds to compile of each way, and those of a call."""
    from benchmarks import harness, peers

    title, made, inputs, tolerance = ways(name)
    first: dict[str, float] = {}
    calls: dict[str, Call] = {}
    results: dict[str, Any] = {}
    for word, make in made.items():
        took, calls[word] = timed(make)
        more, found = timed(lambda word=word: calls[word](*inputs))
        first[word] = took + more
        results[word] = [np.asarray(x) for x in peers.leaves(found)]
    harness.check_equal(title, results, max(tolerance, 1e-4))
    times: dict[str, list[float]] = {word: [] for word in made}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["numba"]) < 3:
        for word, call in calls.items():
            times[word].append(timed(lambda call=call: call(*inputs))[0])
    return title, first, {word: of(each) for word, each in times.items()}


def line(title: str, first: dict[str, float], times: dict[str, float]) -> str:
    """Of the table: milliseconds with LLVM, ratios to that, and seconds to compile."""
    own = times["llvm"]
    cells = [f"{1e3 * own:9.3f}", *(_cell(times.get(w, math.nan) / own) for w in WAYS[1:])]
    cells += [_cell(first.get(word, math.nan)) for word in WAYS]
    return f"{title:<42} {' '.join(cells)}"


def _cell(number: float) -> str:
    return f"{'-':>8}" if math.isnan(number) else f"{number:8.2f}"


def means(found: list[tuple[dict[str, float], dict[str, float]]]) -> str:
    """Geometric means of the ratios, and sums of the seconds."""
    cells = []
    for word in WAYS[1:]:
        logs = [math.log(t[word] / t["llvm"]) for _, t in found if word in t]
        cells.append(_cell(math.exp(statistics.fmean(logs)) if logs else math.nan))
    sums = [sum(f.get(word, 0.0) for f, _ in found) for word in WAYS]
    title = "geometric means, and sums"
    return f"{title:<42} {'':9} {' '.join(cells)} {' '.join(map(_cell, sums))}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.rows_numba")
    parser.add_argument("--row", default="", metavar="PART", help="only rows whose names hold this")
    parser.add_argument("--quick", action="store_true", help="1 s a row")
    parser.add_argument("--lowest", action="store_true", help="the lowest times, not the medians")
    args = parser.parse_args()
    of = min if args.lowest else statistics.median
    pin(1)
    os.environ["PHIX_CACHE_DIR"] = tempfile.mkdtemp(prefix="phix-bench-")  # nothing is on disk yet
    load_rows()
    from benchmarks.numba_peers import ALONE

    words = [f"{'llvm ms':>9}", *(f"{w:>8}" for w in WAYS[1:]), *(f"{w + ' s':>8}" for w in WAYS)]
    print(f"{'ms, ratios to that, and s to compile':<42} {' '.join(words)}")
    found = []
    for name, by_hand in ALONE.items():
        if args.row in name:
            try:
                title, *both = measure(name, QUICK_SECONDS if args.quick else SECONDS, of)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error!s:.300}", flush=True)
                continue
            found.append((both[0], both[1]))
            why = f"  no loops by hand: {by_hand}" if isinstance(by_hand, str) else ""
            print(line(title, *both) + why, flush=True)
    if found:
        print(means(found))


if __name__ == "__main__":
    main()
