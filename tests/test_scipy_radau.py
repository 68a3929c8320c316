"""phix.scipy.integrate.solve_ivp with Radau, beside SciPy's with the same Jacobian, closed forms
and finite differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import phix
from phix import ops
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.scipy.integrate import solve_ivp
from phix.scipy.radau import radau_iia

pytestmark = pytest.mark.unoptimised


class Stiff(NamedTuple):
    """y' = f, its Jacobian, where it begins and where it ends."""

    fun: Any
    jac: Any
    start: Any
    end: float


MATRIX = np.array([[-1000.0, 10.0, 0.0], [0.0, -10.0, 1.0], [1.0, 0.0, -0.1]])
POINTS = np.arange(1, 9) / 9
HEAT = 81 * (np.eye(8, k=1) - 2 * np.eye(8) + np.eye(8, k=-1))


def van_der_pol(t: Any, y: Any, mu: Any = 1000.0) -> Any:
    return [y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]]


def of_van_der_pol(t: Any, y: Any, mu: Any = 1000.0) -> Any:
    return [[0.0, 1.0], [-2.0 * mu * y[0] * y[1] - 1.0, mu * (1.0 - y[0] ** 2)]]


def robertson(t: Any, y: Any) -> Any:
    rates = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [rates[1] - rates[0], rates[0] - rates[1] - rates[2], rates[2]]


def of_robertson(t: Any, y: Any) -> Any:
    back = [1e4 * y[2], 1e4 * y[1]]
    return [
        [-0.04, *back],
        [0.04, -back[0] - 6e7 * y[1], -back[1]],
        [0.0, 6e7 * y[1], 0.0],
    ]


def oregonator(t: Any, y: Any) -> Any:
    return [
        77.27 * (y[1] + y[0] * (1.0 - 8.375e-6 * y[0] - y[1])),
        (y[2] - (1.0 + y[0]) * y[1]) / 77.27,
        0.161 * (y[0] - y[2]),
    ]


def of_oregonator(t: Any, y: Any) -> Any:
    return [
        [77.27 * (1.0 - 1.675e-5 * y[0] - y[1]), 77.27 * (1.0 - y[0]), 0.0],
        [-y[1] / 77.27, -(1.0 + y[0]) / 77.27, 1.0 / 77.27],
        [0.161, 0.0, -0.161],
    ]


SYSTEMS = {
    "van der Pol": Stiff(van_der_pol, of_van_der_pol, [2.0, 0.0], 800.0),
    "Robertson": Stiff(robertson, of_robertson, [1.0, 0.0, 0.0], 1e6),
    "Oregonator": Stiff(oregonator, of_oregonator, [1.0, 2.0, 3.0], 25.0),
    "linear": Stiff(lambda t, y: MATRIX @ y, MATRIX, [1.0, 1.0, 1.0], 20.0),
    "heat": Stiff(lambda t, y: HEAT @ y, HEAT, np.sin(np.pi * POINTS) + POINTS, 1.0),
}
LOOSE: dict[str, Any] = {"method": "Radau", "rtol": 1e-3, "atol": 1e-6}
CLOSE: dict[str, Any] = {"method": "Radau", "rtol": 1e-9, "atol": 1e-10}


@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_values_and_counts_are_scipys(name: str) -> None:
    fun, jac, start, end = SYSTEMS[name]
    y0: Any = np.array(start)
    found = solve_ivp(fun, (0.0, end), y0, jac=jac, **LOOSE)
    wanted = scipy.integrate.solve_ivp(fun, (0.0, end), y0, jac=jac, **LOOSE)
    assert found.t.shape == wanted.t.shape and found.success.item()
    counts = found.nfev.item(), found.njev.item(), found.nlu.item()
    assert counts == (wanted.nfev, wanted.njev, wanted.nlu)
    # SciPy's own are off by as much where y0 is off by 1e-14
    np.testing.assert_allclose(found.t, wanted.t, rtol=1e-7)
    np.testing.assert_allclose(found.y, wanted.y, rtol=1e-6, atol=1e-10)


def test_the_jacobian_is_found_where_it_is_not_given() -> None:
    fun, jac, start, _ = SYSTEMS["Robertson"]
    times = np.array([0.0, 0.4, 40.0, 4000.0])
    solved = [
        phix.jit(lambda y, jac=jac: solve_ivp(fun, (0.0, 4e3), y, t_eval=times, jac=jac, **LOOSE))(
            np.array(start)
        )
        for jac in (jac, None)
    ]
    np.testing.assert_allclose(solved[0].y, solved[1].y, rtol=1e-12, atol=1e-18)
    assert solved[0].nlu.item() == solved[1].nlu.item()
    wanted = scipy.integrate.solve_ivp(fun, (0.0, 4e3), start, t_eval=times, jac=jac, **LOOSE)
    np.testing.assert_allclose(solved[1].y, wanted.y, rtol=1e-9, atol=1e-15)
    assert solved[0].njev.item() == wanted.njev and solved[0].nfev.item() == wanted.nfev


def test_lanes_take_steps_of_their_own() -> None:
    def solved(mu: Any) -> Any:
        return solve_ivp(
            van_der_pol, (0.0, 20.0), np.array([2.0, 0.0]), t_eval=[1.0, 20.0], args=(mu,),
            jac=of_van_der_pol, **LOOSE,
        )  # fmt: skip

    mus = np.array([2.0, 500.0])
    found = phix.jit(phix.vmap(solved))(mus)
    for lane, mu in enumerate(mus.tolist()):
        alone = scipy.integrate.solve_ivp(
            van_der_pol, (0.0, 20.0), [2.0, 0.0], t_eval=[1.0, 20.0], args=(mu,),
            jac=of_van_der_pol, **LOOSE,
        )  # fmt: skip
        np.testing.assert_allclose(found.y[lane], alone.y, rtol=1e-8)
        assert found.nfev[lane].item() == alone.nfev and found.nlu[lane].item() == alone.nlu


def test_backward_with_lengths_given_and_a_tolerance_for_each_element() -> None:
    more: Any = {"first_step": 1e-3, "max_step": 0.04, "method": "Radau", "atol": [1e-4, 1e-7]}
    given = (van_der_pol, (1.0, 0.2), np.array([1.5, 0.3]))
    found = solve_ivp(*given, args=(5.0,), jac=of_van_der_pol, **more)
    wanted = scipy.integrate.solve_ivp(*given, args=(5.0,), jac=of_van_der_pol, **more)
    np.testing.assert_allclose(found.t, wanted.t, rtol=1e-9)
    np.testing.assert_allclose(found.y, wanted.y, rtol=1e-9)
    assert found.nfev.item() == wanted.nfev and found.t[-1].item() == 0.2


def test_float32() -> None:
    start = np.array([2.0, 0.0], np.float32)
    found = solve_ivp(van_der_pol, (0.0, 700.0), start, t_eval=[700.0], args=(1000.0,), **LOOSE)
    wanted = scipy.integrate.solve_ivp(
        van_der_pol, (0.0, 700.0), [2.0, 0.0], "Radau", [700.0], rtol=1e-8, atol=1e-10
    )
    assert found.y.dtype == "float32" and found.success.item()
    np.testing.assert_allclose(found.y, wanted.y, rtol=2e-3)


def test_what_cannot_be_reached_is_nan() -> None:
    found = solve_ivp(
        lambda t, y: y * y, (0.0, 2.0), np.ones(1), t_eval=[0.0, 0.5, 1.5], method="Radau"
    )
    assert not found.success.item() and found.y[0, 1].item() == pytest.approx(2.0, rel=1e-3)
    assert found.y[0, 0].item() == 1.0 and np.isnan(found.y[0, 2].item())


# -- derivatives -----------------------------------------------------------------------------------
def test_derivatives_of_linear_systems_are_those_of_the_exponential() -> None:
    def end(a: Any, y0: Any, time: Any) -> Any:
        matrix = a * MATRIX
        return solve_ivp(
            lambda t, y: ops.matmul(matrix, y), (0.0, 2.0), y0, t_eval=ops.unsqueeze(time, [0]),
            **CLOSE,
        ).y[:, 0]  # fmt: skip

    y0 = np.array([1.0, -0.5, 2.0])
    point = np.float64(1.0), y0, np.float64(1.7)
    exponential = scipy.linalg.expm(1.7 * MATRIX)
    slopes = [1.7 * MATRIX @ exponential @ y0, exponential, MATRIX @ exponential @ y0]
    forward = phix.jit(phix.jacfwd(end, (0, 1, 2)))(*point)
    backward = phix.jit(phix.jacrev(end, (0, 1, 2)))(*point)
    for found in (forward, backward):
        for slope, wanted in zip(found, slopes):
            np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-8)


def _along(s: Any) -> Any:
    """y where it begins, a parameter and a time move along together."""
    y0 = ops.stack([2.0 + s, 0.5 - 0.5 * s])
    found = solve_ivp(
        van_der_pol, (0.0, 3.0), y0, t_eval=ops.unsqueeze(2.5 + 0.3 * s, [0]),
        args=(20.0 + 0.8 * s,), **CLOSE,
    )  # fmt: skip
    return found.y[0, 0]


def _forward(function: Any) -> Any:
    return lambda s: phix.jvp(function, (s,), (np.float64(1.0),))[1]


def _difference(function: Any) -> float:
    """The slope at 0."""
    run = phix.jit(function)
    before, after = (run(np.float64(s)).item() for s in (-1e-4, 1e-4))
    return float((after - before) / 2e-4)


def test_derivatives_are_those_of_differences() -> None:
    none, slope = np.float64(0.0), _forward(_along)
    assert phix.jit(slope)(none).item() == pytest.approx(_difference(_along), rel=1e-6)
    curve = phix.jit(_forward(slope))(none).item()
    assert curve == pytest.approx(_difference(slope), rel=1e-5)


@pytest.mark.prove
def test_derivatives_of_the_second_order_are_the_same_in_all_modes() -> None:
    none, wanted = np.float64(0.0), _difference(_forward(_along))
    backward = phix.grad(_along)
    for found in (_forward(backward), phix.grad(backward), phix.grad(_forward(_along))):
        assert phix.jit(found)(none).item() == pytest.approx(wanted, rel=1e-5)


def test_derivatives_at_the_ends_of_steps_and_after_steps_that_were_refused() -> None:
    def last(mu: Any) -> Any:
        found = solve_ivp(
            van_der_pol, (0.0, 2.0), np.array([2.0, 0.5]), args=(mu,), first_step=1.0, **CLOSE
        )
        return found.y[0, -1]

    mu = np.float64(20.0)
    step = 1e-3
    wanted = (last(mu + step) - last(mu - step)).item() / (2 * step)
    assert phix.jvp(last, (mu,), (np.float64(1.0),))[1].item() == pytest.approx(wanted, rel=1e-5)


# -- the method ------------------------------------------------------------------------------------
def test_the_method_has_its_order() -> None:
    """Collocation: rows of A integrate x^(k - 1) up to c, the last one up to order 5."""
    method = radau_iia()
    for k in (1, 2, 3):
        np.testing.assert_allclose(method.a @ method.c ** (k - 1), method.c**k / k, rtol=1e-14)
        weights = np.eye(3)[k - 1]
        np.testing.assert_allclose(method.powers @ method.c**k, weights, atol=1e-13)
    for k in range(1, 6):
        assert method.a[-1] @ method.c ** (k - 1) == pytest.approx(1 / k, rel=1e-14)
    assert method.real == pytest.approx(3 + 3 ** (2 / 3) - 3 ** (1 / 3), rel=1e-14)
    vectors = np.stack([method.from_real, method.from_pair], 1)
    inverse = np.linalg.inv(method.a)
    values = np.array([method.real, method.pair])
    np.testing.assert_allclose(inverse @ vectors, vectors * values, rtol=1e-13)
    z = np.array([0.3, -1.0, 2.0])
    again = method.from_real * (method.to_real @ z) + (method.from_pair * (method.to_pair @ z)).real
    np.testing.assert_allclose(again, z, rtol=1e-14)


def test_errors_go_with_the_fifth_power_of_the_length() -> None:
    def error(length: float) -> float:
        found = solve_ivp(
            lambda t, y: -y * y + ops.cos(t), (0.0, 1.0), np.ones(1), t_eval=[1.0], method="Radau",
            rtol=1e-12, atol=1e3, first_step=length, max_step=length,
        )  # fmt: skip
        return float(found.y[0, 0].item() - exact)

    exact = scipy.integrate.solve_ivp(
        lambda t, y: -y * y + np.cos(t), (0.0, 1.0), [1.0], "DOP853", rtol=1e-13, atol=1e-14
    ).y[0, -1]
    assert 4.7 < np.log2(error(0.25) / error(0.125)) < 5.3


# -- bad input -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("more", "error", "says"),
    [
        ({"jac": np.eye(3)}, ShapeError, r"jac must be \[n, n\]"),
        ({"jac": lambda t, y: y}, ShapeError, r"jac must be \[n, n\]"),
        ({"jac": 1j * np.eye(2)}, DTypeError, "jac must be real"),
        ({"jac": "exact"}, ArgumentError, "jac must be"),
        ({"y0": np.ones(2) + 0j}, DTypeError, "Radau is for real y"),
        ({"method": "RK45", "jac": np.eye(2)}, ArgumentError, "RK45 is explicit and takes no"),
        ({"method": "BDF"}, ArgumentError, "'Radau'; others are not there"),
        ({"fun": lambda t, y: y[:1]}, ShapeError, "fun must give dy/dt of the shape"),
    ],
)
def test_wrong_calls_are_refused(more: dict[str, Any], error: type, says: str) -> None:
    given: Any = {"fun": lambda t, y: -y, "t_span": (0.0, 2.0), "y0": np.ones(2), **LOOSE, **more}
    with pytest.raises(error, match=says):
        solve_ivp(**given)


def test_programs_need_the_times() -> None:
    with pytest.raises(ArgumentError, match="give the times at which y is wanted as t_eval"):
        phix.jit(lambda y: solve_ivp(lambda t, y: -y, (0.0, 1.0), y, "Radau").y)(np.ones(2))
