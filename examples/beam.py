"""A simply supported Euler beam under uniform load, solved by a physics-informed network.

``python examples/beam.py [--plot]``, half a minute on a CPU.

    u''''(x) = -1 on [0, 1],   u(0) = u''(0) = u(1) = u''(1) = 0

The exact deflection is u(x) = -(x^4 - 2 x^3 + x) / 24. A tanh network u(x; params) is trained to
make the residual u'''' + 1 small at points inside and u, u'' small at the ends: the loss holds
fourth derivatives in x, and its gradient in params differentiates them once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

import phix
from network import forward, initial_params
from optimiser import adam, adam_state
from phix import ops
from plotting import picture

POINTS = 32


class Result(NamedTuple):
    losses: np.ndarray  # one a step
    x: np.ndarray
    learnt: np.ndarray
    exact: np.ndarray

    @property
    def error(self) -> float:
        """||learnt - exact|| / ||exact||, in the L2 norm."""
        return float(np.linalg.norm(self.learnt - self.exact) / np.linalg.norm(self.exact))


def derivative(u: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """du/dx at each row of x, [batch, 1]: rows do not meet, so one jvp along ones does it all."""
    return lambda x: phix.jvp(u, (x,), (ops.full(x.shape, 1.0, x.dtype),))[1]


def deflection(params: Any, x: Any) -> Any:
    """The network at x, [batch, 1]."""
    return forward(params, x, ops.tanh)


def loss(params: Any, inside: Any, ends: Any) -> Any:
    """Mean square of the residual, plus the squares of the boundary conditions."""

    def u(x: Any) -> Any:
        return deflection(params, x)

    bending = derivative(derivative(u))
    residual = derivative(derivative(bending))(inside) + 1.0
    at_ends = ops.sum(u(ends) ** 2) + ops.sum(bending(ends) ** 2)
    return ops.sum(residual**2) / inside.shape[0] + at_ends


def exact(x: np.ndarray) -> np.ndarray:
    return -(x**4 - 2 * x**3 + x) / 24


def solve(steps: int = 5000, hidden: int = 20, seed: int = 0) -> Result:
    """Train, with progress shown, and compare with the exact solution at 201 points."""
    rng = np.random.default_rng(seed)
    inside = np.linspace(0.0, 1.0, POINTS)[:, None]
    ends = np.array([[0.0], [1.0]])
    state = adam_state(initial_params(rng, [1, hidden, hidden, hidden, 1], "float64"))
    step = adam(loss, steps, peak=5e-3)
    losses = []
    with tqdm(range(steps), desc="beam", unit="step", mininterval=0.5) as bar:
        for number in bar:
            state, value = step(state, inside, ends)
            losses.append(value.item())
            if number % 100 == 0:
                bar.set_postfix(loss=f"{losses[-1]:.1e}", refresh=False)
    x = np.linspace(0.0, 1.0, 201)
    learnt = phix.jit(deflection)(state.params, x[:, None]).numpy()[:, 0]
    return Result(np.array(losses), x, learnt, exact(x))


def draw(axes: Any, result: Result) -> None:
    axes[0].semilogy(result.losses, color="#b8c4d0", linewidth=0.5)
    axes[0].set(xlabel="step", title="Loss: fourth derivatives inside")
    axes[1].plot(result.x, 1e3 * result.exact, color="#1b1b1b", linewidth=1.5, label="exact")
    axes[1].plot(result.x[::8], 1e3 * result.learnt[::8], "o", color="#d1495b", markersize=3,
                 label="learnt")  # fmt: skip
    axes[1].set(xlabel="x", title="Deflection, thousandths")
    axes[1].legend()


if __name__ == "__main__":
    result = solve()
    print(f"relative L2 error {result.error:.2e}")
    picture("beam", draw, result, columns=2)
