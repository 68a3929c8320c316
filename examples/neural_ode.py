"""A differential equation with a network for its right side, solved by adaptive steps.

``python examples/neural_ode.py [--plot]``, half a minute on a CPU: from points on a spiral, the
network learns how they move. ``solve`` takes Dormand and Prince's steps of order 5, as long as the
error that their companion of order 4 shows allows, in a ``while_loop``. Its derivative is a rule of
its own (``custom_vjp``): the adjoint equation, solved backwards from the end, so that no step has
to be kept. ``phix.grad`` through the loop itself gives the same, and keeps all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import phix
from phix import nn, ops, optim
from plotting import picture

# -- Dormand and Prince, 1980: slopes k_i = f(y + h sum_j A_ij k_j); the last row is the step ------
A = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
C = [1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1]
ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]
Right = Callable[[Any, Any, Any], Any]  # f(y, t, params): dy/dt, a tree as y is one


class Steps(NamedTuple):
    t: Any
    y: Any
    slope: Any  # f at y and t: the last slope of a step is the first of the next
    length: Any
    taken: Any
    tried: Any


def combined(y: Any, h: Any, weights: list[float], slopes: list[Any]) -> Any:
    """y + h * sum of weights * slopes."""

    def one(y: Any, *ks: Any) -> Any:
        return y + h * sum(w * k for w, k in zip(weights, ks) if w)

    return phix.tree.map(one, y, *slopes)


def adaptive(f: Right, y0: Any, t0: Any, t1: Any, params: Any, tolerance: float) -> Steps:
    """Steps from t0 to t1, which may lie before it; each errs by ``tolerance`` at most, relative
    to the size of y, or to 1 where it is less."""
    direction = ops.sign(t1 - t0)

    def is_there(s: Steps) -> Any:
        return ((t1 - s.t) * direction > 0.0) & (s.tried < 10_000)

    def step(s: Steps) -> Steps:
        h = direction * ops.minimum(s.length, ops.abs(t1 - s.t))
        slopes, y = [s.slope], s.y
        for weights, c in zip(A, C):
            y = combined(s.y, h, weights, slopes)
            slopes.append(f(y, s.t + c * h, params))
        zeros = phix.tree.map(lambda x: 0.0 * x, y)
        wrong = phix.tree.map(
            lambda e, a, b: e / (tolerance * ops.maximum(ops.maximum(ops.abs(a), ops.abs(b)), 1.0)),
            combined(zeros, h, ERROR, slopes), s.y, y,
        )  # fmt: skip
        squares = [ops.sum(e * e) for e in phix.tree.leaves(wrong)]
        error = ops.sqrt(sum(squares) / sum(e.size for e in phix.tree.leaves(wrong)))
        good = error <= 1.0
        factor = ops.clip(0.9 * ops.maximum(error, 1e-8) ** -0.2, 0.2, 5.0)
        new = Steps(s.t + h, y, slopes[-1], s.length, s.taken + 1, s.tried)
        kept = phix.tree.map(lambda a, b: ops.where(good, a, b), new, s)
        # the last step is cut at t1, which says nothing of how long the next may be
        return kept._replace(length=factor * ops.abs(h), tried=s.tried + 1)

    none = phix.zeros([], "int32")
    first = Steps(t0, y0, f(y0, t0, params), 0.05 * ops.abs(t1 - t0), none, none)
    return phix.while_loop(is_there, step, first)


@functools.partial(phix.custom_vjp, nondiff_argnums=(0, 5))
def solve(f: Right, y0: Any, t0: Any, t1: Any, params: Any, tolerance: float = 1e-6) -> Any:
    """y at t1 of dy/dt = f(y, t, params), y(t0) = y0."""
    return adaptive(f, y0, t0, t1, params, tolerance).y


def _forward(f: Right, y0: Any, t0: Any, t1: Any, params: Any, tolerance: float) -> Any:
    y1 = adaptive(f, y0, t0, t1, params, tolerance).y
    return y1, (y1, t0, t1, params)


def _backward(f: Right, tolerance: float, kept: Any, y1_grad: Any) -> Any:
    """With a = d loss / d y(t): da/dt = -a df/dy, and d loss / d params = integral of a df/dp."""
    y1, t0, t1, params = kept

    def back(state: Any, t: Any, params: Any) -> Any:
        y, a, _ = state
        slope, pull = phix.vjp(lambda y, p: f(y, t, p), y, params)
        return slope, *phix.tree.map(lambda g: -1.0 * g, pull(a))

    none = phix.tree.map(lambda p: 0.0 * p, params)
    y0, y0_grad, grads = adaptive(back, (y1, y1_grad, none), t1, t0, params, tolerance).y

    def along(a: Any, slope: Any) -> Any:
        products = phix.tree.map(lambda x, y: ops.sum(x * y), a, slope)
        return sum(phix.tree.leaves(products))

    of_t0, of_t1 = -along(y0_grad, f(y0, t0, params)), along(y1_grad, f(y1, t1, params))
    return y0_grad, of_t0, of_t1, grads


solve.defvjp(_forward, _backward)


# -- a spiral --------------------------------------------------------------------------------------
@nn.module
class Field:
    """How points [2] move: a network of their cubes, which is told nothing of the spiral."""

    first: nn.Linear
    second: nn.Linear

    @staticmethod
    def create(key: Any, hidden: int) -> Field:
        first, second = phix.random.split(key)
        return Field(nn.Linear.create(first, 2, hidden), nn.Linear.create(second, hidden, 2))

    def __call__(self, y: Any) -> Any:
        return self.second(ops.tanh(self.first(y**3)))


def spiral(y: Any, t: Any, params: Any) -> Any:
    """The truth: dy/dt = y^3 @ params."""
    return y**3 @ params


def learnt(y: Any, t: Any, net: Field) -> Any:
    return net(y)


class Result(NamedTuple):
    losses: np.ndarray
    truth: np.ndarray  # [times, 2]
    learnt: np.ndarray


def path(f: Right, y0: Any, times: Any, params: Any) -> Any:
    """y at each of the times, [times, 2]: one solution goes on from the other."""

    def go_on(y: Any, ends: Any) -> Any:
        y = solve(f, y, ends[0], ends[1], params, 1e-5)
        return y, y

    return phix.scan(go_on, y0, ops.stack([times[:-1], times[1:]], 1))[1]


def train(steps: int = 3000, batch: int = 32, hidden: int = 50, times: int = 300) -> Result:
    at = phix.linspace(0.0, 6.0, times)
    matrix, y0 = phix.to_tensor([[-0.1, 2.0], [-2.0, -0.1]]), phix.to_tensor([2.0, 0.0])
    truth = ops.concat([y0[None], phix.jit(path, static_argnums=0)(spiral, y0, at, matrix)], 0)
    rates = optim.cosine_decay_schedule(5e-3, steps)
    net, optimizer, ahead = Field.create(phix.random.key(0), hidden), optim.adam(rates), 10

    def loss(net: Field, starts: Any) -> Any:
        """How far points are, 10 times later, from where they should be; all in one solution."""
        late = solve(learnt, truth[starts], at[0], at[ahead], net, 1e-4)
        return ops.mean(ops.abs(late - truth[starts + ahead]))

    @phix.jit
    def step(net: Field, state: Any, key: Any) -> Any:
        starts = phix.random.randint(key, 0, times - ahead, [batch])
        value, grads = phix.value_and_grad(loss)(net, starts)
        updates, state = optimizer.update(grads, state, net)
        return optim.apply_updates(net, updates), state, value

    state, losses = optimizer.init(net), []
    for key in phix.random.split(phix.random.key(1), steps):
        net, state, value = step(net, state, key)
        losses.append(value.item())
    found = phix.jit(path, static_argnums=0)(learnt, y0, at, net)
    return Result(np.array(losses), truth.numpy(), found.numpy())


def draw(axes: Any, result: Result) -> None:
    axes.plot(*result.truth.T, "o", color="#b8c4d0", markersize=3, label="the spiral")
    axes.plot(*result.learnt.T, color="#d1495b", linewidth=1.2, label="learnt")
    axes.set_title("Neural ODE: a path of 300 points, from the first")
    axes.legend()


if __name__ == "__main__":
    result = train()
    error = np.abs(result.learnt - result.truth[1:]).mean()
    print(f"loss {result.losses[0]:.3f} -> {result.losses[-20:].mean():.3f}")
    print(f"the path is off by {error:.3f} on average")
    picture("neural_ode", draw, result)
