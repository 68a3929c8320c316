"""Attention with more ways to say what is seen: bounds of columns, windows, lengths in use."""

from __future__ import annotations

import dataclasses
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, ShapeError, UnknownDimError
from phix.core.index_ranges import as_int64
from phix.core.value_ranges import Lengths, ValueRange
from phix.primitives.flash_attention import (
    Dropout,
    Segments,
    View,
    behind,
    check_rows,
    checked_mask,
    named_outputs,
    row_offsets,
    rows_attended,
    scaled,
    segment_view,
    segments,
    within_window,
)
from phix.primitives.positions import numbers


# -- masks of columns ----------------------------------------------------------------------------
def _hidden_view(indices: Any, rows: dm.DimLike, columns: dm.DimLike, causal: bool) -> View:
    """What is seen where, for each key, two or four bounds name the queries that do not see it.

    Causal, they are [start] or [start, end) of rows below the diagonal; else [start, end) below
    and [start, end) above it, where one number each means: to the last row, and from the first.
    """
    if dt.kind(indices.dtype) != "int" or indices.ndim != 4:
        raise ShapeError(
            "startend_row_indices must be ints [batch, heads, keys, 1, 2 or 4], found "
            f"{indices.meta}"
        )
    bounds = indices.meta.dims[-1]
    if not isinstance(bounds, int):
        raise UnknownDimError(
            "the last dim of startend_row_indices, how many bounds a key has, must be known, found "
            f"{indices.meta}; declare it"
        )
    if bounds not in ((1, 2) if causal else (2, 4)):
        raise ShapeError(
            "the last dim of startend_row_indices must be 1 or 2 where causal, else 2 or 4, found "
            f"{indices.meta}"
        )
    if not dm.may_equal(indices.meta.dims[2], columns):
        raise ShapeError(
            f"startend_row_indices have a row for each of the {dm.dim_text(columns)} keys, found "
            f"{indices.meta}"
        )
    wide = as_int64(indices)
    marks = [ops.unsqueeze(ops.squeeze(ops.slice(wide, [3], [i], [i + 1]), (3,)), (-2,))
             for i in range(bounds)]  # fmt: skip
    at = ops.reshape(numbers(rows), (rows, 1))
    if causal:
        hidden = at >= marks[0]
        if bounds == 2:
            hidden = hidden & (at < marks[1])
        return View(~hidden).in_order(rows, columns)
    if bounds == 2:
        return View(~((at >= marks[0]) | (at < marks[1])))
    return View(~(((at >= marks[0]) & (at < marks[1])) | ((at >= marks[2]) & (at < marks[3]))))


@rules.decompose("flashmask_attention")
def flashmask_attention(
    q: Any, k: Any, v: Any, startend_row_indices: Any, fixed_seed_offset: Any, dropout: float,
    causal: bool, return_softmax: bool, is_test: bool, rng_name: str,
) -> Any:  # fmt: skip
    check_rows(4, q=q, k=k, v=v)
    drawn = Dropout.checked(dropout, fixed_seed_offset, is_test)
    view = _columns_view(q, k, startend_row_indices, causal)
    q, scale = scaled(q)
    found = rows_attended(q, k, v, scale, view, drawn)
    return named_outputs(found, return_softmax, fixed_seed_offset, q.dtype)


def _columns_view(q: Any, k: Any, indices: Any, causal: bool) -> View:
    (batch, rows, heads, _), (_, columns, shared, _) = q.meta.dims, k.meta.dims
    view = _hidden_view(indices, rows, columns, causal)
    lead = indices.meta.dims[:2]
    fits = dm.is_one(lead[0]) or dm.may_equal(lead[0], batch)
    own = dm.is_one(lead[1]) or dm.same(lead[1], heads)
    if not fits or not (own or dm.same(lead[1], shared)):
        raise ShapeError(
            "startend_row_indices have the batch of q and 1 head, or as many as k or q, found "
            f"{indices.meta} for {q.meta} and {k.meta}"
        )
    if own or dm.same(shared, heads):
        return view
    group = dm.floordiv(heads, shared)  # a head of keys stands for its group
    dims = view.seen.meta.dims
    wide = ops.expand(ops.unsqueeze(view.seen, (2,)), (*dims[:2], group, *dims[2:]))
    return View(ops.reshape(wide, (dims[0], heads, *dims[2:])))


@rules.decompose("flashmask_attention_v2")
def flashmask_attention_v2(
    q: Any, k: Any, v: Any, startend_row_indices: Any, block_mask: Any, softmax_scale: float,
    is_causal: bool,
) -> Any:  # fmt: skip
    check_rows(4, q=q, k=k, v=v)
    if block_mask is not None:
        raise ArgumentError(
            "block_mask leaves out tiles of a kernel's own size, which there are none of here; "
            "say what is seen in startend_row_indices"
        )
    view = _columns_view(q, k, startend_row_indices, is_causal)
    out, _, lse = rows_attended(q, k, v, softmax_scale, view)
    return out, lse


# -- windows, caps -------------------------------------------------------------------------------
def _check_plain(qv: Any, *descales: Any) -> None:
    if qv is not None or any(d is not None for d in descales):
        raise ArgumentError(
            "a second query for values, and scales of 8-bit floats, are not there; pass None, and "
            "multiply q, k and v by their scales"
        )


def _bounds(left: int, right: int, causal: bool) -> tuple[int, int]:
    return left, 0 if causal else right


@rules.decompose("flash_attn_v3")
def flash_attn_v3(
    q: Any, k: Any, v: Any, q_v_: Any, q_descale_: Any, k_descale_: Any, v_descale_: Any,
    softmax_scale: float, is_causal: bool, window_size_left: int, window_size_right: int,
    softcap: float, *tuning: Any,
) -> Any:  # fmt: skip
    check_rows(4, q=q, k=k, v=v)
    _check_plain(q_v_, q_descale_, k_descale_, v_descale_)
    left, right = _bounds(window_size_left, window_size_right, is_causal)
    rows, columns = q.meta.dims[1], k.meta.dims[1]
    if (left, right) == (-1, 0):
        view = View().in_order(rows, columns)
    else:
        view = View().with_seen(within_window(behind(rows), behind(columns), left, right))
    view = dataclasses.replace(view, softcap=softcap)
    out, _, lse = rows_attended(q, k, v, softmax_scale, view)
    return out, lse


@rules.decompose("flash_attn_v3_varlen")
def flash_attn_v3_varlen(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, seqused_q: Any, seqused_k: Any,
    qv: Any, q_descale: Any, k_descale: Any, v_descale: Any, max_seqlen_q: Any, max_seqlen_k: Any,
    softmax_scale: float, causal: bool, window_size_left: int, window_size_right: int,
    softcap: float, *tuning: Any,
) -> Any:  # fmt: skip
    check_rows(3, q=q, k=k, v=v)
    _check_plain(qv, q_descale, k_descale, v_descale)
    used = (seqused_q, seqused_k)
    for name, lengths, marks in zip(("seqused_q", "seqused_k"), used, (cu_seqlens_q, cu_seqlens_k)):
        _check_lengths(name, lengths, marks)
    rows, columns = segments(q, k, cu_seqlens_q, cu_seqlens_k, used=used)
    view = segment_view(rows, columns, *_bounds(window_size_left, window_size_right, causal))
    view = dataclasses.replace(view, softcap=softcap)
    out, _, lse = rows_attended(q, k, v, softmax_scale, view)
    return out, lse


def _check_lengths(name: str, lengths: Any, marks: Any) -> None:
    if lengths is None:
        return
    fits = lengths.ndim == marks.ndim == 1 and dm.may_equal(
        lengths.meta.dims[0] + 1, marks.meta.dims[0]
    )
    if dt.kind(lengths.dtype) != "int" or not fits:
        raise ShapeError(
            f"{name} must be ints, one a sequence of {marks.meta}, found {lengths.meta}"
        )


# -- from the first query on ---------------------------------------------------------------------
@rules.indices("memory_efficient_attention")
def efficient_values(
    q: Any, k: Any, v: Any, bias: Any, cu_q: Any, cu_k: Any, diagonal: Any, seqlen_k: Any,
    *rest: Any,
) -> list[ValueRange]:  # fmt: skip
    found = row_offsets(q, cu_q, k, cu_k, axis=1)
    if seqlen_k is not None:
        found.append(Lengths("seqlen_k", k.dims[1:2], "keys"))
    return found


@rules.decompose("memory_efficient_attention")
def memory_efficient_attention(
    query: Any, key: Any, value: Any, bias: Any, cu_seqlens_q: Any, cu_seqlens_k: Any,
    causal_diagonal: Any, seqlen_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, causal: bool,
    dropout_p: float, scale: float, is_test: bool,
) -> Any:  # fmt: skip
    check_rows(4, query=query, key=key, value=value)
    if dropout_p != 0 and not is_test:
        raise ArgumentError(
            "dropout takes a key, and this op has none; pass dropout_p=0, or use flash_attn"
        )
    if (cu_seqlens_q is None) != (cu_seqlens_k is None):
        raise ArgumentError("cu_seqlens_q and cu_seqlens_k are given both, or neither")
    batch, rows, heads, _ = query.meta.dims
    columns = key.meta.dims[1]
    if cu_seqlens_q is None:
        view = _lengths_view(batch, rows, columns, causal, causal_diagonal, seqlen_k)
    else:
        view = _packed_view(query, key, cu_seqlens_q, cu_seqlens_k, causal, causal_diagonal,
                            seqlen_k)  # fmt: skip
    view = view.with_mask(checked_mask(bias, batch, heads, rows, columns, name="bias"))
    if scale < 0:
        query, scale = scaled(query)
    out, _, lse = rows_attended(query, key, value, scale, view)
    return out, lse, ops.full((2,), 0, dt.int64)


def _lengths_view(
    batch: Any, rows: Any, columns: Any, causal: bool, diagonal: Any, lengths: Any
) -> View:
    """Query i of a sequence sees the keys up to i, or to i + diagonal, below its length."""
    view = View()
    at = ops.reshape(numbers(rows), (rows, 1))
    if causal and diagonal is None:
        if dm.same(rows, columns) and lengths is None:
            return View(causal=True)
        view = view.with_seen(numbers(columns) <= at)
    elif causal:
        view = view.with_seen(numbers(columns) <= at + _per_sequence(diagonal, batch))
    if lengths is not None:
        view = view.with_seen(numbers(columns) < _per_sequence(lengths, batch))
    return view


def _per_sequence(values: Any, batch: Any) -> Any:
    """Ints, one a sequence, against [batch, heads, queries, keys]."""
    if dt.kind(values.dtype) != "int" or values.ndim != 1:
        raise ShapeError(f"there is one int a sequence, found {values.meta}; reshape it")
    return ops.reshape(ops.expand(as_int64(values), (batch,)), (batch, 1, 1, 1))


def _packed_view(
    query: Any, key: Any, cu_q: Any, cu_k: Any, causal: bool, diagonal: Any, lengths: Any
) -> View:
    if not dm.may_equal(query.meta.dims[0], 1):
        raise ShapeError(
            f"packed sequences are one batch, [1, rows, heads, size], found {query.meta}"
        )
    q, k = (ops.reshape(t, t.meta.dims[1:]) for t in (query, key))
    rows, columns = segments(q, k, cu_q, cu_k, used=(None, lengths))
    view = segment_view(rows, columns)
    if not causal:
        return view
    last = rows.within
    if diagonal is not None:
        last = last + _of_sequence(diagonal, rows)
    return view.with_seen(columns.within <= ops.reshape(last, (*last.meta.dims, 1)))


def _of_sequence(values: Any, rows: Segments) -> Any:
    """What the sequence of each row has; rows behind all sequences see nothing anyway."""
    last = ops.full((), rows.count, dt.int64) - 1
    return ops.gather(as_int64(values), ops.minimum(rows.number, last), 0)
