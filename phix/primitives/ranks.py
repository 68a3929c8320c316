"""Collectives between ranks: what ops over a mesh's axis become in each process, and the steps.

Transposes are those of one program on all ranks, of values that are the same on all of them and
values that are not: what takes the one to the other has as its transpose what goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.core.transforms import transforms
from phix.primitives import ragged
from phix.primitives.carried import Carried

# kind of step -> the kind of its transpose
_TRANSPOSES = {
    "gather": "own", "own": "gather", "scatter": "rows", "rows": "scatter",
    "exchange": "exchange", "permute": "permute",
}  # fmt: skip
_SUMS = frozenset({"sum", "scatter"})


# -- the step ------------------------------------------------------------------------------------
@rules.infer_meta("RankStepInferMeta")
def rank_step_meta(x: MetaTensor, counts: Any, group: Any, kind: str, detail: Any) -> MetaTensor:
    return x.with_dims(group.shape(kind, detail, x.dims))


@rules.vjp("rank_step")
def rank_step_vjp(active: Any, x: Any, counts: Any, group: Any, kind: str, detail: Any) -> Any:
    out = ops.rank_step(x, counts, group, kind, detail)
    if kind == "sum":
        return out, lambda ct: (ops.rank_vary(ct, group), None)
    if kind == "ragged":
        came = _step(counts, group, "exchange", (0, 0))
        return out, lambda ct: (ops.rank_step(ct, came, group, kind, (x.shape[0],)), None)
    turned = {"exchange": detail[::-1], "permute": (*_halves(detail)[1], *_halves(detail)[0])}
    back = turned.get(kind, detail)
    return out, lambda ct: (_step(ct, group, _TRANSPOSES[kind], back), None)


def _step(x: Any, group: Any, kind: str, detail: Any) -> Any:
    return ops.rank_step(_started(x) if kind in _SUMS else x, None, group, kind, detail)


def _started(x: Any) -> Any:
    """A term of a sum that starts at 0.0, as those over lanes do: it is never -0.0."""
    return x + 0.0 if dt.is_differentiable(x.dtype) else x


def _halves(detail: Any) -> tuple[Any, Any]:
    half = len(detail) // 2
    return detail[:half], detail[half:]


@rules.batch("rank_step")
def rank_step_batch(batched: Any, x: Any, counts: Any, group: Any, kind: str, detail: Any) -> Any:
    if kind == "ragged":
        send = lambda x, counts, rows: ops.rank_step(x, counts, group, kind, (rows,))  # noqa: E731
        swap = lambda table: _step(table, group, "exchange", (0, 0))  # noqa: E731
        return ragged.batched_rows(batched, x, counts, detail[0], send, swap)
    if kind not in ("sum", "permute"):
        detail = [axis + 1 for axis in detail]
    return ops.rank_step(x, None, group, kind, detail)


@rules.decompose("rank_vary")
def rank_vary(x: Any, group: Any) -> Any:
    return x


@rules.vjp("rank_vary")
def rank_vary_vjp(active: Any, x: Any, group: Any) -> Any:
    return ops.rank_vary(x, group), lambda ct: (_step(ct, group, "sum", ()),)


@rules.batch("rank_vary")
def rank_vary_batch(batched: Any, x: Any, group: Any) -> Any:
    return ops.rank_vary(x, group)


# -- ops over the axis, on this rank -------------------------------------------------------------
def _alone(op_name: str, x: Any, attrs: Any) -> tuple[Any, bool]:
    """The op over an axis with one rank: that of one lane."""
    rule = rules.OPS[op_name].collective_rule
    assert rule is not None
    out, mapped = rule(1, (True,), ops.unsqueeze(x, [0]), *attrs)
    return (ops.squeeze(out, [0]) if mapped else out), mapped


def _wide(x: Any, varies: bool, group: Any) -> Any:
    """x as a value of this rank's own."""
    return x if varies or not dt.is_differentiable(x.dtype) else ops.rank_vary(x, group)


@rules.ranks("psum")
def psum_ranks(group: Any, varies: Any, x: Any, axis_name: str) -> Any:
    if group.size == 1:
        return _started(x), False
    if varies[0]:
        return _step(x, group, "sum", ()), False
    x = _started(x)
    return ops.scale(x, group.size) if dt.is_differentiable(x.dtype) else x * group.size, False


@rules.ranks("all_gather")
def all_gather_ranks(group: Any, varies: Any, x: Any, axis_name: str, size: Any, axis: int) -> Any:
    if group.size == 1 or not varies[0]:
        dims = x.meta.dims
        row = ops.unsqueeze(x, [axis])
        return ops.expand(row, (*dims[:axis], group.size, *dims[axis:])), False
    return _step(x, group, "gather", (axis,)), False


@rules.ranks("psum_scatter")
def psum_scatter_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, size: Any, axis: int
) -> Any:
    if group.size == 1:
        return _alone("psum_scatter", x, (axis_name, size, axis))
    return _step(_wide(x, varies[0], group), group, "scatter", (axis,)), True


@rules.ranks("ppermute")
def ppermute_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, sources: Any, targets: Any
) -> Any:
    if group.size == 1:
        return _alone("ppermute", x, (axis_name, sources, targets))
    x = _wide(x, varies[0], group)
    return _step(x, group, "permute", (*sources, *targets)), True


@rules.ranks("all_to_all")
def all_to_all_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, split_axis: int, concat_axis: int
) -> Any:
    if group.size == 1:
        return _alone("all_to_all", x, (axis_name, split_axis, concat_axis))
    x = _wide(x, varies[0], group)
    return _step(x, group, "exchange", (split_axis, concat_axis)), True


@rules.ranks("all_to_allv")
def all_to_allv_ranks(
    group: Any, varies: Any, x: Any, counts: Any, axis_name: str, rows: Any
) -> Any:
    if group.size == 1:
        lanes = ops.unsqueeze(x, [0]), ops.unsqueeze(counts, [0])
        return ops.squeeze(ragged.sent_between(*lanes, rows), [0]), True
    return ops.rank_step(_wide(x, varies[0], group), counts, group, "ragged", (rows,)), True


@rules.ranks("axis_index")
def axis_index_ranks(group: Any, varies: Any, axis_name: str) -> Any:
    zero = ops.full((), 0, dt.int64)
    if group.size == 1:
        return zero, True
    return _step(zero, group, "index", ()), True


@rules.ranks("pvary")
def pvary_ranks(group: Any, varies: Any, x: Any, axis_name: str) -> Any:
    return _wide(x, varies[0], group), True


# -- derivatives of the user's own ---------------------------------------------------------------
@dataclass(frozen=True)
class Ranked(Carried):
    """A derivative of the user's own on this rank."""

    rule: Any
    flags: tuple[bool, ...]
    outs: tuple[bool, ...]
    group: Any

    def run(self, function: Any, args: Sequence[Any], flags: Sequence[bool]) -> Any:
        return transforms().on_ranks(function, args, flags, self.group)

    def as_outs(self, values: Sequence[Any], differ: Sequence[bool]) -> list[Any]:
        """Some for each rank to go on with by itself."""
        return [_wide(v, o or not w, self.group) for v, o, w in zip(values, differ, self.outs)]

    def as_operand(self, grad: Any, differs: bool, wanted: bool) -> Any:
        """Of an operand that is the same on all ranks it is their sum."""
        if differs and not wanted:
            return _step(grad, self.group, "sum", ())
        return _wide(grad, differs or not wanted, self.group)


def _ranked_rule(op: Any, group: Any, varies: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    made, outs = transforms().ranked(graph, group)
    flags = [group.name in v.meta.varying for v in graph.inputs]
    values = [_wide(x, v or not f, group) for x, v, f in zip(operands, varies[0], flags)]
    whole = Ranked(rule, tuple(flags[: rule.count]), tuple(outs), group)
    return op(values, made, whole), outs


@rules.ranks("custom_vjp_call")
def custom_vjp_ranks(group: Any, varies: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    return _ranked_rule(ops.custom_vjp_call, group, varies, operands, graph, rule)


@rules.ranks("custom_jvp_call")
def custom_jvp_ranks(group: Any, varies: Any, operands: Any, graph: Graph, rule: Any) -> Any:
    return _ranked_rule(ops.custom_jvp_call, group, varies, operands, graph, rule)
