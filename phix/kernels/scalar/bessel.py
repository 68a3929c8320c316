"""Integrals of which the modified Bessel functions of whole orders, and all their slopes, are made.

F(m, n; a) = 1/pi times the integral of (1 - t)^(m - 1/2) (1 + t)^(n - 1/2) exp(-a (1 - t)) over
-1 < t < 1, for a >= 0: Kummer's function of -2 a, times a number. The integrand is positive, and so
are the terms of the series near 0: nothing cancels.
"""

from __future__ import annotations

from functools import cache
from math import factorial, pi, sqrt

from phix.core import dtypes as dt
from phix.kernels.scalar.exponential import LOG2_E, exp, exp_scaled
from phix.kernels.scalar.floating import (
    FLOAT32,
    INF,
    at_most,
    horner,
    pick,
    power_of_two,
    round_to_integer,
    two_product,
)
from phix.kernels.scalar.language import Expr, cast, const, eq, fabs, fma, select
from phix.kernels.scalar.language import sqrt as root
from phix.kernels.scalar.power import power_as_pair, powered
from phix.kernels.scalar.registry import body

# The series far out is right to so many bits; each is good for half the numbers of its format.
_BITS_SINGLE, _BITS_DOUBLE = 30, 58


@cache
def _far_series(m: int, n: int, bits: int) -> tuple[float, list[float]]:
    """``(a, c)``: from a on, F is a^-(m + 1/2) times the sum of c_k a^-k, times a number."""
    from fractions import Fraction  # programs without these functions need none

    first, half = Fraction(8), Fraction(1, 2)
    while True:
        term, terms = Fraction(1), [Fraction(1)]
        for k in range(200):
            factor = (m + half + k) * (half - n + k) / (2 * (k + 1))
            if abs(factor) > first:  # from here on the terms grow
                break
            term *= factor
            if abs(term) < first ** (k + 1) * Fraction(1, 2**bits):
                return float(first), [float(t) for t in terms]
            terms.append(term)
        first += 2


@cache
def _near_series(m: int, n: int, last: float, bits: int) -> list[float]:
    """c_k with F = exp(-2 a) times the sum of c_k a^k, up to the a given."""
    from fractions import Fraction

    half = Fraction(1, 2)
    term = Fraction(2 ** (m + n) * factorial(2 * m) * factorial(2 * n), 4 ** (m + n))
    term /= factorial(m) * factorial(n) * factorial(m + n)
    terms, total, k = [term], 0.0, 0
    while True:
        size = float(term) * last**k
        total += size
        if k > 2 * last and size < total * 2.0**-bits:
            return [float(t) for t in terms]
        term *= 2 * (n + half + k) / ((m + n + 1 + k) * (k + 1))
        terms.append(term)
        k += 1


_BLOCK = 8


def _long_sum(a: Expr, coefficients: list[float]) -> Expr:
    """As ``horner``, in blocks of 8 and in a^8 as a sum of two numbers: a fraction of roundings."""
    high, low = power_as_pair(a, const(0.0, a.dtype), _BLOCK)
    starts = range(0, len(coefficients), _BLOCK)
    *others, total = [horner(a, coefficients[i : i + _BLOCK]) for i in starts]
    for block in reversed(others):
        total = fma(high, total, fma(low, total, block))
    return total


# Of m = n = 0 and 1, the functions themselves: exp(a) F on a <= 8 in a^2, and a^(n + 1/2) F beyond
# in 16 / a - 1; for float32 right to 1e-8 and less, and for float64 to 6e-17 and 7e-17
_SEAM = 8.0
_NEAR_SINGLE_0 = (
    1.0000000099068775, 0.24999996272396824, 0.015625023160375322, 0.00043402217290446115,
    6.782378385959543e-06, 6.776678786862483e-08, 4.731909740113173e-10, 2.3387777853447403e-12,
    1.0548992937818967e-14, 1.612711992524494e-17, 1.4828904139856737e-19,
)  # fmt: skip
_NEAR_SINGLE_1 = (
    0.5000000003937468, 0.0624999985179627, 0.0026041675878652314, 5.425324917845585e-05,
    6.781960516236117e-07, 5.649408727194912e-09, 3.372869279270743e-11, 1.4761743657786716e-13,
    5.680073507894035e-16, 9.324252742153594e-19, 6.36340954337653e-21,
)  # fmt: skip
_FAR_SINGLE_0 = (
    0.4021765094192122, 0.003360552241721043, 0.00013621716424322397, 1.113981565861345e-05,
    1.4761157343412484e-06, 3.0733229173158885e-07, 1.0867942482266837e-07, 3.161985528463981e-08,
)  # fmt: skip
_FAR_SINGLE_1 = (
    0.3893984590596593, -0.009749577457556757, -0.00021923712538189863, -1.5035268029521159e-05,
    -1.8256907317698838e-06, -3.584298887257214e-07, -1.2273217235085558e-07,
    -3.5774358158058136e-08,
)  # fmt: skip
_NEAR_DOUBLE_0 = (
    1.0, 0.25, 0.015625000000000007, 0.00043402777777777445, 6.78168402777882e-06,
    6.781684027758072e-08, 4.709502797313533e-10, 2.402807547397442e-12, 9.385967122738159e-15,
    2.896902786535184e-17, 7.24227907083928e-20, 1.4962821580600773e-22, 2.598786220717598e-25,
    3.8293884542786716e-28, 5.032875772398412e-31, 4.600650617496926e-34, 8.489079967240371e-37,
)  # fmt: skip
_NEAR_DOUBLE_1 = (
    0.5, 0.06250000000000001, 0.0026041666666666574, 5.425347222222714e-05, 6.781684027764253e-07,
    5.6514033567062535e-09, 3.3639305668839624e-11, 1.5017547368904685e-13, 5.21442511666455e-16,
    1.4484555512565449e-18, 3.2918255700128937e-21, 6.2370262972245455e-24, 9.956903092564813e-27,
    1.408977785612294e-29, 1.380579477192139e-32, 2.717003032172177e-35,
)  # fmt: skip
_FAR_DOUBLE_0 = (
    0.4021765094450081, 0.0033605519836678614, 0.00013621607438984735, 1.1143033790932038e-05,
    1.4838476651250266e-06, 2.9735985885673923e-07, 8.872034383314144e-08, 3.932584334552952e-08,
    2.1566251453104354e-08, 7.554691881248808e-09, -6.8493381882867694e-09, -1.340891754008974e-08,
    -5.0381064879032845e-09, 7.552583062123384e-09, 6.560138746917057e-09, -3.505966530879332e-09,
    -4.575553424534973e-09, 1.5200816953924232e-09, 2.1968921378829006e-09, -5.715843864202709e-10,
    -6.633287112547084e-10, 1.5279202694981569e-10, 9.36508689281819e-11, -2.0260604287413626e-11,
)  # fmt: skip
_FAR_DOUBLE_1 = (
    0.38939845902587233, -0.009749577193235737, -0.0002192357638317243, -1.5038547200567216e-05,
    -1.8349102358955385e-06, -3.483855761044295e-07, -1.000109565963654e-07,
    -4.312917729178349e-08, -2.339250374801858e-08, -8.427766093735185e-09, 6.8401389977069586e-09,
    1.4034238782067183e-08, 5.59337010179061e-09, -7.64239413436356e-09, -6.983839624895866e-09,
    3.4262341490077958e-09, 4.810597405089944e-09, -1.4387250533041013e-09, -2.297004161885201e-09,
    5.295625441161261e-10, 6.917089294193807e-10, -1.4011625179770627e-10, -9.752397204138195e-11,
    1.8515118828852956e-11,
)  # fmt: skip
_SINGLE = ((_NEAR_SINGLE_0, _FAR_SINGLE_0), (_NEAR_SINGLE_1, _FAR_SINGLE_1))
_DOUBLE = ((_NEAR_DOUBLE_0, _FAR_DOUBLE_0), (_NEAR_DOUBLE_1, _FAR_DOUBLE_1))
# by how much the logarithm of exp(a) F grows with a^2, to a tenth of it, in a^2
_GROWTH = (
    (0.2384, -0.01619, 0.0006459, -1.147e-05, 7.273e-08),
    (0.124, -0.004206, 0.0001259, -1.953e-06, 1.151e-08),
)
# 2^f on |f| <= 1/2; right to 6e-11
_POWER_SINGLE = (
    0.9999999999595482, 0.6931471805459305, 0.2402265121359523, 0.05550410941215453,
    0.009618025602955837, 0.0013333450560384466, 0.00015469731977475548, 1.5310081143138152e-05,
)  # fmt: skip


def _fitted_single(x: Expr, n: int) -> Expr:
    """F(n, n; x) of a float32 x >= 0, in as many steps as its digits ask for, in float64."""
    near_terms, far_terms = _SINGLE[n]
    a = cast(at_most(x, FLOAT32.max), dt.float64)
    b = at_most(a, _SEAM)
    k, bits = round_to_integer(b, -LOG2_E)
    power = horner(fma(b, -LOG2_E, -k), _POWER_SINGLE) * power_of_two(bits, like=b)
    near = power * horner(b * b, near_terms)
    # 1 / sqrt(a) by a step of Newton's from that of float32
    guess = cast(1.0 / root(cast(a, dt.float32)), dt.float64)
    r = guess * fma(guess * guess, -0.5 * a, 1.5)
    inverse = r * r
    far = horner(fma(inverse, 2 * _SEAM, -1.0), far_terms) * (r * inverse if n else r)
    return cast(select(a < _SEAM, near, select(eq(x, INF), 0.0, far)), dt.float32)


def _fitted_double(a: Expr, n: int) -> Expr:
    """F(n, n; a) of a float64 a >= 0."""
    near_terms, far_terms = _DOUBLE[n]
    b = at_most(a, _SEAM)
    square, lost = two_product(b, b)
    lost = lost * horner(square, _GROWTH[n])
    near = exp_scaled(-b, low=lost) * horner(square, near_terms)
    inverse = 1.0 / a
    far = horner(fma(inverse, 2 * _SEAM, -1.0), far_terms) / root(a)
    return select(a < _SEAM, near, far * inverse if n else far)


@body("scaled_bessel")
def scaled_bessel(x: Expr, m: int, n: int) -> Expr:
    """F(m, n; |x|)."""
    if m == n <= 1:
        return pick(x, _fitted_single, _fitted_double)(fabs(x), n)
    bits = pick(x, _BITS_SINGLE, _BITS_DOUBLE)
    a = fabs(cast(x, dt.float64))
    first, far = _far_series(m, n, bits)
    b = at_most(a, first)
    near = exp(-2.0 * b) * _long_sum(b, _near_series(m, n, first, bits))
    inverse = 1.0 / a
    # gamma(m + 1/2) 2^(n - 1/2) / pi
    number = factorial(2 * m) / (4**m * factorial(m)) * 2.0**n / sqrt(2 * pi)
    tail = number * horner(inverse, far) / root(a)
    tail = tail * powered(inverse, m) if m else tail
    return cast(select(a < first, near, tail), x.dtype)
