"""Lowerings of argmax and argmin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.reduction import (
    MAX,
    MIN,
    Monoid,
    converted,
    parts,
    reduce_value,
    whole,
)
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Where the extreme of more elements than this is, is found in blocks of so many.
_BLOCK = 4096
# ... and of a row among several. Where its size is unknown, blocks may be short: their last
# elements, which are taken one by one, would take longer than to read the row again.
_BLOCK_OF_ROW = 256
# Columns whose extremes so far are kept at a time, in the first cache, and how many rows of them
# are compared between a load and a store of them.
_COLUMNS, _ROWS = 1024, 8
# Rows of fewer are no vectors, of which one is compared with one.
_FEWEST_COLUMNS = 16


def _argument_of(op_name: str, monoid: Monoid) -> None:
    @lowering(op_name, "reduce")
    def rule(
        b: Builder, x: Value, axis: int, _: bool, flatten: bool, *dtype: Any, task: Task
    ) -> Value:
        return _argument(b, x, axis, flatten, monoid, task.out)


_argument_of("argmax", MAX)
_argument_of("argmin", MIN)


def _argument(
    b: Builder, x: Value, axis: int, flatten: bool, monoid: Monoid, meta: MetaTensor
) -> Value:
    """Where the extreme element is, the first of equals: find its value, then its least index."""
    if not x.dims:
        return b.constant(0, meta.dims, meta.dtype)
    if flatten:
        x, axis = b.view(x, (dm.product(x.dims),)), 0
    found, block = None, _block_of(x, axis)
    if b.target.sums_in_memory and block is not None:
        found = _argument_by_blocks(b, x, monoid, block)
    elif b.target.sums_in_memory and _has_columns(x, axis):
        found = _argument_of_columns(b, x, axis, monoid)
    if found is not None:
        return converted(b, b.view(found, meta.dims), meta.dtype)
    kept = x.dims[:axis] + x.dims[axis + 1 :]
    extreme = reduce_value(b, x, (axis,), monoid, MetaTensor(kept, x.dtype))
    size = b.dim(x.dims[axis])

    def at(indices: tuple[Expr, ...]) -> Element:
        if x.cost > CHEAP and x.buffer is None:
            b.materialize(x)
        best = b.element(extreme, indices[:axis] + indices[axis + 1 :])
        return sc.select(_is_extreme(b.element(x, indices), best), indices[axis], size)

    candidates = Value(x.dims, dt.int64, at, None, x.cost + 4)
    index = reduce_value(b, candidates, (axis,), MIN, MetaTensor(kept, dt.int64))
    out = b.view(index, meta.dims)
    if meta.dtype == dt.int64:
        return out
    return converted(b, out, meta.dtype)


def _block_of(x: Value, axis: int) -> int | None:
    """The size of the blocks in which an extreme is looked for along the axis; None: in none."""
    size = x.dims[axis]
    if axis != len(x.dims) - 1:
        return None
    if len(x.dims) == 1:
        return None if isinstance(size, int) and size <= _BLOCK else _BLOCK
    return _BLOCK_OF_ROW if isinstance(size, int) and size > _BLOCK_OF_ROW else None


def _argument_by_blocks(b: Builder, x: Value, monoid: Monoid, most: int) -> Value:
    """The same of whole rows: of the extremes of their blocks, then in the first that has it.

    What lies in memory is then read once, and not again for its place.
    """
    *rows, dim = x.dims
    size, count = b.dim(dim), b.dim(blocks := (dim + (most - 1)) // most)
    initial = constant(monoid.initial(x.dtype), x.dtype)
    is_even = isinstance(dim, int) and dim % most == 0

    def length(block: Expr) -> Expr:
        whole_block = sc.const(most, dt.int64)
        return whole_block if is_even else sc.binary("minimum", whole_block, size - block * most)

    def extremes(out: Buffer) -> None:
        if x.cost > CHEAP and x.buffer is None:
            b.materialize(x)  # sums made twice, in two orders, may differ: none would be extreme
        with b.kernel(), b.loops(tuple(rows)) as row, b.loop(count) as block:
            total = b.mutable(*parts(initial))
            with b.loop(length(block), "reduction") as i:
                new = monoid.combine(whole(total), b.element(x, (*row, block * most + i)))
                b.emit(ir.Assign(total, parts(new), monoid.reassociate))
            b.store(out, (*row, block), whole(total))

    def first(extent: Expr, read: Callable[[Expr], Element], best: Expr, none: Expr) -> Expr:
        """The least index with the value ``best``."""
        (found,) = b.mutable(none)
        with b.loop(extent, "reduction") as i:
            at = sc.select(_is_extreme(read(i), best), i, none)
            b.emit(ir.Assign((found,), (sc.binary("minimum", found, at),)))
        return found

    def index(out: Buffer) -> None:
        b.materialize(found)
        with b.kernel(), b.loops(tuple(rows)) as row:
            (best,) = b.mutable(*parts(initial))
            with b.loop(count, "reduction") as k:
                b.emit(ir.Assign((best,), (monoid.combine(best, b.element(found, (*row, k))),)))
            block = first(count, lambda k: b.element(found, (*row, k)), best, count)
            start = block * most
            inside = first(length(block), lambda i: b.element(x, (*row, start + i)), best, size)
            b.store(out, row, start + inside)

    (found,) = b.written((MetaTensor((*rows, blocks), x.dtype),), extremes)
    return b.written((MetaTensor(tuple(rows), dt.int64),), index)[0]


# -- down the columns ------------------------------------------------------------------------


def _has_columns(x: Value, axis: int) -> bool:
    """Whether many elements lie side by side, each compared with those of its column."""
    tail = x.dims[axis + 1 :]
    inner = dm.product(tail)
    is_wide = bool(tail) and (not isinstance(inner, int) or inner >= _FEWEST_COLUMNS)
    lies_apart = x.buffer is not None and x.buffer.strided
    return is_wide and not lies_apart and x.dtype.kind in "fiu"


def _argument_of_columns(b: Builder, x: Value, axis: int, monoid: Monoid) -> Value:
    """Where the extremes of columns are. For some columns at a time, what they are so far stands
    beside where it is, so that all is read once."""
    head, dim, tail = x.dims[:axis], x.dims[axis], x.dims[axis + 1 :]
    if len(tail) > 1 and not x.is_flat:
        b.materialize(x)
    outer, inner = dm.product(head), dm.product(tail)
    rows = b.view(x, (outer, dim, inner))
    place = _dtype_of_places(x, dim)

    def write(out: Buffer) -> None:
        with b.kernel() as kernel, b.loop(b.dim(outer)) as o, b.loop(_blocks(b, inner)) as block:
            first, count = block * _COLUMNS, _length(b, inner, block)
            so_far = tuple(b.local(kernel, _COLUMNS, dtype) for dtype in (x.dtype, place))

            def compare(row: Expr, several: int) -> None:
                with b.loop(count) as j:
                    best, at = b.mutable(*(_load(buffer, j) for buffer in so_far))
                    for i in (row + k for k in range(several)):
                        new = _real(b.element(rows, (o, i, first + j)))
                        both = ((new, best), (sc.cast(i, place), at))
                        is_better = _is_better(new, best, monoid)
                        b.emit(ir.Assign((best, at), tuple(sc.select(is_better, *e) for e in both)))
                    for buffer, value in zip(so_far, (best, at)):
                        b.put(buffer, j, value)

            with b.loop(count) as j:
                b.put(so_far[0], j, b.element(rows, (o, ZERO, first + j)))
                b.put(so_far[1], j, sc.const(0, place))
            for start, times, several in _rows_behind_the_first(b, dim):
                with b.loop(times, "reduction") as k:
                    compare(start + k * several, several)
            with b.loop(count) as j:
                b.store(out, (o, first + j), sc.cast(_load(so_far[1], j), dt.int64))

    return b.written((MetaTensor((outer, inner), dt.int64),), write)[0]


def _dtype_of_places(x: Value, dim: DimLike) -> np.dtype:
    """What places are kept in: as many bytes as an element has, if they fit in."""
    is_short = isinstance(dim, int) and dim < 1 << 31
    return dt.int32 if is_short and x.dtype.itemsize <= 4 else dt.int64


def _blocks(b: Builder, inner: DimLike) -> Expr:
    return b.dim(dm.floordiv(inner + (_COLUMNS - 1), _COLUMNS))


def _length(b: Builder, inner: DimLike, block: Expr) -> Expr:
    """How many columns a block has."""
    if isinstance(inner, int) and (inner <= _COLUMNS or inner % _COLUMNS == 0):
        return sc.const(min(inner, _COLUMNS), dt.int64)
    return sc.binary("minimum", sc.const(_COLUMNS, dt.int64), b.dim(inner) - block * _COLUMNS)


def _rows_behind_the_first(b: Builder, dim: DimLike) -> list[tuple[Expr, Expr, int]]:
    """Runs of rows: where each starts, how often it goes on, and by how many rows."""
    times = dm.floordiv(dim - 1, _ROWS)
    others = 1 + times * _ROWS
    runs = [(1, times, _ROWS), (others, dim - others, 1)]
    return [(b.dim(at), b.dim(n), rows) for at, n, rows in runs if not dm.is_zero(n)]


def _load(buffer: Buffer, at: Expr) -> Expr:
    return Expr("load", (at,), ir.scalar_dtype(buffer.dtype), buffer)


def _real(element: Element) -> Expr:
    assert isinstance(element, Expr)
    return element


def _is_better(new: Expr, best: Expr, monoid: Monoid) -> Expr:
    """Whether an element comes before the best one so far: NaN before all, the first of equals."""
    if new.dtype.kind != "f":
        return best < new if monoid is MAX else new < best
    is_not_worse = new <= best if monoid is MAX else best <= new
    return ~is_not_worse & sc.eq(best, best)


def _is_extreme(element: Element, best: Element) -> Expr:
    assert isinstance(element, Expr) and isinstance(best, Expr)
    is_it = sc.eq(element, best)
    if element.dtype.kind == "f":
        is_it = is_it | sc.ne(element, element)  # there is a NaN only if the extreme is NaN
    return is_it
