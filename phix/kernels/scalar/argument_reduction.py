"""Angles modulo pi/2, for every finite number; far ones, which are rare, in a way of their own."""

from __future__ import annotations

from itertools import pairwise

from phix.core import dtypes as dt
from phix.kernels.scalar.floating import (
    INF,
    fast_two_sum,
    round_to_integer,
    two_product,
    two_sum,
)
from phix.kernels.scalar.language import Expr, bitcast, cast, const, fma, ne, rint, select

_TWO_PI = 6.283185307179586
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)

# 1 / (2 pi) in pieces of 29, 29, 29 and 53 bits: a 24-bit number times one of the first three is
# exact in float64. The first row has the bits from 2^-3 on, the second those from 2^-58 on; for
# an x >= 2^80 the bits above that contribute whole turns.
_TURN_PIECES = (
    (0.15915494272485375, 3.6704158115630214e-10, 5.690025167992954e-19, 1.470303687279978e-27),
    (4.038449463906148e-18, 6.31706507132483e-27, 1.7633044837708364e-35, 2.897178338357036e-44),
)


# From here on angles are far: below, a pi/2 of two parts (float32) or three (float64) is enough.
_FAR = 2.0**45


def is_far(a: Expr) -> Expr:
    """Whether an a >= 0 is reduced in the way of far ones."""
    return (a >= _FAR) & (a < INF)


def reduce_single(a: Expr) -> tuple[Expr, Expr]:
    """``(quadrant, r)`` of a float32 a >= 0: a = quadrant pi/2 + r, with r as a float64.

    quadrant is in the low bits of a uint32.
    """
    wide = cast(a, dt.float64)
    n, bits = round_to_integer(wide, 1.0 / _HALF_PI[0])
    # the first difference is exact: what is left has no bits beyond those of n times its pi/2
    return cast(bits, dt.uint32), fma(-n, _HALF_PI[1], fma(-n, _HALF_PI[0], wide))


def reduce_far_single(a: Expr) -> tuple[Expr, Expr]:
    """reduce_single for every a."""
    wide = cast(a, dt.float64)
    large = wide >= 2.0**80
    pieces = [
        wide * select(large, far, const(near, dt.float64)) for near, far in zip(*_TURN_PIECES)
    ]
    parts = [turns - rint(turns) for turns in pieces[:3]] + pieces[3:]
    quadrant = rint(4.0 * (parts[0] + (parts[1] + parts[2])))
    rest = fma(quadrant, -0.25, parts[0])
    for part in parts[1:]:
        rest = rest + part
    _, bits = round_to_integer(cast(quadrant, dt.float32), 1.0)
    return bits, rest * _TWO_PI


# 2^-7 / (2 pi) in words of 64 bits, the leading one first
_TURN_WORDS = (
    0x00517CC1B727220A,
    0x94FE13ABE8FA9A6E,
    0xE06DB14ACC9E21C8,
    0x20FF28B1D5EF5DE2,
    0xB0DB92371D2126E9,
    0x700324977504E8C9,
    0x0E7F0EF58E5894D3,
    0x9F74411AFA975DA2,
    0x4274CE38135A2FBF,
    0x209CC8EB1CC1A99C,
    0xFA4E422FC5DEFC94,
    0x1D8FFC4BFFEF02CC,
    0x07F79788C5AD0536,
    0x8FB69B3F6793E584,
    0xDBA7A31FB34F2FF5,
    0x16BA93DD63F5F2F8,
    0xBD9E839CFBC52949,
    0x7535FDAFD88FC6AE,
    0x842B0198237E3DB5,
)
_WORD32 = 2**32 - 1


def reduce_double(a: Expr) -> tuple[Expr, Expr, Expr]:
    """``(quadrant, r, low)`` of a float64 a >= 0: a = quadrant pi/2 + r + low.

    quadrant is in the low bits of a uint64.
    """
    n, bits = round_to_integer(a, 1.0 / _HALF_PI[0])
    first = fma(-n, _HALF_PI[0], a)
    # exact: the first part takes a down to bits that n times it has, too
    middle, rest = two_product(n, _HALF_PI[1])
    r, lost = two_sum(first, -middle)
    return bits, *fast_two_sum(r, fma(-n, _HALF_PI[2], lost - rest))


def _window(position: Expr) -> list[Expr]:
    """Three words of _TURN_WORDS from the bit ``position`` on, below 1024."""
    words = [const(w, dt.uint64) for w in _TURN_WORDS]
    for step in (8, 4, 2, 1):
        further = ne(position & (64 * step), 0)
        words = [select(further, w, v) for v, w in zip(words, words[step:])]
    left = position & 63
    right = left ^ 63
    return [(v << left) | ((w >> 1) >> right) for v, w in pairwise(words[:4])]


def reduce_far_double(a: Expr) -> tuple[Expr, Expr, Expr]:
    """reduce_double of far angles: the mantissa times the bits of 1/(2 pi) that matter.

    With a = m 2^k, bits of 1/(2 pi) above 2^-k contribute whole turns. The product with the
    192 bits behind them is kept modulo 1 turn to about 2^-125.
    """
    bits = bitcast(a, dt.uint64)
    m = (bits & (2**52 - 1)) | 2**52
    first, second, third = _window(((bits >> 52) - 1068) & 1023)
    m_high, m_low = m >> 32, m & _WORD32
    high, low = second >> 32, second & _WORD32
    outer, inner, cross = m_high * high, m_low * low, (m_low * high, m_high * low)
    middle = (inner >> 32) + (cross[0] & _WORD32) + (cross[1] & _WORD32)
    second_low = (middle << 32) | (inner & _WORD32)
    second_high = outer + (cross[0] >> 32) + (cross[1] >> 32) + (middle >> 32)
    high, low = third >> 32, third & _WORD32
    third_high = m_high * high + ((m_low * high) >> 32) + ((m_high * low) >> 32)
    fraction_low = second_low + third_high
    fraction = m * first + second_high + cast(fraction_low < third_high, dt.uint64)
    # quadrants: the two leading bits, after rounding
    shifted = fraction + 2**61
    rest = shifted & (2**62 - 1)
    r = (_to_float(rest >> 32) - 2.0**29) * 2.0**-30
    r, lost = fast_two_sum(r, _to_float(rest & _WORD32) * 2.0**-62)
    tail = _to_float(fraction_low & _WORD32) * 2.0**-126
    tail = fma(_to_float(fraction_low >> 32), 2.0**-94, tail) + lost
    r, tail = fast_two_sum(r, tail)
    product, error = two_product(r, _HALF_PI[0])
    low = fma(r, _HALF_PI[1], fma(tail, _HALF_PI[0], error))
    return shifted >> 62, *fast_two_sum(product, low)


def _to_float(x: Expr) -> Expr:
    """A uint64 below 2^52 as a float64, without a conversion instruction."""
    return bitcast(x | 0x4330000000000000, dt.float64) - 2.0**52
