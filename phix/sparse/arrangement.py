"""Other shapes and parts of sparse tensors, and sums and softmax over their axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike
from phix.core.axes import axis_of
from phix.core.conversion import owned_tensor
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.given import takes
from phix.sparse.tensors import (
    SparseCooTensor,
    alike,
    as_coalesced,
    as_sparse,
    as_tensor,
    cast,
    coalesce,
    counted,
    expanded,
    indices_of,
    keys_of,
    may_be_equal,
    once_if_bools,
    reordered,
    sizes_of,
    summed,
    values_at,
)

_PythonSlice = slice  # whose name is that of a function here


@takes()
def transpose(x: Any, perm: Sequence[int]) -> Any:
    """The axes in the order of perm; sparse ones stay in front of dense ones.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0])
    >>> phix.sparse.transpose(a, [1, 0]).shape
    (3, 2)
    """
    x = as_sparse(x)
    order = tuple(axis_of(a, x.ndim) for a in _listed(perm))
    if sorted(order) != list(range(x.ndim)):
        raise AttributeValueError(f"perm must name each of {x.ndim} axes once, found {perm}")
    return reordered(x, order)


def _listed(ints: Any) -> list[int]:
    """An int, or a list or tensor of them, as a list."""
    return [int(n) for n in np.atleast_1d(np.asarray(ints, dtype=np.int64))]


@takes()
def reshape(x: Any, shape: Sequence[int]) -> Any:
    """The same values, in the order of memory, as a tensor of another shape.

    Args:
        x: a sparse tensor whose axes are all sparse.
        shape: the dims, of which one may be -1.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0])
    >>> phix.sparse.reshape(a, [3, -1]).indices.tolist()
    [[1, 1], [0, 1]]
    """
    coo = expanded(x)
    if coo.dense_dim:
        raise ShapeError(f"all axes must be sparse, found values {coo.values.meta}")
    sizes, count = _listed(shape), math.prod(coo.shape)
    if sizes.count(-1) == 1:
        known = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = count // known if known else 0
    dims = sizes_of(sizes, len(sizes))
    if not dims or math.prod(dims) != count:
        raise ShapeError(f"{coo.shape} has {count} elements, found shape {shape}")
    indices = indices_of(keys_of(coo.indices, coo.shape), dims)
    return alike(SparseCooTensor(indices, coo.values, dims, coo.is_coalesced), x)


@takes()
def slice(x: Any, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Any:
    """x[..., start:end, ...] along each of these axes; the bounds are as Python's.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1, 1], [2, 0, 1]], [1.0, 2.0, 3.0])
    >>> phix.sparse.slice(a, [1], [-2], [3]).to_dense().tolist()
    [[0.0, 1.0], [3.0, 0.0]]
    """
    coo = expanded(x)
    named = [axis_of(a, coo.ndim) for a in _listed(axes)]
    begins, stops = _listed(starts), _listed(ends)
    if len(set(named)) != len(named) or not len(named) == len(begins) == len(stops):
        raise AttributeValueError(
            f"axes, starts and ends must be as many, each axis once, found {axes}, {starts}, {ends}"
        )
    low, high = [0] * coo.ndim, list(coo.shape)
    for axis, start, end in zip(named, begins, stops):
        low[axis], stop, _ = _PythonSlice(start, end).indices(coo.shape[axis])
        high[axis] = max(low[axis], stop)
    count, dims = coo.sparse_dim, tuple(h - b for b, h in zip(low, high))
    first, last = (owned_tensor(np.array(n[:count], np.int64)[:, None]) for n in (low, high))
    inside = ops.all(ops.logical_and(coo.indices >= first, coo.indices < last), [0])
    chosen = ops.nonzero(inside)[:, 0]
    indices = ops.gather(coo.indices, chosen, 1) - first
    values = ops.gather(coo.values, chosen)
    for axis in range(count, coo.ndim):
        values = ops.slice(values, [axis - count + 1], [low[axis]], [high[axis]])
    return alike(SparseCooTensor(indices, values, dims, coo.is_coalesced), x)


@takes()
def sum(
    x: Any,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
) -> Any:
    """The sums over some axes, sparse.

    Args:
        x: a sparse tensor.
        axis: which axes; by default, and if empty, all.
        dtype: of the sums; by default that of x, int64 of bools.
        keepdim: whether the axes stay, as dims of 1.

    Returns:
        A sparse tensor; a CSR tensor if x is one and keepdim. Where no sparse axis would be left
        there is one of 1: the sum of all has the shape [1], as in Paddle.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1, 1], [2, 0, 1]], [1.0, 2.0, 3.0])
    >>> phix.sparse.sum(a, 1).to_dense().tolist()
    [1.0, 5.0]
    """
    coo = expanded(once_if_bools(as_sparse(x)))
    named = [] if axis is None else _listed(axis)
    over = {axis_of(a, coo.ndim) for a in named} or set(range(coo.ndim))
    if dtype is None and coo.dtype == dt.bool_:
        dtype = dt.int64
    values = coo.values if dtype is None else cast(coo.values, dt.as_dtype(dtype))
    count = coo.sparse_dim
    within = [a - count + 1 for a in over if a >= count]
    if within:
        values = ops.sum(values, within, keepdim=keepdim)
    rows, sizes = [], []
    for place in range(count):
        if place not in over or keepdim:
            gone = place in over
            row = coo.indices[place]
            rows.append(ops.zeros_like(row) if gone else row)
            sizes.append(1 if gone else coo.shape[place])
    if not rows:
        rows, sizes = [ops.zeros_like(coo.indices[0])], [1]
    shape = (*sizes, *(n for n in values.shape[1:]))
    keeps = coo.is_coalesced and not over & set(range(count))
    return alike(
        coalesce(SparseCooTensor(ops.stack(rows), values, shape, keeps)), x if keepdim else coo
    )


@takes()
def softmax(x: Any, axis: int = -1) -> Any:
    """exp(v) / sum of exp(w) over the stored values w of the same row; the zeros stay.

    Args:
        x: a sparse tensor of floats whose axes are all sparse.
        axis: the last one.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 3.0])
    >>> phix.sparse.softmax(a).to_dense().tolist()
    [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """
    x = as_coalesced(as_sparse(x))
    coo = expanded(x)
    if coo.dense_dim or axis_of(axis, coo.ndim) != coo.ndim - 1:
        raise AttributeValueError(
            f"axis must be the last of a tensor whose axes are all sparse, found axis {axis} of "
            f"{coo.shape} with values {coo.values.meta}"
        )
    if not dt.is_float(coo.dtype):
        raise DTypeError(f"x must have float values, found {coo.dtype}")
    dims = coo.shape[:-1]
    rows = keys_of(coo.indices[:-1], dims) if dims else ops.zeros_like(coo.indices[0])
    values = cast(coo.values, dt.float32) if coo.dtype.itemsize < 4 else coo.values
    count = math.prod(dims)
    return x.with_values(cast(shares(values, rows, count), coo.dtype)) if count else x


def shares(values: Any, rows: Any, count: int) -> Any:
    """exp(v) / sum of exp(w) over the values w of the same row."""
    known = ops.stop_gradient(values)
    most, _ = ops.send_u_recv(known, counted(rows), rows, "MAX", [count])
    powers = ops.exp(values - ops.gather(most, rows))
    return powers / ops.gather(summed(powers, rows, count), rows)


@takes()
def mask_as(x: Any, mask: Any) -> Any:
    """The elements of a dense tensor at the places of a sparse one of its shape, each once.

    >>> import phix
    >>> mask = phix.sparse.sparse_coo_tensor([[0], [1]], [1.0], [2, 2])
    >>> phix.sparse.mask_as([[1.0, 2.0], [3.0, 4.0]], mask).to_dense().tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    x, mask = as_tensor(x), as_coalesced(as_sparse(mask, "mask"))
    if x.ndim != mask.ndim or not all(map(may_be_equal, x.shape, mask.shape)):
        raise ShapeError(f"x must have the shape of mask, {mask.shape}, found {x.meta}")
    return mask.with_values(values_at(x, mask))
