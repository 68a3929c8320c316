"""What is computed of a model: stacks of transformations, written over a backend.

A target is a function ``(p, d, t)`` of parameters, data, and a tangent (or moments of an
optimiser) with the structure of the parameters; it gives a tree of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phix.core import pytrees
from tests.networks.draw import Draw, Model

Function = Callable[..., Any]
WRAPS = {"": 6.0, "jit": 1.0, "checkpoint": 1.0, "jit checkpoint": 0.5, "checkpoint jit": 0.5}


@dataclass(frozen=True)
class Target:
    """``make(B)`` is the function; ``given`` the arguments whose memory a user would give away."""

    name: str
    make: Callable[[Any], Function]
    given: tuple[int, ...] = (0,)


def wrapped(B: Any, wraps: str, f: Function) -> Function:
    for wrap in reversed(wraps.split()):
        f = getattr(B, wrap)(f)
    return f


def _tree_map(f: Function, *trees: Any) -> Any:
    return {k: f(*(t[k] for t in trees)) for k in trees[0]}


def _table(draw: Draw, model: Model, loss_of: Callable[[Any], Function]) -> dict[str, Target]:
    """Targets that fit every real model."""
    rate, c = 0.125, draw.number()

    def forward(B: Any) -> Function:
        return lambda p, d, t: model.forward(B, p, d)

    def grad(B: Any) -> Function:
        return lambda p, d, t: B.grad(loss_of(B))(p, d)

    def both(B: Any) -> Function:
        return lambda p, d, t: B.value_and_grad(loss_of(B))(p, d)

    def outputs_and_grad(B: Any) -> Function:
        return lambda p, d, t: (model.forward(B, p, d), B.grad(loss_of(B))(p, d))

    def descent(B: Any) -> Function:
        def run(p: Any, d: Any, t: Any) -> Any:
            value, g = B.value_and_grad(loss_of(B))(p, d)
            return _tree_map(lambda a, b: a - rate * b, p, g), value

        return run

    def momentum(B: Any) -> Function:
        def run(p: Any, d: Any, t: Any) -> Any:
            g = B.grad(loss_of(B))(p, d)
            t = _tree_map(lambda m, b: c * m + b, t, g)
            return _tree_map(lambda a, m: a - rate * m, p, t), t

        return run

    def adam(B: Any) -> Function:
        def run(p: Any, d: Any, t: Any) -> Any:
            value, g = B.value_and_grad(loss_of(B))(p, d)
            m = _tree_map(lambda m, b: 0.875 * m + 0.125 * b, t, g)
            v = _tree_map(lambda m, b: 0.75 * m * m + 0.25 * b * b, t, g)
            p = _tree_map(lambda a, m, v: a - rate * m / (B.sqrt(v + 0.01) + 0.5), p, m, v)
            return p, m, v, value

        return run

    def clipped(B: Any) -> Function:
        def run(p: Any, d: Any, t: Any) -> Any:
            g = B.grad(loss_of(B))(p, d)
            norm = B.sqrt(0.01 + sum(B.sum(g[k] * g[k]) for k in sorted(g)))
            return _tree_map(lambda a, b: a - rate * b / (1.0 + norm), p, g)

        return run

    def jvp(B: Any) -> Function:
        return lambda p, d, t: B.jvp(lambda p: model.forward(B, p, d), (p,), (t,))

    def jvp_of_loss(B: Any) -> Function:
        return lambda p, d, t: B.jvp(lambda p: loss_of(B)(p, d), (p,), (t,))

    def vjp(B: Any) -> Function:
        return lambda p, d, t: B.vjp(
            lambda p: model.forward(B, p, d), (p,), lambda o: B.sin(o) + 0.5 * o
        )

    def linearized(B: Any) -> Function:
        return lambda p, d, t: B.linearized(lambda p: loss_of(B)(p, d), (p,), (t,))

    def hvp(B: Any) -> Function:
        return lambda p, d, t: B.jvp(lambda p: B.grad(loss_of(B))(p, d), (p,), (t,))[1]

    def penalty(B: Any) -> Function:
        def norm(p: Any, d: Any) -> Any:
            g = B.grad(loss_of(B))(p, d)
            return sum(B.sum(g[k] * g[k]) for k in sorted(g)) * 0.25

        return lambda p, d, t: B.grad(norm)(p, d)

    def ensemble(B: Any) -> Function:
        def run(p: Any, d: Any, t: Any) -> Any:
            lanes = _tree_map(lambda a, b: B.stack([a, 0.5 * a + b, a - b], 0), p, t)
            return B.vmap(B.value_and_grad(lambda p: loss_of(B)(p, d)))(lanes)

        return run

    def taylor(B: Any) -> Function:
        order = 2 + (c > 1.0)
        return lambda p, d, t: B.directional(lambda p: loss_of(B)(p, d), p, t, order)

    made = {
        "forward": Target("forward", forward, (1,)), "grad": Target("grad", grad),
        "value_and_grad": Target("value_and_grad", both),
        "outputs and grad": Target("outputs and grad", outputs_and_grad, (0, 1)),
        "descent": Target("descent", descent), "momentum": Target("momentum", momentum, (0, 2)),
        "adam": Target("adam", adam, (0, 2)), "clipped": Target("clipped", clipped),
        "jvp": Target("jvp", jvp, (0, 2)), "jvp of loss": Target("jvp of loss", jvp_of_loss, (2,)),
        "vjp": Target("vjp", vjp), "linearized": Target("linearized", linearized, (0,)),
        "hvp": Target("hvp", hvp, (0, 2)), "penalty": Target("penalty", penalty),
        "ensemble": Target("ensemble", ensemble), "taylor": Target("taylor", taylor),
    }  # fmt: skip
    return made


WEIGHTS = {
    "forward": 1.5, "grad": 3.0, "value_and_grad": 2.0, "outputs and grad": 1.0, "descent": 2.0,
    "momentum": 1.0, "adam": 1.5, "clipped": 0.7, "jvp": 0.7, "jvp of loss": 0.4, "vjp": 0.7,
    "linearized": 0.4, "hvp": 0.6, "penalty": 0.5, "ensemble": 0.7, "taylor": 0.4, "hessian": 0.4,
    "per example": 0.7, "grad of data": 0.7,
}  # fmt: skip
OF_COMPLEX = ("forward", "grad", "value_and_grad", "outputs and grad", "descent", "momentum")


def _hessian(model: Model, loss_of: Callable[[Any], Function]) -> Target | None:
    """Of the smallest parameter."""
    sizes = {k: int(np.prod(e.dims)) for k, e in model.params.items()}
    least = min(sizes, key=lambda k: sizes[k])
    if not 0 < sizes[least] <= 9:
        return None

    def make(B: Any) -> Function:
        return lambda p, d, t: B.hessian(lambda v: loss_of(B)({**p, least: v}, d))(p[least])

    return Target("hessian", make)


def _per_example(model: Model, loss_of: Callable[[Any], Function]) -> Target | None:
    """Gradients of each example of a batch."""
    mapped = {k: e for k, e in model.data.items() if e.dims[:1] == ("n",)}
    if not mapped or model.sizes.get("n") == 0:
        return None

    def make(B: Any) -> Function:
        def one(p: Any, d: Any) -> Any:
            return loss_of(B)(p, {k: v[None] if k in mapped else v for k, v in d.items()})

        axes = {k: 0 if k in mapped else None for k in model.data}
        return lambda p, d, t: B.vmap(B.grad(one), (None, axes))(p, d)

    return Target("per example", make)


def _of_data(draw: Draw, model: Model, loss_of: Callable[[Any], Function]) -> Target | None:
    names = [k for k, e in model.data.items() if e.kind in ("normal", "uniform")]
    if not names:
        return None
    name = draw.choose(names)

    def make(B: Any) -> Function:
        return lambda p, d, t: B.grad(lambda v: loss_of(B)(p, {**d, name: v}))(d[name])

    return Target("grad of data", make, (1,))


def draw_target(draw: Draw) -> Target:
    """A stack of transformations for the model that was drawn."""
    model = draw.model
    wraps = draw.weighted(WRAPS)

    def loss_of(B: Any) -> Function:
        return wrapped(B, wraps, lambda p, d: model.loss(B, p, d))

    table: dict[str, Target | None] = dict(_table(draw, model, loss_of))
    table["hessian"] = _hessian(model, loss_of)
    table["per example"] = _per_example(model, loss_of)
    table["grad of data"] = _of_data(draw, model, loss_of)
    fits = {k: w for k, w in WEIGHTS.items() if table.get(k)}
    if model.is_complex:
        fits = {k: w for k, w in fits.items() if k in OF_COMPLEX}
    target = table[draw.weighted(fits)]
    assert target is not None
    draw.say(f"target: {target.name}" + (f" of {wraps} of the loss" if wraps else ""))
    return target


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(x) for x in pytrees.leaves(tree)]
