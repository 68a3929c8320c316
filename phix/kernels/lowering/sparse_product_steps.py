"""Products of sparse matrices as host steps, for engines whose tables would be too large."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _pairs(starts: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of each entry."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts)), np.asarray(cols, np.int64)


def _met(
    x_starts: np.ndarray, x_cols: np.ndarray, y_starts: np.ndarray, y_cols: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each term: the entry of x, that of y, the row and the column."""
    rows, of = _pairs(x_starts, x_cols)
    times = np.diff(y_starts)[of] if len(of) else of
    left = np.repeat(np.arange(len(of)), times)
    before = np.cumsum(times) - times
    right = np.arange(len(left)) - before[left] + np.asarray(y_starts)[of[left]]
    return left, right, rows[left], np.asarray(y_cols, np.int64)[right]


def counts(*arrays: np.ndarray) -> None:
    """See the op of that name; the last of the arrays is what it gives."""
    *matrices, out = arrays
    _, _, rows, columns = _met(*matrices)
    pairs = np.unique(np.stack([rows, columns]), axis=1)
    out[...] = np.bincount(pairs[0], minlength=len(out))


def columns(*arrays: np.ndarray) -> None:
    """See the op of that name; the last of the arrays is what it gives."""
    *matrices, _, out = arrays
    _, _, rows, found = _met(*matrices)
    out[...] = np.unique(np.stack([rows, found]), axis=1)[1]


def terms(of: str) -> Callable[..., None]:
    """See the op of that name."""

    def run(x: np.ndarray, y: np.ndarray, *arrays: np.ndarray) -> None:
        *matrices, starts, cols, out = arrays
        left, right, rows, found = _met(*matrices)
        owner, held = _pairs(starts, cols)
        width = 1 + max(int(c.max()) if len(c) else 0 for c in (held, found))
        places = np.searchsorted(owner * width + held, rows * width + found)
        at = {"left": left, "right": right, "product": places}
        first, second = (p for name, p in at.items() if name != of)
        total = np.zeros(out.shape, np.result_type(out.dtype, np.float32) if out.dtype.kind in "fV"
                         else out.dtype)  # fmt: skip
        np.add.at(total, at[of], x[first].astype(total.dtype) * y[second].astype(total.dtype))
        out[...] = total

    return run
