"""Attention as it is defined, with all its scores."""

from __future__ import annotations

from typing import Any

import numpy as np


def attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None, scale: float,
    causal: bool,
) -> np.ndarray:  # fmt: skip
    """The mean of the values, weighted by the exponentials of the scores; unseen keys have none."""
    scores = np.einsum("...qd,...kd->...qk", query, key) * scale
    seen: Any = np.tri(*scores.shape[-2:], dtype=bool) if causal else True
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    elif mask is not None:
        if np.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
            raise ValueError("a mask of more axes than the scores")
        scores = scores + mask
    weights = np.where(seen, np.exp(scores), 0)
    sums = np.einsum("...qk,...kd->...qd", weights, value)
    return sums / weights.sum(-1)[..., None] if key.shape[-2] else sums


def reduced_scores(q: np.ndarray, k: np.ndarray, softmax_lse: np.ndarray) -> np.ndarray:
    """The weights of the keys, summed over the queries."""
    k = np.repeat(k, q.shape[2] // k.shape[2], 2)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(max(q.shape[-1], 1))
    return np.exp(scores - softmax_lse[:, :, : q.shape[1], None]).sum(2, keepdims=True)
