"""sin, cos, tan, asin, acos, atan and atan2 for real scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import dtypes as dt
from phix.kernels.scalar.argument_reduction import (
    is_far,
    reduce_double,
    reduce_far_double,
    reduce_far_single,
    reduce_single,
)
from phix.kernels.scalar.floating import (
    INF,
    NAN,
    bits_of,
    flip_sign,
    format_of,
    horner,
    is_nan,
    is_tiny,
    pick,
)
from phix.kernels.scalar.language import (
    Expr,
    cast,
    const,
    copysign,
    eq,
    fabs,
    fma,
    ne,
    rarely,
    select,
    sqrt,
)
from phix.kernels.scalar.registry import body

# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 on |r| <= pi/4, in r^2; relative errors of
# sin and cos with them: float32 4.0e-9 and 1.2e-10, float64 9.4e-20 and 5.9e-20
_SIN_SINGLE = (-0.16666655242443085, 0.008332188241183758, -0.0001951806916622445)
_COS_SINGLE = (0.04166664555668831, -0.0013887309469282627, 2.4432332793367095e-05)
_SIN_DOUBLE = (
    -0.16666666666666666, 0.008333333333333042, -0.0001984126984096247, 2.755731907398178e-06,
    -2.5052070922419932e-08, 1.605431151181331e-10, -7.389461846719349e-13,
)  # fmt: skip
_COS_DOUBLE = (
    0.041666666666666595, -0.001388888888887331, 2.480158728896729e-05, -2.755731420381059e-07,
    2.087570325348922e-09, -1.1358623552398932e-11,
)  # fmt: skip

# (asin(x) - x) / x^3 on 0 <= x <= 1/2, in x^2; relative error of asin with it: float32 4.9e-9,
# float64 9.7e-19
_ASIN_SINGLE = (
    0.16666752099990845, 0.07495308667421341, 0.0454692468047142, 0.024184398353099823,
    0.04215872287750244,
)  # fmt: skip
_ASIN_DOUBLE = (
    0.1666666666666676, 0.0749999999997086, 0.04464285717457022, 0.03038194270926639,
    0.022372214956583297, 0.017351612417898704, 0.01398081726230444, 0.011398927807258742,
    0.010780223196661297, 0.0037063174372060923, 0.0217081358749184, -0.021000667754796035,
    0.03263000729549482,
)  # fmt: skip

# (atan(x) - x) / x^3 on 0 <= x <= tan(pi/8), in x^2; relative error of atan with it: float32
# 7.3e-10, float64 1.4e-18
_ATAN_SINGLE = (
    -0.33333316445350647, 0.19998526573181152, -0.1424434781074524, 0.10598780959844589,
    -0.060889288783073425,
)  # fmt: skip
_ATAN_DOUBLE = (
    -0.3333333333333319, 0.19999999999952173, -0.14285714280052447, 0.11111110776197869,
    -0.09090897547546241, 0.0769205645395814, -0.06663061048902101, 0.058475745828945325,
    -0.05037878239878239, 0.03802810625335543, -0.017867057447575076,
)  # fmt: skip

# pi/2 and pi as sums of numbers of each format
_HALF_PI_SINGLE = (1.5707963705062866, -4.371138828673793e-08)
_HALF_PI_DOUBLE = (1.5707963267948966, 6.123233995736766e-17)


def _sin_and_cos_single(r: Expr) -> tuple[Expr, Expr]:
    """sin(r) and cos(r) for |r| <= pi/4, good for float32."""
    z = r * r
    sine = fma(z * r, horner(z, _SIN_SINGLE), r)
    return sine, fma(z * z, horner(z, _COS_SINGLE), fma(z, -0.5, 1.0))


def _sin_and_cos_double(r: Expr, low: Expr) -> tuple[Expr, Expr]:
    """sin and cos of r + low for |r| <= pi/4."""
    z = r * r
    sine = r + fma(z * r, horner(z, _SIN_DOUBLE), low * fma(z, -0.5, 1.0))
    half = 0.5 * z
    top = 1.0 - half
    # what 1 - z/2 lost, the higher terms, and the low part's -sin(r)
    cosine = top + (((1.0 - top) - half) + fma(z * z, horner(z, _COS_DOUBLE), -(r * low)))
    return sine, cosine


# A function of an angle a >= 0 by its quadrant, and by the sine and the cosine of the rest.
_OfRest = Callable[[Expr, Expr, Expr], Expr]
# How float32 and float64 are reduced.
_NEAR, _FAR = (reduce_single, reduce_double), (reduce_far_single, reduce_far_double)


def _reduced(a: Expr, ways: tuple[Any, Any], value: _OfRest, is_wide: bool) -> Expr:
    single, double = ways
    if a.dtype == dt.float64:
        quadrant, *rest = double(a)
        return value(quadrant, *_sin_and_cos_double(*rest))
    quadrant, r = single(a)
    return value(quadrant, *_sin_and_cos_single(r if is_wide else cast(r, dt.float32)))


def _of_angle(a: Expr, value: _OfRest, *, is_wide: bool = False, is_near: bool = False) -> Expr:
    """``value`` of an angle a >= 0. ``is_wide``: of a float32 it is made in float64; ``is_near``
    promises that the angle is not far, which saves compiling what would never run."""
    near = _reduced(a, _NEAR, value, is_wide)
    return near if is_near else rarely(is_far(a), _reduced(a, _FAR, value, is_wide), near)


def _is_odd(quadrant: Expr) -> Expr:
    return ne(quadrant & 1, 0)


def _sign_of_half_turn(quadrant: Expr) -> Expr:
    """The second lowest bit, moved to the top."""
    return quadrant << (8 * quadrant.dtype.itemsize - 2)


def _sine_of(x: Expr) -> _OfRest:
    def value(quadrant: Expr, sine: Expr, cosine: Expr) -> Expr:
        size = select(_is_odd(quadrant), cosine, sine)
        return flip_sign(size, _sign_of_half_turn(quadrant) ^ bits_of(x))

    return value


def _cosine(quadrant: Expr, sine: Expr, cosine: Expr) -> Expr:
    size = select(_is_odd(quadrant), sine, cosine)
    return flip_sign(size, _sign_of_half_turn(quadrant + 1))


@body("sin")
def sin(x: Expr) -> Expr:
    return _of_angle(fabs(x), _sine_of(x))


@body("cos")
def cos(x: Expr) -> Expr:
    return _of_angle(fabs(x), _cosine)


def sine_and_cosine(x: Expr, *, bounded: bool = False) -> tuple[Expr, Expr]:
    """Both, of one reduction of the argument; ``bounded`` promises |x| < 2^45."""
    a = fabs(x)
    return _of_angle(a, _sine_of(x), is_near=bounded), _of_angle(a, _cosine, is_near=bounded)


def _tangent(quadrant: Expr, sine: Expr, cosine: Expr) -> Expr:
    odd = _is_odd(quadrant)
    return select(odd, -cosine, sine) / select(odd, sine, cosine)


@body("tan")
def tan(x: Expr) -> Expr:
    value = _of_angle(fabs(x), _tangent, is_wide=True)
    return flip_sign(cast(value, x.dtype), bits_of(x))


def _asin_core(x: Expr, z: Expr) -> Expr:
    """asin(x) - x for |x| <= 1/2, with z = x^2."""
    return x * (z * horner(z, pick(x, _ASIN_SINGLE, _ASIN_DOUBLE)))


def _asin_argument(x: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """``(large, root, low, z)``: asin's argument is root + low = sqrt((1-|x|)/2) above 1/2."""
    a = fabs(x)
    large = a > 0.5
    half = fma(a, -0.5, 0.5)
    z = select(large, half, a * a)
    root = sqrt(half)
    low = fma(-root, root, half) / select(eq(root, 0.0), 1.0, 2.0 * root)
    return large, select(large, root, a), select(large, low, 0.0), z


@body("asin")
def asin(x: Expr) -> Expr:
    large, root, low, z = _asin_argument(x)
    core = _asin_core(root, z)
    half_pi = pick(x, _HALF_PI_SINGLE, _HALF_PI_DOUBLE)
    outer = half_pi[0] - (2.0 * root - (half_pi[1] - 2.0 * (low + core)))
    result = select(large, outer, root + core)
    return copysign(select(is_tiny(x), fabs(x), result), x)


@body("acos")
def acos(x: Expr) -> Expr:
    large, root, low, z = _asin_argument(x)
    core = _asin_core(root, z)
    half_pi = pick(x, _HALF_PI_SINGLE, _HALF_PI_DOUBLE)
    near = 2.0 * (root + (core + low))
    far = 2.0 * (half_pi[0] - (root - (half_pi[1] - (core + low))))
    middle = half_pi[0] - (x - (half_pi[1] - copysign(core, x)))
    return select(large, select(x < 0.0, far, near), middle)


def _atan_reduced(numerator: Expr, denominator: Expr, eighths: Expr) -> tuple[Expr, Expr]:
    """``(t, low)``: t + low = atan(numerator / denominator) + the low part of eighths pi/4."""
    t = numerator / denominator
    z = t * t
    core = t * (z * horner(z, pick(t, _ATAN_SINGLE, _ATAN_DOUBLE)))
    low = 0.5 * pick(t, _HALF_PI_SINGLE, _HALF_PI_DOUBLE)[1]
    return t, fma(eighths, low, core)


def _atan_interval(y: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    """``(numerator, denominator, k)``: atan(y/x) = k pi/4 + atan(numerator / denominator).

    y and x are not negative; the quotient's size is at most tan(pi/8).
    """
    steep, middle = y > 2.414213562373095 * x, y > 0.41421356237309503 * x
    numerator = select(steep, -x, select(middle, y - x, y))
    denominator = select(steep, y, select(middle, y + x, x))
    zero = const(0.0, x.dtype)
    return numerator, denominator, select(steep, 2.0, select(middle, 1.0, zero))


@body("atan")
def atan(x: Expr) -> Expr:
    numerator, denominator, k = _atan_interval(fabs(x), const(1.0, x.dtype))
    t, low = _atan_reduced(numerator, denominator, k)
    quarter_pi = 0.5 * pick(x, _HALF_PI_SINGLE, _HALF_PI_DOUBLE)[0]
    return copysign(fma(k, quarter_pi, t + low), x)


@body("atan2")
def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of (x, y), in [-pi, pi]; signed zeros and infinities as in C."""
    rise, run = fabs(y), fabs(x)
    both_infinite = eq(rise, INF) & eq(run, INF)
    rise, run = select(both_infinite, 1.0, rise), select(both_infinite, 1.0, run)
    # y + x must not overflow, and subnormals would lose digits
    fmt = format_of(x)
    large = (rise > fmt.max / 8) | (run > fmt.max / 8)
    small = (rise < fmt.min_normal / fmt.epsilon) & (run < fmt.min_normal / fmt.epsilon)
    factor = select(large, 0.125, select(small, const(fmt.epsilon**-2, x.dtype), 1.0))
    numerator, denominator, k = _atan_interval(rise * factor, run * factor)
    denominator = select(eq(denominator, 0.0), 1.0, denominator)
    left = ne(bits_of(x) & fmt.sign_mask, 0)
    k = select(left, 4.0 - k, k)
    numerator = select(left, -numerator, numerator)
    t, low = _atan_reduced(numerator, denominator, k)
    quarter_pi = 0.5 * pick(x, _HALF_PI_SINGLE, _HALF_PI_DOUBLE)[0]
    result = copysign(fma(k, quarter_pi, t + low), y)
    return select(is_nan(x) | is_nan(y), NAN, result)
