"""Rows of keys of 64 bits whose order is asked for, where the engine sorts by vectors.

A key and its place do not fit into one int, but most of what tells keys apart does: how far a key
is above the least one, without its last bits where these have no room, and below that its place.
Ints of that kind are sorted. Keys that differ in the bits left out alone then lie side by side and
are put in order by insertion. Where that takes long, the row is sorted by these bits first, and
then by the others and the places of the first sort.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder
from phix.kernels.loops.nodes import Buffer, Kernel
from phix.kernels.lowering.sort_keys import UINT32, UINT64, key_dtype
from phix.kernels.lowering.sorting_parts import PartedRow
from phix.kernels.lowering.sorting_pieces import PIECES
from phix.kernels.lowering.sorting_rows import SHORT, Keys, Row, call_sort
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

_NONE, _EVERY = sc.const(0, UINT64), ~sc.const(0, UINT64)
KeyAt = Callable[[Expr], Expr]


def is_packed(b: Builder, dtype: np.dtype, size: dm.DimLike) -> bool:
    """Whether the order of a row is found so."""
    is_short = isinstance(size, int) and size <= SHORT
    return not is_short and key_dtype(dtype) == UINT64 and b.target.sorts_by_vectors(UINT64)


class PackedRow(Row):
    """A row that a kernel sorts; its own keys are the ints."""

    def __init__(self, b: Builder, kernel: Kernel, size: dm.DimLike) -> None:
        super().__init__(b, kernel, size, UINT64, False)
        self.of_row = b.local(kernel, size, UINT64)
        self.found = b.local(kernel, size, UINT32)

    def sort(self, key_at: KeyAt) -> None:
        """Find the order."""
        b = self.b
        least, most = b.mutable(_EVERY, _NONE)
        with b.loop(self.n, "reduction") as i:
            _note(b, self.of_row, i, key_at(i), (least, most))
        packing = _Packing(self, self.of_row, (least, *_bits_of(b, self.n, least, most)))
        with b.loop(self.n) as i:
            b.emit(ir.Store(self.keys, (i,), packing.packed(i)))
        call_sort(b, self.keys, self.n, ZERO, self.n)
        packing.settle(ZERO, self.n, self.found)

    def sorted_from(self, i: Expr) -> Expr:
        """See :class:`Keys`."""
        return sc.cast(self.load(self.found, i), dt.int64)


class PackedParts(PartedRow):
    """A long row that is alone; its own keys are the ints."""

    def __init__(self, b: Builder, size: dm.DimLike) -> None:
        super().__init__(b, size, UINT64, False)
        self.of_row = b.temp((size,), UINT64)
        self.found = b.temp((size,), UINT32)
        self.seen = [b.temp((PIECES,), UINT64) for _ in range(2)]  # the least and the most
        self.bits = b.temp((3,), UINT64)  # the least of all, and see ``_bits_of``

    def _begin(self, key_at: KeyAt) -> None:
        b = self.b
        with self._pieces() as (piece, first, length):
            ends = b.mutable(_EVERY, _NONE)
            with b.loop(length, "reduction") as i:
                _note(b, self.of_row, first + i, key_at(first + i), ends)
            b.emit(*(ir.Store(seen, (piece,), end) for seen, end in zip(self.seen, ends)))
        with b.kernel():
            ends = b.mutable(_EVERY, _NONE)
            with b.loop(b.dim(PIECES), "reduction") as piece:
                _extend(b, ends, [self.load(seen, piece) for seen in self.seen])
            for k, found in enumerate((ends[0], *_bits_of(b, self.n, *ends))):
                b.emit(ir.Store(self.bits, (b.dim(k),), found))
        with self._pieces() as (_, first, length):
            packing = self._packing()
            with b.loop(length) as i:
                b.emit(ir.Store(self.keys, (first + i,), packing.packed(first + i)))

    def _packing(self) -> _Packing:
        b = self.b
        known = b.mutable(*(self.load(self.bits, b.dim(k)) for k in range(3)))
        return _Packing(self, self.of_row, known)

    def sort(self, key_at: KeyAt) -> None:
        """Find the order."""
        super().sort(key_at)
        with self.b.kernel():
            self._packing().settle(self.start, ZERO, self.found)

    def sorted_from(self, i: Expr) -> Expr:
        """See :class:`Keys`."""
        return sc.cast(self.load(self.found, i), dt.int64)


# -- ints of keys and places -----------------------------------------------------------------
def _note(b: Builder, keys: Buffer, i: Expr, key: Expr, ends: tuple[Expr, ...]) -> None:
    """Store a key, and extend the least and the most of those seen."""
    (key,) = b.mutable(key)
    b.emit(ir.Store(keys, (i,), key))
    _extend(b, ends, [key, key])


def _extend(b: Builder, ends: tuple[Expr, ...], found: list[Expr]) -> None:
    for fn, end, new in zip(("minimum", "maximum"), ends, found):
        b.emit(ir.Assign((end,), (sc.binary(fn, end, new),), True))


def _bits_of(b: Builder, n: Expr, least: Expr, most: Expr) -> tuple[Expr, ...]:
    """How many bits of an int are the place, and how many of a key are left out."""

    def bits(number: Expr) -> Expr:
        rest, count = b.mutable(number, _NONE)
        with b.block(lambda body: ir.While(sc.ne(rest, 0), body)):
            b.emit(ir.Assign((rest, count), (rest >> 1, count + 1)))
        return count

    low = bits(sc.cast(n - 1, UINT64))
    wanted = bits(most - least) + low
    return b.mutable(low, sc.select(wanted > 64, wanted - 64, 0))


class _Packing:
    """The ints of a row, whose keys are ``of_row``, in a kernel. ``known``: the least key, how many
    bits are the place, and how many of a key are left out."""

    def __init__(self, row: Keys, of_row: Buffer, known: tuple[Expr, ...]) -> None:
        self.row, self.b, self.ints, self.of_row = row, row.b, row.keys, of_row
        self.least, self.low, self.lost = known

    def packed(self, place: Expr, number: Expr | None = None) -> Expr:
        """The int of the key at a place, with that or another number below."""
        above = (self.row.load(self.of_row, place) - self.least) >> self.lost
        return self._with(above, place if number is None else number)

    def _with(self, bits: Expr, number: Expr) -> Expr:
        return (bits << self.low) | sc.cast(number, UINT64)

    def _number(self, packed: Expr) -> Expr:
        return sc.cast(packed & ((sc.const(1, UINT64) << self.low) - 1), dt.int64)

    def _int(self, i: Expr) -> Expr:
        return self.row.load(self.ints, i)

    def settle(self, start: Expr, room: Expr, places: Buffer) -> None:
        """Fill ``places``, of sorted ints from ``start`` on; those from ``room`` on may change."""
        b, n = self.b, self.row.n
        (moves,) = b.mutable(ZERO)
        with self._where(self.lost > 0):
            self._insert(start, moves)
        with self._where(moves <= n), b.loop(n) as i:
            number = self._number(self._int(start + i))
            b.emit(ir.Store(places, (i,), sc.cast(number, UINT32)))
        with self._where(moves > n):
            self._sort_twice(start, room, places)

    def _where(self, condition: Expr) -> AbstractContextManager[None]:
        return self.b.block(lambda body: ir.If(condition, body))

    def _insert(self, start: Expr, moves: Expr) -> None:
        """Put in order what differs in bits that are left out; ``moves`` counts, and ends it."""
        b, n = self.b, self.row.n

        def is_alike(i: Expr) -> Expr:
            return sc.eq(self._int(i) >> self.low, self._int(i - 1) >> self.low)

        (some,) = b.mutable(ZERO)
        with b.loop(n - 1, "reduction") as i:
            found = sc.cast(is_alike(start + i + 1), dt.int64)
            b.emit(ir.Assign((some,), (some + found,), True))
        turns = sc.select(some > 0, n - 1, 0)
        with b.loop(turns, "reduction") as i, self._where(is_alike(start + i + 1)):
            at, own = b.mutable(start + i + 1, self._int(start + i + 1))
            (key,) = b.mutable(self.row.load(self.of_row, self._number(own)))
            before = self._int(sc.binary("maximum", at - 1, start))
            is_larger = self.row.load(self.of_row, self._number(before)) > key
            goes_on = sc.eq(before >> self.low, own >> self.low) & is_larger & (moves <= n)
            with b.block(lambda body: ir.While((at > start) & goes_on, body)):
                b.emit(ir.Store(self.ints, (at,), before))
                b.emit(ir.Assign((at, moves), (at - 1, moves + 1)))
            b.emit(ir.Store(self.ints, (at,), own))

    def _sort_twice(self, start: Expr, room: Expr, places: Buffer) -> None:
        """By the bits that are left out, then by the others and the numbers of the first sort."""
        b, n, load = self.b, self.row.n, self.row.load
        rest = (sc.const(1, UINT64) << self.lost) - 1
        with b.loop(n) as i:
            bits = (load(self.of_row, i) - self.least) & rest
            b.emit(ir.Store(self.ints, (start + i,), self._with(bits, i)))
        call_sort(b, self.ints, n, start, room)
        with b.loop(n) as i:
            number = self._number(self._int(start + i))
            b.emit(ir.Store(places, (i,), sc.cast(number, UINT32)))
        with b.loop(n) as i:
            place = sc.cast(load(places, i), dt.int64)
            b.emit(ir.Store(self.ints, (start + i,), self.packed(place, i)))
        call_sort(b, self.ints, n, start, room)
        with b.loop(n) as i:  # what the first sort says is read until the end
            first = load(places, self._number(self._int(start + i)))
            b.emit(ir.Store(self.of_row, (i,), sc.cast(first, UINT64)))
        with b.loop(n) as i:
            b.emit(ir.Store(places, (i,), sc.cast(load(self.of_row, i), UINT32)))
