"""The reverse-mode interpreter: runs a function forward and keeps what its backward needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any

from phix.core import context, dispatch
from phix.core import dtypes as dt
from phix.core.conversion import following, home
from phix.core.errors import DifferentiationError
from phix.core.graph import flat, map_entries
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place, device, is_host_alone
from phix.core.rules import OPS, get_op
from phix.core.source import derivation, is_recording, user_source
from phix.core.tensor import TensorBase, Tracer, ValueTracer
from phix.interpreters.decompose import as_entries
from phix.interpreters.equal_calls import call_key


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


class Record:
    """One op on the tape: which nodes it joins, and how cotangents get across."""

    __slots__ = ("inputs", "op", "outputs", "pull", "source")

    def __init__(
        self, op: Op, pull: Callable[..., Sequence[Any]], inputs: Any, outputs: Any
    ) -> None:
        self.op = op
        self.source = user_source() if is_recording() else None
        self.pull = pull  # cotangents, one entry an output, in; one entry an input out
        self.inputs = inputs  # node numbers (-1: no derivative wanted), as op.inputs
        self.outputs = outputs  # (node, meta) pairs as op.outputs, a list of them for a list


class BackwardRule:
    """The pull of an op of the table: its backward op, taken apart at once if not ``whole``."""

    __slots__ = ("args", "op", "rule")

    def __init__(self, op: Op, rule: Op, args: list[Any]) -> None:
        self.op, self.rule, self.args = op, rule, args

    def __call__(self, *cotangents: Any) -> list[Any]:
        args = [cotangents[a.number] if type(a) is Cotangent else a for a in self.args]
        if "whole" in self.rule.traits:
            outs = dispatch.bind(self.rule, *self.rule.split(tuple(args)))
        else:
            assert self.rule.decomposition is not None
            outs = self.rule.decomposition(*args)
        found = as_outputs(self.rule, outs)
        return [None if n is None else found[n] for n in gradient_places(self.op, self.rule)]

    def may_be_none(self, number: int) -> bool:
        """Whether the cotangent of that output may be left out where it is zero."""
        return may_lack(self.op, self.rule)[number]


@cache
def may_lack(op: Op, rule: Op) -> tuple[bool, ...]:
    """For each output of ``op`` whether its cotangent is optional in the backward op."""
    optional = {a.name for a in rule.args if a.optional}
    return tuple(f"{o.name}_grad" in optional for o in op.outputs)


@cache
def gradient_places(op: Op, rule: Op) -> tuple[int | None, ...]:
    """For each input of ``op`` the output of its backward op that is the gradient of it."""
    of = rule.gradient_of
    return tuple(of.index(a.name) if a.name in of else None for a in op.inputs)


class DecomposedOutputs:
    """The pull of outputs whose cotangents the backward rule does not take: a mean or a residual
    kept for the backward itself, which higher derivatives go through. It goes through the op's
    decomposition, run again."""

    __slots__ = ("attrs", "numbers", "op", "values")

    def __init__(self, op: Op, values: Any, attrs: Any, numbers: tuple[int, ...]) -> None:
        self.op, self.values, self.attrs, self.numbers = op, values, attrs, numbers

    def __call__(self, *cotangents: Any) -> tuple[Any, ...]:
        op = self.op
        floats = [x for x in flat(self.values) if dt.is_differentiable(x.dtype)]

        def outputs(*chosen: Any) -> list[Any]:
            supply = iter(chosen)
            inputs = map_entries(
                lambda x: next(supply) if dt.is_differentiable(x.dtype) else x, self.values
            )
            assert op.decomposition is not None
            outs = as_outputs(op, op.decomposition(*op.merge(inputs, self.attrs)))
            return [outs[n] for n in self.numbers]

        _, pull = vjp(outputs, floats)
        pull.in_rule = True
        found = iter(pull(cotangents))
        return map_entries(
            lambda x: next(found) if dt.is_differentiable(x.dtype) else None, self.values
        )


@cache
def uncovered(op: Op) -> tuple[int, ...]:
    """The outputs of a composite whose cotangents its backward rule does not take."""
    if op.backward is None or op.decomposition is None:
        return ()
    taken = {a.name for a in get_op(op.backward).args}
    return tuple(n for n, o in enumerate(op.outputs) if f"{o.name}_grad" not in taken)


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

    def new(self, value: TensorBase) -> VJPTracer:
        self.nodes += 1
        return VJPTracer(self, value, self.nodes - 1)

    def owns(self, value: Any) -> bool:
        return type(value) is VJPTracer and value.interpreter is self

    def lower(self, value: Any) -> Any:
        return value.value if type(value) is VJPTracer and value.interpreter is self else value

    def is_active(self, nodes: tuple[Any, ...]) -> bool:
        """Whether a derivative is wanted of any of these."""
        for node in nodes:
            if type(node) is int:
                if node >= 0:
                    return True
            elif node is not None and max(node, default=-1) >= 0:
                return True
        return False

    def node(self, value: Any) -> int:
        """The number of the value on the tape; -1 where no derivative is wanted."""
        return value.node if type(value) is VJPTracer and value.interpreter is self else -1

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        key = None if self.calls is None else call_key(op, inputs, attrs)
        if self.calls is None or key is None:
            return self.perform(op, inputs, attrs)
        if key not in self.calls:
            self.calls[key] = inputs, self.perform(op, inputs, attrs)
        return _again(self.calls[key][1])

    def perform(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        parent = self.parent
        assert parent is not None
        nodes = map_entries(self.node, inputs)
        active = self.is_active(nodes)
        if active and op.vjp_rule is not None:
            return self.by_rule(op, inputs, attrs, nodes)
        if active and op.backward is None and not is_constant(op):
            if op.decomposition is None:
                raise no_derivative(op)
            outs = op.decomposition(*op.merge(inputs, attrs))
            return outs if op.single_output else as_entries(op, outs)
        values = map_entries(self.lower, inputs)
        with context.active(parent):
            outs = parent.process(op, values, attrs)
        if not active or op.backward is None:
            return outs
        entries = as_outputs(op, outs)
        rule = get_op(op.backward)
        args = backward_args(op, rule, values, attrs, entries)
        result = self.record(op, BackwardRule(op, rule, args), nodes, entries)
        if uncovered(op):
            self.record_uncovered(op, values, attrs, as_outputs(op, result))
        return result

    def record_uncovered(self, op: Op, values: Any, attrs: Any, wrapped: tuple[Any, ...]) -> None:
        """Give the outputs that the backward rule knows nothing of a record of their own."""
        extra = tuple(n for n in uncovered(op) if self.owns(wrapped[n]))
        if not extra:
            return
        nodes, pairs = self.tape[-1].inputs, self.tape[-1].outputs
        pull = DecomposedOutputs(op, values, attrs, extra)
        self.tape.append(Record(op, pull, nodes, tuple(pairs[n] for n in extra)))
        self.tape[-2].outputs = tuple(
            (-1, wrapped[n].meta) if n in extra else p for n, p in enumerate(pairs)
        )

    def by_rule(self, op: Op, inputs: Any, attrs: Any, nodes: Any) -> Any:
        """An op whose reverse mode is a rule in Python; the rule runs in the parent."""
        assert self.parent is not None and op.vjp_rule is not None
        active = map_entries(self.owns, inputs)
        values = map_entries(self.lower, inputs)
        with context.active(self.parent):
            rule, args = op.vjp_rule, op.merge(values, attrs)
            if is_recording():
                outs, pull = derivation(user_source(), lambda: rule(active, *args), early=True)
            else:
                outs, pull = rule(active, *args)
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
        return (-1, None) if value is None else (self.node(value), value.meta)

    def wrap(self, value: TensorBase) -> TensorBase:
        return self.new(value) if dt.is_differentiable(value.dtype) else value


def _again(outs: Any) -> Any:
    """The same values in tracers of their own: an op that works in place ends those it is given."""
    if isinstance(outs, tuple):
        return tuple(map(_again, outs))
    return copy(outs) if isinstance(outs, Tracer) else outs


def is_constant(op: Op) -> bool:
    """Whether the op's derivative is declared zero."""
    return "nondifferentiable" in op.traits


def no_derivative(op: Op) -> DifferentiationError:
    return DifferentiationError(
        f"op {op.name!r} has no derivative: its entry names no backward; give it `backward: "
        f"{op.name}_grad`, or `traits: [nondifferentiable]` if the derivative is zero"
    )


def backward_args(
    op: Op, rule: Op, values: tuple[Any, ...], attrs: tuple[Any, ...], outs: tuple[Any, ...]
) -> list[Any]:
    """What the backward op's args name; a cotangent's place is left to ``Cotangent``.

    For a tensor under ``no_need_buffer`` the meta alone is kept, so the value can be freed.
    """
    given = (*values, *attrs, *outs)
    args: list[Any] = []
    for place, other, is_meta in argument_places(op, rule):
        value = other if place is None else given[place]
        if is_meta and value is not None:
            value = map_entries(lambda x: x.meta, (value,))[0]
        args.append(value)
    return args


@cache
def argument_places(op: Op, rule: Op) -> tuple[tuple[int | None, Any, bool], ...]:
    """For each arg of the backward op: where it stands among the inputs, attributes and outputs of
    ``op``, or what else it is, and whether its meta is enough."""
    named: dict[str, tuple[int | None, Any]] = {}
    names = [*(a.name for a in (*op.inputs, *op.attrs)), *(o.name for o in op.outputs)]
    for place, name in enumerate(names):
        named.setdefault(name, (place, None))
    for number, output in enumerate(op.outputs):
        named[f"{output.name}_grad"] = (None, Cotangent(number))
    named |= {here: named[there] for here, there in rule.forward_names}
    return tuple(
        (*named.get(arg.name, (None, arg.default)), arg.name in rule.no_need_buffer)
        for arg in rule.args
    )


class Cotangent:
    """The place of an output's cotangent among a rule's args."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def zeros(meta: MetaTensor) -> Any:
    return dispatch.bind(OPS["full"], (), (meta.dims, 0, meta.dtype, None))


def add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return dispatch.bind(OPS["add"], (a, b), ())


class Pullback:
    """Cotangents of the outputs in, cotangents of the inputs out; may be called again.

    Runs under the interpreter that is current when it is called.
    """

    in_rule = False  # whether it serves the rule of an op, and is no pass of its own

    def __init__(
        self, tape: list[Record], inputs: list[Any], outputs: list[Any], place: Place | None
    ) -> None:
        self.tape = tape
        self.place = place  # where the inputs are, if not on the CPU
        self.inputs = inputs  # (node, meta) of each input
        self.outputs = outputs  # node of each output, -1 where it does not depend on the inputs

    def __call__(self, cotangents: Sequence[Any], instantiate: bool = True) -> list[Any]:
        if self.place is None:
            return self.run(cotangents, instantiate)
        with device(self.place):
            return self.run(cotangents, instantiate)

    def run(self, cotangents: Sequence[Any], instantiate: bool) -> list[Any]:
        grads: dict[int, Any] = {}
        for node, ct in zip(self.outputs, cotangents):
            if node >= 0 and ct is not None:
                grads[node] = add(grads.get(node), ct)
        with context.inside():
            for record in reversed(self.tape):
                self.step(record, grads)
        found = [grads.get(node) for node, _ in self.inputs]
        if not instantiate:
            return found
        return [zeros(meta) if g is None else g for g, (_, meta) in zip(found, self.inputs)]

    def step(self, record: Record, grads: dict[int, Any]) -> None:
        """Send the cotangents of one record's outputs to its inputs."""
        for node, _ in _pairs(record.outputs):
            if node in grads:
                break
        else:
            return

        def cotangent(pair: Any) -> Any:
            found = grads.pop(pair[0], None)
            return zeros(pair[1]) if found is None and pair[1] is not None else found

        pull = record.pull
        cts = [
            tuple(map(cotangent, e)) if isinstance(e, list)
            else None if e[0] not in grads and type(pull) is BackwardRule and pull.may_be_none(n)
            else cotangent(e)
            for n, e in enumerate(record.outputs)
        ]  # fmt: skip
        pull_back = self.watched if is_recording() else self.pulled
        if is_host_alone():
            found = pull_back(record, cts)
        else:
            with following(flat(tuple(cts))):
                found = pull_back(record, cts)
        for nodes, grad in zip(record.inputs, found):
            if nodes is None or grad is None:
                continue
            for node, value in zip(nodes, grad) if isinstance(nodes, tuple) else ((nodes, grad),):
                if node >= 0 and value is not None:
                    known = grads.get(node)
                    grads[node] = value if known is None else add(known, value)

    def pulled(self, record: Record, cts: list[Any]) -> Sequence[Any]:
        return record.pull(*cts)

    def watched(self, record: Record, cts: list[Any]) -> Sequence[Any]:
        """The pull, where what it does is known to come from the line of the record's op."""
        source = record.source or user_source()
        if source is not None and not self.in_rule:
            source = source.derived("backward", record.op.name)
        return derivation(source, lambda: record.pull(*cts))


def _pairs(outputs: tuple[Any, ...]) -> Sequence[Any]:
    """The (node, meta) pairs of structured outputs."""
    if len(outputs) == 1 and not isinstance(outputs[0], list):
        return outputs
    found: list[Any] = []
    for entry in outputs:
        found.extend(entry if isinstance(entry, list) else (entry,))
    return found


def as_outputs(op: Op, outs: Any) -> tuple[Any, ...]:
    """What an op or its rule gave, as a tuple with one entry an output."""
    return (outs,) if len(op.outputs) == 1 else tuple(outs)


def vjp(
    function: Callable[..., Sequence[Any]], primals: Sequence[Any]
) -> tuple[list[Any], Pullback]:
    """``function`` of flat tensors, and the pullback of its flat outputs."""
    interpreter = VJP(context.current())
    with context.transformation(interpreter), following(primals):
        tracers = [interpreter.new(p) for p in primals]
        outs = list(function(*tracers))
        values = [interpreter.lower(o) for o in outs]
        nodes = [o.node if interpreter.owns(o) else -1 for o in outs]
    inputs = [(t.node, t.meta) for t in tracers]
    return values, Pullback(interpreter.tape, inputs, nodes, home(primals))
