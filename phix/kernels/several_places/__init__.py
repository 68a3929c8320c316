"""The engine for graphs over several places: each place's own engine, and copies between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import places
from phix.core.graph import Graph
from phix.core.places import Place
from phix.kernels.engine_base import EngineOfPrimitives
from phix.kernels.several_places.explanation import SegmentsExplanation
from phix.kernels.several_places.segments import SegmentsProgram


class SeveralPlaces(EngineOfPrimitives):
    """See :class:`phix.core.engines.Engine`; its graphs have states."""

    name = "several places"
    backends: tuple[str, ...] = ()
    flattens = False

    def program(
        self, graph: Graph, contiguous: tuple[bool, ...], place: Place | None
    ) -> SegmentsProgram:
        """The segments of the graph; ``place`` is that of results without one."""
        return SegmentsProgram(graph, place or places.CPU)

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> SegmentsExplanation:
        """See :class:`phix.core.engines.Engine`."""
        return SegmentsExplanation(self.compile(graph, contiguous))

    def supports(self, op_name: str, dtype: np.dtype) -> bool:
        """False: kernels are those of the places."""
        return False

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """None: no kernel is left out."""
        return None


ENGINE = SeveralPlaces()
