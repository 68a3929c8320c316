"""Adam, written with phix alone: one training step is one traced, compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import phix
from phix import ops


class AdamState(NamedTuple):
    """What a step takes and gives: the parameters, the moments of their gradients, the count."""

    params: Any
    mean: Any
    square: Any
    count: Any


def adam_state(params: Any) -> AdamState:
    """The state before the first step; ``params`` is any tree of tensors."""
    zeros = phix.tree.map(lambda p: 0.0 * p, params)
    return AdamState(params, zeros, zeros, phix.to_tensor(0.0))


def adam(
    loss: Callable[..., Any],
    steps: int,
    peak: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> Any:
    """A compiled step ``(state, *data) -> (state, loss)``; its rate falls from ``peak`` to 0.

    The rate is a half cosine over ``steps`` calls; ``weight_decay`` is decoupled from the
    gradient (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019).

    Args:
        loss: a function ``(params, *data)`` to one real number.
    """
    value_and_grad = phix.value_and_grad(loss)
    first, second = betas

    @phix.jit
    def step(state: AdamState, *data: Any) -> tuple[AdamState, Any]:
        value, gradient = value_and_grad(state.params, *data)
        rate = peak * 0.5 * (1.0 + ops.cos(state.count * (3.141592653589793 / steps)))
        count = state.count + 1.0
        # The moments start at 0; dividing by what they would be for a constant 1 unbiases them.
        unbias_mean = 1.0 / (1.0 - first**count)
        unbias_square = 1.0 / (1.0 - second**count)

        def moved(p: Any, m: Any, s: Any) -> Any:
            direction = (m * unbias_mean) / (ops.sqrt(s * unbias_square) + epsilon)
            return p - rate * (direction + weight_decay * p)

        mean = phix.tree.map(lambda m, g: first * m + (1 - first) * g, state.mean, gradient)
        square = phix.tree.map(
            lambda s, g: second * s + (1 - second) * g * g, state.square, gradient
        )
        params = phix.tree.map(moved, state.params, mean, square)
        return AdamState(params, mean, square, count), value

    return step
