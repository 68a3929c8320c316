"""phix.scipy.optimize.minimize, beside scipy.optimize.minimize."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import phix
from phix import ops
from phix.core.errors import ArgumentError, DTypeError, PhixError, ShapeError
from phix.scipy import minimising
from phix.scipy.optimize import minimize

METHODS = ["BFGS", "l-bfgs", "Newton-CG"]
pytestmark = pytest.mark.unoptimised
each_method = pytest.mark.parametrize("method", METHODS)
A = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
B = np.array([1.0, -2.0, 0.5])


def rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def quadratic(x: Any, a: Any = A, b: Any = B) -> Any:
    return 0.5 * (x @ (a @ x)) - (x * b).sum()


@each_method
def test_rosenbrock_is_solved_in_about_as_many_steps_as_scipy_takes(method: str) -> None:
    theirs = "L-BFGS-B" if method == "l-bfgs" else method
    solve = phix.jit(lambda x: minimize(rosenbrock, x, method=method))
    for n in (2, 10) if method == "BFGS" else (10,):
        x0 = np.linspace(-1.2, 1.0, n)
        found = solve(x0)
        other = scipy.optimize.minimize(
            scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der, method=theirs
        )
        assert found.success.item() and found.message == "Optimization terminated successfully."
        np.testing.assert_allclose(found.x, np.ones(n), atol=2e-4)
        assert found.fun.item() < 1e-8
        assert found.nit.item() <= 1.5 * other.nit and found.nfev.item() <= 1.5 * other.nfev
        np.testing.assert_allclose(found.jac, phix.grad(rosenbrock)(found.x), atol=1e-12)
    narrow = solve(x0.astype("float32"))  # whether its gradient falls to gtol is luck of rounding
    assert narrow.success.item() or "precision of the dtype" in narrow.message
    np.testing.assert_allclose(narrow.x, np.ones(n), atol=2e-3)


@each_method
def test_a_quadratic_is_solved_from_many_starts_at_once(method: str) -> None:
    starts = np.stack([np.zeros(3), [10.0, -3.0, 5.0], np.linalg.solve(A, B)])
    found = phix.vmap(lambda x: minimize(quadratic, x, method=method, tol=1e-8))(starts)
    np.testing.assert_allclose(found.x, [np.linalg.solve(A, B)] * 3, atol=1e-5)
    assert found.success.tolist() == [True] * 3 and len(found.message) == 3
    assert found.nit.tolist()[0] <= 12
    if method == "BFGS":
        np.testing.assert_allclose(found.hess_inv[1].numpy(), np.linalg.inv(A), atol=1e-2)
    else:
        assert found.hess_inv is None


def test_logistic_regression_of_a_tree() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    labels = (rows @ [1.0, -2.0, 0.5] + rng.normal(size=40) > 0.3).astype(float)

    def loss(params: Any, rows: Any, labels: Any) -> Any:
        z = ops.mv(phix.to_tensor(rows), params["w"]) + params["b"][0]
        return (ops.softplus(z) - labels * z).mean() + 0.01 * (params["w"] ** 2).sum()

    def theirs(v: Any) -> Any:
        z = rows @ v[1:] + v[0]
        return np.mean(np.logaddexp(0, z) - labels * z) + 0.01 * np.sum(v[1:] ** 2)

    other = scipy.optimize.minimize(theirs, np.zeros(4), tol=1e-9)
    begin = {"b": phix.zeros([1], "float64"), "w": phix.zeros([3], "float64")}
    for method in ("BFGS", "l-bfgs"):
        found = minimize(loss, begin, (rows, labels), method=method, options={"gtol": 1e-8})
        np.testing.assert_allclose(found.x["w"], other.x[1:], atol=1e-4)
        np.testing.assert_allclose(found.x["b"], other.x[:1], atol=1e-4)
        assert set(found.jac) == {"w", "b"}


@each_method
def test_what_cannot_go_well_says_so(method: str) -> None:
    at_edge = minimize(lambda x: ops.log(x).sum(), np.array([-1.0, 2.0]), method=method)
    assert (at_edge.success.item(), at_edge.status.item(), at_edge.nit.item()) == (False, 3, 0)
    assert "not finite" in at_edge.message
    short = minimize(rosenbrock, np.array([-1.2, 1.0]), method=method, options={"maxiter": 3})
    assert (short.success.item(), short.status.item(), short.nit.item()) == (False, 1, 3)
    assert short.fun.item() < rosenbrock(np.array([-1.2, 1.0]))
    none = minimize(quadratic, B, method=method, options={"maxiter": 0})
    assert none.status.item() == 1 and none.x.tolist() == B.tolist()
    solved = minimize(lambda x: (x * x).sum(), np.zeros(2), method=method)
    assert (solved.success.item(), solved.nit.item(), solved.nfev.item()) == (True, 0, 1)


def test_a_function_without_a_minimum_is_no_success() -> None:
    for method in METHODS[:2]:
        found = minimize(lambda x: -x.sum(), np.ones(2), method=method, options={"maxiter": 20})
        assert not found.success.item()


@each_method
def test_edges_of_the_domain_and_saddles_are_left(method: str) -> None:
    """Steps where the function is not finite are shortened; negative curvature is gone down."""
    found = minimize(lambda x: (x - 3.0 * ops.log(x)).sum(), np.array([0.1, 20.0]), method=method)
    np.testing.assert_allclose(found.x, [3.0, 3.0], atol=1e-3)
    wells = minimize(lambda x: ((x * x - 1.0) ** 2).sum(), np.array([0.1, -0.2]), method=method)
    np.testing.assert_allclose(wells.x, [1.0, -1.0], atol=1e-4)


def test_lists_and_ints_are_points() -> None:
    found = minimize(lambda x: ((x - 2.0) ** 2).sum(), [0, 5], method="bfgs")
    assert found.x.dtype == "float32" and found.x.shape == (2,)
    np.testing.assert_allclose(found.x, [2.0, 2.0], atol=1e-5)
    found = minimize(lambda x: (x - 2.0) ** 2, 0.5, method="BFGS")
    assert found.x.shape == () and abs(found.x.item() - 2.0) < 1e-5


def test_the_examples_run() -> None:
    found = doctest.testmod(minimising)
    assert found.attempted >= 5 and not found.failed


BAD: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: minimize(quadratic, B, method="L-BFGS-B"), ArgumentError, "method='l-bfgs'.*sigmoid"),
    (lambda: minimize(quadratic, B, method="Powell"), ArgumentError, "one of 'BFGS'"),
    (lambda: minimize(quadratic, B, method="BFGS", options={"ftol": 1}), ArgumentError, "no opt"),
    (lambda: minimize(quadratic, B, method="BFGS", options={"gtol": -1}), ArgumentError, "gtol"),
    (lambda: minimize(quadratic, B, method="BFGS", bounds=[]), ArgumentError,  # type: ignore
     "no argument 'bounds'"),
    (lambda: minimize(quadratic, B, method="BFGS", tol="a"), ArgumentError, "tol must be a number"),
    (lambda: minimize(quadratic, B, 3, method="BFGS"), ArgumentError, "args"),  # type: ignore
    (lambda: minimize(quadratic, B * 1j, method="BFGS"), DTypeError, "minimize: x0.*complex"),
    (lambda: minimize(quadratic, {}, method="BFGS"), ArgumentError, "x0 has no tensors"),
    (lambda: minimize(lambda x: x, B, method="BFGS"), ShapeError, "one number"),
    (lambda: minimize(lambda x: (x * x).sum() * 1j, B, method="BFGS"), DTypeError, "give a float"),
    (lambda: minimize(lambda x: (x > 0).sum(), B, method="BFGS"), DTypeError, "a smooth measure"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_calls_are_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()
