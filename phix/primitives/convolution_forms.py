"""What is made of conv2d: convolutions of volumes, depthwise, transposed, with a bias.

A volume is convolved as images whose channels are those of the slices that lie under the filter:
so all that is known of conv2d, its derivatives and its kernels, holds for volumes.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.windows import explicit_paddings
from phix.primitives.convolution import (
    COUNTS,
    channels_back,
    channels_first,
    check_filters,
    check_image,
    check_windows,
    convolved,
    placed,
    spread,
)
from phix.primitives.positions import numbers


# -- volumes, depthwise ------------------------------------------------------------------------
@rules.decompose("conv3d")
def conv3d(
    input: Any,
    filter: Any,
    strides: Any,
    paddings: Any,
    padding_algorithm: str,
    groups: Any,
    dilations: Any,
    data_format: str,
) -> Any:
    check_filters("input", input, filter, 3)
    check_windows(strides, paddings, padding_algorithm, dilations, data_format, 3)
    x = channels_first(input, data_format)
    sizes = (strides, paddings, padding_algorithm, dilations, groups)
    pads, counts = placed(x.meta.dims, x.dtype, filter.meta, *sizes)
    (front, back), *around = pads
    if not (dm.is_zero(front) and dm.is_zero(back)):
        x = ops.pad(x, (0, 0, 0, 0, front, back, 0, 0, 0, 0), 0)
    n, c, _, *size = x.meta.dims
    o, per_group, taps, *kernel = filter.meta.dims
    depth = counts[0]
    if dm.is_one(taps) and strides[0] == 1:
        slices = ops.transpose(x, (0, 2, 1, 3, 4))
    else:
        at = ops.reshape(numbers(depth) * strides[0], (depth, 1)) + numbers(taps) * dilations[0]
        slices = ops.transpose(ops.gather(x, at, 2), (0, 2, 1, 3, 4, 5))
    images = ops.reshape(slices, (n * depth, c * taps, *size))
    filters = ops.reshape(filter, (o, per_group * taps, *kernel))
    sides = [p for pair in around for p in pair]
    out = ops.conv2d(images, filters, strides[1:], sides, "EXPLICIT", dilations[1:], groups)
    out = ops.reshape(out, (n, depth, o, *counts[1:]))
    return channels_back(ops.transpose(out, (0, 2, 1, 3, 4)), data_format)


@rules.decompose("depthwise_conv2d")
def depthwise_conv2d(input: Any, filter: Any, *attrs: Any) -> Any:
    return ops.conv2d(input, filter, *_as_of_conv2d(*attrs))


def _as_of_conv2d(
    strides: Any, paddings: Any, algorithm: str, groups: int, dilations: Any, data_format: str
) -> tuple[Any, ...]:
    """The attributes of depthwise convolutions in the order that others have."""
    return strides, paddings, algorithm, dilations, groups, data_format


# -- biases ------------------------------------------------------------------------------------
def _biased(out: Any, bias: Any, data_format: str) -> Any:
    """``out`` plus one number a channel."""
    axis = out.ndim - 1 if data_format in ("NHWC", "NDHWC") else 1
    channels = out.meta.dims[axis]
    if bias.ndim != 1 or not dm.may_equal(bias.meta.dims[0], channels):
        raise ShapeError(
            f"bias must have one axis of {dm.dim_text(channels)} elements, one a channel of the "
            f"result, found {bias.meta}"
        )
    dims = [channels if a == axis else 1 for a in range(out.ndim)]
    return out + ops.reshape(bias, dims)


@rules.decompose("depthwise_conv2d_bias")
@rules.decompose("depthwise_conv3d_bias")
def depthwise_bias(input: Any, filter: Any, bias: Any, *attrs: Any) -> Any:
    return _biased(convolved(input, filter, *_as_of_conv2d(*attrs)), bias, attrs[-1])


@rules.decompose("conv2d_transpose_bias")
def conv2d_transpose_bias(x: Any, filter: Any, bias: Any, *attrs: Any) -> Any:
    return _biased(ops.conv2d_transpose(x, filter, *attrs), bias, attrs[-1])


# -- transposed --------------------------------------------------------------------------------
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
        if given and len(given) != len(least):
            raise AttributeValueError(
                f"{name} must be {COUNTS[len(least)]} ints, found {dm.shape_text(given)}"
            )
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


def _transposed(
    count: int,
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
    check_windows(strides, paddings, padding_algorithm, dilations, data_format, count)
    if isinstance(groups, int) and groups < 1:
        raise AttributeValueError(f"groups must be 1 or more, found {groups}")
    check_filters("x", x, filter, count)
    images = channels_first(x, data_format)
    if not dm.may_equal(images.meta.dims[1], filter.meta.dims[0]):
        raise ShapeError(
            f"x has {dm.dim_text(images.meta.dims[1])} channels, filter {filter.meta} takes "
            "others; filter is [in, out / groups, ...]"
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
    check_image(wanted, x.dtype, f"{how} an image of {dm.shape_text(size)}")
    out = spread(images, filter, wanted, strides, pads, dilations, groups)
    return channels_back(out, data_format)


@rules.decompose("conv2d_transpose")
@rules.decompose("depthwise_conv2d_transpose")
def conv2d_transpose(*args: Any) -> Any:
    return _transposed(2, *args)


@rules.decompose("conv3d_transpose")
def conv3d_transpose(*args: Any) -> Any:
    return _transposed(3, *args)
