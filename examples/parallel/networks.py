"""Four ways to train a network that is too large for one process, each beside the whole of it.

    mpiexec -n 2 python examples/parallel/networks.py

``ring``: a sequence divided among the processes, which attends to all of itself. ``experts``: each
process has some of them, and tokens go to theirs. ``stages``: layers divided, microbatches go
through. ``states``: what the optimizer keeps is divided, or the parameters too. Each takes some
steps of Adam and prints the loss, which is the same on one process, and its largest difference from
training in one piece.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import phix
from phix import ops, optim, parallel

SIZE, LENGTH, BATCH, EXPERTS, STAGES = 8, 16, 8, 4, 4
OPTIMIZER = optim.adam(1e-2)
Loss = Callable[..., Any]


def drawn(*dims: int) -> Any:
    return np.random.default_rng(sum(dims)).normal(size=dims) / np.sqrt(dims[-1])


def trained(loss: Loss, weights: Any, data: Any, steps: int, mesh: Any, specs: Any) -> Any:
    """The losses of some steps, each process with its parts of weights and data."""

    def step(weights: Any, state: Any, *data: Any) -> Any:
        value, grads = phix.value_and_grad(loss)(weights, *data)
        updates, state = OPTIMIZER.update(grads, state, weights)
        return optim.apply_updates(weights, updates), state, value

    by_weights, by_data = specs
    weights, data = parallel.local_parts((weights, data), mesh, (by_weights, by_data))
    state = OPTIMIZER.init(weights)
    kept = phix.tree.map(lambda x: by_weights if np.ndim(x) else None, state)
    run = phix.jit(
        parallel.spmd(step, mesh, (by_weights, kept, *by_data), (by_weights, kept, None))
    )
    losses = []
    for _ in range(steps):
        weights, state, value = run(weights, state, *data)
        losses.append(value.item())
    return losses


# -- a sequence in pieces ----------------------------------------------------------------------
def ring() -> Any:
    def loss(attend: Any) -> Loss:
        def of(w: Any, x: Any) -> Any:
            q, k, v = ((x @ w[i])[:, :, None] for i in range(3))
            return ((attend(q, k, v)[:, :, 0] @ w[3] - x) ** 2).mean()

        return of

    across = lambda q, k, v: parallel.ring_attention(q, k, v, "all", is_causal=True)  # noqa: E731
    alone = lambda q, k, v: phix.nn.functional.scaled_dot_product_attention(  # noqa: E731
        q, k, v, is_causal=True
    )
    data = (drawn(2, LENGTH, SIZE),)
    mean = lambda w, x: phix.pmean(loss(across)(w, x), "all")  # noqa: E731
    return mean, loss(alone), drawn(4, SIZE, SIZE), data, (None, ((None, "all"),))


# -- experts -----------------------------------------------------------------------------------
def experts() -> Any:
    def make(w: Any, rows: Any) -> Any:
        return ops.tanh(rows @ w)

    x = drawn(LENGTH, SIZE)
    shares = np.exp(drawn(LENGTH, EXPERTS))

    def across(w: Any, x: Any, shares: Any) -> Any:
        out = parallel.experts(make, w, x, shares, "all", top=2)
        return phix.pmean(((out - x) ** 2).mean(), "all")

    def alone(w: Any, x: Any, shares: Any) -> Any:
        largest = ops.topk(shares, 2, -1)[0][:, -1:]
        counts = ops.where(shares >= largest, shares, 0.0)
        made = phix.vmap(make, in_axes=(0, None))(w, x)  # all experts of all tokens
        return ((ops.einsum((made, counts), "etd,te->td") - x) ** 2).mean()

    return across, alone, drawn(EXPERTS, SIZE, SIZE), (x, shares), ("all", ("all", "all"))


# -- stages ------------------------------------------------------------------------------------
def stages() -> Any:
    def layers(w: Any, x: Any) -> Any:  # those of a stage, one after the other
        return phix.scan(lambda x, u: (x + ops.tanh(x @ u), None), x, w)[0]

    def error(_: Any, x: Any, y: Any) -> Any:
        return ((x - y) ** 2).mean()

    def across(w: Any, xs: Any, ys: Any) -> Any:
        return parallel.pipeline(layers, error, w, None, xs, ys, "all")

    def alone(w: Any, xs: Any, ys: Any) -> Any:
        return error(None, layers(w, xs), ys)

    data = (drawn(BATCH, 2, SIZE), drawn(BATCH, 2, SIZE)[:, ::-1])
    return across, alone, drawn(STAGES, SIZE, SIZE), data, ("all", (None, None))


def compared(name: str, mesh: Any, steps: int) -> list[float]:
    """Losses on the mesh; checked against one process that has all of it."""
    across, alone, weights, data, specs = WAYS[name]()
    one = parallel.mesh({"all": 1}, virtual=True)
    found = trained(across, weights, data, steps, mesh, specs)
    whole = trained(alone, weights, data, steps, one, (None, (None,) * len(data)))
    told(name, mesh, found, whole)
    return found


# -- states in pieces --------------------------------------------------------------------------
def states(mesh: Any, steps: int) -> list[float]:
    """By shardings alone: ``parallel.shard`` sums gradients into pieces and gathers weights."""

    def step(w: Any, state: Any, x: Any) -> Any:
        loss = lambda w: ((ops.tanh(x @ w[0]) @ w[1] - x) ** 2).mean()  # noqa: E731
        value, grads = phix.value_and_grad(loss)(w)
        updates, state = OPTIMIZER.update(grads, state, w)
        return optim.apply_updates(w, updates), state, value

    x, start = drawn(LENGTH, SIZE), drawn(2, SIZE, SIZE)
    losses = {}
    for name in ("whole", "states", "states and weights"):
        w = [phix.to_tensor(start[0]), phix.to_tensor(start[1])]
        state = OPTIMIZER.init(w)
        by_state = None if name == "whole" else parallel.even_specs(state, mesh, "all")
        by_w = parallel.even_specs(w, mesh, "all") if name == "states and weights" else None
        sharded = parallel.shard(step, mesh, (by_w, by_state, "all"), (by_w, by_state, None))
        run = phix.jit(sharded)
        w, state = parallel.local_parts((w, state), mesh, (by_w, by_state))
        rows = parallel.local_parts(x, mesh, "all")
        if mesh.rank == 0:
            kinds = [c.kind for c in sharded.explain(w, state, rows).collectives]
            counts = ", ".join(f"{kinds.count(k)} {k}" for k in sorted(set(kinds)))
            print(f"{name}: {counts or 'no steps between processes'}")
        losses[name] = []
        for _ in range(steps):
            w, state, value = run(w, state, rows)
            losses[name].append(value.item())
    told("states", mesh, losses["states and weights"], losses["whole"])
    return losses["states and weights"]


def told(name: str, mesh: Any, found: list[float], whole: list[float]) -> None:
    off = max(abs(a - b) for a, b in zip(found, whole))
    assert off < 1e-9, f"{name}: {found} {whole}"
    if mesh.rank == 0:
        print(f"{name}: loss {found[0]:.4f} -> {found[-1]:.4f}, as in one piece", flush=True)


WAYS: dict[str, Any] = {"ring": ring, "experts": experts, "stages": stages}


def main(argv: list[str] | None = None, mesh: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="*", default=[*WAYS, "states"], choices=[*WAYS, "states"])
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args(argv)
    on = mesh or parallel.mesh({"all": -1})
    for name in options.ways:
        if name == "states":
            states(on, options.steps)
        else:
            compared(name, on, options.steps)


if __name__ == "__main__":
    main()
