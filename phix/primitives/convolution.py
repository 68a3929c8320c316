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
_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def channels_first(x: Any, data_format: str) -> Any:
    return ops.transpose(x, _TO_FIRST) if data_format == "NHWC" else x


def channels_back(x: Any, data_format: str) -> Any:
    return ops.transpose(x, _TO_LAST) if data_format == "NHWC" else x


def first_dims(x: MetaTensor, data_format: str) -> dm.Shape:
    """The dims of images as [n, c, h, w]."""
    return tuple(x.dims[i] for i in _TO_FIRST) if data_format == "NHWC" else x.dims


# -- attributes and meta -----------------------------------------------------------------------
def check_windows(
    strides: Any, paddings: Any, padding_algorithm: str, dilations: Any, data_format: str
) -> None:
    """Raise AttributeValueError for attributes that no image could have."""
    for name, values in (("strides", strides), ("dilations", dilations)):
        if len(values) != 2 or any(not 1 <= v <= MOST for v in values):
            raise AttributeValueError(
                f"{name} must be two ints from 1 to {MOST}, found {list(values)}"
            )
    if padding_algorithm not in ("EXPLICIT", "SAME", "VALID"):
        raise AttributeValueError(
            f"padding_algorithm must be EXPLICIT, SAME or VALID, found {padding_algorithm!r}"
        )
    known = [p for p in paddings if isinstance(p, int)]
    if len(paddings) not in (2, 4) or any(not 0 <= p <= MOST for p in known):
        raise AttributeValueError(
            "paddings must be (height, width) or (top, bottom, left, right), each from 0 to "
            f"{MOST}, found {dm.shape_text(tuple(paddings))}"
        )
    if data_format not in ("NCHW", "NHWC"):
        raise AttributeValueError(f"data_format must be NCHW or NHWC, found {data_format!r}")


@rules.infer_meta("ConvInferMeta")
def conv2d_meta(
    input: MetaTensor,
    filter: MetaTensor,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    groups: Any,
    data_format: str,
) -> MetaTensor:
    check_windows(strides, paddings, padding_algorithm, dilations, data_format)
    if input.ndim != 4 or filter.ndim != 4:
        raise ShapeError(
            f"input and filter must have 4 axes, found {input} and {filter}; reshape them"
        )
    dims = first_dims(input, data_format)
    n, size, o, kernel = dims[0], dims[2:], filter.dims[0], filter.dims[2:]
    _check_channels(dims[1], o, filter.dims[1], groups)
    pads = explicit_paddings(padding_algorithm, paddings, size, kernel, strides, dilations)
    counts = window_counts(padding_algorithm, pads, size, kernel, strides, dilations)
    if any(dm.is_zero(k) for k in kernel) or any(isinstance(d, int) and d < 1 for d in counts):
        raise ShapeError(
            f"a filter of {dm.shape_text(kernel)} with dilations {list(dilations)} does not "
            f"fit on an image of {dm.shape_text(size)}; pad more, or use a smaller filter"
        )
    padded = tuple(n + p + q for n, (p, q) in zip(size, pads))
    _check_image(padded, input.dtype, f"paddings {pads} make an image of {dm.shape_text(size)}")
    dims = (n, *counts, o) if data_format == "NHWC" else (n, o, *counts)
    return input.with_dims(dims)


def _check_image(size: dm.Shape, dtype: Any, how: str) -> None:
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
            f"{dm.dim_text(groups)} groups; filter is [out, in / groups, height, width]"
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
    turned = ops.flip(_exchanged(filter, groups), (2, 3))
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
    out = ops.conv2d(apart, turned, (1, 1), around, "EXPLICIT", dilations, groups)
    for axis, (cut, n) in enumerate(zip(cuts, size), 2):
        out = _part(out, axis, cut, n)
    return out


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
    return ops.reshape(ops.transpose(parts, (0, 2, 1, 3, 4)), (per_group * groups, each, *kernel))


def _interleaved(x: Any, strides: Any) -> Any:
    """Zeros put behind each element, so that elements stand ``strides`` apart."""
    if all(s == 1 for s in strides):
        return x
    n, c, h, w = x.meta.dims
    sh, sw = strides
    down = ops.reshape(ops.arange(0, sh, 1, dt.int64), (sh, 1, 1))
    across = ops.arange(0, sw, 1, dt.int64)
    cells = ops.reshape(x, (n, c, h, 1, w, 1))
    apart = ops.where((down == 0) & (across == 0), cells, ops.full((), 0, x.dtype))
    return ops.reshape(apart, (n, c, h * sh, w * sw))


def _part(x: Any, axis: int, start: Any, size: Any) -> Any:
    """``size`` elements from ``start`` along ``axis``."""
    if dm.is_zero(start) and dm.same(x.meta.dims[axis], size):
        return x
    dims = list(x.meta.dims)
    dims[axis] = size
    return ops.reshape(ops.slice(x, (axis,), (start,), (start + size,)), dims)


# -- batching ----------------------------------------------------------------------------------
@rules.batch("conv2d")
def conv2d_batch(
    batched: Any,
    input: Any,
    filter: Any,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    dilations: Any,
    groups: Any,
    data_format: str,
) -> Any:
    """A batch of inputs is more images; a batch of filters more channels; both, more groups."""
    attrs = (strides, paddings, padding_algorithm, dilations)
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


# -- depthwise_conv2d, conv2d_transpose --------------------------------------------------------
@rules.decompose("depthwise_conv2d")
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    groups: int,
    dilations: Any,
    data_format: str,
) -> Any:
    return ops.conv2d(
        input, filter, strides, paddings, padding_algorithm, dilations, groups, data_format
    )


def _output_size(
    least: dm.Shape, padding: dm.Shape, size: dm.Shape, strides: Any, dilations: Any
) -> dm.Shape:
    """The size that is asked for, of those that a convolution takes to the same one.

    Raises:
        AttributeValueError: it is none of them, or asked for in two ways.
    """
    if padding and size:
        raise AttributeValueError(
            "output_padding and output_size say the same thing; give one of them"
        )
    for name, given in (("output_padding", padding), ("output_size", size)):
        if given and len(given) != 2:
            raise AttributeValueError(f"{name} must be two ints, found {dm.shape_text(given)}")
    more = padding or tuple(a - b for a, b in zip(size or least, least))
    most = [max(s, d) - 1 for s, d in zip(strides, dilations)]
    if any(isinstance(m, int) and not 0 <= m <= top for m, top in zip(more, most)):
        name, given = ("output_padding", padding) if padding else ("output_size", size)
        sizes = " and ".join(
            f"{dm.dim_text(a)} to {dm.dim_text(a + top)}" for a, top in zip(least, most)
        )
        raise AttributeValueError(
            f"{name} {dm.shape_text(given)} is none of a convolution with strides {list(strides)} "
            f"and dilations {list(dilations)}, which takes sizes of {sizes} to that of x; "
            f"write an output_padding of at most {most}"
        )
    return size or tuple(a + m for a, m in zip(least, more))


@rules.decompose("conv2d_transpose")
def conv2d_transpose(
    x: Any,
    filter: Any,
    strides: Any,
    paddings: Any,
    output_padding: Any,
    output_size: Any,
    padding_algorithm: str,
    groups: int,
    dilations: Any,
    data_format: str,
) -> Any:
    """The transpose of the convolution that takes images of the output's size to x."""
    check_windows(strides, paddings, padding_algorithm, dilations, data_format)
    if isinstance(groups, int) and groups < 1:
        raise AttributeValueError(f"groups must be 1 or more, found {groups}")
    if x.ndim != 4 or filter.ndim != 4:
        raise ShapeError(
            f"x and filter must have 4 axes, found {x.meta} and {filter.meta}; reshape them"
        )
    images = channels_first(x, data_format)
    if not dm.may_equal(images.meta.dims[1], filter.meta.dims[0]):
        raise ShapeError(
            f"x has {dm.dim_text(images.meta.dims[1])} channels, filter {filter.meta} takes "
            "others; filter is [in, out / groups, height, width]"
        )
    size, kernel = images.meta.dims[2:], filter.meta.dims[2:]
    if padding_algorithm == "SAME":
        whole = tuple(n * s for n, s in zip(size, strides))
        pads = explicit_paddings("SAME", paddings, whole, kernel, strides, dilations)
    else:
        pads = explicit_paddings(padding_algorithm, paddings, size, kernel, strides, dilations)
    least = tuple(
        (n - 1) * s - p - q + (k - 1) * d + 1
        for n, k, s, d, (p, q) in zip(size, kernel, strides, dilations, pads)
    )
    wanted = _output_size(least, tuple(output_padding), tuple(output_size), strides, dilations)
    if any(isinstance(d, int) and d < 1 for d in wanted):
        raise ShapeError(f"the paddings leave nothing of the output; pad less than {pads}")
    how = f"strides {list(strides)} and dilations {list(dilations)} make"
    _check_image(wanted, x.dtype, f"{how} an image of {dm.shape_text(size)}")
    out = spread(images, filter, wanted, strides, pads, dilations, groups)
    return channels_back(out, data_format)
