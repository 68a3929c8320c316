"""Selections, whose size the data tell."""

from __future__ import annotations

import numpy as np


def true_positions(mask: np.ndarray, size: int, fill: int, lead: int) -> np.ndarray:
    """The flat positions of the first true elements, then ``fill``."""
    found = np.full((*mask.shape[:lead], size), fill)
    for at in np.ndindex(*mask.shape[:lead]):
        chosen = [k for k, is_true in enumerate(mask[at].ravel()) if is_true][:size]
        found[at][: len(chosen)] = chosen
    return found


def masked_select(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements of ``x`` where ``mask`` is true, the two broadcast."""
    wide, chosen = np.broadcast_arrays(x, mask)
    return wide[chosen]


def _runs(items: list[np.ndarray]) -> list[int]:
    """Where an item differs from the one before; NaNs are equal."""
    return [
        k
        for k in range(len(items))
        if not k
        or not np.array_equal(items[k], items[k - 1], equal_nan=items[k].dtype.kind in "fc")
    ]


def _items(x: np.ndarray, axis: list[int]) -> tuple[list[np.ndarray], np.ndarray, int]:
    """What is compared, one after the other, in which array along which axis."""
    wide, at = (x, axis[0] % x.ndim) if axis else (x.ravel(), 0)
    return list(np.moveaxis(wide, at, 0)), wide, at


def unique(
    x: np.ndarray, return_index: bool, return_inverse: bool, return_counts: bool, axis: list[int]
) -> tuple[np.ndarray, ...]:
    """The different items in order, those of equal ones that come first."""
    items, wide, at = _items(x, axis)
    keys = [[(v != v, v) if v == v else (True, 0) for v in np.ravel(i).tolist()] for i in items]
    order = sorted(range(len(items)), key=lambda k: keys[k])
    starts = _runs([items[k] for k in order])
    inverse = np.zeros(len(items), np.int64)
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(items)])):
        inverse[order[start:end]] = number
    first = np.array([order[s] for s in starts], np.int64)
    counts = np.diff([*starts, len(items)])
    rest = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    return np.take(wide, first, at), *(found for is_asked, found in rest if is_asked)


def unique_consecutive(
    x: np.ndarray, return_inverse: bool, return_counts: bool, axis: list[int]
) -> tuple[np.ndarray, ...]:
    """The first of each run of equal items."""
    items, wide, at = _items(x, axis)
    starts = _runs(items)
    inverse = np.cumsum(np.isin(np.arange(len(items)), starts)) - 1
    rest = ((return_inverse, inverse), (return_counts, np.diff([*starts, len(items)])))
    out = np.take(wide, np.array(starts, np.int64), at)
    return out, *(found for is_asked, found in rest if is_asked)
