"""The reverse-mode interpreter: runs a function forward and keeps what its backward needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from operator import attrgetter
from typing import Any

from phix.core import context, varying
from phix.core import dtypes as dt
from phix.core.conversion import home
from phix.core.graph import map_entries
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import device
from phix.core.rules import get_op
from phix.core.source import derivation, is_recording, user_source
from phix.core.tensor import Tensor, TensorBase, Tracer, ValueTracer
from phix.interpreters.backward_rules import (
    as_outputs,
    backward_args,
    is_constant,
    no_derivative,
    pull_of,
    uncovered,
)
from phix.interpreters.call_keys import FIXED
from phix.interpreters.decompose import taken_apart
from phix.interpreters.equal_calls import call_key as equal_call_key
from phix.interpreters.known_calls import KNOWN, call_key, note
from phix.interpreters.known_pulls import KnownPull
from phix.interpreters.tape import Pullback, Record
from phix.interpreters.uncovered import apart

_DATA = attrgetter("data")


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
        self.is_at_base = (
            parent is context.base() and self.axes is None
        )  # so that calls may be known

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

    def launch_cached(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        if not self.is_at_base or context.is_noting_lines() or op.vjp_rule or op.kind_vjp_rule:
            return None
        nodes: list[int] = []
        values: list[Any] = []
        for x in inputs:
            if type(x) is VJPTracer and x.interpreter is self:
                nodes.append(x.node)
                values.append(x.value)
            else:
                nodes.append(-1)
                values.append(x)
        if max(nodes, default=-1) < 0:
            base = context.base()
            with context.active(base):
                return base.launch_cached(op, inputs, attrs)
        try:
            known = KNOWN.get(call_key(op, attrs, values))
        except (AttributeError, TypeError):  # tracers, arrays, or attributes that do not hash
            return None
        if known is None:
            return None
        for place, number in known.fixed:
            values[place] = number
        given = [x.data for x in values if x is not None] if known.fixed else map(_DATA, values)
        thread = context.context
        thread.interpreter = self.parent
        try:
            out = known.run(*given)
        finally:
            thread.interpreter = self
        if not known.is_differentiable:
            return out
        values.append(out)
        args = known.args.copy()
        for here, place in known.kept:
            args[here] = values[place]
        self.nodes += 1
        made = VJPTracer(self, out, self.nodes - 1)
        pull = KnownPull(known.adjoint, args, nodes, known.pulls)
        self.tape.append(Record(op, pull, nodes, ((made.node, None),)))
        return made

    def remember(self, op: Op, given: Any, given_attrs: Any, inputs: Any, attrs: Any) -> None:
        """Let the next call like this one go the short way; see ``known_calls``."""
        if not self.is_at_base or op.has_lists:
            return
        _, found, _ = self.taken(given)
        _, values, active = self.taken(inputs)
        if not active:
            context.base().remember(op, given, given_attrs, inputs, attrs)
            return
        for x, value in zip(found, values):
            if type(x) not in FIXED and (x is not value or type(x) is not Tensor):
                return  # an array, or a tensor that was cast
        note(op, found, given_attrs, values, attrs)

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        key = None if self.calls is None else equal_call_key(op, inputs, attrs)
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
        assert op.backward is not None and self.parent is not None
        outs = as_outputs(op, self.below(op, values, attrs))
        if self.axes is not None:
            with context.active(self.parent):
                outs = varying.alike(outs)
        rule = get_op(op.backward)
        args = backward_args(op, rule, values, attrs, outs)
        result = self.record(op, pull_of(op, rule, args, outs), nodes, outs)
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
        source = user_source() if is_recording() else None
        self.tape.append(Record(op, pull, nodes, pairs, source))
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
    place = home(primals)
    with context.transformation(interpreter), nullcontext() if place is None else device(place):
        tracers = [interpreter.new(p) for p in primals]
        nodes, values, _ = interpreter.taken(tuple(function(*tracers)))
    inputs = [(t.node, t.value.meta) for t in tracers]
    return list(values), Pullback(interpreter.tape, inputs, nodes, place, interpreter.axes)
