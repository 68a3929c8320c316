"""Tiles of loops that read one way and write another: how large, and cut where."""

from __future__ import annotations

import math

import numpy as np

from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.kernels.loops.dim_expressions import DimExpressions
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Rows and columns of a tile that stays in the first cache while it is read across, and the least
# that equal tiles may have.
TILE, _LEAST_TILE = 32, 12
# Of the first cache: how many lines one of its sets holds, and how far apart lines of one set lie.
WAYS, _WAY_BYTES = 8, 4096


def held(apart: DimLike, dtype: np.dtype) -> int:
    """How many elements that far apart the first cache holds at a time, whose lines with the same
    offset in a way share one set; 2 * TILE where that is not known."""
    if not isinstance(apart, int) or apart == 0:
        return 2 * TILE
    return WAYS * _WAY_BYTES // math.gcd(apart * dtype.itemsize, _WAY_BYTES)


class Tiles:
    """A dim cut into tiles: into equal ones if it is known and has such divisors.

    They have at most ``limit`` elements, and are larger than TILE where that is ``preferred``, or
    where there are no others.
    """

    def __init__(self, b: DimExpressions, dim: DimLike, limit: int, preferred: bool) -> None:
        self.size = b.dim(dim)
        least = min(_LEAST_TILE, limit // 2 + 1)
        equal = [n for n in range(least, limit + 1) if isinstance(dim, int) and dim % n == 0]
        most = limit if preferred else min(TILE, limit)
        self.most = min(equal, key=lambda n: (n > most, n % 8 != 0, -n), default=min(TILE, limit))
        self.is_equal = bool(equal)
        if isinstance(dim, int):
            self.count = sc.const(-(-dim // self.most), dt.int64)
        else:
            whole = sc.const(self.most, dt.int64)
            self.count = sc.binary("quotient", self.size + (self.most - 1), whole)

    def size_of(self, tile: Expr) -> Expr:
        most = sc.const(self.most, dt.int64)
        if self.is_equal:
            return most
        return sc.binary("minimum", self.size - tile * self.most, most)
