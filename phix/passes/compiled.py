"""jit: a graph traced once, lowered in visible steps, and run as one compiled program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Union

from phix.core import context, libraries, rewrites, settings, stack
from phix.core.engines import SEVERAL, Explanation, Launcher, Program, engine
from phix.core.errors import DTypeError
from phix.core.graph import Graph, all_places, graphs_in
from phix.core.kernel_selection import has_functions
from phix.core.places import CPU, Place, default, is_host_alone
from phix.core.tensor import Tensor, Tracer
from phix.interpreters.placement import is_loose
from phix.passes import pipeline
from phix.passes.check import infer_again
from phix.passes.pipeline import Around

Homes = tuple[Place | None, ...]  # where inputs live; None: single values of the host
Where = Union[tuple[Homes, Place], None]  # and the place of what follows none; None: all on the CPU
Key = tuple[Any, ...]


def stay_on_host(graph: Graph, homes: Homes, main: Place) -> bool:
    """Whether all that the graph does is done by what the CPU's engine generates, so that no state
    needs to be found out."""
    if has_functions(CPU.kind):
        return False
    if is_host_alone():
        return True
    named = {p for p in (main, *homes) if p is not None} | _places_in(graph)
    return named <= {CPU}


@stack.nests
def _places_in(graph: Graph) -> set[Place]:
    """The places of what a graph closes over, and those that its equations name."""
    found = {c.value.place for c in graph.constants}
    for equation in graph.equations:
        found.update(a for a in equation.attrs if isinstance(a, Place))
        found.update(*map(_places_in, graphs_in(equation.attrs)))
    return found


def lower_to_places(graph: Graph, homes: Homes, main: Place) -> dict[str, Graph]:
    """The graph after each pass, by name, for inputs that live there; the last has states.

    ``main`` is the place of what follows no input.
    """
    places = {main, *(h for h in homes if h is not None), *_places_in(graph)}
    kinds = tuple(sorted({p.kind for p in places}))
    return pipeline.run("placed", graph, Around(homes, main, kinds))


def compile_to_places(graph: Graph, contiguous: tuple[bool, ...], main: Place) -> Program:
    """The program of a graph with states: that of the place's engine, if all of it is on one."""
    found = set(all_places(graph))
    place = found.pop() if len(found) == 1 else None
    kind = SEVERAL if place is None else place.kind
    return engine(kind).compile(graph, contiguous, None, place or main)


class _Built:
    """What has been made of a graph for inputs in some places, so far."""

    def __init__(self) -> None:
        self.stages: dict[str, Graph] = {}  # the graph after each pass; none before it is asked for
        self.programs: dict[tuple[bool, ...], Program] = {}  # by which inputs are C-contiguous


class Compiled:
    """A traced graph, and what has been made of it, by all that decides that: the places of its
    inputs, and what ``context.deciding`` says.

    ``off`` are the names of the rewrites to leave out (:mod:`phix.core.rewrites`), ``library`` that
    of the library whose kernels come first (:mod:`phix.core.libraries`), and ``memory_limit`` the
    bytes that it may hold (:mod:`phix.passes.rematerialise`).
    """

    def __init__(
        self,
        graph: Graph,
        off: frozenset[str] = frozenset(),
        library: str | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.graph, self.off, self.library = graph, off, library
        self.memory_limit = memory_limit
        self.known: dict[Key, _Built] = {}
        self.lock = stack.Lock()
        self.is_closed = not any(isinstance(c.value, Tracer) for c in graph.constants)
        self.is_static = all(v.meta.is_static() for v in graph.inputs)

    def _where(self, homes: Homes, main: Place) -> Where:
        return None if stay_on_host(self.graph, homes, main) else (homes, main)

    def _built(self, where: Where) -> _Built:
        """What is known for these places, asked for under the lock. What is generated for the CPU
        alone asks for no kernel that somebody registered."""
        count = None if where is None else context.Context.registrations
        off = self.off | rewrites.left_out()
        key = (where, off, self._pin(), settings.deciding(), count)
        return self.known.setdefault(key, _Built())

    def _stages(self, where: Where) -> dict[str, Graph]:
        with self.lock, self.as_asked():
            built = self._built(where)
            if not built.stages:
                if where is None:
                    built.stages = pipeline.run("cpu", self.graph)
                else:
                    built.stages = lower_to_places(self.graph, *where)
            return built.stages

    def _pin(self) -> str | None:
        """The library that kernels are taken from first: the function's own, else the block's."""
        return self.library or libraries.pinned()

    @contextmanager
    def as_asked(self) -> Iterator[None]:
        """With the rewrites, the library and the memory that the function is to have."""
        with rewrites.without(self.off), libraries.pinning(self._pin()):
            if self.memory_limit is None:
                yield
                return
            with settings.in_force(settings.changed(memory_limit=self.memory_limit)):
                yield

    def lower(self) -> Graph:
        """The graph after the last pass for the CPU."""
        return pipeline.last(self._stages(None))

    def stages_at(self, homes: Homes, main: Place) -> dict[str, Graph]:
        """The graph after each pass, for inputs that live there."""
        return self._stages(self._where(homes, main))

    def program(self, contiguous: tuple[bool, ...], homes: Homes, main: Place) -> Program:
        """The program for inputs that live there.

        Raises:
            DeviceError: an equation's inputs live in different places.
        """
        where = self._where(homes, main)
        with self.lock:
            programs = self._built(where).programs
            found = programs.get(contiguous)
            if found is None:
                with self.as_asked():
                    if where is None:
                        found = engine(CPU.kind).compile(self.graph, contiguous, self.lower, CPU)
                    else:
                        last = pipeline.last(self._stages(where))
                        found = compile_to_places(last, contiguous, main)
                programs[contiguous] = found
            return found

    def explain(self, homes: Homes, main: Place) -> Explanation:
        """How the program for contiguous inputs comes about."""
        where = self._where(homes, main)
        graph = pipeline.last(self._stages(where))
        places = all_places(graph) if where else set()
        kind = SEVERAL if len(places) > 1 else next(iter(places), CPU).kind
        with self.as_asked():
            return engine(kind).explain(graph, (True,) * len(graph.inputs))

    def launcher(self, tensors: Sequence[Tensor], donated: tuple[int, ...] = ()) -> Launcher:
        """What runs the program for tensors like these, every check of every op made first.

        It may put results where the tensors lie whose numbers are ``donated``.

        Raises:
            ShapeError, DTypeError: the tensors do not fit the inputs, or, at sizes unknown when
                the graph was traced, an op on the way.
            DeviceError: an equation's inputs live in different places.
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
        contiguous = tuple(t.key[2] for t in tensors)
        program = self.program(contiguous, *homes_of(tensors))
        return program.launcher(shapes, donated) if donated else program.launcher(shapes)

    def _launch_anywhere(self, *arrays: Any) -> tuple[Any, ...]:
        """The results of a graph whose inputs have no place: they follow the ``phix.device``."""
        count = len(arrays)
        program = self.program((True,) * count, (None,) * count, default())
        return program.launcher(((),) * count)(*arrays)


def homes_of(tensors: Sequence[Tensor]) -> tuple[Homes, Place]:
    """Where tensors live, and the place of what follows none of them."""
    if is_host_alone() and not has_functions(CPU.kind):
        return (), CPU
    homes = tuple([None if is_loose(t) else t.place for t in tensors])
    return homes, next((h for h in homes if h is not None), default())


def can_run(compiled: Compiled) -> bool:
    """Whether the program itself can run: eagerly, and closing over no tracer around it.

    Elsewhere the graph is replayed, so a compiled function can be differentiated, batched and
    traced, to any order.
    """
    return context.is_eager() and compiled.is_closed
