"""Pooling of regions of interest: bins of boxes, each a mean or a maximum of what lies in it.

How many positions a bin has depends on its box. A loop goes over them, in all bins at once: in its
k-th step each bin reads its k-th position, with weight 0 where it has none. Images are seen as a
table with a row for each position of each image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.index_ranges import as_int64
from phix.core.meta import MetaTensor
from phix.core.value_ranges import Counts, ValueRange
from phix.primitives.control_flow import looped
from phix.primitives.detection import check_boxes, parts_of
from phix.primitives.positions import nothing, numbers
from phix.primitives.widening import as_dtype, widened

# What a step reads: rows of the table, and their weights, each [boxes, bins down, bins across].
Taps = list[tuple[Any, Any]]


# -- boxes and bins --------------------------------------------------------------------------------
def _check(x: Any, boxes: Any, boxes_num: Any) -> None:
    if x.ndim != 4:
        raise ShapeError(f"x must be images [n, channels, height, width], found {x.meta}")
    check_boxes(2, boxes=boxes)
    if boxes_num is None:
        if not dm.may_equal(x.meta.dims[0], 1):
            raise ArgumentError(
                f"boxes_num says how many boxes each of the images {x.meta} has; pass it, as "
                "int32[images]"
            )
    elif dt.kind(boxes_num.dtype) != "int" or boxes_num.ndim != 1 or not dm.may_equal(
        boxes_num.meta.dims[0], x.meta.dims[0]
    ):  # fmt: skip
        raise ShapeError(f"boxes_num must be an int for each image, found {boxes_num.meta}")


@rules.normalize("roi_align")
@rules.normalize("roi_pool")
@rules.normalize("psroi_pool")
def region_attrs(x: MetaTensor, boxes: MetaTensor, boxes_num: Any, *attrs: Any) -> Any:
    if min(attrs[:2]) < 1:
        raise AttributeValueError(
            f"pooled_height and pooled_width must be 1 or more, found {attrs[0]} and {attrs[1]}"
        )
    return attrs


@rules.indices("roi_align")
@rules.indices("roi_pool")
@rules.indices("psroi_pool")
def region_values(x: Any, boxes: MetaTensor, boxes_num: Any, *attrs: Any) -> list[ValueRange]:
    return [] if boxes_num is None else [Counts("boxes_num", boxes.dims[:1], "boxes")]


def _image_of(boxes: Any, boxes_num: Any) -> Any:
    """The image that each box is of."""
    count = boxes.meta.dims[0]
    if boxes_num is None:
        return ops.full((count,), 0, dt.int64)
    ends = ops.cumsum(as_int64(boxes_num), 0)
    passed = ops.reshape(numbers(count), (count, 1)) >= ends
    last = ops.full((), boxes_num.meta.dims[0], dt.int64) - 1
    return ops.minimum(ops.sum(ops.cast(passed, dt.int64), (1,)), last)


def _down(x: Any) -> Any:
    """A number a box, against its bins along one axis."""
    return ops.unsqueeze(x, (1,))


def _half_away(x: Any) -> Any:
    """To whole numbers, half away from 0."""
    return ops.sign(x) * ops.floor(ops.abs(x) + 0.5)


def _most(counts: Any) -> Any:
    """The largest of some ints, 0 if there are none."""
    flat = ops.reshape(counts, (counts.meta.size,))
    return ops.max(ops.concat([flat, ops.full((1,), 0, dt.int64)], 0))


@dataclasses.dataclass(frozen=True)
class BinReads:
    """Which rows each bin reads: ``taps(k, *known)`` in step k of ``steps``."""

    known: tuple[Any, ...]
    steps: Any
    taps: Callable[..., Taps]

    def summed(self, table: Any, dims: dm.Shape) -> Any:
        """Weighted sums of rows of the table, [boxes, bins down, bins across, size]."""

        def step(k: Any, total: Any, table: Any, _: Any, *known: Any) -> list[Any]:
            for row, weight in self.taps(k, *known):
                total = total + ops.gather(table, row, 0) * ops.unsqueeze(weight, (3,))
            return [k + 1, total]

        return self._run(step, nothing(table, (*dims, table.meta.dims[1])), table)

    def spread(self, grad: Any, rows: dm.DimLike) -> Any:
        """Where ``summed`` reads, its cotangents are put."""

        def step(k: Any, total: Any, grad: Any, _: Any, *known: Any) -> list[Any]:
            for row, weight in self.taps(k, *known):
                terms = grad * ops.unsqueeze(weight, (3,))
                total = ops.index_put(total, [row], terms, True, (0,))
            return [k + 1, total]

        return self._run(step, nothing(grad, (rows, grad.meta.dims[3])), grad)

    def _run(self, step: Any, total: Any, read: Any) -> Any:
        def test(k: Any, _: Any, __: Any, steps: Any, *known: Any) -> list[Any]:
            return [k < steps]

        zero = ops.full((), 0, dt.int64)
        return looped(test, step, [zero, total], [read, self.steps, *self.known])[1]


def _table(x: Any) -> Any:
    """Images as rows, one a position."""
    images, channels, height, width = x.meta.dims
    return ops.reshape(ops.transpose(x, (0, 2, 3, 1)), (images * height * width, channels))


def _images(table: Any, dims: dm.Shape) -> Any:
    images, channels, height, width = dims
    parted = ops.reshape(table, (images, height, width, channels))
    return ops.transpose(parted, (0, 3, 1, 2))


# -- roi_align -------------------------------------------------------------------------------------
def _samples(
    dims: dm.Shape, dtype: Any, boxes: Any, boxes_num: Any, down: int, across: int, scale: float,
    ratio: int, aligned: bool,
) -> BinReads:  # fmt: skip
    """A grid of points in each bin, each of which reads the four positions around it."""
    boxes = ops.stop_gradient(widened(boxes))
    left, top, right, bottom = parts_of(boxes * scale - (0.5 if aligned else 0.0))
    height, width = dims[2:]
    known: list[Any] = []
    for low, high, bins in ((top, bottom, down), (left, right, across)):
        size = (high - low) if aligned else ops.maximum(high - low, 1.0)
        own = size / bins
        if ratio > 0:
            count = ops.full(size.meta.dims, ratio, dt.int64)
        else:
            many = ops.where(ops.isfinite(own), own, 1.0)
            many = ops.where(many < 2.0**31, many, 0.0)  # PHI's number is an int32
            count = ops.cast(ops.ceil(many), dt.int64)
        known += [low, own, count]
    offset = _image_of(boxes, boxes_num) * ops.full((), height * width, dt.int64)
    counts = known[2], known[5]
    most = [_most(c) for c in counts]

    def taps(k: Any, offset: Any, per_row: Any, *known: Any) -> Taps:
        at = [_points(*args) for args in (
            (ops.floor_divide(k, per_row), *known[:3], down, height),
            (ops.remainder(k, per_row), *known[3:], across, width),
        )]  # fmt: skip
        return [
            (
                ops.reshape(offset, (*offset.meta.dims, 1, 1))
                + ops.unsqueeze(y, (2,)) * ops.full((), width, dt.int64) + ops.unsqueeze(z, (1,)),
                as_dtype(ops.unsqueeze(wy, (2,)) * ops.unsqueeze(wz, (1,)), dtype),
            )
            for y, wy in at[0] for z, wz in at[1]
        ]  # fmt: skip

    per_row = ops.maximum(most[1], 1)
    return BinReads((offset, per_row, *known), most[0] * most[1], taps)


def _points(number: Any, low: Any, own: Any, count: Any, bins: int, size: Any) -> Taps:
    """The two positions around point ``number`` of each bin along one axis, and their weights."""
    dtype = low.dtype
    total = ops.maximum(count, 1)
    part = (as_dtype(number, dtype) + 0.5) / as_dtype(total, dtype)
    at = _down(low) + (as_dtype(numbers(bins), dtype) + _down(part)) * _down(own)
    last = ops.full((), size, dtype)
    inside = (at >= -1) & (at <= last) & _down(number < count)
    at = ops.maximum(at, 0.0)
    below = ops.minimum(ops.floor(at), last - 1)
    above = ops.minimum(below + 1, last - 1)
    beyond = ops.where(at >= last - 1, 0.0, at - below)
    share = ops.where(inside, 1 / as_dtype(_down(total), dtype), 0.0)
    # what lies outside reads the first position, with weight 0
    below, above = (ops.cast(ops.where(inside, v, 0.0), dt.int64) for v in (below, above))
    return [(below, share * (1 - beyond)), (above, share * beyond)]


@rules.decompose("roi_align")
def roi_align(
    x: Any, boxes: Any, boxes_num: Any, pooled_height: int, pooled_width: int,
    spatial_scale: float, sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    _check(x, boxes, boxes_num)
    bins = (pooled_height, pooled_width)
    wide = widened(x)
    given = (wide.meta.dims, wide.dtype, boxes, boxes_num)
    plan = _samples(*given, *bins, spatial_scale, sampling_ratio, aligned)
    found = plan.summed(_table(wide), (boxes.meta.dims[0], *bins))
    return as_dtype(ops.transpose(found, (0, 3, 1, 2)), x.dtype)


@rules.decompose("roi_align_grad")
def roi_align_grad(
    x: Any, boxes: Any, boxes_num: Any, out_grad: Any, pooled_height: int, pooled_width: int,
    *rest: Any,
) -> Any:  # fmt: skip
    grad = ops.transpose(widened(out_grad), (0, 2, 3, 1))
    images, channels, height, width = x.meta.dims
    given = (x.meta.dims, grad.dtype, boxes, boxes_num)
    plan = _samples(*given, pooled_height, pooled_width, *rest)
    rows = plan.spread(grad, images * height * width)
    return as_dtype(_images(rows, (images, channels, height, width)), out_grad.dtype)


@rules.decompose("roi_align_double_grad")
def roi_align_double_grad(boxes: Any, boxes_num: Any, x_grad_grad: Any, *attrs: Any) -> Any:
    return ops.roi_align(x_grad_grad, boxes, boxes_num, *attrs)


# -- whole positions -------------------------------------------------------------------------------
def _edges(low: Any, own: Any, bins: int, size: Any, rounded_first: bool) -> tuple[Any, Any]:
    """The first position of each bin along one axis, and the one behind its last: [boxes, bins]."""
    at = as_dtype(numbers(bins), low.dtype)
    before = 0.0 if rounded_first else _down(low)
    start, end = ops.floor(at * _down(own) + before), ops.ceil((at + 1) * _down(own) + before)
    if rounded_first:
        start, end = start + _down(low), end + _down(low)
    last = ops.full((), size, low.dtype)
    start, end = (ops.minimum(ops.maximum(v, 0.0), last) for v in (start, end))
    return ops.cast(start, dt.int64), ops.cast(end, dt.int64)


def _walk(k: Any, per_row: Any, top: Any, bottom: Any, left: Any, right: Any) -> Any:
    """Position k of each bin, row and column, and whether there is one."""
    row, column = ops.floor_divide(k, per_row), ops.remainder(k, per_row)
    y, z = top + row, left + column
    inside = ops.unsqueeze(y < bottom, (2,)) & ops.unsqueeze(z < right, (1,))
    return ops.unsqueeze(y, (2,)), ops.unsqueeze(z, (1,)), inside


@rules.decompose("roi_pool")
def roi_pool(
    x: Any, boxes: Any, boxes_num: Any, pooled_height: int, pooled_width: int, spatial_scale: float
) -> Any:
    """The loop finds where the maxima are; what stands there is read after it."""
    _check(x, boxes, boxes_num)
    _, channels, height, width = x.meta.dims
    corners = [_half_away(v) for v in parts_of(ops.stop_gradient(widened(boxes)) * spatial_scale)]
    edges: list[Any] = []
    for i, bins, size in ((1, pooled_height, height), (0, pooled_width, width)):
        own = ops.maximum(corners[i + 2] - corners[i] + 1, 1.0) / bins
        edges += _edges(corners[i], own, bins, size, True)
    table = _table(x)
    dims = (boxes.meta.dims[0], pooled_height, pooled_width, channels)
    offset = _image_of(boxes, boxes_num) * ops.full((), height * width, dt.int64)
    wide = ops.full((), width, dt.int64)

    def test(k: Any, best: Any, at: Any, table: Any, steps: Any, *known: Any) -> list[Any]:
        return [k < steps]

    def step(
        k: Any, best: Any, at: Any, table: Any, _: Any, per_row: Any, offset: Any, *edges: Any
    ) -> list[Any]:
        y, z, inside = _walk(k, per_row, *edges)
        place = ops.where(inside, y * wide + z, 0)
        found = ops.gather(table, place + ops.reshape(offset, (*offset.meta.dims, 1, 1)), 0)
        larger = ops.unsqueeze(inside, (3,)) & ((found > best) | (at < 0))
        place = ops.unsqueeze(place, (3,))
        return [k + 1, ops.where(larger, found, best), ops.where(larger, place, at)]

    most = [_most(end - start) for start, end in (edges[:2], edges[2:])]
    carry = [ops.full((), 0, dt.int64), nothing(table, dims), ops.full(dims, -1, dt.int64)]
    known = [most[0] * most[1], ops.maximum(most[1], 1), offset, *edges]
    at = looped(test, step, carry, [ops.stop_gradient(table), *known])[2]
    rows = ops.maximum(at, 0) + ops.reshape(offset, (dims[0], 1, 1, 1))
    flat = ops.reshape(rows, (dm.product(dims[:3]), channels))
    found = ops.reshape(ops.take_along_axis(table, flat, 0), dims)
    out = ops.where(at >= 0, found, 0.0)
    return tuple(ops.transpose(t, (0, 3, 1, 2)) for t in (out, at))


def _own_channels(
    dims: dm.Shape, dtype: Any, boxes: Any, boxes_num: Any, down: int, across: int, scale: float
) -> BinReads:
    """All positions of each bin, in the channels of that bin, with equal weights."""
    height, width = dims[2:]
    corners = [_half_away(v) for v in parts_of(ops.stop_gradient(widened(boxes)))]
    edges: list[Any] = []
    for i, bins, size in ((1, down, height), (0, across, width)):
        low = corners[i] * scale
        own = ops.maximum((corners[i + 2] + 1) * scale - low, 0.1) / bins
        edges += _edges(low, own, bins, size, False)
    offset = _image_of(boxes, boxes_num) * ops.full((), height * width, dt.int64)
    most = [_most(end - start) for start, end in (edges[:2], edges[2:])]
    bin_number = ops.reshape(numbers(down * across), (down, across))

    def taps(k: Any, offset: Any, per_row: Any, bin_number: Any, *edges: Any) -> Taps:
        y, z, inside = _walk(k, per_row, *edges)
        place = y * ops.full((), width, dt.int64) + z
        place = place + ops.reshape(offset, (*offset.meta.dims, 1, 1))
        row = ops.where(inside, place * (down * across) + bin_number, 0)
        top, bottom, left, right = edges
        area = ops.unsqueeze(bottom - top, (2,)) * ops.unsqueeze(right - left, (1,))
        area = as_dtype(ops.maximum(area, 1), dtype)
        return [(row, ops.where(inside, 1 / area, 0.0))]

    known = (offset, ops.maximum(most[1], 1), bin_number, *edges)
    return BinReads(known, most[0] * most[1], taps)


def _check_channels(x: Any, down: int, across: int, channels: int) -> None:
    if channels < 1 or not dm.may_equal(x.meta.dims[1], channels * down * across):
        raise ShapeError(
            f"x has output_channels {channels} for each of {down} * {across} bins, found {x.meta}"
        )


def _parted(x: Any, down: int, across: int, channels: int) -> Any:
    """Rows of output_channels: one for each bin at each position."""
    images, _, height, width = x.meta.dims
    parted = ops.reshape(x, (images, channels, down * across, height, width))
    parted = ops.transpose(parted, (0, 3, 4, 2, 1))
    return ops.reshape(parted, (images * height * width * down * across, channels))


@rules.decompose("psroi_pool")
def psroi_pool(
    x: Any, boxes: Any, boxes_num: Any, pooled_height: int, pooled_width: int,
    output_channels: int, spatial_scale: float,
) -> Any:  # fmt: skip
    _check(x, boxes, boxes_num)
    bins = (pooled_height, pooled_width)
    _check_channels(x, *bins, output_channels)
    wide = widened(x)
    plan = _own_channels(wide.meta.dims, wide.dtype, boxes, boxes_num, *bins, spatial_scale)
    table = _parted(wide, *bins, output_channels)
    found = plan.summed(table, (boxes.meta.dims[0], *bins))
    return as_dtype(ops.transpose(found, (0, 3, 1, 2)), x.dtype)


@rules.decompose("psroi_pool_grad")
def psroi_pool_grad(
    x: Any, boxes: Any, boxes_num: Any, out_grad: Any, pooled_height: int, pooled_width: int,
    output_channels: int, spatial_scale: float,
) -> Any:  # fmt: skip
    images, _, height, width = x.meta.dims
    bins = pooled_height * pooled_width
    grad = ops.transpose(widened(out_grad), (0, 2, 3, 1))
    given = (x.meta.dims, grad.dtype, boxes, boxes_num)
    plan = _own_channels(*given, pooled_height, pooled_width, spatial_scale)
    rows = plan.spread(grad, images * height * width * bins)
    parted = ops.reshape(rows, (images, height, width, bins, output_channels))
    found = ops.reshape(ops.transpose(parted, (0, 4, 3, 1, 2)), x.meta.dims)
    return as_dtype(found, out_grad.dtype)


@rules.decompose("psroi_pool_double_grad")
def psroi_pool_double_grad(boxes: Any, boxes_num: Any, x_grad_grad: Any, *attrs: Any) -> Any:
    return ops.psroi_pool(x_grad_grad, boxes, boxes_num, *attrs)
