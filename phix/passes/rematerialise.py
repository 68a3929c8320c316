"""A graph that runs in ``memory_limit`` bytes: what does not fit is computed again when it is read.

How much a program holds is the engine's to say (``Explanation.memory``): the graph is lowered to
loops, and the memory of these planned. What to drop is found on paper (``simulated_memory``).
"""

from __future__ import annotations

from typing import Any

from phix.core import libraries, settings, stages
from phix.core.analysis import CostAnalysis
from phix.core.engines import Explanation, Uncounted, engine
from phix.core.errors import ArgumentError, MemoryLimitError
from phix.core.graph import Equation, Graph, Variable, all_places, flat
from phix.core.places import CPU
from phix.interpreters.stage import finish
from phix.passes.simulated_memory import LimitedRun, Unit, units_of

# Plans made for memory that should do, and how often the range of what may do is halved.
_MOST_TRIES, _HALVINGS = 6, 7
# How many operations a core does while a byte comes from memory; a transcendental function is some.
_OPERATIONS_A_BYTE, _OPERATIONS_OF_A_FUNCTION = 5, 10


def rematerialise(graph: Graph) -> Graph:
    """The graph, computing again what it would otherwise hold beyond the limit in force.

    Raises:
        MemoryLimitError: no way to run it was found that needs so little.
        ArgumentError: how much it holds is not known before it runs.
    """
    limit = settings.current().memory_limit
    if limit is None or not graph.equations:
        return graph
    if libraries.pinned() == libraries.PRINTED:
        raise ArgumentError(
            "memory_limit: the memory of programs printed for Numba is Python's, and not planned; "
            "leave library='numba' out, or memory_limit"
        )
    with stages.unwatched():
        return _Search(graph, limit).found()


class _Planned:
    """A graph as its engine would run it: temps and outputs together take ``peak`` bytes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.explained = _explained(graph)
        if isinstance(self.explained, Uncounted):
            raise ArgumentError(f"memory_limit: {self.explained.why}; leave it out")
        memory = self.explained.memory({})
        if memory.uncounted:
            raise ArgumentError(
                f"memory_limit: the program holds {memory.uncounted[0]}; leave memory_limit out, "
                "or give the sizes of what is computed"
            )
        self.outputs = memory.output_size_in_bytes
        self.peak = memory.temp_size_in_bytes + self.outputs
        self.source = memory.peak_source


def _explained(graph: Graph) -> Explanation:
    kinds = {place.kind for place in all_places(graph)} or {CPU.kind}
    if len(kinds) > 1:
        raise ArgumentError(
            f"memory_limit: the program runs on several places ({', '.join(sorted(kinds))}); jit "
            "the part of each place with a limit of its own"
        )
    return engine(kinds.pop()).explain(graph, (True,) * len(graph.inputs))


class _Search:
    """The search for a run of a graph that fits."""

    def __init__(self, graph: Graph, limit: int) -> None:
        unknown = [d for v in graph.inputs for d in v.meta.dims if not isinstance(d, int)]
        if unknown:
            raise ArgumentError(
                f"memory_limit: what the program holds depends on the dim {unknown[0]}, which is "
                "not known; declare its size, or leave input_spec out: there is a program for each "
                "size then"
            )
        self.graph, self.limit = graph, limit
        self.units: list[Unit] = []
        self.costs: dict[Graph, float] = {}
        self.costs_of_units: dict[Equation, float] = {}

    def found(self) -> Graph:
        """The first graph that fits of those with less and less memory on paper.

        Raises:
            MemoryLimitError: none does.
        """
        plain = _Planned(self.graph)
        if plain.peak <= self.limit:
            return self.graph
        self.units = units_of(self.graph, plain.explained.held({}))
        most = LimitedRun(self.graph, self.units, 1 << 62, self._cost).peak
        budget = most - (plain.peak - self.limit)
        for _ in range(_MOST_TRIES):
            run, made = self._tried(budget)
            if made is None:
                break
            if made.peak <= self.limit:
                return made.graph
            budget = min(run.peak - 1, budget - (made.peak - self.limit))
        smallest = plain
        low, high = 0, most  # whatever the limit is: what an error says is found where it is asked
        for _ in range(_HALVINGS):
            budget = (low + high) // 2
            run, made = self._tried(budget)
            if made is None:
                low = budget
                continue
            if made.peak <= self.limit:
                return made.graph
            smallest, high = min(smallest, made, key=lambda p: p.peak), run.peak
        raise self._error(smallest)

    def _tried(self, budget: int) -> tuple[LimitedRun, _Planned | None]:
        """A run on paper of so many bytes, and its plan, if it needs no more."""
        run = LimitedRun(self.graph, self.units, budget, self._cost)
        fits = run.is_whole and run.peak <= budget
        return run, _Planned(finish(run.graph)) if fits else None

    def _error(self, plan: _Planned) -> MemoryLimitError:
        error = MemoryLimitError(
            f"memory_limit={self.limit} bytes: the least that was found for temps and results is "
            f"{plan.peak} bytes, {plan.outputs} of them for results, the most of it at "
            f"{plan.source}; give it so many, or make its arrays smaller: smaller batches whose "
            "gradients are added up, or phix.scan over parts with phix.checkpoint around each"
        )
        error.limit, error.smallest = self.limit, plan.peak
        return error

    def _cost(self, unit: Unit) -> float:
        """What computing a unit takes, in bytes moved."""
        known = self.costs_of_units.get(unit.equation)
        if known is None:
            graph = _graph_of(unit)
            if graph not in self.costs:
                self.costs[graph] = _time(_explained(graph).cost({}))
            known = self.costs_of_units[unit.equation] = self.costs[graph]
        return known


def _graph_of(unit: Unit) -> Graph:
    """The equations of a unit as a graph of what they read."""
    own = {v for e in unit.parts for v in flat(e.outputs)}
    read = (a for e in unit.parts for a in flat(e.inputs) if isinstance(a, Variable))
    inputs = dict.fromkeys(a for a in read if a not in own)
    return Graph(tuple(inputs), (), tuple(unit.parts), tuple(flat(unit.equation.outputs)))


def _time(cost: CostAnalysis) -> float:
    counts: Any = (cost.flops, cost.transcendentals, cost.bytes_accessed)
    operations = counts[0] + _OPERATIONS_OF_A_FUNCTION * counts[1]
    return float(max(operations / _OPERATIONS_A_BYTE, counts[2]))
