"""Diagonals and shards, element by element."""

from __future__ import annotations

import itertools

import numpy as np


def fill_diagonal(x: np.ndarray, value: float, offset: int, wrap: bool) -> np.ndarray:
    """Every place tried: (row, ..., column - offset) is on the diagonal."""
    out = x.copy()
    for at in itertools.product(*map(range, x.shape)):
        column = at[-1] - offset
        row = at[0] % (x.shape[-1] + 1) if wrap and x.ndim == 2 else at[0]
        if 0 <= column < x.shape[-1] and {row, *at[1:-1], column} == {row}:
            out[at] = value
    return out


def fill_diagonal_tensor(
    x: np.ndarray, y: np.ndarray, offset: int, dim1: int, dim2: int
) -> np.ndarray:
    out = np.moveaxis(x, (dim1, dim2), (-2, -1)).copy()
    for k in range(y.shape[-1]):
        out[..., k - min(offset, 0), k + max(offset, 0)] = y[..., k]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def diag(x: np.ndarray, offset: int, padding_value: float) -> np.ndarray:
    if x.ndim == 2:
        return np.diagonal(x, offset)
    size = x.size + abs(offset)
    out = np.full((size, size), padding_value, x.dtype)
    for k, value in enumerate(x):
        out[k - min(offset, 0), k + max(offset, 0)] = value
    return out


def diag_embed(input: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    size = input.shape[-1] + abs(offset)
    out = np.zeros((*input.shape[:-1], size, size), input.dtype)
    for k in range(input.shape[-1]):
        out[..., k - min(offset, 0), k + max(offset, 0)] = input[..., k]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def shard_index(
    input: np.ndarray, index_num: int, nshards: int, shard_id: int, ignore_value: int
) -> np.ndarray:
    size = (index_num + nshards - 1) // nshards
    return np.where(input // size == shard_id, input % size, ignore_value).astype(input.dtype)
