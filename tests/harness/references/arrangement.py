"""Parts of tensors, by NumPy's slices and pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def crop(x: np.ndarray, shape: Sequence[int], offsets: Sequence[int]) -> np.ndarray:
    box = []
    for size, dim, first in zip(x.shape, shape, offsets or [0] * x.ndim):
        end = size if dim == -1 else first + dim
        assert first <= end <= size
        box.append(slice(first, end))
    return x[tuple(box)]


def pad3d(
    x: np.ndarray, paddings: Sequence[int], mode: str, pad_value: float, data_format: str
) -> np.ndarray:
    """Cut first where a padding is negative."""
    pads = np.zeros((5, 2), int)
    first = 2 if data_format == "NCDHW" else 1
    pads[first : first + 3] = np.reshape(paddings, (3, 2))[::-1]
    if mode == "circular":  # a cut would change what goes round
        for axis, (before, behind) in enumerate(pads):
            places = np.arange(-before, x.shape[axis] + behind) % x.shape[axis]
            x = np.take(x, places, axis)
        return x
    cuts = tuple(slice(max(-p, 0), n - max(-q, 0)) for n, (p, q) in zip(x.shape, pads))
    pads = np.maximum(pads, 0)
    if mode == "constant":
        return np.pad(x[cuts], pads, constant_values=pad_value)
    assert mode != "reflect" or (pads.max(1) < x.shape)[first : first + 3].all()
    return np.pad(x[cuts], pads, mode=_MODES[mode])


def columns(x: np.ndarray, start: int, length: int) -> np.ndarray:
    first = start + x.shape[1] if start < 0 else start
    end = x.shape[1] if length < 0 else first + length
    assert 0 <= first <= end <= x.shape[1]
    return x[:, first:end]
