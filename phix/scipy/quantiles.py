"""Quantiles of distributions whose cdf has no inverse in closed form: Newton's steps on its
logarithm, within a bracket, with the slopes of the equation that they solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.control_flow import while_loop
from phix.api.gradients import jvp
from phix.scipy.gammas import betaln, gammainc, gammaincc
from phix.scipy.incomplete_beta import betainc, betainc_above
from phix.scipy.incomplete_beta import density as beta_density
from phix.scipy.integrals import ndtri
from phix.scipy.smoothness import in_float64, smooth

Function = Callable[..., Any]
_LEAST, _MOST = 1e-307, 1e307  # products of roots of these are numbers, too
_CLOSE = 1e-10  # of the last step: that after it is next to its square
_SLACK, _ULP = 2e-15, 2.2e-16  # by how much the parts of a count may be off
_STEPS = 400  # what bisection of all exponents takes several times


# -- of floats -------------------------------------------------------------------------------------
def _solved(
    below: Function, above: Function, density: Function, parts: Any, begin: Any, most: float
) -> Any:
    """The z from _LEAST to ``most`` with below(z) = parts[0] and above(z) = parts[1], by the
    smaller one of both, in steps of log z in the lower tail and of z in the upper."""
    lower, upper = parts
    is_lower = lower <= upper
    wanted = ops.where(is_lower, lower, upper)

    def step(carry: Any) -> Any:
        z, low, high, is_open, count = carry
        part = ops.where(is_lower, below(z), above(z))
        off = ops.log(part / wanted)
        is_high = (part > wanted) == is_lower
        low, high = ops.where(is_high, low, z), ops.where(is_high, z, high)
        slope = density(z) / part
        found = ops.where(is_lower, z * ops.exp(-off / (z * slope)), z + off / slope)
        is_close = ops.abs(found - z) <= _CLOSE * z
        inside = (found > low) & (found < high)
        found = ops.where(is_close | inside, found, ops.sqrt(low) * ops.sqrt(high))
        is_open = is_open & ~is_close & (high - low > 1e-16 * high)
        return ops.where(carry[3], found, z), low, high, is_open, count + 1

    def goes_on(carry: Any) -> Any:
        return ops.any(carry[3]) & (carry[4] < _STEPS)

    is_open = (wanted > 0) & ops.isfinite(begin)
    ends = ops.full_like(begin, _LEAST), ops.full_like(begin, most)
    start = (ops.clip(begin, _LEAST, most), *ends, is_open, ops.zeros([], "int64"))
    return while_loop(goes_on, step, start)[0]


def _gamma_solved(lower: Any, upper: Any, a: Any) -> Any:
    """Where the first term of the series is all, that; else from Wilson and Hilferty's cube on."""
    log_first = (ops.log(lower) + ops.lgamma(a + 1)) / a
    first = ops.exp(log_first)
    is_small = first < 1e-17
    spread = 1 / (9 * a)
    root = 1 - spread + _deviate(lower, upper) * ops.sqrt(spread)
    begin = ops.where((root > 0.3) & (a > 0.5), a * root * root * root, first)
    z = _solved(
        lambda z: gammainc(a, z), lambda z: gammaincc(a, z), lambda z: ops.gamma_density(a, z),
        (ops.where(is_small, 0.5, lower), ops.where(is_small, 0.5, upper)),
        ops.where(is_small, a, begin), _MOST,
    )  # fmt: skip
    z = ops.where(is_small, first, z)
    return ops.where(a == math.inf, math.inf, z)  # nothing lies below any number


def _deviate(lower: Any, upper: Any) -> Any:
    """Where the normal distribution has these parts."""
    is_lower = lower <= upper
    size = ndtri(ops.where(is_lower, lower, upper))
    return ops.where(is_lower, size, -size)


def _half_solved(lower: Any, upper: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The z up to 1/2 of which beta(a, b) has these parts, and log z, which holds far more."""
    log_first = (ops.log(lower) + ops.log(a) + betaln(a, b)) / a
    first = ops.exp(log_first)
    is_small = first * (1 + b) < 1e-17
    total = a + b
    mean = a / total
    near = mean + _deviate(lower, upper) * ops.sqrt(mean * (b / total) / (total + 1))
    begin = ops.where((a > 1) & (b > 1) & (near > 0) & (near < 0.5), near, first)

    z = _solved(
        lambda z: betainc(a, b, z), lambda z: betainc_above(a, b, z),
        lambda z: beta_density(a, b, z),
        (ops.where(is_small, 0.5, lower), ops.where(is_small, 0.5, upper)),
        ops.minimum(ops.where(is_small, 0.25, begin), 0.5), 0.5,
    )  # fmt: skip
    return ops.where(is_small, first, z), ops.where(is_small, log_first, ops.log(z))


def _turned(lower: Any, upper: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Whether the place is beyond 1/2, and what it is counted from there by, with its logarithm."""
    half = ops.full_like(a, 0.5)
    is_beyond = ops.where(lower <= upper, betainc(a, b, half) < lower,
                          betainc_above(a, b, half) > upper)  # fmt: skip
    p, q = ops.where(is_beyond, upper, lower), ops.where(is_beyond, lower, upper)
    z, log_z = _half_solved(p, q, ops.where(is_beyond, b, a), ops.where(is_beyond, a, b))
    return is_beyond, z, log_z


def _beta_solved(lower: Any, upper: Any, a: Any, b: Any) -> Any:
    is_beyond, z, _ = _turned(lower, upper, a, b)
    z = ops.where(is_beyond, 1 - z, z)
    at_zero, at_one = b == math.inf, a == math.inf  # where all lies; of both there is no such place
    edge = ops.where(at_zero & at_one, math.nan, ops.where(at_one, 1.0, 0.0))
    return ops.where(at_zero | at_one, edge, z)


def t_solved(lower: Any, upper: Any, df: Any) -> Any:
    """-sqrt(df (1 - w) / w) for w = df / (df + z^2), whose distribution is beta(df / 2, 1 / 2)."""
    is_normal = df == math.inf
    count = ops.where(is_normal, 1.0, df)
    tail = ops.minimum(lower, upper)
    is_middle = tail == 0.5
    part = 2 * ops.where(is_middle, 0.25, tail)
    is_beyond, z, log_z = _turned(part, 1 - part, 0.5 * count, ops.full_like(part, 0.5))
    odds = ops.where(is_beyond, log_z - ops.log1p(-z), ops.log1p(-z) - log_z)
    size = ops.exp(0.5 * (ops.log(count) + odds))
    size = ops.where(is_middle, 0.0, ops.where(is_normal, -ndtri(tail), size))
    return ops.where(lower < upper, -size, size)


def gennorm_solved(lower: Any, upper: Any, beta: Any) -> Any:
    """+-x^(1 / beta), for the x above which gamma(1 / beta) has twice the smaller part; next to
    the middle by the first term of its series."""
    tail, a = ops.minimum(lower, upper), 1 / beta
    middle = 1 - 2 * tail
    is_middle = middle <= 0
    rest = ops.where(is_middle, 0.5, middle)
    x = _gamma_solved(rest, 2 * ops.where(is_middle, 0.25, tail), a)
    is_small = x < 1e-17
    far = ops.where(is_small, 1.0, x) ** a
    size = ops.where(is_small, rest * ops.exp(ops.lgamma(a + 1)), far)
    size = ops.where(is_middle, 0.0, size)
    return ops.where(lower < upper, -size, size)


def quantiles(
    solved: Function, below: Function, above: Function, density: Function, shapes: int
) -> dict[str, Function]:
    """ppf and isf, by ``solved(lower, upper, *shapes)`` in float64.

    The slope in q is 1 over the density, that in a shape what the part loses there over
    the density: the place moves so that the part stays what it is.
    """

    def of(is_above: bool) -> Function:
        def value(q: Any, *shape: Any) -> Any:
            return solved(*((1 - q, q) if is_above else (q, 1 - q)), *shape)

        def in_part(q: Any, *shape: Any) -> Any:
            slope = 1 / density(whole(q, *shape), *shape)
            return -slope if is_above else slope

        def in_shape(place: int) -> Function:
            found = _in_shape(below, above, density, place)
            return lambda q, *shape: found(whole(q, *shape), *shape)

        whole = smooth(value, in_part, *map(in_shape, range(shapes)))
        return lambda q, *shape: in_float64(whole, q, *shape)

    return {"ppf": of(False), "isf": of(True)}


def _in_shape(below: Function, above: Function, density: Function, place: int) -> Function:
    """How fast the place goes in a shape, of the place and the shapes."""

    def slope(z: Any, *shape: Any) -> Any:
        units = tuple(ops.full_like(s, float(i == place)) for i, s in enumerate(shape))
        lost = [jvp(lambda *s, f=f: f(z, *s), shape, units)[1] for f in (below, above)]
        is_lower = below(z, *shape) <= above(z, *shape)
        return ops.where(is_lower, -lost[0], lost[1]) / density(z, *shape)

    return slope


GAMMA = quantiles(
    _gamma_solved, lambda z, a: gammainc(a, z), lambda z, a: gammaincc(a, z),
    lambda z, a: ops.gamma_density(a, z), 1,
)  # fmt: skip
CHI2 = {key: lambda q, df, f=f: 2 * f(q, 0.5 * df) for key, f in GAMMA.items()}
BETA = quantiles(
    _beta_solved, lambda z, a, b: betainc(a, b, z), lambda z, a, b: betainc_above(a, b, z),
    lambda z, a, b: beta_density(a, b, z), 2,
)  # fmt: skip


# -- of counts -------------------------------------------------------------------------------------
def _first_count(is_enough: Function, begin: Any, first: float, last: Any) -> Any:
    """The first whole number from ``first`` to ``last`` that is enough: by halves between one that
    is not and one that is, which is looked for in steps that double where there is no last one."""

    def is_wide(low: Any, high: Any) -> Any:
        return (high - low > 1) & (high - low > 1e-15 * ops.abs(low))

    def step(carry: Any) -> Any:
        low, high, at, size, count = carry
        enough, is_open = is_enough(at), is_wide(low, high)
        low = ops.where(is_open & ~enough, at, low)
        high = ops.where(is_open & enough, at, high)
        has_end = high < math.inf
        half = ops.floor(0.5 * low + 0.5 * ops.where(has_end, high, low))
        return low, high, ops.where(has_end, half, at + size), 2 * size, count + 1

    def goes_on(carry: Any) -> Any:
        return ops.any(is_wide(*carry[:2])) & (carry[-1] < _STEPS)

    at = ops.minimum(ops.maximum(begin, first), last)
    size, count = 1 + ops.floor(0.1 * ops.sqrt(at)), ops.zeros([], "int64")
    return while_loop(goes_on, step, (ops.full_like(at, first - 1), last, at, size, count))[1]


def count_quantiles(
    below: Function, above: Function, moments: Function, last: Function, first: float = 0.0
) -> dict[str, Function]:
    """ppf and isf of a distribution of counts: the first one k with below(k) >= q, above(k) <= q,
    as the dtype of q holds these, to within the rounding of below and above: a q that is the part
    of a count has that count. They are steps: their slopes are 0.

    ``moments`` gives the mean and the deviation of the shapes, near which the search begins.
    """

    def of(is_above: bool) -> Function:
        def quantile(q: Any, *shapes: Any) -> Any:
            def found(q: Any, *shapes: Any) -> Any:
                # the smaller part is a power, whose rounding grows with its logarithm
                smaller = ops.minimum(q, 1 - q)
                slack = smaller * (_SLACK - 2 * _ULP * ops.log(smaller))
                slack = slack + ops.where(q > 0.5, _ULP, 0.0)
                bound = q + slack if is_above else q - slack

                def is_enough(k: Any) -> Any:
                    part = (above if is_above else below)(k, *shapes)
                    part = ops.cast(ops.cast(part, dtype), q.dtype)
                    return part <= bound if is_above else part >= bound

                mean, deviation = moments(*shapes)
                away = _deviate(*((1 - q, q) if is_above else (q, 1 - q)))
                begin = ops.floor(mean + deviation * away)
                end = ops.full_like(q, math.inf) if last(*shapes) is None else last(*shapes)
                return _first_count(is_enough, begin, first, end)

            dtype = q.dtype
            return in_float64(found, *map(ops.stop_gradient, (q, *shapes)))

        return quantile

    return {"ppf": of(False), "isf": of(True)}
