"""Loops with many small steps."""

from __future__ import annotations

from typing import Any

import numpy as np

import phix
from benchmarks.harness import Case, normal, row
from benchmarks.peers import jax, jnp, torch
from phix import ops


# -- a recurrent network -------------------------------------------------------------------------
def _rnn(scan: Any, xp: Any) -> Any:
    def loss(weights: Any, h: Any, xs: Any) -> Any:
        w, u = weights

        def step(h: Any, x: Any) -> Any:
            h = xp.tanh(x @ w + h @ u)
            return h, h

        return xp.sum(scan(step, h, xs)[1] ** 2)

    return loss


def _rnn_torch(weights: Any, h: Any, xs: Any) -> Any:
    w, u = weights
    states = []
    for x in xs:
        h = torch.tanh(x @ w + h @ u)
        states.append(h)
    return (torch.stack(states) ** 2).sum()


def _rnn_case(mode: str) -> Case:
    def scan(*args: Any) -> Any:
        return jax.lax.scan(*args)

    weights = (normal(16, 16, scale=0.25), normal(16, 16, seed=1, scale=0.25))
    functions = {"phix": _rnn(phix.scan, ops), "jax": _rnn(scan, jnp), "torch": _rnn_torch}
    args = (weights, normal(8, 16), normal(200, 8, 16))
    return Case(args, functions, mode=mode, tolerance=1e-4)


@row("rnn by scan, 200 steps, 8 x 16", jax=5)
def rnn() -> Case:
    return _rnn_case("call")


@row("rnn by scan, 200 steps, 8 x 16: with gradient", jax=5)
def rnn_gradient() -> Case:
    return _rnn_case("value_and_grad")


# -- RK4: Euler's equations of a rigid body --------------------------------------------------------
def _rk4_step(slope: Any) -> Any:
    h = 1e-3

    def step(_: Any, y: Any) -> Any:
        a = slope(y)
        b = slope(y + 0.5 * h * a)
        c = slope(y + 0.5 * h * b)
        d = slope(y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d)

    return step


def _repeated(step: Any, steps: int) -> Any:
    def run(y: Any, *rest: Any) -> Any:
        for number in range(steps):
            y = step(number, y, *rest)
        return y

    return run


@row("RK4 of a 3-vector, 1e4 steps", jax=5)
def rk4() -> Case:
    steps = 10_000

    def slope(roll: Any, factors: Any) -> Any:
        return lambda y: factors * roll(y, -1) * roll(y, -2)

    def torch_roll(y: Any, shift: int) -> Any:
        return torch.roll(y, shift)

    f = np.array([-2.0, 1.25, 0.5], np.float32)

    def in_phix(y: Any, f: Any) -> Any:
        roll = lambda y, n: ops.roll(y, (n,), (0,))  # noqa: E731
        return phix.fori_loop(0, steps, _rk4_step(slope(roll, f)), y)

    def in_jax(y: Any, f: Any) -> Any:
        return jax.lax.fori_loop(0, steps, _rk4_step(slope(jnp.roll, f)), y)

    def in_torch(y: Any, f: Any) -> Any:
        return _repeated(_rk4_step(slope(torch_roll, f)), steps)(y)

    return Case(
        (np.array([1.0, 0.5, 0.25], np.float32), f),
        {"phix": in_phix, "jax": in_jax, "torch": in_torch},
        tolerance=1e-3,
        is_long_loop=True,
    )


# -- a five-point stencil --------------------------------------------------------------------------
def _laplacian(u: Any) -> Any:
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]


def _stencil_step(_: Any, u: Any) -> Any:
    return u.at[1:-1, 1:-1].add(0.2 * _laplacian(u))


def _stencil_in_place(copy: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        out = copy(u)
        out[1:-1, 1:-1] += 0.2 * _laplacian(u)
        return out

    return step


@row("five-point stencil, 512 x 512, 100 steps", jax=5)
def stencil() -> Case:
    steps = 100
    return Case(
        (normal(512, 512),),
        {
            "phix": lambda u: phix.fori_loop(0, steps, _stencil_step, u),
            "jax": lambda u: jax.lax.fori_loop(0, steps, _stencil_step, u),
            "torch": _repeated(_stencil_in_place(lambda u: u.clone()), steps),
            "numpy": _repeated(_stencil_in_place(np.copy), steps),
        },
        tolerance=1e-4,
        is_long_loop=True,
    )


# -- an array filled element by element ------------------------------------------------------------
def _filled(fori_loop: Any, xp: Any) -> Any:
    def loss(rate: Any, start: Any) -> Any:
        def fill(i: Any, x: Any) -> Any:
            return x.at[i].set(xp.sin(rate * x[i - 1] + 1.0))

        return xp.sum(fori_loop(1, start.shape[0], fill, start))

    return loss


def _filled_torch(rate: Any, start: Any) -> Any:
    x = start[0]
    values = [x]
    for _ in range(1, start.shape[0]):
        x = torch.sin(rate * x + 1.0)
        values.append(x)
    return torch.stack(values).sum()


@row("an array filled over 2e4 steps: with gradient", jax=5)
def filled() -> Case:
    def fori_loop(*args: Any) -> Any:
        return jax.lax.fori_loop(*args)

    return Case(
        (np.float32(0.9), np.zeros(20_000, np.float32)),
        {
            "phix": _filled(phix.fori_loop, ops),
            "jax": _filled(fori_loop, jnp),
            "torch": _filled_torch,
        },
        mode="value_and_grad",
        tolerance=1e-3,
        is_long_loop=True,
    )
