"""Ops that name several others at once, written out."""

from __future__ import annotations

from typing import Any

import numpy as np


def normalised_relu(
    x: np.ndarray, z: Any, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray,
    variance: np.ndarray, momentum: float, epsilon: float,
) -> Any:  # fmt: skip
    """Channels are last."""
    axes = tuple(range(x.ndim - 1))
    m, v = x.mean(axes), x.var(axes)
    inverse = 1 / np.sqrt(v + epsilon)
    out = (x - m) * inverse * scale + bias + z
    moments = (momentum * old + (1 - momentum) * new for old, new in ((mean, m), (variance, v)))
    return (np.maximum(out, 0), *moments, m, inverse)


def rms_quantised(
    x: np.ndarray, residual: Any, weight: np.ndarray, epsilon: float, scale: float, how: int,
    high: float, low: float,
) -> Any:  # fmt: skip
    """Over the last axis; int8 where there is a scale."""
    total = x if residual is None else x + residual
    out = total / np.sqrt((total**2).mean(-1, keepdims=True) + epsilon) * weight
    if scale <= 0:
        return out, total
    wide = high * scale * out
    whole = np.rint(wide) if how == 0 else np.trunc(wide + np.copysign(0.5, wide))
    return np.clip(whole, low, high).astype(np.int8), total


def gemm_epilogue(
    x: np.ndarray, y: np.ndarray, bias: np.ndarray, trans_x: bool, trans_y: bool, act: str
) -> Any:
    total = (x.T if trans_x else x) @ (y.T if trans_y else y) + bias
    if act == "none":
        return total, np.zeros(0)
    inner = np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)
    out = np.maximum(total, 0) if act == "relu" else total * 0.5 * (1 + np.tanh(inner))
    return out, total


def grouped_products(
    lhs: np.ndarray, rhs: np.ndarray, sizes: list[int], trans_lhs: bool, trans_rhs: bool
) -> np.ndarray:
    if sum(sizes) != len(lhs) or len(rhs) != (len(lhs) if trans_lhs else len(sizes)):
        raise ValueError("sizes that do not fit")
    ends = np.cumsum(sizes)
    parts = [slice(end - size, end) for end, size in zip(ends, sizes)]
    if trans_lhs:
        return np.stack([lhs[p].T @ rhs[p] for p in parts])
    return np.concatenate(
        [lhs[p] @ (rhs[g].T if trans_rhs else rhs[g]) for g, p in enumerate(parts)]
    )


def position_encoded(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    half = x.shape[2] // 2
    waves = np.zeros(x.shape[1:])
    for j, k in np.ndindex(x.shape[1], half):
        angle = j / 10000 ** (k / (half - 1)) if half > 1 else j / 10000
        waves[j, k], waves[j, half + k] = np.sin(angle), np.cos(angle)
    return alpha * x + beta * waves


def attention_at_columns(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, offset: np.ndarray, columns: np.ndarray,
    padding: np.ndarray, mask: np.ndarray,
) -> Any:  # fmt: skip
    """One row of one head at a time."""
    if offset.shape[2] != q.shape[2] + 1:
        raise ValueError("offsets that do not fit")
    out, scores = np.zeros(v.shape), np.zeros(columns.shape)
    weights = np.zeros(columns.shape)
    for b, h, i in np.ndindex(q.shape[:3]):
        own = slice(*offset[b, h, i : i + 2])
        at = columns[b, h, own]
        scores[b, h, own] = k[b, h, at] @ q[b, h, i] / np.sqrt(q.shape[-1])
        powers = np.exp(scores[b, h, own]) * (padding[b, at] != 0) * (mask[i, at] != 0)
        weights[b, h, own] = powers / powers.sum() if powers.sum() else 0
        out[b, h, i] = weights[b, h, own] @ v[b, h, at]
    return out, scores, weights
