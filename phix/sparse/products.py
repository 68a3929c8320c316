"""Products of sparse matrices and dense ones, and of two sparse ones.

Axes in front of the last two count matrices, as those of ``phix.ops.matmul`` do; both operands have
the same ones.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.attrs import as_dim
from phix.core.errors import ShapeError
from phix.core.given import takes
from phix.core.later import method_of
from phix.core.tensor import TensorBase
from phix.sparse.arithmetic import add, multiply
from phix.sparse.tensors import (
    SparseCooTensor,
    SparseCsrTensor,
    SparseTensor,
    alike,
    as_coalesced,
    as_sparse,
    as_tensor,
    cast,
    ends_of,
    expanded,
    factors,
    indices_of,
    keys_of,
    may_be_equal,
    once_if_bools,
    reordered,
    sized,
    strides_of,
    summed,
)


def _matrices(x: Any, name: str) -> Any:
    """What is given, if it is a sparse matrix of numbers, or several; bools once a place."""
    x = as_sparse(x, name)
    if x.ndim < 2 or x.values.ndim != 1:
        raise ShapeError(f"{name} must be a sparse matrix of numbers, found shape {x.shape}")
    return once_if_bools(x)


def _fit(dims: Any, sizes: Any) -> bool:
    """Whether dims of a dense tensor, of which some may be unknown, can be these sizes."""
    return len(dims) == len(sizes) and all(map(may_be_equal, dims, sizes))


def turned(x: Any) -> Any:
    """Sparse matrices with rows and columns exchanged."""
    return reordered(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@takes()
def matmul(x: Any, y: Any) -> Any:
    """The product of two matrices of which at least one is sparse.

    Args:
        x, y: matrices, COO or CSR or dense, one of them sparse. Axes in front count matrices, and
            are the same of both. A dense operand may be a vector, where the other is one matrix.

    Returns:
        A dense tensor if one is dense; it takes memory for one row of the dense one for each
        stored value. Of two sparse ones a coalesced sparse tensor, CSR if x is, which has a value
        wherever two stored ones meet. How many there are is computed where the program runs, row by
        row, and takes no memory for the terms.

    Raises:
        ShapeError: the inner dims differ, or the axes in front.
        ArgumentError: none of the two is sparse.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
    >>> phix.sparse.matmul(a, [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[6.0, 8.0], [3.0, 6.0]]
    >>> (a @ a).to_dense().tolist()
    [[6.0, 0.0], [0.0, 6.0]]
    """
    if isinstance(x, SparseTensor) and isinstance(y, SparseTensor):
        return _sparse_product(_matrices(x, "x"), _matrices(y, "y"))
    if not isinstance(y, SparseTensor):
        return _product(_matrices(x, "x"), as_tensor(y))
    dense, y = as_tensor(x), _matrices(y, "y")
    if dense.ndim == 1:
        return _product(turned(y), dense)
    if not _fit((*dense.shape[:-2], *dense.shape[-1:]), y.shape[:-1]):
        raise ShapeError(
            f"a sparse matrix {y.shape} needs as many columns of x, found {dense.meta}"
        )
    return _swapped(_product(turned(y), _swapped(dense)))


def _swapped(x: Any) -> Any:
    """A dense tensor with its last two axes exchanged."""
    return ops.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _product(x: Any, dense: Any) -> Any:
    """Sparse matrices by dense ones, or one by a vector."""
    *front, rows, inner = x.shape
    is_vector = dense.ndim == 1 and not front
    if not _fit(dense.shape if is_vector else dense.shape[:-1], (*front, inner)):
        raise ShapeError(
            f"a sparse matrix {x.shape} needs dense rows {(*front, inner)}, found {dense.meta}"
        )
    count, dense = math.prod(front), sized(dense, (*front, inner))
    if front:
        dense = ops.reshape(dense, [count * inner, dense.shape[-1]])
    in_order = isinstance(x, SparseCsrTensor) or x.is_coalesced
    places, of, values = _by_rows(x, names_rows=True) if in_order else _by_entries(x)
    dtype, values, dense = factors(values, dense)
    terms = (values if is_vector else values[:, None]) * ops.gather(dense, of)
    sums = ops.segment_sum_csr(terms, places) if in_order else summed(terms, places, count * rows)
    found = cast(sums, dtype)
    return ops.reshape(found, [*front, rows, found.shape[-1]]) if front else found


def _by_entries(x: Any) -> tuple[Any, Any, Any]:
    """Of each entry its row among those of all matrices, the row of the other operand that its
    column names, and its value."""
    *front, rows, _ = x.shape
    if not front:
        return x.indices[0], x.indices[1], x.values
    return keys_of(x.indices[:-1], (*front, rows)), _named(x), x.values


def _named(x: Any) -> Any:
    """The row of the other operand that the column of each entry names, among those of all."""
    of = ops.concat([x.indices[:-2], x.indices[-1:]], 0)
    return keys_of(of, (*x.shape[:-2], x.shape[-1]))


def _by_rows(x: Any, names_rows: bool) -> tuple[Any, Any, Any]:
    """Where the rows of all matrices begin, the column of each entry, and its value.

    A column that names a row of the other operand counts the rows of the matrices before, too.
    """
    if isinstance(x, SparseCsrTensor) and x.ndim == 2:
        return x.crows, x.cols, x.values
    coo = expanded(x if isinstance(x, SparseCsrTensor) else as_coalesced(x))
    *front, rows, _ = x.shape
    starts = ends_of(keys_of(coo.indices[:-1], (*front, rows)), math.prod((*front, rows)))
    return starts, _named(coo) if front and names_rows else coo.indices[-1], coo.values


def _sparse_product(x: Any, y: Any) -> Any:
    """Row by row, each value of x meets the stored row of y that its column names."""
    *front, rows, inner = x.shape
    if tuple(front) != y.shape[:-2] or y.shape[-2] != inner:
        raise ShapeError(f"x {x.shape} has no product with y {y.shape}: other inner dims, or front")
    dims, columns = (*front, rows, y.shape[-1]), y.shape[-1]
    strides_of(dims)
    x_starts, x_cols, x_values = _by_rows(x, names_rows=True)
    y_starts, y_cols, y_values = _by_rows(y, names_rows=False)
    is_bool = x_values.dtype == y_values.dtype == dt.bool_
    places = (x_starts, x_cols, y_starts, y_cols)
    ends = ops.cumsum(ops.sparse_product_counts(*places, columns), 0)
    starts = ops.concat([ops.zeros([1], "int64"), ends], 0)
    cols = ops.sparse_product_columns(*places, starts, columns, as_dim(starts[-1]))
    x_values = cast(x_values, "int32") if is_bool else x_values
    values = ops.sparse_product_terms(x_values, y_values, *places, starts, cols, columns)
    values = cast(values, dt.bool_) if is_bool else values
    found = SparseCsrTensor(starts, cols, values, (math.prod((*front, rows)), columns), True)
    if not front:
        return found if isinstance(x, SparseCsrTensor) else expanded(found)
    at = expanded(found).indices
    indices = ops.concat([indices_of(at[0], (*front, rows)), at[1:]], 0)
    return alike(SparseCooTensor(indices, values, dims, True), x)


@takes()
def mv(x: Any, vec: Any) -> Any:
    """The product of a sparse matrix and a dense vector, a dense vector.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
    >>> phix.sparse.mv(a, [1.0, 10.0]).tolist()
    [20.0, 3.0]
    """
    vec, x = as_tensor(vec), _matrices(x, "x")
    if vec.ndim != 1 or x.ndim != 2:
        raise ShapeError(f"a matrix and a vector are needed, found {x.shape} and {vec.meta}")
    return _product(x, vec)


@takes()
def addmm(input: Any, x: Any, y: Any, beta: FloatLike = 1.0, alpha: FloatLike = 1.0) -> Any:
    """beta input + alpha x y for a sparse matrix x. With the number 0 for beta NaN and inf in a
    dense input do not count.

    Args:
        input, y: both dense, or both sparse; input has the shape of the product.
        x: a sparse matrix.
        beta, alpha: numbers.

    Returns:
        A dense tensor, or a sparse one if all three are: CSR if they are.

    >>> import phix
    >>> x = phix.sparse.sparse_coo_tensor([[0], [1]], [2.0], [1, 2])
    >>> phix.sparse.addmm([[1.0]], x, [[3.0], [4.0]]).tolist()
    [[9.0]]
    """
    product = matmul(_matrices(x, "x"), y)
    if isinstance(y, SparseTensor):
        return add(multiply(as_sparse(input, "input"), beta), multiply(product, alpha))
    input = as_tensor(input)
    if product.ndim == 1 or not _fit(input.shape, product.shape):
        raise ShapeError(f"input must be like the product {product.meta}, found {input.meta}")
    is_alone = not isinstance(beta, TensorBase) and beta == 0
    start = ops.zeros_like(input) if is_alone else input
    return sized(start, product.shape) * beta + product * alpha


@takes()
def masked_matmul(x: Any, y: Any, mask: Any) -> Any:
    """The elements of the product of two dense matrices at the places of a sparse one.

    Args:
        x: dense [..., m, k].
        y: dense [..., k, n].
        mask: sparse [..., m, n]; its values do not count.

    Returns:
        A sparse tensor with the places of mask, each once.

    >>> import phix
    >>> mask = phix.sparse.sparse_coo_tensor([[0], [1]], [1.0], [2, 2])
    >>> phix.sparse.masked_matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0, 5.0], [0.0, 1.0]], mask).values
    Tensor([7.], dtype=float32, shape=[1], place=cpu)
    """
    x, y, mask = as_tensor(x), as_tensor(y), as_coalesced(_matrices(mask, "mask"))
    *front, rows, columns = mask.shape
    if (
        not _fit(x.shape[:-1], (*front, rows))
        or not _fit((*y.shape[:-2], *y.shape[-1:]), (*front, columns))
        or not may_be_equal(x.shape[-1], y.shape[-2])
    ):
        raise ShapeError(
            f"x [..., m, k] and y [..., k, n] are needed for a mask {mask.shape}, found {x.meta} "
            f"and {y.meta}"
        )
    y = sized(_swapped(y), (*front, columns))
    return mask.with_values(products_at(sized(x, (*front, rows)), y, expanded(mask).indices))


def products_at(x: Any, y: Any, indices: Any) -> Any:
    """The products of a row of x and a row of y for each place: (front, row of x, row of y)."""

    def rows_of(a: Any, place: Any) -> Any:
        dims = a.shape[:-1]
        if len(dims) == 1:
            return ops.gather(a, place[0])
        return ops.gather_nd(a, ops.transpose(place, [1, 0]))

    dtype, x, y = factors(x, y)
    right = ops.concat([indices[:-2], indices[-1:]], 0)
    found = ops.sum(rows_of(x, indices[:-1]) * rows_of(y, right), [1])
    return cast(found, dtype) if dt.is_float(dtype) else found


def _install() -> None:
    def __matmul__(x: Any, y: Any) -> Any:
        return matmul(x, y)

    def __rmatmul__(x: Any, y: Any) -> Any:
        return matmul(y, x)

    method_of(SparseTensor)(__matmul__)
    method_of(SparseTensor)(__rmatmul__)


_install()
