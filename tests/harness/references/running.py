"""What runs along an axis, and orders."""

from __future__ import annotations

import numpy as np


def recurrence(a: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """out_k = a_k * out_{k-1} + x_k along the axis."""
    factors, terms = np.moveaxis(a, axis, 0), np.moveaxis(x, axis, 0)
    rows = [terms[:1]]
    for k in range(1, len(terms)):
        rows.append(factors[k : k + 1] * rows[-1] + terms[k : k + 1])
    return np.moveaxis(np.concatenate(rows), 0, axis)


def running(extreme: np.ufunc, x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The extreme elements so far along the axis, and where each stands, the last of equals."""
    out = extreme.accumulate(x, axis)
    is_new = (x == out) | np.isnan(x)
    shape = [-1 if k == axis % x.ndim else 1 for k in range(x.ndim)]
    places = np.where(is_new, np.arange(x.shape[axis]).reshape(shape), 0)
    return out, np.maximum.accumulate(places, axis)


def argsort(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    """The stable order, NaN the largest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backward, axis)
