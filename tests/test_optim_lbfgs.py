"""L-BFGS and its search: against the inverse Hessian written out, known minima, and optax."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import phix
from phix.core.errors import ArgumentError, DTypeError
from phix.optim import quasi_newton, zoom

optim = phix.optim
pytestmark = pytest.mark.unoptimised
START = {"x": np.array([0.2, 1.0, 0.5]), "y": np.array([[3.0], [0.1]])}


def valley(p: Any) -> Any:
    x, y = p["x"], p["y"]
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + ((y - 0.5) ** 2).sum()


def steps(tx: Any, function: Any, params: Any, count: int) -> Any:
    look = optim.value_and_grad_from_state(function)

    @phix.jit
    def step(params: Any, state: Any) -> Any:
        value, grad = look(params, state=state)
        updates, state = tx.update(grad, state, params, value=value, grad=grad, value_fn=function)
        return optim.apply_updates(params, updates), state

    state = tx.init(params)
    for _ in range(count):
        params, state = step(params, state)
        yield params, state


def test_it_finds_a_minimum_in_a_valley() -> None:
    params = phix.tree.map(phix.to_tensor, START)
    *_, (found, state) = steps(optim.lbfgs(), valley, params, 40)
    np.testing.assert_allclose(found["x"], 1.0, rtol=1e-6)
    np.testing.assert_allclose(found["y"], 0.5, rtol=1e-6)
    np.testing.assert_allclose(state[-1].value, valley(found), rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_direction_is_that_of_the_inverse_hessian_written_out(scaled: bool) -> None:
    """P <- V' P V + rho s s', V = 1 - rho y s', over the last steps, beginning with gamma."""
    rng = np.random.default_rng(2)
    points, slopes = rng.normal(size=(2, 5, 3))
    tx = optim.scale_by_lbfgs(2, scaled)
    state = tx.init(phix.zeros([3], "float64"))
    update = phix.jit(tx.update)
    for k, (x, g) in enumerate(zip(points, slopes)):
        found, state = update(phix.to_tensor(g), state, phix.to_tensor(x))
        inverse = np.eye(3) * (min(1, 1 / np.linalg.norm(g)) if scaled else 1.0)
        for i in range(max(k - 2, 0), k):
            s, y = points[i + 1] - points[i], slopes[i + 1] - slopes[i]
            if i == max(k - 2, 0) and scaled:
                last, turn = points[k] - points[k - 1], slopes[k] - slopes[k - 1]
                inverse = np.eye(3) * (last @ turn) / (turn @ turn)
            v = np.eye(3) - np.outer(y, s) / (s @ y)
            inverse = v.T @ inverse @ v + np.outer(s, s) / (s @ y)
        np.testing.assert_allclose(found, inverse @ g, rtol=1e-9)


def test_lengths_satisfy_the_conditions_and_stay_where_there_are_none() -> None:
    def f(x: Any) -> Any:
        return phix.ops.sum(phix.ops.log(x) ** 2.0)  # NaN from 0 down

    tx = optim.scale_by_zoom_linesearch(15, approx_dec_rtol=None)

    @phix.jit
    def searched(x: Any, updates: Any) -> Any:
        value, grad = phix.value_and_grad(f)(x)
        step, state = tx.update(updates, tx.init(x), x, value=value, grad=grad, value_fn=f)
        return step, state, value, phix.ops.sum(grad * updates)

    for x0, scale in ((4.0, 100.0), (0.2, 1e-3), (30.0, 1.0)):
        x = phix.full([1], x0, "float64")
        updates = -scale * phix.grad(f)(x)
        step, state, value, slope = searched(x, updates)
        at, new_slope = f(x + step).item(), (state.grad * updates).sum().item()
        assert at <= value.item() + 1e-4 * state.learning_rate.item() * slope.item()
        assert abs(new_slope) <= 0.9 * abs(slope.item())
        np.testing.assert_allclose(state.value, at, rtol=1e-13)
    x = phix.full([1], 2.0, "float64")
    step, state, value, _ = searched(x, phix.full([1], -np.inf, "float64"))
    assert state.learning_rate.item() == 0 and state.value.item() == value.item()


def test_what_is_refused() -> None:
    tx, x = optim.lbfgs(), phix.ones([2])
    with pytest.raises(ArgumentError, match=r"write update\(grad, state, params, value=value"):
        tx.update(x, tx.init(x), x)
    with pytest.raises(ArgumentError, match=r"found 'batch'; value_fn has x"):
        tx.update(x, tx.init(x), x, value=1.0, grad=x, value_fn=lambda x: x.sum(), batch=1)
    with pytest.raises(ArgumentError, match=r"needs the parameters"):
        tx.update(x, tx.init(x))
    with pytest.raises(
        ArgumentError, match=r"value_and_grad_from_state: .*use the optimizer lbfgs"
    ):
        optim.value_and_grad_from_state(lambda x: x.sum())(x, state=optim.sgd(0.1).init(x))
    with pytest.raises(DTypeError, match="real"):
        tx.init(phix.ones([2], "complex64"))


def test_numbers_are_those_of_optax() -> None:
    settings: dict[str, Any] = {"memory_size": 2, "scale_init_precond": False}
    optax, jax = pytest.importorskip("optax"), pytest.importorskip("jax")
    with jax.enable_x64(True):
        tx, look = optax.lbfgs(**settings), optax.value_and_grad_from_state(valley)

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            value, grad = look(params, state=state)
            updates, state = tx.update(grad, state, params, value=value, grad=grad,
                                       value_fn=valley)  # fmt: skip
            return optax.apply_updates(params, updates), state

        params = jax.tree.map(jax.numpy.asarray, START)
        state = tx.init(params)
        own = phix.tree.map(phix.to_tensor, START)
        for found, told in steps(optim.lbfgs(**settings), valley, own, 12):
            params, state = step(params, state)
            for name in START:
                np.testing.assert_allclose(found[name], np.asarray(params[name]), rtol=1e-9)
            assert told[-1].info.num_linesearch_steps == int(state[-1].info.num_linesearch_steps)


def test_the_examples_run() -> None:
    for module in (quasi_newton, zoom):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed


def test_steps_that_are_nearly_nothing_leave_numbers() -> None:
    tx, x = optim.scale_by_lbfgs(), np.ones(1, "float32")
    state = tx.init(x)
    for place in (1.0, 1e-20, 1.1e-20, 1.1e-20 + 1e-22):
        x = np.full(1, place, "float32")
        move, state = tx.update(x, state, x)
        assert np.isfinite(np.asarray(move)).all()
        assert np.isfinite(np.asarray(state.weights_memory)).all()
