"""Arithmetic of two sparse tensors, or of one and a number, and the operators for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.core.errors import ArgumentError, ShapeError, described
from phix.core.given import takes
from phix.core.later import method_of
from phix.core.tensor import TensorBase
from phix.core.tensor_kinds import checked_factor
from phix.sparse.tensors import (
    SparseCooTensor,
    SparseCsrTensor,
    SparseTensor,
    alike,
    as_coalesced,
    as_tensor,
    expanded,
    indices_of,
    keys_of,
    may_be_equal,
    merged,
    once_if_bools,
    summed,
    values_at,
)


@takes()
def add(x: Any, y: Any) -> Any:
    """x + y of two sparse tensors of one shape; a CSR tensor if both are.

    Beside a dense tensor of that shape it is a dense sum.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 1]], [1.0, 2.0], [3])
    >>> b = phix.sparse.sparse_coo_tensor([[1, 2]], [10.0, 20.0], [3])
    >>> phix.sparse.add(a, b).to_dense().tolist()
    [1.0, 12.0, 20.0]
    """
    return _dense_sum(ops.add, x, y) if _one_is_dense(x, y) else _met(ops.add, x, y)


@takes()
def subtract(x: Any, y: Any) -> Any:
    """x - y of two sparse tensors of one shape; a CSR tensor if both are.

    Beside a dense tensor of that shape it is a dense difference.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.subtract(a, a).values.tolist()
    [0.0, 0.0]
    """
    return _dense_sum(ops.subtract, x, y) if _one_is_dense(x, y) else _met(ops.subtract, x, y)


@takes()
def multiply(x: Any, y: Any) -> Any:
    """x * y of two sparse tensors of one shape, or of one and a number.

    A product is stored for each place of either, so that inf * 0 is nan, as it is of dense ones.
    With a dense tensor of that shape it is stored for each place of the sparse one, and the zeros
    stay.

    Raises:
        AttributeValueError: the number is infinite or NaN, which makes NaN of zeros.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.multiply(a, 2.0).values.tolist()
    [4.0, -8.0]
    """
    if _is_number(y) and _checked(x):
        x = once_if_bools(x)
        return x.with_values(ops.multiply(x.values, checked_factor(y)))
    if _is_number(x):
        return multiply(y, x)
    if _one_is_dense(x, y):
        x, y = (x, y) if isinstance(x, SparseTensor) else (y, x)
        return _with_dense(ops.multiply, x, y)
    return _met(ops.multiply, x, y)


@takes()
def divide(x: Any, y: Any) -> Any:
    """x / y of two sparse tensors of one shape, or of one by a number.

    A quotient is stored for each place of either: v / 0 where y has none. Where neither has a
    value the result has none, and not 0 / 0, as in Paddle. By a dense tensor of that shape it is
    stored for each place of x, and the zeros stay.

    Raises:
        AttributeValueError: the number is 0 or NaN, which makes NaN of zeros.

    >>> import phix
    >>> a = phix.sparse.sparse_coo_tensor([[0, 2]], [2.0, -4.0])
    >>> phix.sparse.divide(a, 2.0).values.tolist()
    [1.0, -2.0]
    """
    if _is_number(y) and _checked(x):
        x = as_coalesced(x)
        return x.with_values(ops.divide(x.values, checked_factor(y, divides=True)))
    if isinstance(x, SparseTensor) and _one_is_dense(x, y):
        return _with_dense(ops.divide, x, y)
    return _met(ops.divide, x, y)


def _one_is_dense(x: Any, y: Any) -> bool:
    """Whether one of the two is a dense tensor or array of the shape of the other."""
    sparse, dense = (x, y) if isinstance(x, SparseTensor) else (y, x)
    return (
        isinstance(sparse, SparseTensor)
        and isinstance(dense, (TensorBase, np.ndarray))
        and dense.ndim == sparse.ndim
        and all(map(may_be_equal, dense.shape, sparse.shape))
    )


def _dense_sum(op: Callable[..., Any], x: Any, y: Any) -> Any:
    return op(*(a.to_dense() if isinstance(a, SparseTensor) else a for a in (x, y)))


def _with_dense(op: Callable[..., Any], x: Any, dense: Any) -> Any:
    """An op of a sparse and a dense tensor, at the places of the sparse one."""
    x = as_coalesced(x)
    return x.with_values(op(x.values, values_at(as_tensor(dense), x)))


def _is_number(x: Any) -> bool:
    """Whether something is one number."""
    is_plain = isinstance(x, (bool, int, float, complex, np.generic))
    return is_plain or (isinstance(x, (TensorBase, np.ndarray)) and x.ndim == 0)


def _checked(x: Any) -> bool:
    """That something is a sparse tensor."""
    if isinstance(x, SparseTensor):
        return True
    raise ArgumentError(
        f"two sparse tensors are needed, or one and a number as a factor, found "
        f"{described(x)}; write x.to_dense(), or mask_as(y, x) for a dense y at the places of x"
    )


def _same_places(x: Any, y: Any) -> bool:
    """Whether two tensors have the same places, as those of ``with_values`` do."""
    if isinstance(x, SparseCooTensor) and isinstance(y, SparseCooTensor):
        return x.is_coalesced and x.indices is y.indices
    if isinstance(x, SparseCsrTensor) and isinstance(y, SparseCsrTensor):
        return x.is_coalesced and x.crows is y.crows and x.cols is y.cols
    return False


def _met(op: Callable[..., Any], x: Any, y: Any) -> Any:
    """An op of two sparse tensors, at the places of either."""
    if not (_checked(x) and _checked(y)) or x.shape != y.shape or x.values.ndim != y.values.ndim:
        raise ShapeError(
            f"two sparse tensors of one shape are needed, with as many sparse axes, found "
            f"{x.shape} and {y.shape} with values {x.values.meta} and {y.values.meta}"
        )
    if _same_places(x, y):
        return x.with_values(op(x.values, y.values))
    a, b = expanded(x), expanded(y)
    dims = a.shape[: a.sparse_dim]
    of_a, of_b = keys_of(a.indices, dims), keys_of(b.indices, dims)
    keys, where = merged(ops.concat([of_a, of_b], 0))
    middle, count = of_a.shape[0], keys.shape[0]
    first, second = where[:middle], where[middle:]
    values = op(summed(a.values, first, count), summed(b.values, second, count))
    both = SparseCooTensor(indices_of(keys, dims), values, a.shape, True)
    return alike(both, x) if isinstance(y, SparseCsrTensor) else both


def _install() -> None:
    """The operators of both kinds."""
    functions = {"add": add, "sub": subtract, "mul": multiply, "truediv": divide}
    for name, function in functions.items():

        def plain(x: Any, y: Any, function: Any = function) -> Any:
            return function(x, y)

        def turned(x: Any, y: Any, function: Any = function) -> Any:
            return function(y, x)

        plain.__name__, turned.__name__ = f"__{name}__", f"__r{name}__"
        method_of(SparseTensor)(plain)
        method_of(SparseTensor)(turned)

    def __neg__(x: Any) -> Any:
        x = once_if_bools(x)
        return x.with_values(-x.values)

    def __pow__(x: Any, y: Any) -> Any:
        if not _is_number(y):
            raise ArgumentError(f"the exponent must be a number, found {described(y)}")
        x = as_coalesced(x)
        return x.with_values(ops.pow(x.values, y))

    def __abs__(x: Any) -> Any:
        x = as_coalesced(x)
        return x.with_values(ops.abs(x.values))

    for method in (__neg__, __pow__, __abs__):
        method_of(SparseTensor)(method)


_install()
