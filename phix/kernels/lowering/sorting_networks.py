"""Many short rows are sorted by a network, some of them side by side, one a lane.

A network compares places in an order that does not depend on what is there. So the rows of a block
lie across: their first elements beside each other, then their second ones. To compare two places
is a minimum and a maximum of vectors, without a branch. The network is Batcher's merge exchange
(Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M), which takes rows of any
size, in loops that find the pairs: its code is as short for 128 elements as for 3.

It is not stable. Keys of which no two are equal make it so: the place in the row is part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value
from phix.kernels.loops.nodes import ONE, Buffer, Kernel
from phix.kernels.lowering.sort_keys import UINT32, UINT64, element_of, key_dtype, sort_key
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Elements of a row that is sorted so, and the rows that are quicker beside than behind each other.
MOST, _FEWEST = 512, 4
# Bytes of the keys of a block that lie side by side: two vectors, or four.
_BESIDE = 128


def choice(b: Builder, x: Value, axis: int) -> bool | Expr:
    """Whether a network sorts the rows along an axis; where the program finds out, 1 or 0.

    Rows of known size and unknown number are taken to be many.
    """
    if not rewrites.is_on("sorting_networks"):
        return False
    size, inner = x.dims[axis], dm.product(x.dims[axis + 1 :])
    beside = dm.product(x.dims[:axis]) if dm.is_one(inner) else inner
    if isinstance(beside, int) and beside < _FEWEST:
        return False
    if isinstance(size, int):
        return 1 < size <= MOST
    holds = b.dim(size) <= MOST
    if not isinstance(beside, int):
        holds = holds & (b.dim(beside) >= _FEWEST)
    return sc.cast(holds, dt.int64)


def lanes_of(dtype: np.dtype, ordered: bool) -> int:
    """How many rows are sorted side by side."""
    wide = UINT64 if ordered else key_dtype(dtype)
    return _BESIDE // wide.itemsize


class Block:
    """Some rows of ``size`` keys, one a lane; ``with_order``: and where each key was before."""

    def __init__(
        self, b: Builder, kernel: Kernel, size: dm.DimLike, dtype: np.dtype, with_order: bool
    ) -> None:
        self.b, self.size, self.dtype = b, size, key_dtype(dtype)
        most = size if isinstance(size, int) else MOST
        self.lanes = lanes_of(dtype, with_order)
        self.packs = with_order and self.dtype == UINT32
        self.keys = b.local(kernel, most * self.lanes, UINT64 if self.packs else self.dtype)
        own = with_order and not self.packs
        self.order = b.local(kernel, most * self.lanes, UINT32) if own else None

    # -- one key ---------------------------------------------------------------------------
    def put(self, i: Expr, lane: Expr, key: Expr) -> None:
        """The i-th key of a lane."""
        at = self._at(i, lane)
        if self.packs:
            key = (sc.cast(key, UINT64) << 32) | sc.cast(i, UINT64)
        self.b.emit(ir.Store(self.keys, (at,), key))
        if self.order is not None:
            self.b.emit(ir.Store(self.order, (at,), sc.cast(i, UINT32)))

    def key(self, i: Expr, lane: Expr) -> Expr:
        """The i-th least key of a lane."""
        assert not self.packs
        return _load(self.keys, self._at(i, lane))

    def place(self, i: Expr, lane: Expr) -> Expr:
        """Where the i-th least key of a lane was before."""
        found = _load(self.order or self.keys, self._at(i, lane))
        return sc.cast(sc.cast(found, UINT32), dt.int64)

    def _at(self, i: Expr, lane: Expr) -> Expr:
        return i * self.lanes + lane

    # -- the network -----------------------------------------------------------------------
    def sort(self) -> None:
        """Sort all lanes: Knuth's algorithm M, by its names."""
        b = self.b
        top = self._half()
        (p,) = b.mutable(top)
        with b.block(lambda body: ir.While(p > 0, body)):
            q, r, d = b.mutable(top, ZERO, p)
            with b.block(lambda body: ir.While(d > 0, body)):
                with b.loop(self._pairs(p, r, d), "reduction") as number:
                    first = number + (number & -p) + r
                    self._exchange(first, first + d)
                b.emit(ir.Assign((d, q, r), (q - p, q >> 1, p)))
            b.emit(ir.Assign((p,), (p >> 1,)))

    def _half(self) -> Expr:
        """The largest power of two below the size; 0 where there is nothing to sort."""
        b, n = self.b, self.b.dim(self.size)
        if isinstance(self.size, int):
            return sc.const(1 << (self.size - 1).bit_length() >> 1, dt.int64)
        (top,) = b.mutable(sc.cast(n > 1, dt.int64))
        with b.block(lambda body: ir.While((top > 0) & (top + top < n), body)):
            b.emit(ir.Assign((top,), (top + top,)))
        return top

    def _pairs(self, p: Expr, r: Expr, d: Expr) -> Expr:
        """How many i below size - d have i & p == r."""
        below = self.b.dim(self.size) - d
        rest = (below & (p + p - 1)) - r
        rest = sc.binary("minimum", sc.binary("maximum", rest, ZERO), p)
        return ((below & -(p + p)) >> 1) + rest

    def _exchange(self, i: Expr, j: Expr) -> None:
        """Put the lesser of two keys of each lane into place ``i``, the other into ``j``."""
        b = self.b
        with b.loop(b.dim(self.lanes), "independent", is_vector=True) as lane:
            at, other = self._at(i, lane), self._at(j, lane)
            low, high = b.mutable(_load(self.keys, at), _load(self.keys, other))
            if self.order is None:
                least, most = (sc.binary(f, low, high) for f in ("minimum", "maximum"))
                b.emit(ir.Store(self.keys, (at,), least), ir.Store(self.keys, (other,), most))
                return
            of_low, of_high = b.mutable(_load(self.order, at), _load(self.order, other))
            turns = (high < low) | (sc.eq(high, low) & (of_high < of_low))
            for buffer, one, two in ((self.keys, low, high), (self.order, of_low, of_high)):
                b.emit(ir.Store(buffer, (at,), sc.select(turns, two, one)))
                b.emit(ir.Store(buffer, (other,), sc.select(turns, one, two)))


def _load(buffer: Buffer, i: Expr) -> Expr:
    element = ir.load(buffer, (i,))
    assert isinstance(element, Expr)
    return element


class Rows:
    """Rows along an axis of ``x``, in the blocks that a network sorts."""

    def __init__(self, b: Builder, x: Value, axis: int) -> None:
        self.b, self.x, self.size = b, x, b.dim(x.dims[axis])
        self.outer, self.inner = dm.product(x.dims[:axis]), dm.product(x.dims[axis + 1 :])

    def element(self, place: Expr) -> Expr:
        found = self.b.flat_element(self.x, place)
        assert isinstance(found, Expr)
        return found

    @contextmanager
    def blocks(self, lanes: int, turns: Expr) -> Iterator[tuple[Expr, Callable[..., Expr]]]:
        """Loops over blocks: how many lanes one has, and where element ``i`` of a lane is.

        There are none where ``turns`` is 0.
        """
        b, is_last = self.b, dm.is_one(self.inner)
        beside, outside = (self.outer, 1) if is_last else (self.inner, self.outer)
        count = turns * b.dim(dm.floordiv(beside + (lanes - 1), lanes))
        with b.loops((outside,), "independent") as (outer,), b.loop(count, "independent") as block:
            first, step = block * lanes, b.dim(self.inner)
            filled = b.dim(lanes)
            if not isinstance(beside, int) or (beside > lanes and beside % lanes):
                filled = sc.binary("minimum", b.dim(beside) - first, filled)
            elif beside < lanes:
                filled = b.dim(beside)

            def place(i: Expr, lane: Expr, size: Expr = self.size) -> Expr:
                if is_last:
                    return (first + lane) * size + i
                return (outer * size + i) * step + (first + lane)

            yield filled, place

    @contextmanager
    def results(self, count: Expr, filled: Expr) -> Iterator[tuple[Expr, Expr]]:
        """Loops over ``count`` elements of the rows of a block, in the order of memory."""
        b = self.b
        if dm.is_one(self.inner):
            with b.loop(filled) as lane, b.loop(count) as i:
                yield i, lane
        else:
            with b.loop(count) as i, b.loop(filled) as lane:
                yield i, lane


def sort(
    b: Builder, x: Value, axis: int, descending: bool, turns: Expr = ONE
) -> Callable[[Buffer], None]:
    """What writes the sorted rows along an axis, where ``turns`` is not 0."""

    def write(out: Buffer) -> None:
        if not x.is_flat:
            b.materialize(x)
        with b.kernel() as kernel:
            rows = Rows(b, x, axis)
            block = Block(b, kernel, x.dims[axis], x.dtype, False)
            with rows.blocks(block.lanes, turns) as (filled, place):
                with b.loop(rows.size) as i, b.loop(filled) as lane:
                    key = sort_key(rows.element(place(i, lane)), descending, True)
                    block.put(i, lane, key)
                block.sort()
                with rows.results(rows.size, filled) as (i, lane):
                    element = element_of(block.key(i, lane), x.dtype, descending)
                    b.put(out, place(i, lane), element)

    return write


def argsort(
    b: Builder, x: Value, axis: int, descending: bool, count: dm.DimLike, turns: Expr = ONE
) -> Callable[[Buffer, Buffer], None]:
    """What writes the first ``count`` elements of the sorted rows, and where they were."""

    def write(out: Buffer, indices: Buffer) -> None:
        if not x.is_flat or x.cost > CHEAP:
            b.materialize(x)
        with b.kernel() as kernel:
            rows, most = Rows(b, x, axis), b.dim(count)
            block = Block(b, kernel, x.dims[axis], x.dtype, True)
            with rows.blocks(block.lanes, turns) as (filled, place):
                with b.loop(rows.size) as i, b.loop(filled) as lane:
                    key = sort_key(rows.element(place(i, lane)), descending, False)
                    block.put(i, lane, key)
                block.sort()
                with rows.results(most, filled) as (i, lane):
                    b.put(indices, place(i, lane, most), block.place(i, lane))
                with rows.results(most, filled) as (i, lane):
                    was = place(block.place(i, lane), lane)
                    b.put(out, place(i, lane, most), b.flat_element(x, was))

    return write
