"""Losses, a label at a time."""

from __future__ import annotations

import numpy as np


def nll_loss(
    input: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray | None,
    ignore_index: int,
    reduction: str,
) -> tuple[np.ndarray, np.ndarray]:
    """The losses, and the sum of the weights that count."""
    losses, total = np.zeros(label.shape), 0.0
    for at in np.ndindex(*label.shape):
        k = int(label[at])
        if k != ignore_index:
            w = 1.0 if weight is None else weight[k]
            losses[at] = -w * input[(at[0], k, *at[1:])]
            total += w
    if reduction == "none":
        return losses, np.array(0.0)
    mean = losses.sum() / total if total else 0.0
    return np.array(mean if reduction == "mean" else losses.sum()), np.array(total)


def margin_cross_entropy(
    logits: np.ndarray,
    label: np.ndarray,
    margin1: float,
    margin2: float,
    margin3: float,
    scale: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The softmax of the cosines with a margin, and the losses [n, 1]."""
    moved = np.array(logits)
    rows, at = np.arange(len(logits)), label.reshape(-1)
    moved[rows, at] = np.cos(margin1 * np.arccos(logits[rows, at]) + margin2) - margin3
    grown = np.exp(scale * moved)
    softmax = grown / grown.sum(1, keepdims=True)
    return softmax, -np.log(softmax[rows, at])[:, None]


def hsigmoid_loss(
    x: np.ndarray,
    label: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    path: np.ndarray | None,
    code: np.ndarray | None,
    num_classes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sum over the path of each label: the losses, the softplus at each node, and w."""
    length = (num_classes - 1).bit_length() if path is None else path.shape[1]
    z, taken = np.zeros((len(x), length)), np.zeros((len(x), length))
    for i, c in enumerate(label.reshape(len(x))):
        leaf = int(c) + num_classes
        for j in range(leaf.bit_length() - 1 if path is None else length):
            node = (leaf >> (j + 1)) - 1 if path is None else path[i, j]
            if node < 0:
                break
            bit = (leaf >> j) & 1 if path is None else code[i, j]
            z[i, j] = x[i] @ w[node] + (0 if bias is None else bias.reshape(-1)[node])
            z[i, j] = np.clip(z[i, j], -40, 40)
            taken[i, j] = z[i, j] * bit
    soft = np.log1p(np.exp(z))
    return (soft - taken).sum(1, keepdims=True), soft, w
