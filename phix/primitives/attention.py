"""Attention: one op for backends with a kernel for it, products and a softmax for all others."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.broadcasting import check_fits, unbroadcast
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.widening import as_dtype, widened


@rules.infer_meta("AttentionInferMeta")
def attention_meta(
    query: MetaTensor,
    key: MetaTensor,
    value: MetaTensor,
    mask: MetaTensor | None,
    scale: float,
    causal: bool,
) -> MetaTensor:
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            "query, key and value are [..., queries or keys, size], found "
            f"{query}, {key} and {value}; reshape them"
        )
    for what, a, b in (
        ("query and key have one size", query.dims[-1], key.dims[-1]),
        ("key and value have as many rows", key.dims[-2], value.dims[-2]),
    ):
        if not dm.may_equal(a, b):
            raise ShapeError(
                f"{what}, found {query}, {key} and {value}; make {dm.dim_text(a)} and "
                f"{dm.dim_text(b)} agree"
            )
    lead = broadcast_shapes(query.dims[:-2], key.dims[:-2])
    if mask is not None:
        if dt.kind(mask.dtype) not in ("bool", "float"):
            raise DTypeError(f"mask holds bools, or numbers to add, found {mask}; cast it to bool")
        check_fits(mask, (*lead, query.dims[-2], key.dims[-2]), "mask")
    return query.with_dims(
        (*broadcast_shapes(lead, value.dims[:-2]), query.dims[-2], value.dims[-1])
    )


def _weights(query: Any, key: Any, mask: Any, scale: float, causal: bool) -> Any:
    """What each query gives to each key. The backward makes the same equations, which then run
    once."""
    scores = widened(ops.matmul(query * scale, key, False, True))
    unseen = float("-inf")
    if causal:
        rows, columns = scores.meta.dims[-2:]
        row_numbers = ops.reshape(ops.arange(0, rows, 1, dt.int64), (rows, 1))
        seen = row_numbers >= ops.arange(0, columns, 1, dt.int64)
        scores = ops.where(seen, scores, unseen)
    if mask is not None:
        if mask.dtype == dt.bool_:
            scores = ops.where(mask, scores, unseen)
        else:
            scores = scores + as_dtype(mask, scores.dtype)
    return ops.softmax(scores, -1)


@rules.decompose("attention")
def attention(query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool) -> Any:
    weights = _weights(query, key, mask, scale, causal)
    return ops.matmul(as_dtype(weights, value.dtype), value)


@rules.decompose("attention_grad")
def attention_grad(
    query: Any, key: Any, value: Any, mask: Any, out_grad: Any, scale: float, causal: bool
) -> Any:
    weights = _weights(query, key, mask, scale, causal)
    to_value = ops.matmul(as_dtype(weights, value.dtype), out_grad, True, False)
    to_weights = widened(ops.matmul(out_grad, value, False, True))
    weighted = weights * to_weights
    to_scores = weighted - weights * ops.sum(weighted, (-1,), keepdim=True)
    narrow = as_dtype(to_scores, query.dtype)
    to_query = ops.matmul(narrow, key) * scale
    to_key = ops.matmul(narrow, query * scale, True, False)
    to_mask = None
    if mask is not None and dt.is_float(mask.dtype):
        to_mask = as_dtype(unbroadcast(to_scores, mask), mask.dtype)
    return (
        unbroadcast(to_query, query), unbroadcast(to_key, key), unbroadcast(to_value, value),
        to_mask,
    )  # fmt: skip


@rules.batch("attention")
def attention_batch(
    batched: Any, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool
) -> Any:
    """The batch is one more leading axis, in front of all that any operand has."""
    given = zip((query, key, value, mask), batched)
    rank = max(0 if t is None else t.ndim - is_batched for t, is_batched in given)
    if batched[3] and not (batched[0] or batched[1]):  # a mask broadcasts, it adds no axes
        query = ops.expand(
            query, (mask.meta.dims[0], *(1,) * (rank - query.ndim), *query.meta.dims)
        )
    tensors = zip((query, key, value, mask), batched)
    query, key, value, mask = (_in_front(t, rank) if b else t for t, b in tensors)
    return ops.attention(query, key, value, mask, scale, causal)


@rules.batch("attention_grad")
def attention_grad_batch(batched: Any, *args: Any) -> Any:
    """Each lane has gradients of its own, also to what all lanes share: that is repeated."""
    *given, scale, causal = args
    size = next(t.meta.dims[0] for t, is_batched in zip(given, batched) if is_batched)
    tensors = [
        t if t is None or is_batched else ops.expand(t, (size, *t.meta.dims))
        for t, is_batched in zip(given, batched)
    ]
    rank = max(t.ndim - 1 for t in tensors if t is not None)
    aligned: list[Any] = [None if t is None else _in_front(t, rank) for t in tensors]
    q, k, v, mask, cotangent = aligned
    found = ops.attention_grad(q, k, v, mask, cotangent, scale, causal)
    return tuple(None if g is None else ops.reshape(g, t.meta.dims) for g, t in zip(found, tensors))


def _in_front(x: Any, rank: int) -> Any:
    """``x`` with its batch in front of ``rank`` axes."""
    size, *dims = x.meta.dims
    return ops.reshape(x, (size, *(1,) * (rank - len(dims)), *dims))


# -- what each key gets in all -----------------------------------------------------------------
def _check_reduced(q: MetaTensor, k: MetaTensor, softmax_lse: MetaTensor) -> None:
    if (q.ndim, k.ndim, softmax_lse.ndim) != (4, 4, 3):
        raise ShapeError(
            "q and k must be [batch, tokens, heads, size] and softmax_lse [batch, heads, queries], "
            f"found {q}, {k} and {softmax_lse}"
        )
    batch, queries, heads, size = q.dims
    have, least = softmax_lse.dims, softmax_lse.dims[2]
    fits = all(map(dm.may_equal, (batch, batch, heads, size), (k.dims[0], *have[:2], k.dims[3])))
    if isinstance(queries, int) and isinstance(least, int):
        fits = fits and queries <= least
    others = k.dims[2]
    if isinstance(heads, int) and isinstance(others, int):
        fits = fits and others > 0 and heads % others == 0
    if not fits:
        raise ShapeError(
            "q, k and softmax_lse must agree in batch, heads and size, and softmax_lse have a "
            f"number for each query; found {q}, {k} and {softmax_lse}"
        )


@rules.decompose("calc_reduced_attn_scores")
def calc_reduced_attn_scores(q: Any, k: Any, softmax_lse: Any) -> Any:
    _check_reduced(q.meta, k.meta, softmax_lse.meta)
    wide, keys = widened(q), widened(k)
    batch, queries, heads, size = q.meta.dims
    _, rows, groups, _ = k.meta.dims
    shared = heads // groups
    scale = ops.rsqrt(ops.full((), size, wide.dtype))
    left = ops.reshape(
        ops.transpose(wide * scale, [0, 2, 1, 3]), (batch, groups, shared, queries, size)
    )
    right = ops.reshape(ops.transpose(keys, [0, 2, 3, 1]), (batch, groups, 1, size, rows))
    scores = ops.reshape(ops.matmul(left, right), (batch, heads, queries, rows))
    lse = as_dtype(softmax_lse[:, :, :queries], scores.dtype)
    weights = ops.exp(scores - ops.reshape(lse, (batch, heads, queries, 1)))
    return ops.sum(weights, [2], keepdim=True)
