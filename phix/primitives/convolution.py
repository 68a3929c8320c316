"""Convolutions. Their derivatives are convolutions again, so every order exists."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
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
    size, kernel = x.meta.dims[2:], filter.meta.dims[2:]
    pads = explicit_paddings(padding_algorithm, paddings, size, kernel, strides, dilations)
    strides = _steps(strides, grad.meta.dims[2:])
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

    With stride s, the taps t, t + s, t + 2 s, ... meet the places of the padded image that leave
    the remainder t when they are divided by s, and no others. So the places of a remainder are a
    convolution of ``grad`` by every s-th tap, turned around, with in and out exchanged. Remainders
    that have as many taps are the channels of one convolution; places then alternate.
    """
    filter, dilations = _dilated(filter, strides, dilations)
    kernel = filter.meta.dims[2:]
    firsts = [dm.floordiv(before, s) for (before, _), s in zip(pads, strides)]
    counts = [
        1 if dm.is_zero(n) else dm.floordiv(before + n - 1, s) - first + 1
        for n, s, first, (before, _) in zip(size, strides, firsts, pads)
    ]
    is_split = dm.is_known(*kernel, filter.meta.dims[1]) and filter.meta.dims[1] >= _MANY
    shares = [_shares(k, s, is_split) for k, s in zip(kernel, strides)]

    def joined(chosen: tuple[_Share, ...]) -> Any:
        """The places of the remainders chosen, and of all along the axes that follow."""
        axis = len(chosen)
        if axis == len(size):
            turned = _turned(filter, chosen, strides, groups)
            return _places(grad, turned, chosen, firsts, counts, dilations, groups)
        parts = [joined((*chosen, share)) for share in shares[axis]]
        return parts[0] if len(parts) == 1 else ops.concat(parts, 2 + axis)

    out = _alternating(joined(()), strides)
    for axis, (n, s, first, (before, _)) in enumerate(zip(size, strides, firsts, pads), 2):
        out = _part(out, axis, before - first * s, n)
    return out


# From so many channels on, remainders with fewer taps have a convolution of their own; with less,
# more rows of a product are worth some zeros.
_MANY = 16


@dataclass(frozen=True)
class _Share:
    """Remainders ``first`` to ``first + count``, each with so many taps."""

    first: int
    count: int
    taps: dm.DimLike


def _shares(taps: dm.DimLike, stride: int, is_split: bool) -> list[_Share]:
    """The remainders that have taps; together, some of them have a tap of zeros at the end."""
    if not isinstance(taps, int):
        return [_Share(0, stride, dm.floordiv(taps + stride - 1, stride))]
    whole, rest = divmod(taps, stride)
    if not (is_split and whole and rest):
        return [_Share(0, min(stride, taps), -(-taps // stride))]
    return [_Share(0, rest, whole + 1), _Share(rest, stride - rest, whole)]


def _turned(filter: Any, shares: tuple[_Share, ...], strides: Any, groups: Any) -> Any:
    """Some taps of [out, in / groups, ...], turned: [in x remainders, out / groups, ...]."""
    o, per_group, *kernel = filter.meta.dims
    steps = [min(s, k) if isinstance(k, int) else s for s, k in zip(strides, kernel)]
    rows = [dm.floordiv(k + s - 1, s) for k, s in zip(kernel, steps)]
    more = [v for k, r, s in zip(kernel, rows, steps) for v in (0, r * s - k)]
    if not all(dm.is_zero(v) for v in more):
        filter = ops.pad(filter, (0, 0, 0, 0, *more), 0)
    count, each = len(kernel), dm.floordiv(o, groups)
    every = (d for pair in zip(rows, steps) for d in pair)
    parts = ops.reshape(filter, (groups, each, per_group, *every))
    of_taps, of_remainders = range(3, 3 + 2 * count, 2), range(4, 4 + 2 * count, 2)
    for axis, share in zip(of_taps, shares):
        parts = _part(parts, axis, 0, share.taps)
    for axis, share in zip(of_remainders, shares):
        parts = _part(parts, axis, share.first, share.count)
    parts = ops.transpose(parts, (0, 2, *of_remainders, 1, *of_taps))
    channels = groups * per_group * dm.product(tuple(share.count for share in shares))
    parts = ops.reshape(parts, (channels, each, *(share.taps for share in shares)))
    return ops.flip(parts, range(2, 2 + count))


def _places(
    grad: Any, turned: Any, shares: Any, firsts: Any, counts: Any, dilations: Any, groups: Any
) -> Any:
    """[n, in, *remainders, *counts]: of each remainder, ``counts`` places from ``firsts`` on."""
    around: list[Any] = []
    cuts = []
    for share, d, first, n, have in zip(shares, dilations, firsts, counts, grad.meta.dims[2:]):
        reach = (share.taps - 1) * d
        front, cut = dm.maximum(reach - first, 0), dm.maximum(first - reach, 0)
        around += [front, dm.maximum(cut + n + reach - have - front, 0)]
        cuts.append(cut)
    out = convolved(grad, turned, (1,) * len(cuts), around, "EXPLICIT", dilations, groups)
    for axis, (cut, n) in enumerate(zip(cuts, counts), 2):
        out = _part(out, axis, cut, n)
    n, channels, *size = out.meta.dims
    remainders = tuple(share.count for share in shares)
    return ops.reshape(out, (n, dm.floordiv(channels, dm.product(remainders)), *remainders, *size))


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
    around: list[Any] = []
    steps = zip(dims[2:], dilations, strides, grad.meta.dims[2:], pads)
    for axis, (k, d, s, count, (before, behind)) in enumerate(steps, 2):
        # what the last window leaves over would be places that no tap has
        over = before + x.meta.dims[axis] + behind - ((count - 1) * s + (k - 1) * d + 1)
        over = over if dm.is_known(over, behind) else 0
        x = _part(x, axis, 0, x.meta.dims[axis] - max(over - behind, 0)) if over else x
        around += [before, max(behind - over, 0) if over else behind]
    n, _, *size = x.meta.dims
    per_group = dims[1]
    rows = ops.reshape(x, (n, groups, per_group, *size))
    rows = ops.reshape(ops.transpose(rows, (2, 1, 0, 3, 4)), (per_group, groups * n, *size))
    taps = ops.transpose(grad, (1, 0, 2, 3))
    out = ops.conv2d(rows, taps, dilations, around, "EXPLICIT", strides, groups)
    for axis in (2, 3):
        out = _part(out, axis, 0, dims[axis])
    return ops.transpose(out, (1, 0, 2, 3))


def _dilated(filter: Any, strides: Any, dilations: Any) -> tuple[Any, tuple[int, ...]]:
    """The filter with its dilation written out, as zeros, along axes that have a stride too."""
    both = [d if s > 1 else 1 for s, d in zip(strides, dilations)]
    if all(d == 1 for d in both):
        return filter, tuple(dilations)
    o, c, *kernel = filter.meta.dims
    apart = _alternating(ops.reshape(filter, (o, c, *(1 for _ in both), *kernel)), both)
    for axis, (k, d) in enumerate(zip(kernel, both), 2):
        apart = _part(apart, axis, 0, (k - 1) * d + 1)
    return apart, tuple(1 if s > 1 else d for s, d in zip(strides, dilations))


def _alternating(x: Any, strides: Any) -> Any:
    """[n, c, *remainders, *size] as [n, c, ...]: along an axis, the first place of each remainder,
    then the second; zeros for remainders up to the stride that are not there."""
    n, c, *dims = x.meta.dims
    count = len(dims) // 2
    remainders, size = dims[:count], dims[count:]
    if any(s > 1 for s in strides):
        of_remainders, places = range(2, 2 + count), range(2 + count, 2 + 2 * count)
        order = (a for pair in zip(places, of_remainders) for a in pair)
        x = ops.transpose(x, (0, 1, *order))
    more = [v for r, s in zip(remainders, strides) for v in (0, 0, 0, s - r)]
    if any(more):
        x = ops.pad(x, (0, 0, 0, 0, *more), 0)
    return ops.reshape(x, (n, c, *(k * s for k, s in zip(size, strides))))


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
    number must be known and not 0: else it is one lane after the other."""
    lanes = filter.meta.dims[0]
    if batched[0] and batched[1] and (dm.is_zero(lanes) or not dm.is_known(lanes)):
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
