"""Special functions made of others: values and derivatives keep their digits everywhere."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError
from phix.core.meta import MetaTensor
from phix.primitives.widening import in_float32


# -- logit -------------------------------------------------------------------------------------
@rules.normalize("logit")
def logit_attrs(x: MetaTensor, eps: float) -> Any:
    if not 0 <= eps < 0.5:
        raise AttributeValueError(f"eps must be from 0 to below 0.5, found {eps}")
    return (eps,)


# Quotients by what is below the first overflow: they are taken of 2 to the second times as much
_TINY = {dt.float32: (1e-38, 40), dt.float64: (1e-307, 64)}


@rules.decompose("logit")
@in_float32
def logit(x: Any, eps: float) -> Any:
    """By the smaller part m, of which 1 - 2 m is exact about 1/2: log(1 + (1 - 2 m) / m) less or
    more; of a tiny m, of which that overflows, a multiple."""
    rest = 1 - x
    if eps:  # each is brought in by itself, for 1 - (1 - eps) is not eps
        x, rest = ops.clip(x, eps, 1 - eps), ops.clip(rest, eps, 1 - eps)
    limit, power = _TINY[x.dtype]
    above = x >= 0.5
    part = ops.where(above, rest, x)
    tiny = (part >= 0) & (part < limit)
    size = ops.log1p((1 - 2 * part) / ops.where(tiny, 2.0**power * ops.abs(part), part))
    size = ops.where(tiny, size + power * math.log(2), size)
    return ops.where(above, size, -size)


@rules.decompose("logit_grad")
@in_float32
def logit_grad(x: Any, out_grad: Any, eps: float) -> Any:
    if not eps:  # not by the product, whose square underflows in the slope of this
        return out_grad / x / (1 - x)
    inside = (x >= eps) & (x <= 1 - eps)
    safe = ops.where(inside, x, 0.5)
    return ops.where(inside, out_grad / safe / (1 - safe), 0.0)


# -- modified Bessel functions -------------------------------------------------------------------
_HIGHEST_ORDER = 60
_OVERFLOWS = 1500.0  # every I_n has, in every dtype


def _check_order(n: int, name: str) -> None:
    if not 0 <= n <= _HIGHEST_ORDER:
        raise AttributeValueError(f"{name} must be from 0 to {_HIGHEST_ORDER}, found {n}")


@rules.normalize("scaled_bessel")
def scaled_bessel_attrs(x: MetaTensor, m: int, n: int) -> Any:
    _check_order(m, "m")
    _check_order(n, "n")
    return m, n


@rules.decompose("scaled_bessel_grad")
@in_float32
def scaled_bessel_grad(x: Any, out_grad: Any, m: int, n: int) -> Any:
    return -out_grad * (ops.sign(x) * ops.scaled_bessel(x, m + 1, n))


@rules.normalize("bessel_ratio")
def bessel_ratio_attrs(x: MetaTensor, n: int) -> Any:
    _check_order(n, "n")
    return (n,)


@rules.decompose("bessel_ratio")
@in_float32
def bessel_ratio(x: Any, n: int) -> Any:
    """exp(|x|) in two factors, so that nothing overflows that the result does not."""
    size = ops.minimum(ops.abs(x), _OVERFLOWS)
    half = ops.exp(0.5 * size)
    return ops.scaled_bessel(size, n, n) * half * half / float(math.prod(range(1, 2 * n, 2)))


@rules.decompose("bessel_ratio_grad")
@in_float32
def bessel_ratio_grad(x: Any, out_grad: Any, n: int) -> Any:
    return out_grad * (x * ops.bessel_ratio(x, n + 1))


@rules.decompose("i0")
def i0(x: Any) -> Any:
    return ops.bessel_ratio(x, 0)


@rules.decompose("i1")
@in_float32
def i1(x: Any) -> Any:
    return x * ops.bessel_ratio(x, 1)


@rules.decompose("i0e")
def i0e(x: Any) -> Any:
    return ops.scaled_bessel(x, 0, 0)


# From here on, by dtype, a part of x is taken: x F would be inf * 0, and goes as x^(-1/2)
_HUGE = {dt.float32: (1e24, -48), dt.float64: (1e180, -500)}


@rules.decompose("i1e")
@in_float32
def i1e(x: Any) -> Any:
    """x F(1, 1)."""
    limit, power = _HUGE[x.dtype]
    size = ops.abs(x)
    huge = size > limit
    part = ops.where(huge, 2.0**power * x, x)
    part = ops.where(size == math.inf, ops.copysign(ops.zeros_like(x), x), part)
    found = part * ops.scaled_bessel(part, 1, 1)
    return ops.where(huge, 2.0 ** (power // 2) * found, found)


_FAR = 10.0


@rules.decompose("i1e_grad")
@in_float32
def i1e_grad(x: Any, out_grad: Any) -> Any:
    return out_grad * i1e_slope(x)


def i1e_slope(x: Any) -> Any:
    """That of x F(1, 1), or far out, where it would cancel more with each order, that of the
    integral of t = 1 - (1 - t), F(0, 0) - F(1, 0)."""
    far = ops.abs(x) > _FAR
    near = ops.where(far, 0.0, x)
    inner = ops.scaled_bessel(near, 1, 1) - ops.abs(near) * ops.scaled_bessel(near, 2, 1)
    return ops.where(far, ops.scaled_bessel(x, 2, 0) - ops.scaled_bessel(x, 1, 0), inner)
