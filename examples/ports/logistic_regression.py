"""Logistic regression by gradient descent, as a program for autograd with its imports changed."""

import time

import phix
import phix.autograd.numpy as np
from phix.autograd import grad


def probabilities(weights, inputs):
    return 0.5 * (np.tanh(0.5 * np.dot(inputs, weights)) + 1.0)


def loss(weights, inputs, is_one):
    """The mean of -log p(label), and a little for large weights, so that there is one minimum."""
    p = probabilities(weights, inputs)
    own = np.where(is_one, p, 1.0 - p)
    return -np.mean(np.log(own)) + 0.01 * np.sum(weights**2)


def data(count=60, seed=0):
    rng = np.random.RandomState(seed)
    inputs = rng.randn(count, 3)
    return inputs, inputs @ np.array([1.5, -2.0, 0.5]) + rng.randn(count) > 0


def train(inputs, is_one, steps=150, rate=2.0):
    slope, weights = grad(phix.jit(loss)), np.zeros(inputs.shape[1])
    for _ in range(steps):
        weights = weights - rate * slope(weights, inputs, is_one)
    return weights


if __name__ == "__main__":
    begin = time.perf_counter()
    found = train(*data())
    print("weights", found.round(4), f"in {time.perf_counter() - begin:.2f} s")
