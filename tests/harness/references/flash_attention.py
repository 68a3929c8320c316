"""Attention over [batch, sequence, heads, size], one query at a time."""

from __future__ import annotations

from typing import Any

import numpy as np


def _one(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, bias: np.ndarray) -> Any:
    """One head of one sequence; ``bias`` is added to the scores, -inf hides a key."""
    out, weights = np.zeros((len(q), v.shape[-1])), np.zeros((len(q), len(k)))
    lse = np.full(len(q), -np.inf)
    for i in range(len(q)):
        scores = k @ q[i] * scale + bias[i]
        if np.isfinite(scores).any():
            weights[i] = np.exp(scores) / np.exp(scores).sum()
            lse[i] = np.log(np.exp(scores).sum())
            out[i] = weights[i] @ v
    return out, weights, lse


def _numbers(mask: Any, dims: Any) -> np.ndarray:
    if mask is None:
        return np.zeros(dims)
    return np.broadcast_to(np.where(mask, 0, -np.inf) if mask.dtype == bool else mask, dims)


def flash_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any, causal: bool, softmax: bool,
    scale: float | None = None,
) -> Any:  # fmt: skip
    """out, softmax (or nothing), softmax_lse and the key zeros."""
    (batch, rows, heads, size), (_, columns, shared, _) = q.shape, k.shape
    if not shared:
        raise ValueError("no heads")
    group = heads // shared
    scale = size**-0.5 if scale is None else scale
    bias = _numbers(mask, (batch, heads, rows, columns)).copy()
    for i in range(rows if causal else 0):
        bias[:, :, i, max(0, i + 1 + columns - rows) :] = -np.inf
    out = np.zeros((batch, rows, heads, v.shape[-1]))
    weights, lse = np.zeros((batch, heads, rows, columns)), np.zeros((batch, heads, rows))
    for b in range(batch):
        for h in range(heads):
            g = h // group
            found = _one(q[b, :, h], k[b, :, g], v[b, :, g], scale, bias[b, h])
            out[b, :, h], weights[b, h], lse[b, h] = found
    return out, weights if softmax else np.zeros(0), lse, np.zeros(2, np.uint32)


def parts_of_qkv(qkv: np.ndarray) -> Any:
    """Queries of all groups side by side, keys, values."""
    q = qkv[..., :-2, :, :]
    return q.reshape(*q.shape[:-3], -1, q.shape[-1]), qkv[..., -2, :, :], qkv[..., -1, :, :]


def flash_attention_packed(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, cu_q: Any, cu_k: Any, mask: Any, scale: float,
    causal: bool, softmax: bool, strides: Any = None,
) -> Any:  # fmt: skip
    """One sequence after the other; with strides sequence s begins at s * stride."""
    out = np.zeros((len(q), q.shape[1], v.shape[-1]))
    weights, lse = np.zeros((q.shape[1], len(q), len(k))), np.full((q.shape[1], len(q)), -np.inf)
    if mask is not None:
        mask = np.broadcast_to(mask, (len(cu_q) - 1, *mask.shape[1:]))
    for s in np.arange(np.zeros(len(cu_q) - 1).size):
        (a, n), (b, m) = ((c[s], c[s + 1] - c[s]) for c in (cu_q, cu_k))
        if strides:
            a, b = s * strides[0], s * strides[1]
        own = None if mask is None else mask[s : s + 1, :, :n, :m]
        found = flash_attention(
            q[None, a : a + n], k[None, b : b + m], v[None, b : b + m], own, causal, True, scale
        )
        out[a : a + n], lse[:, a : a + n] = found[0][0], found[2][0]
        weights[:, a : a + n, b : b + m] = found[1][0]
    return out, weights if softmax else np.zeros(0), lse, np.zeros(2, np.uint32)


def flash_columns(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, marks: np.ndarray, causal: bool, softmax: bool,
    scale: float | None = None,
) -> Any:  # fmt: skip
    """For each key, the rows between its marks do not see it."""
    heads, rows = q.shape[2], q.shape[1]
    if marks.shape[-1] not in (1, 2, 4):
        raise ValueError("one, two or four marks a key")
    mask = np.ones((q.shape[0], heads, rows, k.shape[1]), bool)
    each = heads // marks.shape[1]
    for b, h, i, j in np.ndindex(mask.shape):
        m = marks[b % len(marks), h // each, j]
        if causal:
            hidden = m[0] <= i < (m[1] if len(m) == 2 else rows)
        elif len(m) == 2:
            hidden = i >= m[0] or i < m[1]
        else:
            hidden = m[0] <= i < m[1] or m[2] <= i < m[3]
        mask[b, h, i, j] = not hidden
    return flash_attention(q, k, v, mask, causal, softmax, scale)


def flash_windows(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, left: int, right: int, cap: float
) -> Any:
    """out and logsumexp where a query sees a window of keys, scores capped."""
    (batch, rows, heads, _), (columns, shared) = q.shape, k.shape[1:3]
    if not shared:
        raise ValueError("no heads")
    out, lse = np.zeros((*q.shape[:3], v.shape[-1])), np.full((batch, heads, rows), -np.inf)
    for b, i, h in np.ndindex(batch, rows, heads):
        own, group = i + columns - rows, h // (heads // shared)
        seen = [
            j for j in range(columns)
            if (left < 0 or j >= own - left) and (right < 0 or j <= own + right)
        ]  # fmt: skip
        if seen:
            scores = k[b, seen, group] @ q[b, i, h] * scale
            scores = cap * np.tanh(scores / cap) if cap > 0 else scores
            lse[b, h, i] = np.log(np.exp(scores).sum())
            out[b, i, h] = np.exp(scores - lse[b, h, i]) @ v[b, seen, group]
    return out, lse


def flash_windows_packed(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, cu_q: Any, cu_k: Any, used_q: Any, used_k: Any,
    scale: float, left: int, right: int, cap: float,
) -> Any:  # fmt: skip
    """One sequence after the other, of each the rows in use."""
    out, lse = np.zeros((*q.shape[:2], v.shape[-1])), np.full((q.shape[1], len(q)), -np.inf)
    for s in range(np.zeros(len(cu_q) - 1).size):
        a, b = (slice(c[s], c[s] + u[s]) for c, u in ((cu_q, used_q), (cu_k, used_k)))
        found = flash_windows(q[None, a], k[None, b], v[None, b], scale, left, right, cap)
        out[a], lse[:, a] = found[0][0], found[1][0]
    return out, lse


def efficient_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: Any, cu_q: Any, cu_k: Any, diagonal: Any,
    lengths: Any, causal: bool, scale: float,
) -> Any:  # fmt: skip
    """output, logsumexp and zeros; the first query of a sequence is at its first key."""
    (batch, rows, heads, size), columns = q.shape, k.shape[1]
    numbers = _numbers(bias, (batch, heads, rows, columns)).copy()

    def place(marks: Any, at: int) -> Any:
        """The sequence that a packed row is in, and where it begins."""
        return next((s, m) for s, m in enumerate(marks[:-1]) if m <= at < marks[s + 1])

    for b, h, i, j in np.ndindex(numbers.shape):
        s, row, column = b, i, j
        if cu_q is not None:
            (s, a), (t, c) = place(cu_q, i), place(cu_k, j)
            row, column = i - a, j - c
            if s != t:
                numbers[b, h, i, j] = -np.inf
        if lengths is not None and column >= lengths[s]:
            numbers[b, h, i, j] = -np.inf
        if causal and column > row + (0 if diagonal is None else diagonal[s]):
            numbers[b, h, i, j] = -np.inf
    scale = size**-0.5 if scale < 0 else scale
    out, _, lse, _ = flash_attention(q, k, v, numbers, False, False, scale)
    return out, lse, np.zeros(2, np.int64)


def decoded_token(x: np.ndarray, cache: np.ndarray, bias: Any, mask: Any, lengths: Any) -> Any:
    """The new token's row of each head, and the cache with it."""
    _, batch, shared, _, size = cache.shape
    rows = (x + (0 if bias is None else bias.ravel())).reshape(batch, -1, size)
    heads = rows.shape[1] - 2 * shared
    if heads < shared or heads % shared or len(x) != batch:
        raise ValueError("heads that do not fit")
    cache, out = cache.copy(), np.zeros((batch, heads, size))
    for b in range(batch):
        t = mask.shape[-1] - 1 if lengths is None else int(lengths.ravel()[b])
        cache[:, b, :, t] = rows[b, heads:].reshape(2, shared, size)
        extra = np.zeros(t + 1) if mask is None else mask[b, 0, 0, : t + 1]
        for h in range(heads):
            keys, values = cache[:, b, h // (heads // shared), : t + 1]
            out[b, h] = _one(rows[b, h][None], keys, values, size**-0.5, extra[None])[0][0]
    return out.reshape(batch, -1), cache, np.zeros(0, np.int32)
