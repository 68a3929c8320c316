"""The discrete distributions of ``phix.scipy.stats``, a row each, and those of vectors."""

from __future__ import annotations

import inspect
import math
from typing import Any

import ml_dtypes

from phix import ops
from phix.core.errors import ShapeError
from phix.core.expectations import expect, expect_dims
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.scipy.continuous import beta_log_density, gamma_log_density
from phix.scipy.distributions import (
    Distribution,
    Row,
    distribution,
    less_exp,
    log_less,
    widened,
)
from phix.scipy.entropies import floats, in_wide, xlog1py, xlogy
from phix.scipy.gamma_ratios import log_ratio
from phix.scipy.gammas import betaln, gammainc, gammaincc
from phix.scipy.incomplete_beta import betainc, betainc_above
from phix.scipy.log_parts import log_betainc, log_betainc_above, log_gammainc, log_gammaincc
from phix.scipy.quantiles import count_quantiles
from phix.scipy.smoothness import in_float64, smooth


def _is_part(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _is_count(n: Any) -> Any:
    return (n >= 0) & (n == ops.floor(n))


def _log_choices(n: Any, k: Any) -> Any:
    return -ops.log(n + 1) - betaln(n - k + 1, k + 1)


def _up_to_count(n: Any, *shapes: Any) -> Any:
    return 0.0, n


def _from_zero(*shapes: Any) -> Any:
    return 0.0, math.inf


def _zero(*shapes: Any) -> float:
    return 0.0


def _bernoulli_log_mass(k: Any, p: Any) -> Any:
    return xlogy(k, p) + xlog1py(1 - k, -p)


def _bernoulli_quantile(q: Any, p: Any) -> Any:
    """1 where q is more than 1 - p by what rounds: 0.1 is that for p = 0.9."""
    rest = 1 - p
    rounding = ops.minimum(rest, float(ml_dtypes.finfo(p.dtype).eps))  # of p = 1 none
    return ops.where(q - rest > rounding, 1.0, ops.zeros_like(q))


def _betabinom_log_mass(k: Any, n: Any, a: Any, b: Any) -> Any:
    """In float64: the logarithms grow with n, and what is left of them does not.

    Those of two beta functions grow with a and b, too, where ratios of gamma functions do not.
    """
    wide = a + b > n
    p, q = ops.where(wide, a, 1.0), ops.where(wide, b, 1.0)
    far = log_ratio(p, k) + log_ratio(q, n - k) - log_ratio(p + q, n)
    p, q = ops.where(wide, 1.0, a), ops.where(wide, 1.0, b)
    near = betaln(k + p, n - k + q) - betaln(p, q)
    return _log_choices(n, k) + ops.where(wide, far, near)


def _nbinom_log_mass(k: Any, n: Any, p: Any) -> Any:
    """Of no failure n log(p), which a slope in a small n would not see beside 1 / n."""
    some = beta_log_density(p, n, k + 1) + ops.log(p) - ops.log(n + k)
    return ops.where(k == 0, n * ops.log(p), some)


def _up_to(part: Any, of_all: float, k: Any, n: Any, p: Any) -> Any:
    """The part of n draws of which more than k, or not more, are; of n itself all or none."""
    is_last = k >= n
    some = ops.where(is_last, ops.zeros_like(k), k)
    rest = ops.where(is_last, ops.ones_like(n), n - some)
    return ops.where(is_last, of_all, part(some + 1, rest, p))


def _binom_below(k: Any, n: Any, p: Any) -> Any:
    return _up_to(betainc_above, 1.0, k, n, p)


def _binom_above(k: Any, n: Any, p: Any) -> Any:
    return _up_to(betainc, 0.0, k, n, p)


def _binom_log_below(k: Any, n: Any, p: Any) -> Any:
    return _up_to(log_betainc_above, 0.0, k, n, p)


def _binom_log_above(k: Any, n: Any, p: Any) -> Any:
    return _up_to(log_betainc, -math.inf, k, n, p)


def _nbinom_below(k: Any, n: Any, p: Any) -> Any:
    return betainc(n, k + 1, p)


def _nbinom_above(k: Any, n: Any, p: Any) -> Any:
    return betainc_above(n, k + 1, p)


def _poisson_below(k: Any, mu: Any) -> Any:
    return gammaincc(k + 1, mu)


def _poisson_above(k: Any, mu: Any) -> Any:
    return gammainc(k + 1, mu)


# -- masses, with slopes in p and mu that are numbers where the logarithm has none -----------------
def _with_slope(mass: Any, slope: Any) -> Any:
    """``mass`` with the slope given in its last argument; in that the masses of fewer stand again,
    so those of higher orders are numbers, too."""
    shapes = len(inspect.signature(mass).parameters)
    whole: Any = smooth(mass, *[None] * (shapes - 1), lambda *args: slope(whole, *args))
    return lambda *args: in_float64(whole, *args)


def _before(whole: Any, k: Any, *shapes: Any) -> Any:
    """The mass of one less, 0 for none."""
    some = k > 0
    return ops.where(some, whole(ops.where(some, k - 1, 0 * k), *shapes), 0.0)


def _poisson_slope(whole: Any, k: Any, mu: Any) -> Any:
    return _before(whole, k, mu) - whole(k, mu)


def _binom_slope(whole: Any, k: Any, n: Any, p: Any) -> Any:
    rest = ops.maximum(n - 1, 0.0)
    all_of_them = k >= n
    same = ops.where(all_of_them, 0.0, whole(ops.where(all_of_them, 0 * k, k), rest, p))
    return n * (_before(whole, ops.where(n > 0, k, 0 * k), rest, p) - same)


def _nbinom_slope(whole: Any, k: Any, n: Any, p: Any) -> Any:
    return n / p * whole(k, n, p) - (n + k - 1) * _before(whole, k, n, p)


def _geom_rest_slope(whole: Any, k: Any, p: Any) -> Any:
    return -k * _before(whole, k, p)


def _binom_log_mass(k: Any, n: Any, p: Any) -> Any:
    return beta_log_density(p, k + 1, n - k + 1) - ops.log(n + 1)


def _poisson_log_mass(k: Any, mu: Any) -> Any:
    return gamma_log_density(mu, k + 1)


_poisson_mass = _with_slope(lambda k, mu: ops.exp(_poisson_log_mass(k, mu)), _poisson_slope)
_binom_mass = _with_slope(lambda k, n, p: ops.exp(_binom_log_mass(k, n, p)), _binom_slope)
_nbinom_mass = _with_slope(lambda k, n, p: ops.exp(_nbinom_log_mass(k, n, p)), _nbinom_slope)
# (1 - p)^k, and the rest of 1
_geom_above = _with_slope(lambda k, p: ops.exp(xlog1py(k, -p)), _geom_rest_slope)
_geom_below = _with_slope(
    lambda k, p: less_exp(-xlog1py(k, -p)), lambda _, k, p: k * _before(_geom_above, k, p)
)


def _at_most(quantile: Any, log_of_rest: Any) -> Any:
    """A quantile of geom, and no more than the power of 1 - p that is the rest says: what is below
    the first count is p, and rounded it may be less than p."""

    def smaller(q: Any, p: Any) -> Any:
        power = lambda q, p: ops.ceil(log_of_rest(q) / ops.log1p(-p))  # noqa: E731
        known = in_float64(power, *map(ops.stop_gradient, (q, p)))
        return ops.minimum(quantile(q, p), ops.maximum(known, 1.0))

    return smaller


_GEOM = count_quantiles(
    _geom_below, _geom_above, lambda p: (1 / p, ops.sqrt(1 - p) / p), lambda p: None, 1.0
)
_GEOM = {
    "ppf": _at_most(_GEOM["ppf"], lambda q: ops.log1p(-q)), "isf": _at_most(_GEOM["isf"], ops.log),
}  # fmt: skip
_ROWS = {
    "bernoulli": Row(
        "p", lambda p: (0.0, 1.0), _zero, _is_part, False, logpmf=_bernoulli_log_mass,
        pmf=lambda k, p: ops.where(k == 1, p, 1 - p),
        cdf=lambda k, p: ops.where(k < 1, 1 - p, 1.0), sf=lambda k, p: ops.where(k < 1, p, 0.0),
        ppf=_bernoulli_quantile,
    ),
    "betabinom": Row(
        "n a b", _up_to_count, _zero, lambda n, a, b: _is_count(n) & (a > 0) & (b > 0), False,
        logpmf=widened(_betabinom_log_mass),
    ),
    "binom": Row(
        "n p", _up_to_count, _zero, lambda n, p: _is_count(n) & _is_part(p), False,
        logpmf=_binom_log_mass, pmf=_binom_mass,
        cdf=_binom_below, sf=_binom_above, logcdf=_binom_log_below, logsf=_binom_log_above,
        **count_quantiles(
            _binom_below, _binom_above, lambda n, p: (n * p, ops.sqrt(n * p * (1 - p))),
            lambda n, p: n,
        ),
    ),
    "geom": Row(
        "p", lambda p: (1.0, math.inf), lambda p: 1.0, lambda p: (p > 0) & (p <= 1), False,
        logpmf=lambda k, p: xlog1py(k - 1, -p) + ops.log(p),
        pmf=lambda k, p: p * _geom_above(k - 1, p), cdf=_geom_below, sf=_geom_above,
        logcdf=lambda k, p: log_less(-xlog1py(k, -p)), logsf=lambda k, p: xlog1py(k, -p),
        **_GEOM,
    ),
    "nbinom": Row(
        "n p", _from_zero, _zero, lambda n, p: (n > 0) & (p > 0) & (p <= 1), False,
        logpmf=_nbinom_log_mass, pmf=_nbinom_mass,
        cdf=_nbinom_below, sf=_nbinom_above,
        logcdf=lambda k, n, p: log_betainc(n, k + 1, p),
        logsf=lambda k, n, p: log_betainc_above(n, k + 1, p),
        **count_quantiles(
            _nbinom_below, _nbinom_above,
            lambda n, p: (n * (1 - p) / p, ops.sqrt(n * (1 - p)) / p), lambda n, p: None,
        ),
    ),
    "poisson": Row(
        "mu", _from_zero, _zero, lambda mu: mu >= 0, False,
        logpmf=_poisson_log_mass, pmf=_poisson_mass,
        cdf=_poisson_below, sf=_poisson_above,
        logcdf=lambda k, mu: log_gammaincc(k + 1, mu), logsf=lambda k, mu: log_gammainc(k + 1, mu),
        **count_quantiles(
            _poisson_below, _poisson_above, lambda mu: (mu, ops.sqrt(mu)), lambda mu: None
        ),
    ),
}  # fmt: skip


# -- distributions of vectors ----------------------------------------------------------------------
# How far from 1 the sum of rounded parts may be, where that is not 1e-5.
_CLOSE = {"float64": 1e-9, "float16": 1e-3, "bfloat16": 1e-2}


@takes()
def _dirichlet_logpdf(x: TensorLike, alpha: TensorLike) -> Tensor:
    """log of the density at x, whose first axis has the parts; the last one may be left out.

    alpha is a vector; x of more axes has a point in each column. It is -inf where the parts are
    not from 0 to 1 or do not add to 1. It is summed in float64: the terms grow with alpha.
    """
    (parts, shape), dtype = in_wide(x, alpha)
    if shape.ndim != 1:
        raise ShapeError(f"scipy.stats.dirichlet: alpha must be a vector, found {shape.meta}")
    if parts.shape[0] == shape.shape[0] - 1:
        parts = ops.concat([parts, 1 - ops.sum(parts, [0], keepdim=True)], 0)
    if parts.shape[0] != shape.shape[0]:
        raise ShapeError(f"scipy.stats.dirichlet: x must have as many parts along its first axis "
                         f"as alpha, found {parts.meta} and {shape.meta}")  # fmt: skip
    norm = ops.sum(ops.lgamma(shape)) - ops.lgamma(ops.sum(shape))
    column = ops.reshape(shape, [shape.shape[0]] + [1] * (parts.ndim - 1))
    close = _CLOSE.get(str(dtype), 1e-5)
    known = ops.all((parts >= 0) & (parts <= 1), 0)
    known = known & (ops.abs(ops.sum(parts, [0]) - 1) < close)
    value = ops.sum(xlogy(column - 1, ops.clip(parts, 0.0, 1.0)), [0]) - norm
    valid = ops.all(shape > 0) & ~ops.any(ops.isnan(parts), 0)
    return ops.cast(ops.where(valid, ops.where(known, value, -math.inf), math.nan), dtype)


@takes()
def _multinomial_logpmf(x: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """log of the probability of the counts x, along the last axis, of n draws of parts p.

    It is summed in float64: the terms grow with n. NaN where the parts do not add to 1.
    """
    (counts, total, parts), dtype = in_wide(x, n, p)
    refusal = (
        "scipy.stats.multinomial: x and p have a number for each kind along their last axis, found "
        f"{counts.meta} and {parts.meta}"
    )
    counts = expect(counts, refusal, min(counts.ndim, parts.ndim) - 1)
    counts = expect_dims(counts, refusal, (*counts.shape[:-1], parts.shape[-1]))
    known = ops.all((counts >= 0) & (counts == ops.floor(counts)), -1)
    known = known & (ops.sum(counts, [-1]) == total)
    safe = ops.where(ops.unsqueeze(known, [-1]), counts, 0.0)
    value = ops.lgamma(total + 1) + ops.sum(xlogy(safe, parts) - ops.lgamma(safe + 1), [-1])
    valid = ops.all(_is_part(parts), -1) & _is_count(total) & ~ops.any(ops.isnan(counts), -1)
    close = max(1e-5, _CLOSE.get(str(dtype), 0.0))  # differences in one part stay numbers
    valid = valid & (ops.abs(ops.sum(parts, [-1]) - 1) < close)
    return ops.cast(ops.where(valid, ops.where(known, value, -math.inf), math.nan), dtype)


@takes()
def _normal_logpdf(x: TensorLike, mean: TensorLike = 0, cov: TensorLike = 1) -> Any:
    """log of the density at x, whose last axis is that of mean, and of both of cov's.

    Axes in front broadcast. A cov without axes is a number times the identity, a vector is the
    diagonal; one that is not positive definite gives NaN. Where neither mean nor cov has axes, the
    distribution is that of numbers, and each in x has its own density.
    """
    point, middle, spread = floats(x, mean, cov)
    is_of_one = any(v.ndim and v.shape[-1] == 1 for v in (middle, spread))
    if is_of_one and point.ndim and point.shape[-1] != 1:  # SciPy's points, not numbers of one
        raise ShapeError("scipy.stats.multivariate_normal: mean or cov is of one number, whose "
                         "points are x[..., None]; found x, mean and cov of "
                         f"{point.meta}, {middle.meta} and {spread.meta}")  # fmt: skip
    if not (middle.ndim or spread.ndim):
        z = point - middle
        return -0.5 * (z * z / spread + ops.log(2 * math.pi * spread))
    away = point - middle
    n = away.shape[-1] if away.ndim else spread.shape[-1]
    if spread.ndim < 2:
        size = spread + ops.zeros([n], spread.dtype)
        n = size.shape[-1]  # a vector may have more numbers than x, which broadcasts
        square = ops.sum(away * away / size, [-1])
        return -0.5 * (square + n * math.log(2 * math.pi) + ops.sum(ops.log(size)))
    if tuple(spread.shape[-2:]) != (n, n):
        raise ShapeError(f"scipy.stats.multivariate_normal: cov must be [..., {n}, {n}], as x and "
                         f"mean have {n} numbers, found {spread.meta}")  # fmt: skip
    root = ops.cholesky(spread)
    solved = ops.triangular_solve(root, ops.unsqueeze(away, [-1]), False)
    square = ops.sum(solved * solved, [-2, -1])
    scale = ops.sum(ops.log(ops.diagonal(root, 0, -2, -1)), [-1])
    return -0.5 * (square + n * math.log(2 * math.pi)) - scale


def _of_vectors(name: str, log: str, function: Any) -> Distribution:
    def plain(*args: Any, **kwargs: Any) -> Any:
        return ops.exp(function(*args, **kwargs))

    plain.__name__, plain.__doc__ = log.removeprefix("log"), f"exp of {log}, which see."
    return Distribution(name, {log: function, log.removeprefix("log"): plain})


DISCRETE: dict[str, Distribution] = {name: distribution(name, row) for name, row in _ROWS.items()}
VECTORS: dict[str, Distribution] = {
    "dirichlet": _of_vectors("dirichlet", "logpdf", _dirichlet_logpdf),
    "multinomial": _of_vectors("multinomial", "logpmf", _multinomial_logpmf),
    "multivariate_normal": _of_vectors("multivariate_normal", "logpdf", _normal_logpdf),
}
