"""Keys, and the bits that come of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import IntArrayLike
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, NumberRangeError, shown
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorBase, TensorLike


def _number(number: Any) -> Any:
    """An int of 64 bits, with a sign or without, as an int64 of the same bits."""
    if isinstance(number, TensorBase):
        if dt.kind(number.dtype) != "int" or number.ndim:
            raise DTypeError(f"a seed is one int, found {number.meta}")
        return number.astype(dt.int64)
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise ArgumentError(f"a seed is an int, found {number!r}")
    if not -(1 << 63) <= number < 1 << 64:
        raise NumberRangeError(
            f"a seed has 64 bits, with a sign or without, found {shown(int(number))}; write one "
            "from -2**63 to 2**64 - 1"
        )
    return owned_tensor(np.array(int(number) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(np.int64))


def words(number: Any) -> Any:
    """64 bits as two uint32 along a last axis, the high one first."""
    return ops.stack([(number >> 32).astype(dt.uint32), number.astype(dt.uint32)], -1)


@takes()
def key(seed: int | TensorBase) -> Tensor:
    """The key of a seed: uint32[2], the high and the low 32 bits of it.

    Args:
        seed: an int from -2**63 to 2**64 - 1, or a 0-d int tensor. A negative one has the key of
            the positive one of the same bits: -1 that of 2**64 - 1. (JAX without jax_enable_x64
            takes the low 32 bits alone.)

    Raises:
        NumberRangeError: the seed has more bits.

    >>> import phix
    >>> phix.random.key(7).tolist()
    [0, 7]
    """
    return words(_number(seed))


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
    return words(ops.random_bits(key, shape, 64))


@takes()
def fold_in(key: TensorLike, data: int | TensorBase) -> Tensor:
    """A new key out of a key and an int, such as the number of a step.

    It is the entry of that number in :func:`split`, so use a key for one of the two alone.

    Args:
        key: a key.
        data: an int from -2**63 to 2**64 - 1, or a 0-d int tensor.

    Raises:
        NumberRangeError: the int has more bits.

    >>> import phix
    >>> phix.random.fold_in(phix.random.key(0), 5).shape
    (2,)
    """
    return words(ops.random_bits(key, (), 64, _number(data)))


@takes()
def bits(key: TensorLike, shape: IntArrayLike = (), bit_width: int = 32) -> Tensor:
    """Random bits, as uint32 or uint64 (bit_width 64).

    >>> import phix
    >>> phix.random.bits(phix.random.key(0), [3]).dtype == "uint32"
    True
    """
    return ops.random_bits(key, shape, bit_width)
