"""The recognise pass: what patterns describe becomes the op that they name.

A pattern is looked for where its op has a kernel on some place that the graph is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from phix.core import patterns, rewrites, stack
from phix.core.conversion import tensor_from_scalar
from phix.core.graph import (
    Constant,
    Equation,
    Graph,
    Literal,
    Variable,
    graphs_in,
    map_attrs,
    map_entries,
)
from phix.core.graph_text import equation_text
from phix.core.op import Op
from phix.core.patterns import Finder, Match, Pattern
from phix.core.rules import OPS
from phix.interpreters.stage import finish, trace
from phix.passes.recognise_derivative import replaced_together, with_derivatives

Wanted = Callable[[Op], bool]


def recognise(graph: Graph, wanted: Wanted) -> Graph:
    """``graph`` with what the patterns describe replaced, for ops that ``wanted`` answers True
    for."""
    known = patterns.known().values()
    found = [p for p in known if rewrites.is_on(p.name) and wanted(OPS[p.gives])]
    if not found:
        return graph
    both = [p for p in found if wanted(OPS[OPS[p.gives].backward or p.gives])]
    return _recognised(with_derivatives(graph, both), found)


@stack.nests
def _recognised(graph: Graph, patterns: list[Pattern]) -> Graph:
    finder = Finder(graph)
    equations: list[Equation] = []
    constants = list(graph.constants)
    for equation in graph.equations:
        if equation.op.has_graphs:
            attrs = map_attrs(lambda g: _recognised(g, patterns), equation.attrs)
            equation = replace(equation, attrs=attrs)
        elif equation.op.single_output:
            for pattern in patterns:
                match = finder.find(pattern, equation)
                if isinstance(match, Match):
                    parts = _replaced(pattern, match, equation)
                    constants += parts.constants
                    equations += parts.equations[:-1]
                    equation = parts.equations[-1]
                    break
        equations.append(equation)
    return finish(replace(graph, equations=tuple(equations), constants=tuple(constants)))


def _replaced(pattern: Pattern, match: Match, root: Equation) -> Graph:
    """The replacement over the variables of the graph that the match is in; its last equation
    gives what ``root`` gave."""
    names = [name for name, atom in match.bound.items() if isinstance(atom, Variable)]
    literals = {
        name: tensor_from_scalar(atom.value, atom.meta.dtype)
        for name, atom in match.bound.items()
        if isinstance(atom, Literal)
    }

    def replacement(*tensors: Any) -> list[Any]:
        assert pattern.replacement is not None
        values = {**match.bound, **literals, **dict(zip(names, tensors))}
        return [pattern.replacement(Match(values, match))]

    made = trace(replacement, [match.bound[name].meta for name in names])
    outer = dict(zip(made.inputs, (match.bound[name] for name in names)))
    (result,) = made.outputs
    outer[result] = root.outputs[0]  # type: ignore[index]

    def read(atom: Any) -> Any:
        return outer.get(atom, atom)

    equations = tuple(
        replace(
            e, inputs=map_entries(read, e.inputs), outputs=map_entries(read, e.outputs),
            source=root.source,
        )
        for e in made.equations
    )  # fmt: skip
    constants = tuple(Constant(c.variable, c.value) for c in made.constants)
    return Graph((), constants, equations, root.outputs)  # type: ignore[arg-type]


def report(graph: Graph) -> Iterator[str]:
    """A line for each equation that a pattern ends in, or might have, and why it does not."""
    finder = Finder(graph)
    for equation in graph.equations:
        for inner in graphs_in(equation.attrs):
            yield from report(inner)
        if not equation.op.single_output:
            continue
        for pattern in patterns.known().values():
            found = _found(graph, finder, pattern, equation)
            if found is not None:
                at = f"  # {equation.source}" if equation.source else ""
                yield f"{pattern.name} {found}, in {equation_text(graph, equation)}{at}"


def _found(graph: Graph, finder: Finder, pattern: Pattern, equation: Equation) -> str | None:
    """Whether a pattern ends in an equation, and why not; None if it is far from it."""
    found = finder.find(pattern, equation)
    if found is None or isinstance(found, Match):
        return None if found is None else "is there"
    if pattern.replacement is not None and OPS[pattern.gives].backward is not None:
        shared = finder.find(pattern, equation, shared=True)
        if isinstance(shared, Match) and replaced_together(graph, pattern, shared, equation):
            return "is there with its derivative"
    return f"is not there: {found}"
