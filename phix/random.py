"""Random numbers as functions of a key: the same key always gives the same numbers.

There is no hidden state. A key is a uint32[2] tensor; each key is to be used once, so where several
draws are made, ``split`` it first::

    key, subkey = phix.random.split(phix.random.key(0))
    x = phix.random.normal(subkey, [3])

The bits are those of Threefry-2x32 with 20 rounds, a cipher that turns a counter into random bits
(J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
Element i of a draw depends on the key and i alone, so it does not matter how work is divided, and
under ``vmap`` over keys every draw is what it would be in a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, IntArrayLike
from phix.core.conversion import owned_tensor
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    NumberRangeError,
    ShapeError,
    shown,
)
from phix.core.faces import face
from phix.core.given import BOUND, entries, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]
__dir__ = face(__all__)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else owned_tensor(value)


def _words(number: Any) -> Any:
    """An int as two uint32, the high one first."""
    if isinstance(number, TensorBase):
        if dt.kind(number.dtype) != "int" or number.ndim:
            raise DTypeError(f"a seed is one int, found {number.meta}")
        wide = number.astype(dt.uint64)
        return ops.stack([(wide >> 32).astype(dt.uint32), wide.astype(dt.uint32)], 0)
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise ArgumentError(f"a seed is an int, found {number!r}")
    if not -(1 << 63) <= number < 1 << 64:
        raise NumberRangeError(
            f"a seed has 64 bits, with a sign or without, found {shown(int(number))}; write one "
            "from -2**63 to 2**64 - 1"
        )
    words = [(int(number) >> 32) & 0xFFFFFFFF, int(number) & 0xFFFFFFFF]
    return owned_tensor(np.array(words, dt.uint32))


@takes()
def key(seed: int | TensorBase) -> Tensor:
    """The key of a seed: uint32[2], the high and the low 32 bits of it.

    Args:
        seed: an int from -2**63 to 2**64 - 1, or a 0-d int tensor. A negative one has the key of
            the positive one of the same bits: -1 that of 2**64 - 1.

    Raises:
        NumberRangeError: the seed has more bits.

    >>> import phix
    >>> phix.random.key(7).tolist()
    [0, 7]
    """
    return _words(seed)


@takes()
def split(key: TensorLike, num: int | tuple[int, ...] = 2) -> Tensor:
    """New keys out of one, uint32[num, 2]; the old one is not to be used again.

    Args:
        key: a key.
        num: how many, or the shape of a tensor of keys.

    >>> import phix
    >>> first, second = phix.random.split(phix.random.key(0))
    """
    shape = tuple(num) if isinstance(num, (tuple, list)) else (num,)
    return ops.random_bits(key, (*shape, 2), 32)


@takes()
def fold_in(key: TensorLike, data: int | TensorBase) -> Tensor:
    """A new key out of a key and an int, such as the number of a step.

    Args:
        key: a key.
        data: an int from -2**63 to 2**64 - 1, or a 0-d int tensor.

    Raises:
        NumberRangeError: the int has more bits.

    >>> import phix
    >>> phix.random.fold_in(phix.random.key(0), 5).shape
    (2,)
    """
    # The key is enciphered before the number is mixed in: else key ^ data would be the same for
    # many pairs of the two.
    return ops.random_bits(ops.random_bits(key, (2,), 32) ^ _words(data), (2,), 32)


@takes()
def bits(key: TensorLike, shape: IntArrayLike = (), bit_width: int = 32) -> Tensor:
    """Random bits, as uint32 or uint64 (bit_width 64).

    >>> import phix
    >>> phix.random.bits(phix.random.key(0), [3]).dtype == "uint32"
    True
    """
    return ops.random_bits(key, shape, bit_width)


@takes()
def uniform(
    key: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = "float32",
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
    return ops.uniform(key, shape, dtype, min, max)


@takes()
def normal(
    key: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = "float32",
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
    return ops.gaussian(key, shape, mean, std, dtype)


@takes()
def truncated_normal(
    key: TensorLike,
    lower: TensorLike,
    upper: TensorLike,
    shape: IntArrayLike = (),
    dtype: DTypeLike = "float32",
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
) -> Tensor:
    """Normal numbers given that they lie in [lower, upper].

    >>> import phix
    >>> x = phix.random.truncated_normal(phix.random.key(0), -1.0, 1.0, [1000])
    >>> x.abs().max().item() <= 1
    True
    """
    return ops.truncated_gaussian_random(key, shape, mean, std, lower, upper, dtype)


@takes(high=BOUND)
def randint(
    key: TensorLike,
    low: int,
    high: int,
    shape: IntArrayLike = (),
    dtype: DTypeLike = "int64",
) -> Tensor:
    """Ints uniform in [low, high), no value likelier than another by more than a part in
    2 ** 64 / (high - low).

    Args:
        key: a key.
        low, high: ints, low < high, both within the dtype (high may be one above it).
        shape: the shape of the result.
        dtype: an int dtype.

    >>> import phix
    >>> x = phix.random.randint(phix.random.key(0), 1, 7, [1000])
    >>> x.min().item(), x.max().item()
    (1, 6)
    """
    return ops.randint(key, low, high, shape, dtype)


@takes()
def bernoulli(key: TensorLike, p: TensorLike = 0.5, shape: IntArrayLike | None = None) -> Tensor:
    """True with probability p; the shape is that of p, or ``shape``, to which p broadcasts.

    >>> import phix
    >>> phix.random.bernoulli(phix.random.key(0), [0.0, 1.0]).tolist()
    [False, True]
    """
    chance = _tensor(p)
    if not dt.is_float(chance.dtype):
        chance = ops.cast(chance, dt.DEFAULT_FLOAT)
    return ops.bernoulli(key, chance if shape is None else ops.expand(chance, shape)) != 0


@takes()
def exponential(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = "float32") -> Tensor:
    """Numbers with density exp(-x) for x >= 0.

    >>> import phix
    >>> phix.random.exponential(phix.random.key(0), [1000]).min().item() >= 0
    True
    """
    return -ops.log1p(-ops.uniform(key, shape, dtype, 0.0, 1.0))


@takes()
def gumbel(key: TensorLike, shape: IntArrayLike = (), dtype: DTypeLike = "float32") -> Tensor:
    """Numbers with distribution function exp(-exp(-x)).

    >>> import phix
    >>> phix.random.gumbel(phix.random.key(0), [2, 3]).shape
    (2, 3)
    """
    dtype = dt.as_dtype(dtype)
    wide = dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype
    least = float(np.finfo(np.float32).tiny)  # so that no logarithm of 0 is taken
    drawn = -ops.log(-ops.log(ops.uniform(key, shape, wide, least, 1.0)))
    return drawn if wide == dtype else ops.cast(drawn, dtype)


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
    scores = _tensor(logits)
    if not scores.ndim:
        raise ShapeError(f"logits need an axis of alternatives, found {scores.meta}")
    if not -scores.ndim <= axis < scores.ndim:
        raise AttributeValueError(f"axis {axis} is out of range for {scores.meta}")
    order = [i for i in range(scores.ndim) if i != axis % scores.ndim]
    rows = ops.transpose(scores, [*order, axis % scores.ndim])
    dims = rows.meta.dims if shape is None else (*entries(shape, "shape"), rows.meta.dims[-1])
    return ops.argmax(rows + gumbel(key, dims, rows.dtype), -1)


@takes()
def permutation(key: TensorLike, x: int | TensorLike, axis: int = 0) -> Tensor:
    """The numbers 0, ..., x - 1 in random order; of a tensor its slices along ``axis``.

    Args:
        key: a key.
        x: an int, or a tensor to shuffle.
        axis: the axis to shuffle along; every slice stays whole.

    >>> import phix
    >>> sorted(phix.random.permutation(phix.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, (int, dm.Dim)):
        return ops.randperm(key, x)
    tensor = _tensor(x)
    if not tensor.ndim:
        raise ShapeError(f"a 0-d tensor has no slices to shuffle, found {tensor.meta}")
    if not -tensor.ndim <= axis < tensor.ndim:
        raise AttributeValueError(f"axis {axis} is out of range for {tensor.meta}")
    return ops.gather(tensor, ops.randperm(key, tensor.meta.dims[axis]), axis)
