"""A long row that is alone is sorted by radix in pieces, which threads share.

For each digit, from the lowest, each piece counts its digits. The counts, added up digit by digit
and in each digit piece by piece, say where the pieces put their keys. So the pass is stable, and
the result is the same for any number of pieces. Digits are those of a key less the least one: what
lies close together, as ints on both sides of 0, has few of them. Others are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.lowering.sort_keys import UINT32
from phix.kernels.lowering.sorting_rows import MANY_BITS, Keys
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# So many pieces has a row, if it has so many elements or more.
PIECES, LEAST = 8, 1 << 17
_DIGITS = 1 << MANY_BITS
# What is found of the keys of a piece: the least and the largest, bits of any and bits of all.
_SEEN = ("minimum", "maximum", "or", "and")


def choice(rows: Value) -> bool:
    """Whether there is but one row, and that is long."""
    size = rows.dims[-1]
    is_alone = dm.is_one(dm.product(rows.dims[:-1]))
    return rewrites.is_on("sorting_pieces") and is_alone and isinstance(size, int) and size >= LEAST


class LongRow(Keys):
    """A row that several kernels sort."""

    def __init__(self, b: Builder, size: dm.DimLike, dtype: np.dtype, with_order: bool) -> None:
        super().__init__(b, size, dtype, with_order, lambda n, of: b.temp((n,), of))
        self.passes = -(-self.width // MANY_BITS)
        # where the row is before each pass, and behind the last
        self.starts = b.temp((self.passes + 1,), dt.int64)
        self.counts = b.temp((PIECES * _DIGITS,), UINT32)
        self.seen = [b.temp((PIECES,), self.keys.dtype) for _ in _SEEN]
        self.least = b.temp((1,), self.keys.dtype)

    def sort(self, key_at: Callable[[Expr], Expr]) -> None:
        """Sort the keys; sets ``start``."""
        b = self.b
        self._begin(key_at)
        self._plan()
        number = b.step_index()
        with b.nested() as steps:
            self._count(number)
            self._add_up(number)
            self._move(number)
        b.steps.append(ir.ForStep(number, b.dim(self.passes), steps))
        self.start = self.load(self.starts, b.dim(self.passes))

    @contextmanager
    def _pieces(self) -> Iterator[tuple[Expr, Expr, Expr]]:
        """A kernel for each piece: its number, its first place, and its length."""
        b, (whole, size) = self.b, (self.n, self.size)
        length = b.dim(dm.floordiv(size + (PIECES - 1), PIECES))
        with b.kernel(), b.loop(b.dim(PIECES), "independent") as piece:
            first = piece * length
            yield piece, first, sc.binary("minimum", whole - first, length)

    def _begin(self, key_at: Callable[[Expr], Expr]) -> None:
        b = self.b
        with self._pieces() as (piece, first, length):
            seen = self._nothing_seen()
            with b.loop(length, "reduction") as i:
                self._see(seen, [self.begin(key_at, first + i)] * len(_SEEN))
            b.emit(*(ir.Store(buffer, (piece,), e) for buffer, e in zip(self.seen, seen)))

    def _nothing_seen(self) -> tuple[Expr, ...]:
        none, every = sc.const(0, self.keys.dtype), ~sc.const(0, self.keys.dtype)
        return self.b.mutable(every, none, none, every)

    def _see(self, seen: tuple[Expr, ...], found: list[Expr]) -> None:
        for fn, old, new in zip(_SEEN, seen, found):
            self.b.emit(ir.Assign((old,), (sc.binary(fn, old, new),), True))

    def _plan(self) -> None:
        """Where the row is before each pass: one in which keys may differ moves it."""
        b = self.b
        with b.kernel():
            seen = self._nothing_seen()
            with b.loop(b.dim(PIECES), "reduction") as piece:
                self._see(seen, [self.load(buffer, piece) for buffer in self.seen])
            least, most, of_any, of_all = seen
            (least,) = b.mutable((least >> self.low) << self.low)
            b.emit(ir.Store(self.least, (ZERO,), least))
            reach, differing, start = b.mutable(
                (most - least) >> self.low, (of_any & ~of_all) >> self.low, ZERO
            )
            for number in range(self.passes):
                b.emit(ir.Store(self.starts, (b.dim(number),), start))
                below, behind = number * MANY_BITS, min((number + 1) * MANY_BITS, self.width)
                # the largest may have no digit here, and all keys may end in the same bits
                moves = sc.ne(reach >> below, 0) & sc.ne(differing & ((1 << behind) - 1), 0)
                b.emit(ir.Assign((start,), (sc.select(moves, self.n - start, start),)))
            b.emit(ir.Store(self.starts, (b.dim(self.passes),), start))

    @contextmanager
    def _where_it_moves(self, number: Expr) -> Iterator[tuple[Expr, Expr]]:
        """A block that a pass goes through in which keys differ: where the row is, and goes."""
        start, to = (self.load(self.starts, at) for at in (number, number + 1))
        with self.b.block(lambda body: ir.If(sc.ne(start, to), body)):
            yield start, to

    def _count(self, number: Expr) -> None:
        b = self.b
        with self._pieces() as (piece, first, length), self._where_it_moves(number) as (start, _):
            with b.loop(b.dim(_DIGITS)) as i:
                b.emit(ir.Store(self.counts, (piece * _DIGITS + i,), sc.const(0, UINT32)))
            with b.loop(length, "reduction") as i:
                at = self._count_of(self.load(self.keys, start + first + i), piece, number)
                b.emit(ir.Store(self.counts, (at,), self.load(self.counts, at) + 1))

    def _add_up(self, number: Expr) -> None:
        b = self.b
        with b.kernel(), self._where_it_moves(number):
            (total,) = b.mutable(sc.const(0, UINT32))
            with b.loops((_DIGITS, PIECES), "reduction") as (digit, piece):
                at = piece * _DIGITS + digit
                (count,) = b.mutable(self.load(self.counts, at))
                b.emit(ir.Store(self.counts, (at,), total))
                b.emit(ir.Assign((total,), (total + count,)))

    def _move(self, number: Expr) -> None:
        b = self.b
        with (
            self._pieces() as (piece, first, length),
            self._where_it_moves(number) as (start, to),
            b.loop(length, "reduction") as i,
        ):
            taken = self.take(start + first + i)
            at = self._count_of(taken[0][1], piece, number)
            (place,) = b.mutable(self.load(self.counts, at))
            self.put(taken, to + sc.cast(place, dt.int64))
            b.emit(ir.Store(self.counts, (at,), place + 1))

    def _count_of(self, key: Expr, piece: Expr, number: Expr) -> Expr:
        """Where a piece counts the digit of a key."""
        above = key - self.load(self.least, ZERO)
        return piece * _DIGITS + self.digit(above, number, MANY_BITS)
