"""Gradients in less memory, against themselves with no limit: ``python -m benchmarks.limited``.

Each row is compiled with a part of the memory that it takes, and timed in turns with the plain one.
The last row of each is the least that is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import phix
from benchmarks.rows_networks import gpt_arguments, gpt_phix
from phix import ops

PARTS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
_TURNS = 25


def deep(activation: Callable[[Any], Any], layers: int = 24) -> tuple[Any, tuple[Any, ...]]:
    """The loss of a deep network, and its arguments."""
    rng = np.random.default_rng(0)
    shapes = [(256, 256)] * layers
    weights = [rng.normal(size=s).astype(np.float32) / 16 for s in shapes]

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = activation(x @ w)
        return ops.sum(x * x)

    return loss, (weights, rng.normal(size=(1024, 256)).astype(np.float32))


ROWS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "gpt block": lambda: (gpt_phix, gpt_arguments()),
    "24 layers of gelu, 1024 x 256": lambda: deep(ops.gelu),
    "24 layers of tanh, 1024 x 256": lambda: deep(ops.tanh),
}


def held(function: Any, args: Any) -> int:
    """Bytes of temps and results, as planned."""
    memory = function.lower(*args).memory_analysis()
    return int(memory.temp_size_in_bytes + memory.output_size_in_bytes)


def ratio(function: Any, plain: Any, args: Any) -> float:
    """The least time of a call, over that of the plain function."""
    least = [float("inf")] * 2
    for _ in range(_TURNS):
        for k, f in enumerate((function, plain)):
            start = time.perf_counter()
            f(*args)
            least[k] = min(least[k], time.perf_counter() - start)
    return least[0] / least[1]


def main() -> None:
    print("| row | limit | planned | time |\n|---|---|---|---|")
    for name, make in ROWS.items():
        loss, arrays = make()
        args = phix.tree.map(phix.to_tensor, arrays)
        slope = phix.value_and_grad(loss)
        plain = phix.jit(slope)
        most = held(plain, args)
        print(f"| {name} | none | {most / 2**20:.1f} MiB | 1 |")
        limits = [int(part * most) for part in PARTS]
        for limit in limits:
            function = phix.jit(slope, memory_limit=limit)
            try:
                planned = held(function, args)
            except phix.errors.MemoryLimitError as error:
                function = phix.jit(slope, memory_limit=error.smallest)
                planned, limit = error.smallest, 0
            first = f"{limit / 2**20:.1f} MiB" if limit else "the least"
            print(
                f"|  | {first} | {planned / 2**20:.1f} MiB | {ratio(function, plain, args):.2f} |"
            )
            if not limit:
                break


if __name__ == "__main__":
    main()
