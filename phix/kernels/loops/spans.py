"""Which stretch of memory each iteration of a loop stays in, proved from bounds of its indices.

A box in rows and what lies around it are written by several loops, each at its own offset into a
row: ``n * i + 1 + j`` and ``n * i + n - 1``. Their iterations ``i`` touch the same row and no
other. Sizes, and the bounds of a linear index, are polynomials of dims, which are at least 0: one
whose coefficients are all at least 0 is at least 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from phix.kernels.scalar.language import Expr

Monomial = tuple[str, ...]  # names in order, one as often as its power
Polynomial = dict[Monomial, int]  # no coefficient is 0

# More terms than that are not worth the time.
_MOST_TERMS = 64


class _Span(NamedTuple):
    """From ``low`` to ``high`` in the stretch of ``stride`` elements that an iteration has.

    ``around`` are the terms of loops around the one in question.
    """

    stride: Polynomial
    around: Polynomial
    low: Polynomial
    high: Polynomial


def share_stretches(touched: Iterable[tuple[Expr, dict[Expr, Expr]]], index: Expr) -> bool:
    """Whether iteration ``i`` of the loops over ``index`` stays in a stretch that is its own.

    ``touched`` are the linear indices of a buffer with the extents of the loops inside, as
    :func:`phix.kernels.loops.affine.accesses` gives them. The stretches lie side by side:
    there is a start with ``start + stride * i <= linear < start + stride * (i + 1)`` for all.
    """
    spans = set()
    found = []
    for linear, extents in touched:
        span = _span(linear, index, extents)
        if span is None:
            return False
        if (key := tuple(frozenset(p.items()) for p in span)) not in spans:
            spans.add(key)
            found.append(span)
    if not found:
        return False
    stride, around = found[0].stride, found[0].around
    if any(s.stride != stride or s.around != around for s in found):
        return False
    starts = (s.low for s in found if all(_is_at_least(t.low, s.low) for t in found))
    start = next(starts, None)
    if start is None:
        return False
    end = _sum(start, stride)
    return all(_is_at_least(end, _sum(s.high, {(): 1})) for s in found)


def _span(linear: Expr, index: Expr, extents: dict[Expr, Expr]) -> _Span | None:
    """What one access touches in an iteration; None where that is no matter of polynomials."""
    total = _polynomial(linear)
    if total is None:
        return None
    inner = {str(v.data): extent for v, extent in extents.items() if v is not index}
    own = str(index.data)
    stride: Polynomial = {}
    around: Polynomial = {}
    low: Polynomial = {}
    slopes: dict[str, Polynomial] = {}
    for monomial, coefficient in total.items():
        loops = [name for name in monomial if name == own or name in inner]
        if not loops:
            at = around if any(map(_is_index, monomial)) else low
            at[monomial] = coefficient
            continue
        rest = list(monomial)
        rest.remove(loops[0])
        if len(loops) > 1 or any(map(_is_index, rest)):
            return None
        slope = stride if loops[0] == own else slopes.setdefault(loops[0], {})
        slope[tuple(rest)] = coefficient
    high = low
    for name, slope in slopes.items():
        extent = _polynomial(inner[name])
        if extent is None or not _is_at_least(slope, {}) or any(map(_has_index, extent)):
            return None
        high = _sum(high, _product(slope, _sum(extent, {(): -1})))
    return _Span(stride, around, low, high)


def _is_index(name: str) -> bool:
    return name[0] == "i" and name[1:].isdigit()


def _has_index(monomial: Monomial) -> bool:
    return any(map(_is_index, monomial))


def _polynomial(e: Expr) -> Polynomial | None:
    """An integer expression as a polynomial of dims and loop indices; None if it is none."""
    if e.fn == "const":
        return {(): int(e.data)} if e.data else {}
    if e.fn == "var":
        # a mutable scalar has no one value
        is_mutable = e.data[0] == "a" and e.data[1:].isdigit()
        return None if is_mutable else {(str(e.data),): 1}
    if e.fn not in ("add", "sub", "mul"):
        return None
    a, b = map(_polynomial, e.args)
    if a is None or b is None or len(a) * len(b) > _MOST_TERMS:
        return None
    if e.fn == "mul":
        return _product(a, b)
    return _sum(a, b, 1 if e.fn == "add" else -1)


def _sum(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    """``a + sign * b``."""
    total = Counter(a)
    for monomial, coefficient in b.items():
        total[monomial] += sign * coefficient
    return {m: c for m, c in total.items() if c}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Counter[Monomial] = Counter()
    for m, c in a.items():
        for n, d in b.items():
            total[tuple(sorted(m + n))] += c * d
    return {m: c for m, c in total.items() if c}


def _is_at_least(a: Polynomial, b: Polynomial) -> bool:
    """Whether ``a >= b`` for all dims, as far as the coefficients tell."""
    return all(c > 0 for c in _sum(a, b, -1).values())
