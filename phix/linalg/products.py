"""Products of vectors and matrices, and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core.axes import axis_of
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.given import INT, LIST, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg.arguments import tensor


@takes(arrays=LIST)
def multi_dot(arrays: Sequence[TensorLike]) -> Tensor:
    """The matrix product of all arrays, in the order of least work.

    Args:
        arrays: two or more matrices; the first and the last may be vectors, a row and a column,
            whose axis the result then lacks.

    Raises:
        ShapeError: another one is no matrix, or inner dims differ.
        AttributeValueError: there are fewer than two.

    >>> import phix
    >>> phix.linalg.multi_dot([[1.0, 2.0], [[1.0, 0.0], [0.0, 3.0]], [1.0, 1.0]]).item()
    7.0
    """
    return ops.multi_dot([tensor(a) for a in arrays])


@takes(axis=INT)
def cross(x1: TensorLike, x2: TensorLike, axis: int = -1) -> Tensor:
    """The vector product along an axis of 3 elements; the others broadcast.

    Raises:
        ShapeError: the axis has not 3 elements.
        AttributeValueError: axis is out of range.

    >>> import phix
    >>> phix.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1.0]
    """
    first, second = tensor(x1), tensor(x2)
    rank = max(first.ndim, second.ndim)
    return ops.cross(first, second, axis_of(axis, rank) - rank)


@takes(offset=INT)
def trace(x: TensorLike, offset: int = 0) -> Tensor:
    """The sum of x[..., i, i + offset] over i.

    Args:
        x: [..., m, n].
        offset: which diagonal.

    Raises:
        ShapeError: x does not hold matrices.

    >>> import phix
    >>> phix.linalg.trace([[1.0, 2.0], [3.0, 4.0]]).item()
    5.0
    """
    return ops.trace(x, offset, -2, -1)


@takes()
def outer(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The products x1[i] x2[j] of the elements of two vectors.

    Raises:
        ShapeError: one is no vector.

    >>> import phix
    >>> phix.linalg.outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    rows, columns = tensor(x1), tensor(x2)
    if rows.ndim != 1 or columns.ndim != 1:
        raise ShapeError(f"vectors are asked for, found {rows.meta} and {columns.meta}")
    return ops.reshape(rows, (*rows.meta.dims, 1)) * columns


@takes()
def tensordot(a: TensorLike, b: TensorLike, axes: Any = 2) -> Tensor:
    """The sum of products over axes of a and of b; those left stand in the order a, b.

    Args:
        axes: how many, the last of a and the first of b; or two lists, the axes of a and of b.

    Raises:
        ShapeError: axes that meet differ in size.
        AttributeValueError: axes says neither.

    >>> import phix
    >>> phix.linalg.tensordot([[1.0, 2.0]], [[1.0, 2.0]]).item()
    5.0
    """
    x, y = tensor(a), tensor(b)
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise AttributeValueError(f"axes {axes} is not in 0 .. {min(x.ndim, y.ndim)}")
        return ops.tensordot(x, y, range(x.ndim - axes, x.ndim), range(axes))
    if not isinstance(axes, (list, tuple)) or len(axes) != 2:
        raise AttributeValueError(f"axes must be an int or two lists of ints, found {axes!r}")
    mine, yours = ([v] if isinstance(v, int) else list(v) for v in axes)
    return ops.tensordot(x, y, mine, yours)
