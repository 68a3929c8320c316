"""Kummer's and Gauss' hypergeometric functions of real numbers.

Each is computed in several ways, as a series about 0, the series that a transformation leads to,
or one about the other end, all with a bound of the error that they have made: of terms that cancel
the sum of the sizes says how much was lost. The way of the smallest bound is taken, and where that
is above ``_LEAST`` too, the result is NaN rather than a number with few digits. The formulas are
those of chapters 13 and 15 of the NIST Digital Library of Mathematical Functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.api.control_flow import while_loop
from phix.core import dtypes as dt
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.scipy.gammas import _is_pole, gammasgn
from phix.scipy.smoothness import in_float64, smooth

_EPS, _LEAST = 2.0**-53, 1e-9
_MOST_TERMS = 4000


class _Found(NamedTuple):
    """A value, and a bound of its error as a part of it."""

    value: Any
    error: Any


def _whole(x: Any) -> Any:
    return x == ops.floor(x)


def _series(ratio: Callable[[Any], tuple[Any, Any]], rising: Any, is_on: Any) -> _Found:
    """1 + the sum of terms whose quotients are ``top / bottom`` at k = 0, 1, ...; terms from
    ``rising`` on do not grow again. Next to a zero of it the error is a part of k term, summed,
    which says how the value changes with the argument."""

    def step(carry: Any) -> Any:
        k, _, term, total, slope, size = carry
        top, bottom = ratio(k)
        quotient = top / ops.where(bottom == 0, 1.0, bottom)
        k, term = k + 1, term * quotient
        total, slope = total + term, slope + k * term
        size = size + (k + 1) * ops.abs(term)
        rate = ops.minimum(ops.abs(quotient), 0.999)
        is_open = (ops.abs(term) > 1e-19 * size * (1 - rate)) | ((k < rising) & (term != 0))
        return k, is_open & is_on & ops.isfinite(size), term, total, slope, size

    def goes_on(carry: Any) -> Any:
        return (carry[0] < _MOST_TERMS) & ops.any(carry[1])

    one = ops.ones_like(rising)
    start = (ops.full((), 0.0, dt.float64), is_on, one, one, ops.zeros_like(one), one)
    _, is_open, _, total, slope, size = while_loop(goes_on, step, start)
    scale = ops.maximum(ops.abs(total), ops.abs(slope))
    error = 4 * _EPS * size / ops.where(scale == 0, 1.0, scale)
    known = is_on & ~is_open & ops.isfinite(size) & (scale > 0)
    return _Found(total, ops.where(known, error, math.inf))


def _best(*ways: _Found) -> Any:
    value, error = ways[0]
    for way in ways[1:]:
        is_better = way.error < error
        value = ops.where(is_better, way.value, value)
        error = ops.where(is_better, way.error, error)
    return ops.where(error < _LEAST, value, math.nan)


def _log_gamma(x: Any) -> tuple[Any, Any]:
    """log of the size of gamma(x), and its sign; at poles those of 1 / gamma, -inf and 0."""
    pole = _is_pole(x)
    x = ops.where(pole, 1.0, x)
    return ops.where(pole, math.inf, ops.lgamma(x)), ops.where(pole, 0.0, gammasgn(x))


def _gammas(above: list[Any], below: list[Any], power: Any) -> _Found:
    """exp(power) times gamma of what is above over gamma of what is below."""
    log, sign, size = power, ops.ones_like(power), ops.abs(power)
    for values, way in ((above, 1.0), (below, -1.0)):
        for v in values:
            own, own_sign = _log_gamma(v)
            log, sign = log + way * own, sign * own_sign
            size = size + ops.where(own_sign == 0, 0.0, ops.abs(own) + ops.abs(v))
    value = ops.where(sign == 0, 0.0, sign * ops.exp(ops.where(sign == 0, 0.0, log)))
    return _Found(value, 4 * _EPS * (1 + size))


def _times(series: _Found, factor: _Found) -> _Found:
    return _Found(series.value * factor.value, series.error + factor.error)


# -- Kummer's ------------------------------------------------------------------------------------
def _kummer_series(a: Any, b: Any, x: Any, is_on: Any) -> _Found:
    rising = ops.maximum(ops.maximum(-a, -b), 0.0) + 1
    return _series(lambda k: ((a + k) * x, (b + k) * (k + 1)), rising, is_on)


def _kummer_far(a: Any, b: Any, y: Any, is_on: Any) -> _Found:
    """1 + ..., which the function for large y is gamma(b) / gamma(a) exp(y) y^(a - b) times; cut
    at its smallest term, which bounds the error."""

    def step(carry: Any) -> Any:
        k, is_open, term, total, least = carry
        after = term * ((b - a + k) * (1 - a + k) / ((k + 1) * y))
        shrinks = is_open & (ops.abs(after) < ops.abs(term))
        total = ops.where(shrinks, total + after, total)
        term = ops.where(shrinks, after, term)
        least = ops.where(shrinks, ops.abs(after), least)
        return k + 1, shrinks & (ops.abs(after) > 1e-18), term, total, least

    def goes_on(carry: Any) -> Any:
        return (carry[0] < 200) & ops.any(carry[1])

    one = ops.ones_like(y)
    start = (ops.full((), 0.0, dt.float64), is_on, one, one, one)
    _, _, _, total, least = while_loop(goes_on, step, start)
    error = (least + 100 * _EPS) / ops.maximum(ops.abs(total), 1e-300)
    ends = _whole(a) & (a >= 1) | _whole(b - a) & (b - a <= 0)  # of which the sum is finite
    error = ops.where(ends & (least < 1e-15), 100 * _EPS, error)
    return _Found(total, ops.where(is_on, error, math.inf))


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    known = ops.isfinite(a) & ops.isfinite(b) & ops.isfinite(x)
    ends = _is_pole(a)  # a polynomial
    pole = _is_pole(b) & ~(ends & (a >= b))
    inside = known & ~pole
    a, b, x = (ops.where(inside, v, w) for v, w in ((a, 1.0), (b, 2.0), (x, 1.0)))
    y = ops.abs(x)
    far = (y > 20) & ~(ends & (y < 1e6))
    turned = (x < 0) & ~ends
    own = _kummer_series(a, b, x, inside & ((y < 2000) | ends))
    factor = _Found(ops.exp(ops.where(turned, x, 0.0)), 2 * _EPS * (y + ops.abs(a) + ops.abs(b)))
    c, z = ops.where(turned, b - a, 1.0), ops.where(turned, y, 0.0)
    other = _times(_kummer_series(c, b, z, turned & ((y < 2000) | _is_pole(c))), factor)
    other = _Found(other.value, ops.where(turned, other.error, math.inf))
    first, height = ops.where(x < 0, b - a, a), ops.where(far, y, 1.0)
    power = ops.where(x < 0, 0.0, height) + (first - b) * ops.log(height)
    front = _gammas([b], [first], power)
    outer = _times(_kummer_far(first, b, height, far), front)
    # beside it stands what is smaller by exp(-y) y^(b - 2 a), about
    beside = _gammas([first], [b - first], -height + (b - 2 * first) * ops.log(height))
    small = ops.where(_is_pole(first), math.inf, ops.abs(beside.value))
    outer = _Found(outer.value, ops.where(far, outer.error + 2 * small, math.inf))
    found = ops.where(x == 0, 1.0, _best(own, other, outer))
    return ops.where(inside, found, ops.where(known, math.inf, math.nan))


def _no_slope(*args: Any) -> Any:
    return ops.full_like(args[0], math.nan)


def _kummer_slope(a: Any, b: Any, x: Any) -> Any:
    return a / b * _smooth_hyp1f1(a + 1, b + 1, x)


_smooth_hyp1f1: Any = smooth(_hyp1f1, _no_slope, _no_slope, _kummer_slope)


@takes()
def hyp1f1(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """Kummer's function M(a, b, x), the sum of (a)_k x^k / ((b)_k k!) over k.

    It is right to nine digits, next to its zeros to as many as the argument tells, and NaN where
    no way of computing it is: where large a and b of either sign make all of them cancel. It is
    inf for b = 0, -1, ..., unless the sum ends before. Derivatives are in x, of any order; those
    in a and b are NaN.

    >>> import phix
    >>> round(phix.scipy.special.hyp1f1(1.0, 2.0, 1.0).item(), 5)
    1.71828
    """
    return in_float64(_smooth_hyp1f1, a, b, x)


# -- Gauss' --------------------------------------------------------------------------------------
def _gauss_series(a: Any, b: Any, c: Any, z: Any, is_on: Any) -> _Found:
    rising = ops.maximum(ops.maximum(-a, -b), ops.maximum(-c, 0.0)) + 1
    a, b, c, z = (ops.where(is_on, v, w) for v, w in ((a, 1.0), (b, 1.0), (c, 2.0), (z, 0.0)))
    return _series(lambda k: ((a + k) * (b + k) * z, (c + k) * (k + 1)), rising, is_on)


def _sum(*parts: _Found) -> _Found:
    total, lost = parts[0].value, ops.abs(parts[0].value) * parts[0].error
    for part in parts[1:]:
        total, lost = total + part.value, lost + ops.abs(part.value) * part.error
    return _Found(total, lost / ops.where(total == 0, 1.0, ops.abs(total)))


def _about_one(a: Any, b: Any, c: Any, rest: Any, is_on: Any) -> _Found:
    """The function by its two solutions about 1, where c - a - b is not whole; rest is 1 - z."""
    s = c - a - b
    apart = ops.abs(s - ops.round(s))
    is_on = is_on & (apart > 1e-6)
    s = ops.where(is_on, s, 0.5)
    log = ops.log(ops.where(is_on, rest, 0.5))
    first = _times(_gauss_series(a, b, 1 - s, rest, is_on), _gammas([c, s], [c - a, c - b], 0 * s))
    other = _gauss_series(c - a, c - b, 1 + s, rest, is_on)
    other = _times(other, _gammas([c, -s], [a, b], s * log))
    found = _sum(first, other)
    lost = _EPS * (ops.abs(a) + ops.abs(b) + ops.abs(c)) / ops.maximum(apart, 1e-6)
    return _Found(found.value, ops.where(is_on, found.error + lost, math.inf))


def _with_logarithm(a: Any, b: Any, c: Any, rest: Any, is_on: Any) -> _Found:
    """The function about 1 where m = c - a - b is whole and not below 0; rest is 1 - z."""
    m = c - a - b
    is_on = is_on & _whole(m) & (m >= 0) & (m < 100) & ~(_is_pole(a) | _is_pole(b))
    a, b, m = (ops.where(is_on, v, w) for v, w in ((a, 1.0), (b, 1.0), (m, 0.0)))
    rest = ops.where(is_on, rest, 0.5)
    finite, finite_size = _finite_part(a, b, m, rest)
    endless, endless_size = _endless_part(a + m, b + m, m, rest)
    front = _gammas([a + b + m, m], [a + m, b + m], 0 * m)
    first = ops.where(m > 0, front.value, 0.0)
    sign = ops.where(m == 2 * ops.floor(0.5 * m), -1.0, 1.0)
    back = _gammas([a + b + m], [a, b, m + 1], m * ops.log(rest))
    total = first * finite + sign * back.value * endless
    lost = ops.abs(first) * finite_size * (8 * _EPS + front.error)
    lost = lost + ops.abs(back.value) * endless_size * (8 * _EPS + back.error)
    error = lost / ops.where(total == 0, 1.0, ops.abs(total))
    return _Found(total, ops.where(is_on, error, math.inf))


def _finite_part(a: Any, b: Any, m: Any, rest: Any) -> tuple[Any, Any]:
    """The sum over k < m of (a)_k (b)_k / (k! (1 - m)_k) rest^k, and that of the sizes."""

    def step(carry: Any) -> Any:
        k, term, total, size = carry
        total, size = total + term, size + (k + 1) * ops.abs(term)
        low = ops.where(k + 1 < m, k + 1 - m, 1.0)
        after = term * ((a + k) * (b + k) / ((k + 1) * low) * rest)
        return k + 1, ops.where(k + 1 < m, after, 0.0), total, size

    start = (ops.full((), 0.0, dt.float64), ops.cast(m > 0, dt.float64), 0 * a, 0 * a)
    _, _, total, size = while_loop(lambda carry: ops.any(carry[0] < m), step, start)
    return total, size


def _endless_part(p: Any, q: Any, m: Any, rest: Any) -> tuple[Any, Any]:
    """The sum of (p)_k (q)_k / (k! (m + 1)_k) rest^k (log(rest) - digamma(k + 1) - digamma(k + m
    + 1) + digamma(p + k) + digamma(q + k)), and that of the sizes."""
    parts = [ops.log(rest), ops.digamma(p), ops.digamma(q), -ops.digamma(m + 1)]
    level = parts[0] + parts[1] + parts[2] + parts[3] + 0.5772156649015329
    spread = sum((ops.abs(v) for v in parts[1:]), ops.abs(parts[0])) + 1

    def step(carry: Any) -> Any:
        k, _, term, level, total, size = carry
        total = total + term * level
        size = size + (k + 1) * ops.abs(term) * spread
        level = level + (1 / (p + k) + 1 / (q + k) - 1 / (k + 1) - 1 / (m + 1 + k))
        quotient = (p + k) * (q + k) / ((k + 1) * (m + 1 + k)) * rest
        term = term * quotient
        is_open = (ops.abs(term) * spread > 1e-19 * size) | (ops.abs(quotient) > 0.9)
        return k + 1, is_open, term, level, total, size

    def goes_on(carry: Any) -> Any:
        return (carry[0] < _MOST_TERMS) & ops.any(carry[1])

    one = ops.ones_like(p)
    start = (ops.full((), 0.0, dt.float64), one > 0, one, level, 0 * one, 0 * one)
    found = while_loop(goes_on, step, start)
    return found[4], ops.where(found[1], math.inf, found[5])


_NEAR_ONE = 0.9  # from here on the series about 1 are used too


def _below_one(a: Any, b: Any, c: Any, w: Any, rest: Any, is_on: Any) -> _Found:
    """The function for 0 <= w < 1; rest is 1 - w."""
    p, q, s = c - a, c - b, c - a - b
    own = _gauss_series(a, b, c, w, is_on & ((w < 0.995) | _is_pole(a) | _is_pole(b)))
    other = _gauss_series(p, q, c, w, is_on & ((w < 0.995) | _is_pole(p) | _is_pole(q)))
    other = _times(other, _gammas([], [], s * ops.log(rest)))
    near = is_on & (w > _NEAR_ONE)
    ways = [own, other, _about_one(a, b, c, rest, near)]
    turned = s < 0
    first, second = ops.where(turned, p, a), ops.where(turned, q, b)
    whole = _with_logarithm(first, second, c, rest, near)
    factor = _gammas([], [], ops.where(turned, s, 0.0) * ops.log(rest))
    ways.append(_times(whole, factor))
    value, error = ways[0]
    for way in ways[1:]:
        is_better = way.error < error
        value = ops.where(is_better, way.value, value)
        error = ops.where(is_better, way.error, error)
    return _Found(value, error)


def _at_one(a: Any, b: Any, c: Any) -> Any:
    s = c - a - b
    found = _gammas([c, ops.where(s > 0, s, 1.0)], [c - a, c - b], 0 * s).value
    return ops.where(s > 0, found, math.inf)


def _hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    known = ops.isfinite(a) & ops.isfinite(b) & ops.isfinite(c) & ops.isfinite(z)
    ends = _is_pole(a) | _is_pole(b)
    last = ops.where(_is_pole(a), ops.where(_is_pole(b), ops.maximum(a, b), a), b)
    pole = _is_pole(c) & ~(ends & (last >= c))
    inside = known & ~pole & ((z < 1) | ends)
    rim = known & ~pole & (z == 1) & ~ends
    at_one = _at_one(*(ops.where(rim, v, w) for v, w in ((a, 1.0), (b, 1.0), (c, 2.0))))
    a, b, c, x = (ops.where(inside, v, w) for v, w in ((a, 1.0), (b, 1.0), (c, 2.0), (z, 0.5)))
    direct = _gauss_series(a, b, c, x, inside & ((ops.abs(x) < 0.8) | (ends & inside)))
    below = x < 0
    usable = inside & (x < 1) & ~_is_pole(c)
    low = ops.where(usable, x, 0.5)
    w, rest = ops.where(below, low / (low - 1), low), ops.where(below, 1 / (1 - low), 1 - low)
    power = _gammas([], [], ops.where(below, -a * ops.log1p(-ops.where(below, low, 0.0)), 0.0))
    moved = _times(_below_one(a, ops.where(below, c - b, b), c, w, rest, usable), power)
    lost = ops.where(below & usable, 2 * _EPS * (ops.abs(b) + ops.abs(c)), 0.0)
    found = _best(direct, _Found(moved.value, moved.error + lost))
    found = ops.where(x == 0, 1.0, found)
    found = ops.where(inside, found, ops.where(known & pole, math.inf, math.nan))
    return ops.where(rim, at_one, found)


def _gauss_slope(a: Any, b: Any, c: Any, z: Any) -> Any:
    return a * b / c * _smooth_hyp2f1(a + 1, b + 1, c + 1, z)


_smooth_hyp2f1: Any = smooth(_hyp2f1, _no_slope, _no_slope, _no_slope, _gauss_slope)


@takes()
def hyp2f1(a: TensorLike, b: TensorLike, c: TensorLike, z: TensorLike) -> Tensor:
    """Gauss' function F(a, b; c; z), the sum of (a)_k (b)_k z^k / ((c)_k k!) over k, and what
    continues it to z below -1.

    It is right to nine digits, next to its zeros to as many as the argument tells, and NaN where
    no way of computing it is, and for z above 1, where it is not real, unless a or b is 0, -1, ...
    and the sum ends. Derivatives are in z, of any order; those in a, b and c are NaN.

    >>> import phix
    >>> round(phix.scipy.special.hyp2f1(1.0, 1.0, 2.0, -1.0).item(), 5)
    0.69315
    """
    return in_float64(_smooth_hyp2f1, a, b, c, z)
