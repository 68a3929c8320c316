"""What ``x.at[...]`` does with ints out of range: the ``mode`` of JAX's updates.

Updates leave out what is outside. To fill in what is read there, ``x`` gets one more place along
each axis that ints index, and all that is outside is read from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import indexing
from phix.core.errors import AttributeValueError, shown
from phix.core.later import call_op
from phix.core.tensor import TensorBase

PLAIN = frozenset({None, "promise_in_bounds"})
OUTSIDE = frozenset({"drop", "fill"})
_MODES = ("promise_in_bounds", "clip", "drop", "fill")


def checked(mode: str | None, call: str) -> str | None:
    """The mode.

    Raises:
        AttributeValueError: there is no such mode.
    """
    if mode is None or mode in _MODES:
        return mode
    raise AttributeValueError(
        f"{call}: mode is None or one of {', '.join(_MODES)}, found {shown(mode)}"
    )


def clipped(x: TensorBase, index: Any) -> tuple[Any, ...]:
    """The index with the nearest inside for each int that is out of range."""

    def nearest(i: Any, size: Any) -> Any:
        return call_op("minimum", call_op("maximum", i, size * 0), size - 1)

    return _rewritten(x, index, nearest)[0]


def padded(x: TensorBase, index: Any, fill: Any) -> tuple[TensorBase, tuple[Any, ...]]:
    """``x`` with one more place of ``fill`` along the axes of ints, and the index into it."""

    def beyond(i: Any, size: Any) -> Any:
        return call_op("where", call_op("logical_and", i >= 0, i < size), i, size)

    index, axes = _rewritten(x, index, beyond)
    for axis in axes:
        dims = tuple(1 if k == axis else d for k, d in enumerate(x.meta.dims))
        place = call_op("full", attrs=(dims, fill, x.dtype, None))
        x = call_op("concat", [x, place], attrs=(axis,))
    return x, index


def as_tensors(x: TensorBase, index: Any) -> tuple[Any, ...]:
    """The index with a tensor for each int, which nothing looks at."""
    given = indexing.entries_of(x, index)
    for number in indexing.axes_of_ints(x, given):
        given[number] = indexing.as_numbers(x, given[number])
    return tuple(given)


def missing(dtype: np.dtype[Any]) -> Any:
    """What stands for an element that is not there: NaN, or the int that is furthest from 0."""
    kind = dt.kind(dtype)
    if kind == "int":
        bounds = np.iinfo(dtype)
        return int(bounds.min or bounds.max)
    return True if kind == "bool" else float("nan")


def _rewritten(
    x: TensorBase, index: Any, change: Callable[[Any, Any], Any]
) -> tuple[tuple[Any, ...], list[int]]:
    """The index with each int of it changed, counted from 0 on; and the axes that ints index."""
    given = indexing.entries_of(x, index)
    axes = indexing.axes_of_ints(x, given)
    for number, axis in axes.items():
        size = call_op("full", attrs=((), x.meta.dims[axis], dt.int64, None))
        i = indexing.as_numbers(x, given[number])
        given[number] = change(call_op("where", i < 0, i + size, i), size)
    return tuple(given), list(axes.values())
