"""Pieces of floating-point arithmetic that the scalar bodies share.

Engines may contract ``a * b + c`` into one rounding. What depends on a rounding being there, or
on there being only one, is therefore written with ``fma``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.scalar.language import Expr, Scalar, bitcast, const, fabs, fma, ne, select

_T = TypeVar("_T")


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: ``mantissa`` stored bits, exponent ``bias``."""

    dtype: np.dtype
    bits: np.dtype
    mantissa: int
    bias: int
    max: float
    min_normal: float
    epsilon: float

    @property
    def sign_mask(self) -> int:
        return 1 << (8 * self.dtype.itemsize - 1)

    @property
    def to_integer(self) -> float:
        """Adding this leaves a number rounded to an integer, with the integer in the low bits."""
        return 1.5 * 2.0**self.mantissa


FLOAT32 = Format(dt.float32, dt.uint32, 23, 127, 3.4028234663852886e38, 2.0**-126, 2.0**-23)
FLOAT64 = Format(dt.float64, dt.uint64, 52, 1023, 1.7976931348623157e308, 2.0**-1022, 2.0**-52)
_FORMATS = {dt.float32: FLOAT32, dt.float64: FLOAT64}

INF = float("inf")
NAN = float("nan")


def format_of(x: Expr) -> Format:
    return _FORMATS[x.dtype]


def pick(x: Expr, single: _T, double: _T) -> _T:
    """The first for a float32 ``x``, the second for a float64 one."""
    return single if x.dtype == dt.float32 else double


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """``c[0] + c[1] x + c[2] x^2 + ...``"""
    result = const(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def bits_of(x: Expr) -> Expr:
    return bitcast(x, format_of(x).bits)


def at_most(x: Expr, bound: float) -> Expr:
    """min(x, bound); a NaN stays."""
    return select(const(bound, x.dtype) < x, bound, x)


def at_least(x: Expr, bound: float) -> Expr:
    """max(x, bound); a NaN stays."""
    return select(const(bound, x.dtype) > x, bound, x)


def is_nan(x: Expr) -> Expr:
    return ne(x, x)


def is_tiny(x: Expr) -> Expr:
    """Whether x is so small that odd functions with slope 1 at 0 are the identity there."""
    return fabs(x) < pick(x, 2.0**-13, 2.0**-28)


def flip_sign(x: Expr, sign_bits: Expr) -> Expr:
    """``x`` negated where the top bit of ``sign_bits`` (same width, unsigned) is set."""
    fmt = format_of(x)
    return bitcast(bits_of(x) ^ (sign_bits & fmt.sign_mask), x.dtype)


def round_to_integer(x: Expr, factor: float, bias: int = 0) -> tuple[Expr, Expr]:
    """``x * factor`` rounded to an integer: as a float, and in the low bits of an unsigned int.

    There it stands with ``bias`` added, at no cost.

    Good for results below 2^22 (float32) or 2^51 (float64); without a conversion instruction,
    which float64 has none of on older vector units, and which is undefined on NaN.
    """
    fmt = format_of(x)
    to_integer = fmt.to_integer + bias
    shifted = fma(x, factor, to_integer)
    return shifted - to_integer, bits_of(shifted)


def offset(n: Expr, k: int) -> Expr:
    """``n + k`` of an unsigned int, wrapping."""
    if k == 0:
        return n
    return n + k if k > 0 else n - (-k)


def power_of_two(n: Expr, k: int = 0, *, like: Expr) -> Expr:
    """2^(n + k) in the dtype of ``like``; ``n`` an unsigned int whose low bits count."""
    fmt = format_of(like)
    return bitcast(offset(n, k + fmt.bias) << fmt.mantissa, like.dtype)


def scale_by_power(x: Expr, n: Expr, tiny: Expr) -> Expr:
    """``x * 2^n`` for an x of about 1, rounded once into the subnormals and up to infinity.

    ``n`` is an unsigned int whose low bits count; ``tiny`` says that the result may be
    subnormal, and holds for no n > 0 and every n <= 1 - bias.
    """
    fmt = format_of(x)
    up = fmt.mantissa + 41
    biased = n + select(tiny, const(up + fmt.bias, fmt.bits), const(fmt.bias - 1, fmt.bits))
    partial = x * bitcast(biased << fmt.mantissa, x.dtype)
    return partial * select(tiny, const(2.0**-up, x.dtype), const(2.0, x.dtype))


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """``(k, m)`` with x = m 2^k, sqrt(1/2) <= m < sqrt(2), k a float; x positive and finite."""
    fmt = format_of(x)
    up = fmt.mantissa + 2
    subnormal = x < fmt.min_normal
    bits = bits_of(select(subnormal, x * 2.0**up, x))
    sqrt_half = pick(x, 0x3F3504F3, 0x3FE6A09E667F3BCD)
    one = fmt.bias << fmt.mantissa
    shifted = bits + (one - sqrt_half)
    m = bitcast((shifted & ((1 << fmt.mantissa) - 1)) + sqrt_half, x.dtype)
    # the exponent becomes a float by being put into the mantissa of 2^mantissa
    anchor = (fmt.bias + fmt.mantissa) << fmt.mantissa
    k = bitcast((shifted >> fmt.mantissa) | anchor, x.dtype)
    base = 2.0**fmt.mantissa + fmt.bias
    return k - select(subnormal, const(base + up, x.dtype), const(base, x.dtype)), m


def fast_two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """``(s, e)`` with s + e = a + b exactly, s the rounded sum; |a| >= |b| or a = 0."""
    s = a + b
    return s, b - (s - a)


def two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """``(s, e)`` with s + e = a + b exactly, s the rounded sum."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Expr, b: Scalar) -> tuple[Expr, Expr]:
    """``(p, e)`` with p + e = a * b exactly, p the rounded product."""
    p = fma(a, b, 0.0)  # a plain product could be contracted into a sum it is used in
    return p, fma(a, b, -p)
