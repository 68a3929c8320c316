"""Convolution, pooling and padding of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.errors import ArgumentError
from phix.core.expectations import expect, expect_dims
from phix.core.given import entries, sizes, sizes_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor, is_zero

Size = Union[int, Sequence[int]]
Padding = Union[int, str, Sequence[Any]]


def _pair(size: Size) -> list[int]:
    return sizes_of(size, "a size of windows", 2)


def _padding(name: str, padding: Padding, data_format: str) -> tuple[list[int], str]:
    """Paddle's ways to write a padding, as numbers and the name of the algorithm."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ArgumentError(f'{name}: padding is "SAME", "VALID" or ints, found {padding!r}')
        return [0, 0], padding.upper()
    given = entries(padding, f"{name}: padding")
    if all(isinstance(p, (list, tuple)) or getattr(p, "ndim", 0) for p in given):
        pairs = [list(sizes(p, f"{name}: padding")) for p in given]
        first = 1 if data_format == "NHWC" else 2
        spatial = pairs[first : first + 2]
        others = pairs[:first] + pairs[first + 2 :]
        if len(pairs) != 4 or any(any(p) for p in others):
            raise ArgumentError(
                f"{name}: padding {padding} must have a pair for each of the 4 axes, (0, 0) for "
                "batch and channels"
            )
        return [p for pair in spatial for p in pair], "EXPLICIT"
    return sizes_of(padding, f"{name}: padding", 2), "EXPLICIT"


def biased(name: str, out: Any, bias: TensorLike | None, data_format: str = "NCHW") -> Any:
    """``out`` plus one number a channel; another size would spread over images or channels."""
    if bias is None:
        return out
    found, axis = as_tensor(bias), out.ndim - 1 if data_format == "NHWC" else 1
    channels = out.meta.dims[axis]
    refusal = (
        f"{name}: bias must be [{dm.dim_text(channels)}], one a channel of the result, found "
        f"{found.meta}"
    )
    dims = [channels if n == axis else 1 for n in range(out.ndim)]
    return out + ops.reshape(expect_dims(found, refusal, (channels,)), dims)


@takes()
def conv2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Padding = 0,
    dilation: Size = 1,
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    """The cross-correlation of images with filters, plus a bias for each channel.

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC".
        weight: [out, c / groups, kh, kw].
        bias: [out], or None.
        stride: the step of the window.
        padding: an int, [height, width], [top, bottom, left, right], a pair for each axis, "SAME"
            or "VALID".
        dilation: the distance between the elements of a filter.
        groups: channels are parted into so many groups, each with filters of its own.
        data_format: "NCHW" or "NHWC".

    Raises:
        ShapeError, AttributeValueError: the filters or the bias do not fit.

    >>> import phix
    >>> phix.nn.functional.conv2d(phix.ones([1, 1, 3, 3]), phix.ones([1, 1, 2, 2])).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    paddings, algorithm = _padding("conv2d", padding, data_format)
    out = ops.conv2d(
        x, weight, _pair(stride), paddings, algorithm, _pair(dilation), groups, data_format
    )
    return biased("conv2d", out, bias, data_format)


@takes()
def conv2d_transpose(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Padding = 0,
    output_padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    output_size: Size | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """The transposed convolution: the gradient of conv2d with respect to its images, plus a bias.

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC".
        weight: [c, out / groups, kh, kw].
        bias: [out], or None.
        stride, padding, dilation, groups, data_format: as those of conv2d.
        output_padding: added to the size of the result, behind.
        output_size: the size of the result, in place of output_padding.

    Raises:
        ShapeError, AttributeValueError: the filters or the bias do not fit.

    >>> import phix
    >>> ones = phix.ones([1, 1, 2, 2])
    >>> phix.nn.functional.conv2d_transpose(ones, ones, stride=2).shape
    (1, 1, 4, 4)
    """
    paddings, algorithm = _padding("conv2d_transpose", padding, data_format)
    behind = _pair(output_padding)
    out = ops.conv2d_transpose(
        x, weight, _pair(stride), paddings,
        behind if any(behind) else [],
        [] if output_size is None else _pair(output_size),
        algorithm, groups, _pair(dilation), data_format,
    )  # fmt: skip
    return biased("conv2d_transpose", out, bias, data_format)


@takes()
def max_pool2d(
    x: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
) -> Tensor:
    """The largest element of each window; ties share the gradient.

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC".
        kernel_size: the size of the window.
        stride: its step; None: the size of the window.
        padding: as that of conv2d; padding never wins.
        return_mask: must be False: positions are not given.
        ceil_mode: whether windows are kept that begin before the image ends and reach out behind.
        data_format: "NCHW" or "NHWC".

    Raises:
        ArgumentError: return_mask is True.

    >>> import phix
    >>> phix.nn.functional.max_pool2d([[[[1.0, 2.0], [3.0, 4.0]]]], 2).tolist()
    [[[[4.0]]]]
    """
    if return_mask:
        raise ArgumentError("max_pool2d: return_mask is not there; leave it False")
    paddings, algorithm = _padding("max_pool2d", padding, data_format)
    strides = [] if stride is None else _pair(stride)
    return ops.max_pool2d(
        x, _pair(kernel_size), strides, paddings, ceil_mode, data_format, algorithm
    )


@takes()
def avg_pool2d(
    x: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """The mean of each window.

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC".
        kernel_size: the size of the window.
        stride: its step; None: the size of the window.
        padding: as that of conv2d.
        ceil_mode: whether windows are kept that begin before the image ends and reach out behind.
        exclusive: whether padding is left out of the count.
        divisor_override: what the sum of a window is divided by, in place of the count.
        data_format: "NCHW" or "NHWC".

    Raises:
        ArgumentError: divisor_override with ceil_mode, or one of 0.

    >>> import phix
    >>> phix.nn.functional.avg_pool2d([[[[1.0, 2.0], [3.0, 6.0]]]], 2).tolist()
    [[[[3.0]]]]
    """
    paddings, algorithm = _padding("avg_pool2d", padding, data_format)
    kernel, strides = _pair(kernel_size), [] if stride is None else _pair(stride)
    if divisor_override is None:
        return ops.avg_pool2d(
            x, kernel, strides, paddings, ceil_mode, exclusive, data_format, algorithm
        )
    if is_zero(divisor_override):
        raise ArgumentError("avg_pool2d: divisor_override must not be 0; None: by the count")
    if ceil_mode:
        raise ArgumentError(
            "avg_pool2d: divisor_override goes with ceil_mode=False alone; pad the image instead"
        )
    mean = ops.avg_pool2d(x, kernel, strides, paddings, False, False, data_format, algorithm)
    return mean * (kernel[0] * kernel[1] / divisor_override)


_MODES = ("constant", "reflect", "replicate", "circular")


@takes()
def pad(
    x: TensorLike,
    pad: Sequence[int],
    mode: str = "constant",
    value: FloatLike = 0.0,
    data_format: str | None = None,
    pad_from_left_axis: bool = True,
) -> Tensor:
    """x with elements added at the ends of its axes.

    Args:
        x: a tensor.
        pad: two numbers for each axis of x, (before, after), from the first axis on (or from the
            last axis back, if not pad_from_left_axis); or two for each of the last axes, from the
            last back ([left, right, top, bottom] of images), channels and batch left out.
        mode: "constant" adds ``value``; "reflect" mirrors without the edge itself; "replicate"
            repeats the edge; "circular" goes on at the other end.
        value: what "constant" adds.
        data_format: for the short form of ``pad``: where the channels are ("NCHW", "NHWC", "NCL",
            "NLC", "NCDHW", "NDHWC"); by default on axis 1.
        pad_from_left_axis: for the long form of ``pad``: its order.

    Raises:
        ArgumentError: ``pad`` has no length that fits, more is asked for than the mode has, or
            the mode is another.

    >>> import phix
    >>> phix.nn.functional.pad([[1.0, 2.0]], [0, 0, 1, 1], value=9.0).tolist()
    [[9.0, 1.0, 2.0, 9.0]]
    >>> phix.nn.functional.pad([[[1.0, 2.0, 3.0]]], [2, 1], mode="reflect").tolist()
    [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]
    """
    out = as_tensor(x)
    if mode not in _MODES:
        raise ArgumentError(f"pad: mode is one of {', '.join(_MODES)}, found {mode!r}")
    given = list(sizes(pad, "pad: pad"))
    widths = _widths(out.ndim, given, data_format, pad_from_left_axis)
    if mode == "constant":
        return ops.pad(out, [w for pair in widths for w in pair], value)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            out = _with_reach(out, axis, before, after, mode)
            out = ops.gather(out, _source(out.shape[axis], before, after, mode), axis)
    return out


def _widths(
    rank: int, pad: list[int], data_format: str | None, from_left: bool
) -> list[tuple[int, int]]:
    """(before, after) for each axis."""
    pairs = list(zip(pad[::2], pad[1::2]))
    if len(pad) == 2 * rank:
        return pairs if from_left else pairs[::-1]
    last_is_channels = data_format is not None and data_format.endswith("C") and rank > 2
    behind = 1 if last_is_channels else 0
    room = rank - 1 - behind if last_is_channels else rank
    if len(pad) % 2 or len(pairs) > room:
        raise ArgumentError(
            f"pad: {pad} must have two numbers for each of the {rank} axes, or for each of the last"
        )
    before = rank - len(pairs) - behind
    return [(0, 0)] * before + pairs[::-1] + [(0, 0)] * behind


def _with_reach(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """``x``, which has as many elements along the axis as the mode adds at an end."""
    size, most = x.shape[axis], max(before, after)
    reach = {"reflect": size - 1, "circular": size}.get(mode, most)
    refusal = (
        f"pad: {mode} has {dm.dim_text(reach)} elements to add at an end of an axis of "
        f"{dm.dim_text(size)}, found {(before, after)}"
    )
    if isinstance(reach, int) and most > reach:
        raise ArgumentError(refusal)
    return expect(x, refusal, reach - most)


def _source(size: dm.DimLike, before: int, after: int, mode: str) -> Any:
    """Which element of an axis each place of the padded axis takes."""
    place = ops.arange(-before, size + after, 1, dt.int64)
    count = ops.full((), size, dt.int64)
    if mode == "circular":
        return place % count
    if mode == "replicate":
        return ops.minimum(ops.maximum(place, 0), count - 1)
    last = count - 1
    return last - ops.abs(place % ops.maximum(2 * last, 1) - last)
