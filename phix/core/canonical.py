"""The canonical form of a graph: what it computes, and nothing of how it came about.

One form serves the equality of graphs, their hash, and the digest by which a program is found on
disk. It holds ops, attributes, what is joined to what, the metas of the inputs, unknown dims of
what is computed, places, layouts and kernels where they are chosen; all other metas follow. Names
of variables and the user's lines are left out. Variables and unknown dims become numbers in the
order in which they appear, so that [s], [s] is not [s], [t], whatever the names.

What cannot be written as plain values is for the two uses to say: constants, Python objects among
the attributes, ops of the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import graph as gr
from phix.core import rules, stack
from phix.core.exact_keys import exact_key
from phix.core.graph import Equation, Graph
from phix.core.later import method_of
from phix.core.places import Place
from phix.core.records import dataclass
from phix.core.tensor import Tensor

_PLAIN = frozenset({bool, int, float, complex, str, type(None), Place})
_KNOWN = {int}  # what a known dim is


class Unwritten(Exception):
    """Something that no plain value stands for, such as a Python function."""


@dataclass(frozen=True)
class Inner:
    """A graph inside an attribute: its form has this number."""

    number: int


class Writer:
    """Writes graphs as tuples of plain values, equal for graphs that compute the same.

    Each graph inside has a form of its own, so forms do not nest as deeply as graphs do.

    Two symbols are one number only if they are one symbol. Those of inputs and results mean
    nothing outside of the graph and are numbered; one that an attribute names first is of a graph
    around this one, and stays what it is.
    """

    def __init__(self) -> None:
        self.symbols: dict[dm.Symbol, Any] = {}
        self.forms: list[tuple[Any, ...]] = []

    # -- what the uses differ in -----------------------------------------------------------
    def op(self, equation: Equation) -> Any:
        """What stands for the op of an equation."""
        raise NotImplementedError

    def constant(self, value: Any) -> Any:
        """What stands for a constant: rules may look at its values, so they count."""
        raise NotImplementedError

    def object(self, value: Any) -> Any:
        """What stands for an attribute that is a Python object."""
        raise NotImplementedError

    def free(self, symbol: dm.Symbol) -> Any:
        """What stands for a dim of the graph around this one."""
        raise NotImplementedError

    # -- graphs ----------------------------------------------------------------------------
    def whole(self, graph: Graph) -> tuple[Any, ...]:
        """The forms of a graph and of all inside it, its own as the last."""
        self.graph(graph)
        return tuple(self.forms)

    @stack.nests
    def graph(self, graph: Graph) -> Inner:
        """Write the form of a graph; one inside an attribute sees no variables around it."""
        numbers: dict[Any, int] = {}
        inputs = tuple([self.declaration(v) for v in graph.inputs])
        constants = tuple([(self.constant(c.value), c.variable.state) for c in graph.constants])
        for variable in (*graph.inputs, *(c.variable for c in graph.constants)):
            numbers[variable] = len(numbers)

        def entry(e: Any) -> Any:
            kind = type(e)
            if kind is gr.Variable:
                return numbers[e]
            if kind is gr.Literal:
                return (exact_key(e.value), dt.name_of(e.meta.dtype))
            return None if e is None else tuple(map(entry, e))

        equations: list[Any] = []
        for equation in graph.equations:
            read = tuple(map(entry, equation.inputs))
            results = equation.variables
            if equation.op.binds_dim:
                self.dim(equation.attrs[0], self.numbered)  # its symbols are the graph's own
            attrs = tuple(map(self.attribute, equation.attrs))
            structure = tuple([len(e) if type(e) is tuple else e is None for e in equation.outputs])
            equations.append((self.op(equation), read, attrs, equation.kernel, structure))
            for variable in results:
                numbers[variable] = len(numbers)
                if variable.state is not None:
                    equations.append(variable.state)
                dims = variable.meta.dims
                if set(map(type, dims)) - _KNOWN:  # unknown ones may be new
                    equations.append(self.dims(dims))
        self.forms.append((inputs, constants, tuple(equations), tuple(map(entry, graph.outputs))))
        return Inner(len(self.forms) - 1)

    def declaration(self, variable: Any) -> tuple[Any, ...]:
        meta = variable.meta
        return (dt.name_of(meta.dtype), self.dims(meta.dims), meta.layout, variable.state)

    def attribute(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return exact_key(value)
        if isinstance(value, np.dtype):
            return value
        if kind is tuple:
            return tuple(map(self.attribute, value))
        if kind is dm.Dim:
            return self.dim(value, self.named)
        if kind is gr.Graph:
            return self.graph(value)
        return self.object(value)

    # -- unknown dims ----------------------------------------------------------------------
    def dims(self, dims: dm.Shape) -> tuple[Any, ...]:
        return tuple([d if type(d) is int else self.dim(d, self.numbered) for d in dims])

    def dim(self, dim: Any, symbol: Any) -> Any:
        if isinstance(dim, int):
            return int(dim)
        terms = [(_ordered([self.factor(a, symbol) for a in m]), c) for m, c in dim.terms]
        return ("dim", *_ordered(terms))

    def factor(self, factor: dm.Atom, symbol: Any) -> Any:
        if isinstance(factor, dm.Apply):
            return (factor.fn, *[self.dim(a, symbol) for a in factor.args])
        return symbol(factor)

    def numbered(self, symbol: dm.Symbol) -> Any:
        return self.symbols.setdefault(symbol, len(self.symbols))

    def named(self, symbol: dm.Symbol) -> Any:
        found = self.symbols.get(symbol)
        if found is None:
            found = self.symbols[symbol] = self.free(symbol)
        return found


def _ordered(parts: list[Any]) -> tuple[Any, ...]:
    """The terms of a sum, or the factors of a product: their own order follows the names."""
    return tuple(sorted(parts, key=repr) if len(parts) > 1 else parts)


# -- identity ----------------------------------------------------------------------------------
class _Identity(Writer):
    """Ops, constants and objects are themselves."""

    def op(self, equation: Equation) -> Any:
        return equation.op

    def constant(self, value: Any) -> Any:
        return id(value)  # the graph keeps it alive

    def object(self, value: Any) -> Any:
        return exact_key(value)

    def free(self, symbol: dm.Symbol) -> Any:
        return symbol.key


@method_of(Graph)
@stack.lazy
def identity(graph: Graph) -> tuple[Any, ...]:
    """What graphs of this process have in common if one may stand for the other."""
    return _Identity().whole(graph)


# -- content -----------------------------------------------------------------------------------
class _Content(Writer):
    """Constants are digests of their values; what only this process knows is not written."""

    def __init__(self, code: Callable[[Equation], str | None]) -> None:
        super().__init__()
        self.code = code

    def op(self, equation: Equation) -> Any:
        name, digest = equation.op.name, self.code(equation)
        if rules.OPS.get(name) is not equation.op or (
            digest is None and name not in rules.BUILT_IN
        ):
            raise Unwritten
        if digest is None:
            return name
        metas = [v.meta for v in equation.variables]  # which an op of the user's may change
        return (name, digest, [(m.dtype, self.dims(m.dims)) for m in metas])

    def constant(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise Unwritten
        from phix.core import digests

        data = np.ravel(value.host)
        content = digests.of_size(data.nbytes)(data.view(np.uint8).data).hexdigest()
        return (data.dtype, value.shape, content)

    def object(self, value: Any) -> Any:
        raise Unwritten

    def free(self, symbol: dm.Symbol) -> Any:
        raise Unwritten  # nothing here says what it stands for


def content(graph: Graph, code: Callable[[Equation], str | None]) -> tuple[Any, ...]:
    """The form as plain values, whose text is the same in every process.

    ``code`` gives a digest of the user's code that runs an equation, None where there is none.

    Raises:
        Unwritten: the graph holds a Python object, or an op of the user's.
    """
    return _Content(code).whole(graph)
