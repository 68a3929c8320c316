"""What a group of ranks is to a library that joins their devices (:mod:`phix.kernels.gpu.nccl`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from phix.core.source import Source
from phix.parallel.failures import LEAVING, WHEREABOUTS


class OnDevices:
    """A part of :class:`phix.parallel.exchange.Group`. ``rank`` is that in the mesh; ``link``
    belongs to the library."""

    names: Mapping[str, str]
    name: str
    comm: Any
    watch: Any
    rank = 0
    link: Any = None

    def enter(
        self, kind: str, detail: Sequence[int], x: Any, source: Source | None, place: str
    ) -> None:
        """Say that a step is to begin; ``x`` lies on ``place``."""
        self.announce(kind, source)
        if self.watch is not None:
            self.watch(self, kind, detail, x, place)

    def announce(self, kind: str, source: Source | None) -> None:
        """Say at which step this rank is, to those who look when it is gone."""
        WHEREABOUTS.enter(self.names[kind], self.name, source)

    def leave(self) -> None:
        """Say that it is done, or under way."""
        WHEREABOUTS.leave()

    def text(self, kind: str) -> str:
        """A step in words."""
        return f"{self.names[kind]} over {self.name!r}"

    def least(self, numbers: np.ndarray) -> np.ndarray:
        """The least of what the ranks say, number by number."""
        from mpi4py import MPI

        found = np.empty_like(numbers)
        self.comm.Allreduce(numbers, found, op=MPI.MIN)
        return found

    def at_failure(self, function: Callable[[], None]) -> None:
        """Have a function called when this rank ends all of them by an error."""
        LEAVING.append(function)

    def is_ending(self) -> bool:
        """Whether a rank of the program is gone, so that the others are about to be ended."""
        return WHEREABOUTS.is_ending()
