"""Jets of the ops with graphs in them: a loop, branch or call of all coefficients together.

What a loop carries has every coefficient, for one that is zero at first may not stay so; other
inputs have those that are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.graph import Graph
from phix.core.transforms import transforms
from phix.primitives.branches import branched
from phix.primitives.control_flow import looped, slices_of
from phix.primitives.flat import cut, metas_of, zeros
from phix.primitives.jet_series import Series
from phix.primitives.transformation import BindGraph, Derived
from phix.primitives.transformation import _checkpointed as checkpointed
from phix.primitives.transformation import _remembered as remembered
from phix.primitives.transformation import _traced as traced

Pattern = tuple[bool, ...]  # of one series: which of the coefficients behind the value are given


def _given(series: Sequence[Series]) -> list[Pattern]:
    return [tuple(c is not None for c in s[1:]) for s in series]


def _every(values: Sequence[Any], order: int) -> list[Pattern]:
    """All coefficients of what is a float, none of the rest."""
    return [(dt.is_differentiable(v.dtype),) * order for v in values]


def _heads(series: Sequence[Series]) -> list[Any]:
    return [s[0] for s in series]


def _packed(series: Sequence[Series], patterns: Sequence[Pattern]) -> list[Any]:
    """The coefficients of the patterns in a row, zeros for those that are missing."""
    return [
        zeros(s[0].meta) if c is None else c
        for s, pattern in zip(series, patterns)
        for c, wanted in zip(s[1:], pattern)
        if wanted
    ]


def _unpacked(
    values: Sequence[Any], coefficients: Sequence[Any], patterns: Sequence[Pattern]
) -> list[Series]:
    """The inverse of ``_heads`` and ``_packed``."""
    supply = iter(coefficients)
    return [
        [v, *(next(supply) if wanted else None for wanted in pattern)]
        for v, pattern in zip(values, patterns)
    ]


def _order(*groups: Sequence[Series]) -> int:
    return len(next(s for group in groups for s in group)) - 1


@rules.jet("scan")
def scan_jet(
    carry: Any, xs: Any, constants: Any, body: Graph, length: Any, reverse: bool
) -> tuple[Any, Any]:
    order = _order(carry, xs, constants)
    groups = (carry, xs, constants)
    patterns = (_every(_heads(carry), order), _given(xs), _given(constants))
    given = [part for g, p in zip(groups, patterns) for part in (_heads(g), _packed(g, p))]
    sizes = [len(part) for part in given]
    count = len(carry)
    ys_patterns = _every([a.meta for a in body.outputs[count:]], order)

    def step(*args: Any) -> list[Any]:
        parts = cut(args, *sizes)
        rows = [_unpacked(parts[2 * i], parts[2 * i + 1], p) for i, p in enumerate(patterns)]
        outs = transforms().jet(body, [s for row in rows for s in row])
        after, ys = outs[:count], outs[count:]
        return [
            *_heads(after),
            *_packed(after, patterns[0]),
            *_heads(ys),
            *_packed(ys, ys_patterns),
        ]

    c, c_t, x, x_t, k, k_t = given
    metas = [*metas_of([*c, *c_t]), *slices_of([*x, *x_t]), *metas_of([*k, *k_t])]
    graph, closed = transforms().trace(step, metas)
    final, ys = ops.scan([*c, *c_t], [*x, *x_t], [*k, *k_t, *closed], graph, length, reverse)
    final, final_t = cut(final, count)
    ys, ys_t = cut(ys, len(body.outputs) - count)
    return (
        tuple(_unpacked(final, final_t, patterns[0])),
        tuple(_unpacked(ys, ys_t, ys_patterns)),
    )


@rules.jet("while_loop")
def while_jet(carry: Any, constants: Any, cond: Graph, body: Graph) -> Any:
    order = _order(carry, constants)
    on_carry, on_constants = _every(_heads(carry), order), _given(constants)
    carried = [_heads(carry), _packed(carry, on_carry)]
    fixed = [_heads(constants), _packed(constants, on_constants)]
    sizes = [len(part) for part in (*carried, *fixed)]

    def test(*args: Any) -> Any:
        c, _, k, _, _ = cut(args, *sizes)
        return cond(*c, *k)

    def step(*args: Any) -> list[Any]:
        c, c_t, k, k_t, _ = cut(args, *sizes)
        rows = [*_unpacked(c, c_t, on_carry), *_unpacked(k, k_t, on_constants)]
        outs = transforms().jet(body, rows)
        return [*_heads(outs), *_packed(outs, on_carry)]

    found = looped(test, step, [*carried[0], *carried[1]], [*fixed[0], *fixed[1]])
    outs, coefficients = cut(found, len(carry))
    return tuple(_unpacked(outs, coefficients, on_carry))


@rules.jet("branch")
def branch_jet(index: Series, operands: Any, branches: tuple[Graph, ...]) -> Any:
    order = _order([index])
    on = _given(operands)
    values, coefficients = _heads(operands), _packed(operands, on)
    count = len(branches[0].outputs)
    on_outs = _every([a.meta for a in branches[0].outputs], order)

    def all_of(graph: Graph) -> Any:
        def run(*args: Any) -> list[Any]:
            operands, rest = cut(args, len(values))
            outs = transforms().jet(graph, _unpacked(operands, rest, on))
            return [*_heads(outs), *_packed(outs, on_outs)]

        return run

    found = branched(index[0], [*values, *coefficients], [all_of(g) for g in branches])
    outs, outs_t = cut(found, count)
    return tuple(_unpacked(outs, outs_t, on_outs))


# -- call, checkpoint ----------------------------------------------------------------------------
def jet_graph(graph: Graph, on: tuple[Pattern, ...]) -> Derived:
    """Outputs, and the coefficients that ``flags`` names, of inputs and given coefficients."""
    metas = [v.meta for v in graph.inputs]

    def make() -> Derived:
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            values, rest = cut(args, len(metas))
            outs = transforms().jet(graph, _unpacked(values, rest, on))
            given = _given(outs)
            flags[:] = [g for pattern in given for g in pattern]
            return [*_heads(outs), *_packed(outs, given)]

        coefficients = [m for m, pattern in zip(metas, on) for g in pattern if g]
        made = traced(run, [*metas, *coefficients])
        return Derived(made.graph, made.closed, tuple(flags))

    found: Derived = remembered(graph, ("jet", on), make)
    return found


def _called(call: BindGraph, operands: Any, graph: Graph) -> Any:
    order, on = _order(operands), tuple(_given(operands))
    made = jet_graph(graph, on)
    found = made.run(call, [*_heads(operands), *_packed(operands, on)])
    outs, rest = cut(found, len(graph.outputs))
    patterns = [made.flags[i * order : (i + 1) * order] for i in range(len(outs))]
    return tuple(_unpacked(outs, rest, patterns))


@rules.jet("call")
def call_jet(operands: Any, graph: Graph) -> Any:
    return _called(ops.call, operands, graph)


@rules.jet("checkpoint")
def checkpoint_jet(operands: Any, graph: Graph, policy: Any) -> Any:
    return _called(checkpointed(policy), operands, graph)


@rules.jet("optimization_barrier")
def barrier_jet(x: Any) -> Any:
    on = _given(x)
    values = ops.optimization_barrier([*_heads(x), *_packed(x, on)])
    heads, rest = cut(values, len(x))
    return tuple(_unpacked(heads, rest, on))
