"""Convolutions, maxima of windows and a dense layer learn digits."""

import time

from classifier import accuracy, data, loss

import phix
from phix import nn, ops, optim
from phix.nn import functional as F


def network(key, classes=10, width=8):
    keys = phix.random.split(key, 3)
    return nn.Sequential.create(
        nn.Conv2d.create(keys[0], 1, width, 3, padding=1), ops.relu,
        lambda x: F.max_pool2d(x, 2),
        nn.Conv2d.create(keys[1], width, 2 * width, 3, padding=1), ops.relu,
        lambda x: ops.reshape(x, [x.shape[0], -1]),
        nn.Linear.create(keys[2], 2 * width * 16, classes),
    )  # fmt: skip


def train(model, x, y, steps=120, batch=64, rate=3e-3, seed=0):
    optimizer = optim.adam(rate)

    def step(carry, key):
        model, state = carry
        rows = phix.random.randint(key, 0, x.shape[0], [batch])
        value, grads = phix.value_and_grad(loss)(model, x[rows], y[rows])
        updates, state = optimizer.update(grads, state, model)
        return (optim.apply_updates(model, updates), state), value

    keys = phix.random.split(phix.random.key(seed), steps)
    (model, _), values = phix.jit(lambda c: phix.scan(step, c, keys))(
        (model, optimizer.init(model))
    )
    return model, values


if __name__ == "__main__":
    begin = time.perf_counter()
    x, y = data()
    x = ops.reshape(x, [-1, 1, 8, 8])
    model, _ = train(network(phix.random.key(0)), x[:1500], y[:1500])
    print(f"right {accuracy(model, x[1500:], y[1500:]).item():.3f} of those it has not seen, "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
