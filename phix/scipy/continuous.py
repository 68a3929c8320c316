"""The continuous distributions of ``phix.scipy.stats``, a row each, at loc 0 and scale 1."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.distributions import (
    Distribution,
    Row,
    distribution,
    less_exp,
    log_less,
    log_less_exp,
    log_of_part,
    widened,
)
from phix.scipy.entropies import xlog1py, xlogy
from phix.scipy.gamma_ratios import remainder
from phix.scipy.gammas import betaln, gammainc, gammaincc
from phix.scipy.incomplete_beta import betainc, betainc_above
from phix.scipy.integrals import ndtri
from phix.scipy.log_parts import (
    log_betainc,
    log_betainc_above,
    log_gammainc,
    log_gammaincc,
)
from phix.scipy.quantiles import BETA, CHI2, GAMMA, gennorm_solved, quantiles, t_solved
from phix.scipy.smoothness import in_float64, smooth
from phix.scipy.student import log_of_one_and_square, log_t_below, t_below, t_log_density
from phix.scipy.truncated_normal import TRUNCNORM, normal_log_density

_LOG_2PI, _LOG_PI = math.log(2 * math.pi), math.log(math.pi)


def _from_zero(*shapes: Any) -> Any:
    return 0.0, math.inf


def _all_above_zero(*shapes: Any) -> Any:
    found: Any = True
    for s in shapes:
        found = found & (s > 0)
    return found


# -- two-sided ones: what lies above z is what lies below -z --------------------------------------
def _smaller_part(q: Any) -> Any:
    """The smaller of q and 1 - q; of two alike q, and its slope."""
    return ops.where(q > 0.5, 1 - q, q)


def _cauchy_quantile(q: Any) -> Any:
    """-cot(pi q); next to the middle tan(pi (q - 1/2)), from 1/2 on by 1 - q, which is exact."""
    part = _smaller_part(q)
    near = part > 0.25
    angle = math.pi * ops.where(near, 0.25, part)
    tail = -ops.cos(angle) / ops.sin(angle)
    middle = ops.tan(math.pi * (ops.where(near, part, 0.25) - 0.5))
    size = ops.where(near, middle, tail)
    return ops.where(q > 0.5, -size, size)


def _laplace_below(z: Any) -> Any:
    below, above = ops.where(z < 0, z, 0.0), ops.where(z < 0, 0.0, z)
    return ops.where(z < 0, 0.5 * ops.exp(below), 1 - 0.5 * ops.exp(-above))


def _laplace_log_below(z: Any) -> Any:
    rest = ops.log1p(-0.5 * ops.exp(-ops.where(z < 0, 0.0, z)))
    return ops.where(z < 0, z - math.log(2), rest)


def _laplace_quantile(q: Any) -> Any:
    size = ops.log(2 * _smaller_part(q))
    return ops.where(q > 0.5, -size, size)


def _logistic_log_density(z: Any) -> Any:
    """-|z| - 2 log(1 + exp(-|z|)), of whichever of z and -z is below 0: it is as smooth as z."""
    below = ops.where(z > 0, -z, z)
    return below + 2 * ops.logsigmoid(-below)


def _logistic_below(z: Any) -> Any:
    """sigmoid(z), above 0 by that of -z, whose slope is no difference of numbers next to 1."""
    above = z > 0
    part = ops.sigmoid(ops.where(above, -z, z))
    return ops.where(above, 1 - part, part)


def _gennorm_below(z: Any, beta: Any) -> Any:
    apart, a = z != 0, 1 / beta
    power = ops.abs(ops.where(apart, z, 1.0)) ** beta
    near = power < 1e-17  # where the first term of the series is all
    tail = gammaincc(a, ops.where(near, 1.0, power))
    tail = 0.5 * ops.where(near, 1 - ops.abs(z) * ops.exp(-ops.lgamma(1 + a)), tail)
    tail = ops.where(apart, tail, 0.5)
    return ops.where(z < 0, tail, 1 - tail)


def _gennorm_log_below(z: Any, beta: Any) -> Any:
    """In the tail that of the incomplete gamma function, which goes on where the part is 0."""
    below, above = _gennorm_cdf(z, beta), _gennorm_cdf(-z, beta)
    power = ops.where(z < 0, -z, 1.0) ** beta
    is_tail = (z < 0) & (power > 1)
    tail = log_gammaincc(1 / beta, ops.where(is_tail, power, 2.0)) - math.log(2)
    return ops.where(is_tail, tail, log_of_part(below, above))


def _gennorm_log_density(z: Any, beta: Any) -> Any:
    return ops.log(0.5 * beta) - ops.lgamma(1 / beta) - _power_of_size(z, beta)


def _power_of_size(z: Any, power: Any) -> Any:
    """abs(z) ** power, of even powers by the square, which is smooth at 0; the slope at the cusp of
    powers below 1 is 0, so that those of what z is made of are numbers."""
    is_even, is_cusp = ops.remainder(power, 2.0) == 0, (z == 0) & (power < 1)
    size = ops.where(is_even, z * z, ops.abs(ops.where(is_even | is_cusp, 1.0, z)))
    return ops.where(is_cusp, 0.0, size ** ops.where(is_even, 0.5 * power, power))


def _with_slope(below: Any, log_density: Any) -> Any:
    """What lies below z, with the density as its slope there, also where the formula has none."""
    whole = smooth(below, lambda z, shape: ops.exp(log_density(z, shape)))
    return lambda z, shape: in_float64(whole, z, shape)


_gennorm_cdf = _with_slope(_gennorm_below, _gennorm_log_density)


def _mirrored(row: Row) -> Row:
    """With the functions from above, of a distribution that is its own mirror image."""
    own = row.functions
    for below, above in (("cdf", "sf"), ("logcdf", "logsf")):
        if below in own:
            own[above] = lambda z, *shapes, f=own[below]: f(-z, *shapes)
    if "ppf" in own:
        own["isf"] = lambda q, *shapes, f=own["ppf"]: -f(q, *shapes)
    return row


_T = quantiles(
    t_solved,
    t_below,
    lambda z, df: t_below(-z, df),
    lambda z, df: ops.exp(t_log_density(z, df)),
    1,
)
_GENNORM = quantiles(
    gennorm_solved,
    _gennorm_below,
    lambda z, beta: _gennorm_below(-z, beta),
    lambda z, beta: ops.exp(_gennorm_log_density(z, beta)),
    1,
)
_MIRRORED = {
    "norm": Row(
        logpdf=normal_log_density, cdf=ops.ndtr, logcdf=ops.log_ndtr, ppf=ndtri
    ),
    "laplace": Row(
        logpdf=lambda z: -ops.abs(z) - math.log(2), cdf=_laplace_below, ppf=_laplace_quantile,
        logcdf=_laplace_log_below,
    ),
    "logistic": Row(
        logpdf=_logistic_log_density, cdf=_logistic_below, logcdf=ops.logsigmoid,
        ppf=lambda q: ops.logit(q, 0.0),
    ),
    "cauchy": Row(
        logpdf=lambda z: -_LOG_PI - log_of_one_and_square(z),
        cdf=lambda z: ops.atan2(ops.ones_like(z), -z) / math.pi, ppf=_cauchy_quantile,
    ),
    "t": Row(
        "df", valid=_all_above_zero, logpdf=t_log_density,
        cdf=_with_slope(t_below, t_log_density), logcdf=log_t_below,
        ppf=_T["ppf"],
    ),
    "gennorm": Row(
        "beta", valid=_all_above_zero, logpdf=_gennorm_log_density,
        cdf=_gennorm_cdf, logcdf=widened(_gennorm_log_below),
        ppf=_GENNORM["ppf"],
    ),
}  # fmt: skip


# -- the others ------------------------------------------------------------------------------------
_MANY = 20.0  # shapes from here on are kept away from what cancels, by Stirling's formula


def gamma_log_density(z: Any, a: Any) -> Any:
    """(a - 1) log z - z - log gamma(a); of large shapes by how far z is from a."""
    far = (a >= _MANY) & (z > 0) & (z < math.inf) & (a < math.inf)
    few, low = ops.where(far, 1.0, a), ops.where(far, 1.0, z)
    near = xlogy(few - 1, low) - low - ops.lgamma(few)
    many, high = ops.where(far, a, _MANY), ops.where(far, z, _MANY)
    lost = many * incomplete._less_log((high - many) / many, high / many) + remainder(many)
    return ops.where(far, 0.5 * (ops.log(many) - _LOG_2PI) - ops.log(high) - lost, near)


def _chi2_log_density(z: Any, df: Any) -> Any:
    return gamma_log_density(0.5 * z, 0.5 * df) - math.log(2)


def beta_log_density(z: Any, a: Any, b: Any) -> Any:
    """(a - 1) log z + (b - 1) log(1 - z) - log B(a, b); of two large shapes by how far z is from
    a / (a + b)."""
    far = (ops.minimum(a, b) >= _MANY) & (ops.maximum(a, b) < math.inf) & (z > 0) & (z < 1)
    p, q, x = ops.where(far, 1.0, a), ops.where(far, 1.0, b), ops.where(far, 0.5, z)
    near = xlogy(p - 1, x) + xlog1py(q - 1, -x) - betaln(p, q)
    p, q, x = ops.where(far, a, _MANY), ops.where(far, b, _MANY), ops.where(far, z, 0.5)
    y, n = 1 - x, p + q
    gap = q * x - p * y
    lost = p * incomplete._less_log(gap / p, x * (n / p))
    lost = lost + q * incomplete._less_log(-gap / q, y * (n / q))
    lost = lost + remainder(p) + remainder(q) - remainder(n)
    size = 0.5 * (ops.log(p) + ops.log(q / n) - _LOG_2PI)
    return ops.where(far, size - ops.log(x) - ops.log1p(-x) - lost, near)


def _vonmises_log_density(z: Any, kappa: Any) -> Any:
    small = kappa < 1
    few, many = ops.where(small, kappa, 0.5), ops.where(small, 1.0, kappa)
    sine = ops.sin(0.5 * z)
    far = -2 * many * sine * sine - ops.log(2 * math.pi * ops.i0e(many))
    return ops.where(small, few * ops.cos(z) - ops.log(2 * math.pi * ops.i0(few)), far)


def _held_exp(z: Any) -> Any:
    """exp(z), held where exp of -exp(z) is 0, in any dtype, so that its slope is too."""
    return ops.exp(ops.minimum(z, 8.0))


def _gumbel_density(z: Any) -> Any:
    return ops.exp(ops.minimum(z, 8.0) - _held_exp(z))


def _wrapcauchy_log_density(z: Any, c: Any) -> Any:
    sine = ops.sin(0.5 * z)  # 1 + c^2 - 2 c cos(z), in which next to z = 0 nothing cancels
    rest = (1 - c) * (1 - c) + 4 * c * sine * sine
    return ops.log1p(-c * c) - _LOG_2PI - ops.log(rest)


_OTHERS = {
    "beta": Row(
        "a b", lambda a, b: (0.0, 1.0), valid=_all_above_zero, logpdf=beta_log_density,
        steep=lambda z, a, b: (z == 0) & (a < 1),
        vanishes=lambda z, a, b: ((z == 0) & (a > 1)) | ((z == 1) & (b > 1)),
        cdf=lambda z, a, b: betainc(a, b, z), sf=lambda z, a, b: betainc_above(a, b, z),
        logcdf=lambda z, a, b: log_betainc(a, b, z),
        logsf=lambda z, a, b: log_betainc_above(a, b, z),
        ppf=BETA["ppf"], isf=BETA["isf"],
    ),
    "chi2": Row(
        "df", _from_zero, valid=_all_above_zero, logpdf=_chi2_log_density,
        steep=lambda z, df: (z == 0) & (df < 2),
        vanishes=lambda z, df: (z == 0) & (df > 2),
        cdf=lambda z, df: gammainc(0.5 * df, 0.5 * z),
        sf=lambda z, df: gammaincc(0.5 * df, 0.5 * z),
        logcdf=lambda z, df: log_gammainc(0.5 * df, 0.5 * z),
        logsf=lambda z, df: log_gammaincc(0.5 * df, 0.5 * z), ppf=CHI2["ppf"], isf=CHI2["isf"],
    ),
    "expon": Row(
        "", _from_zero, logpdf=lambda z: -z, cdf=less_exp, logcdf=log_less,
        logsf=lambda z: -z, ppf=lambda q: -ops.log1p(-q), isf=lambda q: -ops.log(q),
    ),
    "gamma": Row(
        "a", _from_zero, valid=_all_above_zero, logpdf=gamma_log_density,
        steep=lambda z, a: (z == 0) & (a < 1),
        vanishes=lambda z, a: (z == 0) & (a > 1),
        cdf=lambda z, a: gammainc(a, z), sf=lambda z, a: gammaincc(a, z),
        logcdf=lambda z, a: log_gammainc(a, z), logsf=lambda z, a: log_gammaincc(a, z),
        ppf=GAMMA["ppf"], isf=GAMMA["isf"],
    ),
    "gumbel_l": Row(
        logpdf=lambda z: z - ops.exp(z), pdf=_gumbel_density,
        cdf=lambda z: less_exp(_held_exp(z)), logcdf=log_less_exp,
        sf=lambda z: ops.exp(-_held_exp(z)), logsf=lambda z: -ops.exp(z),
        ppf=lambda q: ops.log(-ops.log1p(-q)), isf=lambda q: ops.log(-ops.log(q)),
    ),
    "gumbel_r": Row(
        logpdf=lambda z: -z - ops.exp(-z), pdf=lambda z: _gumbel_density(-z),
        cdf=lambda z: ops.exp(-_held_exp(-z)), logcdf=lambda z: -ops.exp(-z),
        sf=lambda z: less_exp(_held_exp(-z)), logsf=lambda z: log_less_exp(-z),
        ppf=lambda q: -ops.log(-ops.log(q)), isf=lambda q: -ops.log(-ops.log1p(-q)),
    ),
    "pareto": Row(
        "b", lambda b: (1.0, math.inf), lambda b: 1.5, _all_above_zero,
        logpdf=lambda z, b: ops.log(b) - (b + 1) * ops.log(z),
        pdf=lambda z, b: b * ops.exp(-(b + 1) * ops.log(z)),
        cdf=lambda z, b: less_exp(b * ops.log(z)), logcdf=lambda z, b: log_less(b * ops.log(z)),
        logsf=lambda z, b: -b * ops.log(z), ppf=lambda q, b: ops.exp(-ops.log1p(-q) / b),
        isf=lambda q, b: ops.exp(-ops.log(q) / b),
    ),
    "truncnorm": TRUNCNORM,
    "uniform": Row(
        "", lambda: (0.0, 1.0), logpdf=lambda z: 0 * z, cdf=lambda z: z, sf=lambda z: 1 - z,
        ppf=lambda q: q, isf=lambda q: 1 - q,
    ),
    "vonmises": Row("kappa", valid=lambda k: k >= 0, logpdf=_vonmises_log_density),
    "wrapcauchy": Row(
        "c", lambda c: (0.0, 2 * math.pi), valid=lambda c: (c > 0) & (c < 1),
        logpdf=_wrapcauchy_log_density,
    ),
}  # fmt: skip

CONTINUOUS: dict[str, Distribution] = {
    name: distribution(name, row)
    for name, row in {**{n: _mirrored(r) for n, r in _MIRRORED.items()}, **_OTHERS}.items()
}
