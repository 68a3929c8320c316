"""Attention of one new token to all before it, whose keys and values are kept."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.index_ranges import IndexRange, as_int64
from phix.primitives.flash_attention import View, attended, scaled
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype


def _check_plain(rotary: int, out_scale: float, **absent: Any) -> None:
    for name, t in absent.items():
        if t is not None:
            raise ArgumentError(f"{name} is not there; pass None")
    if rotary:
        raise AttributeValueError(
            f"positions are not turned here, found rotary_emb_dims {rotary}; turn queries and keys "
            "in x before, and write 0"
        )
    if out_scale > 0:
        raise AttributeValueError(
            f"nothing is quantised here, found out_scale {out_scale}; leave it at -1"
        )


def _positions(src_mask: Any, lengths: Any, batch: dm.DimLike) -> Any:
    """Where the new token of each sequence stands."""
    if lengths is not None:
        if dt.kind(lengths.dtype) != "int" or not dm.may_equal(lengths.meta.size, batch):
            raise ShapeError(f"sequence_lengths has an int a sequence, found {lengths.meta}")
        return ops.reshape(as_int64(lengths), (batch,))
    if src_mask is None:
        raise ArgumentError(
            "how long the sequences are is the last dim of src_mask, or sequence_lengths; pass one"
        )
    if src_mask.ndim != 4:
        raise ShapeError(f"src_mask must be [batch, 1, 1, tokens], found {src_mask.meta}")
    return ops.full((batch,), src_mask.meta.dims[-1] - 1, dt.int64)


@rules.indices("masked_multihead_attention_")
def new_positions(x: Any, cache_kv: Any, bias: Any, src_mask: Any, cum: Any, lengths: Any,
                  *rest: Any) -> list[IndexRange]:  # fmt: skip
    if lengths is None or cache_kv.ndim != 5:
        return []
    places = cache_kv.dims[3:4]
    return [IndexRange("sequence_lengths", places, "the places of cache_kv,", counts_back=False)]


@rules.decompose("masked_multihead_attention_")
def masked_multihead_attention(
    x: Any, cache_kv: Any, bias: Any, src_mask: Any, cum_offsets: Any, sequence_lengths: Any,
    rotary_tensor: Any, beam_cache_offset: Any, qkv_out_scale: Any, out_shift: Any,
    out_smooth: Any, seq_len: int, rotary_emb_dims: int, use_neox_rotary_style: bool,
    compute_dtype: str, out_scale: float, *quant: Any,
) -> Any:  # fmt: skip
    _check_plain(rotary_emb_dims, out_scale, rotary_tensor=rotary_tensor,
                 beam_cache_offset=beam_cache_offset, qkv_out_scale=qkv_out_scale,
                 out_shift=out_shift, out_smooth=out_smooth)  # fmt: skip
    if x.ndim != 2 or cache_kv.ndim != 5 or not dm.may_equal(cache_kv.meta.dims[0], 2):
        raise ShapeError(
            "x must be [batch, (heads + 2 * heads of keys) * size] and cache_kv [2, batch, heads "
            f"of keys, length, size], found {x.meta} and {cache_kv.meta}"
        )
    (batch, width), (_, _, shared, length, size) = x.meta.dims, cache_kv.meta.dims
    rows = ops.reshape(x, (batch, dm.floordiv(width, size), size))
    if bias is not None:
        rows = rows + ops.reshape(as_dtype(bias, x.dtype), rows.meta.dims[1:])
    heads = rows.meta.dims[1] - shared * 2
    q = ops.slice(rows, [1], [0], [heads])
    k, v = (ops.slice(rows, [1], [heads + shared * i], [heads + shared * (i + 1)]) for i in (0, 1))
    at = _positions(src_mask, sequence_lengths, batch)
    new = as_dtype(ops.stack([k, v], 0), cache_kv.dtype)
    where = [ops.reshape(numbers(2), (2, 1)), numbers(batch), at]
    cache = ops.index_put(cache_kv, where, new, False, (0, 1, 3))
    seen = ops.reshape(numbers(length) <= ops.unsqueeze(at, (1,)), (batch, 1, 1, length))
    view = View(seen).with_mask(_padded(src_mask, length))
    group = dm.floordiv(heads, shared)
    q, scale = scaled(ops.reshape(q, (batch, shared, group, size)))
    keys, values = (as_dtype(cache[i], x.dtype) for i in (0, 1))
    out, _, _ = attended(q, keys, values, scale, view)
    return ops.reshape(out, (batch, heads * size)), cache, ops.full((0,), 0, dt.int32)


def _padded(mask: Any, length: dm.DimLike) -> Any:
    """A mask of the tokens so far, as one of all places there are."""
    if mask is None:
        return None
    if mask.ndim != 4:
        raise ShapeError(f"src_mask must be [batch, 1, 1, tokens], found {mask.meta}")
    if dm.same(mask.meta.dims[-1], length):
        return mask
    return ops.pad(mask, [0] * 7 + [length - mask.meta.dims[-1]], 0)
