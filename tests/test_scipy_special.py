"""phix.scipy.special beside scipy.special: values, edges, and slopes that are finite at limits."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import scipy.special

import phix
from phix.core.errors import AttributeValueError, DTypeError
from phix.scipy import (
    entropies,
    gammas,
    hypergeometric,
    incomplete_beta,
    integrals,
    oscillations,
    special,
    sums,
    waves,
)

pytestmark = pytest.mark.unoptimised
TWO = ["kl_div", "rel_entr", "xlog1py", "xlogy"]
WITH_TESTS_OF_THEIR_OWN = (gammas, hypergeometric, integrals, sums, oscillations, waves)
OTHER = {"polygamma", "betainc", *TWO, *(name for m in WITH_TESTS_OF_THEIR_OWN for name in dir(m))}
X = np.array([-0.75, -0.25, 0.0, 0.2, 0.5, 0.9])
EDGES = np.array([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(set(special.__all__) - OTHER))
def test_functions_of_one_argument_are_scipys(name: str) -> None:
    x = X[X > 0] if name in ("digamma", "psi", "gammaln", "loggamma") else X
    found = getattr(special, name)(x)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, getattr(scipy.special, name)(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_are_scipys_at_edges_too(name: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(EDGES, EDGES))
    with np.errstate(all="ignore"):
        expected = getattr(scipy.special, name)(a, b)
    np.testing.assert_allclose(getattr(special, name)(a, b), expected, rtol=1e-13)
    slopes = phix.vmap(phix.grad(getattr(special, name), argnums=1))(
        np.zeros(2), np.array([0.5, 2.0])
    )
    assert np.isfinite(slopes.numpy()).all()


def test_the_others() -> None:
    x = np.array([0.3, 1.5, 4.0])
    for n in (0, 1, 3):
        np.testing.assert_allclose(
            special.polygamma(n, x), scipy.special.polygamma(n, x), rtol=1e-12
        )
    assert special.xlogy(0.1, x).tolist() == (0.1 * np.log(x)).tolist()  # 0.1 is no float32
    slope = phix.grad(special.xlogy)(phix.to_tensor(0.0), phix.to_tensor(3.0))
    assert abs(slope.item() - np.log(3.0)) < 1e-6
    slope = phix.grad(special.xlog1py)(phix.to_tensor(0.0), phix.to_tensor(3.0))
    assert abs(slope.item() - np.log(4.0)) < 1e-6
    assert special.erf([1, 2]).dtype == "float32"
    with pytest.raises(DTypeError, match=r"xlogy.*real"):
        special.xlogy(1j * X, X)


# Functions over their domains, edges and beyond, to 3e-13 of SciPy's values. Each is run on a row
# of one length, so that what they share is compiled once.
RNG = np.random.default_rng(7)
POINTS = 40


def _many(low: float, high: float, *edges: float) -> np.ndarray:
    """Numbers from 10^low to 10^high, and some more."""
    return np.concatenate([10 ** RNG.uniform(low, high, POINTS - len(edges)), edges])


def _whole(low: int, high: int) -> np.ndarray:
    return RNG.integers(low, high, POINTS).astype(float)


INF, NAN = np.inf, np.nan
UNITS = [RNG.choice([-1.0, 0, 0.5, 1, 2, INF, NAN], POINTS) for _ in range(3)]
DOMAINS: dict[str, list[tuple[Any, ...]]] = {
    "gamma": [(np.linspace(-20.3, 171.6, POINTS),), (_many(-9, 2, 0, 5, INF, NAN, -0.0, -1.5),)],
    "gammasgn": [(np.linspace(-3.25, 3, POINTS),)],
    "factorial": [(np.arange(POINTS) - 2.0,)],
    "comb": [(_whole(0, 40), _whole(-1, 30))],
    "poch": [(_whole(-8, 20), _whole(0, 20)), (_many(-3, 2), _many(-3, 1))],
    "betaln": [(_many(-5, 3, 1e6), _many(-5, 3, 2e6))],
    "beta": [(RNG.uniform(-5, 5, POINTS), RNG.uniform(-5, 5, POINTS))],
    "gammainc": [(_many(-4, 2), _many(-4, 2)), (UNITS[0], UNITS[1])],
    "gammaincc": [(_many(-4, 1.5), _many(-4, 1.5))],
    "betainc": [
        (_many(-3, 2), _many(-3, 2), RNG.uniform(0, 1, POINTS)),
        (_many(-3, 3), _many(-3, 3), 1 - _many(-9, 0)),
        (_many(-3, 1), _many(-3, 3), _many(-5, 0)),
        tuple(UNITS),
    ],
    "expn": [(_whole(0, 25), _many(-8, 2.8, 0, INF, NAN, -1))],
    "exp1": [(_many(-8, 2.8, 0, INF, NAN, -1),)],
    "expi": [(_many(-8, 2.8, 0, INF, NAN, 1, -1),), (-_many(-3, 2.8),)],
    "spence": [(_many(-8, 5, 0, 1, 2, -1, NAN),)],
    "dawsn": [(np.linspace(-10, 10, POINTS),), (_many(-8, 9, 0, INF, NAN),)],
    "ndtri": [(_many(-300, 0, 0, 1, -1, 2, NAN, 0.5, 5e-324),), (1 - _many(-14, 0),)],
    "owens_t": [(RNG.uniform(-9, 9, POINTS), RNG.standard_cauchy(POINTS))],
    "zeta": [(1 + _many(-4, 2), _many(-3, 4)), (RNG.uniform(-20, 30, POINTS),)],
    "boxcox": [(_many(-5, 5, 0), RNG.normal(size=POINTS) * 10 ** RNG.uniform(-9, 0, POINTS))],
    "boxcox1p": [(_many(-9, 2, -1), RNG.normal(size=POINTS))],
}
THEIRS = {"comb": scipy.special.binom}


@pytest.mark.parametrize("name", DOMAINS)
def test_functions_are_scipys_over_their_domains(name: str) -> None:
    for args in DOMAINS[name]:
        with np.errstate(all="ignore"):
            want = THEIRS.get(name, getattr(scipy.special, name))(*args)
        want = np.where((name == "comb") & (args[-1] < 0), 0, want)
        found = getattr(special, name)(*args)
        assert found.dtype == "float64"
        np.testing.assert_allclose(found, want, rtol=3e-13, atol=1e-290)


SLOPES = [
    ("gammainc", (0.3, 0.01)), ("gammaincc", (50.0, 80.0)),
    ("betainc", (2.0, 3.0, 0.8)), ("betainc", (40.0, 4.0, 0.9)), ("beta", (0.5, 2.0)),
    ("zeta", (2.5, 0.7)), ("owens_t", (0.4, 1.7)), ("boxcox", (1.5, 0.0)),
    ("ndtri", (0.01,)), ("spence", (1.0,)), ("dawsn", (0.3,)), ("expi", (-2.0,)),
    ("gamma", (-1.5,)), ("exp1", (0.7,)),
]  # fmt: skip


def _of_mpmath(name: str) -> Any:
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 30
    gammainc = mp.gammainc
    own = {
        "gammainc": lambda a, x: gammainc(a, 0, x, regularized=True),
        "gammaincc": lambda a, x: gammainc(a, x, mp.inf, regularized=True),
        "betainc": lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        "owens_t": lambda h, a: mp.quad(
            lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi),
        "boxcox": lambda x, p: mp.log(x) if p == 0 else mp.expm1(p * mp.log(x)) / p,
        "ndtri": lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1),
        "spence": lambda x: mp.polylog(2, 1 - x).real,
        "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
        "expi": mp.ei, "exp1": mp.e1, "beta": mp.beta, "zeta": mp.zeta, "gamma": mp.gamma,
    }  # fmt: skip
    return mp, own[name]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "at"), SLOPES)
def test_slopes_in_every_argument_are_those_of_mpmath(name: str, at: Any) -> None:
    mp, function = _of_mpmath(name)
    places = tuple(range(len(at)))
    found = phix.grad(getattr(special, name), places)(*map(np.float64, at))
    for place in places:
        want = mp.diff(
            lambda v, place=place: function(
                *(v if i == place else mp.mpf(a) for i, a in enumerate(at))
            ),
            mp.mpf(at[place]),
        )
        np.testing.assert_allclose(found[place].item(), float(want), rtol=1e-12)


@pytest.mark.parametrize(("a", "x"), [(1e-8, 1e-8), (1e-8, 1e-3), (0.4, 0.049)])
def test_second_slopes_in_small_shapes(a: float, x: float) -> None:
    """Where a quantile moves by 1 / a^2."""
    mp, function = _of_mpmath("gammainc")
    with mp.workdps(50):
        want = mp.diff(
            lambda v: function(v, mp.mpf(x)), mp.mpf(a), 2, h=mp.mpf(a) * mp.mpf(10) ** -12
        )
    for sign, name in ((1, "gammainc"), (-1, "gammaincc")):
        found = phix.grad(phix.grad(getattr(special, name)))(np.float64(a), np.float64(x))
        np.testing.assert_allclose(sign * found.item(), float(want), rtol=1e-10)


# Values far out and at limits, beside 50 digits of mpmath or a closed form.
FAR = [
    ("poch", (1e12, 1.0), 1e12), ("poch", (1e12 + 3, -3.0), 1 / (1e12 * (1e12 + 1) * (1e12 + 2))),
    ("poch", (-3.0, 5.0), 0.0), ("poch", (-2e4, 2.0), 2e4 * (2e4 - 1)),
    ("zeta", (-1e-20,), -0.5), ("zeta", (-1e-10,), -0.49999999990810616), ("zeta", (-200.0,), 0.0),
    ("zeta", (-2.0,), 0.0), ("zeta", (-200.5,), -2.3200006633528991e215),
    ("beta", (-0.5, 1e10), -2 * np.sqrt(np.pi) * 1e5 * (1 - 3 / 8e10)),
    ("beta", (-3.0, 2.0), 1 / 6), ("beta", (2.0, -3.0), 1 / 6), ("beta", (-3.0, 1.0), -1 / 3),
    ("beta", (-3.0, 5.0), INF), ("betaln", (-3.0, 2.0), -np.log(6.0)),
    ("betaln", (-3.0, -2.0), INF),
    ("beta", (INF, 2.0), 0.0), ("beta", (1e-300, INF), 0.0), ("beta", (INF, -0.5), -INF),
    ("beta", (-5.5, 0.5), 0.0), ("betaln", (3.0, INF), -INF), ("betaln", (INF, -0.5), INF),
    ("betaln", (INF, INF), -INF), ("poch", (INF, 2.5), INF), ("poch", (INF, -2.0), 0.0),
    ("poch", (INF, 0.0), 1.0), ("poch", (2.0, -5.0), INF), ("poch", (0.5, -3.5), INF),
    ("comb", (INF, 2.0), INF), ("comb", (INF, 0.0), 1.0),
    ("comb", (1e100, 3.0), 1e300 / 6), ("comb", (1e300, 1.0), 1e300), ("comb", (1e18, 2.0), 5e35),
    ("comb", (INF, INF), NAN),
    ("loggamma", (-0.5,), NAN), ("loggamma", (0.0,), INF), ("loggamma", (0.5,), np.log(np.pi) / 2),
    ("rel_entr", (1e-300, 1e300), -1e-300 * 600 * np.log(10)),
    ("rel_entr", (1e300, 1e-5), 1e300 * 305 * np.log(10)),
    ("kl_div", (1e-300, 1.0), 1.0),
    ("boxcox", (0.0, 2.0), -0.5), ("boxcox1p", (-1.0, 2.0), -0.5), ("boxcox", (0.0, -2.0), -INF),
]  # fmt: skip


@pytest.mark.parametrize(("name", "at", "want"), FAR)
def test_values_far_out_and_at_limits(name: str, at: Any, want: float) -> None:
    found = getattr(special, name)(*map(np.float64, at)).item()
    np.testing.assert_allclose(found, want, rtol=1e-12, err_msg=name)


# Slopes where the formulas have none, in closed form.
AT_LIMITS = [
    ("poch", 0, (-3.0, 5.0), -6.0), ("poch", 0, (-3.0, 2.0), -5.0), ("poch", 1, (-3.0, 5.0), 0.0),
    ("poch", 0, (0.0, 3.0), 2.0), ("poch", 0, (1e12, 1.0), 1.0),
    ("expn", 1, (3.0, 0.0), -1.0), ("expn", 1, (2.0, 0.0), -INF), ("exp1", 0, (0.0,), -INF),
    ("expn", 1, (0.0, 2.0), -0.75 * np.exp(-2.0)),
    ("boxcox", 0, (0.0, 2.0), 0.0), ("boxcox", 1, (0.0, 2.0), 0.25),
    ("boxcox1p", 0, (-1.0, 2.0), 0.0), ("boxcox1p", 1, (-1.0, 2.0), 0.25),
    ("zeta", 0, (0.0,), -0.5 * np.log(2 * np.pi)), ("zeta", 0, (-2.0,), -0.030448457058393272),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "at", "want"), AT_LIMITS)
def test_slopes_where_the_formulas_have_none(name: str, place: int, at: Any, want: float) -> None:
    function = phix.grad(getattr(special, name), place)
    for slope in (function, phix.jit(function)):
        np.testing.assert_allclose(slope(*map(np.float64, at)).item(), want, rtol=1e-12)


def test_slopes_of_slopes_of_expn_and_poch() -> None:
    second = phix.grad(phix.grad(lambda x: special.expn(3.0, x)))  # exp1
    np.testing.assert_allclose(second(np.float64(0.5)).item(), scipy.special.exp1(0.5), rtol=1e-12)
    third = phix.grad(phix.grad(phix.grad(special.exp1)))(np.float64(0.5)).item()
    np.testing.assert_allclose(third, -np.exp(-0.5) * 26, rtol=1e-12)
    curve = phix.grad(phix.grad(special.poch))(np.float64(-1.0), np.float64(3.0)).item()
    np.testing.assert_allclose(curve, 0.0, atol=1e-13)  # z^3 + 3 z^2 + 2 z


@pytest.mark.parametrize(("name", "more"), [("boxcox", 0.0), ("boxcox1p", 1.0)])
def test_slopes_of_powers_of_vectors(name: str, more: float) -> None:
    """x^(p - 1) in x, (p - 1) x^(p - 2) of that, and x^(p - 1) log(x) in both."""
    x, p = np.array([0.5, 1.0, 3.0]), np.array([2.5, 0.0, -1.0])

    def slope(x: Any, p: Any) -> Any:
        return phix.grad(lambda x, p: getattr(special, name)(x, p).sum())(x, p)

    at, base = x - more, x ** (p - 1)
    np.testing.assert_allclose(slope(at, p), base, rtol=1e-13)
    np.testing.assert_allclose(phix.jit(slope)(at, np.float64(0.5)), x**-0.5, rtol=1e-13)
    own, mixed = phix.grad(lambda x, p: slope(x, p).sum(), (0, 1))(at, p)
    np.testing.assert_allclose(own, (p - 1) * base / x, rtol=1e-13)
    np.testing.assert_allclose(mixed, base * np.log(x), rtol=1e-13)


def test_falling_products_next_to_poles() -> None:
    """1 / ((z - 1) (z - 2) ... (z - n)) for m = -n; and its slopes, by mpmath."""
    z = np.array([1e-17, -1e-17, 1e-300, 1e-10, -1e-10, -2 - 1e-10, 1 + 1e-10, 0.3, -1e5 - 0.5])
    for n in (1, 3, 30):
        product = np.prod([z - k for k in range(1, n + 1)], axis=0)
        np.testing.assert_allclose(special.poch(z, float(-n)), 1 / product, rtol=1e-11)
    mp = pytest.importorskip("mpmath")
    at = np.float64(1e-4), np.float64(-4.0)
    for place in (0, 1):
        slope = phix.grad(special.poch, place)
        orders = [(1 - place, place), (2 - place, place), (1 - place, 1 + place)]
        found = [slope(*at), *phix.grad(slope, (0, 1))(*at)]
        with mp.workdps(40):
            want = [float(mp.diff(mp.rf, tuple(map(mp.mpf, at)), n)) for n in orders]
        np.testing.assert_allclose([v.item() for v in found], want, rtol=1e-9)


def test_betainc_of_huge_shapes() -> None:
    """By mpmath's quadrature of the density to within what half a rounding of x makes; at x = 1/2
    of two equal shapes it is 1/2, and its slopes are those of ndtr((b - a) / sqrt(2 (a + b)))."""
    for a in (3e11, 1e12, 1e14, 1e20, 1e300):
        shapes = np.float64(a), np.float64(a), np.float64(0.5)
        np.testing.assert_allclose(special.betainc(*shapes), 0.5, rtol=1e-11)
        slopes = [v.item() for v in phix.grad(special.betainc, (0, 1))(*shapes)]
        np.testing.assert_allclose(slopes, np.array([-0.5, 0.5]) / np.sqrt(np.pi * a), rtol=1e-9)
    mp = pytest.importorskip("mpmath")
    for a, b, x in (
        (1e12, 1e12, 0.4999996464466094),
        (1e12, 3e13, 0.032258),
        (1e14, 1e14, 0.5 + 2e-8),
    ):
        scale = np.sqrt(a / (a + b) * (b / (a + b)) / (a + b))
        away = (x - a / (a + b)) / scale
        with mp.workdps(40):
            log = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)

            def density(t: Any, a: Any = a, b: Any = b, log: Any = log) -> Any:
                return mp.exp((a - 1) * mp.log(t) + (b - 1) * mp.log(1 - t) + log)

            ends = [a / (a + b) - k * scale for k in (20, 10, 5, 2, 1, 0, -1, -2)]
            want = float(mp.quad(density, [t for t in ends if t < x] + [x]))
        half = np.spacing(x) / scale * np.exp(-(away**2) / 2)
        found = special.betainc(*map(np.float64, (a, b, x)))
        np.testing.assert_allclose(found, want, rtol=0, atol=half)


def test_entropies_of_narrow_numbers_keep_their_sign() -> None:
    x, y = np.float32(1), np.float32(1.0001)
    for name in TWO:
        found, want = getattr(special, name)(x, y), getattr(scipy.special, name)(1.0, float(y))
        assert found.dtype == "float32"
        np.testing.assert_allclose(found.item(), want, rtol=1e-7)


def test_slopes_batched_and_compiled_and_of_slopes() -> None:
    """betainc(a, 1, x) = x^a, and at a = 1 the density of gammainc is known in a too."""
    a, x = np.array([0.7, 2.0, 5.0]), np.array([0.2, 0.5, 0.9])
    slope = phix.grad(lambda a, x: special.betainc(a, phix.ones_like(a), x))
    np.testing.assert_allclose(phix.jit(phix.vmap(slope))(a, x), x**a * np.log(x), rtol=1e-12)
    mixed = phix.grad(lambda a, x: phix.grad(special.gammainc, 1)(a, x))
    want = np.exp(-x) * (np.log(x) + np.euler_gamma)  # of x^(a - 1) exp(-x) / gamma(a)
    np.testing.assert_allclose(phix.vmap(mixed)(np.ones(3), x), want, rtol=1e-11)


KNOWN_TANGENTS = {
    "one": ["dawsn", "exp1", "expi", "ndtri", "spence"],
    "two": ["gammainc", "gammaincc", "owens_t"],
}


@pytest.mark.parametrize("name", [*KNOWN_TANGENTS["one"], *KNOWN_TANGENTS["two"]])
def test_tangents_that_are_known_where_all_else_is_traced(name: str) -> None:
    f, x = getattr(special, name), np.array([0.1, 0.5, 0.9])
    given = (x,) if name in KNOWN_TANGENTS["one"] else (x + 1, x)

    def slope(*given: Any) -> Any:
        return phix.jvp(f, given, (np.ones(given[0].shape),) * len(given))[1]

    np.testing.assert_allclose(phix.jit(slope)(*given), slope(*given), rtol=1e-12)
    rows = phix.scan(lambda c, row: (c, slope(*row)), 0, given)[1]
    np.testing.assert_allclose(rows, slope(*given), rtol=1e-12)


def test_unknown_dims_and_narrow_dtypes() -> None:
    def all_of(x: Any) -> Any:
        small = [special.expi(x), special.gammainc(2.0, x), special.zeta(x + 1, x)]
        return sum(small) + special.betainc(x, 2.0, 0.25) + special.ndtri(0.5 * x)

    graph = phix.make_graph(all_of)(phix.spec([-1], "float64"))
    x = np.array([0.25, 0.5, 1.5])
    np.testing.assert_allclose(graph(x)[0], all_of(x), rtol=1e-15)
    for dtype in ("float16", "float32"):
        found = all_of(phix.to_tensor(x, dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, all_of(x), rtol={"float16": 4e-3}.get(dtype, 5e-7))


@pytest.mark.parametrize("axis", [None, (0, 1), (-1, 0), (2, 1), 1])
def test_softmax_along_several_axes_loses_nothing_beside_large_numbers(axis: Any) -> None:
    """The steps are exact in both dtypes, and so are they above 1e7."""
    steps = np.arange(24.0).reshape(2, 3, 4) % 5
    for shift in (0.0, 1e7, -1e7):
        for dtype, digits in (("float32", 2e-6), ("float64", 1e-14)):
            x = phix.to_tensor(steps + shift, dtype=dtype)
            for name in ("softmax", "log_softmax"):
                want = getattr(scipy.special, name)(steps, axis)
                found = getattr(special, name)(x, axis)
                assert found.dtype == dtype
                np.testing.assert_allclose(found, want, rtol=digits, err_msg=name)
    slope = phix.grad(lambda x: special.log_softmax(x, axis)[0, 1, 2])(steps)
    is_own = np.zeros((2, 3, 4))
    is_own[0, 1, 2] = 1
    shares = scipy.special.softmax(steps, axis)
    along = range(3) if axis is None else [a % 3 for a in np.atleast_1d(axis)]
    inside = is_own.max(axis=tuple(along), keepdims=True)
    np.testing.assert_allclose(slope, is_own - shares * inside, atol=1e-15)


def test_sums_of_exponentials() -> None:
    a, b = RNG.normal(size=(3, 4)) * 100, RNG.normal(size=(3, 4))
    a[0, 0], b[0, 0] = INF, 0
    for axis in (None, 0, (0, 1), -1):
        settings: dict[str, Any] = {"axis": axis, "b": b, "return_sign": True}
        for found, want in zip(
            special.logsumexp(a, **settings), scipy.special.logsumexp(a, **settings)
        ):
            np.testing.assert_allclose(found, want, rtol=1e-13)
    none = special.logsumexp(np.ones((0, 3)), 0, np.ones((0, 3)), return_sign=True)
    for found, number in zip(none, (-INF, 0.0)):  # of nothing
        np.testing.assert_array_equal(found, np.full(3, number))
    for axis in (None, 0, (0, 1), -1):
        np.testing.assert_allclose(special.softmax(b, axis), scipy.special.softmax(b, axis))
        np.testing.assert_allclose(
            special.log_softmax(b, axis), scipy.special.log_softmax(b, axis), rtol=1e-13
        )
    np.testing.assert_allclose(
        special.multigammaln(X[-1:] + 2, 3), scipy.special.multigammaln(2.9, 3)
    )
    np.testing.assert_allclose(special.bernoulli(12), scipy.special.bernoulli(12), rtol=1e-11)
    found, want = special.bernoulli(300), scipy.special.bernoulli(300)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found[:259], want[:259], rtol=1e-11)
    assert np.isinf(found[260::2]).all()
    with pytest.raises(AttributeValueError, match=r"comb.*math\.comb"):
        special.comb(3, 2, exact=True)


def test_the_examples_run() -> None:
    for module in (entropies, gammas, incomplete_beta, integrals, special, sums):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed
