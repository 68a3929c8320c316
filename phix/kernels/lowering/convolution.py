"""Lowering of conv2d: by Winograd's tiles, by matrix products over patches, or by plain loops.

The gradient to a filter is a convolution too, one with few places and many taps, whose sum over
images is one over input channels here: see :mod:`phix.primitives.convolution`. Which way is
taken stands in the table at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.dims import DimLike
from phix.core.kernel_registry import provides
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.core.windows import Pads, explicit_paddings
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Pointer
from phix.kernels.lowering import convolution_lines, winograd
from phix.kernels.lowering.blocks import blocks, compute_now, items_at_once
from phix.kernels.lowering.boxes import padded
from phix.kernels.lowering.contraction import BLAS_DTYPES, Matrix, multiply
from phix.kernels.lowering.reduction import converted, parts, whole
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import reindexed
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

provides("conv2d", "BLAS", BLAS_DTYPES)

# From this many channels on, both in and out, and tiles in all images, the matrix products of
# Winograd's way are worth it.
_WINOGRAD_CHANNELS, _FEWEST_TILES = 16, 16
# Along lines fewer channels take less time than by tiles.
_CHANNELS_BESIDE_LINES = 20
# Up to this many taps are written out in one sum, for up to so many filters a group: a matrix
# product would have too few rows to be fast.
_MOST_TAPS, _FEW_ROWS = 32, 4
# Bytes of patches that stay in the second cache of a core, and columns of tiles of a product.
_BAND_BYTES, _BAND_COLUMNS = 640 << 10, 32
# Up to this many places an output channel has in what is computed like a gradient.
_MOST_PLACES = 128


@lowering("conv2d", "whole")
def conv2d(
    b: Builder,
    x: Value,
    kernel: Value,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    groups: int,
    data_format: str,
    *,
    task: Task,
) -> Value:
    meta = task.out
    dims = meta.dims
    if data_format == "NHWC":
        n, h, w, c = x.dims
        x = reindexed(b, x, lambda i: (i[0], i[2], i[3], i[1]), (n, c, h, w))
        dims = (dims[0], dims[3], dims[1], dims[2])
    is_narrow = (
        meta.dtype in (dt.float16, dt.bfloat16) and meta.dtype not in b.target.product_dtypes
    )
    compute = dt.float32 if is_narrow else meta.dtype
    pads = explicit_paddings(
        padding_algorithm, paddings, x.dims[2:], kernel.dims[2:], strides, dilations
    )
    x, kernel = converted(b, x, compute), converted(b, kernel, compute)
    conv = _Convolution(b, x, kernel, dims, compute, pads, strides, dilations, groups)
    write = next(way for applies, way in _WAYS if applies(conv))
    (stored,) = b.written((MetaTensor(dims, compute),), lambda out: write(conv, out))
    if data_format == "NHWC":
        stored = reindexed(b, stored, lambda i: (i[0], i[3], i[1], i[2]), meta.dims)
    return converted(b, stored, meta.dtype)


@dataclass(eq=False)
class _Convolution:
    """A convolution of images [n, c, h, w] by filters [o, c / groups, kh, kw] to ``dims``."""

    b: Builder
    x: Value
    kernel: Value
    dims: dm.Shape
    dtype: np.dtype
    pads: Pads
    strides: Any
    dilations: Any
    groups: int

    def __post_init__(self) -> None:
        self.per_group = self.kernel.dims[1]
        self.taps = self.kernel.dims[2:]
        self.places = self.dims[2:]
        self.rows = dm.floordiv(self.dims[1], self.groups)
        self.is_padded = not all(dm.is_zero(p) for pair in self.pads for p in pair)
        self.is_dense = tuple(self.strides) == (1, 1) == tuple(self.dilations)

    def under(self, tap: tuple[Expr, ...], at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where a tap (ky, kx) for the output at (oy, ox) lies on the padded image."""
        return tuple(o * s + t * d for o, s, t, d in zip(at, self.strides, tap, self.dilations))

    def pad(self) -> None:
        size = tuple(d + p + q for d, (p, q) in zip(self.x.dims[2:], self.pads))
        every = [(0, 0), (0, 0), *self.pads]
        self.x = padded(self.b, self.x, every, 0, (*self.x.dims[:2], *size))

    def canvas(self, images: DimLike) -> Buffer | None:
        """A zero image with its padding for each of ``images``; none if nothing is left to pad."""
        if self.is_padded and not self.b.target.reuses_planes:
            self.pad()
            self.is_padded = False
        if not self.is_padded:
            return None
        size = tuple(d + p + q for d, (p, q) in zip(self.x.dims[2:], self.pads))
        blank = self.b.temp((images, *size), self.dtype)
        self.b.fill(blank, self.b.constant(0, blank.dims, self.dtype))
        return blank

    def reader(
        self, canvas: Buffer | None, number: Expr, image: Expr, channel: Expr
    ) -> Callable[[tuple[Expr, ...]], Any]:
        """How to read a padded plane, copied to canvas ``number`` first if there is one."""
        b, x = self.b, self.x
        if canvas is None:
            return lambda at: b.element(x, (image, channel, *at))
        with b.loops(x.dims[2:]) as at:
            shifted = tuple(i + b.dim(p) for i, (p, _) in zip(at, self.pads))
            b.store(canvas, (number, *shifted), b.element(x, (image, channel, *at)))
        return lambda at: ir.load(canvas, (b.linear((number, *at), canvas.dims),))


# -- the ways ------------------------------------------------------------------------------------
def _by_tiles(conv: _Convolution, out: Buffer) -> None:
    winograd.by_filter(conv.b, conv.x, conv.kernel, conv.pads, out)


def _by_gradient_tiles(conv: _Convolution, out: Buffer) -> None:
    winograd.by_gradient(conv.b, conv.x, conv.kernel, conv.pads, out)


def _by_call(conv: _Convolution, out: Buffer) -> None:
    """One call for each group, the sums over taps in parts where that makes enough work at once."""
    b, places, taps = conv.b, dm.product(conv.places), conv.per_group * dm.product(conv.taps)
    assert b.target.convolution_parts is not None
    sizes = (conv.rows, conv.dims[0] * places, taps)
    count = b.target.convolution_parts(*(d if isinstance(d, int) else None for d in sizes))
    weights, images = b.contiguous(conv.kernel), b.contiguous(conv.x)
    wide = dt.float64 if conv.dtype == dt.float64 else dt.float32
    sums = out if count == 1 else b.temp((count, *conv.dims), wide)
    n, channels, *size = conv.x.dims
    area = dm.product(tuple(size))
    numbers = (n, conv.rows, *conv.places, conv.per_group, *conv.taps, *size, channels * area,
               conv.dims[1] * places, dm.product(conv.dims), count, *conv.strides,
               *(before for before, _ in conv.pads), *conv.dilations)  # fmt: skip
    with b.kernel(), b.loop(b.dim(conv.groups)) as group:
        own = [b.dim(d) for d in numbers]
        pointers = [
            Pointer(images, group * b.dim(conv.per_group * area)),
            Pointer(weights, group * b.dim(conv.rows * taps)),
            Pointer(sums, group * b.dim(conv.rows * places)),
        ]
        name = f"convolution_{conv.dtype}"
        b.emit(ir.LibraryCall(name, (*own, *pointers), (sums,)))
    if count > 1:
        with b.kernel(), b.loops(conv.dims) as at:
            (total,) = b.mutable(sc.const(0, wide))
            with b.loops((count,), "reduction") as (part,):
                found: Any = ir.load(sums, (b.linear((part, *at), sums.dims),))
                b.emit(ir.Assign((total,), (total + found,)))
            b.store(out, tuple(at), total)


def _by_planes(conv: _Convolution, out: Buffer) -> None:
    """Filters of one tap: an image is the right side of a matrix product as it is."""
    b = conv.b
    weights, source = b.contiguous(conv.kernel), b.contiguous(conv.x)
    with b.kernel(), b.loop(b.dim(conv.dims[0])) as image:
        _products(conv, weights, source, image, image, out)


def _by_patches(conv: _Convolution, out: Buffer) -> None:
    """The patches under the filters as the columns of a matrix, an image at a time."""
    b, images = conv.b, conv.dims[0]
    weights = b.contiguous(conv.kernel)
    compute_now(b, conv.x)
    channels, spatial = conv.x.dims[1], dm.product(conv.places)
    rows = channels * dm.product(conv.taps)
    at_once = items_at_once(b, images, rows * spatial * conv.dtype.itemsize)
    columns = b.temp((at_once, channels, *conv.taps, *conv.places), conv.dtype)
    canvas = conv.canvas(at_once)
    with blocks(b, images, at_once) as (first, count):
        with (
            b.kernel(),
            b.loop(count, "independent") as number,
            b.loop(b.dim(channels)) as channel,
        ):
            read = conv.reader(canvas, number, first + number, channel)
            with b.loops(conv.taps) as tap, b.loops(conv.places) as at:
                b.store(columns, (number, channel, *tap, *at), read(conv.under(tap, at)))
        with b.kernel(), b.loop(count) as number:
            _products(conv, weights, columns, number, first + number, out)


def _by_bands(conv: _Convolution, out: Buffer) -> None:
    """As by patches, but of some rows of places at a time, which stay in the second cache until
    they are multiplied."""
    b, images, rows = conv.b, conv.dims[0], _rows_of_band(conv)
    assert rows is not None
    height, width = (int(d) for d in conv.places)
    weights = b.contiguous(conv.kernel)
    conv.pad()
    compute_now(b, conv.x)
    count, columns, area = -(-height // rows), b.dim(rows * width), b.dim(height * width)
    taps, inner = (conv.x.dims[1], *conv.taps), b.dim(conv.per_group * dm.product(conv.taps))
    dims = (*taps, rows, width)
    with b.kernel() as kernel, b.loop(b.dim(images * count), "independent") as item:
        patches = b.local(kernel, dm.product(dims), conv.dtype)
        image = sc.binary("quotient", item, b.dim(count))
        first, some = (item - image * count) * rows, b.dim(rows)
        if height % rows:
            some = sc.binary("minimum", b.dim(height) - first, some)
        with b.loops(taps) as (channel, *tap), b.loop(some) as y, b.loop(b.dim(width)) as x:
            place = conv.under(tuple(tap), (first + y, x))
            at = b.linear((channel, *tap, y, x), dims)
            b.put(patches, at, b.element(conv.x, (image, channel, *place)))
        with b.loop(b.dim(conv.groups)) as group:
            row = group * b.dim(conv.rows)
            at = (image * b.dim(conv.dims[1]) + row) * area + first * width
            multiply(
                b, Matrix(weights, row * inner, inner),
                Matrix(patches, group * (inner * columns), columns),
                Matrix(out, at, area), (b.dim(conv.rows), some * width, inner),
            )  # fmt: skip


def _rows_of_band(conv: _Convolution) -> int | None:
    """How many rows of places are taken at a time; None where an image is small, or its size is
    not known.

    Columns fill tiles of a product best where they are a multiple of so many, and rows where they
    part the height.
    """
    known = (*conv.dims[1:], *conv.x.dims[1:], *conv.kernel.dims)
    if not all(isinstance(d, int) and d > 0 for d in known):
        return None
    height, width = (int(d) for d in conv.places)
    of_row = int(conv.x.dims[1] * dm.product(conv.taps) * width) * conv.dtype.itemsize
    if of_row * height <= _BAND_BYTES:
        return None

    def waste(rows: int) -> float:
        columns, whole = rows * width, -(-height // rows) * rows
        return -(-columns // _BAND_COLUMNS) * _BAND_COLUMNS / columns * whole / height

    most = min(height, _BAND_BYTES // of_row)
    fits = [r for r in range(1, most + 1) if r * width >= _BAND_COLUMNS]
    return min(fits, key=lambda r: (round(waste(r), 2), -r), default=None)


def _by_lines(conv: _Convolution, out: Buffer) -> None:
    convolution_lines.convolve(conv.b, conv.x, conv.kernel, conv.pads, conv.groups, out)


def _products(
    conv: _Convolution, weights: Buffer, columns: Buffer, number: Expr, image: Expr, out: Buffer
) -> None:
    """The products of all groups for one image, whose columns are the ``number``-th."""
    b = conv.b
    spatial, inner = dm.product(conv.places), conv.per_group * dm.product(conv.taps)
    sizes = (b.dim(conv.rows), b.dim(spatial), b.dim(inner))
    with b.loop(b.dim(conv.groups)) as group:
        row = group * b.dim(conv.rows)
        column = (number * conv.groups + group) * b.dim(inner * spatial)
        place = (image * b.dim(conv.dims[1]) + row) * b.dim(spatial)
        multiply(
            b, Matrix(weights, row * b.dim(inner), b.dim(inner)),
            Matrix(columns, column, b.dim(spatial)), Matrix(out, place, b.dim(spatial)), sizes,
        )  # fmt: skip


def _by_gradient_patches(conv: _Convolution, out: Buffer) -> None:
    """Few places and many taps: one product for each input channel, all added up."""
    b, groups, rows = conv.b, conv.groups, conv.rows
    n, o = conv.dims[:2]
    taps = b.contiguous(conv.kernel)
    compute_now(b, conv.x)
    inner, every = dm.product(conv.taps), n * dm.product(conv.places)
    at_once = items_at_once(b, conv.per_group, every * groups * inner * conv.dtype.itemsize)
    patches = b.temp((at_once, groups, n, *conv.places, *conv.taps), conv.dtype)
    canvas = conv.canvas(at_once)
    total = b.temp((n, *conv.places, o), conv.dtype)
    b.fill(total, b.constant(0, total.dims, conv.dtype))
    with blocks(b, conv.per_group, at_once) as (first, count):
        with (
            b.kernel(),
            b.loop(count, "independent") as number,
            b.loops((groups, n)) as (group, image),
        ):
            channel = group * b.dim(conv.per_group) + first + number
            read = conv.reader(canvas, number, image, channel)
            with b.loops(conv.places) as at, b.loops(conv.taps) as tap:
                b.store(patches, (number, group, image, *at, *tap), read(conv.under(tap, at)))
        with b.kernel(), b.loop(count) as number, b.loop(b.dim(groups)) as group:
            row = group * b.dim(rows)
            left = (number * groups + group) * b.dim(every * inner)
            right = (row * b.dim(conv.per_group) + first + number) * b.dim(inner)
            multiply(
                b, Matrix(patches, left, b.dim(inner)),
                Matrix(taps, right, b.dim(conv.per_group * inner), True),
                Matrix(total, row, b.dim(o)), (b.dim(every), b.dim(rows), b.dim(inner)),
                accumulate=True,
            )  # fmt: skip
    with b.kernel(), b.loops(conv.dims) as (image, channel, *at):
        value = ir.load(total, (b.linear((image, *at, channel), total.dims),))
        b.store(out, (image, channel, *at), value)


def _by_sums(conv: _Convolution, out: Buffer) -> None:
    """A sum written out over all taps, along rows of the output."""
    b = conv.b
    conv.pad()
    taps = [(c, y, x) for c in range(conv.per_group) for y in range(conv.taps[0])
            for x in range(conv.taps[1])]  # fmt: skip
    with b.kernel(), b.loops(conv.dims[:2]) as (image, channel):
        first = sc.binary("quotient", channel, b.dim(conv.rows)) * b.dim(conv.per_group)
        with b.loops(conv.places) as at:
            total: Any = None
            for c, *tap in taps:
                ky, kx = (sc.const(t, dt.int64) for t in tap)
                source: Any = b.element(conv.x, (image, first + c, *conv.under((ky, kx), at)))
                weight = b.element(conv.kernel, (channel, sc.const(c, dt.int64), ky, kx))
                total = source * weight if total is None else total + source * weight
            b.store(out, (image, channel, *at), total)


def _by_loops(conv: _Convolution, out: Buffer) -> None:
    b = conv.b
    conv.pad()
    with b.kernel(), b.loops(conv.dims) as (image, channel, *at):
        total = b.mutable(*parts(constant(0, conv.dtype)))
        group = sc.binary("quotient", channel, b.dim(conv.rows))
        with b.loops((conv.per_group, *conv.taps), "reduction") as (c, *tap):
            place = conv.under(tuple(tap), tuple(at))
            source: Any = b.element(conv.x, (image, group * b.dim(conv.per_group) + c, *place))
            weight: Any = b.element(conv.kernel, (channel, c, *tap))
            b.emit(ir.Assign(total, parts(whole(total) + source * weight), True))
        b.store(out, (image, channel, *at), whole(total))


# -- which way is taken --------------------------------------------------------------------------
def _has_call(conv: _Convolution) -> bool:
    return conv.b.target.convolution_parts is not None and dt.is_float(conv.dtype)


def _is_tiled(conv: _Convolution) -> bool:
    return (
        dm.same_shape(conv.taps, (3, 3))
        and _has_tile_channels(conv, conv.x.dims[1], conv.dims[1])
        and not (_is_narrow(conv.x.dims[1], conv.dims[1]) and _has_lines(conv))
        and _fills_tiles(conv.places, conv.dims[0])
    )


def _is_gradient_tiled(conv: _Convolution) -> bool:
    return (
        _has_tile_channels(conv, *conv.dims[:2])
        and dm.same_shape(conv.places, (3, 3))
        and _fills_tiles(conv.taps, conv.per_group)
    )


def _has_tile_channels(conv: _Convolution, *channels: DimLike) -> bool:
    return (
        rewrites.is_on("winograd")
        and conv.is_dense
        and conv.groups == 1
        and conv.dtype in (dt.float32, dt.float64)
        and all(isinstance(c, int) and c >= _WINOGRAD_CHANNELS for c in channels)
    )


def _is_narrow(*channels: DimLike) -> bool:
    return any(isinstance(c, int) and c < _CHANNELS_BESIDE_LINES for c in channels)


def _fills_tiles(size: dm.Shape, images: DimLike) -> bool:
    """Whether tiles take clearly fewer products than there are taps an element.

    Filters become four times as large first, which pays where they meet some tiles.
    """
    area = dm.product(size)
    tiles = dm.product(tuple(dm.floordiv(d + (winograd.TILE - 1), winograd.TILE) for d in size))
    if not isinstance(area, int) or not isinstance(tiles, int):
        return True
    if isinstance(images, int) and images * tiles < _FEWEST_TILES:
        return False
    return 2 * winograd.POINTS * tiles <= area * winograd.FILTER**2


def _is_gradient(conv: _Convolution) -> bool:
    """Whether the places are few, and the taps of a channel as many or more."""
    places, taps = dm.product(conv.places), dm.product(conv.taps)
    return (
        _has_library(conv)
        and isinstance(places, int)
        and places <= _MOST_PLACES
        and not (isinstance(taps, int) and taps < places)
    )


def _is_one_tap(conv: _Convolution) -> bool:
    return (
        _has_library(conv)
        and conv.is_dense
        and not conv.is_padded
        and dm.same_shape(conv.taps, (1, 1))
    )


def _is_short(conv: _Convolution) -> bool:
    taps = conv.per_group * dm.product(conv.taps)
    return isinstance(taps, int) and 0 < taps <= _MOST_TAPS and _is_few(conv.rows)


def _is_few(rows: DimLike) -> bool:
    return isinstance(rows, int) and rows <= _FEW_ROWS


def _has_library(conv: _Convolution) -> bool:
    few = _is_few(conv.rows) and _is_few(conv.dims[0])
    return conv.dtype in conv.b.target.product_dtypes and not few


def _has_bands(conv: _Convolution) -> bool:
    """Whether patches of an image are more than a cache holds, and threads can share the bands."""
    is_own = rewrites.is_on("own_products") and conv.dtype in conv.b.target.own_products
    is_on = rewrites.is_on("patches_in_bands") and conv.b.target.reuses_planes
    return is_on and is_own and _has_library(conv) and _rows_of_band(conv) is not None


def _has_lines(conv: _Convolution) -> bool:
    """Whether the engine has code for images and filters of these sizes."""
    is_on = rewrites.is_on("direct_convolutions") and rewrites.is_on("own_products")
    is_own = conv.dtype in conv.b.target.own_products and conv.b.target.convolves_along_lines
    sizes = (conv.x.dims, conv.kernel.dims, conv.pads, conv.dims)
    return is_on and is_own and conv.is_dense and convolution_lines.fit(*sizes)


Way = Callable[[_Convolution, Buffer], None]
# The first that applies is taken.
_WAYS: tuple[tuple[Callable[[_Convolution], bool], Way], ...] = (
    (lambda conv: _has_call(conv) and _is_short(conv), _by_sums),
    (lambda conv: _has_call(conv) and _is_one_tap(conv), _by_planes),
    (_has_call, _by_call),
    (_is_tiled, _by_tiles),
    (_is_gradient_tiled, _by_gradient_tiles),
    (lambda conv: _is_short(conv) and not (conv.rows > 1 and _has_lines(conv)), _by_sums),
    (_is_one_tap, _by_planes),
    (_is_gradient, _by_gradient_patches),
    (_has_lines, _by_lines),
    (_has_bands, _by_bands),
    (_has_library, _by_patches),
    (lambda conv: True, _by_loops),
)
