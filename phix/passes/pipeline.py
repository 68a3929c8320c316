"""From a traced graph to what engines compile: the only lists of passes over graphs.

A row names a pass and the function that makes it, from a graph and what is around it to a graph.
Rows run from top to bottom; ``check`` holds after each, and each prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from phix.core import stages
from phix.core.graph import Graph
from phix.core.kernel_selection import is_kept
from phix.core.op import Op
from phix.core.places import CPU, Place
from phix.interpreters.decompose import decompose
from phix.passes.assign_kernels import assign_kernels
from phix.passes.bundle import bundle
from phix.passes.check import check
from phix.passes.hoist import hoist
from phix.passes.products_of_steps import products_of_steps
from phix.passes.recognise import recognise
from phix.passes.simplify import simplify


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


@dataclass(frozen=True)
class GraphPass:
    """One row."""

    name: str
    change: Callable[[Graph, Around], Graph]


SIMPLIFY = GraphPass("simplify", lambda graph, _: simplify(graph))
HOIST = GraphPass("hoist", lambda graph, _: hoist(graph))
# Equations that decomposing has made are simplified, too.
SIMPLIFY_PRIMITIVES = GraphPass("simplify primitives", lambda graph, _: simplify(graph))

PIPELINES: dict[str, tuple[GraphPass, ...]] = {
    # one op of an eager call
    "eager": (GraphPass("decompose", lambda graph, _: decompose(graph)),),
    # what the CPU's engine generates does all of it
    "cpu": (
        SIMPLIFY,
        GraphPass("decompose", lambda graph, _: bundle(decompose(graph))),
        GraphPass(HOIST.name, lambda graph, _: products_of_steps(hoist(graph))),
        SIMPLIFY_PRIMITIVES,
    ),
    # libraries' kernels, or other places; at the end all variables have places and layouts
    "placed": (
        SIMPLIFY,
        GraphPass("recognise", lambda graph, around: recognise(graph, around.keeps)),
        GraphPass("decompose", lambda graph, around: bundle(decompose(graph, around.keeps))),
        SIMPLIFY_PRIMITIVES,
        GraphPass("choose kernels", lambda graph, a: assign_kernels(graph, a.homes, a.main)),
        HOIST,
    ),
}


def run(target: str, graph: Graph, around: Around = NOWHERE) -> dict[str, Graph]:
    """The graph as it was traced and after each pass, by name, in order."""
    found = {"traced": graph}
    for row in PIPELINES[target]:
        graph = stages.made(stages.GRAPH, row.name, partial(row.change, graph, around))
        found[row.name] = graph
    return found


def last(found: dict[str, Graph]) -> Graph:
    """The graph after the last pass."""
    return next(reversed(found.values()))


stages.verify_all(stages.GRAPH, lambda _, graph: check(graph))
