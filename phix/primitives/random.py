"""Random numbers as functions of a key: all of them made of ``random_bits``.

A key is a uint32[2]; uint32[..., 2] holds many, and what is drawn has their dims in front.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.creation import check_shape


def check_key(key: MetaTensor) -> None:
    """Raise unless ``key`` is a tensor of keys."""
    if key.dtype != dt.uint32:
        raise DTypeError(f"a key is a uint32[2], found {key}; make one with phix.random.key(seed)")
    if not key.ndim or not dm.may_equal(key.dims[-1], 2):
        raise ShapeError(f"a key is a uint32[2], found {key}; make one with phix.random.key(seed)")


def float_dtype(dtype: Any) -> Any:
    """The dtype to draw floats of: the default float if none is asked for."""
    dtype = dtype or dt.default_float()
    if not dt.is_float(dtype):
        raise DTypeError(f"dtype must be a float dtype, found {dtype}; cast the result instead")
    return dtype


# -- random_bits -------------------------------------------------------------------------------
@rules.infer_meta("RandomBitsInferMeta")
def random_bits_meta(
    key: MetaTensor, shape: Any, bit_width: int, first: MetaTensor | None
) -> MetaTensor:
    check_key(key)
    check_shape(shape)
    if bit_width not in (32, 64):
        raise AttributeValueError(f"bit_width must be 32 or 64, found {bit_width}")
    if first is not None:
        if first.dtype != dt.int64:
            raise DTypeError(f"first must be int64, found {first}; cast it")
        keys = key.dims[:-1]
        if first.ndim != len(keys) or not all(map(dm.may_equal, first.dims, keys)):
            raise ShapeError(f"first is one number for each key, of {key}; found {first}")
    return MetaTensor((*key.dims[:-1], *shape), dt.uint32 if bit_width == 32 else dt.uint64)


@rules.batch("random_bits")
def random_bits_batch(batched: Any, key: Any, shape: Any, bit_width: int, first: Any) -> Any:
    if first is not None and not all(batched):
        lone, other = (first, key) if batched[0] else (key, first)
        spread = ops.expand(lone, (other.meta.dims[0], *lone.meta.dims))
        key, first = (key, spread) if batched[0] else (spread, first)
    return ops.random_bits(key, shape, bit_width, first)


def words_of(bits: Any) -> Any:
    """uint64 as two uint32 along a new last axis, the high one first."""
    return ops.stack([ops.cast(bits >> 32, dt.uint32), ops.cast(bits, dt.uint32)], -1)


def split(key: Any, shape: Any) -> Any:
    """New keys, of that shape and a last axis of two."""
    return words_of(ops.random_bits(key, shape, 64))


def split_in(key: Any, count: int) -> Any:
    """As many new keys, one by one."""
    return ops.unbind(split(key, (count,)), key.ndim - 1)


# Of a uniform number: how many random bits it is made of, of how many that are drawn.
_BITS_OF = {dt.float64: (52, 64), dt.float32: (23, 32), dt.float16: (10, 16), dt.bfloat16: (7, 8)}


def top_bits(key: Any, shape: Any, dtype: Any) -> tuple[Any, int]:
    """As many random bits as the mantissa of ``dtype`` has places, as an int, and their number."""
    bits, drawn = _BITS_OF[dtype]
    number = ops.random_bits(key, shape, max(drawn, 32))
    if drawn < 32:
        number = number & (2**drawn - 1)
    return ops.cast(number >> (drawn - bits), dt.int64), bits


def unit_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """Multiples of 2 ** -p in [0, 1), p the places of the mantissa."""
    number, bits = top_bits(key, shape, dtype)
    return ops.cast(number, dtype) * 2.0**-bits


def open_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """2 u - 1 for a uniform u, moved up by a quarter of its steps: none is -1 or 0."""
    number, bits = top_bits(key, shape, dtype)
    return ops.cast(number * 4 + (1 - 2 ** (bits + 1)), dtype) * 2.0 ** -(bits + 1)


def _at_least_float32(dtype: Any) -> Any:
    """Where many bits are needed: the 16-bit floats are drawn as float32 and rounded."""
    return dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype


def as_dtype(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else ops.cast(x, dtype)


# -- uniform, gaussian -------------------------------------------------------------------------
@rules.normalize("uniform")
def uniform_attrs(key: MetaTensor, shape: Any, dtype: Any, min: Any, max: Any, place: Any) -> Any:
    return shape, float_dtype(dtype), place


@rules.decompose("uniform")
def uniform(key: Any, shape: Any, dtype: Any, min: Any, max: Any, place: Any) -> Any:
    """min + (max - min) u; what rounding takes up to max goes to min, so max is left out.

    It is made of halves: the dtype holds (max - min) / 2 also where max - min overflows.
    """
    dtype = float_dtype(dtype)
    wide = _at_least_float32(dtype)
    low, high = as_dtype(min, wide), as_dtype(max, wide)
    u = as_dtype(unit_uniform(key, shape, dtype), wide)
    low, high = low * 0.5, high * 0.5
    out = as_dtype((low + (high - low) * u) * 2.0, dtype)
    low, high = as_dtype(min, dtype), as_dtype(max, dtype)
    return ops.where((out < high) | (low >= high), out, low)


def standard_normal(key: Any, shape: Any, dtype: Any) -> Any:
    """sqrt(2) erfinv(u), u uniform in (-1, 1)."""
    return ops.erfinv(open_uniform(key, shape, dtype)) * math.sqrt(2)


@rules.decompose("gaussian")
def gaussian(key: Any, shape: Any, mean: Any, std: Any, dtype: Any, place: Any) -> Any:
    """mean + std sqrt(2) erfinv(u), u uniform in (-1, 1)."""
    dtype = float_dtype(dtype)
    wide = _at_least_float32(dtype)
    z = standard_normal(key, shape, wide)
    return as_dtype(as_dtype(mean, wide) + as_dtype(std, wide) * z, dtype)


@rules.decompose("truncated_gaussian_random")
def truncated_gaussian(
    key: Any, shape: Any, mean: Any, std: Any, a: Any, b: Any, dtype: Any, place: Any
) -> Any:
    """The inverse of the cumulative normal at a point uniform between its values at the ends.

    An interval that lies mostly above 0 is mirrored, since the probabilities below a number far
    under 0 are told apart, those below one far above it are all 1.
    """
    dtype = float_dtype(dtype)
    wide = _at_least_float32(dtype)
    mean, std, a, b = (as_dtype(v, wide) for v in (mean, std, a, b))
    low, high = (_standardised(end, mean, std) for end in (a, b))
    is_above = low + high > 0
    low, high = ops.where(is_above, -high, low), ops.where(is_above, -low, high)
    v = open_uniform(key, shape, wide)
    v = ops.where(is_above, -v, v)
    holds_0 = high > 0
    # each way gets an interval it is made for where the other one is taken: no NaN comes of it
    around = between_around_0(v, ops.where(holds_0, low, -1.0), ops.where(holds_0, high, 1.0))
    width = ops.minimum(ops.maximum(high - low, 0.0), _MOST_WIDTH)
    below = _between_below_0(v, ops.where(holds_0, 1.0, width), ops.where(holds_0, -1.0, high))
    z = ops.where(holds_0, around, below)
    z = ops.where(is_above, -z, z)
    out = ops.minimum(ops.maximum(mean + std * z, a), b)
    return as_dtype(ops.where(a > b, math.nan, out), dtype)


def _standardised(end: Any, mean: Any, std: Any) -> Any:
    """(end - mean) / std; an end without end stays, and has no derivative to be NaN."""
    is_finite = ops.isfinite(end)
    return ops.where(is_finite, (ops.where(is_finite, end, mean) - mean) / std, end)


def between_around_0(v: Any, low: Any, high: Any) -> Any:
    """The normal number of [low, high] that v in (-1, 1) stands for, where low <= 0 <= high."""
    low, high = (ops.erf(end * math.sqrt(0.5)) for end in (low, high))
    point = (high + low) * 0.5 + (high - low) * 0.5 * v
    most = 1 - float(np.finfo(v.dtype).epsneg)  # rounding may take a point to 1, and that to inf
    return ops.erfinv(ops.minimum(ops.maximum(point, -most), most)) * math.sqrt(2)


# Of what lies below a number under 0, less than exp(-15^2 / 2) lies 15 below it: never drawn.
_MOST_WIDTH = 15.0
_STEPS = 3  # the error of one is as the third power of that before; after 3, below 1e-15


def _between_below_0(v: Any, width: Any, high: Any) -> Any:
    """The normal number of [high - width, high] that v in (-1, 1) stands for, where high <= 0.

    With F the logarithm of the cumulative normal, F(high - w) - F(high) is to be the logarithm of
    the part of the interval's probability that lies below; it goes from 0 down, so that nothing
    cancels however far out the interval lies. Each step solves the quadratic that has the value,
    the slope m and the curvature -m (m + z) of F at z = high - w, to which F is close.
    """
    top = ops.erfcx(high * -math.sqrt(0.5))

    def risen(w: Any, scaled: Any) -> Any:
        """F(high - w) - F(high), with erfcx of the one point; that of the other is ``top``."""
        return w * (high - 0.5 * w) + ops.log(scaled / top)

    def scaled(w: Any) -> Any:
        return ops.erfcx((w - high) * math.sqrt(0.5))

    def step(excess: Any, scaled: Any, z: Any) -> Any:
        m = math.sqrt(2 / math.pi) / scaled
        return 2 * excess / (m + ops.sqrt(ops.maximum(m * m + 2 * m * (m + z) * excess, 0.0)))

    wanted = _log_mixed(v, risen(width, scaled(width)))
    w = step(-wanted, top, high)
    for _ in range(_STEPS - 1):
        at = scaled(w)
        w = w + step(risen(w, at) - wanted, at, high - w)
    return high - ops.minimum(ops.maximum(w, 0.0), width)


def _log_mixed(v: Any, least: Any) -> Any:
    """log(u + (1 - u) exp(least)) with u = (1 + v) / 2, for least <= 0."""
    u, rest = 0.5 + 0.5 * v, 0.5 - 0.5 * v
    near = ops.log1p(rest * ops.expm1(ops.maximum(least, -1.0)))
    return ops.where(least > -1, near, ops.log(u + rest * ops.exp(least)))


# -- randint, bernoulli, randperm --------------------------------------------------------------
@rules.normalize("randint")
def randint_attrs(key: MetaTensor, low: int, high: int, shape: Any, dtype: Any, place: Any) -> Any:
    dtype = dtype or dt.int64
    if dt.kind(dtype) != "int":
        raise DTypeError(f"dtype must be an int dtype, found {dtype}; cast the result instead")
    limits = np.iinfo(dtype)
    if not limits.min <= low < high <= limits.max + 1:
        raise AttributeValueError(
            f"low {low} and high {high} must be low < high within {dtype}; high is left out"
        )
    return low, high, shape, dtype, place


@rules.decompose("randint")
def randint(key: Any, low: int, high: int, shape: Any, dtype: Any, place: Any) -> Any:
    """Two draws of w bits as one number of 2 w bits, modulo high - low.

    What exceeds w bits on the way is lost, and with it the upper draw where high - low is above
    2 ** (w / 2). All is computed modulo 2 ** w.
    """
    width = max(np.dtype(dtype).itemsize * 8, 32)
    whole, span = 2**width, high - low
    unsigned = dt.uint32 if width == 32 else dt.uint64
    upper, lower = (ops.random_bits(k, shape, width) for k in split_in(key, 2))
    offset = lower
    if span < whole:
        values = ops.full((), span, unsigned)
        factor = (2 ** (width // 2) % span) ** 2 % whole % span
        offset = ops.remainder(lower, values)
        if factor:
            high_part = ops.remainder(upper, values) * ops.full((), factor, unsigned)
            offset = ops.remainder(high_part + offset, values)
    return ops.cast(offset + ops.full((), low % whole, unsigned), dtype)


@rules.decompose("bernoulli")
def bernoulli(key: Any, x: Any) -> Any:
    return ops.cast(unit_uniform(key, x.meta.dims, _at_least_float32(x.dtype)) < x, x.dtype)


# Of a permutation: up to how many numbers one, two and three rounds of sorting suffice, so that two
# have equal bits in all of them with a chance below that of one in their number.
_MOST_OF_ROUNDS = (1625, 2642245)


@rules.decompose("randperm")
def randperm(key: Any, n: Any, dtype: Any, place: Any) -> Any:
    """Sorted by 32 random bits each, and sorted again by others where there are many."""
    check_key(key.meta)
    numbers = shuffled(key, ops.arange(0, n, 1, dt.int64), n, 0)
    return as_dtype(numbers, dtype or dt.int64)


def shuffled(key: Any, x: Any, size: Any, axis: int) -> Any:
    """``x``, of ``size`` elements in all, shuffled along an axis, each vector on its own."""
    if isinstance(size, int):
        rounds = 0 if size <= 1 else 1 + sum(size > most for most in _MOST_OF_ROUNDS)
        for _ in range(rounds):
            key, x = _sorted_once(key, x, axis)
        return x
    out = x
    for most in (1, *_MOST_OF_ROUNDS):
        key, x = _sorted_once(key, x, axis)
        out = ops.where(ops.full((), size, dt.int64) > most, x, out)
    return out


def _sorted_once(key: Any, x: Any, axis: int) -> tuple[Any, Any]:
    key, subkey = split_in(key, 2)
    order = ops.argsort(ops.random_bits(subkey, x.meta.dims, 32), axis, False, True)[1]
    return key, ops.take_along_axis(x, order, axis)
