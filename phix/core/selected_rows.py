"""Some rows of a table: the kind of tensors that the gradient of a lookup is."""

from __future__ import annotations

import dataclasses
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees, tensor_kinds
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, ShapeError
from phix.core.given import takes
from phix.core.later import call_op
from phix.core.tensor import AroundValue, Tensor, TensorBase


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SelectedRows(AroundValue):
    """A table [height, ...] that is zero but in some rows: ``value[k]`` is added to ``rows[k]``.

    rows is int64[n], from 0 to height - 1, value [n, ...]; a row may come several times and in any
    order. A tree node whose leaves are rows and value; made and checked by
    ``phix.selected_rows.selected_rows``.

    >>> import phix
    >>> table = phix.ones([4, 2])
    >>> def loss(w):
    ...     return phix.nn.functional.embedding([3, 1, 3], w, sparse=True).sum()
    >>> gradient = phix.grad(loss)(table)
    >>> gradient.rows.tolist(), gradient.shape
    ([3, 1, 3], (4, 2))
    >>> gradient.to_dense().tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    """

    rows: Any
    value: Any
    height: Any

    __array_ufunc__ = None  # NumPy's arrays leave operators to the methods here

    @property
    def shape(self) -> tuple[Any, ...]:
        """The dims of the table."""
        return (self.height, *self.value.shape[1:])

    def to_dense(self) -> Tensor:
        """The table; what is given for one row several times is added, in float32 at least."""
        dims = (self.height, *self.value.meta.dims[1:])
        zeros = call_op("full", attrs=(dims, 0, self.dtype, None))
        return call_op("add", zeros, self)

    @takes()
    def with_value(self, value: Any) -> SelectedRows:
        """The same rows with another value, one for each of them.

        >>> import phix
        >>> x = phix.selected_rows.selected_rows([2, 0], [[1.0], [2.0]], 3)
        >>> x.with_value([[5.0], [6.0]]).to_dense().tolist()
        [[6.0], [0.0], [5.0]]
        """
        value = value if isinstance(value, TensorBase) else owned_tensor(value)
        if not value.ndim or not dm.may_equal(value.meta.dims[0], self.value.meta.dims[0]):
            raise ShapeError(
                f"value must have one for each of {self.value.meta.dims[0]} rows, found "
                f"{value.meta}"
            )
        return SelectedRows(self.rows, value, self.height)

    def __add__(self, other: Any) -> Any:
        return call_op("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return call_op("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return call_op("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return call_op("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return call_op("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return call_op("multiply", self, other)

    def __truediv__(self, other: Any) -> Any:
        return call_op("divide", self, other)

    def __neg__(self) -> Any:
        return self.with_value(-self.value)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ArgumentError("selected rows are no array; write x.to_dense()")

    def __bool__(self) -> bool:
        raise ArgumentError("selected rows have no truth value; write x.to_dense(), or x.value")

    def __len__(self) -> int:
        raise ArgumentError("selected rows have no len(); write x.height, or x.rows.shape[0]")

    def __repr__(self) -> str:
        return (
            f"SelectedRows(\n  rows={self.rows!r},\n  value={self.value!r},\n"
            f"  height={self.height!r},\n)"
        )


def _parts(x: SelectedRows) -> Any:
    """A height that a program computes is a leaf, any other belongs to the structure."""
    if isinstance(x.height, dm.Dim):
        return (x.rows, x.value, call_op("full", attrs=((), x.height, dt.int64, None))), None
    if isinstance(x.height, int):
        return (x.rows, x.value), x.height
    return (x.rows, x.value, x.height), None


def _whole(height: Any, parts: Any) -> SelectedRows:
    rows, value, *computed = parts
    if computed:
        (height,) = computed
        if isinstance(height, Tensor) and height.size:
            height = int(height.numpy().flat[0])  # the lanes of a batch have one height
    return SelectedRows(rows, value, height)


pytrees.register(SelectedRows, _parts, _whole)
tensor_kinds.add_kind("selected_rows", SelectedRows)
