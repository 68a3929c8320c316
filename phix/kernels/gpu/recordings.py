"""Programs recorded as CUDA graphs, by the memory they work on.

A recording holds addresses, so it serves calls with those inputs and outputs alone. The pool of
the device hands the same blocks out again in a loop of like calls, so a few recordings serve it.

A step between ranks is recorded by all of them or by none. So the ranks of a mesh decide together
what they do with a call of a program that has such steps.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.kernels.gpu import nccl
from phix.kernels.gpu.nccl import SEEN, UNSEEN, Link
from phix.kernels.gpu.runtime import Runtime

# Recordings kept for one program and one set of shapes.
MOST = 16
# Calls in which ranks ask for different recordings before they make new ones.
_MISSES = 4

Key = tuple[Any, ...]
# Starts a program on inputs, outputs and the block of its temps; gives what is to be kept alive.
Start = Callable[[Sequence[Any], Sequence[Any], Any], Any]


class Recordings:
    """The recordings of one program for one set of shapes; ``contiguous`` says of each input
    whether it always is."""

    def __init__(self, runtime: Runtime, block_size: int, contiguous: Sequence[bool]) -> None:
        self.runtime, self.block_size = runtime, block_size
        self.strided = [number for number, promised in enumerate(contiguous) if not promised]
        self.blocks: dict[Any, Any] = {}  # by stream: calls on two of them may overlap
        # with each recording the memory that it works on besides; None: the program ran on it once
        self.seen: OrderedDict[Key, tuple[Callable[[], None], list[Any]] | None] = OrderedDict()
        self.lock = threading.Lock()

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any], start: Start) -> None:
        """Start the program on these inputs and outputs: the second time they come, recorded."""
        address, state = self.runtime.address, self.runtime.state()
        key: Key = (*state, *map(address, inputs), *map(address, outputs))
        if self.strided:
            key = (*key, *(tuple(inputs[number].strides) for number in self.strided))
        with self.lock:
            block = self._block(state[0]) if self.block_size else None
            replay = self._find(key, lambda: start(inputs, outputs, block))
            if replay is not None:
                replay()
            else:
                start(inputs, outputs, block)

    def _block(self, stream: Any) -> Any:
        if stream not in self.blocks:
            self.blocks[stream] = self.runtime.empty((self.block_size,), np.dtype(np.uint8))
        return self.blocks[stream]

    def _find(self, key: Key, run: Callable[[], Any]) -> Callable[[], None] | None:
        """``run`` as a recording, which keeps the memory that ``run`` returns alive."""
        found = self.seen.get(key)
        if found is None:
            if key not in self.seen:
                self._note(key)
                return None
            kept: list[Any] = []
            replay = self.runtime.recorded(lambda: kept.append(run()))
            found = self.seen[key] = None if replay is None else (replay, kept)
        self.seen.move_to_end(key)
        return None if found is None else found[0]

    def _note(self, key: Key) -> None:
        """Remember that the program has run on this memory."""
        self.seen.setdefault(key, None)
        self.seen.move_to_end(key)
        if len(self.seen) > MOST:
            self.seen.popitem(last=False)


class JointRecordings(Recordings):
    """Those of a program with steps between ranks, which they make and use together. ``numbers``
    has that of each, the same on all ranks; ``misses``, in how many calls one after the other the
    ranks asked for different ones."""

    def __init__(
        self,
        runtime: Runtime,
        block_size: int,
        contiguous: Sequence[bool],
        links: Sequence[Link | None],
        digest: int,
    ) -> None:
        super().__init__(runtime, block_size, contiguous)
        self.links, self.digest = links, digest
        self.numbers: dict[Key, int] = {}
        self.misses: dict[Key, int] = {}
        nccl.RECORDINGS.add(self)

    def _find(self, key: Key, run: Callable[[], Any]) -> Callable[[], None] | None:
        wish = self.numbers.get(key, SEEN if key in self.seen else UNSEEN)
        found, number = nccl.decide(self.links, self.digest, wish)
        if found == UNSEEN:
            self._note(key)
            self._miss(key)
            return None
        self.misses[key] = 0
        if found == SEEN:
            self.numbers[key] = number
            for link in self.links:
                if link is not None:
                    link.count = number
        return super()._find(key, run)

    def _miss(self, key: Key) -> None:
        """The others ask for another recording, or none: if they go on so, this one is let go."""
        self.misses[key] = self.misses.get(key, 0) + 1
        if self.misses[key] > _MISSES:
            self.numbers.pop(key, None)
            self.seen[key], self.misses[key] = None, 0

    def _note(self, key: Key) -> None:
        super()._note(key)
        for known in (self.numbers, self.misses):
            for gone in [k for k in known if k not in self.seen]:
                del known[gone]

    def forget(self) -> None:
        """Let all of them go."""
        with self.lock:
            self.seen.clear()
            self.numbers.clear()
