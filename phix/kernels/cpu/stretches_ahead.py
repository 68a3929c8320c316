"""Long loops ask for what they are about to read, some lines of memory at a time.

A core works on some hundred instructions at once. Where an element takes little, those reach far
ahead, and so what they read is asked for early. Where it takes much, each vector waits for memory,
above all on pages of 4 KiB, whose places have to be looked up: of 4e6 elements ``tanh(x) + exp(x)``
takes up to three times what it takes in a cache.

    for i in range(n): y[i] = f(x[i])

becomes

    for b in range(n // 256):
        fetch(&x[minimum(256 * b + 512, n - 256)], 1024)
        for i in range(256): y[256 * b + i] = f(x[256 * b + i])
    for i in range(256 * (n // 256), n): y[i] = f(x[i])

What is in a cache anyway is not asked for. Where a size is known while running only, so is that,
and the loop stands there twice.
"""

from __future__ import annotations

import math
from dataclasses import replace

from phix.core import dtypes as dt
from phix.core import settings
from phix.kernels.cpu.advice import LEAST_APART, float_operations
from phix.kernels.cpu.rows_ahead import FETCH, at_a_time, touched_bytes
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.nodes import (
    Buffer,
    For,
    Kernel,
    LibraryCall,
    LoopProgram,
    Pointer,
    Statement,
    Store,
)  # fmt: skip
from phix.kernels.loops.rewriting import replaced, substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Stretches that lie between what is asked for and what is worked on.
_AHEAD = 2


def stretches_ahead(program: LoopProgram, setting: Setting) -> None:
    """The pass: see above."""
    least = settings.current().least_asked_bytes
    for step in ir.walk_steps(program.steps):
        if not isinstance(step, Kernel) or not any(map(_is_long_work, step.body)):
            continue
        touched = touched_bytes(step, setting.builder.dim)
        if touched.fn != "const" or touched.data >= least:
            condition = None if touched.fn == "const" else touched >= least
            written = ir.writes(step.body) | set(step.locals)
            step.body[:] = [s for own in step.body for s in _asking(step, own, written, condition)]


def _is_long_work(s: Statement) -> bool:
    """Whether a loop of stores, through a piece of something, computes much for each element."""
    if not isinstance(s, For) or s.extent is not ir.PIECE_END or s.is_vector:
        return False
    return all(isinstance(x, Store) for x in s.body) and float_operations(s) >= LEAST_APART


def _asking(
    kernel: Kernel, loop: Statement, written: set[Buffer], condition: Expr | None
) -> list[Statement]:
    """The loop cut into stretches, each behind what it asks for, where the condition holds."""
    loads = _streams(loop, written) if isinstance(loop, For) and _is_long_work(loop) else []
    if not loads:
        return [loop]
    assert isinstance(loop, For)
    count = at_a_time([load.data for load in loads])
    if condition is None:
        return _whole(kernel, loop, loads, count)
    plain = replace(loop, body=replaced(loop.body, {}))
    return [ir.If(condition, [_any(kernel, loop, loads, count)]), ir.If(~condition, [plain])]


def _whole(kernel: Kernel, loop: For, loads: list[Expr], count: int) -> list[Statement]:
    """In stretches of one length, which LLVM sees, and what is left of them: of all that threads
    share, no more than of one piece."""
    shared = kernel.shared
    assert shared is not None, "pieces are shared"
    kernel.shared = replace(shared, grain=math.lcm(shared.grain, count))
    every = sc.binary("quotient", loop.extent - loop.start, _number(count))
    made: list[Statement] = [_cut(kernel, loop, loads, every, _number(count))]
    if shared.extent.fn != "const" or shared.extent.data % count:
        start, rest = loop.start + every * count, replaced(loop.body, {})
        made.append(replace(loop, start=start, body=rest))
    return made


def _any(kernel: Kernel, loop: For, loads: list[Expr], count: int) -> For:
    """In stretches of which the last may be shorter: less code, and a seventh slower."""
    length = loop.extent - loop.start
    every = sc.binary("quotient", length + (count - 1), _number(count))
    return _cut(kernel, loop, loads, every, length)


def _cut(kernel: Kernel, loop: For, loads: list[Expr], every: Expr, length: Expr) -> For:
    """A loop over so many stretches. ``length`` is theirs, or that of all that they are of."""
    count = at_a_time([load.data for load in loads])
    used = [s.index.data for s in ir.walk(kernel.body) if isinstance(s, For)]
    stretch = sc.var(f"i{1 + max(int(name[1:]) for name in used)}")
    first = loop.start + stretch * count
    last = sc.binary("maximum", loop.extent - count, loop.start)
    there = sc.binary("minimum", first + _AHEAD * count, last)
    body: list[Statement] = [_asked(load, {loop.index: there}, count) for load in loads]
    if length.fn != "const":
        length = sc.binary("minimum", length - stretch * count, _number(count))
    moved = replaced(loop.body, {loop.index: first + loop.index})
    body.append(replace(loop, start=ir.ZERO, extent=length, body=moved))
    return replace(loop, index=stretch, start=ir.ZERO, extent=every, body=body)


def _number(n: int) -> Expr:
    return sc.const(n, dt.int64)


def _asked(load: Expr, there: dict[Expr, Expr], count: int) -> LibraryCall:
    (offset,) = load.args
    size = _number(count * load.data.dtype.itemsize)
    return LibraryCall(FETCH, (Pointer(load.data, substituted(offset, there)), size), ())


def _streams(loop: For, written: set[Buffer]) -> list[Expr]:
    """A load of each buffer that a loop goes through from one element to the next."""
    found: dict[Buffer, Expr] = {}
    for load in ir.loads(loop.body):
        form = linear_form(load.args[0]) if len(load.args) == 1 else None
        if form is not None and form[0].get(loop.index) == UNIT and load.data not in written:
            found.setdefault(load.data, load)
    return sorted(found.values(), key=lambda load: load.data.name)
