"""Sums of rows, and products of two sparse matrices: all terms at once, sorted by their places."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def _terms(x_starts: Array, x_cols: Array, y_starts: Array, y_cols: Array) -> tuple[Array, ...]:
    """Of each term: the entry of x, that of y, the row and the column."""
    rows = np.repeat(np.arange(len(x_starts) - 1), np.diff(x_starts))
    times = np.diff(y_starts)[x_cols] if len(x_cols) else np.zeros(0, np.int64)
    left = np.repeat(np.arange(len(x_cols)), times)
    right = np.arange(len(left)) - (np.cumsum(times) - times)[left] + y_starts[x_cols[left]]
    return left, right, rows[left], y_cols[right]


def _places(columns: int, *matrices: Array) -> Array:
    """Where the product has terms, rows and columns as one number."""
    _, _, rows, found = _terms(*matrices)
    return np.unique(rows * max(columns, 1) + found)


def _counts(*args: Any) -> Array:
    *matrices, columns = args
    rows = _places(columns, *matrices) // max(columns, 1)
    return np.bincount(rows, minlength=len(matrices[0]) - 1)


def _columns(*args: Any) -> Array:
    *matrices, _, columns, _ = args
    return _places(columns, *matrices) % max(columns, 1)


def _sums(x: Array, y: Array, *args: Any) -> Array:
    *matrices, starts, cols, columns, of = args
    left, right, rows, found = _terms(*matrices)
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    product = np.searchsorted(owner * columns + cols, rows * columns + found)
    at = {"left": left, "right": right, "product": product}
    sizes = {"left": len(matrices[1]), "right": len(matrices[3]), "product": len(cols)}
    first, second = (place for name, place in at.items() if name != of)
    out = np.zeros(sizes[of], np.result_type(x, y))
    np.add.at(out, at[of], x[first] * y[second])
    return out


def _row_sums(x: Array, starts: Array) -> Array:
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    out = np.zeros(
        (len(starts) - 1, *x.shape[1:]),
        np.float32 if x.dtype.kind in "fV" and x.dtype.itemsize < 4 else x.dtype,
    )
    join = np.logical_or if x.dtype == bool else np.add
    join.at(out, owner, x[int(starts[0]) : int(starts[-1])])
    return out.astype(x.dtype)


SPARSE_PRODUCTS = {
    "segment_sum_csr": _row_sums,
    "sparse_product_counts": _counts,
    "sparse_product_columns": _columns,
    "sparse_product_terms": _sums,
}
