"""Patterns whose values a derivative reads: forward and backward become the op together.

What the backward pass of a pattern looks like is not written anywhere: it is derived from the
equations that the pattern was found in, and looked for in the graph, call by call. Where it is
there, the op and its backward op take the place of both; if nothing is left then of what others
read on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from phix.core import dtypes as dt
from phix.core import stack
from phix.core.conversion import tensor_from_scalar
from phix.core.evaluate import evaluate
from phix.core.graph import (
    Constant,
    Equation,
    Graph,
    Literal,
    Variable,
    flat,
    map_attrs,
    map_entries,
)
from phix.core.patterns import Finder, Match, Pattern
from phix.core.records import dataclass
from phix.interpreters.equal_calls import attr_key, may_swap
from phix.interpreters.stage import finish, trace
from phix.interpreters.vjp import vjp
from phix.passes.simplify import simplify

Values = dict[Any, Any]


@stack.nests
def with_derivatives(graph: Graph, patterns: Sequence[Pattern]) -> Graph:
    """``graph`` with the patterns replaced whose values are read by their own derivatives alone."""
    if not patterns:
        return graph
    inside = tuple(
        replace(e, attrs=map_attrs(lambda g: with_derivatives(g, patterns), e.attrs))
        if e.op.has_graphs else e
        for e in graph.equations
    )  # fmt: skip
    graph = replace(graph, equations=inside)
    finder = Finder(graph)
    for root in inside:
        if not root.op.single_output or root.outputs[0] not in finder.made_by:
            continue
        for pattern in patterns:
            match = finder.find(pattern, root, shared=True)
            found = (
                replaced_together(graph, pattern, match, root) if isinstance(match, Match) else None
            )
            if found is not None:
                graph, finder = found, Finder(found)
                break
    return graph


def replaced_together(graph: Graph, pattern: Pattern, match: Match, root: Equation) -> Graph | None:
    """``graph`` without the pattern that ends in ``root``, and without its derivative; None where
    nobody else reads what is computed on the way, or others than its derivative do."""
    part = _Part(graph, match, root)
    if not part.shared:
        return None
    written, of = part.with_gradients(lambda *leaves: evaluate(part.graph, leaves)[0])
    search = _Search(graph)
    start: Values = dict(zip(written.inputs, part.leaves))
    for cotangent in search.cotangents(written, search.follow(written, start)):
        known = search.follow(written, {**start, written.inputs[-1]: cotangent})
        found = ((n, known.get(v)) for n, v in zip(of, written.outputs[1:]))
        there = {n: v for n, v in found if v is not None and v in search.made_at}
        if there:
            return part.spliced(graph, part.replacement(pattern, match), cotangent, there)
    return None


@dataclass(frozen=True)
class _Replacement:
    """The op in place of a pattern, with its backward op: a graph of the leaves and a cotangent.
    Its outputs are the result, and gradients to leaves of these numbers."""

    graph: Graph
    gradient_of: tuple[int, ...]


class _Part:
    """The equations of a match as a graph of their own, of what they start from: ``leaves``. Two
    values of the pattern are two leaves, also where they are one in the graph."""

    def __init__(self, graph: Graph, match: Match, root: Equation) -> None:
        self.root, self.names = root, dict[str, int]()
        named = {(e, number): name for e, number, name in match.read}
        inside = set(match.inside)
        made = _made(match.inside)
        leaves: list[Any] = []
        inputs: dict[Any, Variable] = {}  # by name, or the variable that has none

        def read(equation: Equation, number: int, atom: Any) -> Any:
            if not isinstance(atom, Variable) or atom in made:
                return atom
            name = named.get((equation, number))
            key = name or atom
            if key not in inputs:
                if name:
                    self.names[name] = len(leaves)
                leaves.append(atom)
                inputs[key] = Variable("", atom.meta)
            return inputs[key]

        equations = tuple(
            replace(e, inputs=tuple(read(e, n, a) for n, a in enumerate(e.inputs)))
            for e in graph.equations
            if e in inside
        )
        self.leaves = tuple(leaves)
        self.graph = Graph(tuple(inputs.values()), (), equations, root.outputs)  # type: ignore[arg-type]
        readers = match.finder.readers
        self.shared = {
            v for v in made - set(root.outputs) if not inside.issuperset(readers.get(v, ()))
        }

    def with_gradients(self, function: Callable[..., Any]) -> tuple[Graph, tuple[int, ...]]:
        """A graph of the leaves and a cotangent: what ``function`` gives of the leaves, and the
        gradients to those leaves whose numbers come second."""
        of = [n for n, v in enumerate(self.leaves) if dt.is_differentiable(v.meta.dtype)]
        given: list[int] = []

        def both(*tensors: Any) -> list[Any]:
            *leaves, cotangent = tensors

            def result(*chosen: Any) -> list[Any]:
                every = dict(enumerate(leaves)) | dict(zip(of, chosen))
                return [function(*(every[n] for n in range(len(leaves))))]

            (out,), pull = vjp(result, [leaves[n] for n in of])
            gradients = pull([cotangent], instantiate=False)
            given[:] = [n for n, g in zip(of, gradients) if g is not None]
            return [out, *(g for g in gradients if g is not None)]

        out = flat(self.root.outputs)[0]
        metas = [v.meta for v in (*self.leaves, out)]
        return simplify(trace(both, metas)), tuple(given)

    def replacement(self, pattern: Pattern, match: Match) -> _Replacement:
        """What the pattern becomes, with its gradients."""
        bound = match.bound
        literals = {
            name: tensor_from_scalar(atom.value, atom.meta.dtype)
            for name, atom in bound.items()
            if isinstance(atom, Literal)
        }

        def function(*leaves: Any) -> Any:
            named = {name: leaves[number] for name, number in self.names.items()}
            assert pattern.replacement is not None
            return pattern.replacement(Match({**bound, **literals, **named}, match))

        return _Replacement(*self.with_gradients(function))

    def spliced(
        self, graph: Graph, made: _Replacement, cotangent: Any, there: Mapping[int, Variable]
    ) -> Graph | None:
        """``graph`` with the replacement for the result, and for the gradients that are there;
        None where something is left that others read."""
        outer: Values = dict(zip(made.graph.inputs, (*self.leaves, cotangent)))
        targets = dict(zip(made.gradient_of, made.graph.outputs[1:]))
        if not set(there) <= set(targets):
            return None
        outer[made.graph.outputs[0]] = flat(self.root.outputs)[0]
        outer.update((targets[n], variable) for n, variable in there.items())
        new = {v for e in made.graph.equations for v in flat(e.outputs)}
        chosen = {made.graph.outputs[0], *(targets[n] for n in there)}
        gone = set(there.values())
        if not chosen <= new or not len(chosen) - 1 == len(there) == len(gone):
            return None  # an output that is an input, or two that are one

        def read(atom: Any) -> Any:
            return outer.get(atom, atom)

        first, second = _parted(made.graph)
        first, second = (
            [
                replace(
                    e, inputs=map_entries(read, e.inputs), outputs=map_entries(read, e.outputs),
                    source=self.root.source,
                )
                for e in some
            ]
            for some in (first, second)
        )  # fmt: skip
        equations: list[Equation] = []
        waits = {flat(self.root.outputs)[0], cotangent} & _made(graph.equations)
        for equation in graph.equations:
            outputs = set(flat(equation.outputs))
            if equation is self.root:
                equations += first
            elif not outputs & gone:
                equations.append(equation)
            if waits:
                waits -= outputs
                equations += [] if waits else second
        constants = (
            *graph.constants,
            *(Constant(c.variable, c.value) for c in made.graph.constants),
        )
        result = finish(replace(graph, equations=tuple(equations), constants=constants))
        return None if self.shared & _made(result.equations) else result


def _made(equations: Sequence[Equation]) -> set[Any]:
    return {v for e in equations for v in flat(e.outputs)}


def _parted(graph: Graph) -> tuple[list[Equation], list[Equation]]:
    """The equations that do not need the last input, and those that do."""
    late: set[Any] = {graph.inputs[-1]}
    parts: tuple[list[Equation], list[Equation]] = ([], [])
    for equation in graph.equations:
        is_late = any(a in late for a in flat(equation.inputs) if isinstance(a, Variable))
        parts[is_late].append(equation)
        if is_late:
            late.update(flat(equation.outputs))
    return parts


class _Search:
    """Looks for the calls of one graph among those of another."""

    def __init__(self, graph: Graph) -> None:
        self.made_at: dict[Any, Equation] = {}
        self.by_call: dict[Any, Equation] = {}
        self.by_kind: dict[Any, list[Equation]] = {}
        for equation in graph.equations:
            if equation.op.single_output:
                self.made_at[equation.outputs[0]] = equation
                self.by_kind.setdefault(_kind(equation), []).append(equation)
                self.by_call.setdefault(_call(equation, equation.inputs), equation)

    def follow(self, other: Graph, known: Values) -> Values:
        """What stands in the graph for values of ``other``, as far as its calls are there."""
        known = dict(known)
        for equation in other.equations:
            inputs = _translated(equation, known)
            found = None if inputs is None else self.by_call.get(_call(equation, inputs))
            if found is not None:
                known[flat(equation.outputs)[0]] = found.outputs[0]
        return known

    def cotangents(self, other: Graph, known: Values) -> Iterator[Any]:
        """What may stand for the last input of ``other``, where all else of a call of it is
        there."""
        last, seen = other.inputs[-1], set[Any]()
        for equation in other.equations:
            if last not in equation.inputs:
                continue
            for found in self.by_kind.get(_kind(equation), ()):
                for given in _orders(found):
                    atom = given[equation.inputs.index(last)]
                    inputs = _translated(equation, {**known, last: atom})
                    is_new = isinstance(atom, Variable) and atom not in seen
                    if (
                        is_new
                        and inputs is not None
                        and _call(equation, inputs) == _call(found, given)
                    ):
                        seen.add(atom)
                        yield atom


def _orders(equation: Equation) -> list[Any]:
    inputs = equation.inputs
    return [inputs, inputs[::-1]] if may_swap(equation.op) else [inputs]


def _translated(equation: Equation, known: Values) -> Any:
    """The inputs of an equation as the other graph has them; None where one is not there."""
    if any(isinstance(a, Variable) and a not in known for a in flat(equation.inputs)):
        return None
    return map_entries(lambda a: known.get(a, a), equation.inputs)


def _kind(equation: Equation) -> Any:
    return equation.op.name, attr_key(equation.attrs)


def _call(equation: Equation, inputs: Any) -> Any:
    """What equal calls have in common."""
    keys = map_entries(_atom_key, inputs)
    return *_kind(equation), frozenset(keys) if may_swap(equation.op) else keys


def _atom_key(atom: Any) -> Any:
    if isinstance(atom, Literal):
        return atom.meta.dtype, repr(atom.value)
    return atom
