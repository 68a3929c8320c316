"""Elementwise arithmetic made of the pointwise primitives."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError
from phix.core.meta import MetaTensor
from phix.core.tensor import TensorBase
from phix.core.transforms import transforms
from phix.primitives.broadcasting import unbroadcast
from phix.primitives.flat import metas_of
from phix.primitives.pointwise import broadcast_shapes, conj


@rules.decompose("square")
def square(x: Any) -> Any:
    return x * x


@rules.decompose("square_grad")
def square_grad(x: Any, out_grad: Any) -> Any:
    return out_grad * conj(2 * x)


@rules.decompose("reciprocal")
def reciprocal(x: Any) -> Any:
    return 1 / x


@rules.decompose("reciprocal_grad")
def reciprocal_grad(out: Any, out_grad: Any) -> Any:
    return -out_grad * conj(out * out)


# -- clip --------------------------------------------------------------------------------------
@rules.normalize("clip")
def clip_attrs(x: MetaTensor, min: Any, max: Any) -> Any:
    """The bounds as numbers of x's kind: for ints, those ints that lie within."""
    low, high = (-math.inf if min is None else min), (math.inf if max is None else max)
    if math.isnan(low) or math.isnan(high) or low > high:
        raise AttributeValueError(f"min {low} must not be above max {high}, nor one of them NaN")
    if dt.kind(x.dtype) != "int":
        return float(low), float(high)
    limits = np.iinfo(x.dtype)
    low, high = (builtins.min(builtins.max(v, limits.min), limits.max) for v in (low, high))
    if math.ceil(low) > math.floor(high):
        raise AttributeValueError(f"no int lies between min {min} and max {max}; cast x to a float")
    return math.ceil(low), math.floor(high)


@rules.operands("clip")
def clip_to_tensors(x: Any, min: Any, max: Any) -> Any:
    """As with numbers, but for the checks of their values; where max is below min, max holds."""
    low, high = (None if v is None else _bound(x, v, up) for v, up in ((min, True), (max, False)))
    if high is not None:
        x = ops.where(x > high, high, x)
    if low is None:
        return x
    least = low if high is None else ops.minimum(low, high)
    return ops.where(x < least, least, x)


def _bound(x: Any, value: Any, up: bool) -> Any:
    """A bound of x's dtype: of ints the next one within."""
    if isinstance(value, TensorBase):
        is_whole = dt.is_float(x.dtype) or not dt.is_float(value.dtype)
        whole = value if is_whole else (ops.ceil if up else ops.floor)(value)
        return whole.astype(x.dtype)
    number = value if dt.is_float(x.dtype) else (math.ceil if up else math.floor)(value)
    return ops.full((), number, x.dtype)


@rules.decompose("clip")
def clip(x: Any, min: Any, max: Any) -> Any:
    """NaN is neither below nor above, and stays."""
    return ops.where(x < min, min, ops.where(x > max, max, x))


@rules.decompose("clip_grad")
def clip_grad(x: Any, out_grad: Any, min: Any, max: Any) -> Any:
    return ops.where((x >= min) & (x <= max), out_grad, 0.0)


# -- two or three inputs -----------------------------------------------------------------------
@rules.decompose("lerp")
def lerp(x: Any, y: Any, weight: Any) -> Any:
    return x + weight * (y - x)


@rules.decompose("heaviside")
def heaviside(x: Any, y: Any) -> Any:
    """NaN stays NaN: it is neither below 0, nor at 0, nor above."""
    step = ops.where(x > 0, 1, ops.where(x < 0, 0, x))
    return ops.where(x == 0, y, step)


@rules.decompose("heaviside_grad")
def heaviside_grad(x: Any, y: Any, out_grad: Any) -> Any:
    nothing = 0.0 * out_grad
    return unbroadcast(nothing, x), unbroadcast(ops.where(x == 0, out_grad, nothing), y)


@rules.decompose("copysign_grad")
def copysign_grad(x: Any, y: Any, out_grad: Any) -> Any:
    nothing = 0.0 * out_grad
    slope = ops.sign(x) * ops.copysign(ops.full((), 1, y.dtype), y)
    return unbroadcast(out_grad * slope, x), unbroadcast(nothing, y)


@rules.decompose("nextafter_grad")
def nextafter_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return unbroadcast(out_grad, x), unbroadcast(0.0 * out_grad, y)


# -- rounded, divided ---------------------------------------------------------------------------
@rules.decompose("trunc_divide")
def trunc_divide(x: Any, y: Any) -> Any:
    if dt.is_float(x.dtype):
        return ops.trunc(x / y)
    low = ops.floor_divide(x, y)
    inexact = (low * y != x) & (y != 0)
    return ops.where(inexact & ((x < 0) != (y < 0)), low + 1, low)


@rules.decompose("frac")
def frac(x: Any) -> Any:
    if not dt.is_float(x.dtype):
        return ops.full_like(x, 0)
    return ops.where(ops.isinf(x), 0.0, x - ops.trunc(x))


# -- divisors -----------------------------------------------------------------------------------
@rules.decompose("gcd")
def gcd(x: Any, y: Any) -> Any:
    """Euclid's way, until no element has a remainder; signs stay, as the least int has no size."""
    dims = broadcast_shapes(x.meta.dims, y.meta.dims)
    x, y = (ops.expand(t, dims) for t in (x, y))
    axes = list(range(len(dims)))

    def some(a: Any, b: Any) -> list[Any]:
        return [ops.any(b != 0, axes, False)]

    def step(a: Any, b: Any) -> list[Any]:
        more = b != 0
        rest = ops.remainder(a, ops.where(more, b, 1))
        return [ops.where(more, b, a), ops.where(more, rest, b)]

    metas = metas_of([x, y])
    graphs = [transforms().trace(f, metas)[0] for f in (some, step)]
    return ops.abs(ops.while_loop([x, y], [], *graphs)[0])


@rules.decompose("lcm")
def lcm(x: Any, y: Any) -> Any:
    common = ops.gcd(x, y)
    return ops.floor_divide(ops.abs(x), ops.where(common == 0, 1, common)) * ops.abs(y)


@rules.decompose("div_scale")
def div_scale(x: Any, scale: Any) -> Any:
    return x / scale


# -- angles -------------------------------------------------------------------------------------
@rules.decompose("angle")
def angle(x: Any) -> Any:
    if dt.is_complex(x.dtype):
        return ops.atan2(ops.imag(x), ops.real(x))
    return ops.where(x < 0, math.pi, ops.where(ops.isnan(x), x, 0.0))
