"""Bodies of exact operations: arithmetic, rounding, comparisons, logic, bits, casts.

Integers wrap. Comparisons with NaN are false, except ``not_equal``.
"""

from __future__ import annotations

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.scalar.floating import INF, NAN, bits_of, format_of, is_nan, pick
from phix.kernels.scalar.language import (
    Complex,
    Expr,
    binary,
    bitcast,
    call,
    const,
    eq,
    fabs,
    fma,
    ne,
    rarely,
    rint,
    select,
)
from phix.kernels.scalar.language import cast as convert
from phix.kernels.scalar.language import ceil as round_up
from phix.kernels.scalar.language import copysign as with_sign
from phix.kernels.scalar.language import floor as round_down
from phix.kernels.scalar.language import trunc as round_to_zero
from phix.kernels.scalar.registry import Scalar, body
from phix.kernels.scalar.storage import number_of, stored


def _is_float(x: Expr) -> bool:
    return x.dtype.kind == "f"


def _is_bool(x: Scalar) -> bool:
    return x.dtype == dt.bool_


def _is_signed(x: Expr) -> bool:
    return x.dtype.kind == "i"


def constant(value: complex, dtype: np.dtype) -> Scalar:
    """A Python number as a scalar of ``dtype`` (of complex dtypes, a Complex)."""
    if dtype.kind == "c":
        part = dt.real_dtype(dtype)
        number = complex(value)
        return Complex(const(number.real, part), const(number.imag, part))
    if dtype.kind in "iu":  # an int attribute wraps as the arithmetic does
        width = 8 * dtype.itemsize
        low = -(1 << (width - 1)) if dtype.kind == "i" else 0
        return const((int(value.real) - low) % (1 << width) + low, dtype)
    return const(value.real, dtype)


# Arithmetic


@body("add")
def add(x: Scalar, y: Scalar) -> Scalar:
    return x | y if _is_bool(x) else x + y


@body("subtract")
def subtract(x: Scalar, y: Scalar) -> Scalar:
    return x ^ y if _is_bool(x) else x - y


@body("multiply")
def multiply(x: Scalar, y: Scalar) -> Scalar:
    return x & y if _is_bool(x) else x * y


@body("divide")
def divide(x: Expr, y: Expr) -> Expr:
    return x / y


@body("reciprocal")
def reciprocal(x: Expr) -> Expr:
    return 1.0 / x


@body("scale")
def scale(
    x: Scalar, scale: complex = 1.0, bias: complex = 0.0, bias_after_scale: bool = True
) -> Scalar:
    factor, shift = constant(scale, x.dtype), constant(bias, x.dtype)
    if bias_after_scale:
        scaled = _scaled(x, scale, factor)
        return scaled if bias == 0 else scaled + shift
    shifted = x if bias == 0 else x + shift
    return _scaled(shifted, scale, factor)


def _scaled(x: Scalar, scale: complex, factor: Scalar) -> Scalar:
    if scale == 1:
        return x
    # a product with -1 + 0i has NaN beside an infinity, and loses the sign of a zero
    return -x if scale == -1 and isinstance(x, Complex) else x * factor


@body("maximum")
def maximum(x: Expr, y: Expr) -> Expr:
    if _is_bool(x):
        return x | y
    chosen = x > y
    return select(chosen | is_nan(x) if _is_float(x) else chosen, x, y)


@body("minimum")
def minimum(x: Expr, y: Expr) -> Expr:
    if _is_bool(x):
        return x & y
    chosen = x < y
    return select(chosen | is_nan(x) if _is_float(x) else chosen, x, y)


@body("fmax")
def fmax(x: Expr, y: Expr) -> Expr:
    return select((x >= y) | is_nan(y), x, y) if _is_float(x) else maximum(x, y)


@body("fmin")
def fmin(x: Expr, y: Expr) -> Expr:
    return select((x <= y) | is_nan(y), x, y) if _is_float(x) else minimum(x, y)


def _int_quotient_and_rest(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Rounded toward minus infinity, as in Python; both 0 for y = 0."""
    # neither a zero nor (lowest int) / -1 may reach the hardware: both trap
    unsafe = eq(y, 0) | eq(y, -1) if _is_signed(x) else eq(y, 0)
    divisor = select(unsafe, 1, y)
    one = const(1, x.dtype)
    q, r = Expr("quotient", (x, divisor), x.dtype), Expr("rest", (x, divisor), x.dtype)
    if _is_signed(x):
        low = ne(r, 0) & ((r ^ divisor) < 0)
        q, r = select(low, q - one, q), select(low, r + divisor, r)
        q = select(eq(y, -1), -x, q)
    return select(eq(y, 0), 0, q), select(unsafe, 0, r)


def _modulo_in_float64(x: Expr, y: Expr) -> Expr:
    """x - y rint(x / y) for float32 values that stand in float64, exactly up to a multiple of y.

    The quotient is below 2^278: each step takes its leading 27 bits off, without rounding, as
    27 bits times 24 fit into a float64 and so does the difference.
    """
    inverse = 1.0 / y
    leading = 2**64 - 2**26
    rest = x
    for _ in range(11):
        quotient = bitcast(bitcast(rint(rest * inverse), dt.uint64) & leading, dt.float64)
        rest = fma(-quotient, y, rest)
    return fma(-rint(rest * inverse), y, rest)


def _modulo_of_any_size(x: Expr, y: Expr) -> Expr:
    """x less a multiple of y, no larger than y, exactly."""
    if x.dtype == dt.float64:
        return call("fmod", x, y)
    wide_x, wide_y = convert(x, dt.float64), convert(y, dt.float64)
    rest = convert(_modulo_in_float64(wide_x, wide_y), dt.float32)
    rest = select((fabs(y) < INF) | is_nan(y), rest, select(fabs(x) < INF, x, NAN))
    return select(eq(y, 0.0), NAN, rest)


def _float_modulo(x: Expr, y: Expr) -> Expr:
    """x modulo y with the sign of y.

    The nearest int to a quotient below 2^24, or 2^53, is off by 3/4 at most, and x less so many y,
    which has no bits below those of x and y, is exact.
    """
    quotient = x / y
    is_large = (fabs(quotient) >= pick(x, 2.0**24, 2.0**53)) & ne(y, 0.0)
    is_within = eq(fabs(y), INF) & (fabs(x) < INF)
    usual = select(is_within, x, fma(-rint(quotient), y, x))
    rest = rarely(is_large, _modulo_of_any_size(x, y), usual)
    wrong_side = (rest < 0.0) ^ (y < 0.0)
    return select(eq(rest, 0.0), with_sign(rest, y), select(wrong_side, rest + y, rest))


@body("remainder")
def remainder(x: Expr, y: Expr) -> Expr:
    """x modulo y with the sign of y; for ints 0 where y = 0."""
    if _is_bool(x):
        return const(False, dt.bool_)
    if _is_float(x):
        return _float_modulo(x, y)
    return _int_quotient_and_rest(x, y)[1]


@body("floor_divide")
def floor_divide(x: Expr, y: Expr) -> Expr:
    """The quotient rounded toward minus infinity; for ints 0 where y = 0."""
    if _is_bool(x):
        return x & y
    if not _is_float(x):
        return _int_quotient_and_rest(x, y)[0]
    # The sign of what the nearest int leaves tells on which side that is. What is left is exact:
    # see _float_modulo, and of quotients that have no fraction, it is what any division leaves.
    quotient = x / y
    nearest = rint(quotient)
    rest = select(eq(fabs(y), INF), x, fma(-nearest, y, x))
    is_above = ne(rest, 0.0) & ((rest < 0.0) ^ (y < 0.0))
    floor = select(is_nan(rest), NAN, select(is_above, nearest - 1.0, nearest))
    return select(eq(y, 0.0), quotient, floor)


@body("abs")
def absolute(x: Expr) -> Expr:
    if _is_float(x):
        return fabs(x)
    return select(x < 0, -x, x) if _is_signed(x) else x


@body("sign")
def sign(x: Expr) -> Expr:
    if _is_bool(x):
        return x
    if not _is_signed(x) and not _is_float(x):
        return select(eq(x, 0), 0, const(1, x.dtype))
    if _is_float(x):
        return select(is_nan(x) | eq(x, 0.0), x, with_sign(const(1.0, x.dtype), x))
    return select(x < 0, -1, select(eq(x, 0), 0, const(1, x.dtype)))


@body("copysign")
def copysign(x: Expr, y: Expr) -> Expr:
    return with_sign(x, y)


# Rounding; integers are round already, but to tens and their like


@body("nextafter")
def nextafter(x: Expr, y: Expr) -> Expr:
    """The bits of a number are those of the next one away from 0, less one."""
    fmt = format_of(x)
    bits = bits_of(x)
    outwards = ((x < y) & (x > 0.0)) | ((y < x) & (x < 0.0))
    moved = bitcast(select(outwards, bits + 1, bits - 1), x.dtype)
    least = with_sign(bitcast(const(1, fmt.bits), x.dtype), y)
    moved = select(eq(x, 0.0), least, moved)
    return select(eq(x, y), y, select(is_nan(x) | is_nan(y), NAN, moved))


@body("floor")
def floor(x: Expr) -> Expr:
    return round_down(x) if _is_float(x) else x


@body("ceil")
def ceil(x: Expr) -> Expr:
    return round_up(x) if _is_float(x) else x


@body("trunc")
def trunc(x: Expr) -> Expr:
    return round_to_zero(x) if _is_float(x) else x


@body("round")
def round_half_even(x: Expr, decimals: int = 0) -> Expr:
    """Rounded half to even, at ``decimals`` digits behind the point (before it, if negative)."""
    if not _is_float(x):
        return x if decimals >= 0 else _int_rounded(x, 10**-decimals)
    if decimals == 0:
        return rint(x)
    power = 10.0 ** abs(decimals)
    if power > float(np.finfo(x.dtype).max):  # beyond all numbers: nothing is left, or all
        return select(fabs(x) < INF, with_sign(const(0.0, x.dtype), x), x) if decimals < 0 else x
    scaled = x * power if decimals > 0 else x / power
    whole = rint(scaled)
    if decimals < 0:
        return select(fabs(scaled) < INF, whole * power, x)
    # a number so large that it is whole when scaled has no digits there to lose
    return select(fabs(scaled) < 2.0 ** np.finfo(x.dtype).nmant, whole / power, x)


def _int_rounded(x: Expr, unit: int) -> Expr:
    """The nearest multiple of ``unit``, of two the even one; wraps as all of ints does."""
    if unit > np.iinfo(x.dtype).max:
        return const(0, x.dtype)
    quotient = binary("quotient", x, const(unit, x.dtype))
    rest = x - quotient * unit
    size = select(rest < 0, 0 - rest, rest)
    is_odd = ne(quotient & 1, 0)
    is_up = (size > unit - size) | (eq(size, unit - size) & is_odd)
    step = select(is_up, const(unit, x.dtype), 0)
    return quotient * unit + select(x < 0, 0 - step, step)


# Comparisons


@body("equal")
def equal(x: Scalar, y: Scalar) -> Expr:
    if isinstance(x, Complex):
        return eq(x.real, y.real) & eq(x.imag, y.imag)
    return eq(x, y)


@body("not_equal")
def not_equal(x: Scalar, y: Scalar) -> Expr:
    if isinstance(x, Complex):
        return ne(x.real, y.real) | ne(x.imag, y.imag)
    return ne(x, y)


@body("less_than")
def less_than(x: Expr, y: Expr) -> Expr:
    return ~x & y if _is_bool(x) else x < y


@body("less_equal")
def less_equal(x: Expr, y: Expr) -> Expr:
    return ~x | y if _is_bool(x) else x <= y


@body("greater_than")
def greater_than(x: Expr, y: Expr) -> Expr:
    return x & ~y if _is_bool(x) else x > y


@body("greater_equal")
def greater_equal(x: Expr, y: Expr) -> Expr:
    return x | ~y if _is_bool(x) else x >= y


# Logic and bits


def truth(x: Scalar) -> Expr:
    """Whether x is not zero (a NaN is not)."""
    if isinstance(x, Complex):
        return ne(x.real, 0.0) | ne(x.imag, 0.0)
    return x if _is_bool(x) else ne(x, 0)


@body("logical_and")
def logical_and(x: Scalar, y: Scalar) -> Expr:
    return truth(x) & truth(y)


@body("logical_or")
def logical_or(x: Scalar, y: Scalar) -> Expr:
    return truth(x) | truth(y)


@body("logical_xor")
def logical_xor(x: Scalar, y: Scalar) -> Expr:
    return truth(x) ^ truth(y)


@body("logical_not")
def logical_not(x: Scalar) -> Expr:
    return ~truth(x)


@body("bitwise_and")
def bitwise_and(x: Expr, y: Expr) -> Expr:
    return x & y


@body("bitwise_or")
def bitwise_or(x: Expr, y: Expr) -> Expr:
    return x | y


@body("bitwise_xor")
def bitwise_xor(x: Expr, y: Expr) -> Expr:
    return x ^ y


@body("bitwise_not")
def bitwise_not(x: Expr) -> Expr:
    return ~x


def _shift_amount(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """``(y inside the width, whether it was outside)``: a wider shift is undefined in hardware."""
    width = 8 * x.dtype.itemsize
    outside = y >= width
    if _is_signed(y):
        outside = outside | (y < 0)
    return select(outside, 0, y), outside


@body("bitwise_left_shift")
def bitwise_left_shift(x: Expr, y: Expr, is_arithmetic: bool = True) -> Expr:
    amount, outside = _shift_amount(x, y)
    return select(outside, 0, x << amount)


@body("bitwise_right_shift")
def bitwise_right_shift(x: Expr, y: Expr, is_arithmetic: bool = True) -> Expr:
    amount, outside = _shift_amount(x, y)
    if not _is_signed(x):
        return select(outside, 0, x >> amount)
    if is_arithmetic:
        return select(outside, select(x < 0, -1, const(0, x.dtype)), x >> amount)
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    shifted = convert(convert(x, unsigned) >> convert(amount, unsigned), x.dtype)
    return select(outside, 0, shifted)


# Classification


@body("isnan")
def isnan(x: Scalar) -> Expr:
    if isinstance(x, Complex):
        return is_nan(x.real) | is_nan(x.imag)
    return is_nan(x) if _is_float(x) else const(False, dt.bool_)


@body("isinf")
def isinf(x: Scalar) -> Expr:
    if isinstance(x, Complex):
        return eq(fabs(x.real), INF) | eq(fabs(x.imag), INF)
    return eq(fabs(x), INF) if _is_float(x) else const(False, dt.bool_)


@body("isfinite")
def isfinite(x: Scalar) -> Expr:
    if isinstance(x, Complex):
        return (fabs(x.real) < INF) & (fabs(x.imag) < INF)
    return fabs(x) < INF if _is_float(x) else const(True, dt.bool_)


# Choice and conversion


@body("where")
def where(condition: Expr, x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Complex):
        return Complex(select(condition, x.real, y.real), select(condition, x.imag, y.imag))
    return select(condition, x, y)


@body("cast")
def cast(x: Scalar, dtype: np.dtype) -> Scalar:
    """x as another dtype; complex to real takes the real part, to bool asks for x != 0."""
    if not isinstance(x, Complex) and x.dtype in dt.STORAGE:
        return x if x.dtype == dtype else cast(number_of(x), dtype)
    if isinstance(x, Complex):
        if dtype == dt.bool_:
            return truth(x)
        if dtype.kind != "c":
            return cast(x.real, dtype)
        part = dt.real_dtype(dtype)
        return Complex(convert(x.real, part), convert(x.imag, part))
    if dtype.kind == "c":
        part = dt.real_dtype(dtype)
        return Complex(convert(x, part), const(0.0, part))
    if dtype in dt.STORAGE:
        return stored(x, dtype)
    if dtype in (dt.float16, dt.bfloat16):  # these are dtypes of memory alone
        # a float32 in between would round twice
        is_wide = dtype == dt.float16 and x.dtype == dt.float64
        return convert(convert(x, dtype), dt.float32) if is_wide else convert(x, dt.float32)
    return convert(x, dtype)


@body("bitcast")
def bits_as(x: Expr, dtype: np.dtype) -> Expr:
    """The bits of x as another dtype."""
    return bitcast(x, dtype)
