"""Long sums are added up block by block, and the blocks in float64.

A float32 total of 2^24 ones does not grow any more, and one of many numbers loses digits long
before: each sum is rounded to the size of the total. So a loop

    for i in range(n): a = a + v[i]

goes in blocks, whose sums are small and few enough to lose nothing that counts:

    for b in blocks: p = 0; for i in block b: p = p + v[i]; a = a + p, a a float64

and totals down the columns, which are kept in memory, likewise: each block of rows has totals of
its own. What is in a block depends on sizes and on the CPU's vectors, not on threads: a loop whose
vectors keep 32 sums side by side may add up 32 times as many terms as one that keeps a single one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import settings
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import (
    Assign,
    Buffer,
    Declare,
    For,
    Kernel,
    LoopProgram,
    Statement,
    Step,
    Store,
)
from phix.kernels.loops.rewriting import change_accesses, rename, replaced, substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.inplace import parts
from phix.kernels.schedule.partial_results import shared_totals
from phix.kernels.schedule.pipeline import Setting

_FLOATS = (dt.float32, dt.float64)
# Additions to one float32, one after the other: of like terms, as many leave it right to 6e-7.
_LONGEST_CHAIN = 64
# Loops below that many turns LLVM writes out, and makes vectors of the turns of the one around
# them: narrow ones, as reads are some elements apart, and of a pair none.
_LEAST_ROLLED = 16
# Vectors that take turns in long loops alone.
_VECTORS = 4
_MOST_WRITTEN_OUT = 512


def block_sums(program: LoopProgram, setting: Setting) -> None:
    """The pass: long sums are added up in blocks, and the blocks in float64."""
    _in_steps(program, program.steps, setting.builder)


def _in_steps(program: LoopProgram, steps: list[Step], builder: Builder) -> None:
    changed: list[Step] = []
    for step in steps:
        for block in ir.blocks(step):
            _in_steps(program, block, builder)
        if isinstance(step, Kernel) and not _calls(step.body):
            changed += _Blocking(program, step, builder).steps()
        else:
            changed.append(step)
    steps[:] = changed


def _calls(body: list[Statement]) -> bool:
    return any(isinstance(s, (ir.LibraryCall, ir.While)) for s in ir.walk(body))


@dataclass(eq=False)
class _Blocking:
    """The sums of one kernel."""

    program: LoopProgram
    kernel: Kernel
    builder: Builder
    index: int = -1  # the numbers of the last index and scalar, once they are looked for
    scalar: int = -1

    def steps(self) -> list[Step]:
        """The kernel with its sums in blocks, and what comes before and after it."""
        before, after = self._in_memory()
        self._in_rows(self.kernel.body)
        self._in_scalars(self.kernel.body)
        return [*before, self.kernel, *after]

    # -- totals in memory ------------------------------------------------------------------
    def _in_memory(self) -> tuple[list[Step], list[Step]]:
        """Cut the outermost loop where it is one over rows, with totals of columns."""
        head, loop, tail = parts(self.kernel.body)
        least = settings.current().block_rows
        if loop is None or loop.start is not ir.ZERO or _most_turns(loop) <= least:
            return [], []
        found = shared_totals(loop) or {}
        totals = [b for b, fn in found.items() if fn == "add" and _is_of_columns(b, loop)]
        read = ir.reads(tail) | ir.writes(tail)
        if not totals or read & set(totals):
            return [], []
        starts: list[Statement] = []
        ends: list[Statement] = []
        before, after = Kernel(), Kernel()
        j = self._index()
        for total in totals:
            size = self.builder.dim(dm.product(total.dims))
            wide, own = self._temp(total.dims), self._local(total, size)
            change_accesses(loop.body, {total: rename(own)})
            starts.append(For(j, size, [Store(own, (j,), sc.const(0.0, own.dtype))]))
            grown = _load(wide, j) + sc.cast(_load(own, j), dt.float64)
            ends.append(For(j, size, [Store(wide, (j,), grown)]))
            before.body.append(For(j, size, [Store(wide, (j,), sc.const(0.0, dt.float64))]))
            whole = sc.cast(_load(total, j), dt.float64) + _load(wide, j)
            after.body.append(For(j, size, [Store(total, (j,), sc.cast(whole, total.dtype))]))
        rows = self._in_blocks(loop, least, starts, ends)
        self.kernel.body[:] = [*head, rows, *tail]
        return [before], [after]

    def _in_rows(self, block: list[Statement]) -> None:
        """Cut loops over rows with a run of totals, which are then in memory of their own."""
        most = settings.current().block_rows
        for s in list(block):
            if isinstance(s, (For, ir.If)):
                self._in_rows(s.body)
            if not isinstance(s, For) or s.start is not ir.ZERO or _most_turns(s) <= most:
                continue
            for total in sorted(ir.writes(s.body), key=lambda b: b.name):
                run = _run_of_totals(s, total)
                if run is not None:
                    s = self._cut_rows(block, s, total, *run)

    def _cut_rows(
        self, block: list[Statement], loop: For, total: Buffer, place: Expr, columns: For
    ) -> For:
        size, j = columns.extent, self._index()
        own = self._local(total, size)
        wide = self._local(replace(total, dtype=dt.float64), size)
        change_accesses(loop.body, {total: lambda _: (own, (columns.index,))})

        def each(buffer: Buffer, index: Expr, value: Expr) -> For:
            return For(j, size, [Store(buffer, (index,), value)])

        starts: list[Statement] = [each(own, j, sc.const(0.0, own.dtype))]
        grown = _load(wide, j) + sc.cast(_load(own, j), dt.float64)
        made = self._in_blocks(loop, settings.current().block_rows, starts, [each(wide, j, grown)])
        at = substituted(place, {columns.index: j})
        whole = sc.cast(_load(total, at), dt.float64) + _load(wide, j)
        last = each(total, at, sc.cast(whole, total.dtype))
        k = block.index(loop)
        block[k : k + 1] = [each(wide, j, sc.const(0.0, dt.float64)), made, last]
        return made

    def _temp(self, dims: dm.Shape) -> Buffer:
        temps = self.program.temps
        number = 1 + max((int(t.name[1:]) for t in temps), default=-1)
        temps.append(Buffer(f"t{number}", dt.float64, dims, "temp"))
        return temps[-1]

    def _local(self, like: Buffer, size: Expr) -> Buffer:
        number = 1 + max((int(b.name[1:]) for b in self.kernel.locals), default=-1)
        made = Buffer(f"l{number}", like.dtype, like.dims, "local")
        self.kernel.locals[made] = size
        return made

    # -- totals in scalars -----------------------------------------------------------------
    def _in_scalars(self, block: list[Statement]) -> None:
        """Cut the loops of a block that add many terms to scalars declared in it."""
        declared: dict[Expr, Declare] = {}
        for s in list(block):
            if isinstance(s, (For, ir.If)):
                self._in_scalars(s.body)
            if isinstance(s, Declare) and s.target.dtype in _FLOATS:
                declared[s.target] = s
            elif isinstance(s, For) and declared:
                rest = [declared.pop(target) for target in _summed(s, declared)]
                while rest:
                    s, rest = self._cut(block, s, rest)

    def _cut(
        self, block: list[Statement], loop: For, declared: list[Declare]
    ) -> tuple[For, list[Declare]]:
        """Sum scalars block by block, in float64s, as many as are cut at one place.

        Gives the loop that takes the place of this one, and the scalars that are left.
        """
        paths, lanes = _paths(loop), cache(self.builder.target.accumulators)
        places = [_place_of_cut(paths.get(d.target), d.target, lanes) for d in declared]
        found = next((p for p in places if p is not None), None)
        if found is None:
            return loop, []
        inner, terms = found
        some = [d for d, p in zip(declared, places) if p == found]
        left = [d for d, p in zip(declared, places) if p not in (None, found)]
        own = {d.target: self._scalar(d.target.dtype) for d in some}
        body = replaced(inner.body, own)
        for s in ir.walk(body):
            if isinstance(s, Assign):
                s.targets = tuple(own.get(t, t) for t in s.targets)
        starts: list[Statement] = []
        ends: list[Statement] = []
        at = block.index(loop)
        for d in some:
            part, wide = own[d.target], self._scalar(dt.float64)
            starts.append(Declare(part, sc.const(0.0, part.dtype)))
            ends.append(Assign((wide,), (wide + sc.cast(part, dt.float64),)))
            block[block.index(d)] = Declare(wide, _widened(d.value))
            block.insert(at + 1, Declare(d.target, sc.cast(wide, d.target.dtype)))
        made = self._in_blocks(replace(inner, body=body), terms, starts, ends)
        if inner is loop:
            block[at] = made
            return made, left
        _replace(loop.body, inner, made)
        return loop, left

    def _in_blocks(
        self, loop: For, most: int, starts: list[Statement], ends: list[Statement]
    ) -> For:
        """The loop in blocks of at most so many turns, each between what starts and ends it."""
        if most == 1:
            return replace(loop, body=[*starts, *loop.body, *ends])
        block, turn, per = self._index(), self._index(), sc.const(most, dt.int64)
        extent = loop.extent
        if extent.fn == "const":
            count = sc.const(-(-extent.data // most), dt.int64)
        else:
            count = sc.binary("quotient", extent + (most - 1), per)
        is_even = extent.fn == "const" and extent.data % most == 0
        length = per if is_even else sc.binary("minimum", extent - block * most, per)
        body = replaced(loop.body, {loop.index: block * most + turn})
        return For(block, count, [*starts, For(turn, length, body, loop.kind), *ends], "reduction")

    def _index(self) -> Expr:
        if self.index < 0:
            used = [s.index.data for s in ir.walk(self.kernel.body) if isinstance(s, For)]
            self.index = max([0, *(int(name[1:]) for name in used)])
        self.index += 1
        return sc.var(f"i{self.index}")

    def _scalar(self, dtype: np.dtype) -> Expr:
        if self.scalar < 0:
            used = [s.target.data for s in ir.walk(self.kernel.body) if isinstance(s, Declare)]
            self.scalar = max([0, *(int(name[1:]) for name in used)])
        self.scalar += 1
        return sc.var(f"a{self.scalar}", dtype)


def _is_of_columns(total: Buffer, loop: For) -> bool:
    """Whether a float32 total stays where it is from turn to turn of the loop."""
    if total.dtype != dt.float32:
        return False
    inner = {s.index for s in ir.walk(loop.body) if isinstance(s, For)}
    stores = [s for s in ir.walk(loop.body) if isinstance(s, Store) and s.buffer is total]
    used = ir.expressions([Declare(i, i) for s in stores for i in s.indices])
    return all(e.fn != "load" and (e.fn != "var" or e in inner or _is_dim(e)) for e in used)


def _run_of_totals(loop: For, total: Buffer) -> tuple[Expr, For] | None:
    """Where a run of float32 totals is that the loop adds to, and the inner loop along it."""
    if total.dtype != dt.float32 or total.base is not None:
        return None
    stores = [s for s in ir.walk(loop.body) if isinstance(s, Store) and s.buffer is total]
    if len(stores) != 1:
        return None
    (store,), old = stores, _load(total, stores[0].indices[0])
    every = [e for e in ir.expressions(loop.body) if e.fn == "load" and e.data is total]
    operands = [a for a in store.value.args if a is not old]
    if store.value.fn != "add" or every != [old] or len(operands) != 1 or old in operands[0].loads:
        return None
    form = linear_form(store.indices[0]) if len(store.indices) == 1 else None
    inner = [s for s in ir.walk(loop.body) if isinstance(s, For)]
    moving = [s for s in inner if form is not None and s.index in form[0]]
    if form is None or loop.index in form[0] or len(moving) != 1:
        return None
    (columns,) = moving
    readers = [s for s in ir.walk(loop.body) if s is not store and old in _loads(s)]
    plain = columns.start is ir.ZERO and form[0][columns.index] == UNIT
    changing = {s.index for s in inner if s is not columns} | _set_in(loop.body)
    bounds = (*_parts(columns.extent), *_parts(store.indices[0]))
    fixed = columns.index not in _parts(columns.extent) and changing.isdisjoint(bounds)
    return (store.indices[0], columns) if plain and fixed and not readers else None


def _set_in(body: list[Statement]) -> set[Expr]:
    """The scalars that a block declares or sets."""
    found: set[Expr] = set()
    for s in ir.walk(body):
        if isinstance(s, Declare):
            found.add(s.target)
        elif isinstance(s, Assign):
            found.update(s.targets)
    return found


def _loads(s: Statement) -> set[Expr]:
    return {load for root in ir.roots(s) for load in root.loads}


def _parts(e: Expr) -> Collection[Expr]:
    return ir.expressions([Declare(e, e)])


def _is_dim(e: Expr) -> bool:
    return not (e.data[0] in "ia" and e.data[1:].isdigit())


def _summed(loop: For, scalars: Collection[Expr]) -> list[Expr]:
    """The scalars that the loop does nothing with but add to them, in any order."""
    added: dict[Expr, None] = {}
    used: list[Expr] = []  # expressions in which none of them may stand
    for s in ir.walk(loop.body):
        if not isinstance(s, Assign):
            used += ir.roots(s)
            continue
        for target, value in zip(s.targets, s.values):
            rest = [a for a in value.args if a is not target]
            if target in scalars and s.reassociate and value.fn == "add" and len(rest) == 1:
                added[target] = None
                used += rest
            elif target in scalars:
                used += [target, value]
            else:
                used.append(value)
    elsewhere = set(ir.expressions([Declare(e, e) for e in used]))
    return [t for t in scalars if t in added and t not in elsewhere]


def _place_of_cut(
    around: Sequence[For] | None, target: Expr, accumulators: Callable[[For], int]
) -> tuple[For, int] | None:
    """The loop around the sum to cut, and into how many turns; None if there are few terms."""
    if around is None or any(x.start is not ir.ZERO for x in around):
        return None
    allowed = _most_turns_of(target, accumulators(around[-1]))
    turns: list[float] = []  # of the loops inside, the innermost one first
    for inner in reversed(around):
        most = allowed(turns)
        turns.append(max(1, _most_turns(inner)))
        if turns[-1] > most:
            return inner, max(1, most)
    return None


def _most_turns_of(target: Expr, lanes: int) -> Callable[[list[float]], int]:
    """How often a loop may turn before its sum gets too long, by the turns of those inside it.

    An inner loop that has a vector of its own adds what it holds to the sum before it ends, and
    then the terms that fill no vector: the whole sum is rounded that often.
    """
    most = settings.current().block_terms
    if target.dtype == dt.float64:
        return lambda turns: int(most // math.prod(turns))

    def of_float32(turns: list[float]) -> int:
        terms = math.prod(turns)
        if not turns:
            return min(most, _LONGEST_CHAIN * lanes)
        if turns[0] < _LEAST_ROLLED:
            side_by_side = _LONGEST_CHAIN * (1 if turns[0] == 2 else lanes)
            return int(min(most, side_by_side, _MOST_WRITTEN_OUT) // terms)
        vectors, rest = divmod(turns[0], vector := max(1, lanes // _VECTORS))
        chain = (vectors + rest + math.log2(vector)) * terms / turns[0]
        return int(min(most // terms, _LONGEST_CHAIN // chain))

    return of_float32


def _paths(loop: For) -> dict[Expr, tuple[For, ...] | None]:
    """Of each scalar that is assigned to, the loops from ``loop`` in to the one that does so; None
    if there are several."""
    inside: dict[Expr, tuple[For, ...] | None] = {}
    here: dict[Expr, tuple[For, ...] | None] = {}
    for s in _flat(loop.body):
        if isinstance(s, Assign):
            here.update((t, (loop,)) for t in s.targets)
        elif isinstance(s, For):
            for target, path in _paths(s).items():
                is_one = path is not None and target not in inside
                inside[target] = (loop, *path) if is_one and path else None
    return {**inside, **here}


def _flat(body: list[Statement]) -> Iterator[Statement]:
    """The statements of a block and of the conditions in it, those inside loops left out."""
    for s in body:
        yield s
        if isinstance(s, ir.If):
            yield from _flat(s.body)


def _replace(body: list[Statement], old: For, new: For) -> None:
    for k, s in enumerate(body):
        if s is old:
            body[k] = new
        elif isinstance(s, (For, ir.If)):
            _replace(s.body, old, new)


def _widened(value: Expr) -> Expr:
    return sc.const(value.data, dt.float64) if value.fn == "const" else sc.cast(value, dt.float64)


def _load(buffer: Buffer, index: Expr) -> Expr:
    return Expr("load", (index,), ir.scalar_dtype(buffer.dtype), buffer)


def _most_turns(loop: For) -> float:
    """How many turns a loop takes at most; infinity where that is unknown."""
    e = loop.extent
    if e.fn == "minimum":
        return min((a.data for a in e.args if a.fn == "const"), default=np.inf)
    return e.data if e.fn == "const" else np.inf
