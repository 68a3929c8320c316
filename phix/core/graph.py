"""The traced program: a graph of equations over variables that carry their meta."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

from phix.core import dims as dm
from phix.core import stack
from phix.core.context import is_tracked
from phix.core.dims import Dim, DimLike, Shape, Symbol
from phix.core.errors import ShapeError
from phix.core.exact_keys import exact_key
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place
from phix.core.records import dataclass
from phix.core.source import Source


@dataclass(frozen=True)
class State:
    """How a variable lies in memory: its place, and its layout (``any``, ``NCHW`` or ``NHWC``).

    Dtype and dims are its meta's, the dims in the order of that layout.
    """

    place: Place
    layout: str = "any"

    def __str__(self) -> str:
        return f"{self.place}" if self.layout == "any" else f"{self.place} {self.layout}"


class Variable:
    """The value of one input, constant or equation output. Compared by identity.

    ``state`` is known after the pass that chooses kernels.
    """

    __slots__ = ("meta", "name", "state")

    def __init__(self, name: str, meta: MetaTensor, state: State | None = None) -> None:
        self.name = name
        self.meta = meta
        self.state = state

    def __repr__(self) -> str:
        return f"{self.name}: {self.meta}"


@dataclass(frozen=True, eq=False)
class Literal:
    """A 0-d constant known while tracing, printed in place. Compared to the bit."""

    value: Any  # a Python bool, int, float or complex
    meta: MetaTensor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self.meta == other.meta and bool(exact_key(self.value) == exact_key(other.value))

    def __hash__(self) -> int:
        return hash((exact_key(self.value), self.meta))


Atom = Union[Variable, Literal]
# One entry for each of op.inputs: an atom, None (an absent optional), or a tuple for Tensor[].
Inputs = tuple[Union[Atom, tuple[Atom, ...], None], ...]
Outputs = tuple[Union[Variable, tuple[Variable, ...]], ...]


def flat(entries: tuple[Any, ...]) -> list[Any]:
    """The atoms of structured inputs or outputs, lists opened and absent ones left out."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, tuple):
            found += entry
        elif entry is not None:
            found.append(entry)
    return found


def map_entries(fn: Callable[[Any], Any], entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """``fn`` over the atoms of structured inputs or outputs, the structure kept."""
    # for two or three entries a comprehension would be one call more
    found: list[Any] = []
    for entry in entries:
        if entry is None:
            found.append(None)
        elif isinstance(entry, tuple):
            found.append(tuple(map(fn, entry)))
        else:
            found.append(fn(entry))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Equation:
    """``outputs = op(*inputs, **attrs)``; attrs are a tuple in the order of ``op.attrs``.

    ``kernel`` is the KernelKey of what runs it, after the pass that chooses kernels; a copy
    between places has none.
    """

    op: Op
    inputs: Inputs
    attrs: tuple[Any, ...]
    outputs: Outputs
    source: Source | None = None
    kernel: Any = None

    def __init__(
        self,
        op: Op,
        inputs: Inputs,
        attrs: tuple[Any, ...],
        outputs: Outputs,
        source: Source | None = None,
        kernel: Any = None,
    ) -> None:
        # as a frozen dataclass does it, in half the time: graphs are made of thousands
        fields = self.__dict__
        fields["op"], fields["inputs"], fields["attrs"] = op, inputs, attrs
        fields["outputs"], fields["source"], fields["kernel"] = outputs, source, kernel

    @stack.lazy
    def atoms(self) -> tuple[Atom, ...]:
        """The inputs, lists opened and absent ones left out."""
        return tuple(flat(self.inputs))

    @stack.lazy
    def variables(self) -> tuple[Variable, ...]:
        """The outputs, lists opened and absent ones left out."""
        return tuple(flat(self.outputs))


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor closed over by the traced function, held by reference."""

    variable: Variable
    value: Any  # a phix.Tensor


@dataclass(frozen=True, eq=False)
class Graph:
    """A program: inputs, constants, equations in order, outputs.

    ``graph(*tensors)`` runs it (under whatever interpreter is current), giving a tuple of
    outputs; ``str(graph)`` is text that parses back.

    >>> import phix
    >>> graph = phix.make_graph(lambda x: phix.ops.exp(x) + 1.0)(phix.spec([]))
    >>> [equation.op.name for equation in graph.equations]
    ['exp', 'add']
    >>> graph(0.0)[0].item()
    2.0
    """

    inputs: tuple[Variable, ...]
    constants: tuple[Constant, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]

    if TYPE_CHECKING:  # methods that later modules give: see core.later

        def __call__(self, *args: Any) -> tuple[Any, ...]: ...  # core.evaluate

        @property
        def text(self) -> str: ...  # core.graph_text

        @property
        def identity(self) -> tuple[Any, ...]: ...  # core.canonical

    def symbols(self) -> set[Symbol]:
        """The unknown dims of the inputs."""
        return {s for v in self.inputs for d in v.meta.dims for s in dm.symbols(d)}

    @stack.lazy
    def bound_symbols(self) -> frozenset[Symbol]:
        """The unknown dims that equations of the graph give their values."""
        binds = (e for e in self.equations if e.op.binds_dim)
        return frozenset(s for e in binds for s in dm.symbols(e.attrs[0]))

    @property
    def own_sizes(self) -> frozenset[Symbol]:
        """Those of them that the dims of its outputs show."""
        bound = self.bound_symbols
        if not bound:
            return bound
        return bound & {s for a in self.outputs for d in a.meta.dims for s in dm.symbols(d)}

    @stack.lazy
    def memo(self) -> dict[Any, Any]:
        """What rules and interpreters have made of this graph, by a key of their own."""
        return {}

    @property
    def has_effects(self) -> bool:
        """Whether running the graph does more than give its outputs."""
        found = _found(self, "_has_effects", lambda g: any(map(is_effect, g.equations)))
        return bool(found)

    @property
    def axis_names(self) -> frozenset[str]:
        """The named axes whose lanes the graph joins."""
        names = lambda g: frozenset(n for e in g.equations for n in named_axes(e.op, e.attrs))  # noqa: E731
        found: frozenset[str] = _found(self, "_axis_names", names)
        return found

    @property
    def joined_axes(self) -> frozenset[str]:
        """Those of the named axes over which lanes are sent something."""
        names = lambda g: frozenset(n for e in g.equations for n in joined_axes(e.op, e.attrs))  # noqa: E731
        found: frozenset[str] = _found(self, "_joined_axes", names)
        return found

    @stack.lazy
    def _hash(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        """Graphs that compute the same from the same constants are equal, whatever their names."""
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.identity == other.identity)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def graphs_inside(graph: Graph, known: str = "") -> list[Graph]:
    """The graphs inside a graph, each behind those inside it, and the graph itself as the last; but
    for those that have an attribute ``known``."""
    found: dict[int, Graph] = {}
    stack_of = [(graph, False)]
    while stack_of:
        one, is_done = stack_of.pop()
        if is_done:
            found[id(one)] = one
        elif id(one) not in found and known not in vars(one):
            stack_of.append((one, True))
            inner = (g for e in one.equations if e.op.has_graphs for g in graphs_in(e.attrs))
            stack_of += [(g, False) for g in inner]
    return list(found.values())


def _found(graph: Graph, name: str, find: Callable[[Graph], Any]) -> Any:
    """What ``find`` says of a graph, kept under a name; it is asked of those inside first."""
    known = vars(graph)
    if name not in known:
        for one in graphs_inside(graph, name):
            vars(one)[name] = find(one)
    return known[name]


def graphs_in(attrs: tuple[Any, ...]) -> Iterator[Graph]:
    """The graphs among attributes."""
    for value in attrs:
        if isinstance(value, Graph):
            yield value
        elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
            yield from value


def named_axes(op: Op, attrs: tuple[Any, ...]) -> Iterator[str]:
    """The named axes whose lanes a call joins, itself or in its graphs."""
    if "collective" in op.traits:
        yield op.attr("axis_name", attrs)
    if op.has_graphs:
        for graph in graphs_in(attrs):
            yield from graph.axis_names


def joined_axes(op: Op, attrs: tuple[Any, ...]) -> Iterator[str]:
    """The named axes over which a call sends something, itself or in its graphs."""
    if op.joins_ranks:
        yield op.attr("axis_name", attrs)
    if op.has_graphs:
        for graph in graphs_in(attrs):
            yield from graph.joined_axes


def is_effect(equation: Equation) -> bool:
    """Whether the equation is to run though nobody uses its outputs: for what it does, or because
    other ranks, who may use theirs, wait for this one."""
    op = equation.op
    if op.has_effect or (op.joins_ranks and is_tracked(op.attr("axis_name", equation.attrs))):
        return True
    return op.has_graphs and any(g.has_effects for g in graphs_in(equation.attrs))


@stack.nests
def all_places(graph: Graph) -> set[Place]:
    """The places of a graph's variables, as far as they have states; graphs inside included."""
    variables = [*graph.inputs, *(c.variable for c in graph.constants)]
    variables += [v for e in graph.equations for v in flat(e.outputs)]
    inner = [g for e in graph.equations for g in graphs_in(e.attrs)]
    return {v.state.place for v in variables if v.state is not None}.union(*map(all_places, inner))


@stack.nests
def without_effects(graph: Graph) -> Graph:
    """The graph, doing no more than giving its outputs."""
    if not graph.has_effects:
        return graph
    pure = [
        replace(e, attrs=map_attrs(without_effects, e.attrs)) if e.op.has_graphs else e
        for e in graph.equations
        if "side_effect" not in e.op.traits or e.op.binds_dim
    ]
    return replace(graph, equations=tuple(pure))


@stack.nests
def symbols_of(equation: Equation) -> set[Symbol]:
    """The unknown dims in an equation's metas and attributes, and in those of graphs inside."""
    found = {s for v in flat(equation.outputs) for d in v.meta.dims for s in dm.symbols(d)}

    def walk(value: Any) -> None:
        if isinstance(value, Dim):
            found.update(dm.symbols(value))
        elif isinstance(value, tuple):
            for v in value:
                walk(v)
        elif isinstance(value, Graph):
            found.update(s for v in value.inputs for d in v.meta.dims for s in dm.symbols(d))
            for e in value.equations:
                found.update(symbols_of(e))

    walk(equation.attrs)
    return found


def solve_dims(metas: Sequence[MetaTensor], shapes: Sequence[Shape]) -> dict[Symbol, DimLike]:
    """The value of each symbol of ``metas`` where they stand for tensors of ``shapes``.

    Raises:
        ShapeError: a rank or dim that does not fit, or one name that would be two sizes.
    """
    env: dict[Symbol, DimLike] = {}
    for number, (meta, shape) in enumerate(zip(metas, shapes)):
        if meta.ndim != len(shape):
            raise _misfit(number, meta, shape)
        for dim, found in zip(meta.dims, shape):
            symbol = plain_symbol(dim)
            if symbol is not None:
                env.setdefault(symbol, found)
    for number, (meta, shape) in enumerate(zip(metas, shapes)):
        for dim, found in zip(meta.dims, shape):
            if not dm.may_equal(dm.substitute(dim, env), found):
                raise _misfit(number, meta, shape)
    return env


def _misfit(number: int, meta: MetaTensor, shape: Shape) -> ShapeError:
    return ShapeError(
        f"argument {number} is declared {meta}, found a tensor of shape {dm.shape_text(shape)}; "
        "pass a tensor that fits, or declare the dim unknown with -1 or a name of its own"
    )


def plain_symbol(dim: DimLike) -> Symbol | None:
    """The symbol a dim is, if it is nothing but a symbol."""
    if isinstance(dim, Dim) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0]
    return None


def substitute_attrs(attrs: tuple[Any, ...], env: Mapping[Symbol, DimLike]) -> tuple[Any, ...]:
    """Attributes with the unknown dims in them replaced."""
    return tuple(_substitute(a, env) for a in attrs) if env else attrs


def map_attrs(fn: Callable[[Graph], Any], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes with ``fn`` applied to the graphs among them."""

    def mapped(value: Any) -> Any:
        if isinstance(value, Graph):
            return fn(value)
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple(map(fn, value))
        return value

    return tuple(map(mapped, attrs))


@stack.nests
def _substitute_graph(graph: Graph, env: Mapping[Symbol, DimLike]) -> Graph:
    """A graph with unknown dims replaced, in its metas and attributes."""
    new: dict[Variable, Variable] = {}

    def fresh(v: Variable) -> Variable:
        return new.setdefault(v, Variable(v.name, v.meta.substitute(env), v.state))

    def read(atom: Any) -> Any:
        return fresh(atom) if isinstance(atom, Variable) else atom

    return Graph(
        tuple(map(fresh, graph.inputs)),
        tuple(Constant(fresh(c.variable), c.value) for c in graph.constants),
        tuple(
            Equation(
                e.op,
                map_entries(read, e.inputs),
                substitute_attrs(e.attrs, env),
                map_entries(fresh, e.outputs),
                e.source,
                e.kernel,
            )
            for e in graph.equations
        ),
        tuple(map(read, graph.outputs)),
    )


def copied(graph: Graph) -> Graph:
    """The same graph over variables of its own."""
    return _substitute_graph(graph, {})


def _substitute(value: Any, env: Mapping[Symbol, DimLike]) -> Any:
    if isinstance(value, Graph):
        return _substitute_graph(value, env)
    if isinstance(value, Dim):
        return dm.substitute(value, env)
    if isinstance(value, tuple):
        return tuple(_substitute(v, env) for v in value)
    return value
