"""The two kinds of sparse tensors, how they are made, and the ways between them and dense ones."""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    NumberRangeError,
    ShapeError,
    described,
)
from phix.core.given import entries, takes
from phix.core.hints import missing_member
from phix.core.tensor import Tensor, TensorBase

# A sum is made in the wide dtype and rounded once; one of bools is their "or".
_WIDE = {dt.float16: dt.float32, dt.bfloat16: dt.float32, dt.bool_: dt.int32}


class SparseTensor:
    """What both kinds have: values at some places, zeros at all others."""

    values: Any
    shape: tuple[int, ...]
    is_coalesced: bool

    if TYPE_CHECKING:  # from phix.sparse.arithmetic, phix.sparse.products, phix.sparse.kinds

        def __array_ufunc__(self, *_: Any, **__: Any) -> Any: ...
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __abs__(self) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __rmatmul__(self, other: Any) -> Any: ...

    else:  # which would take every name for one of these

        def __getattr__(self, name: str) -> Any:
            raise missing_member(type(self), name, "phix.sparse", "x.to_dense()")

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nnz(self) -> Any:
        """How many values are stored; -1 where only the run of a compiled program will tell."""
        return self.values.shape[0]

    @property
    def T(self) -> Any:
        """The axes in the other order; of a CSR tensor again a CSR tensor."""
        return reordered(self, tuple(range(self.ndim))[::-1])

    def to_dense(self) -> Tensor:
        """All elements; values at one place are added."""
        return to_dense(self)

    @takes()
    def with_values(self, values: Any) -> Any:
        """The same places with other values, such as those that a derivative is taken for.

        >>> import phix
        >>> a = phix.sparse.sparse_coo_tensor([[0, 1]], [2.0, 3.0], [4])
        >>> squares = lambda v: phix.ops.sum(a.with_values(v).to_dense() ** 2)
        >>> phix.grad(squares)(a.values).tolist()
        [4.0, 6.0]
        """
        values = as_tensor(values)
        if values.ndim != self.values.ndim or not all(
            may_be_equal(m, n) for m, n in zip(values.shape, self.values.shape)
        ):
            raise ShapeError(
                f"with_values takes values like those there, {self.values.meta}, found "
                f"{values.meta}; make another tensor for other places"
            )
        return dataclasses.replace(self, values=values)  # type: ignore[type-var]

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ArgumentError("a sparse tensor is no array; write x.to_dense()")

    def __bool__(self) -> bool:
        raise ArgumentError("a sparse tensor has no truth value; write x.to_dense(), or x.values")

    def __len__(self) -> int:
        raise ArgumentError("a sparse tensor has no len(); write x.shape[0], or x.nnz")

    def __repr__(self) -> str:
        fields = [f.name for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        lines = "".join(f"\n  {n}={getattr(self, n)!r}," for n in fields)
        return f"{type(self).__name__}({lines}\n)"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SparseCooTensor(SparseTensor):
    """values[k] stands at the place indices[:, k]; made and checked by ``sparse_coo_tensor``.

    indices is int64[sparse dims, nnz], values [nnz, ...dense dims], and shape all dims, the sparse
    ones first. A place may come twice: the values there are added. If ``is_coalesced`` each comes
    once, and they stand in the order of memory. A tree node whose leaves are indices and values.

    >>> import phix
    >>> a = phix.sparse.SparseCooTensor(
    ...     phix.to_tensor([[0, 1]]), phix.to_tensor([2.0, 3.0]), (3,), True
    ... )
    >>> a.to_dense().tolist()
    [2.0, 3.0, 0.0]
    """

    indices: Any
    values: Any
    shape: tuple[int, ...]
    is_coalesced: bool = False

    @property
    def sparse_dim(self) -> int:
        """How many of the axes, from the first, the indices are for."""
        return self.ndim - self.dense_dim

    @property
    def dense_dim(self) -> int:
        """How many axes a value has."""
        return self.values.ndim - 1

    def coalesce(self) -> SparseCooTensor:
        """Each place once, in the order of memory."""
        return coalesce(self)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SparseCsrTensor(SparseTensor):
    """A matrix by rows: row r has values[k] in column cols[k] for crows[r] <= k < crows[r + 1].

    Made and checked by ``sparse_csr_tensor``. crows is int64[rows + 1], cols int64[nnz], values
    [nnz], shape (rows, columns). If ``is_coalesced`` the columns of each row increase. A tree node
    whose leaves are crows, cols and values. Several matrices, of shape (n, rows, columns), stand
    one after another: crows is int64[n * (rows + 1)], and each matrix counts its rows from 0.

    >>> import phix
    >>> phix.sparse.sparse_csr_tensor([0, 1, 1], [2], [5.0], [2, 3]).to_dense().tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]
    """

    crows: Any
    cols: Any
    values: Any
    shape: tuple[int, ...]
    is_coalesced: bool = False


pytrees.register(
    SparseCooTensor,
    lambda x: ((x.indices, x.values), (x.shape, x.is_coalesced)),
    lambda aux, leaves: SparseCooTensor(*leaves, *aux),
)
pytrees.register(
    SparseCsrTensor,
    lambda x: ((x.crows, x.cols, x.values), (x.shape, x.is_coalesced)),
    lambda aux, leaves: SparseCsrTensor(*leaves, *aux),
)


# -- what is given -------------------------------------------------------------------------------
def as_tensor(x: Any, dtype: Any = None) -> Any:
    """What is given, as a dense tensor."""
    if isinstance(x, SparseTensor):
        raise ArgumentError("a dense tensor is needed, found a sparse one; write x.to_dense()")
    x = x if isinstance(x, TensorBase) else owned_tensor(x)
    return x if dtype is None else cast(x, dt.as_dtype(dtype))


def cast(x: Any, dtype: Any) -> Any:
    """x itself where it is of the dtype."""
    return x if x.dtype == dtype else ops.cast(x, dtype)


def as_sparse(x: Any, name: str = "x") -> Any:
    """What is given, if it is a sparse tensor."""
    if not isinstance(x, SparseTensor):
        raise ArgumentError(
            f"{name} must be a sparse tensor, found {described(x)}; write to_sparse_coo(x, dims)"
        )
    return x


def may_be_equal(m: Any, n: Any) -> bool:
    """Whether two dims, of which one may be unknown, can be the same."""
    return not isinstance(m, int) or not isinstance(n, int) or m == n


def sized(x: Any, dims: Any) -> Any:
    """A dense tensor whose unknown dims must be these: a program says so where they are others.

    Places of a sparse tensor are looked up in it, and the nearest is taken of one outside.
    """
    known = [isinstance(n, int) for n in x.shape]
    for axis, n in enumerate(dims):
        if isinstance(n, int) and not known[axis]:
            # One dim at a time, in front: two reshapes in a row are one, which looks at their
            # product alone.
            order = [axis, *(a for a in range(x.ndim) if a != axis)]
            front = ops.transpose(x, order)
            front = ops.reshape(front, [n, *front.shape[1:]])
            x = ops.transpose(front, [order.index(a) for a in range(x.ndim)])
    return x


def sizes_of(shape: Any, rank: int) -> tuple[int, ...]:
    """The dims of a sparse tensor: ints, as many as the places and values say."""
    try:
        sizes = tuple(operator.index(n) for n in entries(shape, "shape"))
    except TypeError as error:
        raise ArgumentError(f"shape must be a list of ints, found {described(shape)}") from error
    if len(sizes) != rank:
        raise ShapeError(f"the indices and values are for {rank} axes, found shape {sizes}")
    if any(n < 0 for n in sizes):
        raise ShapeError(f"no dim is negative, found shape {sizes}")
    return sizes


# -- places as one number each -------------------------------------------------------------------
def strides_of(dims: tuple[int, ...]) -> np.ndarray:
    if math.prod(dims) >= 1 << 63:
        raise NumberRangeError(f"places in {dims} are too many to be counted in int64")
    return np.array([math.prod(dims[k + 1 :]) for k in range(len(dims))], np.int64)[:, None]


def keys_of(indices: Any, dims: tuple[int, ...]) -> Any:
    """Each place as its number in the order of memory."""
    return ops.sum(indices * owned_tensor(strides_of(dims)), [0])


def indices_of(keys: Any, dims: tuple[int, ...]) -> Any:
    """The places of these numbers."""
    some = tuple(max(n, 1) for n in dims)
    column = owned_tensor(np.array(some, np.int64)[:, None])
    return ops.floor_divide(keys[None], owned_tensor(strides_of(some))) % column


def counted(x: Any) -> Any:
    """0, 1, 2, ...: one for each element of a vector."""
    return ops.cumsum(ops.ones_like(x, "int64"), 0) - 1


def merged(keys: Any) -> tuple[Any, Any]:
    """The different keys in order, and which of them each is."""
    found, _, where, _ = ops.unique(keys, False, True, False, [])
    return found, where


def factors(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """The dtype of sums of products of x and y, and both so wide that no term is rounded before."""
    dtype = dt.promote(x.dtype, y.dtype)
    wide = _WIDE.get(dtype, dtype)
    return (dtype, cast(x, wide), cast(y, wide)) if dt.is_float(dtype) else (dtype, x, y)


def summed(values: Any, where: Any, count: Any) -> Any:
    """Row r: the sum of the values[k] with where[k] = r; count rows."""
    wide = _WIDE.get(values.dtype, values.dtype)
    zeros = ops.zeros([count, *values.shape[1:]], wide)
    return cast(ops.index_add(zeros, where, cast(values, wide)), values.dtype)


# -- from one kind to another --------------------------------------------------------------------
@takes()
def coalesce(x: Any) -> SparseCooTensor:
    """Each place once, in the order of memory, with the sum of the values there.

    Their number is computed where the program runs, so this works under ``jit``, too.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[2, 0, 2]], [1.0, 2.0, 3.0])
    >>> phix.sparse.coalesce(a).values.tolist()
    [2.0, 4.0]
    """
    x = as_sparse(x)
    if not isinstance(x, SparseCooTensor):
        raise ArgumentError("x must be a SparseCooTensor; write to_sparse_coo(x)")
    if x.is_coalesced:
        return x
    dims = x.shape[: x.sparse_dim]
    keys, where = merged(keys_of(x.indices, dims))
    values = summed(x.values, where, keys.shape[0])
    return SparseCooTensor(indices_of(keys, dims), values, x.shape, True)


def _as_coo(x: Any) -> SparseCooTensor:
    """The same places and values as a COO tensor."""
    if isinstance(x, SparseCooTensor):
        return x
    begins = row_starts(x)
    marks = ops.zeros([x.cols.shape[0] + 1], "int64")
    marks = ops.index_add(marks, begins, ops.ones_like(begins))
    rows = (ops.cumsum(marks, 0) - 1)[:-1]
    places = [rows] if x.ndim == 2 else [*indices_of(rows, x.shape[:2])]
    indices = ops.stack([*places, x.cols])
    return SparseCooTensor(indices, x.values, x.shape, x.is_coalesced)


def row_starts(x: SparseCsrTensor) -> Any:
    """Where each row begins among all values."""
    if x.ndim == 2:
        return x.crows[:-1]
    count, rows, _ = x.shape
    ends = ops.reshape(x.crows, [count, rows + 1])
    last = ends[:, -1]
    starts = ends[:, :-1] + (ops.cumsum(last, 0) - last)[:, None]
    return ops.reshape(starts, [count * rows])


def ends_of(rows: Any, count: int) -> Any:
    """Where rows end among values that stand by rows, and first 0: count + 1 numbers."""
    times = ops.index_add(ops.zeros([count + 1], "int64"), rows + 1, ops.ones_like(rows))
    return ops.cumsum(times, 0)


def as_coalesced(x: Any) -> Any:
    """x, of its kind, with each place once."""
    if x.is_coalesced:
        return x
    merged_x = coalesce(_as_coo(x))
    return to_sparse_csr(merged_x) if isinstance(x, SparseCsrTensor) else merged_x


def once_if_bools(x: Any) -> Any:
    """x, of its kind; if of bools, which are numbers next, with each place once: "or" is no sum."""
    return as_coalesced(x) if x.dtype == dt.bool_ else x


def alike(coo: SparseCooTensor, x: Any) -> Any:
    """A COO tensor as one of the kind of x, if a matrix can be that."""
    is_csr = isinstance(x, SparseCsrTensor) and coo.ndim in (2, 3) and not coo.dense_dim
    return to_sparse_csr(coo) if is_csr else coo


def _swapped(x: SparseCooTensor, perm: tuple[int, ...]) -> SparseCooTensor:
    """The axes in another order; sparse ones stay in front of dense ones."""
    count = x.sparse_dim
    if sorted(perm[:count]) != list(range(count)):
        raise AttributeValueError(
            f"perm {perm}: the {count} sparse axes must stay in front of the dense ones"
        )
    if perm == tuple(range(x.ndim)):
        return x
    values = ops.transpose(x.values, [0, *(a - count + 1 for a in perm[count:])])
    indices = ops.stack([x.indices[a] for a in perm[:count]])
    keeps_order = x.is_coalesced and perm[:count] == tuple(range(count))
    return SparseCooTensor(indices, values, tuple(x.shape[a] for a in perm), keeps_order)


@takes()
def values(x: Any) -> Any:
    """The stored values of a sparse tensor.

    >>> import phix
    >>> phix.sparse.values(phix.sparse.sparse_coo_tensor([[1, 1]], [2.0, 3.0], [3])).tolist()
    [2.0, 3.0]
    """
    return as_sparse(x).values


@takes()
def indices(x: Any) -> Any:
    """The places of a SparseCooTensor, int64[sparse dims, nnz]; those of a CSR tensor as such.

    >>> import phix
    >>> phix.sparse.indices(phix.sparse.sparse_coo_tensor([[1, 1]], [2.0, 3.0], [3])).tolist()
    [[1, 1]]
    """
    return expanded(x).indices


@takes()
def to_dense(x: Any) -> Tensor:
    """All elements of a sparse tensor; values at one place are added (of bools: "or").

    >>> import phix
    >>> phix.sparse.to_dense(phix.sparse.sparse_coo_tensor([[1, 1]], [2.0, 3.0], [3])).tolist()
    [0.0, 5.0, 0.0]
    """
    x = _as_coo(as_sparse(x))
    dims = x.shape[: x.sparse_dim]
    full = summed(x.values, keys_of(x.indices, dims), math.prod(dims))
    return ops.reshape(full, [*dims, *x.values.shape[1:]])


@takes()
def to_sparse_coo(x: Any, sparse_dim: int | None = None) -> SparseCooTensor:
    """A dense tensor by its elements that are not 0, or a CSR tensor as a COO tensor.

    Args:
        x: a tensor whose dims are known, or a sparse one.
        sparse_dim: of a dense tensor, over how many axes from the first; by default all. A value
            is stored where any element of it is not 0 (nan is not).

    Returns:
        A coalesced SparseCooTensor; of a CSR tensor, its places and values as they are.

    >>> import phix
    >>> phix.sparse.to_sparse_coo([[0.0, 2.0], [3.0, 0.0]]).indices.tolist()
    [[0, 1], [1, 0]]
    """
    if isinstance(x, SparseTensor):
        if sparse_dim is not None and sparse_dim != x.ndim - x.values.ndim + 1:
            raise AttributeValueError(
                f"sparse_dim {sparse_dim} of a sparse tensor; take x.to_dense()"
            )
        return _as_coo(x)
    x = as_tensor(x)
    count = x.ndim if sparse_dim is None else int(sparse_dim)
    if not 1 <= count <= x.ndim:
        raise AttributeValueError(
            f"sparse_dim must be from 1 to the rank of {x.meta}, found {count}"
        )
    if not all(isinstance(n, int) and n >= 0 for n in x.shape):
        raise ShapeError(f"the dims of a sparse tensor must be known, found {x.meta}")
    stored = ops.not_equal(x, ops.zeros_like(x))
    if count < x.ndim:
        stored = ops.any(stored, list(range(count, x.ndim)))
    places = ops.nonzero(stored)
    values = ops.gather_nd(x, places)
    return SparseCooTensor(ops.transpose(places, [1, 0]), values, tuple(x.shape), True)


@takes()
def to_sparse_csr(x: Any) -> SparseCsrTensor:
    """A matrix or several, sparse or dense, as a CSR tensor with increasing columns in each row.

    >>> import phix
    >>> phix.sparse.to_sparse_csr([[0.0, 2.0], [3.0, 4.0]]).crows.tolist()
    [0, 1, 3]
    """
    if isinstance(x, SparseCsrTensor):
        return x
    coo: Any = x if isinstance(x, SparseTensor) else to_sparse_coo(x)
    if coo.ndim not in (2, 3) or coo.values.ndim != 1:
        raise ShapeError(
            f"a CSR tensor is a matrix of numbers, or several, found shape {coo.shape}"
        )
    coo = coalesce(coo)
    rows = keys_of(coo.indices[:-1], coo.shape[:-1])
    starts = ends_of(rows, math.prod(coo.shape[:-1]))
    if coo.ndim == 3:
        first = np.arange(coo.shape[0])[:, None] * coo.shape[1]
        ends = owned_tensor((first + np.arange(coo.shape[1] + 1)).reshape(-1))
        begins = owned_tensor(np.repeat(first, coo.shape[1] + 1))
        starts = ops.gather(starts, ends) - ops.gather(starts, begins)
    return SparseCsrTensor(starts, coo.indices[-1], coo.values, coo.shape, True)


def values_at(dense: Any, x: Any) -> Any:
    """The elements of a dense tensor at the places of a sparse one."""
    places = ops.transpose(expanded(x).indices, [1, 0])
    return ops.gather_nd(sized(dense, x.shape), places)


def expanded(x: Any) -> SparseCooTensor:
    """A sparse tensor of either kind as a COO tensor, its places and values as they are."""
    return _as_coo(as_sparse(x))


def reordered(x: Any, perm: tuple[int, ...]) -> Any:
    """The axes of a sparse tensor in another order, of its kind."""
    return alike(_swapped(expanded(x), perm), x)
