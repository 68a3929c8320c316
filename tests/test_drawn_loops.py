"""Programs of loops, drawn statement by statement: each pass keeps what they compute.

Those of :mod:`test_loop_passes` come from graphs, so that much of what passes must look out for is
rare in them: a value read once more behind the step that replaces it, a result that is read, an
element read where another was just written.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from loop_passes import small_thresholds
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.evaluator import evaluate
from phix.kernels.loops.verifier import verify
from phix.kernels.scalar import language as sc
from phix.kernels.schedule import dropping, inplace
from phix.kernels.schedule.pipeline import PIPELINES, Setting

pytestmark = [pytest.mark.unoptimised(4), pytest.mark.each_pass]

PASSES = {row.name: row for target in ("every engine", "cpu") for row in PIPELINES[target]}
SIZE = 6
TURN = sc.var("s0")


class Drawn:
    """A program of steps over a few buffers, in which nothing is read before it is written."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.in_blocks = seed % 2 == 1
        self.loops = 0
        self.inputs = [self.buffer(f"x{k}", "input") for k in range(2)]
        self.outputs = [self.buffer(f"o{k}", "output") for k in range(2)]
        self.temps = [self.buffer(f"t{k}", "temp") for k in range(4)]
        self.written = list(self.inputs)
        steps = [self.step() for _ in range(self.rng.integers(5, 11))]
        steps += [self.kernel(o) for o in self.outputs]
        temps = [t for t in self.temps if t in self.written]
        parts = (self.inputs, [], self.outputs, temps, steps, {})
        self.program = ir.LoopProgram(*parts)

    def buffer(self, name: str, kind: str) -> ir.Buffer:
        return ir.Buffer(name, dt.float64, (SIZE,), kind)

    def step(self) -> ir.Step:
        if self.rng.random() < 0.2:
            inner = [self.kernel(self.target()) for _ in range(2)]
            return ir.ForStep(TURN, sc.const(2, dt.int64), inner)
        if self.in_blocks and len(self.written) > 3 and self.rng.random() < 0.7:
            return self.block()
        return self.kernel(self.target())

    def block(self) -> ir.Kernel:
        """Stores of elements and loops over whole buffers, one behind the other in each turn of a
        loop; the first have temps, so that there is something to read elsewhere."""
        index = sc.var(f"i{self.loops}")
        self.loops += 1
        changed = [b for b in self.written if b.kind != "input"]
        body = [self.statement(changed, index) for _ in range(self.rng.integers(3, 7))]
        return ir.Kernel([ir.For(index, sc.const(SIZE, dt.int64), body, "reduction")])

    def statement(self, changed: list, index: sc.Expr) -> ir.Statement:
        target = changed[self.rng.integers(len(changed))]
        value = self.load(self.written, index, 0.2) * 0.5
        if self.rng.random() < 0.5:
            value = value + self.load(self.written, index, 0.2)
        if self.rng.random() < 0.6:
            return ir.Store(target, (index,), value)
        inner = sc.var(f"i{self.loops}")
        self.loops += 1
        value = value + sc.Expr("load", (inner,), dt.float64, target) * 0.5
        store = ir.Store(target, (inner,), value)
        return ir.For(inner, sc.const(SIZE, dt.int64), [store], "reduction")

    def target(self) -> ir.Buffer:
        return self.temps[self.rng.integers(len(self.temps))]

    def kernel(self, target: ir.Buffer) -> ir.Kernel:
        """Copy one buffer, or compute each element from those of others."""
        index = sc.var(f"i{self.loops}")
        self.loops += 1
        sources = [b for b in self.written if b is not target]
        value = self.load(sources, index, 0.1)
        if self.rng.random() < 0.6:
            value = value * 0.5 + self.load(self.written, index, 0.3, target)
        self.written = [*dict.fromkeys([*self.written, target])]
        body = [ir.Store(target, (index,), value)]
        return ir.Kernel([ir.For(index, sc.const(SIZE, dt.int64), body)], whole=True)

    def load(self, sources: list, index: sc.Expr, turned: float, target: object = None) -> sc.Expr:
        found = sources[self.rng.integers(len(sources))]
        backwards = self.rng.random() < turned and found is not target
        at = sc.const(SIZE - 1, dt.int64) - index if backwards else index
        return sc.Expr("load", (at,), dt.float64, found)


X = np.random.default_rng(0).normal(size=(2, SIZE))


@lru_cache
def wanted(seed: int) -> list[np.ndarray]:
    return list(evaluate(Drawn(seed).program, X))


@pytest.mark.parametrize("name", [*PASSES, "all"])
def test_a_pass_keeps_what_drawn_programs_compute(name: str) -> None:
    with small_thresholds():
        for seed in range(60):
            program = Drawn(seed).program
            for row in PASSES.values() if name == "all" else [PASSES[name]]:
                row(program, Setting(Builder({})))
            verify(name, program)
            for found, expected in zip(evaluate(program, X), wanted(seed), strict=True):
                np.testing.assert_array_equal(found, expected, f"seed {seed}")


def test_a_temp_whose_place_changes_before_it_is_read_stays() -> None:
    """t[p] = x[i]; p = 0; y[i] = t[p]: the same words for two places."""
    x, out, temp = (
        ir.Buffer(name, dt.float64, (SIZE,), kind)
        for name, kind in (("x0", "input"), ("o0", "output"), ("t0", "temp"))
    )
    place = ir.Buffer("t1", dt.int64, (1,), "temp")
    zero, index = sc.const(0, dt.int64), sc.var("i0")
    at = sc.Expr("load", (zero,), dt.int64, place)
    body: list[ir.Statement] = [
        ir.Store(temp, (at,), sc.Expr("load", (index,), dt.float64, x)),
        ir.Store(place, (zero,), zero),
        ir.Store(out, (index,), sc.Expr("load", (at,), dt.float64, temp)),
        ir.Store(place, (zero,), index + 1),
    ]
    loop = ir.For(index, sc.const(SIZE, dt.int64), body, "reduction")
    steps: list[ir.Step] = [ir.Kernel([ir.Store(place, (zero,), zero)]), ir.Kernel([loop])]
    program = ir.LoopProgram([x], [], [out], [temp, place], steps, {})
    numbers = np.arange(1.0, SIZE + 1)
    (expected,) = evaluate(program, [numbers])
    dropping.forward_temps(program, Setting(Builder({})))
    (found,) = evaluate(program, [numbers])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(expected, np.ones(SIZE))


def test_a_temp_that_something_else_needs_is_not_merged_into_its_copy() -> None:
    x, out, temp = (
        ir.Buffer(name, dt.float64, (SIZE,), kind)
        for name, kind in (("x0", "input"), ("o0", "output"), ("t0", "temp"))
    )

    def left(*kept: ir.Buffer) -> int:
        index = sc.var("i0")
        steps: list[ir.Step] = [
            ir.Kernel([ir.For(index, sc.const(SIZE, dt.int64), [store])], whole=True)
            for store in (
                ir.Store(temp, (index,), sc.Expr("load", (index,), dt.float64, x) * 2.0),
                ir.Store(out, (index,), sc.Expr("load", (index,), dt.float64, temp)),
            )
        ]
        with small_thresholds():
            inplace._merge(steps, kept)
        return len(steps)

    assert left() == 1 and left(x) == 1 and left(temp) == 2
