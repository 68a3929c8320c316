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
    mode: str = "raise",
) -> np.ndarray:
    """A copy of x with values put at the index, or combined with what is there.

    The index is of the first axes, or of those in ``axes``. With the mode "drop" only the entries
    that are in range are put, with "clip" the others at the nearest inside.
    """
    out = x.copy()
    view = np.moveaxis(out, axes, range(len(axes))) if axes else out
    if mode != "raise":
        index, values = _in_range(view, np.broadcast_arrays(*index), values, mode)
    if combine is None:
        view[index] = values
    else:
        combine.at(view, index, values)
    return out


def _in_range(
    x: np.ndarray, index: Sequence[np.ndarray], values: np.ndarray, mode: str
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Indices that NumPy takes, and the values to put there."""
    sides = [(np.where(i < 0, i + n, i), n) for i, n in zip(index, x.shape)]
    if mode == "clip":
        return tuple(np.clip(i, 0, n - 1) for i, n in sides), values
    is_in = np.all([(i >= 0) & (i < n) for i, n in sides], axis=0)
    wide = np.broadcast_to(values, (*is_in.shape, *x.shape[len(index) :]))
    return tuple(i[is_in] for i, _ in sides), wide[is_in]


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
    mode: str = "raise",
) -> np.ndarray:
    """Values put along the axis one by one."""
    where = list(np.ogrid[tuple(slice(d) for d in indices.shape)])
    where[axis] = indices
    index, values = tuple(where), np.broadcast_to(values, indices.shape)
    put = lambda x, v, how=None: put_at(x, index, v, how, mode=mode)  # noqa: E731
    if reduce == "assign":
        return put(arr, values)
    combine = _COMBINE[reduce]
    if arr.dtype == bool:
        combine = {"add": np.logical_or, "mul": np.logical_and}.get(reduce, combine)
    if include_self:
        out, counts = arr, np.ones(arr.shape)
    else:
        first = {"mul": 1, "amax": -np.inf, "amin": np.inf}.get(reduce, 0)
        out, counts = put(arr, first), put(np.ones(arr.shape), 0)
    out = put(out, values, combine)
    if reduce == "mean":
        return out / put(counts, 1, np.add)
    return out
