"""Rows of known sizes are gone through in whole vectors, of which the last may overlap.

LLVM goes through a row in vectors and then, element by element, through what is left: of 31
elements the last 15 take as long as a thousand would. What a loop makes of each element, and an
extreme, may be made of some elements twice, so the last vector may begin within the one before:

    for i in range(19): a = max(a, x[i])
    for i in range(19): t[i] = f(x[i]); s = s + t[i]
    for i in range(19): y[i] = t[i] / s

    for i in range(16): a = max(a, max(x[i], x[i + 3]))
    for i in range(16): t[i] = f(x[i])
    for i in range(16): t[i + 16] = f(x[i + 3])
    for i in range(16): s = s + t[i] + (t[i + 16] if i >= 13 else 0)
    for i in range(16): y[i] = t[i] / s
    for i in range(16): y[i + 3] = t[i + 16] / s

Each of these loops is one vector, told to LLVM as such, and a row that is kept for the loops behind
lies vector by vector, so that it stays in registers. Rows of little more than half a vector are
one vector, the last lanes of which a mask leaves out.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.cpu import jit
from phix.kernels.cpu.level import has_masks
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
from phix.kernels.loops.rewriting import substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Rows of fewer elements are written out; of longer ones, what is left takes little of the time.
_FEWEST, _MOST_VECTORS = 9, 8
_FEW_LEFT = 1
# Of fewer elements a vector is too empty: LLVM takes such rows side by side.
_FEWEST_IN_MASK, _MOST_IN_MASK = 7, 4
# Rows that are narrow LLVM takes side by side, which is better for extremes of wide numbers.
_NARROW = 24
# So many operations on the vectors of a row are written out, one vector after the other; what is
# an extreme of more than a few operations is made of other loops' rows.
_MOST_WORK, _LITTLE = 240, 15
# What LLVM makes no vectors of.
_SCALAR = frozenset({"call", "quotient", "rest"})


def overlapping_vectors(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            for size in _sizes(step.body):
                _Rows(step, size).change()


def _sizes(body: list[Statement]) -> list[int]:
    """How many elements the rows have that something is found of."""
    loops = [s for s in ir.walk(body) if isinstance(s, For) and s.kind == "reduction"]
    sizes = {s.extent.data for s in loops if s.extent.fn == "const" and s.start is ir.ZERO}
    return sorted(n for n in sizes if n >= _FEWEST)


def fits_mask(loop: Statement) -> bool:
    """Whether a loop along a row may be one vector, or a few as if they were one, of which a mask
    leaves out the last lanes."""
    if not has_masks() or not isinstance(loop, For) or loop.extent.fn != "const":
        return False
    steps = [s for s in loop.body if isinstance(s, Assign)]
    if not all(isinstance(s, (Store, Assign)) for s in loop.body) or loop.start is not ir.ZERO:
        return False
    sizes = {b.dtype.itemsize for b in _touched([loop])}
    sizes |= {t.dtype.itemsize for s in steps for t in s.targets}
    most = _MOST_IN_MASK * jit.vector_registers()[0] // max(sizes, default=8)
    if not sizes <= {4, 8} or not _FEWEST_IN_MASK <= loop.extent.data <= most:
        return False
    return all(_step(s) is not None for s in steps) and _is_along(loop) and _is_in_place(loop)


def _is_in_place(loop: For) -> bool:
    """Whether a loop reads nothing that it stores but at the very place."""
    places = {(s.buffer, s.indices) for s in loop.body if isinstance(s, Store)}
    stored = {ir.owner(buffer) for buffer, _ in places}
    shared = (load for load in ir.loads(loop.body) if ir.owner(load.data) in stored)
    return all((load.data, load.args) in places for load in shared)


class _Rows:
    """The loops of a kernel over rows of one size."""

    def __init__(self, kernel: Kernel, size: int) -> None:
        self.kernel, self.size = kernel, size
        every = [row for s in ir.walk(kernel.body) if (row := _Row.of(s, size)) is not None]
        widest = max((row.widest for row in every), default=1)
        full = self.lanes = jit.vector_registers()[0] // widest
        while self.lanes > size:
            self.lanes //= 2
        self.starts = [*range(0, size - self.lanes, self.lanes), size - self.lanes]
        # where little is left behind halves of vectors, LLVM's ways are as good for what adds up
        has_rest = size > full // 2 + 2 and size % (full // 2) > _FEW_LEFT
        chosen = [row for row in every if self._is_vector(row) and (has_rest or row.is_extreme)]
        self.rows = {row.loop: row for row in chosen if not self._is_too_much(every)}
        self.kept: set[Buffer] = set()
        self.has_mask = full // 2 < size < full and not has_rest

    def _is_vector(self, row: _Row) -> bool:
        """Whether LLVM makes one vector of what the row finds: not of extremes two by two."""
        if row.step is None or row.step.fn == "add" or self.lanes > 2:
            return True
        return row.step.target.dtype in jit.dtypes_with_keys()

    def _is_too_much(self, every: list[_Row]) -> bool:
        """Whether LLVM's ways are better for what the rows are taken through."""
        work = sum(row.work for row in every) * len(self.starts)
        is_wide = self.size <= _NARROW and any(row.finds_wide for row in every)
        return is_wide or len(self.starts) > _MOST_VECTORS or work > _MOST_WORK

    def change(self) -> None:
        if self.has_mask:
            for s in ir.walk(self.kernel.body):
                if isinstance(s, For) and s.extent.data == self.size and fits_mask(s):
                    s.is_vector = True
            return
        if not self.rows:
            return
        self._leave_out()
        if any(row.step is not None for row in self.rows.values()):
            self._block(self.kernel.body)
            for buffer in self.kept:
                buffer.dims = (self.lanes * len(self.starts),)
                self.kernel.locals[buffer] = sc.const(buffer.dims[0], dt.int64)

    def _leave_out(self) -> None:
        """A row that loops keep lies vector by vector. Leave out the loops that touch one which
        others touch in other ways."""
        every = _touched(self.kernel.body)
        while True:
            loops: list[Statement] = [*self.rows]
            along = _touched(loops, along=True)
            own = [b for b in along if b in self.kernel.locals]
            odd = {b for b in own if along[b] != every[b]}
            if not odd:
                self.kept = set(own)
                return
            self.rows = {k: row for k, row in self.rows.items() if not odd & set(_touched([k]))}

    def _block(self, block: list[Statement]) -> None:
        for s in list(block):
            if isinstance(s, For) and s in self.rows:
                at = block.index(s)
                block[at : at + 1] = self._loops(self.rows[s])
            elif isinstance(s, (For, ir.If, ir.While)):
                self._block(s.body)

    # -- one row ---------------------------------------------------------------------------
    def _loops(self, row: _Row) -> list[Statement]:
        """Loops over whole vectors that do the same."""
        loop, numbers = row.loop, range(len(self.starts))
        found: list[Statement] = []
        for number in numbers if row.stores else ():
            body: list[Statement] = []
            for s in row.stores:
                at = self._in_vector(row, s.indices[0], number)
                if s.buffer in self.kept:
                    at = loop.index + number * self.lanes
                body.append(Store(s.buffer, (at,), self._in_vector(row, s.value, number)))
            found.append(self._vector(loop, body))
        if row.step is not None:
            found.append(self._vector(loop, [self._found(row, row.step)]))
        return found

    def _found(self, row: _Row, step: _Update) -> Assign:
        """What the lanes of the vectors find."""
        terms = [self._in_vector(row, step.term, number) for number in range(len(self.starts))]
        if step.fn != "add":
            every = reduce(lambda a, b: sc.binary(step.fn, a, b), terms)
            return Assign((step.target,), (sc.binary(step.fn, step.target, every),))
        seen = len(self.starts) * self.lanes - self.size
        if seen:
            is_new = sc.binary("ge", row.loop.index, sc.const(seen, dt.int64))
            terms[-1] = sc.select(is_new, terms[-1], sc.const(0, step.target.dtype))
        return Assign((step.target,), (reduce(lambda a, b: a + b, terms, step.target),), True)

    def _vector(self, loop: For, body: list[Statement]) -> For:
        return For(loop.index, sc.const(self.lanes, dt.int64), body, loop.kind, is_vector=True)

    def _in_vector(self, row: _Row, root: Expr, number: int) -> Expr:
        """An expression as it is in the lanes of one of the vectors."""
        index = row.loop.index
        changes = {index: index + self.starts[number]}
        kept = (index + number * self.lanes,)
        for load in root.loads:
            if load.data in self.kept:
                changes[load] = Expr("load", kept, load.dtype, load.data)
        return substituted(root, changes)


@dataclass(frozen=True)
class _Update:
    """``target = fn(target, term)``."""

    target: Expr
    term: Expr
    fn: str


@dataclass(frozen=True)
class _Row:
    """A loop along a row: what it stores, and the one thing that it finds."""

    loop: For
    stores: tuple[Store, ...]
    step: _Update | None

    @staticmethod
    def of(loop: Statement, size: int) -> _Row | None:
        """A loop that makes the same of an element however often; None if it is anything else."""
        if not isinstance(loop, For) or loop.extent.fn != "const" or loop.extent.data != size:
            return None
        stores = tuple(s for s in loop.body if isinstance(s, Store))
        steps = [s for s in loop.body if isinstance(s, Assign)]
        is_plain = len(stores) + len(steps) == len(loop.body) and len(steps) <= 1
        if not is_plain or not loop.body or loop.start is not ir.ZERO or loop.is_vector:
            return None
        step = _step(steps[0]) if steps else None
        if (steps and step is None) or not _is_along(loop):
            return None
        every = ir.expressions(list(stores))
        if (step is not None and step.target in every) or not _is_repeatable(loop):
            return None
        return _Row(loop, stores, step)

    @property
    def widest(self) -> int:
        """The bytes of the widest number that is loaded or stored."""
        return max((b.dtype.itemsize for b in _touched([self.loop])), default=8)

    @property
    def work(self) -> int:
        """How many operations an element takes."""
        left = [s.value for s in self.stores]
        left += [] if self.step is None else [self.step.term]
        found: dict[Expr, None] = {}
        while left:
            e = left.pop()
            if e not in found:
                found[e] = None
                left += sc.usual_operands(e) if e.fn != "load" else ()
        return sum(1 for e in found if e.args and e.fn != "load")

    @property
    def is_extreme(self) -> bool:
        """Whether it finds an extreme of what takes little, and does nothing else."""
        is_sum = self.step is None or self.step.fn == "add"
        return not is_sum and not self.stores and self.work <= _LITTLE

    @property
    def finds_wide(self) -> bool:
        """Whether what it finds is wider than what it reads."""
        return self.step is not None and self.step.target.dtype.itemsize > self.widest


def _step(step: Assign) -> _Update | None:
    """An extreme, or a sum whose order is free."""
    if len(step.targets) != 1:
        return None
    (target,), (value,) = step.targets, step.values
    others = [a for a in value.args if a is not target]
    is_sum = value.fn == "add" and step.reassociate and target.dtype.kind == "f"
    if len(others) != 1 or not (is_sum or value.fn in ("maximum", "minimum")):
        return None
    is_apart = target not in ir.expressions([Declare(others[0], others[0])])
    return _Update(target, others[0], value.fn) if is_apart else None


def _is_along(loop: For) -> bool:
    """Whether elements are read along memory, or at one place all the time, and stored along it."""
    if not _SCALAR.isdisjoint([e.fn for e in ir.expressions(loop.body)]):
        return False
    loads = [(load.data, load.args, (None, UNIT)) for load in ir.loads(loop.body)]
    stores = [(s.buffer, s.indices, (UNIT,)) for s in loop.body if isinstance(s, Store)]
    for buffer, indices, steps in (*loads, *stores):
        form = linear_form(indices[0]) if len(indices) == 1 and not buffer.strided else None
        if form is None or form[0].get(loop.index) not in steps:
            return False
    return True


def _is_repeatable(loop: For) -> bool:
    """Whether to make an element twice gives the same: it is made of nothing that the loop stores,
    but for rows of the kernel's own that it reads where it has stored before."""
    stored = {ir.owner(s.buffer) for s in loop.body if isinstance(s, Store)}
    done: set[Buffer] = set()
    for s in loop.body:
        for load in (load for root in ir.roots(s) for load in root.loads):
            is_made = load.data in done and load.data.kind == "local"
            if ir.owner(load.data) in stored and not (is_made and load.args == (loop.index,)):
                return False
        if isinstance(s, Store):
            done |= {s.buffer} if s.indices == (loop.index,) else set()
    return True


def _touched(body: list[Statement], along: bool = False) -> Counter[Buffer]:
    """How often a block loads and stores what; ``along``: of loops without others inside, what is
    at their index alone."""
    found: Counter[Buffer] = Counter()
    for s in ir.walk(body):
        if along:
            at = (s.index,) if isinstance(s, For) else None
            steps = s.body if isinstance(s, For) else []
        else:
            at, steps = None, [s]
        for t in steps:
            places = [(load.data, load.args) for root in ir.roots(t) for load in root.loads]
            if isinstance(t, Store):
                places.append((t.buffer, t.indices))
            elif isinstance(t, ir.LibraryCall):
                places += [(p.buffer, ()) for p in t.arguments if isinstance(p, ir.Pointer)]
            found.update(b for b, indices in places if at is None or indices == at)
    return found
