"""Convolutions. Their derivatives are convolutions again, so every order exists."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.windows import Pads, explicit_paddings, window_counts
from phix.primitives.pointwise import conj

# The largest stride, dilation or padding: sums and products of two are int64, too.
MOST = (1 << 31) - 1
_MOST_BYTES = 1 << 47  # what a process can address
_LAST = ("NHWC", "NDHWC")
# By the number of spatial axes; conv3d_transpose says NCHW where it means NCDHW.
FORMATS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC", "NCHW", "NHWC")}
COUNTS = {2: "two", 3: "three"}
_SIDES = {
    2: "(height, width) or (top, bottom, left, right)",
    3: "(depth, height, width) or (front, back, top, bottom, left, right)",
}


def channels_first(x: Any, data_format: str) -> Any:
    last = x.ndim - 1
    return ops.transpose(x, (0, last, *range(1, last))) if data_format in _LAST else x


def channels_back(x: Any, data_format: str) -> Any:
    return ops.transpose(x, (0, *range(2, x.ndim), 1)) if data_format in _LAST else x


def first_dims(x: MetaTensor, data_format: str) -> dm.Shape:
    """The dims of images as [n, c, h, w], those of volumes as [n, c, d, h, w]."""
    return (x.dims[0], x.dims[-1], *x.dims[1:-1]) if data_format in _LAST else x.dims


# -- attributes and meta -----------------------------------------------------------------------
def check_windows(
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    data_format: str,
    count: int = 2,
) -> None:
    """Raise AttributeValueError for attributes that no image, of ``count`` axes, could have."""
    for name, values in (("strides", strides), ("dilations", dilations)):
        if len(values) != count or any(not 1 <= v <= MOST for v in values):
            raise AttributeValueError(
                f"{name} must be {COUNTS[count]} ints from 1 to {MOST}, found {list(values)}"
            )
    if padding_algorithm not in ("EXPLICIT", "SAME", "VALID"):
        raise AttributeValueError(
            f"padding_algorithm must be EXPLICIT, SAME or VALID, found {padding_algorithm!r}"
        )
    known = [p for p in paddings if isinstance(p, int)]
    if len(paddings) not in (count, 2 * count) or any(not 0 <= p <= MOST for p in known):
        raise AttributeValueError(
            f"paddings must be {_SIDES[count]}, each from 0 to "
            f"{MOST}, found {dm.shape_text(tuple(paddings))}"
        )
    if data_format not in FORMATS[count]:
        first, last = FORMATS[count][:2]
        raise AttributeValueError(f"data_format must be {first} or {last}, found {data_format!r}")


@rules.infer_meta("ConvInferMeta")
def conv2d_meta(input: MetaTensor, filter: MetaTensor, *attrs: Any) -> MetaTensor:
    strides, paddings, algorithm, dilations, _, data_format = attrs
    check_filters("input", input, filter, 2)
    check_windows(strides, paddings, algorithm, dilations, data_format)
    dims = first_dims(input, data_format)
    _, counts = placed(dims, input.dtype, filter, *attrs[:5])
    n, o = dims[0], filter.dims[0]
    dims = (n, *counts, o) if data_format in _LAST else (n, o, *counts)
    return input.with_dims(dims)


def check_filters(name: str, x: Any, filter: Any, count: int) -> None:
    if x.ndim != count + 2 or filter.ndim != count + 2:
        raise ShapeError(
            f"{name} and filter must have {count + 2} axes, found {x.meta} and {filter.meta}; "
            "reshape them"
        )


def placed(
    dims: dm.Shape,
    dtype: Any,
    filter: MetaTensor,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    groups: Any,
) -> tuple[Pads, dm.Shape]:
    """The paddings, and how many places the filters have on images of ``dims``, channels first.

    Raises:
        ShapeError: there is none, the channels do not fit, or no memory holds the padded images.
    """
    size, o, kernel = dims[2:], filter.dims[0], filter.dims[2:]
    _check_channels(dims[1], o, filter.dims[1], groups)
    pads = explicit_paddings(padding_algorithm, paddings, size, kernel, strides, dilations)
    counts = window_counts(padding_algorithm, pads, size, kernel, strides, dilations)
    if any(dm.is_zero(k) for k in kernel) or any(isinstance(d, int) and d < 1 for d in counts):
        raise ShapeError(
            f"a filter of {dm.shape_text(kernel)} with dilations {list(dilations)} does not "
            f"fit on an image of {dm.shape_text(size)}; pad more, or use a smaller filter"
        )
    padded = tuple(n + p + q for n, (p, q) in zip(size, pads))
    check_image(padded, dtype, f"paddings {pads} make an image of {dm.shape_text(size)}")
    return pads, counts


def check_image(size: dm.Shape, dtype: Any, how: str) -> None:
    """Raise ShapeError where no memory can hold an image."""
    places = dm.product(size)
    if isinstance(places, int) and places * dtype.itemsize > _MOST_BYTES:
        raise ShapeError(f"{how} one of {dm.shape_text(size)}, which no memory holds; write less")


def _check_channels(c: Any, o: Any, per_group: Any, groups: Any) -> None:
    if isinstance(groups, int) and groups < 1:
        raise AttributeValueError(f"groups must be 1 or more, found {groups}")
    if not dm.may_equal(c, per_group * groups):
        raise ShapeError(
            f"input has {dm.dim_text(c)} channels, filter has {dm.dim_text(per_group)} for each of "
            f"{dm.dim_text(groups)} groups; filter is [out, in / groups, ...]"
        )
    if dm.is_known(o, groups) and o % groups:
        raise ShapeError(f"{dm.dim_text(o)} filters do not part into {groups} groups")


# -- backward ----------------------------------------------------------------------------------
@rules.decompose("conv2d_grad")
def conv2d_grad(
    input: Any,
    filter: Any,
    out_grad: Any,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    groups: Any,
    data_format: str,
) -> Any:
    x = channels_first(input, data_format)
    grad = channels_first(out_grad, data_format)
    strides = _steps(strides, grad.meta.dims[2:])
    size, kernel = x.meta.dims[2:], filter.meta.dims[2:]
    pads = explicit_paddings(padding_algorithm, paddings, size, kernel, strides, dilations)
    to_x = spread(grad, conj(filter), size, strides, pads, dilations, groups)
    to_filter = _filter_grad(conj(x), grad, filter.meta.dims, strides, pads, dilations, groups)
    return channels_back(to_x, data_format), to_filter


def _steps(strides: Any, counts: dm.Shape) -> tuple[int, ...]:
    """The strides, 1 where there is a single window, which takes no step."""
    return tuple(1 if dm.is_one(count) else s for s, count in zip(strides, counts))


def spread(
    grad: Any, filter: Any, size: dm.Shape, strides: Any, pads: Pads, dilations: Any, groups: Any
) -> Any:
    """The transpose of a convolution to its input, of images [n, out, ...] to [n, in, *size].

    The windows' values stand ``stride`` apart, zeros between; the filter runs over them turned
    around, with in and out exchanged.
    """
    turned = ops.flip(_exchanged(filter, groups), range(2, filter.ndim))
    apart = _interleaved(grad, strides)
    around: list[Any] = []
    cuts = []
    for k, d, n, have, (before, _) in zip(
        filter.meta.dims[2:], dilations, size, apart.meta.dims[2:], pads
    ):
        reach = (k - 1) * d
        front, cut = dm.maximum(reach - before, 0), dm.maximum(before - reach, 0)
        around += [front, dm.maximum(cut + n + reach - have - front, 0)]
        cuts.append(cut)
    ones = (1,) * len(size)
    out = convolved(apart, turned, ones, around, "EXPLICIT", dilations, groups)
    for axis, (cut, n) in enumerate(zip(cuts, size), 2):
        out = _part(out, axis, cut, n)
    return out


def convolved(x: Any, filter: Any, *attrs: Any) -> Any:
    """The convolution of images or of volumes, with the attributes of conv2d."""
    if x.ndim == 4:
        return ops.conv2d(x, filter, *attrs)
    strides, paddings, algorithm, dilations, groups, *layout = attrs
    return ops.conv3d(x, filter, strides, paddings, algorithm, groups, dilations, *layout)


def _filter_grad(
    x: Any, grad: Any, dims: dm.Shape, strides: Any, pads: Pads, dilations: Any, groups: Any
) -> Any:
    """The images as filters over the images: batch and channels exchanged, step and spread too."""
    n, _, *size = x.meta.dims
    per_group = dims[1]
    rows = ops.reshape(x, (n, groups, per_group, *size))
    rows = ops.reshape(ops.transpose(rows, (2, 1, 0, 3, 4)), (per_group, groups * n, *size))
    taps = ops.transpose(grad, (1, 0, 2, 3))
    around = [p for pair in pads for p in pair]
    out = ops.conv2d(rows, taps, dilations, around, "EXPLICIT", strides, groups)
    for axis in (2, 3):
        out = _part(out, axis, 0, dims[axis])
    return ops.transpose(out, (1, 0, 2, 3))


def _exchanged(filter: Any, groups: Any) -> Any:
    """[out, in / groups, ...] as [in, out / groups, ...]."""
    o, per_group, *kernel = filter.meta.dims
    each = dm.floordiv(o, groups)
    parts = ops.reshape(filter, (groups, each, per_group, *kernel))
    order = (0, 2, 1, *range(3, parts.ndim))
    return ops.reshape(ops.transpose(parts, order), (per_group * groups, each, *kernel))


def _interleaved(x: Any, strides: Any) -> Any:
    """Zeros put behind each element, so that elements stand ``strides`` apart."""
    if all(s == 1 for s in strides):
        return x
    n, c, *size = x.meta.dims
    cells = ops.reshape(x, (n, c, *(d for k in size for d in (k, 1))))
    is_first: Any = None
    for axis, stride in enumerate(strides):
        place = ops.arange(0, stride, 1, dt.int64)
        here = ops.reshape(place, (stride, *(1,) * (2 * (len(size) - 1 - axis)))) == 0
        is_first = here if is_first is None else is_first & here
    apart = ops.where(is_first, cells, ops.full((), 0, x.dtype))
    return ops.reshape(apart, (n, c, *(k * s for k, s in zip(size, strides))))


def _part(x: Any, axis: int, start: Any, size: Any) -> Any:
    """``size`` elements from ``start`` along ``axis``."""
    if dm.is_zero(start) and dm.same(x.meta.dims[axis], size):
        return x
    dims = list(x.meta.dims)
    dims[axis] = size
    return ops.reshape(ops.slice(x, (axis,), (start,), (start + size,)), dims)


# -- batching ----------------------------------------------------------------------------------
@rules.batch("conv2d")
def conv2d_batch(batched: Any, input: Any, filter: Any, *given: Any) -> Any:
    """A batch of inputs is more images; a batch of filters more channels; both, more groups, whose
    number must be known: else it is one lane after the other."""
    if batched[0] and batched[1] and not dm.is_known(filter.meta.dims[0]):
        return NotImplemented
    strides, paddings, algorithm, dilations, groups, data_format = given
    attrs = (strides, paddings, algorithm, dilations)
    if not batched[1]:
        b, n, *dims = input.meta.dims
        images = ops.reshape(input, (b * n, *dims))
        out = ops.conv2d(images, filter, *attrs, groups, data_format)
        return ops.reshape(out, (b, n, *out.meta.dims[1:]))
    b, o, per_group, kh, kw = filter.meta.dims
    each = dm.floordiv(o, groups)
    if batched[0]:
        _, n, *dims = input.meta.dims
        if data_format == "NHWC":
            input, dims = ops.transpose(input, (0, 1, 4, 2, 3)), [dims[2], dims[0], dims[1]]
        c, *size = dims
        images = ops.reshape(ops.transpose(input, (1, 0, 2, 3, 4)), (n, b * c, *size))
        filters = ops.reshape(filter, (b * o, per_group, kh, kw))
        out = ops.conv2d(images, filters, *attrs, b * groups)
        out = ops.reshape(out, (n, b, o, *out.meta.dims[2:]))
        order = (1, 0, 2, 3, 4)
    else:
        images = channels_first(input, data_format)
        filters = ops.reshape(filter, (b, groups, each, per_group, kh, kw))
        filters = ops.transpose(filters, (1, 0, 2, 3, 4, 5))
        filters = ops.reshape(filters, (groups * b * each, per_group, kh, kw))
        out = ops.conv2d(images, filters, *attrs, groups)
        n, _, *size = out.meta.dims
        out = ops.reshape(out, (n, groups, b, each, *size))
        out = ops.reshape(ops.transpose(out, (2, 0, 1, 3, 4, 5)), (b, n, o, *size))
        order = (0, 1, 2, 3, 4)
    if data_format == "NHWC":
        order = (*order[:2], order[3], order[4], order[2])
    return out if order == (0, 1, 2, 3, 4) else ops.transpose(out, order)
