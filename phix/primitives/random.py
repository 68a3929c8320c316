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
    """The inverse of the cumulative normal at a point uniform between its values at the ends."""
    dtype = float_dtype(dtype)
    wide = _at_least_float32(dtype)
    mean, std, a, b = (as_dtype(v, wide) for v in (mean, std, a, b))
    low, high = (ops.erf((end - mean) / std * math.sqrt(0.5)) for end in (a, b))
    u = (open_uniform(key, shape, wide) + 1) * 0.5
    z = ops.erfinv(low + (high - low) * u) * math.sqrt(2)
    out = ops.minimum(ops.maximum(mean + std * z, a), b)
    return as_dtype(out, dtype)


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
