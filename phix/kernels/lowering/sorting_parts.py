"""A long row that is alone is parted by vectors, and threads share the parts.

Each piece of the row is split by the same pivots, which are some of a sample's keys. What all
pieces have below the first pivot goes to the front, and so on; then each of these parts is sorted
where it lies. Which thread does what makes no difference to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder
from phix.kernels.loops.nodes import Pointer
from phix.kernels.loops.target import PARTS
from phix.kernels.lowering.sorting_pieces import PIECES
from phix.kernels.lowering.sorting_rows import Keys, call_sort
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Keys of the sample, for each of the parts.
_OF_PART = 32


class PartedRow(Keys):
    """A row that several kernels sort: its keys, room for as many, and at ``start`` its parts.

    Of counts that are found out at run time, bounds are said: they tell how much there is to share.
    """

    def __init__(self, b: Builder, size: dm.DimLike, dtype: np.dtype, with_order: bool) -> None:
        super().__init__(b, size, dtype, with_order, lambda n, of: b.temp((3 * size,), of))
        self.start = 2 * self.n
        self.piece = b.dim(dm.floordiv(size + (PIECES - 1), PIECES))
        self.sample = b.temp((2 * PARTS * _OF_PART,), self.keys.dtype)
        self.pivots = b.temp((PARTS - 1,), self.keys.dtype)
        # of the parts in each piece: where they end, and where they are
        self.ends, self.places = (b.temp((PIECES * PARTS,), dt.int64) for _ in range(2))
        self.starts = b.temp((PARTS * PIECES + 1,), dt.int64)  # where what they have goes

    def sort(self, key_at: Callable[[Expr], Expr]) -> None:
        """Sort the keys."""
        b = self.b
        self._begin(key_at)
        self._choose()
        self._split()
        self._add_up()
        self._gather()
        with b.kernel(), b.loop(b.dim(PARTS), "independent") as part:
            start, end = (self.load(self.starts, p * PIECES) for p in (part, part + 1))
            count = sc.binary("minimum", end - start, self.n)
            call_sort(b, self.keys, count, self.start + start, start)

    def _begin(self, key_at: Callable[[Expr], Expr]) -> None:
        with self._pieces() as (_, first, length), self.b.loop(length) as i:
            self.begin(key_at, first + i)

    @contextmanager
    def _pieces(self) -> Iterator[tuple[Expr, Expr, Expr]]:
        """A kernel for each piece: its number, its first place, and its length."""
        b = self.b
        with b.kernel(), b.loop(b.dim(PIECES), "independent") as piece:
            first = piece * self.piece
            yield piece, first, sc.binary("minimum", self.n - first, self.piece)

    def _choose(self) -> None:
        """Of keys that lie evenly apart, those that part them evenly."""
        b, count = self.b, PARTS * _OF_PART
        step = b.dim(dm.floordiv(self.size, count))
        with b.kernel():
            with b.loop(b.dim(count)) as k:
                b.emit(ir.Store(self.sample, (k,), self.load(self.keys, k * step)))
            call_sort(b, self.sample, b.dim(count), ZERO, b.dim(count))
            with b.loop(b.dim(PARTS - 1)) as k:
                chosen = self.load(self.sample, (k + 1) * _OF_PART)
                b.emit(ir.Store(self.pivots, (k,), chosen))

    def _split(self) -> None:
        b = self.b
        with self._pieces() as (piece, first, length):
            at = Pointer(self.keys, first), Pointer(self.keys, self.n + first)
            pivots = Pointer(self.pivots, ZERO)
            found = (Pointer(x, piece * PARTS) for x in (self.ends, self.places))
            arguments: tuple[Pointer | Expr, ...] = (length, *at, pivots, *found)
            changed = (self.keys, self.ends, self.places)
            name = f"split_{self.keys.dtype}"
            b.emit(ir.LibraryCall(name, arguments, changed, (self.keys,)))

    def _count(self, piece: Expr, part: Expr) -> Expr:
        """How many keys of a part a piece has."""
        at = piece * PARTS + part
        before = self.load(self.ends, sc.binary("maximum", at - 1, ZERO))
        return self.load(self.ends, at) - sc.select(sc.eq(part, 0), 0, before)

    def _add_up(self) -> None:
        b = self.b
        with b.kernel():
            (total,) = b.mutable(ZERO)
            with b.loops((PARTS, PIECES), "reduction") as (part, piece):
                b.emit(ir.Store(self.starts, (part * PIECES + piece,), total))
                b.emit(ir.Assign((total,), (total + self._count(piece, part),)))
            b.emit(ir.Store(self.starts, (b.dim(PARTS * PIECES),), total))

    def _gather(self) -> None:
        """The parts of all pieces, one behind the other; each second one comes from the room."""
        b = self.b
        with self._pieces() as (piece, first, _), b.loop(b.dim(PARTS), "reduction") as part:
            room = first + sc.select(sc.eq(part & 1, 0), 0, self.n)
            (source,) = b.mutable(room + self.load(self.places, piece * PARTS + part))
            (to,) = b.mutable(self.start + self.load(self.starts, part * PIECES + piece))
            with b.loop(sc.binary("minimum", self._count(piece, part), self.piece)) as i:
                b.emit(ir.Store(self.keys, (to + i,), self.load(self.keys, source + i)))
