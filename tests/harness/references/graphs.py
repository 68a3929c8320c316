"""Messages along edges, one edge after the other."""

from __future__ import annotations

from typing import Any

import numpy as np


def pooled_messages(messages: np.ndarray, index: np.ndarray, how: str, rows: int) -> Any:
    """What goes to each row, and how much of it there is."""
    out = np.zeros((rows, *messages.shape[1:]), messages.dtype)
    counts = np.zeros(rows, np.int32)
    combine = {"SUM": np.add, "MEAN": np.add, "MAX": np.maximum, "MIN": np.minimum}[how]
    for message, r in zip(messages, index, strict=True):
        if r < 0:
            continue
        out[r] = combine(out[r], message) if counts[r] else message
        counts[r] += 1
    if how == "MEAN":
        least = np.maximum(counts, 1).reshape(-1, *(1,) * (out.ndim - 1))
        out = (out / least).astype(out.dtype)
    return out, counts


def edge_messages(a: np.ndarray, b: np.ndarray, how: str) -> np.ndarray:
    """Row by row, so that the axes behind the first broadcast."""
    combine = {"ADD": np.add, "MUL": np.multiply}[how]
    dims = np.broadcast_shapes(a.shape[1:], b.shape[1:])
    rows = [combine(p, q) for p, q in zip(a, b, strict=True)]
    return np.array(rows).reshape(len(a), *dims)


def reindexed(x: np.ndarray, neighbors: np.ndarray, count: np.ndarray) -> Any:
    """The nodes numbered as they come, those of x first."""
    nodes = x.tolist()
    number = {node: i for i, node in enumerate(nodes)}
    for node in neighbors.tolist():
        if node not in number:
            number[node] = len(nodes)
            nodes.append(node)
    src = [number[node] for node in neighbors.tolist()]
    dst = []
    for edge_kind in count.reshape(-1, max(len(x), 1)):
        for node, times in zip(x.tolist(), edge_kind):
            dst += [number[node]] * int(times)
    if len(dst) != len(src):
        raise ValueError("counts that do not fit")
    return tuple(np.array(found, x.dtype) for found in (src, dst, nodes))
