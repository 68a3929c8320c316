"""Derivatives of batched branches and loops, where a lane takes another branch, or has ended.

What a lane does not take is computed for it all the same, and may have no derivative there: square
roots of negative numbers, logarithms. The other order, a derivative a lane, takes one branch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops


def _number(x: Any) -> Any:
    return ops.cast(x > 0, "int64") + ops.cast(x > 3, "int64")


def _by_cond(x: Any, w: Any) -> Any:
    return phix.cond(x > 0, lambda: w * ops.sqrt(x), lambda: w * w * x)


def _by_switch(x: Any, w: Any) -> Any:
    branches = [lambda: w * x, lambda: ops.log(w * x), lambda: ops.sqrt(x - 3) / w]
    return phix.switch(_number(x), branches)


def _in_a_scan(x: Any, w: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return phix.cond(c > 1.0, lambda: w * ops.sqrt(c - 1.0), lambda: c), None

    return phix.scan(step, x, None, length=3)[0]


def _while_large(x: Any, w: Any) -> Any:
    return w * phix.while_loop(lambda c: c > 1.0, lambda c: ops.sqrt(c - 1.0), x)


def _while_with_what_lanes_share(x: Any, w: Any) -> Any:
    def step(state: Any) -> Any:
        c, total = state
        return c - 1.0, total + ops.sqrt(w * (c - 1.0)) * c

    return phix.while_loop(lambda s: s[0] > 1.0, step, (x, 0.0 * x))[1]


# name -> (function of x and w, lanes)
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "cond": (_by_cond, [-1.0, 4.0, 0.0]),
    "switch": (_by_switch, [-1.0, 2.0, 4.0, 3.5]),
    "cond in a scan": (_in_a_scan, [0.5, 3.0, 7.0]),
    "while_loop": (_while_large, [0.5, 3.0, 7.0]),
    "while_loop of shared": (_while_with_what_lanes_share, [0.5, 3.2, 7.5]),
}


WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "compiled": phix.jit,
    "of unknown size": lambda f: phix.jit(
        f, input_spec=[phix.spec(["n"], "float64"), phix.spec([], "float64")]
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_lanes_are_those_of_each_lane(name: str, way: str) -> None:
    f, lanes = FUNCTIONS[name]
    x, w = phix.to_tensor(lanes, "float64"), phix.to_tensor(1.7, "float64")
    make = WAYS[way]

    def total(x: Any, w: Any) -> Any:
        return ops.sum(phix.vmap(f, in_axes=(0, None))(x, w))

    of_x, of_w = make(phix.grad(total, (0, 1)))(x, w)
    each = [phix.grad(f, (0, 1))(x[k], w) for k in range(len(lanes))]
    np.testing.assert_allclose(of_x, [g.item() for g, _ in each], rtol=1e-12)
    np.testing.assert_allclose(of_w, sum(g.item() for _, g in each), rtol=1e-12)
    of_none, of_shared = make(phix.grad(total, (0, 1)))(x[:0], w)
    assert of_none.shape == (0,) and not of_shared.item()
    second = phix.hessian(total)
    alone = [phix.grad(phix.grad(f))(x[k], w).item() for k in range(len(lanes))]
    for found in (second(x, w), phix.jit(second)(x, w)):
        np.testing.assert_allclose(found, np.diag(alone), rtol=1e-12)


def test_weights_that_lanes_share_have_gradients_from_those_alone_that_take_them() -> None:
    weights = np.array([[0.5, -1.0], [2.0, 0.25]])

    def f(x: Any, w: Any) -> Any:
        return phix.cond(x[0] > 0, lambda: ops.sum(ops.log(w @ x + 3.0)), lambda: ops.sum(w) * x[1])

    x = np.array([[1.0, 0.5], [-9.0, 2.0], [2.0, -0.5]])  # log of what is negative, in lane 1

    def total(w: Any) -> Any:
        return ops.sum(phix.vmap(f, in_axes=(0, None))(x, w))

    expected = sum(phix.grad(f, 1)(row, weights).numpy() for row in x)
    np.testing.assert_allclose(phix.grad(total)(weights), expected, rtol=1e-12)
    np.testing.assert_allclose(phix.jit(phix.grad(total))(weights), expected, rtol=1e-12)
