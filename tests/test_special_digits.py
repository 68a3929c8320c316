"""Special functions to their last digits, beside values of many digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import phix
from phix.primitives import incomplete_gamma
from phix.scipy import special, stats
from phix.scipy.gamma_ratios import log_ratio

INF, NAN = np.inf, np.nan


# Values of Ei by 50 digits of mpmath: on both sides of its zero, at the seams of the fits, far out.
EI = [
    (0.3725074107813666, -5.1196989365556847021e-17),
    (0.3725074107813667, 1.6508643146897011642e-16), (0.3725, -0.00002887418318874596456),
    (0.47, 0.35373519586905516911), (-0.5, -0.55977359477616081175),
    (-0.50001, -0.55976146434492318394), (-1.0, -0.21938393439552027368),
    (-3.0, -0.013048381094197037413), (-40.0, -1.0367732614516569722e-19),
    (-700.0, -1.4065187662340329228e-307), (1e-300, -690.19831223331217232),
    (3.0, 9.933832570625416558), (6.0, 85.989762142439204804), (6.001, 86.057028298671722567),
    (20.0, 25615652.66405658882), (700.5, 2.3905495202385982072e+301),
    (715.0, 4.6436256703705711004e+307),
]  # fmt: skip


@pytest.mark.parametrize(("x", "want"), EI)
def test_exponential_integrals_are_right_to_the_last_digits(x: float, want: float) -> None:
    np.testing.assert_allclose(special.expi(np.float64(x)).item(), want, rtol=8e-16)
    np.testing.assert_allclose(phix.jit(special.expi)(np.float64(x)).item(), want, rtol=8e-16)
    if x < 0:
        np.testing.assert_allclose(special.exp1(np.float64(-x)).item(), -want, rtol=8e-16)


def test_exponential_integrals_at_their_ends() -> None:
    at = np.array([0.0, -0.0, INF, -INF, NAN, 717.0, -760.0])
    np.testing.assert_array_equal(special.expi(at), [-INF, -INF, INF, 0.0, NAN, INF, 0.0])
    np.testing.assert_array_equal(special.exp1(-at), [INF, INF, NAN, 0.0, NAN, NAN, 0.0])
    for function, want in ((special.expi, np.exp(2) * 0.25), (special.exp1, np.exp(-2) * 0.75)):
        slope = phix.grad(phix.grad(function))
        np.testing.assert_allclose(slope(np.float64(2.0)).item(), want, rtol=1e-14)


# Values of Dawson's integral by 50 digits of mpmath, at the seams of the fits, too.
DAWSON = [
    (1e-09, 1.0000000000000000616e-9), (0.25, 0.23983916356289821236),
    (0.924, 0.54104421419986621362), (1.2499, 0.49585102876881915811),
    (1.25, 0.49582707396432611922), (1.2501, 0.49580311523248370302),
    (2.5, 0.22308372216743548113), (3.9999, 0.12935147973487722238),
    (4.0, 0.12934800123600511559), (4.0001, 0.12934452293289379076),
    (6.5, 0.077867818986069871389), (9.0, 0.055905046724350460704), (1e160, 5e-161),
]  # fmt: skip


@pytest.mark.parametrize(("x", "want"), DAWSON)
def test_dawsons_integral_is_right_to_the_last_digits(x: float, want: float) -> None:
    for function in (special.dawsn, phix.jit(special.dawsn)):
        np.testing.assert_allclose(function(np.array([x, -x])), [want, -want], rtol=7e-16)
    small = np.array([min(x, 1e30)], np.float32)
    wide = special.dawsn(small.astype(np.float64)).numpy()
    np.testing.assert_array_equal(special.dawsn(small), wide.astype(np.float32))


def test_dawsons_integral_at_its_ends() -> None:
    at = np.array([0.0, -0.0, INF, -INF, NAN, 5e-324, 1.5e308])
    found = special.dawsn(at).numpy()
    np.testing.assert_array_equal(found, [0, 0, 0, 0, NAN, 5e-324, 0.5 / 1.5e308])
    np.testing.assert_array_equal(np.signbit(found[:4]), [False, True, False, True])


# Of a and x what lies below x and above, by 80 digits of mpmath; at the seams of the regions, too.
PARTS = [
    (1.0, 1.0, 0.632120558828557678, 0.367879441171442322),
    (0.5, 1.999, 0.954445711377583642, 0.0455542886224163581),
    (0.5, 2.0, 0.954499736103641586, 0.0455002638963584144),
    (3.0, 1.999, 0.323052913273024864, 0.676947086726975136),
    (3.0, 2.0, 0.323323583816936541, 0.676676416183063459),
    (0.01, 1.0, 0.99778376537677201, 0.00221623462322799034),
    (0.5, 0.999, 0.842493083440506907, 0.157506916559493093),
    (0.51, 0.999, 0.838580060870073851, 0.161419939129926149),
    (11.9, 12.5, 0.605462220492210967, 0.394537779507789033),
    (12.1, 11.0, 0.409199962454704112, 0.590800037545295888),
    (100.0, 120.0, 0.972136260109479339, 0.0278637398905206615),
    (5000.0, 4900.0, 0.0779449562265139139, 0.922055043773486086),
    (100000.0, 100300.0, 0.828636311251207648, 0.171363688748792352),
    (20.0, 3.0, 8.31442358819169886e-11, 0.999999999916855764),
]


@pytest.mark.parametrize(("a", "x", "below", "above"), PARTS)
def test_incomplete_gammas_are_right_to_their_digits(
    a: float, x: float, below: float, above: float
) -> None:
    for function, want in ((special.gammainc, below), (special.gammaincc, above)):
        for run in (function, phix.jit(function)):
            np.testing.assert_allclose(run(np.float64(a), np.float64(x)).item(), want, rtol=2e-14)
        few = [np.float32(v) for v in (a, x)]
        wide = function(*(np.float64(v) for v in few)).item()
        found = function(*few)
        assert found.dtype == "float32"
        np.testing.assert_allclose(
            found.item(), wide, rtol=6.5e-8
        )  # half of the last digit is 6e-8


@pytest.mark.parametrize("count", [5, 20, 48])
def test_nodes_of_gauss_make_powers_right(count: int) -> None:
    nodes, weights = incomplete_gamma.gauss(count)
    for power in (0, 1, count, 2 * count - 1):
        np.testing.assert_allclose(np.sum(weights * nodes**power), 1 / (power + 1), rtol=4e-15)


# Sine and cosine integrals, and Fresnel's sine and cosine, by 60 digits of mpmath.
WAVES = [
    (1.0, 0.946083070367183015, 0.337403922900968135),
    (3.9999, 1.75822205843084084, -0.140965355646150101),
    (4.0, 1.75820313894905306, -0.140981697886930412),
    (4.0001, 1.75818421830615787, -0.14099803782717715),
    (7.5, 1.51068153094338588, 0.11563320323793427),
    (12.0, 1.50497124152637337, -0.0497800068841136756),
    (40.0, 1.58698511935478451, 0.019020007896208767),
    (1000.0, 1.57023312196877122, 0.000826315511090682282),
]
FRESNEL = [
    (1.0, 0.438259147390354766, 0.779893400376822829),
    (1.4999, 0.697543206655998742, 0.445353573006218861),
    (1.5, 0.697504960082093013, 0.445261176039821535),
    (1.5001, 0.697466669971390949, 0.445168797106956114),
    (3.0, 0.496312998967375036, 0.60572078929768563),
    (6.25, 0.49542162367354673, 0.449285093458504804),
    (20.0, 0.484084535925953893, 0.499987334972344388),
    (100.0, 0.496816901147837553, 0.499999898678817898),
]


@pytest.mark.parametrize(
    ("function", "rows"),
    [(special.sici, WAVES), (special.fresnel, FRESNEL)],
    ids=["sici", "fresnel"],
)
def test_integrals_of_waves_are_right_to_the_last_digits(function: Any, rows: Any) -> None:
    x, *wants = np.array(rows).T
    for run in (function, phix.jit(function)):
        for found, want in zip(run(x), wants, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-15)


def test_integrals_of_waves_far_out() -> None:
    x = np.array([1e17, 1e160, INF])
    sine, cosine = special.sici(x)
    np.testing.assert_allclose(sine, np.full(3, np.pi / 2), rtol=1e-15)
    assert (np.abs(cosine.numpy()) <= 1 / x).all()
    for part in special.fresnel(np.array([1e160, -1e160, INF, -INF])):
        np.testing.assert_allclose(part, [0.5, -0.5, 0.5, -0.5], rtol=1e-15)


def test_what_is_no_number_has_no_slopes() -> None:
    slope = phix.grad(special.exp1)
    for f in (special.exp1, slope, phix.grad(slope)):
        assert np.isnan(f(np.float64(-0.5)))


def test_incomplete_gamma_functions_of_hardly_anything() -> None:
    """The part below is 1, the part above a times the exponential integral."""
    a, x = np.array([5e-324, 1e-310, 1e-300, 1e-20])[:, None], np.array([1e-300, 0.3, 5.0])
    np.testing.assert_allclose(special.gammainc(a, x), np.ones((4, 3)), rtol=5e-15)
    above = special.gammaincc(a[2:], x)
    np.testing.assert_allclose(above, a[2:] * np.array(special.exp1(x)), rtol=2e-13)


# log |B(a, b)| by 50 digits of mpmath: next to 0, at the seams of 8, huge, negative, next to poles
BETAS = [
    (5e-324, 5e-324, 745.133219101941208), (1e-310, 3.0, 713.801378828154165),
    (1e-200, 1e-190, 460.517018598909137), (0.3, 0.3, 1.79336213156691619),
    (0.5, 200.5, -2.07741873969828147), (1.0, 1.25, -0.223143551314209756),
    (2.5, 7.75, -5.05788240468714326), (7.9999, 7.9999, -10.8488035872984941),
    (8.0, 8.0, -10.848948661710063), (8.0, 7.9999, -10.8488761241818075),
    (12.5, 10000000000.0, -269.088789119506765), (0.25, 1e+300, -171.405859449855349),
    (1e+100, 1e+120, -4.70517018598809144e+101), (-0.5, 0.75, 0.180770550217863311),
    (-0.5, -1.25, 1.61585507550718593), (-7.25, 3.5, -5.02364189868231213),
    (-1000.25, 0.5, -2.88176264969657824), (-1000.25, -20.125, 98.8937918237582033),
    (-120.75, 130.5, 31.5387384844551948), (-5e-324, -0.5, 744.440071921381262),
    (-1e-300, 7.5, 690.775527898213705), (-2.999999, 2.5, 11.0429230552094451),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "want"), BETAS)
def test_betaln_is_right_to_the_last_digits(a: float, b: float, want: float) -> None:
    for run in (special.betaln, phix.jit(special.betaln)):
        for p, q in ((a, b), (b, a)):
            np.testing.assert_allclose(
                run(np.float64(p), np.float64(q)).item(), want, rtol=7e-16, atol=7e-16
            )


# the derivatives of log B in a, b, a twice, a and b, by 60 digits of mpmath
SLOPES_OF_BETA = [
    (1e8, 0.5, -5.0000000125e-09, -20.384190769973788, 5.000000025e-17, -1e-08),
    (1e15, 3.0, -2.999999999999997e-15, -33.61599205981222, 2.999999999999994e-30,
     -9.999999999999975e-16),
    (2.5e-09, 8e5, -400000014.169582, -3.125001953125809e-15, 1.6e17, -1.2500007812503216e-06),
    (3e5, 1e-07, -3.333338888894506e-13, -10000013.188751588, 1.1111148148206173e-18,
     -3.3333388888939505e-06),
    (4.0, -0.5, 0.1529610277865573, -1.0666666666666667, -0.04653480036311954,
     -0.3303577561002349),
    (0.3, 0.4, -2.2825006685021987, -1.3413609908871813, 9.41131538941312, -2.8340491566946104),
    (7.75, 1e-12, -1.3771379144764618e-13, -1000000000002.5591, 1.8935466672668357e-14,
     -0.13771379144763674),
]  # fmt: skip


@pytest.mark.parametrize("row", SLOPES_OF_BETA, ids=str)
def test_slopes_of_betaln_are_right_to_the_last_digits(row: tuple[float, ...]) -> None:
    a, b, *want = map(np.float64, row)
    first, second = (phix.grad(special.betaln, k) for k in (0, 1))
    found = [first(a, b), second(a, b), phix.grad(first, 0)(a, b), phix.grad(first, 1)(a, b)]
    np.testing.assert_allclose([x.item() for x in found], want, rtol=2e-15)
    mixed = phix.jit(phix.grad(phix.grad(special.betaln, 1), 0))(a, b)
    np.testing.assert_allclose(mixed.item(), want[3], rtol=2e-15)


# log(gamma(a + b) / gamma(a)), for a tiny b relatively, too
RATIOS = [
    (1e-300, 1e-10, -667.74967696833097), (1e-310, 2.5, -713.516695957681246),
    (1e-262, 20.25, -563.19318376652262), (0.5, 1e-20, -1.96351002602142337e-20),
    (3.25, 4.5, 7.08965646520725851), (7.9999, 0.125, 0.252987952879424809),
    (8.0, 0.125, 0.252989603426295632), (8.0, 40.0, 128.277561276260954),
    (1e-05, 1e+17, 3.81439465808987763e+18), (10000000000.0, 0.5, 11.5129254649577284),
    (10000000000.0, 1e-10, 2.30258509298904577e-9), (1e+110, 5e-297, 1.26642180114672513e-294),
    (1e+300, 2.0, 1381.55105579642741),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "want"), RATIOS)
def test_ratios_of_gammas_are_right_to_the_last_digits(a: float, b: float, want: float) -> None:
    found = log_ratio(phix.to_tensor(np.float64(a)), phix.to_tensor(np.float64(b)))
    np.testing.assert_allclose(found.item(), want, rtol=9e-16)


# At the seams of both formats, and far out
QUANTILES = [
    (5e-324, -38.4674056171443463), (1e-300, -37.0470962993611992), (1e-45, -14.145181492523475),
    (1e-30, -11.4640246884436157), (1e-07, -5.19933758219281694), (0.003, -2.74778138544499284),
    (0.0749, -1.44023826752796366), (0.0751, -1.43882539275253998), (0.1499, -1.0368623771459265),
    (0.1501, -1.03600459249215515), (0.25, -0.674489750196081743), (0.4, -0.253347103135799741),
    (0.499999, -2.50662827456655938e-6),
]  # fmt: skip


@pytest.mark.parametrize(("p", "want"), QUANTILES)
def test_quantiles_of_the_normal_distribution_are_right_to_the_last_digits(
    p: float, want: float
) -> None:
    for run in (special.ndtri, phix.jit(special.ndtri)):
        np.testing.assert_allclose(run(np.float64(p)).item(), want, rtol=3.4e-16)
    if p > 1e-44:
        few = np.array([p, 1 - np.float32(p)], np.float32)
        found, wide = special.ndtri(few).numpy(), special.ndtri(few.astype(np.float64)).numpy()
        np.testing.assert_allclose(found, wide, rtol=6.1e-8)  # half of the last digit is 6e-8


# Next to x = y, at the seam, where the quotient overflows
DIVERGENCES = [
    (1.0, 1.0000001, 4.99999967250536285e-15), (3.0, 2.9999999999, 1.66666694250495179e-21),
    (0.75, 0.7500000000006821, 3.10192729707197299e-25), (2.0, 2.9375, 0.168676602179335921),
    (2.0, 3.0625, 0.210331209378199874), (2.0, 1.34375, 0.139115935332218866),
    (1e+300, 1.0625e+300, 1.87537818356515096e+297), (1e-300, 1e+300, 1.00000000000000005e+300),
    (1e+200, 1e-200, 9.20034037197618246e+202), (1.5e+308, 1.25e+308, 2.34823351909319396e+306),
    (5e-324, 1.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y", "want"), DIVERGENCES)
def test_kl_div_is_right_to_the_last_digits(x: float, y: float, want: float) -> None:
    for run in (special.kl_div, phix.jit(special.kl_div)):
        np.testing.assert_allclose(run(np.float64(x), np.float64(y)).item(), want, rtol=2e-15)
    if 1e-30 < x < 1e30:
        few = [np.float32(v) for v in (x, y)]
        wide = special.kl_div(*(v.astype(np.float64) for v in few)).item()
        np.testing.assert_allclose(special.kl_div(*few).item(), wide, rtol=6.1e-8)


def test_slopes_of_relative_entropies() -> None:
    """Next to x = y, and where the quotient, or its own slope, has no number."""
    x = np.array([1.0, 2.0, 1e-300, 3.0, 1e200])
    y = np.array([1 + 2.0**-40, 7.0, 0.5, 1e-310, 1e-200])
    ones, none = np.ones_like(x), np.zeros_like(x)
    with np.errstate(all="ignore"):
        logs, quotients = np.log(x) - np.log(y), x / y
        logs[0] = -np.log1p(2.0**-40)
        rows = (special.kl_div, logs, (y - x) / y), (special.rel_entr, logs + 1, -quotients)
    for function, in_x, in_y in rows:
        found = phix.jvp(function, (x, y), (ones, none))[1]
        np.testing.assert_allclose(found, in_x, rtol=1e-12)
        found = phix.jvp(function, (x, y), (none, ones))[1]
        np.testing.assert_allclose(found, in_y, rtol=1e-15)


def test_rel_entr_next_to_equal_numbers_keeps_its_digits() -> None:
    x = np.array([22.77193621308571, 0.2124798013342082, 0.3, 7.0, 1e-300, 1e308])
    y = np.array(
        [22.771936213085713, 0.21247980133420827, np.nextafter(0.3, 1.0), 7.5, 1e-300, 1e308]
    )
    exact = x * np.log1p((x - y) / y)
    np.testing.assert_allclose(special.rel_entr(x, y), exact, rtol=1e-14)
    slopes = phix.grad(lambda x, y: special.rel_entr(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(slopes, [np.log(x / y) + 1, -x / y], rtol=1e-14)


def test_incomplete_beta_functions_of_tiny_shapes() -> None:
    """What is above, and the slopes in the shape: I_x(a, 2) = x^a (1 + a - a x)."""
    shapes = np.array([1e-8, 1e-12, 1e-16, 1e-20, 1e-100])
    for b, x in ((0.5, 0.4), (2.5, 0.25)):
        found = stats.beta.sf(np.float64(x), shapes, np.float64(b)).numpy()
        with mpmath.workdps(130):
            want = [float(1 - mpmath.betainc(a, b, 0, x, regularized=True)) for a in shapes]
        np.testing.assert_allclose(found, want, rtol=1e-13)
    slopes = phix.jit(phix.vmap(phix.grad(special.betainc, (0, 1)), (0, None, None)))
    for x in (0.1, 0.3, 0.9):
        found = slopes(shapes, np.float64(2), np.float64(x))[0].numpy()
        part, more = x**shapes, 1 + shapes - shapes * x
        np.testing.assert_allclose(found, part * (np.log(x) * more + 1 - x), rtol=1e-13)
    # I_x(a, b) of two tiny shapes is b / (a + b)
    found = slopes(np.array([1e-99]), np.float64(3e-19), np.float64(0.7))
    np.testing.assert_allclose(np.ravel(found), [-1 / 3e-19, 1e-99 / 9e-38], rtol=1e-12)


def test_slopes_of_incomplete_gamma_functions_where_the_shape_begins() -> None:
    """gammaincc(a, x) is a E_1(x) next to a = 0."""
    x = np.array([1e-5, 0.02, 0.5, 3.0, 20.0])
    for dtype, digits in ((np.float64, 1e-10), (np.float32, 1e-6)):
        for function, sign in ((special.gammainc, -1), (special.gammaincc, 1)):
            slope = phix.vmap(phix.grad(function), (None, 0))
            found = slope(dtype(0), x.astype(dtype)).numpy()
            np.testing.assert_allclose(sign * found, scipy.special.exp1(x), rtol=digits)
    assert phix.grad(special.gammainc)(np.float64(0), np.float64(np.inf)).item() == 0.0
    second = phix.jit(phix.vmap(phix.grad(phix.grad(special.gammainc)), (0, None)))
    shapes = np.array([1e-30, 1e-12, 1e-3, 0.09])
    for x in (0.5, 0.99, 1.5, 30.0):
        with mpmath.workdps(80):
            part = lambda a: mpmath.gammainc(a, x, mpmath.inf, regularized=True)  # noqa: B023, E731
            want = [-float(mpmath.diff(part, a, 2, h=a * mpmath.mpf(10) ** -12)) for a in shapes]
        found = second(shapes, np.float64(x)).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-10)
    at_none = second(np.zeros(1), np.float64(0.5)).item()
    np.testing.assert_allclose(at_none, second(shapes[:1], np.float64(0.5)).item(), rtol=1e-12)


def test_counts_of_large_and_tiny_shapes_keep_their_digits() -> None:
    """betabinom tends to binom; the slopes are sums of 1 / (a + i); nbinom of 0 is n log(p)."""
    shapes = np.array([1e3, 1e7, 1e12, 1e15])
    k, n = np.float64(3), np.float64(8)
    found = stats.betabinom.logpmf(k, n, shapes, 2 * shapes).numpy()
    slopes = phix.vmap(phix.grad(stats.betabinom.logpmf, (2, 3)), (None, None, 0, 0))
    both = slopes(k, n, shapes, 2 * shapes)

    def rising(a: Any, count: int) -> Any:
        return mpmath.fprod(a + i for i in range(count))

    for place, a in enumerate(map(mpmath.mpf, shapes)):
        with mpmath.workdps(60):
            want = mpmath.log(56 * rising(a, 3) * rising(2 * a, 5) / rising(3 * a, 8))
            rest = mpmath.fsum(1 / (3 * a + i) for i in range(8))
            in_a = mpmath.fsum(1 / (a + i) for i in range(3)) - rest
            in_b = mpmath.fsum(1 / (2 * a + i) for i in range(5)) - rest
        np.testing.assert_allclose(found[place], float(want), rtol=1e-12)
        for slope, exact in zip(both, (in_a, in_b)):
            np.testing.assert_allclose(slope[place].item(), float(exact), rtol=1e-8)
    none, p = np.float64(0), np.float64(0.3)
    for size in (1e-17, 1e-8, 2.5):
        at = none, np.float64(size), p
        slope = phix.grad(stats.nbinom.logpmf, (1, 2))(*at)
        wanted = [size * np.log(0.3), np.log(0.3), size / 0.3]
        np.testing.assert_allclose([stats.nbinom.logpmf(*at), *slope], wanted, rtol=1e-14)


def test_second_slopes_of_masses_at_the_ends_are_those_of_polynomials() -> None:
    """Of exp(-mu) mu^k / k! and of (3 over k) p^k (1 - p)^(3 - k), as series tell them."""
    k = np.arange(-1.0, 5)
    twice = phix.vmap(phix.grad(phix.grad(stats.poisson.pmf, 1), 1), (0, None))
    np.testing.assert_allclose(twice(k, np.float64(0)), [0, 1, -2, 1, 0, 0], rtol=1e-13)
    in_p = phix.grad(phix.grad(stats.binom.pmf, 2), 2)
    twice = phix.jit(phix.vmap(in_p, (0, None, None)))
    for p, want in ((0.0, [0, 6, -12, 6, 0, 0]), (1.0, [0, 0, 6, -12, 6, 0])):
        np.testing.assert_allclose(twice(k, np.float64(3), np.float64(p)), want, rtol=1e-13)


# Shapes and x of betainc: the slope in the shape next to 0, by 80 digits of mpmath's difference
NEXT_TO_NONE = [
    (0, (0.0, 2.0, 0.3), -0.503972804325936), (0, (0.0, 0.5, 0.9), -0.654900300474517),
    (0, (1e-250, 2.0, 0.3), -0.503972804325936), (0, (1e-21, 3.0, 1e-200), -459.017018598809),
    (1, (2.0, 0.0, 0.3), 0.0566749439387324), (1, (0.5, 0.0, 0.9), 3.63689291846413),
    (1, (2.0, 1e-250, 0.3), 0.0566749439387324), (0, (2.0, 0.0, 0.3), 0.0),
    (1, (0.0, 2.0, 0.3), 0.0), (2, (0.0, 2.0, 0.3), 0.0), (2, (2.0, 0.0, 0.3), 0.0),
    (0, (1e-30, 1e-35, 0.5), -9.99980000299996e24),
]  # fmt: skip


@pytest.mark.parametrize(("place", "at", "want"), NEXT_TO_NONE)
def test_slopes_of_betainc_next_to_shapes_of_none(place: int, at: Any, want: float) -> None:
    slope = phix.grad(special.betainc, place)
    for found in (slope, phix.jit(slope)):
        np.testing.assert_allclose(found(*map(np.float64, at)).item(), want, rtol=1e-13)


# Shapes and x: second slopes in a and in b, of which one is next to 0
CURVES_NEXT_TO_NONE = [
    (1e-30, 0.02, 0.9), (1e-30, 1e-5, 0.55), (1e-12, 2.5, 0.3), (0.02, 1e-30, 0.3),
    (2.5, 1e-30, 0.3), (2.5, 1e-12, 0.9), (0.5, 1e-5, 0.999), (40.0, 1e-8, 0.6),
]  # fmt: skip


def test_second_slopes_of_betainc_next_to_shapes_of_none() -> None:
    columns = [np.array(v) for v in zip(*CURVES_NEXT_TO_NONE)]
    for place in (0, 1):
        curve = phix.grad(phix.grad(special.betainc, place), place)
        found = phix.jit(phix.vmap(curve))(*columns).numpy()
        for k, at in enumerate(CURVES_NEXT_TO_NONE):
            with mpmath.workdps(160):
                point = [mpmath.mpf(v) for v in at]
                step = point[place] * mpmath.mpf(10) ** -24

                def part(v: Any, point: Any = point, place: int = place) -> Any:
                    shapes = [v if i == place else point[i] for i in (0, 1)]
                    return mpmath.betainc(*shapes, 0, point[2], regularized=True)

                low, middle, high = (part(point[place] + s * step) for s in (-1, 0, 1))
                want = float((high - 2 * middle + low) / step**2)
            np.testing.assert_allclose(found[k], want, rtol=2e-9, err_msg=f"{place} {at}")


def test_densities_of_small_parts_keep_their_digits() -> None:
    """z^(a - 1) is a number where z^a is none, or has few digits."""
    for a, z in ((3.0, 1e-130), (4.0, 1e-80), (1.2, 1e-280), (2.5, 1e-205), (1.0, 1e-300)):
        want = float(mpmath.mpf(z) ** (mpmath.mpf(a) - 1) / mpmath.gamma(a))
        slope = phix.grad(special.gammainc, 1)(np.float64(a), np.float64(z))
        np.testing.assert_allclose(slope.item(), want, rtol=2e-13)
        want = float(mpmath.mpf(z) ** (mpmath.mpf(a) - 1) / mpmath.beta(a, 2.5))
        slope = phix.grad(special.betainc, 2)(*map(np.float64, (a, 2.5, z)))
        np.testing.assert_allclose(slope.item(), want, rtol=2e-13)
    mu = np.float64(1e-130)
    slope = phix.grad(lambda m: stats.poisson.sf(np.float64(2), m))(mu)
    np.testing.assert_allclose(slope.item(), 5e-261, rtol=1e-12)
    slope = phix.grad(lambda p: stats.binom.sf(np.float64(2), np.float64(5), p))(mu)
    np.testing.assert_allclose(slope.item(), 3e-259, rtol=1e-12)
