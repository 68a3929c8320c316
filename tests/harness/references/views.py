"""Memory read in another way, by NumPy's own views.

References see floats in 64 bits; the widths that the op saw are those of its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def bitcast(x: np.ndarray, dtype: Any) -> np.ndarray:
    seen = x.astype(f"f{np.dtype(dtype).itemsize}") if x.dtype.kind == "f" else x
    return seen.view(dtype)


def view_dtype(input: np.ndarray, dtype: Any) -> np.ndarray:
    seen = {"c": np.complex64, "f": np.float16}.get(input.dtype.kind, input.dtype)
    return np.ascontiguousarray(input.astype(seen)).view(dtype)


def as_strided(
    input: np.ndarray, dims: Sequence[int], stride: Sequence[int], offset: int
) -> np.ndarray:
    """Of a float32 tensor, where there is an offset in bytes."""
    places = np.full(dims, offset // 4)
    for axis, step in enumerate(stride):
        places += step * np.indices(dims)[axis]
    return input.ravel()[places]


def rows(input: np.ndarray, begin: int, end: int) -> np.ndarray:
    assert 0 <= begin <= end <= len(input)
    return input[begin:end]


def right_shift(x: np.ndarray, y: np.ndarray, is_arithmetic: bool) -> np.ndarray:
    """With copies of the sign coming in, or zeros."""
    if is_arithmetic:
        return np.right_shift(x, y)
    dtype = np.result_type(x, y)
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    return np.right_shift(x.astype(unsigned), y.astype(unsigned)).astype(dtype)
