"""phix.scipy.integrate.solve_ivp, beside SciPy's, closed forms and finite differences."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import phix
from phix import ops
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.scipy import initial_value_problems
from phix.scipy.integrate import solve_ivp
from phix.scipy.runge_kutta_formulas import FORMULAS, Formula

pytestmark = pytest.mark.unoptimised


def lorenz(t: Any, y: Any) -> Any:
    return [10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]


def van_der_pol(t: Any, y: Any, mu: Any = 1.0) -> Any:
    return [y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]]


def lotka_volterra(t: Any, y: Any, a: Any = 1.5) -> Any:
    return [a * y[0] - y[0] * y[1], y[0] * y[1] - 3.0 * y[1]]


def pendulum(t: Any, y: Any, damping: Any = 0.25) -> Any:
    sine = np.sin(y[0]) if isinstance(y, np.ndarray) else ops.sin(y[0])
    return [y[1], -damping * y[1] - 5.0 * sine]


def kepler(t: Any, y: Any) -> Any:
    cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return [y[2], y[3], -y[0] / cube, -y[1] / cube]


def brusselator(t: Any, y: Any) -> Any:
    return [1.0 + y[0] ** 2 * y[1] - 4.0 * y[0], 3.0 * y[0] - y[0] ** 2 * y[1]]


SYSTEMS: dict[str, tuple[Callable[..., Any], list[float], float]] = {
    "lorenz": (lorenz, [1.0, 1.0, 1.0], 3.0),
    "van der pol": (van_der_pol, [2.0, 0.0], 10.0),
    "lotka-volterra": (lotka_volterra, [10.0, 5.0], 10.0),
    "pendulum": (pendulum, [np.pi - 0.1, 0.0], 10.0),
    "kepler": (kepler, [0.5, 0.0, 0.0, 3**0.5], 10.0),
    "brusselator": (brusselator, [1.5, 3.0], 10.0),
}
CLOSE: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-9}
START = np.array([2.0, 0.5])
each_method = pytest.mark.parametrize("method", FORMULAS)


@each_method
@pytest.mark.parametrize("name", SYSTEMS)
def test_solutions_and_steps_are_scipys(name: str, method: str) -> None:
    fun, start, end = SYSTEMS[name]
    y0, times = np.array(start), np.linspace(0.0, end, 9)
    theirs: Any = scipy.integrate.solve_ivp
    found = phix.jit(lambda y, t: solve_ivp(fun, (0.0, end), y, method, t, **CLOSE))(y0, times)
    wanted = theirs(fun, (0.0, end), y0, method, times, **CLOSE)
    np.testing.assert_allclose(found.y, wanted.y, rtol=1e-9, atol=1e-9)
    assert found.success.item() and found.status.item() == 0
    wanted = theirs(fun, (0.0, end), y0, method, **CLOSE)
    assert abs(found.nfev.item() - wanted.nfev) <= 2 * len(FORMULAS[method].a)


@each_method
def test_without_times_it_gives_its_steps(method: str) -> None:
    for span, more in (((0.0, 6.0), {}), ((3.0, 0.0), {"first_step": 0.02, "max_step": 0.3})):
        kept: Any = {**CLOSE, **more, "args": (0.7,)}
        found = solve_ivp(van_der_pol, span, START, method, **kept)
        wanted = scipy.integrate.solve_ivp(van_der_pol, span, START, method, **kept)
        assert found.t.shape == wanted.t.shape and found.nfev.item() == wanted.nfev
        np.testing.assert_allclose(found.t, wanted.t, rtol=1e-4)
        at = solve_ivp(van_der_pol, span, START, method, found.t, **kept)
        np.testing.assert_allclose(found.y, at.y, rtol=1e-10, atol=1e-12)
    slope = phix.grad(lambda mu: solve_ivp(van_der_pol, (0.0, 2.0), START, method, args=(mu,),
                                           **CLOSE).y[0, -1])  # fmt: skip
    ends = phix.grad(lambda mu: solve_ivp(van_der_pol, (0.0, 2.0), START, method, [2.0], args=(mu,),
                                          **CLOSE).y[0, 0])  # fmt: skip
    mu = np.float64(0.7)
    np.testing.assert_allclose(slope(mu), ends(mu), rtol=1e-9)


@each_method
def test_derivatives_are_those_of_differences(method: str) -> None:
    kept: Any = {"rtol": 1e-10, "atol": 1e-10}

    def value(y0: Any, mu: Any, end: Any) -> Any:
        times = ops.stack([0.3 * end, ops.full((), 2.5, "float64")])
        return solve_ivp(van_der_pol, (0.0, 3.0), y0, method, times, args=(mu,), **kept).y[0].sum()

    point = START, np.float64(0.7), np.float64(3.0)
    way = np.array([1.0, -0.5]), np.float64(0.8), np.float64(1.0)
    step = 1e-4
    ahead, behind = ([x + s * v for x, v in zip(point, way)] for s in (step, -step))

    def slope(*x: Any) -> Any:
        grads = phix.grad(value, (0, 1, 2))(*x)
        return sum((g * v).sum() for g, v in zip(grads, way))

    jitted = phix.jit(value)
    wanted = (jitted(*ahead) - jitted(*behind)).item() / (2 * step)
    along = phix.jit(slope)
    assert along(*point).item() == pytest.approx(wanted, rel=1e-5)
    tangent = phix.jit(lambda *x: phix.jvp(value, x, way)[1])
    assert tangent(*point).item() == pytest.approx(wanted, rel=1e-5)
    second = (along(*ahead) - along(*behind)).item() / (2 * step)
    curve = phix.jit(lambda *x: phix.jvp(slope, x, way)[1])
    assert curve(*point).item() == pytest.approx(second, rel=1e-4)


@pytest.mark.parametrize("name", ["lotka-volterra", "pendulum"])
def test_gradients_by_parameters_are_those_of_scipys_differences(name: str) -> None:
    fun, start, end = SYSTEMS[name]
    parameter = {"lotka-volterra": 1.5, "pendulum": 0.25}[name]
    kept: Any = {"method": "DOP853", "t_eval": [end], "rtol": 1e-11, "atol": 1e-11}

    def last(solve: Any, p: Any) -> Any:
        return solve(fun, (0.0, end), np.array(start), args=(p,), **kept).y[0, 0]

    step = 1e-5
    theirs = scipy.integrate.solve_ivp
    wanted = (last(theirs, parameter + step) - last(theirs, parameter - step)) / (2 * step)
    found = phix.jit(phix.grad(lambda p: last(solve_ivp, p)))(np.float64(parameter))
    assert found.item() == pytest.approx(wanted, rel=1e-5)


def test_each_element_may_have_a_tolerance_of_its_own() -> None:
    more: Any = {"t_eval": [3.0], "rtol": 1e-6}
    wanted = scipy.integrate.solve_ivp(van_der_pol, (0.0, 3.0), START, atol=[1e-3, 1e-9], **more)
    run = phix.jit(lambda atol: solve_ivp(van_der_pol, (0.0, 3.0), START, atol=atol, **more))
    for atol in (np.array([1e-3, 1e-9]), [1e-3, 1e-9]):
        for found in (run(atol), solve_ivp(van_der_pol, (0.0, 3.0), START, atol=atol, **more)):
            assert found.nfev.item() == wanted.nfev
            np.testing.assert_allclose(found.y, wanted.y, rtol=1e-6)


def test_lanes_take_steps_of_their_own() -> None:
    def solved(mu: Any) -> Any:
        return solve_ivp(van_der_pol, (0.0, 3.0), START, "DOP853", [1.0, 3.0], args=(mu,), **CLOSE)

    found = phix.jit(phix.vmap(solved))(np.array([0.2, 2.0]))
    alone = [solved(np.float64(mu)) for mu in (0.2, 2.0)]
    np.testing.assert_allclose(found.y, np.stack([a.y for a in alone]), rtol=1e-12)
    assert found.nfev.tolist() == [a.nfev.item() for a in alone]
    assert found.message == [alone[0].message] * 2


def test_other_numbers_directions_and_unknown_sizes() -> None:
    turn = solve_ivp(lambda t, y: 1j * y, (0.0, 3.0), np.array([1.0 + 0j]), t_eval=[3.0], **CLOSE)
    np.testing.assert_allclose(turn.y[0, 0].numpy(), np.exp(3j), rtol=1e-6)

    def backward(a: Any, b: Any) -> Any:
        return solve_ivp(lambda t, y: t * y, (a, b), np.ones(1), t_eval=[1.0, 0.5], **CLOSE).y

    back = phix.jit(backward)(np.float64(2.0), np.float64(0.0))
    np.testing.assert_allclose(back[0], np.exp((np.array([1.0, 0.25]) - 4.0) / 2), rtol=1e-6)
    found = solve_ivp(lambda t, y: -y, (0, 1), [2, 1])
    assert found.y.dtype == found.t.dtype == "float32" and found.t.tolist()[
        :: len(found.t) - 1
    ] == [0, 1]
    np.testing.assert_allclose(found.y[:, -1], np.array([2, 1]) / np.e, rtol=1e-3)
    of_any = phix.jit(
        lambda y, t: solve_ivp(lambda t, y: -y, (0.0, 2.0), y, t_eval=t).y,
        input_spec=[phix.spec(["n"], "float64"), phix.spec(["k"], "float64")],
    )
    for n, k in ((1, 1), (3, 5)):
        times = np.linspace(0.0, 2.0, k)
        np.testing.assert_allclose(
            of_any(np.ones(n), times), np.stack([np.exp(-times)] * n), rtol=1e-2
        )


def test_what_cannot_be_reached_is_nan() -> None:
    found = solve_ivp(lambda t, y: y * y, (0.0, 2.0), np.ones(1), t_eval=[0.5, 1.5])
    assert not found.success.item() and found.status.item() == -1
    assert "steps became shorter" in found.message
    assert np.isnan(found.y[0, 1].item()) and found.y[0, 0].item() == pytest.approx(2.0, rel=1e-3)
    steps = solve_ivp(lambda t, y: y * y, (0.0, 2.0), np.ones(1))
    assert not steps.success.item() and steps.t[-1].item() < 1.01 and np.isfinite(steps.y).all()


@pytest.mark.parametrize("method", ["RK23", "DOP853", "Radau"])
def test_what_is_no_number_from_the_start_ends(method: str) -> None:
    span = (0.0, 3.0)
    for slope, y0 in ((lotka_volterra, START * np.nan), (lambda t, y: ops.sqrt(y - 9.0), START)):
        for call in (solve_ivp, phix.jit(solve_ivp, static_argnames=("fun", "t_span", "method"))):
            found = call(slope, span, y0, method=method, t_eval=np.array([1.0, 3.0]))
            assert found.status.item() == -1 and np.isnan(found.y.numpy()).all()
        assert solve_ivp(slope, span, y0, method=method).status.item() == -1


@each_method
def test_formulas_have_their_orders(method: str) -> None:
    """Of quadratures: sum_i b_i c_i^(k - 1) = 1 / k; rows sum to their c; errors of constants are
    none."""
    formula: Formula = FORMULAS[method]
    nodes = np.array([0.0, *formula.c, *formula.later])
    for row, c in zip((*formula.a, *formula.more), nodes[1:]):
        assert sum(row) == pytest.approx(c, abs=1e-13)
    b = np.array(formula.a[-1])
    for k in range(1, {"RK23": 3, "RK45": 5, "DOP853": 8}[method] + 1):
        assert b @ nodes[: len(b)] ** (k - 1) == pytest.approx(1 / k, rel=1e-12)
    for row in (*formula.errors, *formula.between):
        assert sum(row) == pytest.approx(0.0, abs=1e-11)


@pytest.mark.parametrize(
    ("more", "error", "says"),
    [
        ({"method": "BDF"}, ArgumentError, "others are not there"),
        ({"events": lambda t, y: y[0]}, ArgumentError, "no events"),
        ({"dense_output": True}, ArgumentError, "as t_eval"),
        ({"t_eval": [0.0, 3.0]}, ArgumentError, "t_eval must lie in t_span"),
        ({"t_eval": [1.0, 0.5]}, ArgumentError, "must ascend|go in its direction"),
        ({"t_eval": [[1.0]]}, ShapeError, "t_eval must be the times"),
        ({"t_eval": np.array([1j])}, DTypeError, "real"),
        ({"atol": [1e-3] * 3}, ShapeError, "atol must be a number, or as y0"),
        ({"atol": "small"}, ArgumentError, "one for each element of y0"),
        ({"rtol": -1.0}, ArgumentError, "rtol must be a number from 0"),
        ({"first_step": 2.5}, ArgumentError, "first_step must not go beyond t_span, of length 2.0"),
        ({"t_span": (0.0, 1.0, 2.0)}, ArgumentError, "t_span must be"),
        ({"t_span": 1.0}, ArgumentError, "t_span must be"),
        ({"y0": 1.0}, ShapeError, r"write y0.reshape\(\[-1\]\)"),
        ({"fun": lambda t, y: y[:1]}, ShapeError, "fun must give dy/dt of the shape"),
        ({"fun": lambda t, y: 1j * y}, DTypeError, "fun gives complex numbers"),
    ],
)
def test_wrong_calls_are_refused(more: dict[str, Any], error: type, says: str) -> None:
    given: Any = {"fun": lambda t, y: -y, "t_span": (0.0, 2.0), "y0": START, **more}
    with pytest.raises(error, match=says):
        solve_ivp(**given)


def test_programs_need_the_times() -> None:
    def steps(y: Any) -> Any:
        return solve_ivp(lambda t, y: -y, (0.0, 1.0), y).y

    for run, y in ((phix.jit, np.ones(2)), (phix.vmap, np.ones((2, 2)))):
        with pytest.raises(ArgumentError, match="give the times at which y is wanted as t_eval"):
            run(steps)(y)


def test_examples() -> None:
    assert doctest.testmod(initial_value_problems).failed == 0
