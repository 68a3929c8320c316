"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.expectations import never_empty
from phix.core.given import FLAG, INTS, NONE, Kind, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg.arguments import floating, matrices

ORDER = Kind(
    "a number, 'fro', 'nuc', or None",
    lambda v: v is None or isinstance(v, (int, float)) or v in ("fro", "nuc"),
)


@takes(ord=ORDER, axis=INTS | NONE, keepdims=FLAG)
def norm(x: TensorLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors or of matrices, of the orders that NumPy has.

    Args:
        x: of any shape.
        ord: of vectors a number p, sum(abs(x) ** p) ** (1 / p), or inf, -inf (the largest and the
            smallest abs(x)), 0 (how many are not 0). Of matrices "fro" (the vector norm of all
            elements), "nuc" (the sum of singular values), 1, -1 (the largest and the smallest sum
            of abs in a column), inf, -inf (in a row), 2, -2 (the largest and the smallest singular
            value). None: 2 for vectors, "fro" for matrices.
        axis: one axis for vectors, two for matrices; None: all of x, which has then 1 or 2 axes
            unless ord is None too.
        keepdims: the axes stay, with one element.

    Raises:
        ShapeError: x is neither vector nor matrix, or there are more than two axes.
        AttributeValueError: there is no norm of that order, or no such axis.

    >>> import phix
    >>> phix.linalg.norm([3.0, 4.0]).item()
    5.0
    >>> phix.linalg.norm([[3.0, 0.0], [0.0, 4.0]], "nuc").item()
    7.0
    """
    found = floating(x)
    axes = _axes(axis, found.ndim)
    if len(axes) == 1 or (axis is None and ord is None):
        return _of_vectors(found, axes, 2 if ord is None else ord, keepdims)
    if len(axes) != 2:
        raise ShapeError(f"a vector or a matrix has a norm, found the axes {axes} of {found.meta}")
    return _of_matrices(found, axes, ord, keepdims)


@takes(axis=INTS | NONE, keepdims=FLAG, ord=ORDER)
def vector_norm(x: TensorLike, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norm of order ord of vectors along an axis, or of all elements along several.

    Args:
        x: of any shape.
        axis: an axis or several; None: all.
        keepdims: the axes stay, with one element.
        ord: a number, inf or -inf: see ``norm``.

    Raises:
        AttributeValueError: ord is no number, or there is no such axis.

    >>> import phix
    >>> phix.linalg.vector_norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    found = floating(x)
    return _of_vectors(found, _axes(axis, found.ndim), ord, keepdims)


@takes(keepdims=FLAG, ord=ORDER)
def matrix_norm(x: TensorLike, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices, the last two axes.

    Args:
        x: [..., m, n].
        keepdims: the axes stay, with one element.
        ord: "fro", "nuc", 1, -1, 2, -2, inf or -inf: see ``norm``.

    Raises:
        ShapeError: x does not hold matrices.
        AttributeValueError: there is no norm of that order.

    >>> import phix
    >>> phix.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]], ord=2).item()
    4.0
    """
    found = matrices(x)
    return _of_matrices(found, (found.ndim - 2, found.ndim - 1), ord, keepdims)


@takes(p=ORDER)
def cond(x: TensorLike, p: Any = None) -> Tensor:
    """The condition number, norm(x) norm(inv(x)) in the norm p, inf where x is singular.

    Args:
        x: [..., m, n]; square matrices unless p is None, 2 or -2.
        p: the norm of matrices, see ``norm``; None or 2: the largest singular value over the
            smallest; -2: the smallest over the largest.

    Returns:
        [...].

    Raises:
        ShapeError: x does not hold matrices, or not square ones.
        AttributeValueError: there is no norm of that order.

    >>> import phix
    >>> phix.linalg.cond([[2.0, 0.0], [0.0, 8.0]]).item()
    4.0
    """
    given = matrices(x)
    if p in (None, 2, -2):
        values = ops.svdvals(given)
        largest, smallest = values[..., 0], values[..., -1]
        found = smallest / largest if p == -2 else largest / smallest
    else:
        axes = (given.ndim - 2, given.ndim - 1)
        norms = [_of_matrices(m, axes, p, False) for m in (given, ops.inverse(given))]
        found = norms[0] * norms[1]
    has_nan = ops.any(ops.isnan(given), [-2, -1])
    is_singular = ops.logical_and(ops.isnan(found), ops.logical_not(has_nan))
    return ops.where(is_singular, math.inf, found)


# -- how ------------------------------------------------------------------------------------------
def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) < len(axes):
        raise AttributeValueError(f"axis {axis} does not name axes of {rank}, each once")
    return tuple(a % rank for a in axes)


def _sizes(x: Any) -> Any:
    return ops.abs(x) if dt.is_complex(x.dtype) else x


def _kept(found: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not keepdims:
        return found
    return ops.reshape(found, tuple(1 if i in axes else d for i, d in enumerate(x.meta.dims)))


def _largest(sizes: Any, axis: int) -> Any:
    """The largest of what is not negative along an axis: 0 where there is nothing."""
    return ops.max(never_empty(sizes, 0, [axis]), [axis])


def _of_vectors(x: Any, axes: tuple[int, ...], order: Any, keepdims: bool) -> Any:
    if order is None or isinstance(order, str):
        raise AttributeValueError(f"vectors have norms of numbers, found ord={order!r}")
    sizes, dims = _sizes(x), x.meta.dims
    others = [a for a in range(x.ndim) if a not in axes]
    if len(axes) != 1:
        sizes = ops.transpose(sizes, (*others, *axes))
        size = dm.product(tuple(dims[a] for a in axes))
        sizes = ops.reshape(sizes, (*(dims[a] for a in others), size))
    axis = axes[0] if len(axes) == 1 else len(others)
    if order == math.inf:  # 0 of nothing
        sizes = never_empty(sizes, 0, [axis])
    found = ops.p_norm(sizes, float(order), axis)
    return _kept(found, x, axes, keepdims)


def _of_matrices(x: Any, axes: tuple[int, ...], order: Any, keepdims: bool) -> Any:
    if order is None or order == "fro":
        return _of_vectors(x, axes, 2, keepdims)
    others = [a for a in range(x.ndim) if a not in axes]
    stack = ops.transpose(x, (*others, *axes))
    if order in ("nuc", 2, -2):
        values = ops.svdvals(stack)
        if order == 2:
            found = ops.sum(values[..., :1], [-1])  # 0 of nothing
        else:
            found = ops.sum(values, [-1]) if order == "nuc" else values[..., -1]
    elif order in (1, -1, math.inf, -math.inf):
        totals = ops.sum(ops.abs(stack), [-2 if abs(order) == 1 else -1])
        found = _largest(totals, -1) if order > 0 else ops.min(totals, [-1])
    else:
        raise AttributeValueError(
            "matrices have norms of order 'fro', 'nuc', 1, -1, 2, -2, inf and -inf, "
            f"found ord={order!r}"
        )
    return _kept(found, x, axes, keepdims)
