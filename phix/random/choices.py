"""Counts, choices among alternatives, and orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.api.control_flow import scan
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, IntArrayLike
from phix.core.axes import axis_of
from phix.core.errors import ArgumentError, ShapeError, described
from phix.core.expectations import expect_dims
from phix.core.given import entries, is_int, takes
from phix.core.tensor import Tensor, TensorLike
from phix.random.draws import as_tensor, gumbel
from phix.random.keys import words
from phix.random.shaped import shaped


@takes()
def poisson(
    key: TensorLike,
    lam: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = "int64",
) -> Tensor:
    """How many events there are where lam are expected: k with probability
    lam ** k * exp(-lam) / k!; -1 where lam is no finite number from 0, NaN in a float dtype.

    >>> import phix
    >>> phix.random.poisson(phix.random.key(0), 4.0, [1000]).min().item() >= 0
    True
    """
    (mean,) = shaped(shape, dt.float64, lam)
    drawn, dtype = ops.poisson(key, mean), dt.as_dtype(dtype)
    if dt.kind(dtype) == "int":
        drawn = ops.where(ops.isnan(drawn), -1.0, drawn)
    return ops.cast(drawn, dtype)


@takes()
def binomial(
    key: TensorLike,
    n: TensorLike,
    p: TensorLike,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """How many of n trials succeed, each with probability p; NaN (-1 in an int dtype) where n is
    negative or not finite, or p no probability.

    >>> import phix
    >>> phix.random.binomial(phix.random.key(0), 10, [0.0, 1.0]).tolist()
    [0.0, 10.0]
    """
    drawn, dtype = ops.binomial(key, *shaped(shape, dt.float64, n, p)), dt.as_dtype(dtype)
    found = ops.cast(drawn, dtype)
    return ops.where(drawn < 0, math.nan, found) if dt.is_float(dtype) else found


@takes()
def multinomial(
    key: TensorLike,
    n: TensorLike,
    p: TensorLike,
    *,
    shape: IntArrayLike | None = None,
    dtype: DTypeLike = float,
) -> Tensor:
    """How often each of the outcomes along the last axis of p comes in n trials.

    Args:
        key: a key.
        n: how many trials; broadcasts to the dims of p but the last.
        p: [..., k], the probabilities of the outcomes.
        shape: the dims of the result, the last one k; those of p if none are given.

    >>> import phix
    >>> phix.random.multinomial(phix.random.key(0), 10, [0.2, 0.3, 0.5]).sum().item()
    10.0
    """
    (chances,) = shaped(shape, dt.float64, p)
    if not chances.ndim:
        raise ShapeError(f"p needs an axis of outcomes, found {chances.meta}")
    left = ops.flip(ops.cumsum(ops.flip(chances, [-1]), -1), [-1])
    parts = ops.minimum(chances / ops.where(left == 0, 1.0, left), 1.0)
    count = chances.meta.dims[-1]
    trials = ops.expand(ops.cast(as_tensor(n), dt.float64), chances.meta.dims[:-1])
    order = [chances.ndim - 1, *range(chances.ndim - 1)]

    def draw(rest: Any, row: Any) -> Any:
        part, own = row
        drawn = ops.cast(ops.binomial(own, rest, part), dt.float64)
        return rest - drawn, drawn

    rows = (ops.transpose(parts, order), ops.random_bits(key, (count,), 64))
    keyed = (rows[0], words(rows[1]))
    drawn = scan(draw, trials, keyed)[1]
    return ops.cast(ops.transpose(drawn, [*range(1, chances.ndim), 0]), dtype)


@takes()
def categorical(
    key: TensorLike, logits: TensorLike, axis: int = -1, shape: IntArrayLike | None = None
) -> Tensor:
    """Indices k with probability proportional to exp(logits[k]) along ``axis``; int64.

    Args:
        key: a key.
        logits: unnormalised log probabilities.
        axis: the axis of ``logits`` that holds the alternatives.
        shape: the shape of the result; that of ``logits`` without ``axis`` broadcasts to it, and
            is taken if none is given.

    >>> import phix
    >>> phix.random.categorical(phix.random.key(0), [0.0, 100.0]).item()
    1
    """
    scores = as_tensor(logits)
    if not scores.ndim:
        raise ShapeError(f"logits need an axis of alternatives, found {scores.meta}")
    back = axis_of(axis, scores.ndim) - scores.ndim  # counted from the end, where shape ends too
    dims = list(scores.meta.dims)
    if shape is not None:
        dims = list(entries(shape, "shape"))
        dims.insert(len(dims) + back + 1, scores.meta.dims[axis])
    return ops.argmax(scores + gumbel(key, dims, scores.dtype), back)


@takes()
def permutation(
    key: TensorLike, x: int | TensorLike, axis: int = 0, independent: bool = False
) -> Tensor:
    """The numbers 0, ..., x - 1 in random order; of a tensor its slices along ``axis``.

    Args:
        key: a key.
        x: an int, or a tensor to shuffle.
        axis: the axis to shuffle along; every slice stays whole, unless
        independent: each vector along the axis is shuffled by itself.

    >>> import phix
    >>> sorted(phix.random.permutation(phix.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, (int, dm.Dim)):
        return ops.randperm(key, x)
    tensor = as_tensor(x)
    if not tensor.ndim:
        raise ShapeError(f"a 0-d tensor has no slices to shuffle, found {tensor.meta}")
    axis = axis_of(axis, tensor.ndim)
    if independent:
        scores = ops.random_bits(key, tensor.meta.dims, 64)
        return ops.take_along_axis(tensor, ops.argsort(scores, axis)[1], axis)
    return ops.gather(tensor, ops.randperm(key, tensor.meta.dims[axis]), axis)


@takes()
def choice(
    key: TensorLike,
    a: int | TensorLike,
    shape: IntArrayLike = (),
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Entries of a, or of 0, ..., a - 1 for an int, drawn at random.

    Args:
        key: a key.
        a: an int, or a tensor, of which slices along ``axis`` are drawn.
        shape: how many, as a shape; it stands in the place of ``axis`` in the result.
        replace: whether one may be drawn more than once.
        p: the probabilities, a vector; all are the same if none are given. Their sum is taken
            for 1. Where they are traced, nobody looks whether they are probabilities.

    Raises:
        ShapeError: more are drawn without repetition than there are, or p has another size.
        ArgumentError: p has negative numbers or NaN, or too few are above 0.

    >>> import phix
    >>> phix.random.choice(phix.random.key(0), 5, [3], replace=False).shape
    (3,)
    """
    tensor = None if isinstance(a, (int, dm.Dim)) else as_tensor(a)
    axis = 0 if tensor is None else axis_of(axis, tensor.ndim)
    size: Any = a if tensor is None else tensor.meta.dims[axis]
    dims = entries(shape, "shape")
    if not all(isinstance(d, dm.Dim) or (is_int(d) and d >= 0) for d in dims):
        raise ArgumentError(f"shape is sizes, ints from 0, found {described(shape)}")
    count = math.prod(dims)
    if dm.is_known(size, count) and (size < 1 or (not replace and count > size)) and count:
        raise ShapeError(
            f"{count} of {size} entries {'' if replace else 'without repetition '}are asked for; "
            "draw fewer"
        )
    places = _places(key, size, dims, count, replace, p)
    if tensor is None:
        return ops.reshape(places, dims)
    before, after = tensor.meta.dims[:axis], tensor.meta.dims[axis + 1 :]
    return ops.reshape(ops.gather(tensor, ops.reshape(places, [count]), axis),
                       [*before, *dims, *after])  # fmt: skip


def _places(key: Any, size: Any, dims: Any, count: Any, replace: bool, p: Any) -> Any:
    """Random numbers below ``size``, ``count`` of them."""
    if p is None and replace:
        return ops.randint(key, 0, size, dims)
    if p is None:
        return ops.randperm(key, size)[:count]
    chances = as_tensor(p)
    refusal = f"p is a vector of {dm.dim_text(size)} probabilities, found {chances.meta}"
    chances = expect_dims(chances, refusal, (size,))
    if not dt.is_float(chances.dtype):
        chances = ops.cast(chances, dt.default_float())
    if isinstance(chances, Tensor):
        _check_chances(chances.host, dm.minimum(count, 1) if replace else count)
    if not replace:
        scores = ops.log(chances) + gumbel(key, chances.meta.dims, chances.dtype)
        return ops.topk(scores, count)[1]
    sums = ops.cumsum(chances, 0)
    wanted = sums[-1] * (1 - ops.uniform(key, dims, chances.dtype, 0.0, 1.0))
    is_below = sums < ops.unsqueeze(wanted, [-1])
    return ops.sum(ops.cast(is_below, dt.int64), [-1])


def _check_chances(p: Any, count: Any) -> None:
    """Raise where p are no probabilities, or fewer than ``count`` of them are above 0."""
    values = p.astype(np.float64)
    is_one = (values >= 0) & np.isfinite(values)
    if not is_one.all():
        at = int(np.argmin(is_one))
        raise ArgumentError(f"p holds probabilities, found {values[at]} at {at}")
    likely = int(np.count_nonzero(values))
    if dm.is_known(count) and likely < count:
        raise ArgumentError(
            f"{likely} entries of p are above 0, {count} are needed; draw fewer, or with "
            "replace=True"
        )
