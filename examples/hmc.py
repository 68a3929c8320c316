"""Hamiltonian Monte Carlo over many chains: a Bayesian regression beside its closed form.

``python examples/hmc.py [--plot]``, some seconds on a CPU. ``step`` is written for one chain;
``scan`` makes it a chain and ``vmap`` 64 of them side by side, in one compiled program. The
posterior of a linear regression with normal noise and a normal prior is normal, so its mean and
covariance are known (C. Bishop, "Pattern recognition and machine learning", 2006, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import phix
from phix import ops
from plotting import picture

Density = Callable[[Any], Any]  # x [n] -> log p(x), up to a constant


def step(log_p: Density, key: Any, x: Any, length: float, count: int) -> tuple[Any, Any]:
    """One step of a chain: x and whether it moved. A momentum is drawn, ``count`` steps of length
    ``length`` follow it (the leapfrog method), and the end is taken with probability
    exp(energy at the start - energy at the end)."""
    first, second = phix.random.split(key)
    slope = phix.grad(log_p)
    momentum = phix.random.normal(first, x.shape, dtype=x.dtype)

    def energy(x: Any, p: Any) -> Any:
        return 0.5 * ops.sum(p * p) - log_p(x)

    def leap(_: Any, state: Any) -> Any:
        x, p = state
        x = x + length * p
        return x, p + length * slope(x)

    p = momentum + 0.5 * length * slope(x)
    end, p = phix.fori_loop(0, count, leap, (x, p))
    p = p - 0.5 * length * slope(end)  # the last leap went half a step too far
    gained = energy(x, momentum) - energy(end, p)
    is_taken = ops.log(phix.random.uniform(second, [], x.dtype)) < gained
    return ops.where(is_taken, end, x), is_taken


def chains(
    log_p: Density, key: Any, starts: Any, steps: int, length: float = 0.2, count: int = 8
) -> tuple[Any, Any]:
    """The points [chains, steps, n] of chains that begin at ``starts`` [chains, n], and the part
    of steps that moved, [chains]."""

    def chain(key: Any, start: Any) -> Any:
        def one(x: Any, key: Any) -> Any:
            x, moved = step(log_p, key, x, length, count)
            return x, (x, moved)

        _, (points, moved) = phix.scan(one, start, phix.random.split(key, steps))
        return points, ops.mean(ops.cast(moved, "float32"))

    return phix.vmap(chain)(phix.random.split(key, starts.shape[0]), starts)


class Regression(NamedTuple):
    """y = design @ w + noise, with a prior of w: both normal, of these precisions."""

    design: np.ndarray
    y: np.ndarray
    noise: float = 4.0
    prior: float = 1.0

    def log_p(self, w: Any) -> Any:
        wrong = self.y - phix.to_tensor(self.design) @ w
        return -0.5 * (self.noise * ops.sum(wrong * wrong) + self.prior * ops.sum(w * w))

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        precision = self.prior * np.eye(self.design.shape[1])
        covariance = np.linalg.inv(precision + self.noise * self.design.T @ self.design)
        return self.noise * covariance @ self.design.T @ self.y, covariance


def regression(points: int = 12) -> Regression:
    """A line through few points: its offset and its slope hang together."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.5, points)
    return Regression(np.stack([np.ones(points), x], 1), 0.5 - x + 0.5 * rng.normal(size=points))


def sampled(problem: Regression, count: int = 64, steps: int = 500) -> tuple[np.ndarray, float]:
    """Points [count, steps, n] of all chains, the first 50 steps left out, and how many moved."""
    starts = phix.zeros([count, problem.design.shape[1]], "float64")
    run = phix.jit(lambda key: chains(problem.log_p, key, starts, steps + 50))
    points, moved = run(phix.random.key(0))
    return points.numpy()[:, 50:], float(moved.numpy().mean())


def draw(axes: Any, problem: Regression, points: np.ndarray) -> None:
    flat = points.reshape(-1, 2)
    axes.plot(*flat[::16].T, ".", color="#b8c4d0", markersize=2, label="chains")
    mean, covariance = problem.posterior()
    turn = np.linspace(0, 2 * np.pi, 100)
    circle = np.linalg.cholesky(covariance) @ [np.cos(turn), np.sin(turn)]
    for r in (1, 2, 3):
        label = "closed form" if r == 1 else None
        axes.plot(*(mean[:, None] + r * circle), color="#d1495b", linewidth=1, label=label)
    axes.set(xlabel="offset", ylabel="slope", title="HMC: 64 chains")
    axes.legend()


if __name__ == "__main__":
    problem = regression()
    points, moved = sampled(problem)
    mean, covariance = problem.posterior()
    flat = points.reshape(-1, 2)
    print(f"{moved:.0%} of steps moved")
    print("mean", flat.mean(0).round(3), "closed form", mean.round(3))
    print("covariance", *np.cov(flat.T).round(4), "closed form", *covariance.round(4))
    picture("hmc", draw, problem, points)
