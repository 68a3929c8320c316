"""phix.scipy.integrate.odeint, against SciPy, closed forms, and finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import phix
import phix.numpy as pn
from phix.core.errors import ArgumentError, DTypeError, PhixError, ShapeError
from phix.scipy.integrate import odeint

pytestmark = pytest.mark.unoptimised

TIMES = np.linspace(0.0, 6.0, 31)


def exactly(field: Callable[..., Any], y0: Any, t: np.ndarray, *args: Any) -> np.ndarray:
    """By a method of order 8, with hardly any error."""
    found = solve_ivp(
        lambda t, y: field(y, t, *args), (t[0], t[-1]), y0, "DOP853", t, rtol=1e-13, atol=1e-13
    )
    return np.asarray(found.y.T)


# -- values ----------------------------------------------------------------------------------------
def pendulum(xp: Any) -> Callable[..., Any]:
    return lambda y, t, b, c: [y[1], -b * y[1] - c * xp.sin(y[0])]


def lorenz(xp: Any) -> Callable[..., Any]:
    return lambda y, t, s: xp.stack(
        [s * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
    )


def decay(y: Any, t: Any) -> Any:
    return -y


def forced(xp: Any) -> Callable[..., Any]:
    return lambda y, t: -3.0 * y + xp.cos(5.0 * t)


# name -> (the equation over a library, where it starts, times, what else it takes)
EQUATIONS: dict[str, tuple[Any, list[float], np.ndarray, tuple[float, ...]]] = {
    "pendulum": (pendulum, [math.pi - 0.1, 0.0], TIMES, (0.25, 5.0)),
    "lorenz": (lorenz, [1.0, 1.0, 1.0], TIMES[:11], (10.0,)),
    "forced": (forced, [2.0, -1.0], TIMES, ()),
    "backward": (forced, [0.1, 0.2], TIMES[5::-1], ()),
    "from elsewhere": (forced, [0.1, 0.2], TIMES[:9] - 40.0, ()),
    "some times twice": (forced, [0.1, 0.2], np.repeat(TIMES[:4], 3), ()),
    "few times": (pendulum, [1.0, 0.0], TIMES[[0, -1]], (0.0, 2.0)),
}


@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.parametrize("tolerance", [1e-5, 1e-10])
def test_solutions_are_as_right_as_is_asked_for(name: str, tolerance: float) -> None:
    field, y0, t, args = EQUATIONS[name]

    def solved(y0: Any, t: Any) -> Any:
        return odeint(field(pn), y0, t, args, rtol=tolerance, atol=tolerance)

    _, at = np.unique(t, return_index=True)
    wanted = exactly(field(np), y0, t[np.sort(at)], *args)
    wanted = wanted[np.unique(np.cumsum(np.diff(t, prepend=t[0]) != 0), return_inverse=True)[1]]
    found = np.asarray(phix.jit(solved)(np.array(y0), t))
    scale = 1 + np.abs(wanted).max()
    # of chaos errors grow by some e^0.9 in a time of 1
    assert np.abs(found - wanted).max() < 300 * tolerance * scale
    np.testing.assert_array_equal(found[0], y0)


def test_trees_complex_numbers_and_single_precision() -> None:
    tree = odeint(
        lambda y, t: {"x": y["v"], "v": -y["x"]},
        {"x": np.zeros(2), "v": np.ones(2)},
        np.array([0.0, math.pi / 2]),
    )
    np.testing.assert_allclose(tree["x"][1], 1.0, rtol=1e-7)
    turned = odeint(lambda y, t: 1j * y, np.array([1.0 + 0j]), [0, math.pi])
    np.testing.assert_allclose(turned[1], -1.0, atol=1e-7)
    falling = odeint(lambda y, t: -y, 1, [0, 1, 5])
    assert falling.dtype == np.float32 and falling.shape == (3,)
    np.testing.assert_allclose(falling, np.exp([0.0, -1.0, -5.0]), rtol=1e-5, atol=1e-6)
    first = odeint(lambda t, y: t * y, np.ones(1), np.array([0.0, 1.0]), tfirst=True)
    np.testing.assert_allclose(first[1], math.exp(0.5), rtol=1e-7)


def test_one_program_serves_all_numbers_of_times_and_sizes() -> None:
    specs = [phix.spec(["n"], "float64"), phix.spec(["k"], "float64")]
    solve = phix.jit(lambda y0, t: odeint(forced(pn), y0, t), input_spec=specs)
    for n, k in ((1, 1), (2, 1), (1, 2), (3, 7)):
        y0 = np.linspace(1.0, 2.0, n)
        wanted = odeint(forced(pn), y0, TIMES[:k])
        np.testing.assert_allclose(solve(y0, TIMES[:k]), wanted, rtol=1e-12)
    with pytest.raises(ShapeError, match="n from 1"):
        solve(np.ones(2), np.zeros(0))


def test_lanes_take_their_own_steps() -> None:
    rates = np.array([0.1, 1.0, 30.0])

    def solved(rate: Any) -> Any:
        return odeint(lambda y, t: -rate * y, np.ones(1), TIMES[:4], rtol=1e-9, atol=1e-9)

    found = phix.jit(phix.vmap(solved))(rates)
    np.testing.assert_allclose(found[:, :, 0], np.exp(-rates[:, None] * TIMES[:4]), atol=1e-8)


def test_what_cannot_be_reached_is_nan() -> None:
    found = np.asarray(odeint(lambda y, t: y * y, np.ones(1), [0.0, 0.5, 0.9, 1.1, 2.0]))
    np.testing.assert_allclose(found[:3, 0], [1.0, 2.0, 10.0], rtol=1e-6)
    assert np.isnan(found[3:]).all()
    short = odeint(forced(pn), np.ones(1), [0.0, 0.01, 6.0, 7.0], mxstep=4)
    assert np.isfinite(short[:2]).all() and np.isnan(short[2:]).all()
    assert np.isnan(odeint(lambda y, t: y * math.nan, np.ones(1), [0.0, 1.0])[1])
    mixed = phix.jit(lambda t: odeint(forced(pn), np.ones(1), t))(np.array([0.0, 1.0, 0.5]))
    assert np.isnan(mixed[1:]).all()


def test_steps_are_counted_anew_from_each_time() -> None:
    start, times = np.ones(1), [0.0, 1.0, 2.0, 2.0]
    ends = [odeint(decay, start, times[:2], mxstep=k)[1].item() for k in range(1, 20)]
    needed = 1 + np.isfinite(ends).tolist().index(True)
    found = odeint(decay, start, times, mxstep=needed)[:, 0]
    np.testing.assert_allclose(found, np.exp(-np.array(times)), rtol=1e-7)
    assert np.isfinite(odeint(decay, start, times, mxstep=10**12)).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("dtype", "begin", "tolerance"), [("float32", 1e4, 5e-6), ("float64", 1e12, 1e-7)]
)
def test_times_far_from_0(dtype: Any, begin: float, tolerance: float, sign: int) -> None:
    """They are rounded: steps are as long as the times between them."""
    t = np.array([begin, begin + 1, begin + 2], dtype)
    for solve in (odeint, phix.jit(odeint, static_argnums=0)):
        found = solve(lambda y, t: -sign * y, np.ones(1, dtype), sign * t)
        np.testing.assert_allclose(found[:, 0], np.exp([0.0, -1.0, -2.0]), rtol=tolerance)


@pytest.mark.parametrize("end", [1.0, -1.0])
def test_nothing_is_asked_beyond_the_last_time(end: float) -> None:
    def field(y: Any, t: Any) -> Any:
        return pn.where(t * end > 1.0, math.nan, -y * end)

    found = odeint(field, np.ones(1), [0.0, 0.3 * end, end])
    np.testing.assert_allclose(found[:, 0], np.exp([0.0, -0.3, -1.0]), rtol=1e-7)


def test_lengths_of_steps_can_be_bounded() -> None:
    """A field that wakes up late is slept through, unless steps are short."""

    def field(y: Any, t: Any) -> Any:
        return pn.where((t > 5.0) & (t < 5.2), 1.0, 0.0) * pn.ones_like(y)

    t = np.array([0.0, 10.0])
    assert odeint(field, np.zeros(1), t)[1].item() == 0.0
    found = odeint(field, np.zeros(1), t, hmax=0.05, h0=0.01)[1].item()
    assert abs(found - 0.2) < 1e-5


# -- derivatives -----------------------------------------------------------------------------------
# y' = -k sin(t + 1) y has the solution y0 exp(-k S), S = cos(t0 + 1) - cos(t1 + 1).
START, RATE, FROM, TO = 1.3, 0.7, 0.2, 2.0
SUM = math.cos(FROM + 1) - math.cos(TO + 1)
END = START * math.exp(-RATE * SUM)


def end(y0: Any, k: Any, t: Any) -> Any:
    field = lambda y, t, k: -k * y * pn.sin(t + 1)  # noqa: E731
    return odeint(field, y0, t, (k,), rtol=1e-11, atol=1e-11)[-1]


ARGS = tuple(map(np.array, (START, RATE, (FROM, 0.9, TO))))


def test_derivatives_by_all_that_goes_in() -> None:
    by_y0, by_k, by_t = phix.jit(phix.grad(end, (0, 1, 2)))(*ARGS)
    slopes = [RATE * math.sin(FROM + 1) * END, 0.0, -RATE * math.sin(TO + 1) * END]
    np.testing.assert_allclose(by_y0, END / START, rtol=1e-8)
    np.testing.assert_allclose(by_k, -SUM * END, rtol=1e-8)
    np.testing.assert_allclose(by_t, slopes, rtol=1e-8, atol=1e-12)
    tangents = tuple(map(np.ones_like, ARGS))
    _, forward = phix.jvp(end, ARGS, tangents)
    np.testing.assert_allclose(forward, END / START - SUM * END + sum(slopes), rtol=1e-8)


def test_times_equal_to_the_first_have_slopes() -> None:
    def end(begin: Any, t: Any) -> Any:
        return odeint(decay, np.ones(1), pn.stack([begin, t]))[-1, 0]

    for at in (2.0, 0.0):
        slopes = phix.grad(end, argnums=(0, 1))(np.float64(at), np.float64(at))
        np.testing.assert_allclose(slopes, [1.0, -1.0])
    slope = phix.grad(lambda t: odeint(decay, np.ones(1), pn.stack([t - t, t, t - t + 3]))[1, 0])
    np.testing.assert_allclose(slope(np.float64(0.0)), -1.0)


def test_derivatives_of_higher_order() -> None:
    def by_k(k: Any) -> Any:
        return end(ARGS[0], k, ARGS[2])

    second = phix.grad(phix.grad(by_k))
    np.testing.assert_allclose(phix.jit(second)(ARGS[1]), SUM**2 * END, rtol=1e-7)
    rates = np.array([0.3, 0.7])
    lanes = phix.jit(phix.vmap(phix.grad(by_k)))(rates)
    np.testing.assert_allclose(lanes, -SUM * START * np.exp(-rates * SUM), rtol=1e-7)
    over = phix.jvp(phix.grad(by_k), (ARGS[1],), (np.ones(()),))[1]
    np.testing.assert_allclose(over, SUM**2 * END, rtol=1e-7)


@pytest.mark.prove
def test_derivatives_of_third_order() -> None:
    third = phix.grad(phix.grad(phix.grad(lambda k: end(ARGS[0], k, ARGS[2]))))
    np.testing.assert_allclose(phix.jit(third)(ARGS[1]), -(SUM**3) * END, rtol=1e-6)


def test_gradients_of_a_network_that_moves_points() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, 8)), rng.normal(size=(8, 2))
    points = rng.normal(size=(5, 2))

    def loss(xp: Any, solve: Callable[..., Any], first: Any) -> Any:
        def field(y: Any, t: Any) -> Any:
            return xp.tanh(y @ first) @ weights[1] - 0.3 * y

        return (solve(field)[1:] ** 2).sum()

    def by_scipy(field: Any) -> np.ndarray:
        flat = lambda y, t: field(y.reshape(5, 2), t).ravel()  # noqa: E731
        return exactly(flat, points.ravel(), TIMES[:6]).reshape(-1, 5, 2)

    def by_phix(field: Any) -> Any:
        return odeint(field, points, TIMES[:6], rtol=1e-9, atol=1e-9)

    found = phix.jit(phix.grad(lambda first: loss(pn, by_phix, first)))(weights[0])
    for at in ((0, 0), (1, 3), (0, 7)):
        step = np.zeros((2, 8))
        step[at] = 1e-5
        sides = [loss(np, by_scipy, weights[0] + s) for s in (step, -step)]
        assert abs(found[at].item() - (sides[0] - sides[1]) / 2e-5) < 1e-6 * np.abs(found).max()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", [0.0, 0.3])
def test_derivatives_by_times_go_to_order_two(first: float) -> None:
    """y' = -y has y(t) = exp(t0 - t), and every derivative by t and t0 is y, or -y; y' = t y has
    another one by t0 than by t."""

    def falling(t0: Any, t: Any) -> Any:
        return odeint(lambda y, t: -y, np.ones(()), pn.stack([t0, t]), rtol=1e-10, atol=1e-10)[1]

    def rising(t0: Any, t: Any) -> Any:
        return odeint(lambda y, t: t * y, np.ones(()), pn.stack([t0, t]), rtol=1e-10, atol=1e-10)[1]

    t0, t = np.array(first), np.array(1.3)
    by_t, by_t0 = (lambda v: falling(t0, v)), (lambda v: falling(v, t))
    size = math.exp(first - 1.3)
    for order in (1, 2):
        by_t, by_t0 = phix.grad(by_t), phix.grad(by_t0)
        np.testing.assert_allclose(phix.jit(by_t)(t), (-1) ** order * size, rtol=1e-6)
        np.testing.assert_allclose(phix.jit(by_t0)(t0), size, rtol=1e-6)
    y = math.exp((1.3**2 - first**2) / 2)
    wanted = [[(first**2 - 1) * y, -first * 1.3 * y], [-first * 1.3 * y, (1.3**2 + 1) * y]]
    found = phix.jit(phix.hessian(rising, (0, 1)))(t0, t)
    np.testing.assert_allclose([[v.item() for v in row] for row in found], wanted, 1e-5, 1e-5)


def test_steps_that_are_given_up_leave_no_nan_in_gradients() -> None:
    """A tank that drains: the root has no value where a step goes too far."""

    def level(k: Any, y0: Any, t: Any) -> Any:
        return odeint(lambda y, t: -k * pn.sqrt(y), y0, t)[1]

    # y = (1 - k t / 2)^2
    for t in (1.0, 1.9, 1.99):
        args = np.array(1.0), np.array(1.0), np.array([0.0, t])
        rest = 1 - t / 2
        np.testing.assert_allclose(level(*args), rest**2, atol=1e-7)
        by_k, by_y0 = phix.jit(phix.grad(level, (0, 1)))(*args)
        np.testing.assert_allclose([by_k, by_y0], [-rest * t, rest], atol=1e-5)


@pytest.mark.parametrize("fast", [1e14, 1e18])
def test_fast_equations_in_single_precision(fast: float) -> None:
    t = np.array([0.0, 1 / fast], np.float32)
    found = odeint(lambda y, t: -fast * y, np.ones(1, np.float32), t)
    np.testing.assert_allclose(found[1], math.exp(-1), rtol=1e-5)


# -- errors ----------------------------------------------------------------------------------------
ONE = np.ones(1)
REFUSED: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: odeint(forced(pn), ONE, [0.0, 2.0, 1.0]), ArgumentError, "ascend or descend.*sort"),
    (lambda: odeint(forced(pn), ONE, np.array([2, 3, 1], "u1")), ArgumentError, "ascend"),
    (lambda: odeint(forced(pn), ONE, [[0.0], [1.0]]), ShapeError, r"times \[n\]"),
    (lambda: odeint(forced(pn), ONE, []), ShapeError, "n from 1"),
    (lambda: odeint(forced(pn), ONE, 1.0), ShapeError, r"times \[n\]"),
    (lambda: odeint(forced(pn), ONE, np.array([0, 1j])), DTypeError, "real"),
    (lambda: odeint(forced(pn), ONE, [0, 1j]), DTypeError, "float64 can hold"),
    (lambda: odeint(forced(pn), ONE, "soon"), ArgumentError, "soon"),
    (lambda: odeint(forced(pn), ONE, ["soon"]), ArgumentError, "soon"),
    (lambda: odeint(forced(pn), ONE, [[0.0], [1.0, 2.0]]), ArgumentError, "rows of one length"),
    (lambda: odeint(lambda y, t: y[:0], ONE, [0.0, 1.0]), ShapeError, "shape of y"),
    (lambda: odeint(lambda y, t: (y, y), {"a": ONE}, [0.0, 1.0]), ArgumentError, "tree like y0"),
    (lambda: odeint(lambda y, t: 1j * y, ONE, [0.0, 1.0]), DTypeError, "complex"),
    (lambda: odeint(forced(pn), {}, [0.0, 1.0]), ArgumentError, "no tensors"),
    (lambda: odeint(forced(pn), np.ones(1, "f2"), [0.0, 1.0]), DTypeError, "float32"),
    (lambda: odeint(forced(pn), ONE, [0.0, 1.0], 3.0), ArgumentError, "args.*a tuple"),  # type: ignore[arg-type]
    (lambda: odeint(forced(pn), ONE, [0.0, 1.0], rtol=-1.0), ArgumentError, "rtol.*from 0"),
    (lambda: odeint(forced(pn), ONE, [0.0, 1.0], mxstep=0), ArgumentError, "mxstep.*from 1"),
]


@pytest.mark.parametrize("k", range(len(REFUSED)))
def test_bad_input_is_refused(k: int) -> None:
    function, error, text = REFUSED[k]
    with pytest.raises(error, match=text):
        function()
