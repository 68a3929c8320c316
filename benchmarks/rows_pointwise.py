"""Pointwise functions of large arrays: bandwidth, and vectorised transcendental functions."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import F, jax, jnp, torch
from phix import ops

SIZE = 4_000_000


@row("tanh(a * b + 1) * exp(-b), 4e6", jax=3)
def tanh_exp() -> Case:
    return Case(
        (normal(SIZE), normal(SIZE, seed=1)),
        {
            "phix": lambda a, b: ops.tanh(a * b + 1.0) * ops.exp(-b),
            "jax": lambda a, b: jnp.tanh(a * b + 1.0) * jnp.exp(-b),
            "torch": lambda a, b: torch.tanh(a * b + 1.0) * torch.exp(-b),
            "numpy": lambda a, b: np.tanh(a * b + 1.0) * np.exp(-b),
        },
    )


_GELU = {
    "phix": lambda x: ops.gelu(x),
    "jax": lambda x: jax.nn.gelu(x, approximate=False),
    "torch": lambda x: F.gelu(x),
}


@row("gelu, 4e6", jax=3)
def gelu() -> Case:
    return Case((normal(SIZE),), _GELU)


@row("gelu with gradient, 4e6", jax=3)
def gelu_gradient() -> Case:
    return Case((normal(SIZE, seed=1), normal(SIZE)), _GELU, mode="vjp")
