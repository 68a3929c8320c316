"""Scatters: loops that write at computed places, where later iterations win or add to earlier ones.

Their order counts, so results are the same on every run. Loops whose index is a digit of the
place never meet and run in parallel. Of the others, the *writes*, the places are computed first
and sorted, equals in order, by one step of a library; then every place that is written has a
thread, which goes through its writes in their order:

    for w: places[w] = place of w
    order = argsort(places)
    for p where order begins a new place, for digits: for q from p in the same place: write order[q]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.gpu import radix
from phix.kernels.gpu.mapping import INDEPENDENT
from phix.kernels.gpu.rewriting import Rewriter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import factors, index_terms, stride_of
from phix.kernels.loops.nodes import (  # fmt: skip
    Assign,
    Buffer,
    Declare,
    For,
    HostStep,
    If,
    Kernel,
    LoopProgram,
    Statement,
    Step,
    Store,
    While,
)
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.inplace import nest

# So few writes a thread does one after the other.
_FEW_WRITES = 64
# Fewer places than that are put in order by counting, for each, those that come before it: passes
# over their digits take longer to start.
_NOT_COUNTED = radix.LEAST
_COUNTS = 32  # parts in which they are counted
_WRITE, _NEXT, _OTHER, _PART = sc.var("i901"), sc.var("a900"), sc.var("i902"), sc.var("i903")


def rearranged(program: LoopProgram, kernel: Kernel, temp: Any) -> list[Step]:
    """The steps for a kernel, if it is a scatter; ``temp(dims, dtype)`` makes a temp."""
    loops, block = nest(kernel)
    if not loops or any(loop.kind != "reduction" for loop in loops):
        return [kernel]
    stores = [s for s in block if isinstance(s, Store)]
    if len(stores) != len(block) or len({(s.buffer, s.indices[0]) for s in stores}) != 1:
        return [kernel]
    place = stores[0].indices[0]
    digits = _digits(place, loops)
    writes = [loop for loop in loops if loop not in digits]
    if not writes or _reads_elsewhere(block, stores[0].buffer, place):
        return [kernel]
    sorted_steps = _sorted(program, digits, writes, block, place, temp)
    if sorted_steps is not None:
        return sorted_steps
    return [Kernel(_around(digits, INDEPENDENT, _around(writes, "reduction", block)))]


def _around(loops: list[For], kind: str, body: list[Statement]) -> list[Statement]:
    for loop in reversed(loops):
        body = [For(loop.index, loop.extent, body, kind)]
    return body


def _reads_elsewhere(block: list[Statement], buffer: Buffer, place: Expr) -> bool:
    """Whether the block reads what it writes anywhere but at the place it writes."""
    touched = [b for b in ir.reads(block) if ir.owner(b) is ir.owner(buffer)]
    loads = (e for e in ir.expressions(block) if e.fn == "load" and e.data is buffer)
    return any(b is not buffer for b in touched) or any(e.args[0] is not place for e in loads)


def _digits(place: Expr, loops: list[For]) -> list[For]:
    """The loops whose index is a digit of the place: no two of their iterations meet."""
    hidden: dict[Expr, Expr] = {}
    terms = index_terms(_plain(place, hidden))
    if terms is None:
        return []
    sizes = {loop.index: loop.extent for loop in loops}
    found = []
    for loop in loops:
        own = factors(loop.extent)
        if own is not None and stride_of(terms, loop.index, own, sizes) is not None:
            found.append(loop)
    return found


def _plain(e: Expr, hidden: dict[Expr, Expr]) -> Expr:
    """A place with what is computed from data, or by more than sums and products, as variables."""
    if e.fn in ("const", "var"):
        return e
    if e.fn == "add" or (e.fn == "mul" and any(factors(a) is not None for a in e.args)):
        return sc.binary(e.fn, *(_plain(a, hidden) for a in e.args))
    return hidden.setdefault(e, sc.var(f"i{910 + len(hidden)}"))


# -- sorted ----------------------------------------------------------------------------------
def _sorted(
    program: LoopProgram,
    digits: list[For],
    writes: list[For],
    block: list[Statement],
    place: Expr,
    temp: Any,
) -> list[Step] | None:
    zeros: dict[Expr, Expr] = {loop.index: ir.ZERO for loop in digits}
    key, unit = _in_units(Rewriter(zeros).expr(place))
    if not _is_apart(place, digits):
        return None
    extents = [factors(loop.extent) for loop in writes]
    if any(e is None for e in extents):
        return None
    total = sc.const(1, dt.int64)
    count: dm.DimLike = 1
    for loop, own in zip(writes, extents):
        total = total * loop.extent
        assert own is not None
        count = count * own[1]
        for name in own[0]:
            if name not in program.symbols:
                return None
            count = count * dm.Dim({(program.symbols[name],): 1})
    if isinstance(count, int) and count <= _FEW_WRITES:
        return None
    keys, ordered, order = (temp((count,), sc.const(0, dt.int64)) for _ in range(3))
    linear: Expr = ir.ZERO
    for loop in writes:
        linear = linear * loop.extent + loop.index
    first = Kernel(_around(writes, "parallel", [Store(keys, (linear,), key)]))
    target = next(s.buffer for s in block if isinstance(s, Store))
    sorts = _in_order(total, count, keys, ordered, order, dm.product(target.dims), unit, temp)
    return [first, *sorts, Kernel(_segments(digits, writes, block, total, ordered, order))]


def _in_units(place: Expr) -> tuple[Expr, int]:
    """A place as a multiple of a unit: rows have fewer bits than elements."""
    if place.fn not in ("add", "mul"):
        return place, 1
    number, other = place.args if place.args[0].fn == "const" else place.args[::-1]
    if number.fn != "const" or (number.data <= 0 if place.fn == "mul" else number.data != 0):
        return place, 1
    found, unit = _in_units(other)
    return found, unit * int(number.data) if place.fn == "mul" else unit


def _in_order(
    total: Expr,
    count: dm.DimLike,
    keys: Buffer,
    ordered: Buffer,
    order: Buffer,
    size: dm.DimLike,
    unit: int,
    temp: Any,
) -> list[Step]:
    """The keys in order, and where they were, equals in order. They are places in so many elements,
    in units of so many."""
    if isinstance(count, int) and count < _NOT_COUNTED:
        before = temp((_COUNTS, count), ir.ZERO)
        return _counted(total, count, keys, before, ordered, order)
    attrs: dict[str, Any] = {"axis": 0, "descending": False}
    if isinstance(size, int):
        attrs["bits"] = max((size - 1) // unit, 1).bit_length()
    return [HostStep("argsort", _argsort, (keys,), (ordered, order), ((count,),), attrs)]


def _argsort(keys: np.ndarray, ordered: np.ndarray, order: np.ndarray) -> None:
    order[...] = np.argsort(keys, kind="stable")
    ordered[...] = keys[order]


def _counted(
    total: Expr, count: int, keys: Buffer, before: Buffer, ordered: Buffer, order: Buffer
) -> list[Step]:
    """A sort by counting: a key goes where there are as many before it, equals in order. They are
    counted in parts, each by a thread of its own."""
    length = -(-count // _COUNTS)

    def read(buffer: Buffer, at: Expr) -> Expr:
        return Expr("load", (at,), dt.int64, buffer)

    other = _PART * length + _OTHER
    key, another = read(keys, _WRITE), read(keys, other)
    is_before = another < key + sc.cast(other < _WRITE, dt.int64)
    one_more = Assign((_NEXT,), (_NEXT + sc.cast(is_before, dt.int64),))
    left = sc.binary("minimum", total - _PART * length, sc.const(length, dt.int64))
    part: list[Statement] = [
        Declare(_NEXT, ir.ZERO),
        For(_OTHER, sc.binary("maximum", left, ir.ZERO), [one_more], "reduction"),
        Store(before, (_PART * total + _WRITE,), _NEXT),
    ]
    parts = sc.const(_COUNTS, dt.int64)
    sum_up = Assign((_NEXT,), (_NEXT + read(before, _PART * total + _WRITE),))
    place: list[Statement] = [
        Declare(_NEXT, ir.ZERO),
        For(_PART, parts, [sum_up], "reduction"),
        Store(ordered, (_NEXT,), key),
        Store(order, (_NEXT,), _WRITE),
    ]
    return [
        Kernel([For(_PART, parts, [For(_WRITE, total, part, INDEPENDENT)], INDEPENDENT)]),
        Kernel([For(_WRITE, total, place, INDEPENDENT)]),
    ]


def _is_apart(place: Expr, digits: list[For]) -> bool:
    """Whether the place is a sum of a part without the digits' indices and one of them alone."""
    hidden: dict[Expr, Expr] = {}
    terms = index_terms(_plain(place, hidden))
    inside = {e for h in hidden for e in ir.expressions([Declare(h, h)])}
    return terms is not None and not any(loop.index in inside for loop in digits)


def _segments(
    digits: list[For],
    writes: list[For],
    block: list[Statement],
    total: Expr,
    ordered: Buffer,
    order: Buffer,
) -> list[Statement]:
    """For every place, from its first write on: its writes in order."""

    def read(buffer: Buffer, at: Expr) -> Expr:
        return Expr("load", (at,), dt.int64, buffer)

    write = read(order, _NEXT)
    indices: dict[Expr, Expr] = {}
    for loop in reversed(writes[1:]):
        quotient = sc.binary("quotient", write, loop.extent)
        indices[loop.index] = write - quotient * loop.extent
        write = quotient
    indices[writes[0].index] = write
    body = Rewriter(indices).block(block)
    last = sc.binary("minimum", _NEXT, total - 1)
    goes_on = (total > _NEXT) & sc.eq(read(ordered, last), read(ordered, _WRITE))
    before = sc.binary("maximum", _WRITE - 1, ir.ZERO)
    begins = sc.eq(_WRITE, 0) | sc.ne(read(ordered, _WRITE), read(ordered, before))
    step = Assign((_NEXT,), (_NEXT + 1,))
    run: list[Statement] = [Declare(_NEXT, _WRITE), While(goes_on, [*body, step])]
    return [For(_WRITE, total, _around(digits, INDEPENDENT, [If(begins, run)]), INDEPENDENT)]
