"""A mixture of normal distributions, by quasi-Newton steps on the likelihood of its raw numbers."""

import time

import numpy as np

import phix
from phix import ops
from phix.scipy.optimize import minimize
from phix.scipy.special import logsumexp


def log_likelihood(params, x):
    """Of points [n, d] under k components: shares [k], means [k, d], lower factors of the inverse
    covariances [k, d, d], whose diagonals are exponentials."""
    shares, means, raw = params
    diagonals = ops.diagonal(raw, 0, 1, 2)
    lower = ops.tril(raw, -1) + ops.diag_embed(ops.exp(diagonals))
    gaps = ops.matmul(x[None] - means[:, None], lower)
    logs = ops.sum(diagonals, [1])[:, None] - 0.5 * ops.sum(gaps**2, [2])
    logs = logs - 0.5 * x.shape[1] * np.log(2 * np.pi) + ops.log_softmax(shares, 0)[:, None]
    return ops.mean(logsumexp(logs, 0))


def fit(x, components, rounds=60, seed=0):
    n, d = x.shape
    rows = np.random.default_rng(seed).choice(n, components, replace=False)
    begin = np.zeros(components), np.array(x[rows]), np.zeros((components, d, d))
    run = phix.jit(lambda p: minimize(lambda p: -log_likelihood(p, x), p, method="l-bfgs",
                                      options={"maxiter": rounds}))  # fmt: skip
    return run(begin)


def data(count=60):
    """Three arms, turned against each other."""
    rng = np.random.default_rng(1)
    arms = [rng.normal(size=(count, 2)) * [0.2, 1.0] + [0.0, 2.5] for _ in range(3)]
    turns = [2 * np.pi * k / 3 for k in range(3)]
    return np.concatenate([a @ [[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]]
                           for a, t in zip(arms, turns)])  # fmt: skip


if __name__ == "__main__":
    begin = time.perf_counter()
    x = data()
    found = fit(x, 3)
    print(f"log likelihood of a point {-found.fun.item():.4f}, means\n{found.x[1].numpy().round(2)}"
          f"\nin {time.perf_counter() - begin:.2f} s")  # fmt: skip
