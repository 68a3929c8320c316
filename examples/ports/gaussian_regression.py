"""A Gaussian process whose length, height and noise are fitted to the marginal likelihood."""

import time

import numpy as np

import phix
from phix import numpy as pn
from phix.scipy.optimize import minimize
from phix.scipy.stats import multivariate_normal


def kernel(x, y, params):
    away = (x[:, None] - y[None, :]) / pn.exp(params["log_length"])
    return pn.exp(2 * params["log_height"] - 0.5 * away**2)


def covariance(params, x):
    return kernel(x, x, params) + pn.exp(2 * params["log_noise"]) * np.eye(len(x))


def negative_log_likelihood(params, x, y):
    return -multivariate_normal.logpdf(y, np.zeros(len(x)), covariance(params, x))


def predict(params, x, y, at):
    """Mean and variance of the process at other places."""
    across = kernel(x, at, params)
    weights = pn.linalg.solve(covariance(params, x), across)
    return weights.T @ y, pn.exp(2 * params["log_height"]) - pn.sum(across * weights, 0)


def fit(x, y, steps=30):
    start = {k: phix.to_tensor(np.float64(v)) for k, v in
             (("log_length", 0.0), ("log_height", 0.0), ("log_noise", -1.0))}  # fmt: skip
    run = phix.jit(lambda p: minimize(negative_log_likelihood, p, (x, y), method="BFGS",
                                      options={"maxiter": steps}))  # fmt: skip
    return run(start)


def data(count=20, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, count))
    return x, np.sin(2 * x) + 0.1 * rng.normal(size=count)


if __name__ == "__main__":
    begin = time.perf_counter()
    found = fit(*data())
    shown = {k: round(pn.exp(v).item(), 4) for k, v in found.x.items()}
    print(shown, f"after {found.nit.item()} steps in {time.perf_counter() - begin:.2f} s")
