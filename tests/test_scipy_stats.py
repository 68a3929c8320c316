"""phix.scipy.stats beside scipy.stats: values in and beside the support, slopes at edges."""

from __future__ import annotations

import doctest
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

import phix
from phix.core.errors import ArgumentError, ShapeError
from phix.scipy import continuous, discrete, distributions, ranks, stats

pytestmark = pytest.mark.unoptimised
SHAPES: dict[str, list[float]] = {
    "t": [2.5], "gennorm": [1.3], "beta": [0.7, 2], "chi2": [3], "gamma": [0.6], "pareto": [2.5],
    "truncnorm": [-1, 2], "vonmises": [2], "wrapcauchy": [0.4], "bernoulli": [0.3],
    "betabinom": [6, 2, 3], "binom": [7, 0.3], "geom": [0.3], "nbinom": [4.5, 0.3],
    "poisson": [3.5],
}  # fmt: skip
INF, NAN = np.inf, np.nan
X = np.concatenate([np.linspace(-9, 9, 24) + 0.013, [0, 0.3, 1.3, 2.3, NAN, -40, 40, 9.99]])
K = np.concatenate([np.arange(-2.0, 10), [0.5, 2.5, NAN, 1e3]])
Q = np.concatenate([np.linspace(0, 1, 12), [-0.1, 1.1, NAN, 1e-12]])


@pytest.mark.parametrize("name", [*continuous.CONTINUOUS, *discrete.DISCRETE])
def test_functions_are_scipys(name: str) -> None:
    """In the support, at its ends, beside it, and for parameters that are none."""
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    is_continuous = name in continuous.CONTINUOUS
    place = {"loc": 0.3, "scale": 1.7} if is_continuous else {"loc": 1.0}
    for key in dir(ours):
        x = Q if key in ("ppf", "isf") else X if is_continuous else K
        with np.errstate(all="ignore"):
            want = getattr(theirs, key)(x, *SHAPES.get(name, []), **place)
        found = getattr(ours, key)(x, *map(np.float64, SHAPES.get(name, [])), **place)
        assert found.dtype == "float64"
        want = np.where((want == -INF) & (found.numpy() < -690), found, want)  # SciPy's part is 0
        least = 1e-300 if is_continuous or not key.startswith("log") else 1e-150  # SciPy's are 0
        np.testing.assert_allclose(found, want, rtol=2e-12, atol=least, err_msg=key)
    if is_continuous:
        assert np.isnan(ours.pdf(0.5, *SHAPES.get(name, []), scale=-1.0).item())
    if name in SHAPES and name != "truncnorm":
        key, bad = "logpdf" if is_continuous else "logpmf", [-1.0] * len(SHAPES[name])
        assert np.isnan(getattr(ours, key)(0.0, *bad).item())


# Far out and for large and small shapes: rows of shapes, each at all of the places.
FAR = [-1e5, -40, -10, -8, -2, -0.5, -1e-5, 0, 0.5, 3, 8, 10, 30, 1e10]
PARTS = [1e-300, 1e-10, 1e-3, 0.1, 0.45, 0.5, 0.55, 0.9, 0.999, 1 - 1e-12]
COUNTS = [1e-300, 1e-5, 0.5, 9, 90, 100, 110, 9e3, 1e4, 1.2e4, 2e5]
TAILS: dict[str, tuple[list[float], list[tuple[float, ...]]]] = {
    "t": (FAR, [(s,) for s in (0.5, 1.5, 5, 100, 300, 1e4, 1e6, 1e10, 1e20)]),
    # in SciPy the power of 1e-5 is 0
    "gennorm": ([x for x in FAR if x != -1e-5], [(0.1,), (2,), (10,), (100,)]),
    "beta": (PARTS, [(0.1, 0.1), (1e3, 2), (2, 1e3), (1e5, 1e5), (1e-3, 5), (3e6, 0.5)]),
    "chi2": (COUNTS, [(0.01,), (3,), (100,), (1e4,), (1e8,)]),
    "gamma": (COUNTS, [(0.01,), (3,), (100,), (1e4,), (1e8,)]),
    "truncnorm": (
        [-39, -30, -10, -3, -1, 0, 5e-6, 0.5, 3, 5.5, 8, 10, 30, 50],
        [(-INF, 0), (-3, INF), (-INF, INF), (5, INF), (-40, -38), (0, 1e-5), (-1e5, 1e5)],
    ),
    "poisson": ([0, 1, 3, 10, 100, 1000, 99999], [(1e-10,), (0.5,), (100,), (1e5,)]),
    "binom": (
        [0, 1, 3, 10, 100, 1000, 99999],
        [(3, 0.4), (10, 1e-10), (1000, 0.1), (1e5, 0.999), (7, 0), (7, 1), (0, 0.5)],
    ),
    "geom": ([1, 2, 3, 10, 100, 1000, 99999], [(1e-10,), (0.01,), (0.5,), (0.99,), (1,)]),
    "nbinom": (
        [0, 1, 3, 10, 100, 1000, 99999], [(0.3, 0.4), (10, 1e-10), (1000, 0.1), (7, 0.999), (7, 1)]
    ),
    **{name: (FAR, [()]) for name in ("norm", "logistic", "cauchy", "expon", "gumbel_l",
                                      "gumbel_r")},
}  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_tails_are_scipys_for_large_and_small_shapes(name: str) -> None:
    places, rows = TAILS[name]
    x, shapes = np.array(places, float), [np.array(s, float)[:, None] for s in zip(*rows)]
    own = ("cdf", "sf", "logcdf", "logsf")  # SciPy's logarithms of counts have few digits
    for key in own[:2] if name in discrete.DISCRETE else own:
        with np.errstate(all="ignore"):
            want = getattr(getattr(scipy.stats, name), key)(x, *shapes)
        if (name, key) in (("gumbel_l", "logcdf"), ("gumbel_r", "logsf")):
            want = np.where(np.isneginf(want), -np.abs(x), want)  # SciPy's exp is 0 there
        found = getattr(getattr(stats, name), key)(x, *shapes)
        want = np.where((want == -INF) & (found.numpy() < -690), found, want)  # SciPy's part is 0
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-300, err_msg=key)


def test_truncated_normals_of_narrow_pieces() -> None:
    """A piece so narrow holds its width times the density at its middle."""
    top = np.nextafter(3.0, 0)
    norm, truncnorm = scipy.stats.norm, stats.truncnorm
    end = (3 - top) * norm.pdf(3) / (norm.cdf(3) - norm.cdf(-2))
    rows = [("cdf", -9.99999997e-9, -1e-8, 1e-8, (-9.99999997e-9 + 1e-8) / 2e-8),
            ("sf", top, -2.0, 3.0, end), ("logsf", top, -2.0, 3.0, np.log(end))]  # fmt: skip
    for key, x, a, b, want in rows:
        found = getattr(truncnorm, key)(np.float64(x), np.float64(a), np.float64(b))
        np.testing.assert_allclose(found.item(), want, rtol=1e-12, err_msg=key)
    slope = phix.grad(truncnorm.cdf)(np.float64(3e-9), np.float64(-1e-8), np.float64(1e-8))
    np.testing.assert_allclose(slope.item(), 5e7, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "x", "shapes"),
    [("t", -10.0, (300.0,)), ("truncnorm", 10.0, (-3.0, INF)), ("truncnorm", -10.0, (-INF, 0.0)),
     ("beta", 1e-10, (1e-3, 5.0))],
)  # fmt: skip
def test_slopes_of_tails_are_density_over_tail(name: str, x: float, shapes: tuple) -> None:
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    for key, sign in (("cdf", 1.0), ("sf", -1.0)):
        slope = phix.grad(getattr(ours, "log" + key))(np.float64(x), *map(np.float64, shapes))
        want = sign * np.exp(theirs.logpdf(x, *shapes) - getattr(theirs, "log" + key)(x, *shapes))
        np.testing.assert_allclose(slope.item(), want, rtol=1e-9, err_msg=key)


def test_densities_go_on_where_squares_overflow() -> None:
    """-log(pi) - 2 log(x), and for t with df degrees (df + 1) log(x) less what is at 1 in float64;
    their slopes -2 / x and -(df + 1) / x."""
    for dtype, x in (("float32", 1e20), ("float64", 1e300)):
        at = np.array(x, dtype)
        near = np.array(x**0.5, dtype)
        for function, rate in (
            (stats.cauchy.logpdf, 2.0), (lambda z: stats.t.logpdf(z, 2.5), 3.5)
        ):  # fmt: skip
            found = function(at).item()
            want = function(near).item() - rate * 0.5 * np.log(x)
            np.testing.assert_allclose(found, want, rtol=1e-6)
            np.testing.assert_allclose(phix.grad(function)(at).item(), -rate / x, rtol=1e-6)
    want = -np.log(np.pi) - 600 * np.log(10)
    np.testing.assert_allclose(stats.cauchy.logpdf(np.float64(1e300)).item(), want, rtol=1e-14)


EDGES = [
    ("beta", "logpdf", 0.0, (1.0, 2.0)), ("beta", "pdf", 1.0, (2.0, 1.0)),
    ("gamma", "logpdf", 0.0, (1.0,)), ("chi2", "logpdf", 0.0, (2.0,)),
    ("expon", "logpdf", 0.0, ()), ("expon", "cdf", -1.0, ()), ("uniform", "cdf", 2.0, ()),
    ("pareto", "logpdf", 1.0, (3.0,)), ("pareto", "logcdf", 0.5, (3.0,)),
    ("laplace", "cdf", 0.0, ()), ("truncnorm", "logpdf", -1.0, (-1.0, 2.0)),
    ("truncnorm", "logpdf", 31.0, (30.0, 40.0)), ("poisson", "logpmf", 0.0, (2.0,)),
    ("binom", "logpmf", 0.0, (3.0, 0.5)), ("bernoulli", "logpmf", 1.0, (1.0,)),
]  # fmt: skip


def test_slopes_are_finite_at_the_edges_and_beside() -> None:
    for name, key, x, shapes in EDGES:
        function = getattr(getattr(stats, name), key)
        is_continuous = name in continuous.CONTINUOUS
        places = tuple(range(0 if is_continuous else 1, 1 + len(shapes)))
        for slope in phix.grad(function, places)(x, *shapes):
            assert np.isfinite(slope.item()), (name, key)


# Slopes in one place and values, where the formulas have none; in closed form.
ROOT = np.sqrt(2 * np.pi)
LIMITS = [
    (0, stats.laplace.cdf, (0.0,), 0.5), (0, stats.laplace.logcdf, (0.0,), 1.0),
    (0, stats.laplace.sf, (0.0,), -0.5), (0, stats.laplace.cdf, (-900.0,), 0.0),
    (0, phix.grad(stats.logistic.logpdf), (0.0,), -0.5),
    (0, stats.t.cdf, (0.0, 3.0), 2 / (np.pi * np.sqrt(3))), (1, stats.t.cdf, (0.0, 3.0), 0.0),
    (0, stats.t.cdf, (1.0, INF), np.exp(-0.5) / ROOT), (0, stats.t.logpdf, (1.0, INF), -1.0),
    (0, stats.gennorm.cdf, (0.0, 2.0), 1 / np.sqrt(np.pi)), (1, stats.gennorm.cdf, (0.0, 2.0), 0.0),
    (0, stats.gennorm.logpdf, (0.0, 0.5), 0.0),
    (3, stats.gennorm.logpdf, (0.0, 0.5, 0.0, 2.0), -0.5),
    (1, stats.vonmises.logpdf, (0.3, 0.0), np.cos(0.3)),
    (0, stats.gumbel_r.cdf, (-800.0,), 0.0), (0, stats.gumbel_r.pdf, (-800.0,), 0.0),
    (0, stats.gumbel_r.sf, (-800.0,), 0.0), (0, stats.gumbel_r.logsf, (-800.0,), 0.0),
    (0, stats.gumbel_l.cdf, (800.0,), 0.0), (0, stats.gumbel_l.pdf, (800.0,), 0.0),
    (0, stats.gumbel_l.sf, (800.0,), 0.0), (0, stats.gumbel_l.logcdf, (800.0,), 0.0),
    (1, stats.poisson.pmf, (0.0, 0.0), -1.0), (1, stats.poisson.pmf, (1.0, 0.0), 1.0),
    (1, stats.poisson.pmf, (2.0, 0.0), 0.0), (2, stats.binom.pmf, (1.0, 3.0, 0.0), 3.0),
    (2, stats.binom.pmf, (2.0, 3.0, 1.0), -3.0), (2, stats.binom.pmf, (0.0, 3.0, 1.0), 0.0),
    (1, stats.geom.pmf, (2.0, 1.0), -1.0), (1, stats.geom.cdf, (1.0, 1.0), 1.0),
    (1, stats.geom.sf, (3.0, 1.0), 0.0), (2, stats.nbinom.pmf, (1.0, 2.5, 1.0), -2.5),
]  # fmt: skip
VALUES = [
    (stats.t.cdf(1.0, np.float64(INF)), 0.8413447460685429),
    (stats.t.logpdf(1.0, np.float64(INF)), -0.5 - np.log(ROOT)),
    (stats.t.sf(1.0, np.float64(INF)), 0.15865525393145707),
    (stats.multinomial.logpmf([1.0, 1.0], 2, [1.2, -0.2]), NAN),
    (stats.multinomial.pmf([3.0, 1.0], 2, [0.5, 0.5]), 0.0),
]  # fmt: skip


def test_slopes_and_values_where_the_formulas_have_none() -> None:
    compiled = set()  # the first slope of each function: they can be large programs
    for place, function, at, want in LIMITS:
        slope = phix.grad(function, place)
        ways = (slope,) if function in compiled else (slope, phix.jit(slope))
        compiled.add(function)
        for found in ways:
            value = found(*map(np.float64, at)).item()
            np.testing.assert_allclose(value, want, rtol=1e-12, err_msg=f"{function} {at}")
        narrow = slope(*map(np.float32, at)).item()
        np.testing.assert_allclose(narrow, want, rtol=1e-6, err_msg=f"{function} {at}")
    for found, want in VALUES:
        np.testing.assert_allclose(found.item(), want, rtol=1e-6)


def test_truncated_normal_numbers_without_an_end_have_slopes() -> None:
    """logpdf(x, -inf, b - m, loc=m) = -(x - m)^2 / 2 - log ndtr(b - m), and mirrored."""

    def below(m: float) -> phix.Tensor:
        return stats.truncnorm.logpdf(np.float64(-0.5), -INF - m, -0.2 - m, loc=m)

    def above(m: float) -> phix.Tensor:
        return stats.truncnorm.logpdf(np.float64(0.5), 0.2 - m, INF - m, loc=m)

    rate = scipy.stats.norm.pdf(0.2) / scipy.stats.norm.cdf(-0.2)
    for function, want in ((below, -0.5 + rate), (above, 0.5 - rate)):
        np.testing.assert_allclose(phix.grad(function)(np.float64(0)).item(), want, rtol=1e-12)


def test_slopes_batched_compiled_and_of_unknown_dims() -> None:
    x = np.array([0.2, 0.5, 0.9])
    both = phix.vmap(phix.jit(phix.grad(stats.gamma.logcdf, (0, 1))), (0, None))(x, np.float64(2))
    step = 1e-5
    for place, found in enumerate(both):
        a, b = ((x + step, x - step), (2.0, 2.0)) if place == 0 else ((x, x), (2 + step, 2 - step))
        want = scipy.stats.gamma.logcdf(a[0], b[0]) - scipy.stats.gamma.logcdf(a[1], b[1])
        np.testing.assert_allclose(found, want / (2 * step), rtol=1e-8)
    graph = phix.make_graph(lambda x: stats.truncnorm.logpdf(x, 0.0, 1.0))(phix.spec(["n"]))
    want = scipy.stats.truncnorm.logpdf(x, 0, 1)
    np.testing.assert_allclose(graph(x.astype("float32"))[0], want, atol=5e-7)


def test_distributions_of_vectors() -> None:
    rng = np.random.default_rng(3)
    x, mean = rng.normal(size=(4, 3)), rng.normal(size=3)
    cov = np.eye(3) + 0.3
    for ours in (cov, np.array([1.0, 2.0, 3.0]), np.float64(2.0)):
        want = scipy.stats.multivariate_normal.logpdf(x, mean, ours)
        np.testing.assert_allclose(
            stats.multivariate_normal.logpdf(x, mean, ours), want, rtol=1e-12
        )
    want = scipy.stats.multivariate_normal.logpdf(mean)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(mean), want, rtol=1e-12)
    p, alpha = np.array([0.2, 0.3, 0.5]), np.array([0.7, 2.0, 3.0])
    for parts in (p, p[:2]):
        want = scipy.stats.dirichlet.pdf(parts, alpha)
        np.testing.assert_allclose(stats.dirichlet.pdf(parts, alpha), want, rtol=1e-12)
    counts = np.array([[1.0, 2, 2], [1, 1, 1]])
    np.testing.assert_allclose(
        stats.multinomial.pmf(counts, 5, p), scipy.stats.multinomial.pmf(counts, 5, p), rtol=1e-12
    )
    one = x[:, :1]  # the same number along each of the three axes of cov
    want = scipy.stats.multivariate_normal.logpdf(one + np.zeros(3), np.zeros(3), [1, 2, 3])
    for middle in (0.0, np.zeros(1)):
        found = stats.multivariate_normal.logpdf(one, middle, np.array([1.0, 2.0, 3.0]))
        np.testing.assert_allclose(found, want, rtol=1e-12)
    for dtype in ("float16", "bfloat16"):  # parts that add to 1 as far as the dtype has it
        halves = [phix.to_tensor(v).astype(dtype) for v in ([0.1, 0.3, 0.6], alpha)]
        found = stats.dirichlet.logpdf(*halves).item()
        assert abs(found - scipy.stats.dirichlet.logpdf([0.1, 0.3, 0.6], alpha)) < 0.02
        beside = phix.to_tensor([0.1, 0.3, 0.65]).astype(dtype)
        assert stats.dirichlet.logpdf(beside, halves[1]).item() == -np.inf
    with pytest.raises(ShapeError, match="dirichlet"):
        stats.dirichlet.logpdf(p, alpha[:1])
    with pytest.raises(ShapeError, match=r"multivariate_normal.*\[\.\.\., 3, 3\]"):
        stats.multivariate_normal.logpdf(x, mean, cov[:2])


def test_vectors_that_a_distribution_has_not() -> None:
    """NaN for what is no number and for parts that add to something else; no broadcasting of what
    SciPy takes for points, or refuses."""
    half = np.array([0.5, 0.5])
    for found in (
        stats.dirichlet.logpdf([NAN, 0.5, 0.5], [1.0, 2.0, 3.0]),
        stats.dirichlet.pdf([NAN, 0.5], [1.0, 2.0, 3.0]),
        stats.multinomial.logpmf([NAN, 1.0], 2, half),
        stats.multinomial.logpmf([1.0, 1.0], NAN, half),
        stats.multinomial.logpmf([-1.0, 0.0], -1, half),
        stats.multinomial.logpmf([1.0, 1.0], 2, [0.3, 0.3]),
        stats.multinomial.pmf([1.0, 1.0], 2, [0.8, 0.8]),
    ):
        assert np.isnan(found.item())
    with pytest.raises(ShapeError, match=r"multinomial.*float64\[1\] and float64\[2\]"):
        stats.multinomial.logpmf([2.0], 2, half)
    points = np.arange(5.0)
    for mean, cov in ((np.zeros(1), 2.0), (0.0, np.full(1, 2.0)), (np.zeros(1), np.eye(1))):
        with pytest.raises(ShapeError, match=r"multivariate_normal.*x\[\.\.\., None\]"):
            stats.multivariate_normal.logpdf(points, mean, cov)
        found = stats.multivariate_normal.logpdf(points[:, None], mean, cov)
        want = scipy.stats.multivariate_normal.logpdf(points, mean, cov)
        np.testing.assert_allclose(found, want, rtol=1e-14)
    with pytest.raises(ShapeError, match="multinomial"):
        phix.make_graph(stats.multinomial.logpmf)(
            phix.spec(["n"], "float64"), phix.spec([]), phix.spec(["n", 2], "float64")
        )(np.ones(3), np.float32(3), np.ones((3, 2)))


def test_ranks_and_samples() -> None:
    a = np.array([[3.0, 1, 3, 2], [0, 0, 5, 5], [2, 1, 3, 2]])
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(
                np.reshape(stats.rankdata(a, method, axis=axis), -1),
                np.reshape(scipy.stats.rankdata(a, method, axis=axis), -1),
            )
    holed = np.where(a == 5, NAN, a)
    for axis in (None, 0, 1):
        found, want = (s.rankdata(holed, axis=axis) for s in (stats, scipy.stats))
        np.testing.assert_array_equal(np.reshape(found, -1), np.reshape(want, -1))
    for axis in (None, 0, 1):
        for keep in (False, True):
            found, want = (s.mode(a, axis=axis, keepdims=keep) for s in (stats, scipy.stats))
            np.testing.assert_array_equal(found.mode, want.mode)
            np.testing.assert_array_equal(found.count, want.count)
            found, want = (s.sem(a, axis, keepdims=keep) for s in (stats, scipy.stats))
            np.testing.assert_allclose(found, want, rtol=1e-14, strict=True)
            kept = {"axis": axis, "keepdims": keep, "nan_policy": "omit"}
            for of in (a, holed):
                for name in ("mode", "sem"):
                    found, want = (getattr(s, name)(of, **kept) for s in (stats, scipy.stats))
                    for x, y in zip(phix.tree.leaves(found), phix.tree.leaves(want)):
                        np.testing.assert_allclose(x, y, rtol=1e-14)
    unknown = phix.jit(lambda x: stats.sem(x, ddof=2), input_spec=[phix.spec(["n"], "float64")])
    for few in (np.ones(1), np.arange(2.0)):  # of no freedom: NaN, and infinity
        with np.errstate(all="ignore"):
            rest = np.float64(((few - few.mean()) ** 2).sum()) / 0.0
        for found in (stats.sem(few, ddof=2), unknown(few)):
            np.testing.assert_array_equal(found, rest)


def test_nans_are_left_out_where_that_is_asked_for() -> None:
    x = np.array([[1.0, NAN, 4.0, NAN], [NAN, NAN, NAN, NAN], [2.0, NAN, NAN, NAN]])
    omit = {"axis": 1, "nan_policy": "omit"}
    found = stats.mode(x, **omit)
    np.testing.assert_array_equal(found.mode, [1.0, NAN, 2.0])
    assert found.count.tolist() == [1, 0, 1]
    np.testing.assert_allclose(stats.sem(x, **omit), [1.5, NAN, NAN])
    slopes = phix.grad(lambda x: stats.sem(x, **omit)[0])(x)
    np.testing.assert_allclose(slopes, [[-0.5, 0.0, 0.5, 0.0], [0.0] * 4, [0.0] * 4])
    assert np.isnan(stats.sem(x, 1)).all() and stats.mode(x, 1).count.tolist() == [2, 4, 3]
    with pytest.raises(ArgumentError, match=r"nan_policy must be one of 'propagate', 'omit'"):
        stats.sem(x, nan_policy="raise")


def test_average_ranks_of_ints_are_of_the_default_float() -> None:
    assert stats.rankdata([0, 2, 2]).dtype == "float32"
    with phix.default_dtype("float64"):
        assert stats.rankdata([0, 2, 2]).dtype == "float64"
        assert stats.rankdata(np.ones(2, np.float32)).dtype == "float32"


def test_frozen_distributions_are_scipys() -> None:
    x = np.linspace(0.1, 0.9, 5)
    for name, shapes, given in (
        ("norm", (1.0,), {"scale": 2.0}), ("expon", (), {}), ("beta", (2.0, 3.0), {"loc": 0.1}),
        ("gamma", (), {"a": 0.7, "scale": x}),
    ):  # fmt: skip
        found, want = (getattr(s, name)(*shapes, **given) for s in (stats, scipy.stats))
        for key in ("pdf", "logpdf", "cdf", "sf"):
            np.testing.assert_allclose(getattr(found, key)(x), getattr(want, key)(x), rtol=1e-12)
    cov = [[2.0, 0.3], [0.3, 0.5]]
    found, want = (s.multivariate_normal(cov=cov, mean=[1, 0]) for s in (stats, scipy.stats))
    np.testing.assert_allclose(found.logpdf([0.5, 2.0]), want.logpdf([0.5, 2.0]), rtol=1e-6)
    slope = phix.jit(phix.grad(lambda m: stats.norm(m, 2.0).logpdf(1.0)))(0.5)
    assert slope.item() == 0.125
    assert "ppf" in dir(stats.norm(1.0)) and repr(stats.norm()) == "phix.scipy.stats.norm, frozen"
    for wrong, message in (
        (lambda: stats.beta(2.0), r"beta: missing a required argument: 'b'; cdf takes \(x, a, b"),
        (lambda: stats.norm(mean=1), "norm: got an unexpected keyword argument 'mean'"),
        (lambda: stats.norm(1.0).pdf(), "frozen: pdf takes one argument, 0 arguments found"),
    ):
        with pytest.raises(ArgumentError, match=message):
            wrong()


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"norm\.pdf.*write pdf\(x, loc=0, scale=1\)"):
        stats.norm.pdf()
    with pytest.raises(AttributeError, match=r"vonmises has no 'cdf'; it has logpdf, pdf"):
        stats.vonmises.cdf(0.0, 1.0)


def test_the_examples_run() -> None:
    for module in (distributions, ranks):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed


def test_where_a_density_vanishes_at_an_end_its_slope_is_that_beside() -> None:
    for name, x, shapes in (("gamma", 0.0, (3.0,)), ("gamma", 0.0, (1.5,)), ("chi2", 0.0, (5.0,)),
                            ("beta", 0.0, (2.0, 0.5)), ("beta", 1.0, (0.5, 3.0))):  # fmt: skip
        own = getattr(phix.scipy.stats, name).pdf
        assert own(x, *shapes).item() == 0
        slopes = phix.grad(lambda x, s, f=own: f(x, *s), (0, 1))(x, shapes)
        assert slopes[0].item() == 0 and all(s.item() == 0 for s in slopes[1])
    slope = phix.grad(lambda x: phix.scipy.stats.gamma.pdf(x, 1.0))(0.0)
    assert slope.item() == -1.0


# Of formulas in 50 digits; SciPy's own values have lost up to all of theirs here.
LARGE_SHAPES: dict[str, tuple[str, tuple[float, ...], float]] = {
    "gamma": ("logpdf", (1.000003e12, 1e12), -19.23444309118478),
    "chi2": ("logpdf", (1e9, 1e9 + 5e4), -12.252109626343231),
    "beta": ("logpdf", (0.25, 1e11, 3e11), 13.275414875607457),
    "poisson": ("logpmf", (3e10 - 1e5, 3e10), -13.14783532769445),
    "binom": ("logpmf", (1e10, 4e10, 0.25), -12.288022961958038),
    "nbinom": ("logpmf", (1e10, 3e10, 0.75), -12.575705034409819),
}


@pytest.mark.parametrize("name", LARGE_SHAPES)
def test_densities_of_large_shapes_keep_their_digits(name: str) -> None:
    function, args, want = LARGE_SHAPES[name]
    found = getattr(getattr(stats, name), function)(*map(np.float64, args))
    np.testing.assert_allclose(found, want, rtol=1e-13)


def test_parts_of_t_where_squares_overflow() -> None:
    """By the first term of the series in df / x^2: next to 1 / (pi x) of the Cauchy distribution,
    and next to a half for a small df, though df / x^2 is 0 in float64."""

    def above(x: Any, df: Any) -> Any:
        return (df / x**2) ** (df / 2) / (df * mpmath.beta(df / 2, mpmath.mpf(0.5)))

    def slope(x: Any, df: Any) -> Any:
        return mpmath.diff(lambda shape: above(x, shape), df)

    for x, df in ((1e155, 1.0), (1e300, 0.001), (1e200, 0.01), (1e160, 0.5), (1e5, 1e-300)):
        with mpmath.workdps(40):
            want = float(above(mpmath.mpf(x), mpmath.mpf(df)))
            want_slope = float(slope(mpmath.mpf(x), mpmath.mpf(df))) if df > 1e-9 else None
        place, shape = np.float64(x), np.float64(df)
        for found in (stats.t.sf(place, shape), stats.t.cdf(-place, shape)):
            np.testing.assert_allclose(found, want, rtol=1e-11)
        np.testing.assert_allclose(stats.t.logsf(place, shape), np.log(want), rtol=1e-11)
        np.testing.assert_allclose(stats.t.cdf(place, shape), 1 - want, rtol=1e-11)
        if want_slope is not None:
            found = phix.grad(stats.t.sf, 1)(place, shape)
            np.testing.assert_allclose(found, want_slope, rtol=1e-9)


def test_truncated_normals_far_out_in_float32() -> None:
    """The terms of the logarithms are about a^2 / 2, far more than what is left of them."""
    for a in (100.0, 1e3, 1e4):
        x = np.float32(a) + np.float32(2**-10)
        shapes, wide = (np.float32(a), np.float32(np.inf)), (a, np.inf)
        for key in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"):
            found = getattr(stats.truncnorm, key)(x, *shapes)
            want = getattr(scipy.stats.truncnorm, key)(float(x), *wide)
            assert found.dtype == "float32"
            np.testing.assert_allclose(found, want, rtol=2e-6, err_msg=key)
            found = getattr(stats.truncnorm, key)(-x, -shapes[1], -shapes[0])
            want = getattr(scipy.stats.truncnorm, key)(-float(x), -wide[1], -wide[0])
            np.testing.assert_allclose(found, want, rtol=2e-6, err_msg=key)


def test_betabinom_of_many_draws_in_float32() -> None:
    """The logarithms of its parts are far more than that of the mass."""
    cases = ((500, 1000, 20, 30), (3e5, 1e6, 3, 2), (2.0**32, 2.0**33, 3, 2), (0, 1000, 0.5, 25))
    for case in cases:
        with mpmath.workdps(40):
            k, n, a, b = map(mpmath.mpf, case)
            want = mpmath.binomial(n, k) * mpmath.beta(k + a, n - k + b) / mpmath.beta(a, b)
        found = [getattr(stats.betabinom, f)(*map(np.float32, case)) for f in ("pmf", "logpmf")]
        np.testing.assert_allclose(found[0], float(want), rtol=1e-5)
        np.testing.assert_allclose(found[1], float(mpmath.log(want)), rtol=1e-6)


def test_counts_and_parts_of_vectors_in_float32() -> None:
    """The terms of the logarithms are far more than what is left of them."""
    parts = [0.5, 0.25, 0.25]
    cases: list[Any] = [
        ("multinomial", "pmf", [50000, 25100, 24900], 100000, parts),
        ("multinomial", "logpmf", [50000, 30000, 20000], 100000, parts),
        ("dirichlet", "pdf", parts, [5000, 2500, 2550]),
    ]
    for name, key, *args in cases:
        found = getattr(getattr(stats, name), key)(*(np.asarray(v, "float32") for v in args))
        want = getattr(getattr(scipy.stats, name), key)(*args)
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_slopes_of_slopes_of_masses_for_small_parts() -> None:
    """p and p (1 - p)^(k - 1): no terms of 1 / p^2 that cancel."""

    def derivatives(name: str, k: float, p: float) -> list[float]:
        def mass(p: Any) -> Any:
            return getattr(stats, name).pmf(np.float64(k), p)

        return [
            f(np.float64(p)).item() for f in (mass, phix.grad(mass), phix.grad(phix.grad(mass)))
        ]

    for p in (0.0, 1e-17, 1e-9, 0.3, 1.0):
        np.testing.assert_allclose(derivatives("bernoulli", 1, p), [p, 1, 0], atol=1e-15)
        np.testing.assert_allclose(derivatives("bernoulli", 0, p), [1 - p, -1, 0], atol=1e-15)
    for p in (1e-17, 1e-9, 0.3):
        want = [p * (1 - p) ** 2, (1 - p) * (1 - 3 * p), 6 * p - 4]
        np.testing.assert_allclose(derivatives("geom", 3, p), want, rtol=1e-13)
