"""examples/pinns.py and neural_ode.py, beside closed forms and finite differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import polynomial

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = pytest.mark.unoptimised


@pytest.fixture
def pinns(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__("pinns")


@pytest.fixture
def ode(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__("neural_ode")


# -- networks for differential equations -----------------------------------------------------------
def test_residuals_are_the_equations(pinns: Any) -> None:
    """Of a polynomial of degree 4 in both variables, whose derivatives NumPy knows."""
    c = np.random.default_rng(0).normal(size=(5, 5))
    x = np.random.default_rng(1).uniform(-1, 1, (6, 2))

    def u(x: Any) -> Any:
        powers = [[x[:, k] ** n if n else 1.0 + 0.0 * x[:, k] for n in range(5)] for k in (0, 1)]
        return sum(c[i, j] * powers[0][i] * powers[1][j] for i in range(5) for j in range(5))

    def d(i: int, j: int) -> np.ndarray:
        """The derivative of order i in the first variable and j in the second."""
        return polynomial.polyval2d(*x.T, polynomial.polyder(polynomial.polyder(c, i), j, axis=1))

    w_x, w_y = -(d(3, 0) + d(1, 2)), -(d(2, 1) + d(0, 3))
    spread = -(d(4, 0) + 2 * d(2, 2) + d(0, 4))
    expected = {
        "laplace": d(2, 0) + d(0, 2),
        "burgers": d(1, 0) + d(0, 0) * d(0, 1) - pinns.NU * d(0, 2),
        "cavity": d(0, 1) * w_x - d(1, 0) * w_y - spread / pinns.REYNOLDS,
    }
    at = pinns.phix.to_tensor(x)
    found = pinns.phix.jit(lambda x: [getattr(pinns, name)(u, x) for name in expected])(at)
    for name, value in zip(expected, found):
        np.testing.assert_allclose(value, expected[name], rtol=1e-10, atol=1e-10, err_msg=name)


def test_solutions_have_the_values_at_the_boundary(pinns: Any) -> None:
    """Whatever the network says, here 1 everywhere; of the cavity, the velocity too."""
    n, phix = 9, pinns.phix
    walls = np.zeros((n, n), bool)
    walls[0], walls[-1], walls[:, 0], walls[:, -1] = True, True, True, True
    early = walls.copy()
    early[-1, 1:-1] = False  # nothing is said of the end of time
    lid = 16 * (np.linspace(0, 1, n) * (1 - np.linspace(0, 1, n))) ** 2

    def solution(name: str) -> Any:
        problem = pinns.PROBLEMS[name]
        x = phix.to_tensor(pinns.grid(problem, n).reshape(-1, 2))
        return problem.solution(lambda x: 1.0 + 0.0 * x), x

    for name, exact, where in (("laplace", pinns.laplace_exact, walls),
                               ("burgers", pinns.burgers_exact, early)):  # fmt: skip
        u, x = solution(name)
        expected = exact(pinns.grid(pinns.PROBLEMS[name], n))
        np.testing.assert_allclose(u(x).numpy().reshape(n, n)[where], expected[where], atol=1e-12)
    p, x = solution("cavity")
    value, p_x = pinns.along(p, x, (1.0, 0.0), 1)
    p_y = pinns.along(p, x, (0.0, 1.0), 1)[1].numpy().reshape(n, n)
    moving = np.zeros((n, n))
    moving[:, -1] = lid
    for found, expected in ((value, 0 * moving), (p_x, 0 * moving), (p_y, moving)):
        found = np.asarray(found).reshape(n, n)
        np.testing.assert_allclose(found[walls], expected[walls], atol=1e-12)


def test_the_formula_of_cole_and_hopf_solves_burgers(pinns: Any) -> None:
    h, t, x = 1e-3, 0.6, np.array([-0.7, -0.2, 0.1, 0.5])
    moves = [(0, 0), (h, 0), (-h, 0), (0, h), (0, -h)]
    u = [pinns.burgers_exact(np.stack([t + a + 0 * x, x + b], -1)) for a, b in moves]
    u_t, u_x = (u[1] - u[2]) / (2 * h), (u[3] - u[4]) / (2 * h)
    u_xx = (u[3] - 2 * u[0] + u[4]) / h**2
    np.testing.assert_allclose(u_t + u[0] * u_x - pinns.NU * u_xx, 0, atol=1e-4)


def test_laplace_is_solved(pinns: Any) -> None:
    losses, found, exact = pinns.compared("laplace", 11, adam=100, lbfgs=60, hidden=8, points=100)
    assert losses.shape == (101,) and losses[-1] < 0.1 * losses[-2] < losses[0]
    assert np.abs(found - exact).max() < 0.02
    assert np.abs(pinns.cavity_by_differences(9)).max() == pytest.approx(0.08, abs=0.03)


# -- a network for the right side ------------------------------------------------------------------
def test_adaptive_steps_are_those_of_dormand_and_prince(ode: Any) -> None:
    """A pendulum, beside SciPy's tighter solution; tolerances say how many steps are taken."""
    from scipy.integrate import solve_ivp

    phix, y0 = ode.phix, np.array([2.0, 0.0])

    def pendulum(y: Any, t: Any, g: Any) -> Any:
        return phix.ops.stack([y[1], -g * phix.ops.sin(y[0]) + 0.1 * t])

    def right(t: float, y: np.ndarray) -> list[float]:
        return [y[1], -3.0 * np.sin(y[0]) + 0.1 * t]

    exact = solve_ivp(right, (0, 5), y0, rtol=1e-12, atol=1e-12).y[:, -1]
    start, g, t = (phix.to_tensor(v, dtype="float64") for v in (y0, 3.0, [0.0, 5.0]))
    run = phix.jit(lambda tolerance: ode.adaptive(pendulum, start, t[0], t[1], g, tolerance))
    taken = []
    for tolerance in (1e-4, 1e-7):
        end = run(phix.to_tensor(tolerance, dtype="float64"))
        np.testing.assert_allclose(end.y, exact, atol=50 * tolerance)
        assert end.t.item() == 5.0 and end.taken.item() <= end.tried.item() < 500
        taken.append(end.taken.item())
    assert 2 < taken[1] / taken[0] < 8  # of order 5: 1000 ** (1 / 5) is 4


def test_the_adjoint_gives_the_derivatives(ode: Any) -> None:
    """Of y' = a y + b t, whose solution is known, and of the loop itself differentiated."""
    phix = ode.phix

    def linear(y: Any, t: Any, p: Any) -> Any:
        return p["a"] * y + p["b"] * t

    def exact(y0: Any, t0: Any, t1: Any, a: Any, b: Any) -> Any:
        special = lambda t: -(t / a + 1 / a**2) * b  # noqa: E731
        return special(t1) + (y0 - special(t0)) * phix.ops.exp(a * (t1 - t0))

    def by(solver: Any) -> Any:
        def loss(y0: Any, t0: Any, t1: Any, a: Any, b: Any) -> Any:
            return solver(linear, y0, t0, t1, {"a": a, "b": b}, 1e-9)

        return loss

    at = [phix.to_tensor(v, dtype="float64") for v in (1.5, 0.3, 1.7, -0.8, 0.6)]
    every = tuple(range(5))

    def gradients(*at: Any) -> Any:
        through = by(lambda *args: ode.adaptive(*args).y)
        adjoint = phix.value_and_grad(by(ode.solve), every)(*at)
        return adjoint, phix.value_and_grad(exact, every)(*at), phix.grad(through, (0, 3, 4))(*at)

    adjoint, known, through = phix.jit(gradients)(*at)
    np.testing.assert_allclose(phix.tree.leaves(adjoint), phix.tree.leaves(known), rtol=1e-6)
    np.testing.assert_allclose(through, [known[1][n] for n in (0, 3, 4)], rtol=1e-5)


def test_a_neural_ode_learns(ode: Any) -> None:
    result = ode.train(steps=30, batch=8, hidden=8, times=20)
    assert result.losses[-5:].mean() < 0.9 * result.losses[:5].mean()
    assert result.truth.shape == (20, 2) and result.learnt.shape == (19, 2)
