"""What takes long in rows that are short is done for several rows at a time, as one run.

Of rows of 10 elements vectors hold 8 or 16, so some of each vector is empty, or the last elements
of each row are taken one by one, and what is made of a row's sum is made of one number. A loop over
rows is split: what goes along a row stays one row after the other, what takes more than a few
operations goes through the elements, or through the sums, of a block of rows in whole vectors.

    for i in range(1000):
        for j in range(10): a = max(a, x[10 i + j])
        for j in range(10): t[j] = exp(x[10 i + j] - a); s = s + t[j]
        for j in range(10): y[10 i + j] = t[j] / s

    for b in range(21):
        for r in range(min(48, 1000 - 48 b)):
            for j in range(10): a = max(a, x[10 (48 b + r) + j])
            for j in range(10): u[10 r + j] = x[10 (48 b + r) + j] - a
        for k in range(10 min(48, 1000 - 48 b)): t[k] = exp(u[k])
        for r in range(min(48, 1000 - 48 b)):
            for j in range(10): s = s + t[10 r + j]
            for j in range(10): y[10 (48 b + r) + j] = t[10 r + j] / s

Rows are independent, so that each statement may be run for all rows of a block before the next.
Where the CPU has masks, no elements of a row or a run are left over that are taken one by one: less
code, and all rows have the same.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.cpu import jit
from phix.kernels.cpu.level import has_masks
from phix.kernels.cpu.row_parts import Rows, takes_long
from phix.kernels.cpu.row_vectors import fits_mask
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import (
    Assign,
    Buffer,
    Declare,
    For,
    Kernel,
    LoopProgram,
    Statement,
    Store,
)  # fmt: skip
from phix.kernels.loops.rewriting import Change, change_accesses, replaced, substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Rows of more vectors are mostly whole ones, and so many take as long as a row's own numbers do;
# blocks of so many elements stay in the first cache.
_MOST_VECTORS, _MOST_BESIDE_NUMBERS, _BLOCK = 4, 8, 512


def distributed_rows(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            _block(step, step.body)


def _block(kernel: Kernel, body: list[Statement]) -> None:
    for at, s in enumerate(body):
        if isinstance(s, (For, ir.If, ir.While)):
            rows = Rows.of(kernel, s)
            phases = None if rows is None else _Phases(kernel, rows)
            if phases is not None and phases.pay():
                body[at] = phases.blocks()
            else:
                _block(kernel, s.body)


@dataclass
class _Phase:
    """What is run for all rows of a block: one row after the other; ``alone``, if it takes long:
    a number of each row, or (``along``) all elements that a loop along them goes through."""

    body: list[Statement]
    alone: bool = False
    along: For | None = None


class _Phases:
    """A loop over rows in phases, with new memory of a row for what one hands on to others."""

    def __init__(self, kernel: Kernel, rows: Rows) -> None:
        self.kernel, self.rows = kernel, rows
        used = [s.index.data for s in ir.walk(kernel.body) if isinstance(s, For)]
        number = 1 + max(int(name[1:]) for name in used)
        self.row, self.element = sc.var(f"i{number}"), sc.var(f"i{number + 1}")
        self.names = count(len(kernel.locals))
        sizes = [b.dtype.itemsize for b in rows.written]
        self.lanes = jit.vector_registers()[0] // max([4, *sizes])
        self.waiting: dict[Expr, Declare] = {}  # what is declared where it is used first
        self.phases: list[_Phase] = []
        for s in rows.outer.body:
            self._add(s)

    def pay(self) -> bool:
        """Whether something takes long, rows are short, and each scalar is found in one phase."""
        found: list[object] = []
        for phase in self.phases:
            own = {s.target for s in phase.body if isinstance(s, Declare)}
            found += own | ir.changes(phase.body, set(self.rows.scalars))
        has_numbers = any(phase.alone and phase.along is None for phase in self.phases)
        most = self.lanes * (_MOST_BESIDE_NUMBERS if has_numbers else _MOST_VECTORS)
        is_short = self.rows.longest <= most and any(phase.alone for phase in self.phases)
        return is_short and len(found) == len(set(found))

    # -- phases ------------------------------------------------------------------------------
    def _add(self, s: Statement) -> None:
        if isinstance(s, For):
            for part in self._split(s) if self.rows.is_separable(s) else (s,):
                self._one_by_one(part)
        elif isinstance(s, Declare) and takes_long(s.value):
            self._one_by_one(Declare(s.target, self._number(s.value)))
        elif isinstance(s, Store) and takes_long(s.value):
            self._alone(s)
        else:
            self._one_by_one(s)

    def _one_by_one(self, s: Statement) -> None:
        if isinstance(s, Declare) and s.value.fn == "const":
            self.waiting[s.target] = s
            return
        if not self.phases or self.phases[-1].alone:
            self.phases.append(_Phase([]))
        used = _scalars([s])
        declared = [self.waiting.pop(target) for target in list(self.waiting) if target in used]
        self.phases[-1].body += [*declared, s]

    def _alone(self, s: Store, along: For | None = None) -> None:
        if not self.waiting.keys().isdisjoint(_scalars([s])):
            self._one_by_one(s)  # of constants
            return
        if not self.phases or not self.phases[-1].alone or self.phases[-1].along is not along:
            self.phases.append(_Phase([], True, along))
        self.phases[-1].body.append(s)

    def _memory(self, dtype: np.dtype, size: int) -> Buffer:
        buffer = Buffer(f"b{next(self.names)}", dtype, (size,), "local")
        self.rows.own[buffer] = size
        return buffer

    def _number(self, value: Expr) -> Expr:
        """A number of each row, found for all rows of a block in a phase of its own."""
        kept = self._memory(value.dtype, 1)
        self._alone(Store(kept, (ir.ZERO,), value))
        return _load(kept, ir.ZERO)

    def _split(self, loop: For) -> Iterator[For]:
        """Loops along a row, between phases for what takes long in this one."""
        made = {number: self._number(number) for number in self.rows.numbers(loop)}
        before: list[Statement] = []
        for original in loop.body:
            (s,) = replaced([original], made)
            assert isinstance(s, (Store, Assign))
            values = (s.value,) if isinstance(s, Store) else s.values
            found = self.rows.cut(values[0], loop) if len(values) == 1 else None
            if found is None:
                before.append(s)
            else:
                part, operands = found
                kept = {o: self._element(o, loop) for o in operands}
                before += [Store(k.data, k.args, o) for o, k in kept.items()]
                if before:
                    yield _with_body(loop, before)
                # the place of what is found in a run stays one, whatever is kept of its index
                runs = {x: x for x in part.loads if self._is_run(x, loop)}
                value = substituted(part, runs | kept)
                before = self._made_alone(s, part, value, loop, made)
            if isinstance(s, Store):  # what was made of what stood there is no longer that
                made = {e: k for e, k in made.items() if s.buffer not in {x.data for x in e.loads}}
        if before:
            yield _with_body(loop, before)

    def _is_run(self, load: Expr, loop: For) -> bool:
        return self.rows.in_run(load.data, load.args, loop) is not None

    def _element(self, value: Expr, loop: For) -> Expr:
        """Where an element of each row is kept."""
        kept = self._memory(value.dtype, loop.extent.data)
        return _load(kept, loop.index)

    def _made_alone(
        self, s: Store | Assign, part: Expr, value: Expr, loop: For, made: dict[Expr, Expr]
    ) -> list[Statement]:
        """Make a part of a statement alone; what is left of that."""
        run = self.rows.in_run(s.buffer, s.indices, loop) if isinstance(s, Store) else None
        if isinstance(s, Store) and s.value is part and run is not None:
            self._alone(Store(s.buffer, s.indices, value), loop)
            return []
        made[part] = self._element(part, loop)
        self._alone(Store(made[part].data, made[part].args, value), loop)
        return replaced([s], {part: made[part]})

    # -- loops -------------------------------------------------------------------------------
    def blocks(self) -> For:
        """The loop over blocks of rows, with what they have in memory."""
        outer, own = self.rows.outer, self.rows.own
        most = self.lanes * max(1, _BLOCK // (self.rows.longest * self.lanes))
        self._cut_between_blocks(most)
        length = outer.extent - outer.start
        first = outer.start + outer.index * most
        count = sc.binary("minimum", length - outer.index * most, sc.const(most, dt.int64))
        self._keep_scalars()
        body: list[Statement] = [self._loop(phase, first, count) for phase in self.phases]
        for buffer, size in own.items():
            buffer.dims = (size * most,)
            self.kernel.locals[buffer] = sc.const(size * most, dt.int64)
        blocks = sc.binary("quotient", length + (most - 1), sc.const(most, dt.int64))
        if length.fn == "const":
            blocks = sc.const(-(-length.data // most), dt.int64)
        return For(outer.index, blocks, body, outer.kind)

    def _cut_between_blocks(self, most: int) -> None:
        """Where threads share the rows, let each have whole blocks: what is left of one has not the
        same bits where a CPU without masks takes it one by one."""
        shared = self.kernel.shared
        if self.rows.outer.extent is ir.PIECE_END and shared is not None:
            self.kernel.shared = replace(shared, grain=math.lcm(shared.grain, most))

    def _keep_scalars(self) -> None:
        """What one phase finds of a row, and others use, is kept."""
        for scalar in sorted(self.rows.scalars, key=lambda e: int(e.data[1:])):
            users = [p for p in self.phases if scalar in _scalars(p.body)]
            if len(users) > 1:
                here = _load(self._memory(scalar.dtype, 1), ir.ZERO)
                users[0].body.append(Store(here.data, here.args, scalar))
                for phase in users[1:]:
                    phase.body = replaced(phase.body, {scalar: here})

    def _loop(self, phase: _Phase, first: Expr, count: Expr) -> For:
        outer = self.rows.outer
        if phase.along is not None:
            return self._run(phase.body, phase.along, first, count)
        body = replaced(phase.body, {outer.index: first + self.row})
        for s in body:
            if isinstance(s, For):  # all rows alike, so that none's bits depend on its place
                s.is_vector = fits_mask(s)
        own = {b: _places(b, self.row * size) for b, size in self.rows.own.items()}
        change_accesses(body, own)
        kind = "parallel" if phase.alone else outer.kind
        return For(self.row, count, body, kind, is_vector=phase.alone and has_masks())

    def _run(self, body: list[Statement], along: For, first: Expr, count: Expr) -> For:
        """A loop through the elements of all rows of a block."""
        length = along.extent.data

        def moved(buffer: Buffer, start: Expr) -> Expr:
            is_own = buffer in self.rows.own
            return self.element if is_own else first * length + self.element + start

        stores: list[Statement] = []
        for s in body:
            assert isinstance(s, Store)
            starts = {x: self.rows.in_run(x.data, x.args, along) for x in s.value.loads}
            runs = {
                x: _load(x.data, moved(x.data, at)) for x, at in starts.items() if at is not None
            }
            start = self.rows.in_run(s.buffer, s.indices, along)
            assert start is not None, "what is stored is no run"
            places = {along.index, self.rows.outer.index}
            assert places.isdisjoint(_besides(s.value, runs)), "a run knows no rows"
            stores.append(Store(s.buffer, (moved(s.buffer, start),), substituted(s.value, runs)))
        return For(self.element, count * length, stores, "parallel", is_vector=has_masks())


def _besides(root: Expr, runs: Container[Expr]) -> set[Expr]:
    """All that an expression consists of, besides what is loaded in runs."""
    found: set[Expr] = set()
    left = [root]
    while left:
        e = left.pop()
        if e not in found and e not in runs:
            found.add(e)
            left += e.args
    return found


def _with_body(loop: For, body: list[Statement]) -> For:
    finds = any(isinstance(s, Assign) for s in body)
    return For(loop.index, loop.extent, body, loop.kind if finds else "parallel")


def _scalars(body: list[Statement]) -> set[Expr]:
    """The scalars that a block declares, sets or reads."""
    found = {e for e in ir.expressions(body) if e.fn == "var"}
    for s in ir.walk(body):
        found.update(s.targets if isinstance(s, Assign) else ())
        found.update([s.target] if isinstance(s, Declare) else ())
    return found


def _places(buffer: Buffer, start: Expr) -> Change:
    return lambda indices: (buffer, (start + indices[0],))


def _load(buffer: Buffer, at: Expr) -> Expr:
    return Expr("load", (at,), ir.scalar_dtype(buffer.dtype), buffer)
