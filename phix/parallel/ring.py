"""Attention over a sequence that is divided along an axis of a mesh: keys and values go round."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.api.batching import axis_index, axis_size, ppermute
from phix.api.control_flow import scan
from phix.api.custom import custom_vjp
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.conversion import to_tensor
from phix.core.errors import DTypeError, ShapeError
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike


@takes()
def ring_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    axis_name: str,
    is_causal: bool = False,
    scale: FloatLike | None = None,
) -> Tensor:
    """softmax(query @ key.T * scale) @ value for each head, of a sequence divided along an axis.

    Each part has its piece of the sequence, in the order of the parts. Keys and values go round the
    axis by ``ppermute``; what a query gives to those that are here is added to a softmax of which
    the largest score and the sum are known so far. So a part never has the scores of more than
    two pieces, forward and backward, where keys and values go round again with their gradients.

    Args:
        query: [n, queries here, heads, size].
        key, value: [n, keys here, heads, size]; their heads may be fewer, each serving as many of
            the query.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.
        is_causal: a query sees the keys up to its own place in the whole sequence alone.
        scale: by default 1 / sqrt(size).

    Returns:
        [n, queries here, heads, size of value], in the dtype of query; half precision is added up
        in float32.

    Raises:
        ShapeError: an input without 4 axes, another n or size, heads that do not fit, or, if
            is_causal, other numbers of queries than of keys.
        DTypeError: an input that is not floating.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"sequence": 2}, virtual=True)
    >>> attend = lambda q, k, v: phix.parallel.ring_attention(q, k, v, "sequence", is_causal=True)
    >>> pieces = (None, "sequence")
    >>> x = phix.ones([1, 6, 2, 4])
    >>> phix.parallel.spmd(attend, mesh, (pieces,) * 3, pieces)(x, x, x).shape
    (1, 6, 2, 4)
    """
    q, k, v = (to_tensor(t) for t in (query, key, value))
    _check(q, k, v, is_causal)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    heads = k.shape[2]
    wide = [ops.cast(t, dt.float32) if t.dtype.itemsize < 4 else t for t in (q, k, v)]
    q_heads = _by_groups(wide[0] * factor, heads)
    k_heads, v_heads = (_by_groups(t, heads) for t in wide[1:])
    out = _ring(axis_name, is_causal)(q_heads, k_heads, v_heads)
    n, groups, each, length, size = out.shape
    found = ops.transpose(ops.reshape(out, (n, groups * each, length, size)), (0, 2, 1, 3))
    return ops.cast(found, q.dtype)


def _check(q: Any, k: Any, v: Any, is_causal: bool) -> None:
    if not (q.ndim == k.ndim == v.ndim == 4):
        raise ShapeError(
            "ring_attention: inputs are [n, length, heads, size], found "
            f"{q.meta}, {k.meta} and {v.meta}"
        )
    for name, x in (("query", q), ("key", k), ("value", v)):
        if not dt.is_float(x.dtype):
            raise DTypeError(
                f"ring_attention: {name} must be floating, found {x.meta}; cast it to float32"
            )
    if not (dm.same(q.shape[0], k.shape[0]) and dm.same(k.shape[0], v.shape[0])
            and dm.same(q.shape[3], k.shape[3])):  # fmt: skip
        raise ShapeError(
            f"ring_attention: query {q.meta}, key {k.meta} and value {v.meta} must be of one n, "
            "and the first two of one size"
        )
    heads, have = q.shape[2], k.shape[2]
    if not dm.same(have, v.shape[2]) or dm.divide_exact(heads, have) is None:
        raise ShapeError(
            f"ring_attention: {dm.dim_text(have)} heads of key and {dm.dim_text(v.shape[2])} of "
            f"value do not serve {dm.dim_text(heads)} heads of the query evenly"
        )
    if not dm.same(k.shape[1], v.shape[1]) or (is_causal and not dm.same(q.shape[1], k.shape[1])):
        raise ShapeError(
            f"ring_attention: query {q.meta}, key {k.meta} and value {v.meta} must have as many "
            "places of the sequence on each part"
        )


def _by_groups(x: Any, groups: Any) -> Any:
    """[n, groups, heads of a group, length, size]."""
    n, length, heads, size = x.shape
    each: Any = dm.divide_exact(heads, groups)
    x = ops.reshape(x, (n, length, groups, each, size))
    return ops.transpose(x, (0, 2, 3, 1, 4))


class _Ring:
    """Where the pieces of a ring are; made in each part."""

    def __init__(self, axis_name: str, is_causal: bool) -> None:
        self.name, self.is_causal = axis_name, is_causal
        self.size = axis_size(axis_name)
        self.here = axis_index(axis_name) if is_causal else None

    def on(self, *values: Any) -> tuple[Any, ...]:
        """What the part behind this one has."""
        pairs = [(k, (k + 1) % self.size) for k in range(self.size)]
        return tuple(ppermute(v, self.name, pairs) for v in values)

    def scores(self, q: Any, k: Any, step: Any) -> Any:
        """Those of the keys that have come from the part ``step`` places behind."""
        found = ops.matmul(q, k, False, True)
        if not self.is_causal:
            return found
        rows, columns = q.shape[-2], k.shape[-2]
        behind = (self.here - step) % self.size
        row = ops.reshape(ops.arange(0, rows, 1, dt.int64), (rows, 1)) + self.here * rows
        seen = row >= ops.arange(0, columns, 1, dt.int64) + behind * columns
        return ops.where(seen, found, float("-inf"))

    def steps(self) -> Any:
        """The numbers of the steps behind the first, in which the piece of one's own is there."""
        return ops.arange(1, self.size, 1, dt.int64)


def _ring(axis_name: str, is_causal: bool) -> Any:
    """The attention of heads in groups, with its backward."""

    @custom_vjp
    def attend(q: Any, k: Any, v: Any) -> Any:
        return forward(q, k, v)[0]

    def forward(q: Any, k: Any, v: Any) -> Any:
        out, logs = _forward(_Ring(axis_name, is_causal), q, k, v)
        return out, (q, k, v, out, logs)

    def backward(kept: Any, ct: Any) -> Any:
        return _backward(_Ring(axis_name, is_causal), kept, ct)

    attend.defvjp(forward, backward)
    return attend


def _forward(ring: _Ring, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """The result, and the logarithm of each query's sum of exponentials."""

    def largest(scores: Any) -> Any:  # which the result does not depend on
        return ops.stop_gradient(ops.max(scores, (-1,), keepdim=True))

    def step(carry: Any, number: Any) -> Any:
        top, total, out, k, v = carry
        k, v = ring.on(k, v)
        scores = ring.scores(q, k, number)
        higher = ops.maximum(top, largest(scores))
        base = _finite(higher)
        weights, kept = ops.exp(scores - base), ops.exp(top - base)
        total = total * kept + ops.sum(weights, (-1,), keepdim=True)
        return (higher, total, out * kept + weights @ v, k, v), None

    scores = ring.scores(q, k, 0)
    top = largest(scores)
    weights = ops.exp(scores - _finite(top))
    carry = (top, ops.sum(weights, (-1,), keepdim=True), weights @ v, k, v)
    if ring.size > 1:
        carry = scan(step, carry, ring.steps())[0]
    top, total, out = carry[:3]
    return out / total, top + ops.log(total)


def _finite(top: Any) -> Any:
    """What is subtracted of scores: nothing where all of a row have been -inf so far."""
    return ops.where(top == float("-inf"), ops.full((), 0, top.dtype), top)


def _backward(ring: _Ring, kept: Any, ct: Any) -> Any:
    """The cotangents; those of keys and values are added up on their way round."""
    q, k, v, out, logs = kept
    lost = ops.sum(out * ct, (-1,), keepdim=True)

    def added(number: Any, to_q: Any, *others: Any) -> Any:
        k, v, to_k, to_v = others
        weights = ops.exp(ring.scores(q, k, number) - logs)
        to_scores = weights * (ops.matmul(ct, v, False, True) - lost)
        to_v = to_v + _over_group(ops.matmul(weights, ct, True, False))
        to_k = to_k + _over_group(ops.matmul(to_scores, q, True, False))
        return to_q + to_scores @ k, k, v, to_k, to_v

    def step(carry: Any, number: Any) -> Any:
        to_q, *others = carry
        return added(number, to_q, *ring.on(*others)), None

    zeros = [ops.full_like(x, 0) for x in (q, k, v)]
    carry = added(0, zeros[0], k, v, *zeros[1:])
    if ring.size > 1:
        carry = scan(step, carry, ring.steps())[0]
    to_q, _, _, to_k, to_v = carry
    return (to_q, *ring.on(to_k, to_v))


def _over_group(x: Any) -> Any:
    """The sum over the heads that a head of keys serves."""
    return ops.sum(x, (2,), keepdim=True)


__all__ = ["ring_attention"]
