"""Logarithms of the incomplete gamma and beta functions, numbers where these are less than float64
holds, with their slopes.

A part is what all begins with, y^a exp(-y) / gamma(a) or z^p w^q / B(p, q), times a ratio that is
neither large nor small: the logarithm is a sum of two, and the slope in the last argument has the
ratio alone. Parts that are not tiny are those of ``gammainc`` and ``betainc``.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.distributions import log_of_part
from phix.scipy.gammas import gammainc, gammaincc
from phix.scipy.incomplete_beta import HUGE, betainc, betainc_above, log_prefix, ratio
from phix.scipy.incomplete_beta import density as beta_density
from phix.scipy.smoothness import in_float64, smooth

FAR = 1e-100  # parts from here on have no second slopes in float64


def _held(is_far: Any, *values: Any) -> list[Any]:
    """Each of the values where it is far, elsewhere the number beside it."""
    return [ops.where(is_far, v, number) for v, number in zip(values[::2], values[1::2])]


# -- gamma -----------------------------------------------------------------------------------------
def _log_gamma(is_above: bool) -> Any:
    part, rest = (gammaincc, gammainc) if is_above else (gammainc, gammaincc)
    inner = (1.0, 5.0) if is_above else (6.0, 1.0)
    nothing, whole_part = (0.0, -math.inf) if is_above else (-math.inf, 0.0)

    def far_out(a: Any, x: Any) -> tuple[Any, ...]:
        inside = (a > 0) & (a < math.inf) & (x > 0) & (x < math.inf)
        a, x = _held(inside, a, 2.0, x, 1.0)
        found = part(a, x)
        is_far = found < FAR
        return inside, a, x, found, is_far, *_held(is_far, a, inner[0], x, inner[1])

    def share(a: Any, x: Any) -> Any:
        return incomplete.integral(a, x, ops.full_like(a, is_above, dtype="bool"))

    def log(a: Any, x: Any) -> Any:
        low, high = (x == 0) | (a == math.inf), (x == math.inf) | (a == 0)
        known = (low != high) & (a >= 0) & (x >= 0)
        edge = ops.where(known, ops.where(low, nothing, whole_part), math.nan)
        inside, a, x, found, is_far, p, y = far_out(a, x)
        far = incomplete.log_prefix(p, y) + ops.log(share(p, y))
        near = log_of_part(ops.where(is_far, 0.5, found), rest(a, x))
        return ops.where(inside, ops.where(is_far, far, near), edge)

    def in_x(a: Any, x: Any) -> Any:
        at_zero = -ops.gamma_density(ops.where(x == 0, a, 1.0), 0 * a) if is_above else math.inf
        edge = ops.where(x == 0, at_zero, 0.0)
        inside, a, x, found, is_far, p, y = far_out(a, x)
        near = ops.gamma_density(a, x) / ops.where(is_far, 1.0, found)
        slope = ops.where(is_far, 1 / (y * share(p, y)), near)
        return ops.where(inside, -slope if is_above else slope, edge)

    whole = smooth(log, None, in_x)
    return lambda a, x: in_float64(whole, a, x)


log_gammainc, log_gammaincc = _log_gamma(False), _log_gamma(True)


# -- beta ------------------------------------------------------------------------------------------
def log_tail(p: Any, q: Any, z: Any, w: Any) -> Any:
    """log of the part of beta(p, q) below z = 1 - w, which is far below p / (p + q)."""
    return log_prefix(p, q, z, w) + ops.log(ratio(p, q, z, w))


def _log_beta(is_above: bool) -> Any:
    part, rest = (betainc_above, betainc) if is_above else (betainc, betainc_above)
    nothing, whole_part = (0.0, -math.inf) if is_above else (-math.inf, 0.0)

    def far_out(a: Any, b: Any, x: Any) -> tuple[Any, ...]:
        least, most = ops.minimum(a, b), ops.maximum(a, b)
        inside = (least > 0) & (most < math.inf) & (x > 0) & (x < 1)
        is_many = least >= HUGE  # of which no fraction tells more
        a, b, x = _held(inside, a, 2.0, b, 2.0, x, 0.25)
        found = part(a, b, x)
        is_far = (found < FAR) & ~is_many
        p, q, z, w = (b, a, 1 - x, x) if is_above else (a, b, x, 1 - x)
        return inside, (a, b, x), found, is_far, _held(is_far, p, 9.0, q, 9.0, z, 0.25, w, 0.75)

    def log(a: Any, b: Any, x: Any) -> Any:
        low, high = (b == 0) | (a == math.inf), (a == 0) | (b == math.inf)
        known = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1) & ~(low & high)
        low = (x == 0) | (low & (x != 1))
        edge = ops.where(known, ops.where(low, nothing, whole_part), math.nan)
        inside, args, found, is_far, tail = far_out(a, b, x)
        near = log_of_part(ops.where(is_far, 0.5, found), rest(*args))
        return ops.where(inside, ops.where(is_far, log_tail(*tail), near), edge)

    def in_x(a: Any, b: Any, x: Any) -> Any:
        nowhere, everywhere = (x == 1, x == 0) if is_above else (x == 0, x == 1)
        edge = beta_density(*_held(everywhere, a, 2.0, b, 2.0, x, 0.0))
        edge = ops.where(nowhere, math.inf, ops.where(everywhere, edge, 0.0))
        inside, args, found, is_far, (p, q, z, w) = far_out(a, b, x)
        none = found <= 0
        near = ops.where(none, math.inf, beta_density(*args) / ops.where(is_far | none, 1.0, found))
        slope = ops.where(is_far, 1 / (z * w * ratio(p, q, z, w)), near)
        slope = ops.where(inside, slope, edge)
        return -slope if is_above else slope

    whole = smooth(log, None, None, in_x)
    return lambda a, b, x: in_float64(whole, a, b, x)


log_betainc, log_betainc_above = _log_beta(False), _log_beta(True)
