"""Mixtures of experts, one token after the other."""

from __future__ import annotations

from typing import Any

import numpy as np


def limited_counts(counts: np.ndarray, capacity: np.ndarray, workers: int) -> np.ndarray:
    out, left = counts.copy(), capacity.copy()
    if len(counts) != workers * len(capacity):
        raise ValueError("counts that do not fit")
    for i in range(len(counts)):
        e = i % len(capacity)
        out[i] = min(counts[i], left[e])
        left[e] -= out[i]
    return out


def pruned_gates(gates: np.ndarray, counts: np.ndarray, experts: int) -> np.ndarray:
    if len(counts) != experts:
        raise ValueError("counts that do not fit")
    out, left = gates.copy(), counts.copy()
    for at in np.ndindex(gates.shape):
        e = gates[at]
        left[e] -= 1
        if e < 0 or left[e] < 0:
            left[e] += e < 0
            out[at] = -1
    return out


def dispatched_to_experts(
    x: np.ndarray, logits: np.ndarray, bias: Any, k: int, capacity: int
) -> Any:
    """First choices first."""
    tokens, experts = logits.shape
    order = np.argsort(-(logits + (0 if bias is None else bias)), 1, kind="stable")[:, :k]
    if k > experts:
        raise ValueError("more choices than experts")
    y, index = np.zeros((experts * capacity, x.shape[1])), np.zeros((k, tokens), np.int32)
    weights, used = np.zeros((tokens, k)), np.zeros(experts, np.int64)
    for c in range(k):
        for t in range(tokens):
            e = order[t, c]
            if used[e] < capacity:
                index[c, t], weights[t, c] = e * capacity + used[e], logits[t, e]
                y[index[c, t]] = x[t]
            used[e] += 1
    return y, weights, index, np.cumsum(used), order.astype(np.int32)


def dispatched_to_processes(
    x: np.ndarray, logits: np.ndarray, bias: Any, k: int, capacity: int, processes: int
) -> Any:
    y, *rest = dispatched_to_experts(x, logits, bias, k, capacity)
    own = logits.shape[1] // processes
    out = np.zeros((own, processes, capacity, x.shape[1]))
    for e in range(own * processes):
        out[e % own, e // own] = y[e * capacity : (e + 1) * capacity]
    return (out, *rest)


def balance_loss(
    probs: np.ndarray, mask: np.ndarray, tokens: Any, dispatched: Any, experts: int, group: bool,
    k: int, least: float,
) -> Any:  # fmt: skip
    count = probs.size / experts
    if tokens is not None:
        count = tokens.sum()
    if dispatched is not None:
        count = dispatched.sum()
    count = max(count, least)
    share = (mask.sum(0) if mask.ndim == 2 else mask) / count
    loss = (probs.sum(0) / count * share).sum() * experts / (k if group else 1)
    if tokens is not None and dispatched is not None and len(dispatched) != len(probs):
        loss *= dispatched.sum() / max(tokens.sum(), 1e-6)
    return loss, np.float64(count), share


def expanded_expert_ids(
    ids: np.ndarray, own: int, group_size: int, offset: int, is_group: bool
) -> np.ndarray:
    out = ids.copy()
    for t, k in np.ndindex(*ids.shape):
        e = int(ids[t, k]) + (k * group_size if is_group else 0)
        out[t, k] = e // own * 2 * own + e % own + offset * own if own > 0 else e
    return out


def permuted_to_experts(
    x: np.ndarray, scale: Any, routes: np.ndarray, probs: np.ndarray, counts: list[int],
    alignment: int, gathers: bool, with_indices: bool, size: int,
) -> Any:  # fmt: skip
    """Experts side by side, each with its tokens in order."""
    starts = np.cumsum([0, *(-(-n // alignment) * alignment for n in counts)])
    rows = starts[-1] if size < 0 else size
    rowmap = np.full((len(x), len(counts)), -1, np.int32)
    source, prob, expert = np.full(rows, -1), np.zeros(rows), np.full(rows, -1, np.int32)
    for e, n in enumerate(counts):
        mine = [(t, c) for t, c in np.ndindex(*routes.shape) if routes[t, c] == e][:n]
        for at, (t, c) in enumerate(mine, int(starts[e])):
            rowmap[t, e], source[at], prob[at], expert[at] = at, t, probs[t, c], e

    def spread(values: Any) -> np.ndarray:
        if values is None or not gathers:
            return np.zeros(0)
        return np.where((source >= 0)[:, None], values[source], 0)

    return spread(x), rowmap, prob, spread(scale), expert if with_indices else expert[:0]


def gathered_from_experts(
    x: np.ndarray, rowmap: np.ndarray, routes: np.ndarray, probs: np.ndarray, weighted: bool,
    dims: tuple[int, int],
) -> Any:  # fmt: skip
    if rowmap.shape != dims:
        raise ValueError("a map that does not fit")
    out, chosen = np.zeros((len(rowmap), x.shape[1])), np.zeros(routes.shape)
    for t, e in np.ndindex(*rowmap.shape):
        if rowmap[t, e] >= 0:
            out[t] += x[rowmap[t, e]] * (probs[rowmap[t, e]] if weighted else 1)
    for t, c in np.ndindex(*routes.shape):
        if routes[t, c] >= 0:
            chosen[t, c] = probs[rowmap[t, routes[t, c]]]
    return out, chosen


def sorted_by_expert(x: np.ndarray, logits: np.ndarray, k: int, group: bool, plain: bool) -> Any:
    """Choices as (expert, choice, token), in that order."""
    tokens, experts = logits.shape
    if k > experts or len(x) != tokens:
        raise ValueError("choices or tokens that do not fit")
    parts = logits.reshape(tokens, k, -1) if group else logits[:, None]
    powers = parts if plain else np.exp(parts) / np.exp(parts).sum(-1, keepdims=True)
    if group:
        chosen = powers.argmax(-1) + np.arange(k) * (experts // k)
    else:
        chosen = np.argsort(-powers[:, 0], 1, kind="stable")[:, :k]
    flat = powers.reshape(tokens, experts)
    scales = np.take_along_axis(flat, chosen, 1)
    order = sorted((chosen[t, c], c, t) for c in range(k) for t in range(tokens))
    place = np.zeros((k, tokens), np.int32)
    for at, (_, c, t) in enumerate(order):
        place[c, t] = at
    rows = x[[t for *_, t in order]]
    ends = np.cumsum([(chosen == e).sum() for e in range(experts)], dtype=np.int64)
    return rows, ends, place, scales[..., None, None], chosen.astype(np.int32)


def summed_from_experts(
    rows: np.ndarray, scales: np.ndarray, place: np.ndarray, chosen: np.ndarray, bias: Any,
    normalises: bool, factor: float,
) -> np.ndarray:  # fmt: skip
    out = np.zeros((len(chosen), rows.shape[1]))
    weights = scales.reshape(chosen.shape)
    if normalises:
        weights = weights / weights.sum(1, keepdims=True)
    for t, c in np.ndindex(*chosen.shape):
        own = rows[place[c, t]] + (0 if bias is None else bias[chosen[t, c]].ravel())
        out[t] += factor * weights[t, c] * own
    return out


def places_by_expert(x: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    out = np.full(size, -1, np.int64)
    for e, end in enumerate(ends):
        places = np.flatnonzero(x == e)
        for k, place in enumerate(places):
            if 0 <= end - len(places) + k < size:
                out[end - len(places) + k] = place
    return out


def fed_by_expert(
    rows: np.ndarray, ends: np.ndarray, first: np.ndarray, second: np.ndarray, bias: Any
) -> np.ndarray:
    assert first.shape[2] == 2 * second.shape[1]
    out = np.zeros((len(rows), second.shape[2]))
    for t, row in enumerate(rows):
        expert = int(np.sum(ends <= t))
        if expert < len(ends):
            both = row @ first[expert] + (0 if bias is None else bias[expert].ravel())
            gate, value = np.split(both, 2)
            out[t] = gate / (1 + np.exp(-gate)) * value @ second[expert]
    return out
