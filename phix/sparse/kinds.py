"""Sparse tensors in calls of ``phix.ops``, of NumPy's functions, and on their way to SciPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.engines import engine
from phix.core.errors import ArgumentError, AttributeValueError, PhixError
from phix.core.given import takes
from phix.core.later import make, method_of
from phix.core.tensor_kinds import add_kind
from phix.sparse import arithmetic, arrangement, pointwise, products
from phix.sparse.tensors import (
    SparseCooTensor,
    SparseCsrTensor,
    SparseTensor,
    as_sparse,
)

# Functions of one tensor, by the name of the op and of NumPy's function.
_OF_ONE = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "expm1", "isnan", "leaky_relu",
    "log1p", "pow", "relu", "relu6", "scale", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "full_like",
)  # fmt: skip


def _matmul(x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
    x, y = (_turned(a) if turns else a for a, turns in ((x, transpose_x), (y, transpose_y)))
    return products.matmul(x, y)


def _turned(x: Any) -> Any:
    if isinstance(x, SparseTensor):
        return products.turned(x)
    return x if x.ndim == 1 else ops.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _cast(x: Any, dtype: Any) -> Any:
    return pointwise.cast(x, None, dtype)


def _slice(x: Any, axes: Any, starts: Any, ends: Any, infer_flags: Any, decrease_axis: Any) -> Any:
    if decrease_axis:
        raise AttributeValueError("slice: decrease_axis is for dense tensors; keep the axis")
    return arrangement.slice(x, axes, starts, ends)


def _sum(x: Any, axis: Any, dtype: Any, keepdim: bool) -> Any:
    """The op's sums, of ints in int64; those of ``phix.sparse.sum`` have the dtype of x."""
    return arrangement.sum(x, axis, dtype or dt.summed_dtype(x.dtype), keepdim)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(pointwise, name) for name in _OF_ONE},
    **{name: getattr(arithmetic, name) for name in ("add", "subtract", "multiply", "divide")},
    **{name: getattr(arrangement, name) for name in ("transpose", "reshape", "softmax")},
    **{name: getattr(products, name) for name in ("mv", "addmm")},
    "cast": _cast,
    "matmul": _matmul,
    "slice": _slice,
    "sum": _sum,
}
add_kind("sparse_coo", SparseCooTensor, _FUNCTIONS)
add_kind("sparse_csr", SparseCsrTensor, _FUNCTIONS)


# -- NumPy ---------------------------------------------------------------------------------------
def _np_sum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return _sum(a, axis, dtype, keepdims)


def _np_transpose(a: Any, axes: Any = None) -> Any:
    return arrangement.transpose(a, tuple(range(a.ndim))[::-1] if axes is None else axes)


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.absolute: pointwise.abs, np.arccos: pointwise.acos, np.arccosh: pointwise.acosh,
    np.arcsin: pointwise.asin, np.arcsinh: pointwise.asinh, np.arctan: pointwise.atan,
    np.arctanh: pointwise.atanh, np.negative: lambda x: -x,
    **{getattr(np, n): getattr(pointwise, n) for n in (
        "expm1", "isnan", "log1p", "sin", "sinh", "sqrt", "square", "tan", "tanh")},
    **{getattr(np, n): getattr(arithmetic, n) for n in ("add", "subtract", "multiply", "divide")},
    np.matmul: products.matmul,
}  # fmt: skip
_CALLS: dict[Any, Callable[..., Any]] = {
    np.sum: _np_sum, np.transpose: _np_transpose, np.dot: products.matmul,
    np.reshape: lambda a, shape: arrangement.reshape(a, shape),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim,
}  # fmt: skip


def _refused(name: str) -> ArgumentError:
    return ArgumentError(
        f"np.{name} takes no sparse tensor so; write x.to_dense(), or a function of phix.sparse"
    )


@method_of(SparseTensor)
def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
    """See ``numpy.ndarray.__array_ufunc__``."""
    own = _UFUNCS.get(ufunc)
    if own is None or method != "__call__" or settings:
        raise _refused(ufunc.__name__)
    return own(*inputs)


@method_of(SparseTensor)
def __array_function__(
    self: Any, function: Any, types: Sequence[type], args: Any, settings: dict[str, Any]
) -> Any:
    """See ``numpy.ndarray.__array_function__``."""
    own = _CALLS.get(function)
    if own is None:
        raise _refused(function.__name__)
    try:
        return own(*args, **settings)
    except PhixError:
        raise
    except TypeError:  # of arguments that are not offered
        raise _refused(function.__name__) from None


# -- SciPy ---------------------------------------------------------------------------------------
@takes()
def to_scipy(x: Any) -> Any:
    """The matrix as one of ``scipy.sparse``: a ``csr_array`` of a CSR tensor, else a ``coo_array``.

    The values are shared and read-only; SciPy keeps the indices in 32 bits where they fit.

    Args:
        x: a sparse tensor whose axes are all sparse; CSR: one matrix.

    Raises:
        ArgumentError: it has dense axes, or is several CSR matrices, or is traced.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1, 1], [2, 0, 1]], [1.0, 2.0, 3.0])
    >>> phix.sparse.to_scipy(a).toarray().tolist()
    [[0.0, 0.0, 1.0], [2.0, 3.0, 0.0]]
    """
    x = as_sparse(x)
    if x.values.ndim != 1 or (isinstance(x, SparseCsrTensor) and x.ndim != 2):
        raise ArgumentError(f"SciPy has no matrix of shape {x.shape} and values {x.values.meta}")
    engine("cpu")  # whose folder has what makes SciPy's
    if isinstance(x, SparseCsrTensor):
        return make("scipy.csr_array", x.values.numpy(), x.cols.numpy(), x.crows.numpy(), x.shape)
    return make("scipy.coo_array", x.values.numpy(), tuple(x.indices.numpy()), x.shape)
