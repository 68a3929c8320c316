"""Inverse functions of complex scalars, logarithms of other bases, and what is small beside 1.

Principal branches, with the sign of a zero telling the sides of a cut. The inverse sines and
cosines follow W. Kahan, "Branch cuts for complex elementary functions", 1987: they are made of
square roots, in sums and products of which nothing cancels.
"""

from __future__ import annotations

from phix.kernels.scalar import complex_math as cm
from phix.kernels.scalar import exponential as ex
from phix.kernels.scalar import trigonometric as tr
from phix.kernels.scalar.complex_math import choose, is_infinite, sum_of_products
from phix.kernels.scalar.floating import INF, NAN, is_nan, pick, two_product, two_sum
from phix.kernels.scalar.language import Complex, Expr, const, copysign, eq, fabs, fma, select
from phix.kernels.scalar.registry import body

_HALF_PI = 1.5707963267948966
_OVER_LN2, _OVER_LN10 = 1.4426950408889634, 0.4342944819032518


# -- logarithms, exponentials ----------------------------------------------------------------------
@body("log2", complex=True)
def log2(x: Complex) -> Complex:
    return cm.log(x).scaled(const(_OVER_LN2, x.real.dtype))


@body("log10", complex=True)
def log10(x: Complex) -> Complex:
    return cm.log(x).scaled(const(_OVER_LN10, x.real.dtype))


@body("log1p", complex=True)
def log1p(x: Complex) -> Complex:
    """|1 + x|^2 - 1 = a (a + 2) + b^2 as a sum of two numbers, where |x| is not large.

    Next to -1, where 1 + x is exact and its square may be 0, it is the logarithm of 1 + x.
    """
    big = (fabs(x.real) > 4.0) | (fabs(x.imag) > 4.0)
    a, b = select(big, 0.0, x.real), select(big, 0.0, x.imag)
    above, lost = two_sum(a, const(2.0, a.dtype))
    p, p_low = two_product(a, above)
    q, q_low = two_product(b, b)
    total, rest = two_sum(p, q)
    near = 0.5 * ex.log1p(total + (rest + (p_low + (q_low + a * lost))))
    one_more = Complex(x.real + 1.0, x.imag)
    far = cm.log(one_more)
    is_far = big | ((fabs(one_more.real) < 0.5) & (fabs(one_more.imag) < 0.5))
    return Complex(select(is_far, far.real, near), far.imag)


@body("expm1", complex=True)
def expm1(x: Complex) -> Complex:
    """expm1(a) cos(b) - 2 sin(b / 2)^2, and exp(a) sin(b)."""
    whole = cm.exp(x)
    sine, _ = tr.sine_and_cosine(0.5 * x.imag)
    _, cosine = tr.sine_and_cosine(x.imag)
    far = fabs(x.real) > pick(x.real, 30.0, 60.0)
    inside = select(far, 0.0, x.real)
    near = sum_of_products(ex.expm1(inside), cosine, -2.0 * sine, sine)
    return Complex(select(far, whole.real - 1.0, near), whole.imag)


@body("rsqrt", complex=True)
def rsqrt(x: Complex) -> Complex:
    return cm.reciprocal(cm.square_root(x))


# -- inverse sines and cosines -------------------------------------------------------------------
def _roots(x: Complex) -> tuple[Complex, Complex]:
    """sqrt(1 - x) and sqrt(1 + x), on the side of the cut that the sign of a zero says."""
    less = cm.square_root(Complex(1.0 - x.real, -x.imag))
    return less, cm.square_root(Complex(x.real + 1.0, x.imag))


@body("asin", complex=True)
def asin(x: Complex) -> Complex:
    less, more = _roots(x)
    real = tr.atan2(x.real, sum_of_products(less.real, more.real, -less.imag, more.imag))
    imag = ex.asinh(sum_of_products(less.real, more.imag, -less.imag, more.real))
    ends = Complex(tr.atan2(x.real, fabs(x.imag)), copysign(_infinity(x), x.imag))
    real = select(eq(x.real, 0.0), x.real, real)
    return choose(is_infinite(x), ends, Complex(real, copysign(imag, x.imag)))


@body("acos", complex=True)
def acos(x: Complex) -> Complex:
    less, more = _roots(x)
    imag = ex.asinh(sum_of_products(more.real, less.imag, -more.imag, less.real))
    ends = Complex(tr.atan2(fabs(x.imag), x.real), copysign(_infinity(x), -x.imag))
    real = select(eq(x.real, 0.0), _HALF_PI, 2.0 * tr.atan2(less.real, more.real))
    result = Complex(real, copysign(imag, -x.imag))
    return choose(is_infinite(x), ends, result)


@body("asinh", complex=True)
def asinh(x: Complex) -> Complex:
    y = asin(Complex(-x.imag, x.real))
    return Complex(y.imag, -y.real)


@body("acosh", complex=True)
def acosh(x: Complex) -> Complex:
    less = cm.square_root(Complex(x.real - 1.0, x.imag))
    more = cm.square_root(Complex(x.real + 1.0, x.imag))
    real = ex.asinh(sum_of_products(less.real, more.real, less.imag, more.imag))
    ends = Complex(_infinity(x), tr.atan2(x.imag, x.real))
    upright = is_nan(x.imag) & eq(x.real, 0.0)
    imag = select(upright, _HALF_PI, 2.0 * tr.atan2(less.imag, more.real))
    return choose(is_infinite(x), ends, Complex(real, imag))


def _infinity(x: Complex) -> Expr:
    return const(INF, x.real.dtype)


# -- inverse tangents ------------------------------------------------------------------------------
@body("atanh", complex=True)
def atanh(x: Complex) -> Complex:
    """log1p(4 a / ((1 - a)^2 + b^2)) / 4 and atan2(2 b, (1 - a) (1 + a) - b^2) / 2, for a >= 0;
    far out 1 / x and pi / 2, and log(2 / b) / 2 next to 1."""
    a, b = fabs(x.real), fabs(x.imag)
    limit, little = pick(a, (2.0**40, 2.0**-50), (2.0**300, 2.0**-400))
    far = (a > limit) | (b > limit)
    inside, height = select(far, 0.0, a), select(far, 1.0, b)
    left = 1.0 - inside
    at_one = eq(left, 0.0) & (height < little)
    square = height * height
    below = fma(left, left, square)
    near = 0.25 * ex.log1p(4.0 * inside / select(at_one, 1.0, below))
    near = select(at_one, 0.5 * (ex.log(const(2.0, a.dtype)) - ex.log(height)), near)
    turn = sum_of_products(left, 1.0 + inside, -height, height)
    angle = 0.5 * tr.atan2(2.0 * height, turn)
    inverse = cm.reciprocal(Complex(a, b)).real
    real = select(is_infinite(x) | eq(a, 0.0), 0.0, select(far, inverse, near))
    angle = select(far, _HALF_PI, angle)
    angle = select(is_nan(b) | (is_nan(a) & (b < INF)), NAN, angle)
    return Complex(copysign(real, x.real), copysign(angle, x.imag))


@body("atan", complex=True)
def atan(x: Complex) -> Complex:
    y = atanh(Complex(-x.imag, x.real))
    return Complex(y.imag, -y.real)
