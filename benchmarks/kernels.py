"""Where a row spends its time: ``python -m benchmarks.kernels ROW [--threads N] [--ir FILE]``.

Programs of the first k kernels are compiled for each k and timed; what kernel k takes is the
difference of two of them, so a small one may come out below zero.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.__main__ import load_rows, pin

REPEATS = 7


def _lowest(call: Callable[[], Any]) -> float:
    call()
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def _program(name: str) -> tuple[Any, list[Any]]:
    """The compiled program of the first row whose name begins so, and its input arrays."""
    import phix
    from benchmarks import harness, peers

    load_rows()
    case = next(r for n, r in harness.ROWS.items() if n.startswith(name)).build()
    library = peers.Functional("phix")
    arrays = peers.tree_map(library.array, case.args)
    jitted = phix.jit(library.wrapped(case.functions["phix"], case.mode))
    lowered = jitted.lower(*arrays)
    inputs = [x.data for x in phix.tree.leaves(arrays)]
    program = lowered._traced.compiled.program((True,) * len(inputs), *lowered._places)
    return program, inputs


def profile(name: str) -> tuple[str, list[tuple[float, int]]]:
    """The loop IR, and (seconds, step) of each step of the program."""
    import numpy as np

    from phix.kernels.cpu import jit
    from phix.kernels.cpu.entry import Segment
    from phix.kernels.primitive.builder import Builder

    program, inputs = _program(name)
    source = program.source
    if source.stepwise is not None:
        raise SystemExit(f"{name}: runs Python steps between its kernels; not taken apart")
    loops = source.loops
    constants = [loops.constants[k] for k in source.kept]
    kept = [source.constants[k] for k in source.kept]
    known = [*loops.inputs, *constants, *loops.outputs]
    outputs = [np.empty(tuple(b.dims), b.dtype) for b in loops.outputs]
    builder = Builder(tuple(loops.symbols.values()))
    names = {symbol: text for text, symbol in loops.symbols.items()}
    found, before = [], 0.0
    for count in range(1, len(loops.steps) + 1):
        segment = Segment(loops.steps[:count], known, source.sources, builder.dim, names)
        native = jit.compiled(segment.text)
        taken = _lowest(lambda native=native: native(*inputs, *kept, *outputs))
        found.append((taken - before, count - 1))
        before = taken
    return program.sections["loop ir"], found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("row", help="how the row's name begins")
    parser.add_argument("--threads", type=int, default=2, help="of BLAS (2)")
    parser.add_argument("--ir", type=Path, help="write the loop IR there")
    args = parser.parse_args()
    pin(args.threads)
    text, found = profile(args.row)
    if args.ir:
        args.ir.write_text(text, encoding="utf-8")
    print(f"{1e3 * sum(t for t, _ in found):.2f} ms in {len(found)} steps; the slowest:")
    for seconds, step in sorted(found, reverse=True)[:12]:
        print(f"{1e3 * seconds:9.3f} ms  step {step}")


if __name__ == "__main__":
    main()
