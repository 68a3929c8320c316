"""Indices as sums of loop indices times strides, and what can be proved from them.

A stride is a product of dims and a number: ``Factors`` are the sorted names and the number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, For, Statement, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Factors = tuple[tuple[str, ...], int]
SliceForm = tuple[Factors, frozenset[tuple[Expr, Factors]]]
UNIT: Factors = ((), 1)


def accesses(
    buffer: Buffer, body: list[Statement], extents: dict[Expr, Expr]
) -> Iterator[tuple[Expr, dict[Expr, Expr]]]:
    """Each linear index at which a block touches the buffer, and the extents of its inner loops.

    Of statements side by side, each index once.
    """
    seen: set[Expr] = set()
    for s in body:
        if isinstance(s, For):
            yield from accesses(buffer, s.body, {**extents, s.index: s.extent})
        elif isinstance(s, (ir.If, ir.While)):
            yield from accesses(buffer, s.body, extents)
        loads = [load for root in ir.roots(s) for load in root.loads if load.data is buffer]
        own = [s.indices[0]] if isinstance(s, Store) and s.buffer is buffer else []
        for linear in (*own, *(load.args[0] for load in loads)):
            if linear not in seen:
                seen.add(linear)
                yield linear, extents


def slice_form(linear: Expr, index: Expr, extents: dict[Expr, Expr]) -> SliceForm | None:
    """The stride of ``index`` in a linear index, and the terms of the loops around it.

    None unless the inner terms together stay below that stride.
    """
    terms, constants = linear_form(linear, clamped=True) or ({}, frozenset())
    if constants or index not in terms:
        return None
    stride = terms.pop(index)
    sizes = {v: extents[v] if v in extents else clamped_extent(v) for v in terms}
    inner = {v: f for v, f in terms.items() if sizes[v] is not None}
    outer = frozenset((v, f) for v, f in terms.items() if v not in inner)
    covered: Factors = UNIT
    while inner:
        following = next((v for v, f in inner.items() if f == covered), None)
        if following is None:
            return None
        del inner[following]
        size = sizes[following]
        extent = None if size is None else factors(size)
        if extent is None:
            return None
        covered = times(covered, extent)
    if covered != stride and not divides(covered, stride):
        return None
    return stride, outer


def size_expr(size: Factors) -> Expr:
    """A size as an expression."""
    total = sc.const(size[1], dt.int64)
    for name in size[0]:
        total = total * sc.var(name)
    return total


def divides(a: Factors, b: Factors) -> bool:
    """Whether ``b`` is a multiple of ``a`` for any sizes."""
    if a[1] == 0 or b[1] % a[1]:
        return False
    return not a[0] or not Counter(a[0]) - Counter(b[0])


def times(a: Factors, b: Factors) -> Factors:
    """The product of two sizes."""
    names = tuple(sorted(a[0] + b[0])) if a[0] and b[0] else a[0] or b[0]
    return names, a[1] * b[1]


def over(a: Factors, b: Factors) -> Factors:
    """``a / b``, which :func:`divides` says is a size."""
    names = tuple(sorted((Counter(a[0]) - Counter(b[0])).elements())) if b[0] else a[0]
    return names, a[1] // b[1]


def index_terms(linear: Expr) -> dict[Expr, Factors] | None:
    """``linear`` as a sum of loop indices times strides; None if it is anything else."""
    found = linear_form(linear)
    return found[0] if found is not None and not found[1] else None


def clamped_extent(e: Expr) -> Expr | None:
    """``n`` if ``e`` is max(min(.., n - 1), 0), an index from the data kept inside; else None."""
    if e.fn != "maximum" or e.args[1] is not ir.ZERO or e.args[0].fn != "minimum":
        return None
    last = e.args[0].args[1]
    if last.fn == "const":
        return last + 1
    is_less_one = last.fn == "sub" and last.args[1] is ir.ONE
    return last.args[0] if is_less_one else None


def linear_form(
    linear: Expr, *, clamped: bool = False
) -> tuple[dict[Expr, Factors], frozenset[Factors]] | None:
    """``linear`` as a sum of loop indices times strides, and the constant terms beside them.

    ``clamped``: indices from the data that :func:`clamped_extent` bounds may be terms too.
    """
    terms: dict[Expr, Factors] = {}
    constants: set[Factors] = set()
    stack = [(linear, UNIT)]
    while stack:
        e, scale = stack.pop()
        if e.fn == "add":
            stack += [(a, scale) for a in e.args]
        elif e.fn == "mul":
            # one factor is an index or a sum of them, the other a size
            left, right = e.args
            by_left, by_right = factors(left), factors(right)
            if by_right is not None:
                stack.append((left, times(scale, by_right)))
            elif by_left is not None:
                stack.append((right, times(scale, by_left)))
            else:
                return None
        elif e.fn == "const" and (size := times(scale, ((), int(e.data)))) not in constants:
            constants.add(size)
        elif e not in terms and (e.fn == "var" or (clamped and clamped_extent(e) is not None)):
            terms[e] = scale
        else:
            return None
    return terms, frozenset(constants)


def _is_index(e: Expr) -> bool:
    return bool(e.data[0] == "i" and e.data[1:].isdigit())


def factors(size: Expr) -> Factors | None:
    """A size as a product of dims and a number; None if it is anything else."""
    if size.fn == "const":
        return (), int(size.data)
    if size.fn == "var":
        return None if _is_index(size) else ((str(size.data),), 1)
    if size.fn != "mul":
        return None
    a, b = (factors(x) for x in size.args)
    return None if a is None or b is None else times(a, b)


def is_one_digit(
    buffer: Buffer, index: Expr, block: list[Statement], extents: dict[Expr, Expr]
) -> bool:
    """Whether ``index`` is one and the same digit wherever the block touches the buffer.

    A linear index is a mixed-radix number. If a loop's index is always the same digit of it, no
    two iterations of the loop touch the same element. Where its length is no product of dims, as
    that of a loop over blocks of ``n`` rows, it is the highest digit or none.
    """
    own = factors(extents[index])
    strides = set()
    for linear, sizes in accesses(buffer, block, extents):
        form = linear_form(linear, clamped=True)
        stride = None if form is None else stride_of(form[0], index, own, sizes)
        if form is None or stride is None:
            return False
        strides.add((stride, form[1]))
    return len(strides) == 1


def stride_of(
    terms: dict[Expr, Factors], index: Expr, own: Factors | None, sizes: dict[Expr, Expr]
) -> Factors | None:
    """What ``index``, below ``own``, is multiplied with, if it is a digit of the sum of ``terms``.

    ``own`` None: nothing is known of how far it goes, so that no digit is above it.
    """
    if index not in terms:
        return None
    stride = terms[index]
    lower = {v: f for v, f in terms.items() if v is not index}
    if own is not None:
        above = times(stride, own)
        lower = {v: f for v, f in lower.items() if not divides(above, f)}
    covered = UNIT
    while lower:
        following = next((v for v, f in lower.items() if divides(covered, f)
                          and all(divides(f, g) for g in lower.values())), None)  # fmt: skip
        if following is None:
            return None
        extent = sizes[following] if following in sizes else clamped_extent(following)
        scale = lower.pop(following)
        size = None if extent is None else _of_all_tiles(extent, scale, lower) or _most(extent)
        if size is None:
            return None
        covered = times(scale, size)
    return stride if divides(covered, stride) else None


def _of_all_tiles(extent: Expr, scale: Factors, lower: dict[Expr, Factors]) -> Factors | None:
    """The size that tiles together have, if ``extent`` is that of one of them, whose number is
    among the terms ``lower``, and taken out of them: the last tile may be shorter."""
    if extent.fn != "minimum" or extent.args[0].fn != "sub":
        return None
    (whole, start), most = extent.args[0].args, factors(extent.args[1])
    tile, length = start.args if start.fn == "mul" else (None, None)
    if tile not in lower or most is None or length is not extent.args[1]:
        return None
    size = factors(whole)
    if size is None or lower[tile] != times(scale, most):
        return None
    del lower[tile]
    return size


def _most(extent: Expr) -> Factors | None:
    """A bound of a loop's length: that of a tile is its full size."""
    if extent.fn == "minimum":
        return next((f for f in map(factors, extent.args) if f is not None), None)
    return factors(extent)


def never_repeats(linear: Expr, loops: list[For]) -> bool:
    """Whether no two iterations of the loops have the same linear index."""
    if not loops:
        return True
    extents = {loop.index: loop.extent for loop in loops}
    moving = _moving(linear, set(extents))
    terms = index_terms(moving) if moving is not None else None
    if moving is None or terms is None or terms.keys() != extents.keys():
        return False
    if any(names for names, _ in terms.values()):
        inner = {v: e for v, e in extents.items() if v is not loops[0].index}
        return slice_form(moving, loops[0].index, inner) is not None
    reach: float = 0  # of the indices with smaller strides
    for index, (_, stride) in sorted(terms.items(), key=lambda term: term[1][1]):
        if stride <= reach:
            return False
        extent = extents[index]
        reach += (extent.data - 1) * stride if extent.fn == "const" else math.inf
    return True


def _moving(e: Expr, indices: set[Expr]) -> Expr | None:
    """An index without the terms that these loops leave as they are; None if it is no sum."""
    if e in indices:
        return e
    is_still = [_is_still(a, indices) for a in e.args]
    if all(is_still):
        return None
    if e.fn in ("add", "sub") and any(is_still):
        return _moving(e.args[is_still.index(False)], indices)
    parts = [a if still else _moving(a, indices) for a, still in zip(e.args, is_still)]
    if e.fn not in ("add", "sub", "mul") or None in parts:
        return None
    # which way an index runs makes no difference to where it meets itself
    return sc.binary("add" if e.fn == "sub" else e.fn, *parts)  # type: ignore[arg-type]


def _is_still(e: Expr, indices: set[Expr]) -> bool:
    return e not in indices and all(_is_still(a, indices) for a in e.args)
