"""Images rearranged: channels to places and back, channels shuffled, shifted, scaled."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.primitives.interpolation import fraction


def is_first(data_format: str, first: tuple[str, ...] = ("NCHW",), last: str = "NHWC") -> bool:
    """Whether the channels come before the places.

    Raises:
        AttributeValueError: ``data_format`` is neither of the two.
    """
    if data_format not in (*first, last):
        raise AttributeValueError(
            f"data_format must be {first[0]} or {last}, found {data_format!r}"
        )
    return data_format != last


def check_images(x: Any) -> None:
    if x.ndim != 4:
        raise ShapeError(f"x must be images with 4 axes, found {x.meta}; reshape it")


def _parted(name: str, dim: dm.DimLike, parts: Any) -> dm.DimLike:
    """``dim / parts``.

    Raises:
        AttributeValueError: parts is no count.
        ShapeError: the dim does not part evenly.
    """
    if isinstance(parts, int) and parts < 1:
        raise AttributeValueError(f"{name} must be 1 or more, found {parts}")
    if dm.is_known(dim, parts) and dim % parts:
        raise ShapeError(f"{dim} elements do not part evenly by {name}, {parts}")
    return dm.floordiv(dim, parts)


@rules.decompose("pixel_shuffle")
def pixel_shuffle(x: Any, upscale_factor: int, data_format: str) -> Any:
    check_images(x)
    r = upscale_factor
    if is_first(data_format):
        n, c, h, w = x.meta.dims
        each = _parted("upscale_factor ** 2", c, r * r)
        cells = ops.transpose(ops.reshape(x, (n, each, r, r, h, w)), (0, 1, 4, 2, 5, 3))
        return ops.reshape(cells, (n, each, h * r, w * r))
    n, h, w, c = x.meta.dims
    each = _parted("upscale_factor ** 2", c, r * r)
    cells = ops.transpose(ops.reshape(x, (n, h, w, each, r, r)), (0, 1, 4, 2, 5, 3))
    return ops.reshape(cells, (n, h * r, w * r, each))


@rules.decompose("pixel_unshuffle")
def pixel_unshuffle(x: Any, downscale_factor: int, data_format: str) -> Any:
    check_images(x)
    r = downscale_factor
    if is_first(data_format):
        n, c, h, w = x.meta.dims
        h, w = (_parted("downscale_factor", d, r) for d in (h, w))
        cells = ops.transpose(ops.reshape(x, (n, c, h, r, w, r)), (0, 1, 3, 5, 2, 4))
        return ops.reshape(cells, (n, c * r * r, h, w))
    n, h, w, c = x.meta.dims
    h, w = (_parted("downscale_factor", d, r) for d in (h, w))
    cells = ops.transpose(ops.reshape(x, (n, h, r, w, r, c)), (0, 1, 3, 5, 2, 4))
    return ops.reshape(cells, (n, h, w, c * r * r))


@rules.decompose("channel_shuffle")
def channel_shuffle(x: Any, groups: int, data_format: str) -> Any:
    check_images(x)
    axis = 1 if is_first(data_format) else 3
    dims = x.meta.dims
    each = _parted("groups", dims[axis], groups)
    parts = ops.reshape(x, (*dims[:axis], groups, each, *dims[axis + 1 :]))
    order = [*range(axis), axis + 1, axis, *range(axis + 2, 5)]
    return ops.reshape(ops.transpose(parts, order), dims)


@rules.decompose("shuffle_channel")
def shuffle_channel(x: Any, group: int) -> Any:
    return channel_shuffle(x, group, "NCHW")


@rules.decompose("temporal_shift")
def temporal_shift(x: Any, seg_num: int, shift_ratio: float, data_format: str) -> Any:
    """Of each run of ``seg_num`` images the first channels are those of the image before, the
    next those of the image behind; nothing is zeros."""
    check_images(x)
    axis = 2 if is_first(data_format) else 4
    if not 0 <= shift_ratio <= 0.5:
        raise AttributeValueError(f"shift_ratio must lie between 0 and 0.5, found {shift_ratio}")
    n, *dims = x.meta.dims
    c = dims[axis - 2]
    ratio = fraction(shift_ratio) if shift_ratio else Fraction(0)
    first, second = (dm.floordiv(c * k * ratio.numerator, ratio.denominator) for k in (1, 2))
    runs = ops.reshape(x, (_parted("seg_num", n, seg_num), seg_num, *dims))
    before, behind, same = (
        ops.slice(runs, (axis,), (a,), (b,)) for a, b in ((0, first), (first, second), (second, c))
    )
    parts = [_shifted(before, 1), _shifted(behind, -1), same]
    return ops.reshape(ops.concat(parts, axis), x.meta.dims)


def _shifted(x: Any, by: int) -> Any:
    """``x`` moved on along axis 1, zeros in its place."""
    paddings = [0] * (2 * x.ndim)
    paddings[2:4] = by, -by
    return ops.pad(x, paddings, 0)


@rules.decompose("affine_channel")
def affine_channel(x: Any, scale: Any, bias: Any, data_layout: str) -> Any:
    first = is_first(data_layout, ("NCHW", "AnyLayout"))
    if x.ndim < 2:
        raise ShapeError(f"x must have a batch and channels, found {x.meta}; reshape it")
    axis = 1 if first else x.ndim - 1
    channels = x.meta.dims[axis]
    for name, v in (("scale", scale), ("bias", bias)):
        if v.ndim != 1 or not dm.may_equal(v.meta.dims[0], channels):
            raise ShapeError(
                f"{name} must have one axis of {dm.dim_text(channels)} elements, found {v.meta}"
            )
    dims = [channels if a == axis else 1 for a in range(x.ndim)]
    return x * ops.reshape(scale, dims) + ops.reshape(bias, dims)
