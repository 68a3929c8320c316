"""Sparse tensors from their parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
    described,
)
from phix.core.given import takes
from phix.core.tensor import Tensor
from phix.sparse.tensors import (
    SparseCooTensor,
    SparseCsrTensor,
    as_tensor,
    cast,
    may_be_equal,
    sizes_of,
    strides_of,
)


def _indices(x: Any, name: str, rank: int) -> Any:
    x = as_tensor(x)
    if dt.kind(x.dtype) != "int" and x.size != 0:
        raise DTypeError(f"{name} must be ints, found {x.meta}")
    if x.ndim != rank:
        raise ShapeError(f"{name} must have {rank} axes, found {x.meta}")
    return cast(x, dt.int64)


def _values(values: Any, dtype: Any, count: Any) -> Any:
    values = as_tensor(values, dtype)
    if not values.ndim or not may_be_equal(values.shape[0], count):
        raise ShapeError(f"there must be one value for each of {count} places, found {values.meta}")
    return values


def _check_inside(places: np.ndarray, size: int, what: str) -> None:
    if places.size and not (places.min() >= 0 and places.max() < size):
        bad = places[(places < 0) | (places >= size)][0]
        raise TensorIndexError(f"{what} has the index {bad} for a dim of {size}")


@takes()
def sparse_coo_tensor(
    indices: Any, values: Any, shape: Any = None, dtype: DTypeLike | None = None
) -> SparseCooTensor:
    """The tensor with values[k] at indices[:, k] and zeros elsewhere.

    Args:
        indices: ints [sparse dims, nnz]; kept as int64.
        values: [nnz, ...], any dtype.
        shape: all dims, those of a value last; by default just large enough.
        dtype: of the values; by default theirs.

    Returns:
        A SparseCooTensor. It is coalesced if the indices are known, increase, and differ; no other
        work is done here.

    Raises:
        ShapeError: the ranks or counts do not fit.
        TensorIndexError: a place is outside of shape. (Where indices are traced, nothing is known
            of them: compiled programs take the nearest place inside.)
        ArgumentError: shape is None and the indices are traced, or there are none.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [1.0, 2.0, 3.0])
    >>> a.shape, a.to_dense().tolist()
    ((2, 3), [[0.0, 0.0, 1.0], [2.0, 0.0, 3.0]])
    """
    indices = _indices(indices, "indices", 2)
    rank = indices.shape[0]
    if not isinstance(rank, int) or not rank:
        raise ShapeError(f"indices must be [sparse dims, nnz], found {indices.meta}")
    values = _values(values, dtype, indices.shape[1])
    known = indices.numpy() if isinstance(indices, Tensor) else None
    if shape is None:
        if known is None or not known.size:
            raise ArgumentError("shape is needed: the indices are traced, or there are none")
        shape = (*(int(n) for n in known.max(1) + 1), *values.shape[1:])
    sizes = sizes_of(shape, rank + values.ndim - 1)
    if not all(map(may_be_equal, sizes[rank:], values.shape[1:])):
        raise ShapeError(f"shape {sizes} must end with the dims of a value, found {values.meta}")
    strides = strides_of(sizes[:rank])
    if known is None:
        return SparseCooTensor(indices, values, sizes, False)
    for axis, size in enumerate(sizes[:rank]):
        _check_inside(known[axis], size, f"axis {axis}")
    in_order = bool((np.diff((known * strides).sum(0)) > 0).all())
    return SparseCooTensor(indices, values, sizes, in_order)


@takes()
def sparse_csr_tensor(
    crows: Any,
    cols: Any,
    values: Any,
    shape: Any,
    dtype: DTypeLike | None = None,
) -> SparseCsrTensor:
    """The matrix whose row r has values[k] in column cols[k] for crows[r] <= k < crows[r + 1].

    Args:
        crows: ints [rows + 1] that do not decrease, from 0 to nnz; of n matrices [n * (rows + 1)],
            each of which counts from 0.
        cols: ints [nnz].
        values: [nnz], any dtype.
        shape: rows and columns, or n, rows and columns.
        dtype: of the values; by default theirs.

    Raises:
        ShapeError: the ranks or counts do not fit.
        TensorIndexError: a column is outside of shape, or crows are no such ints.

    >>> import phix
    >>> phix.sparse.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], [2, 3]).nnz
    3
    """
    crows, cols = _indices(crows, "crows", 1), _indices(cols, "cols", 1)
    values = _values(values, dtype, cols.shape[0])
    if values.ndim != 1:
        raise ShapeError(f"values must have one axis, found {values.meta}")
    sizes = sizes_of(shape, 3 if np.size(shape) == 3 else 2)
    strides_of(sizes)
    count, rows = math.prod(sizes[:-2]), sizes[-2]
    if not may_be_equal(crows.shape[0], count * (rows + 1)):
        times = f"{count} times " if len(sizes) == 3 else ""
        raise ShapeError(
            f"crows must have {times}rows + 1 = {rows + 1} entries, found {crows.meta}"
        )
    in_order = False
    if isinstance(crows, Tensor) and isinstance(cols, Tensor):
        in_order = _rows_in_order(crows, cols.numpy(), sizes)
    return SparseCsrTensor(crows, cols, values, sizes, in_order)


def _rows_in_order(crows: Tensor, cols: np.ndarray, sizes: tuple[int, ...]) -> bool:
    """Whether the columns of each row increase; rows and columns that cannot be are refused."""
    ends = crows.numpy().reshape(-1, sizes[-2] + 1)
    counts = np.diff(ends, axis=1)
    if ends[:, 0].any() or ends[:, -1].sum() != len(cols) or (counts < 0).any():
        raise TensorIndexError(
            f"crows must not decrease, from 0 to the {len(cols)} columns, found {crows!r}"
        )
    _check_inside(cols, sizes[-1], "cols")
    rows = np.repeat(np.arange(counts.size), counts.reshape(-1))
    return bool((np.diff(rows * sizes[-1] + cols) > 0).all())


@takes()
def from_scipy(matrix: Any) -> SparseCooTensor | SparseCsrTensor:
    """A matrix or array of ``scipy.sparse``: a CSR one as it is, any other by its ``tocoo()``.

    The values are shared, so do not write to them; int64 indices of a CSR matrix are, too.

    Raises:
        ArgumentError: it has no ``tocoo``.
        AttributeValueError: it is no matrix.

    >>> import phix, scipy.sparse
    >>> phix.sparse.from_scipy(scipy.sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])).values.tolist()
    [2.0, 3.0]
    """
    if not callable(getattr(matrix, "tocoo", None)):
        raise ArgumentError(f"matrix must be one of scipy.sparse, found {described(matrix)}")
    if len(matrix.shape) != 2:
        raise AttributeValueError(f"matrix must have two axes, found shape {matrix.shape}")
    if getattr(matrix, "format", "") == "csr":
        crows, cols = (
            Tensor(a.astype(np.int64, copy=False)) for a in (matrix.indptr, matrix.indices)
        )
        return sparse_csr_tensor(crows, cols, Tensor(matrix.data), matrix.shape)
    coo = matrix.tocoo()
    places = Tensor(np.stack([coo.row, coo.col]).astype(np.int64, copy=False))
    return sparse_coo_tensor(places, Tensor(coo.data), matrix.shape)
