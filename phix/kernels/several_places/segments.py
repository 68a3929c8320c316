"""The engine for graphs over several places: each place's own engine, and copies between.

A graph with states is cut into segments of equations of one place, as few as their order allows,
each a program of its place's engine. A copy is a step of its own. Loops and branches whose graphs
are over several places run step by step, as ``structural.py`` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import kernel_selection, places
from phix.core.conversion import moved_tensor
from phix.core.engines import Launcher, Program, engine
from phix.core.graph import (
    Equation,
    Graph,
    Variable,
    all_places,
    flat,
    graphs_in,
    is_effect,
    map_entries,
    substitute_attrs,
    symbols_of,
)
from phix.core.kernel_context import KernelContext
from phix.core.kernel_registry import BACKENDS
from phix.core.meta import MetaTensor
from phix.core.places import Place
from phix.core.recent import Recent
from phix.core.rules import OPS
from phix.core.settings import most_sizes
from phix.core.tensor import tensor_of
from phix.kernels import structural
from phix.kernels.graph_program import Env, GraphProgram, GraphStep, StructuralStep
from phix.kernels.kernel_engine import KernelCall


# -- steps -----------------------------------------------------------------------------------
class Copy(GraphStep):
    """One value to another place."""

    def __init__(self, equation: Equation) -> None:
        (self.source,), (self.target,) = flat(equation.inputs), flat(equation.outputs)
        self.reads, self.gives = (self.source,), (self.target,)
        self.place = variable_place(self.target)

    def __call__(
        self, storage: Sequence[Any], env: Env, donated: tuple[int, ...] = ()
    ) -> Sequence[Any]:
        return (moved_tensor(tensor_of(storage[0]), self.place).data,)

    def __str__(self) -> str:
        return f"copy {self.source.name} to {self.place}, as {self.target.name}"


class Segment(GraphStep):
    """Equations of one place as a program of its engine."""

    def __init__(self, place: Place, equations: list[Equation], outer: Graph, later: set[Any]):
        self.place = place
        made = {v for e in equations for v in flat(e.outputs)}
        used = dict.fromkeys(
            a for e in equations for a in flat(e.inputs) if isinstance(a, Variable)
        )
        constants = tuple(c for c in outer.constants if c.variable in used)
        closed = {c.variable for c in constants}
        self.reads = tuple(v for v in used if v not in made and v not in closed)
        self.binds = tuple(e for e in equations if e.op.binds_dim)
        bound = {v for e in self.binds for v in flat(e.outputs)}
        self.gives = tuple(v for v in _in_order(made, equations) if v in later or v in bound)
        self.graph = Graph(self.reads, constants, tuple(equations), self.gives)
        own = set(dm.solutions([v.meta.dims for v in self.reads]))
        needed = {s for e in equations for s in symbols_of(e)}
        needed |= {s for v in self.reads for d in v.meta.dims for s in dm.symbols(d)}
        needed -= own.union(*(dm.symbols(e.attrs[0]) for e in self.binds))
        self.missing = sorted(needed, key=lambda s: s.number)
        self.programs: Recent[Program] = Recent(most_sizes)
        self.launchers: Recent[Launcher] = Recent(most_sizes)

    def program(self, contiguous: tuple[bool, ...], env: Env) -> Program:
        """Compiled once for all sizes, but for those that its inputs do not tell."""
        known = {s: env[s] for s in self.missing if s in env}
        key = (contiguous, *known.items())

        def compiled() -> Program:
            (graph,) = substitute_attrs((self.graph,), known)
            return engine(self.place.kind).compile(graph, contiguous, None, self.place)

        return self.programs.get(key, compiled)

    def __call__(
        self, storage: Sequence[Any], env: Env, donated: tuple[int, ...] = ()
    ) -> Sequence[Any]:
        contiguous = tuple([_is_contiguous(x) for x in storage])
        shapes = tuple([tuple(x.shape) for x in storage])
        key = (contiguous, shapes, donated, *[env.get(s) for s in self.missing])
        launch = self.launchers.get(
            key, lambda: self.program(contiguous, env).launcher(shapes, donated)
        )
        return launch(*storage)

    def __str__(self) -> str:
        names = ", ".join(e.op.name for e in self.graph.equations)
        return f"on {self.place}: {names}"


class Mixed(StructuralStep):
    """A loop or a branch whose graphs are over several places."""

    def __init__(self, equation: Equation) -> None:
        super().__init__(equation, KernelContext(variable_place(flat(equation.outputs)[0])))
        self.calls: Recent[Launcher] = Recent(most_sizes)

    def inner(self, graph: Graph) -> structural.Function:
        return structural.Function(graph, SegmentsProgram(graph, self.ctx.place))

    def run(self, op_name: str, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Any) -> Any:
        here, tensors = engine(self.ctx.place.kind), tuple(flat(inputs))
        view = here.view(op_name, attrs)
        if view is not None:
            return view(*inputs)
        key = (op_name, attrs, tuple(map(_form, tensors)))

        def compiled() -> Launcher:
            variables = map_entries(lambda x: Variable("x", MetaTensor(x.shape, x.dtype)), inputs)
            result = Variable("out", MetaTensor(*out))
            equation = Equation(OPS[op_name], variables, attrs, (result,))
            graph = Graph(tuple(flat(variables)), (), (equation,), (result,))
            whole = tuple(map(_is_contiguous, tensors))
            program = here.compile(graph, whole, None, self.ctx.place)
            return program.launcher(tuple([tuple(x.shape) for x in tensors]))

        return self.calls.get(key, compiled)(*tensors)[0]

    def __str__(self) -> str:
        return f"step by step: {self.equation.op.name}"


def _form(x: Any) -> tuple[Any, ...]:
    return (tuple(x.shape), x.dtype, _is_contiguous(x))


def _contiguous(x: Any) -> Any:
    """The storage, or a copy that lies in C order without gaps."""
    if _is_contiguous(x):
        return x
    return moved_tensor(tensor_of(np.array(places.to_host(x), order="C")), places.place_of(x)).data


def _is_contiguous(x: Any) -> bool:
    return x.flags.c_contiguous if isinstance(x, np.ndarray) else places.is_contiguous(x)


class Crossing(KernelCall):
    """A kernel with arguments in several places."""

    def __init__(self, equation: Equation) -> None:
        kernel, place = kernel_selection.chosen_function(equation), equation_place(equation)
        assert kernel is not None
        stream = places.device_of(place.kind).stream(place.index)
        super().__init__(equation, KernelContext(place, stream), kernel)

    def __call__(
        self, storage: Sequence[Any], env: Env, donated: tuple[int, ...] = ()
    ) -> Sequence[Any]:
        return super().__call__(list(map(_contiguous, storage)), env)

    def __str__(self) -> str:
        return f"on {self.ctx.place}, arguments elsewhere: {self.equation.op.name}"


def equation_place(equation: Equation) -> Place:
    """Where an equation of a graph with states runs."""
    variables = [*flat(equation.outputs), *flat(equation.inputs)]
    there = [variable_place(v) for v in variables if isinstance(v, Variable)]
    if equation.kernel is None:
        return there[0]
    kind = BACKENDS[equation.kernel.backend].place_kind
    return next((p for p in there if p.kind == kind), Place(kind))


def _is_crossing(equation: Equation) -> bool:
    """Whether its kernel takes or gives something elsewhere than where it runs."""
    if equation.kernel is None or equation.op.has_graphs:
        return False
    variables = [*flat(equation.outputs), *flat(equation.inputs)]
    return len({variable_place(v) for v in variables if isinstance(v, Variable)}) > 1


def variable_place(variable: Variable) -> Place:
    """Where a variable of a graph with states lives."""
    assert variable.state is not None
    return variable.state.place


def _in_order(made: set[Variable], equations: list[Equation]) -> Iterator[Variable]:
    return (v for e in equations for v in flat(e.outputs) if v in made)


# -- cutting ---------------------------------------------------------------------------------
def _is_mixed(equation: Equation) -> bool:
    return any(len(all_places(g)) > 1 for g in graphs_in(equation.attrs))


class _Waiting:
    """An equation, what must be there before it, and what is there after it: variables, values of
    unknown dims, and its turn among the effects."""

    def __init__(self, equation: Equation, bound: set[dm.Symbol], effects: int) -> None:
        self.equation = equation
        self.place = equation_place(equation)
        crosses = _is_crossing(equation)
        self.is_alone = equation.kernel is None or _is_mixed(equation) or crosses
        self.needs: set[Any] = {a for a in flat(equation.inputs) if isinstance(a, Variable)}
        self.gives: set[Any] = set(flat(equation.outputs))
        if equation.op.binds_dim:
            self.gives |= dm.symbols(equation.attrs[0])
        else:
            self.needs |= symbols_of(equation) & bound
        if is_effect(equation):
            self.gives.add(effects)
            self.needs |= {effects - 1} - {0}


def _cut(graph: Graph) -> list[list[Equation]]:
    """The equations in groups, each a step: as many of one place in a row as can be."""
    bound = {s for e in graph.equations if e.op.binds_dim for s in dm.symbols(e.attrs[0])}
    left, effects = [], 0
    for equation in graph.equations:
        effects += is_effect(equation)
        left.append(_Waiting(equation, bound, effects))
    there: set[Any] = {*graph.inputs, *(c.variable for c in graph.constants)}
    groups: list[list[Equation]] = []
    place: Place | None = None
    while left:
        ready = [w for w in left if w.needs <= there]
        group = [w for w in ready if w.is_alone]
        if group:  # copies start as soon as they can
            groups += [[w.equation] for w in group]
            there.update(*(w.gives for w in group))
        else:
            at = {w.place for w in ready}
            place = place if place in at else ready[0].place
            for waiting in left:
                if waiting.place == place and not waiting.is_alone and waiting.needs <= there:
                    group.append(waiting)
                    there |= waiting.gives
            groups.append([w.equation for w in group])
        taken = set(map(id, group))
        left = [w for w in left if id(w) not in taken]
    return groups


def _steps(graph: Graph) -> list[Copy | Segment | Mixed | Crossing]:
    groups = _cut(graph)
    later: set[Any] = set(graph.outputs)
    steps: list[Copy | Segment | Mixed | Crossing] = []
    for group in reversed(groups):
        first = group[0]
        if first.kernel is None:
            step: Copy | Segment | Mixed | Crossing = Copy(first)
        elif _is_mixed(first):
            step = Mixed(first)
        elif _is_crossing(first):
            step = Crossing(first)
        else:
            step = Segment(equation_place(first), group, graph, later)
        later.update(step.reads)
        steps.append(step)
    return steps[::-1]


# -- the program -----------------------------------------------------------------------------
class SegmentsProgram(GraphProgram):
    """A graph cut into steps. What is donated goes on to the step that reads it last."""

    steps: list[Copy | Segment | Mixed | Crossing]

    def __init__(self, graph: Graph, place: Place) -> None:
        constants = {c.variable: c.value.data for c in graph.constants}
        super().__init__(graph, place, _steps(graph), constants)
        self.own = self._of_their_own()

    def _of_their_own(self) -> set[Variable]:
        """What steps make that nothing else shows: a loop may hand on what it was given, and
        copies of single values are kept for all who ask for them (:func:`moved_tensor`)."""
        mixed = [s for s in self.steps if isinstance(s, Mixed)]
        made = {v for s in self.steps if not isinstance(s, Mixed) for v in s.gives}
        made -= {v for s in self.steps if isinstance(s, Copy) for v in s.gives if not v.meta.dims}
        return made - {v for s in mixed for v in s.reads}

    def donations(self, donated: tuple[int, ...]) -> list[tuple[int, ...]]:
        """For each step, which of what it reads it may write over: what is read last there, and is
        the program's own or was given away by the caller."""
        given = {self.graph.inputs[n] for n in donated}
        given -= {v for s in self.steps if isinstance(s, Mixed) for v in s.reads}
        free = self.own | given
        return [
            tuple(n for n, v in enumerate(step.reads) if v in free and v in dead)
            for step, dead in zip(self.steps, self.dead)
        ]

    @cached_property
    def sections(self) -> dict[str, str]:
        """The steps, and what the engines say of each segment that is one program for all sizes."""
        texts = {"segments": "\n".join(f"{n}: {step}" for n, step in enumerate(self.steps))}
        for number, step in enumerate(self.steps):
            if isinstance(step, Segment) and not step.missing:
                found = step.program((True,) * len(step.reads), {}).sections
                texts.update({f"{number}: {name}": text for name, text in found.items()})
        return texts
