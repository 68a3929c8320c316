"""Many small matrices, and one large product as the yardstick."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import jnp, torch
from phix import ops


@row("batched matmul, 1e5 x 4 x 4", jax=5)
def batched_matmul() -> Case:
    return Case(
        (normal(100_000, 4, 4), normal(100_000, 4, 4, seed=1)),
        {
            "phix": lambda a, b: ops.matmul(a, b),
            "jax": lambda a, b: jnp.matmul(a, b),
            "torch": lambda a, b: torch.matmul(a, b),
            "numpy": lambda a, b: np.matmul(a, b),
        },
    )


@row("matmul, 1024 x 1024 x 1024", jax=1)
def matmul() -> Case:
    return Case(
        (normal(1024, 1024), normal(1024, 1024, seed=1)),
        {
            "phix": lambda a, b: ops.matmul(a, b),
            "jax": lambda a, b: a @ b,
            "torch": lambda a, b: a @ b,
            "numpy": lambda a, b: a @ b,
        },
        tolerance=1e-4,
    )


@row("solve, 1e4 x 3 x 3", jax=5)
def solve() -> Case:
    a = normal(10_000, 3, 3) + 4 * np.eye(3, dtype=np.float32)
    return Case(
        (a, normal(10_000, 3, 1, seed=1)),
        {
            "phix": lambda a, b: ops.solve(a, b),
            "jax": lambda a, b: jnp.linalg.solve(a, b),
            "torch": lambda a, b: torch.linalg.solve(a, b),
            "numpy": lambda a, b: np.linalg.solve(a, b),
        },
        tolerance=1e-4,
    )
