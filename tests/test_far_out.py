"""Derivatives far out, where a formula right for the value takes numbers next to 1 from 1.

Slopes of distributions in their tails are SciPy's densities; derivatives of Dawson's integral and
of Faddeeva's function are those of their asymptotic series, term by term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import phix
from phix import ops
from phix.scipy import continuous

pytestmark = pytest.mark.unoptimised

special, stats = phix.scipy.special, phix.scipy.stats
SHAPES: dict[str, tuple[float, ...]] = {
    "beta": (3.0, 2.5), "chi2": (3.0,), "gamma": (2.5,), "gennorm": (1.5,), "pareto": (3.0,),
    "t": (4.0,), "truncnorm": (-20.0, 20.0),
}  # fmt: skip
TAILS = [1e-3, 1e-8, 1e-15, 1e-25, 1e-36]
CLOSE = {"float32": 3e-5, "float64": 1e-9}
OF_PART = sorted(n for n, d in continuous.CONTINUOUS.items() if "cdf" in dir(d) and n != "uniform")


def tails(name: str, dtype: str) -> np.ndarray:
    """Places with little below or above them, and a density that the dtype has a number for."""
    theirs, shapes = getattr(scipy.stats, name), SHAPES.get(name, ())
    found = np.array([*theirs.ppf(TAILS, *shapes), *theirs.isf(TAILS, *shapes)], dtype)
    with np.errstate(all="ignore"):
        density = theirs.pdf(found.astype(float), *shapes)
    return found[(density > 1e-36) & (density < 1e36) & (np.abs(found) < 1e36)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("name", OF_PART)
def test_slopes_in_tails_are_densities(name: str, dtype: str) -> None:
    ours, theirs, own = getattr(stats, name), getattr(scipy.stats, name), SHAPES.get(name, ())
    x = tails(name, dtype)
    assert len(x) > 2
    wide, shapes = x.astype(float), np.array(own, dtype)
    # next to 1 SciPy takes pareto's part below from 1
    rtol = 1e-7 if (name, dtype) == ("pareto", "float64") else CLOSE[dtype]
    for key, sign in (("cdf", 1), ("sf", -1)):
        for log in ("", "log"):
            function = getattr(ours, log + key)
            total = lambda v, f=function: ops.sum(f(v, *shapes))  # noqa: E731
            want = sign * theirs.pdf(wide, *own)
            if log:
                want = sign * np.exp(
                    theirs.logpdf(wide, *own) - getattr(theirs, "log" + key)(wide, *own)
                )
            backward = phix.grad(total)(x)
            forward = phix.jit(lambda v, f=function: phix.jvp(
                lambda u: f(u, *shapes), (v,), (np.ones_like(v),))[1])(x)  # fmt: skip
            for found in (backward, forward):
                np.testing.assert_allclose(found, want, rtol=rtol, err_msg=log + key)


@pytest.mark.parametrize("name", OF_PART)
def test_logarithms_in_float32_are_those_of_more_digits(name: str) -> None:
    """Of parts for which float32 has no number."""
    ours, theirs, own = getattr(stats, name), getattr(scipy.stats, name), SHAPES.get(name, ())
    parts = [1e-50, 1e-100, 1e-250]
    for key, place in (("logcdf", theirs.ppf), ("logsf", theirs.isf)):
        with np.errstate(all="ignore"):
            x = place(parts, *own).astype("float32")
            want = getattr(theirs, key)(x.astype(float), *own)
        known = np.isfinite(want) & np.isfinite(x)
        found = getattr(ours, key)(x, *np.array(own, "float32"))
        np.testing.assert_allclose(found.numpy()[known], want[known], rtol=3e-6, err_msg=key)


@pytest.mark.parametrize("name", ["cauchy", "laplace", "logistic", "norm"])
def test_slopes_of_quantiles_in_the_middle(name: str) -> None:
    """One over the density there; what lies above and below is alike, and its smaller part any."""
    want = 1 / getattr(scipy.stats, name).pdf(0.0)
    for key, sign in (("ppf", 1), ("isf", -1)):
        function, middle = getattr(getattr(stats, name), key), np.float64(0.5)
        for found in (
            phix.grad(function)(middle), phix.jit(phix.grad(function))(middle),
            phix.jvp(function, (middle,), (np.float64(1),))[1],
        ):  # fmt: skip
            np.testing.assert_allclose(found, sign * want, rtol=1e-14)


def test_curvature_in_tails() -> None:
    """(log f)'' of the logistic is -2 f; (log sf)'' of Gumbel's -y / 2 + ... with y = exp(-z)."""
    for dtype, places in (("float32", [-30, -17, 0, 17, 80]), ("float64", [-700, -40, 0, 40, 700])):
        z = np.array(places, dtype)
        slope = phix.grad(lambda v: ops.sum(stats.logistic.logpdf(v)))
        found = phix.grad(lambda v: ops.sum(slope(v)))(z)  # noqa: B023
        want = -2 * scipy.stats.logistic.pdf(z.astype(float))
        np.testing.assert_allclose(found, want, rtol=1e-5 if dtype == "float32" else 1e-13)
    of_gumbel = phix.grad(phix.grad(stats.gumbel_r.logsf))
    for at in (30.0, 40.0, 300.0):  # -y / 2 + y^2 / 24 - ..., y = exp(-z)
        np.testing.assert_allclose(of_gumbel(np.float64(at)), -0.5 * math.exp(-at), rtol=1e-12)


# -- Dawson's integral and Faddeeva's function -----------------------------------------------------
def series(z: Any, order: int, factor: Any) -> Any:
    """The derivative of factor times the sum over k of (2 k - 1)!! / (2^k z^(2 k + 1)), up to the
    least term."""
    total, size = 0j, 1 / z
    for k in range(60):
        term = size * (-1) ** order / z**order
        for n in range(order):
            term = term * (2 * k + 1 + n)
        total = total + term
        following = size * (2 * k + 1) / (2 * z * z)
        if abs(following) > abs(size):
            break
        size = following
    return factor * total


def derived(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    for _ in range(order):
        function = phix.grad(function)
    return function


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivatives_of_dawsons_integral(order: int) -> None:
    function = derived(special.dawsn, order)
    for x in (5.8, 6.01, 7.0, -9.0, 30.0, -1e3, 1e5, 1e8):
        want = series(x, order, 0.5).real
        rtol = 1e-7 if abs(x) < 6 else 1e-9 if abs(x) < 7 else 1e-11
        np.testing.assert_allclose(function(np.float64(x)).item(), want, rtol=rtol)
        found = phix.jit(function)(np.float64(x)).item()
        np.testing.assert_allclose(found, want, rtol=rtol)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "z", [7 + 2j, 7.5 + 0.5j, 1 + 8j, -30 + 1e-3j, 1e3 + 1j, 20 - 2j, 1 + 1e6j]
)
def test_derivatives_of_faddeevas_function(z: complex, order: int) -> None:
    for part in ("real", "imag"):
        of = getattr(ops, part)

        def function(x: Any, of: Any = of) -> Any:
            return of(special.wofz(ops.complex(x, np.float64(z.imag))))

        want = getattr(series(z, order, 1j / math.sqrt(math.pi)), part)
        size = abs(series(z, order, 1 / math.sqrt(math.pi)))
        found = derived(function, order)(np.float64(z.real))
        np.testing.assert_allclose(found, want, rtol=0, atol=3e-11 * size)


# -- sums of exponentials, far apart ---------------------------------------------------------------
ROWS = [[-np.inf, -1000.0, 3.0], [-1000.0, 0.0, 1.0], [800.0, -800.0, 0.0], [1.0, 1.0, -np.inf]]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("row", ROWS)
def test_logcumsumexp_of_rows_far_apart(row: list[float], reverse: bool) -> None:
    """Of n terms it is logsumexp of them, and so are derivatives; of -inf alone they are 0."""
    x = np.array(row[::-1] if reverse else row)

    def scan(x: Any) -> Any:
        return ops.logcumsumexp(x, 0, False, False, reverse)

    def part(x: Any, n: int) -> Any:
        return ops.logsumexp(x[2 - n :] if reverse else x[: n + 1], [0])

    order = range(3)[::-1] if reverse else range(3)
    weights = np.array([n + 1.0 for n in order])
    terms = [n for n in range(3) if np.isfinite(part(x, n).item())]

    def by_scan(x: Any) -> Any:
        return ops.sum(scan(x) * weights)

    def by_parts(x: Any) -> Any:
        return sum((n + 1.0) * part(x, n) for n in terms)

    slope, second = phix.grad(by_parts)(x), phix.hessian(by_parts)(x)
    for make in (lambda f: f, phix.jit):
        np.testing.assert_allclose(make(scan)(x), [part(x, n).item() for n in order], rtol=1e-14)
        np.testing.assert_allclose(make(phix.grad(by_scan))(x), slope, rtol=1e-13, atol=1e-300)
        found = make(phix.hessian(by_scan))(x)
        np.testing.assert_allclose(found, second, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("level", [0.0, 1e4, -1e4, 1e8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_of_large_numbers_keep_their_digits(dtype: str, level: float) -> None:
    """Slopes are those of differences, whose digits the sum, level + log(...), has no room for."""
    x = (np.array([0.0, 0.5, 1.0, 2.0]) + level).astype(dtype)
    parts = np.exp(x.astype("float64") - level)
    share = np.divide.outer(parts, np.cumsum(parts))  # [element, of how many]
    weights = np.arange(1.0, 5).astype(dtype)
    tolerance = 20 * np.finfo(dtype).eps

    def total(x: Any) -> Any:
        return ops.sum(ops.logcumsumexp(x, 0) * weights)

    expected = np.triu(share) @ weights
    for make in (lambda f: f, phix.jit):
        found = make(phix.grad(lambda x: ops.logsumexp(x, [0])))(x)
        np.testing.assert_allclose(found, share[:, -1], rtol=tolerance)
        np.testing.assert_allclose(make(phix.grad(total))(x), expected, rtol=tolerance)


def test_faddeevas_function_on_the_lower_axis_is_real() -> None:
    """2 exp(y^2) and less, which is infinite from y = -26.64 on."""
    for function in (special.wofz, phix.jit(special.wofz)):
        assert function(np.complex128(-30j)).item() == complex(math.inf, 0.0)
        np.testing.assert_allclose(
            function(np.complex128(-26j)).item(), 7.657724931490568e293, rtol=1e-12
        )
        np.testing.assert_allclose(
            function(np.complex128(2 - 3j)).item(), scipy.special.wofz(2 - 3j), rtol=1e-13
        )
