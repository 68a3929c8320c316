"""Numbers of dtypes for storage alone, of 8 bits and less: out of their bits and into them.

In registers they are what they are in memory, a byte, so that what moves them moves that. Floats
round to the nearest one, half to even, from float32, which holds each of them; ints keep their low
bits. All of this is as ml_dtypes has it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.scalar.floating import NAN
from phix.kernels.scalar.language import Expr, bitcast, const, eq, fabs, ne, select, unary
from phix.kernels.scalar.language import cast as convert

_BYTE, _WORD = dt.uint8, dt.uint32


class SmallFloat(NamedTuple):
    """A sign bit, then an exponent with its bias, then ``mantissa`` bits."""

    mantissa: int
    bias: int
    infinity: int  # the first bits that are no finite number, without the sign
    nan: int

    @property
    def shift(self) -> int:
        """How much shorter its fraction is than that of float32."""
        return 23 - self.mantissa

    @property
    def rebias(self) -> int:
        return (127 - self.bias) << self.mantissa


_FLOATS = {
    dt.float8_e4m3fn: SmallFloat(3, 7, 0x7F, 0x7F),
    dt.float8_e5m2: SmallFloat(2, 15, 0x7C, 0x7E),
}


def number_of(x: Expr) -> Expr:
    """What a stored number is: a float32, or an int8."""
    byte = bitcast(x, _BYTE)
    form = _FLOATS.get(x.dtype)
    if form is None:  # the low four bits, of which the highest is the sign
        return convert((byte & 15) ^ 8, dt.int8) - 8
    word = convert(byte, _WORD)
    size = word & 0x7F
    below = convert(size, dt.float32) * 2.0 ** (1 - form.bias - form.mantissa)
    usual = bitcast((size + form.rebias) << form.shift, dt.float32)
    found = select(size < (1 << form.mantissa), below, usual)
    if form.nan != form.infinity:
        found = select(eq(size, form.infinity), float("inf"), found)
    found = select(size > form.nan - 1 if form.nan == form.infinity else size > form.infinity, NAN,
                   found)  # fmt: skip
    sign = (word & 0x80) << 24
    return bitcast(bitcast(found, _WORD) | sign, dt.float32)


def stored(x: Expr, dtype: np.dtype) -> Expr:
    """A number as one of a dtype for storage."""
    form = _FLOATS.get(dtype)
    byte = _low_bits(x) if form is None else _rounded(convert(x, dt.float32), form)
    return bitcast(byte, dtype)


def _low_bits(x: Expr) -> Expr:
    if x.dtype.kind == "f":  # what no int holds is 0
        x = convert(select(fabs(x) < 2.0**31, x, 0.0), dt.int32)
    return convert(x, _BYTE) & 15


def _rounded(x: Expr, form: SmallFloat) -> Expr:
    bits = bitcast(x, _WORD)
    size = bits & 0x7FFFFFFF
    odd = (size >> form.shift) & 1
    usual = ((size + ((1 << (form.shift - 1)) - 1) + odd) >> form.shift) - form.rebias
    usual = select(usual < form.infinity, usual, form.infinity)
    is_small = size < const((127 - form.bias + 1) << 23, _WORD)
    small = select(is_small, fabs(x), 0.0) * 2.0 ** (form.bias - 1 + form.mantissa)
    below = convert(unary("rint", small), _WORD)
    found = select(is_small, below, select(ne(x, x), form.nan, usual))
    return convert(found | ((bits >> 24) & 0x80), _BYTE)
