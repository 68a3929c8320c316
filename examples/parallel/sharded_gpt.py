"""The GPT of examples/gpt.py, trained on several processes: data and tensor parallel.

    mpiexec -n 4 python examples/parallel/sharded_gpt.py --data 2 --model 2

The model, its loss and its gradient are those of one process. What is divided is said of the
arguments alone: batches along ``data``; weights along ``model``, as Megatron-LM divides them, by
columns those that open a layer, by rows those that close it. ``phix.parallel.shard`` finds the
rest: in each block two sums over ``model`` forward and two backward, and of each gradient one over
``data``. ``--data 1 --model 1``, without mpiexec, prints the same losses.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpt
import phix
from phix import optim

COLUMNS, ROWS = ("query", "key", "value", "wide"), ("narrow", "out")


def weight_spec(path: str, weight: Any) -> Any:
    """How a weight is divided among the processes of ``model``."""
    if any(f".{name}." in path for name in COLUMNS):
        return "model" if weight.ndim == 1 else (None, "model")
    if any(f".{name}.weight" in path for name in ROWS):
        return "model"
    return None


def specs_of(tree: Any) -> Any:
    """The specs of a model, or of what an optimizer keeps of one."""
    return phix.tree.map_with_path(weight_spec, tree)


def trainer(mesh: Any, model: Any, state: Any, optimizer: Any) -> Any:
    """The step of training on a mesh: (model, state, rows) to (model, state, loss)."""

    def step(model: Any, state: Any, rows: Any) -> Any:
        value, grads = phix.value_and_grad(gpt.loss)(model, rows)
        updates, state = optimizer.update(grads, state, model)
        return optim.apply_updates(model, updates), state, value

    kept = (specs_of(model), specs_of(state))
    return phix.parallel.shard(step, mesh, (*kept, "data"), (*kept, None))


def train(
    mesh: Any, text: str, steps: int = 60, length: int = 64, size: int = 64, depth: int = 2,
    batch: int = 16,
) -> list[float]:  # fmt: skip
    """Train on rows of a text; the losses, which all processes have."""
    alphabet = sorted(set(text))
    numbers = np.array([alphabet.index(c) for c in text], np.int64)
    model = gpt.GPT.create(phix.random.key(0), len(alphabet), length, size, 4, depth)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(3e-3))
    state = optimizer.init(model)
    kept = (specs_of(model), specs_of(state))
    sharded = trainer(mesh, model, state, optimizer)
    step = phix.jit(sharded)
    model, state = phix.parallel.local_parts((model, state), mesh, kept)
    rng, losses = np.random.default_rng(0), []
    for number in range(steps):
        starts = rng.integers(0, len(numbers) - length, batch)
        rows = np.stack([numbers[s : s + length] for s in starts])
        rows = phix.parallel.local_parts(rows, mesh, "data")
        if number == 0 and mesh.rank == 0:
            print(*str(sharded.explain(model, state, rows)).splitlines()[-4:], sep="\n")
        model, state, value = step(model, state, rows)
        losses.append(value.item())
        if mesh.rank == 0 and number % 20 == 0:
            print(f"step {number}: loss {losses[-1]:.4f}", flush=True)
    return losses


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=int, default=-1, help="processes that share the batch")
    parser.add_argument("--model", type=int, default=1, help="processes that share the weights")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--depth", type=int, default=2, help="blocks of the model")
    options = parser.parse_args(argv)
    mesh = phix.parallel.mesh({"data": options.data, "model": options.model})
    text = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    losses = train(mesh, text, options.steps, depth=options.depth)
    if mesh.rank == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {mesh}")


if __name__ == "__main__":
    main(sys.argv[1:])
