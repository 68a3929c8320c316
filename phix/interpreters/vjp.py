"""The reverse-mode interpreter: runs a function forward and keeps what its backward needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from phix.core import context
from phix.core import dtypes as dt
from phix.core.conversion import following, home
from phix.core.graph import map_entries
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.rules import get_op
from phix.core.source import derivation, is_recording, user_source
from phix.core.tensor import TensorBase, Tracer, ValueTracer
from phix.interpreters.backward_rules import (
    BackwardRule,
    as_outputs,
    backward_args,
    is_constant,
    no_derivative,
    uncovered,
)
from phix.interpreters.decompose import taken_apart
from phix.interpreters.equal_calls import call_key
from phix.interpreters.tape import Pullback, Record
from phix.interpreters.uncovered import apart


class VJPTracer(ValueTracer):
    """A value whose cotangent will be asked for; ``node`` is its number on the tape."""

    __slots__ = ("node",)

    def __init__(self, interpreter: VJP, value: TensorBase, node: int) -> None:
        self.interpreter = interpreter
        self.value = value
        self.node = node

    @property
    def identity(self) -> tuple[Interpreter, int]:
        return self.interpreter, self.node


class VJP(Interpreter):
    """Ops on its tracers run in the parent and leave a record; all others just run there.

    While a graph is written down, equal calls are made once: tangents of tangents repeat each
    other, and each record would send a cotangent of its own all the way back.
    """

    name = "vjp"

    def __init__(self, parent: Interpreter) -> None:
        super().__init__(parent)
        self.tape: list[Record] = []
        self.nodes = 0
        # (inputs, outputs) of calls by what equal ones have in common
        self.calls: dict[Any, Any] | None = None if context.runs_at_once() else {}
        self.axes: dict[int, frozenset[str]] | None = {} if context.context.tracked else None

    def new(self, value: TensorBase) -> VJPTracer:
        if self.axes is not None:
            self.axes[self.nodes] = value.meta.varying
        self.nodes += 1
        return VJPTracer(self, value, self.nodes - 1)

    def taken(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
        """The numbers of inputs on the tape (-1: no derivative is wanted), their values, and
        whether a derivative is wanted of any."""
        nodes: list[Any] = []
        values: list[Any] = []
        active = False
        for x in inputs:
            node: Any = None if x is None else -1
            value = x
            if type(x) is VJPTracer and x.interpreter is self:
                node, value, active = x.node, x.value, True
            elif type(x) is tuple:
                node, value, is_any = self.taken(x)
                active = active or is_any
            nodes.append(node)
            values.append(value)
        return tuple(nodes), tuple(values), active

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        key = None if self.calls is None else call_key(op, inputs, attrs)
        if self.calls is None or key is None:
            return self.perform(op, inputs, attrs)
        if key not in self.calls:
            self.calls[key] = inputs, self.perform(op, inputs, attrs)
        return _again(self.calls[key][1])

    def perform(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        nodes, values, active = self.taken(inputs)
        for rule in (op.kind_vjp_rule, op.vjp_rule) if active else ():
            if rule is not None:
                found = self.by_rule(op, rule, nodes, values, attrs)
                if found is not None:
                    return found
        if active and op.backward is not None:
            return self.by_backward(op, nodes, values, attrs)
        if active and not is_constant(op):
            return by_decomposition(op, inputs, attrs)
        return self.below(op, values, attrs)

    def below(self, op: Op, values: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """The op on values of the parent, which runs it."""
        assert self.parent is not None
        with context.active(self.parent):
            return self.parent.process(op, values, attrs)

    def by_backward(self, op: Op, nodes: Any, values: Any, attrs: Any) -> Any:
        """An op of the table with a backward op."""
        assert op.backward is not None
        outs = as_outputs(op, self.below(op, values, attrs))
        rule = get_op(op.backward)
        args = backward_args(op, rule, values, attrs, outs)
        result = self.record(op, BackwardRule(op, rule, args), nodes, outs)
        if uncovered(op):
            self.tape[-1:] = apart(self.tape[-1], values, attrs, vjp)
        return result

    def by_rule(self, op: Op, rule: Any, nodes: Any, values: Any, attrs: Any) -> Any:
        """A call whose reverse mode is a rule in Python, which runs in the parent; None if the rule
        leaves it to others."""
        assert self.parent is not None
        args = op.merge(values, attrs)
        active = map_entries(lambda node: node >= 0, nodes)
        with context.active(self.parent):
            if is_recording():
                found = derivation(user_source(), lambda: rule(active, *args), early=True)
            else:
                found = rule(active, *args)
        if found is None:
            return None
        outs, pull = found
        return self.record(op, pull, nodes, as_outputs(op, outs))

    def record(self, op: Op, pull: Callable[..., Any], nodes: Any, outs: tuple[Any, ...]) -> Any:
        """The outputs as tracers, and a record of how cotangents get from them to the inputs."""
        wrapped = map_entries(self.wrap, outs)
        pairs = tuple(
            [[self.pair(t) for t in e] if isinstance(e, tuple) else self.pair(e) for e in wrapped]
        )
        self.tape.append(Record(op, pull, nodes, pairs))
        return wrapped[0] if len(wrapped) == 1 else wrapped

    def pair(self, value: Any) -> tuple[int, MetaTensor | None]:
        """The node and meta of an output; an optional one that is absent has neither."""
        if type(value) is VJPTracer and value.interpreter is self:
            return value.node, value.value.meta
        return (-1, None if value is None else value.meta)

    def wrap(self, value: TensorBase) -> TensorBase:
        return self.new(value) if dt.is_differentiable(value.dtype) else value


def _again(outs: Any) -> Any:
    """The same values in tracers of their own: an op that works in place ends those it is given."""
    if isinstance(outs, tuple):
        return tuple(map(_again, outs))
    return copy(outs) if isinstance(outs, Tracer) else outs


def by_decomposition(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """An op whose derivative is that of the ops it is made of."""
    if op.decomposition is None:
        raise no_derivative(op)
    return taken_apart(op, inputs, attrs)


def vjp(
    function: Callable[..., Sequence[Any]], primals: Sequence[Any]
) -> tuple[list[Any], Pullback]:
    """``function`` of flat tensors, and the pullback of its flat outputs."""
    interpreter = VJP(context.current())
    with context.transformation(interpreter), following(primals):
        tracers = [interpreter.new(p) for p in primals]
        nodes, values, _ = interpreter.taken(tuple(function(*tracers)))
    inputs = [(t.node, t.meta) for t in tracers]
    return list(values), Pullback(interpreter.tape, inputs, nodes, home(primals), interpreter.axes)
