"""The logarithm of the gamma function's magnitude, in float64.

From 8.5 on it is Stirling's series. Below, gamma(t + n) = t (t + 1) ... (t + n - 1) gamma(t) leads
to a polynomial about 2, where the logarithm is 0. Negative numbers go by gamma(x) gamma(-x) =
-pi / (x sin(pi x)). What is large is kept with its rounding errors, so that little is lost where
parts cancel: about 1, and near the zeros at negative numbers.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.scalar.exponential import LN2_HEAD, LN2_REST, log_mantissa
from phix.kernels.scalar.floating import (
    INF,
    at_least,
    fast_two_sum,
    horner,
    split_exponent,
    two_product,
    two_sum,
)
from phix.kernels.scalar.language import Expr, cast, const, eq, fabs, floor, fma, rint, select
from phix.kernels.scalar.registry import body

_LARGE = 8.5
# log gamma(2 + u) = u (a + u R(u)) on |u| <= 1/2: a as a sum of two numbers, and R to 3.4e-17
_SLOPE = (0.42278433509846713, 4.942915152430645e-18)
_ABOUT_TWO = (
    0.3224670334241132, -0.06735230105319759, 0.020580808427784307, -0.0073855510287714685,
    0.0028905103307878756, -0.0011927539062598581, 0.0005096695221547781, -0.00022315489463809116,
    9.945757753419642e-05, -4.492443535898787e-05, 2.0506356296054763e-05, -9.452938473714576e-06,
    4.381261405000474e-06, -1.982565620739196e-06, 9.282109272701004e-07, -5.72865310850801e-07,
    2.708245957688481e-07,
)  # fmt: skip
# y (log gamma(y) - (y - 1/2) (log(y) - 1) - b) on y >= 8.5, in 1 / y^2; over y it is right to 2e-18
_STIRLING = (
    0.08333333333333331, -0.00277777777768216, 0.0007936507127029833, -0.0005952129166201365,
    0.0008381814236811042, -0.0016796510732729059,
)  # fmt: skip
_OFFSET = 0.4189385332046727  # b = (log(2 pi) - 1) / 2
# sin(pi r) / (pi r) - 1 on |r| <= 1/2, in r^2; it is right to 5e-18
_SINE = (
    -1.6449340668482264, 0.8117424252833536, -0.19075182412208389, 0.026147847817640922,
    -0.002346081035170168, 0.00014842878972770888, -6.975851212142348e-06, 2.5303274566671434e-07,
    -7.114052818770147e-09,
)  # fmt: skip
_Pair = tuple[Expr, Expr]


@body("lgamma")
def lgamma(x: Expr) -> Expr:
    """log|gamma(x)|."""
    wide = cast(x, dt.float64)
    y = fabs(wide)
    is_reflected = wide <= -0.5
    z = select(is_reflected, y, wide)
    is_large = z >= _LARGE
    product, missing = _product(z)
    product = select(is_large, y, product)
    log, inverse = _log(product), 1.0 / at_least(product, 1e-300)
    large, small = _by_stirling(y, log, inverse), _about_two(z, log, missing * inverse)
    high, low = (select(is_large, a, b) for a, b in zip(large, small))
    turned, lost = _reflected(y, high, low)
    total = select(is_reflected, turned, high) + select(is_reflected, lost, low)
    total = select(fabs(high) < INF, total, high)  # where it overflows, what was lost is none
    at_pole = eq(wide, 0.0) | (is_reflected & eq(wide, floor(wide)))
    return cast(select(at_pole, INF, total), x.dtype)


def _log(x: Expr) -> _Pair:
    """log(x) of a positive x as a sum; the second part is below 0.1."""
    k, m = split_exponent(x)
    f = m - 1.0
    half_square, rest = log_mantissa(f)
    high, low = two_sum(k * LN2_HEAD, f)
    return high, low + fma(k, LN2_REST, rest - half_square)


def _product(z: Expr) -> _Pair:
    """What gamma(z) is of gamma(t), 1.5 <= t < 2.5: that many times, or that part for z < 1.5. And
    what it lacks for z < 0.5."""
    product = const(1.0, dt.float64)
    for k in range(1, int(_LARGE) - 1):
        product = product * select(z >= k + 1.5, z - float(k), 1.0)
    above = z + 1.0
    first, lost = two_product(fabs(z), above)
    lost = fma(fabs(z), z - (above - 1.0), lost)
    return select(z < 0.5, first, select(z < 1.5, z, product)), select(z < 0.5, lost, 0.0)


def _about_two(z: Expr, log: _Pair, more: Expr) -> _Pair:
    """For -0.5 < z < 8.5, from the logarithm of the product, and what is to be added to it."""
    u = select(z < 0.5, z, z - floor(z + 0.5))
    sign = select(z < 1.5, const(-1.0, dt.float64), const(1.0, dt.float64))
    slope, slope_low = two_product(u, _SLOPE[0])
    high, lost = two_sum(sign * log[0], slope)
    rest = fma(u, fma(u, horner(u, _ABOUT_TWO), _SLOPE[1]), slope_low)
    return high, lost + fma(sign, log[1] + more, rest)


def _by_stirling(y: Expr, log: _Pair, inverse: Expr) -> _Pair:
    """For y >= 8.5, from its logarithm and 1 / y."""
    high, low = fast_two_sum(*log)
    factor = y - 0.5
    result, lost = two_product(factor, high - 1.0)
    series = fma(inverse, horner(inverse * inverse, _STIRLING), _OFFSET)
    return result, lost + fma(factor, low, series)


def _reflected(y: Expr, high: Expr, low: Expr) -> _Pair:
    """log|gamma(-y)| from log gamma(y), which is a sum."""
    r = fabs(y - rint(y))
    sine = fma(r * r, horner(r * r, _SINE), 1.0)
    head, rest = _log(y * r * sine)
    total, lost = two_sum(high, head)
    return -total, -(lost + low + rest)
