"""Long rows that are reduced are gone through several at a time.

One stream of memory comes as fast as a core can wait for lines of it; what fetches ahead follows
several streams at once, and further than one. And what waits for the step before it, as a maximum
does, and the numbers at the end of each row, wait side by side. So

    for i in range(1000):
        a = 0
        for j in columns: a = a + x[i, j]
        y[i] = a

becomes a loop over rows from four parts of the whole, with scalars of their own:

    for i in range(250):
        a0 = a1 = a2 = a3 = 0
        for j in columns: a0 = a0 + x[i, j]; a1 = a1 + x[250 + i, j]; ...
        y[i] = a0; y[250 + i] = a1; ...

Loops along a row that reduce nothing, or take many operations, stay loops of one row each, one
behind the other. An unknown number of rows may be a few, and is left alone. Where the rows are not
four equal parts, parts overlap, and what two of them have is written twice: all rows go by the same
code, so that none's bits depend on its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from phix.core import dtypes as dt
from phix.kernels.cpu.row_parts import indices_of, operations, own_memory
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
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
from phix.kernels.loops.rewriting import Change, change_accesses, replaced
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# So many rows at a time, of so many elements at least, where there are so many. Where an element
# takes more operations, registers run out; where what is done row by row does, there is too much
# text.
_ROWS, _LEAST, _FEWEST, _MOST, _MOST_BY_ROW = 4, 32, 32, 12, 24


def rows_together(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel) and _has_rows(step):
            _Kernel(step).block(step.body)


def _has_rows(kernel: Kernel) -> bool:
    """Whether there are loops in a loop that may be one over rows: most kernels have none."""
    for s in ir.walk(kernel.body):
        if isinstance(s, For) and s.kind == "parallel":
            for inner in s.body:
                if isinstance(inner, For) and inner.kind == "reduction":
                    return True
    return False


class _Kernel:
    """A kernel, and names for what is new in it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        every = ir.walk(kernel.body)
        used = [s.index.data for s in every if isinstance(s, For)]
        declared = [s.target.data for s in every if isinstance(s, Declare)]
        self.fresh = sc.var(f"i{1 + max((int(name[1:]) for name in used), default=0)}")
        self.scalars = count(1 + max((int(name[1:]) for name in declared), default=-1))

    def block(self, block: list[Statement]) -> None:
        for at in range(len(block) - 1, -1, -1):
            s = block[at]
            if isinstance(s, For) and _are_long_rows(self.kernel, s):
                block[at] = self._of_parts(s)
            elif isinstance(s, (For, ir.If, ir.While)):
                self.block(s.body)

    def _of_parts(self, loop: For) -> For:
        """The loop over several parts at once, of which each piece has as many rows."""
        shared = self.kernel.shared
        if loop.extent is ir.PIECE_END and shared is not None:
            self.kernel.shared = replace(shared, grain=math.lcm(shared.grain, _ROWS))
        length, most = loop.extent - loop.start, sc.const(_ROWS, dt.int64)
        if length.fn == "const":
            part = sc.const(-(-length.data // _ROWS), dt.int64)
        else:
            part = sc.binary("quotient", length + (_ROWS - 1), most)
        body = _beside(loop.body, self._rows(loop, length, part), _together(loop))
        return For(self.fresh, part, body, "reduction")  # parts may overlap

    def _rows(self, loop: For, length: Expr, part: Expr) -> list[_Row]:
        declared = [s.target for s in ir.walk(loop.body) if isinstance(s, Declare)]
        own = own_memory(self.kernel, loop)
        sizes = {b: self.kernel.locals[b].data for b in own}
        for buffer, size in sizes.items():
            buffer.dims = (size * _ROWS,)
            self.kernel.locals[buffer] = sc.const(size * _ROWS, dt.int64)
        found = []
        for k in range(_ROWS):
            scalars = {t: sc.var(f"a{next(self.scalars)}", t.dtype) for t in declared}
            first = _lesser(part * k, length - part) if k else ir.ZERO
            known = {loop.index: loop.start + first + self.fresh, **scalars}
            found.append(_Row(known, {b: _behind(b, size * k) for b, size in sizes.items()}))
        return found


class _Row(NamedTuple):
    """What the index of rows and the scalars of a row are in one of several, and where its own
    memory is."""

    known: Mapping[Expr, Expr]
    own: Mapping[Buffer, Change]

    def copy(self, s: Statement) -> Statement:
        """A statement as this row has it."""
        copied = replaced([s], self.known)
        for inner in ir.walk(copied):
            if isinstance(inner, Declare):
                inner.target = self.known[inner.target]
            elif isinstance(inner, Assign):
                inner.targets = tuple(self.known[t] for t in inner.targets)
        change_accesses(copied, self.own)
        return copied[0]


def _beside(block: list[Statement], rows: list[_Row], together: Sequence[For]) -> list[Statement]:
    """Each statement of a block for all rows before the next one; ``together`` those loops that go
    through all rows at once."""
    found: list[Statement] = []
    for s in block:
        if isinstance(s, For) and s in together:
            inner = [x for x in s.body if isinstance(x, For)]
            found.append(replace(s, body=_beside(s.body, rows, inner)))
        else:
            found += [row.copy(s) for row in rows]
    return found


def _operations(loop: For) -> int:
    return len(operations(*(root for s in ir.walk(loop.body) for root in ir.roots(s))))


def _lesser(a: Expr, b: Expr) -> Expr:
    if a.fn == b.fn == "const":
        return min(a, b, key=lambda e: int(e.data))
    return sc.binary("minimum", a, b)


def _behind(buffer: Buffer, by: int) -> Change:
    return lambda indices: (buffer, (indices[0] + by,))


# -- which loops -----------------------------------------------------------------------------
def _are_long_rows(kernel: Kernel, loop: For) -> bool:
    """Whether a loop goes over rows that touch nothing in common, and reduces long ones."""
    together = _together(loop)
    is_piece = loop.extent is ir.PIECE_END and kernel.shared is not None
    every = kernel.shared.extent if is_piece else loop.extent - loop.start  # type: ignore[union-attr]
    if every.fn != "const" or every.data < _FEWEST:
        return False
    if loop.kind != "parallel" or not together or not _are_apart(kernel, loop):
        return False
    by_row = [s for s in loop.body if isinstance(s, For) and s not in together]
    return sum(map(_operations, by_row)) <= _MOST_BY_ROW and not any(s.is_vector for s in by_row)


def _together(loop: For) -> list[For]:
    """The loops along a row that are made one for several rows."""
    inner = (s for s in loop.body if isinstance(s, For))
    return [s for s in inner if _operations(s) <= _MOST and _is_long(s, loop.index, 1)]


def _are_apart(kernel: Kernel, loop: For) -> bool:
    """Whether a row writes in one place, which no row reads, and into memory of its own."""
    every = list(ir.walk(loop.body))
    if not all(isinstance(s, (For, Store, Assign, Declare)) for s in every):
        return False
    declared = {s.target for s in every if isinstance(s, Declare)}
    targets = {t for s in every if isinstance(s, Assign) for t in s.targets}
    own, written = own_memory(kernel, loop), ir.writes(loop.body)
    owners = {ir.owner(b) for b in written}
    if targets - declared or any(ir.owner(b) in owners for b in ir.reads(loop.body) - own):
        return False
    places = (set(indices_of(loop.body, b)) for b in written - own)
    return all(len(found) == 1 and _moves_with(loop.index, *found) for found in places)


def _moves_with(index: Expr, place: Expr) -> bool:
    form = linear_form(place)
    return form is not None and index in form[0]


def _is_long(loop: For, row: Expr, times: int) -> bool:
    """Whether a loop, run so many times, reduces long runs of memory that move with rows."""
    if loop.kind != "reduction" or loop.is_vector or not loop.extent.fn == loop.start.fn == "const":
        return False
    length = times * (loop.extent.data - loop.start.data)
    inner = [s for s in loop.body if isinstance(s, For)]
    if inner:
        return all(_is_long(s, row, length) for s in inner)
    forms = [linear_form(e.args[0]) for e in ir.loads(loop.body) if len(e.args) == 1]
    is_run = any(f is not None and row in f[0] and f[0].get(loop.index) == UNIT for f in forms)
    return is_run and length >= _LEAST
