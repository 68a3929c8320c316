"""The bits of the counter-based generator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def random_bits(
    key: np.ndarray, shape: Sequence[int], width: int, first: np.ndarray | None = None
) -> np.ndarray:
    """Threefry-2x32 of the counters first, first + 1, ... under each key (Salmon et al., 2011)."""
    size = int(np.prod(shape, dtype=np.int64))
    keys = [k[..., None] for k in np.moveaxis(key, -1, 0)]
    start = np.zeros(key.shape[:-1], np.int64) if first is None else first
    numbers = start[..., None].astype(np.uint64) + np.arange(size, dtype=np.uint64)
    words = (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)
    left, right = threefry2x32(*keys, *words)
    out = left.astype(np.uint64) << np.uint64(32) | right if width == 64 else left ^ right
    return out.reshape(*key.shape[:-1], *shape)


def split(key: np.ndarray) -> list[np.ndarray]:
    """Two keys out of one."""
    numbers = random_bits(key, [2], 64)
    words = [(numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)]
    return list(np.stack(words, -1))


def randint(key: np.ndarray, low: int, high: int, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Twice as many bits as the dtype has, at least 64, modulo the number of values."""
    width = max(np.dtype(dtype).itemsize * 8, 32)
    upper, lower = (random_bits(k, shape, width).astype(object) for k in split(key))
    span, whole = high - low, 2**width
    factor = (2 ** (width // 2) % span) ** 2 % whole % span
    offset = ((upper % span) * factor + lower % span) % whole % span
    return (low + offset).astype(dtype)


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
