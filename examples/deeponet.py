"""A network for an operator: from a function to its antiderivative, at any place asked for.

``python examples/deeponet.py [--plot]``, some seconds on a CPU. One network (the branch) sees a
function by its values at 32 sensors, another (the trunk) the place; the answer is the inner product
of what both give (L. Lu and others, "Learning nonlinear operators via DeepONet", 2021). Functions
are drawn anew in each step, as sums of waves whose antiderivatives are known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture

SENSORS, WAVES = np.linspace(0.0, 1.0, 32, dtype="f"), 4


def network(key: Any, *sizes: int) -> nn.Sequential:
    """Linear layers with tanh between them."""
    keys = phix.random.split(key, len(sizes) - 1)
    layers = [nn.Linear.create(k, a, b) for k, a, b in zip(keys, sizes, sizes[1:])]
    between = [part for layer in layers for part in (layer, ops.tanh)]
    return nn.Sequential.create(*between[:-1])


@nn.module
class DeepONet:
    branch: nn.Sequential
    trunk: nn.Sequential
    offset: Any

    @staticmethod
    def create(key: Any, size: int = 40) -> DeepONet:
        first, second = phix.random.split(key)
        branch = network(first, len(SENSORS), size, size, size)
        return DeepONet(branch, network(second, 1, size, size, size), ops.full([], 0.0))

    def __call__(self, values: Any, x: Any) -> Any:
        """The results [functions, places] for functions [functions, 32] at places x [places]."""
        return self.branch(values) @ self.trunk(x[:, None]).T + self.offset


def waves(weights: Any, x: Any) -> tuple[Any, Any]:
    """Functions sum_k a_k cos(pi k x) + b_k sin(pi k x), k = 0 .. 3, for weights [functions, 8], at
    places x, and their antiderivatives that are 0 at 0; both [functions, places]."""
    k = np.pi * np.arange(1, WAVES, dtype="f")[:, None]
    one, angles = 1.0 + 0.0 * x[None], k * x[None]
    sines = ops.sin(angles)
    cosines = ops.cos(angles)
    of_waves = ops.concat([one, cosines, 0.0 * one, sines], 0)
    of_integrals = ops.concat([x[None], sines / k, 0.0 * one, (1.0 - cosines) / k], 0)
    return weights @ of_waves, weights @ of_integrals


class Result(NamedTuple):
    losses: np.ndarray
    x: np.ndarray
    functions: np.ndarray  # [8, places], not seen before
    exact: np.ndarray
    learnt: np.ndarray

    @property
    def error(self) -> float:
        return float(np.linalg.norm(self.learnt - self.exact) / np.linalg.norm(self.exact))


def train(steps: int = 6000, size: int = 40, batch: int = 64) -> Result:
    net = DeepONet.create(phix.random.key(0), size)
    optimizer = optim.adam(optim.cosine_decay_schedule(5e-3, steps))

    def loss(net: DeepONet, key: Any) -> Any:
        first, second = phix.random.split(key)
        weights = phix.random.normal(first, [batch, 2 * WAVES])
        x = phix.random.uniform(second, [batch])
        _, exact = waves(weights, x)
        return ops.mean((net(waves(weights, SENSORS)[0], x) - exact) ** 2)

    def step(carry: Any, key: Any) -> Any:
        net, state = carry
        value, grads = phix.value_and_grad(loss)(net, key)
        updates, state = optimizer.update(grads, state, net)
        return (optim.apply_updates(net, updates), state), value

    run = phix.jit(lambda carry, keys: phix.scan(step, carry, keys), donate_argnums=0)
    keys = phix.random.split(phix.random.key(1), steps)
    (net, _), losses = run((net, optimizer.init(net)), keys)
    x = np.linspace(0.0, 1.0, 101, dtype="f")
    weights = phix.random.normal(phix.random.key(2), [8, 2 * WAVES])
    functions, exact = waves(weights, x)
    learnt = net(waves(weights, SENSORS)[0], phix.to_tensor(x))
    return Result(losses.numpy(), x, *(a.numpy() for a in (functions, exact, learnt)))


def draw(axes: Any, result: Result) -> None:
    for n in range(4):
        label = ("exact", "learnt") if n == 0 else (None, None)
        axes.plot(result.x, result.exact[n], color="#1b1b1b", linewidth=1, label=label[0])
        axes.plot(result.x[::5], result.learnt[n, ::5], "o", color="#d1495b", markersize=3,
                  label=label[1])  # fmt: skip
    axes.set_title(f"DeepONet: antiderivatives, error {result.error:.1%}")
    axes.legend()


if __name__ == "__main__":
    result = train()
    print(f"loss {result.losses[0]:.3f} -> {result.losses[-20:].mean():.1e}")
    print(f"relative L2 error {result.error:.2%} on functions not seen")
    picture("deeponet", draw, result)
