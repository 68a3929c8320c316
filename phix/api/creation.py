"""Tensors made from nothing but a shape: zeros, ones, full, arange, linspace, eye."""

from __future__ import annotations

from phix import ops
from phix.core import dims as dm
from phix.core.annotations import DTypeLike, IntArrayLike, ScalarLike
from phix.core.errors import ArgumentError
from phix.core.given import SIZE, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike

__all__ = [
    "arange",
    "empty",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


@takes()
def full(shape: IntArrayLike, fill_value: ScalarLike, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor with every element ``fill_value``.

    Args:
        shape: its shape; an int for one axis.
        fill_value: a number, or a 0-d tensor.
        dtype: by default that of the number: bool, int64, float32 or complex64.

    >>> import phix
    >>> phix.full([2], 3.0)
    Tensor([3., 3.], dtype=float32, shape=[2], place=cpu)
    """
    if isinstance(fill_value, TensorBase):
        element = fill_value if dtype is None else fill_value.astype(dtype)
        return ops.expand(element, shape)
    return ops.full(shape, fill_value, dtype)  # type: ignore[arg-type]


@takes()
def zeros(shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
    """A tensor of zeros.

    >>> import phix
    >>> phix.zeros([2]).tolist()
    [0.0, 0.0]
    """
    return ops.full(shape, 0, dtype)


@takes()
def ones(shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
    """A tensor of ones.

    >>> import phix
    >>> phix.ones([2], "int64").tolist()
    [1, 1]
    """
    return ops.full(shape, 1, dtype)


@takes()
def empty(shape: IntArrayLike, dtype: DTypeLike = float) -> Tensor:
    """A tensor whose values do not matter; they are 0.

    >>> import phix
    >>> phix.empty([2, 3]).shape
    (2, 3)
    """
    return ops.empty(shape, dtype)


@takes()
def full_like(x: TensorLike, fill_value: ScalarLike, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of the shape of ``x``, and of its dtype if none is given.

    >>> import phix
    >>> phix.full_like(phix.ones([2]), 7).tolist()
    [7.0, 7.0]
    """
    return ops.full_like(x, fill_value, dtype)


@takes()
def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Zeros in the shape of ``x``, and in its dtype if none is given.

    >>> import phix
    >>> phix.zeros_like(phix.ones([2])).tolist()
    [0.0, 0.0]
    """
    return ops.full_like(x, 0, dtype)


@takes()
def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Ones in the shape of ``x``, and in its dtype if none is given.

    >>> import phix
    >>> phix.ones_like(phix.zeros([2])).tolist()
    [1.0, 1.0]
    """
    return ops.full_like(x, 1, dtype)


@takes()
def arange(
    start: float | dm.DimLike,
    end: float | dm.DimLike | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """start, start + step, start + 2 * step, ... as long as they lie before ``end``.

    Args:
        start: the first number; given alone, it is the end, and 0 the start.
        end: where to stop; it is left out.
        step: what to add, not 0.
        dtype: by default int64 for ints, and the default float if a float is among them.

    >>> import phix
    >>> phix.arange(3)
    Tensor([0, 1, 2], dtype=int64, shape=[3], place=cpu)
    """
    start, end = (0, start) if end is None else (start, end)
    return ops.arange(start, end, step, dtype)  # type: ignore[arg-type]


@takes(num=SIZE)
def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, dtype: DTypeLike | None = None
) -> Tensor:
    """``num`` values evenly spaced from ``start`` to ``stop``, both included and met exactly.

    Args:
        start, stop: numbers or 0-d tensors; the result is differentiable in them.
        num: how many.
        dtype: by default that of ``start`` and ``stop``, a float dtype.

    >>> import phix
    >>> phix.linspace(0, 1, 3)
    Tensor([0. , 0.5, 1. ], dtype=float32, shape=[3], place=cpu)
    """
    if num < 0:
        raise ArgumentError(f"linspace: num must be 0 or more, found {num}")
    return ops.linspace(start, stop, num, dtype)


@takes()
def eye(
    num_rows: dm.DimLike, num_columns: dm.DimLike | None = None, dtype: DTypeLike = float
) -> Tensor:
    """A matrix with 1 on the main diagonal and 0 elsewhere; square if one size is given.

    >>> import phix
    >>> phix.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = num_rows if num_columns is None else num_columns
    return ops.eye(num_rows, columns, dtype)
