"""QR of small matrices by Householder's reflections, side by side: see ``lanes.py``.

Signs are LAPACK's: the reflection of a column x with first element a takes it to -sign(a) |x|.
"""

from __future__ import annotations

from phix.core import dims as dm
from phix.core.dims import DimLike
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.lanes import Block, Field, scale_of, total
from phix.kernels.lowering.reduction import converted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr


class Reflections:
    """Those that make the columns of matrices, the rows of the field ``a``, triangular: R is left
    there, transposed."""

    def __init__(self, block: Block, a: Field) -> None:
        self.block, self.a = block, a
        self.size = dm.minimum(a.rows, a.columns)
        self.vectors = Field(block, self.size, a.columns)
        self.weights = Field(block, self.size)

    def make(self) -> None:
        """Of each column k, and what it does to those behind it."""
        b = self.block.b
        with b.loop(b.dim(self.size), "reduction") as k:
            with self.block.vector() as lane:
                self._reflection(lane, k)
            with b.loop(b.dim(self.a.rows) - 1 - k) as behind, self.block.vector() as lane:
                self._reflect(lane, k, self.a, k + 1 + behind)

    def _reflection(self, lane: Expr, k: Expr) -> None:
        """H = 1 - weight v v^T with v[k] = 1, zero above, that leaves nothing below column k."""
        b, dtype = self.block.b, self.block.dtype
        zero, one = sc.const(0, dtype), sc.const(1, dtype)
        column = self.a.row(lane, k)
        above = [sc.const(r, k.dtype) < k for r in range(len(column))]
        at_k = [sc.eq(sc.const(r, k.dtype), k) for r in range(len(column))]
        largest = zero
        for is_above, x in zip(above, column):
            largest = sc.binary("maximum", largest, sc.select(is_above, zero, sc.fabs(x)))
        (scale,) = b.mutable(scale_of(largest))
        below = [sc.select(is_above | is_k, zero, x * scale)
                 for is_above, is_k, x in zip(above, at_k, column)]  # fmt: skip
        (rest,) = b.mutable(total([x * x for x in below]))
        first = self.a.load(lane, k, k)
        (alpha,) = b.mutable(first * scale)
        is_done = sc.eq(rest, 0) & sc.eq(alpha - alpha, 0)  # not beside an infinity or NaN
        (beta,) = b.mutable(-sc.copysign(sc.sqrt(alpha * alpha + rest), alpha))
        self.weights.store(lane, k, 0, sc.select(is_done, zero, (beta - alpha) / beta))
        # divided, not multiplied by the inverse: of a column with one element the quotient is 1
        (divisor,) = b.mutable(sc.select(is_done, one, alpha - beta))
        vector = [sc.select(is_k, one, x / divisor) for is_k, x in zip(at_k, below)]
        self.vectors.put(lane, k, vector)
        (diagonal,) = b.mutable(sc.select(is_done, first, beta / scale))
        left = [sc.select(is_k, diagonal, zero) for is_k in at_k]
        self.a.put(lane, k, [sc.select(*three) for three in zip(above, column, left)])

    def _reflect(self, lane: Expr, k: Expr, field: Field, i: Expr) -> None:
        """The k-th on row ``i`` of a field."""
        b = self.block.b
        vector, row = self.vectors.row(lane, k), field.row(lane, i)
        product = total([v * x for v, x in zip(vector, row)])
        (weighted,) = b.mutable(self.weights.load(lane, k) * product)
        field.put(lane, i, [x - weighted * v for v, x in zip(vector, row)])

    def factor(self, columns: DimLike) -> Field:
        """The first columns of Q, the rows of a field."""
        b, dtype = self.block.b, self.block.dtype
        q = Field(self.block, columns, self.a.columns)
        one, zero = sc.const(1, dtype), sc.const(0, dtype)
        q.fill(lambda lane, i, j: sc.select(sc.eq(i, j), one, zero))
        with b.loop(b.dim(self.size), "reduction") as number:
            k = b.dim(self.size) - 1 - number
            with b.loop(b.dim(columns) - k) as behind, self.block.vector() as lane:
                self._reflect(lane, k, q, k + behind)
        return q


def qr(b: Builder, x: Value, mode: str, vectors: bool, q: Buffer, r: Buffer) -> None:
    *_, rows, columns = x.dims
    given = b.contiguous(converted(b, x, r.dtype))
    with b.kernel() as kernel:
        block = Block(b, kernel, x.dims, r.dtype)
        a = Field(block, columns, rows)
        reflections = Reflections(block, a)
        with block.each():
            block.take(given, a, lambda i, j: j * b.dim(columns) + i)
            reflections.make()
            block.give(r, lambda lane, i, j: a.load(lane, j, i))
            if vectors and mode != "r":
                made = reflections.factor(q.dims[-1])
                block.give(q, lambda lane, i, j: made.load(lane, j, i))
