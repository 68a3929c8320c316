"""Patterns: small graphs of ops, found in a graph and replaced by something else.

A pattern is a function of values, which describes what is computed from them; further decorators
say under which conditions it may be replaced, and by what::

    @pattern("log_of_softmax", "log(softmax(x)) is log_softmax(x)", gives="log_softmax")
    def log_of_softmax(x):
        return call.log(call.softmax(x, axis=attribute("axis")))

    @log_of_softmax.where("the axis is the last")
    def _(m):
        return m.axis == m.x.meta.ndim - 1

    @log_of_softmax.becomes
    def _(m):
        return ops.log_softmax(m.x, m.axis)

Inputs of ops with the trait ``commutative`` may stand in any order. Attributes that are not
mentioned have their defaults. What is computed on the way may not be used elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

from phix.core import dtypes as dt
from phix.core import registries, rewrites, rule_modules
from phix.core.graph import Equation, Graph, Literal, Variable, flat
from phix.core.records import dataclass, field


# -- what patterns are made of ---------------------------------------------------------------
class Node:
    """A part of a pattern; ``named`` lets conditions speak of the value it stands for."""

    name: str | None = None

    def named(self, name: str) -> Node:
        self.name = name
        return self


@dataclass
class AnyValue(Node):
    """Any value; of one name, the same."""

    name: str | None


@dataclass
class Number(Node):
    """A 0-d constant, bound as a Python number."""

    name: str | None


@dataclass
class Either(Node):
    """The first of several forms that matches."""

    forms: tuple[Node, ...]


@dataclass
class OpPattern(Node):
    """The output of a call of an op."""

    op_name: str
    inputs: tuple[Node, ...]
    attrs: dict[str, Any]
    name: str | None = None


@dataclass(frozen=True)
class Attribute:
    """Any value of an attribute, bound to a name."""

    name: str


class _Calls:
    """``call.matmul(x, y, transpose_y=True)``: a call of an op, as a part of a pattern."""

    def __getattr__(self, op_name: str) -> Callable[..., OpPattern]:
        def make(*inputs: Node, **attrs: Any) -> OpPattern:
            return OpPattern(op_name, inputs, attrs)

        return make


call = _Calls()


def either(*forms: Node) -> Either:
    """Any of these forms, the first that matches."""
    return Either(forms)


def number(name: str) -> Number:
    """A 0-d constant; ``m.name`` is its value."""
    return Number(name)


def attribute(name: str) -> Attribute:
    """Any value of an attribute; ``m.name`` is it."""
    return Attribute(name)


class Match:
    """What the names of a pattern stand for: ``m.x``, or None where a form without it matched.

    In a replacement values are tensors, and ``m.found`` is the match in the graph they come from.
    """

    def __init__(self, bound: dict[str, Any], found: Match | None = None) -> None:
        self.bound, self.found = bound, found

    def __getattr__(self, name: str) -> Any:
        return self.bound.get(name)


@dataclass(eq=False)
class Pattern:
    """A pattern with its conditions and what it becomes; see the module's docstring."""

    name: str
    what: str
    gives: str  # the op that it becomes
    form: Node
    conditions: list[tuple[str, Callable[[Match], bool]]] = field(default_factory=list)
    replacement: Callable[[Match], Any] | None = None

    def where(self, text: str) -> Callable[[Callable[[Match], bool]], Callable[[Match], bool]]:
        """Add a condition; ``text`` says what holds, for reports."""

        def decorator(holds: Callable[[Match], bool]) -> Callable[[Match], bool]:
            self.conditions.append((text, holds))
            return holds

        return decorator

    def becomes(self, replacement: Callable[[Match], Any]) -> Callable[[Match], Any]:
        """Say what replaces it: a function of the match, values given as tensors."""
        self.replacement = replacement
        return replacement


_PATTERNS: dict[str, Pattern] = {}
registries.contents(_PATTERNS)


def known() -> dict[str, Pattern]:
    """All patterns by name."""
    rule_modules.import_for(rule_modules.PATTERNS)
    return _PATTERNS


def pattern(name: str, what: str, gives: str) -> Callable[[Callable[..., Node]], Pattern]:
    """Make a pattern of a function; its parameters are the values it starts from.

    ``name`` is its row in the table of rewrites, ``gives`` the op that it becomes: it is looked for
    where that op has a kernel.
    """

    def decorator(function: Callable[..., Node]) -> Pattern:
        rule_modules.import_before(rule_modules.PATTERNS)
        rewrites.add(name, "places", what)
        values = [AnyValue(p) for p in inspect.signature(function).parameters]
        _PATTERNS[name] = Pattern(name, what, gives, function(*values))
        return _PATTERNS[name]

    return decorator


def form(function: Callable[..., Node]) -> Node:
    """A form alone, to be looked for with :meth:`Finder.bound_by` in conditions."""
    return function(*(AnyValue(p) for p in inspect.signature(function).parameters))


# -- finding ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Found:
    """What is bound so far, the equations that were gone through, the root first, and where they
    read the values that the pattern starts from: equation, number of the input, name."""

    bound: dict[str, Any]
    inside: tuple[Equation, ...]
    read: tuple[tuple[Equation, int, str], ...] = ()

    def bind(self, name: str | None, value: Any) -> _Found | None:
        """With one more name; None where the name stands for something else already."""
        if not name:
            return self
        if name in self.bound:
            known = self.bound[name]
            same = known is value or (not isinstance(value, Variable) and dt.alike(known, value))
            return self if same else None
        return replace(self, bound={**self.bound, name: value})


class Finder:
    """Finds patterns in a graph, and remembers why they are not there."""

    def __init__(self, graph: Graph) -> None:
        self.made_by: dict[Any, Equation] = {}
        self.readers: dict[Any, list[Equation | None]] = {a: [None] for a in graph.outputs}
        for equation in graph.equations:
            for variable in flat(equation.outputs):
                self.made_by[variable] = equation
            for atom in flat(equation.inputs):
                if isinstance(atom, Variable):
                    self.readers.setdefault(atom, []).append(equation)
        self.deepest: tuple[int, str] = (0, "")

    def find(
        self, pattern: Pattern, equation: Equation, shared: bool = False
    ) -> Match | str | None:
        """The match that ends in ``equation``; else why there is none, None if it is far from it.

        A reason is given where more than the last call of the pattern is there. With ``shared``,
        what is computed on the way may be used elsewhere.
        """
        self.deepest = (0, "")
        (out,) = flat(equation.outputs)
        for found in self.match(pattern.form, out, _Found({}, ())):
            reason = self.refused(pattern, found, equation, shared)
            if reason is None:
                return self.as_match(found)
            self.note(len(found.inside) + 1, reason)
        depth, reason = self.deepest
        return reason if depth > 1 else None

    def refused(self, pattern: Pattern, found: _Found, root: Equation, shared: bool) -> str | None:
        """Why a form that is there is not to be replaced."""
        for inner in () if shared else found.inside:
            for variable in flat(inner.outputs):
                if inner is not root and not self.is_read_inside(variable, found):
                    return f"{variable.name} of {inner.op.name} is used elsewhere"
        match = self.as_match(found)
        for text, holds in pattern.conditions:
            if not holds(match):
                return f"it does not hold that {text}"
        return None

    def is_read_inside(self, variable: Variable, found: _Found) -> bool:
        return all(reader in found.inside for reader in self.readers.get(variable, ()))

    def as_match(self, found: _Found) -> Match:
        """``m.finder`` of a match finds further forms in the same graph, ``m.inside`` are the
        equations of the form, ``m.read`` where those read what it starts from."""
        more = {"finder": self, "inside": found.inside, "read": found.read}
        return Match({**found.bound, **more})

    def bound_by(self, form: Node, value: Any) -> Match | None:
        """What ``form`` binds where ``value`` is computed like that, whoever else uses what is on
        the way."""
        found = next(self.match(form, value, _Found({}, ())), None)
        return None if found is None else Match(found.bound)

    def note(self, depth: int, reason: str) -> None:
        if depth >= self.deepest[0]:
            self.deepest = (depth, reason)

    def match(
        self, node: Any, atom: Any, found: _Found, reader: tuple[Equation, int] | None = None
    ) -> Iterator[_Found]:
        """Every way in which ``atom`` is what ``node`` says; ``reader`` is whose input it is."""
        if isinstance(node, Either):
            for each in node.forms:
                for inner in self.match(each, atom, found, reader):
                    yield from _given(inner.bind(node.name, atom))
        elif isinstance(node, Number):
            made = self.made_by.get(atom)
            if made is not None and "restates" in made.op.traits:  # a number in a low dtype
                atom = made.inputs[0]
            if isinstance(atom, Literal):
                yield from _given(found.bind(node.name, atom.value))
        elif isinstance(node, OpPattern):
            yield from self.match_call(node, atom, found)
        elif atom is not None:
            bound = found.bind(node.name, atom)
            if bound is not None and reader is not None:
                bound = replace(bound, read=(*bound.read, (*reader, node.name)))
            yield from _given(bound)

    def match_call(self, node: OpPattern, atom: Any, found: _Found) -> Iterator[_Found]:
        equation = self.made_by.get(atom)
        if equation is None or equation.op.name != node.op_name:
            made = "no call" if equation is None else f"a call of {equation.op.name}"
            self.note(len(found.inside), f"{_shown(atom)} is {made}, not of {node.op_name}")
            return
        bound = found.bind(node.name, atom)
        for arg, value in zip(equation.op.attrs, equation.attrs):
            wanted = node.attrs.get(arg.name, arg.default)
            if isinstance(wanted, Attribute):
                bound = bound and bound.bind(wanted.name, value)
            elif not dt.alike(wanted, value):
                text = f"{arg.name} of {node.op_name} is {value!r}, not {wanted!r}"
                self.note(len(found.inside) + 1, text)
                return
        if bound is None:
            return
        start = replace(bound, inside=(*found.inside, equation))
        in_order = range(len(equation.inputs))
        several = "commutative" in equation.op.traits
        for order in permutations(in_order) if several else [tuple(in_order)]:
            yield from self.match_inputs(node.inputs, equation, order, start)

    def match_inputs(
        self, nodes: Any, equation: Equation, order: tuple[int, ...], found: _Found
    ) -> Iterator[_Found]:
        if not nodes:
            yield found
            return
        number = order[0]
        for inner in self.match(nodes[0], equation.inputs[number], found, (equation, number)):
            yield from self.match_inputs(nodes[1:], equation, order[1:], inner)


def _given(found: _Found | None) -> Iterator[_Found]:
    if found is not None:
        yield found


def _shown(atom: Any) -> str:
    return atom.name if isinstance(atom, Variable) else repr(getattr(atom, "value", atom))
