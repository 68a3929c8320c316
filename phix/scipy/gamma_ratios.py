"""What Stirling's formula for the gamma function lacks, and ratios of gamma functions."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.primitives import incomplete_gamma as incomplete

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# From here on Stirling's series is used: a polynomial in 1 / a^2, over a, right to 5e-18
WIDE = 8
_STIRLING = (
    0.0833333333333333, -0.0027777777776081224, 0.0007936506659056198, -0.0005952027660288355,
    0.0008372959144132968, -0.0016529188473810017,
)  # fmt: skip


def series(inverse: Any) -> Any:
    """What Stirling's formula lacks at 1 / inverse, from 8 on."""
    return inverse * incomplete._horner(inverse * inverse, _STIRLING)


def remainder(a: Any) -> Any:
    """What log gamma(a) has beside Stirling's formula, for a > 0."""
    large = a >= WIDE
    few = ops.where(large, 1.0, a)
    near = ops.lgamma(few) - ((few - 0.5) * ops.log(few) - few + HALF_LOG_2PI)
    return ops.where(large, series(1 / ops.where(large, a, float(WIDE))), near)


# beyond this b, b log(b) is all that is seen of the logarithm, and products of b overflow by far
_MOST = 1e18
_DEEP, _LIFT = 2.0**300, 2.0**200
TINY = 1e-290  # quotients below would be subnormal, and lose their digits


def log_ratio(a: Any, b: Any) -> Any:
    """log(gamma(a + b) / gamma(a)) for a > 0 and b >= 0, right for a tiny b and a huge a too."""
    small = a < WIDE
    wide = ops.where(small, a + float(WIDE), a)
    slight, share = b < TINY * wide, b / wide  # it would be subnormal
    found = (wide - 0.5) * ops.log1p(ops.where(slight, 0.0, share))
    found = ops.where(slight, b - 0.5 * share, found) + (b * ops.log(wide + b) - b)
    found = found + _change_of_stirling(wide, b)
    start, share = ops.where(small, a, 1.0), ops.where(small, ops.minimum(b, _MOST), 0.0)
    # of the factors (start + k + share) / (start + k) the first may be huge, and overflow
    deep = share > _DEEP * start
    first = ops.log1p(share / ops.where(deep, _LIFT * start, start))
    first = ops.where(deep, first + math.log(_LIFT), first)
    grown, product = share, start + 1.0  # how much more the product is with share, and without
    for k in range(2, WIDE):
        here = start + float(k)
        grown, product = grown * (here + share) + share * product, product * here
    return found - first - ops.log1p(grown / product)


def _change_of_stirling(a: Any, b: Any) -> Any:
    """Of Stirling's series from a to a + b: c (v^n - u^n) for odd n, u = 1 / a and v = 1 / (a + b),
    each -b u v times the sum of v^i u^j over i + j = n - 1, in which nothing cancels."""
    u, v = 1 / a, 1 / (a + b)
    total, powers, power = _STIRLING[0], 1.0, u
    for c in _STIRLING[1:]:
        powers = v * v * powers + power * (u + v)
        total = total + c * powers
        power = power * (u * u)
    return -(b * v) * u * total


# B_2n / 2n, n from 1: what digamma(x) has beside log(x) - 1 / 2x is minus their sum over x^-2n,
# right to 1e-16 of a difference from here on
_BESIDE_LOG = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
_SHIFT = 12


def change_of_digamma(a: Any, b: Any) -> Any:
    """digamma(a + b) - digamma(a) for a > 0 and b >= 0, in which nothing cancels: the slope of
    :func:`log_ratio` in a, right for a tiny b and a huge a too."""
    small = a < _SHIFT
    wide = ops.where(small, a + float(_SHIFT), a)
    u, v = 1 / wide, 1 / (wide + b)
    step = (b * v) * u  # u - v
    # v^2n - u^2n = -step (u + v) sum of v^2i u^2j over i + j = n - 1
    total, powers, power = _BESIDE_LOG[0], 1.0, u * u
    for c in _BESIDE_LOG[1:]:
        powers = v * v * powers + power
        total = total + c * powers
        power = power * (u * u)
    found = ops.log1p(b / wide) + step * (0.5 + (u + v) * total)
    start, far = ops.where(small, a, 1.0), ops.where(small, b, 0.0)
    for k in range(_SHIFT):
        here = start + float(k)
        found = found + far / (here + far) / here
    return found
