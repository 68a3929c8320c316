"""Lowerings of sums of rows, and of products of two sparse matrices: loops over rows.

Each row goes through its terms with a table over the columns of the product, which it leaves as the
next row needs it. Rows are taken in a few groups, which threads share, with a table for each.
Where ints are no such rows, what comes out means nothing, but all stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Element, Kernel
from phix.kernels.lowering import sparse_product_steps as steps
from phix.kernels.lowering.host_steps import host
from phix.kernels.lowering.reduction import (
    as_dtype,
    converted,
    parts,
    sum_of,
    whole,
)
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Groups of rows: a table is cleared once for each.
_GROUPS, _LEAST_ROWS = 16, 64
# Bits of a word; the bits of up to so many columns are counted, those of more looked for, from few
# words on.
_WORD, _RANKED, _FEW_WORDS, _MOST_LEVELS = 64, 1 << 14, 64, 5
UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)


class _Matrix(NamedTuple):
    """Where the rows of a sparse matrix begin, the column of each entry, and how many there are."""

    starts: Buffer
    cols: Buffer
    columns: dm.DimLike

    @property
    def rows(self) -> dm.DimLike:
        return self.starts.dims[0] - 1

    @property
    def size(self) -> dm.DimLike:
        return self.cols.dims[0]


def _matrix(b: Builder, starts: Value, cols: Value, columns: dm.DimLike) -> _Matrix:
    """A matrix whose ints are brought inside once, before any loop goes by them."""
    size = cols.dims[0] * dm.minimum(columns, 1)  # without columns there are no entries
    is_short = isinstance(columns, int) and columns < 1 << 32
    return _Matrix(
        _inside(b, starts, size + 1, dt.int64),
        _inside(b, cols, columns, UINT32 if is_short else dt.int64),
        columns,
    )


def _inside(b: Builder, x: Value, size: dm.DimLike, dtype: np.dtype) -> Buffer:
    """Ints from 0 to less than the size."""

    def at(i: Expr) -> Expr:
        element = b.element(x, (i,))
        assert isinstance(element, Expr)
        found = sc.binary("minimum", sc.cast(element, dt.int64), b.dim(size) - 1)
        return sc.cast(sc.binary("maximum", found, ZERO), dtype)

    return b.contiguous(Value(x.dims, dtype, lambda idx: at(idx[0]), at))


def _int_at(buffer: Buffer, i: Expr) -> Expr:
    element = ir.load(buffer, (i,))
    assert isinstance(element, Expr)
    return sc.cast(element, dt.int64)


@contextmanager
def _entries(b: Builder, starts: Buffer, row: Expr) -> Iterator[Expr]:
    """A loop over the entries of a row."""
    (begin,) = b.mutable(_int_at(starts, row))
    (end,) = b.mutable(_int_at(starts, row + 1))
    with b.loop(end - begin, "reduction") as i:
        yield begin + i


def _column(b: Builder, matrix: _Matrix, entry: Expr) -> Expr:
    """The column of an entry."""
    return b.mutable(_int_at(matrix.cols, entry))[0]


@contextmanager
def _met(b: Builder, x: _Matrix, y: _Matrix, k: Expr) -> Iterator[tuple[Expr, Expr]]:
    """A loop over the terms of an entry k of x: the entry of y, and the column."""
    of = _column(b, x, k)
    with _entries(b, y.starts, of) as m:
        yield m, _column(b, y, m)


@contextmanager
def _terms(b: Builder, x: _Matrix, y: _Matrix, row: Expr) -> Iterator[tuple[Expr, Expr, Expr]]:
    """Loops over the terms of a row: the entry of x, that of y, and the column."""
    with _entries(b, x.starts, row) as k, _met(b, x, y, k) as (m, column):
        yield k, m, column


@contextmanager
def _rows(
    b: Builder, rows: dm.DimLike, clear: Callable[[], None], shares: bool = True
) -> Iterator[tuple[Expr, Expr]]:
    """A loop over all rows, in groups: the row, and its number in its group from 0."""
    if not shares:
        clear()
        with b.loop(b.dim(rows), "reduction") as i:
            yield i, i
        return
    each = dm.maximum(dm.floordiv(rows + (_GROUPS - 1), _GROUPS), _LEAST_ROWS)
    groups, size = dm.floordiv(rows + each - 1, each), b.dim(each)
    with b.loop(b.dim(groups), "independent") as group:
        clear()
        (first,) = b.mutable(group * size)
        with b.loop(sc.binary("minimum", size, b.dim(rows) - first), "reduction") as i:
            yield first + i, i


def _cleared(b: Builder, table: Buffer) -> None:
    with b.loop(b.dim(table.dims[0])) as i:
        b.put(table, i, constant(0, table.dtype))


# -- sums of rows --------------------------------------------------------------------------------
@lowering("segment_sum_csr", "whole")
def segment_sum(b: Builder, x: Value, starts: Value, *, task: Task) -> Value:
    """Each sum goes over its own rows of x, so threads share the sums."""
    (meta,) = task.metas
    wide = MetaTensor(meta.dims, dt.accumulator_dtype(meta.dtype))
    by_rows = bool(x.dims[1:]) and b.target.sums_in_memory

    def write(out: Buffer) -> None:
        ends = _inside(b, starts, x.dims[0] + 1, dt.int64)
        (_rows_summed if by_rows else _elements_summed)(b, x, ends, out)

    return converted(b, b.written((wide,), write)[0], meta.dtype)


def _rows_summed(b: Builder, x: Value, starts: Buffer, out: Buffer) -> None:
    """Row by row of x, added to one of ``out``, which the first cache holds."""
    monoid, zero = sum_of(out.dtype), constant(0, out.dtype)
    with b.kernel(), b.loop(b.dim(out.dims[0]), "independent") as row:
        first = row * b.dim(dm.product(out.dims[1:]))
        with b.loops((dm.product(out.dims[1:]),)) as (i,):
            b.put(out, first + i, zero)
        with _entries(b, starts, row) as k, b.loops(x.dims[1:]) as idx:
            at = first + b.linear(idx, out.dims[1:])
            new = as_dtype(b.element(x, (k, *idx)), out.dtype)
            b.put(out, at, monoid.combine(ir.load(out, (at,)), new))


def _elements_summed(b: Builder, x: Value, starts: Buffer, out: Buffer) -> None:
    """Element by element of ``out``, its sum in a register, that of float32 in float64."""
    monoid = sum_of(out.dtype)
    dtype = dt.float64 if out.dtype == dt.float32 and b.target.sums_in_memory else out.dtype
    with b.kernel(), b.loop(b.dim(out.dims[0]), "independent") as row, b.loops(out.dims[1:]) as idx:
        total = b.mutable(*parts(constant(0, dtype)))
        with _entries(b, starts, row) as k:
            new = monoid.combine(whole(total), as_dtype(b.element(x, (k, *idx)), dtype))
            b.emit(ir.Assign(total, parts(new), monoid.reassociate))
        b.store(out, (row, *idx), as_dtype(whole(total), out.dtype))


# -- how many, and which -------------------------------------------------------------------------
@lowering("sparse_product_counts", "whole")
def counts(
    b: Builder, x_starts: Value, x_cols: Value, y_starts: Value, y_cols: Value,
    columns: dm.DimLike, *, task: Task,
) -> Value:  # fmt: skip
    inputs = (x_starts, x_cols, y_starts, y_cols)
    if not b.target.sorts_in_loops:
        return host(b, task, "sparse_product_counts", steps.counts, *inputs)[0]

    def write(out: Buffer) -> None:
        y = _matrix(b, y_starts, y_cols, columns)
        x = _matrix(b, x_starts, x_cols, y.rows)
        with b.kernel() as kernel:
            seen = b.local(kernel, dm.maximum(columns, 1), UINT32)  # by which row, from 1
            with _rows(b, x.rows, lambda: _cleared(b, seen)) as (row, number):
                (count,) = b.mutable(ZERO)
                (stamp,) = b.mutable(sc.cast(number + 1, UINT32))
                with _terms(b, x, y, row) as (_, _, column):
                    old = ir.load(seen, (column,))
                    assert isinstance(old, Expr)
                    b.emit(ir.Assign((count,), (count + sc.cast(sc.ne(old, stamp), dt.int64),)))
                    b.emit(ir.Store(seen, (column,), stamp))
                b.store(out, (row,), count)

    return b.written(task.metas, write)[0]


class _Marks:
    """The columns of a row as bits of words."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def word(self, words: Buffer, i: Expr) -> Expr:
        word = ir.load(words, (i,))
        assert isinstance(word, Expr)
        return word

    def set(self, words: Buffer, column: Expr) -> tuple[Expr, Expr, Expr]:
        """Mark a column: the word, its bit, and the word as it was."""
        at = column >> 6
        bit = sc.const(1, UINT64) << sc.cast(column & (_WORD - 1), UINT64)
        (old,) = self.b.mutable(self.word(words, at))
        self.b.emit(ir.Store(words, (at,), old | bit))
        return at, bit, old


class _Ranked(_Marks):
    """A column's place in its row: how many bits stand before its own. For a few words."""

    def __init__(self, b: Builder, kernel: Kernel, columns: int) -> None:
        super().__init__(b)
        count = -(-columns // _WORD)
        self.words, self.before = (b.local(kernel, count, d) for d in (UINT64, dt.int64))
        self.listed = b.local(kernel, columns + 1, UINT32)  # as they come, each once

    def clear(self) -> None:
        _cleared(self.b, self.words)

    def begin(self) -> None:
        (self.count,) = self.b.mutable(ZERO)

    def mark(self, column: Expr) -> None:
        b = self.b
        _, bit, old = self.set(self.words, column)
        b.emit(ir.Store(self.listed, (self.count,), sc.cast(column, UINT32)))
        is_new = sc.cast(sc.eq(old & bit, 0), dt.int64)
        b.emit(ir.Assign((self.count,), (self.count + is_new,)))

    def put(self, store: Callable[[Expr, Expr], None]) -> None:
        """Call for each column that is marked, with its place; none is then."""
        b = self.b
        (total,) = b.mutable(ZERO)
        with b.loop(b.dim(self.words.dims[0]), "reduction") as i:
            b.emit(ir.Store(self.before, (i,), total))
            b.emit(ir.Assign((total,), (total + _ones(self.word(self.words, i)),)))
        with b.loop(self.count, "reduction") as k:
            (column,) = b.mutable(_int_at(self.listed, k))
            bit = sc.const(1, UINT64) << sc.cast(column & (_WORD - 1), UINT64)
            lower = _ones(self.word(self.words, column >> 6) & (bit - 1))
            store(_int_at(self.before, column >> 6) + lower, column)
        self.clear()


def _ones(word: Expr) -> Expr:
    """How many bits of a word are set: in pairs, fours and bytes, and of all bytes."""
    pairs = word - ((word >> 1) & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    in_bytes = (fours + (fours >> 4)) & 0x0F0F0F0F0F0F0F0F
    return sc.cast((in_bytes * 0x0101010101010101) >> 56, dt.int64)


class _Levels(_Marks):
    """Words with bits in them are bits of other words, and so on: for any number of columns."""

    def __init__(self, b: Builder, kernel: Kernel, columns: dm.DimLike) -> None:
        super().__init__(b)
        count, self.levels = dm.maximum(columns, 1), list[Buffer]()
        while len(self.levels) < _MOST_LEVELS and (not self.levels or not _is_few(count)):
            count = dm.floordiv(count + (_WORD - 1), _WORD)
            self.levels.append(b.local(kernel, count, UINT64))

    def clear(self) -> None:
        for level in self.levels:
            _cleared(self.b, level)

    def begin(self) -> None:
        pass

    def mark(self, column: Expr) -> None:
        for words in self.levels:
            column, _, _ = self.set(words, column)

    def put(self, store: Callable[[Expr, Expr], None]) -> None:
        """Call for each column that is marked, with its place; none is then."""
        (self.place,) = self.b.mutable(ZERO)
        top = len(self.levels) - 1
        with self.b.loop(self.b.dim(self.levels[top].dims[0]), "reduction") as i:
            self._take(top, i, store)

    def _take(self, level: int, i: Expr, store: Callable[[Expr, Expr], None]) -> None:
        b = self.b
        (left,) = b.mutable(self.word(self.levels[level], i))
        b.emit(ir.Store(self.levels[level], (i,), sc.const(0, UINT64)))
        with b.block(lambda body: ir.While(sc.ne(left, 0), body)):
            lowest = left & (~left + 1)
            # the exponent of a float says which bit it is
            exponent = sc.bitcast(sc.cast(lowest, dt.float64), UINT64) >> 52
            (at,) = b.mutable(i * _WORD + (sc.cast(exponent, dt.int64) - 1023))
            b.emit(ir.Assign((left,), (left ^ lowest,)))
            if level:
                self._take(level - 1, at, store)
            else:
                store(self.place, at)
                b.emit(ir.Assign((self.place,), (self.place + 1,)))


def _is_few(words: dm.DimLike) -> bool:
    return isinstance(words, int) and words <= _FEW_WORDS


@lowering("sparse_product_columns", "whole")
def product_columns(
    b: Builder, x_starts: Value, x_cols: Value, y_starts: Value, y_cols: Value, starts: Value,
    columns: dm.DimLike, size: dm.DimLike, *, task: Task,
) -> Value:  # fmt: skip
    inputs = (x_starts, x_cols, y_starts, y_cols, starts)
    if not b.target.sorts_in_loops:
        return host(b, task, "sparse_product_columns", steps.columns, *inputs)[0]

    def write(out: Buffer) -> None:
        y = _matrix(b, y_starts, y_cols, columns)
        x = _matrix(b, x_starts, x_cols, y.rows)
        first = _inside(b, starts, size + 1, dt.int64)
        b.fill(out, b.constant(0, out.dims, out.dtype))
        with b.kernel() as kernel:
            marks: _Ranked | _Levels
            if isinstance(columns, int) and 0 < columns <= _RANKED:
                marks = _Ranked(b, kernel, columns)
            else:
                marks = _Levels(b, kernel, columns)
            with _rows(b, x.rows, marks.clear) as (row, _):
                marks.begin()
                with _terms(b, x, y, row) as (_, _, column):
                    marks.mark(column)
                (to,) = b.mutable(_int_at(first, row))

                def store(place: Expr, column: Expr) -> None:
                    (at,) = b.mutable(to + place)
                    with b.block(lambda body: ir.If(at < b.dim(size), body)):
                        b.emit(ir.Store(out, (at,), column))

                marks.put(store)

    return b.written(task.metas, write)[0]


# -- sums of terms -------------------------------------------------------------------------------
class _Sums:
    """Sums over the terms, with one row of the product at a time in a table."""

    def __init__(
        self, b: Builder, x: _Matrix, y: _Matrix, product: _Matrix, factors: tuple[Buffer, Buffer]
    ) -> None:
        self.b, self.x, self.y, self.product = b, x, y, product
        self.first, self.second = factors

    def _factor(self, buffer: Buffer, i: Expr) -> Element:
        return as_dtype(ir.load(buffer, (i,)), self.dtype)

    def _add(self, buffer: Buffer, at: Expr, new: Element) -> None:
        old = as_dtype(ir.load(buffer, (at,)), self.dtype)
        self.b.put(buffer, at, as_dtype(sum_of(self.dtype).combine(old, new), buffer.dtype))

    def _times(self, x: Element, y: Element) -> Element:
        found: Element = x * y  # type: ignore[operator]
        return found

    def write(self, out: Buffer, of: str) -> None:
        b = self.b
        self.dtype = dt.float32 if out.dtype in (dt.float16, dt.bfloat16) else out.dtype
        b.fill(out, b.constant(0, out.dims, out.dtype))
        with b.kernel() as kernel:
            table = b.local(kernel, dm.maximum(self.product.columns, 1), self.dtype)
            # entries of the right matrix have terms in many rows
            with _rows(b, self.x.rows, lambda: _cleared(b, table), of != "right") as (row, _):
                getattr(self, f"_{of}")(out, table, row)

    def _product(self, out: Buffer, table: Buffer, row: Expr) -> None:
        b = self.b
        with _entries(b, self.product.starts, row) as k:
            b.put(table, _column(b, self.product, k), constant(0, table.dtype))
        with _terms(b, self.x, self.y, row) as (k, m, column):
            new = self._times(self._factor(self.first, k), self._factor(self.second, m))
            self._add(table, column, new)
        with _entries(b, self.product.starts, row) as k:
            b.put(out, k, self._factor(table, _column(b, self.product, k)))

    def _laid_out(self, table: Buffer, row: Expr) -> None:
        """The values of one row of the product in the table."""
        b = self.b
        with _entries(b, self.product.starts, row) as k:
            b.put(table, _column(b, self.product, k), self._factor(self.second, k))

    def _left(self, out: Buffer, table: Buffer, row: Expr) -> None:
        b = self.b
        self._laid_out(table, row)
        with _entries(b, self.x.starts, row) as k:
            total = b.mutable(*parts(constant(0, self.dtype)))
            with _met(b, self.x, self.y, k) as (m, column):
                new = self._times(self._factor(self.first, m), self._factor(table, column))
                b.emit(ir.Assign(total, parts(sum_of(self.dtype).combine(whole(total), new))))
            b.put(out, k, as_dtype(whole(total), out.dtype))

    def _right(self, out: Buffer, table: Buffer, row: Expr) -> None:
        b = self.b
        self._laid_out(table, row)
        with _terms(b, self.x, self.y, row) as (k, m, column):
            new = self._times(self._factor(self.first, k), self._factor(table, column))
            self._add(out, m, new)


@lowering("sparse_product_terms", "whole")
def terms(
    b: Builder, x: Value, y: Value, x_starts: Value, x_cols: Value, y_starts: Value,
    y_cols: Value, starts: Value, cols: Value, columns: dm.DimLike, of: str, *, task: Task,
) -> Value:  # fmt: skip
    places = (x_starts, x_cols, y_starts, y_cols, starts, cols)
    if not b.target.sorts_in_loops:
        return host(b, task, "sparse_product_terms", steps.terms(of), x, y, *places, of=of)[0]

    def write(out: Buffer) -> None:
        factors = b.contiguous(x), b.contiguous(y)
        right = _matrix(b, y_starts, y_cols, columns)
        left = _matrix(b, x_starts, x_cols, right.rows)
        _Sums(b, left, right, _matrix(b, starts, cols, columns), factors).write(out, of)

    return b.written(task.metas, write)[0]
