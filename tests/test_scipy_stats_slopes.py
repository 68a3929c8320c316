"""Slopes of ``phix.scipy.stats`` where parts are less than float64 holds, and at ends of supports,
beside mpmath with 60 digits and closed forms."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import phix

pytestmark = pytest.mark.unoptimised

stats = phix.scipy.stats
INF = math.inf


def lower_gamma(a: Any, x: Any) -> Any:
    return mp.log(mp.gammainc(a, 0, x, regularized=True))


def upper_gamma(a: Any, x: Any) -> Any:
    return mp.log(mp.gammainc(a, x, mp.inf, regularized=True))


def lower_beta(a: Any, b: Any, x: Any) -> Any:
    return mp.log(mp.betainc(a, b, 0, x, regularized=True))


def tail_of_t(z: Any, df: Any) -> Any:
    return lower_beta(df / 2, mp.mpf(0.5), df / (df + z * z)) - mp.log(2)


# Parts from 1e-90 to far below 1e-308: the function, by mpmath, and (x, shape, ...)
TAILS: dict[tuple[str, str], tuple[Any, list[tuple[float, ...]]]] = {
    ("gamma", "logcdf"): (lambda x, a: lower_gamma(a, x), [(1e-30, 30.0), (20.0, 900.0)]),
    ("gamma", "logsf"): (lambda x, a: upper_gamma(a, x), [(900.0, 2.5), (250.0, 0.3)]),
    ("chi2", "logsf"): (lambda x, a: upper_gamma(a / 2, x / 2), [(3000.0, 5.0), (1e5, 0.1)]),
    ("beta", "logcdf"): (
        lambda x, a, b: lower_beta(a, b, x), [(1e-30, 20.0, 30.0), (0.02, 400.0, 300.0)]),
    ("beta", "logsf"): (
        lambda x, a, b: lower_beta(b, a, 1 - x), [(0.875, 3.0, 500.0), (0.75, 200.0, 2000.0)]),
    ("t", "logcdf"): (tail_of_t, [(-1e20, 200.0), (-60.0, 1e4), (-1e30, 12.0)]),
    ("gennorm", "logsf"): (
        lambda x, b: upper_gamma(1 / b, x**b) - mp.log(2), [(50.0, 2.0), (2.5, 20.0), (40.0, 1.5)]),
}  # fmt: skip


def difference(f: Any, at: tuple[float, ...], places: tuple[int, ...]) -> float:
    """A partial derivative of first or second order, by differences of 60 digits or more."""
    with mp.workdps(120):
        point = [mp.mpf(v) for v in at]
        steps = [abs(v) * mp.mpf(10) ** -25 for v in point]

        def moved(*signs: int) -> Any:
            here = list(point)
            for place, sign in zip(places, signs):
                here[place] += sign * steps[place]
            return f(*here)

        if len(places) == 1:
            return float((moved(1) - moved(-1)) / (2 * steps[places[0]]))
        grown = moved(1, 1) - moved(1, -1) - moved(-1, 1) + moved(-1, -1)
        return float(grown / (4 * steps[places[0]] * steps[places[1]]))


@pytest.mark.parametrize(("name", "key"), TAILS)
def test_logarithms_of_tails_and_their_slopes_go_on_below_all_floats(name: str, key: str) -> None:
    exact, points = TAILS[name, key]
    function = getattr(getattr(stats, name), key)
    columns = [np.array(v) for v in zip(*points)]
    places = tuple(range(len(columns)))
    found = function(*columns)
    slopes = phix.jit(phix.grad(lambda *at: function(*at).sum(), places))(*columns)
    for k, at in enumerate(points):
        with mp.workdps(120):
            value = float(exact(*map(mp.mpf, at)))
        np.testing.assert_allclose(found[k].item(), value, rtol=1e-13)
        for place in places:
            want = difference(exact, at, (place,))
            np.testing.assert_allclose(slopes[place][k].item(), want, rtol=1e-10, err_msg=f"{at}")


def second_slopes(name: str, key: str) -> None:
    exact, points = TAILS[name, key]
    function = getattr(getattr(stats, name), key)
    columns = [np.array(v) for v in zip(*points)]
    places = tuple(range(len(columns)))
    slope = phix.grad(lambda *at: function(*at).sum())
    curves = phix.jit(phix.grad(lambda *at: slope(*at).sum(), places))(*columns)
    for k, at in enumerate(points):
        for place in places:
            want = difference(exact, at, (0, place))
            np.testing.assert_allclose(curves[place][k].item(), want, rtol=1e-8, err_msg=f"{at}")


def test_second_slopes_of_logarithms_of_tails() -> None:
    second_slopes("gamma", "logsf")


@pytest.mark.prove  # they compile for half a minute each
@pytest.mark.parametrize(("name", "key"), [key for key in TAILS if key != ("gamma", "logsf")])
def test_all_second_slopes_of_logarithms_of_tails(name: str, key: str) -> None:
    second_slopes(name, key)


def test_logarithms_of_counts_in_their_tails() -> None:
    """Of no draw (1 - p)^n, of none counted exp(-mu); of n draws p^n."""
    n, p = np.float64(2000), np.float64(0.9)
    for function, at, value, slope in (
        (lambda p: stats.binom.logcdf(np.float64(0), n, p), p, 2000 * np.log1p(-p),
         -2000 / (1 - p)),
        (lambda p: stats.binom.logsf(n - 1, n, p), 1 - p, 2000 * np.log(1 - p), 2000 / (1 - p)),
        (lambda mu: stats.poisson.logcdf(np.float64(0), mu), np.float64(900), -900.0, -1.0),
        (lambda p: stats.nbinom.logcdf(np.float64(0), n, p), 1 - p, 2000 * np.log(1 - p),
         2000 / (1 - p)),
    ):  # fmt: skip
        np.testing.assert_allclose(function(at).item(), value, rtol=1e-13)
        np.testing.assert_allclose(phix.grad(function)(at).item(), slope, rtol=1e-11)


# Where all or nothing is left for all parameters.
ENDS = [
    ("uniform", "logcdf", (0.0,)), ("uniform", "logsf", (1.0,)), ("gamma", "cdf", (INF, 2.5)),
    ("norm", "logsf", (INF,)), ("expon", "pdf", (INF,)), ("pareto", "sf", (INF, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "at"), ENDS)
def test_slopes_where_nothing_or_all_is_left_are_0(name: str, key: str, at: Any) -> None:
    args = [np.float64(v) for v in (*at, 0.0, 1.0)]
    function = getattr(getattr(stats, name), key)
    slopes = phix.jit(phix.grad(function, tuple(range(len(args)))))(*args)
    assert [abs(s.item()) for s in slopes] == [0.0] * len(args)


def test_no_scale_moves_what_is_below_0_where_the_density_is_infinite() -> None:
    for name, shapes in (("gamma", (0.5,)), ("chi2", (1.0,)), ("beta", (0.5, 2.0))):
        at = [np.float64(v) for v in (0.0, *shapes, 0.0, 2.0)]
        for key, sign in (("cdf", 1), ("sf", -1)):
            slopes = phix.grad(getattr(getattr(stats, name), key), (0, len(at) - 1))(*at)
            assert [s.item() for s in slopes] == [sign * INF, 0.0]


def test_second_slopes_in_which_large_terms_would_cancel() -> None:
    """Of beta.cdf(x, 1, b), 1 - (1 - x)^b, and of b x^(-b - 1) for a small b."""
    x, b = np.float64(1e-30), np.float64(4)
    curve = phix.grad(phix.grad(lambda x: stats.beta.cdf(x, np.float64(1), b)))(x).item()
    np.testing.assert_allclose(curve, -12.0, rtol=1e-12)
    x, b = np.float64(1 + 1e-10), np.float64(1e-8)
    curve = phix.grad(phix.grad(lambda b: stats.pareto.pdf(x, b)))(b).item()
    np.testing.assert_allclose(curve, -2 * np.log(x), rtol=1e-6)
