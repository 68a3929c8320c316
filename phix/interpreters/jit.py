"""jit: a graph traced once, lowered in visible steps, and run as one compiled program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from phix.core import dispatch, passes
from phix.core.engines import Explanation, Launcher, Program, engine
from phix.core.errors import DTypeError
from phix.core.graph import Graph
from phix.core.tensor import Tensor, Tracer
from phix.interpreters.check import infer_again
from phix.interpreters.decompose import decompose
from phix.interpreters.simplify import simplify

# The steps from the traced graph to what the engine compiles, in order.
PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("simplify", simplify),
    ("decompose", decompose),
    ("simplify primitives", simplify),
)


class Compiled:
    """A traced graph with its programs, one for each combination of contiguous inputs.

    ``off`` are the names of the rewrites to leave out: see :mod:`phix.core.passes`.
    """

    def __init__(self, graph: Graph, off: frozenset[str] = frozenset()) -> None:
        self.graph, self.off = graph, off
        self.stages: dict[str, Graph] = {}
        self.programs: dict[tuple[bool, ...], Program] = {}
        self.lock = threading.RLock()
        self.is_closed = not any(isinstance(c.value, Tracer) for c in graph.constants)
        self.is_static = all(v.meta.is_static() for v in graph.inputs)

    def lower(self) -> Graph:
        """The graph after the last pass; every stage is kept by name in ``stages``."""
        with self.lock:
            if not self.stages:
                graph = self.graph
                stages = {"traced": graph}
                with passes.without(self.off):
                    for name, step in PASSES:
                        graph = stages[name] = step(graph)
                self.stages = stages
            return next(reversed(self.stages.values()))

    def program(self, contiguous: tuple[bool, ...]) -> Program:
        with self.lock:
            found = self.programs.get(contiguous)
            if found is None:
                with passes.without(self.off):
                    found = engine("cpu").compile(self.graph, contiguous, self.lower)
                self.programs[contiguous] = found
            return found

    def explain(self) -> Explanation:
        """How the program for contiguous inputs comes about."""
        graph = self.lower()
        with passes.without(self.off):
            return engine("cpu").explain(graph, (True,) * len(graph.inputs))

    def launcher(self, tensors: Sequence[Tensor], donated: tuple[int, ...] = ()) -> Launcher:
        """What runs the program for tensors like these, every check of every op made first.

        It may put results where the tensors lie whose numbers are ``donated``.

        Raises:
            ShapeError, DTypeError: the tensors do not fit the inputs, or, at sizes unknown when
                the graph was traced, an op on the way.
        """
        for number, (variable, tensor) in enumerate(zip(self.graph.inputs, tensors)):
            if tensor.dtype != variable.meta.dtype:
                raise DTypeError(
                    f"argument {number} ({variable.name}) is declared {variable.meta}, found "
                    f"{tensor.meta}; cast it to {variable.meta.dtype}"
                )
        shapes: Any = tuple(t.shape for t in tensors)
        if not self.is_static:
            infer_again(self.graph, shapes)
        program = self.program(tuple(t.key[2] for t in tensors))
        return program.launcher(shapes, donated) if donated else program.launcher(shapes)


def can_run(compiled: Compiled) -> bool:
    """Whether the program itself can run: eagerly, and closing over no tracer around it.

    Elsewhere the graph is replayed, so a compiled function can be differentiated, batched and
    traced, to any order.
    """
    return dispatch.is_eager() and compiled.is_closed
