"""The bits of the counter-based generator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def random_bits(key: np.ndarray, shape: Sequence[int], width: int) -> np.ndarray:
    """Threefry-2x32 of the counters 0, 1, ... under each key (Salmon et al., 2011)."""
    size = int(np.prod(shape, dtype=np.int64))
    keys = [k[..., None] for k in np.moveaxis(key, -1, 0)]
    low = np.broadcast_to(np.arange(size, dtype=np.uint32), (*key.shape[:-1], size))
    first, second = threefry2x32(*keys, np.zeros_like(low), low)
    if width == 64:
        first = first.astype(np.uint64) << np.uint64(32) | second
    return first.reshape(*key.shape[:-1], *shape)


def threefry2x32(
    k0: np.ndarray, k1: np.ndarray, c0: np.ndarray, c1: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two words of random bits from a key and a counter of two words, in 20 rounds."""
    keys = [k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA)]
    x, y = c0 + k0, c1 + k1
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y
