"""A network learns the right side of a differential equation from one of its solutions; the steps
are of Runge's and Kutta's classical method, and the gradient goes through them."""

import time

import numpy as np

import phix
from phix import nn, ops, optim


def solve(slope, y0, times):
    """The solution at all ``times``, [n, ...], by a step from each to the next."""

    def step(y, ends):
        t, h = ends
        a = slope(y, t)
        b = slope(y + 0.5 * h * a, t + 0.5 * h)
        c = slope(y + 0.5 * h * b, t + 0.5 * h)
        d = slope(y + h * c, t + h)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    _, rest = phix.scan(step, y0, (times[:-1], times[1:] - times[:-1]))
    return ops.concat([y0[None], rest], 0)


def spiral(y, t):
    return (y**3) @ np.array([[-0.1, 2.0], [-2.0, -0.1]], "f")


def loss(model, points, times):
    """How far the solutions from each point go astray over the ten steps behind it."""
    begins = points[:-10]
    found = phix.vmap(lambda y0, t: solve(lambda y, t: model(y**3), y0, t))(
        begins, times[: len(begins), None] + (times[:11] - times[0])
    )
    rows = np.arange(len(begins))[:, None] + np.arange(11)
    return ops.mean(ops.abs(found - points[rows]))


def train(points, times, width=32, steps=300, rate=1e-2, seed=0):
    keys = phix.random.split(phix.random.key(seed))
    layers = nn.Linear.create(keys[0], 2, width), ops.tanh, nn.Linear.create(keys[1], width, 2)
    model, optimizer = nn.Sequential.create(*layers), optim.adam(rate)

    def step(carry, _):
        model, state = carry
        value, grads = phix.value_and_grad(loss)(model, points, times)
        updates, state = optimizer.update(grads, state, model)
        return (optim.apply_updates(model, updates), state), value

    run = phix.jit(lambda c: phix.scan(step, c, length=steps))
    (model, _), values = run((model, optimizer.init(model)))
    return model, values


if __name__ == "__main__":
    begin = time.perf_counter()
    times = np.linspace(0, 10, 200, dtype="f")
    points = solve(spiral, phix.to_tensor([2.0, 0.0]), phix.to_tensor(times))
    model, values = train(points, phix.to_tensor(times))
    print(f"off by {values[0].item():.3f} -> {values[-1].item():.4f} "
          f"in {time.perf_counter() - begin:.2f} s")  # fmt: skip
