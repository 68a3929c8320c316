"""Sums over a whole loop, shared by threads: each piece has results of its own, added in order.

A kernel whose outermost loop only keeps its iterations apart but for some *accumulators* - scalars
or buffers, changed by ``a = a + v`` (or another operation in IDENTITIES) alone - becomes two:

    for p in pieces: partial[p] = identity; for i in piece p: partial[p] += v[i]
    for p in pieces: a += partial[p]

How many pieces there are depends on sizes, not on threads: results are the same with any number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import is_one_digit
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, Statement, Store
from phix.kernels.loops.rewriting import change_accesses
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.inplace import parts

MOST_PIECES = 16


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min if dtype.kind in "iu" else False


def _highest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max if dtype.kind in "iu" else True


# What an accumulator may be changed by, and the value that changes nothing.
IDENTITIES: dict[str, Callable[[np.dtype], Any]] = {
    "add": lambda dtype: -0.0 if dt.is_float(dtype) else 0,  # -0.0 + 0.0 would be 0.0
    "mul": lambda dtype: 1,
    "maximum": _lowest,
    "minimum": _highest,
    "or": lambda dtype: 0,
    "and": lambda dtype: -1 if dtype.kind in "iu" else 1,
}


@dataclass(eq=False)
class _Accumulator:
    """A scalar or a buffer, the operation that changes it, and what holds its partial results."""

    what: Expr | Buffer
    fn: str
    size: Expr
    partial: Buffer

    def identity(self, dtype: np.dtype) -> Expr:
        return sc.const(IDENTITIES[self.fn](dtype), dtype)


def split(
    kernel: Kernel,
    work: Expr,
    changes: Expr,
    least_work: int,
    size_of: Callable[[dm.DimLike], Expr],
    new_temp: Callable[[dm.Shape, np.dtype], Buffer],
) -> list[Kernel] | None:
    """The two kernels that ``kernel`` becomes; None if it must stay as it is.

    Args:
        work: about how many scalar operations it makes.
        changes: about how often it changes a result.
        least_work: how many a piece should make.
        size_of: the run-time value of a dim.
        new_temp: makes a temp of these dims and this dtype.
    """
    _, loop, _ = parts(kernel.body)
    if loop is None or any(isinstance(s, ir.LibraryCall) for s in ir.walk(loop.body)):
        return None
    found = scalar_totals(kernel.body, loop), shared_totals(loop)
    if None in found or not any(found):
        return None
    operations = {what: fn for fns in found for what, fn in fns.items()}  # type: ignore[union-attr]
    dims = {what: what.dims if isinstance(what, Buffer) else () for what in operations}
    sizes = {what: size_of(dm.product(d)) for what, d in dims.items()}
    pieces = _piece_count(work, changes, least_work, loop.extent, list(sizes.values()))
    if pieces.fn == "const" and pieces.data < 2:
        return None
    most = int(pieces.data) if pieces.fn == "const" else MOST_PIECES
    accumulators = [
        _Accumulator(what, fn, sizes[what], new_temp((most, *dims[what]), what.dtype))
        for what, fn in operations.items()
    ]
    return _Split(kernel, loop, accumulators, pieces).kernels(work)


def _piece_count(work: Expr, changes: Expr, least: int, turns: Expr, sizes: list[Expr]) -> Expr:
    """So many that each makes ``least`` work, and much more than setting up its results takes.

    A piece changes each of its results many times: filling them and adding them up goes through
    memory as the changes do, while most of the other operations may stand outside the inner loop.
    """
    most = _smaller(sc.const(MOST_PIECES, dt.int64), turns)
    bounds = [(work, sc.const(least, dt.int64)), *((work, 16 * size) for size in sizes)]
    for amount, bound in (*bounds, *((changes, 8 * size) for size in sizes)):
        most = _smaller(most, _quotient(amount, _larger(bound, ir.ONE)))
    return _larger(most, ir.ONE)


def _folded(fn: str, compute: Callable[[int, int], int]) -> Callable[[Expr, Expr], Expr]:
    def fold(a: Expr, b: Expr) -> Expr:
        if a.fn == b.fn == "const":
            return sc.const(compute(a.data, b.data), dt.int64)
        return sc.binary(fn, a, b)

    return fold


_smaller, _larger = _folded("minimum", min), _folded("maximum", max)
_quotient = _folded("quotient", lambda a, b: a // b)


# -- what accumulates ------------------------------------------------------------------------
def scalar_totals(body: list[Statement], loop: For) -> dict[Expr, str] | None:
    """The scalars declared outside the loop that it changes, and how; None if not so alone."""
    declared = {s.target for s in body if isinstance(s, Declare)}
    if not declared:
        return {}
    changes: dict[Expr, list[Expr]] = {}
    others: list[Expr] = []
    for s in ir.walk(loop.body):
        if isinstance(s, Assign) and declared & set(s.targets):
            for target, value in zip(s.targets, s.values):
                changes.setdefault(target, []).append(value)
        else:
            others.extend(ir.roots(s))
    if not changes:  # of most loops: no need to look at all that they compute
        return {}
    found = {t: _operation([(v, t) for v in values]) for t, values in changes.items()}
    read = _parts([*others, *(operand for _, rest in found.values() for operand in rest)])
    if any(fn == "" for fn, _ in found.values()) or set(found) & read:
        return None
    return {t: fn for t, (fn, _) in found.items()} if set(found) <= declared else None


def shared_totals(loop: For) -> dict[Buffer, str] | None:
    """The buffers that iterations of the loop share, and how they change; None if not so alone."""
    written = {b for b in ir.writes(loop.body) if b.kind != "local"}
    touched = written | ir.reads(loop.body)
    owners = {ir.owner(b) for b in written}
    if sum(ir.owner(b) in owners for b in touched) != len(owners):
        return None
    shared = {}
    for buffer in sorted(written, key=lambda b: b.name):
        if is_one_digit(buffer, loop.index, loop.body, {loop.index: loop.extent}):
            continue
        fn = "" if dt.is_complex(buffer.dtype) else _buffer_operation(buffer, loop)
        if not fn:
            return None
        shared[buffer] = fn
    return shared


def _buffer_operation(buffer: Buffer, loop: For) -> str:
    stores = [s for s in ir.walk(loop.body) if isinstance(s, Store) and s.buffer is buffer]
    own = [_load(buffer, s.indices) for s in stores]
    fn, operands = _operation([(s.value, e) for s, e in zip(stores, own)])
    operands += [i for s in stores for i in s.indices]
    others = [r for s in ir.walk(loop.body) for r in ir.roots(s) if s not in stores]
    is_read = any(e.fn == "load" and e.data is buffer for e in _parts([*others, *operands]))
    return "" if is_read else fn


def _operation(changes: list[tuple[Expr, Expr]]) -> tuple[str, list[Expr]]:
    """``fn`` if each (value, accumulator) is fn(accumulator, operand), and the operands; or ""."""
    fns = {value.fn for value, _ in changes}
    operands = []
    for value, accumulator in changes:
        own = [k for k, a in enumerate(value.args) if a is accumulator]
        if len(own) != 1 or value.fn not in IDENTITIES or len(fns) != 1:
            return "", []
        operands.append(value.args[1 - own[0]])
    return fns.pop(), operands


def _parts(expressions: list[Expr]) -> set[Expr]:
    return set(ir.expressions([Declare(e, e) for e in expressions]))


# -- the two kernels -------------------------------------------------------------------------
@dataclass(eq=False)
class _Split:
    kernel: Kernel
    loop: For
    accumulators: list[_Accumulator]
    pieces: Expr

    def __post_init__(self) -> None:
        used = (s.index.data for s in ir.walk(self.kernel.body) if isinstance(s, For))
        depth = 1 + max(int(name[1:]) for name in used)
        self.piece, self.element = sc.var(f"i{depth}"), sc.var(f"i{depth + 1}")

    def kernels(self, work: Expr) -> list[Kernel]:
        last = self._last()
        first = Kernel([self._pieces()], locals=self.kernel.locals)
        first.shared = ir.Shared(self.pieces, work, 1)
        return [first, last]

    def _pieces(self) -> For:
        """The loop over pieces, each with results of its own."""
        loop, body = self.loop, list[Statement]()
        length = _quotient(loop.extent + self.pieces - 1, self.pieces)
        start = self.piece * length
        stop = sc.binary("minimum", start + length, loop.extent)
        after: list[Statement] = []
        for a in self.accumulators:
            if isinstance(a.what, Buffer):
                body.append(self._fill(a))
                self._redirect(a)
            else:
                body.append(Declare(a.what, a.identity(a.what.dtype)))
                after.append(Store(a.partial, (self.piece,), a.what))
        body.append(For(loop.index, stop, loop.body, loop.kind, start))
        return For(self.piece, ir.PIECE_END, [*body, *after], "parallel", ir.PIECE_START)

    def _place(self, a: _Accumulator, index: Expr) -> tuple[Expr, ...]:
        return (self.piece * a.size + index,)

    def _fill(self, a: _Accumulator) -> For:
        value = a.identity(ir.scalar_dtype(a.partial.dtype))
        return For(self.element, a.size, [Store(a.partial, self._place(a, self.element), value)])

    def _redirect(self, a: _Accumulator) -> None:
        assert isinstance(a.what, Buffer)
        change = {a.what: lambda indices: (a.partial, self._place(a, indices[0]))}
        change_accesses(self.loop.body, change)

    def _last(self) -> Kernel:
        """What combines the results of the pieces, and what came after the loop."""
        at = self.kernel.body.index(self.loop)
        combined: list[Statement] = []
        for a in self.accumulators:
            if isinstance(a.what, Buffer):
                place = (self.element,)
                new = self._combined(a, _load(a.what, place), self._place(a, self.element))
                inner: Statement = For(self.element, a.size, [Store(a.what, place, new)])
            else:
                new = self._combined(a, a.what, (self.piece,))
                inner = Assign((a.what,), (new,))
            combined.append(For(self.piece, self.pieces, [inner], "reduction"))
        before, after = self.kernel.body[:at], self.kernel.body[at + 1 :]
        return Kernel([*before, *combined, *after])

    def _combined(self, a: _Accumulator, old: Expr, place: tuple[Expr, ...]) -> Expr:
        return sc.binary(a.fn, old, _load(a.partial, place))


def _load(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    return Expr("load", indices, ir.scalar_dtype(buffer.dtype), buffer)
