"""Pooling by type, adaptive and fractional pooling, the places of maxima, and their inverse."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.index_ranges import IndexRange
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.convolution import COUNTS, MOST
from phix.primitives.pooling import Windows, check, spatial
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, in_float32, widened
from phix.primitives.window_spans import (
    Spans,
    adaptive,
    gathered,
    largest,
    sizes,
    sliding,
    summed,
    whole,
    within,
)


def _check_images(x: Any, count: int) -> None:
    if x.ndim != count + 2:
        raise ShapeError(f"x must be images with {count + 2} axes, found {x.meta}; reshape it")


# -- pool2d, pool3d ----------------------------------------------------------------------------
_POOLING_TYPES = ("max", "avg")


class _Pooling(NamedTuple):
    """The attributes of the ops, in their order."""

    kernel_size: Any
    strides: Any
    paddings: Any
    ceil_mode: bool
    exclusive: bool
    data_format: str
    pooling_type: str
    global_pooling: bool
    is_adaptive: bool
    algorithm: str

    def checked(self, count: int) -> _Pooling:
        """The sizes of windows written out for each axis."""
        kernel_size, strides, paddings = check(*self[:3], self.data_format, self.algorithm, count)
        return self._replace(kernel_size=kernel_size, strides=strides, paddings=paddings)


def _pool_attrs(count: int) -> Any:
    def rule(x: MetaTensor, *given: Any) -> Any:
        """Adaptive pooling whose windows part the image evenly becomes pooling by such windows."""
        p = _Pooling(*given)
        if p.pooling_type not in _POOLING_TYPES:
            raise AttributeValueError(f"pooling_type must be max or avg, found {p.pooling_type!r}")
        _check_images(x, count)
        p = p.checked(count)
        if not p.is_adaptive or p.global_pooling:
            return tuple(p._replace(is_adaptive=False))
        size = tuple(x.dims[a] for a in spatial(x, p.data_format))
        p = p._replace(paddings=(0,) * count, ceil_mode=False, algorithm="EXPLICIT")
        known = dm.is_known(*size, *p.kernel_size)
        if known and all(n and n % c == 0 for n, c in zip(size, p.kernel_size)):
            windows = tuple(n // c for n, c in zip(size, p.kernel_size))
            p = p._replace(kernel_size=windows, strides=windows, is_adaptive=False)
        return tuple(p)

    return rule


def _adaptive_spans(x: Any, counts: Any, data_format: str) -> list[Spans]:
    axes = spatial(x, data_format)
    if any(dm.is_zero(x.meta.dims[a]) for a in axes):
        raise ShapeError(f"{x.meta} has nothing to pool")
    return [adaptive(a, x.meta.dims[a], c) for a, c in zip(axes, counts)]


def _adaptively(x: Any, counts: Any, data_format: str, pooling_type: str) -> Any:
    spans = _adaptive_spans(x, counts, data_format)
    if pooling_type == "max":
        return ops.max(gathered(x, spans, -math.inf), within(spans))
    wide = widened(x)
    total = summed(wide, spans)
    return as_dtype(total / sizes(spans, x.ndim, wide.dtype), x.dtype)


def _pool(count: int) -> Any:
    max_pool = ops.max_pool2d if count == 2 else ops.max_pool3d
    avg_pool = ops.avg_pool2d if count == 2 else ops.avg_pool3d

    def rule(x: Any, *given: Any) -> Any:
        p = _Pooling(*given)
        is_max = p.pooling_type == "max"
        if p.global_pooling:
            return (ops.max if is_max else ops.mean)(x, spatial(x, p.data_format), True)
        if p.is_adaptive:
            return _adaptively(x, p.kernel_size, p.data_format, p.pooling_type)
        windows = (p.kernel_size, p.strides, p.paddings, p.ceil_mode)
        if is_max:
            return max_pool(x, *windows, p.data_format, p.algorithm)
        return avg_pool(x, *windows, p.exclusive, p.data_format, p.algorithm)

    return rule


for _count in (2, 3):
    rules.normalize(f"pool{_count}d")(_pool_attrs(_count))
    rules.decompose(f"pool{_count}d")(_pool(_count))


@rules.normalize("lp_pool2d")
def lp_pool2d_attrs(x: MetaTensor, *given: Any) -> Any:
    *pooling, norm_type = given
    if not dt.is_float(x.dtype):
        raise DTypeError(f"x must be floats, found {x}; cast it")
    _check_images(x, 2)
    if isinstance(norm_type, (int, float)) and not 0 < norm_type < math.inf:
        raise AttributeValueError(f"norm_type must be a number above 0, found {norm_type}")
    return *_Pooling(*pooling).checked(2), norm_type


@rules.decompose("lp_pool2d")
@in_float32
def lp_pool2d(x: Any, *given: Any) -> Any:
    *pooling, norm_type = given
    p = _Pooling(*pooling)
    powers = ops.pow(x, norm_type)
    if p.global_pooling:
        total = ops.sum(powers, spatial(x, p.data_format), keepdim=True)
    elif p.is_adaptive:
        spans = _adaptive_spans(x, p.kernel_size, p.data_format)
        total = summed(powers, spans)
    else:
        windows = Windows(
            x, p.kernel_size, p.strides, p.paddings, p.ceil_mode, p.data_format, p.algorithm
        )
        total = windows.reduced(powers, 0.0, ops.sum, ops.add)
    # the root of 0 is 0, and so is its gradient, as that of norms
    zero = ops.full((), 0, x.dtype)
    is_zero = total == 0
    root = ops.pow(ops.where(is_zero, ops.full((), 1, x.dtype), total), 1.0 / norm_type)
    return ops.where(is_zero, zero, root)


# -- the places of maxima ----------------------------------------------------------------------
def _with_index(count: int) -> Any:
    def rule(
        x: Any,
        kernel_size: Any,
        strides: Any,
        paddings: Any,
        global_pooling: bool,
        is_adaptive: bool,
        ceil_mode: bool,
    ) -> Any:
        _check_images(x, count)
        data_format = "NCHW" if count == 2 else "NCDHW"
        size = x.meta.dims[2:]
        if global_pooling:
            kernel_size, paddings, is_adaptive = (1,) * count, (0,) * count, True
        kernel_size, strides, paddings = check(
            kernel_size, strides, paddings, data_format, "EXPLICIT", count
        )
        if is_adaptive:
            return largest(x, _adaptive_spans(x, kernel_size, data_format))
        windows = Windows(x, kernel_size, strides, paddings, ceil_mode, data_format, "EXPLICIT")
        if any(dm.is_zero(n) for n in size):
            raise ShapeError(f"{x.meta} has nothing to pool")
        places = zip(range(2, x.ndim), size, windows.counts, kernel_size, strides, windows.pads)
        return largest(x, [sliding(a, n, c, k, s, p) for a, n, c, k, s, (p, _) in places])

    return rule


def _fractional(axis: int, size: dm.DimLike, count: Any, taps: int, u: Any) -> Spans:
    """Graham's windows: they begin at whole(alpha * (i + u)) - whole(alpha * u).

    Of disjoint windows u is brought down, so that the last ends with the image.
    """
    have = ops.cast(ops.full((), size, "int64"), dt.float32)
    want = ops.cast(ops.full((), count, "int64"), dt.float32)
    alpha = (have - float(taps)) / ops.maximum(want - (1.0 if taps else 0.0), 1.0)
    if not taps:
        base = ops.floor(have / want)
        highest = ops.minimum((base + 2.0) / alpha - 1.0, (have + 1.0 - base) / alpha - want + 1.0)
        u = highest * u
    at = ops.cast(numbers(count), dt.float32)
    offset = ops.floor(alpha * u)
    begin = ops.cast(ops.floor((at + u) * alpha) - offset, dt.int64)
    if taps:
        return Spans(axis, size, count, taps, begin, begin + taps)
    end = ops.cast(ops.floor((at + 1.0 + u) * alpha) - offset, dt.int64)
    end = ops.minimum(end, whole(size))
    return Spans(axis, size, count, dm.floordiv(size + count - 1, count) + 1, begin, end)


def _fractional_pool(count: int) -> Any:
    def rule(x: Any, output_size: Any, kernel_size: Any, random_u: Any, return_mask: bool) -> Any:
        _check_images(x, count)
        for name, values, least in (
            ("output_size", output_size, 1),
            ("kernel_size", kernel_size, 0),
        ):
            if len(values) != count or any(
                dm.is_known(v) and not least <= v <= MOST for v in values
            ):
                raise AttributeValueError(
                    f"{name} must be {COUNTS[count]} ints of {least} or more, found {list(values)}"
                )
        if isinstance(random_u, (int, float)) and not 0 < random_u < 1:
            raise AttributeValueError(
                f"random_u must lie between 0 and 1, found {random_u}; draw one by phix.random"
            )
        size = x.meta.dims[2:]
        for n, c, k in zip(size, output_size, kernel_size):
            if dm.is_known(n, c) and (c + max(k - 1, 0) > n if k else c > n):
                raise ShapeError(
                    f"{dm.shape_text(tuple(output_size))} windows of {list(kernel_size)} do not "
                    f"fit on an image of {dm.shape_text(size)}; write a smaller output_size"
                )
        entries = zip(range(2, x.ndim), size, output_size, kernel_size)
        return largest(x, [_fractional(a, n, c, k, random_u) for a, n, c, k in entries])

    return rule


# -- unpool ------------------------------------------------------------------------------------
def _unpooled(x: Any, kernel: Any, strides: Any, paddings: Any, output_size: Any) -> dm.Shape:
    """The size of what :func:`unpool` gives: output_size, or that of pooling turned round."""
    count = x.ndim - 2
    for name, values in (("ksize", kernel), ("strides", strides), ("padding", paddings)):
        if len(values) != count:
            raise AttributeValueError(f"{name} must be {COUNTS[count]} ints, found {list(values)}")
    given = tuple(output_size)[-count:]
    if given and not all(dm.is_zero(n) for n in given):
        if len(given) != count:
            raise AttributeValueError(
                f"output_size must be {COUNTS[count]} ints, found {dm.shape_text(given)}"
            )
        return given
    size = zip(x.meta.dims[2:], kernel, strides, paddings)
    return tuple((n - 1) * s - 2 * p + k for n, k, s, p in size)


def _unpool_indices(x: MetaTensor, indices: MetaTensor, *attrs: Any) -> list[IndexRange]:
    count = x.ndim - 2
    wrong = any(len(a) != count for a in attrs[:3]) or len(attrs[3]) not in (0, count)
    if count not in (2, 3) or wrong:
        return []
    return [IndexRange("indices", (dm.product(_unpooled(x, *attrs[:4])),), "an image")]


def _unpool(count: int) -> Any:
    def rule(
        x: Any,
        indices: Any,
        kernel: Any,
        strides: Any,
        paddings: Any,
        output_size: Any,
        data_format: str,
    ) -> Any:
        _check_images(x, count)
        if data_format != ("NCHW" if count == 2 else "NCDHW"):
            raise AttributeValueError(
                f"data_format must have the channels first, found {data_format!r}; transpose x"
            )
        if dt.kind(indices.dtype) != "int":
            raise DTypeError(f"indices must be an int tensor, found {indices.meta}; cast it")
        dims = x.meta.dims
        if indices.ndim != x.ndim or not all(map(dm.may_equal, dims, indices.meta.dims)):
            raise ShapeError(f"indices must have the shape of x, found {indices.meta} for {x.meta}")
        size = _unpooled(x, kernel, strides, paddings, output_size)
        if any(dm.is_known(n) and n < 1 for n in size):
            raise ShapeError(f"nothing is left of {x.meta} with paddings {list(paddings)}")
        front, area = dims[:2], dm.product(dims[2:])
        rows, at = (ops.reshape(v, (*front, area)) for v in (x, indices))
        empty = ops.full((*front, dm.product(size)), 0, x.dtype)
        return ops.reshape(ops.put_along_axis(empty, at, rows, 2), (*front, *size))

    return rule


for _count, _name in ((2, "unpool"), (3, "unpool3d")):
    rules.decompose(f"max_pool{_count}d_with_index")(_with_index(_count))
    rules.decompose(f"fractional_max_pool{_count}d")(_fractional_pool(_count))
    rules.decompose(_name)(_unpool(_count))
    rules.indices(_name)(_unpool_indices)


# -- maxout ------------------------------------------------------------------------------------
@rules.decompose("maxout")
def maxout(x: Any, groups: int, axis: int) -> Any:
    axis = ax.positive(axis, x.ndim)
    if groups < 1:
        raise AttributeValueError(f"groups must be 1 or more, found {groups}")
    channels = x.meta.dims[axis]
    if dm.is_known(channels) and channels % groups:
        raise ShapeError(f"{channels} channels do not part into groups of {groups}")
    dims = (*x.meta.dims[:axis], dm.floordiv(channels, groups), groups, *x.meta.dims[axis + 1 :])
    return ops.max(ops.reshape(x, dims), (axis + 1,))
