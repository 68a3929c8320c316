"""Products of few rows or few columns: loops that go through the large operand once, in order.

A library packs its operands and sums tiles of some rows and some vectors of columns; of a matrix
with a row or two it fills a small part of a tile, and reads the large operand across memory.

- ``all_at_once``: few rows and few columns; all sums grow beside each other, in registers.
- ``columns_beside``, ``rows_beside``: few of one, and the other operand lies along the terms; the
  sums of one of its rows grow beside each other.
- ``rows_of_terms``: few rows, where the right operand lies along the columns: some of its rows at
  a time are added to the rows of the result, which the first cache holds meanwhile.

The last makes sums as ``cpu/product.py`` does: in parts of PART terms, one fused step a term.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.shape import swapped
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Sums that grow beside each other, of all results and of one row or column, and the fewest terms.
_MOST_SUMS, _MOST_BESIDE, _FEWEST_TERMS = 16, 8, 64
# What a sum in vectors takes beside its terms, and a term that is to be laid down elsewhere first,
# in steps of a vector of so many bytes.
_AROUND, _TO_MOVE, _VECTOR = 16, 2, 64
# Rows of a result that is kept in memory, and columns for which that is better than a tile.
_MOST_ROWS, _FEWEST_COLUMNS = 3, 64
# Columns that are gone through at a time, and terms of a part of a sum.
_COLUMNS, PART = 1024, 512
# Terms that are added in one go; to one row the pass ``several_rows`` adds four times as many.
_TOGETHER, _TOGETHER_OF_ONE = 8, 2


class Product(Protocol):
    """What is asked of a product: see ``contraction.Product``."""

    b: Builder
    x: Value
    y: Value
    yd: dm.Shape
    transpose_x: bool
    transpose_y: bool

    @property
    def block(self) -> int | None: ...
    def stacked(self) -> tuple[dm.Shape, dm.DimLike, dm.Shape]: ...
    def sizes(self, rows: dm.DimLike) -> tuple[int | None, ...]: ...
    def stack_index(self, dims: dm.Shape, batch: tuple[Expr, ...]) -> tuple[Expr, ...]: ...


def writer(p: Product, dtype: np.dtype) -> Callable[[Buffer], None] | None:
    """What writes a product, computed in ``dtype``; None where it has no such form."""
    target = p.b.target
    is_on = rewrites.is_on("thin_products") and target.sums_in_memory
    if not is_on or dtype not in target.own_products:
        return None
    thin = _Thin(p, dtype)
    if not (thin.rows and thin.n and thin.k):  # unknown, or nothing to do
        return None
    make = next((make for holds, make in _FORMS if holds(thin)), None)
    return None if make is None else partial(make, thin)


class _Thin:
    """A product of known sizes, in one of the forms."""

    def __init__(self, p: Product, dtype: np.dtype) -> None:
        self.p, self.b, self.dtype = p, p.b, dtype
        self.batch, rows, self.left_dims = p.stacked()
        self.rows, self.n, self.k = (size or 0 for size in p.sizes(rows))

    # -- which form ------------------------------------------------------------------------
    @property
    def is_direct(self) -> bool:
        """Whether code of its own, written for the sizes, makes it, or blocks of its rows."""
        sizes = (self.rows, self.n, self.k)
        name = f"gemm_{self.dtype}"
        return self.b.target.is_direct(name, sizes) or self.p.block is not None

    @property
    def has_few_sums(self) -> bool:
        return self.rows * self.n <= _MOST_SUMS and self.k >= 4 * _FEWEST_TERMS

    def _pays_beside(self, few: int, many: int, lies_along: bool) -> bool:
        """Whether so few sums at a time, in vectors along the terms, take less than in vectors
        along themselves, of which a step of a term fills a small part."""
        k, lanes = self.k, _VECTOR // self.dtype.itemsize
        if few > _MOST_BESIDE or k < _FEWEST_TERMS:
            return False
        to_move = 0 if lies_along else _TO_MOVE * k / many
        return few * (k / lanes + _AROUND + to_move) < k

    @property
    def has_few_columns(self) -> bool:
        if self.p.transpose_x:
            return False
        return self._pays_beside(self.n, self.rows, self.p.transpose_y)

    @property
    def has_few_rows(self) -> bool:
        if not self.p.transpose_y:
            return False
        return self._pays_beside(self.rows, self.n, not self.p.transpose_x)

    @property
    def is_of_rows(self) -> bool:
        is_few = self.rows <= _MOST_ROWS and self.n >= _FEWEST_COLUMNS
        return is_few and not self.p.transpose_y and not self.is_direct

    # -- operands --------------------------------------------------------------------------
    def _matrix(
        self, v: Value, dims: dm.Shape, transposed: bool, along: bool | None = None
    ) -> Callable[[tuple[Expr, ...], Expr, Expr], Expr]:
        """Elements of an operand by batch, row and column of what it is as an operand; with
        ``along``, laid down so that its rows (true) or its columns are runs of memory."""
        if along is not None and along == transposed and not dm.is_one(dims[-1]):
            v, dims, transposed = swapped(self.b, v), (*dims[:-2], *dims[:-3:-1]), not transposed
        held = self.b.contiguous(v)

        def element(batch: tuple[Expr, ...], row: Expr, column: Expr) -> Expr:
            at = (column, row) if transposed else (row, column)
            place = self.b.linear((*self.p.stack_index(dims, batch), *at), dims)
            found = ir.load(held, (place,))
            assert isinstance(found, Expr)
            return sc.cast(found, self.dtype)

        return element

    def _left(self, along: bool | None = None) -> Callable[..., Expr]:
        return self._matrix(self.p.x, self.left_dims, self.p.transpose_x, along)

    def _right(self, along: bool | None = None) -> Callable[..., Expr]:
        return self._matrix(self.p.y, self.p.yd, self.p.transpose_y, along)

    def _place(self, batch: tuple[Expr, ...], row: Expr, column: Expr) -> Expr:
        return self.b.linear((*batch, row, column), (*self.batch, self.rows, self.n))

    # -- the forms -------------------------------------------------------------------------
    def all_at_once(self, out: Buffer) -> None:
        left, right = self._left(), self._right()
        every = [(i, j) for i in range(self.rows) for j in range(self.n)]
        with self.b.kernel(), self.b.loops(self.batch) as batch:
            self._sums(out, batch, [(_number(i), _number(j)) for i, j in every], left, right)

    def columns_beside(self, out: Buffer) -> None:
        left, right = self._left(), self._right(along=False)
        with self.b.kernel(), self.b.loops((*self.batch, self.rows)) as (*batch, i):
            places = [(i, _number(j)) for j in range(self.n)]
            self._sums(out, tuple(batch), places, left, right)

    def rows_beside(self, out: Buffer) -> None:
        left, right = self._left(along=True), self._right()
        with self.b.kernel(), self.b.loops((*self.batch, self.n)) as (*batch, j):
            places = [(_number(i), j) for i in range(self.rows)]
            self._sums(out, tuple(batch), places, left, right)

    def _sums(
        self,
        out: Buffer,
        batch: tuple[Expr, ...],
        places: list[tuple[Expr, Expr]],
        left: Callable[..., Expr],
        right: Callable[..., Expr],
    ) -> None:
        """Results at some places, whose sums grow beside each other."""
        b = self.b
        targets = b.mutable(*(sc.const(0.0, self.dtype) for _ in places))
        with b.loops((self.k,), "reduction") as (q,):
            values = [
                t + left(batch, i, q) * right(batch, q, j) for t, (i, j) in zip(targets, places)
            ]
            b.emit(ir.Assign(targets, tuple(values), True))
        for target, (i, j) in zip(targets, places):
            b.emit(ir.Store(out, (self._place(batch, i, j),), target))

    def rows_of_terms(self, out: Buffer) -> None:
        b, n, k = self.b, self.n, self.k
        left, right = self._left(), self._right()
        width = -(-n // -(-n // _COLUMNS))
        with (
            b.kernel() as kernel,
            b.loops(self.batch) as batch,
            b.loop(_number(-(-n // width)), "independent") as number,
        ):
            first = number * _number(width)
            size = _number(width)
            if n % width:
                size = sc.binary("minimum", _number(n) - first, size)
            whole = _Rows(self, out, lambda i, j: self._place(batch, i, first + j), size)
            if k <= PART:
                whole.clear()
                whole.add_terms(batch, first, ZERO, k, left, right)
                return
            held = b.local(kernel, self.rows * width, self.dtype)
            part = _Rows(self, held, lambda i, j: i * _number(width) + j, size)
            whole.clear()
            with b.loop(_number(k // PART), "reduction") as count:
                part.clear()
                part.add_terms(batch, first, count * _number(PART), PART, left, right)
                whole.add(part)
            if k % PART:
                part.clear()
                part.add_terms(batch, first, _number(k - k % PART), k % PART, left, right)
                whole.add(part)


class _Rows:
    """Some columns of all rows of the result, or memory for as many."""

    def __init__(
        self, thin: _Thin, buffer: Buffer, place: Callable[[Expr, Expr], Expr], size: Expr
    ) -> None:
        self.b, self.dtype, self.buffer, self.place, self.size = (
            thin.b, thin.dtype, buffer, place, size,
        )  # fmt: skip
        self.rows = [_number(i) for i in range(thin.rows)]
        self.together = _TOGETHER if thin.rows > 1 else _TOGETHER_OF_ONE

    def element(self, row: Expr, column: Expr) -> Expr:
        found = ir.load(self.buffer, (self.place(row, column),))
        assert isinstance(found, Expr)
        return found

    def _put(self, value: Callable[[Expr, Expr], Expr]) -> None:
        with self.b.loop(self.size) as column:
            for row in self.rows:
                self.b.emit(ir.Store(self.buffer, (self.place(row, column),), value(row, column)))

    def clear(self) -> None:
        self._put(lambda i, j: sc.const(0.0, self.dtype))

    def add(self, other: _Rows) -> None:
        self._put(lambda i, j: self.element(i, j) + other.element(i, j))

    def add_terms(
        self,
        batch: tuple[Expr, ...],
        first: Expr,
        start: Expr,
        count: int,
        left: Callable[..., Expr],
        right: Callable[..., Expr],
    ) -> None:
        """Add so many terms from ``start`` on, some at a time."""
        together = self.together

        def add(start: Expr, count: int) -> None:
            def total(i: Expr, j: Expr) -> Expr:
                value = self.element(i, j)
                for k in range(count):
                    q = start + _number(k)
                    value = value + left(batch, i, q) * right(batch, q, first + j)
                return value

            self._put(total)

        with self.b.loop(_number(count // together), "reduction") as some:
            if count >= together:
                add(start + some * _number(together), together)
        if count % together:
            add(start + _number(count - count % together), count % together)


def _number(n: int) -> Expr:
    return sc.const(n, dt.int64) if n else ZERO


# The first that holds of a product makes it.
_FORMS: tuple[tuple[Callable[[_Thin], bool], Callable[[_Thin, Buffer], None]], ...] = (
    (lambda t: t.has_few_sums, _Thin.all_at_once),
    (lambda t: t.has_few_columns, _Thin.columns_beside),
    (lambda t: t.has_few_rows, _Thin.rows_beside),
    (lambda t: t.is_of_rows, _Thin.rows_of_terms),
)
