"""Graphs as text, and back: ``print_graph`` and ``parse_graph`` are inverse to each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, filterfalse, product
from string import ascii_lowercase
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import stack
from phix.core.conversion import owned_tensor
from phix.core.errors import GraphError, PhixError
from phix.core.graph import Atom, Constant, Equation, Graph, Literal, Variable, flat, graphs_inside
from phix.core.later import method_of
from phix.core.meta import MetaTensor
from phix.core.op import REQUIRED, Op
from phix.core.places import Place, as_place
from phix.core.rules import get_op
from phix.core.tensor import Tensor, TensorBase

_INLINE_CONSTANT = 16  # elements; larger constants are printed as a reference

# The dtype a literal has when it is printed without one.
_PLAIN = {bool: dt.bool_, int: dt.int64, float: dt.float32, complex: dt.complex64}


# -- printing ------------------------------------------------------------------------------
class _Printer:
    """Prints one graph. An unknown dim without a name prints as -1, unless an attribute needs it
    by name: then it is ``d0``, ``d1``, ... throughout."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        used = {s for s in _symbols(graph) if not s.name}
        ordered = sorted(used, key=lambda s: s.number)
        self.names = {s: f"d{i}" for i, s in enumerate(ordered)}

    def text(self) -> str:
        return self.block(self.graph)

    @stack.nests
    def block(self, graph: Graph) -> str:
        states = ", ".join(f"{v.name} on {v.state}" for v in graph.inputs if v.state is not None)
        inputs = ", ".join(map(self.variable, graph.inputs))
        lines = [f"graph({inputs}) {{{_comment(states)}"]
        for number, constant in enumerate(graph.constants):
            declared, state = self.variable(constant.variable), constant.variable.state
            text = _constant_text(constant, number)
            lines.append(f"  const {declared} = {text}{_comment(state)}")
        lines += [f"  {self.equation(e)}{_chosen(e)}" for e in graph.equations]
        lines.append(f"  return {', '.join(map(atom_text, graph.outputs))}")
        return "\n".join([*lines, "}"])

    def variable(self, variable: Variable) -> str:
        meta = variable.meta
        return f"{variable.name}: {meta.dtype}{dm.shape_text(meta.dims, self.names)}"

    def output(self, entry: Any) -> str:
        if isinstance(entry, tuple):
            return f"[{', '.join(map(self.variable, entry))}]"
        return "none" if entry is None else self.variable(entry)

    def equation(self, equation: Equation) -> str:
        outs = ", ".join(map(self.output, equation.outputs))
        args = [
            f"[{', '.join(map(atom_text, e))}]" if isinstance(e, tuple) else atom_text(e)
            for e in equation.inputs
        ]
        for arg, value in zip(equation.op.attrs, equation.attrs):
            text = _object_text(value) if arg.type == "Object" else self.attribute(value)
            if arg.default is REQUIRED or text != self.attribute(arg.default):
                args.append(f"{arg.name}={text}")
        return f"{outs} = {equation.op.name}({', '.join(args)})"

    def attribute(self, value: Any) -> str:
        if value is None:
            return "none"
        if isinstance(value, (tuple, list)):
            comma = "," if len(value) == 1 else ""
            return f"({', '.join(map(self.attribute, value))}{comma})"
        if isinstance(value, dm.Dim):
            return dm.dim_text(value, self.names)
        if isinstance(value, Graph):
            # what names no dims reads the same wherever it stands
            text = self.block(value) if self.names else value.text
            return text.replace("\n", "\n  ")
        if isinstance(value, (bool, complex)):
            return scalar_text(value)
        if isinstance(value, Place):
            return f"place({value})"
        return str(value) if isinstance(value, np.dtype) else repr(value)


def _comment(what: Any) -> str:
    return f"  # {what}" if what else ""


def _chosen(equation: Equation) -> str:
    """Where an equation's first output lives and which kernel runs it, as a comment."""
    first = next(iter(flat(equation.outputs)), None)
    state = None if first is None else first.state
    return _comment("; ".join(str(part) for part in (state, equation.kernel) if part is not None))


def _object_text(value: Any) -> str:
    """A Python object by its name; no text brings it back."""
    return f"object({getattr(value, '__name__', type(value).__name__)})"


def _symbols(value: Any) -> set[dm.Symbol]:
    """The unknown dims that attributes use."""
    found: set[dm.Symbol] = set()
    values = [value]
    while values:
        one = values.pop()
        if isinstance(one, Graph):
            values += [a for e in one.equations for a in e.attrs]
        elif isinstance(one, tuple):
            values += one
        elif isinstance(one, dm.Dim):
            found |= dm.symbols(one)
    return found


def print_graph(graph: Graph) -> str:
    """The text of a graph; its grammar is in docs/graphs.md."""
    printer = _Printer(graph)
    if not printer.names:
        for inner in graphs_inside(graph, "text")[:-1]:
            vars(inner).setdefault("text", _Printer(inner).text())  # none waits for one inside
    return printer.text()


@method_of(Graph)
@stack.lazy
def text(graph: Graph) -> str:
    """The graph as text."""
    return print_graph(graph)


def equation_text(graph: Graph, equation: Equation) -> str:
    """One line: an equation of ``graph``, graphs among its attributes left out."""
    head, inner, _ = _Printer(graph).equation(equation).partition("graph(")
    return f"{head}graph ...)" if inner else head


def _constant_text(constant: Constant, number: int) -> str:
    value = constant.value
    if not isinstance(value, Tensor) or value.meta.size > _INLINE_CONSTANT:
        return f"constants[{number}]"
    return _values_text(value.host.tolist())


def _values_text(values: Any) -> str:
    if isinstance(values, list):
        return f"[{', '.join(map(_values_text, values))}]"
    return scalar_text(values)


def scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


def atom_text(atom: Atom | None) -> str:
    if atom is None:
        return "none"
    if isinstance(atom, Variable):
        return atom.name
    text = scalar_text(atom.value)
    return text if _PLAIN[type(atom.value)] == atom.meta.dtype else f"{text}:{atom.meta.dtype}"


# -- parsing -------------------------------------------------------------------------------
_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*)?\s*(?P<token>
        "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*'
      | (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?
      | [A-Za-z_]\w*
      | [-+*()\[\]{},:=]
    )""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf"), "nan": float("nan")}


# What Python raises where a token, or how many there are, is not what the grammar has.
MALFORMED = (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)


class _Parser:
    def __init__(self, text: str, constants: Sequence[Any]) -> None:
        self.text, self.position = text, 0
        self.constants = constants
        self.variables: dict[str, Variable] = {}

    # -- tokens
    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.position)
        return match["token"] if match else ""

    def next(self) -> str:
        match = _TOKEN.match(self.text, self.position)
        if not match:
            raise self.error("the text ends too early or holds a character that has no meaning")
        self.position = match.end()
        return match["token"]

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        found = self.peek()
        if found != token:
            raise self.error(f"expected {token!r}, found {found!r}")
        self.next()

    def error(self, message: str) -> GraphError:
        line = self.text.count("\n", 0, self.position) + 1
        return GraphError(f"line {line} of the graph's text: {message}")

    def listed(self, close: str, item: Any) -> list[Any]:
        items = []
        while not self.accept(close):
            items.append(item())
            if not self.accept(","):
                self.expect(close)
                break
        return items

    # -- grammar
    def graph(self) -> Graph:
        self.expect("graph")
        return self.block()

    def subgraph(self) -> Graph:
        """A graph as an attribute: it sees none of the variables around it."""
        around, self.variables = self.variables, {}
        try:
            return self.block()
        finally:
            self.variables = around

    @stack.nests
    def block(self) -> Graph:
        self.expect("(")
        inputs = tuple(self.listed(")", self.declaration))
        self.expect("{")
        constants, equations = [], []
        while self.accept("const"):
            constants.append(self.constant())
        while self.peek() not in ("return", ""):
            equations.append(self.equation())
        self.expect("return")
        outputs = tuple(self.listed("}", self.atom))
        return Graph(inputs, tuple(constants), tuple(equations), outputs)

    def declaration(self) -> Variable:
        name = self.next()
        if not name.isidentifier():
            raise self.error(f"{name!r} is no name for a variable")
        if name in self.variables:
            raise self.error(f"variable {name!r} is defined twice")
        self.expect(":")
        self.variables[name] = Variable(name, self.meta())
        return self.variables[name]

    def meta(self) -> MetaTensor:
        dtype = self.next()
        if dtype not in dt.BY_NAME:
            raise self.error(f"{dtype!r} is no dtype; write one of {', '.join(dt.BY_NAME)}")
        self.expect("[")
        return MetaTensor(tuple(self.listed("]", self.meta_dim)), dt.BY_NAME[dtype])

    def meta_dim(self) -> dm.DimLike:
        dim = self.dim()
        return dm.symbol() if isinstance(dim, int) and dim == -1 else dim

    def dim(self) -> dm.DimLike:
        total = self.dim_term(-1 if self.accept("-") else 1)
        while self.peek() in ("+", "-"):
            total = total + self.dim_term(1 if self.next() == "+" else -1)
        return total

    def dim_term(self, sign: int) -> dm.DimLike:
        value: dm.DimLike = sign * self.dim_factor()
        while self.accept("*"):
            value = value * self.dim_factor()
        return value

    def dim_factor(self) -> dm.DimLike:
        token = self.next()
        if token.isdigit():
            return int(token)
        if self.accept("("):
            args = self.listed(")", self.dim)
            if token not in dm.FUNCTION_NAMES:
                names = ", ".join(sorted(dm.FUNCTION_NAMES))
                raise self.error(f"{token!r} is no function of dims; write one of {names}")
            return dm.floordiv(*args) if token == "floordiv" else dm.apply(token, *args)
        return dm.symbol(token)

    def constant(self) -> Constant:
        variable = self.declaration()
        self.expect("=")
        if self.accept("constants"):
            self.expect("[")
            number = int(self.next())
            self.expect("]")
            if number >= len(self.constants):
                raise self.error(
                    f"the graph needs constants[{number}]; write "
                    "phix.parse_graph(text, constants=[...])"
                )
            value = self.constants[number]
            return Constant(
                variable, value if isinstance(value, TensorBase) else owned_tensor(value)
            )
        values = self.value()
        data = np.array(values, dtype=variable.meta.dtype).reshape(variable.meta.dims)
        return Constant(variable, owned_tensor(data))

    def equation(self) -> Equation:
        outputs: list[Any] = []
        while True:
            if self.accept("["):
                outputs.append(tuple(self.listed("]", self.declaration)))
            else:
                outputs.append(None if self.accept("none") else self.declaration())
            if not self.accept(","):
                break
        self.expect("=")
        op = get_op(self.next())
        self.expect("(")
        inputs: list[Any] = []
        attrs: dict[str, Any] = {}
        for item in self.listed(")", lambda: self.argument(op)):
            if isinstance(item, _Attribute):
                attrs[item.name] = item.value
            else:
                inputs.append(item)
        return Equation(op, tuple(inputs), self.attributes(op, attrs), tuple(outputs))

    def attributes(self, op: Op, given: dict[str, Any]) -> tuple[Any, ...]:
        values = tuple(given.pop(a.name, a.default) for a in op.attrs)
        if given or REQUIRED in values:
            raise self.error(f"attributes of {op.signature()}: unknown {list(given)} or missing")
        return values

    def argument(self, op: Op) -> Any:
        start = self.position
        name = self.next()
        if name in op.attr_names and self.accept("="):
            return _Attribute(name, self.value())
        self.position = start
        if self.accept("["):
            return tuple(self.listed("]", self.atom))
        return self.atom()

    def atom(self) -> Any:
        token = self.peek()
        if token == "none":
            self.next()
            return None
        if token in self.variables:
            self.next()
            return self.variables[token]
        value = self.value()
        if not isinstance(value, (bool, int, float, complex)):
            raise self.error(f"variable {token!r} is not defined above its use")
        dtype = dt.BY_NAME[self.next()] if self.accept(":") else _PLAIN[type(value)]
        return Literal(value, MetaTensor((), dtype))

    def value(self) -> Any:
        token = self.next()
        if token in "([":
            values = self.listed(")" if token == "(" else "]", self.value)
            return tuple(values) if token == "(" else values
        if token == "-":
            return self.negative()
        if token == "graph":
            return self.subgraph()
        if token in _WORDS:
            return _WORDS[token]
        if token in dt.BY_NAME:
            return dt.BY_NAME[token]
        if token == "complex":
            self.expect("(")
            return complex(*self.listed(")", self.value))
        if token == "object" and self.peek() == "(":
            self.next()
            raise self.error(
                f"the Python object {self.peek()!r} is an attribute, and text does not hold it; "
                "trace the function again with phix.make_graph"
            )
        if token == "place":
            self.expect("(")
            place = "".join(iter(self.next, ")"))
            return as_place(place)
        if token[0] in "\"'" or token[0].isdigit() or token[0] == ".":
            return self.number_or_dim(ast.literal_eval(token))
        if token.isidentifier():
            self.position -= len(token)
            return self.dim()
        raise self.error(f"{token!r} is no value")

    def negative(self) -> Any:
        """What follows a sign, which is that of the first term alone: ``-n+1``, ``-2*n+1``."""
        token = self.peek()
        if token[:1].isdigit() or token[:1] == ".":
            return self.number_or_dim(-ast.literal_eval(self.next()))
        if token.isidentifier() and token not in _WORDS and token != "complex":
            self.position -= 1
            return self.dim()
        return -self.value()

    def number_or_dim(self, value: Any) -> Any:
        """``2`` is a number, ``2*n`` a dim."""
        if not isinstance(value, int) or self.peek() not in ("*", "+", "-"):
            return value
        total: dm.DimLike = value
        while self.accept("*"):
            total = total * self.dim_factor()
        while self.peek() in ("+", "-"):
            total = total + self.dim_term(1 if self.next() == "+" else -1)
        return total


class _Attribute:
    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value


def parse_graph(text: str, constants: Sequence[Any] = ()) -> Graph:
    """The graph a text stands for.

    Args:
        text: as ``print_graph`` writes it.
        constants: tensors for constants printed as ``constants[i]``. Those whose values stand in
            the text are new data: they live where the ``phix.device`` around says.

    Raises:
        GraphError: the text is no graph; the message names the line.
        UnknownOpError: it uses an op that is not in the table.
        PhixError: an op of it refuses its inputs or attributes.
    """
    parser = _Parser(text, constants)
    try:
        graph = parser.graph()
    except PhixError:
        raise
    except MALFORMED as error:
        raise parser.error(f"it is malformed before {parser.peek()!r}: {error}") from error
    if parser.peek():
        raise parser.error(f"text goes on after the graph's end: {parser.peek()!r}")
    return graph


def variable_names(taken: Iterable[str] = ()) -> Iterator[str]:
    """a, b, ..., z, aa, ab, ... without those taken or with a meaning of their own."""
    reserved = {*taken, *_WORDS, *dt.BY_NAME, "graph", "const", "return", "complex", "place"}
    letters = (product(ascii_lowercase, repeat=length) for length in count(1))
    names = map("".join, chain.from_iterable(letters))
    return filterfalse(reserved.__contains__, names)
