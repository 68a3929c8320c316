"""Which outputs of a graph depend on some of its inputs, through its branches and loops as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phix.core.graph import Equation, Graph

Flags = Sequence[bool]


def dependent(graph: Graph, flags: Flags) -> list[bool]:
    """For each output of the graph, whether it depends on an input that is flagged."""
    found = {v for v, is_flagged in zip(graph.inputs, flags) if is_flagged}
    for equation in graph.equations:
        own = [a in found for a in equation.atoms]
        if not any(own):
            continue
        if equation.op.binds_dim:  # a size depends on it, and so may all that has the size
            return [True] * len(graph.outputs)
        rule = _INSIDE.get(equation.op.name, _all)
        found.update(v for v, is_so in zip(equation.variables, rule(equation, own)) if is_so)
    return [a in found for a in graph.outputs]


def _all(equation: Equation, flags: Flags) -> list[bool]:
    return [True] * len(equation.variables)


def _count(equation: Equation, place: int) -> int:
    """How many tensors the list is of that an equation takes at this place."""
    entry = equation.inputs[place]
    assert isinstance(entry, tuple)
    return len(entry)


def _of_branch(equation: Equation, flags: Flags) -> list[bool]:
    if flags[0]:
        return _all(equation, flags)
    (branches,) = equation.attrs
    return [any(found) for found in zip(*(dependent(g, flags[1:]) for g in branches))]


def _of_scan(equation: Equation, flags: Flags) -> list[bool]:
    carried = _count(equation, 0)
    return _turns(equation.op.attr("body", equation.attrs), flags[:carried], flags[carried:])


def _of_fori_loop(equation: Equation, flags: Flags) -> list[bool]:
    lower, upper, *rest = flags
    if lower or upper:
        return _all(equation, flags)
    carried = _count(equation, 2)
    body = equation.op.attr("body", equation.attrs)
    return _turns(body, rest[:carried], rest[carried:], before=[False])


def _of_while_loop(equation: Equation, flags: Flags) -> list[bool]:
    carried = _count(equation, 0)
    cond, body = (equation.op.attr(name, equation.attrs) for name in ("cond", "body"))
    found = _turns(body, flags[:carried], flags[carried:])
    is_open = any(dependent(cond, [*found, *flags[carried:]]))
    return _all(equation, flags) if is_open else found


def _turns(body: Graph, carry: Flags, rest: Flags, before: Flags = ()) -> list[bool]:
    """What a body that is run again and again gives: its carry depends on what it did before."""
    now = list(carry)
    while True:
        found = dependent(body, [*before, *now, *rest])
        after = [a or b for a, b in zip(now, found)]
        if after == now:
            return [*now, *found[len(now) :]]
        now = after


_INSIDE: dict[str, Callable[[Equation, Flags], list[bool]]] = {
    "branch": _of_branch,
    "scan": _of_scan,
    "fori_loop": _of_fori_loop,
    "while_loop": _of_while_loop,
}
