"""A Gaussian process: its marginal likelihood, maximised, and what it then says between points.

``python examples/gaussian_process.py [--plot]``, a second on a CPU. The likelihood goes through a
Cholesky factor, and its gradient in the settings through that; L-BFGS of ``phix.scipy.optimize``
finds the best of them, all compiled (C. Rasmussen and C. Williams, "Gaussian processes for machine
learning", 2006, chapters 2 and 5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import phix
from phix import linalg, ops
from plotting import picture


class Settings(NamedTuple):
    """Logarithms, so that any numbers will do: of the size of what is modelled, of the length over
    which it changes, and of the size of the noise."""

    size: Any
    length: Any
    noise: Any


def start() -> Settings:
    return Settings(*(phix.to_tensor(v, dtype="float64") for v in (0.0, 0.0, -1.0)))


def kernel(at: Settings, a: Any, b: Any) -> Any:
    """The covariance [n, m] of values at a [n] and b [m]."""
    apart = (a[:, None] - b[None, :]) * ops.exp(-at.length)
    return ops.exp(2.0 * at.size) * ops.exp(-0.5 * apart * apart)


def factor(at: Settings, x: Any) -> Any:
    """The Cholesky factor of the covariance of noisy values at x."""
    noise = ops.exp(2.0 * at.noise) + 1e-10
    return linalg.cholesky(kernel(at, x, x) + noise * phix.eye(x.shape[0], dtype=x.dtype))


def log_likelihood(at: Settings, x: Any, y: Any) -> Any:
    """log p(y) = -(y K^-1 y + log det K + n log 2 pi) / 2."""
    lower = factor(at, x)
    white = linalg.solve_triangular(lower, y[:, None], lower=True)
    log_det = 2.0 * ops.sum(ops.log(ops.diagonal(lower)))
    return -0.5 * (ops.sum(white * white) + log_det + x.shape[0] * np.log(2.0 * np.pi))


def predicted(at: Settings, x: Any, y: Any, where: Any) -> tuple[Any, Any]:
    """Mean and standard deviation [m] of the function at ``where`` [m]."""
    lower = factor(at, x)
    sides = ops.concat([kernel(at, x, where), y[:, None]], 1)
    white = linalg.solve_triangular(lower, sides, lower=True)
    part, white_y = white[:, :-1], white[:, -1]
    variance = ops.exp(2.0 * at.size) - ops.sum(part * part, 0)
    return white_y @ part, ops.sqrt(ops.maximum(variance, 0.0))


@phix.jit
def fitted(at: Settings, x: Any, y: Any) -> Any:
    """The likeliest settings, as phix.scipy.optimize gives them."""
    return phix.scipy.optimize.minimize(
        lambda at: -log_likelihood(at, x, y), at, method="l-bfgs", options={"maxiter": 100}
    )


def data(n: int = 25) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.uniform(0, 3.5, n // 2), rng.uniform(5, 8, n - n // 2)]))
    return x, np.sin(1.5 * x) + 0.3 * x + 0.15 * rng.normal(size=n)


def draw(axes: Any, x: Any, y: Any, where: Any, mean: Any, deviation: Any) -> None:
    low, high = mean - 2 * deviation, mean + 2 * deviation
    axes.fill_between(where, low, high, color="#b8c4d0", alpha=0.6, label="2 deviations")
    axes.plot(where, mean, color="#d1495b", label="mean")
    axes.plot(x, y, "k.", markersize=5, label="data")
    axes.set_title("Gaussian process")
    axes.legend()


if __name__ == "__main__":
    x, y = data()
    found = fitted(start(), x, y)
    names = zip(Settings._fields, phix.tree.leaves(found.x))
    print(", ".join(f"{name} {np.exp(value.item()):.3f}" for name, value in names))
    print(f"log likelihood {-found.fun.item():.3f} after {found.nit.item()} steps")
    where = np.linspace(-0.5, 9, 200)
    mean, deviation = phix.jit(predicted)(found.x, x, y, where)
    picture("gaussian_process", draw, x, y, where, mean.numpy(), deviation.numpy())
