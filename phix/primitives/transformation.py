"""Graphs called whole, checkpoints, and derivatives of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core import context, rules
from phix.core import dtypes as dt
from phix.core.attrs import metas_of
from phix.core.errors import ShapeError
from phix.core.graph import (
    Equation,
    Graph,
    Variable,
    flat,
    plain_symbol,
    solve_dims,
    symbols_of,
)
from phix.core.later import infer
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.core.tensor import Tracer
from phix.core.transforms import Split, transforms
from phix.primitives.flat import (
    Metas,
    are_floats,
    are_given,
    batch_size,
    cut,
    expanded,
    lacking,
    or_zeros,
    select,
    spread,
    takes_none,
)
from phix.primitives.reaching import only, reaching

BindGraph = Callable[[Sequence[Any], Graph], Any]  # binds an op that calls a graph


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
    picks: tuple[int, ...] | None = None  # which output each result is, where some are the same

    def run(self, call: BindGraph, operands: Sequence[Any]) -> Any:
        found = call([*operands, *self.closed], self.graph)
        return found if self.picks is None else tuple(found[i] for i in self.picks)


def closed_over(graph: Graph) -> Derived:
    """The graph with its constants as inputs, the last ones; each output is given once."""
    inputs = (*graph.inputs, *(c.variable for c in graph.constants))
    values = tuple(c.value for c in graph.constants)
    outputs = tuple(dict.fromkeys(graph.outputs))
    place = {atom: i for i, atom in enumerate(outputs)}
    picks = tuple(place[a] for a in graph.outputs)
    return Derived(Graph(inputs, (), graph.equations, outputs), values, picks=picks)


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


def as_output(value: Any, mapped: bool, alike: bool, size: Any) -> Any:
    """An output with a batch in front; without one if it is to be alike in all lanes."""
    if alike:
        return value[0] if mapped else value
    return value if mapped else expanded(value, size)


def batched_graph(
    graph: Graph, flags: tuple[bool, ...], size: Any, alike: tuple[bool, ...] = ()
) -> Derived:
    """The graph on a batch, every output with the batch in front but for those ``alike``."""
    alike = alike or (False,) * len(graph.outputs)
    key = ("batch", flags, getattr(size, "key", size), context.mapped_axis(), alike)

    def whole(*args: Any) -> list[Any]:
        outs, mapped = transforms().batch(graph, args, flags, size)
        return [as_output(o, m, a, size) for o, m, a in zip(outs, mapped, alike)]

    axis = {context.mapped_axis() or ""}
    metas = [m.with_varying(m.varying - axis) for m in _input_metas(graph)]
    metas = [m.with_dims((size, *m.dims)) if f else m for m, f in zip(metas, flags)]
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


Given = tuple[bool, ...] | None


def split_graph(graph: Graph, on: tuple[bool, ...], given: Given = None) -> Pair:
    """Forward and backward of the graph, and the inputs that the backward takes first."""

    def make() -> Pair:
        split = transforms().split(graph, on, [False] * len(on), given=given)
        carriers = _carriers(graph, split)
        fresh = tuple(Variable(f"size_{i}", graph.inputs[i].meta) for i in carriers)
        back = split.backward
        back = Graph((*fresh, *back.inputs), back.constants, back.equations, back.outputs)
        return closed_over(split.forward), closed_over(back), (*carriers, *split.kept)

    found: Pair = _remembered(graph, ("vjp", on, given), make)
    return found


Saveable = Callable[[Equation], bool]


def _saveable(policy: Any) -> Saveable:
    """The policy's answer for an equation."""

    def answer(equation: Equation) -> bool:
        op = equation.op
        metas = (a.meta for a in flat(equation.inputs))
        return bool(policy(op, *metas, **dict(zip(op.attr_names, equation.attrs))))

    return answer


def checkpoint_graph(graph: Graph, on: tuple[bool, ...], policy: Any, given: Given = None) -> Pair:
    """As ``split_graph``, but nothing is kept that the policy does not name."""

    def make() -> Pair:
        split = transforms().split(graph, on, [True] * len(on), _saveable(policy), given=given)
        carriers = _carriers(graph, split)
        inputs = split.backward.inputs
        floats = sum(are_floats([a.meta for a in graph.outputs]))
        held = len(inputs) - floats

        def backward(*args: Any) -> Any:
            _, kept, cts = cut(args, len(carriers), held)
            # without the barrier, what runs again would be merged with what ran before
            return split.backward(*_apart(kept), *cts)

        metas = [*(graph.inputs[i].meta for i in carriers), *(v.meta for v in inputs)]
        back = _traced(backward, metas)
        return closed_over(split.forward), back, (*carriers, *split.kept)

    found: Pair = _remembered(graph, ("checkpoint", on, policy, given), make)
    return found


def _apart(values: Sequence[Any]) -> list[Any]:
    """The values behind barriers, one for those that vary along the same axes of a mesh: all that
    comes out of one varies alike, and here what runs again is to vary as what ran before."""
    found = list(values)
    for axes in dict.fromkeys(x.meta.varying for x in values):
        places = [n for n, x in enumerate(values) if x.meta.varying == axes]
        behind = ops.optimization_barrier([values[n] for n in places])
        for place, value in zip(places, behind):
            found[place] = value
    return found


# -- call and checkpoint -------------------------------------------------------------------------
def _jvp(call: BindGraph, primals: Any, tangents: Any, graph: Graph) -> Any:
    (operands,), (ts,) = primals, tangents
    on = are_given(ts)
    made = jvp_graph(graph, tuple(on))
    found = made.run(call, [*operands, *select(ts, on)])
    outs, out_ts = cut(found, len(graph.outputs))
    return outs, spread(out_ts, made.flags)


def _vjp(
    call: BindGraph, split: Callable[[Given], Pair], on: Any, operands: Any, graph: Graph
) -> Any:
    forward, backward, kept = split(None)
    found = forward.run(call, operands)
    outs, residuals = cut(found, len(graph.outputs))
    floats = are_floats(outs)
    held = [*(operands[i] for i in kept), *residuals]

    @takes_none
    def pull(cts: Any) -> Any:
        given = lacking(select(cts, floats))
        run = backward
        if given is not None:
            _, less, own = split(given)
            takes = [x.meta for x in held] if own == kept else []
            run = less if _input_metas(less.graph)[: len(held)] == takes else backward
        grads = run.run(call, [*held, *or_zeros(cts, outs)])
        return (only(spread(grads, on), reaching(graph, are_given(cts))),)

    return outs, pull


def _batch(call: BindGraph, batched: Any, operands: Any, graph: Graph) -> Any:
    size = batch_size(operands, batched[0])
    return batched_graph(graph, tuple(batched[0]), size).run(call, operands)


@rules.jvp("call")
def call_jvp(primals: Any, tangents: Any, graph: Graph) -> Any:
    return _jvp(ops.call, primals, tangents, graph)


@rules.vjp("call")
def call_vjp(active: Any, operands: Any, graph: Graph) -> Any:
    on = tuple(active[0])
    return _vjp(ops.call, lambda given: split_graph(graph, on, given), on, operands, graph)


@rules.batch("call")
def call_batch(batched: Any, operands: Any, graph: Graph) -> Any:
    return _batch(ops.call, batched, operands, graph)


def _checkpointed(policy: Any) -> BindGraph:
    return lambda operands, graph: ops.checkpoint(operands, graph, policy)


@rules.jvp("checkpoint")
def checkpoint_jvp(primals: Any, tangents: Any, graph: Graph, policy: Any) -> Any:
    return _jvp(_checkpointed(policy), primals, tangents, graph)


@rules.vjp("checkpoint")
def checkpoint_vjp(active: Any, operands: Any, graph: Graph, policy: Any) -> Any:
    on = tuple(active[0])

    def split(given: Given) -> Pair:
        return checkpoint_graph(graph, on, policy, given)

    return _vjp(_checkpointed(policy), split, on, operands, graph)


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


@rules.infer_meta("ExpectSizesInferMeta")
def expect_sizes_meta(x: MetaTensor, from_zero: tuple[Any, ...], refusal: str) -> MetaTensor:
    if any(isinstance(n, int) and n < 0 for n in from_zero):
        raise ShapeError(refusal)
    return x


@rules.decompose("expect_sizes")
def expect_sizes(x: Any, from_zero: tuple[Any, ...], refusal: str) -> Any:
    return x


@rules.decompose("expect_sizes_grad")
def expect_sizes_grad(out_grad: Any, from_zero: tuple[Any, ...], refusal: str) -> Any:
    return ops.expect_sizes(out_grad, from_zero, refusal)  # the first call may be no longer there


@rules.infer_meta("ExpectCallInferMeta")
def expect_call_meta(call: Graph) -> MetaTensor:
    return MetaTensor((), dt.int32)  # what the call asks for is looked at where graphs inside are


@rules.decompose("expect_call")
def expect_call(call: Graph) -> Any:
    """Sizes are known here where a graph is run op by op."""
    for e in call.equations:
        if all(v.meta.is_static() for v in call.inputs):
            infer(e.op, metas_of(e.inputs), e.attrs)
    return ops.full((), 0, dt.int32)


@rules.batch("stop_gradient")
def stop_gradient_batch(batched: Any, x: Any) -> Any:
    return ops.stop_gradient(x)


@rules.batch("checkpoint_name")
def checkpoint_name_batch(batched: Any, x: Any, name: str) -> Any:
    return ops.checkpoint_name(x, name)


@rules.batch("expect_sizes")
def expect_sizes_batch(batched: Any, x: Any, from_zero: tuple[Any, ...], refusal: str) -> Any:
    return ops.expect_sizes(x, from_zero, refusal)
