"""Lowerings that write at computed places: scatter and its kin.

Each copies its input, then walks the indices in order, so of two writes to one place the later
one stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import DEAR, ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.indexing import wrapped
from phix.kernels.lowering.lower import broadcast_element
from phix.kernels.lowering.reduction import (
    ALL,
    ANY,
    MAX,
    MIN,
    PROD,
    SUM,
    Monoid,
    accumulator_dtype,
    as_dtype,
    converted,
    sum_of,
)
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]
Target = Callable[[Indices], Indices]

_MONOIDS = {"add": SUM, "sum": SUM, "mul": PROD, "multiply": PROD, "amax": MAX, "amin": MIN,
            "max": MAX, "min": MIN, "mean": SUM}  # fmt: skip
# Up to so many scalar operations are not worth the memory that saves them, if that is in a cache.
_LITTLE = 2
_IN_CACHE = 1 << 18  # elements
_OF_BOOLS = {SUM: ANY, PROD: ALL}


def _each(
    b: Builder, out: Buffer, dims: dm.Shape, place: Target, new: Callable[[Indices, Any], Any]
) -> None:
    """A kernel: for all indices of ``dims``, ``out[place] = new(indices, what was there)``."""
    size = dm.product(out.dims)
    if dims and not dm.is_known(size):  # there is no place in an empty array
        dims = (dims[0] * dm.minimum(size, 1), *dims[1:])
    with b.kernel(), b.loops(dims, "reduction") as idx:
        at = b.linear(place(idx), out.dims)
        b.put(out, at, new(idx, ir.load(out, (at,))))


def _ready(b: Builder, own: dm.Shape, *values: Value) -> None:
    """Have values computed before a loop that puts them at computed places: where no vectors of
    the dims ``own`` go to each place, it goes one by one, and they would be computed so too."""
    is_on = b.target.sums_in_memory and rewrites.is_on("vectors_first")
    for value in values:
        b.settled(value)
        size = dm.product(value.dims)
        cheap = _LITTLE if isinstance(size, int) and size <= _IN_CACHE else DEAR
        if is_on and not own and value.buffer is None and value.cost > cheap:
            b.materialize(value)


def _combined(
    b: Builder, out: Buffer, values: Callable[[Indices], Element], monoid: Monoid | None
) -> Callable[[Indices, Any], Any]:
    def new(idx: Indices, old: Any) -> Any:
        value = as_dtype(values(idx), out.dtype)
        return value if monoid is None else monoid.combine(old, value)

    return new


def _written(
    b: Builder, task: Task, write: Callable[[Buffer], None], adds: bool, repeats: dm.DimLike
) -> Value:
    """What ``write`` puts into a buffer. Of half precision it adds in float32, and rounds once,
    unless each place is written to at most once: ``repeats`` is how often at most."""
    (meta,) = task.metas
    wide = MetaTensor(meta.dims, accumulator_dtype(meta.dtype))
    if not adds or wide.dtype == meta.dtype or dm.is_one(repeats):
        return b.written((meta,), write)[0]
    return converted(b, b.written((wide,), write)[0], meta.dtype)


@lowering("scatter", "whole")
def scatter(
    b: Builder, x: Value, index: Value, updates: Value, overwrite: bool, *, task: Task
) -> Value:
    rank = 1 if index.dims else 0

    def place(idx: Indices) -> Indices:
        where = (*idx[:rank], *(ZERO for _ in index.dims[rank:]))
        return (wrapped(b, b.element(index, where), x.dims[0]), *idx[rank:])

    def write(out: Buffer) -> None:
        _ready(b, updates.dims[rank:], index, updates)
        b.fill(out, x)
        read = lambda idx: b.element(updates, idx)  # noqa: E731
        if overwrite:
            _each(b, out, updates.dims, place, _combined(b, out, read, None))
            return
        zero = constant(0, out.dtype)
        _each(b, out, updates.dims, place, lambda idx, old: zero)
        _each(b, out, updates.dims, place, _combined(b, out, read, sum_of(out.dtype)))

    return _written(b, task, write, not overwrite, dm.product(index.dims))


@lowering("scatter_nd_add", "whole")
def scatter_nd_add(b: Builder, x: Value, index: Value, updates: Value, *, task: Task) -> Value:
    depth = index.dims[-1]
    assert isinstance(depth, int), "scatter_nd_add needs a known last dim of the index"
    rank = len(index.dims) - 1

    def place(idx: Indices) -> Indices:
        own = [
            wrapped(b, b.element(index, (*idx[:rank], b.dim(k))), x.dims[k]) for k in range(depth)
        ]
        return (*own, *idx[rank:])

    def write(out: Buffer) -> None:
        _ready(b, updates.dims[rank:], index, updates)
        b.fill(out, x)
        read = lambda idx: b.element(updates, idx)  # noqa: E731
        _each(b, out, updates.dims, place, _combined(b, out, read, sum_of(out.dtype)))

    return _written(b, task, write, True, dm.product(index.dims[:-1]))


def _computed_before(b: Builder, value: Value, x: Value) -> None:
    """Have ``value`` computed first where it is small beside ``x``, into which it goes: it may read
    of ``x``, which can only change in place behind that."""
    size, whole = dm.product(value.dims), dm.product(x.dims)
    is_small = isinstance(size, int) and isinstance(whole, int) and 1 < size <= whole // 4
    if is_small and value.buffer is None:
        b.materialize(value)


@lowering("index_put", "whole")
def index_put(
    b: Builder,
    x: Value,
    indices: tuple[Value, ...],
    value: Value,
    accumulate: bool,
    axes: tuple[int, ...] = (),
    *,
    task: Task,
) -> Value:
    """``x[indices] = value`` with int index tensors for some of the axes, broadcast together."""
    axes = axes or tuple(range(len(indices)))
    batch: dm.Shape = ()
    for i in indices:
        batch = _broadcast_dims(batch, i.dims)
    dims = batch + tuple(d for a, d in enumerate(x.dims) if a not in axes)
    rank = len(batch)

    def place(idx: Indices) -> Indices:
        own = {
            a: wrapped(b, broadcast_element(b, i, batch, idx[:rank]), x.dims[a])
            for a, i in zip(axes, indices)
        }
        rest = iter(idx[rank:])
        return tuple(own[a] if a in own else next(rest) for a in range(len(x.dims)))

    def write(out: Buffer) -> None:
        _ready(b, dims[rank:], *indices, value)
        if not task.is_covered:
            _computed_before(b, value, x)
            b.fill(out, x)
        read = lambda idx: broadcast_element(b, value, dims, idx)  # noqa: E731
        monoid = sum_of(out.dtype) if accumulate else None
        _each(b, out, dims, place, _combined(b, out, read, monoid))

    return _written(b, task, write, accumulate, dm.product(batch))


def _broadcast_dims(a: dm.Shape, c: dm.Shape) -> dm.Shape:
    rank = max(len(a), len(c))
    a, c = (1,) * (rank - len(a)) + a, (1,) * (rank - len(c)) + c
    found = tuple(dm.broadcast(p, q) for p, q in zip(a, c))
    assert None not in found, "dims of index tensors do not broadcast"
    return found  # type: ignore[return-value]


@lowering("put_along_axis", "whole")
def put_along_axis(
    b: Builder,
    arr: Value,
    indices: Value,
    values: Value,
    axis: int,
    reduce: str,
    include_self: bool,
    *,
    task: Task,
) -> Value:
    dims = indices.dims
    monoid = _monoid(reduce, arr.dtype)
    read = lambda idx: broadcast_element(b, values, dims, idx)  # noqa: E731

    def place(idx: Indices) -> Indices:
        i = wrapped(b, b.element(indices, idx), arr.dims[axis])
        return (*idx[:axis], i, *idx[axis + 1 :])

    def choice(idx: Indices) -> Any:
        row = (*idx[:axis], ZERO, *idx[axis + 1 :])
        is_there = sc.eq(idx[axis], place(row)[axis])
        old, new = b.element(arr, idx), as_dtype(read(row), arr.dtype)
        if monoid is not None and include_self:
            new = monoid.combine(old, new)
        return b.applied("where", is_there, new, old)

    def write(out: Buffer) -> None:
        _ready(b, dims[axis + 1 :], indices, values)
        if not task.is_covered:
            b.fill(out, arr)
        if monoid is not None and not include_self:
            initial = constant(monoid.initial(out.dtype), out.dtype)
            _each(b, out, dims, place, lambda idx, old: initial)
        _each(b, out, dims, place, _combined(b, out, read, monoid))
        if reduce == "mean":
            _divide_by_counts(b, out, dims, place, include_self)

    if task.is_chosen:
        return Value(arr.dims, arr.dtype, choice, None, values.cost + 4)
    adds = monoid in (SUM, PROD)
    return _written(b, task, write, adds, 2 if reduce == "mean" else dims[axis])


def _monoid(reduce: str, dtype: np.dtype) -> Monoid | None:
    """How ``put_along_axis`` combines what is there with what comes; None: it replaces it."""
    if reduce == "assign":
        return None
    monoid = _MONOIDS[reduce]
    return _OF_BOOLS.get(monoid, monoid) if dtype == dt.bool_ else monoid


def _divide_by_counts(
    b: Builder, out: Buffer, dims: dm.Shape, place: Target, include_self: bool
) -> None:
    counts = b.temp(out.dims, dt.int64)
    b.fill(counts, b.constant(1 if include_self else 0, out.dims, dt.int64))
    _each(b, counts, dims, place, lambda idx, old: old + 1)
    with b.kernel(), b.loops((dm.product(out.dims),)) as (i,):
        total: Any = ir.load(out, (i,))
        count = ir.load(counts, (i,))
        assert isinstance(count, Expr)
        count = sc.binary("maximum", count, sc.const(1, dt.int64))
        number = sc.cast(count, ir.scalar_dtype(out.dtype))
        if isinstance(total, Expr):
            fn = "div" if total.dtype.kind == "f" else "quotient"
            b.put(out, i, sc.binary(fn, total, number))
        else:
            b.put(out, i, total.scaled(sc.const(1, number.dtype) / number))
