"""Which values of a graph get a buffer of their own, and which are fused into their readers.

Every equation is of one of these kinds, which its lowering declares:

| kind      | reads an element of an input ...                | example         |
|-----------|--------------------------------------------------|-----------------|
| pointwise | once, at the same index                          | add, exp, where |
| view      | once, at the same linear index                   | reshape         |
| move      | at another index                                 | transpose, slice|
| reduce    | in a loop of its own                             | sum, argmax     |
| whole     | any way it likes: the inputs must have buffers   | matmul, sort    |

A *context* of a value is a place where its elements are computed if it is fused: a stored
reader, or a loop or change of index on the way to one. The decisions, first match wins:

| the value                                            | decision |
|------------------------------------------------------|----------|
| is an output of the graph                            | store    |
| comes out of a ``whole`` equation                    | store    |
| costs at most CHEAP scalar operations                | fuse     |
| is read in more than one context                     | store    |
| makes a kernel larger than LARGEST_KERNEL            | store    |
| ends a chain of DEEPEST equations                    | store    |
| else                                                 | fuse     |

Costs are beside the others that would be stored, unless a chain of dropped ones is DEAR.
``stored_variables`` answers with the reason for each, which a fusion report prints.

What depends on the loops around a read (a row statistic read inside the row's loop) is decided
by the builder when it gets there: see ``Builder._is_wasteful``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import rewrites
from phix.core.graph import Equation, Graph
from phix.kernels.loops.builder import CHEAP, LARGEST_KERNEL

REDUCTION_COST = 50
# What is cheap beside what it is made of, and would take more with that computed again, is dear: of
# a chain of x[1:] + x[:-1], each takes twice what the one before does.
DEAR = 4 * CHEAP
# Values are evaluated by recursion through the equations of a kernel.
DEEPEST = 40
# More contexts than this change no decision.
_ENOUGH = 4

# Why a value is stored.
OUTPUT = "an output of the graph"
WHOLE = "comes out of an equation that is computed whole"
SEVERAL = f"read in more than one context, and costs more than {CHEAP} operations"
TOO_LARGE = f"its kernel would take more than {LARGEST_KERNEL} operations"
TOO_DEEP = f"ends a chain of {DEEPEST} equations"
UNFUSED = "fusion is switched off"


def stored_variables(
    graph: Graph, kind_of: Callable[[Equation], str], cost_of: Callable[[Equation], int]
) -> dict[Any, str]:
    """The variables of ``graph`` that get a buffer, by the table above, and why they do."""
    kinds = {equation: kind_of(equation) for equation in graph.equations}
    own = {equation: cost_of(equation) for equation in graph.equations}
    whole = (v for e in graph.equations if kinds[e] == "whole" for v in e.variables)
    always: dict[Any, str] = dict.fromkeys(whole, WHOLE) | dict.fromkeys(graph.outputs, OUTPUT)
    if not rewrites.is_on("fuse"):
        every = (v for e in graph.equations for v in e.variables)
        return dict.fromkeys(every, UNFUSED) | always
    cheap = CHEAP if rewrites.is_on("recompute_cheap") else 0
    first = _costs(graph, own, always)
    stored = _read_in_several_contexts(graph, kinds, first, always, cheap)
    if not stored:
        return always
    kept = always | stored
    costs = _costs(graph, own, kept)
    dropped = {v for v in stored if costs[v] <= cheap}
    if dropped:
        _costs(graph, own, kept, dropped)
    return kept


def _costs(
    graph: Graph, own: dict[Equation, int], stored: dict[Any, str], dropped: Any = ()
) -> dict[Any, int]:
    """The cost of computing each variable again; one too large or deep for a kernel is stored, and
    those in ``dropped`` are not, unless a chain of them has made one dear."""
    costs: dict[Any, int] = {}
    depths: dict[Any, int] = {}
    for equation in graph.equations:
        cost, depth = own[equation], 0
        for atom in set(equation.atoms):
            cost += 1 if atom in stored else costs.get(atom, 0)
            depth = max(depth, 0 if atom in stored else depths.get(atom, 0) + 1)
        for v in equation.variables:
            if cost > LARGEST_KERNEL or depth > DEEPEST:
                stored.setdefault(v, TOO_LARGE if cost > LARGEST_KERNEL else TOO_DEEP)
            elif v in dropped and cost <= DEAR:
                del stored[v]
            costs[v], depths[v] = cost, depth
    return costs


def _read_in_several_contexts(
    graph: Graph,
    kinds: dict[Equation, str],
    costs: dict[Any, int],
    always: dict[Any, str],
    cheap: int,
) -> dict[Any, str]:
    stored: dict[Any, str] = {}
    contexts: dict[Any, set[Any]] = {}
    for equation in reversed(graph.equations):
        inherited: set[Any] = set()
        for v in equation.variables:
            found = contexts.pop(v, set())
            if costs[v] > cheap and len(found) > 1:
                stored[v] = SEVERAL
            inherited |= {(v,)} if v in always or v in stored else found
        kind = kinds[equation]
        for k, atom in enumerate(equation.atoms):
            known = contexts.setdefault(atom, set())
            for context in list(inherited)[:_ENOUGH] if len(known) < _ENOUGH else ():
                # a change of index or a loop makes a context of its own
                known.add(context if kind in ("pointwise", "view") else (context, equation, k))
    return stored
