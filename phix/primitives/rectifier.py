"""Activations in pieces: decompositions. Comparisons are written so that NaN comes out as NaN."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.pointwise import conj
from phix.primitives.widening import in_float32

# -- exponentials ------------------------------------------------------------------------------
_SATURATES = 1000.0  # exp of -x is 0 in every dtype


@rules.decompose("mish")
@in_float32
def mish(x: Any, lambda_: float) -> Any:
    """With e = exp(-|x|), tanh(log(1 + exp(x))) is e (e + 2) / (e (e + 2) + 2) where x < 0, and
    1 - 2 e^2 / (1 + 2 e + 2 e^2) elsewhere: nothing overflows or cancels, in derivatives neither.
    """
    e = ops.exp(ops.where(x < 0, x, -x))
    below = e * (e + 2)
    above = 2 * e * e
    gate = ops.where(x < 0, below / (below + 2), 1 - above / (1 + 2 * e + above))
    gate = ops.where(x > lambda_, ops.tanh(x), gate)
    near = ops.where(ops.abs(x) > _SATURATES, 0.0, x)
    return ops.where(x > _SATURATES, x, near * gate)


@rules.decompose("selu")
@in_float32
def selu(x: Any, scale: float, alpha: float) -> Any:
    return ops.where(x > 0, scale * x, scale * alpha * ops.expm1(ops.where(x > 0, 0.0, x)))


@rules.normalize("celu")
def celu_attrs(x: MetaTensor, alpha: float) -> Any:
    if alpha == 0:
        raise AttributeValueError("alpha divides x and must not be 0; write relu(x) for the limit")
    return (alpha,)


@rules.decompose("celu")
@in_float32
def celu(x: Any, alpha: float) -> Any:
    return ops.where(x > 0, x, alpha * ops.expm1(ops.where(x > 0, 0.0, x) / alpha))


# -- prelu -------------------------------------------------------------------------------------
_MODES = ("all", "channel", "element")
_LAYOUTS = ("NCHW", "NHWC")


@rules.infer_meta("PReluInferMeta")
def prelu_meta(x: MetaTensor, alpha: MetaTensor, data_format: str, mode: str) -> MetaTensor:
    for name, value, known in (("mode", mode, _MODES), ("data_format", data_format, _LAYOUTS)):
        if value not in known:
            raise AttributeValueError(f"{name} must be one of {', '.join(known)}, found {value!r}")
    if mode == "channel" and x.ndim < 2:
        raise ShapeError(f"x must have an axis of channels, [n, c, ...], found {x}")
    wanted = dm.product(_slope_dims(x, data_format, mode))
    if not dm.may_equal(dm.product(alpha.dims), wanted):
        raise ShapeError(
            f"alpha must have {dm.dim_text(wanted)} elements in mode {mode!r} for x {x}, "
            f"found {alpha}"
        )
    return x


def _slope_dims(x: MetaTensor, data_format: str, mode: str) -> dm.Shape:
    """The shape in which alpha broadcasts to x."""
    if mode == "all":
        return ()
    if mode == "element":
        return tuple(x.dims[1:])
    return (x.dims[-1],) if data_format == "NHWC" else (x.dims[1], *[1] * (x.ndim - 2))


@rules.decompose("prelu")
@in_float32
def prelu(x: Any, alpha: Any, data_format: str, mode: str) -> Any:
    slope = ops.reshape(alpha, _slope_dims(x.meta, data_format, mode))
    # no product with what is above 0: infinities of x or of slopes there come into no derivative
    return ops.where(x > 0, x, slope * ops.where(x > 0, 0.0, x))


# -- shrinkage ---------------------------------------------------------------------------------
@rules.normalize("softshrink")
def softshrink_attrs(x: MetaTensor, threshold: float) -> Any:
    if not threshold >= 0:
        raise AttributeValueError(f"threshold must not be negative, found {threshold}")
    return (threshold,)


@rules.decompose("softshrink")
@in_float32
def softshrink(x: Any, threshold: float) -> Any:
    outside = ops.where(x > threshold, x - threshold, x + threshold)
    return ops.where(ops.abs(x) <= threshold, 0.0, outside)


@rules.decompose("hardshrink")
def hardshrink(x: Any, threshold: float) -> Any:
    return ops.where(ops.abs(x) <= threshold, 0.0, x)


_LEVELS = 10  # of the continued fraction, for float64 on |x| <= 1


@rules.decompose("tanh_shrink")
@in_float32
def tanh_shrink(x: Any) -> Any:
    """By Lambert's continued fraction, tanh(x) = x / (1 + c) with c = x^2 / (3 + x^2 / (5 + ...)),
    where |x| < 1, which makes it x c / (1 + c)."""
    near = ops.abs(x) < 1
    small = ops.where(near, x, 0.0)
    square = small * small
    c: Any = 0.0
    for level in range(_LEVELS, 0, -1):
        c = square / (2 * level + 1 + c)
    return ops.where(near, small * (c / (1 + c)), x - ops.tanh(x))


@rules.decompose("tanh_shrink_grad")
@in_float32
def tanh_shrink_grad(x: Any, out_grad: Any) -> Any:
    return out_grad * conj(ops.square(ops.tanh(x)))


@rules.decompose("thresholded_relu")
def thresholded_relu(x: Any, threshold: float, value: float) -> Any:
    return ops.where(x <= threshold, value, x)


@rules.decompose("stanh")
@in_float32
def stanh(x: Any, scale_a: float, scale_b: float) -> Any:
    return scale_b * ops.tanh(scale_a * x)
