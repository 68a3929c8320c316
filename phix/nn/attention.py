"""Attention."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.errors import ArgumentError, ShapeError
from phix.core.expectations import expect_within
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor, is_zero
from phix.nn.layers import dropout


@takes()
def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    scale: FloatLike | None = None,
    enable_gqa: bool = True,
    dropout_key: TensorLike | None = None,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value for each head.

    Args:
        query: [n, queries, heads, size].
        key, value: [n, keys, heads, size]; with enable_gqa their heads may be fewer, each serving
            as many heads of the query.
        attn_mask: broadcasts to [n, heads, queries, keys]: bool, True where a key is seen, or
            numbers to add.
        dropout_p: the probability of a weight to be dropped in training.
        is_causal: query i sees the keys up to i alone.
        training: whether weights are dropped.
        scale: by default 1 / sqrt(size).
        enable_gqa: see key.
        dropout_key: the key of the draw, needed if weights are dropped.

    Returns:
        [n, queries, heads, size of value]; a query that sees no key gives NaN.

    Raises:
        ShapeError: an input without 4 axes, or heads or a mask that do not fit.
        ArgumentError: attn_mask beside is_causal, or no key for the dropout.

    >>> import phix
    >>> x = phix.ones([1, 3, 2, 4])
    >>> phix.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    (1, 3, 2, 4)
    """
    if attn_mask is not None and is_causal:
        raise ArgumentError(
            "scaled_dot_product_attention: attn_mask and is_causal exclude each other; put the "
            "causal triangle into the mask"
        )
    q, k, v = (_heads_first(as_tensor(t)) for t in (query, key, value))
    k, v = (_repeated(t, q.shape[1], enable_gqa) for t in (k, v))
    factor = _root_of_size(q) if scale is None else scale
    scores = ops.matmul(q * factor, k, False, True)
    scores = _masked(scores, attn_mask, is_causal)
    weights = ops.softmax(scores, -1)
    if training and not is_zero(dropout_p):
        weights = dropout(weights, dropout_p, key=dropout_key)
    return ops.transpose(ops.matmul(weights, v), [0, 2, 1, 3])


def _heads_first(x: Any) -> Any:
    if x.ndim != 4:
        raise ShapeError(
            f"scaled_dot_product_attention: inputs are [n, length, heads, size], found {x.meta}"
        )
    return ops.transpose(x, [0, 2, 1, 3])


def _repeated(x: Any, heads: dm.DimLike, enable_gqa: bool) -> Any:
    """Each head of x as often as it takes to have ``heads`` of them."""
    n, have, length, size = x.shape
    if dm.same(have, heads):
        return x
    times = dm.divide_exact(heads, have)
    if not enable_gqa or times is None:
        raise ShapeError(
            f"scaled_dot_product_attention: {dm.dim_text(have)} heads of key and value do not "
            f"serve {dm.dim_text(heads)} heads of the query evenly"
        )
    wide = ops.expand(ops.reshape(x, [n, have, 1, length, size]), [n, have, times, length, size])
    return ops.reshape(wide, [n, heads, length, size])


def _root_of_size(x: Any) -> Any:
    size = x.shape[-1]
    if isinstance(size, int):
        return 1 / math.sqrt(size)
    return ops.rsqrt(ops.full((), size, x.dtype))


def _masked(scores: Any, mask: TensorLike | None, is_causal: bool) -> Any:
    if is_causal:
        rows, columns = scores.shape[-2:]
        mask = ops.reshape(ops.arange(0, rows, 1, dt.int64), [rows, 1]) >= ops.arange(
            0, columns, 1, dt.int64
        )
    if mask is None:
        return scores
    seen, dims = as_tensor(mask), scores.meta.dims
    refusal = (
        "scaled_dot_product_attention: attn_mask broadcasts to [n, heads, queries, keys], "
        f"{dm.shape_text(dims)}, found {seen.meta}"
    )
    seen = expect_within(seen, refusal, dims)
    return ops.where(seen, scores, float("-inf")) if seen.dtype == dt.bool_ else scores + seen
