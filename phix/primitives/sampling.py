"""Random numbers in the shape of a tensor, and tensors in random order."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.primitives import random as rand
from phix.primitives.distributions import check_one_key
from phix.primitives.widening import as_dtype, in_float32


@rules.decompose("exponential_")
@in_float32
def exponential(key: Any, x: Any, lam: Any) -> Any:
    check_one_key(key)
    if not lam > 0:
        raise AttributeValueError(f"lam must be above 0, found {lam}")
    return -ops.log1p(-rand.unit_uniform(key, x.meta.dims, x.dtype)) / lam


@rules.decompose("gaussian_inplace")
def gaussian_inplace(key: Any, x: Any, mean: Any, std: Any) -> Any:
    check_one_key(key)
    return ops.gaussian(key, x.meta.dims, mean, std, x.dtype)


@rules.decompose("uniform_inplace")
def uniform_inplace(
    key: Any, x: Any, min: Any, max: Any, diag_num: int, diag_step: int, diag_val: Any
) -> Any:
    check_one_key(key)
    drawn = ops.uniform(key, x.meta.dims, x.dtype, min, max)
    return _with_diagonal(drawn, diag_num, diag_step, diag_val)


def _with_diagonal(x: Any, number: int, step: int, value: Any) -> Any:
    """``value`` at the places i * (step + 1) in C order, i below ``number``."""
    if number < 0 or step < 0:
        raise AttributeValueError(
            f"diag_num and diag_step must be 0 or more, found {number} and {step}"
        )
    if not number:
        return x
    size = math.prod(x.meta.dims)
    if dm.is_known(size) and (number - 1) * (step + 1) >= size:
        raise AttributeValueError(
            f"{number} places in steps of {step + 1} exceed the {size} elements there are"
        )
    places = ops.reshape(ops.arange(0, size, 1, dt.int64), x.meta.dims)
    is_on = (ops.remainder(places, step + 1) == 0) & (places < number * (step + 1))
    return ops.where(is_on, ops.full((), value, x.dtype), x)


@rules.decompose("uniform_random_batch_size_like")
def uniform_random_batch_size_like(
    key: Any, input: Any, shape: Any, input_dim_idx: int, output_dim_idx: int, min: Any, max: Any,
    diag_num: int, diag_step: int, diag_val: Any, dtype: Any,
) -> Any:  # fmt: skip
    check_one_key(key)
    dims = list(shape)
    for name, at, ndim in (
        ("input_dim_idx", input_dim_idx, input.ndim), ("output_dim_idx", output_dim_idx, len(dims))
    ):  # fmt: skip
        if not 0 <= at < ndim:
            raise AttributeValueError(f"{name} {at} is out of range for {ndim} axes")
    dims[output_dim_idx] = input.meta.dims[input_dim_idx]
    return _with_diagonal(
        ops.uniform(key, dims, rand.float_dtype(dtype), min, max), diag_num, diag_step, diag_val
    )


@rules.decompose("rrelu")
@in_float32
def rrelu(key: Any, x: Any, lower: Any, upper: Any, is_test: bool) -> Any:
    if not 0 <= lower <= upper <= 1:
        raise AttributeValueError(
            f"lower and upper must be 0 <= lower <= upper <= 1, found {lower} and {upper}"
        )
    if is_test:
        slope = ops.full_like(x, (lower + upper) / 2)
    elif key is None:
        raise ArgumentError(
            "rrelu needs a key in training, since there is no hidden random state: pass "
            "phix.random.key(seed) as key, or is_test=True"
        )
    else:
        check_one_key(key)
        slope = lower + (upper - lower) * rand.unit_uniform(key, x.meta.dims, x.dtype)
    noise = ops.stop_gradient(ops.where(x < 0, slope, 1.0))
    return x * noise, noise


@rules.decompose("shuffle_batch")
def shuffle_batch(x: Any, seed: Any, startup_seed: int) -> Any:
    check_one_key(seed)
    if not x.ndim:
        raise ShapeError(f"a 0-d tensor has no rows to shuffle, found {x.meta}")
    key, following = rand.split_in(seed, 2)
    rows = math.prod(x.meta.dims[:-1])
    order = ops.randperm(key, rows)
    flat = ops.reshape(x, (rows, x.meta.dims[-1]))
    return ops.reshape(ops.gather(flat, order, 0), x.meta.dims), order, following


@rules.decompose("random")
def random(key: Any, x: Any, low: int, high: int) -> Any:
    """Ints, or floats without a fraction."""
    check_one_key(key)
    if dt.kind(x.dtype) not in ("int", "float"):
        raise DTypeError(f"x must have an int or a float dtype, found {x.meta}")
    drawn = x.dtype if dt.kind(x.dtype) == "int" else dt.int64
    return as_dtype(ops.randint(key, low, high, x.meta.dims, drawn), x.dtype)
