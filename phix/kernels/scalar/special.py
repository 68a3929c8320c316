"""The derivatives of the gamma function's logarithm, for real scalars."""

from __future__ import annotations

from math import factorial

from phix.core import dtypes as dt
from phix.kernels.scalar.exponential import log
from phix.kernels.scalar.floating import INF, NAN, horner, is_nan
from phix.kernels.scalar.language import (
    Expr,
    cast,
    const,
    copysign,
    eq,
    floor,
    fma,
    rint,
    select,
)
from phix.kernels.scalar.registry import body
from phix.kernels.scalar.trigonometric import sine_and_cosine

# Bernoulli numbers B_2, B_4, ... as (numerator, denominator)
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
    (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730),
)  # fmt: skip


def _cotangent_of_pi(x: Expr) -> Expr:
    """cot(pi x), exact in its poles; x in float64."""
    fraction = x - rint(x)
    sine, cosine = sine_and_cosine(fraction * 3.141592653589793, bounded=True)
    return cosine / sine


@body("digamma")
def digamma(x: Expr) -> Expr:
    """The derivative of log gamma; NaN at the negative integers, -inf at +0, inf at -0."""
    wide = cast(x, dt.float64)
    reflected = wide < 0.0
    y = select(reflected, 1.0 - wide, wide)
    # psi(y) = psi(y + n) - sum 1/(y + k), the sum as one fraction
    steps = 10
    large = y > float(steps)
    start = select(large, 1.0, y)
    top, bottom = const(1.0, dt.float64), start
    for k in range(1, steps):
        factor = start + float(k)
        top, bottom = fma(top, factor, bottom), bottom * factor
    shifted = select(large, y, y + float(steps))
    inverse = 1.0 / shifted
    square = inverse * inverse
    series = [b / (d * 2.0 * (k + 1)) for k, (b, d) in enumerate(_BERNOULLI[:8])]
    tail = square * horner(square, series)
    result = log(shifted) - (0.5 * inverse + tail)
    result = result - select(large, 0.0, top / bottom)
    # psi(x) = psi(1 - x) - pi cot(pi x)
    pole = eq(wide, floor(wide)) & (wide < 0.0)
    turn = select(reflected, 3.141592653589793 * _cotangent_of_pi(wide), 0.0)
    result = select(pole, NAN, result - turn)
    result = select(eq(wide, 0.0), copysign(const(INF, dt.float64), -wide), result)
    result = select(eq(wide, INF), INF, result)
    return cast(select(eq(wide, -INF), NAN, result), x.dtype)


def _hurwitz_zeta(s: int, x: Expr) -> Expr:
    """sum over k >= 0 of (x + k)^-s for s >= 2 and a float64 x > 0, by Euler and Maclaurin."""
    # the larger s, the later the asymptotic series is good
    steps = 10 + s // 2
    total = const(0.0, dt.float64)
    for k in range(steps):
        total = total + _inverse_power(x + float(k), s)
    a = x + float(steps)
    inverse = 1.0 / a
    square = inverse * inverse
    series = []
    for k, (b, d) in enumerate(_BERNOULLI[:10], 1):
        rising = factorial(s + 2 * k - 2) // factorial(s - 1)
        series.append(b / d * rising / factorial(2 * k))
    rest = fma(0.5, inverse, 1.0 / (s - 1)) + square * horner(square, series)
    return total + rest * _inverse_power(a, s - 1)


def _inverse_power(x: Expr, n: int) -> Expr:
    inverse = 1.0 / x
    result = None
    while n:
        if n & 1:
            result = inverse if result is None else result * inverse
        n >>= 1
        inverse = inverse * inverse
    assert result is not None
    return result


def _cotangent_derivative(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial in cot, low degree first."""
    p = [0, 1]
    for _ in range(n):  # cot' = -(1 + cot^2)
        slope = [k * c for k, c in enumerate(p)][1:]
        p = [0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            p[k] -= c
            p[k + 2] -= c
    return p


@body("polygamma")
def polygamma(x: Expr, n: int) -> Expr:
    """The n-th derivative of digamma: (-1)^(n+1) n! sum over k of (x + k)^-(n+1)."""
    if n == 0:
        return digamma(x)
    wide = cast(x, dt.float64)
    reflected = wide < 0.0
    y = select(reflected, 1.0 - wide, wide)
    sign = 1.0 if n % 2 else -1.0
    result = sign * factorial(n) * _hurwitz_zeta(n + 1, y)
    # (-1)^n psi_n(1 - x) - psi_n(x) = pi d^n/dx^n cot(pi x)
    cotangent = _cotangent_of_pi(wide)
    turn = horner(cotangent, [float(c) for c in _cotangent_derivative(n)])
    turned = -sign * result - 3.141592653589793 ** (n + 1) * turn
    result = select(reflected, turned, result)
    pole = eq(wide, floor(wide)) & (wide <= 0.0)
    at_pole = INF if n % 2 else NAN
    result = select(pole, at_pole, result)
    if n % 2 == 0:
        result = select(eq(wide, 0.0), copysign(const(INF, dt.float64), -wide), result)
    result = select(eq(wide, INF), 0.0 * sign, result)
    return cast(select(eq(wide, -INF) | is_nan(wide), NAN, result), x.dtype)
