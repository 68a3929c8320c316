"""The card: memory by address, and handles, which are all that the host sees of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.kernels import Device


class Card:
    """An accelerator's memory. Freed blocks stay in a pool until it is emptied."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = self.pooled = 0
        self._blocks: dict[int, np.ndarray] = {}
        self._next = 1

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype) -> Handle:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if self.used + self.pooled + size > self.capacity:
            raise MemoryError(f"{self.used} of {self.capacity} bytes are in use")
        self.used += size
        address, self._next = self._next, self._next + 1
        self._blocks[address] = np.empty(shape, dtype)
        return Handle(self, address, shape, dtype)

    def free(self, address: int) -> None:
        size = self._blocks.pop(address).nbytes
        self.used -= size
        self.pooled += size

    def open(self, handle: Handle) -> np.ndarray:
        """The memory itself: for kernels, which run on the card."""
        return self._blocks[handle.address]


class Handle:
    """A tensor in the card's memory. Its values are not the host's to read."""

    __slots__ = ("address", "card", "dtype", "shape")

    def __init__(self, card: Card, address: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.card, self.address, self.shape, self.dtype = card, address, tuple(shape), dtype

    def __del__(self) -> None:
        self.card.free(self.address)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("the host cannot read the memory of an npu; copy it")

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} at {self.address} on the card>"


CARD = Card(capacity=1 << 30)


class Npu(Device):
    """What phix asks of a device: an allocator and copies."""

    storage = Handle

    def describe(self, index: int) -> str:
        return f"an accelerator played by NumPy, {CARD.capacity >> 20} MiB"

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Handle:
        return CARD.allocate(shape, dtype)

    def from_host(self, array: np.ndarray, index: int) -> Handle:
        handle = CARD.allocate(array.shape, array.dtype)
        CARD.open(handle)[...] = array
        return handle

    def to_host(self, storage: Handle) -> np.ndarray:
        return CARD.open(storage).copy()

    def empty_pool(self) -> None:
        CARD.pooled = 0
