"""From a graph of primitives to a loop program.

Each structural primitive registers a lowering, which makes lazy values of lazy values. Pointwise
primitives share one rule, which takes the scalar body of the op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from phix.core import dims as dm
from phix.core import graph as gr
from phix.core import settings
from phix.core.errors import KernelNotFoundError
from phix.core.graph import Equation, Graph, Literal
from phix.core.meta import MetaTensor
from phix.core.size_checks import size_checks
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value, buffer_value
from phix.kernels.loops.nodes import Buffer, Element, LoopProgram
from phix.kernels.lowering import fusion, library_step, linked_step
from phix.kernels.lowering.accumulation import accumulated, chosen, covered
from phix.kernels.lowering.registry import RULES, Task, load
from phix.kernels.scalar import expansion
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr


def lower(
    graph: Graph,
    contiguous: tuple[bool, ...],
    make_builder: Callable[[tuple[dm.Symbol, ...]], Builder] = Builder,
) -> LoopProgram:
    """The loop program of ``graph``, as the rules make it; ``contiguous[i]``: input ``i`` is
    C-contiguous. A builder of another kind sees how it comes about: ``kernels.report``.

    Raises:
        KernelNotFoundError: a primitive has neither a lowering nor a scalar body.
    """
    symbols: dict[dm.Symbol, None] = {}
    for variable in graph.inputs:
        for d in variable.meta.dims:
            symbols.update(dict.fromkeys(sorted(dm.symbols(d), key=lambda s: s.key)))
    builder = make_builder(tuple(symbols))
    inputs = [
        Buffer(f"x{k}", v.meta.dtype, v.meta.dims, "input", not whole and bool(v.meta.dims))
        for k, (v, whole) in enumerate(zip(graph.inputs, contiguous))
    ]
    outputs = [
        Buffer(f"o{k}", atom.meta.dtype, atom.meta.dims, "output")
        for k, atom in enumerate(graph.outputs)
    ]
    GraphLowering(builder, graph, [buffer_value(b) for b in inputs]).into(outputs)
    names = {name: symbol for symbol, name in builder.symbol_names.items()}
    constants = [b for b, _ in builder.constants.values()]
    values = [value for _, value in builder.constants.values()]
    return LoopProgram(inputs, constants, outputs, builder.temps, builder.steps, names, values)


class GraphLowering:
    """One graph on its way: values by variable."""

    def __init__(self, builder: Builder, graph: Graph, inputs: Sequence[Value]) -> None:
        self.builder, self.graph = builder, accumulated(graph)
        load(*[e.op.name for e in self.graph.equations if "pointwise" not in e.op.traits])
        self.covered = covered(self.graph)
        self.chosen = chosen(self.graph)
        self.uses: Counter[Any] = Counter(a for e in self.graph.equations for a in e.atoms)
        self.uses.update(self.graph.outputs)
        # of equations without outputs: a value that nobody reads, to compute it is the effect
        self.effects: dict[Equation, Value] = {}
        # whole values that end a long wait, and the equations that wait for none of them (any more)
        self.milestones: set[Any] = set()
        self.ready: set[Equation] = set()
        self.makers: dict[Any, Equation] = {}
        self.numbers: dict[Any, int] = {}
        self.kinds: dict[Equation, str] = {}
        self.costs: dict[Equation, int] = {}
        self.values: dict[Any, Value] = dict(zip(graph.inputs, inputs))
        for c in graph.constants:
            meta = c.variable.meta
            buffer = builder.constant_buffer(c.value, meta.dims, meta.dtype)
            self.values[c.variable] = buffer_value(buffer)

    def into(self, outputs: Sequence[Buffer]) -> None:
        """Emit the steps that compute the graph into these buffers."""
        graph, b = self.graph, self.builder
        b.observe(graph, self.values)
        b.size_checks.update(size_checks(graph))
        for equation in graph.equations:
            if equation.op.binds_dim:
                for symbol in dm.symbols(equation.attrs[0]):
                    b.bind(symbol)
        for equation in graph.equations:
            self._lower(equation)
        self._set_targets(outputs)
        stored = fusion.stored_variables(graph, self._kind, self._cost)
        self._find_milestones(stored)
        unread = {e.atoms[0] for e in self.covered}
        waiting: list[Any] = []  # values that run where they are read
        for equation in graph.equations:
            # an effect, or a dim that what comes later may use, has its place in the order
            is_effect = gr.is_effect(equation)
            runs = equation.op.binds_dim or is_effect
            if is_effect:  # it may bring memory for what comes behind: what is before runs
                for v in waiting:
                    self._prepare(self.makers.get(v))
                    self._store(self.values[v])
                waiting = []
            if runs and equation in self.effects:
                self._prepare(equation)
                self._store(self.effects[equation])
            for v in equation.variables:
                if runs or (v in stored and self._is_kept(v)):
                    self._prepare(equation)
                    self._store(self.values[v])
                elif v in stored and v not in unread:
                    waiting.append(v)
        for atom, buffer in zip(graph.outputs, outputs):
            value = self._value(atom)
            self._prepare(self.makers.get(atom))
            if value.buffer is not buffer:
                b.fill(buffer, value)

    def _find_milestones(self, stored: dict[Any, str]) -> None:
        """Find the whole values that would otherwise run at the end of a long chain of others."""
        # Reading a value runs the writers it waits for, each inside the next. What would wait for
        # a chain of more equations than this has its turn before.
        longest = settings.current().longest_wait
        waits: dict[Any, int] = {}  # how many equations computing a variable goes through
        for equation in self.graph.equations:
            wait = max((waits.get(a, 0) for a in equation.atoms), default=0)
            for v in equation.variables:
                has_turn = v in stored and self._is_kept(v)
                if wait >= longest and self.values[v].writer is not None and not has_turn:
                    self.milestones.add(v)
                    has_turn = True
                waits[v] = 0 if has_turn else wait + 1
        if self.milestones:
            self.makers = {v: e for e in self.graph.equations for v in e.variables}
            self.numbers = {v: k for k, v in enumerate(self.makers)}

    def _prepare(self, equation: Equation | None) -> None:
        """Compute the milestones that an equation waits for, the first of them first."""
        if equation is None or not self.milestones:
            return
        found, stack = set(), [equation]
        while stack:
            e = stack.pop()
            if e in self.ready:
                continue
            self.ready.add(e)
            inputs = e.inputs[1:] if e in self.covered else e.inputs  # what is covered is not read
            for atom in gr.flat(inputs):
                if atom in self.makers and self.values[atom].buffer is None:
                    stack.append(self.makers[atom])
                    if atom in self.milestones:
                        found.add(atom)
        for v in sorted(found, key=self.numbers.__getitem__):
            self._store(self.values[v])

    def _is_kept(self, variable: Any) -> bool:
        return self.values[variable].writer is None or self.values[variable].target is not None

    def _store(self, value: Value) -> None:
        if value.buffer is None or value.buffer.strided:
            self.builder.materialize(value)

    def _set_targets(self, outputs: Sequence[Buffer]) -> None:
        for atom, buffer in zip(self.graph.outputs, outputs):
            value = self._value(atom)
            if value.buffer is None and value.target is None:
                value.target = buffer
            source = value.view_of
            while source is not None and source.view_of is not None:
                source = source.view_of
            # a writer finds its way by the dims of the buffer, so they must be its value's own
            if source is None or source.writer is None or source.target is not None:
                continue
            if dm.same_shape(source.dims, buffer.dims):
                source.target = buffer

    def _value(self, atom: Any) -> Value:
        if isinstance(atom, Literal):
            return self.builder.constant(atom.value, atom.meta.dims, atom.meta.dtype)
        return self.values[atom]

    def _lower(self, equation: Equation) -> None:
        b, op = self.builder, equation.op
        inputs = gr.map_entries(self._value, equation.inputs)
        variables = equation.variables
        task = Task(
            metas=tuple(v.meta for v in variables),
            is_read=tuple(self.uses[v] > 0 for v in variables),
            is_consumed=self.uses[next(iter(equation.atoms), None)] == 1,
            is_covered=equation in self.covered,
            is_chosen=equation in self.chosen,
            source=equation.source,
        )
        made: Any
        rule, kernel = RULES.get(op.name), library_step.kernel_of(equation)
        if kernel is not None and kernel.native is not None:
            made = linked_step.emit(b, equation, kernel.native, inputs, task)
        elif kernel is not None:
            made = library_step.emit(b, equation, kernel, inputs, task)
        elif rule is not None:
            made = rule(b, task, op.merge(inputs, equation.attrs))
        else:
            made = self._pointwise(equation, inputs, task.out)
        results = made if isinstance(made, tuple) else (made,)
        if any(b.is_open(v) for v in gr.flat(inputs)):
            for value in results:
                value.waits = True
        self.values.update(zip(variables, results))
        if results and not variables:
            (self.effects[equation],) = results

    def _pointwise(self, equation: Equation, inputs: tuple[Any, ...], meta: MetaTensor) -> Value:
        if not equation.op.is_pointwise:
            raise KernelNotFoundError(
                f"the CPU engine has no kernel for {equation.op.name!r}, and it is not pointwise; "
                "register a lowering for it, or decompose it"
            )
        return _pointwise(self.builder, equation, inputs, meta, self._cost(equation))

    # -- what is asked several times of an equation, found once ----------------------------
    def _kind(self, equation: Equation) -> str:
        if equation in self.chosen:
            return "pointwise"
        if equation not in self.kinds:
            self.kinds[equation] = _kind_of(equation)
        return self.kinds[equation]

    def _cost(self, equation: Equation) -> int:
        if equation not in self.costs:
            self.costs[equation] = _cost_of(equation)
        return self.costs[equation]


def stored_variables(graph: Graph) -> dict[Any, str]:
    """The variables that get a buffer, and why: see :mod:`phix.kernels.lowering.fusion`."""
    choices = chosen(graph)
    kind = lambda e: "pointwise" if e in choices else _kind_of(e)  # noqa: E731
    return fusion.stored_variables(graph, kind, _cost_of)


def _kind_of(equation: Equation) -> str:
    """How an equation reads its inputs."""
    if library_step.kernel_of(equation) is not None:
        return "whole"
    rule = RULES.get(equation.op.name)
    return "pointwise" if rule is None else rule.kind_of(equation)


def _cost_of(equation: Equation) -> int:
    """Weighted scalar operations for one element of the equation's output."""
    kind = _kind_of(equation)
    if kind == "whole":
        return 0
    if kind == "reduce":
        return fusion.REDUCTION_COST
    if equation.op.name in RULES:
        return RULES[equation.op.name].cost
    own = [a.meta.dtype for a in equation.atoms]
    dtypes = tuple([d if d.kind == "c" else ir.scalar_dtype(d) for d in own])
    return expansion.cost(equation.op.name, dtypes, _named_attrs(equation))


# -- pointwise -----------------------------------------------------------------------------
def _named_attrs(equation: Equation) -> dict[str, Any]:
    return dict(zip(equation.op.attr_names, equation.attrs))


def _pointwise(
    b: Builder, equation: Equation, inputs: tuple[Any, ...], meta: MetaTensor, own: int
) -> Value:
    """The value of a pointwise equation: its body, which costs ``own``, on the operands' elements,
    broadcast."""
    op = equation.op
    operands: list[Value] = gr.flat(inputs)
    singles = [is_single(v) for v in operands]
    dims, attrs = meta.dims, _named_attrs(equation)

    # of chains of these, few frames an equation: no comprehensions
    def at(indices: tuple[Expr, ...]) -> Element:
        elements = []
        for v in operands:
            own = broadcast_indices(b, v.dims, dims, indices)
            elements.append(b.element(v, own))
        return b.applied(op.name, *elements, **attrs)

    def flat(i: Expr) -> Element:
        elements = []
        for v, single in zip(operands, singles):
            first = (ZERO,) * len(v.dims)
            elements.append(b.element(v, first) if single else b.flat_element(v, i))
        return b.applied(op.name, *elements, **attrs)

    cost = own + sum(v.cost if v.buffer is None else 1 for v in operands)
    every_flat = all(
        single or (dm.same_shape(v.dims, dims) and v.is_flat)
        for v, single in zip(operands, singles)
    )
    result = Value(dims, meta.dtype, at, flat if every_flat else None, cost)
    across = (v.tiled for v in operands if v.buffer is None and len(v.dims) == len(dims))
    result.tiled = next((found for found in across if found is not None), None)
    return result


def is_single(value: Value) -> bool:
    """Whether a value has one element for certain."""
    return all(dm.is_one(d) for d in value.dims)


def broadcast_element(b: Builder, v: Value, dims: dm.Shape, indices: tuple[Expr, ...]) -> Element:
    """The element of ``v`` that broadcasting to ``dims`` puts at ``indices``."""
    return b.element(v, broadcast_indices(b, v.dims, dims, indices))


def broadcast_indices(
    b: Builder, source: dm.Shape, dims: dm.Shape, indices: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """The indices in an array of dims ``source`` for those in ``dims``, which it broadcasts to."""
    shift = len(dims) - len(source)
    own = []
    for k, d in enumerate(source):
        index = indices[shift + k]
        if dm.is_one(d):
            own.append(ZERO)
        elif dm.same(d, dims[shift + k]):
            own.append(index)
        else:  # 1 or the full size, known at run time
            own.append(sc.select(sc.eq(b.dim(d), 1), ZERO, index))
    return tuple(own)
