"""An adversarial pair of networks: one makes points of noise, the other tells them from data."""

import time

import numpy as np

import phix
from phix import ops
from phix.nn import functional as F


def network(key, sizes):
    keys = phix.random.split(key, len(sizes) - 1)
    return [phix.nn.Linear.create(k, a, b) for k, a, b in zip(keys, sizes, sizes[1:])]


def run(layers, x):
    for layer in layers[:-1]:
        x = F.relu(layer(x))
    return layers[-1](x)


def loss(made_by, told_by, noise, real):
    """What the maker wants small and the teller large: how well fakes are told from data."""
    fake = run(told_by, run(made_by, noise))
    return ops.mean(F.log_sigmoid(run(told_by, real))) + ops.mean(F.log_sigmoid(-fake))


def train(key, real, steps=2000, batch=100, width=8, rate=1e-3):
    first, second, key = phix.random.split(key, 3)
    pair = network(first, (width, 32, 32, 2)), network(second, (2, 32, 32, 1))
    rules = phix.optim.adam(rate), phix.optim.adam(rate)

    def step(carry, key):
        pair, states = carry
        left, right = phix.random.split(key)
        rows = phix.random.randint(left, 0, real.shape[0], [batch])
        noise = phix.random.normal(right, [batch, width])
        value, (down, up) = phix.value_and_grad(loss, (0, 1))(*pair, noise, real[rows])
        moves = zip(rules, (down, phix.tree.map(lambda g: -g, up)), states, pair)
        updates, states = zip(*(rule.update(g, s, p) for rule, g, s, p in moves))
        return (tuple(map(phix.optim.apply_updates, pair, updates)), states), value

    states = tuple(rule.init(p) for rule, p in zip(rules, pair))
    return phix.jit(lambda c, keys: phix.scan(step, c, keys))(
        (pair, states), phix.random.split(key, steps)
    )


def data(count=1000, seed=0):
    """Points on a circle."""
    rng = np.random.default_rng(seed)
    turn = rng.uniform(0, 2 * np.pi, count)
    points = np.stack([np.cos(turn), np.sin(turn)], 1) + 0.05 * rng.normal(size=(count, 2))
    return points.astype("f")


if __name__ == "__main__":
    begin = time.perf_counter()
    ((maker, _), _), values = train(phix.random.key(0), phix.to_tensor(data()))
    made = run(maker, phix.random.normal(phix.random.key(1), [500, 8])).numpy()
    print(f"loss {values[-1].item():.3f}, distance from the middle "
          f"{np.hypot(*made.T).mean():.2f}, in {time.perf_counter() - begin:.2f} s")  # fmt: skip
