"""Black-box variational inference: a normal distribution of independent parts is fitted to any
log density, by gradients of the evidence's lower bound through its samples."""

import time

import numpy as np

import phix
from phix import ops, optim
from phix.scipy.stats import norm


def lower_bound(params, log_density, noise):
    """The mean of log p(x) over samples mean + exp(log_std) noise, and the entropy."""
    mean, log_std = params
    samples = mean + ops.exp(log_std) * noise
    entropy = ops.sum(log_std) + 0.5 * mean.shape[0] * np.log(2 * np.pi * np.e)
    return ops.mean(phix.vmap(log_density)(samples)) + entropy


def fit(log_density, size, steps=400, samples=40, rate=0.05, seed=0, mean=0.0, log_std=0.0):
    optimizer = optim.adam(optim.cosine_decay_schedule(rate, steps))
    params = tuple(v + phix.zeros([size], "float64") for v in (mean, log_std))

    def step(carry, key):
        params, state = carry
        noise = phix.random.normal(key, [samples, size], "float64")
        grads = phix.grad(lambda p: -lower_bound(p, log_density, noise))(params)
        updates, state = optimizer.update(grads, state, params)
        return (optim.apply_updates(params, updates), state), None

    keys = phix.random.split(phix.random.key(seed), steps)
    run = phix.jit(lambda carry: phix.scan(step, carry, keys)[0][0])
    return run((params, optimizer.init(params)))


def funnel(x):
    """A width that is drawn first, and a number of that width."""
    return norm.logpdf(x[0], 0.0, 1.35) + norm.logpdf(x[1], 0.0, ops.exp(x[0]))


if __name__ == "__main__":
    begin = time.perf_counter()
    mean, log_std = fit(funnel, 2)
    print("mean", mean.numpy().round(3), "std", np.exp(log_std.numpy()).round(3),
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
