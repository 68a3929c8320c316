"""Lowerings of sorting: each row by its keys, unsigned ints in the order of the elements.

A row is sorted by one thread (``sorting_rows.py``), a long one that is alone by all of them, in
pieces (``sorting_pieces.py``) or parts (``sorting_parts.py``), and many short ones side by side by
a network (``sorting_networks.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value
from phix.kernels.loops.nodes import ONE, Buffer, Kernel
from phix.kernels.lowering import sorting_networks, sorting_pieces, sorting_steps
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import moved_axis
from phix.kernels.lowering.sort_keys import element_of, sort_key
from phix.kernels.lowering.sorting_packed import PackedParts, PackedRow, is_packed
from phix.kernels.lowering.sorting_parts import PartedRow
from phix.kernels.lowering.sorting_pieces import LongRow
from phix.kernels.lowering.sorting_rows import Keys, Row, sorts_by_vectors
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]


def rows_of(b: Builder, x: Value, axis: int) -> Value:
    """``x`` with the axis to be sorted moved to the end."""
    rank = len(x.dims)
    return moved_axis(b, x, axis, rank - 1) if rank and axis != rank - 1 else x


class Way:
    """How ``rows``, along their ``sorted_axis``, are sorted.

    ``network``: by a network, or one by one; an expression, 1 or 0, where the sizes that the
    program gets decide. A network takes rows as they lie, else the axis is moved to the end.
    """

    def __init__(self, b: Builder, x: Value, axis: int) -> None:
        self.b, self.axis = b, axis
        self.rows, self.sorted_axis = x, axis
        self.network = sorting_networks.choice(b, x, axis)
        if self.network is not True:
            self.rows, self.sorted_axis = rows_of(b, x, axis), len(x.dims) - 1
            self.network = sorting_networks.choice(b, self.rows, self.sorted_axis)

    def first(self) -> Indices:
        """The first row, which has no other beside it."""
        return (ZERO,) * (len(self.rows.dims) - 1)

    @contextmanager
    def heads(self) -> Iterator[Indices]:
        """Loops over the rows that are sorted one by one: over none, where a network does it."""
        b, dims = self.b, self.rows.dims[:-1]
        if isinstance(self.network, bool):
            with b.loops(dims, "independent") as head:
                yield head
            return
        count = b.dim(dims[0]) * (1 - self.network)
        with b.loop(count, "independent") as first, b.loops(dims[1:], "independent") as rest:
            yield (first, *rest)

    def written(
        self,
        count: dm.DimLike,
        dtypes: tuple[np.dtype, ...],
        by_network: Callable[[Expr], Callable[..., None]],
        one_by_one: Callable[..., None],
    ) -> tuple[Value, ...]:
        """What the two ways write, ``count`` elements a row, with the axis where it was."""
        dims = list(self.rows.dims)
        dims[self.sorted_axis] = count

        def write(*buffers: Buffer) -> None:
            if self.network is not False:
                turns = ONE if self.network is True else self.network
                by_network(turns)(*buffers)
            if self.network is not True:
                one_by_one(*buffers)

        made = self.b.written([MetaTensor(tuple(dims), d) for d in dtypes], write)
        return tuple(moved_axis(self.b, v, self.sorted_axis, self.axis) for v in made)


@lowering("sort", "whole")
def sort(b: Builder, x: Value, axis: int, descending: bool, *stable: bool, task: Task) -> Value:
    if not b.target.sorts_in_loops:
        return sorting_steps.sort(b, task, x, axis, descending)
    if not x.dims:
        return x
    dtype, way = x.dtype, Way(b, x, axis)
    rows = way.rows

    def key(head: Indices) -> Callable[[Expr], Expr]:
        return lambda i: sort_key(read(b, rows, (*head, i)), descending, True)

    def put(row: Keys, head: Indices, out: Buffer) -> None:
        with b.loop(row.n) as i:
            b.store(out, (*head, i), element_of(row.sorted_key(i), dtype, descending))

    def write(out: Buffer) -> None:
        if sorting_pieces.choice(rows):
            long, head = _long(b, rows.dims[-1], dtype, False), way.first()
            long.sort(key(head))
            with b.kernel():
                put(long, head, out)
            return
        with b.kernel() as kernel:
            row = Row(b, kernel, rows.dims[-1], dtype, False)
            with way.heads() as head:
                row.sort(key(head))
                put(row, head, out)

    network = partial(sorting_networks.sort, b, rows, way.sorted_axis, descending)
    return way.written(x.dims[axis], (dtype,), network, write)[0]


def _long(b: Builder, size: dm.DimLike, dtype: np.dtype, with_order: bool) -> LongRow | PartedRow:
    """A long row, to be sorted in one of some ways."""
    if with_order and is_packed(b, dtype, size):
        return PackedParts(b, size)
    way = PartedRow if sorts_by_vectors(b, dtype, with_order) else LongRow
    return way(b, size, dtype, with_order)


def _row(b: Builder, kernel: Kernel, size: dm.DimLike, dtype: np.dtype) -> Row:
    """A row whose order is asked for."""
    if is_packed(b, dtype, size):
        return PackedRow(b, kernel, size)
    return Row(b, kernel, size, dtype, True)


def read(b: Builder, x: Value, indices: Indices) -> Expr:
    element = b.element(x, indices)
    assert isinstance(element, Expr)
    return element


@lowering("argsort", "whole")
def argsort(
    b: Builder, x: Value, axis: int, descending: bool, stable: bool, *, task: Task
) -> tuple[Value, ...]:
    if not b.target.sorts_in_loops:
        return sorting_steps.argsort(b, task, x, axis, descending)
    return ordered(b, x, axis, descending, x.dims[axis] if x.dims else 1)


def ordered(
    b: Builder, x: Value, axis: int, descending: bool, count: dm.DimLike
) -> tuple[Value, ...]:
    """The first ``count`` elements of each sorted row, and where they were."""
    if not x.dims:
        return x, b.constant(0, (), dt.int64)
    way = Way(b, x, axis)
    rows = way.rows

    def key(head: Indices) -> Callable[[Expr], Expr]:
        return lambda i: sort_key(read(b, rows, (*head, i)), descending, False)

    def write(out: Buffer, indices: Buffer) -> None:
        if rows.buffer is None and rows.cost > CHEAP:
            b.materialize(rows)
        if sorting_pieces.choice(rows):
            long, head = _long(b, rows.dims[-1], x.dtype, True), way.first()
            long.sort(key(head))
            with b.kernel():
                picked(b, count, rows, head, long.sorted_from, out, indices)
            return
        with b.kernel() as kernel:
            row = _row(b, kernel, rows.dims[-1], x.dtype)
            with way.heads() as head:
                row.sort(key(head))
                picked(b, count, rows, head, row.sorted_from, out, indices)

    network = partial(sorting_networks.argsort, b, rows, way.sorted_axis, descending, count)
    return way.written(count, (x.dtype, dt.int64), network, write)


def picked(
    b: Builder,
    count: dm.DimLike,
    rows: Value,
    head: Indices,
    place: Callable[[Expr], Expr],
    out: Buffer,
    indices: Buffer,
) -> None:
    """Store ``count`` elements of the row ``head``, and their places."""
    with b.loop(b.dim(count)) as i:
        b.store(indices, (*head, i), place(i))
    with b.loop(b.dim(count)) as i:
        b.store(out, (*head, i), b.element(rows, (*head, place(i))))


def in_rows(
    b: Builder, x: Value, rows: Value, axis: int, count: dm.DimLike, write: Callable[..., None]
) -> tuple[Value, ...]:
    """What ``write`` puts into values and indices of rows, with the axis where ``x`` has it."""
    dims = (*rows.dims[:-1], count)
    made = b.written((MetaTensor(dims, x.dtype), MetaTensor(dims, dt.int64)), write)
    if rows is x:
        return made
    return tuple(moved_axis(b, v, len(x.dims) - 1, axis) for v in made)
