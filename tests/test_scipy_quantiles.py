"""Quantiles of phix.scipy.stats that are found in steps: beside mpmath and SciPy, with slopes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

import phix
from phix.scipy import stats

pytestmark = pytest.mark.unoptimised
PARTS = [1e-300, 1e-30, 1e-10, 0.01, 0.3, 0.499, 0.500001, 0.9, 1 - 1e-12]
FLOATS: dict[str, list[tuple[float, ...]]] = {
    "gamma": [(0.5,), (3.0,), (100.0,), (1e6,)],
    "chi2": [(1.0,), (5.0,), (1e4,)],
    "beta": [(2.0, 1e3), (1e3, 2.0), (30.0, 40.0), (3.0, 0.8)],
    "t": [(0.5,), (1.0,), (5.0,), (300.0,)],
    "gennorm": [(0.1,), (1.0,), (2.0,), (10.0,), (100.0,)],
    "truncnorm": [
        (-1.0, 2.0),
        (-np.inf, -30.0),
        (3.0, np.inf),
        (30.0, np.inf),
        (-1e-8, 1e-8),
        (5.0, 6.0),
        (3.0, 3.0 + 1e-8),
        (-20.0, 20.0),
        (-40.0, 1.0),
        (0.0, 1e-200),
        (-np.inf, np.inf),
    ],
}
COUNTS: dict[str, list[tuple[float, ...]]] = {
    "poisson": [(0.0,), (1e-10,), (0.5,), (3.0,), (100.0,), (1e6,)],
    "binom": [(3, 0.4), (1000, 0.1), (1e5, 0.999), (7, 0), (7, 1), (0, 0.5), (1e9, 0.3)],
    "geom": [(0.3,), (1e-6,), (0.999,)],
    "nbinom": [(3.0, 0.4), (0.5, 0.01), (2.5, 1.0), (1e5, 0.5), (7.0, 1e-4)],
}


def lower_and_density(name: str, z: Any, shape: tuple[float, ...]) -> tuple[Any, Any]:
    """What is below z, in many digits, and the density there."""
    if name == "chi2":
        below, density = lower_and_density("gamma", z / 2, (shape[0] / 2,))
        return below, density / 2
    if name == "gamma":
        a = mpmath.mpf(shape[0])
        total = term = mpmath.mpf(1)
        number = 0
        while term > total * mpmath.mpf(10) ** -40:
            number += 1
            term = term * z / (a + number)
            total += term
        first = mpmath.exp(a * mpmath.log(z) - z - mpmath.loggamma(a + 1))
        return first * total, first * a / z
    if name == "beta":
        a, b = map(mpmath.mpf, shape)
        rest = z ** (a - 1) * (1 - z) ** (b - 1) / mpmath.beta(a, b)
        return z / a * rest * (1 - z) * mpmath.hyp2f1(1, a + b, a + 1, z), rest
    if name == "gennorm":
        beta, power = mpmath.mpf(shape[0]), abs(z) ** shape[0]
        if power > 40 + 1 / beta:  # of which the series tells little
            tail = mpmath.gammainc(1 / beta, power, regularized=True)
        else:
            tail = 1 - lower_and_density("gamma", power, (1 / beta,))[0]
        density = beta / 2 * mpmath.exp(-power) / mpmath.gamma(1 / beta)
        return tail / 2 if z < 0 else 1 - tail / 2, density
    if name == "truncnorm":
        low, high = map(mpmath.mpf, shape)
        turned = low > 0  # what is below both is next to 1
        low, z, high = (-high, -z, -low) if turned else (low, z, high)
        below, share = mpmath.ncdf(z) - mpmath.ncdf(low), mpmath.ncdf(high) - mpmath.ncdf(low)
        return (1 - below / share if turned else below / share), mpmath.npdf(z) / share
    df = mpmath.mpf(shape[0])
    w = df / (df + z * z)
    tail, _ = lower_and_density("beta", w, (shape[0] / 2, 0.5))
    density = w ** ((df + 1) / 2) / mpmath.sqrt(df) / mpmath.beta(df / 2, 0.5)
    return (tail / 2 if z < 0 else 1 - tail / 2), density


@pytest.mark.parametrize("name", FLOATS)
def test_a_quantile_has_what_was_asked_for_below_it(name: str) -> None:
    for shape in FLOATS[name]:
        places = getattr(stats, name).ppf(np.array(PARTS), *map(np.float64, shape)).numpy()
        for q, place in zip(PARTS, places):
            if place == 0.0 or np.isinf(place):  # float64 has no number that small, or large
                continue
            with mpmath.workdps(500 if name == "truncnorm" else 60):
                z = mpmath.mpf(float(place))
                below, density = lower_and_density(name, z, shape)
                off = abs((below - mpmath.mpf(q)) / density)
                # in the middle of a narrow piece a place is one within the piece
                size = min(1e-2, shape[1] - shape[0]) / 10 if name == "truncnorm" else 0
                off = off / max(abs(z), size)
            assert off < 1e-13, (shape, q, float(off))


@pytest.mark.parametrize("name", FLOATS)
def test_a_quantile_from_above_is_that_of_the_rest(name: str) -> None:
    parts = np.array([0.125, 0.25, 0.5, 0.75])
    for shape in FLOATS[name]:
        given = [np.float64(s) for s in shape]
        ours = getattr(stats, name)
        np.testing.assert_allclose(ours.isf(parts, *given), ours.ppf(1 - parts, *given), rtol=1e-14)
        tail = ours.sf(ours.isf(np.array([1e-100, 1e-20]), *given), *given)
        if name not in ("beta", "truncnorm"):  # whose ends are next to coarse numbers
            np.testing.assert_allclose(tail, [1e-100, 1e-20], rtol=1e-9)
    want = getattr(scipy.stats, name).ppf(0.3, *FLOATS[name][0], loc=1, scale=3)
    found = getattr(stats, name).ppf(np.float64(0.3), *FLOATS[name][0], loc=1, scale=3)
    np.testing.assert_allclose(found, want, rtol=1e-13)


def test_quantiles_at_the_ends_and_for_parameters_that_are_none() -> None:
    q = np.array([0.0, 1.0, -0.1, 1.1, np.nan])
    nan = np.nan
    np.testing.assert_equal(stats.gamma.ppf(q, 2.0).numpy(), [0, np.inf, nan, nan, nan])
    np.testing.assert_equal(stats.beta.isf(q, 2.0, 3.0).numpy(), [1, 0, nan, nan, nan])
    np.testing.assert_equal(stats.poisson.ppf(q, 2.0).numpy(), [-1, np.inf, nan, nan, nan])
    np.testing.assert_equal(stats.binom.isf(q, 5, 0.5).numpy(), [5, -1, nan, nan, nan])
    np.testing.assert_equal(stats.geom.ppf(q, 0.5).numpy(), [0, np.inf, nan, nan, nan])
    np.testing.assert_equal(stats.nbinom.isf(q, 2.0, 0.5).numpy(), [np.inf, -1, nan, nan, nan])
    bad = [stats.gamma.ppf(0.5, -1.0), stats.beta.ppf(0.5, 2.0, nan), stats.t.ppf(0.5, 0.0),
           stats.poisson.ppf(0.5, -1.0), stats.binom.ppf(0.5, 2.5, 0.5),
           stats.geom.ppf(0.5, 0.0), stats.nbinom.isf(0.5, -1.0, 0.5)]  # fmt: skip
    assert all(np.isnan(b.item()) for b in bad)
    assert stats.t.ppf(np.float64(0.3), np.inf).item() == stats.norm.ppf(np.float64(0.3)).item()
    assert stats.t.ppf(0.5, 3.0).item() == 0.0 and stats.gamma.ppf([], 2.0).shape == (0,)


def test_quantiles_of_infinite_shapes_are_limits() -> None:
    """All is beyond every number, or at an end of the support."""
    inf, half = np.inf, np.float64(0.5)
    for key in ("ppf", "isf"):
        ours = {name: getattr(getattr(stats, name), key) for name in ("gamma", "chi2", "beta")}
        assert ours["gamma"](half, inf).item() == ours["chi2"](half, inf).item() == inf
        assert [ours["beta"](half, *ab).item() for ab in ((inf, 2.0), (0.7, inf))] == [1.0, 0.0]
        assert np.isnan(ours["beta"](half, inf, inf).item())


SLOPES: dict[str, tuple[float, ...]] = {
    "gamma": (2.3,), "chi2": (4.0,), "beta": (2.0, 3.5), "t": (4.0,), "gennorm": (1.3,),
    "truncnorm": (-1.0, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("key", ["ppf", "isf"])
def test_slopes_of_quantiles_are_those_of_the_equation(name: str, key: str) -> None:
    """In q 1 over the density, in the shapes beside differences of SciPy's, second ones too."""
    quantile, theirs = (getattr(getattr(m, name), key) for m in (stats, scipy.stats))
    for q in (0.2, 0.9):
        at = [np.float64(v) for v in (q, *SLOPES[name])]
        found = phix.grad(quantile, argnums=tuple(range(len(at))))(*at)
        density = getattr(scipy.stats, name).pdf(theirs(*at), *at[1:])
        sign = 1 if key == "ppf" else -1
        np.testing.assert_allclose(found[0], sign / density, rtol=1e-12)
        for place, slope in enumerate(found):
            step = np.eye(len(at))[place] * 1e-4
            near = [theirs(*(at + k * step)) for k in (-2, -1, 1, 2)]
            want = (near[0] - 8 * near[1] + 8 * near[2] - near[3]) / 1.2e-3
            np.testing.assert_allclose(slope, want, rtol=1e-8)
            if key == "isf" or q > 0.5 or (place and name != "t"):  # second ones take long
                continue
            first = phix.grad(quantile, argnums=place)
            again = phix.grad(lambda v, n=place, f=first, at=at: f(*at[:n], v, *at[n + 1 :]))(
                at[place]
            )
            sides = [first(*(at + k * step)).item() for k in (-1, 1)]
            np.testing.assert_allclose(again, (sides[1] - sides[0]) / 2e-4, rtol=1e-5)


@pytest.mark.parametrize("name", COUNTS)
def test_a_quantile_of_counts_is_the_first_that_is_enough(name: str) -> None:
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    parts = np.array([1e-300, 1e-10, 0.01, 0.3, 0.5, 0.51, 0.9, 0.9999])
    for shape in COUNTS[name]:
        given = [np.float64(s) for s in shape]
        np.testing.assert_array_equal(ours.ppf(parts, *given), theirs.ppf(parts, *shape))
        tails = np.array([1e-300, 1e-30, 1e-9, 0.2])
        found = ours.isf(tails, *given)
        most = tails * (1 + 1e-12)  # to within roundings: (1 - 0.999)^3 is 1e-9 and more
        assert (ours.sf(found, *given).numpy() <= most).all()
        before = found.numpy() - 1
        assert (ours.sf(before, *given).numpy()[before >= 0] > tails[before >= 0]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_quantile_of_what_is_below_a_count_is_that_count(dtype: str) -> None:
    k = np.arange(25).astype(dtype)
    mean, parts = np.array(12, dtype), (np.array(60, dtype), np.array(0.2, dtype))
    np.testing.assert_array_equal(stats.poisson.ppf(stats.poisson.cdf(k, mean), mean), k)
    np.testing.assert_array_equal(stats.binom.isf(stats.binom.sf(k, *parts), *parts), k)
    np.testing.assert_array_equal(
        stats.geom.ppf(stats.geom.cdf(k + 1, mean / 60), mean / 60), k + 1
    )
    assert stats.geom.ppf(k / 25, 1.0).tolist() == [0.0] + [1.0] * 24
    some = stats.nbinom.isf(stats.nbinom.sf(k, mean, mean / 20), mean, mean / 20)
    np.testing.assert_array_equal(some, k)
    assert phix.grad(stats.poisson.ppf)(np.array(0.3, dtype), mean).item() == 0.0


def parts_of_counts(name: str, n: int, p: Fraction) -> list[Fraction]:
    """What is not above 0, 1, ..., of geom 1, 2, ...; exact."""
    masses = {
        "binom": lambda k: math.comb(n, k) * p**k * (1 - p) ** (n - k),
        "nbinom": lambda k: math.comb(n + k - 1, k) * p**n * (1 - p) ** k,
        "geom": lambda k: p * (1 - p) ** k,
    }[name]
    return list(itertools.accumulate(masses(k) for k in range(n if name == "binom" else 9)))


@pytest.mark.parametrize(("name", "n"), [("binom", 3), ("binom", 8), ("nbinom", 5), ("geom", 1)])
def test_a_part_that_is_that_of_a_count_has_that_count(name: str, n: int) -> None:
    """Of odds in sixteenths the parts are numbers of float64; cdf and sf are roundings off."""
    ours = getattr(stats, name)
    for odds in range(1, 16):
        exact = parts_of_counts(name, n, Fraction(odds, 16))
        counts = np.arange(len(exact)) + (name == "geom")
        shapes = [np.float64(odds / 16)] if name == "geom" else [np.float64(n), odds / 16]
        for key, wanted in (("ppf", exact), ("isf", [1 - q for q in exact])):
            q = np.array([float(v) for v in wanted])
            held = np.array([Fraction(v) == w for v, w in zip(q.tolist(), wanted)])
            found = getattr(ours, key)(q, *shapes).numpy()
            np.testing.assert_array_equal(found[held], counts[held], err_msg=f"{key} {odds}")


def test_quantiles_of_bernoulli_beside_its_part() -> None:
    for dtype in ("float32", "float64"):
        p = np.arange(1, 100).astype(dtype) / np.array(100, dtype)
        rest = np.arange(99, 0, -1).astype(dtype) / np.array(100, dtype)
        np.testing.assert_array_equal(stats.bernoulli.ppf(rest, p), np.zeros(99))
        more = rest + 2 * np.finfo(dtype).eps
        np.testing.assert_array_equal(stats.bernoulli.ppf(more, p), np.ones(99))
        assert stats.bernoulli.ppf(np.array(1e-20, dtype), np.array(1, dtype)).item() == 1.0


def test_quantiles_in_programs_and_batches() -> None:
    q = np.linspace(0.05, 0.95, 12).reshape(3, 4)
    a = np.array([1.0, 2.0, 3.0])
    for name, rest in (("gamma", ()), ("beta", (3.0,)), ("t", ()), ("poisson", ())):
        ours = getattr(stats, name).ppf
        want = getattr(scipy.stats, name).ppf(q, a[:, None], *rest)
        batched = phix.jit(phix.vmap(lambda q, a, f=ours, rest=rest: f(q, a, *rest)))(q, a)
        np.testing.assert_allclose(batched, want, rtol=1e-12)
    parts = phix.jit(phix.vmap(stats.geom.ppf))(q, a / 4)
    np.testing.assert_array_equal(parts, scipy.stats.geom.ppf(q, a[:, None] / 4))
    assert stats.geom(0.3, 5).ppf(0.2).item() == scipy.stats.geom.ppf(0.2, 0.3, 5)
