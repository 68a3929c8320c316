"""A Bayesian network of dense layers: a normal distribution over all weights, by black-box
variational inference, and the curves that it thinks likely."""

import time

import numpy as np
from variational_inference import fit

import phix
from phix import ops
from phix.scipy.stats import norm


def network(weights, x, width=16):
    """One hidden layer: ``weights`` are all its numbers in a row, [3 * width + 1]."""
    first, shift, last = ops.reshape(weights[:-1], [3, width])
    return ops.tanh(x[:, None] * first + shift) @ last + weights[-1]


def log_density(x, y, noise=0.1, prior=2.0):
    """log p(y, weights) of the weights."""

    def of_weights(weights):
        likely = ops.sum(norm.logpdf(y, network(weights, x), noise))
        return likely + ops.sum(norm.logpdf(weights, 0.0, prior))

    return of_weights


def curves(found, at, key, count=50):
    """The network of weights that are drawn from the distribution, at points ``at``."""
    mean, log_std = found
    noise = phix.random.normal(key, [count, mean.shape[0]], mean.dtype)
    return phix.vmap(lambda w: network(w, at))(mean + ops.exp(log_std) * noise)


def data(count=30):
    x = np.concatenate([np.linspace(-3, -1, count // 2), np.linspace(1, 3, count // 2)])
    return x, np.cos(x) + 0.1 * np.random.default_rng(0).normal(size=count)


if __name__ == "__main__":
    begin = time.perf_counter()
    x, y = data()
    start = phix.random.normal(phix.random.key(2), [49], "float64")
    found = fit(log_density(x, y), 49, steps=1500, samples=10, rate=0.02, mean=start, log_std=-4.0)
    drawn = curves(found, np.array([-2.0, 0.0, 2.0]), phix.random.key(1)).numpy()
    print("at -2, 0, 2:", drawn.mean(0).round(2), "+-", drawn.std(0).round(2),
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
