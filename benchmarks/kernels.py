"""Where a row spends its time: ``python -m benchmarks.kernels ROW [--threads N] [--ir FILE]``.

The program is compiled once more, with the CPU's cycle counter read before each of its steps and
after the last. Of each step the lowest of many calls is shown.
"""

from __future__ import annotations

import argparse
import time
from functools import partialmethod
from pathlib import Path
from typing import Any

from benchmarks.__main__ import load_rows, pin

SECONDS = 2.0


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


def _watched_text(segment: Any, counts: int) -> str:
    """The segment's LLVM text, with the counter stored from the address ``counts`` on."""
    from phix.kernels.cpu.entry import _Entry

    class Watched(_Entry):
        marks, splits = 0, False

        def mark(self) -> None:
            self.declare("declare i64 @llvm.readcyclecounter()")
            now = self.let("call i64 @llvm.readcyclecounter()")
            at = f"inttoptr (i64 {counts + 8 * self.marks} to ptr)"
            self.lines.append(f"  store volatile i64 {now}, ptr {at}")
            self.marks += 1

        def block(self, steps: Any) -> None:
            super().block(steps)
            if len(self.scopes) == 1:
                self.mark()

        def marked(self, kind: str, step: Any) -> None:
            if self.depth == 0:
                self.mark()
            getattr(super(), kind)(step)

    for kind in ("_kernel", "_bindstep", "_forstep", "_whilestep", "_switchstep"):
        setattr(Watched, kind, partialmethod(Watched.marked, kind))
    return Watched(segment).text()


def profile(name: str) -> tuple[str, list[tuple[float, int]]]:
    """The loop IR, and (seconds, step) of each step of the program."""
    import numpy as np

    from phix.kernels.cpu import jit

    program, inputs = _program(name)
    source = program.source
    if source.stepwise is not None:
        raise SystemExit(f"{name}: runs Python steps between its kernels; not taken apart")
    counts = np.zeros(len(source.segments[0].steps) + 1, np.int64)
    native = jit.compiled(_watched_text(source.segments[0], counts.ctypes.data))
    kept = [source.constants[k] for k in source.kept]
    outputs = [np.empty(tuple(b.dims), b.dtype) for b in source.loops.outputs]
    native(*inputs, *kept, *outputs)
    start, first = time.perf_counter(), int(counts[0])
    found = []
    while time.perf_counter() - start < SECONDS:
        native(*inputs, *kept, *outputs)
        found.append(np.diff(counts))
    rate = (time.perf_counter() - start) / (int(counts[-1]) - first)
    return program.sections["loop ir"], [
        (rate * float(n), k) for k, n in enumerate(np.min(found, axis=0))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("row", help="how the row's name begins")
    parser.add_argument("--threads", type=int, default=2, help="of each library (2)")
    parser.add_argument("--most", type=int, default=12, help="how many steps are shown (12)")
    parser.add_argument("--ir", type=Path, help="write the loop IR there")
    args = parser.parse_args()
    pin(args.threads)
    text, found = profile(args.row)
    if args.ir:
        args.ir.write_text(text, encoding="utf-8")
    print(f"{1e3 * sum(t for t, _ in found):.3f} ms in {len(found)} steps; the slowest:")
    for seconds, step in sorted(found, reverse=True)[: args.most]:
        print(f"{1e3 * seconds:9.3f} ms  step {step}")


if __name__ == "__main__":
    main()
