"""jit: a graph traced once, lowered in visible steps, and run as one compiled program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from phix.core import dispatch, passes
from phix.core.engines import Explanation, Launcher, Program, engine
from phix.core.errors import DTypeError
from phix.core.graph import Graph
from phix.core.places import CPU, Place, default, is_host_alone
from phix.core.tensor import Tensor, Tracer
from phix.interpreters.check import infer_again
from phix.interpreters.decompose import decompose
from phix.interpreters.placement import is_loose, on, shared_place
from phix.interpreters.simplify import simplify

# The steps from the traced graph to what the engine compiles, in order.
PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("simplify", simplify),
    ("decompose", decompose),
    ("simplify primitives", simplify),
)


class Compiled:
    """A traced graph with its programs, one for each place and combination of contiguous inputs.

    ``off`` are the names of the rewrites to leave out: see :mod:`phix.core.passes`.
    """

    def __init__(self, graph: Graph, off: frozenset[str] = frozenset()) -> None:
        self.graph, self.off = graph, off
        self.stages: dict[str, Graph] = {}
        self.programs: dict[Any, Program] = {}
        self.anywhere: dict[Place, Launcher] = {}  # where inputs have no place
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

    def program(self, contiguous: tuple[bool, ...], place: Place) -> Program:
        with self.lock:
            found = self.programs.get((contiguous, place))
            if found is None:
                with passes.without(self.off):
                    here = engine(place.kind)
                    found = here.compile(self.graph, contiguous, self.lower, place)
                self.programs[contiguous, place] = found
            return found

    def place(self, tensors: Sequence[Tensor]) -> Place:
        """Where the program runs for these inputs.

        Raises:
            DeviceError: they live in different places.
        """
        closed = () if is_host_alone() else tuple(c.value for c in self.graph.constants)
        fixed = [x for x in closed if x.place != CPU]  # those of the host are brought along

        def names() -> list[str]:
            inputs = [f"argument {n} ({v.name})" for n, v in enumerate(self.graph.inputs)]
            return [*inputs, *(f"{x.meta} closed over" for x in fixed)]

        return shared_place([*tensors, *fixed], names, "jit")

    def explain(self) -> Explanation:
        """How the program for contiguous inputs comes about."""
        graph = self.lower()
        with passes.without(self.off):
            return engine(default().kind).explain(graph, (True,) * len(graph.inputs))

    def launcher(self, tensors: Sequence[Tensor], donated: tuple[int, ...] = ()) -> Launcher:
        """What runs the program for tensors like these, every check of every op made first.

        It may put results where the tensors lie whose numbers are ``donated``.

        Raises:
            ShapeError, DTypeError: the tensors do not fit the inputs, or, at sizes unknown when
                the graph was traced, an op on the way.
            DeviceError: the tensors live in different places.
        """
        if all(map(is_loose, tensors)) and not (tensors and is_host_alone()):
            return self._launch_anywhere
        for number, (variable, tensor) in enumerate(zip(self.graph.inputs, tensors)):
            if tensor.dtype != variable.meta.dtype:
                raise DTypeError(
                    f"argument {number} ({variable.name}) is declared {variable.meta}, found "
                    f"{tensor.meta}; cast it to {variable.meta.dtype}"
                )
        shapes: Any = tuple(t.shape for t in tensors)
        if not self.is_static:
            infer_again(self.graph, shapes)
        place = self.place(tensors)
        program = self.program(tuple(t.key[2] for t in tensors), place)
        launch = program.launcher(shapes, donated) if donated else program.launcher(shapes)
        return launch if is_host_alone() else on(place, launch, tensors)

    def _launch_anywhere(self, *arrays: Any) -> tuple[Any, ...]:
        """The results of a graph whose inputs have no place: they follow the ``phix.device``."""
        tensors = [Tensor(a) for a in arrays]
        place = self.place(tensors)
        launch = self.anywhere.get(place)
        if launch is None:
            program = self.program((True,) * len(arrays), place)
            run = program.launcher(((),) * len(arrays))
            launch = self.anywhere[place] = on(place, run, tensors)
        return launch(*arrays)


def can_run(compiled: Compiled) -> bool:
    """Whether the program itself can run: eagerly, and closing over no tracer around it.

    Elsewhere the graph is replayed, so a compiled function can be differentiated, batched and
    traced, to any order.
    """
    return dispatch.is_eager() and compiled.is_closed
