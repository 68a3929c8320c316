"""Student's distribution: what ``phix.scipy.stats.t`` is made of."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.scipy.distributions import log_of_part
from phix.scipy.gammas import betaln
from phix.scipy.incomplete_beta import betainc, betainc_above, ratio
from phix.scipy.log_parts import FAR, log_tail
from phix.scipy.smoothness import in_float64, smooth
from phix.scipy.truncated_normal import normal_log_density


def log_of_one_and_square(z: Any) -> Any:
    """log(1 + z^2), for z whose square overflows too."""
    size = ops.abs(z)
    near = size < 1
    few, wide = ops.where(near, z, 0.0), ops.where(near, 1.0, size)
    inverse = 1 / wide
    far = 2 * ops.log(wide) + ops.log1p(inverse * inverse)
    return ops.where(near, ops.log1p(few * few), far)


_T_FAR = 1e15  # sqrt(_T_FAR^2 df + df) is _T_FAR sqrt(df) in float64


def t_below(z: Any, df: Any) -> Any:
    """Half of betainc(df / 2, 1 / 2, df / (df + z^2)); what is above the rest of 1, where that is
    the smaller one of both."""
    is_normal, apart = df == math.inf, z != 0
    df, size = ops.where(is_normal, 1.0, df), ops.where(apart, ops.abs(z), 1.0)
    beyond = size > _T_FAR * ops.sqrt(df)
    held, wide = ops.where(beyond, 1.0, size), ops.where(beyond, size, 1.0)
    square, power = ops.where(beyond, df, held * held), ops.where(beyond, df, 1.0)
    near = square < df
    far = betainc(0.5 * df, 0.5, ops.where(near, 0.5, 1 / (1 + square / df)))
    inner = betainc_above(0.5, 0.5 * df, ops.where(near, square / (df + square), 0.5))
    tail = ops.where(beyond, _t_far_out(wide, power), ops.where(near, inner, far))
    tail = 0.5 * ops.where(apart, tail, 1.0)
    return ops.where(is_normal, ops.ndtr(z), ops.where(z < 0, tail, 1 - tail))


def _t_far_out(size: Any, df: Any) -> Any:
    """betainc(df / 2, 1 / 2, w) for w = df / size^2 next to 0: the first term of its series, by the
    logarithm of w, as the square may be more than float64 holds."""
    a, log_w = 0.5 * df, ops.log(df) - 2 * ops.log(size)
    return ops.exp(a * log_w - ops.log(a) - betaln(a, 0.5))


def t_log_density(z: Any, df: Any) -> Any:
    is_normal = df == math.inf
    df = ops.where(is_normal, 1.0, df)
    far = log_of_one_and_square(z / ops.sqrt(df))
    found = -betaln(0.5, 0.5 * df) - 0.5 * (ops.log(df) + (df + 1) * far)
    return ops.where(is_normal, normal_log_density(z), found)


# -- the logarithm of what is below ----------------------------------------------------------------
def _far_below(z: Any, df: Any) -> tuple[Any, Any, Any, Any]:
    """Whether what is below is next to nothing, how far out that is, and for how many degrees; of
    what is not beyond all squares, what the tail of beta(df / 2, 1 / 2) is told by."""
    is_far = (z < 0) & (z > -math.inf) & (df < math.inf) & (t_below(z, df) < FAR)
    size, count = ops.where(is_far, -z, 50.0), ops.where(is_far, df, 100.0)
    beyond = size > _T_FAR * ops.sqrt(count)
    held, few = ops.where(beyond, 50.0, size), ops.where(beyond, 100.0, count)
    square = held * held
    total = few + square
    tail = 0.5 * few, ops.full_like(few, 0.5), few / total, square / total
    return is_far, size, ops.where(beyond, count, 0.0), tail


def _log_below(z: Any, df: Any) -> Any:
    is_far, size, beyond, tail = _far_below(z, df)
    is_beyond, is_normal = beyond > 0, df == math.inf
    a = 0.5 * ops.where(is_beyond, beyond, 2.0)
    first = a * (ops.log(2 * a) - 2 * ops.log(size)) - ops.log(a) - betaln(a, 0.5)
    far = ops.where(is_beyond, first, log_tail(*tail)) - math.log(2)
    near, count = ops.where(is_far, 0.0, z), ops.where(is_normal, 1.0, df)
    found = log_of_part(t_below(near, count), t_below(-near, count))
    return ops.where(is_normal, ops.log_ndtr(z), ops.where(is_far, far, found))


def _log_below_slope(z: Any, df: Any) -> Any:
    """The density over the part; far out by the ratio alone, which both have in them."""
    is_far, size, beyond, tail = _far_below(z, df)
    far = ops.where(beyond > 0, beyond / size, 2 / (size * ratio(*tail)))
    near = ops.where(is_far, 0.0, z)
    return ops.where(is_far, far, ops.exp(t_log_density(near, df) - _smooth_log_below(near, df)))


_smooth_log_below: Any = smooth(_log_below, _log_below_slope)


def log_t_below(z: Any, df: Any) -> Any:
    """log of the part below z, a number also where the part is less than float64 holds."""
    return in_float64(_smooth_log_below, z, df)
