"""Which inputs of a graph its derivatives may get to from some of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix.core import dtypes as dt
from phix.core.graph import Equation, Graph


def reaching(graph: Graph, outputs: Sequence[bool]) -> list[bool]:
    """For each input, whether an output that is flagged may depend on it through floats."""
    found = {a for a, flagged in zip(graph.outputs, outputs) if flagged}
    for e in reversed(graph.equations):
        live = [v in found and dt.is_differentiable(v.meta.dtype) for v in e.variables]
        if any(live) and e.op.name != "stop_gradient":
            found.update(_wanted(e, live))
    return [v in found for v in graph.inputs]


def reached_steps(body: Graph, outputs: Sequence[bool], carried: int) -> list[bool]:
    """Which results of a loop's step matter, those it carries to a step that comes after too."""
    live = list(outputs)
    while True:
        found = reaching(body, live)
        after = [a or b for a, b in zip(live, found[:carried])] + live[carried:]
        if after == live:
            return live
        live = after


def reached_by_steps(body: Graph, live: Sequence[bool], carried: int) -> list[bool]:
    """Which inputs of a scan, of whose step these results matter: what it carries is what it gives
    where there are no steps, whether or not a step would look at it."""
    return [*live[:carried], *reaching(body, live)[carried:]]


def only(grads: Sequence[Any], reached: Sequence[bool]) -> tuple[Any, ...]:
    """None, which the tape goes no further with, for what is not reached: not zeros."""
    return tuple(g if r else None for g, r in zip(grads, reached))


def _wanted(equation: Equation, live: list[bool]) -> list[Any]:
    op, atoms = equation.op, equation.atoms
    if op.name == "branch":
        (branches,) = equation.attrs
        flags = [any(f) for f in zip(*(reaching(g, live) for g in branches))]
        return [a for a, f in zip(atoms[1:], flags) if f]
    if op.name in ("call", "checkpoint"):
        flags = reaching(op.attr("graph", equation.attrs), live)
        return [a for a, f in zip(atoms, flags) if f]
    if op.name == "scan":
        carry, body = equation.inputs[0], op.attr("body", equation.attrs)
        assert isinstance(carry, tuple)
        flags = reached_by_steps(body, reached_steps(body, live, len(carry)), len(carry))
        return [a for a, f in zip(atoms, flags) if f]
    return list(atoms)
