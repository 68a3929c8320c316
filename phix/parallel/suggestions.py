"""Which dims of values might be divided, by what pointwise ops join them with.

A plan is made from the first equation to the last. When the sum of a gradient is due, it is not yet
known that it meets the piece of an optimizer's state, say: so all that pointwise ops bring together
with what is divided, arguments or results, is marked before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from phix.core.graph import Graph, Literal, flat
from phix.parallel.forms import PENDING, Form
from phix.parallel.sharding_rules import aligned

Places = set[tuple[str, int]]  # axes of the mesh, each with a dim


def suggested(
    graph: Graph, inputs: Sequence[Form], outputs: Sequence[Form | None]
) -> dict[Any, Places]:
    """For each value the axes that might divide it, each with the dim."""
    found: dict[Any, Places] = defaultdict(set)
    for atom, form in [*zip(graph.inputs, inputs), *zip(graph.outputs, outputs)]:
        if form is not None and not isinstance(atom, Literal):
            found[atom].update((a, w) for a, w in form.places if w != PENDING)
    if not any(found.values()):
        return {}
    pointwise = []
    for equation in graph.equations:
        if not equation.op.is_pointwise or equation.op.has_graphs:
            continue
        (out,) = flat(equation.outputs)
        atoms = [a for a in flat(equation.inputs) if not isinstance(a, Literal)]
        pairs = [(atom, aligned(atom.meta, out.meta)) for atom in atoms]
        pointwise.append((out, pairs))
        for atom, labels in pairs:
            found[out].update((a, labels[k]) for a, k in found[atom] if labels[k] is not None)
    for out, pairs in reversed(pointwise):
        for atom, labels in pairs:
            found[atom].update((a, labels.index(k)) for a, k in found[out] if k in labels)
    return found


__all__ = ["suggested"]
