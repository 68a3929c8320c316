"""A digest of what a graph computes, by which its program is found on disk.

A fingerprint holds ops, attributes, what is joined to what, and the metas of the inputs; all other
metas follow from them. Names of variables and the user's lines are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import rules
from phix.core.graph import Equation, Graph, Literal, flat
from phix.core.places import Place
from phix.core.tensor import Tensor

_PLAIN = frozenset({bool, int, float, complex, str, type(None), Place})


class _Unwritten(Exception):
    """An attribute that no text stands for, such as a Python function."""


def fingerprint(graph: Graph) -> str | None:
    """A digest that graphs share only if they compile to one program, constants' values included.

    None where more than the graph and phix decides what it compiles to: an attribute that is a
    Python object, an op or a rule of the user's own.
    """
    if rules.EXTENDED & rules.BUILT_IN:
        return None
    try:
        parts = _Writer().graph(graph)
    except _Unwritten:
        return None
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class _Writer:
    """Writes graphs as nested tuples of plain values; variables and symbols become numbers."""

    def __init__(self) -> None:
        self.symbols: dict[dm.Symbol, int] = {}

    def graph(self, graph: Graph) -> tuple[Any, ...]:
        numbers: dict[Any, int] = {}
        inputs = [(v.meta.dtype, self.dims(v.meta.dims)) for v in graph.inputs]
        constants = [self.constant(c.value) for c in graph.constants]
        for variable in (*graph.inputs, *(c.variable for c in graph.constants)):
            numbers[variable] = len(numbers)

        def atom(a: Any) -> Any:
            return (a.value, a.meta.dtype) if isinstance(a, Literal) else numbers[a]

        def entry(e: Any) -> Any:
            return tuple(map(atom, e)) if isinstance(e, tuple) else None if e is None else atom(e)

        equations = []
        for equation in graph.equations:
            name = equation.op.name
            if name not in rules.BUILT_IN or rules.OPS[name] is not equation.op:
                raise _Unwritten
            read = tuple(map(entry, equation.inputs))
            equations.append((name, read, *self.own(equation)))
            for variable in flat(equation.outputs):
                numbers[variable] = len(numbers)
        return (inputs, constants, equations, tuple(map(atom, graph.outputs)))

    def own(self, equation: Equation) -> Iterator[Any]:
        """The attributes, and the outputs' dims where they are unknown: they may be new."""
        for value in equation.attrs:
            yield self.attribute(value)
        for variable in flat(equation.outputs):
            if not all(type(d) is int for d in variable.meta.dims):
                yield self.dims(variable.meta.dims)

    def attribute(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN or isinstance(value, np.dtype):
            return value
        if kind is tuple:
            return tuple(map(self.attribute, value))
        if kind is dm.Dim:
            return self.dim(value)
        if kind is Graph:
            return self.graph(value)
        raise _Unwritten

    def dims(self, dims: dm.Shape) -> tuple[Any, ...]:
        return tuple([d if type(d) is int else self.dim(d) for d in dims])

    def dim(self, dim: Any) -> Any:
        if isinstance(dim, int):
            return int(dim)
        return [([self.factor(a) for a in monomial], c) for monomial, c in dim.terms]

    def factor(self, factor: dm.Atom) -> Any:
        if isinstance(factor, dm.Apply):
            return (factor.fn, *map(self.dim, factor.args))
        return factor.name or self.symbols.setdefault(factor, len(self.symbols))

    def constant(self, value: Any) -> Any:
        """Rules may look at the values of constants, so they count."""
        if not isinstance(value, Tensor):
            raise _Unwritten
        data = np.ascontiguousarray(value.host).reshape(-1)
        content = hashlib.sha256(data.view(np.uint8).data).hexdigest()
        return (data.dtype, value.shape, content)
