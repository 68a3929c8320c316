"""The incomplete beta function: a series next to 0 and 1, elsewhere a continued fraction, and for
two huge shapes the normal distribution that it tends to.

The first two run in loops until every element has converged, and somewhat on, for the derivatives'
sake, which converge later. Of x and 1 - x the one is used for which what is computed is the smaller
part; p, q, z and w stand for a, b, x and 1 - x, or for b, a, 1 - x and x. All is in float64.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.api.control_flow import while_loop
from phix.api.gradients import jvp
from phix.core import dtypes as dt
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.gamma_ratios import log_ratio, remainder
from phix.scipy.smoothness import in_float64, smooth

_SHORT = 0.7  # the series is used for z <= 1/2 and q z below this
_ROUNDING, _TINY = 1e-18, 1e-300
_MOST_TERMS, _MOST_STEPS = 200, 100000
HUGE = 1e12  # two shapes from here on would take more steps than that
_NEXT_TO_NONE = 1e-20
_MIDDLE = 1e-3  # of the standard deviation


def _prefix(p: Any, q: Any, z: Any, w: Any) -> Any:
    """z^p w^q / B(p, q), by how far z is from the mode, in which nothing cancels; of a small shape
    that times a function which has no 1 over it in its slopes."""
    small = ops.minimum(p, q) <= 0.5
    wide = [ops.where(small, d, v) for v, d in ((p, 2.0), (q, 2.0), (z, 0.25), (w, 0.75))]
    far = _prefix_of_large(*wide)
    p, q, z, w = (ops.where(small, v, d) for v, d in ((p, 0.25), (q, 1.0), (z, 0.25), (w, 0.75)))
    turned = q < p
    p, q = ops.where(turned, q, p), ops.where(turned, p, q)
    z, w = ops.where(turned, w, z), ops.where(turned, z, w)
    low = z < 0.5
    log_rest = ops.where(low, ops.log1p(-ops.where(low, z, 0.25)), ops.log(w))
    near = p * ops.exp(_log_first(p, q, z) + q * log_rest)
    return ops.where(small, near, far)


def _prefix_of_large(p: Any, q: Any, z: Any, w: Any) -> Any:
    n = p + q
    rest = remainder(n) - remainder(p) - remainder(q)
    return ops.sqrt(p / n * (q / (2 * math.pi))) * ops.exp(rest - _exponent(p, q, z, w))


def log_prefix(p: Any, q: Any, z: Any, w: Any) -> Any:
    """The logarithm of z^p w^q / B(p, q), also where that is less than float64 holds."""
    n = p + q
    rest = remainder(n) - remainder(p) - remainder(q)
    size = 0.5 * (ops.log(p) + ops.log(q / n) - math.log(2 * math.pi))
    return size + rest - _exponent(p, q, z, w)


def ratio(p: Any, q: Any, z: Any, w: Any) -> Any:
    """The part below z, which is far below p / (p + q), over z^p w^q / B(p, q)."""
    short = (z <= 0.5) & (q * z <= _SHORT)
    sp, sq, sz = (ops.where(short, v, d) for v, d in ((p, 1.0), (q, 1.0), (z, 0.25)))
    series = ops.exp(-sq * ops.log1p(-sz)) / sp * (1 + sp * _series(sp, sq, sz))
    values = ((p, 2.0), (q, 2.0), (z, 0.25), (w, 0.75))
    far = 1 / _fraction(*(ops.where(short, d, v) for v, d in values))
    return ops.where(short, series, far)


def _exponent(p: Any, q: Any, z: Any, w: Any) -> Any:
    """By how much log(z^p w^q) is less than at the mode, z = p / (p + q)."""
    gap, n = q * z - p * w, p + q
    exponent = p * incomplete._less_log(gap / p, z * (n / p))
    return exponent + q * incomplete._less_log(-gap / q, w * (n / q))


def _series(p: Any, q: Any, z: Any) -> Any:
    """The sum over k from 1 on of (1 - q) ... (k - q) z^k / (k! (p + k)).

    Beside 1 / p it would be nothing for a tiny p, but the other part and the slope in p are it.
    """

    def goes_on(carry: Any) -> Any:
        k, _, size, total = carry
        small = size <= 1e-19 * (p + k) * (ops.minimum(1 / p, 1.0) + ops.abs(total))
        return (k < _MOST_TERMS) & ops.any(~small)

    def step(carry: Any) -> Any:
        k, term, size, total = carry
        k = k + 1
        term, size = term * ((k - q) / k * z), size * (_not_none(k - q) / k * z)
        return k, term, size, total + term / (p + k)

    one = ops.ones_like(p)
    begin = (ops.full((), 0.0, dt.float64), one, one, ops.zeros_like(p))
    return while_loop(goes_on, step, begin)[3]


def _not_none(x: Any) -> Any:
    """The size of a factor that is 0 at whole q, where the slope in q has more terms."""
    return ops.stop_gradient(ops.maximum(ops.abs(x), 1.0))


def _fraction(p: Any, q: Any, z: Any, w: Any) -> Any:
    """z^p w^q / B(p, q) over the part below z, for z up to p / (p + q), by Lentz' method.

    The fraction is that of A. DiDonato and A. Morris, "Significant digit computation of the
    incomplete beta function ratios", 1992.
    """
    gap = p * w - q * z

    def step(carry: Any) -> Any:
        m, _, value, up, down, size = carry
        m = m + 1
        odd, even = p + (2 * m - 1), p + (2 * m + 1)
        share = (p + (m - 1)) / odd * ((p + q + (m - 1)) / odd) * m * z * z
        over = share * (q - m)
        under = m + m * (q - m) * z / odd + (p + m) / even * (gap + 1 + m * (1 + w))
        before = down
        up, down = _no_zero(under + over / up), 1 / _no_zero(under + over * down)
        # the value changes by a part of its last change, -over * down * before
        size = size * ops.abs(share * _not_none(q - m) * down * ops.where(m == 1, 1.0, before))
        return m, size > _ROUNDING, value * (up * down), up, down, size

    def goes_on(carry: Any) -> Any:
        m, is_open = carry[:2]
        return (m < _MOST_STEPS) & ops.any(is_open)

    first = _no_zero(p / (p + 1) * (gap + 1))
    zero, one = ops.full((), 0.0, dt.float64), ops.ones_like(p)
    return while_loop(goes_on, step, (zero, one > 0, first, first, 0 * one, 1 / first))[2]


def _normal(p: Any, q: Any, z: Any, w: Any) -> Any:
    """The part below z for huge p and q, of which it lacks a part of about 1 / min(p, q).

    By R. Lugannani and S. Rice, "Saddle point approximation for the distribution of the sum of
    independent random variables", 1980: ndtr(u) and the normal density at u times 1 / u - 1 / v,
    v by how many standard deviations z is off, and u^2 / 2 by how much the logarithm falls.
    """
    v = (q * z - p * w) * ops.sqrt((p + q) / p / q)
    near = ops.abs(v) < _MIDDLE
    bend = (q / (p + q) - p / (p + q)) * ops.sqrt((p + q) / p / q) / 3  # u = v - bend v^2
    outer, inner = ops.where(near, _MIDDLE, v), ops.where(near, v, 0.0)
    fall = ops.where(near, 0.5 * _MIDDLE**2, _exponent(p, q, z, w))
    u = ops.where(v < 0, -1.0, 1.0) * ops.sqrt(2 * fall)
    more = ops.where(near, bend, 1 / u - 1 / outer)
    u = ops.where(near, inner - bend * inner * inner, u)
    return ops.ndtr(u) + ops.exp(-0.5 * u * u) / math.sqrt(2 * math.pi) * more


def _no_zero(x: Any) -> Any:
    return ops.where(x == 0, _TINY, x)


def _log_first(p: Any, q: Any, z: Any) -> Any:
    """log(z^p / (p B(p, q))), which goes as p for a small p."""
    near = p * incomplete._horner(p, incomplete._log_gamma_of_one_more())
    return p * ops.log(z) - near + log_ratio(q, p)


def _first_of_few(p: Any, q: Any, z: Any) -> Any:
    """z^p / (p B(p, q)) for a small p and a smaller q."""
    total = p + q
    log = p * ops.log(z) - ops.lgamma(1 + p) - ops.lgamma(1 + q) + ops.lgamma(1 + total)
    return q / total * ops.exp(log)


def _parts(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """What is below x and what is above, the smaller one with all its digits."""
    y = 1 - x
    near_zero = (x <= 0.5) & (b * x <= _SHORT)
    near_one = (y < 0.5) & (a * y <= _SHORT)
    short = near_zero | near_one
    turned = ops.where(short, ~near_zero, b * x > a * y)
    p, q = ops.where(turned, b, a), ops.where(turned, a, b)
    z, w = ops.where(turned, y, x), ops.where(turned, x, y)
    scale = _prefix(p, q, z, w)

    sp, sq, sz = (ops.where(short, v, d) for v, d in ((p, 1.0), (q, 1.0), (z, 0.25)))
    total = sp * _series(sp, sq, sz)
    part = scale * ops.exp(-sq * ops.log1p(-sz)) / sp * (1 + total)
    tiny = short & (sp <= 0.5)
    first = _log_first(*(ops.where(tiny, v, d) for v, d in ((sp, 0.25), (sq, 1.0), (sz, 0.25))))
    few = tiny & (sq < 0.25) & (sq < sp)  # by q, of which the logarithm has slopes that cancel
    low = ((sp, 0.25), (sq, 0.125), (sz, 0.25))
    share = ops.where(few, _first_of_few(*(ops.where(few, v, d) for v, d in low)), ops.exp(first))
    close = first > -1  # far out the slope of expm1 is rounded away
    missing = ops.where(close, -ops.expm1(ops.where(close, first, 0.0)), 1 - share)
    rest = ops.where(tiny, missing - share * total, 1 - part)
    part = ops.where(tiny, share * (1 + total), part)  # its slope has no 1 / p to cancel

    huge = ~short & (ops.minimum(p, q) >= HUGE)
    values = ((p, 2.0), (q, 2.0), (z, 0.25), (w, 0.75))
    far = scale / _fraction(*(ops.where(short | huge, d, v) for v, d in values))
    far = ops.where(huge, _normal(*(ops.where(huge, v, d) for v, d in values)), far)
    part, rest = ops.where(short, part, far), ops.where(short, rest, 1 - far)
    return ops.where(turned, rest, part), ops.where(turned, part, rest)


def _inside(a: Any, b: Any, x: Any) -> Any:
    return _parts(a, b, x)[0]


def _is_inside(a: Any, b: Any, x: Any) -> Any:
    return (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf) & (x > 0) & (x < 1)


def _safe(a: Any, b: Any, x: Any) -> Any:
    known = _is_inside(a, b, x)
    return known, *(ops.where(known, v, d) for v, d in ((a, 2.0), (b, 2.0), (x, 0.25)))


def _value(a: Any, b: Any, x: Any, is_above: bool) -> Any:
    known, p, q, z = _safe(a, b, x)
    low, high = (a == 0) | (b == math.inf), (b == 0) | (a == math.inf)  # all mass at 0, at 1
    edge = ops.where(low, 1.0, ops.where(high, 0.0, math.nan))
    edge = ops.where(x == 0, 0.0, ops.where(x == 1, 1.0, edge))
    outside = (a < 0) | (b < 0) | (x < 0) | (x > 1) | (low & high)
    unknown = outside | ops.isnan(a) | ops.isnan(b) | ops.isnan(x)
    edge = 1 - edge if is_above else edge
    return ops.where(known, _parts(p, q, z)[is_above], ops.where(unknown, math.nan, edge))


def _betainc(a: Any, b: Any, x: Any) -> Any:
    return _value(a, b, x, False)


def _above(a: Any, b: Any, x: Any) -> Any:
    return _value(a, b, x, True)


def _density(a: Any, b: Any, x: Any) -> Any:
    known, p, q, z = _safe(a, b, x)
    w = 1 - z
    # the power that vanishes sooner is not divided by its base, but is one less from the start
    low, high = (p > 1.01) & (z < 0.1), (q > 1.01) & (w < 0.1)
    fewer = ops.where(low, p - 1, p), ops.where(high, q - 1, q)
    over = ops.where(low, (p - 1) * w, ops.where(high, z * (q - 1), z * w))
    inner = _prefix(*fewer, z, w) / over * ops.where(low | high, p + q - 1, 1.0)
    at_zero = ops.where(a < 1, math.inf, ops.where(a == 1, b, 0.0))
    at_one = ops.where(b < 1, math.inf, ops.where(b == 1, a, 0.0))
    edge = ops.where(x == 0, at_zero, ops.where(x == 1, at_one, math.nan))
    at_ends = (a == 0) | (b == 0) | (a == math.inf) | (b == math.inf)  # of x, all mass
    edge = ops.where(at_ends & (x > 0) & (x < 1), 0.0 * _value(a, b, x, False), edge)
    return ops.where(known, inner, edge)


def _density_slope(a: Any, b: Any, x: Any) -> Any:
    """By the exponents, of which those that are 0 leave no rounding beside a tiny x."""
    known, p, q, z = _safe(a, b, x)
    height = density(p, q, z)
    is_none = height == 0
    z = ops.where(is_none, 0.25, z)
    return ops.where(known & ~is_none, height * ((p - 1) / z - (q - 1) / (1 - z)), 0.0)


density: Any = smooth(_density, None, None, _density_slope)


def _in_shape(place: int) -> Any:
    """The derivative in a or b; what the part below x is at an edge of, does not depend on them.

    In a shape next to 0, beside the other one, it is that at 0, which a quotient by it would hide.
    """

    def slope(a: Any, b: Any, x: Any) -> Any:
        shapes = [a, b]
        own, other = shapes[place], shapes[1 - place]
        known, *_ = _safe(ops.where(own == 0, 1.0, a), ops.where(own == 0, 1.0, b), x)
        known = known & (other > 0) & (other < math.inf)
        least = _NEXT_TO_NONE * ops.minimum(other, 1.0)
        less = ops.stop_gradient(ops.where(known & (own < least), least - own, 0.0))
        shapes[place] = own + less
        held = (ops.where(known, v, d) for v, d in ((shapes[0], 2.0), (shapes[1], 2.0), (x, 0.25)))
        return ops.where(known, _inner_slopes[place](*held), 0.0)

    return slope


def _inner_slope(place: int) -> Any:
    def slope(*args: Any) -> Any:
        units = tuple(ops.full_like(v, float(i == place)) for i, v in enumerate(args))
        return jvp(_inside, args, units)[1]

    return smooth(slope)


_inner_slopes = [_inner_slope(0), _inner_slope(1)]


def _less(function: Any) -> Any:
    return lambda *args: -function(*args)


_slopes = _in_shape(0), _in_shape(1), density
smooth_betainc = smooth(_betainc, *_slopes)
_smooth_above = smooth(_above, *(_less(slope) for slope in _slopes))


@takes()
def betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The regularised incomplete beta function: 1 / B(a, b) times the integral of
    t^(a - 1) (1 - t)^(b - 1) over 0 < t < x, with derivatives in all three arguments.

    >>> import phix
    >>> round(phix.scipy.special.betainc(2.0, 3.0, 0.5).item(), 5)
    0.6875
    """
    return in_float64(smooth_betainc, a, b, x)


def betainc_above(a: Any, b: Any, x: Any) -> Any:
    """1 - betainc(a, b, x) with all its digits, where that is next to 0 too."""
    return in_float64(_smooth_above, a, b, x)
