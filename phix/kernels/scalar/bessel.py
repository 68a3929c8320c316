"""Integrals of which the modified Bessel functions of whole orders, and all their slopes, are made.

F(m, n; a) = 1/pi times the integral of (1 - t)^(m - 1/2) (1 + t)^(n - 1/2) exp(-a (1 - t)) over
-1 < t < 1, for a >= 0: Kummer's function of -2 a, times a number. The integrand is positive, and so
are the terms of the series near 0: nothing cancels.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import factorial, pi, sqrt

from phix.core import dtypes as dt
from phix.kernels.scalar.exponential import exp
from phix.kernels.scalar.floating import at_most, horner, pick
from phix.kernels.scalar.language import Expr, cast, const, fabs, fma, select
from phix.kernels.scalar.language import sqrt as root
from phix.kernels.scalar.power import power_as_pair, powered
from phix.kernels.scalar.registry import body

_HALF = Fraction(1, 2)
# The series far out is right to so many bits; each is good for half the numbers of its format.
_BITS_SINGLE, _BITS_DOUBLE = 30, 58


@cache
def _far_series(m: int, n: int, bits: int) -> tuple[float, list[float]]:
    """``(a, c)``: from a on, F is a^-(m + 1/2) times the sum of c_k a^-k, times a number."""
    first = Fraction(8)
    while True:
        term, terms = Fraction(1), [Fraction(1)]
        for k in range(200):
            factor = (m + _HALF + k) * (_HALF - n + k) / (2 * (k + 1))
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
    term = Fraction(2 ** (m + n) * factorial(2 * m) * factorial(2 * n), 4 ** (m + n))
    term /= factorial(m) * factorial(n) * factorial(m + n)
    terms, total, k = [term], 0.0, 0
    while True:
        size = float(term) * last**k
        total += size
        if k > 2 * last and size < total * 2.0**-bits:
            return [float(t) for t in terms]
        term *= 2 * (n + _HALF + k) / ((m + n + 1 + k) * (k + 1))
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


@body("scaled_bessel")
def scaled_bessel(x: Expr, m: int, n: int) -> Expr:
    """F(m, n; |x|)."""
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
