"""The CPU engine: prints the loop IR as LLVM IR and compiles it with llvmlite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core import arrays, libraries
from phix.core.engines import Program
from phix.core.graph import Graph
from phix.core.places import Place
from phix.kernels.cpu import matrices, views  # noqa: F401 - matrices tells core what it makes
from phix.kernels.cpu.program import CpuProgram
from phix.kernels.engine_base import EngineOfPrograms, LoopEngine, Lower

if TYPE_CHECKING:
    from phix.kernels.cpu.memory import CpuExplanation
    from phix.kernels.cpu.timed import TimedProgram


class CpuEngine(EngineOfPrograms, LoopEngine):
    """Compiles graphs of primitives to native programs, cached on disk."""

    name = "cpu"
    backends = ("BLAS", "SCIPY", "NUMPY", "CPU")

    def lazy_program(
        self, graph: Graph, contiguous: tuple[bool, ...], lower: Lower, place: Place | None
    ) -> Program:
        """Where the library numba is pinned, the program is printed as its source."""
        if libraries.pinned() == libraries.PRINTED:
            from phix.kernels.numba.printed.engine import NumbaProgram  # who pins it needs it

            return NumbaProgram(graph, contiguous, lower)
        return CpuProgram(graph, contiguous, lower)

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> CpuExplanation:
        """See :class:`phix.core.engines.Engine`."""
        from phix.kernels.cpu.memory import CpuExplanation  # needs all that makes code

        return CpuExplanation(graph, contiguous)

    def timed(self, graph: Graph, contiguous: tuple[bool, ...]) -> TimedProgram:
        """The program of a graph of primitives, with a clock around each of its steps."""
        from phix.kernels.cpu.timed import TimedProgram  # who profiles needs it

        return TimedProgram(graph, contiguous)

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What makes an eager result that shares its input's memory; see ``views.py``."""
        return views.view(op_name, attrs)


def _look(like: Sequence[np.ndarray]) -> Callable[..., Any]:
    from phix.kernels.cpu import array_looks  # who passes arrays often needs it

    return array_looks.look(like)


arrays.provide_look(_look)
ENGINE = CpuEngine()
