"""Lowerings along an axis: cumulative sums and products, argmax and argmin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.reduction import (
    MAX,
    MIN,
    PROD,
    SUM,
    Monoid,
    as_dtype,
    converted,
    parts,
    reduce_value,
    whole,
)
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Where the extreme of more elements than this is, is found in blocks of so many.
_BLOCK = 4096
# ... and of a row among several. Where its size is unknown, blocks may be short: their last
# elements, which are taken one by one, would take longer than to read the row again.
_BLOCK_OF_ROW = 256


@lowering("cumsum", "whole")
def cumsum(
    b: Builder, x: Value, axis: int, flatten: bool, exclusive: bool, reverse: bool, *, task: Task
) -> Value:
    if flatten:
        x, axis = b.view(x, (dm.product(x.dims),)), 0
    return _scanned(b, x, axis, SUM, exclusive, reverse, task.out)


@lowering("cumprod", "whole")
def cumprod(b: Builder, x: Value, dim: int, exclusive: bool, reverse: bool, *, task: Task) -> Value:
    return _scanned(b, x, dim, PROD, exclusive, reverse, task.out)


def _scanned(
    b: Builder, x: Value, axis: int, monoid: Monoid, exclusive: bool, reverse: bool,
    meta: MetaTensor,
) -> Value:  # fmt: skip
    if not x.dims:
        first = monoid.initial(meta.dtype)
        if exclusive:
            return b.constant(first, meta.dims, meta.dtype)
        return Value(meta.dims, meta.dtype, lambda idx: as_dtype(b.element(x, ()), meta.dtype))
    is_half = meta.dtype in (dt.float16, dt.bfloat16)
    wide = MetaTensor(x.dims, dt.float32 if is_half else meta.dtype)
    inner = dm.product(x.dims[axis + 1 :])
    scan = _in_registers if dm.is_one(inner) or not b.target.sums_in_memory else _in_memory
    (stored,) = b.written((wide,), lambda out: scan(b, x, axis, monoid, exclusive, reverse, out))
    return converted(b, b.view(stored, meta.dims), meta.dtype)


def _in_registers(
    b: Builder, x: Value, axis: int, m: Monoid, exclusive: bool, reverse: bool, out: Buffer
) -> None:
    """Scan an axis with the total so far in scalars."""
    size, wide = b.dim(x.dims[axis]), _total_dtype(b, m, out.dtype)
    initial = constant(m.initial(wide), wide)
    with b.kernel(), b.loops(x.dims[:axis] + x.dims[axis + 1 :]) as rest:
        total = b.mutable(*parts(initial))
        with b.loop(size, "reduction") as step:
            k = size - 1 - step if reverse else step
            at = (*rest[:axis], k, *rest[axis:])
            new = m.combine(whole(total), as_dtype(b.element(x, at), wide))
            if exclusive:
                b.store(out, at, as_dtype(whole(total), out.dtype))
            # who goes through rows alone keeps the order, who shares them must be free to change it
            b.emit(ir.Assign(total, parts(new), m.reassociate and not b.target.sums_in_memory))
            if not exclusive:
                b.store(out, at, as_dtype(whole(total), out.dtype))


def _total_dtype(b: Builder, m: Monoid, dtype: np.dtype) -> np.dtype:
    """What totals are kept in: a float32 loses what is added to a large one."""
    is_sum = m is SUM and b.target.sums_in_memory
    wide = {dt.float32: dt.float64, dt.complex64: dt.complex128}
    return wide.get(dtype, dtype) if is_sum else dtype


def _in_memory(
    b: Builder, x: Value, axis: int, m: Monoid, exclusive: bool, reverse: bool, out: Buffer
) -> None:
    """Scan another axis: each row is the totals so far, and one of the input added to them."""
    size, wide = b.dim(x.dims[axis]), _total_dtype(b, m, out.dtype)
    initial = constant(m.initial(wide), wide)
    tail = x.dims[axis + 1 :]
    with b.kernel() as kernel, b.loops(x.dims[:axis]) as head:
        totals = b.local(kernel, dm.product(tail), wide)
        with b.loops((dm.product(tail),)) as (i,):
            b.put(totals, i, initial)
        with b.loop(size, "reduction") as step, b.loops(tail) as rest:
            at = (*head, size - 1 - step if reverse else step, *rest)
            i = b.linear(rest, tail)
            old = ir.load(totals, (i,))
            new = m.combine(old, as_dtype(b.element(x, at), wide))
            b.store(out, at, as_dtype(old if exclusive else new, out.dtype))
            b.put(totals, i, new)


# -- argmax, argmin --------------------------------------------------------------------------
def _argument_of(op_name: str, monoid: Monoid) -> None:
    @lowering(op_name, "reduce")
    def rule(
        b: Builder, x: Value, axis: int, _: bool, flatten: bool, *dtype: Any, task: Task
    ) -> Value:
        return _argument(b, x, axis, flatten, monoid, task.out)


_argument_of("argmax", MAX)
_argument_of("argmin", MIN)


def _argument(
    b: Builder, x: Value, axis: int, flatten: bool, monoid: Monoid, meta: MetaTensor
) -> Value:
    """Where the extreme element is, the first of equals: find its value, then its least index."""
    if not x.dims:
        return b.constant(0, meta.dims, meta.dtype)
    if flatten:
        x, axis = b.view(x, (dm.product(x.dims),)), 0
    block = _block_of(x, axis) if b.target.sums_in_memory else None
    if block is not None:
        found = _argument_by_blocks(b, x, monoid, block)
        return converted(b, b.view(found, meta.dims), meta.dtype)
    kept = x.dims[:axis] + x.dims[axis + 1 :]
    extreme = reduce_value(b, x, (axis,), monoid, MetaTensor(kept, x.dtype))
    size = b.dim(x.dims[axis])

    def at(indices: tuple[Expr, ...]) -> Element:
        if x.cost > CHEAP and x.buffer is None:
            b.materialize(x)
        best = b.element(extreme, indices[:axis] + indices[axis + 1 :])
        return sc.select(_is_extreme(b.element(x, indices), best), indices[axis], size)

    candidates = Value(x.dims, dt.int64, at, None, x.cost + 4)
    index = reduce_value(b, candidates, (axis,), MIN, MetaTensor(kept, dt.int64))
    out = b.view(index, meta.dims)
    if meta.dtype == dt.int64:
        return out
    return converted(b, out, meta.dtype)


def _block_of(x: Value, axis: int) -> int | None:
    """The size of the blocks in which an extreme is looked for along the axis; None: in none."""
    size = x.dims[axis]
    if axis != len(x.dims) - 1:
        return None
    if len(x.dims) == 1:
        return None if isinstance(size, int) and size <= _BLOCK else _BLOCK
    return _BLOCK_OF_ROW if isinstance(size, int) and size > _BLOCK_OF_ROW else None


def _argument_by_blocks(b: Builder, x: Value, monoid: Monoid, most: int) -> Value:
    """The same of whole rows: of the extremes of their blocks, then in the first that has it.

    What lies in memory is then read once, and not again for its place.
    """
    *rows, dim = x.dims
    size, count = b.dim(dim), b.dim(blocks := (dim + (most - 1)) // most)
    initial = constant(monoid.initial(x.dtype), x.dtype)
    is_even = isinstance(dim, int) and dim % most == 0

    def length(block: Expr) -> Expr:
        whole_block = sc.const(most, dt.int64)
        return whole_block if is_even else sc.binary("minimum", whole_block, size - block * most)

    def extremes(out: Buffer) -> None:
        if x.cost > CHEAP and x.buffer is None:
            b.materialize(x)  # sums made twice, in two orders, may differ: none would be extreme
        with b.kernel(), b.loops(tuple(rows)) as row, b.loop(count) as block:
            total = b.mutable(*parts(initial))
            with b.loop(length(block), "reduction") as i:
                new = monoid.combine(whole(total), b.element(x, (*row, block * most + i)))
                b.emit(ir.Assign(total, parts(new), monoid.reassociate))
            b.store(out, (*row, block), whole(total))

    def first(extent: Expr, read: Callable[[Expr], Element], best: Expr, none: Expr) -> Expr:
        """The least index with the value ``best``."""
        (found,) = b.mutable(none)
        with b.loop(extent, "reduction") as i:
            at = sc.select(_is_extreme(read(i), best), i, none)
            b.emit(ir.Assign((found,), (sc.binary("minimum", found, at),)))
        return found

    def index(out: Buffer) -> None:
        b.materialize(found)
        with b.kernel(), b.loops(tuple(rows)) as row:
            (best,) = b.mutable(*parts(initial))
            with b.loop(count, "reduction") as k:
                b.emit(ir.Assign((best,), (monoid.combine(best, b.element(found, (*row, k))),)))
            block = first(count, lambda k: b.element(found, (*row, k)), best, count)
            start = block * most
            inside = first(length(block), lambda i: b.element(x, (*row, start + i)), best, size)
            b.store(out, row, start + inside)

    (found,) = b.written((MetaTensor((*rows, blocks), x.dtype),), extremes)
    return b.written((MetaTensor(tuple(rows), dt.int64),), index)[0]


def _is_extreme(element: Element, best: Element) -> Expr:
    assert isinstance(element, Expr) and isinstance(best, Expr)
    is_it = sc.eq(element, best)
    if element.dtype.kind == "f":
        is_it = is_it | sc.ne(element, element)  # there is a NaN only if the extreme is NaN
    return is_it


@lowering("reduce_as", "reduce")
def reduce_as(b: Builder, x: Value, target: Value, *, task: Task) -> Value:
    meta = task.out
    shift = len(x.dims) - len(meta.dims)
    axes = list(range(shift))
    for k, d in enumerate(meta.dims):
        if dm.same(d, x.dims[shift + k]):
            continue
        if not dm.is_one(d):
            return _reduce_as_at_run_time(b, x, meta)
        axes.append(shift + k)
    if not axes:
        return x
    return reduce_value(b, x, tuple(axes), SUM, meta)


def _reduce_as_at_run_time(b: Builder, x: Value, meta: MetaTensor) -> Value:
    """Add up in memory, for dims of which only the run shows whether they are 1."""
    is_half = meta.dtype in (dt.float16, dt.bfloat16)
    wide = MetaTensor(meta.dims, dt.float32 if is_half else meta.dtype)
    shift = len(x.dims) - len(meta.dims)

    def write(out: Buffer) -> None:
        b.fill(out, b.constant(0, out.dims, out.dtype))
        with b.kernel(), b.loops(x.dims, "reduction") as idx:
            own = []
            for d, size, i in zip(out.dims, x.dims[shift:], idx[shift:]):
                same = dm.same(d, size)
                own.append(i if same else sc.select(sc.eq(b.dim(d), 1), ZERO, i))
            at = b.linear(tuple(own), out.dims)
            total: Any = ir.load(out, (at,))
            b.put(out, at, total + as_dtype(b.element(x, idx), out.dtype))

    (stored,) = b.written((wide,), write)
    return converted(b, stored, meta.dtype)
