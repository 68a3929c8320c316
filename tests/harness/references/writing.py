"""Writes at slices and rows, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def index_add(x: np.ndarray, index: np.ndarray, value: np.ndarray, axis: int) -> np.ndarray:
    out = np.moveaxis(x.copy(), axis, 0)
    parts = np.moveaxis(value, axis, 0)
    assert len(parts) == len(index)
    for at, part in zip(index, parts):
        out[at] = out[at] | part if x.dtype == bool else out[at] + part
    return np.moveaxis(out, 0, axis)


def set_value(
    x: np.ndarray,
    values: np.ndarray,
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    axes: Sequence[int],
    decrease_axes: Sequence[int],
    none_axes: Sequence[int],
) -> np.ndarray:
    """An index of Python: ints where an axis goes, None where one comes."""
    index: list[int | slice | None] = [slice(None)] * x.ndim
    for axis, *bounds in zip(axes, starts, ends, steps):
        index[axis] = bounds[0] if axis in decrease_axes else slice(*bounds)
    for axis in sorted(none_axes, reverse=True):
        index.insert(axis, None)
    out = x.copy()
    out[tuple(index)] = values
    return out


def embedding_grad(
    table: np.ndarray, index: np.ndarray, rows: np.ndarray, padding_idx: int
) -> np.ndarray:
    out = table.copy()
    for at in np.ndindex(index.shape):
        if index[at] != padding_idx or padding_idx == -1:
            out[index[at]] += rows[at]
    return out
