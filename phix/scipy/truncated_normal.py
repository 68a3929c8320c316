"""Truncated normal numbers: what ``phix.scipy.stats.truncnorm`` is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.scipy.distributions import Row, log_less, widened
from phix.scipy.integrals import ndtri
from phix.scipy.quantiles import quantiles

_LOG_2PI = math.log(2 * math.pi)


def normal_log_density(z: Any) -> Any:
    return -0.5 * (z * z + _LOG_2PI)


# Places and weights of the rule of Gauss and Legendre with 8 points, of which these are half.
_PLACES, _WEIGHTS = (v[4:].tolist() for v in np.polynomial.legendre.leggauss(8))


def _log_narrow_mass(middle: Any, width: Any) -> Any:
    """log of what lies in a narrow piece: the integral of exp(-m t - t^2 / 2) about its middle m,
    times the width and the density there; differences of what lies below would cancel."""
    half = 0.5 * width
    mean = sum(
        0.5 * weight * (ops.exp(-m * t) + ops.exp(m * t)) * ops.exp(-0.5 * t * t)
        for weight, t, m in ((w, half * p, middle) for w, p in zip(_WEIGHTS, _PLACES))
    )
    return normal_log_density(middle) + ops.log(width) + ops.log(mean)


def _log_mass(a: Any, b: Any) -> Any:
    """log of what lies between a and b, on the side of 0 where it is a difference of tails."""
    width, middle = b - a, 0.5 * a + 0.5 * b
    is_narrow = (width > 0) & (width < 1) & (ops.abs(middle) * width < 2)
    narrow = _log_narrow_mass(ops.where(is_narrow, middle, 0.0), ops.where(is_narrow, width, 1.0))
    return ops.where(is_narrow, narrow, _log_wide_mass(a, b))


def _log_wide_mass(a: Any, b: Any) -> Any:
    """log of what lies between a and b, as a difference of what lies below."""
    turned = a > 0
    low, high = ops.where(turned, -b, a), ops.where(turned, -a, b)
    tails, is_all = high <= 0, low == -math.inf
    upper = ops.log_ndtr(ops.where(tails, high, -1.0))
    lower = ops.log_ndtr(ops.where(tails & ~is_all, low, -2.0))
    gap = ops.where(is_all, 1.0, upper - lower)
    one_side = upper + ops.where(is_all, 0.0, log_less(ops.where(gap > 0, gap, 1.0)))
    one_side = ops.where(gap > 0, one_side, -math.inf)
    out = ops.ndtr(ops.where(tails, -2.0, low)) + ops.ndtr(ops.where(tails, -2.0, -high))
    return ops.where(tails, one_side, ops.log1p(-out))


def _log_share(a: Any, z: Any, b: Any) -> Any:
    """log of the part of what lies between a and b that is below z, next to 0 by that above."""
    whole = _log_mass(a, b)
    below, above = _log_mass(a, z) - whole, _log_mass(z, b) - whole
    most = below > -math.log(2)
    return ops.where(most, log_less(-ops.where(most, above, -1.0)), below)


def _truncnorm_middle(a: Any, b: Any) -> Any:
    low, high = ops.maximum(a, -1e4), ops.minimum(b, 1e4)
    return ops.stop_gradient(0.5 * low + 0.5 * high)


def _log_root(y: Any) -> Any:
    """The z with log_ndtr(z) = y, for y up to about -0.3; far out in Newton's steps."""
    is_far = y < -5
    far = ops.where(is_far, y, -8.0)
    z = -ops.sqrt(-2 * far)
    for _ in range(5):
        below = ops.log_ndtr(z)
        z = z - (below - far) * ops.exp(below - normal_log_density(z))
    return ops.where(is_far, z, ndtri(ops.exp(ops.where(is_far, -1.0, y))))


def _log_sum(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)), a up to b or not, b a number."""
    most, least = ops.maximum(a, b), ops.minimum(a, b)
    return most + ops.log1p(ops.exp(least - most))


def _truncnorm_solved(lower: Any, upper: Any, a: Any, b: Any) -> Any:
    """By what is below, where that is the smaller part, else of the mirror image: from the place
    that differences of what lies below give, in Newton's steps on the logarithm of the part."""
    is_lower = lower <= upper
    low, high = ops.where(is_lower, a, -b), ops.where(is_lower, b, -a)
    part = ops.log(ops.minimum(lower, upper))
    whole, is_beyond = _log_mass(low, high), low > 0
    # from the end that lies farther out, as the logarithm of what is next to 1 tells nothing
    edge = ops.log_ndtr(ops.where(is_beyond, -high, low))
    rest = ops.where(is_beyond, log_less(-ops.where(is_beyond, part, -1.0)), part)
    z = _log_root(_log_sum(edge, rest + whole))
    z = ops.where(is_beyond, -z, z)
    flat = low + ops.exp(part) * (high - low)
    z = ops.where((z > low) & (z < high), z, flat)
    for _ in range(4):
        found = _log_share(low, z, high)
        slope = ops.exp(normal_log_density(z) - whole - found)
        better = z - (found - part) / slope
        near = low + (z - low) * ops.exp(part - found)  # next to the end all density is one
        better = ops.where(better > low, better, near)
        z = ops.where((better >= low) & (better < high), better, z)
    return ops.where(is_lower, z, -z)


_QUANTILES = quantiles(
    _truncnorm_solved,
    lambda z, a, b: ops.exp(_log_share(a, z, b)),
    lambda z, a, b: ops.exp(_log_share(-b, -z, -a)),
    lambda z, a, b: ops.exp(normal_log_density(z) - _log_mass(a, b)),
    2,
)
# In float64: what is subtracted is about a^2 / 2, of which float32 keeps too few digits.
TRUNCNORM = Row(
    "a b", lambda a, b: (a, b), _truncnorm_middle, lambda a, b: a < b,
    logpdf=widened(lambda z, a, b: normal_log_density(z) - _log_mass(a, b)),
    logcdf=widened(lambda z, a, b: _log_share(a, z, b)),
    logsf=widened(lambda z, a, b: _log_share(-b, -z, -a)),
    ppf=_QUANTILES["ppf"], isf=_QUANTILES["isf"],
)  # fmt: skip
