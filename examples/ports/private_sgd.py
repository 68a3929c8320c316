"""Differentially private gradients: each example's is clipped before they are added up, and noise
of the clip's size goes on top."""

import time

import numpy as np

import phix
from phix import ops, optim


def loss(params, x, y):
    """Of one example: -log p(y) of a linear classifier."""
    return -ops.log_softmax(x @ params["w"] + params["b"])[y]


def clipped(grads, bound):
    return phix.tree.map(lambda g: g / ops.maximum(optim.global_norm(grads) / bound, 1.0), grads)


def private_grad(params, batch, key, bound, noise):
    """The mean over the batch of clipped gradients, with noise of std noise * bound / size."""
    x, y = batch
    own = phix.vmap(lambda x, y: clipped(phix.grad(loss)(params, x, y), bound))(x, y)
    leaves, tree = phix.tree.flatten(phix.tree.map(lambda g: ops.sum(g, [0]), own))
    keys = phix.random.split(key, len(leaves))
    drawn = [g + noise * bound * phix.random.normal(k, g.shape, g.dtype)
             for g, k in zip(leaves, keys)]  # fmt: skip
    return phix.tree.unflatten(tree, [g / x.shape[0] for g in drawn])


def train(x, y, classes, steps=60, bound=1.0, noise=0.5, rate=1.0):
    params = {"w": phix.zeros([x.shape[1], classes]), "b": phix.zeros([classes])}

    def step(params, key):
        grads = private_grad(params, (x, y), key, bound, noise)
        return phix.tree.map(lambda p, g: p - rate * g, params, grads), None

    keys = phix.random.split(phix.random.key(0), steps)
    return phix.jit(lambda p: phix.scan(step, p, keys)[0])(params)


def data():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x / 16).astype("float32"), y


if __name__ == "__main__":
    begin = time.perf_counter()
    x, y = data()
    found = train(x, y, 10)
    right = np.mean(np.argmax(x @ found["w"].numpy() + found["b"].numpy(), 1) == y)
    print(f"right {right:.3f} in {time.perf_counter() - begin:.2f} s")
