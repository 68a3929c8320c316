"""Convolutions by 3 x 3 filters with fewer multiplications: Winograd's F(4 x 4, 3 x 3).

A tile of 6 x 6 of an image and a filter are polynomials in two variables; their values at six
points an axis (0, +-3/4, +-3/2 and infinity, chosen for small rounding errors) are multiplied,
one product an element and point in place of nine an output, and the 4 x 4 outputs are read off
again. Summed over channels, the products of one point are a matrix product:

    M[p] = U[p] @ V[p]    U[p]: [out, in],  V[p]: [in, tiles],  for each of the 36 points p.

The gradient to the filter is the transpose of that to U: tiles of the images and of the output's
gradient at the same points, multiplied and summed over tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.core.records import dataclass
from phix.core.windows import Pads
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.blocks import blocks, compute_now, items_at_once
from phix.kernels.lowering.contraction import Matrix, multiply
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

TILE, FILTER = 4, 3
PATCH = TILE + FILTER - 1
POINTS = PATCH * PATCH
# The two magnitudes of the finite points, and what divides the polynomials that vanish at the
# others: one number for 0, one a pair.
_A, _B = 0.75, 1.5
_A2, _B2 = _A * _A, _B * _B
_ZERO_SHARE = 1 / (_A2 * _B2)
_A_SHARE = 1 / (2 * _A2 * (_A2 - _B2))
_B_SHARE = 1 / (2 * _B2 * (_B2 - _A2))
# Elements that keep rows and planes of the transformed tiles from meeting in one set of a cache.
_APART = 16
# Multiplications up to which the library makes a product in one thread, and the fewest tiles a
# product is cut into for that.
_ALONE, _FEWEST_TILES = 1 << 19, 64

Line = list[Expr]
Transform = Callable[[Line], Line]


# -- one axis ----------------------------------------------------------------------------------
def _of_image(d: Line) -> Line:
    """What six elements of an image contribute at the six points."""
    even_a, odd_a = d[4] - d[2] * _B2, (d[3] - d[1] * _B2) * _A
    even_b, odd_b = d[4] - d[2] * _A2, (d[3] - d[1] * _A2) * _B
    first = d[0] * (_A2 * _B2) - d[2] * (_A2 + _B2) + d[4]
    last = d[1] * (_A2 * _B2) - d[3] * (_A2 + _B2) + d[5]
    return [first, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, last]


def _of_filter(g: Line) -> Line:
    """Three elements of a filter at the six points."""
    even_a, odd_a = (g[0] + g[2] * _A2) * _A_SHARE, g[1] * (_A * _A_SHARE)
    even_b, odd_b = (g[0] + g[2] * _B2) * _B_SHARE, g[1] * (_B * _B_SHARE)
    finite = [even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b]
    return [g[0] * _ZERO_SHARE, *finite, g[2]]


def _to_outputs(m: Line) -> Line:
    """Four outputs from products at the six points."""
    even_a, odd_a, even_b, odd_b = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [
        m[0] + even_a + even_b,
        odd_a * _A + odd_b * _B,
        even_a * _A2 + even_b * _B2,
        odd_a * (_A2 * _A) + odd_b * (_B2 * _B) + m[5],
    ]


def _of_gradient(g: Line) -> Line:
    """Four gradients of outputs at the six points: the transpose of ``_to_outputs``."""
    even_a, odd_a = g[0] + g[2] * _A2, g[1] * _A + g[3] * (_A2 * _A)
    even_b, odd_b = g[0] + g[2] * _B2, g[1] * _B + g[3] * (_B2 * _B)
    return [g[0], even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, g[3]]


def _to_filter(m: Line) -> Line:
    """The gradient of three filter elements: the transpose of ``_of_filter``."""
    even_a, odd_a = (m[1] + m[2]) * _A_SHARE, (m[1] - m[2]) * (_A * _A_SHARE)
    even_b, odd_b = (m[3] + m[4]) * _B_SHARE, (m[3] - m[4]) * (_B * _B_SHARE)
    return [
        m[0] * _ZERO_SHARE + even_a + even_b,
        odd_a + odd_b,
        even_a * _A2 + even_b * _B2 + m[5],
    ]


def _both_axes(b: Builder, transform: Transform, tile: list[Line]) -> list[Line]:
    columns = [b.mutable(*transform(list(column))) for column in zip(*tile)]
    return [transform(list(row)) for row in zip(*columns)]


# -- images, block by block ----------------------------------------------------------------------
class _Tiling:
    """Images of ``size`` cut into tiles of 4 x 4; ``per_block`` of them are worked on at once.

    A plane holds one number a channel and tile, channels ``pitch`` apart.
    """

    def __init__(
        self, b: Builder, dtype: np.dtype, images: DimLike, size: dm.Shape, channels: DimLike
    ) -> None:
        self.b, self.dtype, self.images = b, dtype, images
        self.counts = tuple(dm.floordiv(d + (TILE - 1), TILE) for d in size)
        self.each = dm.product(self.counts)
        self.per_block = items_at_once(b, images, self.each * channels * (POINTS * dtype.itemsize))
        self.pitch = self.per_block * self.each + _APART

    def planes(self, channels: DimLike) -> Buffer:
        """A buffer for the tiles of a block at all points."""
        return self.b.temp((POINTS, channels * self.pitch + _APART), self.dtype)

    def canvas(self, reach: int) -> Buffer:
        """A zero image of whole tiles, ``reach`` larger, for each image of a block."""
        dims = (self.per_block, *(n * TILE + reach for n in self.counts))
        blank = self.b.temp(dims, self.dtype)
        self.b.fill(blank, self.b.constant(0, dims, self.dtype))
        return blank

    def place(self, channel: Expr, image: Expr, tile: tuple[Expr, ...]) -> Expr:
        """Where a tile of a channel stands in a plane."""
        b = self.b
        number = image * b.dim(self.each) + b.linear(tile, self.counts)
        return channel * b.dim(self.pitch) + number

    def spread(self, x: _Images, canvas: Buffer, planes: Buffer, first: Expr, count: Expr) -> None:
        """A kernel that puts the tiles of a block of images on planes."""
        b = self.b
        with (
            b.kernel(),
            b.loop(count, "independent") as image,
            b.loop(b.dim(x.channels)) as channel,
        ):
            with b.loops(x.size) as at:
                shifted = tuple(i + p for i, p in zip(at, x.before))
                b.store(canvas, (image, *shifted), x.read(first + image, channel, at))
            with b.loops(self.counts) as tile:
                corner = tuple(t * TILE for t in tile)
                patch = [
                    [_at(b, canvas, image, corner, (i, j)) for j in range(x.patch)]
                    for i in range(x.patch)
                ]
                points = _both_axes(b, x.transform, patch)
                self._store_points(planes, self.place(channel, image, tile), points)

    def _store_points(self, planes: Buffer, place: Expr, points: list[Line]) -> None:
        plane = self.b.dim(planes.dims[1])
        for number, value in enumerate(value for row in points for value in row):
            self.b.emit(*ir.stores(planes, (plane * number + place,), value))


@dataclass(eq=False)
class _Images:
    """Images to be spread: ``read(image, channel, (y, x))``, put ``before`` from the corner."""

    read: Callable[[Expr, Expr, tuple[Expr, ...]], Any]
    channels: DimLike
    size: dm.Shape
    before: tuple[Expr, ...]
    patch: int
    transform: Transform


def _at(
    b: Builder, canvas: Buffer, image: Expr, corner: tuple[Expr, ...], offset: tuple[int, int]
) -> Any:
    place = (image, *(c + o for c, o in zip(corner, offset)))
    return ir.load(canvas, (b.linear(place, canvas.dims),))


def _load_points(b: Builder, planes: Buffer, place: Expr) -> list[Line]:
    plane = b.dim(planes.dims[1])
    loads: Line = [ir.load(planes, (plane * k + place,)) for k in range(POINTS)]  # type: ignore[misc]
    return [loads[k : k + PATCH] for k in range(0, POINTS, PATCH)]


# -- the two convolutions ------------------------------------------------------------------------
def by_filter(b: Builder, x: Value, kernel: Value, pads: Pads, out: Buffer) -> None:
    """``out[n, o] = sum over c of x[n, c] * kernel[o, c]`` for a 3 x 3 kernel."""
    images, o, *size = out.dims
    c = x.dims[1]
    dtype = out.dtype
    compute_now(b, x)
    tiling = _Tiling(b, dtype, images, tuple(size), c + o)
    filters = b.temp((POINTS, o * c + _APART), dtype)
    _spread_filters(b, kernel, filters)
    canvas, drawn = tiling.canvas(FILTER - 1), tiling.canvas(0)
    spread, products = tiling.planes(c), tiling.planes(o)
    before = tuple(b.dim(p) for p, _ in pads)
    read = lambda n, channel, at: b.element(x, (n, channel, *at))  # noqa: E731
    source = _Images(read, c, x.dims[2:], before, PATCH, _of_image)
    with blocks(b, images, tiling.per_block) as (first, count):
        tiling.spread(source, canvas, spread, first, count)
        pitch = b.dim(tiling.pitch)
        planes = (filters, spread, products)
        with _products(tiling, (o, c), count, planes) as ((left, right, result), start, width):
            multiply(
                b, Matrix(filters, left, b.dim(c)), Matrix(spread, right + start, pitch),
                Matrix(products, result + start, pitch), (b.dim(o), width, b.dim(c)),
            )  # fmt: skip
        _draw(tiling, products, drawn, out, first, count)


@contextmanager
def _products(
    tiling: _Tiling, sizes: tuple[DimLike, DimLike], count: Expr, buffers: Sequence[Buffer]
) -> Iterator[tuple[list[Expr], Expr, Expr]]:
    """A kernel that multiplies matrices of these sizes at each point: where the planes of the
    buffers begin, and which of the tiles of ``count`` images are multiplied at once."""
    b = tiling.b
    with (
        b.kernel(),
        _points(b, *sizes) as (point, at_once),
        _pieces(b, count * b.dim(tiling.each), at_once) as (start, width),
    ):
        yield [_plane(b, p, point) for p in buffers], start, width


@contextmanager
def _points(b: Builder, rows: DimLike, inner: DimLike) -> Iterator[tuple[Expr, int]]:
    """A loop over the points, and how many tiles to multiply at once (0: all).

    Matrices of few channels are multiplied by calls that the library makes in one thread, so that
    threads can share the points; it parts larger ones among threads of its own.
    """
    size = rows * inner
    at_once = _ALONE // size if isinstance(size, int) else 0
    at_once = at_once if at_once >= _FEWEST_TILES else 0
    kind = "independent" if at_once else "parallel"
    with b.loop(sc.const(POINTS, dt.int64), kind) as point:
        yield point, at_once


@contextmanager
def _pieces(b: Builder, tiles: Expr, at_once: int) -> Iterator[tuple[Expr, Expr]]:
    """A loop over pieces of so many tiles: where each starts, and its size."""
    if not at_once:
        yield ZERO, tiles
        return
    per = sc.const(at_once, dt.int64)
    with b.loop(sc.binary("quotient", tiles + (at_once - 1), per), "reduction") as piece:
        start = piece * per
        yield start, sc.binary("minimum", tiles - start, per)


def _plane(b: Builder, planes: Buffer, point: Expr) -> Expr:
    return point * b.dim(planes.dims[1])


def _spread_filters(b: Builder, kernel: Value, filters: Buffer) -> None:
    """A kernel that computes filters [o, c, 3, 3] at the points."""
    o, c = kernel.dims[:2]
    plane = b.dim(filters.dims[1])
    with b.kernel(), b.loops((o, c)) as pair:
        taps = [[b.element(kernel, (*pair, *_constants(i, j))) for j in range(FILTER)]
                for i in range(FILTER)]  # fmt: skip
        points = _both_axes(b, _of_filter, taps)  # type: ignore[arg-type]
        for number, value in enumerate(value for row in points for value in row):
            b.emit(*ir.stores(filters, (plane * number + b.linear(pair, (o, c)),), value))


def _constants(*numbers: int) -> tuple[Expr, ...]:
    return tuple(sc.const(n, dt.int64) for n in numbers)


def _draw(
    tiling: _Tiling, products: Buffer, canvas: Buffer, out: Buffer, first: Expr, count: Expr
) -> None:
    """A kernel that reads the outputs of a block off the products."""
    b = tiling.b
    _, o, *size = out.dims
    with b.kernel(), b.loop(count, "independent") as image, b.loop(b.dim(o)) as channel:
        with b.loops(tiling.counts) as tile:
            points = _load_points(b, products, tiling.place(channel, image, tile))
            for i, row in enumerate(_both_axes(b, _to_outputs, points)):
                for j, value in enumerate(row):
                    place = (tile[0] * TILE + i, tile[1] * TILE + j)
                    b.store(canvas, (image, *place), value)
        with b.loops(tuple(size)) as at:
            drawn = ir.load(canvas, (b.linear((image, *at), canvas.dims),))
            b.store(out, (first + image, channel, *at), drawn)


def by_gradient(b: Builder, x: Value, taps: Value, pads: Pads, out: Buffer) -> None:
    """``out[c, o] = sum over n of x[c, n] * taps[o, n]`` of 3 x 3 places: the taps are images."""
    c, images, *size = x.dims
    o, taps_size = taps.dims[0], taps.dims[2:]
    dtype = out.dtype
    compute_now(b, x, taps)
    tiling = _Tiling(b, dtype, images, taps_size, c + o)
    total = b.temp((POINTS, c * o + _APART), dtype)
    b.fill(total, b.constant(0, total.dims, dtype))
    canvas, blank = tiling.canvas(FILTER - 1), tiling.canvas(0)
    spread, grads = tiling.planes(c), tiling.planes(o)
    before = tuple(b.dim(p) for p, _ in pads)
    of_x = lambda n, channel, at: b.element(x, (channel, n, *at))  # noqa: E731
    of_taps = lambda n, channel, at: b.element(taps, (channel, n, *at))  # noqa: E731
    image = _Images(of_x, c, tuple(size), before, PATCH, _of_image)
    gradient = _Images(of_taps, o, taps_size, (ZERO, ZERO), TILE, _of_gradient)
    with blocks(b, images, tiling.per_block) as (first, count):
        tiling.spread(image, canvas, spread, first, count)
        tiling.spread(gradient, blank, grads, first, count)
        pitch = b.dim(tiling.pitch)
        planes = (spread, grads, total)
        with _products(tiling, (c, o), count, planes) as ((left, right, result), start, width):
            multiply(
                b, Matrix(spread, left + start, pitch), Matrix(grads, right + start, pitch, True),
                Matrix(total, result, b.dim(o)), (b.dim(c), b.dim(o), width), accumulate=True,
            )  # fmt: skip
    with b.kernel(), b.loops((c, o)) as pair:
        points = _load_points(b, total, b.linear(pair, (c, o)))
        for i, row in enumerate(_both_axes(b, _to_filter, points)):
            for j, value in enumerate(row):
                b.store(out, (*pair, *_constants(i, j)), value)
