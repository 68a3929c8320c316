"""Distributions with a shape parameter, made of gamma numbers."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, IntArrayLike
from phix.core.errors import DTypeError
from phix.core.given import entries, takes
from phix.core.tensor import Tensor, TensorLike
from phix.random.draws import as_tensor, with_digits
from phix.random.keys import split


def shaped(shape: Any, dtype: Any, *parameters: Any) -> list[Any]:
    """Parameters in that dtype, and in that shape or the one they broadcast to."""
    dtype = dt.as_dtype(dtype)
    if not dt.is_float(dtype):
        raise DTypeError(f"dtype must be a float dtype, found {dtype}; cast the result instead")
    found = [ops.cast(as_tensor(with_digits(p, dtype)), dtype) for p in parameters]
    if shape is None:
        return list(ops.broadcast_tensors(found)) if len(found) > 1 else found
    return [ops.expand(p, shape) for p in found]


@takes()
def gamma(
    key: TensorLike,
    a: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Gamma numbers of density x ** (a - 1) * exp(-x) / gamma(a).

    Differentiable in a: what lies below a number stays the same part. So are those made of them.

    Args:
        key: a key.
        a: the shape of the distribution, above 0; broadcasts to ``shape``, which is its own if
            none is given.

    >>> import phix
    >>> phix.random.gamma(phix.random.key(0), 2.0, [3]).shape
    (3,)
    """
    return ops.standard_gamma(key, *shaped(shape, dtype, a))


@takes()
def loggamma(
    key: TensorLike,
    a: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """The logarithm of :func:`gamma`, finite also where that is 0 by rounding, for a small a.

    >>> import phix
    >>> phix.random.loggamma(phix.random.key(0), 1e-6).item() < -1000
    True
    """
    return ops.random_loggamma(key, *shaped(shape, dtype, a))


@takes()
def beta(
    key: TensorLike,
    a: TensorLike,
    b: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Numbers of density proportional to x ** (a - 1) * (1 - x) ** (b - 1) in [0, 1].

    >>> import phix
    >>> 0 <= phix.random.beta(phix.random.key(0), 0.5, 2.0).item() <= 1
    True
    """
    left, right = ops.unbind(split(key), 0)
    a, b = shaped(shape, dtype, a, b)
    return ops.sigmoid(ops.random_loggamma(left, a) - ops.random_loggamma(right, b))


@takes()
def dirichlet(
    key: TensorLike,
    alpha: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Probabilities p that add to 1 along the last axis, density proportional to
    prod(p ** (alpha - 1)).

    Args:
        key: a key.
        alpha: [..., n], above 0.
        shape: the dims in front of the last; those of alpha if none are given.

    >>> import phix
    >>> phix.random.dirichlet(phix.random.key(0), [1.0, 2.0, 3.0], [4]).shape
    (4, 3)
    """
    weights = as_tensor(alpha)
    if shape is not None and weights.ndim:
        shape = (*entries(shape, "shape"), weights.meta.dims[-1])
    return ops.dirichlet(key, *shaped(shape, dtype, weights))


@takes()
def t(
    key: TensorLike,
    df: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """Student's t of df degrees of freedom, z * sqrt(df / (2 * g)) with z normal and g gamma of
    shape df / 2.

    >>> import phix
    >>> phix.random.t(phix.random.key(0), 3.0, [2]).shape
    (2,)
    """
    first, second = ops.unbind(split(key), 0)
    (half,) = shaped(shape, dtype, df)
    half = half * 0.5
    z = ops.gaussian(first, half.meta.dims, 0.0, 1.0, half.dtype)
    return z * ops.exp(0.5 * (ops.log(half) - ops.random_loggamma(second, half)))
