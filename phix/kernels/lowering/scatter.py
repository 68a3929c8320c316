"""Lowerings that write at computed places: scatter and its kin.

Each copies its input, then walks the indices in order, so of two writes to one place the later
one stands. What is out of range writes what is there already to the nearest inside, but for the
mode "clip", which writes its value there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import DEAR, ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.indexing import located
from phix.kernels.lowering.lower import broadcast_element
from phix.kernels.lowering.reduction import (
    ALL,
    ANY,
    MAX,
    MIN,
    PROD,
    SUM,
    Monoid,
    as_dtype,
    converted,
    sum_of,
)
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]


class Target(NamedTuple):
    """The place of a write, and whether it is written to (None: it always is)."""

    at: Indices
    is_there: Expr | None


_MONOIDS = {"add": SUM, "sum": SUM, "mul": PROD, "multiply": PROD, "amax": MAX, "amin": MIN,
            "max": MAX, "min": MIN, "mean": SUM}  # fmt: skip
# Up to so many scalar operations are not worth the memory that saves them, if that is in a cache.
_LITTLE = 2
_IN_CACHE = 1 << 18  # elements
_OF_BOOLS = {SUM: ANY, PROD: ALL}


def _each(
    b: Builder,
    out: Buffer,
    dims: dm.Shape,
    place: Callable[[Indices], Target],
    read: Callable[[Indices], Element],
    monoid: Monoid | None = None,
) -> None:
    """A kernel: for all indices of ``dims``, ``read(indices)`` is put at their place, or combined
    with what is there."""
    size, rank = dm.product(out.dims), len(dims)
    if not dm.is_known(size) or dm.is_zero(size):  # there is no place in an empty array
        first, *rest = dims or (1,)
        dims = (first * dm.minimum(size, 1), *rest)
    with b.kernel(), b.loops(dims, "reduction") as idx:
        idx = idx[:rank]
        where, is_there = place(idx)
        at = b.linear(where, out.dims)
        old, value = ir.load(out, (at,)), as_dtype(read(idx), out.dtype)
        if is_there is not None and monoid is not None and not dt.is_complex(out.dtype):
            value = b.applied("where", is_there, value, _neutral(monoid, out.dtype))
            is_there = None
        new = value if monoid is None else monoid.combine(old, value)
        b.put(out, at, new if is_there is None else b.applied("where", is_there, new, old))


def _neutral(monoid: Monoid, dtype: np.dtype) -> Element:
    """What changes no real number that it is combined with; 0.0 would make 0.0 of -0.0. There is
    no such complex factor: inf + 0i times 1 has a part that is NaN."""
    is_sum_of_floats = monoid is SUM and dt.kind(dtype) == "float"
    return constant(-0.0 if is_sum_of_floats else monoid.initial(dtype), dtype)


def _target(
    b: Builder, mode: str, rank: int, entries: dict[int, tuple[Element, dm.DimLike]], rest: Indices
) -> Target:
    """The place where indices into some axes, given with their sizes, and ``rest`` into the others
    point."""
    found = {axis: located(b, index, size) for axis, (index, size) in entries.items()}
    others = iter(rest)
    at = tuple(found[a][0] if a in found else next(others) for a in range(rank))
    flag = None
    if mode != "clip":
        for _, is_in in found.values():
            flag = is_in if flag is None else flag & is_in
    return Target(at, flag)


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


def _written(
    b: Builder, task: Task, write: Callable[[Buffer], None], adds: bool, repeats: dm.DimLike
) -> Value:
    """What ``write`` puts into a buffer. Of half precision it adds in float32, and rounds once,
    unless each place is written to at most once: ``repeats`` is how often at most."""
    (meta,) = task.metas
    wide = MetaTensor(meta.dims, dt.accumulator_dtype(meta.dtype))
    if not adds or wide.dtype == meta.dtype or dm.is_one(repeats):
        return b.written((meta,), write)[0]
    return converted(b, b.written((wide,), write)[0], meta.dtype)


@lowering("scatter", "whole")
def scatter(
    b: Builder, x: Value, index: Value, updates: Value, overwrite: bool, *, task: Task
) -> Value:
    rank = 1 if index.dims else 0

    def place(idx: Indices) -> Target:
        where = (*idx[:rank], *(ZERO for _ in index.dims[rank:]))
        rows = {0: (b.element(index, where), x.dims[0])}
        return _target(b, "drop", len(x.dims), rows, idx[rank:])

    def write(out: Buffer) -> None:
        _ready(b, updates.dims[rank:], index, updates)
        b.fill(out, x)
        read = lambda idx: b.element(updates, idx)  # noqa: E731
        if not overwrite:
            zero = constant(0, out.dtype)
            _each(b, out, updates.dims, place, lambda idx: zero)
        _each(b, out, updates.dims, place, read, None if overwrite else sum_of(out.dtype))

    return _written(b, task, write, not overwrite, dm.product(index.dims))


@lowering("scatter_nd_add", "whole")
def scatter_nd_add(
    b: Builder, x: Value, index: Value, updates: Value, mode: str = "raise", *, task: Task
) -> Value:
    depth = index.dims[-1]
    assert isinstance(depth, int), "scatter_nd_add needs a known last dim of the index"
    rank = len(index.dims) - 1

    def place(idx: Indices) -> Target:
        own = {k: (b.element(index, (*idx[:rank], b.dim(k))), x.dims[k]) for k in range(depth)}
        return _target(b, mode, len(x.dims), own, idx[rank:])

    def write(out: Buffer) -> None:
        _ready(b, updates.dims[rank:], index, updates)
        b.fill(out, x)
        read = lambda idx: b.element(updates, idx)  # noqa: E731
        _each(b, out, updates.dims, place, read, sum_of(out.dtype))

    return _written(b, task, write, True, dm.product(index.dims[:-1]))


def _fill(
    b: Builder,
    out: Buffer,
    x: Value,
    dims: dm.Shape,
    place: Callable[[Indices], Target],
    task: Task,
) -> None:
    """Have ``x`` in the buffer: all of it, or what is read of it where that is only at the places
    that are written, and the nearest to them."""
    if not task.is_covered:
        b.fill(out, x)
        return
    nearest = lambda idx: place(idx)._replace(is_there=None)  # noqa: E731
    _each(b, out, dims, nearest, lambda idx: b.element(x, place(idx).at))


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
    mode: str = "raise",
    *,
    task: Task,
) -> Value:
    """``x[indices] = value`` with int index tensors for some of the axes, broadcast together."""
    axes = axes or tuple(range(len(indices)))
    batch: dm.Shape = ()
    for i in indices:
        batch = _broadcast_dims(batch, i.dims)
    # axes before the indexed ones go outermost: what is written to then lies together
    ahead, rank = min(axes, default=0), len(batch)
    rest = tuple(d for a, d in enumerate(x.dims) if a not in axes)
    dims = rest[:ahead] + batch + rest[ahead:]

    def split(idx: Indices) -> tuple[Indices, Indices]:
        """Indices into ``batch``, and into the axes that are not indexed."""
        return idx[ahead : ahead + rank], idx[:ahead] + idx[ahead + rank :]

    def place(idx: Indices) -> Target:
        at, others = split(idx)
        own = {a: (broadcast_element(b, i, batch, at), x.dims[a]) for a, i in zip(axes, indices)}
        return _target(b, mode, len(x.dims), own, others)

    def read(idx: Indices) -> Element:
        at, others = split(idx)
        return broadcast_element(b, value, batch + rest, at + others)

    def write(out: Buffer) -> None:
        _ready(b, rest, *indices, value)
        if not task.is_covered:
            _computed_before(b, value, x)
        _fill(b, out, x, dims, place, task)
        _each(b, out, dims, place, read, sum_of(out.dtype) if accumulate else None)

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
    mode: str = "raise",
    *,
    task: Task,
) -> Value:
    dims = indices.dims
    monoid = _monoid(reduce, arr.dtype)
    read = lambda idx: broadcast_element(b, values, dims, idx)  # noqa: E731

    def place(idx: Indices) -> Target:
        own = {axis: (b.element(indices, idx), arr.dims[axis])}
        return _target(b, mode, len(arr.dims), own, (*idx[:axis], *idx[axis + 1 :]))

    def choice(idx: Indices) -> Any:
        row = (*idx[:axis], ZERO, *idx[axis + 1 :])
        at, is_in = place(row)
        is_there = sc.eq(idx[axis], at[axis])
        is_there = is_there if is_in is None else is_there & is_in
        old, new = b.element(arr, idx), as_dtype(read(row), arr.dtype)
        if monoid is not None and include_self:
            new = monoid.combine(old, new)
        return b.applied("where", is_there, new, old)

    def write(out: Buffer) -> None:
        _ready(b, dims[axis + 1 :], indices, values)
        _fill(b, out, arr, dims, place, task)
        if monoid is not None and not include_self:
            initial = constant(monoid.initial(out.dtype), out.dtype)
            _each(b, out, dims, place, lambda idx: initial)
        _each(b, out, dims, place, read, monoid)
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
    b: Builder,
    out: Buffer,
    dims: dm.Shape,
    place: Callable[[Indices], Target],
    include_self: bool,
) -> None:
    counts = b.temp(out.dims, dt.int64)
    b.fill(counts, b.constant(1 if include_self else 0, out.dims, dt.int64))
    _each(b, counts, dims, place, lambda idx: constant(1, dt.int64), SUM)
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
