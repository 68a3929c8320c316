"""A row on its way through a sort, and how one thread sorts it.

By vectors, where the engine has a routine for that (``Target.sorts_by_vectors``). Else by radix,
digit by digit from the lowest, each pass stable and from one half of a buffer to the other; a pass
in which all keys have one digit is left out. A short row is sorted by insertion then.
The row's order, where it is asked for, travels with the keys: below them in one int if they have
32 bits, else in a buffer of its own, which only a radix sort can move.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder
from phix.kernels.loops.nodes import Buffer, Kernel, Pointer
from phix.kernels.lowering.sort_keys import UINT32, UINT64, key_dtype
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Rows of up to so many elements are sorted by insertion, up to so many with short digits; where the
# engine sorts by vectors, only those of up to TINY are not.
SHORT, MIDDLE, TINY = 48, 2048, 12
_FEW_BITS, MANY_BITS = 8, 11


def sorts_by_vectors(b: Builder, dtype: np.dtype, with_order: bool) -> bool:
    """Whether a routine of the engine sorts keys of a dtype, each with all that travels with it."""
    key = key_dtype(dtype)
    fits = not with_order or key == UINT32
    return fits and b.target.sorts_by_vectors(UINT64 if with_order else key)


def call_sort(b: Builder, keys: Buffer, count: Expr, at: Expr, room: Expr) -> None:
    """Sort ``count`` keys from a place on; as many from ``room`` on may change."""
    arguments = (count, Pointer(keys, at), Pointer(keys, room))
    b.emit(ir.LibraryCall(f"sort_{keys.dtype}", arguments, (keys,), (keys,)))


class Keys:
    """``size`` keys, and their order if they have one: each buffer holds two rows, from and to.

    ``start`` is where in the buffers the row is. ``memory`` gives a buffer of a size and a dtype.
    """

    def __init__(
        self,
        b: Builder,
        size: dm.DimLike,
        dtype: np.dtype,
        with_order: bool,
        memory: Callable[[dm.DimLike, np.dtype], Buffer],
    ) -> None:
        self.b, self.size, self.n = b, size, b.dim(size)
        self.dtype = key_dtype(dtype)
        self.width = 8 * self.dtype.itemsize
        self.packs = with_order and self.width == 32
        self.low = 32 if self.packs else 0
        self.keys = memory(2 * size, UINT64 if self.packs else self.dtype)
        own = with_order and not self.packs
        self.order = memory(2 * size, UINT32) if own else None
        self.start: Expr = ZERO

    def sorted_key(self, i: Expr) -> Expr:
        return sc.cast(self.load(self.keys, self.start + i) >> self.low, self.dtype)

    def sorted_from(self, i: Expr) -> Expr:
        """Where the i-th element of the sorted row was before."""
        from_ = self.load(self.order or self.keys, self.start + i)
        return sc.cast(sc.cast(from_, UINT32), dt.int64)

    def load(self, buffer: Buffer, i: Expr) -> Expr:
        element = ir.load(buffer, (i,))
        assert isinstance(element, Expr)
        return element

    def take(self, i: Expr) -> list[tuple[Buffer, Expr]]:
        """What travels from place ``i``, read before anything is written."""
        buffers = [self.keys] if self.order is None else [self.keys, self.order]
        return [(f, self.b.mutable(self.load(f, i))[0]) for f in buffers]

    def put(self, taken: list[tuple[Buffer, Expr]], i: Expr) -> None:
        """Store it at place ``i``."""
        self.b.emit(*(ir.Store(buffer, (i,), value) for buffer, value in taken))

    def begin(self, key_at: Callable[[Expr], Expr], i: Expr) -> Expr:
        """Store the i-th key, with its place in the row."""
        key = key_at(i)
        if self.packs:
            key = (sc.cast(key, UINT64) << 32) | sc.cast(i, UINT64)
        (key,) = self.b.mutable(key)
        self.put([(self.keys, key)], i)
        if self.order is not None:
            self.put([(self.order, sc.cast(i, UINT32))], i)
        return key

    def digit(self, key: Expr, number: Expr, bits: int) -> Expr:
        """The ``number``-th digit of a key, of so many bits."""
        shift = sc.cast(number * bits + self.low, key.dtype)
        return sc.cast((key >> shift) & ((1 << bits) - 1), dt.int64)


class Row(Keys):
    """A row that a kernel sorts in memory of its own."""

    def __init__(
        self, b: Builder, kernel: Kernel, size: dm.DimLike, dtype: np.dtype, with_order: bool
    ) -> None:
        super().__init__(b, size, dtype, with_order, partial(b.local, kernel))
        is_middle = isinstance(size, int) and size <= MIDDLE
        self.bits = _FEW_BITS if is_middle else MANY_BITS
        self.passes = -(-self.width // self.bits)
        is_short = isinstance(size, int) and size <= SHORT
        is_tiny = isinstance(size, int) and size <= TINY
        self.is_by_vectors = not is_tiny and sorts_by_vectors(b, dtype, with_order)
        self.counts = (
            None
            if is_short or self.is_by_vectors
            else b.local(kernel, self.passes << self.bits, UINT32)
        )

    def sort(self, key_at: Callable[[Expr], Expr]) -> None:
        """Sort the keys; sets ``start``."""
        b = self.b
        (self.start,) = b.mutable(ZERO)
        if self.is_by_vectors:
            with b.loop(self.n) as i:
                self.begin(key_at, i)
            call_sort(b, self.keys, self.n, ZERO, self.n)
        elif self.counts is None:
            self._insert(key_at)
        elif isinstance(self.size, int):
            self._by_digits(self.counts, key_at)
        else:
            with b.block(lambda body: ir.If(self.n <= SHORT, body)):
                self._insert(key_at)
            with b.block(lambda body: ir.If(self.n > SHORT, body)):
                self._by_digits(self.counts, key_at)

    def _insert(self, key_at: Callable[[Expr], Expr]) -> None:
        b = self.b
        with b.loop(self.n, "reduction") as i:
            self.begin(key_at, i)
        with b.loop(self.n - 1, "reduction") as i:
            taken = self.take(i + 1)
            (at,) = b.mutable(i + 1)
            before = sc.binary("maximum", at - 1, ZERO)
            goes_on = (at > 0) & (self.load(self.keys, before) > taken[0][1])
            with b.block(lambda body: ir.While(goes_on, body)):
                self.put(self.take(at - 1), at)
                b.emit(ir.Assign((at,), (at - 1,)))
            self.put(taken, at)

    def _by_digits(self, counts: Buffer, key_at: Callable[[Expr], Expr]) -> None:
        b, size = self.b, 1 << self.bits
        zero = sc.const(0, UINT32)
        with b.loop(b.dim(self.passes * size)) as i:
            b.emit(ir.Store(counts, (i,), zero))
        with b.loop(self.n, "reduction") as i:
            key = self.begin(key_at, i)
            for digit in range(self.passes):
                at = self._count_of(key, sc.const(digit, dt.int64))
                b.emit(ir.Store(counts, (at,), self.load(counts, at) + 1))
        with b.loop(b.dim(self.passes), "reduction") as number:
            (first,) = b.mutable(self._count_of(self.load(self.keys, self.start), number))
            differ = sc.ne(self.load(counts, first), sc.cast(self.n, UINT32))
            with b.block(lambda body: ir.If(differ, body)):
                self._pass(counts, number)

    def _count_of(self, key: Expr, number: Expr) -> Expr:
        """Where the counts have the digit of a key in one of the passes."""
        return number * (1 << self.bits) + self.digit(key, number, self.bits)

    def _pass(self, counts: Buffer, number: Expr) -> None:
        b = self.b
        first = number * (1 << self.bits)
        (total,) = b.mutable(sc.const(0, UINT32))
        with b.loop(b.dim(1 << self.bits), "reduction") as i:
            (count,) = b.mutable(self.load(counts, first + i))
            b.emit(ir.Store(counts, (first + i,), total))
            b.emit(ir.Assign((total,), (total + count,)))
        (to,) = b.mutable(self.n - self.start)
        with b.loop(self.n, "reduction") as i:
            taken = self.take(self.start + i)
            at = self._count_of(taken[0][1], number)
            (place,) = b.mutable(self.load(counts, at))
            self.put(taken, to + sc.cast(place, dt.int64))
            b.emit(ir.Store(counts, (at,), place + 1))
        b.emit(ir.Assign((self.start,), (to,)))
