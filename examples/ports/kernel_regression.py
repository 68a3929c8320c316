"""Least squares in the space of a kernel, by gradient descent on its dual."""

import time

import numpy as np

import phix
from phix import ops


def gram(kernel, a, b):
    return phix.vmap(lambda x: phix.vmap(lambda y: kernel(x, y))(b))(a)


def radial(x, y):
    return ops.exp(-ops.sum((x - y) ** 2.0))


def fit(kernel, inputs, targets, ridge=0.1, steps=400):
    """Weights with (K + ridge) w = targets, and the function of them."""
    inputs, targets = phix.to_tensor(inputs), phix.to_tensor(targets)
    table = gram(kernel, inputs, inputs)

    def objective(w):
        return 0.5 * ops.dot(w, table @ w + ridge * w) - ops.dot(w, targets)

    rate = 1.0 / (ops.max(ops.sum(ops.abs(table), [1])) + ridge)  # no more than 1 / curvature
    down = phix.jit(lambda w: phix.fori_loop(
        0, steps, lambda i, w: w - rate * phix.grad(objective)(w), w))  # fmt: skip
    weights = down(ops.zeros_like(targets))
    return weights, lambda at: gram(kernel, phix.to_tensor(at), inputs) @ weights


def data(count=15, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, 2))
    return inputs, np.sin(inputs[:, 0]) * inputs[:, 1]


if __name__ == "__main__":
    begin = time.perf_counter()
    inputs, targets = data()
    weights, function = fit(radial, inputs, targets)
    error = np.abs(function(inputs).numpy() - targets).max()
    print(f"largest error {error:.4f} in {time.perf_counter() - begin:.2f} s")
