"""Order statistics and counts, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _rows(x: np.ndarray, axis: Sequence[int]) -> tuple[np.ndarray, tuple[int, ...]]:
    """The elements of each row on the last axis, and the dims with 1 for what is folded."""
    axes = sorted(a % x.ndim for a in axis) if axis else list(range(x.ndim))
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = np.transpose(x, [*kept, *axes])
    rows = moved.reshape(*moved.shape[: len(kept)], int(np.prod(moved.shape[len(kept) :])))
    return rows, tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def median(
    x: np.ndarray, axis: Sequence[int], keepdim: bool, mode: str, ignores_nan: bool
) -> tuple[np.ndarray, np.ndarray]:
    rows, dims = _rows(x, axis)
    lead = rows.shape[:-1]
    assert rows.shape[-1] or not np.prod(lead)
    out, places = np.empty(lead, x.dtype), np.empty((*lead, 2), np.int64)
    for at in np.ndindex(lead):
        row = rows[at]
        order = np.argsort(row, kind="stable")
        nans = np.flatnonzero(np.isnan(row))
        n = len(row) - (len(nans) if ignores_nan else 0)
        if n == 0:
            out[at], places[at] = np.nan, -1
        elif len(nans) and not ignores_nan:
            out[at], places[at] = np.nan, nans[0]
        else:
            places[at] = order[(n - 1) // 2], order[n // 2]
            out[at] = row[places[at]].mean() if mode == "avg" else row[places[at][0]]
    shape = dims if keepdim else lead
    if mode == "min":
        return out.reshape(shape), places[..., 0].reshape(shape)
    return out.reshape(shape), places.reshape(*shape, 2)


def _along(
    x: np.ndarray, axis: int, keepdim: bool, choose: Callable[[np.ndarray], Any]
) -> tuple[np.ndarray, np.ndarray]:
    places = np.expand_dims(np.apply_along_axis(choose, axis, x), axis)
    found = np.take_along_axis(x, places, axis)
    return (found, places) if keepdim else (found.squeeze(axis), places.squeeze(axis))


def kthvalue(x: np.ndarray, k: int, axis: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    return _along(x, axis, keepdim, lambda row: np.argsort(row, kind="stable")[k - 1])


def mode(x: np.ndarray, axis: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    def last_of_most(row: np.ndarray) -> int:
        values, counts = np.unique(row, return_counts=True)
        return int(np.flatnonzero(row == values[np.argmax(counts)])[-1])

    return _along(x, axis, keepdim, last_of_most)


def extreme_with_index(
    x: np.ndarray, choose: Callable[..., Any], axis: int, keepdim: bool, flatten: bool
) -> tuple[np.ndarray, np.ndarray]:
    if not flatten:
        return _along(x, axis, keepdim, choose)
    shape = (1,) * x.ndim if keepdim else ()
    return x.ravel()[choose(x)].reshape(shape), choose(x).reshape(shape)


def searchsorted(
    sequence: np.ndarray, values: np.ndarray, out_int32: bool, right: bool
) -> np.ndarray:
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side).astype(np.int32 if out_int32 else np.int64)
    out = np.empty(values.shape, np.int32 if out_int32 else np.int64)
    for at in np.ndindex(sequence.shape[:-1]):
        out[at] = np.searchsorted(sequence[at], values[at], side)
    return out


def histogram(
    input: np.ndarray, weight: Any, bins: int, low: float, high: float, density: bool
) -> np.ndarray:
    flat = input.ravel().astype(np.float64)
    if low == high and flat.size:
        low, high = flat.min(), flat.max()
    if low == high:
        low, high = (low - 1, high + 1) if flat.size else (0, 1)
    shares = None if weight is None else weight.ravel()
    found = np.histogram(flat, bins, (low, high), density, shares)[0]
    return found if weight is None and not density else found.astype(np.float32)


def restrict_nonzero(condition: np.ndarray, total: int) -> np.ndarray:
    found = np.argwhere(condition)[:total]
    return np.concatenate([found, np.zeros((total - len(found), condition.ndim), np.int64)])


def accuracy(indices: np.ndarray, label: np.ndarray) -> tuple[Any, ...]:
    assert len(indices) == label.size
    hits = sum(int(wanted) in row for row, wanted in zip(indices.tolist(), label.ravel()))
    total = len(indices)
    return np.float32(hits / max(total, 1)), np.int32(hits), np.int32(total)


def area_under_curve(
    x: np.ndarray, label: np.ndarray, pos: np.ndarray, neg: np.ndarray, weight: Any, top: int,
    steps: int,
) -> Any:  # fmt: skip
    """Bin by bin, pairs of a positive and a negative one counted; equal bins count a half."""
    counts = weight is None or weight.ravel()[0] != 0
    bins, after, sums = top + 1, [], []
    for stat, own in ((pos, label.ravel() > 0), (neg, label.ravel() == 0)):
        stat = stat.ravel().copy()
        assert len(own) == len(x)
        places = np.trunc(np.clip(x[:, -1] * top, 0, top)).astype(int)
        found = np.bincount(places[own], minlength=bins)
        if steps:
            now = stat[-1] % steps * bins
            total = stat[steps * bins : -1]
            total += counts * found - stat[now : now + bins]
            stat[now : now + bins] = found
            stat[-1] += 1
        else:
            stat += counts * found
            total, stat = stat, stat.reshape(1, bins)
        after.append(stat)
        sums.append(total)
    pairs = sum(
        p * n * (i > j) + p * n * 0.5 * (i == j)
        for i, p in enumerate(sums[0]) for j, n in enumerate(sums[1])
    )  # fmt: skip
    every = sums[0].sum() * sums[1].sum()
    return np.float64(pairs / every if every else 0.0), *after


def numbers_found(x: np.ndarray) -> Any:
    counts = [np.isnan(x).sum(), np.isinf(x).sum(), (x == 0).sum()]
    real = x[~np.isnan(x)]
    with np.errstate(all="ignore"):
        mean = x.sum() / x.size if x.size else np.nan
        values = [real.max(initial=-np.inf), real.min(initial=np.inf), mean]
    return np.array(counts, np.int64), np.array(values, np.float32)
