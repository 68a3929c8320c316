"""Lowerings of sorting: each row by its keys, unsigned ints in the order of the elements.

A row of some size is sorted by radix, digit by digit from the lowest, each pass stable and from
one half of a buffer to the other; a pass in which all keys have one digit is left out. A short
row is sorted by insertion, and many of them side by side by a network (``sorting_networks.py``).
The row's order, where it is asked for, travels with the keys: below them in one int if they have
32 bits, else in a buffer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value
from phix.kernels.loops.nodes import ONE, Buffer, Kernel
from phix.kernels.lowering import sorting_networks, sorting_steps
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import moved_axis
from phix.kernels.lowering.sort_keys import UINT32, UINT64, element_of, key_dtype, sort_key
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]

# Rows of up to so many elements are sorted by insertion, up to so many with short digits.
SHORT, MIDDLE = 48, 2048
_FEW_BITS, _MANY_BITS = 8, 11


# -- one row -------------------------------------------------------------------------------------
class _Row:
    """A row of ``size`` keys on its way: ``keys`` and ``order`` hold two rows, from and to."""

    def __init__(
        self, b: Builder, kernel: Kernel, size: dm.DimLike, dtype: np.dtype, with_order: bool
    ) -> None:
        self.b, self.size, self.n = b, size, b.dim(size)
        self.dtype = key_dtype(dtype)
        self.width = 8 * self.dtype.itemsize
        self.packs = with_order and self.width == 32
        self.low = 32 if self.packs else 0
        self.keys = b.local(kernel, 2 * size, UINT64 if self.packs else self.dtype)
        own = with_order and not self.packs
        self.order = b.local(kernel, 2 * size, UINT32) if own else None
        is_middle = isinstance(size, int) and size <= MIDDLE
        self.bits = _FEW_BITS if is_middle else _MANY_BITS
        self.passes = -(-self.width // self.bits)
        is_short = isinstance(size, int) and size <= SHORT
        self.counts = None if is_short else b.local(kernel, self.passes << self.bits, UINT32)

    def sort(self, key_at: Callable[[Expr], Expr]) -> None:
        """Sort the keys; sets ``start``, where in the buffers they are then."""
        b = self.b
        (self.start,) = b.mutable(ZERO)
        if self.counts is None:
            self._insert(key_at)
        elif isinstance(self.size, int):
            self._by_digits(self.counts, key_at)
        else:
            with b.block(lambda body: ir.If(self.n <= SHORT, body)):
                self._insert(key_at)
            with b.block(lambda body: ir.If(self.n > SHORT, body)):
                self._by_digits(self.counts, key_at)

    def sorted_key(self, i: Expr) -> Expr:
        return sc.cast(self._load(self.keys, self.start + i) >> self.low, self.dtype)

    def sorted_from(self, i: Expr) -> Expr:
        """Where the i-th element of the sorted row was before."""
        from_ = self._load(self.order or self.keys, self.start + i)
        return sc.cast(sc.cast(from_, UINT32), dt.int64)

    def _load(self, buffer: Buffer, i: Expr) -> Expr:
        element = ir.load(buffer, (i,))
        assert isinstance(element, Expr)
        return element

    def _take(self, i: Expr) -> list[tuple[Buffer, Expr]]:
        """What travels from place ``i``, read before anything is written."""
        buffers = [self.keys] if self.order is None else [self.keys, self.order]
        return [(f, self.b.mutable(self._load(f, i))[0]) for f in buffers]

    def _put(self, taken: list[tuple[Buffer, Expr]], i: Expr) -> None:
        self.b.emit(*(ir.Store(buffer, (i,), value) for buffer, value in taken))

    def _begin(self, key_at: Callable[[Expr], Expr], i: Expr) -> Expr:
        """Store the i-th key, with its place in the row."""
        key = key_at(i)
        if self.packs:
            key = (sc.cast(key, UINT64) << 32) | sc.cast(i, UINT64)
        (key,) = self.b.mutable(key)
        self._put([(self.keys, key)], i)
        if self.order is not None:
            self._put([(self.order, sc.cast(i, UINT32))], i)
        return key

    def _insert(self, key_at: Callable[[Expr], Expr]) -> None:
        b = self.b
        with b.loop(self.n, "reduction") as i:
            self._begin(key_at, i)
        with b.loop(self.n - 1, "reduction") as i:
            taken = self._take(i + 1)
            (at,) = b.mutable(i + 1)
            before = sc.binary("maximum", at - 1, ZERO)
            goes_on = (at > 0) & (self._load(self.keys, before) > taken[0][1])
            with b.block(lambda body: ir.While(goes_on, body)):
                self._put(self._take(at - 1), at)
                b.emit(ir.Assign((at,), (at - 1,)))
            self._put(taken, at)

    def _by_digits(self, counts: Buffer, key_at: Callable[[Expr], Expr]) -> None:
        b, size = self.b, 1 << self.bits
        zero = sc.const(0, UINT32)
        with b.loop(b.dim(self.passes * size)) as i:
            b.emit(ir.Store(counts, (i,), zero))
        with b.loop(self.n, "reduction") as i:
            key = self._begin(key_at, i)
            for digit in range(self.passes):
                at = self._digit(key, sc.const(digit, dt.int64))
                b.emit(ir.Store(counts, (at,), self._load(counts, at) + 1))
        with b.loop(b.dim(self.passes), "reduction") as number:
            (first,) = b.mutable(self._digit(self._load(self.keys, self.start), number))
            differ = sc.ne(self._load(counts, first), sc.cast(self.n, UINT32))
            with b.block(lambda body: ir.If(differ, body)):
                self._pass(counts, number)

    def _digit(self, key: Expr, number: Expr) -> Expr:
        """Where the counts have the digit of a key in one of the passes."""
        shift = sc.cast(number * self.bits + self.low, key.dtype)
        digit = (key >> shift) & ((1 << self.bits) - 1)
        return number * (1 << self.bits) + sc.cast(digit, dt.int64)

    def _pass(self, counts: Buffer, number: Expr) -> None:
        b = self.b
        first = number * (1 << self.bits)
        (total,) = b.mutable(sc.const(0, UINT32))
        with b.loop(b.dim(1 << self.bits), "reduction") as i:
            (count,) = b.mutable(self._load(counts, first + i))
            b.emit(ir.Store(counts, (first + i,), total))
            b.emit(ir.Assign((total,), (total + count,)))
        (to,) = b.mutable(self.n - self.start)
        with b.loop(self.n, "reduction") as i:
            taken = self._take(self.start + i)
            at = self._digit(taken[0][1], number)
            (place,) = b.mutable(self._load(counts, at))
            self._put(taken, to + sc.cast(place, dt.int64))
            b.emit(ir.Store(counts, (at,), place + 1))
        b.emit(ir.Assign((self.start,), (to,)))


# -- all rows ------------------------------------------------------------------------------------
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

    def write(out: Buffer) -> None:
        with b.kernel() as kernel:
            row = _Row(b, kernel, rows.dims[-1], dtype, False)
            with way.heads() as head:
                row.sort(lambda i: sort_key(read(b, rows, (*head, i)), descending, True))
                with b.loop(row.n) as i:
                    b.store(out, (*head, i), element_of(row.sorted_key(i), dtype, descending))

    network = partial(sorting_networks.sort, b, rows, way.sorted_axis, descending)
    return way.written(x.dims[axis], (dtype,), network, write)[0]


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

    def write(out: Buffer, indices: Buffer) -> None:
        if rows.buffer is None and rows.cost > CHEAP:
            b.materialize(rows)
        with b.kernel() as kernel:
            row = _Row(b, kernel, rows.dims[-1], x.dtype, True)
            with way.heads() as head:
                row.sort(lambda i: sort_key(read(b, rows, (*head, i)), descending, False))
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
