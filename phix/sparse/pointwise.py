"""Functions of the stored values. All but those that say otherwise keep 0, so the zeros stay.

Values at one place are added first: sin(a + b) is not sin(a) + sin(b).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, FloatLike
from phix.core.errors import DTypeError
from phix.core.given import takes
from phix.sparse.tensors import as_coalesced, as_sparse
from phix.sparse.tensors import cast as to_dtype

_EXAMPLE = """``phix.ops.{name}`` of each value of a sparse tensor.{text}

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[1]], [1.0], [3])
    >>> phix.sparse.{name}(a).values.tolist() == phix.ops.{name}(a.values).tolist()
    True
    """
_ON_STORED = " It does not keep 0: only the stored values are taken, as in Paddle."


def _each(op: Callable[..., Any], text: str = "") -> Callable[[Any], Any]:
    """A function of one sparse tensor that is an op on its values."""

    def function(x: Any) -> Any:
        x = as_coalesced(as_sparse(x))
        return x.with_values(op(x.values))

    function.__name__ = function.__qualname__ = op.__name__
    function.__doc__ = _EXAMPLE.format(name=op.__name__, text=text)
    return takes()(function)


abs = _each(ops.abs)
acos = _each(ops.acos, _ON_STORED)
acosh = _each(ops.acosh, _ON_STORED)
asin = _each(ops.asin)
asinh = _each(ops.asinh)
atan = _each(ops.atan)
atanh = _each(ops.atanh)
expm1 = _each(ops.expm1)
isnan = _each(ops.isnan)
log1p = _each(ops.log1p)
relu = _each(ops.relu)
relu6 = _each(ops.relu6)
sin = _each(ops.sin)
sinh = _each(ops.sinh)
sqrt = _each(ops.sqrt)
square = _each(ops.square)
tan = _each(ops.tan)
tanh = _each(ops.tanh)


@takes()
def leaky_relu(x: Any, alpha: FloatLike) -> Any:
    """max(v, 0) + alpha min(v, 0) of each value v of a sparse tensor.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.leaky_relu(a, 0.5).values.tolist()
    [2.0, -2.0]
    """
    x = as_coalesced(as_sparse(x))
    return x.with_values(ops.leaky_relu(x.values, alpha))


@takes()
def pow(x: Any, factor: FloatLike) -> Any:
    """v ** factor of each stored value v; it keeps 0 where factor > 0 alone.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, 3.0])
    >>> phix.sparse.pow(a, 2.0).to_dense().tolist()
    [4.0, 0.0, 9.0]
    """
    x = as_coalesced(as_sparse(x))
    return x.with_values(ops.pow(x.values, factor))


@takes()
def scale(x: Any, scale: FloatLike, bias: FloatLike, bias_after_scale: bool) -> Any:
    """scale v + bias of each stored value v, or scale (v + bias) if not bias_after_scale.

    A bias goes to the stored values alone, as in Paddle.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.scale(a, 2.0, 1.0, True).values.tolist()
    [5.0, -7.0]
    """
    x = as_coalesced(as_sparse(x))
    return x.with_values(ops.scale(x.values, scale, bias, bias_after_scale))


@takes()
def divide_scalar(x: Any, scalar: FloatLike) -> Any:
    """v / scalar of each stored value v.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.divide_scalar(a, 2.0).values.tolist()
    [1.0, -2.0]
    """
    x = as_coalesced(as_sparse(x))
    return x.with_values(ops.divide(x.values, scalar))


@takes()
def full_like(x: Any, value: FloatLike, dtype: DTypeLike | None = None) -> Any:
    """The places of x, each with this value; the zeros stay.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.full_like(a, 1.0).to_dense().tolist()
    [1.0, 0.0, 1.0]
    """
    x = as_coalesced(as_sparse(x))
    return x.with_values(ops.full_like(x.values, value, dtype))


@takes()
def cast(x: Any, index_dtype: DTypeLike | None = None, value_dtype: DTypeLike | None = None) -> Any:
    """The values in another dtype.

    Args:
        x: a sparse tensor.
        index_dtype: None or "int64": indices have that dtype always.
        value_dtype: of the values; by default theirs.

    Raises:
        DTypeError: index_dtype is another.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.5, 3.0])
    >>> phix.sparse.cast(a, None, "int32").values.tolist()
    [2, 3]
    """
    x = as_coalesced(as_sparse(x))
    if index_dtype is not None and dt.as_dtype(index_dtype) != dt.int64:
        raise DTypeError(f"index_dtype must be int64, found {index_dtype!r}")
    if value_dtype is None:
        return x
    return x.with_values(to_dtype(x.values, dt.as_dtype(value_dtype)))
