"""Collectives between ranks: what ops over a mesh's axis become in each process, and the steps.

Transposes are those of one program on all ranks, of values that are the same on all of them and
values that are not: what takes the one to the other has as its transpose what goes back.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.meta import MetaTensor

# kind of step -> the kind of its transpose
_TRANSPOSES = {
    "gather": "own", "own": "gather", "scatter": "rows", "rows": "scatter",
    "exchange": "exchange", "permute": "permute",
}  # fmt: skip


# -- the step ------------------------------------------------------------------------------------
@rules.infer_meta("RankStepInferMeta")
def rank_step_meta(x: MetaTensor, group: Any, kind: str, detail: Any) -> MetaTensor:
    return x.with_dims(group.shape(kind, detail, x.dims))


@rules.vjp("rank_step")
def rank_step_vjp(active: Any, x: Any, group: Any, kind: str, detail: Any) -> Any:
    out = ops.rank_step(x, group, kind, detail)
    if kind == "sum":
        return out, lambda ct: (ops.rank_vary(ct, group),)
    turned = {"exchange": detail[::-1], "permute": (*_halves(detail)[1], *_halves(detail)[0])}
    back = turned.get(kind, detail)
    return out, lambda ct: (ops.rank_step(ct, group, _TRANSPOSES[kind], back),)


def _halves(detail: Any) -> tuple[Any, Any]:
    half = len(detail) // 2
    return detail[:half], detail[half:]


@rules.batch("rank_step")
def rank_step_batch(batched: Any, x: Any, group: Any, kind: str, detail: Any) -> Any:
    if kind not in ("sum", "permute"):
        detail = [axis + 1 for axis in detail]
    return ops.rank_step(x, group, kind, detail)


@rules.decompose("rank_vary")
def rank_vary(x: Any, group: Any) -> Any:
    return x


@rules.vjp("rank_vary")
def rank_vary_vjp(active: Any, x: Any, group: Any) -> Any:
    return ops.rank_vary(x, group), lambda ct: (ops.rank_step(ct, group, "sum", ()),)


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
        return x, False
    if not varies[0]:
        return ops.scale(x, group.size) if dt.is_differentiable(x.dtype) else x * group.size, False
    return ops.rank_step(x, group, "sum", ()), False


@rules.ranks("all_gather")
def all_gather_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, size: Any, axis: int
) -> Any:
    if group.size == 1 or not varies[0]:
        dims = x.meta.dims
        row = ops.unsqueeze(x, [axis])
        return ops.expand(row, (*dims[:axis], group.size, *dims[axis:])), False
    return ops.rank_step(x, group, "gather", (axis,)), False


@rules.ranks("psum_scatter")
def psum_scatter_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, size: Any, axis: int
) -> Any:
    if group.size == 1:
        return _alone("psum_scatter", x, (axis_name, size, axis))
    return ops.rank_step(_wide(x, varies[0], group), group, "scatter", (axis,)), True


@rules.ranks("ppermute")
def ppermute_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, sources: Any, targets: Any
) -> Any:
    if group.size == 1:
        return _alone("ppermute", x, (axis_name, sources, targets))
    x = _wide(x, varies[0], group)
    return ops.rank_step(x, group, "permute", (*sources, *targets)), True


@rules.ranks("all_to_all")
def all_to_all_ranks(
    group: Any, varies: Any, x: Any, axis_name: str, split_axis: int, concat_axis: int
) -> Any:
    if group.size == 1:
        return _alone("all_to_all", x, (axis_name, split_axis, concat_axis))
    x = _wide(x, varies[0], group)
    return ops.rank_step(x, group, "exchange", (split_axis, concat_axis)), True


@rules.ranks("axis_index")
def axis_index_ranks(group: Any, varies: Any, axis_name: str) -> Any:
    zero = ops.full((), 0, dt.int64)
    if group.size == 1:
        return zero, True
    return ops.rank_step(zero, group, "index", ()), True


@rules.ranks("pvary")
def pvary_ranks(group: Any, varies: Any, x: Any, axis_name: str) -> Any:
    return _wide(x, varies[0], group), True
