"""Mixtures of experts by order of experts: all choices sorted, and what experts give summed."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.index_ranges import IndexRange
from phix.core.meta import MetaTensor
from phix.primitives.experts import check_ints, check_rank, counted
from phix.primitives.lengths import check_dims
from phix.primitives.positions import numbers
from phix.primitives.steps import scanned
from phix.primitives.widening import as_dtype, widened


@rules.normalize("moe_dispatch")
def moe_dispatch_attrs(
    X: MetaTensor, gating_output: MetaTensor, moe_topk: int, group_moe: bool, topk_only_mode: bool
) -> Any:
    if moe_topk < 1:
        raise AttributeValueError(f"moe_topk must be 1 or more, found {moe_topk}")
    return moe_topk, group_moe, topk_only_mode


@rules.decompose("moe_dispatch")
def moe_dispatch(
    X: Any, gating_output: Any, moe_topk: int, group_moe: bool, topk_only_mode: bool
) -> Any:
    """All choices sorted by expert; of one expert, first choices first, then tokens in order."""
    check_rank(2, "[tokens, ...]", X=X, gating_output=gating_output)
    tokens, experts = gating_output.meta.dims
    if not dm.may_equal(X.meta.dims[0], tokens):
        raise ShapeError(f"each token has logits, found {X.meta} and {gating_output.meta}")
    scores = widened(gating_output)
    if group_moe:
        if isinstance(experts, int) and experts % moe_topk:
            raise ShapeError(
                f"the experts come in {moe_topk} groups, found {gating_output.meta}; their number "
                "must be a multiple"
            )
        each = dm.floordiv(experts, moe_topk)
        parted = ops.reshape(scores, (tokens, moe_topk, each))
        if not topk_only_mode:
            parted = ops.softmax(parted, 2)
        scales, within = ops.topk(parted, 1, 2)
        scales, within = (ops.squeeze(v, (2,)) for v in (scales, within))
        chosen = within + numbers(moe_topk) * ops.full((), each, dt.int64)
    else:
        scales, chosen = ops.topk(scores if topk_only_mode else ops.softmax(scores, 1), moe_topk, 1)
    count = tokens * moe_topk
    by_choice = ops.reshape(ops.transpose(chosen, (1, 0)), (count,))
    order = ops.argsort(by_choice, 0, False, True)[1]
    place = ops.index_put(ops.full((count,), 0, dt.int64), [order], numbers(count))
    rows = ops.gather(X, ops.remainder(order, ops.full((), tokens, dt.int64)), 0)
    ends = ops.cumsum(counted(by_choice, 0, experts), 0)
    return (
        rows, ends, as_dtype(ops.reshape(place, (moe_topk, tokens)), dt.int32),
        ops.reshape(scales, (tokens, moe_topk, 1, 1)), as_dtype(chosen, dt.int32),
    )  # fmt: skip


@rules.indices("moe_reduce")
def reduce_indices(
    ffn_out: MetaTensor, scales: Any, places: Any, chosen: Any, bias: Any, *attrs: Any
) -> list[IndexRange]:
    found = []
    for name, of, what in (
        ("permute_indices_per_token", ffn_out, "the rows of ffn_out,"),
        ("top_k_indices", bias, "the experts that ffn2_bias is of,"),
    ):
        if of is not None and of.ndim:
            found.append(IndexRange(name, of.dims[:1], what, counts_back=False))
    return found


@rules.decompose("moe_reduce")
def moe_reduce(
    ffn_out: Any, expert_scales_float: Any, permute_indices_per_token: Any, top_k_indices: Any,
    ffn2_bias: Any, norm_topk_prob: bool, routed_scaling_factor: float,
) -> Any:  # fmt: skip
    check_ints(permute_indices_per_token=permute_indices_per_token, top_k_indices=top_k_indices)
    check_rank(2, "[rows, size], [k, tokens] or [tokens, k]", ffn_out=ffn_out,
                permute_indices_per_token=permute_indices_per_token,
                top_k_indices=top_k_indices)  # fmt: skip
    tokens, k = top_k_indices.meta.dims
    if not all(map(dm.may_equal, permute_indices_per_token.meta.dims, (k, tokens))):
        raise ShapeError(
            "permute_indices_per_token is [k, tokens] and top_k_indices [tokens, k], found "
            f"{permute_indices_per_token.meta} and {top_k_indices.meta}"
        )
    scales = widened(ops.reshape(expert_scales_float, (tokens, k)))
    if norm_topk_prob:
        scales = scales / ops.sum(scales, (1,), keepdim=True)
    rows = ops.gather(widened(ffn_out), ops.transpose(permute_indices_per_token, (1, 0)), 0)
    if ffn2_bias is not None:
        bias = ops.squeeze(ffn2_bias, (1,)) if ffn2_bias.ndim == 3 else ffn2_bias
        if bias.ndim != 2 or not dm.may_equal(bias.meta.dims[1], ffn_out.meta.dims[1]):
            raise ShapeError(
                f"ffn2_bias must be [experts, 1, size] for {ffn_out.meta}, found {ffn2_bias.meta}"
            )
        rows = rows + ops.gather(as_dtype(bias, rows.dtype), top_k_indices, 0)
    total = ops.sum(rows * ops.unsqueeze(as_dtype(scales, rows.dtype), (2,)), (1,))
    return as_dtype(total * routed_scaling_factor, ffn_out.dtype)


@rules.decompose("assign_pos")
def assign_pos(x: Any, cum_count: Any, eff_num_len: Any) -> Any:
    """Sorted by expert, the k-th is as far before its expert's end as among those of the expert."""
    check_ints(x=x, cum_count=cum_count, eff_num_len=eff_num_len)
    check_rank(1, "[experts]", cum_count=cum_count)
    if not dm.may_equal(eff_num_len.meta.size, 1):
        raise ShapeError(f"eff_num_len is one number, found {eff_num_len.meta}")
    experts, count = cum_count.meta.dims[0], x.meta.size
    size = as_dim(ops.cast(ops.reshape(eff_num_len, ()), dt.int64))
    none, end = ops.full((), experts, dt.int64), ops.full((), size, dt.int64)
    owner = ops.cast(ops.reshape(x, (count,)), dt.int64)
    owner = ops.where(ops.logical_and(owner >= 0, owner < none), owner, none)
    owner, order = ops.argsort(owner, 0, False, True)
    asked = ops.cast(cum_count, dt.int64)
    found = ops.cumsum(counted(owner, 0, experts), 0)
    shift = ops.concat([asked - found, ops.full((1,), 0, dt.int64)], 0)
    place = numbers(count) + ops.gather(shift, owner, 0)
    inside = (owner < none) & (place >= 0) & (place < end)
    out = ops.full((size + 1,), -1, dt.int64)
    out = ops.index_put(out, [ops.where(inside, place, end)], order)
    return ops.slice(out, [0], [0], [size])


# -- moe_ffn ---------------------------------------------------------------------------------------
@rules.normalize("moe_ffn")
def moe_ffn_attrs(
    rows: MetaTensor, ends: Any, first: Any, second: Any, bias: Any, first_scale: Any,
    second_scale: Any, quant_method: str,
) -> Any:  # fmt: skip
    if quant_method != "None" or first_scale is not None or second_scale is not None:
        raise AttributeValueError(
            f"weights are floats here, found quant_method {quant_method!r}; write 'None', leave "
            "scales out, and take weights that weight_dequantize has made floats"
        )
    return (quant_method,)


@rules.decompose("moe_ffn")
def moe_ffn(
    rows: Any, token_nums_per_expert: Any, first: Any, second: Any, bias: Any, first_scale: Any,
    second_scale: Any, quant_method: str,
) -> Any:  # fmt: skip
    """Expert by expert, each of which keeps what it makes of its own rows."""
    check_ints(token_nums_per_expert=token_nums_per_expert)
    check_rank(2, "[rows, size]", permute_input=rows)
    count, size = rows.meta.dims
    experts = token_nums_per_expert.meta.size
    check_dims("ffn1_weight", first, (experts, size, None), "[experts, size, 2 * inner]")
    double = first.meta.dims[2]
    inner = dm.floordiv(double, 2)
    check_dims("ffn2_weight", second, (experts, inner, None), "[experts, inner, out]")
    if isinstance(double, int) and double % 2:
        raise ShapeError(f"ffn1_weight gives gates and values, two halves, found {first.meta}")
    if bias is not None:
        if not dm.may_equal(bias.meta.size, experts * double):
            raise ShapeError(f"ffn1_bias must be [experts, 1, 2 * inner], found {bias.meta}")
        bias = [ops.reshape(widened(bias), (experts, 1, double))]
    ends = ops.reshape(ops.cast(token_nums_per_expert, dt.int64), (experts,))
    begins = ops.concat([ops.full((1,), 0, dt.int64), ends], 0)
    begins = ops.slice(begins, [0], [0], [experts])
    x, at = widened(rows), numbers(count)

    def step(carry: Any, slices: Any) -> Any:
        (out,), (begin, end, w1, w2, *shift) = carry, slices
        both = ops.matmul(x, w1)
        both = both + shift[0] if shift else both
        gate, value = (ops.slice(both, [1], [i * inner], [(i + 1) * inner]) for i in range(2))
        found = ops.matmul(ops.silu(gate) * value, w2)
        own = ops.logical_and(at >= begin, at < end)
        return [ops.where(ops.reshape(own, (count, 1)), found, out)], []

    zeros = ops.full((count, second.meta.dims[2]), 0, x.dtype)
    weights = [as_dtype(widened(w), x.dtype) for w in (first, second, *(bias or []))]
    (out,), _ = scanned(step, [zeros], [begins, ends, *weights])
    return as_dtype(out, rows.dtype)
