"""Memory for results: that of large results nobody holds any more is used again.

Fresh memory costs more than the arithmetic on it: the system zeroes every page of it. Results are
views of blocks kept here, and a block is free again when no view of it is left, which its count of
references tells.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from phix.core import places
from phix.core.places import CPU, with_room

SMALLEST = 256 << 10  # bytes; below this the C library is quick enough
MOST_BLOCKS = 32
MOST_BYTES = 256 << 20  # of all blocks kept, in use or free
# Where in a page results start: at a multiple of a vector register, and far from where NumPy's
# arrays do. A processor takes a load for one of what was just stored, and waits, if their places in
# the page are the same.
_PAGE, _START = 4096, 2048
# Results of a huge page and more start at one: NumPy asks the system for such pages in arrays of
# two and more, which has them where they are aligned. What goes between ranks takes two thirds of
# the time there: MPI reads the memory of another process page by page.
_HUGE_PAGE = 2 << 20


class _Block(np.ndarray):
    """Bytes that results are views of, from ``start`` on, of which there is ``room`` for so many.
    Who looks for a result's holders leaves ``keepers`` out."""

    keepers = 1
    start = 0
    room = 0


_lock = threading.Lock()
_blocks: list[_Block] = []  # the one used last at the end


Allocator = Callable[[tuple[int, ...], np.dtype], np.ndarray]


def allocator(shape: tuple[int, ...], dtype: np.dtype) -> Allocator:
    """What makes results of that shape and dtype, values not set: ``empty`` for large ones."""
    size = math.prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return np.empty
    return empty if size <= MOST_BYTES and _COUNTS else partial(places.allocate, CPU)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose values do not matter yet, C-contiguous, where a dropped one was if it fits.

    Raises:
        OutOfMemoryError: there is no room.
    """
    return with_room(CPU, shape, dtype, lambda: _in_block(shape, dtype))


def _in_block(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    with _lock:
        block = _taken(math.prod(shape) * dtype.itemsize)
        # a view of the block itself, not of a view of it: donation asks who holds the block
        return np.ndarray(shape, dtype, block, block.start)


def _taken(count: int) -> _Block:
    """A free block of at least ``count`` bytes and little more, else a fresh one."""
    for number in range(len(_blocks) - 1, -1, -1):
        room = _blocks[number].room
        if count <= room <= count + (count >> 2) and _holders(_blocks, number) == _ALONE:
            _blocks.append(_blocks.pop(number))
            return _blocks[-1]
    page = _PAGE if count < _HUGE_PAGE else _HUGE_PAGE
    fresh = _Block((count + page,), np.uint8)  # pages that nobody touches are no memory
    fresh.start, fresh.room = (_START - fresh.ctypes.data) % page, count
    _blocks.append(fresh)
    while len(_blocks) > MOST_BLOCKS or sum(b.room for b in _blocks) > MOST_BYTES:
        _blocks.pop(0).keepers = 0  # its memory goes when its last view does
    return _blocks[-1]


def _holders(blocks: list[_Block], number: int) -> int:
    return sys.getrefcount(blocks[number])


def release() -> None:
    """Forget all blocks: the memory of those that are free goes back to the system."""
    with _lock:
        while _blocks:
            _blocks.pop().keepers = 0


def _after_fork() -> None:
    """No thread of a forked process holds the lock."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
places.HOST_POOLS.append(release)
# The count of a block that only its list holds.
_ALONE = _holders([_Block(0)], 0)
# Without a lock around the interpreter, counts of references say nothing certain.
_COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()
