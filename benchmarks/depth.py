"""Chains of 1e2 to 1e5 ops: the time to compile them should grow as they do.

``first_call("matmul and relu, 1000 ops", "phix")`` is the time from the function to its first
result. JAX takes part where it comes to an end in a minute or two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import phix
from benchmarks.harness import normal
from benchmarks.peers import jax, jnp
from phix import ops


@dataclass(frozen=True)
class Chain:
    """``phix`` and ``jax`` are one step of ``ops`` ops; ``derived``: its gradient is compiled."""

    start: np.ndarray
    phix: Callable[[Any], Any]
    jax: Callable[[Any], Any]
    ops: int
    derived: bool = False
    sizes: tuple[int, ...] = (100, 1000, 10_000)
    most_of_jax: int = 1000


_WEIGHTS = normal(16, 16, scale=0.2)
_REGULAR = np.eye(6, dtype=np.float32) + normal(6, 6, scale=0.1)
_TURNED = np.arange(16)[::-1].copy()

CHAINS: dict[str, Chain] = {
    "pointwise": Chain(
        normal(16), lambda x: ops.tanh(x) * 1.5, lambda x: jnp.tanh(x) * 1.5, 2,
        sizes=(100, 1000, 10_000, 100_000), most_of_jax=10_000,
    ),
    "matmul and relu": Chain(
        normal(8, 16), lambda x: ops.relu(x @ _WEIGHTS), lambda x: jax.nn.relu(x @ _WEIGHTS), 2,
        derived=True,
    ),
    "sum": Chain(
        normal(16), lambda x: x - ops.sum(x, axis=[0], keepdim=True) * 0.1,
        lambda x: x - jnp.sum(x, keepdims=True) * 0.1, 3,
    ),
    "gather": Chain(normal(16), lambda x: x[_TURNED] * 1.1, lambda x: x[_TURNED] * 1.1, 2),
    "sort": Chain(normal(16), lambda x: -ops.sort(x, 0), lambda x: -jnp.sort(x), 2),
    "solve": Chain(
        normal(6), lambda x: ops.solve(_REGULAR, x), lambda x: jnp.linalg.solve(_REGULAR, x), 1,
        sizes=(100, 1000),
    ),
}  # fmt: skip


def rows() -> list[tuple[str, tuple[str, ...]]]:
    """The names of the rows, and who takes part."""
    return [
        (f"{name}, {size} ops", ("phix", "jax") if size <= chain.most_of_jax else ("phix",))
        for name, chain in CHAINS.items()
        for size in chain.sizes
    ]


def first_call(row: str, contender: str) -> float:
    """From the function to its first result; imports and the runtime's own start are done."""
    name, _, count = row.rpartition(", ")
    chain = CHAINS[name]
    module, step, total = (
        (phix, chain.phix, ops.sum) if contender == "phix" else (jax, chain.jax, jnp.sum)
    )

    def function(x: Any) -> Any:
        for _ in range(int(count.split()[0]) // chain.ops):
            x = step(x)
        return total(x)

    wanted = module.grad(function) if chain.derived else function
    np.asarray(module.jit(module.grad(lambda x: total(x * x)))(chain.start))
    start = time.perf_counter()
    np.asarray(module.jit(wanted)(chain.start))
    return time.perf_counter() - start
