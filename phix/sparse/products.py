"""Products of a sparse matrix and dense ones."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core.annotations import FloatLike
from phix.core.errors import ArgumentError, ShapeError
from phix.core.given import takes
from phix.core.later import method_of
from phix.core.tensor import Tensor
from phix.sparse.tensors import (
    SparseTensor,
    as_coalesced,
    as_sparse,
    as_tensor,
    expanded,
    may_be_equal,
    reordered,
    summed,
)


def _matrix(x: Any, name: str) -> Any:
    """What is given, if it is a sparse matrix of numbers."""
    x = as_sparse(x, name)
    if x.ndim != 2 or x.values.ndim != 1:
        raise ShapeError(f"{name} must be a sparse matrix of numbers, found shape {x.shape}")
    return x


@takes()
def matmul(x: Any, y: Any) -> Tensor:
    """The product of a sparse and a dense matrix, in either order; dense.

    Args:
        x, y: one a sparse matrix, COO or CSR; the other dense, a matrix or a vector. They need
            memory for one row of the dense one for each stored value.

    Raises:
        ShapeError: the inner dims differ, or the ranks are others.
        ArgumentError: none of the two is sparse, or both are.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
    >>> phix.sparse.matmul(a, [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[6.0, 8.0], [3.0, 6.0]]
    """
    if isinstance(x, SparseTensor) and isinstance(y, SparseTensor):
        raise ArgumentError("one matrix must be dense, found two sparse; write x @ y.to_dense()")
    if isinstance(y, SparseTensor):
        dense = as_tensor(x)
        if dense.ndim not in (1, 2):
            raise ShapeError(f"x must be a matrix or a vector, found {dense.meta}")
        turned = reordered(_matrix(y, "y"), (1, 0))
        return (
            ops.transpose(_product(turned, ops.transpose(dense, [1, 0])), [1, 0])
            if (dense.ndim == 2)
            else _product(turned, dense)
        )
    return _product(_matrix(x, "x"), as_tensor(y))


def _product(x: Any, dense: Any) -> Any:
    """A sparse matrix by a dense matrix or vector."""
    if dense.ndim not in (1, 2) or not may_be_equal(dense.shape[0], x.shape[1]):
        raise ShapeError(
            f"a sparse matrix {x.shape} needs a dense matrix or vector of {x.shape[1]} rows, found "
            f"{dense.meta}"
        )
    coo = expanded(x)
    values = coo.values if dense.ndim == 1 else coo.values[:, None]
    return summed(values * ops.gather(dense, coo.indices[1]), coo.indices[0], x.shape[0])


@takes()
def mv(x: Any, vec: Any) -> Tensor:
    """The product of a sparse matrix and a dense vector, a dense vector.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
    >>> phix.sparse.mv(a, [1.0, 10.0]).tolist()
    [20.0, 3.0]
    """
    vec = as_tensor(vec)
    if vec.ndim != 1:
        raise ShapeError(f"vec must be a vector, found {vec.meta}; write matmul")
    return _product(_matrix(x, "x"), vec)


@takes()
def addmm(input: Any, x: Any, y: Any, beta: FloatLike = 1.0, alpha: FloatLike = 1.0) -> Tensor:
    """beta input + alpha x y for a sparse matrix x and dense matrices input and y; dense.

    >>> import phix
    >>> x = phix.sparse.sparse_coo_tensor([[0], [1]], [2.0], [1, 2])
    >>> phix.sparse.addmm([[1.0]], x, [[3.0], [4.0]]).tolist()
    [[9.0]]
    """
    input, y = as_tensor(input), as_tensor(y)
    product = _product(_matrix(x, "x"), y)
    if (
        product.ndim != 2
        or input.ndim != 2
        or not all(map(may_be_equal, input.shape, product.shape))
    ):
        raise ShapeError(f"input must be like the product {product.meta}, found {input.meta}")
    return input * beta + product * alpha


@takes()
def masked_matmul(x: Any, y: Any, mask: Any) -> Any:
    """The elements of the product of two dense matrices at the places of a sparse one.

    Args:
        x: dense [m, k].
        y: dense [k, n].
        mask: sparse [m, n]; its values do not count.

    Returns:
        A sparse tensor with the places of mask, each once.

    >>> import phix
    >>> mask = phix.sparse.sparse_coo_tensor([[0], [1]], [1.0], [2, 2])
    >>> phix.sparse.masked_matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0, 5.0], [0.0, 1.0]], mask).values
    Tensor([7.], dtype=float32, shape=[1], place=cpu)
    """
    x, y, mask = as_tensor(x), as_tensor(y), as_coalesced(_matrix(mask, "mask"))
    if (
        x.ndim != 2
        or y.ndim != 2
        or not (
            may_be_equal(x.shape[1], y.shape[0])
            and may_be_equal(x.shape[0], mask.shape[0])
            and may_be_equal(y.shape[1], mask.shape[1])
        )
    ):
        raise ShapeError(
            f"x [m, k] and y [k, n] are needed for a mask {mask.shape}, found {x.meta} and {y.meta}"
        )
    rows, cols = expanded(mask).indices
    terms = ops.gather(x, rows) * ops.gather(ops.transpose(y, [1, 0]), cols)
    return mask.with_values(ops.sum(terms, [1]))


def _install() -> None:
    def __matmul__(x: Any, y: Any) -> Any:
        return matmul(x, y)

    def __rmatmul__(x: Any, y: Any) -> Any:
        return matmul(y, x)

    method_of(SparseTensor)(__matmul__)
    method_of(SparseTensor)(__rmatmul__)


_install()
