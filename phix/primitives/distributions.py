"""Random numbers of distributions that have no simple inverse: gamma, Poisson, binomial and theirs.

Loops go on until every element has been accepted; an element takes its first accepted draw, so that
it depends on the key and its place alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.conversion import to_tensor
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.transforms import transforms
from phix.core.value_ranges import ValueRange, Weights
from phix.primitives import random as rand
from phix.primitives.flat import metas_of
from phix.primitives.widening import as_dtype, in_float32


def check_one_key(key: Any) -> None:
    rand.check_key(key.meta)
    if key.ndim != 1:
        raise ShapeError(f"the op takes one key, uint32[2], found {key.meta}; use phix.vmap")


def loop(
    cond: Callable[..., Any], body: Callable[..., Any], carry: Sequence[Any], others: Sequence[Any]
) -> Any:
    """carry = body(*carry, *others) while cond(*carry, *others)."""
    metas = metas_of([*carry, *others])
    test, _ = transforms().trace(lambda *values: [cond(*values)], metas)
    step, _ = transforms().trace(body, metas)
    return ops.while_loop([*carry], [*others], test, step)


# -- gamma -------------------------------------------------------------------------------------
@rules.decompose("random_loggamma")
@in_float32
def random_loggamma(key: Any, x: Any) -> Any:
    """By G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", 2000.

    Of a shape a below 1 it is that of a + 1, with log(u) / a added.
    """
    check_one_key(key)
    dtype = x.dtype
    is_large = x >= 1
    d = ops.where(is_large, x, x + 1) - 1 / 3
    keys, last = ops.unbind(rand.split(rand.split(key, x.meta.dims), (2,)), x.ndim)
    zeros = ops.full_like(x, 0.0)
    (_, _, cube, _) = loop(
        lambda keys, square, cube, u, d: ops.any(_is_rejected(square, cube, u, d)),
        _next_proposal,
        (keys, zeros, zeros + 1, zeros + 2),
        (d,),
    )
    drawn = ops.log1p(-rand.unit_uniform(last, (), dtype))
    boost = ops.where(is_large | (drawn == 0), 0.0, drawn / ops.where(is_large, 1.0, x))
    return ops.where(x < 0, math.nan, ops.log(d) + ops.log(cube) + boost)


def _is_rejected(square: Any, cube: Any, u: Any, d: Any) -> Any:
    return (u >= 1 - 0.0331 * (square * square)) & (
        ops.log(u) >= square * 0.5 + d * (1 - cube + ops.log(cube))
    )


def _next_proposal(keys: Any, square: Any, cube: Any, u: Any, d: Any) -> Any:
    """A new square, cube and uniform number where the last ones were rejected."""
    redo = _is_rejected(square, cube, u, d)
    next_keys, normal_keys, u_keys = ops.unbind(rand.split(keys, (3,)), d.ndim)
    slope = (1 / 3) / ops.sqrt(d)

    def draw(keys: Any, z: Any, v: Any, slope: Any) -> Any:
        wanted = v <= 0
        following, own = ops.unbind(rand.split(keys, (2,)), v.ndim)
        z = ops.where(wanted, rand.standard_normal(own, (), z.dtype), z)
        return following, z, ops.where(wanted, 1 + z * slope, v)

    start = ops.where(redo, -1.0, 1.0) + ops.full_like(d, 0.0)
    first = (normal_keys, ops.full_like(d, 0.0), start)
    _, z, v = loop(lambda keys, z, v, slope: ops.any(v <= 0), draw, first, (slope,))
    new = (z * z, v * v * v, rand.unit_uniform(u_keys, (), d.dtype))
    rejected = ops.unsqueeze(redo, [-1])
    kept = [ops.where(redo, n, o) for n, o in zip(new, (square, cube, u))]
    return ops.where(rejected, next_keys, keys), *kept


@rules.decompose("random_loggamma_grad")
def random_loggamma_grad(x: Any, out: Any, out_grad: Any) -> Any:
    """The number moves with the shape so that what lies below it stays the same part."""
    wide = dt.float64
    slope = _gamma_slope(as_dtype(x, wide), as_dtype(out, wide))
    return as_dtype(as_dtype(out_grad, wide) * slope, x.dtype)


_NODES = 48


def _gamma_slope(a: Any, log_x: Any) -> Any:
    """d log(x) / da of a gamma variable x of shape a, at a fixed probability of lying below.

    It is -dP/da over the density of log(x), P the regularised incomplete gamma function. With
    t = x exp(-u) for what lies below x, and t = x exp(u) for what lies above, that is
    the integral over u > 0 of exp(-|a - x| u - x h) (u + |digamma(a) - log(x)|) with
    h = exp(-u) - 1 + u, or exp(u) - 1 - u. Taken on the side where x lies left of a, or right, all
    is positive, so that nothing cancels. Gauss-Legendre in sqrt(u), up to where the exponent is
    below -40.
    """
    nodes, shares = np.polynomial.legendre.leggauss(_NODES)
    places = to_tensor(((nodes + 1) / 2) ** 2)
    weights = to_tensor(shares * (nodes + 1) / 2)
    a, log_x = ops.unsqueeze(a, [-1]), ops.unsqueeze(log_x, [-1])
    x = ops.exp(log_x)
    is_below = x < a
    length = _reach(ops.stop_gradient(a), ops.stop_gradient(x), is_below)
    u = length * places
    v = ops.where(is_below, -u, u)
    size = ops.where(is_below, a - x, x - a)
    falls = ops.exp(-size * u - x * (ops.expm1(v) - v))
    digits = ops.digamma(a) - log_x
    rises = u + ops.where(is_below, digits, -digits)
    return ops.sum(falls * rises * (length * weights), [-1])


def _reach(a: Any, x: Any, is_below: Any) -> Any:
    """Where the exponent of ``_gamma_slope`` is below -40."""
    gap = ops.abs(a - x)
    near = 80 / (gap + ops.sqrt(gap * gap + (160 / 3) * x))
    left = ops.where(near <= 1, near, (40 + x) / a)
    floor = ops.where(is_below, 1.0, x)
    right = ops.minimum(near, ops.maximum(ops.log(160 / floor), 2.0))
    return ops.where(is_below, left, right)


@rules.decompose("standard_gamma")
@in_float32
def standard_gamma(key: Any, x: Any) -> Any:
    return ops.exp(ops.random_loggamma(key, x))


@rules.decompose("dirichlet")
@in_float32
def dirichlet(key: Any, alpha: Any) -> Any:
    """Gamma numbers over their sum, by their logarithms, so that small ones are no 0 / 0."""
    if not alpha.ndim:
        raise ShapeError(f"alpha needs an axis of alternatives, found {alpha.meta}")
    return ops.softmax(ops.random_loggamma(key, alpha), -1)


# -- poisson -----------------------------------------------------------------------------------
_FEW = 10.0  # means from which numbers are found by rejection


@rules.decompose("poisson")
def poisson(key: Any, x: Any) -> Any:
    """D. Knuth's products of uniform numbers for small means, W. Hoermann's transformed rejection
    ("The transformed rejection method for generating Poisson random variables", 1993) for others.
    """
    check_one_key(key)
    if not dt.is_float(x.dtype):
        raise DTypeError(f"x must have a float dtype, found {x.meta}; cast it")
    mean = as_dtype(x, dt.float64)
    is_small = mean < _FEW
    few = _few_events(key, ops.where(is_small, mean, 0.0))
    many = _many_events(key, ops.where(is_small | ops.logical_not(mean < math.inf), _FEW, mean))
    out = ops.where(is_small, few, many)
    is_mean = (mean >= 0) & (mean < math.inf)
    return as_dtype(ops.where(is_mean, out, math.nan), x.dtype)


def _few_events(key: Any, mean: Any) -> Any:
    """How many uniform numbers are multiplied before the product is below exp(-mean), less one."""
    dims = mean.meta.dims

    def step(key: Any, count: Any, total: Any, mean: Any) -> Any:
        key, subkey = rand.split_in(key, 2)
        goes_on = total > -mean
        u = ops.log(rand.unit_uniform(subkey, dims, dt.float32))
        return key, ops.where(goes_on, count + 1, count), total + ops.cast(u, mean.dtype)

    zeros = ops.full_like(mean, 0.0)
    start = (key, zeros, zeros)
    found = loop(lambda key, count, total, mean: ops.any(total > -mean), step, start, (mean,))
    return ops.maximum(found[1] - 1, 0.0)


def _many_events(key: Any, mean: Any) -> Any:
    dims, dtype = mean.meta.dims, mean.dtype
    b = 0.931 + 2.53 * ops.sqrt(mean)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def step(key: Any, out: Any, mean: Any, a: Any, b: Any, scale: Any, quick: Any) -> Any:
        key, *keys = rand.split_in(key, 3)
        u, v = (rand.unit_uniform(k, dims, dtype) for k in keys)
        u = u - 0.5
        inside = 0.5 - ops.abs(u)
        k = ops.floor((2 * a / inside + b) * u + mean + 0.43)
        is_sure = (inside >= 0.07) & (v <= quick)
        is_out = (k < 0) | ((inside < 0.013) & (v > inside))
        height = ops.log(v * scale / (a / (inside * inside) + b))
        fits = is_sure | (ops.logical_not(is_out) & (height <= _poisson_log(k, mean)))
        return key, ops.where((out < 0) & fits, k, out)

    start = (key, ops.full_like(mean, -1.0))
    return loop(lambda key, out, *_: ops.any(out < 0), step, start, (mean, a, b, scale, quick))[1]


def _poisson_log(k: Any, mean: Any) -> Any:
    """log(mean ** k exp(-mean) / k!), in which nothing large cancels."""
    k = ops.maximum(k, 0.0)
    gap = k - mean
    far = gap - k * ops.log1p(gap / mean) - 0.5 * ops.log(2 * math.pi * ops.maximum(k, 1.0))
    return ops.where(
        k < 10, k * ops.log(mean) - mean - ops.lgamma(k + 1), far - _stirling(ops.maximum(k, 10.0))
    )


def _stirling(k: Any) -> Any:
    """log(k!) - (k + 1 / 2) log(k) + k - log(2 pi) / 2, for k from 10."""
    r = 1 / (k * k)
    return (1 / 12 - (1 / 360 - (1 / 1260 - r / 1680) * r) * r) / k


# -- binomial ----------------------------------------------------------------------------------
@rules.decompose("binomial")
def binomial(key: Any, count: Any, prob: Any) -> Any:
    """Gaps between successes, which are geometric, where few are expected; else W. Hoermann's
    rejection ("The generation of binomial random variates", 1993). The rarer outcome is counted."""
    check_one_key(key)
    if dt.kind(count.dtype) not in ("int", "float") or not dt.is_float(prob.dtype):
        raise DTypeError(
            f"count is ints or floats and prob floats, found {count.meta} and {prob.meta}"
        )
    wide = dt.float64
    n, p = ops.broadcast_tensors([ops.floor(as_dtype(count, wide)), as_dtype(prob, wide)])
    is_valid = (n >= 0) & (n < math.inf) & (p >= 0) & (p <= 1)
    n, p = ops.where(is_valid, n, 0.0), ops.where(is_valid, p, 0.0)
    is_rare = p < 0.5
    q = ops.where(is_rare, p, 1 - p)
    is_few = n * q <= _FEW
    few = _few_successes(key, ops.where(is_few, n, 0.0), q)
    many = _many_successes(key, ops.where(is_few, 40.0, n), ops.where(is_few, 0.5, q))
    out = ops.where(is_few, few, many)
    out = ops.where(is_rare, out, n - out)
    return ops.cast(ops.where(is_valid, out, -1.0), dt.int64)


def _few_successes(key: Any, count: Any, prob: Any) -> Any:
    rate = ops.log1p(-prob)
    dims, dtype = prob.meta.dims, prob.dtype

    def step(key: Any, found: Any, tried: Any, count: Any, rate: Any) -> Any:
        subkey, key = rand.split_in(key, 2)
        goes_on = tried <= count
        gap = ops.ceil(ops.log(rand.unit_uniform(subkey, dims, dtype)) / rate)
        gap = ops.where(rate < 0, ops.maximum(gap, 1.0), math.inf)
        return key, ops.where(goes_on, found + 1, found), ops.where(goes_on, tried + gap, tried)

    zeros = ops.full_like(prob, 0.0)
    start = (key, zeros, zeros)
    return loop(lambda key, found, tried, count, rate: ops.any(tried <= count),
                step, start, (count, rate))[1] - 1  # fmt: skip


def _many_successes(key: Any, count: Any, prob: Any) -> Any:
    dims, dtype = prob.meta.dims, prob.dtype
    deviation = ops.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    alpha = (2.83 + 5.1 / b) * deviation
    odds = prob / (1 - prob)
    mode = ops.floor((count + 1) * prob)
    top = _log_choices(count, mode) + mode * ops.log(odds)

    def step(key: Any, out: Any, n: Any, p: Any, a: Any, b: Any, alpha: Any, odds: Any,
             top: Any) -> Any:  # fmt: skip
        key, *keys = rand.split_in(key, 3)
        u, v = (rand.unit_uniform(k, dims, dtype) for k in keys)
        u = u - 0.5
        inside = 0.5 - ops.abs(u)
        k = ops.floor((2 * a / inside + b) * u + n * p + 0.5)
        is_in = (k >= 0) & (k <= n)
        height = ops.log(v * alpha / (a / (inside * inside) + b))
        safe = ops.where(is_in, k, 0.0)
        limit = _log_choices(n, safe) + safe * ops.log(odds) - top
        is_sure = (inside >= 0.07) & (v <= 0.92 - 4.2 / b)
        return key, ops.where((out < 0) & (is_sure | (is_in & (height <= limit))), k, out)

    start = (key, ops.full_like(prob, -1.0))
    others = (count, prob, a, b, alpha, odds, top)
    return loop(lambda key, out, *_: ops.any(out < 0), step, start, others)[1]


def _log_choices(n: Any, k: Any) -> Any:
    """log of n over k."""
    return ops.lgamma(n + 1) - ops.lgamma(k + 1) - ops.lgamma(n - k + 1)


# -- choices among alternatives --------------------------------------------------------------------
def gumbel(key: Any, dims: Any, dtype: Any) -> Any:
    """Numbers with distribution function exp(-exp(-x)); float32 or float64."""
    u = rand.unit_uniform(key, dims, dtype)
    return -ops.log(-ops.log(ops.maximum(u, float(np.finfo(dtype).tiny))))


@rules.indices("multinomial")
def multinomial_values(key: Any, x: Any, num_samples: Any, replacement: bool) -> list[ValueRange]:
    return [Weights("x", drawn=1 if replacement or not dm.is_known(num_samples) else num_samples)]


@rules.decompose("multinomial")
def multinomial(key: Any, x: Any, num_samples: Any, replacement: bool) -> Any:
    """Gumbel numbers are added to the logarithms of the weights: the largest sums are drawn."""
    check_one_key(key)
    if x.ndim not in (1, 2):
        raise ShapeError(f"x is a vector of weights or a matrix of rows of them, found {x.meta}")
    if not dm.is_known(num_samples) or num_samples < 1:
        raise AttributeValueError(f"num_samples must be 1 or more, found {num_samples}")
    size = x.meta.dims[-1]
    if not replacement and isinstance(size, int) and num_samples > size:
        raise AttributeValueError(
            f"num_samples {num_samples} of {size} alternatives need replacement=True"
        )
    scores = ops.log(as_dtype(x, dt.promote(dt.float32, x.dtype)))
    if not replacement:
        scores = scores + gumbel(key, scores.meta.dims, scores.dtype)
        return ops.topk(scores, num_samples, -1, True, True)[1]
    rows = ops.unsqueeze(scores, [-2])
    dims = (*x.meta.dims[:-1], num_samples, size)
    return ops.argmax(rows + gumbel(key, dims, scores.dtype), -1)


@rules.decompose("gumbel_softmax")
@in_float32
def gumbel_softmax(key: Any, x: Any, temperature: Any, hard: bool, axis: int) -> Any:
    check_one_key(key)
    if not x.ndim:
        raise ShapeError(f"x needs an axis of alternatives, found {x.meta}")
    if not temperature > 0:
        raise AttributeValueError(f"temperature must be above 0, found {temperature}")
    noisy = (x + gumbel(key, x.meta.dims, x.dtype)) / temperature
    soft = ops.softmax(noisy, axis)
    if not hard:
        return soft
    number = ops.argmax(soft, axis, True)
    places = ops.arange(0, x.meta.dims[axis], 1, dt.int64)
    shape = [1] * x.ndim
    shape[axis] = x.meta.dims[axis]
    chosen = ops.cast(number == ops.reshape(places, shape), soft.dtype)
    return ops.stop_gradient(chosen - soft) + soft
