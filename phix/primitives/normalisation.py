"""Normalisations: x less its mean, over its standard deviation, then scaled and shifted.

They differ in the axes that the moments are taken over. 16-bit floats are normalised in float32,
in which the moments come too. The moments a forward op saved are outputs like any other, so a
backward rule also takes cotangents of them; one that is absent (None) counts as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import unbroadcast
from phix.primitives.reduction import count, reduced_dims
from phix.primitives.widening import as_dtype, widened

Axes = Sequence[int]


# -- what all of them share --------------------------------------------------------------------
def _moments(x: Any, axes: Axes) -> tuple[Any, Any]:
    """Mean and variance over ``axes``, which stay as 1s."""
    mean = ops.mean(x, axes, True)
    centred = x - mean
    return mean, ops.mean(centred * centred, axes, True)


def _affine(normal: Any, scale: Any, bias: Any, dims: dm.Shape) -> Any:
    """``normal * scale + bias``, both seen in the shape ``dims``; either may be absent."""
    if scale is not None:
        normal = normal * ops.reshape(as_dtype(scale, normal.dtype), dims)
    if bias is not None:
        normal = normal + ops.reshape(as_dtype(bias, normal.dtype), dims)
    return normal


def _through_moments(grad: Any, normal: Any, inverse: Any, axes: Axes) -> Any:
    """What ``normal`` sends back to x if its moments are those of x.

    x can neither shift nor stretch ``normal``, so what of ``grad`` lies along these is taken off.
    """
    shift = ops.mean(grad, axes, True)
    stretch = ops.mean(grad * normal, axes, True)
    return inverse * (grad - shift - normal * stretch)


def _from_moments(x_grad: Any, centred: Any, mean_grad: Any, variance_grad: Any, axes: Axes) -> Any:
    """``x_grad`` and what cotangents of the moments, with their axes as 1s, send back to x."""
    size = count(centred, axes)
    if mean_grad is not None:
        x_grad = x_grad + mean_grad / size
    if variance_grad is not None:
        x_grad = x_grad + centred * (variance_grad * 2 / size)
    return x_grad


def _of_inverse(inverse: Any, inverse_grad: Any) -> Any:
    """The cotangent of a variance v from that of ``inverse``, (v + epsilon) ** -0.5."""
    return None if inverse_grad is None else -0.5 * inverse * inverse * inverse * inverse_grad


def _added(*terms: Any) -> Any:
    """The sum of the cotangents that are present; None if none is."""
    total: Any = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _seen(x: Any, dims: dm.Shape, dtype: Any) -> Any:
    """``x`` in that shape and dtype; None stays None."""
    return None if x is None else ops.reshape(as_dtype(x, dtype), dims)


def _parameter_grads(grad: Any, normal: Any, scale: Any, bias: Any, axes: Axes) -> Any:
    """Gradients of scale and bias, summed over ``axes``, None for those that are absent."""

    def summed(terms: Any, like: Any) -> Any:
        total = ops.sum(terms, axes) if axes else terms
        return as_dtype(ops.reshape(total, like.meta.dims), like.dtype)

    return (
        None if scale is None else summed(grad * normal, scale),
        None if bias is None else summed(grad, bias),
    )


def _check_parameters(size: dm.DimLike, what: str, **parameters: Any) -> None:
    """Raise ShapeError unless each parameter present is a vector of that size."""
    for name, p in parameters.items():
        if p is not None and (p.ndim != 1 or not dm.may_equal(p.meta.dims[0], size)):
            raise ShapeError(f"{name} must be [{dm.dim_text(size)}], {what}, found {p.meta}")


# -- layer_norm, rms_norm ----------------------------------------------------------------------
def _begin(x: MetaTensor, begin_norm_axis: int) -> int:
    if not x.ndim:
        raise ShapeError(f"{x} has no axis to normalise over; reshape it to [1] first")
    return ax.positive(begin_norm_axis, x.ndim, "begin_norm_axis")


@rules.normalize("layer_norm")
def layer_norm_attrs(
    x: MetaTensor, scale: Any, bias: Any, epsilon: float, begin_norm_axis: int
) -> Any:
    return epsilon, _begin(x, begin_norm_axis)


def _check_trailing(x: Any, begin: int, **parameters: Any) -> None:
    """Raise ShapeError unless each parameter holds one number for each normalised element."""
    dims = x.meta.dims[begin:]
    for name, p in parameters.items():
        if p is None:
            continue
        flat = p.ndim == 1 and dm.may_equal(p.meta.dims[0], dm.product(dims))
        whole = p.ndim == len(dims) and all(map(dm.may_equal, p.meta.dims, dims))
        if not flat and not whole:
            raise ShapeError(
                f"{name} must be {dm.shape_text(dims)}, the axes of x from {begin} on, or the same "
                f"as a vector, found {p.meta}"
            )


@rules.decompose("layer_norm")
def layer_norm(x: Any, scale: Any, bias: Any, epsilon: float, begin_norm_axis: int) -> Any:
    _check_trailing(x, begin_norm_axis, scale=scale, bias=bias)
    wide = widened(x)
    dims, axes = x.meta.dims, range(begin_norm_axis, x.ndim)
    mean, variance = _moments(wide, axes)
    normal = (wide - mean) * ops.rsqrt(variance + epsilon)
    out = _affine(normal, scale, bias, dims[begin_norm_axis:])
    lead = dims[:begin_norm_axis]
    return as_dtype(out, x.dtype), ops.reshape(mean, lead), ops.reshape(variance, lead)


@rules.decompose("layer_norm_grad")
def layer_norm_grad(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    out_grad: Any,
    mean_grad: Any,
    variance_grad: Any,
    epsilon: float,
    begin_norm_axis: int,
) -> Any:
    wide, grad = widened(x), widened(out_grad)
    dims, axes = x.meta.dims, range(begin_norm_axis, x.ndim)
    ones = reduced_dims(x.meta, axes, True)
    inverse = ops.rsqrt(ops.reshape(variance, ones) + epsilon)
    centred = wide - ops.reshape(mean, ones)
    normal = centred * inverse
    to_normal = _affine(grad, scale, None, dims[begin_norm_axis:])
    x_grad = _from_moments(
        _through_moments(to_normal, normal, inverse, axes),
        centred,
        _seen(mean_grad, ones, wide.dtype),
        _seen(variance_grad, ones, wide.dtype),
        axes,
    )
    parameters = _parameter_grads(grad, normal, scale, bias, range(begin_norm_axis))
    return as_dtype(x_grad, x.dtype), *parameters


@rules.normalize("rms_norm")
def rms_norm_attrs(x: MetaTensor, *args: Any) -> Any:
    epsilon, begin_norm_axis, quant_scale, *quant = args[4:]
    if quant_scale > 0:
        raise AttributeValueError(
            f"nothing is quantised here, found quant_scale {quant_scale}; leave it at -1, and "
            "quantise the result"
        )
    return epsilon, _begin(x, begin_norm_axis), quant_scale, *quant


@rules.decompose("rms_norm")
def rms_norm(
    x: Any,
    bias: Any,
    residual: Any,
    norm_weight: Any,
    norm_bias: Any,
    epsilon: float,
    begin_norm_axis: int,
    *quant: Any,
) -> Any:
    _check_trailing(x, begin_norm_axis, norm_weight=norm_weight, norm_bias=norm_bias)
    total = _added(x, bias, residual)
    dims = x.meta.dims
    if total.ndim != x.ndim or not all(map(dm.may_equal, total.meta.dims, dims)):
        raise ShapeError(f"bias and residual must broadcast to {x.meta}, their sum is {total.meta}")
    total = ops.reshape(total, dims)
    wide = widened(total)
    square = ops.mean(wide * wide, range(begin_norm_axis, x.ndim), True)
    inverse = ops.rsqrt(square + epsilon)
    out = _affine(wide * inverse, norm_weight, norm_bias, dims[begin_norm_axis:])
    return as_dtype(out, x.dtype), total, ops.reshape(inverse, dims[:begin_norm_axis])


@rules.decompose("rms_norm_grad")
def rms_norm_grad(
    bias: Any,
    residual: Any,
    norm_weight: Any,
    norm_bias: Any,
    residual_out: Any,
    inv_var: Any,
    out_grad: Any,
    residual_out_grad: Any,
    inv_var_grad: Any,
    epsilon: float,
    begin_norm_axis: int,
) -> Any:
    wide, grad = widened(residual_out), widened(out_grad)
    dims, axes = wide.meta.dims, range(begin_norm_axis, wide.ndim)
    ones = reduced_dims(wide.meta, axes, True)
    inverse = ops.reshape(inv_var, ones)
    normal = wide * inverse
    to_normal = _affine(grad, norm_weight, None, dims[begin_norm_axis:])
    x_grad = inverse * (to_normal - normal * ops.mean(to_normal * normal, axes, True))
    to_square = _of_inverse(inverse, _seen(inv_var_grad, ones, wide.dtype))
    x_grad = _from_moments(x_grad, wide, None, to_square, axes)
    x_grad = _added(as_dtype(x_grad, residual_out.dtype), residual_out_grad)
    addend_grads = (None if v is None else unbroadcast(x_grad, v) for v in (bias, residual))
    parameters = _parameter_grads(grad, normal, norm_weight, norm_bias, range(begin_norm_axis))
    return x_grad, *addend_grads, *parameters


# -- layouts -----------------------------------------------------------------------------------
_LAYOUTS = {
    **dict.fromkeys(("NC", "NCL", "NCHW", "NCDHW"), "NCHW"),
    **dict.fromkeys(("NLC", "NHWC", "NDHWC"), "NHWC"),
}


def _layout(data_format: str) -> str:
    """NCHW for channels behind the batch, NHWC for channels at the end."""
    if data_format not in _LAYOUTS:
        raise AttributeValueError(
            f"data_format {data_format!r} is not known; write one of {', '.join(_LAYOUTS)}"
        )
    return _LAYOUTS[data_format]


def _check_channels(x: MetaTensor, least: int) -> None:
    if x.ndim < least:
        raise ShapeError(
            f"x must have {least} axes at least, a batch, channels and what they hold, found {x}"
            if least > 2
            else f"x must have a batch and channels, found {x}; reshape it"
        )


# -- batch_norm --------------------------------------------------------------------------------
@rules.normalize("batch_norm")
def batch_norm_attrs(x: MetaTensor, *args: Any) -> Any:
    is_test, momentum, epsilon, data_format, *flags = args[4:]
    _check_channels(x, 2)
    return is_test, momentum, epsilon, _layout(data_format), *flags


def _channels(x: Any, data_format: str) -> tuple[list[int], dm.Shape]:
    """The axes other than the channels, and the shape in which numbers a channel are seen."""
    channel = 1 if data_format == "NCHW" else x.ndim - 1
    axes = [i for i in range(x.ndim) if i != channel]
    return axes, reduced_dims(x.meta, axes, True)


@rules.decompose("batch_norm")
def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    *attrs: Any,
) -> Any:
    is_test, momentum, epsilon, data_format, use_global_stats, trainable_statistics = attrs
    axes, seen = _channels(x, data_format)
    size = dm.product(seen)
    _check_parameters(size, "one a channel", mean=mean, variance=variance, scale=scale, bias=bias)
    wide = widened(x)
    if (is_test and not trainable_statistics) or use_global_stats:
        m, v = (_seen(s, seen, wide.dtype) for s in (mean, variance))
        mean_out, variance_out = mean, variance
    else:
        m, v = _moments(wide, axes)
        mean_out, variance_out = (
            old * momentum + _seen(new, (size,), old.dtype) * (1 - momentum)
            for old, new in ((mean, m), (variance, v))
        )
    inverse = ops.rsqrt(v + epsilon)
    out = _affine((wide - m) * inverse, scale, bias, seen)
    saved = (ops.reshape(s, (size,)) for s in (m, inverse))
    return as_dtype(out, x.dtype), mean_out, variance_out, *saved


@rules.decompose("batch_norm_grad")
def batch_norm_grad(
    x: Any,
    scale: Any,
    bias: Any,
    saved_mean: Any,
    saved_variance: Any,
    out_grad: Any,
    mean_out_grad: Any,
    variance_out_grad: Any,
    saved_mean_grad: Any,
    saved_variance_grad: Any,
    momentum: float,
    epsilon: float,
    data_format: str,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
) -> Any:
    wide, grad = widened(x), widened(out_grad)
    axes, seen = _channels(x, data_format)
    size = dm.product(seen)
    inverse = ops.reshape(saved_variance, seen)
    centred = wide - ops.reshape(saved_mean, seen)
    normal = centred * inverse
    parameters = _parameter_grads(grad, normal, scale, bias, axes)
    to_normal = _affine(grad, scale, None, seen)
    to_mean = _seen(saved_mean_grad, seen, wide.dtype)
    to_variance = _of_inverse(inverse, _seen(saved_variance_grad, seen, wide.dtype))
    if (is_test and not trainable_statistics) or use_global_stats:
        x_grad = to_normal * inverse
        to_mean = _added(to_mean, -ops.sum(x_grad, axes, keepdim=True))
        stretch = ops.sum(to_normal * centred, axes, keepdim=True)
        to_variance = _added(to_variance, _of_inverse(inverse, stretch))
        to_running = [
            _added(passed, _seen(new, (size,), x.dtype))
            for passed, new in ((mean_out_grad, to_mean), (variance_out_grad, to_variance))
        ]
    else:
        outs = (mean_out_grad, variance_out_grad)
        to_running = [None if g is None else g * momentum for g in outs]
        shares = [_seen(None if g is None else g * (1 - momentum), seen, wide.dtype) for g in outs]
        x_grad = _from_moments(
            _through_moments(to_normal, normal, inverse, axes),
            centred,
            _added(to_mean, shares[0]),
            _added(to_variance, shares[1]),
            axes,
        )
    return as_dtype(x_grad, x.dtype), *to_running, *parameters


# -- instance_norm -----------------------------------------------------------------------------
@rules.decompose("instance_norm")
def instance_norm(x: Any, scale: Any, bias: Any, epsilon: float) -> Any:
    _check_channels(x.meta, 2)
    n, c = x.meta.dims[:2]
    _check_parameters(c, "one a channel", scale=scale, bias=bias)
    dims = x.meta.dims
    x = ops.reshape(x, (*dims, *(1,) * (3 - x.ndim)))  # [n, c] holds images of one element
    wide, axes = widened(x), range(2, x.ndim)
    mean, variance = _moments(wide, axes)
    inverse = ops.rsqrt(variance + epsilon)
    y = _affine((wide - mean) * inverse, scale, bias, (c, *(1 for _ in axes)))
    y = ops.reshape(as_dtype(y, x.dtype), dims)
    return y, *(ops.reshape(s, (n * c,)) for s in (mean, inverse))


@rules.decompose("instance_norm_grad")
def instance_norm_grad(
    x: Any,
    scale: Any,
    bias: Any,
    saved_mean: Any,
    saved_variance: Any,
    y_grad: Any,
    saved_mean_grad: Any,
    saved_variance_grad: Any,
    epsilon: float,
) -> Any:
    dims = x.meta.dims
    x, y_grad = (ops.reshape(v, (*dims, *(1,) * (3 - len(dims)))) for v in (x, y_grad))
    wide, grad, axes = widened(x), widened(y_grad), range(2, x.ndim)
    ones = reduced_dims(x.meta, axes, True)
    inverse = ops.reshape(saved_variance, ones)
    centred = wide - ops.reshape(saved_mean, ones)
    normal = centred * inverse
    c = x.meta.dims[1]
    to_normal = _affine(grad, scale, None, (c, *(1 for _ in axes)))
    x_grad = _from_moments(
        _through_moments(to_normal, normal, inverse, axes),
        centred,
        _seen(saved_mean_grad, ones, wide.dtype),
        _of_inverse(inverse, _seen(saved_variance_grad, ones, wide.dtype)),
        axes,
    )
    parameters = _parameter_grads(grad, normal, scale, bias, (0, *axes))
    return ops.reshape(as_dtype(x_grad, x.dtype), dims), *parameters


# -- group_norm --------------------------------------------------------------------------------
@rules.normalize("group_norm")
def group_norm_attrs(
    x: MetaTensor, scale: Any, bias: Any, epsilon: float, groups: int, data_format: str
) -> Any:
    _check_channels(x, 2)
    layout = _layout(data_format)
    if groups < 1:
        raise AttributeValueError(f"groups must be a number from 1, found {groups}")
    return epsilon, groups, layout


def _grouped(x: Any, groups: int, data_format: str) -> tuple[dm.Shape, list[int], dm.Shape]:
    """The dims of x with its channels parted, the axes within a group, and the parted channels."""
    dims = x.meta.dims
    channel = 1 if data_format == "NCHW" else x.ndim - 1
    each = dm.floordiv(dims[channel], groups)
    if not dm.may_equal(each * groups, dims[channel]):
        raise ShapeError(
            f"the {dm.dim_text(dims[channel])} channels of {x.meta} do not part into {groups} "
            "equal groups; write a number that divides them"
        )
    parted = (*dims[:channel], groups, each, *dims[channel + 1 :])
    axes = [i for i in range(1, x.ndim + 1) if i != channel]
    behind = () if data_format == "NHWC" else tuple(1 for _ in dims[2:])
    return parted, axes, (groups, each, *behind)


@rules.decompose("group_norm")
def group_norm(x: Any, scale: Any, bias: Any, epsilon: float, groups: int, data_format: str) -> Any:
    parted, axes, seen = _grouped(x, groups, data_format)
    _check_parameters(dm.product(seen), "one a channel", scale=scale, bias=bias)
    wide = ops.reshape(widened(x), parted)
    mean, variance = _moments(wide, axes)
    y = _affine((wide - mean) * ops.rsqrt(variance + epsilon), scale, bias, seen)
    moments = (ops.reshape(s, (parted[0], groups)) for s in (mean, variance))
    return ops.reshape(as_dtype(y, x.dtype), x.meta.dims), *moments


@rules.decompose("group_norm_grad")
def group_norm_grad(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    y_grad: Any,
    mean_grad: Any,
    variance_grad: Any,
    epsilon: float,
    groups: int,
    data_format: str,
) -> Any:
    parted, axes, seen = _grouped(x, groups, data_format)
    wide, grad = (ops.reshape(widened(v), parted) for v in (x, y_grad))
    ones = reduced_dims(wide.meta, axes, True)
    inverse = ops.rsqrt(ops.reshape(variance, ones) + epsilon)
    centred = wide - ops.reshape(mean, ones)
    normal = centred * inverse
    x_grad = _from_moments(
        _through_moments(_affine(grad, scale, None, seen), normal, inverse, axes),
        centred,
        _seen(mean_grad, ones, wide.dtype),
        _seen(variance_grad, ones, wide.dtype),
        axes,
    )
    channel = 1 if data_format == "NCHW" else x.ndim - 1
    others = [i for i in range(x.ndim + 1) if i not in (channel, channel + 1)]
    parameters = _parameter_grads(grad, normal, scale, bias, others)
    return ops.reshape(as_dtype(x_grad, x.dtype), x.meta.dims), *parameters
