"""Graphs called whole, checkpoints, and derivatives of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from phix import ops
from phix.core import dispatch, rules
from phix.core.errors import DifferentiationError
from phix.core.graph import (
    Equation,
    Graph,
    Variable,
    flat,
    plain_symbol,
    solve_dims,
    symbols_of,
)
from phix.core.meta import MetaTensor
from phix.core.tensor import Tracer
from phix.core.transforms import Split, transforms
from phix.primitives.flat import (
    Metas,
    are_floats,
    are_given,
    batch_size,
    cut,
    expanded,
    select,
    spread,
    zeros,
)

Call = Callable[[Sequence[Any], Graph], Any]  # binds an op that calls a graph


@rules.infer_meta("CallInferMeta")
def call_meta(operands: Metas, graph: Graph) -> Metas:
    env = solve_dims([v.meta for v in graph.inputs], [m.dims for m in operands])
    return tuple(a.meta.substitute(env) for a in graph.outputs)


@rules.infer_meta("SameListInferMeta")
def same_list_meta(x: Metas) -> Metas:
    return x


def _inlined(operands: Any, graph: Graph, *rest: Any) -> Any:
    return graph(*operands)


for _name in ("call", "checkpoint", "custom_vjp_call", "custom_jvp_call"):
    rules.decompose(_name)(_inlined)


# -- graphs made of graphs, remembered -----------------------------------------------------------
@dataclass(frozen=True)
class Derived:
    """A graph made of another, with what it closes over, and what is known of its outputs."""

    graph: Graph
    closed: tuple[Any, ...]
    flags: tuple[bool, ...] = ()

    def run(self, call: Call, operands: Sequence[Any]) -> Any:
        return call([*operands, *self.closed], self.graph)


def closed_over(graph: Graph) -> Derived:
    """The graph with its constants as inputs, the last ones."""
    inputs = (*graph.inputs, *(c.variable for c in graph.constants))
    values = tuple(c.value for c in graph.constants)
    return Derived(Graph(inputs, (), graph.equations, graph.outputs), values)


def _remembered(graph: Graph, key: Any, make: Callable[[], Any]) -> Any:
    """What ``make`` makes, kept with the graph unless it holds tracers of today's interpreters."""
    found = graph.memo.get(key)
    if found is None:
        found = make()
        parts = found if isinstance(found, tuple) else (found,)
        closed = (v for p in parts if isinstance(p, Derived) for v in p.closed)
        if not any(isinstance(v, Tracer) for v in closed):
            graph.memo[key] = found
    return found


def _traced(function: Callable[..., Any], metas: Sequence[MetaTensor]) -> Derived:
    graph, closed = transforms().trace(function, metas)
    return Derived(graph, tuple(closed))


def _input_metas(graph: Graph) -> list[MetaTensor]:
    return [v.meta for v in graph.inputs]


def jvp_graph(graph: Graph, on: tuple[bool, ...]) -> Derived:
    """Outputs, and the tangents of those that ``flags`` names, of inputs and given tangents."""
    metas, count = _input_metas(graph), len(on)

    def make() -> Derived:
        flags: list[bool] = []

        def both(*args: Any) -> list[Any]:
            outs, ts = transforms().jvp(graph, args[:count], spread(args[count:], on))
            flags[:] = are_given(ts)
            return [*outs, *select(ts, flags)]

        made = _traced(both, [*metas, *select(metas, on)])
        return Derived(made.graph, made.closed, tuple(flags))

    found: Derived = _remembered(graph, ("jvp", on), make)
    return found


def batched_graph(graph: Graph, flags: tuple[bool, ...], size: Any) -> Derived:
    """The graph on a batch, every output with the batch in front."""
    key = ("batch", flags, getattr(size, "key", size), dispatch.mapped_axis())

    def whole(*args: Any) -> list[Any]:
        outs, mapped = transforms().batch(graph, args, flags, size)
        return [o if m else expanded(o, size) for o, m in zip(outs, mapped)]

    metas = [m.with_dims((size, *m.dims)) if f else m for m, f in zip(_input_metas(graph), flags)]
    found: Derived = _remembered(graph, key, lambda: _traced(whole, metas))
    return found


Pair = tuple[Derived, Derived, tuple[int, ...]]


def _carriers(graph: Graph, split: Split) -> tuple[int, ...]:
    """The inputs from which the backward learns sizes that its own inputs do not show."""
    shown = {plain_symbol(d) for v in split.backward.inputs for d in v.meta.dims}
    used = {s for e in split.backward.equations for s in symbols_of(e)}
    wanted = (used & graph.symbols()) - shown
    found: list[int] = []
    for number, variable in enumerate(graph.inputs):
        own = {plain_symbol(d) for d in variable.meta.dims} & wanted
        if own:
            found.append(number)
            wanted -= own
    return tuple(found)


def split_graph(graph: Graph, on: tuple[bool, ...]) -> Pair:
    """Forward and backward of the graph, and the inputs that the backward takes first."""

    def make() -> Pair:
        split = transforms().split(graph, on, [False] * len(on))
        carriers = _carriers(graph, split)
        fresh = tuple(Variable(f"size_{i}", graph.inputs[i].meta) for i in carriers)
        back = split.backward
        back = Graph((*fresh, *back.inputs), back.constants, back.equations, back.outputs)
        return closed_over(split.forward), closed_over(back), (*carriers, *split.kept)

    found: Pair = _remembered(graph, ("vjp", on), make)
    return found


Saveable = Callable[[Equation], bool]


def _saveable(policy: Any) -> Saveable:
    """The policy's answer for an equation."""

    def answer(equation: Equation) -> bool:
        op = equation.op
        metas = (a.meta for a in flat(equation.inputs))
        return bool(policy(op, *metas, **dict(zip(op.attr_names, equation.attrs))))

    return answer


def checkpoint_graph(graph: Graph, on: tuple[bool, ...], policy: Any) -> Pair:
    """As ``split_graph``, but nothing is kept that the policy does not name."""

    def make() -> Pair:
        split = transforms().split(graph, on, [True] * len(on), _saveable(policy))
        carriers = _carriers(graph, split)
        inputs = split.backward.inputs
        floats = sum(are_floats([a.meta for a in graph.outputs]))
        held = len(inputs) - floats

        def backward(*args: Any) -> Any:
            _, kept, cts = cut(args, len(carriers), held)
            # without the barrier, what runs again would be merged with what ran before
            kept = ops.optimization_barrier(kept) if kept else kept
            return split.backward(*kept, *cts)

        metas = [*(graph.inputs[i].meta for i in carriers), *(v.meta for v in inputs)]
        back = _traced(backward, metas)
        return closed_over(split.forward), back, (*carriers, *split.kept)

    found: Pair = _remembered(graph, ("checkpoint", on, policy), make)
    return found


# -- call and checkpoint -------------------------------------------------------------------------
def _jvp(call: Call, primals: Any, tangents: Any, graph: Graph) -> Any:
    (operands,), (ts,) = primals, tangents
    on = are_given(ts)
    made = jvp_graph(graph, tuple(on))
    found = made.run(call, [*operands, *select(ts, on)])
    outs, out_ts = cut(found, len(graph.outputs))
    return outs, spread(out_ts, made.flags)


def _vjp(call: Call, pair: Pair, on: Any, operands: Any, graph: Graph) -> Any:
    forward, backward, kept = pair
    found = forward.run(call, operands)
    outs, residuals = cut(found, len(graph.outputs))
    floats = are_floats(outs)
    held = [*(operands[i] for i in kept), *residuals]

    def pull(cts: Any) -> Any:
        grads = backward.run(call, [*held, *select(cts, floats)])
        return (spread(grads, on),)

    return outs, pull


def _batch(call: Call, batched: Any, operands: Any, graph: Graph) -> Any:
    size = batch_size(operands, batched[0])
    return batched_graph(graph, tuple(batched[0]), size).run(call, operands)


@rules.jvp("call")
def call_jvp(primals: Any, tangents: Any, graph: Graph) -> Any:
    return _jvp(ops.call, primals, tangents, graph)


@rules.vjp("call")
def call_vjp(active: Any, operands: Any, graph: Graph) -> Any:
    on = tuple(active[0])
    return _vjp(ops.call, split_graph(graph, on), on, operands, graph)


@rules.batch("call")
def call_batch(batched: Any, operands: Any, graph: Graph) -> Any:
    return _batch(ops.call, batched, operands, graph)


def _checkpointed(policy: Any) -> Call:
    return lambda operands, graph: ops.checkpoint(operands, graph, policy)


@rules.jvp("checkpoint")
def checkpoint_jvp(primals: Any, tangents: Any, graph: Graph, policy: Any) -> Any:
    return _jvp(_checkpointed(policy), primals, tangents, graph)


@rules.vjp("checkpoint")
def checkpoint_vjp(active: Any, operands: Any, graph: Graph, policy: Any) -> Any:
    on = tuple(active[0])
    pair = checkpoint_graph(graph, on, policy)
    return _vjp(_checkpointed(policy), pair, on, operands, graph)


@rules.batch("checkpoint")
def checkpoint_batch(batched: Any, operands: Any, graph: Graph, policy: Any) -> Any:
    return _batch(_checkpointed(policy), batched, operands, graph)


# -- marks on values -----------------------------------------------------------------------------
@rules.jvp("optimization_barrier")
def barrier_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (ts,) = primals, tangents
    on = are_given(ts)
    out_ts = ops.optimization_barrier(select(ts, on))
    return ops.optimization_barrier(x), spread(out_ts, on)


@rules.vjp("optimization_barrier")
def barrier_vjp(active: Any, x: Any) -> Any:
    return ops.optimization_barrier(x), lambda cts: (cts,)


@rules.batch("optimization_barrier")
def barrier_batch(batched: Any, x: Any) -> Any:
    size = batch_size(x, batched[0])
    outs = ops.optimization_barrier(x)
    return tuple(o if b else expanded(o, size) for o, b in zip(outs, batched[0]))


@rules.decompose("stop_gradient")
def stop_gradient(x: Any) -> Any:
    return x


@rules.decompose("checkpoint_name")
def checkpoint_name(x: Any, name: str) -> Any:
    return x


@rules.decompose("checkpoint_name_grad")
def checkpoint_name_grad(out_grad: Any) -> Any:
    return out_grad


@rules.batch("stop_gradient")
def stop_gradient_batch(batched: Any, x: Any) -> Any:
    return ops.stop_gradient(x)


@rules.batch("checkpoint_name")
def checkpoint_name_batch(batched: Any, x: Any, name: str) -> Any:
    return ops.checkpoint_name(x, name)


# -- derivatives of the user's own ---------------------------------------------------------------
class VJPRule(Protocol):
    """What the attribute ``rule`` of custom_vjp_call is."""

    count: int  # of operands that are arguments; the others are closed over
    __name__: str

    def forward(self, *operands: Any) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """Outputs, residuals, and ``backward(residuals, cts)`` to the cotangents of the operands,
        None where there is none."""


class JVPRule(Protocol):
    """What the attribute ``rule`` of custom_jvp_call is."""

    count: int
    __name__: str

    def tangents(self, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        """Outputs and their tangents; every operand has a tangent, ints one of zeros."""


def _check_closed(on: Sequence[bool], rule: Any) -> None:
    if any(on[rule.count :]):
        raise DifferentiationError(
            f"{rule.__name__} has a derivative of its own and closes over a tensor that is being "
            "differentiated; pass that tensor as an argument"
        )


def _filled(tangents: Sequence[Any], primals: Sequence[Any]) -> list[Any]:
    return [zeros(x.meta) if t is None else t for t, x in zip(tangents, primals)]


@rules.vjp("custom_vjp_call")
def custom_vjp_vjp(active: Any, operands: Any, graph: Graph, rule: VJPRule) -> Any:
    _check_closed(active[0], rule)
    outs, residuals, backward = rule.forward(*operands[: rule.count])
    rest = (None,) * (len(operands) - rule.count)
    return tuple(outs), lambda cts: ((*backward(residuals, cts), *rest),)


@rules.jvp("custom_vjp_call")
def custom_vjp_jvp(primals: Any, tangents: Any, graph: Graph, rule: VJPRule) -> Any:
    """The backward is linear in the cotangents: its transpose maps tangents."""
    (operands,), (ts,) = primals, tangents
    on = are_given(ts)
    _check_closed(on, rule)
    outs, residuals, backward = rule.forward(*operands[: rule.count])
    floats = are_floats(outs)
    rest = [o for o, f in zip(outs, floats) if not f]

    def linear(*given: Any) -> list[Any]:
        ints = iter(rest)
        supply = iter(given)
        cts = [next(supply) if f else zeros(next(ints).meta) for f in floats]
        grads = select(backward(residuals, cts), on)
        return _filled(grads, select(operands, on))

    at = [zeros(o.meta) for o in select(outs, floats)]
    _, pull = transforms().vjp(linear, at)
    return tuple(outs), spread(pull(select(ts, on)), floats)


@rules.jvp("custom_jvp_call")
def custom_jvp_jvp(primals: Any, tangents: Any, graph: Graph, rule: JVPRule) -> Any:
    (operands,), (ts,) = primals, tangents
    _check_closed(are_given(ts), rule)
    own = operands[: rule.count]
    outs, out_ts = rule.tangents(own, _filled(ts, own))
    return tuple(outs), tuple(t if f else None for t, f in zip(out_ts, are_floats(outs)))


@rules.vjp("custom_jvp_call")
def custom_jvp_vjp(active: Any, operands: Any, graph: Graph, rule: JVPRule) -> Any:
    """The tangent is linear in the tangents that go in: its transpose maps cotangents."""
    on = list(active[0])
    _check_closed(on, rule)
    own, count = operands[: rule.count], len(graph.outputs)

    def linear(*given: Any) -> list[Any]:
        outs, out_ts = rule.tangents(own, _filled(spread(given, on[: rule.count]), own))
        return [*outs, *select(out_ts, are_floats(outs))]

    found, pull = transforms().vjp(linear, [zeros(x.meta) for x in select(operands, on)])
    outs = tuple(found[:count])
    floats = are_floats(outs)
    nothing = [None] * count
    return outs, lambda cts: (spread(pull([*nothing, *select(cts, floats)]), on),)


@dataclass(frozen=True)
class BatchedVJP:
    """A backward of the user's own, over a batch in front of some operands."""

    rule: Any
    flags: tuple[bool, ...]
    size: Any

    @property
    def count(self) -> int:
        return int(self.rule.count)

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return str(self.rule.__name__)

    def forward(self, *operands: Any) -> Any:
        made: list[Any] = []

        def run(*args: Any) -> list[Any]:
            outs, residuals, backward = self.rule.forward(*args)
            made[:] = [len(outs), backward]
            return [*outs, *residuals]

        found, mapped = transforms().batch(run, operands, self.flags, self.size)
        count, backward = made
        outs = [o if m else expanded(o, self.size) for o, m in zip(found[:count], mapped)]

        def pulled(residuals: Any, cts: Any) -> Any:
            on = [*mapped[count:], *(True for _ in cts)]
            return self.backward(backward, residuals, cts, on)

        return outs, found[count:], pulled

    def backward(self, backward: Any, residuals: Any, cts: Any, on: list[bool]) -> Any:
        given: list[bool] = []

        def run(*args: Any) -> list[Any]:
            grads = backward(args[: len(residuals)], args[len(residuals) :])
            given[:] = are_given(grads)
            return select(grads, given)

        found, mapped = transforms().batch(run, [*residuals, *cts], on, self.size)
        back = spread(list(zip(found, mapped)), given)
        return [None if g is None else self._of(*g, f) for g, f in zip(back, self.flags)]

    def _of(self, grad: Any, mapped: bool, wanted: bool) -> Any:
        """A cotangent with a batch, or, of an operand without one, summed over it."""
        whole = grad if mapped else expanded(grad, self.size)
        return whole if wanted else ops.sum(whole, 0)


@dataclass(frozen=True)
class BatchedJVP:
    """A tangent of the user's own, over a batch in front of some operands."""

    rule: Any
    flags: tuple[bool, ...]
    size: Any

    @property
    def count(self) -> int:
        return int(self.rule.count)

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return str(self.rule.__name__)

    def tangents(self, primals: Any, tangents: Any) -> Any:
        count = len(primals)
        outputs: list[int] = []

        def run(*args: Any) -> list[Any]:
            outs, ts = self.rule.tangents(args[:count], args[count:])
            outputs[:] = [len(outs)]
            return [*outs, *ts]

        found, mapped = transforms().batch(
            run, [*primals, *tangents], [*self.flags, *self.flags], self.size
        )
        whole = [o if m else expanded(o, self.size) for o, m in zip(found, mapped)]
        return whole[: outputs[0]], whole[outputs[0] :]


def _batched_rule(op: Any, kind: Any, batched: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    flags, size = tuple(batched[0]), batch_size(operands, batched[0])
    made = batched_graph(graph, flags, size)
    return op([*operands, *made.closed], made.graph, kind(rule, flags[: rule.count], size))


@rules.batch("custom_vjp_call")
def custom_vjp_batch(batched: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    return _batched_rule(ops.custom_vjp_call, BatchedVJP, batched, operands, graph, rule)


@rules.batch("custom_jvp_call")
def custom_jvp_batch(batched: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    return _batched_rule(ops.custom_jvp_call, BatchedJVP, batched, operands, graph, rule)
