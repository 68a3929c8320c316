"""The hoist pass: casts, copies and transpositions of what a loop does not change go out of it.

Ops with graphs in them name the operands that their graphs take unchanged (trait ``invariant``);
what restates such an operand inside is made once outside, and handed in as one more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from phix.core import rewrites, stack
from phix.core.graph import (
    Equation,
    Graph,
    Literal,
    Variable,
    graphs_in,
    map_attrs,
    map_entries,
    solve_dims,
    substitute_attrs,
    symbols_of,
)
from phix.core.kernel_selection import lookup
from phix.core.op import Op
from phix.interpreters.stage import finish

Made = dict[Any, Variable]  # op, inputs and attributes -> the variable that has the result


def hoist(graph: Graph) -> Graph:
    """``graph`` with what restates a value out of its loops, where the value does not change."""
    if not rewrites.is_on("hoist"):
        return graph
    return _hoisted(graph, frozenset())


def _restates(equation: Equation) -> bool:
    """Whether an equation may go out of a loop: a cast or a copy, or a view that is a kernel of its
    own (an engine that makes loops takes views for nothing)."""
    op, key = equation.op, equation.kernel
    if op.has_graphs or not op.single_output:
        return False
    if "restates" in op.traits:
        return True
    found = lookup(op, key) if op.view and key is not None else None
    return found is not None and found.function is not None


@stack.nests
def _hoisted(graph: Graph, fixed: frozenset[Any]) -> Graph:
    """``fixed`` are the inputs that are the same in each step of the loop that the graph is in."""
    if not any(e.op.has_graphs for e in graph.equations):
        return graph
    equations: list[Equation] = []
    made: Made = {}
    changed = False
    for equation in graph.equations:
        if equation.op.has_graphs:
            before, new = _lifted(equation, fixed, made)
            changed = changed or new is not equation
            equations += (*before, new)
            continue
        if _restates(equation):
            made.setdefault(_key(equation, equation.inputs), equation.variables[0])
        equations.append(equation)
    return finish(replace(graph, equations=tuple(equations))) if changed else graph


def _key(equation: Equation, inputs: Any) -> Any:
    return (equation.op, inputs, equation.attrs)


def _lifted(
    equation: Equation, fixed: frozenset[Any], made: Made
) -> tuple[list[Equation], Equation]:
    """What goes in front of an equation with graphs, and the equation without it.

    A branch does not run all that it holds: what leaves it is to leave a loop around it, too.
    """
    op = equation.op
    if not op.invariant:
        attrs = map_attrs(lambda g: _hoisted(g, frozenset()), equation.attrs)
        return [], _with_graphs(equation, attrs)
    number = next(i for i, a in enumerate(op.inputs) if a.name in op.invariant)
    operands: Any = equation.inputs[number]
    same = [True if _is_loop(op) else a in fixed for a in operands]

    def inner(graph: Graph) -> Graph:
        own = graph.inputs[len(graph.inputs) - len(operands) :]
        return _hoisted(graph, frozenset(v for v, s in zip(own, same) if s))

    equation = _with_graphs(equation, map_attrs(inner, equation.attrs))
    lifting = _Lifting(operands, same, made)
    for graph in graphs_in(equation.attrs):
        lifting.collect(graph)
    if not lifting.inside:
        return [], equation
    entries = list(equation.inputs)
    entries[number] = (*operands, *lifting.outside)
    attrs = map_attrs(lifting.rewritten, equation.attrs)
    return lifting.equations, _pruned(replace(equation, inputs=tuple(entries), attrs=attrs), number)


def _with_graphs(equation: Equation, attrs: tuple[Any, ...]) -> Equation:
    same = all(a is b for a, b in zip(graphs_in(attrs), graphs_in(equation.attrs)))
    return equation if same else replace(equation, attrs=attrs)


def _pruned(equation: Equation, number: int) -> Equation:
    """The equation without those operands of list ``number`` that its graphs do not use."""
    operands: Any = equation.inputs[number]
    used = [any(each) for each in zip(*_uses(equation, len(operands)))]
    if all(used):
        return equation

    def chosen(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(e for e, keep in zip(entries, used) if keep)

    def rebuilt(graph: Graph) -> Graph:
        first = len(graph.inputs) - len(operands)
        return replace(graph, inputs=graph.inputs[:first] + chosen(graph.inputs[first:]))

    entries = list(equation.inputs)
    entries[number] = chosen(operands)
    return replace(equation, inputs=tuple(entries), attrs=map_attrs(rebuilt, equation.attrs))


def _uses(equation: Equation, count: int) -> Iterator[list[bool]]:
    """For each graph of an equation, which of its last ``count`` inputs it uses."""
    for graph in graphs_in(equation.attrs):
        read = {a for e in graph.equations for a in e.atoms} | set(graph.outputs)
        yield [v in read for v in graph.inputs[len(graph.inputs) - count :]]


def _is_loop(op: Op) -> bool:
    """Whether its graphs run more than once: it has a carry, beside what is handed in unchanged."""
    return bool(op.invariant) and any(a.is_list and a.name not in op.invariant for a in op.inputs)


class _Lifting:
    """The equations that leave the graphs of one equation for the front of it: those that depend
    on operands alone of which ``same`` says so."""

    def __init__(self, operands: tuple[Any, ...], same: list[bool], made: Made) -> None:
        self.operands, self.same, self.made = operands, same, made
        self.equations: list[Equation] = []
        self.outside: list[Variable] = []  # what is handed in, each variable once
        self.inside: dict[Variable, Variable] = {}  # an output in a graph -> what has it outside

    def collect(self, graph: Graph) -> None:
        """Find what can leave ``graph``."""
        own = graph.inputs[len(graph.inputs) - len(self.operands) :]
        known = {v: a for v, a, same in zip(own, self.operands, self.same) if same}
        # the graph has unknown dims of its own, which are these outside
        env = solve_dims([v.meta for v in own], [a.meta.dims for a in self.operands])
        for equation in graph.equations:
            given = equation.atoms
            if not _restates(equation) or not any(isinstance(a, Variable) for a in given):
                continue
            leaves = all(isinstance(a, Literal) or a in known for a in given)
            if leaves and symbols_of(equation) <= env.keys():
                known[equation.variables[0]] = self.lift(equation, known, env)

    def lift(self, equation: Equation, known: dict[Any, Any], env: dict[Any, Any]) -> Variable:
        """The variable outside that has an equation's output: an equal one, where there is one."""
        (inside,) = equation.variables
        inputs = map_entries(lambda a: a if isinstance(a, Literal) else known[a], equation.inputs)
        moved = replace(
            equation, inputs=inputs, attrs=substitute_attrs(equation.attrs, env), outputs=()
        )
        key = _key(moved, inputs)
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Variable("", inside.meta.substitute(env), inside.state)
            self.equations.append(replace(moved, outputs=(found,)))
        if found not in self.outside:
            self.outside.append(found)
        self.inside[inside] = found
        return found

    def rewritten(self, graph: Graph) -> Graph:
        """A graph that takes what went outside as its last inputs, as all of the equation do."""
        taken = {v.name for v in graph.inputs}
        names = (n for n in (f"made_before_{k}" for k in count()) if n not in taken)
        more = {v: Variable(next(names), v.meta, v.state) for v in self.outside}
        new = {inside: more[found] for inside, found in self.inside.items()}

        def read(atom: Any) -> Any:
            return new.get(atom, atom)

        kept = [e for e in graph.equations if next(iter(e.variables), None) not in new]
        return finish(
            Graph(
                (*graph.inputs, *more.values()),
                graph.constants,
                tuple(replace(e, inputs=map_entries(read, e.inputs)) for e in kept),
                tuple(map(read, graph.outputs)),
            )
        )
