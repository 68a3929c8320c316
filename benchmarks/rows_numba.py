"""The library numba beside LLVM: ``python -m benchmarks.rows_numba [--row PART] [--quick]``.

The programs of some rows, printed as Numba source in place of LLVM IR, on one thread: what the
first call takes, which compiles, and the median of later ones, the two in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.__main__ import load_rows, pin

# Rows of the other groups, by how their names begin.
NAMES = (
    "tanh(a * b + 1)", "gelu, 4e6", "gelu with gradient", "softmax, 4096 x 1024",
    "layer_norm, 4096 x 1024 with gradient", "log_softmax and nll, 4096", "sum over axis 0",
    "sum over axis 1", "max over axis 1", "argmax over axis 1", "var over axis 1", "cumsum",
    "mlp 8-16-16-4", "mlp 784-512-512-10", "gpt block", "resnet block", "rnn by scan, 200 steps",
    "RK4 of a 3-vector", "five-point stencil", "matmul, 1024", "solve, 1e4", "sort, 1e6",
    "embedding", "scatter-add",
)  # fmt: skip
SECONDS, QUICK_SECONDS = 3.0, 1.0


def programs(name: str) -> tuple[dict[str, Any], list[np.ndarray], float]:
    """The program of a row by both engines, its inputs, and how far they may be apart."""
    import phix
    from benchmarks import harness, peers
    from phix.kernels.cpu import ENGINE as llvm
    from phix.kernels.numba.printed.engine import ENGINE as printed

    case = next(r for n, r in harness.ROWS.items() if n.startswith(name)).build()
    library = peers.Functional("phix")
    arrays = peers.tree_map(library.array, case.args)
    lowered = phix.jit(library.wrapped(case.functions["phix"], case.mode)).lower(*arrays)
    inputs = [x.data for x in phix.tree.leaves(arrays)]
    compiled, contiguous = lowered._traced.compiled, (True,) * len(inputs)
    made = {
        word: engine.compile(compiled.graph, contiguous, compiled.lower)
        for word, engine in (("llvm", llvm), ("numba", printed))
    }
    return made, inputs, case.tolerance


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def measure(name: str, seconds: float) -> str:
    """A line of the table."""
    from benchmarks import harness

    made, inputs, tolerance = programs(name)
    shapes = tuple(x.shape for x in inputs)
    first: dict[str, float] = {}
    launchers: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for word, program in made.items():
        took, launchers[word] = timed(lambda program=program: program.launcher(shapes))
        more, results[word] = timed(lambda word=word: launchers[word](*inputs))
        first[word] = took + more
    harness.check_equal(name, results, max(tolerance, 1e-4))
    times: dict[str, list[float]] = {word: [] for word in made}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["numba"]) < 3:
        for word, launch in launchers.items():
            times[word].append(timed(lambda launch=launch: launch(*inputs))[0])
    a, b = (statistics.median(times[word]) for word in ("llvm", "numba"))
    return (
        f"{name:<42} {1e3 * a:10.3f} {1e3 * b:10.3f} {b / a:8.2f}"
        f" {first['llvm']:10.2f} {first['numba']:10.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.rows_numba")
    parser.add_argument("--row", default="", metavar="PART", help="only rows whose names hold this")
    parser.add_argument("--quick", action="store_true", help="1 s a row")
    args = parser.parse_args()
    pin(1)
    os.environ["PHIX_CACHE_DIR"] = tempfile.mkdtemp(prefix="phix-bench-")  # nothing is on disk yet
    load_rows()
    print(f"{'ms, and s to compile':<42} {'llvm':>10} {'numba':>10} {'ratio':>8} "
          f"{'llvm s':>10} {'numba s':>10}")  # fmt: skip
    for name in NAMES:
        if args.row in name:
            try:
                print(measure(name, QUICK_SECONDS if args.quick else SECONDS), flush=True)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error!s:.300}", flush=True)


if __name__ == "__main__":
    main()
