"""Small matrices of a batch side by side, one a lane: element (i, j) of all of them lies together.

What is done to one matrix is done to a block of them in vectors. No lane sees another, so what a
matrix becomes does not depend on its neighbours, or on how many there are.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Union

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.dims import DimLike
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer, Kernel
from phix.kernels.lowering.factorisation import SMALL
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.floating import bits_of, format_of
from phix.kernels.scalar.language import Expr

# Bytes of what lies side by side: two vectors, or four.
_BESIDE = 128

Index = Union[Expr, int]


def choice(b: Builder, x: Value) -> bool | Expr:
    """Whether matrices are real and small enough; where the program finds out, its condition."""
    if not rewrites.is_on("matrices_in_lanes") or x.dtype.kind == "c":
        return False
    known = [d for d in x.dims[-2:] if isinstance(d, int)]
    if not all(0 < d <= SMALL for d in known):
        return False
    unknown = [b.dim(d) for d in x.dims[-2:] if not isinstance(d, int)]
    conditions = [(d > 0) & (d <= SMALL) for d in unknown]
    return functools.reduce(operator.and_, conditions) if conditions else True


class Field:
    """Matrices of one size that a kernel has for itself, one a lane.

    Those of unknown size have memory for the largest, and zeros behind their elements, which
    change nothing: a matrix becomes the same, to the bit, as with its size known.
    """

    def __init__(self, block: Block, rows: DimLike, columns: DimLike = 1) -> None:
        self.b, self.rows, self.columns, self.lanes = block.b, rows, columns, block.lanes
        self.most = [d if isinstance(d, int) else SMALL for d in (rows, columns)]
        self.buffer = block.b.local(block.kernel, math.prod(self.most) * self.lanes, block.dtype)
        self.zero = sc.const(0, block.dtype)

    def _at(self, lane: Expr, i: Index, j: Index) -> Expr:
        place = (i * self.most[1] + j) * self.lanes
        return lane + place if isinstance(place, Expr) else lane + sc.const(place, dt.int64)

    def load(self, lane: Expr, i: Index = 0, j: Index = 0) -> Expr:
        found = ir.load(self.buffer, (self._at(lane, i, j),))
        assert isinstance(found, Expr)
        return found

    def store(self, lane: Expr, i: Index, j: Index, value: Expr) -> None:
        self.b.emit(ir.Store(self.buffer, (self._at(lane, i, j),), value))

    def row(self, lane: Expr, i: Index) -> tuple[Expr, ...]:
        """A row as it is now, whatever is stored later."""
        return self.b.mutable(*(self.load(lane, i, j) for j in range(self.most[1])))

    def put(self, lane: Expr, i: Index, values: Sequence[Expr]) -> None:
        """A row."""
        for j, value in enumerate(values):
            self.store(lane, i, j, value)

    def fill(self, value: Callable[[Expr, Expr, Expr], Expr]) -> None:
        """Every element, those behind a matrix too, from its lane, row and column."""
        with self.b.loops((*self.most, self.lanes)) as (i, j, lane):
            self.store(lane, i, j, value(lane, i, j))

    def take(self, value: Callable[[Expr, Expr, Expr], Expr]) -> None:
        """Every element of the matrices, and zeros behind them."""
        if not all(isinstance(d, int) for d in (self.rows, self.columns)):
            self.fill(lambda lane, i, j: self.zero)
        with self.b.loops((self.rows, self.columns, self.lanes)) as (i, j, lane):
            self.store(lane, i, j, value(lane, i, j))


def _filled(count: int) -> int:
    """How many lanes so many matrices fill, but for two of them four: what LLVM knows of the last
    of two lanes keeps it from making a vector of them, of which it tells on stderr."""
    return 4 if count == 2 else 1 << max(0, count - 1).bit_length()


class Block:
    """The matrices of a batch, ``lanes`` at a time. ``dims``: of the batch, with the matrices'."""

    def __init__(self, b: Builder, kernel: Kernel, dims: dm.Shape, dtype: np.dtype) -> None:
        self.b, self.kernel, self.dtype = b, kernel, dtype
        self.count, self.size = dm.product(dims[:-2]), b.dim(dm.product(dims[-2:]))
        self.lanes = _BESIDE // dtype.itemsize
        if isinstance(self.count, int):  # a power of two, as vectors are
            self.lanes = min(self.lanes, _filled(self.count))
        self.first = self.filled = ZERO

    @contextmanager
    def each(self) -> Iterator[None]:
        """The loop over the blocks; of the last one fewer lanes may be filled."""
        b, lanes = self.b, self.lanes
        with b.loop(b.dim(dm.floordiv(self.count + (lanes - 1), lanes)), "independent") as block:
            self.first = block * lanes
            self.filled = sc.binary("minimum", b.dim(self.count) - self.first, b.dim(lanes))
            yield

    @contextmanager
    def vector(self) -> Iterator[Expr]:
        """The loop over the lanes."""
        b = self.b
        with b.loop(b.dim(self.lanes), "independent", is_vector=True) as lane:
            yield lane

    def take(self, x: Buffer, into: Field, place: Callable[[Expr, Expr], Expr]) -> None:
        """Elements (i, j) from ``place(i, j)`` of each matrix; lanes behind the last matrix have
        the last one. The buffer's own dims may be others: those of what was reshaped."""

        def element(lane: Expr, i: Expr, j: Expr) -> Expr:
            matrix = self.first + sc.binary("minimum", lane, self.filled - 1)
            found = ir.load(x, (matrix * self.size + place(i, j),))
            assert isinstance(found, Expr)
            return found

        into.take(element)

    def give(self, out: Buffer, value: Callable[[Expr, Expr, Expr], Expr], rank: int = 2) -> None:
        """Elements of a result: of a matrix, or with ``rank`` 1 of a vector (whose j is 0)."""
        b = self.b
        rows, columns = (*out.dims[len(out.dims) - rank :], 1)[:2]
        size = b.dim(rows) * b.dim(columns)
        with b.loops((rows, columns)) as (i, j), b.loop(self.filled) as lane:
            place = (self.first + lane) * size + i * b.dim(columns) + j
            b.put(out, place, value(lane, i, j))


def scale_of(largest: Expr) -> Expr:
    """The power of two that brings a number of that size to between 1 and 4, or as near as one
    comes; the size may be anything."""
    fmt = format_of(largest)
    exponent = bits_of(largest) & (
        ((1 << 8 * fmt.bits.itemsize - 1) - 1) ^ ((1 << fmt.mantissa) - 1)
    )
    exponent = sc.binary("minimum", exponent, (2 * fmt.bias - 1) << fmt.mantissa)
    return sc.bitcast(sc.const(2 * fmt.bias << fmt.mantissa, fmt.bits) - exponent, largest.dtype)


def total(values: list[Expr]) -> Expr:
    """The sum, from left to right."""
    found = values[0]
    for value in values[1:]:
        found = found + value
    return found
