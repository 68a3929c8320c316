"""Draws that are functions of uniform numbers, and ints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, IntArrayLike
from phix.core.conversion import owned_tensor, to_tensor
from phix.core.errors import AttributeValueError, DTypeError
from phix.core.given import BOUND, Kind, is_int, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.random.keys import split


def as_tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else owned_tensor(value)


def with_digits(value: Any, dtype: Any) -> Any:
    """A parameter of draws in a dtype: Python's numbers keep the digits that it has."""
    with np.errstate(over="ignore"):  # too large for float32: not short
        is_short = isinstance(value, float) and float(np.float32(value)) == value
    if isinstance(value, (float, list, tuple)) and not is_short:
        return to_tensor(value, dtype) if dt.as_dtype(dtype) == dt.float64 else value
    return value


@takes()
def uniform(
    key: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = float,
    min: TensorLike = 0.0,
    max: TensorLike = 1.0,
) -> Tensor:
    """Numbers uniform in [min, max).

    Args:
        key: a key.
        shape: the shape of the result.
        dtype: a float dtype.
        min, max: the bounds; tensors that broadcast to ``shape``, and differentiable:
            out = min + (max - min) * u.

    >>> import phix
    >>> phix.random.uniform(phix.random.key(0), [2, 3]).shape
    (2, 3)
    """
    return ops.uniform(key, shape, dtype, with_digits(min, dtype), with_digits(max, dtype))


@takes()
def normal(
    key: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = float,
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
) -> Tensor:
    """Normal numbers, mean + std * z with z standard normal; differentiable in mean and std.

    Args:
        key: a key.
        shape: the shape of the result.
        dtype: a float dtype.
        mean, std: tensors that broadcast to ``shape``.

    >>> import phix
    >>> x = phix.random.normal(phix.random.key(0), [10000])
    >>> abs(x.mean().item()) < 0.05
    True
    """
    return ops.gaussian(key, shape, with_digits(mean, dtype), with_digits(std, dtype), dtype)


@takes()
def truncated_normal(
    key: TensorLike,
    lower: TensorLike,
    upper: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = float,
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
) -> Tensor:
    """Normal numbers given that they lie in [lower, upper]; NaN where that is empty.

    Raises:
        AttributeValueError: lower is above upper, of numbers of Python.

    >>> import phix
    >>> x = phix.random.truncated_normal(phix.random.key(0), -1.0, 1.0, [1000])
    >>> x.abs().max().item() <= 1
    True
    """
    if isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and lower > upper:
        raise AttributeValueError(
            f"truncated_normal: nothing lies between lower={lower!r:.80} and upper={upper!r:.80}; "
            "lower must not be above upper"
        )
    mean, std, lower, upper = (with_digits(x, dtype) for x in (mean, std, lower, upper))
    return ops.truncated_gaussian_random(key, shape, mean, std, lower, upper, dtype)


_LOW = Kind(
    "an int or a tensor of ints (the shape stands last: randint(key, low, high, shape))",
    lambda v: is_int(v) or _are_ints(v),
)
_HIGH = Kind("an int or a tensor of ints", lambda v: BOUND.holds(v) or _are_ints(v))


def _are_ints(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu"
    return isinstance(value, TensorBase) and dt.kind(value.dtype) == "int"


def _within(bound: Any, dtype: np.dtype, above: int) -> Any:
    """A bound, at the limits of the dtype if it is beyond them; so many ``above`` the most are not,
    where int64 holds them."""
    bound, limits = as_tensor(bound), np.iinfo(dtype)
    most = limits.max + (above if dtype.itemsize < 8 else 0)
    if bound.dtype == dt.uint64:
        return ops.minimum(bound, ops.full((), most, dt.uint64))
    bound = ops.cast(bound, dt.int64)
    if dtype.itemsize < 8:
        return ops.clip(bound, limits.min, most)
    return ops.maximum(bound, ops.full((), 0, dt.int64)) if dtype == dt.uint64 else bound


def _between_tensors(key: Any, low: Any, high: Any, shape: Any, dtype: np.dtype) -> Any:
    """As the op of whole numbers does it: two draws of w bits as one number, modulo high - low."""
    if dt.kind(dtype) != "int":
        raise DTypeError(
            f"randint: dtype must be an int dtype, found {dtype}; cast the result instead"
        )
    width = max(dtype.itemsize * 8, 32)
    unsigned, wide = (dt.uint32, dt.int64) if width == 32 else (dt.uint64, dtype)
    low, high = (ops.cast(_within(b, dtype, n), wide) for n, b in enumerate((low, high)))
    start = ops.cast(low, unsigned)
    span = ops.where(low < high, ops.cast(high, unsigned) - start, ops.full((), 1, unsigned))
    upper, lower = (ops.random_bits(k, shape, width) for k in split(key))
    is_whole = span == 0  # 2 ** w
    span = ops.where(is_whole, ops.full((), 1, unsigned), span)
    half = ops.remainder(ops.full((), 2 ** (width // 2), unsigned), span)
    high_part = ops.remainder(upper, span) * ops.remainder(half * half, span)
    offset = ops.remainder(high_part + ops.remainder(lower, span), span)
    return ops.cast(ops.expand(ops.where(is_whole, lower, offset) + start, shape), dtype)


@takes(low=_LOW, high=_HIGH)
def randint(
    key: TensorLike,
    low: TensorLike,
    high: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = "int64",
) -> Tensor:
    """Ints uniform in [low, high), no value likelier than another by more than a part in
    2 ** 64 / (high - low).

    Args:
        key: a key.
        low, high: ints, low < high, both within the dtype (high may be one above it); or tensors
            of ints that broadcast to ``shape``, at the limits of the dtype where they are beyond
            them. Where such a low is not below high, the result is low.
        shape: the shape of the result.
        dtype: an int dtype.

    >>> import phix
    >>> x = phix.random.randint(phix.random.key(0), 1, 7, [1000])
    >>> x.min().item(), x.max().item()
    (1, 6)
    """
    bounds: tuple[Any, Any] = low, high
    if is_int(low) and BOUND.holds(high):
        return ops.randint(key, *bounds, shape, dtype)
    return _between_tensors(key, *bounds, shape, dt.as_dtype(dtype))


def as_chance(p: TensorLike) -> Any:
    """A probability as a tensor of floats."""
    chance = as_tensor(p)
    return chance if dt.is_float(chance.dtype) else ops.cast(chance, dt.default_float())


@takes()
def bernoulli(key: TensorLike, p: TensorLike = 0.5, shape: IntArrayLike | None = None) -> Tensor:
    """True with probability p; the shape is that of p, or ``shape``, to which p broadcasts.

    >>> import phix
    >>> phix.random.bernoulli(phix.random.key(0), [0.0, 1.0]).tolist()
    [False, True]
    """
    chance = as_chance(p)
    return ops.bernoulli(key, chance if shape is None else ops.expand(chance, shape)) != 0


def of_uniform(function: Any, key: Any, shape: Any, dtype: Any, least: Any = None) -> Any:
    """A function of uniform numbers of at least float32; 0 is taken for ``least``, if given.

    ``least`` is an attribute of np.finfo, so that no logarithm of 0 is taken.
    """
    dtype = dt.as_dtype(dtype)
    wide = dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype
    u = ops.uniform(key, shape, wide, 0.0, 1.0)
    if least is not None:
        u = ops.maximum(u, float(getattr(np.finfo(wide), least)))
    return ops.cast(function(u), dtype)


@takes()
def exponential(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = float) -> Tensor:
    """Numbers with density exp(-x) for x >= 0.

    >>> import phix
    >>> phix.random.exponential(phix.random.key(0), [1000]).min().item() >= 0
    True
    """
    return of_uniform(lambda u: -ops.log1p(-u), key, shape, dtype)


@takes()
def gumbel(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = float) -> Tensor:
    """Numbers with distribution function exp(-exp(-x)).

    >>> import phix
    >>> phix.random.gumbel(phix.random.key(0), [2, 3]).shape
    (2, 3)
    """
    return of_uniform(lambda u: -ops.log(-ops.log(u)), key, shape, dtype, "tiny")


@takes()
def laplace(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = float) -> Tensor:
    """Numbers with density exp(-abs(x)) / 2.

    >>> import phix
    >>> phix.random.laplace(phix.random.key(0), [2, 3]).shape
    (2, 3)
    """

    def quantile(u: Any) -> Any:
        v = 2.0 * u - (1.0 - float(np.finfo(u.dtype).epsneg))
        return ops.sign(v) * ops.log1p(-ops.abs(v))

    return of_uniform(quantile, key, shape, dtype)


@takes()
def logistic(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = float) -> Tensor:
    """Numbers with distribution function 1 / (1 + exp(-x)).

    >>> import phix
    >>> phix.random.logistic(phix.random.key(0), [2, 3]).shape
    (2, 3)
    """
    return of_uniform(lambda u: ops.log(u) - ops.log1p(-u), key, shape, dtype, "tiny")


@takes()
def cauchy(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = float) -> Tensor:
    """Numbers with density 1 / (pi * (1 + x ** 2)).

    >>> import phix
    >>> phix.random.cauchy(phix.random.key(0), [2, 3]).shape
    (2, 3)
    """
    return of_uniform(lambda u: ops.tan(math.pi * (u - 0.5)), key, shape, dtype, "eps")
