"""exp, expm1, log and its relatives, and the hyperbolic functions, for real scalars."""

from __future__ import annotations

from phix.kernels.scalar.floating import (
    INF,
    NAN,
    at_least,
    at_most,
    fast_two_sum,
    format_of,
    horner,
    is_tiny,
    offset,
    pick,
    power_of_two,
    round_to_integer,
    scale_by_power,
    split_exponent,
    two_product,
)
from phix.kernels.scalar.language import Expr, const, copysign, eq, fabs, fma, select, sqrt
from phix.kernels.scalar.registry import body

LOG2_E = 1.4426950408889634
# log(2) as a sum of two numbers of each format
LN2_SINGLE = (0.6931471824645996, -1.9046542121259336e-09)
LN2_DOUBLE = (0.6931471805599453, 2.3190468138462996e-17)
# log(2) with its last 12 bits at 0, so that its multiples by an exponent are exact, and the rest
LN2_HEAD, LN2_REST = 0.6931471805598903, 5.497923018708371e-14

# (exp(r) - 1 - r - r^2/2) / r^3 on |r| <= log(2)/2, in r; relative error of exp(r) - 1 with it:
# float32 1.5e-8, float64 1.8e-18
_EXPM1_SINGLE = (
    0.1666654795408249, 0.04166685417294502, 0.00836606603115797, 0.001389836659654975,
)  # fmt: skip
_EXPM1_DOUBLE = (
    0.16666666666666677, 0.041666666666666574, 0.008333333333322143, 0.0013888888888943759,
    0.00019841269885012469, 2.4801587196253913e-05, 2.7557245199975815e-06,
    2.7557388501524393e-07, 2.5108726375216973e-08, 2.087853293252083e-09,
)  # fmt: skip

# (log((1+s)/(1-s)) - 2s) / s^3 on |s| <= 3 - 2 sqrt(2), in s^2; relative error of the log with
# it: float32 8.2e-10, float64 1.3e-18
_LOG_SINGLE = (0.6666677594184875, 0.39977574348449707, 0.29871198534965515)
_LOG_DOUBLE = (
    0.6666666666666734, 0.39999999999415875, 0.285714287423343, 0.22222198561661385,
    0.18183565657650624, 0.15314000315339696, 0.1479659575710851,
)  # fmt: skip


def expm1_reduced(r: Expr, low: Expr | None = None) -> Expr:
    """exp(r + low) - 1 for |r| <= log(2)/2 and a ``low`` below the last bit of r."""
    rest = _expm1_rest(r)
    return r + (rest if low is None else rest + low)


def _expm1_rest(r: Expr) -> Expr:
    """exp(r) - 1 - r for |r| <= log(2)/2."""
    return r * r * fma(r, horner(r, pick(r, _EXPM1_SINGLE, _EXPM1_DOUBLE)), 0.5)


def reduce_by_log2(x: Expr, bias: int = 0) -> tuple[Expr, Expr, Expr, Expr]:
    """``(n, bits, r, low)``: x = n log(2) + r + low, n an integer; n + bias in the low bits."""
    ln2 = pick(x, LN2_SINGLE, LN2_DOUBLE)
    n, bits = round_to_integer(x, LOG2_E, bias)
    exact = fma(-n, ln2[0], x)
    r = fma(-n, ln2[1], exact)
    return n, bits, r, fma(-n, ln2[1], exact - r)


def exp_scaled(x: Expr, power: int = 0, low: Expr | None = None) -> Expr:
    """exp(x + low) * 2^power, rounded once for subnormal results; power 0, or x >= 0."""
    overflow, underflow, subnormal = pick(x, (89.5, -105.0, -86.0), (710.5, -746.0, -707.0))
    ln2 = pick(x, LN2_SINGLE, LN2_DOUBLE)[0]
    x = at_least(at_most(x, overflow - power * ln2), underflow)
    _, n, r, lost = reduce_by_log2(x)
    if low is not None:
        r, low = fast_two_sum(r, low + lost)
    return scale_by_power(1.0 + expm1_reduced(r, low), offset(n, power), x < subnormal)


@body("exp")
def exp(x: Expr) -> Expr:
    return exp_scaled(x)


def quarter_expm1(x: Expr) -> Expr:
    """(exp(x) - 1) / 4, finite; the sign of a zero is lost, subnormals are not kept."""
    overflow, minus_one = pick(x, (89.75, -18.5), (710.8, -39.0))
    x = at_least(at_most(x, overflow), minus_one)
    bias = format_of(x).bias - 2
    _, biased, r, low = reduce_by_log2(x, bias)
    quarter = power_of_two(biased, -2 - bias, like=x)
    return fma(expm1_reduced(r, low), quarter, quarter - 0.25)


def _quarter_expm1_pair(a: Expr) -> tuple[Expr, Expr]:
    """The same for a >= 0, as a sum of two numbers."""
    a = at_most(a, pick(a, 89.75, 710.8))
    bias = format_of(a).bias - 2
    _, biased, r, low = reduce_by_log2(a, bias)
    p, lost = fast_two_sum(r, _expm1_rest(r) + low)
    quarter = power_of_two(biased, -2 - bias, like=a)
    high = quarter - 0.25
    value = fma(p, quarter, high)
    return value, fma(p, quarter, high - value) + lost * quarter


@body("expm1")
def expm1(x: Expr) -> Expr:
    tiny = fabs(x) < format_of(x).epsilon / 4
    return select(tiny, x, 4.0 * quarter_expm1(x))


@body("tanh")
def tanh(x: Expr) -> Expr:
    # with t = exp(2|x|) - 1: t / (t + 2) where that is small, 1 - 2 / (t + 2) elsewhere
    a = at_most(fabs(x), pick(x, 9.5, 20.0))
    bias = format_of(x).bias
    _, biased, r, _ = reduce_by_log2(2.0 * a, bias)
    power = power_of_two(biased, -bias, like=x)
    t = fma(expm1_reduced(r), power, power - 1.0)
    small = a < 0.55
    below = t + 2.0
    quotient = select(small, t, 2.0) / below
    # what the quotient and t + 2 lost, over t + 2, which is 2 / (1 - t / (t + 2))
    lost = fma(-quotient, t - (below - 2.0), fma(-quotient, below, t))
    inner = fma(lost, fma(quotient, -0.5, 0.5), quotient)
    result = select(small, inner, 1.0 - quotient)
    return copysign(select(is_tiny(x), x, result), x)


@body("sinh")
def sinh(x: Expr) -> Expr:
    a = fabs(x)
    quarter, rest = _quarter_expm1_pair(a)
    h, low = 2.0 * quarter, 2.0 * rest
    below = fma(h, 2.0, 1.0)
    result = h + (h / below + (low + low / below))
    result = select(a > pick(x, 20.0, 40.0), h, result)
    return copysign(select(is_tiny(x), a, result), x)


@body("cosh")
def cosh(x: Expr) -> Expr:
    half = exp_scaled(fabs(x), power=-1)
    return half + 0.25 / half


def log_mantissa(f: Expr) -> tuple[Expr, Expr]:
    """``(f^2/2, s (f^2/2 + z P(z)))``: log(1 + f) is f minus the one plus the other."""
    s = f / (f + 2.0)
    z = s * s
    half_square = 0.5 * f * f
    rest = z * horner(z, pick(f, _LOG_SINGLE, _LOG_DOUBLE))
    return half_square, s * (half_square + rest)


def log_edges(x: Expr, result: Expr) -> Expr:
    """``result`` for 0 < x < inf, and the values of a logarithm elsewhere."""
    result = select(x < INF, result, x)  # inf and NaN
    result = select(eq(x, 0.0), -INF, result)
    return select(x < 0.0, NAN, result)


@body("log")
def log(x: Expr) -> Expr:
    ln2 = pick(x, LN2_SINGLE, LN2_DOUBLE)
    k, m = split_exponent(x)
    f = m - 1.0
    half_square, rest = log_mantissa(f)
    result = fma(k, ln2[0], f - (half_square - fma(k, ln2[1], rest)))
    return log_edges(x, result)


@body("log1p")
def log1p(x: Expr) -> Expr:
    ln2 = pick(x, LN2_SINGLE, LN2_DOUBLE)
    u = 1.0 + x
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    k, m = split_exponent(u)
    f = m - 1.0
    half_square, rest = log_mantissa(f)
    rest = fma(k, ln2[1], rest) + lost / u
    result = fma(k, ln2[0], f - (half_square - rest))
    result = log_edges(u, result)
    return select(fabs(x) < format_of(x).epsilon / 4, x, result)


def _log_split(x: Expr) -> tuple[Expr, Expr, Expr]:
    """``(k, high, low)``: log(x) = k log(2) + high + low."""
    k, m = split_exponent(x)
    f = m - 1.0
    _, rest = log_mantissa(f)
    half = f * -0.5
    high = fma(half, f, f)
    return k, high, fma(half, f, f - high) + rest


@body("log2")
def log2(x: Expr) -> Expr:
    high_part, low_part = pick(
        x, (1.4426950216293335, 1.925963033500011e-08), (LOG2_E, 2.0355273740931033e-17)
    )
    k, high, low = _log_split(x)
    p, e = two_product(high, high_part)
    tail = fma(high, low_part, fma(low, high_part, e))
    s, t = fast_two_sum(k, p)
    return log_edges(x, s + (t + tail))


@body("log10")
def log10(x: Expr) -> Expr:
    high_part, low_part = pick(
        x,
        (0.4342944920063019, -1.0103049952192578e-08),
        (0.4342944819032518, 1.098319650216765e-17),
    )
    log2_high, log2_low = pick(
        x,
        (0.3010300099849701, -1.432098883924482e-08),
        (0.3010299956639812, -2.8037281277851704e-18),
    )
    k, high, low = _log_split(x)
    p, e = two_product(high, high_part)
    tail = fma(high, low_part, fma(low, high_part, e))
    whole, whole_error = two_product(k, log2_high)
    s, t = fast_two_sum(whole, p)
    return log_edges(x, s + (t + (tail + fma(k, log2_low, whole_error))))


@body("asinh")
def asinh(x: Expr) -> Expr:
    a = fabs(x)
    big = a > pick(x, 2.0**13, 2.0**28)
    b = at_most(a, pick(x, 2.0**13, 2.0**28))
    square = b * b
    ln2 = pick(x, LN2_SINGLE, LN2_DOUBLE)[0]
    # log(2a) where a^2 + 1 is a^2
    argument = select(big, a - 1.0, b + square / (1.0 + sqrt(1.0 + square)))
    result = log1p(argument) + select(big, const(ln2, x.dtype), const(0.0, x.dtype))
    return copysign(select(is_tiny(x), a, result), x)


@body("acosh")
def acosh(x: Expr) -> Expr:
    big = x > pick(x, 2.0**13, 2.0**28)
    t = x - 1.0
    b = at_most(t, pick(x, 2.0**13, 2.0**28))
    ln2 = pick(x, LN2_SINGLE, LN2_DOUBLE)[0]
    root = sqrt(fma(b, b, 2.0 * b))
    argument = b + root
    lost = (b - (argument - root)) * at_least(1.0 - argument, 0.0)
    result = log1p(select(big, t, argument)) + select(big, const(ln2, x.dtype), lost)
    return select(x < 1.0, NAN, result)


@body("atanh")
def atanh(x: Expr) -> Expr:
    a = fabs(x)
    result = 0.5 * log1p(2.0 * a / (1.0 - a))
    result = select(a > 1.0, NAN, result)
    return copysign(select(is_tiny(x), a, result), x)


@body("sqrt")
def square_root(x: Expr) -> Expr:
    return sqrt(x)


@body("rsqrt")
def rsqrt(x: Expr) -> Expr:
    return 1.0 / sqrt(x)
