"""Mixtures of experts within one process: who goes to which expert, and what comes back.

A token that no expert takes has the number -1 in its place, and zeros come of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.primitives.positions import masked, nothing, numbers
from phix.primitives.widening import as_dtype, widened


def check_ints(**tensors: Any) -> None:
    for name, t in tensors.items():
        if dt.kind(t.dtype) != "int":
            raise DTypeError(f"{name} holds numbers of experts or rows, found {t.meta}; cast it")


def check_rank(rank: int, what: str, **tensors: Any) -> None:
    for name, t in tensors.items():
        if t.ndim != rank:
            raise ShapeError(f"{name} must be {what}, found {t.meta}; reshape it")


def _check_same(a: Any, b: Any, what: str) -> None:
    if a.ndim != b.ndim or not all(map(dm.may_equal, a.meta.dims, b.meta.dims)):
        raise ShapeError(f"{what}, found {a.meta} and {b.meta}")


# -- counts ----------------------------------------------------------------------------------------
def counted(index: Any, low: int, count: dm.DimLike) -> Any:
    """How often low, low + 1, ... stand in a tensor, int64[count]; other numbers do not count."""
    at = as_int64(ops.reshape(index, (index.meta.size,))) - low
    size = ops.full((), count, dt.int64)
    inside = (at >= 0) & (at < size)
    slots = ops.full((count + 1,), 0, dt.int64)  # the last one is for all others
    ones = ops.full(at.meta.dims, 1, dt.int64)
    found = ops.index_put(slots, [ops.where(inside, at, size)], ones, True, (0,))
    return ops.slice(found, [0], [0], [count])


def _ranks(index: Any) -> Any:
    """How many equal numbers stand before each entry of a vector."""
    order = ops.argsort(index, 0, False, True)[1]
    ordered = ops.gather(index, order, 0)
    count = index.meta.dims[0]
    at = numbers(count)
    before = ops.roll(ordered, (1,), (0,))
    begins = ops.where((ordered != before) | (at == 0), at, 0)
    first = ops.cummax(begins, 0)[0]
    return ops.index_put(ops.full((count,), 0, dt.int64), [order], at - first)


@rules.normalize("number_count")
def number_count_attrs(numbers: MetaTensor, upper_range: int) -> Any:
    if upper_range < 0:
        raise AttributeValueError(f"upper_range must be 0 or more, found {upper_range}")
    return (upper_range,)


@rules.decompose("number_count")
def number_count(numbers: Any, upper_range: int) -> Any:
    check_ints(numbers=numbers)
    return counted(numbers, 0, upper_range)


# The numbers that PHI gives to dtypes; other than ints none is counted in.
_COUNT_DTYPES = {3: dt.int8, 5: dt.int16, 7: dt.int32, 9: dt.int64}


@rules.normalize("int_bincount")
def int_bincount_attrs(x: MetaTensor, low: int, high: int, dtype: int) -> Any:
    if not low < high:
        raise AttributeValueError(f"low must be below high, found {low} and {high}")
    if dtype not in _COUNT_DTYPES:
        known = ", ".join(f"{n} ({d})" for n, d in _COUNT_DTYPES.items())
        raise AttributeValueError(
            f"dtype is one of PHI's numbers of int dtypes, {known}, found {dtype}"
        )
    return low, high, dtype


@rules.decompose("int_bincount")
def int_bincount(x: Any, low: int, high: int, dtype: int) -> Any:
    check_ints(x=x)
    return as_dtype(counted(x, low, high - low), _COUNT_DTYPES[dtype])


# -- capacities ------------------------------------------------------------------------------------
@rules.decompose("limit_by_capacity")
def limit_by_capacity(expert_count: Any, capacity: Any, n_worker: int) -> Any:
    """Workers are served in their order, each with what those before it have left."""
    check_ints(expert_count=expert_count, capacity=capacity)
    check_rank(1, "a vector", expert_count=expert_count, capacity=capacity)
    experts = capacity.meta.dims[0]
    if n_worker < 1 or not dm.may_equal(expert_count.meta.dims[0], experts * n_worker):
        raise ShapeError(
            f"expert_count has a number for each of {n_worker} workers and {dm.dim_text(experts)} "
            f"experts, found {expert_count.meta} and {capacity.meta}"
        )
    wanted = ops.reshape(as_int64(expert_count), (n_worker, experts))
    left = as_int64(capacity) - ops.cumsum(wanted, 0, False, True)
    given = ops.minimum(ops.maximum(left, 0), wanted)
    return as_dtype(ops.reshape(given, expert_count.meta.dims), expert_count.dtype)


@rules.decompose("prune_gate_by_capacity")
def prune_gate_by_capacity(gate_idx: Any, expert_count: Any, n_expert: int, n_worker: int) -> Any:
    check_ints(gate_idx=gate_idx, expert_count=expert_count)
    check_rank(1, "a vector", expert_count=expert_count)
    count = n_expert * n_worker
    if count < 1 or not dm.may_equal(expert_count.meta.dims[0], count):
        raise ShapeError(
            f"expert_count has a number for each of {n_expert} experts of {n_worker} workers, "
            f"found {expert_count.meta}"
        )
    flat = as_int64(ops.reshape(gate_idx, (gate_idx.meta.size,)))
    inside = (flat >= 0) & (flat < count)
    room = ops.gather(as_int64(expert_count), ops.where(inside, flat, 0), 0)
    kept = ops.where(inside & (_ranks(flat) < room), flat, -1)
    return as_dtype(ops.reshape(kept, gate_idx.meta.dims), gate_idx.dtype)


@rules.decompose("random_routing")
def random_routing(prob: Any, topk_value: Any, topk_idx: Any) -> Any:
    check_ints(topk_idx=topk_idx)
    check_rank(2, "[tokens, 2]", topk_value=topk_value, topk_idx=topk_idx)
    check_rank(1, "[tokens]", prob=prob)
    _check_same(topk_value, topk_idx, "topk_value and topk_idx have one shape")
    tokens, width = topk_idx.meta.dims
    if not dm.may_equal(width, 2) or not dm.may_equal(tokens, prob.meta.dims[0]):
        raise ShapeError(
            "each token has two experts and one number in prob, found "
            f"{topk_idx.meta} and {prob.meta}"
        )
    seldom = 2 * topk_value < ops.reshape(prob, (tokens, 1))
    return ops.where(seldom & (numbers(width) == 1), ops.full((), -1, topk_idx.dtype), topk_idx)


# -- products --------------------------------------------------------------------------------------
@rules.decompose("batch_fc")
def batch_fc(input: Any, w: Any, bias: Any) -> Any:
    check_rank(3, "[slots, ...] with three axes", input=input, w=w)
    check_rank(2, "[slots, out]", bias=bias)
    slots, _, out = w.meta.dims
    if not all(map(dm.may_equal, bias.meta.dims, (slots, out))) or not dm.may_equal(
        input.meta.dims[0], slots
    ):
        raise ShapeError(
            "input is [slots, rows, in], w [slots, in, out] and bias [slots, out], found "
            f"{input.meta}, {w.meta} and {bias.meta}"
        )
    return ops.bmm(input, w) + ops.unsqueeze(bias, (1,))


# -- to experts and back ---------------------------------------------------------------------------
def _check_combine(x: Any, weights: Any, scatter_index: Any) -> None:
    check_ints(scatter_index=scatter_index)
    check_rank(2, "[rows, size]", x=x)
    check_rank(2, "[tokens, k]", combine_weights=weights, scatter_index=scatter_index)
    _check_same(weights, scatter_index, "weights and scatter_index are [tokens, k]")


def _combined(x: Any, weights: Any, scatter_index: Any) -> Any:
    """The rows of each token, weighted."""
    rows = ops.gather(widened(x), scatter_index, 0)
    terms = rows * ops.unsqueeze(as_dtype(weights, rows.dtype), (2,))
    return as_dtype(ops.sum(terms, (1,)), x.dtype)


@rules.indices("moe_combine")
@rules.indices("moe_combine_auto")
@rules.indices("moe_combine_no_weight")
def combine_indices(x: MetaTensor, weights: Any, index: Any, *attrs: Any) -> list[IndexRange]:
    rows = x.dims[:1]
    return [IndexRange("scatter_index", rows, "the rows of x,", counts_back=False)] if rows else []


@rules.decompose("moe_combine")
def moe_combine(x: Any, combine_weights: Any, scatter_index: Any) -> Any:
    _check_combine(x, combine_weights, scatter_index)
    return _combined(x, combine_weights, scatter_index)


@rules.decompose("moe_combine_no_weight")
def moe_combine_no_weight(x: Any, combine_weight: Any, scatter_index: Any, epsilon: float) -> Any:
    _check_combine(x, combine_weight, scatter_index)
    counts = ops.stop_gradient(combine_weight) > epsilon
    return _combined(x, ops.cast(counts, x.dtype), scatter_index)


@rules.normalize("moe_gate_dispatch")
def moe_gate_dispatch_attrs(
    x: MetaTensor, gate_logits: MetaTensor, corr_bias: Any, k: int, capacity: int, use_pad: bool
) -> Any:
    if not use_pad:
        raise AttributeValueError(
            "without padding the rows of an expert are as many as it has tokens, which is not "
            "there; write use_pad=True"
        )
    if k < 1 or capacity < 1:
        raise AttributeValueError(f"k and capacity must be 1 or more, found {k} and {capacity}")
    return k, capacity, use_pad


@rules.decompose("moe_gate_dispatch")
def moe_gate_dispatch(
    x: Any, gate_logits: Any, corr_bias: Any, k: int, capacity: int, use_pad: bool
) -> Any:
    """First choices of all tokens come before second ones; who finds no room is left out."""
    check_rank(2, "[tokens, ...]", x=x, gate_logits=gate_logits)
    tokens, experts = gate_logits.meta.dims
    if not dm.may_equal(x.meta.dims[0], tokens):
        raise ShapeError(f"each token has logits, found {x.meta} and {gate_logits.meta}")
    scores = gate_logits
    if corr_bias is not None:
        scores = scores + ops.reshape(as_dtype(corr_bias, scores.dtype), (1, experts))
    chosen = ops.topk(ops.stop_gradient(scores), k, 1)[1]
    by_choice = ops.reshape(ops.transpose(chosen, (1, 0)), (tokens * k,))
    rank = _ranks(by_choice)
    fits = rank < capacity
    row = by_choice * capacity + rank
    y = _placed(ops.tile(x, (k, 1)), ops.where(fits, row, -1), experts * capacity)
    kept = ops.transpose(ops.reshape(fits, (k, tokens)), (1, 0))
    weights = ops.where(kept, ops.take_along_axis(gate_logits, chosen, 1), 0.0)
    index = ops.reshape(ops.where(fits, row, 0), (k, tokens))
    offset = ops.cumsum(counted(by_choice, 0, experts), 0)
    return y, weights, as_dtype(index, dt.int32), offset, as_dtype(chosen, dt.int32)


@rules.normalize("moe_gate_dispatch_permute")
def dispatch_permute_attrs(
    x: MetaTensor, gate_logits: MetaTensor, corr_bias: Any, k: int, capacity: int, world_size: int
) -> Any:
    moe_gate_dispatch_attrs(x, gate_logits, corr_bias, k, capacity, True)
    if world_size < 1:
        raise AttributeValueError(f"world_size must be 1 or more, found {world_size}")
    return k, capacity, world_size


@rules.decompose("moe_gate_dispatch_permute")
def moe_gate_dispatch_permute(
    x: Any, gate_logits: Any, corr_bias: Any, k: int, capacity: int, world_size: int
) -> Any:
    y, *rest = moe_gate_dispatch(x, gate_logits, corr_bias, k, capacity, True)
    experts, size = gate_logits.meta.dims[1], x.meta.dims[1]
    if dm.is_known(experts) and experts % world_size:
        raise ShapeError(
            f"each of {world_size} processes has as many experts, found {gate_logits.meta}; write "
            "a world_size that divides their number"
        )
    apart = ops.reshape(y, (world_size, experts // world_size, capacity, size))
    return (ops.transpose(apart, (1, 0, 2, 3)), *rest)


def _placed(rows: Any, at: Any, count: dm.DimLike) -> Any:
    """Rows put where ``at`` says, zeros elsewhere; -1 is nowhere."""
    last = ops.full((), count, dt.int64)
    where = ops.where(at < 0, last, at)
    out = nothing(rows, (count + 1, *rows.meta.dims[1:]))
    return ops.slice(ops.index_put(out, [where], rows, True, (0,)), [0], [0], [count])


# -- the loss that keeps experts equally busy ------------------------------------------------------
_LEAST_TOKENS = 1e-6


@rules.decompose("cal_aux_loss")
def cal_aux_loss(
    gate_prob: Any, dispatch_mask: Any, tokens_mask: Any, dispatch_tokens_mask: Any,
    num_experts: int, use_group: bool, moe_k: int, clip_min: float,
) -> Any:  # fmt: skip
    """experts * sum(share of tokens * mean probability), no gradient through the shares."""
    check_rank(2, "[tokens, experts]", gate_prob=gate_prob)
    if dispatch_mask.ndim not in (1, 2):
        raise ShapeError(f"dispatch_mask must be [experts], found {dispatch_mask.meta}")
    probs = widened(gate_prob)

    def total(mask: Any) -> Any:
        return ops.sum(ops.stop_gradient(as_dtype(mask, probs.dtype)))

    factor = None
    if dispatch_tokens_mask is not None:
        if not dispatch_tokens_mask.ndim:
            raise ShapeError(
                f"dispatch_tokens_mask must be [tokens], found {dispatch_tokens_mask.meta}"
            )
        count = total(dispatch_tokens_mask)
        fewer = tokens_mask is not None and not dm.same(
            gate_prob.meta.dims[0], dispatch_tokens_mask.meta.dims[0]
        )
        if fewer:
            factor = count / ops.maximum(total(tokens_mask), _LEAST_TOKENS)
    elif tokens_mask is not None:
        count = total(tokens_mask)
    else:
        count = ops.full((), gate_prob.meta.size, probs.dtype) / num_experts
    count = ops.maximum(count, clip_min)
    dispatched = ops.stop_gradient(as_dtype(dispatch_mask, probs.dtype))
    if dispatch_mask.ndim == 2:
        dispatched = ops.sum(dispatched, (0,))
    share = dispatched / count
    loss = ops.sum(ops.sum(probs, (0,)) / count * share) * num_experts
    if use_group:
        loss = loss / moe_k
    if factor is not None:  # a larger value, the gradient of the smaller one
        loss = loss + (factor - 1) * ops.stop_gradient(loss)
    return tuple(as_dtype(t, gate_prob.dtype) for t in (loss, count, share))


# -- numbers of experts ----------------------------------------------------------------------------
@rules.normalize("build_src_rank_and_local_expert_id")
def src_rank_attrs(counts: MetaTensor, expert_num_global: Any, num_local_experts: int) -> Any:
    if num_local_experts < 1 or min(expert_num_global, default=0) < 0:
        raise AttributeValueError(
            "expert_num_global are counts of tokens, and num_local_experts is 1 or more, found "
            f"{list(expert_num_global)} and {num_local_experts}"
        )
    return expert_num_global, num_local_experts


@rules.decompose("build_src_rank_and_local_expert_id")
def src_rank(expert_num_global_tensor: Any, expert_num_global: Any, num_local_experts: int) -> Any:
    """The sizes are those of the list; which tokens are whose, the tensor says."""
    check_ints(expert_num_global_tensor=expert_num_global_tensor)
    check_rank(1, "a vector", expert_num_global_tensor=expert_num_global_tensor)
    if not dm.may_equal(expert_num_global_tensor.meta.dims[0], len(expert_num_global)):
        raise ShapeError(
            f"the tensor and the list of {len(expert_num_global)} numbers say the same, found "
            f"{expert_num_global_tensor.meta}"
        )
    total = sum(expert_num_global)
    ends = ops.cumsum(as_int64(expert_num_global_tensor), 0)
    passed = ops.reshape(numbers(total), (total, 1)) >= ends
    expert = ops.sum(ops.cast(passed, dt.int64), (1,))
    each = ops.full((), num_local_experts, dt.int64)
    found = (ops.floor_divide(expert, each), ops.remainder(expert, each))
    return tuple(as_dtype(t, dt.int32) for t in found)


@rules.decompose("expand_modality_expert_id")
def expand_modality_expert_id(
    expert_id: Any, num_expert_per_modality: int, group_size: int, modality_offset: int,
    is_group_expert: bool,
) -> Any:  # fmt: skip
    check_ints(expert_id=expert_id)
    check_rank(2, "[tokens, k]", expert_id=expert_id)
    out = as_int64(expert_id)
    if is_group_expert:
        out = out + numbers(expert_id.meta.dims[1]) * group_size
    if num_expert_per_modality > 0:
        each = ops.full((), num_expert_per_modality, dt.int64)
        own = ops.floor_divide(out, each) * (2 * num_expert_per_modality)
        out = own + ops.remainder(out, each) + modality_offset * num_expert_per_modality
    return as_dtype(out, expert_id.dtype)


# -- rows of experts side by side ------------------------------------------------------------------
def _region_starts(counts: Any, alignment: int) -> list[int]:
    """Where the rows of each expert begin, and where the last end."""
    sizes = [-(-n // alignment) * alignment for n in counts]
    return [0, *(int(end) for end in np.cumsum(sizes, dtype=np.int64))]


@rules.normalize("moe_permute")
def moe_permute_attrs(*args: Any) -> Any:
    num_experts, counts, alignment, do_gather, ue8m0, with_indices, buffer_size = args[4:]
    if len(counts) != num_experts or min(counts, default=0) < 0:
        raise AttributeValueError(
            f"tokens_per_expert has a count for each of {num_experts} experts, found {list(counts)}"
        )
    if alignment < 1:
        raise AttributeValueError(f"padding_alignment must be 1 or more, found {alignment}")
    if ue8m0:
        raise AttributeValueError("8-bit scales are not there; leave using_ue8m0_scale False")
    return num_experts, counts, alignment, do_gather, ue8m0, with_indices, buffer_size


@rules.decompose("moe_permute")
def moe_permute(
    hidden_states: Any, scale: Any, expert_routemap_topk: Any, expert_prob_topk: Any,
    num_experts: int, tokens_per_expert: Any, padding_alignment: int, do_gather: bool,
    using_ue8m0_scale: bool, return_expert_indices: bool, override_buffer_size: int,
) -> Any:  # fmt: skip
    """The rows of an expert are in the order of the tokens, then zeros up to the alignment."""
    check_ints(expert_routemap_topk=expert_routemap_topk)
    choices = {"expert_routemap_topk": expert_routemap_topk, "expert_prob_topk": expert_prob_topk}
    check_rank(2, "[tokens, ...]", hidden_states=hidden_states, **choices)
    _check_same(expert_routemap_topk, expert_prob_topk, "each choice has a probability")
    if not dm.may_equal(hidden_states.meta.dims[0], expert_routemap_topk.meta.dims[0]):
        raise ShapeError(
            f"each token has choices, found {hidden_states.meta} and {expert_routemap_topk.meta}"
        )
    starts = _region_starts(tokens_per_expert, padding_alignment)
    rows = starts[-1] if override_buffer_size < 0 else override_buffer_size
    if rows < starts[-1]:
        raise AttributeValueError(
            f"override_buffer_size {rows} is less than the {starts[-1]} rows there are"
        )
    choice = as_int64(expert_routemap_topk)
    tokens = expert_routemap_topk.meta.dims[0]
    taken = ops.unsqueeze(choice, (2,)) == numbers(num_experts)  # [tokens, choices, experts]
    goes = ops.any(taken, (1,))
    first = ops.stack([ops.full((), at, dt.int64) for at in starts[:-1]], 0)
    rank = ops.cumsum(ops.cast(goes, dt.int64), 0) - 1
    room = ops.stack([ops.full((), n, dt.int64) for n in tokens_per_expert], 0)
    rowmap = ops.where(goes & (rank < room), first + rank, -1)
    flat = ops.reshape(rowmap, (tokens * num_experts,))

    def in_rows(values: Any) -> Any:
        """What broadcasts to [tokens, experts], where its rows are; 0 in the padding."""
        wide = ops.expand(values, (tokens, num_experts))
        return _placed(ops.reshape(wide, (tokens * num_experts,)), flat, rows)

    probs = ops.where(taken, ops.unsqueeze(expert_prob_topk, (2,)), 0.0)
    prob = in_rows(ops.sum(probs, (1,)))
    source = in_rows(ops.reshape(numbers(tokens), (tokens, 1)) + 1) - 1  # -1: padding

    def spread(values: Any) -> Any:
        if values is None or not do_gather:
            return ops.full((0,), 0, dt.float32 if values is None else values.dtype)
        return masked(source >= 0, ops.gather(values, ops.maximum(source, 0), 0))

    experts = ops.full((0,), 0, dt.int64)
    if return_expert_indices:
        experts = in_rows(numbers(num_experts) + 1) - 1
    return (
        spread(hidden_states), as_dtype(rowmap, dt.int32), prob, spread(scale),
        as_dtype(experts, dt.int32),
    )  # fmt: skip


@rules.indices("moe_unpermute")
def unpermute_indices(x: MetaTensor, rowmap: Any, routes: Any, *rest: Any) -> list[IndexRange]:
    def named(name: str, sizes: Any, what: str) -> IndexRange:
        return IndexRange(name, sizes, what, counts_back=False, ignored=-1)

    if not x.ndim or rowmap.ndim != 2:
        return []
    return [
        named("zipped_expertwise_rowmap", x.dims[:1], "the rows of hidden_states_unzipped,"),
        named("expert_routemap_topk", rowmap.dims[1:], "the experts,"),
    ]


@rules.decompose("moe_unpermute")
def moe_unpermute(
    hidden_states_unzipped: Any, zipped_expertwise_rowmap: Any, expert_routemap_topk: Any,
    token_prob_unzipped: Any, total_zipped_tokens_num: int, num_experts: int,
    use_mix_precision: bool, using_weighted_combine: bool,
) -> Any:  # fmt: skip
    """The sum of the rows of each token, and the probabilities of its choices."""
    check_ints(zipped_expertwise_rowmap=zipped_expertwise_rowmap,
                expert_routemap_topk=expert_routemap_topk)  # fmt: skip
    check_rank(2, "[tokens, ...] or [rows, ...]", hidden_states_unzipped=hidden_states_unzipped,
                zipped_expertwise_rowmap=zipped_expertwise_rowmap,
                expert_routemap_topk=expert_routemap_topk)  # fmt: skip
    check_rank(1, "[rows]", token_prob_unzipped=token_prob_unzipped)
    rowmap = as_int64(zipped_expertwise_rowmap)
    wanted = (total_zipped_tokens_num, num_experts)
    if not all(map(dm.may_equal, rowmap.meta.dims, wanted)):
        raise ShapeError(
            f"zipped_expertwise_rowmap must be {list(wanted)}, [tokens, experts], found "
            f"{zipped_expertwise_rowmap.meta}"
        )
    x = hidden_states_unzipped
    there = rowmap >= 0
    at = ops.maximum(rowmap, 0)
    rows = masked(there, ops.gather(widened(x) if use_mix_precision else x, at, 0))
    if using_weighted_combine:
        weights = as_dtype(ops.gather(token_prob_unzipped, at, 0), rows.dtype)
        rows = rows * ops.unsqueeze(weights, (2,))
    tokens = as_dtype(ops.sum(rows, (1,)), x.dtype)
    choice = as_int64(expert_routemap_topk)
    own = ops.take_along_axis(rowmap, ops.maximum(choice, 0), 1)
    probs = ops.gather(token_prob_unzipped, ops.maximum(own, 0), 0)
    return tokens, masked((choice >= 0) & (own >= 0), probs)
