"""Powers of real scalars."""

from __future__ import annotations

from typing import Any

from phix.core import dtypes as dt
from phix.kernels.scalar.exponential import LN2_HEAD, LN2_REST, exp_scaled, log, rsqrt
from phix.kernels.scalar.floating import (
    INF,
    NAN,
    bits_of,
    fast_two_sum,
    flip_sign,
    format_of,
    horner,
    is_nan,
    split_exponent,
    two_product,
    two_sum,
)
from phix.kernels.scalar.language import (
    Expr,
    Number,
    cast,
    const,
    eq,
    fabs,
    floor,
    fma,
    ne,
    select,
    sqrt,
)
from phix.kernels.scalar.registry import body

# (log((1+s)/(1-s)) - 2s - 2/3 s^3) / s^5 on |s| <= 3 - 2 sqrt(2), in s^2;
# relative error of the log with it 1.2e-20
_LOG_TAIL = (
    0.4000000000000226, 0.28571428570096546, 0.22222222520546028, 0.1818178430543621,
    0.15386760485815512, 0.13256737459987997, 0.13197133172728934,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)

# integer exponents from the one to the other are done by multiplications; below, the error of
# 1/x would grow too much
MIN_UNROLLED, MAX_UNROLLED = -3, 8


def _precise_log(x: Expr) -> tuple[Expr, Expr]:
    """log(x) of a positive float64 as a sum, with a relative error of about 2^-64."""
    k, m = split_exponent(x)
    f = m - 1.0
    below = f + 2.0
    inverse = 1.0 / below
    s = f * inverse
    s_low = (fma(-s, below, f) - s * (f - (below - 2.0))) * inverse
    z, z_low = two_product(s, s)
    z_low = fma(2.0 * s, s_low, z_low)
    cube, cube_low = two_product(z, s)
    cube_low = fma(z, s_low, fma(z_low, s, cube_low))
    term, term_low = two_product(cube, _TWO_THIRDS[0])
    term_low = fma(cube, _TWO_THIRDS[1], fma(cube_low, _TWO_THIRDS[0], term_low))
    high, low = fast_two_sum(2.0 * s, term)
    low = low + fma(2.0, s_low, fma(cube * z, horner(z, _LOG_TAIL), term_low))
    high, lost = two_sum(k * LN2_HEAD, high)
    return fast_two_sum(high, lost + fma(k, LN2_REST, low))


def _positive_power(x: Expr, y: Expr) -> Expr:
    """x^y for x > 0, infinity included."""
    if x.dtype == dt.float32:
        wide = cast(x, dt.float64)
        return cast(exp_scaled(cast(y, dt.float64) * log(wide)), dt.float32)
    high, low = _precise_log(x)
    high = select(x < INF, high, INF)
    p, e = two_product(y, high)
    e = select(fabs(p) < 1000.0, fma(y, low, e), 0.0)
    return exp_scaled(p, low=e)


def _is_odd_integer(y: Expr) -> Expr:
    half = 0.5 * y
    return eq(y, floor(y)) & ne(half, floor(half)) & (fabs(y) < 2.0 / format_of(y).epsilon)


def float_power(x: Expr, y: Expr) -> Expr:
    """x^y with the special values of C's pow."""
    a = fabs(x)
    result = _positive_power(a, y)
    grows = (y > 0.0) ^ (a < 1.0)
    at_edge = select(grows, INF, const(0.0, x.dtype))
    result = select(eq(a, 0.0) | eq(a, INF) | (eq(fabs(y), INF) & ne(a, 1.0)), at_edge, result)
    result = select((x < 0.0) & ne(y, floor(y)) & (a < INF), NAN, result)
    result = select(_is_odd_integer(y), flip_sign(result, bits_of(x)), result)
    result = select(is_nan(x) | is_nan(y), NAN, result)
    one = eq(y, 0.0) | eq(x, 1.0) | (eq(x, -1.0) & eq(fabs(y), INF))
    return select(one, 1.0, result)


def _integer_tensor_power(x: Expr, y: Expr) -> Expr:
    """x^y of ints, wrapping; for y < 0 the power rounded toward 0."""
    signed = x.dtype.kind == "i"
    result, base, count = const(1, x.dtype), x, y
    for i in range(8 * x.dtype.itemsize - signed):
        result = select(ne(count & (1 << i), 0), result * base, result)
        base = base * base
    if not signed:
        return result
    odd = ne(y & 1, 0)
    below = select(eq(x, 1), 1, select(eq(x, -1), select(odd, -1, const(1, x.dtype)), 0))
    return select(y < 0, below, result)


def powered(x: Any, n: int) -> Any:
    """x^n for n >= 1 by multiplications, of whatever multiplies."""
    result, base = None, x
    while n:
        if n & 1:
            result = base if result is None else result * base
        n >>= 1
        if n:
            base = base * base
    return result


def _unrolled(x: Expr, n: int) -> Expr:
    """x^n for n >= 0 by multiplications."""
    return powered(x, n) if n else const(1, x.dtype)


def _few_products(x: Expr, n: int) -> Expr:
    """x^n; more than two products go in a wider format, or as sums of two numbers."""
    if 0 <= n <= 3:
        return _unrolled(x, n)
    if x.dtype == dt.float32:
        wide = cast(x, dt.float64)
        return cast(_unrolled(wide, n) if n > 0 else 1.0 / _unrolled(wide, -n), dt.float32)
    low = const(0.0, x.dtype)
    if n < 0:
        inverse = 1.0 / x
        rest = fma(-inverse, x, 1.0) * inverse
        # of a 0 or an infinity nothing is left over
        x, low = inverse, select(fabs(rest) < INF, rest, 0.0)
    high, low = power_as_pair(x, low, abs(n))
    return high + select(fabs(low) < INF, low, 0.0)


def power_as_pair(x: Expr, low: Expr, n: int) -> tuple[Expr, Expr]:
    """(x + low)^n for n > 0 as a sum of two numbers, by multiplications."""
    result: tuple[Expr, Expr] | None = None
    base = (x, low)
    while n:
        if n & 1:
            result = base if result is None else _pair_product(result, base)
        n >>= 1
        if n:
            base = _pair_product(base, base)
    assert result is not None
    return result


def _pair_product(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    high, low = two_product(a[0], b[0])
    return high, fma(a[0], b[1], fma(a[1], b[0], low))


@body("pow")
def power(x: Expr, y: Number) -> Expr:
    """x to a power that is known when the kernel is built."""
    if x.dtype.kind != "f":
        if isinstance(y, float):
            return power(cast(x, dt.float32), y)
        exponent = int(y)
        if exponent < 0:
            return _integer_tensor_power(x, const(exponent, x.dtype))
        return _unrolled(x, exponent)
    if float(y).is_integer() and MIN_UNROLLED <= y <= MAX_UNROLLED:
        return _few_products(x, int(y))
    if y == 0.5:
        return sqrt(x)
    if y == -0.5:
        return rsqrt(x)
    if y == 1.5:
        return x * sqrt(x)
    return float_power(x, const(y, x.dtype))


@body("elementwise_pow")
def elementwise_pow(x: Expr, y: Expr) -> Expr:
    return float_power(x, y) if x.dtype.kind == "f" else _integer_tensor_power(x, y)
