"""A digest of what a graph computes, by which its program is found on disk.

A fingerprint holds ops, attributes, what is joined to what, and the metas of the inputs; all other
metas follow from them. Names of variables and the user's lines are left out.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import rules, stack
from phix.core.graph import Graph, Literal, Variable, flat
from phix.core.kernels import chosen_function
from phix.core.places import Place
from phix.core.tensor import Tensor

_PLAIN = frozenset({bool, int, float, complex, str, type(None), Place})
_KNOWN = {int}  # what a known dim is


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

    @stack.nests
    def graph(self, graph: Graph) -> tuple[Any, ...]:
        numbers: dict[Any, int] = {}
        inputs = [(v.meta.dtype, self.dims(v.meta.dims)) for v in graph.inputs]
        constants = [self.constant(c.value) for c in graph.constants]
        for variable in (*graph.inputs, *(c.variable for c in graph.constants)):
            numbers[variable] = len(numbers)

        def entry(e: Any) -> Any:
            kind = type(e)
            if kind is Variable:
                return numbers[e]
            if kind is Literal:
                return (e.value, e.meta.dtype)
            return None if e is None else tuple(map(entry, e))

        equations = []
        for equation in graph.equations:
            name = equation.op.name
            if name not in rules.BUILT_IN or rules.OPS[name] is not equation.op:
                raise _Unwritten
            if chosen_function(equation) is not None:  # whose code may be another one next time
                raise _Unwritten
            read = tuple(map(entry, equation.inputs))
            equations.append((name, read, *map(self.attribute, equation.attrs)))
            for variable in flat(equation.outputs):
                numbers[variable] = len(numbers)
                dims = variable.meta.dims
                if set(map(type, dims)) - _KNOWN:  # unknown ones may be new
                    equations.append(self.dims(dims))
        return (inputs, constants, equations, tuple(map(entry, graph.outputs)))

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
