"""Activations: decompositions, and backward rules that are kept whole.

At a kink the slope is that of the side its comparison names: see the doc of each entry.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import unbroadcast
from phix.primitives.pointwise import across, conj
from phix.primitives.reduction import largest
from phix.primitives.widening import in_float32


# -- softmax -----------------------------------------------------------------------------------
@rules.normalize("softmax")
@rules.normalize("log_softmax")
def axis_attr(x: MetaTensor, axis: int) -> Any:
    return (ax.positive(axis, x.ndim),)


def _centred(x: Any, axes: list[int]) -> Any:
    """x - max(x); an axis without elements has no largest, and nothing to centre."""
    is_empty = any(dm.is_zero(x.meta.dims[a]) for a in axes)
    return x if is_empty else x - largest(x, axes)


@rules.batch("softmax")
def softmax_batch(batched: Any, x: Any, axis: int) -> Any:
    """Kept whole, so that patterns find it; a 0-d tensor has one element, over no axis."""
    if x.ndim == 1:
        rows = ops.reshape(x, (x.meta.dims[0], 1))
        return ops.reshape(ops.softmax(rows, 1), x.meta.dims)
    return ops.softmax(x, axis + 1)


@rules.batch("log_softmax")
def log_softmax_batch(batched: Any, x: Any, axis: int) -> Any:
    """Kept whole, for rows of which it is not known whether they hold anything."""
    if x.ndim == 1:
        rows = ops.reshape(x, (x.meta.dims[0], 1))
        return ops.reshape(ops.log_softmax(rows, 1), x.meta.dims)
    return ops.log_softmax(x, axis + 1)


@rules.decompose("softmax")
@in_float32
def softmax(x: Any, axis: int) -> Any:
    axes = [axis] if x.ndim else []
    e = ops.exp(_centred(x, axes))
    # one division a row
    return e * ops.reciprocal(ops.sum(e, axes, keepdim=True)) if x.ndim else e


@rules.decompose("softmax_grad")
@in_float32
def softmax_grad(out: Any, out_grad: Any, axis: int) -> Any:
    weighted = out * out_grad
    return weighted - out * ops.sum(weighted, [axis] if out.ndim else [], keepdim=True)


@rules.decompose("log_softmax")
@in_float32
def log_softmax(x: Any, axis: int) -> Any:
    axes = [axis] if x.ndim else []
    centred = _centred(x, axes)
    return centred - ops.log(ops.sum(ops.exp(centred), axes, keepdim=True))


@rules.decompose("log_softmax_grad")
@in_float32
def log_softmax_grad(out: Any, out_grad: Any, axis: int) -> Any:
    axes = [axis] if out.ndim else []
    return out_grad - ops.exp(out) * ops.sum(out_grad, axes, keepdim=True)


# -- sigmoid and its kin -----------------------------------------------------------------------
def _minus_size(x: Any) -> Any:
    """-|x|, whose derivative at 0 is that from the right: 1 + exp of it is smooth there so."""
    return ops.where(x < 0, x, -x)


@rules.decompose("sigmoid")
@in_float32
def sigmoid(x: Any) -> Any:
    """exp(min(x, 0)) / (1 + exp(-|x|)): nothing overflows, and the small end keeps its digits."""
    if dt.is_complex(x.dtype):
        return _complex_sigmoid(x)
    e = ops.exp(_minus_size(x))
    return ops.where(x < 0, e, 1.0) / (1 + e)


_FAR = 40.0  # 1 + exp(-_FAR) is 1


def _complex_sigmoid(x: Any) -> Any:
    """exp(x / 2) / (2 cosh(x / 2)), to the last digits next to the poles; 1 or exp(x) far out."""
    real = ops.real(x)
    far = ops.abs(real) > _FAR
    near = ops.where(far, 0.0, x)
    inner = ops.exp(0.5 * near) / (2 * ops.cosh(0.5 * near))
    return ops.where(far, ops.where(real > 0, 1.0, ops.exp(ops.where(real > 0, 0.0, x))), inner)


@rules.decompose("sigmoid_grad")
@in_float32
def sigmoid_grad(out: Any, out_grad: Any) -> Any:
    return out_grad * conj(out * (1 - out))


@rules.decompose("logsigmoid")
@in_float32
def logsigmoid(x: Any) -> Any:
    """min(x, 0) - log(1 + exp(-|x|))."""
    if dt.is_complex(x.dtype):
        return -_complex_softplus(-x)
    return ops.where(x < 0, x, 0.0) - ops.log1p(ops.exp(_minus_size(x)))


@rules.decompose("logsigmoid_grad")
@in_float32
def logsigmoid_grad(x: Any, out_grad: Any) -> Any:
    return out_grad * conj(sigmoid(-x))  # in pieces: see softplus_grad


@rules.decompose("softplus")
@in_float32
def softplus(x: Any, beta: float, threshold: float) -> Any:
    """max(t, 0) + log(1 + exp(-|t|)) over beta, t = beta x; x itself above the threshold."""
    t = beta * x
    if dt.is_complex(x.dtype):
        return ops.where(ops.real(t) > threshold, x, _complex_softplus(t) / beta)
    smooth = (ops.where(t < 0, 0.0, t) + ops.log1p(ops.exp(_minus_size(t)))) / beta
    return ops.where(t > threshold, x, smooth)


@rules.decompose("softplus_grad")
@in_float32
def softplus_grad(x: Any, out_grad: Any, beta: float, threshold: float) -> Any:
    """By the pieces of the sigmoid: the op's own slope, which is taken from its result, has no
    digits where that is next to 1."""
    t = beta * x
    is_above = (ops.real(t) if dt.is_complex(x.dtype) else t) > threshold
    return ops.where(is_above, out_grad, out_grad * conj(sigmoid(t)))


def _complex_softplus(t: Any) -> Any:
    """The principal log(1 + exp(t)): far to the right t, its imaginary part turned into range."""
    real, imag = ops.real(t), ops.imag(t)
    is_far = real > _FAR
    inner = ops.log1p(ops.exp(ops.where(is_far, 0.0, t)))
    angle = ops.where(is_far, imag, 0.0)
    far = ops.complex(real, ops.atan2(ops.sin(angle), ops.cos(angle)))
    return ops.where(is_far, far, inner)


@rules.decompose("silu")
@rules.decompose("swish")
@in_float32
def silu(x: Any) -> Any:
    return x * ops.sigmoid(x)


def _silu_slope(x: Any) -> Any:
    s = ops.sigmoid(x)
    return s + x * (s * (1 - s))


@rules.decompose("silu_grad")
@in_float32
def silu_grad(x: Any, out: Any, out_grad: Any) -> Any:
    s = ops.sigmoid(x)
    return out_grad * conj(s + out * (1 - s))


@rules.decompose("swish_grad")
@in_float32
def swish_grad(x: Any, out_grad: Any) -> Any:
    return out_grad * conj(_silu_slope(x))


@rules.decompose("swiglu")
@in_float32
def swiglu(x: Any, y: Any) -> Any:
    left, right = ops.split_with_num(x, 2, -1) if y is None else (x, y)
    return ops.silu(left) * right


@rules.decompose("swiglu_grad")
@in_float32
def swiglu_grad(x: Any, y: Any, out_grad: Any) -> Any:
    left, right = ops.split_with_num(x, 2, -1) if y is None else (x, y)
    to_left = out_grad * right * _silu_slope(left)
    to_right = out_grad * ops.silu(left)
    if y is None:
        return ops.concat([to_left, to_right], -1), None
    return unbroadcast(to_left, x), unbroadcast(to_right, y)


# -- gelu --------------------------------------------------------------------------------------
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715  # Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016


def _twice_argument(x: Any) -> Any:
    """2 t, where the formula has (1 + tanh(t)) / 2 = sigmoid(2 t), which keeps its digits."""
    return 2 * _SQRT_2_OVER_PI * (x + _CUBIC * x * x * x)


@rules.decompose("gelu")
@in_float32
def gelu(x: Any, approximate: bool) -> Any:
    return x * (ops.sigmoid(_twice_argument(x)) if approximate else ops.ndtr(x))


def _both_sigmoids(x: Any) -> tuple[Any, Any]:
    """sigmoid(x) and sigmoid(-x), which is 1 - sigmoid(x) with digits where that has none left."""
    s = ops.sigmoid(x)
    return s, ops.where(x < 0, 1 - s, s * ops.exp(_minus_size(x)))


@rules.decompose("gelu_grad")
@in_float32
def gelu_grad(x: Any, out_grad: Any, approximate: bool) -> Any:
    """The cumulative normal, and x times its density."""
    if approximate:
        near = ops.clip(x, -_FAR, _FAR)  # beyond it the slope is 0 or 1, and the cube overflows
        s, rest = _both_sigmoids(_twice_argument(near))
        slope = 2 * _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * near * near)
        return out_grad * (s * (1 + near * rest * slope))
    return out_grad * (ops.ndtr(x) + x * ops.normal_density(x))


# -- made of pieces; comparisons are written so that NaN comes out as NaN ----------------------
@rules.decompose("relu")
def relu(x: Any) -> Any:
    return ops.where(x <= 0, 0.0, x)


@rules.decompose("relu_grad")
def relu_grad(out: Any, out_grad: Any) -> Any:
    return ops.where(out > 0, out_grad, 0.0)


@rules.decompose("relu6")
def relu6(x: Any) -> Any:
    return ops.where(x <= 0, 0.0, ops.where(x >= 6, 6.0, x))


@rules.decompose("relu6_grad")
def relu6_grad(out: Any, out_grad: Any) -> Any:
    return ops.where((out > 0) & (out < 6), out_grad, 0.0)


@rules.decompose("leaky_relu")
def leaky_relu(x: Any, negative_slope: float) -> Any:
    return ops.where(x > 0, x, negative_slope * x)


@rules.decompose("leaky_relu_grad")
def leaky_relu_grad(x: Any, out_grad: Any, negative_slope: float) -> Any:
    return ops.where(x > 0, out_grad, negative_slope * out_grad)


@rules.decompose("elu")
@in_float32
def elu(x: Any, alpha: float) -> Any:
    return ops.where(x > 0, x, alpha * ops.expm1(ops.where(x > 0, 0.0, x)))


@rules.decompose("elu_grad")
@in_float32
def elu_grad(x: Any, out_grad: Any, alpha: float) -> Any:
    """Below 0 alpha exp(x): out + alpha is that too, and has no digits where out is -alpha."""
    below = alpha * ops.exp(ops.where(x > 0, 0.0, x))
    return ops.where(x > 0, out_grad, out_grad * below)


@rules.decompose("softsign")
@in_float32
def softsign(x: Any) -> Any:
    return x / (1 + ops.abs(x))


@rules.decompose("softsign_grad")
@in_float32
def softsign_grad(x: Any, out_grad: Any) -> Any:
    """Of complex numbers the slope along x is that of the real function, and across it is
    1 / (1 + |x|): what is across is given in terms of its share i sign(x)."""
    size = ops.abs(x)
    width = 1 + size
    along = out_grad / (width * width)
    if not dt.is_complex(x.dtype):
        return along
    return along + size / (width * width) * across(x, out_grad)


@rules.decompose("hardswish")
@in_float32
def hardswish(x: Any) -> Any:
    return ops.where(x <= -3, 0.0, ops.where(x >= 3, x, x * (x + 3) / 6))


@rules.decompose("hardswish_grad")
@in_float32
def hardswish_grad(x: Any, out_grad: Any) -> Any:
    inside = ops.where(x >= 3, out_grad, out_grad * (2 * x + 3) / 6)
    return ops.where(x <= -3, 0.0, inside)


@rules.decompose("hardsigmoid")
@in_float32
def hardsigmoid(x: Any, slope: float, offset: float) -> Any:
    line = slope * x + offset
    return ops.where(line <= 0, 0.0, ops.where(line >= 1, 1.0, line))


@rules.decompose("hardsigmoid_grad")
def hardsigmoid_grad(out: Any, out_grad: Any, slope: float, offset: float) -> Any:
    return ops.where((out > 0) & (out < 1), slope * out_grad, 0.0)


@rules.decompose("hardtanh")
def hardtanh(x: Any, t_min: float, t_max: float) -> Any:
    return ops.where(x <= t_min, t_min, ops.where(x >= t_max, t_max, x))


@rules.decompose("hardtanh_grad")
def hardtanh_grad(x: Any, out_grad: Any, t_min: float, t_max: float) -> Any:
    return ops.where((x > t_min) & (x < t_max), out_grad, 0.0)
