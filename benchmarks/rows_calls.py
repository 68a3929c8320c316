"""What a call costs: small tensors, where all is overhead."""

from __future__ import annotations

from typing import Any

import numpy as np

import phix
from benchmarks.harness import Case, normal, row
from benchmarks.peers import jax, jnp, torch, tree_map
from phix import ops

SIZE = 10


def _pair() -> tuple[np.ndarray, np.ndarray]:
    return normal(SIZE), normal(SIZE, seed=1)


@row(f"call: eager add of {SIZE} floats", jax=2)
def eager_add() -> Case:
    functions = {
        "phix": lambda x, y: ops.add(x, y),
        "jax": lambda x, y: jnp.add(x, y),
        "torch": lambda x, y: torch.add(x, y),
        "numpy": lambda x, y: np.add(x, y),
    }
    return Case(_pair(), functions, mode="uncompiled")


@row(f"call: jitted x * y + x of {SIZE} floats", jax=2)
def jitted_call() -> Case:
    def function(x: Any, y: Any) -> Any:
        return x * y + x

    return Case(_pair(), dict.fromkeys(("phix", "jax", "torch", "numpy"), function))


@row(f"call: jitted tree of 20 tensors of {SIZE} floats", jax=2)
def jitted_tree() -> Case:
    """A step of a training loop takes and gives a tree."""
    tree = {name: normal(SIZE, seed=ord(name)) for name in "abcdefghijklmnopqrst"}
    functions = {
        "phix": lambda t: phix.tree.map(lambda x: x * 0.5, t),
        "jax": lambda t: jax.tree.map(lambda x: x * 0.5, t),
        "torch": lambda t: {k: x * 0.5 for k, x in t.items()},
        "numpy": lambda t: tree_map(lambda x: x * np.float32(0.5), t),
    }
    return Case((tree,), functions)


def _gradient_torch(x: Any) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad((torch.sin(x) * x).sum(), x)


@row(f"call: grad of sum(sin(x) * x), not jitted, {SIZE} floats", jax=5)
def eager_gradient() -> Case:
    functions = {
        "phix": lambda x: phix.grad(lambda x: ops.sum(ops.sin(x) * x))(x),
        "jax": lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))(x),
        "torch": _gradient_torch,
    }
    return Case((normal(SIZE),), functions, mode="uncompiled")
