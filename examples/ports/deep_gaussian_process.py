"""A Gaussian process of a Gaussian process: the numbers between them are found with the parameters
of both. A step, which one process would smooth, is learnt as a step."""

import time

import numpy as np
from gaussian_regression import negative_log_likelihood, predict

import phix
from phix.scipy.optimize import minimize


def loss(params, x, y):
    first = negative_log_likelihood(params["first"], x, params["hidden"])
    return first + negative_log_likelihood(params["second"], params["hidden"], y)


def deep_predict(params, x, y, at):
    """Mean and variance at other places, of the second process at the mean of the first."""
    hidden = predict(params["first"], x, params["hidden"], at)[0]
    return predict(params["second"], params["hidden"], y, hidden)


def fit(x, y, rounds=100, seed=0):
    rng = np.random.default_rng(seed)
    names = ("log_length", "log_height", "log_noise")
    first, second = ({n: 0.1 * rng.normal() for n in names} for _ in range(2))
    begin = {"first": first, "second": second, "hidden": 0.1 * rng.normal(size=len(x)) + x}
    run = phix.jit(lambda p: minimize(loss, p, (x, y), method="l-bfgs",
                                      options={"maxiter": rounds}))  # fmt: skip
    return run(phix.tree.map(np.asarray, begin))


def data(count=20, seed=0):
    x = np.linspace(-2, 2, count)
    return x, np.sign(x) + 0.1 * np.random.default_rng(seed).normal(size=count)


if __name__ == "__main__":
    begin = time.perf_counter()
    x, y = data()
    found = fit(x, y)
    mean, _ = deep_predict(found.x, x, y, np.array([-0.5, -0.2, 0.2, 0.5]))
    print(f"log likelihood {-found.fun.item():.3f}, around the step {mean.numpy().round(2)} "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
