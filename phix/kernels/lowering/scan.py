"""Lowerings along an axis: cumulative sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import DEAR, ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.reduction import (
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
    b.settled(x)
    keeps_order = b.target.sums_in_memory and wide == out.dtype  # other sums go in blocks
    if keeps_order and rewrites.is_on("vectors_first") and x.buffer is None and x.cost > DEAR:
        b.materialize(x)  # from one total to the next it would be computed one by one
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
