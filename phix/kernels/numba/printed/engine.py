"""Programs of the CPU that run as printed Numba source, in place of LLVM's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import dims as dm
from phix.core import rewrites, settings, stack, stages
from phix.core.engines import Launcher, environment
from phix.core.errors import KernelNotFoundError
from phix.core.graph import Graph
from phix.core.places import Place
from phix.core.texts import Texts
from phix.kernels.cpu import CpuEngine
from phix.kernels.cpu.program import CpuProgram
from phix.kernels.loops import text
from phix.kernels.numba.printed.module import Module
from phix.kernels.numba.printed.program import function_of, module_of


class NumbaProgram:
    """A graph as a printed module; see :class:`phix.core.engines.Program`."""

    def __init__(
        self, graph: Graph, contiguous: tuple[bool, ...], lower: Callable[[], Graph]
    ) -> None:
        self.graph, self.contiguous, self.lower = graph, contiguous, lower
        self.left_out, self.settings = rewrites.left_out(), settings.current()
        self.sizes = dm.solutions([v.meta.dims for v in graph.inputs])

    @stack.lazy
    def module(self) -> Module:
        with rewrites.without(self.left_out), settings.in_force(self.settings):
            graph = self.lower()
            return stages.made(
                stages.CODE, "numba", lambda: module_of(graph, "program", self.contiguous)
            )

    @stack.lazy
    def machine_code(self) -> CpuProgram | None:
        """LLVM's program where code from outside phix is a part, which cannot be printed."""
        try:
            _ = self.module
        except KernelNotFoundError:
            with rewrites.without(self.left_out), settings.in_force(self.settings):
                return CpuProgram(self.graph, self.contiguous, self.lower)
        return None

    @stack.lazy
    def function(self) -> Callable[..., Any]:
        return function_of(self.module)

    @property
    def sections(self) -> Texts:
        """The loop IR, and the source."""
        if self.machine_code is not None:
            return self.machine_code.sections
        return Texts({"loop ir": text.program_text(self.module.program), "numba": self.module.text})

    def prepare(self) -> None:
        """See :class:`phix.core.engines.Program`: Numba compiles for the first arguments."""
        _ = self.machine_code or self.function

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """See :class:`phix.core.engines.Program`; results have memory of their own."""
        environment(self.graph, self.sizes, shapes)
        if self.machine_code is not None:
            return self.machine_code.launcher(shapes, donated)
        function, count = self.function, len(self.graph.outputs)

        def launch(*inputs: Any) -> tuple[Any, ...]:
            found = function(*inputs)
            return found if count != 1 else (found,)

        return launch


class NumbaEngine(CpuEngine):
    """The CPU's engine, with Numba source in place of LLVM IR."""

    def compile(  # type: ignore[override]
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Callable[[], Graph] | None = None,
        place: Place | None = None,
    ) -> NumbaProgram:
        """See :class:`phix.core.engines.Engine`."""
        return NumbaProgram(graph, contiguous, lower or (lambda: graph))


ENGINE = NumbaEngine()
