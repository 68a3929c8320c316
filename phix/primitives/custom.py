"""Derivatives of the user's own: what calls with rules in Python become under transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from phix import ops
from phix.core import context, rules
from phix.core.errors import DifferentiationError
from phix.core.graph import Graph
from phix.core.records import dataclass
from phix.core.transforms import transforms
from phix.core.varying import along
from phix.primitives.carried import Carried
from phix.primitives.flat import are_floats, are_given, batch_size, expanded, select, spread, zeros
from phix.primitives.transformation import as_output, batched_graph


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

    at = [along(zeros(o.meta), o.meta.varying) for o in select(outs, floats)]
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

    at = [along(zeros(x.meta), x.meta.varying) for x in select(operands, on)]
    found, pull = transforms().vjp(linear, at)
    outs = tuple(found[:count])
    floats = are_floats(outs)
    nothing = [None] * count
    return outs, lambda cts: (spread(pull([*nothing, *select(cts, floats)]), on),)


@dataclass(frozen=True)
class Batched(Carried):
    """A derivative of the user's own, over a batch in front of some operands."""

    rule: Any
    flags: tuple[bool, ...]
    size: Any
    axis_name: str | None
    is_mesh: bool  # whether the lanes are the parts of a mesh
    outs: tuple[bool, ...]  # which outputs are not the same in all of those

    def run(self, function: Any, args: Sequence[Any], flags: Sequence[bool]) -> Any:
        tracked = (self.axis_name or "",) if self.is_mesh else ()
        with context.mapping(self.axis_name), context.tracking(tracked):
            return transforms().batch(function, args, flags, self.size)

    def as_outs(self, values: Sequence[Any], differ: Sequence[bool]) -> list[Any]:
        """With a batch in front, but for those that are alike."""
        alike = [not o for o in self.outs]
        return [as_output(*each, self.size) for each in zip(values, differ, alike)]

    def as_operand(self, grad: Any, differs: bool, wanted: bool) -> Any:
        """With a batch, or, of an operand without one, summed over it."""
        if not wanted and not differs and self.is_mesh:
            return grad  # of all parts together
        whole = grad if differs else expanded(grad, self.size)
        return whole if wanted else ops.sum(whole, 0)


def _batched_rule(op: Any, batched: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    flags, size = tuple(batched[0]), batch_size(operands, batched[0])
    axis = context.mapped_axis()
    is_mesh = context.is_tracked(axis or "")
    alike = tuple(is_mesh and axis not in a.meta.varying for a in graph.outputs)
    made = batched_graph(graph, flags, size, alike)
    outs_differ = tuple(not a for a in alike)
    whole = Batched(rule, flags[: rule.count], size, axis, is_mesh, outs_differ)
    outs = op([*operands, *made.closed], made.graph, whole)
    return [expanded(o, size) if a else o for o, a in zip(outs, alike)]


@rules.batch("custom_vjp_call")
def custom_vjp_batch(batched: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    return _batched_rule(ops.custom_vjp_call, batched, operands, graph, rule)


@rules.batch("custom_jvp_call")
def custom_jvp_batch(batched: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    return _batched_rule(ops.custom_jvp_call, batched, operands, graph, rule)
