"""Attention as libraries offer it: rows [.., sequence, heads, size], packed sequences, dropout.

All of them are the one op ``attention`` over [..., heads, sequence, size] with what each query sees
as its mask. A query that sees no key gets zeros, and no gradient. Where fewer heads of keys than of
queries are given, each serves a group of neighbouring heads of queries.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
)
from phix.core.index_ranges import as_int64
from phix.core.value_ranges import Offsets, ValueRange
from phix.primitives import random as rand
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, widened

_UNSEEN = float("-inf")


# -- what each query sees ------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class View:
    """What scores [..., queries, keys] become: ``seen`` are bools, ``added`` numbers to add."""

    seen: Any = None
    added: Any = None
    causal: bool = False  # query i sees keys up to i: where there are as many keys as queries
    softcap: float = 0.0  # scores s become softcap * tanh(s / softcap), where it is above 0

    def with_seen(self, seen: Any) -> View:
        if seen is None:
            return self
        return dataclasses.replace(self, seen=seen if self.seen is None else self.seen & seen)

    def with_mask(self, mask: Any) -> View:
        if mask is None:
            return self
        if mask.dtype == dt.bool_:
            return self.with_seen(mask)
        if not dt.is_float(mask.dtype):
            raise DTypeError(f"a mask holds bools or floats, found {mask.meta}; cast it to bool")
        return dataclasses.replace(self, added=mask).with_seen(mask > _UNSEEN)

    def in_order(self, rows: dm.DimLike, columns: dm.DimLike) -> View:
        """Causal too: the last query sees all keys, each one before it a key less."""
        if dm.same(rows, columns) and self.seen is None:
            return dataclasses.replace(self, causal=True)
        return self.with_seen(within_window(behind(rows), behind(columns), -1, 0))

    def mask(self, dtype: Any) -> tuple[Any, Any]:
        """The mask that ``attention`` takes, and which queries see a key (None: all do)."""
        if self.seen is None:
            return None, None
        sees = ops.any(self.seen, (-1,), True)
        seen = self.seen | ~sees
        if self.added is None:
            return seen, sees
        added = ops.where(sees, as_dtype(self.added, dtype), 0.0)
        return ops.where(seen, added, _UNSEEN), sees


def within_window(rows: Any, columns: Any, left: int, right: int) -> Any:
    """Which keys lie from ``left`` before to ``right`` behind each query's own, or None for all.

    Positions are counted from the ends, and a negative number is no bound.
    """
    apart = columns - ops.reshape(rows, (*rows.meta.dims, 1))
    seen = None
    if left >= 0:
        seen = apart >= -left
    if right >= 0:
        seen = apart <= right if seen is None else seen & (apart <= right)
    return seen


def behind(count: dm.DimLike) -> Any:
    """How far each position lies from the last: 1 - count, ..., 0."""
    return numbers(count) - (ops.full((), count, dt.int64) - 1)


@dataclasses.dataclass(frozen=True)
class Dropout:
    """Weights are 0 with probability ``p``, and the others divided by 1 - p; drawn of ``key``."""

    p: float
    key: Any

    @classmethod
    def checked(cls, p: float, key: Any, is_test: bool) -> Dropout | None:
        if not 0 <= p < 1:
            raise AttributeValueError(f"dropout is a probability below 1, from 0 on, found {p}")
        if key is not None:
            rand.check_key(key.meta)
            if key.ndim != 1:
                raise ShapeError(f"dropout takes one key, uint32[2], found {key.meta}; use vmap")
        if p == 0 or is_test:
            return None
        if key is None:
            raise ArgumentError(
                "dropout needs a key in training, since there is no hidden random state: pass "
                "phix.random.key(seed) as fixed_seed_offset, dropout=0, or is_test=True"
            )
        return cls(p, key)

    def of(self, weights: Any) -> Any:
        kept = rand.unit_uniform(self.key, weights.meta.dims, dt.float32) >= self.p
        return ops.where(kept, weights * (1 / (1 - self.p)), 0.0)


def used_key(key: Any) -> Any:
    """The key that was drawn of, zeros where none was given."""
    return ops.full((2,), 0, dt.uint32) if key is None else key


# -- attention over [..., heads, sequence, size] -------------------------------------------------
def attended(
    q: Any, k: Any, v: Any, scale: float, view: View, dropout: Dropout | None = None
) -> tuple[Any, Any, Any]:
    """What the queries get, their weights before dropout, and the logsumexp of their scores."""
    mask, sees = view.mask(widened(q).dtype)
    weights, lse = _weights(q, k, scale, mask, view)
    if dropout is None and view.softcap > 0:
        out = ops.matmul(as_dtype(weights, v.dtype), v)
    elif dropout is None:
        narrow = mask if mask is None or mask.dtype == dt.bool_ else as_dtype(mask, q.dtype)
        out = ops.attention(q, k, v, narrow, scale, view.causal)
    else:
        out = ops.matmul(as_dtype(dropout.of(weights), v.dtype), v)
    if sees is not None:
        out = ops.where(sees, out, 0.0)
        weights = ops.where(sees, weights, 0.0)
        lse = ops.where(ops.squeeze(sees, (-1,)), lse, _UNSEEN)
    return out, as_dtype(weights, q.dtype), lse


def _weights(q: Any, k: Any, scale: float, mask: Any, view: View) -> tuple[Any, Any]:
    scores = widened(ops.matmul(q * scale, k, False, True))
    if view.softcap > 0:
        scores = ops.tanh(scores / view.softcap) * view.softcap
    if view.causal:
        rows, columns = scores.meta.dims[-2:]
        in_order = ops.reshape(numbers(rows), (rows, 1)) >= numbers(columns)
        scores = ops.where(in_order, scores, _UNSEEN)
    if mask is not None:
        scores = ops.where(mask, scores, _UNSEEN) if mask.dtype == dt.bool_ else scores + mask
    return ops.softmax(scores, -1), ops.logsumexp(scores, (-1,))


def check_rows(rank: int, **tensors: Any) -> None:
    """Refuse queries, keys and values that are not [.., sequence, heads, size], or do not fit."""
    what = "[batch, sequence, heads, size]" if rank == 4 else "[rows, heads, size]"
    for name, t in tensors.items():
        if t.ndim != rank:
            raise ShapeError(f"{name} must be {what}, found {t.meta}; reshape it")
    (q_name, q), (k_name, k), (v_name, v) = tensors.items()
    names = f"{q_name}, {k_name} and {v_name}"
    q_dims, k_dims, v_dims = (t.meta.dims for t in (q, k, v))
    fit = (
        dm.may_equal(q_dims[-1], k_dims[-1])
        and all(map(dm.may_equal, k_dims[:-1], v_dims[:-1]))
        and (rank == 3 or dm.may_equal(q_dims[0], k_dims[0]))
    )
    if not fit:
        raise ShapeError(
            f"{names} have one batch, keys and values as many rows and heads, queries and keys one "
            f"size, found {q.meta}, {k.meta} and {v.meta}"
        )
    heads, shared = q_dims[-2], k_dims[-2]
    fits = not dm.is_known(heads, shared) or (shared > 0 and heads % shared == 0)
    if not fits:
        raise ShapeError(
            f"each head of {k_name} serves as many heads of {q_name}: {heads} is no multiple of "
            f"{shared}, found {q.meta} and {k.meta}"
        )


def rows_attended(
    q: Any, k: Any, v: Any, scale: float, view: View, dropout: Dropout | None = None
) -> tuple[Any, Any, Any]:
    """As ``attended``, of [..., sequence, heads, size]; masks are as [..., heads, rows, keys]."""
    heads, shared = q.meta.dims[-2], k.meta.dims[-2]
    q, k, v = (_heads_first(t) for t in (q, k, v))
    if dm.same(heads, shared):
        out, weights, lse = attended(q, k, v, scale, view, dropout)
        return _heads_first(out), weights, lse
    group = dm.floordiv(heads, shared)
    dims = q.meta.dims
    grouped = ops.reshape(q, (*dims[:-3], shared, group, *dims[-2:]))
    seen, added = (_grouped(mask, shared, group) for mask in (view.seen, view.added))
    view = dataclasses.replace(view, seen=seen, added=added)
    k, v = (ops.unsqueeze(t, (-3,)) for t in (k, v))
    found = attended(grouped, k, v, scale, view, dropout)
    axis = len(dims) - 3
    out, weights, lse = (
        ops.reshape(t, (*t.meta.dims[:axis], heads, *t.meta.dims[axis + 2 :])) for t in found
    )
    return _heads_first(out), weights, lse


def _heads_first(x: Any) -> Any:
    """Sequence and heads change places."""
    return ops.transpose(x, (*range(x.ndim - 3), x.ndim - 2, x.ndim - 3, x.ndim - 1))


def _grouped(mask: Any, shared: dm.DimLike, group: dm.DimLike) -> Any:
    """The heads of a mask, its third last axis, as groups."""
    if mask is None or mask.ndim < 3:
        return mask
    dims = mask.meta.dims
    heads = (1, 1) if dm.is_one(dims[-3]) else (shared, group)
    return ops.reshape(mask, (*dims[:-3], *heads, *dims[-2:]))


def named_outputs(
    found: tuple[Any, Any, Any], return_softmax: bool, key: Any, dtype: Any
) -> tuple[Any, Any, Any, Any]:
    """out, softmax, softmax_lse and seed_offset; no softmax that nobody asked for."""
    out, weights, lse = found
    return out, weights if return_softmax else ops.full((0,), 0, dtype), lse, used_key(key)


def checked_mask(mask: Any, *wanted: dm.DimLike, name: str = "attn_mask") -> Any:
    """A mask [batch, heads, queries, keys], each dim of it 1 or that which is wanted; those of
    the first axes may be left out."""
    if mask is None:
        return None
    dims = (*(1,) * (4 - mask.ndim), *mask.meta.dims)
    if len(dims) != 4 or not all(dm.is_one(d) or dm.may_equal(d, w) for d, w in zip(dims, wanted)):
        raise ShapeError(
            f"{name} must broadcast to {dm.shape_text(wanted)}, [batch, heads, queries, keys], "
            f"found {mask.meta}"
        )
    mask = mask if mask.ndim == 4 else ops.reshape(mask, dims)
    settled = tuple(d if dm.is_one(d) else w for d, w in zip(dims, wanted))
    return mask if dm.same_shape(settled, dims) else ops.expand(mask, settled)


# -- dense: [batch, sequence, heads, size] -------------------------------------------------------
def scaled(q: Any) -> tuple[Any, float]:
    """Queries and the scale that make scores over the root of the size: known with it alone."""
    size = q.meta.dims[-1]
    if isinstance(size, int):
        return q, 1 / math.sqrt(max(size, 1))
    wide = widened(q)
    return as_dtype(wide * ops.rsqrt(ops.full((), size, wide.dtype)), q.dtype), 1.0


@rules.decompose("flash_attn")
def flash_attn(
    q: Any, k: Any, v: Any, fixed_seed_offset: Any, attn_mask: Any, dropout: float, causal: bool,
    return_softmax: bool, is_test: bool, rng_name: str,
) -> Any:  # fmt: skip
    check_rows(4, q=q, k=k, v=v)
    drawn = Dropout.checked(dropout, fixed_seed_offset, is_test)
    batch, rows, heads, _ = q.meta.dims
    columns = k.meta.dims[1]
    view = View().with_mask(checked_mask(attn_mask, batch, heads, rows, columns))
    if causal:
        view = view.in_order(rows, columns)
    q, scale = scaled(q)
    found = rows_attended(q, k, v, scale, view, drawn)
    return named_outputs(found, return_softmax, fixed_seed_offset, q.dtype)


def unpacked(qkv: Any, rank: int) -> tuple[Any, Any, Any]:
    """Queries, keys and values of [..., groups + 2, heads, size]."""
    if qkv.ndim != rank or (dm.is_known(qkv.meta.dims[-3]) and qkv.meta.dims[-3] < 3):
        lead = "batch, sequence" if rank == 5 else "rows"
        raise ShapeError(
            f"qkv must be [{lead}, groups + 2, heads of keys, size], with at least one group of "
            f"queries before keys and values, found {qkv.meta}"
        )
    *lead_dims, parts, heads, size = qkv.meta.dims
    axis = rank - 3
    groups = parts - 2
    q = ops.slice(qkv, [axis], [0], [groups])
    k, v = (ops.slice(qkv, [axis], [groups + i], [groups + i + 1]) for i in range(2))
    q = ops.reshape(q, (*lead_dims, groups * heads, size))
    return q, ops.squeeze(k, (axis,)), ops.squeeze(v, (axis,))


@rules.decompose("flash_attn_qkvpacked")
def flash_attn_qkvpacked(qkv: Any, *rest: Any) -> Any:
    return flash_attn(*unpacked(qkv, 5), *rest)


# -- packed: [rows of all sequences, heads, size] ------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Segments:
    """Rows of sequences one behind the other: where each row lies."""

    number: Any  # of its sequence; as many as there are sequences for rows behind all
    within: Any  # its position in the sequence
    behind: Any  # that position less the sequence's length
    count: dm.DimLike

    @classmethod
    def of(
        cls, cu_seqlens: Any, rows: dm.DimLike, name: str, stride: int | None = None,
        used: Any = None,
    ) -> Segments:  # fmt: skip
        """With ``stride``, each sequence begins at a multiple of it, and the rest is padding; so is
        what lies behind the first ``used`` rows of each."""
        if dt.kind(cu_seqlens.dtype) != "int" or cu_seqlens.ndim != 1:
            raise ShapeError(
                f"{name} must be ints [sequences + 1], where each sequence begins and the last "
                f"ends, found {cu_seqlens.meta}"
            )
        marks = as_int64(cu_seqlens)
        count = cu_seqlens.meta.dims[0] - 1
        starts, ends = (ops.slice(marks, [0], [i], [i + count]) for i in range(2))
        at = ops.reshape(numbers(rows), (rows, 1))
        if stride is not None:
            lengths = ends - starts
            starts = numbers(count) * stride
            ends = starts + ops.minimum(lengths, stride)
        if used is not None:
            ends = ops.minimum(ends, starts + as_int64(used))
        # a row is in one sequence at most, so what belongs to it is a sum over all of them
        inside = (at >= starts) & (at < ends)

        def pick(values: Any) -> Any:
            return ops.sum(ops.where(inside, values, 0), (-1,))

        number = ops.where(ops.any(inside, (-1,)), pick(numbers(count)), count)
        flat = numbers(rows)
        return cls(number, flat - pick(starts), flat - pick(ends), count)


def segments(
    q: Any, k: Any, cu_q: Any, cu_k: Any, strides: Sequence[int | None] = (None, None),
    used: Sequence[Any] = (None, None),
) -> tuple[Segments, Segments]:  # fmt: skip
    """Where the rows of packed queries and keys lie."""
    rows = Segments.of(cu_q, q.meta.dims[0], "cu_seqlens_q", strides[0], used[0])
    columns = Segments.of(cu_k, k.meta.dims[0], "cu_seqlens_k", strides[1], used[1])
    if not dm.may_equal(rows.count, columns.count):
        raise ShapeError(
            "cu_seqlens_q and cu_seqlens_k are of as many sequences, found "
            f"{cu_q.meta} and {cu_k.meta}"
        )
    return rows, columns


def segment_view(rows: Segments, columns: Segments, left: int = -1, right: int = -1) -> View:
    """Queries see the keys of their own sequence, within a window; rows in none see nothing."""

    def down(x: Any) -> Any:
        return ops.reshape(x, (*x.meta.dims, 1))

    seen = (down(rows.number) == columns.number) & down(rows.number < rows.count)
    return View(seen).with_seen(within_window(rows.behind, columns.behind, left, right))


def _mask_of_segments(mask: Any, rows: Segments, columns: Segments) -> Any:
    """A mask [sequences, heads, queries, keys] over packed rows: [heads, rows, rows of keys]."""
    dims = mask.meta.dims

    def at(values: Any, axis: int, shape: Any) -> Any:
        return ops.reshape(ops.minimum(values, ops.full((), dims[axis], dt.int64) - 1), shape)

    q, k = rows.number.meta.dims[0], columns.number.meta.dims[0]
    last = ops.transpose(mask, (0, 2, 3, 1))
    found = ops.gather_nd(
        last,
        ops.stack(
            [
                ops.expand(at(rows.number, 0, (q, 1)), (q, k)),
                ops.expand(at(rows.within, 2, (q, 1)), (q, k)),
                ops.expand(at(columns.within, 3, (1, k)), (q, k)),
            ],
            -1,
        ),
    )
    return ops.transpose(found, (2, 0, 1))


def _packed(
    q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, mask: Any, scale: float, causal: bool,
    drawn: Dropout | None, strides: Sequence[int | None] = (None, None),
) -> Any:  # fmt: skip
    check_rows(3, q=q, k=k, v=v)
    rows, columns = segments(q, k, cu_q, cu_k, strides)
    view = segment_view(rows, columns, -1, 0 if causal else -1)
    if mask is not None:
        dims = mask.meta.dims
        mask = checked_mask(
            mask, rows.count, q.meta.dims[1], *(dims[-2:] if mask.ndim == 4 else (0, 0))
        )
        view = view.with_mask(_mask_of_segments(mask, rows, columns))
    return rows_attended(q, k, v, scale, view, drawn)


@rules.indices("flash_attn_unpadded")
@rules.indices("flash_attn_v3_varlen")
def row_marks(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, *rest: Any) -> list[ValueRange]:
    return row_offsets(q, cu_q, k, cu_k)


@rules.indices("flash_attn_varlen_qkvpacked")
def packed_row_marks(qkv: Any, cu_q: Any, cu_k: Any, *rest: Any) -> list[ValueRange]:
    return row_offsets(qkv, cu_q, qkv, cu_k)


def row_offsets(q: Any, cu_q: Any, k: Any, cu_k: Any, axis: int = 0) -> list[ValueRange]:
    given = (("cu_seqlens_q", cu_q, q), ("cu_seqlens_k", cu_k, k))
    return [Offsets(name, x.dims[axis : axis + 1]) for name, marks, x in given if marks is not None]


@rules.decompose("flash_attn_unpadded")
def flash_attn_unpadded(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, fixed_seed_offset: Any,
    attn_mask: Any, max_seqlen_q: int, max_seqlen_k: int, scale: float, dropout: float,
    causal: bool, return_softmax: bool, is_test: bool, rng_name: str,
) -> Any:  # fmt: skip
    drawn = Dropout.checked(dropout, fixed_seed_offset, is_test)
    found = _packed(q, k, v, cu_seqlens_q, cu_seqlens_k, attn_mask, scale, causal, drawn)
    return named_outputs(found, return_softmax, fixed_seed_offset, q.dtype)


@rules.decompose("flash_attn_varlen_qkvpacked")
def flash_attn_varlen_qkvpacked(
    qkv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, fixed_seed_offset: Any, attn_mask: Any,
    max_seqlen_q: int, max_seqlen_k: int, scale: float, dropout: float, causal: bool,
    return_softmax: bool, is_test: bool, rng_name: str, varlen_padded: bool,
) -> Any:  # fmt: skip
    drawn = Dropout.checked(dropout, fixed_seed_offset, is_test)
    strides = (max_seqlen_q, max_seqlen_k) if varlen_padded else (None, None)
    found = _packed(
        *unpacked(qkv, 4), cu_seqlens_q, cu_seqlens_k, attn_mask, scale, causal, drawn, strides
    )
    return named_outputs(found, return_softmax, fixed_seed_offset, qkv.dtype)
