"""Interpolation: images of another size, resized along one spatial axis after the other.

Along an axis each element of the result is a weighted sum of few elements of the image, which
are gathered at indices that depend on the place along that axis alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.core import attrs, rules
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.primitives.convolution import MOST
from phix.primitives.positions import numbers
from phix.primitives.widening import in_float32

_LAST = ("NWC", "NLC", "NHWC", "NDHWC")
_FIRST = ("NCW", "NCL", "NCHW", "NCDHW")


class _Axis(NamedTuple):
    """One axis to resize: from ``have`` elements to ``want``, ``ratio`` apart."""

    number: int
    have: dm.DimLike
    want: dm.DimLike
    ratio: Any  # a float, or a 0-d tensor where the sizes are unknown
    scale: Any  # a Fraction or a 0-d tensor; None: as the sizes say
    align_corners: bool
    align_mode: int


# -- sizes -------------------------------------------------------------------------------------
def _spatial_axes(op: str, x: Any, ranks: tuple[int, ...], data_format: str) -> range:
    if data_format not in _FIRST + _LAST:
        raise AttributeValueError(
            f"data_format must be NCHW or NHWC (or that of 3 or 5 axes), found {data_format!r}"
        )
    if x.ndim not in ranks:
        some = " or ".join(map(str, ranks))
        raise ShapeError(f"{op} takes images with {some} axes, found {x.meta}; reshape it")
    first = 1 if data_format in _LAST else 2
    return range(first, first + x.ndim - 2)


def _entries(name: str, x: Any, count: int, kind: str) -> list[Any]:
    """The ``count`` elements of a tensor of sizes or scales, each 0-d; one stands for all."""
    if dt.kind(x.dtype) != kind:
        raise DTypeError(f"{name} must be a tensor of {kind}s, found {x.meta}; cast it")
    if x.size not in (1, count) or x.ndim > 1:
        raise ShapeError(f"{name} must have {count} elements on one axis, found {x.meta}")
    flat = ops.reshape(x, (x.size,))
    return [ops.reshape(ops.slice(flat, (0,), (i,), (i + 1,)), ()) for i in range(x.size)] * (
        count if x.size == 1 else 1
    )


def fraction(scale: Any) -> Fraction:
    """The simple fraction that a scale written as a decimal stands for: 0.7 is 7 / 10."""
    if not 0 < scale <= MOST:
        raise AttributeValueError(f"scale must be numbers above 0, found {scale}")
    narrow = float(np.float32(scale))
    simple = Fraction(narrow).limit_denominator(4096)
    return simple if float(np.float32(float(simple))) == narrow else Fraction(narrow)


def _sizes_of(op: str, ranks: tuple[int, ...]) -> Callable[..., Any]:
    """The rule that reads sizes from tensors: size_tensor, else out_size, else scale_tensor.

    The scales stay: they say how far apart the places are.
    """

    def rule(x: Any, out_size: Any, size_tensor: Any, scale_tensor: Any, *rest: Any) -> Any:
        given = (x, None, (), scale_tensor, *rest)
        if out_size is None and not size_tensor and scale_tensor is None:
            return given
        axes = _spatial_axes(op, x, ranks, rest[0])
        count = len(axes)
        if size_tensor:
            if len(size_tensor) != count:
                raise ShapeError(f"{op}: size_tensor must have {count} tensors, one an axis")
            found = [_entries("size_tensor", t, 1, "int")[0] for t in size_tensor]
        elif out_size is not None:
            found = _entries("out_size", out_size, count, "int")
        if (size_tensor or out_size is not None) and scale_tensor is not None:
            raise AttributeValueError(
                f"{op}: a tensor of sizes and scale_tensor both say the size; leave one of them out"
            )
        if scale_tensor is not None:
            scales = _entries("scale_tensor", scale_tensor, count, "float")
            found = [_scaled(x.meta.dims[a], s) for a, s in zip(axes, scales)]
        sizes = [attrs.as_dim(ops.cast(t, dt.int64), refusal=attrs.NO_NEGATIVE) for t in found]
        return (*given[:5], *[0] * (3 - count), *sizes, *rest[4:])

    return rule


def _scaled(have: dm.DimLike, scale: Any) -> Any:
    """The size times a scale that is a tensor, rounded down; what float32 rounds below is kept."""
    size = _count(have, dt.float32) * ops.cast(scale, dt.float32)
    return ops.floor(size)


def _sizes(
    have: list[dm.DimLike], scales: Any, tensors: Sequence[Any], outs: Any
) -> list[dm.DimLike]:
    """The sizes wanted: by scales that are numbers, else of the attributes."""
    if any(tensors[:2]):
        raise AttributeValueError(
            "sizes that tensors say are known with their values; where metas alone are at hand, "
            "give out_d, out_h and out_w"
        )
    if scales and tensors[2] is None:
        return [dm.floordiv(n * s.numerator, s.denominator) for n, s in zip(have, scales)]
    return list(outs)[-len(have) :]


def _ratio(have: Any, want: Any, scale: Any, align_corners: bool, kept: Any, dtype: Any) -> Any:
    """How far apart on the image neighbours of the result are; 1 where all sizes are ``kept``."""
    if isinstance(have, int) and isinstance(want, int) and kept is False:
        if align_corners:
            return (have - 1) / max(want - 1, 1) if want > 1 else 0.0
        if scale is None or isinstance(scale, Fraction):
            return have / want if scale is None else float(1 / scale)
    a, b = (_count(n, dtype) for n in (have, want))
    if align_corners:
        ratio = ops.where(b > 1.0, (a - 1.0) / ops.maximum(b - 1.0, 1.0), _scalar(0.0, dtype))
    elif scale is None:
        ratio = a / ops.maximum(b, 1.0)
    elif isinstance(scale, Fraction):
        ratio = _scalar(float(1 / scale), dtype)
    else:
        ratio = 1.0 / ops.cast(scale, dtype)
    return ratio if kept is False else ops.where(kept, _scalar(1.0, dtype), ratio)


def _scalar(value: float, dtype: Any) -> Any:
    return ops.full((), value, dtype)


def _count(dim: dm.DimLike, dtype: Any) -> Any:
    return ops.cast(ops.full((), dim, "int64"), dtype)


def _axes(
    x: Any, axes: range, sizes: Any, scales: Any, align_corners: bool, align_mode: int, dtype: Any
) -> list[_Axis]:
    """The axes that are resized; none where all keep their sizes, whatever the scales."""
    if align_mode not in (0, 1):
        raise AttributeValueError(f"align_mode must be 0 or 1, found {align_mode}")
    have = [x.meta.dims[a] for a in axes]
    if any(dm.is_zero(n) for n in have):
        raise ShapeError(f"{x.meta} has nothing to interpolate between")
    if any(isinstance(n, int) and not 1 <= n <= MOST for n in sizes):
        raise AttributeValueError(
            f"the sizes wanted must be 1 or more, found {dm.shape_text(tuple(sizes))}; give out_d, "
            "out_h and out_w, scale, or a tensor of sizes"
        )
    scales = scales or [None] * len(have)
    pairs = [(n, want) for n, want in zip(have, sizes) if not dm.same(n, want)]
    if not pairs:
        return []
    kept: Any = False
    if (
        scales[0] is not None
        and not align_corners
        and not any(dm.is_known(*pair) for pair in pairs)
    ):
        equal = [ops.full((), a, "int64") == ops.full((), b, "int64") for a, b in pairs]
        kept = functools.reduce(ops.logical_and, equal)
    return [
        _Axis(
            a, n, want, _ratio(n, want, s, align_corners, kept, dtype), s, align_corners, align_mode
        )
        for a, n, want, s in zip(axes, have, sizes, scales)
        if not dm.same(n, want) or (s is not None and not align_corners)
    ]


# -- along one axis ----------------------------------------------------------------------------
def _taken(x: Any, axis: _Axis, index: Any) -> Any:
    """The slices of x at whole-numbered places, those off the image at its border."""
    last = axis.have - 1
    most = last if isinstance(last, int) else ops.full((), last, "int64")
    index = ops.minimum(ops.maximum(ops.cast(index, dt.int64), 0), most)
    return ops.gather(x, index, axis.number)


def _along(x: Any, axis: _Axis, weight: Any) -> Any:
    dims = [axis.want if i == axis.number else 1 for i in range(x.ndim)]
    return ops.reshape(ops.cast(weight, x.dtype), dims)


def _places(axis: _Axis, dtype: Any, is_half: bool) -> Any:
    """Where on the image the elements of the result are, by their middles if ``is_half``.

    A single element is the image's first.
    """
    ratio = axis.ratio
    if dm.is_one(axis.want):
        ratio = 0.0
    elif not dm.is_known(axis.want):
        ratio = ops.where(_count(axis.want, dtype) > 1.0, ratio, _scalar(0.0, dtype))
    at = ops.cast(numbers(axis.want), dtype)
    return (at + 0.5) * ratio - 0.5 if is_half else at * ratio


def _nearest(x: Any, axis: _Axis) -> Any:
    at = _places(axis, dt.float32, False)
    return _taken(x, axis, ops.floor(at + 0.5 if axis.align_corners else at))


def _linear(x: Any, axis: _Axis) -> Any:
    is_half = not axis.align_corners and axis.align_mode == 0
    at = ops.maximum(_places(axis, x.dtype, is_half), 0.0)
    below = ops.floor(at)
    share = _along(x, axis, at - below)
    return _taken(x, axis, below) * (1.0 - share) + _taken(x, axis, below + 1.0) * share


def _cubic(t: Any, a: float) -> tuple[Any, Any]:
    """Keys' kernel at distances t and t + 1, of 0 <= t <= 1."""
    near = ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    u = t + 1.0
    return near, ((a * u - 5.0 * a) * u + 8.0 * a) * u - 4.0 * a


def _bicubic(x: Any, axis: _Axis) -> Any:
    at = _places(axis, x.dtype, not axis.align_corners)
    below = ops.floor(at)
    t = at - below
    (second, first), (third, fourth) = _cubic(t, -0.75), _cubic(1.0 - t, -0.75)
    parts = (
        _taken(x, axis, below + float(i)) * _along(x, axis, w)
        for i, w in zip((-1, 0, 1, 2), (first, second, third, fourth))
    )
    return functools.reduce(ops.add, parts)


def _filtered(x: Any, axis: _Axis, reach: int, kernel: Callable[[Any], Any]) -> Any:
    """A kernel that is as much wider as the image is made smaller; its weights add up to 1."""
    dtype = x.dtype
    if isinstance(axis.ratio, float):
        ratio = _scalar(axis.ratio, dtype)
        wide: dm.DimLike = int(2 * reach * max(axis.ratio, 1.0)) + 2
    elif isinstance(axis.scale, Fraction) and not axis.align_corners:
        ratio = axis.ratio
        wide = int(2 * reach * max(float(1 / axis.scale), 1.0)) + 2
    else:
        ratio = axis.ratio
        wide = 2 * reach * (dm.floordiv(axis.have - 1, dm.maximum(axis.want - 1, 1)) + 1) + 2
    scale = ops.maximum(ratio, 1.0)
    taps = dm.minimum(wide, axis.have)
    middle = (ops.cast(numbers(axis.want), dtype) + 0.5) * ratio
    support = scale * float(reach)
    begin = ops.maximum(ops.floor(middle - support + 0.5), 0.0)
    end = ops.minimum(ops.floor(middle + support + 0.5), _count(axis.have, dtype))
    begin, end, middle = (ops.reshape(v, (axis.want, 1)) for v in (begin, end, middle))
    at = begin + ops.cast(numbers(taps), dtype)
    weight = kernel(ops.abs((at - middle + 0.5) / scale))
    weight = ops.where(at < end, weight, _scalar(0.0, dtype))
    weight = weight / ops.sum(weight, -1, keepdim=True)
    dims: list[Any] = [1] * x.ndim
    dims[axis.number : axis.number + 1] = [axis.want, taps]
    return ops.sum(_taken(x, axis, at) * ops.reshape(weight, dims), axis.number + 1)


def _triangle(distance: Any) -> Any:
    return ops.maximum(1.0 - distance, 0.0)


def _keys(distance: Any) -> Any:
    near, _ = _cubic(distance, -0.5)
    _, far = _cubic(distance - 1.0, -0.5)
    zero = ops.full((), 0, distance.dtype)
    return ops.where(distance < 1.0, near, ops.where(distance < 2.0, far, zero))


_METHODS: dict[str, tuple[tuple[int, ...], Callable[[Any, _Axis], Any]]] = {
    "nearest": ((3, 4, 5), _nearest),
    "linear": ((3,), _linear),
    "bilinear": ((4,), _linear),
    "trilinear": ((5,), _linear),
    "bicubic": ((4,), _bicubic),
}
_FILTERS: dict[str, Callable[[Any, _Axis], Any]] = {
    "bilinear": lambda x, axis: _filtered(x, axis, 1, _triangle),
    "bicubic": lambda x, axis: _filtered(x, axis, 2, _keys),
}


# -- the ops -----------------------------------------------------------------------------------
def _resized(op: str, method: str, ranks: tuple[int, ...], resize: Any, args: Any) -> Any:
    x, out_size, size_tensor, scale_tensor, data_format, d, h, w, scale, _, corners, mode = args
    axes = _spatial_axes(op, x, ranks, data_format)
    count = len(axes)
    scales: list[Any] = []
    if scale_tensor is not None:
        scales = _entries("scale_tensor", scale_tensor, count, "float")
    elif scale:
        if len(scale) not in (1, count):
            raise AttributeValueError(f"scale must be {count} numbers, found {list(scale)}")
        scales = [fraction(s) for s in (scale * count if len(scale) == 1 else scale)]
    have = [x.meta.dims[a] for a in axes]
    sizes = _sizes(have, scales, (out_size, size_tensor, scale_tensor), (d, h, w))
    dtype = dt.float32 if method == "nearest" else x.dtype
    for axis in _axes(x, axes, sizes, scales, corners, mode, dtype):
        x = resize(x, axis)
    return x


def _interpolation(method: str) -> Callable[..., Any]:
    ranks, resize = _METHODS[method]
    op = f"{method}_interp"

    def rule(*args: Any) -> Any:
        named = args[9]
        if named not in (method, "bilinear"):  # the default of every op
            raise AttributeValueError(
                f"{op} interpolates by {method}, interp_method says {named!r}; leave it out, or "
                f"call {named}_interp"
            )
        return _resized(op, method, ranks, resize, args)

    return rule if method == "nearest" else in_float32(rule)


for _method in _METHODS:
    rules.decompose(f"{_method}_interp")(_interpolation(_method))
    rules.sizes(f"{_method}_interp")(_sizes_of(f"{_method}_interp", _METHODS[_method][0]))
rules.sizes("interp_antialias")(_sizes_of("interp_antialias", (4,)))


@rules.decompose("interp_antialias")
@in_float32
def interp_antialias(*args: Any) -> Any:
    method = args[9]
    if method not in _FILTERS:
        raise AttributeValueError(f"interp_method must be bilinear or bicubic, found {method!r}")
    return _resized("interp_antialias", method, (4,), _FILTERS[method], args)
