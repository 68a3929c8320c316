"""Selections, whose size the data tell."""

from __future__ import annotations

import numpy as np


def true_positions(mask: np.ndarray, size: int, fill: int) -> np.ndarray:
    """The flat positions of the first true elements, then ``fill``."""
    found = np.full(size, fill)
    chosen = [k for k, is_true in enumerate(mask.ravel()) if is_true][:size]
    found[: len(chosen)] = chosen
    return found


def masked_select(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements of ``x`` where ``mask`` is true, the two broadcast."""
    wide, chosen = np.broadcast_arrays(x, mask)
    return wide[chosen]
