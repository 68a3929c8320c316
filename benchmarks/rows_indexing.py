"""Sorting, looking up, and adding at places."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import F, jnp, torch
from phix import ops


def _distinct(size: int) -> np.ndarray:
    """Without equal elements, so that there is one right order."""
    return np.random.default_rng(0).permutation(size).astype(np.float32)


@row("sort, 1e6", jax=20)
def sort() -> Case:
    return Case(
        (_distinct(1_000_000),),
        {
            "phix": lambda x: ops.sort(x),
            "jax": lambda x: jnp.sort(x),
            "torch": lambda x: torch.sort(x)[0],
            "numpy": lambda x: np.sort(x),
        },
    )


@row("argsort, 1e6", jax=20)
def argsort() -> Case:
    return Case(
        (_distinct(1_000_000),),
        {
            "phix": lambda x: ops.argsort(x)[1],
            "jax": lambda x: jnp.argsort(x),
            "torch": lambda x: torch.argsort(x),
            "numpy": lambda x: np.argsort(x),
        },
    )


_IDS = np.random.default_rng(0).integers(0, 50_000, 8192)


@row("embedding, 50k x 128, 8k ids", jax=1)
def embedding() -> Case:
    return Case(
        (normal(50_000, 128), _IDS),
        {
            "phix": lambda table, ids: ops.embedding(ids, table),
            "jax": lambda table, ids: table[ids],
            "torch": lambda table, ids: F.embedding(ids, table),
            "numpy": lambda table, ids: table[ids],
        },
    )


@row("gradient of an embedding, 50k x 128, 8k ids", jax=1)
def embedding_gradient() -> Case:
    return Case(
        (normal(50_000, 128), _IDS, normal(8192, 128)),
        {
            "phix": lambda table, ids, w: ops.sum(ops.embedding(ids, table) * w),
            "jax": lambda table, ids, w: (table[ids] * w).sum(),
            "torch": lambda table, ids, w: (F.embedding(ids, table) * w).sum(),
        },
        mode="value_and_grad",
        tolerance=1e-4,
    )


def _add_at(x: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = x.copy()
    np.add.at(out, ids, rows)
    return out


@row("scatter-add of 8k rows to 50k x 128", jax=1)
def scatter_add() -> Case:
    return Case(
        (normal(50_000, 128), _IDS, normal(8192, 128)),
        {
            "phix": lambda x, ids, rows: x.at[ids].add(rows),
            "jax": lambda x, ids, rows: x.at[ids].add(rows),
            "torch": lambda x, ids, rows: x.index_add(0, ids, rows),
            "numpy": _add_at,
        },
    )
