"""Products of two sparse matrices, term by term."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np


def _terms(x_starts: Any, x_cols: Any, y_starts: Any, y_cols: Any) -> Iterator[tuple[int, ...]]:
    """Of each term: the row, the entry of x, that of y, and the column."""
    for row in range(len(x_starts) - 1):
        for k in range(int(x_starts[row]), int(x_starts[row + 1])):
            of = int(x_cols[k])
            for m in range(int(y_starts[of]), int(y_starts[of + 1])):
                yield row, k, m, int(y_cols[m])


def _columns(*matrices: Any) -> list[list[int]]:
    found: list[set[int]] = [set() for _ in range(len(matrices[0]) - 1)]
    for row, _, _, column in _terms(*matrices):
        found[row].add(column)
    return [sorted(columns) for columns in found]


def segment_sums(x: Any, starts: Any) -> Any:
    """Row r: the sum of the rows of x from starts[r] up to starts[r + 1]."""
    join = np.logical_or if x.dtype == bool else np.add
    rows = [join.reduce(x[a:b], axis=0, dtype=x.dtype) for a, b in pairwise(starts)]
    return np.array(rows, x.dtype).reshape(len(starts) - 1, *x.shape[1:])


def product_counts(x_starts: Any, x_cols: Any, y_starts: Any, y_cols: Any, columns: int) -> Any:
    """In how many columns each row of the product has terms."""
    rows = _columns(x_starts, x_cols, y_starts, y_cols)
    assert all(c < columns for row in rows for c in row)
    return np.array([len(row) for row in rows], np.int64)


def product_columns(x_starts: Any, x_cols: Any, y_starts: Any, y_cols: Any) -> Any:
    """The columns in which rows of the product have terms, row by row."""
    rows = _columns(x_starts, x_cols, y_starts, y_cols)
    return np.array([c for row in rows for c in row], np.int64)


def product_terms(
    x: Any, y: Any, x_starts: Any, x_cols: Any, y_starts: Any, y_cols: Any, starts: Any, cols: Any,
    of: str,
) -> Any:  # fmt: skip
    """The sum over the terms of two of their three values, at the place of the third."""
    sizes = {"left": len(x_cols), "right": len(y_cols), "product": len(cols)}
    out = np.zeros(sizes[of], np.result_type(x, y))
    for row, k, m, column in _terms(x_starts, x_cols, y_starts, y_cols):
        here = range(int(starts[row]), int(starts[row + 1]))
        (place,) = (p for p in here if cols[p] == column)
        at = {"left": k, "right": m, "product": place}
        first, second = (p for name, p in at.items() if name != of)
        out[at[of]] += x[first] * y[second]
    return out
