"""The gamma and beta functions and their logarithms, and the incomplete gamma functions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from phix import ops
from phix.api.gradients import jvp
from phix.core.errors import AttributeValueError
from phix.core.given import FLAG, at_least, takes
from phix.core.tensor import Tensor, TensorLike
from phix.primitives import incomplete_gamma as incomplete
from phix.primitives.distributions import _gamma_slope as quantile_slope
from phix.scipy.entropies import floats
from phix.scipy.gamma_ratios import (
    HALF_LOG_2PI,
    TINY,
    WIDE,
    change_of_digamma,
    log_ratio,
    series,
)
from phix.scipy.smoothness import in_float64, smooth

# -- gamma -----------------------------------------------------------------------------------------
# sin(pi r) / (pi r) on |r| <= 1/2, in r^2; it is right to 5e-18
_SINE = (
    1.0, -1.6449340668482264, 0.8117424252833536, -0.19075182412208389, 0.026147847817640922,
    -0.002346081035170168, 0.00014842878972770888, -6.975851212142348e-06, 2.5303274566671434e-07,
    -7.114052818770147e-09,
)  # fmt: skip


def _gamma_from_zero(x: Any) -> Any:
    """gamma(x) for x > 0: (x / e)^x in two factors, and gamma(x + 8) over a product next to 0."""
    small = x < WIDE
    product: Any = 1.0
    for k in range(WIDE):
        product = product * ops.where(small, x + float(k), 1.0)
    wide = ops.minimum(ops.where(small, x + float(WIDE), x), 200.0)
    power = wide ** (0.5 * wide - 0.25)
    value = power * (power * ops.exp(HALF_LOG_2PI - wide + series(1 / wide))) / product
    whole = (x == ops.floor(x)) & (x < 20)
    exact = value + ops.stop_gradient(ops.round(value) - value)  # the slope stays that of value
    return ops.where(whole, exact, value)


def _waves(r: Any) -> Any:
    """sin(pi r) / pi for |r| <= 1/2."""
    return r * incomplete._in_halves(r * r, _SINE)


def _is_odd(whole: Any) -> Any:
    return whole != 2 * ops.round(0.5 * whole)


def _sine(x: Any) -> Any:
    whole = ops.round(x)
    sine = math.pi * _waves(x - whole)
    return ops.where(_is_odd(whole), -sine, sine)


def _slope_of_sine(x: Any) -> Any:
    whole = ops.round(x)
    cosine = math.pi * ops.cos(math.pi * (x - whole))
    return ops.where(_is_odd(whole), -cosine, cosine)


_sine_of_pi = smooth(_sine, _slope_of_sine)


def _gamma(x: Any) -> Any:
    reflected = x < 0.5
    value = _gamma_from_zero(ops.where(reflected, 1 - x, x))
    sine = _sine_of_pi(ops.where(reflected, x, 0.5))
    value = ops.where(reflected, math.pi / (sine * value), value)
    value = ops.where((x < 0) & (x == ops.floor(x)), math.nan, value)
    value = ops.where(x == 0, ops.copysign(ops.full_like(x, math.inf), x), value)
    return ops.where(x == math.inf, math.inf, value)


_smooth_gamma: Any = smooth(_gamma, lambda x: _smooth_gamma(x) * ops.digamma(x))


@takes()
def gamma(x: TensorLike) -> Tensor:
    """The gamma function, the integral of t^(x - 1) exp(-t) over t > 0; NaN at the poles below 0.

    >>> import phix
    >>> phix.scipy.special.gamma([1.0, 5.0]).tolist()
    [1.0, 24.0]
    """
    return in_float64(_smooth_gamma, x)


@takes()
def gammasgn(x: TensorLike) -> Tensor:
    """The sign of the gamma function; NaN at its poles below 0.

    >>> import phix
    >>> phix.scipy.special.gammasgn([-0.5, 0.5]).tolist()
    [-1.0, 1.0]
    """
    (a,) = floats(x)
    below = ops.floor(a)
    odd = below != 2 * ops.floor(0.5 * below)
    sign = ops.where((a < 0) & odd, -1.0, ops.ones_like(a))
    sign = ops.where((a < 0) & (a == below), math.nan, sign)
    sign = ops.where(a == 0, ops.copysign(ops.ones_like(a), a), sign)
    return ops.where(ops.isnan(a), math.nan, sign)


@takes(exact=FLAG)
def factorial(n: TensorLike, exact: bool = False) -> Tensor:
    """gamma(n + 1), and 0 for negative n.

    >>> import phix
    >>> phix.scipy.special.factorial([0, 4, -1]).tolist()
    [1.0, 24.0, 0.0]
    """
    _refuse_exact("factorial", exact)

    def function(n: Any) -> Any:
        return ops.where(n < 0, 0.0, _smooth_gamma(ops.where(n < 0, 0.0, n) + 1))

    return in_float64(function, n)


def _refuse_exact(name: str, exact: bool) -> None:
    if exact:
        raise AttributeValueError(
            f"{name}: exact=True asks for Python's ints of any size, which tensors have not; "
            f"leave it out, or write math.{'factorial' if name == 'factorial' else 'comb'}"
        )


@takes(exact=FLAG, repetition=FLAG)
def comb(N: TensorLike, k: TensorLike, exact: bool = False, repetition: bool = False) -> Tensor:
    """How many ways there are to take k of N things; 0 for k < 0 and k > N.

    With ``repetition`` a thing may be taken again: comb(N + k - 1, k).

    >>> import phix
    >>> phix.scipy.special.comb(5, [0, 2, 6]).tolist()
    [1.0, 10.0, 0.0]
    """
    _refuse_exact("comb", exact)

    def function(n: Any, k: Any) -> Any:
        n = ops.where((n == 0) & (k == 0), 0.0, n + k - 1) if repetition else n
        some, limit = (k >= 0) & (k <= n), ops.where(k == 0, 1.0, k + math.inf)
        endless = some & (n == math.inf) & (k < math.inf)
        inside = some & (n < math.inf)
        n, k = ops.where(inside, n, 2.0), ops.where(inside, k, 1.0)
        log, large = -_smooth_betaln(k + 1, n - k + 1), n > 1e15
        far = ops.exp(ops.where(large, log - ops.log(n + 1), 0.0))
        value = ops.where(large, far, ops.exp(ops.where(large, 0.0, log)) / (n + 1))
        whole = (n == ops.floor(n)) & (k == ops.floor(k)) & (value < 1e12)
        value = ops.where(whole, value + _to_whole(value), value)
        outside = ops.where(endless, limit, ops.where(some, math.nan, 0.0))
        return ops.where(inside, value, outside)

    return in_float64(function, N, k)


def _to_whole(value: Any) -> Any:
    """What is missing to the nearest whole number, as a constant, so that slopes stay."""
    return ops.stop_gradient(ops.round(value) - value)


def _ratio_of_sines(z: Any, m: Any) -> Any:
    """(-1)^m sin(pi z) / sin(pi (z + m)), 1 for whole m, with its slopes; z is not whole."""
    part, rest = math.pi * (z - ops.round(z)), math.pi * (m - ops.round(m))
    return 1 / (ops.cos(rest) + ops.sin(rest) * (ops.cos(part) / ops.sin(part)))


@takes()
def poch(z: TensorLike, m: TensorLike) -> Tensor:
    """gamma(z + m) / gamma(z), z (z + 1) ... (z + m - 1) for whole m.

    >>> import phix
    >>> phix.scipy.special.poch([2.0, -3.0], 2.0).tolist()
    [6.0, 6.0]
    """

    def function(z: Any, m: Any) -> Any:
        endless = z == math.inf
        z = ops.where(endless, 1.0, z)
        is_whole = z == ops.floor(z)
        turned = (z <= 0) & is_whole & (m == ops.floor(m))
        # z + m next to a pole has lost digits of z, 1 - z has them where they count
        mirrored = (m < 0) & (m == ops.floor(m)) & (z + m < 0.5) & ~is_whole
        reflected = turned | mirrored
        top, bottom = ops.where(reflected, 1 - z, z + m), ops.where(reflected, 1 - z - m, z)
        vanishes = (bottom <= 0) & (bottom == ops.floor(bottom))
        bottom = ops.where(vanishes, 1.0, bottom)
        wide = (ops.abs(top) > 160) | (ops.abs(bottom) > 160)
        # There it is 0, and gamma(z + m) gamma(1 - z) sin(pi z) / pi beside it.
        few = vanishes & (1 - z < 160) & (z + m < 160)
        above = _smooth_gamma(ops.where(few, z + m, ops.where(wide, 1.0, top)))
        below = _smooth_gamma(ops.where(few, 1 - z, ops.where(wide, 1.0, bottom)))
        direct = above / below
        sign = gammasgn(top) * gammasgn(bottom)
        grows, low = m >= 0, ops.where(m >= 0, bottom, top)
        is_above = low > 0
        size = log_ratio(ops.where(is_above, low, 1.0), ops.where(grows, m, -m))
        log = ops.where(grows, size, -size)
        log = ops.where(is_above, log, ops.lgamma(top) - ops.lgamma(bottom))
        value = ops.where(wide, sign * ops.exp(log), direct)
        odd = m != 2 * ops.floor(0.5 * m)
        value = ops.where(reflected & odd, -value, value)
        sines = _ratio_of_sines(ops.where(mirrored, z, 0.5), ops.where(mirrored, m, 0.0))
        value = ops.where(mirrored, value * sines, value)
        beside = above * (below * _sine_of_pi(ops.where(few, z, 0.0)) / math.pi)
        value = ops.where(vanishes, ops.where(few, beside, 0.0), value)
        at_pole = _is_pole(z + m) & ~_is_pole(z) & ~mirrored
        value = ops.where(at_pole, math.inf, value)
        limit = ops.where(m > 0, math.inf, ops.where(m < 0, 0.0, ops.where(m == 0, 1.0, m)))
        return ops.where(endless, limit, value)

    return in_float64(function, z, m)


@takes(d=at_least(1))
def multigammaln(a: TensorLike, d: int) -> Tensor:
    """log of the gamma function of d dimensions: d (d - 1) / 4 log(pi) + the sum of
    gammaln(a - j / 2) over j < d; for a > (d - 1) / 2.

    >>> import phix
    >>> phix.scipy.special.multigammaln(1.0, 1).item()
    0.0
    """

    def function(a: Any) -> Any:
        steps = 0.5 * np.arange(float(d))
        values = ops.lgamma(ops.unsqueeze(a, [-1]) - steps)
        total = ops.sum(values, [-1]) + d * (d - 1) / 4 * math.log(math.pi)
        return ops.where(a > 0.5 * (d - 1), total, math.nan)

    return in_float64(function, a)


# -- beta ------------------------------------------------------------------------------------------
# log gamma(2 + u) over u on |u| <= 1/2; right to 4e-18
_ABOUT_TWO = (
    0.42278433509846713, 0.32246703342411326, -0.0673523010531956, 0.020580808427780335,
    -0.007385551028937974, 0.002890510331036772, -0.0011927539009204018, 0.0005096695153484373,
    -0.00022315497868931946, 9.945767440096764e-05, -4.492371708374659e-05,
    2.0505584372896933e-05, -9.456338120610123e-06, 4.3847319318293745e-06,
    -1.9741884532905586e-06, 9.199898075671394e-07, -5.812501250599261e-07, 2.7880013392491846e-07,
)  # fmt: skip
# what is below TINY is multiplied by this on its way
_RAISED, _LOG_RAISED = 2.0**60, 60 * math.log(2)


def _betaln(a: Any, b: Any) -> Any:
    """By gamma(x) gamma(1 - x) = pi / sin(pi x) all are made of arguments above 0: the others
    take a factor of sines."""
    least, most = ops.minimum(a, b), ops.maximum(a, b)
    total = least + most
    plain, mixed, both = least > 0, total > 0, most < 0
    turned = ~plain & (mixed | both)  # it is 1 over B of the others, but for the factor
    p = ops.where(plain, least, ops.where(turned, 1 - least, most))
    q = ops.where(both, 1 - most, ops.where(mixed, 1 + total, 1 - total))
    found = _log_beta(p, ops.where(plain, most, q))
    r, other = least - ops.round(least), most - ops.round(most)
    rest = r + other
    rest = ops.abs(
        _waves(rest - ops.round(rest))
    )  # the total has been rounded where poles are near
    own = ops.abs(_waves(r)) * ops.where(both, 1 - total, 1.0)
    over = ops.where(mixed, 1 + most, ops.where(both, ops.abs(_waves(other)), 1.0))
    under = ops.where(mixed, total / most, rest)
    tiny = ~plain & (ops.minimum(own, over) < TINY)
    quotient = ops.where(plain, 1.0, ops.where(tiny, _RAISED * own, own) / under * over)
    factor = ops.where(tiny, ops.log(quotient) - _LOG_RAISED, ops.log(quotient))
    return ops.where(turned, -found, found) - factor


def _log_beta(a: Any, b: Any) -> Any:
    """log B(a, b) for a and b above 0. The one logarithm is that of a quotient for two large ones,
    else that of all factors that lead to arguments for which there is a polynomial or a series."""
    p, q = ops.minimum(a, b), ops.maximum(a, b)
    far, small = p >= WIDE, q < WIDE
    wide = ops.where(small, q + float(WIDE), q)
    u = ops.where(p < 0.5, p, p - ops.floor(p + 0.5))
    over, under = _factors(p, q, small)
    tiny = p < TINY
    under = ops.where(tiny, _RAISED * p, under)
    log = ops.log(ops.where(far, p, under) / ops.where(far, p + q, over))
    total = wide + p
    near = ops.where(tiny, _LOG_RAISED, p + u * incomplete._in_halves(u, _ABOUT_TWO))
    bits = ops.where(far, HALF_LOG_2PI, near)
    inverse, v, w = 1 / ops.where(far, p, 1.0), 1 / wide, 1 / total
    bits = bits + ops.where(far, series(inverse), 0.0) + (series(v) - series(w))
    found = ops.where(far, p - 0.5, -1.0) * log - (wide - 0.5) * ops.log1p(p / wide)
    return found - ops.where(far, 0.5, p) * ops.log(total) + bits


def _factors(p: Any, q: Any, small: Any) -> tuple[Any, Any]:
    """What gamma(p) is of gamma(2 + u), p < 8, times gamma(q + 8 + p) / gamma(q + 8) over
    gamma(q + p) / gamma(q) where q is small: a product, and what it is divided by."""
    grown, product = p, q  # by how much the product of q + k + p is more than that of q + k
    for k in range(1, WIDE):
        here = q + float(k)
        grown, product = grown * (here + p) + p * product, product * here
    over = 1 + ops.where(small, grown, 0.0) / ops.where(small, product, 1.0)
    for k in range(1, WIDE - 1):
        over = over * ops.where(p >= k + 1.5, p - float(k), 1.0)
    return over, ops.where(p < 0.5, p * (p + 1), ops.where(p < 1.5, p, 1.0))


def _of_first(a: Any, b: Any) -> Any:
    """digamma(a) - digamma(a + b)."""
    total = a + b
    least = ops.minimum(a, total)
    above = least > 0
    change = change_of_digamma(ops.where(above, least, 1.0), ops.where(above, ops.abs(b), 0.0))
    beside = ops.where(above, 1.0, a), ops.where(above, 1.0, total)
    apart = ops.digamma(beside[0]) - ops.digamma(beside[1])
    return ops.where(above, ops.where(b > 0, -change, change), apart)


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == ops.floor(x))


def _at_poles(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Where of whole a and b one is not above 0 and the other is, but not their sum, B(a, b) is
    finite, (-1)^b B(1 - a - b, b) for b above 0. Whether so, and these arguments."""
    low, high = ops.minimum(a, b), ops.maximum(a, b)
    whole = (low == ops.floor(low)) & (high == ops.floor(high))
    turned = whole & (low <= 0) & (high > 0) & (low + high <= 0)
    return turned, ops.where(turned, 1 - low - high, a), ops.where(turned, high, b)


def _at_infinity(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Arguments that are finite, and what log |B(a, b)| is where one is not: -inf beside one above
    0 and inf beside one below; 0 elsewhere."""
    least, most = ops.minimum(a, b), ops.maximum(a, b)
    beyond = (most == math.inf) & (least > -math.inf)
    limit = ops.where(beyond, ops.where(least > 0, -math.inf, math.inf), 0.0)
    p, q = (ops.where(beyond & (v == math.inf), 2.0, v) for v in (a, b))
    return p, q, limit


_smooth_of_first = smooth(_of_first, None, lambda a, b: -ops.polygamma(a + b, 1))
_smooth_betaln = smooth(_betaln, _smooth_of_first, lambda a, b: _smooth_of_first(b, a))


@takes()
def betaln(a: TensorLike, b: TensorLike) -> Tensor:
    """log of the absolute value of the beta function.

    >>> import phix
    >>> round(phix.scipy.special.betaln(2.0, 3.0).item(), 5)
    -2.48491
    """

    def function(a: Any, b: Any) -> Any:
        _, p, q = _at_poles(a, b)
        p, q, limit = _at_infinity(p, q)
        value = ops.where(_is_pole(p) | _is_pole(q), math.inf, _smooth_betaln(p, q))
        return ops.where(limit == 0, value, limit)

    return in_float64(function, a, b)


@takes()
def beta(a: TensorLike, b: TensorLike) -> Tensor:
    """gamma(a) gamma(b) / gamma(a + b).

    >>> import phix
    >>> round(phix.scipy.special.beta(2.0, 3.0).item(), 5)
    0.08333
    """

    def function(a: Any, b: Any) -> Any:
        turned, p, q = _at_poles(a, b)
        sign = gammasgn(p) * gammasgn(q) * gammasgn(p + q)
        sign = ops.where(turned & (q != 2 * ops.floor(0.5 * q)), -1.0, sign)
        p, q, limit = _at_infinity(p, q)
        value = sign * ops.exp(ops.where(limit == 0, _smooth_betaln(p, q), limit))
        value = ops.where(_is_pole(p + q) & (p + q > -math.inf), 0.0, value)
        return ops.where(_is_pole(p) | _is_pole(q), math.inf, value)

    return in_float64(function, a, b)


# -- the incomplete gamma functions ---------------------------------------------------------------
def _density(a: Any, x: Any) -> Any:
    return ops.gamma_density(a, x)


_FEW = 0.1  # shapes up to here, for which a quantile moves by 1 / a^2
_NEAR, _TERMS = 0.05, 8  # so many of a series in x up to there are all that float64 sees


def _lower_in_a(a: Any, x: Any) -> Any:
    """What lies below x as a moves: at that part of all x would move by ``quantile_slope``."""
    inside = (a >= 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    near = inside & (x < _NEAR)
    few = inside & ~near & (a < _FEW)
    some = inside & ~near & ~few
    many, height = ops.where(some, a, 1.0), ops.where(some, x, 1.0)
    density = height * ops.gamma_density(many, height)
    moved = ops.where(density == 0, 0.0, density * quantile_slope(many, ops.log(height)))
    found = ops.where(near, _near_in_a(ops.where(near, a, 1.0), ops.where(near, x, _NEAR)), -moved)
    in_few = _smooth_few_in_a(ops.where(few, a, _FEW), ops.where(few, x, 1.0))
    found = ops.where(few, -in_few, found)
    known = (a >= 0) & (x >= 0)
    return ops.where(inside, found, ops.where(known, 0.0, math.nan))


def _above_of_few(a: Any, x: Any) -> Any:
    """What lies above x, without 1 / a in its slopes."""
    low = x < 1
    near = incomplete.next_to_zero(a, ops.where(low, x, 0.5))
    height = ops.where(low, 1.0, x)
    scale = a * ops.exp(a * ops.log(height) - height - ops.lgamma(a + 1.0))
    far = scale * incomplete.integral(a, height, ops.full_like(a, True, dtype="bool"))
    return ops.where(low, near, far)


def _few_in_a(a: Any, x: Any) -> Any:
    return jvp(lambda a: _above_of_few(a, x), (a,), (ops.ones_like(a),))[1]


_smooth_few_in_a = smooth(_few_in_a)


def _near_in_a(a: Any, x: Any) -> Any:
    """The same next to 0, where the quantile moves by 1 / a^2 for a small a: the slope of
    x^a / gamma(a + 1) times 1 + the sum over n of a / (a + n) (-x)^n / n!."""
    power, total, slope = 1.0, 1.0, 0.0
    for n in range(1, _TERMS + 1):
        power, share = power * x / float(-n), 1 / (a + float(n))
        total, slope = total + a * share * power, slope + float(n) * power * share * share
    before = ops.exp(a * ops.log(x) - ops.lgamma(a + 1.0))
    return before * (total * (ops.log(x) - ops.digamma(a + 1.0)) + slope)


def _upper_in_a(a: Any, x: Any) -> Any:
    return -_lower_in_a(a, x)


def _less_density(a: Any, x: Any) -> Any:
    return -_density(a, x)


def _in_as_many_digits(part: Any, in_a: Any, in_x: Any, a: Any, x: Any) -> Any:
    """By as many nodes as the dtype of the arguments has digits for."""
    rule = incomplete.rule_of(floats(a, x)[0].dtype)
    return in_float64(_smooth_parts(part, in_a, in_x, rule), a, x)


@functools.cache
def _smooth_parts(part: Any, in_a: Any, in_x: Any, rule: tuple[int, float]) -> Any:
    return smooth(lambda a, x: part(a, x, rule), in_a, in_x)


@takes()
def gammainc(a: TensorLike, x: TensorLike) -> Tensor:
    """The regularised lower incomplete gamma function: 1 / gamma(a) times the integral of
    t^(a - 1) exp(-t) over 0 < t < x, for a and x from 0 on, with derivatives in both.

    >>> import phix
    >>> round(phix.scipy.special.gammainc(1.0, 2.0).item(), 5)
    0.86466
    """
    return _in_as_many_digits(incomplete.lower, _lower_in_a, _density, a, x)


@takes()
def gammaincc(a: TensorLike, x: TensorLike) -> Tensor:
    """The regularised upper incomplete gamma function, 1 - gammainc(a, x), with derivatives in
    both arguments.

    >>> import phix
    >>> round(phix.scipy.special.gammaincc(1.0, 2.0).item(), 5)
    0.13534
    """
    return _in_as_many_digits(incomplete.upper, _upper_in_a, _less_density, a, x)
