"""Descents of ``grad(x, step)`` from a tree of arrays, under autograd's names and defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.autograd.misc.flatten import flatten

Function = Callable[..., Any]


def unflatten_optimizer(optimize: Function) -> Function:
    """An optimizer of vectors as one of trees of arrays.

    >>> from phix.autograd.misc.optimizers import unflatten_optimizer
    >>> down = unflatten_optimizer(lambda grad, x, callback: x - grad(x, 0))
    >>> float(down(lambda tree, step: tree, [3.0])[0])
    0.0
    """

    @functools.wraps(optimize)
    def of_trees(
        grad: Function, x0: Any, callback: Function | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        start, tree = flatten(x0)

        def told(x: Any, step: int, slope: Any) -> None:
            if callback is not None:
                callback(tree(x), step, tree(slope))

        def of_vector(x: Any, step: int) -> Any:
            return flatten(grad(tree(x), step))[0]

        return tree(optimize(of_vector, start, told, *args, **kwargs))

    return of_trees


def _slopes(grad: Function, x: Any, step: int, callback: Function | None) -> Any:
    slope = grad(x, step)
    if callback is not None:
        callback(x, step, slope)
    return slope


@unflatten_optimizer
def sgd(grad: Any, x: Any, callback: Any = None, num_iters: int = 200, step_size: float = 0.1,
        mass: float = 0.9) -> Any:  # fmt: skip
    """Gradient descent with momentum: v = mass v - (1 - mass) g, x + step_size v.

    >>> from phix.autograd.misc.optimizers import sgd
    >>> abs(float(sgd(lambda x, step: 2 * x, 3.0))) < 1e-3
    True
    """
    speed = np.zeros(len(x))
    for step in range(num_iters):
        slope = _slopes(grad, x, step, callback)
        speed = mass * speed - (1.0 - mass) * slope
        x = x + step_size * speed
    return x


@unflatten_optimizer
def rmsprop(grad: Any, x: Any, callback: Any = None, num_iters: int = 100, step_size: float = 0.1,
            gamma: float = 0.9, eps: float = 1e-8) -> Any:  # fmt: skip
    """Steps of the gradient over the root of its running mean square, which begins at 1.

    >>> from phix.autograd.misc.optimizers import rmsprop
    >>> abs(float(rmsprop(lambda x, step: 2 * x, 1.0, step_size=0.01))) < 0.5
    True
    """
    square = np.ones(len(x))
    for step in range(num_iters):
        slope = _slopes(grad, x, step, callback)
        square = gamma * square + (1 - gamma) * slope**2
        x = x - step_size * slope / (np.sqrt(square) + eps)
    return x


@unflatten_optimizer
def adam(grad: Any, x: Any, callback: Any = None, num_iters: int = 100, step_size: float = 0.001,
         b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:  # fmt: skip
    """Adam: steps of the running mean of the gradient over the root of that of its square, both
    corrected for their beginning at 0.

    >>> from phix.autograd.misc.optimizers import adam
    >>> abs(float(adam(lambda x, step: 2 * x, 1.0, step_size=0.05))) < 0.1
    True
    """
    mean, square = np.zeros(len(x)), np.zeros(len(x))
    for step in range(num_iters):
        slope = _slopes(grad, x, step, callback)
        mean = b1 * mean + (1 - b1) * slope
        square = b2 * square + (1 - b2) * slope**2
        spread = np.sqrt(square / (1 - b2 ** (step + 1)))
        x = x - step_size * (mean / (1 - b1 ** (step + 1))) / (spread + eps)
    return x


__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]
