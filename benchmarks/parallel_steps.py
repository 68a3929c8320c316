"""Steps of training on the ranks of mpiexec, beside the whole of each on the first rank alone.

The others sleep meanwhile. A step of the ranks and one of the first alone take turns. Where the
batch is divided, twice the ranks should take half the time; ``held`` is what a rank keeps of
parameters and of the optimizer's state, beside the whole of it. ``model`` is what the planner's
costs make of the time of one alone, and of that of two sums between the ranks.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phix
from benchmarks import plan_costs
from phix import ops, optim, parallel

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "parallel"
SIZES = (784, 1024, 1024, 10)
MLP_BATCH, GPT_BATCH, LENGTH, SIZE, LETTERS = 2048, 32, 128, 128, 64

Call = Callable[[], Any]


class Step:
    """One step of training: ``ranks()`` by all of them, ``alone()`` by one process."""

    def __init__(self, step: Any, mesh: Any, kept: Any, specs: Any, data: Any) -> None:
        """``step(*kept, *data)`` gives kept and the loss; ``specs`` are those of kept."""
        rows = tuple("data" if "data" in mesh.axes else None for _ in data)
        sharded = parallel.shard(step, mesh, (*specs, *rows), (*specs, None))
        self.whole = sum(x.nbytes for x in map(np.asarray, phix.tree.leaves(kept)))
        parts = parallel.local_parts((*kept, *data), mesh, (*specs, *rows))
        held = parts[: len(kept)]
        self.held = sum(x.nbytes for x in map(np.asarray, phix.tree.leaves(held)))
        run, one = phix.jit(sharded), phix.jit(step)
        plan = sharded.explain(*parts)
        alone = parallel.shard(step, parallel.mesh({"data": 1}, virtual=True))
        cost = lambda p, sizes: plan_costs.work(p.plan, sizes).cost  # noqa: E731
        self.share = cost(plan, mesh.axes) / cost(alone.explain(*kept, *data), {})
        self.steps = plan.collectives
        whole = phix.tree.map(phix.to_tensor, (*kept, *data))
        self.ranks: Call = lambda: run(*parts)[-1].item()
        self.alone: Call = lambda: one(*whole)[-1].item()


def adam(loss: Any) -> Any:
    optimizer = optim.adam(1e-3)

    def step(weights: Any, state: Any, *data: Any) -> Any:
        value, grads = phix.value_and_grad(loss)(weights, *data)
        updates, state = optimizer.update(grads, state, weights)
        return optim.apply_updates(weights, updates), state, value

    return step


def mlp(divided: str) -> Step:
    """``divided``: what lies in pieces besides the batch: nothing, states, or weights as well."""

    def loss(layers: Any, x: Any, y: Any) -> Any:
        for number, (w, b) in enumerate(layers):
            x = x @ w + b
            x = ops.tanh(x) if number < len(layers) - 1 else x
        return ops.mean(phix.nn.functional.cross_entropy(x, y))

    rng = np.random.default_rng(0)
    draw = lambda *dims: (rng.normal(size=dims) / np.sqrt(dims[0])).astype(np.float32)  # noqa: E731
    layers = [[draw(a, b), np.zeros(b, np.float32)] for a, b in itertools.pairwise(SIZES)]
    layers = phix.tree.map(phix.to_tensor, layers)
    state = optim.adam(1e-3).init(layers)
    data = (draw(MLP_BATCH, SIZES[0]), rng.integers(0, SIZES[-1], MLP_BATCH))
    mesh = parallel.mesh({"data": -1})
    pieces = lambda tree: parallel.even_specs(tree, mesh, "data")  # noqa: E731
    specs = {
        "nothing": (None, None), "states": (None, pieces(state)),
        "weights": (pieces(layers), pieces(state)),
    }[divided]  # fmt: skip
    return Step(adam(loss), mesh, (layers, state), specs, data)


def gpt(axis: str) -> Step:
    """The GPT of examples/, its batch divided, or its weights as Megatron-LM divides them."""
    sys.path[:0] = [str(_EXAMPLES.parent), str(_EXAMPLES)]
    sharded_gpt: Any = __import__("sharded_gpt")
    mesh = parallel.mesh({axis: -1})
    model = sharded_gpt.gpt.GPT.create(phix.random.key(0), LETTERS, LENGTH, SIZE, 4, 2)
    state = optim.adam(1e-3).init(model)
    of = sharded_gpt.specs_of if axis == "model" else (lambda tree: None)
    rows = np.random.default_rng(0).integers(0, LETTERS, (GPT_BATCH, LENGTH))
    step = adam(sharded_gpt.gpt.loss)
    return Step(step, mesh, (model, state), (of(model), of(state)), (rows,))


STEPS: dict[str, Callable[[], Step]] = {
    "MLP, batch divided": lambda: mlp("nothing"),
    "MLP, states divided": lambda: mlp("states"),
    "MLP, states and weights divided": lambda: mlp("weights"),
    "GPT, batch divided": lambda: gpt("data"),
    "GPT, weights divided": lambda: gpt("model"),
}


def measured(step: Step, rounds: int) -> tuple[list[float], list[float]]:
    """The seconds of each round of both; of the ranks those of the first."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    is_first = comm.Get_rank() == 0
    found, wanted = step.ranks(), step.alone() if is_first else 0.0
    if is_first:
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        _asleep(comm)
        start = time.perf_counter()
        step.ranks()
        times[0].append(time.perf_counter() - start)
        if is_first:
            start = time.perf_counter()
            step.alone()
            times[1].append(time.perf_counter() - start)
    _asleep(comm)
    return times


def _asleep(comm: Any) -> None:
    """Wait for all without using a core that another may need."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(2e-4)


def links(mesh: Any) -> tuple[float, float]:
    """The seconds of a small sum, and the bytes a second of a large one, as a rank sends them."""

    def shortest(size: int) -> float:
        x = phix.ones([size // 4])
        run = phix.jit(parallel.spmd(lambda v: phix.psum(v, "data"), mesh, "data"))
        times = []
        for _ in range(9):
            start = time.perf_counter()
            run(x)
            times.append(time.perf_counter() - start)
        return min(times[1:])

    small, large = shortest(4096), shortest(1 << 22)
    sent = 2 * (1 << 22) * (mesh.size - 1) / mesh.size
    return small, sent / max(large - small, 1e-6)


def compare(rounds: int) -> None:
    """Print a line a step; only the first rank does."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    count, is_first = comm.Get_size(), comm.Get_rank() == 0
    if is_first:
        print(f"\n{'':34}{f'{count} ranks':>10}{'model':>10}{'one':>10}   faster    (shortest)"
              "      held of")  # fmt: skip
    latency, speed = links(parallel.mesh({"data": -1}))
    for name, make in STEPS.items():
        step = make()
        many, one = measured(step, rounds)
        if is_first:
            median, least = statistics.median, min
            axes = ("data", "model")
            moving = plan_costs.seconds(
                step.steps, dict.fromkeys(axes, latency), dict.fromkeys(axes, speed)
            )
            model = step.share * median(one) + moving
            print(
                f"{name:34}"
                + "".join(f"{1e3 * t:8.1f}ms" for t in (median(many), model, median(one)))
                + f"{median(one) / median(many):8.2f}x{least(one) / least(many):12.2f}x"
                f"{step.held / 1e6:9.2f}{step.whole / 1e6:8.2f} MB",
                flush=True,
            )
