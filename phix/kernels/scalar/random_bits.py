"""Counter-based random bits.

Threefry-2x32 with 20 rounds, of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random
numbers: as easy as 1, 2, 3", 2011: a block of two 32-bit words as a function of a key of two
words and a counter of two words.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.scalar.language import Expr

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 20


def _rotate_left(x: Expr, n: int) -> Expr:
    return (x << n) | (x >> (32 - n))


def threefry2x32(key0: Expr, key1: Expr, counter0: Expr, counter1: Expr) -> tuple[Expr, Expr]:
    """Two uint32 of random bits from a key and a counter of two uint32 each."""
    assert all(x.dtype == dt.uint32 for x in (key0, key1, counter0, counter1))
    keys = (key0, key1, key0 ^ key1 ^ _PARITY)
    x, y = counter0 + key0, counter1 + key1
    for i in range(_ROUNDS // 4):
        for rotation in _ROTATIONS[i % 2]:
            x = x + y
            y = _rotate_left(y, rotation) ^ x
        x = x + keys[(i + 1) % 3]
        y = y + keys[(i + 2) % 3] + (i + 1)
    return x, y
