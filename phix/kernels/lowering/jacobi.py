"""Eigenvalues and singular values of small matrices by Jacobi's rotations: see ``lanes.py``.

A sweep turns each pair of rows so that what they have in common goes, until a sweep finds nothing
left in any lane. A pair of which nothing is left stays as it is, to the bit, so that other lanes
may go on. (Golub and Van Loan, Matrix Computations, 8.5 and 8.6.3; the small singular values come
out more exactly than from a bidiagonal matrix.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.householder import Reflections
from phix.kernels.lowering.lanes import Block, Field, scale_of, total
from phix.kernels.lowering.reduction import converted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.floating import at_least, is_nan
from phix.kernels.scalar.language import Expr

# More than any matrix of finite numbers takes: a handful of sweeps do.
_MOST_SWEEPS = 40


class _Rotations:
    """Rotations of the rows of fields by pairs, p < q."""

    def __init__(self, block: Block, size: DimLike) -> None:
        self.block, self.size, self.dtype = block, size, block.dtype
        self.scales, self.turned = Field(block, 1), Field(block, 1)
        # below this products of what has size 1 are as good as 0, and their squares no number
        self.least = 2.0 ** {dt.float32: -60, dt.float64: -500}[block.dtype]
        self.epsilon = float(np.finfo(block.dtype).eps)

    def scale(self, a: Field) -> None:
        """Matrices become of size 1; those that hold nan or inf 0, and their scale nan."""
        block, b = self.block, self.block.b
        zero, nan = sc.const(0, self.dtype), sc.const(np.nan, self.dtype)
        most = sc.const(np.finfo(self.dtype).max, self.dtype)
        with block.vector() as lane:
            self.scales.store(lane, 0, 0, zero)
        with b.loops((a.rows, a.columns), "reduction") as (i, j), block.vector() as lane:
            largest, size = b.mutable(self.scales.load(lane), sc.fabs(a.load(lane, i, j)))
            # nothing is larger than nan, and nan is not at most the largest number
            found = sc.select(size <= most, sc.select(largest < size, size, largest), nan)
            self.scales.store(lane, 0, 0, found)
        with block.vector() as lane:
            (largest,) = b.mutable(self.scales.load(lane))
            self.scales.store(lane, 0, 0, sc.select(is_nan(largest), nan, scale_of(largest)))
        with b.loops((a.rows, a.columns)) as (i, j), block.vector() as lane:
            (scale,) = b.mutable(self.scales.load(lane))
            a.store(lane, i, j, sc.select(is_nan(scale), zero, a.load(lane, i, j) * scale))

    def unscaled(self, lane: Expr, value: Expr) -> Expr:
        """A result of the size of the matrix; nan where that was not finite."""
        return value / self.scales.load(lane)

    def sound(self, lane: Expr, value: Expr) -> Expr:
        """A result of size 1, likewise."""
        return sc.select(is_nan(self.scales.load(lane)), sc.const(np.nan, self.dtype), value)

    @contextmanager
    def pairs(self) -> Iterator[tuple[Expr, Expr, Expr]]:
        """Loops over p < q, and over the lanes."""
        b = self.block.b
        last = b.dim(self.size) - 1
        with (
            b.loop(last, "reduction") as p,
            b.loop(last - p, "reduction") as behind,
            self.block.vector() as lane,
        ):
            yield lane, p, p + 1 + behind

    def sweep(self, turn: Callable[[Expr, Expr, Expr], Expr]) -> None:
        """``turn(lane, p, q)`` all pairs, and say of each whether it did, until none does."""
        block, b = self.block, self.block.b
        zero, one = sc.const(0, self.dtype), sc.const(1, self.dtype)
        goes_on, number = b.mutable(one, ZERO)
        with b.block(lambda body: ir.While((goes_on > 0) & (number < _MOST_SWEEPS), body)):
            with block.vector() as lane:
                self.turned.store(lane, 0, 0, zero)
            with self.pairs() as (lane, p, q):
                turns = turn(lane, p, q)
                self.turned.store(lane, 0, 0, sc.select(turns, one, self.turned.load(lane)))
            b.emit(ir.Assign((goes_on, number), (zero, number + 1)))
            with b.loop(b.dim(block.lanes), "reduction") as lane:
                again = sc.binary("maximum", goes_on, self.turned.load(lane))
                b.emit(ir.Assign((goes_on,), (again,)))

    def angle(self, turns: Expr, first: Expr, second: Expr, both: Expr) -> tuple[Expr, ...]:
        """Tangent, sine and cosine of the smaller angle that makes [[first, both], [both, second]]
        diagonal."""
        b, one = self.block.b, sc.const(1, self.dtype)
        (slope,) = b.mutable((second - first) / (2.0 * sc.select(turns, both, one)))
        (t,) = b.mutable(sc.copysign(one, slope) / (sc.fabs(slope) + sc.sqrt(slope * slope + 1.0)))
        (c,) = b.mutable(one / sc.sqrt(t * t + 1.0))
        (s,) = b.mutable(t * c)
        return t, s, c

    def turn(
        self, turns: Expr, s: Expr, c: Expr, first: tuple[Expr, ...], second: tuple[Expr, ...]
    ) -> tuple[list[Expr], list[Expr]]:
        """A pair of rows by an angle. The cosine is 1 - s tan(angle / 2), which rounds less."""
        (half,) = self.block.b.mutable(s / (c + 1.0))
        pairs = list(zip(first, second))
        ahead = [sc.select(turns, x - s * (y + half * x), x) for x, y in pairs]
        behind = [sc.select(turns, y + s * (x - half * y), y) for x, y in pairs]
        return ahead, behind

    def sort(self, keys: Field, descending: bool, *fields: Field) -> None:
        """Bring the keys of each lane into order, and the rows of fields with them."""
        b = self.block.b
        with self.pairs() as (lane, p, q):
            x, y = b.mutable(keys.load(lane, p), keys.load(lane, q))
            (changes,) = b.mutable(x < y if descending else y < x)
            for field in (keys, *fields):
                first, second = field.row(lane, p), field.row(lane, q)
                pairs = list(zip(first, second))
                field.put(lane, p, [sc.select(changes, v, u) for u, v in pairs])
                field.put(lane, q, [sc.select(changes, u, v) for u, v in pairs])


def _identity(field: Field, dtype: np.dtype) -> None:
    one, zero = sc.const(1, dtype), sc.const(0, dtype)
    field.fill(lambda lane, i, j: sc.select(sc.eq(i, j), one, zero))


# -- eigh ----------------------------------------------------------------------------------------
def eigh(b: Builder, x: Value, uplo: str, vectors: bool, w: Buffer, v: Buffer) -> None:
    n = x.dims[-1]
    given = b.contiguous(converted(b, x, v.dtype))
    names = ("maximum", "minimum") if uplo == "L" else ("minimum", "maximum")
    with b.kernel() as kernel:
        block = Block(b, kernel, x.dims, v.dtype)
        rotations = _Rotations(block, n)
        a, values = Field(block, n, n), Field(block, n)
        basis = Field(block, n, n) if vectors else None
        with block.each():
            row, column = (partial(sc.binary, name) for name in names)
            block.take(given, a, lambda i, j: row(i, j) * b.dim(n) + column(i, j))
            rotations.scale(a)
            if basis is not None:
                _identity(basis, v.dtype)
            rotations.sweep(lambda *at: _turn_both_ways(rotations, a, basis, *at))
            values.fill(lambda lane, i, j: a.load(lane, i, i))
            rotations.sort(values, False, *([basis] if basis is not None else []))
            block.give(w, lambda lane, i, j: rotations.unscaled(lane, values.load(lane, i)), 1)
            if basis is not None:
                made = basis
                block.give(v, lambda lane, i, j: rotations.sound(lane, made.load(lane, j, i)))


def _turn_both_ways(
    rotations: _Rotations, a: Field, basis: Field | None, lane: Expr, p: Expr, q: Expr
) -> Expr:
    """Element (p, q) of symmetric matrices becomes 0, where it is more than rounding."""
    b = rotations.block.b
    pp, qq, pq = b.mutable(a.load(lane, p, p), a.load(lane, q, q), a.load(lane, p, q))
    smaller = sc.binary("minimum", sc.fabs(pp), sc.fabs(qq))
    bound = at_least(smaller * (rotations.epsilon / 4), rotations.least)
    (turns,) = b.mutable(sc.fabs(pq) > bound)
    t, s, c = rotations.angle(turns, pp, qq, pq)
    first, second = rotations.turn(turns, s, c, a.row(lane, p), a.row(lane, q))
    # rows and columns are alike; the four elements of the pair itself follow
    for r, (x, y) in enumerate(zip(first, second)):
        x, y = b.mutable(x, y)
        for i, value in ((p, x), (q, y)):
            a.store(lane, i, r, value)
            a.store(lane, r, i, value)
    (change,) = b.mutable(sc.select(turns, t * pq, sc.const(0, pq.dtype)))
    (left,) = b.mutable(sc.select(turns, sc.const(0, pq.dtype), pq))
    for i, j, value in ((p, p, pp - change), (q, q, qq + change), (p, q, left), (q, p, left)):
        a.store(lane, i, j, value)
    if basis is not None:
        first, second = rotations.turn(turns, s, c, basis.row(lane, p), basis.row(lane, q))
        basis.put(lane, p, first)
        basis.put(lane, q, second)
    return turns


# -- svd -----------------------------------------------------------------------------------------
def svd(b: Builder, x: Value, full: bool, vectors: bool, u: Buffer, s: Buffer, vh: Buffer) -> None:
    """Of matrices with at least as many rows as columns, or else of the transposes: the columns
    are turned until they are at right angles. Their lengths are the singular values, and their
    directions the left vectors; QR finds those, and as many more as are missing."""
    *_, m, n = x.dims
    rows, columns = dm.maximum(m, n), dm.minimum(m, n)
    pick = _choice_of_tall(b, m, n)
    given = b.contiguous(converted(b, x, s.dtype))
    with b.kernel() as kernel:
        block = Block(b, kernel, x.dims, s.dtype)
        rotations = _Rotations(block, columns)
        a, values = Field(block, columns, rows), Field(block, columns)
        basis = Field(block, columns, columns) if vectors else None
        reflections = Reflections(block, a) if vectors else None
        with block.each():
            width = b.dim(n)
            block.take(given, a, lambda i, j: pick(j * width + i, i * width + j))
            rotations.scale(a)
            if basis is not None:
                _identity(basis, s.dtype)
            rotations.sweep(lambda *at: _turn_apart(rotations, a, basis, *at))
            with b.loop(b.dim(columns)) as i, block.vector() as lane:
                column = a.row(lane, i)
                values.store(lane, i, 0, sc.sqrt(total([e * e for e in column])))
            rotations.sort(values, True, *([a, basis] if basis is not None else []))
            block.give(s, lambda lane, i, j: rotations.unscaled(lane, values.load(lane, i)), 1)
            if basis is not None and reflections is not None:
                reflections.make()
                q = reflections.factor(rows if full else columns)
                _give_signs(block, a, q)
                ways = q, basis

                def left(lane: Expr, i: Expr, j: Expr) -> Expr:
                    return rotations.sound(lane, pick(*(f.load(lane, j, i) for f in ways)))

                def right(lane: Expr, i: Expr, j: Expr) -> Expr:
                    return rotations.sound(lane, pick(*(f.load(lane, i, j) for f in ways[::-1])))

                block.give(u, left)
                block.give(vh, right)


def _choice_of_tall(b: Builder, m: DimLike, n: DimLike) -> Callable[[Expr, Expr], Expr]:
    """What picks the first of two for matrices of at least as many rows as columns."""
    if isinstance(m, int) and isinstance(n, int):
        return (lambda x, y: x) if m >= n else (lambda x, y: y)
    is_tall = b.dim(m) >= b.dim(n)
    return lambda x, y: sc.select(is_tall, x, y)


def _turn_apart(
    rotations: _Rotations, a: Field, basis: Field | None, lane: Expr, p: Expr, q: Expr
) -> Expr:
    """Two rows come to stand at a right angle, where they do not but for rounding."""
    b = rotations.block.b
    x, y = a.row(lane, p), a.row(lane, q)
    xx, yy, xy = b.mutable(
        *(total([e * f for e, f in zip(*two)]) for two in ((x, x), (y, y), (x, y)))
    )
    bound = sc.sqrt(xx) * sc.sqrt(yy) * (4 * rotations.epsilon)
    (turns,) = b.mutable(sc.fabs(xy) > at_least(bound, rotations.least))
    _, s, c = rotations.angle(turns, xx, yy, xy)
    for field in (a,) if basis is None else (a, basis):
        first, second = rotations.turn(turns, s, c, field.row(lane, p), field.row(lane, q))
        field.put(lane, p, first)
        field.put(lane, q, second)
    return turns


def _give_signs(block: Block, r: Field, q: Field) -> None:
    """Columns of Q, rows of a field, change signs so that the diagonal of R has none."""
    b = block.b
    one = sc.const(1, block.dtype)
    with b.loop(b.dim(r.rows)) as i, block.vector() as lane:
        (sign,) = b.mutable(sc.copysign(one, r.load(lane, i, i)))
        q.put(lane, i, [e * sign for e in q.row(lane, i)])
