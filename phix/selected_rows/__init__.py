"""Some rows of a table: what the gradient of a sparse lookup is. The names are those of Paddle.

``phix.grad`` gives ``SelectedRows`` for a table that ``embedding(x, weight, sparse=True)`` reads.
It is a tree, so ``jit`` and ``vmap`` take and give it; ops that have kernels for it, such as
``add``, ``scale`` and the steps of optimizers, take it for a tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError, TensorIndexError, described
from phix.core.faces import face
from phix.core.given import INT, takes
from phix.core.selected_rows import SelectedRows
from phix.core.tensor import Tensor, TensorBase
from phix.primitives.selected_rows import inside, merged

__all__ = [
    "SelectedRows",
    "get_tensor_from_selected_rows",
    "merge_selected_rows",
    "selected_rows",
]
__dir__ = face(__all__)


@takes(height=INT)
def selected_rows(rows: Any, value: Any, height: int) -> SelectedRows:
    """The table [height, ...] that has value[k] added to its row rows[k], and zeros elsewhere.

    Args:
        rows: ints [n] from 0 to height - 1, in any order; one may come several times.
        value: [n, ...], any dtype.
        height: how many rows the table has.

    Raises:
        ShapeError: there is not one value for each row.
        TensorIndexError: a row is outside of the table. (Where rows are traced, a compiled program
            takes the nearest inside; a negative one counts from the end.)

    >>> import phix
    >>> x = phix.selected_rows.selected_rows([2, 0, 2], [[1.0], [2.0], [3.0]], 3)
    >>> x.to_dense().tolist()
    [[2.0], [0.0], [4.0]]
    """
    rows, value = _tensor(rows), _tensor(value)
    if dt.kind(rows.dtype) != "int" and not (isinstance(rows, Tensor) and not rows.size):
        raise DTypeError(f"rows must be ints, found {rows.meta}")
    if height < 0 or rows.ndim != 1 or not value.ndim or not _fit(rows, value):
        raise ShapeError(
            f"rows [n], value [n, ...] and a height from 0 are needed, found {rows.meta}, "
            f"{value.meta} and {height}"
        )
    rows = rows if rows.dtype == dt.int64 else ops.cast(rows, dt.int64)
    if not isinstance(rows, Tensor):
        return SelectedRows(inside(rows, height), value, height)
    known: np.ndarray = rows.numpy()
    if known.size and not (known.min() >= 0 and known.max() < height):
        bad = known[(known < 0) | (known >= height)][0]
        raise TensorIndexError(f"rows has {bad} for a table of {height} rows")
    return SelectedRows(rows, value, int(height))


def _fit(rows: Any, value: Any) -> bool:
    return dm.may_equal(rows.meta.dims[0], value.meta.dims[0])


def _tensor(x: Any) -> Any:
    if isinstance(x, SelectedRows):
        raise ArgumentError("a dense tensor is needed, found selected rows; write x.to_dense()")
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def _selected(x: Any) -> SelectedRows:
    if not isinstance(x, SelectedRows):
        raise ArgumentError(
            f"x must be SelectedRows, found {described(x)}; write selected_rows(rows, value, "
            "height)"
        )
    return x


@takes()
def merge_selected_rows(x: Any) -> SelectedRows:
    """Each row once, in order, with the sum of what is given for it.

    How many are left is computed where the program runs, so this works under ``jit``, too.

    >>> import phix
    >>> x = phix.selected_rows.selected_rows([2, 0, 2], [[1.0], [2.0], [3.0]], 3)
    >>> phix.selected_rows.merge_selected_rows(x).rows.tolist()
    [0, 2]
    """
    return merged(_selected(x))


@takes()
def get_tensor_from_selected_rows(x: Any) -> Tensor:
    """The values of x, without the rows that they belong to.

    >>> import phix
    >>> x = phix.selected_rows.selected_rows([2, 0], [[1.0], [2.0]], 3)
    >>> phix.selected_rows.get_tensor_from_selected_rows(x).tolist()
    [[1.0], [2.0]]
    """
    return _selected(x).value
