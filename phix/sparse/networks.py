"""Layers of networks on sparse tensors: batch norms of their values, attention at some places."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.errors import DTypeError, ShapeError
from phix.core.given import takes
from phix.sparse.products import matmul, products_at
from phix.sparse.tensors import (
    as_coalesced,
    as_sparse,
    as_tensor,
    cast,
    counted,
    expanded,
    keys_of,
    may_be_equal,
    sized,
    summed,
)


def _normed(x: Any, given: tuple[Any, ...], settings: tuple[Any, ...]) -> tuple[Any, ...]:
    """A batch norm of the values; the sparse tensor and the statistics."""
    x = as_sparse(x)
    if x.values.ndim != 2:
        raise ShapeError(f"x must have values [nnz, channels], found {x.values.meta}")
    x = as_coalesced(x)
    mean, variance, scale, bias = map(as_tensor, given)
    is_test, momentum, epsilon, _, *statistics = settings
    out, *rest = ops.batch_norm(
        x.values, mean, variance, scale, bias, is_test, momentum, epsilon, "NCHW", *statistics
    )
    return x.with_values(out), *rest


_NORM = """The batch norm of the stored values: their rows are the batch, the last axis channels.

    The zeros stay and do not count. It is ``phix.ops.batch_norm`` of the values, and
    changes nothing it is given: mean_out and variance_out are new tensors.

    Args:
        x: a SparseCooTensor with values [nnz, channels].
        mean, variance, scale, bias: dense [channels].
        is_test, momentum, epsilon, use_global_stats, trainable_statistics: as of that op.
        data_format: where the channels stand in Paddle; here they are last.

    Returns:
        out, a sparse tensor; mean_out, variance_out, saved_mean, saved_variance.

    >>> import phix
    >>> x = phix.sparse.sparse_coo_tensor([[0, 4]], [[1.0], [3.0]], [9, 1])
    >>> mean, variance, scale, bias = (phix.full([1], v) for v in (0.0, 1.0, 1.0, 0.0))
    >>> out, mean, *_ = phix.sparse.{called}(
    ...     x, mean, variance, scale, bias, False, 0.5, 0.0, "NDHWC", False, False
    ... )
    >>> out.values.tolist(), mean.tolist()
    ([[-1.0], [1.0]], [1.0])
    """


def _norm(called: str) -> Any:
    def function(
        x: Any,
        mean: Any,
        variance: Any,
        scale: Any,
        bias: Any,
        is_test: bool,
        momentum: FloatLike,
        epsilon: FloatLike,
        data_format: str,
        use_global_stats: bool,
        trainable_statistics: bool,
    ) -> tuple[Any, ...]:
        settings = (
            is_test, momentum, epsilon, data_format, use_global_stats, trainable_statistics,
        )  # fmt: skip
        return _normed(x, (mean, variance, scale, bias), settings)

    function.__name__ = function.__qualname__ = called
    function.__doc__ = _NORM.format(called=called)
    return takes()(function)


batch_norm_ = _norm("batch_norm_")
sync_batch_norm_ = _norm("sync_batch_norm_")


def _checked(query: Any, key: Any, value: Any, mask: Any, padding: Any, attn_mask: Any) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 4 or not all(map(may_be_equal, x.shape, query.shape)):
            raise ShapeError(
                f"{name} must be [batch, heads, length, size] as query {query.meta} is, found "
                f"{x.meta}"
            )
        if not dt.is_float(x.dtype):
            raise DTypeError(f"{name} must be of floats, found {x.meta}")
    batch, heads, length, _ = query.shape
    if not all(isinstance(n, int) for n in (batch, heads)) or not all(
        map(may_be_equal, (batch * heads, length, length), mask.shape)
    ) or mask.ndim != 3 or mask.values.ndim != 1:  # fmt: skip
        raise ShapeError(
            f"sparse_mask must be [batch * heads, length, length] for query {query.meta}, found "
            f"{mask.shape}"
        )
    for name, x, dims in (
        ("key_padding_mask", padding, (batch, length)),
        ("attn_mask", attn_mask, (length, length)),
    ):
        if x is not None and (x.ndim != 2 or not all(map(may_be_equal, x.shape, dims))):
            raise ShapeError(f"{name} must be {dims}, found {x.meta}")


@takes()
def fused_attention(
    query: Any,
    key: Any,
    value: Any,
    sparse_mask: Any,
    key_padding_mask: Any = None,
    attn_mask: Any = None,
) -> tuple[Any, Any]:
    """Attention at the places of a sparse tensor: softmax(query key^T / sqrt(size)) value.

    Args:
        query, key, value: dense floats [batch, heads, length, size].
        sparse_mask: sparse [batch * heads, length, length]: which key each query looks at. Its
            values do not count.
        key_padding_mask: [batch, length]; a key where it is 0 is left out. None leaves out none.
        attn_mask: [length, length]; a pair where it is 0 is left out. None leaves out none.

    Returns:
        out [batch, heads, length, size], and the softmax, at the places of sparse_mask: 0 for what
        is left out. A query that looks at nothing gets zeros.

    >>> import phix
    >>> x = phix.to_tensor([[[[1.0], [2.0]]]])
    >>> mask = phix.sparse.to_sparse_csr([[[1.0, 0.0], [0.0, 1.0]]])
    >>> phix.sparse.fused_attention(x, x, x, mask)[0].tolist()
    [[[[1.0], [2.0]]]]
    """
    query, key, value = map(as_tensor, (query, key, value))
    padding, attn_mask = (
        None if m is None else as_tensor(m) for m in (key_padding_mask, attn_mask)
    )
    mask = as_coalesced(as_sparse(sparse_mask, "sparse_mask"))
    _checked(query, key, value, mask, padding, attn_mask)
    heads, size = int(query.shape[1]), query.shape[3]
    matrices, length, places = mask.shape[0], mask.shape[1], expanded(mask).indices
    batch, dims = matrices // heads, (matrices // heads, heads, length)
    query, key, value = (sized(x, dims) for x in (query, key, value))
    q, k, v = (ops.reshape(x, [matrices, length, x.shape[-1]]) for x in (query, key, value))
    wide = dt.float32 if q.dtype.itemsize < 4 else q.dtype
    scores = products_at(cast(q, wide), cast(k, wide), places) / ops.sqrt(ops.full([], size, wide))
    kept = ops.ones_like(scores, "bool")
    if padding is not None:
        padding = sized(padding, (batch, length))
        kept = kept & _at(padding, ops.stack([ops.floor_divide(places[0], heads), places[2]], 1))
    if attn_mask is not None:
        attn_mask = sized(attn_mask, (length, length))
        kept = kept & _at(attn_mask, ops.transpose(places[1:], [1, 0]))
    rows = keys_of(places[:-1], mask.shape[:-1])
    shares = cast(_shares(scores, kept, rows, matrices * length), query.dtype)
    softmax = mask.with_values(shares)
    out = matmul(softmax, v)
    return ops.reshape(out, [batch, heads, length, v.shape[-1]]), softmax


def _at(mask: Any, places: Any) -> Any:
    return ops.gather_nd(ops.not_equal(mask, ops.zeros_like(mask)), places)


def _shares(scores: Any, kept: Any, rows: Any, count: int) -> Any:
    """The softmax of the scores that are kept, and 0 for the others."""
    low = ops.where(kept, ops.stop_gradient(scores), ops.full([], -math.inf, scores.dtype))
    most, _ = ops.send_u_recv(low, counted(rows), rows, "MAX", [count])
    zero = ops.zeros([], scores.dtype)
    powers = ops.where(kept, ops.exp(ops.where(kept, scores - ops.gather(most, rows), zero)), zero)
    total = summed(powers, rows, count)
    total = ops.where(total == 0, ops.ones_like(total), total)
    return powers / ops.gather(total, rows)
