"""Images read at places between their elements: grids, warps, deformable windows, correlation."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.windows import window_counts
from phix.primitives.convolution import MOST, check_image
from phix.primitives.positions import numbers
from phix.primitives.widening import in_float32
from phix.primitives.window_spans import whole


def _float(dim: dm.DimLike, dtype: Any) -> Any:
    return float(dim) if isinstance(dim, int) else ops.cast(ops.full((), dim, "int64"), dtype)


# -- reading -----------------------------------------------------------------------------------
def _at(flat: Any, size: dm.Shape, places: list[Any]) -> Any:
    """The elements of ``flat`` [n, c, area] at whole places [n, p] an axis; 0 off the image."""
    number: Any = None
    is_on: Any = None
    for n, place in zip(size, places):
        on = (place >= 0.0) & (place <= _float(n - 1, place.dtype))
        # as a float first: an int has no room for the largest of them
        near = ops.cast(ops.clip(place, -1.0, float(MOST)), dt.int64)
        near = ops.minimum(ops.maximum(near, 0), whole(n - 1))
        number = near if number is None else number * whole(n) + near
        is_on = on if is_on is None else is_on & on
    batch, count = number.meta.dims
    found = ops.take_along_axis(flat, ops.reshape(number, (batch, 1, count)), 2)
    mask = ops.reshape(is_on, (batch, 1, count))
    return ops.where(mask, found, ops.full((), 0, flat.dtype))


def _linear(flat: Any, size: dm.Shape, places: list[Any]) -> Any:
    """Between the 2 ** axes elements around each place, 0 off the image."""
    # however far off a place is, its weights are finite
    places = [
        ops.minimum(ops.maximum(p, -2.0), _float(n + 1, p.dtype)) for n, p in zip(size, places)
    ]
    below = [ops.floor(p) for p in places]
    shares = [p - b for p, b in zip(places, below)]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight = functools.reduce(
            ops.multiply, (s if up else 1.0 - s for up, s in zip(corner, shares))
        )
        found = _at(flat, size, [b + float(up) for up, b in zip(corner, below)])
        batch, count = weight.meta.dims
        part = found * ops.reshape(weight, (batch, 1, count))
        total = part if total is None else total + part
    return total


# -- grids -------------------------------------------------------------------------------------
def _off_border(place: Any, size: dm.DimLike, align_corners: bool) -> Any:
    return ops.minimum(ops.maximum(place, 0.0), _float(size - 1, place.dtype))


def _reflected(place: Any, size: dm.DimLike, align_corners: bool) -> Any:
    """Thrown back at the middles of the border's elements, or at their outer edges."""
    shift = 0.0 if align_corners else 0.5
    span = _float(size - 1 if align_corners else size, place.dtype) * 2.0
    span = (
        ops.maximum(ops.cast(ops.full((), span, place.dtype), place.dtype), 1.0)
        if isinstance(span, float)
        else ops.maximum(span, 1.0)
    )
    off = ops.abs(place + shift)
    off = off - ops.floor(off / span) * span
    return _off_border(ops.minimum(off, span - off) - shift, size, align_corners)


_PADDINGS = {"zeros": lambda place, *_: place, "border": _off_border, "reflection": _reflected}
_MODES = {
    "bilinear": _linear,
    "nearest": lambda flat, size, places: _at(flat, size, [ops.round(p) for p in places]),
}


@rules.decompose("grid_sample")
@in_float32
def grid_sample(x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    for name, value, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if value not in known:
            raise AttributeValueError(f"{name} must be one of {', '.join(known)}, found {value!r}")
    if x.ndim not in (4, 5) or grid.ndim != x.ndim:
        raise ShapeError(f"x and grid must have 4 axes both, or 5, found {x.meta} and {grid.meta}")
    n, c, *size = x.meta.dims
    batch, *places, count = grid.meta.dims
    if not dm.may_equal(count, len(size)) or not dm.may_equal(n, batch):
        raise ShapeError(
            f"grid must be [{dm.dim_text(n)}, ..., {len(size)}] for {x.meta}, found {grid.meta}"
        )
    if any(dm.is_zero(d) for d in size):
        raise ShapeError(f"{x.meta} has nothing to sample")
    flat_grid = ops.reshape(grid, (n, dm.product(tuple(places)), len(size)))
    found = []
    for axis, have in enumerate(size):
        last = len(size) - 1 - axis  # x first, the rows behind it
        at = ops.slice(flat_grid, (2,), (last,), (last + 1,), (), (2,))
        span = _float(have - 1 if align_corners else have, grid.dtype)
        at = (at + 1.0) * (span * 0.5) - (0.0 if align_corners else 0.5)
        found.append(_PADDINGS[padding_mode](at, have, align_corners))
    flat = ops.reshape(x, (n, c, dm.product(tuple(size))))
    return ops.reshape(_MODES[mode](flat, tuple(size), found), (n, c, *places))


@rules.decompose("affine_grid")
@in_float32
def affine_grid(input: Any, output_shape: Any, align_corners: bool) -> Any:
    rank = len(output_shape) - 2
    if rank not in (2, 3) or input.ndim != 3:
        raise ShapeError(
            "output_shape must be [n, c, h, w] or [n, c, d, h, w], and input [n, 2, 3] or [n, 3, "
            f"4], found {dm.shape_text(tuple(output_shape))} and {input.meta}"
        )
    n, *matrix = input.meta.dims
    if not all(map(dm.may_equal, (n, *matrix), (output_shape[0], rank, rank + 1))):
        raise ShapeError(
            f"input must be [{dm.dim_text(output_shape[0])}, {rank}, {rank + 1}], found "
            f"{input.meta}"
        )
    size = tuple(output_shape[2:])
    total: Any = None
    for axis, have in enumerate(size):
        at = ops.cast(numbers(have), input.dtype)
        steps = _float(have - 1 if align_corners else have, input.dtype)
        steps = ops.maximum(
            ops.full((), steps, input.dtype) if isinstance(steps, float) else steps, 1.0
        )
        if align_corners:  # a single place is the middle
            first = ops.minimum(_count_less_one(have, input.dtype), 1.0)
            at = at * 2.0 / steps - first
        else:
            at = (at * 2.0 + 1.0) / steps - 1.0
        column = rank - 1 - axis
        part = ops.slice(input, (2,), (column,), (column + 1,))
        dims = [1] * (rank + 2)
        dims[axis + 1] = have
        moved = ops.reshape(at, dims) * ops.reshape(part, (n, *(1,) * rank, rank))
        total = moved if total is None else total + moved
    last = ops.slice(input, (2,), (rank,), (rank + 1,))
    return total + ops.reshape(last, (n, *(1,) * rank, rank))


def _count_less_one(dim: dm.DimLike, dtype: Any) -> Any:
    return ops.cast(ops.full((), dim - 1, "int64"), dtype)


# -- correlation -------------------------------------------------------------------------------
@rules.decompose("correlation")
@in_float32
def correlation(
    input1: Any,
    input2: Any,
    pad_size: int,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    corr_type_multiply: int,
) -> Any:
    dims = input1.meta.dims
    if input1.ndim != 4 or input2.ndim != 4 or not all(map(dm.may_equal, dims, input2.meta.dims)):
        raise ShapeError(
            f"the inputs must be images of one shape, found {input1.meta} and {input2.meta}"
        )
    least = {"pad_size": 0, "kernel_size": 1, "max_displacement": 0, "stride1": 1, "stride2": 1}
    given = (pad_size, kernel_size, max_displacement, stride1, stride2)
    for (name, low), value in zip(least.items(), given):
        if isinstance(value, int) and not low <= value <= MOST:
            raise AttributeValueError(f"{name} must be {low} or more, found {value}")
    if kernel_size % 2 == 0:
        raise AttributeValueError(f"kernel_size must be odd, found {kernel_size}")
    n, c, *size = dims
    reach = (kernel_size - 1) // 2
    border = reach + max_displacement
    counts = [dm.floordiv(d + 2 * (pad_size - border) + stride1 - 1, stride1) for d in size]
    if any(isinstance(d, int) and d < 1 for d in counts):
        raise ShapeError(f"displacements of {max_displacement} leave nothing of {input1.meta}; pad")
    side = pad_size + reach
    around = (0, 0, 0, 0, side, side, side, side)
    first, second = (ops.pad(v, around, 0) for v in (input1, input2))
    moves = max_displacement // stride2
    taps = numbers(kernel_size)
    middles = [numbers(d) * stride1 + max_displacement for d in counts]
    shifts = (numbers(2 * moves + 1) - moves) * stride2
    for axis, middle, count in ((3, middles[1], counts[1]), (2, middles[0], counts[0])):
        at = ops.reshape(middle, (count, 1)) + taps
        first = ops.gather(first, at, axis)
        moved = ops.reshape(shifts, (2 * moves + 1, 1, 1)) + at
        second = ops.gather(second, moved, axis)
    # [n, c, 1, oh, k, 1, ow, k] with [n, c, moves, oh, k, moves, ow, k]
    oh, ow = counts
    first = ops.reshape(first, (n, c, 1, oh, kernel_size, 1, ow, kernel_size))
    mean = ops.mean(first * second, (1, 4, 7))
    channels = (2 * moves + 1) ** 2
    return ops.reshape(ops.transpose(mean, (0, 1, 3, 2, 4)), (n, channels, oh, ow))


# -- deformable_conv ---------------------------------------------------------------------------
def _check_deformable(x: Any, offset: Any, filter: Any, mask: Any, *attrs: Any) -> dm.Shape:
    """How many places the windows have."""
    strides, paddings, dilations, parts, groups = attrs
    if x.ndim != 4 or filter.ndim != 4 or offset.ndim != 4:
        raise ShapeError(
            f"x, offset and filter must have 4 axes, found {x.meta}, {offset.meta} and "
            f"{filter.meta}"
        )
    for name, values, low in (
        ("strides", strides, 1), ("paddings", paddings, 0), ("dilations", dilations, 1)
    ):  # fmt: skip
        if len(values) != 2 or any(not low <= v <= MOST for v in values):
            raise AttributeValueError(f"{name} must be two ints of {low} or more, found {values}")
    if min(parts, groups) < 1:
        raise AttributeValueError("groups and deformable_groups must be 1 or more")
    n, c, *size = x.meta.dims
    o, per_group, *kernel = filter.meta.dims
    if not dm.may_equal(c, per_group * groups) or (dm.is_known(c) and c % parts):
        raise ShapeError(
            f"{dm.dim_text(c)} channels do not part into {parts} deformable groups, or the "
            f"filter {filter.meta} takes others in {groups} groups"
        )
    if dm.is_known(o) and o % groups:
        raise ShapeError(f"{o} filters do not part into {groups} groups")
    pads = [(p, p) for p in paddings]
    places = window_counts("EXPLICIT", pads, tuple(size), tuple(kernel), strides, dilations)
    if any(isinstance(d, int) and d < 1 for d in places):
        raise ShapeError(f"the filter {filter.meta} does not fit on {x.meta}; pad more")
    taps = dm.product(tuple(kernel))
    for name, v, each in (("offset", offset, 2), ("mask", mask, 1)):
        wanted = (n, each * parts * taps, *places)
        if v is not None and (v.ndim != 4 or not all(map(dm.may_equal, v.meta.dims, wanted))):
            raise ShapeError(f"{name} must have shape {dm.shape_text(wanted)}, found {v.meta}")
    return places


@rules.decompose("deformable_conv")
@in_float32
def deformable_conv(
    x: Any,
    offset: Any,
    filter: Any,
    mask: Any,
    strides: Any,
    paddings: Any,
    dilations: Any,
    deformable_groups: int,
    groups: int,
    im2col_step: int,
) -> Any:
    attrs = (strides, paddings, dilations, deformable_groups, groups)
    places = _check_deformable(x, offset, filter, mask, *attrs)
    n, c, *size = x.meta.dims
    o, per_group, *kernel = filter.meta.dims
    taps, area = dm.product(tuple(kernel)), dm.product(places)
    check_image((c, taps, area), x.dtype, "the windows make")
    batch = n * deformable_groups
    moved = ops.reshape(offset, (batch, *kernel, 2, *places))
    found = []
    for axis in range(2):
        own = ops.slice(moved, (3,), (axis,), (axis + 1,), (), (3,))
        start = numbers(places[axis]) * strides[axis] - paddings[axis]
        start = ops.reshape(start, [places[axis] if i == axis else 1 for i in range(2)])
        tap = numbers(kernel[axis]) * dilations[axis]
        tap = ops.reshape(tap, [kernel[axis] if i == axis else 1 for i in range(4)])
        at = own + ops.cast(start + tap, x.dtype)
        found.append(ops.reshape(at, (batch, taps * area)))
    flat = ops.reshape(x, (batch, dm.floordiv(c, deformable_groups), dm.product(tuple(size))))
    columns = _linear(flat, tuple(size), found)
    if mask is not None:
        columns = columns * ops.reshape(mask, (batch, 1, taps * area))
    columns = ops.reshape(columns, (n, groups, per_group * taps, area))
    rows = ops.reshape(filter, (groups, dm.floordiv(o, groups), per_group * taps))
    return ops.reshape(ops.matmul(rows, columns), (n, o, *places))
