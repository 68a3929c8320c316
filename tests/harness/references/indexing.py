"""Reading and writing at places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def sliced(
    x: np.ndarray,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """The elements in Python's slices of the axes named."""
    return x[slices(x, axes, starts, ends, strides)]


def slices(
    x: np.ndarray,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
) -> tuple[slice, ...]:
    """Python's slices of the axes named, as an index; without strides every element."""
    index = [slice(None)] * x.ndim
    for axis, *bounds in zip(axes, starts, ends, strides or [1] * len(axes)):
        index[axis] = slice(*bounds)
    return tuple(index)


def put_at(
    x: np.ndarray,
    index: Any,
    values: np.ndarray,
    combine: Any = None,
    axes: Sequence[int] = (),
) -> np.ndarray:
    """A copy of x with values put at the index, or combined with what is there.

    The index is of the first axes, or of those in ``axes``.
    """
    out = x.copy()
    view = np.moveaxis(out, axes, range(len(axes))) if axes else out
    if combine is None:
        view[index] = values
    else:
        combine.at(view, index, values)
    return out


def scatter(x: np.ndarray, index: np.ndarray, updates: np.ndarray, overwrite: bool) -> np.ndarray:
    """Rows replaced by updates, or by the sum of the updates to the row."""
    if index.ndim == 2:
        index = index.reshape(len(index))
    if overwrite:
        return put_at(x, index, updates)
    cleared = put_at(x, index, np.zeros((), x.dtype))
    return put_at(cleared, index, updates, np.logical_or if x.dtype == bool else np.add)


_COMBINE = {"add": np.add, "mul": np.multiply, "amax": np.maximum, "amin": np.minimum,
            "mean": np.add}  # fmt: skip


def put_along_axis(
    arr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    axis: int,
    reduce: str,
    include_self: bool,
) -> np.ndarray:
    """Values put along the axis one by one."""
    where = list(np.ogrid[tuple(slice(d) for d in indices.shape)])
    where[axis] = indices
    index, values = tuple(where), np.broadcast_to(values, indices.shape)
    if reduce == "assign":
        return put_at(arr, index, values)
    combine = _COMBINE[reduce]
    if arr.dtype == bool:
        combine = {"add": np.logical_or, "mul": np.logical_and}.get(reduce, combine)
    if include_self:
        out, counts = arr, np.ones(arr.shape)
    else:
        first = {"mul": 1, "amax": -np.inf, "amin": np.inf}.get(reduce, 0)
        out, counts = put_at(arr, index, first), put_at(np.ones(arr.shape), index, 0)
    out = put_at(out, index, values, combine)
    if reduce == "mean":
        return out / put_at(counts, index, 1, np.add)
    return out
