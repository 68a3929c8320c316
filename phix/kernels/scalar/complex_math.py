"""Bodies on complex scalars, and what makes and splits them.

Magnitudes are scaled by powers of two before they are squared, so that nothing overflows or
vanishes that the result does not.
"""

from __future__ import annotations

import math

from phix.kernels.scalar import exponential as ex
from phix.kernels.scalar import trigonometric as tr
from phix.kernels.scalar.floating import INF, NAN, bits_of, format_of, is_nan, pick, two_product
from phix.kernels.scalar.language import (
    Complex,
    Expr,
    bitcast,
    const,
    copysign,
    eq,
    fabs,
    fma,
    ne,
    select,
    sqrt,
)
from phix.kernels.scalar.power import MAX_UNROLLED, MIN_UNROLLED, powered
from phix.kernels.scalar.registry import Scalar, body


def choose(condition: Expr, x: Complex, y: Complex) -> Complex:
    """``x`` where the condition holds, else ``y``."""
    return Complex(select(condition, x.real, y.real), select(condition, x.imag, y.imag))


def _constant(value: complex, like: Complex) -> Complex:
    dtype = like.real.dtype
    return Complex(const(value.real, dtype), const(value.imag, dtype))


def sum_of_products(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    """a b + c d, good to two units in the last place also where the terms cancel."""
    p, e = two_product(c, d)
    return fma(a, b, p) + select(fabs(p) < INF, e, 0.0)


def _largest(x: Complex) -> Expr:
    a, b = fabs(x.real), fabs(x.imag)
    return select(a > b, a, b)


def _safe_factor(x: Complex) -> tuple[Expr, Expr]:
    """``(factor, 1 / factor)``, even powers of two that keep squares of x's parts in range."""
    largest = _largest(x)
    high, low, up, down = pick(
        x.real, (2.0**62, 2.0**-38, 2.0**100, 2.0**-66), (2.0**510, 2.0**-457, 2.0**600, 2.0**-514)
    )
    large, small, one = largest > high, largest < low, const(1.0, largest.dtype)
    factor = select(large, down, select(small, up, one))
    return factor, select(large, 1.0 / down, select(small, 1.0 / up, one))


def _scaled_modulus(x: Complex) -> tuple[Expr, Complex, Expr]:
    """``(|x f|, x f, 1 / f)``."""
    factor, inverse = _safe_factor(x)
    scaled = x.scaled(factor)
    return sqrt(fma(scaled.real, scaled.real, scaled.imag * scaled.imag)), scaled, inverse


def is_infinite(x: Complex) -> Expr:
    return eq(_largest_or_inf(x), INF)


def _largest_or_inf(x: Complex) -> Expr:
    """The largest part's size, infinity also beside a NaN."""
    a, b = fabs(x.real), fabs(x.imag)
    return select(eq(a, INF) | eq(b, INF), INF, select(a > b, a, b))


@body("abs", complex=True)
def modulus(x: Complex) -> Expr:
    """sqrt(re^2 + im^2)."""
    scaled, _, inverse = _scaled_modulus(x)
    return select(is_infinite(x), INF, scaled * inverse)


def _to_size_one(x: Complex) -> tuple[Complex, Expr]:
    """``(x / 2^e, e + bias)`` with a largest part of about 1 (less for a subnormal x)."""
    largest = _largest(x)
    fmt = format_of(largest)
    field = bits_of(largest) >> fmt.mantissa
    field = select(field < 1, 1, select(field > 2 * fmt.bias - 1, 2 * fmt.bias - 1, field))
    factor = bitcast((const(2 * fmt.bias, fmt.bits) - field) << fmt.mantissa, fmt.dtype)
    return x.scaled(factor), field


@body("divide", complex=True)
def divide(x: Complex, y: Complex) -> Complex:
    """x / y; infinite parts for y = 0, and 0 for finite x and infinite y."""
    fmt = format_of(x.real)
    u, u_exponent = _to_size_one(x)
    v, v_exponent = _to_size_one(y)
    square = fma(v.real, v.real, v.imag * v.imag)
    quotient = Complex(
        sum_of_products(u.real, v.real, u.imag, v.imag) / square,
        sum_of_products(u.imag, v.real, -u.real, v.imag) / square,
    )
    # 2^(difference of the exponents) in two factors, each of them in range
    total = (u_exponent - v_exponent) + 4 * fmt.bias
    half = total >> 1
    for part in (half, total - half):
        quotient = quotient.scaled(bitcast((part - fmt.bias) << fmt.mantissa, fmt.dtype))
    zero = const(0.0, x.real.dtype)
    vanishes = is_infinite(y) & (_largest_or_inf(x) < INF)
    quotient = choose(vanishes, Complex(zero, zero), quotient)
    by_zero = eq(y.real, 0.0) & eq(y.imag, 0.0)
    return choose(by_zero, Complex(x.real / zero, x.imag / zero), quotient)


@body("reciprocal", complex=True)
def reciprocal(x: Complex) -> Complex:
    return divide(_constant(1.0, x), x)


@body("sign", complex=True)
def sign(x: Complex) -> Complex:
    """x / |x|; 0 at 0. One infinite part is all of the direction, of two it is not known."""
    size, scaled, _ = _scaled_modulus(x)
    size = select(eq(size, 0.0), 1.0, size)
    a, b = (
        select(eq(fabs(p), INF), copysign(const(1.0, p.dtype), p), 0.0 * p)
        for p in (x.real, x.imag)
    )
    is_both = ne(a, 0.0) & ne(b, 0.0)
    ends = Complex(select(is_both, NAN, a), select(is_both, NAN, b))
    inner = Complex(scaled.real / size, scaled.imag / size)
    return choose(is_infinite(x), ends, inner)


def _times(value: Expr, factor: Expr) -> Expr:
    """value * factor, for values from 0 on, where a factor 0 wins over one infinite or NaN."""
    return select(eq(factor, 0.0), factor, value * factor)


def _signed_times(value: Expr, factor: Expr) -> Expr:
    """The same for values of any sign; that of NaN, which hangs on the code, is none."""
    one = const(1.0, value.dtype)
    sign = select(is_nan(value), one, copysign(one, value))
    return select(eq(factor, 0.0), factor * sign, value * factor)


@body("exp", complex=True)
def exp(x: Complex) -> Complex:
    sine, cosine = tr.sine_and_cosine(x.imag)
    # cos and sin may bring an exponential back into range that overflows
    limit, step = pick(x.real, (80.0, 64.0), (700.0, 512.0))
    large = x.real > limit
    growth = ex.exp(select(large, x.real - step, x.real))
    rest = select(large, const(math.exp(step), x.real.dtype), 1.0)
    real, imag = _times(growth, cosine) * rest, _times(growth, sine) * rest
    zero = eq(x.real, -INF)
    real = select(is_nan(real), select(zero, 0.0, select(eq(x.real, INF), INF, real)), real)
    return Complex(real, select(zero & is_nan(imag), 0.0, imag))


@body("log", complex=True)
def log(x: Complex) -> Complex:
    a, b = fabs(x.real), fabs(x.imag)
    large, little = select(a > b, a, b), select(a > b, b, a)
    size, _, inverse = _scaled_modulus(x)
    far = ex.log(size) + ex.log(inverse)
    # |x|^2 - 1, where log|x| may be near 0
    p, e = two_product(large, large)
    near = 0.5 * ex.log1p(fma(little, little, p - 1.0) + e)
    is_near = (large > 0.5) & (large < 2.0)
    real = select(is_infinite(x), INF, select(is_near, near, far))
    return Complex(real, tr.atan2(x.imag, x.real))


@body("sqrt", complex=True)
def square_root(x: Complex) -> Complex:
    size, scaled, _ = _scaled_modulus(x)
    factor, _ = _safe_factor(x)
    root_of_inverse = 1.0 / sqrt(factor)
    t = sqrt(0.5 * (fabs(scaled.real) + size)) * root_of_inverse
    other = select(eq(t, 0.0), 0.0, fabs(x.imag) / (2.0 * t))
    left = x.real < 0.0
    real, imag = select(left, other, t), select(left, t, other)
    # infinite parts, as in C
    flat = eq(fabs(x.real), INF)
    small = select(is_nan(x.imag), NAN, const(0.0, t.dtype))
    real = select(flat, select(left, small, INF), real)
    imag = select(flat, select(left, INF, small), imag)
    tall = eq(fabs(x.imag), INF)
    real, imag = select(tall, INF, real), select(tall, INF, imag)
    return Complex(real, copysign(imag, x.imag))


def _hyperbolic(x: Expr) -> tuple[Expr, Expr, Expr]:
    """``(sinh(x) / f, cosh(x) / f, f)``, where f keeps large values from overflowing."""
    a = fabs(x)
    limit, step = pick(x, (80.0, 64.0), (700.0, 512.0))
    large = a > limit
    inside = select(large, copysign(a - step, x), x)
    factor = select(large, math.exp(step), const(1.0, x.dtype))
    return ex.sinh(inside), ex.cosh(inside), factor


@body("sinh", complex=True)
def sinh(x: Complex) -> Complex:
    sine, cosine = tr.sine_and_cosine(x.imag)
    sinh_a, cosh_a, factor = _hyperbolic(x.real)
    real = _signed_times(sinh_a, cosine) * factor
    # an angle that is none leaves 0 and infinities, as in C
    kept = is_nan(cosine) & (eq(x.real, 0.0) | eq(fabs(x.real), INF))
    return Complex(select(kept, x.real, real), _times(cosh_a, sine) * factor)


@body("cosh", complex=True)
def cosh(x: Complex) -> Complex:
    sine, cosine = tr.sine_and_cosine(x.imag)
    sinh_a, cosh_a, factor = _hyperbolic(x.real)
    real, imag = _times(cosh_a, cosine) * factor, _signed_times(sinh_a, sine) * factor
    real = select(is_nan(cosine) & eq(fabs(x.real), INF), INF, real)
    return Complex(real, select(is_nan(sine) & eq(x.real, 0.0), 0.0, imag))


@body("tanh", complex=True)
def tanh(x: Complex) -> Complex:
    a = fabs(x.real)
    limit = pick(a, 10.0, 20.0)
    # with t = tan(b), u = 1 + t^2 and s = sinh(a): (u s cosh(a) + i t) / (1 + u s^2)
    inside = select(a > limit, limit, a)
    t = tr.tan(x.imag)
    u = fma(t, t, 1.0)
    s = ex.sinh(inside)
    below = fma(u * s, s, 1.0)
    real = u * s * sqrt(fma(s, s, 1.0)) / below
    sine, cosine = tr.sine_and_cosine(x.imag)
    decay = ex.exp(-2.0 * a)
    far = a > limit
    imag = select(far, 4.0 * sine * cosine * decay, t / below)
    real = copysign(select(far, 1.0, real), x.real)
    endless = eq(a, INF) & is_nan(imag)
    real = select(is_nan(imag) & (a < INF), NAN, real)
    imag = select(endless, copysign(const(0.0, a.dtype), x.imag), imag)
    return Complex(select(eq(a, 0.0), x.real, real), select(eq(x.imag, 0.0), x.imag, imag))


@body("sin", complex=True)
def sin(x: Complex) -> Complex:
    y = sinh(Complex(-x.imag, x.real))
    return Complex(y.imag, -y.real)


@body("cos", complex=True)
def cos(x: Complex) -> Complex:
    return cosh(Complex(-x.imag, x.real))


@body("tan", complex=True)
def tan(x: Complex) -> Complex:
    y = tanh(Complex(-x.imag, x.real))
    return Complex(y.imag, -y.real)


def _integer_power(x: Complex, n: int) -> Complex:
    """x^n by multiplications."""
    base, count = (reciprocal(x), -n) if n < 0 else (x, n)
    return powered(base, count) if count else _constant(1.0, x)


@body("elementwise_pow", complex=True)
def power(x: Complex, y: Complex) -> Complex:
    """exp(y log x); 1 for y = 0, and 0 for x = 0 under a y with positive real part."""
    result = exp(y * log(x))
    zero_base = eq(x.real, 0.0) & eq(x.imag, 0.0)
    at_zero = select(y.real > 0.0, 0.0, const(NAN, x.real.dtype))
    result = choose(zero_base, Complex(at_zero, at_zero), result)
    return choose(eq(y.real, 0.0) & eq(y.imag, 0.0), _constant(1.0, x), result)


@body("pow", complex=True)
def static_power(x: Complex, y: complex) -> Complex:
    """x to a power that is known when the kernel is built."""
    y = complex(y)
    if y.imag == 0.0 and y.real.is_integer() and MIN_UNROLLED <= y.real <= MAX_UNROLLED:
        return _integer_power(x, int(y.real))
    return square_root(x) if y == 0.5 else power(x, _constant(y, x))


@body("real")
def real(x: Scalar) -> Expr:
    return x.real if isinstance(x, Complex) else x


@body("imag")
def imag(x: Scalar) -> Expr:
    return x.imag if isinstance(x, Complex) else const(0, x.dtype)


@body("conj")
def conj(x: Scalar) -> Scalar:
    return Complex(x.real, -x.imag) if isinstance(x, Complex) else x


@body("complex")
def complex_(real: Expr, imag: Expr) -> Complex:
    return Complex(real, imag)


@body("angle")
def angle(x: Scalar) -> Expr:
    if isinstance(x, Complex):
        return tr.atan2(x.imag, x.real)
    return select(is_nan(x), x, select(x < 0.0, 3.141592653589793, const(0.0, x.dtype)))
