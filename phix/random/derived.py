"""Distributions whose numbers are made of uniform, normal and gamma ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.api.custom import custom_jvp, stop_gradient
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, IntArrayLike
from phix.core.errors import DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.given import Kind, at_least, entries, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.random.draws import as_chance, bernoulli, exponential, normal, of_uniform
from phix.random.keys import split
from phix.random.shaped import gamma, loggamma, shaped

_ABOVE_0 = Kind("a number above 0", lambda v: isinstance(v, (int, float)) and v > 0)


def _two(key: Any) -> tuple[Any, Any]:
    first, second = ops.unbind(split(key), 0)
    return first, second


def _ints(dtype: DTypeLike) -> Any:
    found = dt.as_dtype(dtype)
    if found.kind not in "iu":
        raise DTypeError(f"dtype must be an int dtype, found {found}; cast the result instead")
    return found


# -- of uniform numbers ---------------------------------------------------------------------------
@takes()
def rademacher(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = "int64") -> Tensor:
    """1 or -1, one as likely as the other.

    Args:
        key: a key.
        shape: the shape of the result.
        dtype: any dtype of numbers with a sign.

    >>> import phix
    >>> phix.random.rademacher(phix.random.key(0), [1000]).abs().min().item()
    1
    """
    return 2 * ops.cast(bernoulli(key, 0.5, shape), dtype) - 1


@takes()
def geometric(
    key: TensorLike,
    p: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = "int64",
) -> Tensor:
    """How many trials it takes to the first success: k from 1 on has probability p (1 - p)^(k-1).

    Args:
        key: a key.
        p: the probability of success, in (0, 1]; broadcasts to ``shape``, its own by default.
        shape: the shape of the result.
        dtype: an int dtype.

    Raises:
        DTypeError: dtype is no int dtype.

    >>> import phix
    >>> phix.random.geometric(phix.random.key(0), 1.0, [3]).tolist()
    [1, 1, 1]
    """
    into = _ints(dtype)
    chance = as_chance(p)
    (chance,) = shaped(shape, chance.dtype, chance)
    failing = ops.log1p(-chance)
    draws = of_uniform(lambda u: ops.floor(ops.log(u) / failing), key, chance.meta.dims,
                       chance.dtype, "tiny")  # fmt: skip
    most = int(np.iinfo(into).max) - 1  # a float beyond it would become any int
    within = draws < float(most)
    counts = ops.cast(ops.where(within, draws, 0.0), into)
    return ops.where(within, counts, ops.full((), most, into)) + 1


@takes()
def pareto(
    key: TensorLike,
    b: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Numbers of density b / x ** (b + 1) for x >= 1; differentiable in b.

    Args:
        key: a key.
        b: above 0; broadcasts to ``shape``, its own by default.

    >>> import phix
    >>> phix.random.pareto(phix.random.key(0), 2.0, [100]).min().item() >= 1
    True
    """
    (power,) = shaped(shape, dtype, b)
    return ops.exp(exponential(key, power.meta.dims, power.dtype) / power)


@takes()
def rayleigh(
    key: TensorLike,
    scale: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Numbers of density x / scale^2 exp(-x^2 / (2 scale^2)), x >= 0; differentiable in scale.

    Args:
        key: a key.
        scale: above 0; broadcasts to ``shape``, its own by default.

    >>> import phix
    >>> phix.random.rayleigh(phix.random.key(0), 2.0, [100]).min().item() >= 0
    True
    """
    (by,) = shaped(shape, dtype, scale)
    root = of_uniform(lambda u: ops.sqrt(-2.0 * ops.log(u)), key, by.meta.dims, by.dtype, "tiny")
    return by * root


@takes()
def weibull_min(
    key: TensorLike,
    scale: TensorLike,
    concentration: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """scale times (-log(1 - u)) ** (1 / concentration), u uniform: Weibull's distribution.

    Args:
        key: a key.
        scale, concentration: above 0, differentiable; they broadcast to ``shape``.

    >>> import phix
    >>> phix.random.weibull_min(phix.random.key(0), 1.0, 2.0, [100]).min().item() >= 0
    True
    """
    by, power = shaped(shape, dtype, scale, concentration)
    return by * exponential(key, by.meta.dims, by.dtype) ** (1.0 / power)


@takes()
def triangular(
    key: TensorLike,
    left: TensorLike,
    mode: TensorLike,
    right: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Numbers in [left, right] of a density that rises to ``mode``, and falls from there.

    Args:
        key: a key.
        left, mode, right: left <= mode <= right, left < right; they broadcast to ``shape``.

    >>> import phix
    >>> x = phix.random.triangular(phix.random.key(0), 0.0, 1.0, 4.0, [100])
    >>> 0 <= x.min().item() and x.max().item() <= 4
    True
    """
    low, top, high = shaped(shape, dtype, left, mode, right)
    width = high - low

    def quantile(u: Any) -> Any:
        rises = u < (top - low) / width
        return ops.where(
            rises,
            low + ops.sqrt(ops.where(rises, u, 1.0) * width * (top - low)),
            high - ops.sqrt(ops.where(rises, 1.0, 1.0 - u) * width * (high - top)),
        )

    return of_uniform(quantile, key, low.meta.dims, low.dtype)


# -- of normal numbers ----------------------------------------------------------------------------
@takes()
def lognormal(
    key: TensorLike,
    sigma: TensorLike = 1.0,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """exp(sigma z), z standard normal; differentiable in sigma.

    Args:
        key: a key.
        sigma: broadcasts to ``shape``, its own by default.

    >>> import phix
    >>> phix.random.lognormal(phix.random.key(0), 0.5, [100]).min().item() > 0
    True
    """
    (by,) = shaped(shape, dtype, sigma)
    return ops.exp(by * normal(key, by.meta.dims, by.dtype))


@takes()
def maxwell(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = float) -> Tensor:
    """Lengths of standard normal vectors in space, of density sqrt(2 / pi) x^2 exp(-x^2 / 2).

    >>> import phix
    >>> phix.random.maxwell(phix.random.key(0), [100]).min().item() > 0
    True
    """
    z = normal(key, (*entries(shape, "shape"), 3), dtype)
    return ops.sqrt(ops.sum(z * z, -1))


@takes()
def double_sided_maxwell(
    key: TensorLike,
    loc: TensorLike,
    scale: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = float,
) -> Tensor:
    """loc plus or minus scale times numbers of :func:`maxwell`.

    Args:
        key: a key.
        loc, scale: broadcast in front of ``shape``: the result has both.

    >>> import phix
    >>> phix.random.double_sided_maxwell(phix.random.key(0), 1.0, 2.0, [3]).shape
    (3,)
    """
    middle, by = shaped(None, dtype, loc, scale)
    dims = (*middle.meta.dims, *entries(shape, "shape"))
    first, second = _two(key)
    apart = maxwell(first, dims, by.dtype) * rademacher(second, dims, by.dtype)
    behind = [*range(by.ndim, len(dims))]
    return ops.unsqueeze(middle, behind) + ops.unsqueeze(by, behind) * apart


@takes()
def wald(
    key: TensorLike,
    mean: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """The time in which a Brownian motion with drift 1 / mean first comes to 1: the inverse
    Gaussian distribution of scale 1.

    Args:
        key: a key.
        mean: above 0; broadcasts to ``shape``, its own by default.

    By the transformation of J. Michael, W. Schucany and R. Haas, "Generating random variates using
    transformations with multiple roots", 1976. The derivative by the mean is that of the quantile.

    >>> import phix
    >>> phix.random.wald(phix.random.key(0), 2.0, [100]).min().item() > 0
    True
    """
    (mu,) = shaped(shape, dtype, mean)
    first, second = _two(key)
    z = normal(first, mu.meta.dims, mu.dtype)
    part = mu * z * z
    # the smaller root of the two, without a difference of like numbers
    x = mu / (1.0 + 0.5 * part + ops.sqrt(part + 0.25 * part * part))
    drawn = of_uniform(
        lambda u: ops.where(u <= mu / (mu + x), x, mu * mu / x),
        second, mu.meta.dims, mu.dtype,
    )  # fmt: skip
    return _of_mean(stop_gradient(drawn), mu)


@custom_jvp
def _of_mean(drawn: Any, mu: Any) -> Any:
    """The number drawn, which moves with the mean as the quantile does.

    The steps that drew it choose between two roots, and how likely each is depends on the mean:
    derivatives of the root that was chosen do not have the slope of an expectation for their mean.
    """
    return drawn


@_of_mean.defjvp
def _by_mean(primals: Any, tangents: Any) -> Any:
    x = _of_mean(*primals)
    mu = primals[1]
    # -dF/dmu / F' with F' = phi(t) exp(2 / mu) / x^1.5 and -dF/dmu = 2 exp(2 / mu) ndtr(-t) / mu^2
    t = (x / mu + 1.0) / ops.sqrt(x)
    slope = x * ops.sqrt(x) / mu / mu * ops.erfcx(t * 0.5**0.5) * (2.0 * np.pi) ** 0.5
    return x, tangents[1] * slope


@takes(method=one_of("cholesky", "eigh", "svd"))
def multivariate_normal(
    key: TensorLike,
    mean: TensorLike,
    cov: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
    method: str = "cholesky",
) -> Tensor:
    """mean + F z with z standard normal and F F^T = cov; differentiable in both.

    Args:
        key: a key.
        mean: [..., n].
        cov: [..., n, n], symmetric, positive definite for "cholesky".
        shape: the dims in front of the last, to which those of mean and cov broadcast, as they do
            if none are given.
        dtype: a float dtype.
        method: what F is made by; "eigh" and "svd" take a cov of lower rank too.

    Raises:
        ShapeError: mean is no vector, cov no matrix of its size.

    >>> import phix
    >>> phix.random.multivariate_normal(phix.random.key(0), [1.0, 2.0], phix.eye(2), [5]).shape
    (5, 2)
    """
    (middle,), (matrix,) = shaped(None, dtype, mean), shaped(None, dtype, cov)
    refusal = (
        f"multivariate_normal takes mean [..., n] and cov [..., n, n], found {middle.meta} and "
        f"{matrix.meta}"
    )
    if middle.ndim < 1 or matrix.ndim < 2:
        raise ShapeError(refusal)
    size = middle.meta.dims[-1]
    matrix = expect_dims(matrix, refusal, (*matrix.meta.dims[:-2], size, size))
    if method == "cholesky":
        factor = ops.cholesky(matrix, False)
    elif method == "eigh":
        w, v = ops.eigh(matrix, "L")
        factor = v * ops.unsqueeze(ops.sqrt(ops.maximum(w, 0.0)), [-2])
    else:
        u, s, _ = ops.svd(matrix, False)
        factor = u * ops.unsqueeze(ops.sqrt(s), [-2])
    lead = entries(shape, "shape") if shape is not None else _lead(middle, factor)
    z = normal(key, (*lead, middle.meta.dims[-1]), middle.dtype)
    return middle + ops.squeeze(ops.matmul(factor, ops.unsqueeze(z, [-1])), [-1])


def _lead(mean: Any, factor: Any) -> Any:
    """The dims in front that a mean and a factor have together."""
    like = ops.broadcast_tensors([ops.sum(mean, [-1]), ops.sum(factor, [-2, -1])])[0]
    return like.meta.dims


@takes(n=at_least(0), m=Kind("an int from 0, or None", lambda v: v is None or at_least(0).holds(v)))
def orthogonal(
    key: TensorLike,
    n: int,
    shape: IntArrayLike = (),
    dtype: DTypeLike = float,
    m: int | None = None,
) -> Tensor:
    """Matrices [..., n, m] with orthonormal columns, or rows if n < m, no direction being likelier
    than another.

    The first factor of normal matrices z = Q R, of which the diagonal of R is above 0.

    Args:
        key: a key.
        n: rows.
        shape: dims in front.
        dtype: a float dtype.
        m: columns, by default n.

    >>> import phix
    >>> q = phix.random.orthogonal(phix.random.key(0), 3)
    >>> (q @ q.T - phix.eye(3)).abs().max().item() < 1e-5
    True
    """
    columns = n if m is None else m
    dims = (*entries(shape, "shape"), max(n, columns), min(n, columns))
    q, r = ops.qr(normal(key, dims, dtype), "reduced")
    q = q * ops.unsqueeze(ops.sign(ops.diagonal(r, 0, -2, -1)), [-2])
    if n >= columns:
        return q
    return ops.transpose(q, [*range(q.ndim - 2), q.ndim - 1, q.ndim - 2])


# -- of gamma numbers -----------------------------------------------------------------------------
@takes()
def chisquare(
    key: TensorLike,
    df: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Sums of df squares of standard normal numbers: twice gamma numbers of shape df / 2.

    Args:
        key: a key.
        df: above 0, differentiable; broadcasts to ``shape``, its own by default.

    >>> import phix
    >>> phix.random.chisquare(phix.random.key(0), 3.0, [2]).shape
    (2,)
    """
    (count,) = shaped(shape, dtype, df)
    return 2.0 * ops.exp(loggamma(key, 0.5 * count, None, count.dtype))


@takes()
def f(
    key: TensorLike,
    dfnum: TensorLike,
    dfden: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Quotients of two numbers of :func:`chisquare`, each divided by its degrees of freedom.

    Args:
        key: a key.
        dfnum, dfden: above 0, differentiable; they broadcast to ``shape``.

    >>> import phix
    >>> phix.random.f(phix.random.key(0), 3.0, 4.0, [2]).shape
    (2,)
    """
    above, below = shaped(shape, dtype, dfnum, dfden)
    of_below, of_above = _two(key)
    logs = (
        loggamma(own, 0.5 * df, None, df.dtype) - ops.log(df)
        for own, df in ((of_above, above), (of_below, below))
    )
    return ops.exp(next(logs) - next(logs))


@takes(p=_ABOVE_0)
def generalized_normal(
    key: TensorLike, p: float, shape: IntArrayLike = (), dtype: DTypeLike = float
) -> Tensor:
    """Numbers of density proportional to exp(-abs(x) ** p).

    Args:
        key: a key.
        p: a number above 0.
        shape: the shape of the result.
        dtype: a float dtype.

    >>> import phix
    >>> phix.random.generalized_normal(phix.random.key(0), 3.0, [2]).shape
    (2,)
    """
    first, second = _two(key)
    sizes = gamma(first, 1.0 / p, shape, dtype)
    return rademacher(second, shape, sizes.dtype) * sizes ** (1.0 / p)


@takes(d=at_least(1), p=_ABOVE_0)
def ball(
    key: TensorLike, d: int, p: float = 2, shape: IntArrayLike = (), dtype: DTypeLike = float
) -> Tensor:
    """Points uniform in the ball of points of d numbers with sum(abs(x) ** p) <= 1.

    Args:
        key: a key.
        d: numbers of a point.
        p: of the norm, above 0.
        shape: the dims in front of [d].
        dtype: a float dtype.

    By the construction of F. Barthe, O. Guedon, S. Mendelson and A. Naor, "A probabilistic approach
    to the geometry of the l_p^n-ball", 2005.

    >>> import phix
    >>> x = phix.random.ball(phix.random.key(0), 3, shape=[100])
    >>> (x * x).sum(axis=1).max().item() <= 1
    True
    """
    first, second = _two(key)
    dims = entries(shape, "shape")
    z = generalized_normal(first, p, (*dims, d), dtype)
    beside = exponential(second, dims, z.dtype)
    length = (ops.sum(ops.abs(z) ** float(p), -1) + beside) ** (1.0 / p)
    return z / ops.unsqueeze(length, [-1])


__all__ = [
    "ball", "chisquare", "double_sided_maxwell", "f", "generalized_normal", "geometric",
    "lognormal", "maxwell", "multivariate_normal", "orthogonal", "pareto", "rademacher", "rayleigh",
    "triangular", "wald", "weibull_min",
]  # fmt: skip
