"""LLVM text of roots of unity, each rounded once: sines and cosines in pairs of float64.

An angle is brought into the first eighth of the circle by int64 arithmetic, which is exact. There
the series of sine and cosine are summed in float64, but for their first terms, which make all of
the error: they are pairs, high + low, of which the low part holds what the high one leaves.
"""

from __future__ import annotations

import math
from fractions import Fraction

from phix.kernels.cpu.fourier_text import Lanes

# Roots that are computed side by side.
LANES = 4
_TERMS, _IN_PAIRS = 11, 3
# pi / 2 as a sum of two float64s
_QUARTER = (1.5707963267948966, 6.123233995736766e-17)

High = tuple[str, str]


class _Pairs(Lanes):
    """Arithmetic of pairs of float64 (T. J. Dekker, Numer. Math. 18, 1971; with fma)."""

    def exact(self, a: str, b: str, c: str) -> str:
        """a b + c, rounded once."""
        v = self.vector
        return self.let(f"call {v} @llvm.fma.v{self.lanes}f64({v} {a}, {v} {b}, {v} {c})")

    def quick_sum(self, a: str, b: str) -> High:
        """The pair a + b, where a is the larger one."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def product(self, a: High, b: High) -> High:
        high = self.mul(a[0], b[0])
        low = self.exact(a[0], b[0], self.negated(high))
        low = self.exact(a[0], b[1], low)
        return self.quick_sum(high, self.exact(a[1], b[0], low))

    def total(self, a: High, b: High) -> High:
        """a + b, where a is the larger one."""
        high, low = self.quick_sum(a[0], b[0])
        return self.quick_sum(high, self.add(low, self.add(a[1], b[1])))

    def constant(self, value: Fraction) -> High:
        high = float(value)
        return self.number(high), self.number(float(value - Fraction(high)))

    def series(self, square: High, first: int) -> High:
        """sum_k (-square)^k / (2 k + first)!"""
        terms = [Fraction((-1) ** k, math.factorial(2 * k + first)) for k in range(_TERMS)]
        rest = self.number(float(terms[-1]))
        for term in reversed(terms[_IN_PAIRS:-1]):
            rest = self.fma(rest, square[0], self.number(float(term)))
        found: High = (rest, self.number(0.0))
        for term in reversed(terms[:_IN_PAIRS]):
            found = self.total(self.constant(term), self.product(found, square))
        return found


def text(kind: str, size: int) -> list[str]:
    """The function ``@roots``, and what it declares.

    ``roots(re, im, order, step, squared, count)``: exp(-2 pi i k / order) for j = 0, ..., count - 1
    with k = step j, or j j where ``squared`` is 1; modulo order. Whole vectors are written.
    """
    t = _Pairs("double", 8, LANES)
    with t.loop(0, "%count", LANES) as start:
        t.head.append(f"  %turns = alloca [{LANES} x double], align 32")
        t.head.append(f"  %places = alloca [{LANES} x i64], align 32")
        with t.loop(0, LANES) as lane:
            _place(t, t.op("add", start, lane), lane)
        _vector(t, start, kind, size)
    takes = "ptr %re, ptr %im, i64 %order, i64 %step, i64 %squared, i64 %count"
    wide = f"<{LANES} x double>"
    return [
        f"declare {wide} @llvm.fma.v{LANES}f64({wide}, {wide}, {wide})",
        f"declare {wide} @llvm.fmuladd.v{LANES}f64({wide}, {wide}, {wide})",
        t.function(f"@roots({takes}) noinline"),
    ]


def _place(t: _Pairs, j: str, lane: str) -> None:
    """Where on the circle: how far into which eighth, the quarter times 2 and 1 if mirrored."""
    is_squared = t.let("icmp ne i64 %squared, 0")
    factor = t.let(f"select i1 {is_squared}, i64 {j}, i64 %step")
    k = t.op("urem", t.op("mul", j, factor), "%order")
    four = t.op("mul", k, 4)
    quarter = t.op("udiv", four, "%order")
    rest = t.op("sub", four, t.op("mul", quarter, "%order"))
    other = t.op("sub", "%order", rest)
    is_mirrored = t.let(f"icmp slt i64 {other}, {rest}")
    near = t.let(f"select i1 {is_mirrored}, i64 {other}, i64 {rest}")
    place = t.op("add", t.op("mul", quarter, 2), t.let(f"zext i1 {is_mirrored} to i64"))
    t.put(f"store i64 {place}, ptr {t.word('%places', lane)}")
    t.put(f"store double {t.let(f'sitofp i64 {near} to double')}, ptr {t.at('%turns', lane)}")


def _vector(t: _Pairs, start: str, kind: str, size: int) -> None:
    near, zero = t.load("%turns", LANES), t.number(0.0)
    order = t.everywhere(t.let("sitofp i64 %order to double"))
    high = t.let(f"fdiv {t.vector} {near}, {order}")
    rest = t.exact(t.negated(high), order, near)
    part = t.quick_sum(high, t.let(f"fdiv {t.vector} {rest}, {order}"))
    quarter = t.number(_QUARTER[0]), t.number(_QUARTER[1])
    angle = t.product(part, quarter)
    square = t.product(angle, angle)
    sine = t.product(angle, t.series(square, 1))[0]
    cosine = t.series(square, 0)[0]
    wide = f"<{LANES} x i64>"
    places = t.let(f"load {wide}, ptr %places, align 8")

    def has(bits: int, *values: int) -> str:
        """Whether those bits of a place are one of the values."""
        found = []
        own = t.let(f"and {wide} {places}, {_ints(bits)}")
        for value in values:
            found.append(t.let(f"icmp eq {wide} {own}, {_ints(value)}"))
        return found[0] if len(found) == 1 else t.let(f"or <{LANES} x i1> {found[0]}, {found[1]}")

    def select(condition: str, a: str, b: str) -> str:
        return t.let(f"select <{LANES} x i1> {condition}, {t.vector} {a}, {t.vector} {b}")

    # mirrored at the eighth, or turned by an odd number of quarters: sine and cosine change places
    is_crossed = has(3, 1, 2)
    real, imaginary = select(is_crossed, sine, cosine), select(is_crossed, cosine, sine)
    less = t.let(f"fsub {t.vector} {zero}, {real}")
    real = select(has(6, 2, 4), less, real)
    minus = t.let(f"fsub {t.vector} {zero}, {imaginary}")
    imaginary = select(has(6, 4, 6), imaginary, minus)  # of the conjugate
    for value, to in ((real, "%re"), (imaginary, "%im")):
        narrow = value
        if kind != "double":
            narrow = t.let(f"fptrunc {t.vector} {value} to <{LANES} x {kind}>")
        at = t.let(f"getelementptr inbounds {kind}, ptr {to}, i64 {start}")
        t.put(f"store <{LANES} x {kind}> {narrow}, ptr {at}, align {size}")


def _ints(value: int) -> str:
    return f"<{', '.join([f'i64 {value}'] * LANES)}>"
