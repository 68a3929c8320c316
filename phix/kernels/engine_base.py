"""What engines have in common; each of these is a part of :class:`phix.core.engines.Engine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core.graph import Graph
from phix.core.places import CPU, Place

Lower = Callable[[], Graph]


class EngineOfPrograms:
    """An engine whose ``program`` takes the graph as it was traced, and what lowers it."""

    def compile(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Lower | None = None,
        place: Place | None = None,
    ) -> Any:
        """See :class:`phix.core.engines.Engine`."""
        return self.lazy_program(graph, contiguous, lower or (lambda: graph), place)

    def lazy_program(
        self, graph: Graph, contiguous: tuple[bool, ...], lower: Lower, place: Place | None
    ) -> Any:
        """The program of a graph that ``lower`` gives in primitives, if it is asked to."""
        raise NotImplementedError


class EngineOfPrimitives(EngineOfPrograms):
    """An engine that makes programs of primitives; the graph as it was traced is no use to it."""

    def lazy_program(
        self, graph: Graph, contiguous: tuple[bool, ...], lower: Lower, place: Place | None
    ) -> Any:
        return self.program(lower(), contiguous, place)

    def program(self, graph: Graph, contiguous: tuple[bool, ...], place: Place | None) -> Any:
        """The program of a graph of primitives; without a place, for the first of the engine's."""
        raise NotImplementedError


class LoopEngine:
    """An engine whose programs are loops: it has code for each primitive that has a lowering or a
    scalar body."""

    name = ""
    flattens = True

    def supports(self, op_name: str, dtype: np.dtype) -> bool:
        """Whether the op has a lowering or a scalar body: they serve every dtype it claims."""
        from phix.kernels.lowering.registry import has_lowering
        from phix.kernels.scalar import bodies  # all that makes code is imported when needed

        has_body = op_name in bodies.names() and (
            self.name == CPU.kind or not bodies.is_native(op_name)
        )
        return has_body or has_lowering(op_name)
