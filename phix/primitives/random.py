"""Random numbers as functions of a key: all of them made of ``random_bits``.

A key is a uint32[2]; uint32[..., 2] holds many, and what is drawn has their dims in front.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
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
    dtype = dtype or dt.DEFAULT_FLOAT
    if not dt.is_float(dtype):
        raise DTypeError(f"dtype must be a float dtype, found {dtype}; cast the result instead")
    return dtype


# -- random_bits -------------------------------------------------------------------------------
@rules.infer_meta("RandomBitsInferMeta")
def random_bits_meta(key: MetaTensor, shape: Any, bit_width: int) -> MetaTensor:
    check_key(key)
    check_shape(shape)
    if bit_width not in (32, 64):
        raise AttributeValueError(f"bit_width must be 32 or 64, found {bit_width}")
    return MetaTensor((*key.dims[:-1], *shape), dt.uint32 if bit_width == 32 else dt.uint64)


@rules.batch("random_bits")
def random_bits_batch(batched: Any, key: Any, shape: Any, bit_width: int) -> Any:
    return ops.random_bits(key, shape, bit_width)


def _mantissa_bits(dtype: Any) -> int:
    return int(ml_dtypes.finfo(dtype).nmant) + 1


def top_bits(key: Any, shape: Any, dtype: Any) -> tuple[Any, int]:
    """As many random bits as a float of ``dtype`` holds exactly, as an int, and their number."""
    bits = _mantissa_bits(dtype)
    width = 64 if bits > 32 else 32
    drawn = ops.random_bits(key, shape, width)
    return ops.cast(drawn >> (width - bits), dt.int64), bits


def unit_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """Multiples of 2 ** -p in [0, 1), p the bits of the mantissa."""
    number, bits = top_bits(key, shape, dtype)
    return ops.cast(number, dtype) * 2.0**-bits


def open_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """Odd multiples of 2 ** -p in (-1, 1): symmetric, and never an end or 0."""
    number, bits = top_bits(key, shape, dtype)
    return ops.cast(number + number + (1 - 2**bits), dtype) * 2.0**-bits


def _at_least_float32(dtype: Any) -> Any:
    """Where many bits are needed: the 16-bit floats are drawn as float32 and rounded."""
    return dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype


def as_dtype(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else ops.cast(x, dtype)


# -- uniform, gaussian -------------------------------------------------------------------------
@rules.decompose("uniform")
def uniform(key: Any, shape: Any, dtype: Any, min: Any, max: Any, place: Any) -> Any:
    """min + (max - min) u; what rounding takes up to max goes to min, so max is left out."""
    dtype = float_dtype(dtype)
    wide = _at_least_float32(dtype)
    low, high = as_dtype(min, wide), as_dtype(max, wide)
    out = as_dtype(low + (high - low) * unit_uniform(key, shape, wide), dtype)
    low, high = as_dtype(min, dtype), as_dtype(max, dtype)
    return ops.where((out < high) | (low >= high), out, low)


@rules.decompose("gaussian")
def gaussian(key: Any, shape: Any, mean: Any, std: Any, dtype: Any, place: Any) -> Any:
    """mean + std sqrt(2) erfinv(u), u uniform in (-1, 1)."""
    dtype = float_dtype(dtype)
    wide = _at_least_float32(dtype)
    z = ops.erfinv(open_uniform(key, shape, wide)) * math.sqrt(2)
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
    return as_dtype(out, dtype)


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
    """64 random bits modulo high - low, then low added modulo 2 ** 64."""
    bits = ops.random_bits(key, shape, 64)
    if high - low < 2**64:
        bits = ops.remainder(bits, ops.full((), high - low, dt.uint64))
    return ops.cast(bits + ops.full((), low % 2**64, dt.uint64), dtype)


@rules.decompose("bernoulli")
def bernoulli(key: Any, x: Any) -> Any:
    return ops.cast(unit_uniform(key, x.meta.dims, _at_least_float32(x.dtype)) < x, x.dtype)


@rules.decompose("randperm")
def randperm(key: Any, n: Any, dtype: Any, place: Any) -> Any:
    """The order of n 63-bit random numbers; two are equal with a chance below n^2 / 2^64."""
    numbers = ops.cast(ops.random_bits(key, (n,), 64) >> 1, dt.int64)
    return as_dtype(ops.argsort(numbers, -1)[1], dtype or dt.int64)
