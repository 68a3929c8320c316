"""From a traced graph to what engines compile: the only lists of passes over graphs.

A row names a pass and the modules with the functions that make it, from a graph and what is around
it to a graph. Rows run from top to bottom; ``check`` holds after each, and each prints.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from phix.core import settings, stages
from phix.core.graph import Graph
from phix.core.kernel_selection import is_kept
from phix.core.op import Op
from phix.core.places import CPU, Place
from phix.passes.check import check


class Around(NamedTuple):
    """What a pass may ask for besides the graph.

    ``homes`` say where inputs live, None for single values of the host; ``main`` is the place of
    what follows no input; ``kinds`` are the kinds of all places, whose kernels composites may have.
    """

    homes: tuple[Place | None, ...] = ()
    main: Place = CPU
    kinds: tuple[str, ...] = ()

    def keeps(self, op: Op) -> bool:
        """Whether the op stays whole: a library of one of the places has a kernel for it."""
        return is_kept(op, self.kinds)


NOWHERE = Around()  # all on the host
_HAS_GRAPHS = attrgetter("op.has_graphs")
LEAST_EQUATIONS = 64  # of steps that become a loop: fewer compile in no time


Change = Callable[[Graph, Around], Graph]


def _by(module: str, takes: Callable[[Around], tuple[Any, ...]] = lambda _: ()) -> Change:
    """What the function does that a module of phix has under its own name; ``takes`` is what that
    is given after the graph. The module is imported when the pass runs."""

    def change(graph: Graph, around: Around) -> Graph:
        function = getattr(importlib.import_module(f"phix.{module}"), module.rpartition(".")[2])
        changed: Graph = function(graph, *takes(around))
        return changed

    return change


class GraphPass(NamedTuple):
    """One row: its name and what it does to a graph, one after another; ``where`` says of which
    graphs it is made, without it of all."""

    name: str
    changes: tuple[Change, ...]
    where: Callable[[Graph], bool] | None = None

    def change(self, graph: Graph, around: Around) -> Graph:
        """The graph after the pass."""
        for change in self.changes:
            graph = change(graph, around)
        return graph


def _may_repeat(graph: Graph) -> bool:
    """Whether a graph is as long as many steps are, or one in it may be."""
    # no function of ours for each equation: this is asked of all programs
    return len(graph.equations) >= LEAST_EQUATIONS or any(map(_HAS_GRAPHS, graph.equations))


SIMPLIFY = GraphPass("simplify", (_by("passes.simplify"),))
BUNDLE = _by("passes.bundle")
HOIST = _by("passes.hoist")
DECOMPOSE = _by("interpreters.decompose")
KEEPING = _by("interpreters.decompose", lambda around: (around.keeps,))
RECOGNISE = _by("passes.recognise", lambda around: (around.keeps,))
CHOOSE = _by("passes.assign_kernels", lambda around: (around.homes, around.main))
# Equations that decomposing has made are simplified, too.
SIMPLIFY_PRIMITIVES = GraphPass("simplify primitives", SIMPLIFY.changes)

# The last row, behind all that makes equal calls once.
REMATERIALISE = GraphPass(
    "rematerialise",
    (_by("passes.rematerialise"),),
    lambda _: settings.current().memory_limit is not None,
)

PIPELINES: dict[str, tuple[GraphPass, ...]] = {
    # one op of an eager call
    "eager": (GraphPass("decompose", (DECOMPOSE,)),),
    # what the CPU's engine generates does all of it
    "cpu": (
        SIMPLIFY,
        GraphPass("roll steps", (_by("passes.roll_steps"),), _may_repeat),
        GraphPass("decompose", (DECOMPOSE, BUNDLE)),
        GraphPass("hoist", (HOIST, _by("passes.products_of_steps"))),
        SIMPLIFY_PRIMITIVES,
        REMATERIALISE,
    ),
    # libraries' kernels, or other places; at the end all variables have places and layouts
    "placed": (
        SIMPLIFY,
        GraphPass("recognise", (RECOGNISE,)),
        GraphPass("decompose", (KEEPING, BUNDLE)),
        SIMPLIFY_PRIMITIVES,
        GraphPass("choose kernels", (CHOOSE,)),
        GraphPass("hoist", (HOIST,)),
        REMATERIALISE,
    ),
}


def run(target: str, graph: Graph, around: Around = NOWHERE) -> dict[str, Graph]:
    """The graph as it was traced and after each pass, by name, in order."""
    found = {"traced": graph}
    for row in PIPELINES[target]:
        if row.where is not None and not row.where(graph):
            continue
        graph = stages.made(stages.GRAPH, row.name, partial(row.change, graph, around))
        found[row.name] = graph
    return found


def last(found: dict[str, Graph]) -> Graph:
    """The graph after the last pass."""
    return next(reversed(found.values()))


stages.verify_all(stages.GRAPH, lambda _, graph: check(graph))
