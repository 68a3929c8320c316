"""Convolution and pooling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core.errors import ShapeError
from phix.core.tensor import TensorLike
from phix.nn.arguments import as_tensor, pair, window_paddings


def conv2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_format: str = "NCHW",
) -> Any:
    """Cross-correlation of images with filters.

    out[n, o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] * x[n, c, y * stride + i *
    dilation - padding, ...], c within the group of o.

    Args:
        x: images [n, in, height, width], or [n, height, width, in] with data_format NHWC.
        weight: filters [out, in / groups, height, width].
        bias: [out].
        stride: how far apart windows stand; one number, or (height, width).
        padding: zeros around; one number, (height, width), (top, bottom, left, right), a pair for
            each axis of x, "SAME" (ceil(size / stride) windows) or "VALID" (none).
        dilation: how far apart the elements of a window stand.
        groups: parts of the channels that do not mix.
        data_format: NCHW or NHWC.

    Returns:
        [n, out, rows, columns], or [n, rows, columns, out]; along an axis there are
        floor((size + paddings - dilation * (filter - 1) - 1) / stride) + 1 windows.

    >>> import phix
    >>> x = phix.to_tensor([[[[1.0, 2.0, 3.0]]]])
    >>> phix.nn.functional.conv2d(x, [[[[1.0, -1.0]]]], [10.0]).tolist()
    [[[[9.0, 9.0]]]]
    """
    numbers, algorithm = window_paddings(padding, data_format)
    attrs = (pair(stride), numbers, algorithm, pair(dilation), groups, data_format)
    out = ops.conv2d(x, weight, *attrs)
    if bias is None:
        return out
    shift = as_tensor(bias)
    channel = 3 if data_format == "NHWC" else 1
    if shift.ndim != 1:
        raise ShapeError(f"conv2d: bias must be [out], one number a filter, found {shift.meta}")
    return out + ops.reshape(shift, [-1 if i == channel else 1 for i in range(4)])


def max_pool2d(
    x: TensorLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | str | Sequence[Any] = 0,
    *,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
) -> Any:
    """Largest element of each window of the images; equal ones share the gradient.

    Args:
        x: images [n, channels, height, width], or [n, height, width, channels] with NHWC.
        kernel_size: the size of a window; one number, or (height, width).
        stride: how far apart windows stand; the size of one if None.
        padding: as in :func:`conv2d`, less than kernel_size; it never wins.
        ceil_mode: also count a window that only begins inside.
        data_format: NCHW or NHWC.

    Returns:
        As x, with floor((size + paddings - kernel_size) / stride) + 1 rows and columns.

    >>> import phix
    >>> phix.nn.functional.max_pool2d([[[[1.0, 2.0], [4.0, 3.0]]]], 2).tolist()
    [[[[4.0]]]]
    """
    numbers, algorithm = window_paddings(padding, data_format)
    return ops.max_pool2d(
        x,
        pair(kernel_size),
        pair(kernel_size if stride is None else stride),
        numbers,
        ceil_mode=ceil_mode,
        data_format=data_format,
        padding_algorithm=algorithm,
    )


def avg_pool2d(
    x: TensorLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | str | Sequence[Any] = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
) -> Any:
    """Mean of each window of the images.

    Args:
        x: images [n, channels, height, width], or [n, height, width, channels] with NHWC.
        kernel_size: the size of a window; one number, or (height, width).
        stride: how far apart windows stand; the size of one if None.
        padding: as in :func:`conv2d`, less than kernel_size.
        ceil_mode: also count a window that only begins inside.
        exclusive: leave the padding out of the count.
        divisor_override: divide the sum of a window by this instead of by the count.
        data_format: NCHW or NHWC.

    Returns:
        As x, with floor((size + paddings - kernel_size) / stride) + 1 rows and columns.

    >>> import phix
    >>> phix.nn.functional.avg_pool2d([[[[1.0, 2.0], [4.0, 3.0]]]], 2).tolist()
    [[[[2.5]]]]
    """
    size = pair(kernel_size)
    numbers, algorithm = window_paddings(padding, data_format)
    out = ops.avg_pool2d(
        x,
        size,
        pair(kernel_size if stride is None else stride),
        numbers,
        ceil_mode=ceil_mode,
        exclusive=exclusive and divisor_override is None,
        data_format=data_format,
        padding_algorithm=algorithm,
    )
    return out if divisor_override is None else out * (size[0] * size[1] / divisor_override)
