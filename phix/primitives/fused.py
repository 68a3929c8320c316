"""Ops that name several others at once: composites, which the engines' passes fuse as any."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dispatch, rules
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.rules import OPS
from phix.primitives import random as rand
from phix.primitives.positions import masked, numbers
from phix.primitives.widening import as_dtype, in_float32, widened


# -- softmax of masked scores --------------------------------------------------------------------
@rules.decompose("fused_softmax_mask")
@in_float32
def fused_softmax_mask(x: Any, mask: Any) -> Any:
    _check_scores(x, "x")
    if mask.ndim != 4 or not all(
        dm.is_one(m) or dm.may_equal(m, d) for m, d in zip(mask.meta.dims, x.meta.dims)
    ):
        raise ShapeError(f"mask must broadcast to {x.meta}, found {mask.meta}; reshape it")
    return ops.softmax(x + mask, -1)


@rules.decompose("fused_softmax_mask_upper_triangle")
@in_float32
def fused_softmax_mask_upper_triangle(X: Any) -> Any:
    _check_scores(X, "X")
    rows, columns = X.meta.dims[-2:]
    if not dm.may_equal(rows, columns):
        raise ShapeError(f"X must have as many queries as keys, found {X.meta}")
    in_order = ops.reshape(numbers(rows), (rows, 1)) >= numbers(columns)
    return ops.softmax(ops.where(in_order, X, float("-inf")), -1)


def _check_scores(x: Any, name: str) -> None:
    if x.ndim != 4:
        raise ShapeError(
            f"{name} must be [batch, heads, queries, keys], found {x.meta}; reshape it"
        )


# -- normalisations ------------------------------------------------------------------------------
def _whole(op_name: str, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """All outputs of an op, those too that its public function leaves out."""
    return dispatch.bind(OPS[op_name], inputs, attrs)


@rules.normalize("fused_batch_norm_act")
@rules.normalize("fused_bn_add_activation")
def batch_norm_act_attrs(*args: Any) -> Any:
    momentum, epsilon, act_type = args[-3:]
    if act_type != "relu":
        raise AttributeValueError(
            f"act_type must be 'relu', found {act_type!r}; apply others after"
        )
    return momentum, epsilon, act_type


@rules.decompose("fused_batch_norm_act")
def fused_batch_norm_act(
    x: Any, scale: Any, bias: Any, mean: Any, variance: Any, momentum: float, epsilon: float,
    act_type: str,
) -> Any:  # fmt: skip
    out, *rest = ops.batch_norm(x, mean, variance, scale, bias, False, momentum, epsilon, "NHWC")
    return ops.relu(out), *rest


@rules.decompose("fused_bn_add_activation")
def fused_bn_add_activation(
    x: Any, z: Any, scale: Any, bias: Any, mean: Any, variance: Any, momentum: float,
    epsilon: float, act_type: str,
) -> Any:  # fmt: skip
    dims = x.meta.dims
    if z.ndim != x.ndim or not all(map(dm.may_equal, z.meta.dims, dims)):
        raise ShapeError(
            f"z is added to the normalised x: it must be like {x.meta}, found {z.meta}"
        )
    out, *rest = ops.batch_norm(x, mean, variance, scale, bias, False, momentum, epsilon, "NHWC")
    return ops.relu(out + z), *rest


def _row_count(x: Any) -> dm.DimLike:
    if not x.ndim:
        raise ShapeError(f"{x.meta} has no axis to normalise over; reshape it to [1] first")
    return dm.product(x.meta.dims[:-1])


@rules.decompose("fast_ln")
def fast_ln(x: Any, scale: Any, bias: Any, epsilon: float) -> Any:
    rows = _row_count(x)
    y, mean, variance = _whole("layer_norm", (x, scale, bias), (epsilon, x.ndim - 1))
    return y, ops.reshape(mean, (rows,)), ops.reshape(ops.rsqrt(variance + epsilon), (rows,))


@rules.decompose("fast_rms_norm")
@rules.decompose("fused_rms_norm_ext")
def fast_rms_norm(x: Any, scale: Any, epsilon: float) -> Any:
    rows = _row_count(x)
    quant = (-1.0, 0, 0.0, 0.0)
    y, _, inverse = _whole("rms_norm", (x, None, None, scale, None), (epsilon, x.ndim - 1, *quant))
    return y, ops.reshape(inverse, (rows,))


@rules.normalize("fused_rms_norm_quant")
def fused_rms_norm_quant_attrs(*args: Any) -> Any:
    *rest, scale, round_type, high, low = args[5:]
    if scale > 0 and (not -128 <= low < high <= 127 or round_type not in (0, 1)):
        raise AttributeValueError(
            "a quantised result is int8: the bounds must be from -128 to 127, found "
            f"quant_min_bound {low} and quant_max_bound {high}, and quant_round_type 0 (half to "
            f"even) or 1 (half away from 0), found {round_type}"
        )
    return *rest, scale, round_type, high, low


@rules.decompose("fused_rms_norm_quant")
def fused_rms_norm_quant(
    x: Any, bias: Any, residual: Any, norm_weight: Any, norm_bias: Any, epsilon: float,
    begin_norm_axis: int, quant_scale: float, quant_round_type: int, quant_max_bound: float,
    quant_min_bound: float,
) -> Any:  # fmt: skip
    quantises = quant_scale > 0
    given: Any = [
        t if t is None else widened(t) for t in (x, bias, residual, norm_weight, norm_bias)
    ]
    begin = begin_norm_axis + x.ndim if begin_norm_axis < 0 else begin_norm_axis
    args: Any = (*given, epsilon, begin)
    out, residual_out = ops.rms_norm(*args)
    residual_out = as_dtype(residual_out, x.dtype)
    if not quantises:
        return as_dtype(out, x.dtype), residual_out
    scaled = out * (quant_scale * quant_max_bound)
    if quant_round_type == 0:
        whole = ops.round(scaled)
    else:
        whole = ops.sign(scaled) * ops.floor(ops.abs(scaled) + 0.5)
    return ops.cast(ops.clip(whole, quant_min_bound, quant_max_bound), dt.int8), residual_out


# -- products ------------------------------------------------------------------------------------
_EPILOGUES = ("none", "relu", "gelu")


@rules.normalize("fused_gemm_epilogue")
def fused_gemm_epilogue_attrs(
    x: Any, y: Any, bias: Any, trans_x: bool, trans_y: bool, activation: str
) -> Any:
    if activation not in _EPILOGUES:
        raise AttributeValueError(
            f"activation must be one of {', '.join(_EPILOGUES)}, found {activation!r}"
        )
    return trans_x, trans_y, activation


@rules.decompose("fused_gemm_epilogue")
def fused_gemm_epilogue(
    x: Any, y: Any, bias: Any, trans_x: bool, trans_y: bool, activation: str
) -> Any:
    if y.ndim != 2 or x.ndim < 2 or bias.ndim != 1:
        raise ShapeError(
            "x has two axes at least, y two, and bias is a vector, found "
            f"{x.meta}, {y.meta} and {bias.meta}"
        )
    if trans_x and x.ndim > 2:  # all but the last axis are the rows of one matrix
        dims = x.meta.dims
        x = ops.reshape(x, (dm.product(dims[:-1]), dims[-1]))
    total = ops.matmul(x, y, trans_x, trans_y) + bias
    if activation == "none":
        return total, ops.full((0,), 0, x.dtype)
    return ops.relu(total) if activation == "relu" else ops.gelu(total, True), total


@rules.decompose("batched_gemm")
def batched_gemm(lhs: Any, rhs: Any, batch_sizes: Any, trans_lhs: bool, trans_rhs: bool) -> Any:
    """One product a group; their number is that of the list, not of the rows."""
    if lhs.ndim != 2 or rhs.ndim != (2 if trans_lhs else 3):
        raise ShapeError(
            "lhs must be [rows, size], and rhs [groups, size, columns], or [rows, columns] with "
            f"trans_lhs, found {lhs.meta} and {rhs.meta}"
        )
    total = sum(batch_sizes)
    groups = len(batch_sizes)
    rows = lhs.meta.dims[0]
    wanted = (total, rhs.meta.dims[0]) if trans_lhs else (total, groups)
    if min(batch_sizes, default=0) < 0 or not (
        dm.may_equal(rows, wanted[0])
        and dm.may_equal(rhs.meta.dims[0], wanted[0 if trans_lhs else 1])
    ):
        raise ShapeError(
            f"batch_sizes {list(batch_sizes)} must be {groups} counts of rows whose sum is that of "
            f"the rows, found {lhs.meta} and {rhs.meta}"
        )
    if trans_lhs and trans_rhs:
        raise AttributeValueError("with trans_lhs rhs has rows too: leave trans_rhs False")
    if not groups:
        raise AttributeValueError("batch_sizes names no group; write one count at least")
    found, at = [], 0
    for number, size in enumerate(batch_sizes):
        own = ops.slice(lhs, [0], [at], [at + size])
        if trans_lhs:
            found.append(ops.matmul(own, ops.slice(rhs, [0], [at], [at + size]), True, False))
        else:
            found.append(ops.matmul(own, rhs[number], False, trans_rhs))
        at += size
    return ops.stack(found, 0) if trans_lhs else ops.concat(found, 0)


# -- positions -----------------------------------------------------------------------------------
@rules.decompose("add_position_encoding")
@in_float32
def add_position_encoding(x: Any, alpha: float, beta: float) -> Any:
    """Sines in the first half of each row, cosines in the second, of falling frequencies."""
    if x.ndim != 3:
        raise ShapeError(f"x must be [batch, sequence, size], found {x.meta}; reshape it")
    _, rows, size = x.meta.dims
    if isinstance(size, int) and size % 2:
        raise ShapeError(f"x must have an even last dim, found {x.meta}; pad it")
    half = dm.floordiv(size, 2)
    wide = dt.float64 if x.dtype == dt.float64 else dt.float32
    at = as_dtype(ops.reshape(numbers(rows), (rows, 1)), wide)
    count = ops.full((), half, wide)
    part = as_dtype(numbers(half), wide) / ops.maximum(count - 1, 1.0)
    part = ops.where(count > 1, part, 1.0)
    angle = at * ops.exp(part * -math.log(10000.0))
    waves = ops.concat([ops.sin(angle), ops.cos(angle)], 1)
    return x * alpha + as_dtype(waves, x.dtype) * beta


# -- sampling ------------------------------------------------------------------------------------
_TOP_P_MODES = ("truncate", "truncated")


@rules.normalize("top_p_sampling")
def top_p_sampling_attrs(
    x: Any, ps: Any, threshold: Any, topp_seed: Any, seed: int, k: int, mode: str
) -> Any:
    if mode not in _TOP_P_MODES:
        raise AttributeValueError(f"mode must be {' or '.join(_TOP_P_MODES)}, found {mode!r}")
    if k < 0:
        raise AttributeValueError(f"k must be 0 or more, found {k}")
    if topp_seed is None and seed < 0:
        raise ArgumentError(
            "sampling needs a key, since there is no hidden random state: pass "
            "phix.random.key(number) as topp_seed, or a seed from 0 on"
        )
    return seed, k, mode


@rules.decompose("top_p_sampling")
def top_p_sampling(
    x: Any, ps: Any, threshold: Any, topp_seed: Any, seed: int, k: int, mode: str
) -> Any:
    """The first of the sorted scores up to which they sum to u p, u uniform in [0, 1)."""
    if x.ndim != 2:
        raise ShapeError(f"x must be [batch, scores], found {x.meta}; reshape it")
    batch = x.meta.dims[0]
    key = topp_seed
    if key is None:
        words = [ops.full((1,), seed >> shift & 0xFFFFFFFF, dt.uint32) for shift in (32, 0)]
        key = ops.concat(words, 0)
    rand.check_key(key.meta)
    if key.ndim != 1:
        raise ShapeError(f"topp_seed is one key, uint32[2], found {key.meta}; use vmap")
    scores, order = ops.argsort(widened(x), 1, True)
    drawn = rand.unit_uniform(key, (batch, 1), scores.dtype) * _column(ps, batch, scores.dtype)
    ahead = ops.cumsum(scores, 1) <= drawn * ops.sum(scores, (1,), keepdim=True)
    at = ops.sum(ops.cast(ahead, dt.int64), (1,), keepdim=True)
    allowed = ops.full(scores.meta.dims, True, dt.bool_)
    if threshold is not None:
        allowed = scores >= _column(threshold, batch, scores.dtype)
    last = ops.sum(ops.cast(allowed, dt.int64), (1,), keepdim=True) - 1
    at = ops.maximum(ops.minimum(at, last), 0)
    ids = ops.take_along_axis(order, at, 1)
    best = ops.slice(scores, [1], [0], [k]), ops.slice(order, [1], [0], [k])
    return ops.take_along_axis(x, ids, 1), ids, as_dtype(best[0], x.dtype), best[1]


def _column(values: Any, batch: dm.DimLike, dtype: Any) -> Any:
    dims = values.meta.dims
    if (
        values.ndim not in (1, 2)
        or not dm.may_equal(dims[0], batch)
        or (values.ndim == 2 and not dm.may_equal(dims[1], 1))
    ):
        raise ShapeError(
            f"there is one number a row, [{dm.dim_text(batch)}, 1], found {values.meta}"
        )
    return as_dtype(ops.reshape(values, (batch, 1)), dtype)


# -- attention over the places that columns name -------------------------------------------------
@rules.indices("sparse_attention")
def sparse_attention_indices(q: Any, k: Any, *rest: Any) -> list[IndexRange]:
    if k.ndim != 4:
        return []
    return [IndexRange("columns", k.dims[2:3], "the keys,", counts_back=False)]


@rules.decompose("sparse_attention")
def sparse_attention(
    q: Any, k: Any, v: Any, offset: Any, columns: Any, key_padding_mask: Any, attn_mask: Any
) -> Any:
    """Scores at the named places alone; a row's softmax goes by scatters over its places."""
    batch, heads, rows, size = _check_sparse(q, k, v, offset, columns)
    places = columns.meta.dims[-1]
    row, is_place = _rows_of_places(offset, batch, heads, rows, places)
    column = as_int64(columns)

    def at(x: Any, index: Any) -> Any:
        return ops.take_along_axis(x, ops.unsqueeze(index, (-1,)), 2)

    wide = [widened(t) for t in (q, k, v)]
    inverse = ops.rsqrt(ops.full((), size, wide[0].dtype))
    dots = ops.sum(at(wide[0], row) * at(wide[1], column), (-1,)) * inverse
    seen = is_place
    if key_padding_mask is not None:
        padding = ops.reshape(key_padding_mask, (batch, 1, rows))
        padding = ops.expand(padding, (batch, heads, rows))
        seen = seen & (ops.take_along_axis(padding, column, 2) != 0)
    if attn_mask is not None:
        pairs = ops.stack([row, column], -1)
        seen = seen & (ops.gather_nd(attn_mask, pairs) != 0)
    weights = _row_softmax(dots, seen, row, (batch, heads, rows))
    terms = ops.unsqueeze(weights, (-1,)) * at(wide[2], column)
    nothing = ops.full(v.meta.dims, 0, terms.dtype)
    where = ops.expand(ops.unsqueeze(row, (-1,)), terms.meta.dims)
    out = ops.put_along_axis(nothing, where, terms, 2, "add")
    dots = masked(is_place, dots)
    return tuple(as_dtype(t, q.dtype) for t in (out, dots, weights))


def _row_softmax(scores: Any, seen: Any, row: Any, dims: dm.Shape) -> Any:
    least = ops.full(dims, float("-inf"), scores.dtype)
    top = ops.put_along_axis(least, row, ops.where(seen, scores, float("-inf")), 2, "amax")
    top = ops.stop_gradient(ops.where(ops.isinf(top), 0.0, top))
    own = ops.where(seen, scores - ops.take_along_axis(top, row, 2), float("-inf"))
    powers = ops.exp(own)
    totals = ops.put_along_axis(ops.full(dims, 0, scores.dtype), row, powers, 2, "add")
    total = ops.take_along_axis(totals, row, 2)
    return powers / ops.where(total > 0, total, 1.0)


def _rows_of_places(offset: Any, batch: Any, heads: Any, rows: Any, places: Any) -> tuple[Any, Any]:
    """The row of each place, and whether it is one: what lies behind the last offset is none."""
    marks = as_int64(offset)
    ends = ops.slice(marks, [2], [1], [rows])  # a row begins where the one before it ends
    steps = ops.full((batch, heads, places + 1), 0, dt.int64)
    one = ops.full((), 1, dt.int64)
    limit = ops.full((), places, dt.int64)
    steps = ops.put_along_axis(steps, ops.minimum(ends, limit), one, 2, "add")
    row = ops.slice(ops.cumsum(steps, 2), [2], [0], [places])
    is_place = numbers(places) < ops.slice(marks, [2], [rows], [rows + 1])
    return row, is_place


def _check_sparse(q: Any, k: Any, v: Any, offset: Any, columns: Any) -> dm.Shape:
    dims = q.meta.dims
    like = all(t.ndim == 4 and all(map(dm.may_equal, t.meta.dims, dims)) for t in (q, k, v))
    if not like or offset.ndim != 3 or columns.ndim != 3:
        raise ShapeError(
            "q, k and v are [batch, heads, sequence, size], offset and columns [batch, heads, .], "
            f"found {q.meta}, {k.meta}, {v.meta}, {offset.meta} and {columns.meta}"
        )
    if not dm.may_equal(offset.meta.dims[2], dims[2] + 1):
        raise ShapeError(
            f"offset says where each of the {dm.dim_text(dims[2])} rows begins and the last ends, "
            f"found {offset.meta}"
        )
    return dims
