"""Fresnel integrals, sine and cosine integrals: waves around their limits, computed in float64.

Near 0 they are series. Further out they are a limit and f(x) and g(x) times a sine and a cosine,
with f and g integrals of what does not oscillate (M. Abramowitz and I. Stegun, 5.2 and 7.3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.smoothness import in_float64, smooth


def _summed(terms: Any) -> Any:
    return ops.sum(terms, [-1])


def _series(x: Any, first: int, start: int, step: float, terms: int) -> Any:
    """The sum over k of (-1)^k u^k / ((2 k + first)! (2 step k + start)) with u = x^2."""
    ratios = [
        (-1) ** k / (math.factorial(2 * k + first) * (2 * step * k + start)) for k in range(terms)
    ]
    return incomplete._horner(x * x, ratios)


# -- Fresnel's ------------------------------------------------------------------------------------
_NEAR_FRESNEL, _STEP = 1.5, 0.17
_NODES = _STEP * np.arange(30)
_BELLS = _STEP * np.exp(-0.5 * math.pi * _NODES**2) * math.sqrt(2) / math.pi
_BELLS[0] *= 0.5


def _fresnel_waves(x: Any) -> tuple[Any, Any]:
    """f and g for x >= 1.5: the trapezoidal rule for sqrt(2) / pi times the integrals of
    exp(-pi v^2 / 2) / (x (1 + (v / x)^4)) and of (v / x)^2 times that, over v > 0."""
    wide = ops.unsqueeze(x, [-1])
    part = (_NODES / wide) ** 2
    bells = _BELLS / (wide * (1 + part * part))
    return _summed(bells), _summed(part * bells)


def _turn(x: Any) -> tuple[Any, Any]:
    """The sine and the cosine of pi x^2 / 2; from 2^53 on x^2 is known to no turn."""
    whole = ops.floor(0.5 * x + 0.5) * 2  # x = whole + rest: x^2 = rest (whole + x), modulo 4
    rest = x - whole
    turns = rest * (x + whole)
    angle = 0.5 * math.pi * (turns - 4 * ops.floor(0.25 * turns))
    return ops.sin(angle), ops.cos(angle)


def _fresnel(is_sine: bool) -> Any:
    def integral(x: Any) -> Any:
        size = ops.abs(x)
        near, known = size < _NEAR_FRESNEL, size < math.inf
        few = ops.where(near, x, 0.0)
        angle = 0.5 * math.pi * few * few
        if is_sine:
            inner = few * angle * _series(angle, 1, 3, 2, 18)
        else:
            inner = few * _series(angle, 0, 1, 2, 18)
        wide = ops.where(near | ~known, 2.0, size)
        f, g = _fresnel_waves(wide)
        sine, cosine = _turn(wide)
        outer = 0.5 - f * cosine - g * sine if is_sine else 0.5 + f * sine - g * cosine
        outer = ops.sign(x) * ops.where(known, outer, 0.5)
        return ops.where(ops.isnan(x), math.nan, ops.where(near, inner, outer))

    return integral


_sine_part = smooth(_fresnel(True), lambda x: _turn(x)[0])
_cosine_part = smooth(_fresnel(False), lambda x: _turn(x)[1])


@takes()
def fresnel(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The integrals of sin(pi t^2 / 2) and of cos(pi t^2 / 2) over 0 < t < x, of real numbers.

    Right to 1e-14; the derivatives are those two functions.

    >>> import phix
    >>> [round(v.item(), 5) for v in phix.scipy.special.fresnel(1.0)]
    [0.43826, 0.77989]
    """
    return in_float64(_sine_part, x), in_float64(_cosine_part, x)


# -- sine and cosine integrals --------------------------------------------------------------------
_NEAR_WAVES, _EULER, _CUT = 4.0, 0.5772156649015329, 40.0
_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_PLACES = 0.5 * _CUT * (_PLACES + 1)
_WEIGHTS = 0.5 * _CUT * _WEIGHTS * np.exp(-_PLACES)


def _integral_waves(x: Any) -> tuple[Any, Any]:
    """f and g for x >= 4: Gauss' rule for the integrals of exp(-s) x / (x^2 + s^2) and of
    exp(-s) s / (x^2 + s^2) over s > 0, of which the part above 40 is nothing."""
    wide = ops.unsqueeze(x, [-1])
    part = _PLACES / wide
    weights = _WEIGHTS / (wide * (1 + part * part))
    return _summed(weights), _summed(weights * part)


def _wave_integral(is_sine: bool) -> Any:
    def integral(x: Any) -> Any:
        size = ops.abs(x)
        near, known = size < _NEAR_WAVES, size < math.inf
        few = ops.where(near, size, 1.0)
        if is_sine:
            inner = few * _series(few, 1, 1, 1, 20)
        else:
            inner = ops.log(few) + _EULER - 0.5 * few * few * _series(few, 2, 1, 0.5, 20)
        wide = ops.where(near | ~known, 5.0, size)
        f, g = _integral_waves(wide)
        sine, cosine = ops.sin(wide), ops.cos(wide)
        outer = 0.5 * math.pi - f * cosine - g * sine if is_sine else f * sine - g * cosine
        out = ops.where(near, inner, ops.where(known, outer, 0.5 * math.pi if is_sine else 0.0))
        out = ops.sign(x) * out if is_sine else ops.where(x == 0, -math.inf, out)
        return ops.where(ops.isnan(x), math.nan, out)

    return integral


def _sine_over(x: Any) -> Any:
    """sin(x) / x, near 0 by its series, which has derivatives there."""
    near = ops.abs(x) < 1.5
    far = ops.where(near, 1.0, x)
    return ops.where(near, _series(ops.where(near, x, 0.0), 1, 1, 0.0, 14), ops.sin(far) / far)


_sine_integral = smooth(_wave_integral(True), _sine_over)
_cosine_integral = smooth(_wave_integral(False), lambda x: ops.cos(x) / x)


@takes()
def sici(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The integral of sin(t) / t over 0 < t < x, and the principal value of that of cos(t) / t
    over t < x, less at infinity; of real numbers, the second of -x what it is of x.

    Right to 1e-14, the second next to its zeros to 15 digits behind the point.

    >>> import phix
    >>> [round(v.item(), 5) for v in phix.scipy.special.sici(1.0)]
    [0.94608, 0.3374]
    """
    return in_float64(_sine_integral, x), in_float64(_cosine_integral, x)
