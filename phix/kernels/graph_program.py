"""Graphs that run step by step on storage, a step one equation or several.

A step says which variables it ``reads`` and ``gives``, which dims it ``binds`` to values of these,
and is called on the storage of what it reads. Storage is let go after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import dims as dm
from phix.core import places
from phix.core.conversion import moved_tensor, tensor_from_scalar
from phix.core.engines import Launcher, environment
from phix.core.graph import (
    Equation,
    Graph,
    Literal,
    Variable,
    flat,
    map_attrs,
    map_entries,
    plain_symbol,
    substitute_attrs,
    symbols_of,
)
from phix.core.kernel_context import KernelContext
from phix.core.places import Place
from phix.core.recent import Recent
from phix.core.settings import most_sizes
from phix.core.size_checks import size_bound
from phix.kernels import structural

Env = dict[dm.Symbol, Any]
Run = Callable[..., Any]


class GraphStep:
    """A part of a graph that runs at once."""

    reads: tuple[Variable, ...]
    gives: tuple[Variable, ...]
    binds: tuple[Equation, ...] = ()  # those in it that give a dim its value

    def __call__(
        self, storage: Sequence[Any], env: Env, donated: tuple[int, ...] = ()
    ) -> Sequence[Any]:
        """The storage of what it gives; it may write over what is ``donated``."""
        raise NotImplementedError


class EquationStep(GraphStep):
    """One equation; what depends on the sizes of dims is found once for these."""

    def __init__(self, equation: Equation, ctx: KernelContext) -> None:
        self.equation, self.ctx = equation, ctx
        variables = (a for a in flat(equation.inputs) if isinstance(a, Variable))
        self.reads, self.gives = tuple(dict.fromkeys(variables)), tuple(flat(equation.outputs))
        self.binds = (equation,) if equation.op.binds_dim else ()
        self.symbols = sorted(symbols_of(equation), key=lambda s: s.number)
        self.settled: Recent[Run] = Recent(most_sizes)

    def __call__(
        self, storage: Sequence[Any], env: Env, donated: tuple[int, ...] = ()
    ) -> Sequence[Any]:
        values = dict(zip(self.reads, storage))
        given = map_entries(lambda a: read(a, values, self.ctx.place), self.equation.inputs)
        key = tuple([env.get(s) for s in self.symbols])
        return self.settled.get(key, lambda: self.settle(env))(given)

    def settle(self, env: Env) -> Run:
        """The function of the storage of its inputs, where dims have these sizes."""
        raise NotImplementedError


class StructuralStep(EquationStep):
    """An op that holds graphs together. ``inner(graph)`` is the function that a graph in it is, and
    ``run(op_name, inputs, attrs, out)`` calls a primitive: see ``structural.py``."""

    def inner(self, graph: Graph) -> structural.Function:
        raise NotImplementedError

    def settle(self, env: Env) -> Run:
        op = self.equation.op
        attrs = map_attrs(self.inner, substitute_attrs(self.equation.attrs, env))
        return lambda given: structural.RUNS[op.name](self, *op.merge(given, attrs))


class GraphProgram:
    """The steps of a graph, one after the other; see :class:`phix.core.engines.Program`.

    ``place`` is that of literals among the outputs.
    """

    def __init__(
        self, graph: Graph, place: Place, steps: Sequence[GraphStep], constants: dict[Any, Any]
    ) -> None:
        self.graph, self.place, self.constants = graph, place, constants
        self.steps: Sequence[GraphStep] = steps
        self.solutions = dm.solutions([v.meta.dims for v in graph.inputs])
        self.dead = self._last_reads()
        self.sizes = [self._sizes(step) for step in steps]

    def _last_reads(self) -> list[list[Variable]]:
        """For each step, the variables that nothing after it reads."""
        kept = {a for a in self.graph.outputs if isinstance(a, Variable)}
        dead: list[list[Variable]] = []
        for step in reversed(self.steps):
            mine = [v for v in dict.fromkeys((*step.reads, *step.gives)) if v not in kept]
            kept.update(mine)
            dead.append(mine)
        return dead[::-1]

    def _sizes(self, step: GraphStep) -> list[tuple[dm.Symbol, int, int]]:
        """The dims that the shapes of what a step gives tell: of which result, of which axis."""
        found = ((plain_symbol(d), n, axis) for n, v in enumerate(step.gives)
                 for axis, d in enumerate(v.meta.dims))  # fmt: skip
        return [(s, n, axis) for s, n, axis in found if s is not None and s not in self.solutions]

    def donations(self, donated: tuple[int, ...]) -> list[tuple[int, ...]]:
        """For each step, which of what it reads it may write over."""
        return [()] * len(self.steps)

    def prepare(self) -> None:
        """See :class:`phix.core.engines.Program`: steps are compiled when their sizes are known."""

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """See :class:`phix.core.engines.Program`."""
        graph = self.graph
        start = environment(graph, self.solutions, shapes)
        plan = list(zip(self.steps, self.dead, self.sizes, self.donations(donated)))

        def launch(*inputs: Any) -> tuple[Any, ...]:
            values: dict[Any, Any] = {**self.constants, **dict(zip(graph.inputs, inputs))}
            env: Env = dict(start)
            for step, dead, sizes, free in plan:
                found = step([values[v] for v in step.reads], env, free)
                values.update(zip(step.gives, found))
                for equation in step.binds:
                    (symbol,), (number,) = dm.symbols(equation.attrs[0]), flat(equation.outputs)
                    env[symbol] = size_bound(equation, int(places.to_host(values[number])))
                for symbol, n, axis in sizes:
                    env.setdefault(symbol, found[n].shape[axis])
                for variable in dead:
                    del values[variable]
            return tuple([read(a, values, self.place) for a in graph.outputs])

        return launch


def read(atom: Any, values: dict[Any, Any], place: Place) -> Any:
    """The storage of a variable or, on a place, of a literal."""
    if isinstance(atom, Literal):
        return moved_tensor(tensor_from_scalar(atom.value, atom.meta.dtype), place).data
    return values[atom]
