"""Which step touches which buffer: what is known while passes change a block is what another look
at it would find."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import Uses, effects_of, may_meet
from phix.kernels.scalar import language as sc

I, S = sc.var("i0"), sc.var("s0")
FOUR = sc.const(4, dt.int64)


def buffer(name: str, kind: str = "temp", **options: Any) -> ir.Buffer:
    return ir.Buffer(name, dt.float64, (4,), kind, **options)


X, OUT = buffer("x0", "input"), buffer("o0", "output")
T = [buffer(f"t{k}") for k in range(6)]
MADE = buffer("t9", "shared")


def copy(to: ir.Buffer, *sources: ir.Buffer) -> ir.Kernel:
    value = sc.const(1.0, dt.float64)
    for source in sources:
        value = value + sc.Expr("load", (I,), dt.float64, source)
    return ir.Kernel([ir.For(I, FOUR, [ir.Store(to, (I,), value)])])


def block() -> list[ir.Step]:
    row = ir.Buffer("r0", dt.float64, (), "slice", False, T[3], S)
    return [
        copy(T[0], X),
        copy(T[1], T[0], X),
        ir.HostStep("sort", np.sort, (T[1],), (MADE,), ((4,),)),
        ir.ForStep(S, FOUR, [copy(row, MADE)]),
        copy(T[2], T[3], T[1]),
        copy(OUT, T[2], MADE),
    ]


def agree(uses: Uses, *buffers: ir.Buffer) -> None:
    """What is known is what another look at the block finds."""
    fresh = Uses(list(uses.steps))
    for b in buffers:
        for question in ("users", "writers", "readers", "is_touched"):
            assert getattr(uses, question)(b) == getattr(fresh, question)(b), (question, b)
    assert uses.spans() == fresh.spans()
    assert [uses.of(s).touched for s in uses.steps] == [effects_of(s).touched for s in fresh.steps]


def test_who_touches_what() -> None:
    steps = block()
    uses = Uses(steps)
    assert uses.users(T[1]) == [steps[1], steps[2], steps[4]]
    assert uses.writers(T[1]) == [steps[1]] and uses.readers(T[1]) == [steps[2], steps[4]]
    assert uses.users(T[0], T[2]) == [steps[0], steps[1], steps[4], steps[5]]
    assert uses.spans()[MADE] == (2, 5) and uses.number(steps[4]) == 4
    assert uses.between(steps[1], steps[3]) == steps[2:4]
    assert uses.is_made_by_host(MADE) and not uses.is_made_by_host(T[1])
    assert uses.has_slices(T[3]) and not uses.has_slices(MADE)
    assert not uses.is_touched(T[5]) and uses.users(T[5]) == []
    assert uses.of(steps[3]).writes >= {T[3]}  # through a slice, in a loop


def test_a_buffer_with_another_name_has_all_the_uses() -> None:
    for old in (T[0], T[1], T[3], MADE):
        uses = Uses(block())
        facts = uses.has_slices(old), uses.is_made_by_host(old)
        users = uses.users(old)
        uses.rename(old, T[5])
        assert uses.users(T[5]) == users and not uses.is_touched(old)
        assert (uses.has_slices(T[5]), uses.is_made_by_host(T[5])) == facts
        agree(uses, X, OUT, MADE, *T)


def test_a_buffer_that_takes_the_name_of_one_in_use_has_the_uses_of_both() -> None:
    uses = Uses(block())
    both = uses.users(T[0], T[2])
    uses.rename(T[0], T[2])
    assert uses.users(T[2]) == both
    agree(uses, X, OUT, MADE, *T)


def test_steps_that_go_and_steps_in_another_order() -> None:
    steps = block()
    uses = Uses(list(steps))
    uses.remove([steps[1], steps[5]])
    assert uses.steps == [steps[0], *steps[2:5]]
    assert uses.users(T[1]) == [steps[2], steps[4]] and uses.users(OUT) == []
    uses.put_in_order([steps[2], steps[3], steps[4], steps[0]])
    assert uses.number(steps[0]) == 3
    agree(uses, X, OUT, MADE, *T)


def test_memory_that_two_buffers_may_have_in_common() -> None:
    def row(index: Any) -> ir.Buffer:
        return ir.Buffer("r", dt.float64, (), "slice", False, T[0], index)

    first, second = (row(sc.const(k, dt.int64)) for k in (0, 1))
    turn, again, other = row(S), row(S), row(I)
    assert may_meet(T[0], T[0]) and may_meet(T[0], first) and may_meet(first, T[0])
    assert not may_meet(T[0], T[1]) and not may_meet(first, T[1])
    assert not may_meet(first, second) and may_meet(turn, again)
    assert may_meet(turn, first) and may_meet(turn, other)
