"""Discrete Fourier transforms, by their sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def dft(
    x: np.ndarray, axes: Sequence[int], norm: str, forward: bool, onesided: bool = False
) -> np.ndarray:
    """The Fourier transform as it is written: the matrix exp(-+2 pi i j k / n) along each axis."""
    if not axes or 0 in (x.shape[a] for a in axes):
        raise ValueError("nothing to transform")
    count = np.prod([x.shape[a] for a in axes])
    divisors = {"ortho": np.sqrt(count), "forward" if forward else "backward": count}
    sizes = [x.shape[a] for a in axes]
    for n, axis in zip(sizes, axes):
        points = np.arange(n)
        turns = np.outer(points, points) * (-2j if forward else 2j) * np.pi / n
        x = np.moveaxis(np.tensordot(np.exp(turns), x, (1, axis)), 0, axis)
    x = x.take(range(sizes[-1] // 2 + 1), axes[-1]) if onesided else x
    return x / divisors.get(norm, 1)


def dft_c2r(
    x: np.ndarray, axes: Sequence[int], norm: str, forward: bool, size: int = 0
) -> np.ndarray:
    """The transform over the last axis of the points and the conjugates of those missing."""
    *others, last = axes
    size = size or 2 * (x.shape[last] - 1)
    if size < 1 or x.shape[last] != size // 2 + 1:
        raise ValueError("another number of points")
    x = dft(x, others, norm, forward) if others else x
    mirrored = np.conj(x.take([size - k for k in range(x.shape[last], size)], last))
    return dft(np.concatenate([x, mirrored], last), [last], norm, forward).real
