"""Lowerings of creation and movement: full, reshape, transpose, expand, slice and their kin."""

from __future__ import annotations

from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Across, Builder, Value
from phix.kernels.loops.nodes import Element
from phix.kernels.lowering.lower import broadcast_element, is_single
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]


def reindexed(b: Builder, x: Value, index: Any, dims: dm.Shape) -> Value:
    """A value of these dims that reads ``x`` at ``index(indices)``."""

    def at(indices: Indices) -> Element:
        return b.element(x, index(indices))

    return Value(dims, x.dtype, at, None, x.cost)


@lowering("full", "pointwise")
def full(b: Builder, shape: Any, value: Any, dtype: Any, *place: Any, task: Task) -> Value:
    return b.constant(value, task.out.dims, task.out.dtype)


@lowering("reshape", "view")
@lowering("squeeze", "view")
@lowering("unsqueeze", "view")
def reshape(b: Builder, x: Value, shape_or_axis: Any, *, task: Task) -> Value:
    return b.view(x, task.out.dims)


@lowering("expand", "pointwise")
def expand(b: Builder, x: Value, shape: Any, *, task: Task) -> Value:
    dims = task.out.dims
    if dm.same_shape(x.dims, dims):
        return x
    value = Value(dims, x.dtype, lambda idx: broadcast_element(b, x, dims, idx), None, x.cost)
    if is_single(x):
        value.flat = lambda i: b.element(x, b.unravel(i, x.dims))
    return value


@lowering("transpose", "move")
def transpose(b: Builder, x: Value, perm: tuple[int, ...]) -> Value:
    if tuple(perm) == tuple(range(len(perm))):
        return x
    dims = tuple(x.dims[axis] for axis in perm)
    where = {axis: k for k, axis in enumerate(perm)}
    moving = [axis for axis in perm if not dm.is_one(x.dims[axis])]
    if moving == sorted(moving):  # only dims of 1 change places
        return b.view(x, dims)
    result = reindexed(b, x, lambda idx: tuple(idx[where[axis]] for axis in range(len(perm))), dims)
    innermost = max(moving)
    if innermost != moving[-1]:
        result.tiled = Across(where[innermost], dm.product(x.dims[moving[-1] + 1 :]))
    *head, before, last = perm
    if head == sorted(head) and (before, last) == (len(perm) - 1, len(perm) - 2):
        result.swapped = x
    return result


def swapped(b: Builder, x: Value) -> Value:
    """The transposes of the matrices of x."""
    if x.swapped is not None and x.buffer is None:
        return x.swapped
    *lead, rows, columns = x.dims
    result = Value(
        (*lead, columns, rows),
        x.dtype,
        lambda idx: b.element(x, (*idx[:-2], idx[-1], idx[-2])),
        cost=x.cost,
    )
    result.tiled = Across(len(lead), columns)
    return result


def moved_axis(b: Builder, x: Value, source: int, target: int) -> Value:
    """``x`` with axis ``source`` reindexed to ``target``."""
    perm = [axis for axis in range(len(x.dims)) if axis != source]
    perm.insert(target, source)
    return transpose(b, x, tuple(perm))


@lowering("slice", "move")
def slice_(
    b: Builder, x: Value, axes: Any, starts: Any, ends: Any, infer_flags: Any, decrease_axis: Any,
    *, task: Task,
) -> Value:  # fmt: skip
    return _sliced(b, x, dict(zip(axes, starts)), {}, tuple(decrease_axis), task.out.dims)


@lowering("strided_slice", "move")
def strided_slice(
    b: Builder, x: Value, axes: Any, starts: Any, ends: Any, strides: Any, *, task: Task
) -> Value:
    return _sliced(b, x, dict(zip(axes, starts)), dict(zip(axes, strides)), (), task.out.dims)


def first_of(b: Builder, size: dm.DimLike, start: Any, stride: Any) -> Expr:
    """Where a slice starts: a negative start counts from the end, and all are clamped."""
    backward = isinstance(stride, int) and stride < 0
    if isinstance(start, int) and isinstance(size, int):
        first = start + size if start < 0 else start
        return b.dim(min(max(first, 0), size - 1 if backward else size))
    if isinstance(start, int) and start == 0:
        return ZERO
    n, at = b.dim(size), b.dim(start)
    if not isinstance(start, int) or start < 0:
        at = sc.select(at < 0, at + n, at)
    last = n - 1 if backward else n
    at = sc.binary("minimum", at, last)
    return sc.binary("maximum", at, ZERO)


def _sliced(
    b: Builder, x: Value, starts: dict[int, Any], strides: dict[int, Any],
    dropped: tuple[int, ...], dims: dm.Shape,
) -> Value:  # fmt: skip
    first = {axis: first_of(b, x.dims[axis], s, strides.get(axis, 1)) for axis, s in starts.items()}
    kept = [axis for axis in range(len(x.dims)) if axis not in dropped]

    def index(indices: Indices) -> Indices:
        at = dict(zip(kept, indices))
        own = []
        for axis in range(len(x.dims)):
            i = at.get(axis, b.dim(0))
            if axis in first:
                i = first[axis] + i * strides.get(axis, 1)
            own.append(i)
        return tuple(own)

    result = reindexed(b, x, index, dims)
    result.part_of = x
    return result


@lowering("split", "move")
@lowering("split_with_num", "move")
def split(b: Builder, x: Value, sections: Any, axis: int, *, task: Task) -> tuple[Value, ...]:
    """One value for each output, side by side along ``axis``."""
    values: list[Value] = []
    start: dm.DimLike = 0
    for meta in task.metas:
        values.append(_piece(b, x, axis, b.dim(start), meta.dims))
        start = start + meta.dims[axis]
    return tuple(values)


def _piece(b: Builder, x: Value, axis: int, first: Expr, dims: dm.Shape) -> Value:
    def index(idx: Indices) -> Indices:
        return (*idx[:axis], idx[axis] + first, *idx[axis + 1 :])

    return reindexed(b, x, index, dims)


@lowering("flip", "move")
def flip(b: Builder, x: Value, axis: Any) -> Value:
    last = {a: b.dim(x.dims[a]) - 1 for a in axis}

    def index(idx: Indices) -> Indices:
        return tuple(last[k] - i if k in last else i for k, i in enumerate(idx))

    return reindexed(b, x, index, x.dims)


@lowering("roll", "move")
def roll(b: Builder, x: Value, shifts: Any, axis: Any) -> Value:
    if not axis:
        size = dm.product(x.dims)
        rolled = _rolled(b, b.view(x, (size,)), {0: shifts[0]}, (size,))
        return b.view(rolled, x.dims)
    total: dict[int, Any] = {}
    for a, shift in zip(axis, shifts):
        total[a] = total.get(a, 0) + shift
    return _rolled(b, x, total, x.dims)


def _rolled(b: Builder, x: Value, shifts: dict[int, Any], dims: dm.Shape) -> Value:
    first = {a: (b.dim(dm.apply("mod", -s, x.dims[a])), b.dim(x.dims[a]))
             for a, s in shifts.items() if not dm.is_zero(x.dims[a])}  # fmt: skip

    def index(idx: Indices) -> Indices:
        own = list(idx)
        for a, (start, size) in first.items():
            i = idx[a] + start
            own[a] = sc.select(i >= size, i - size, i)
        return tuple(own)

    return reindexed(b, x, index, dims)


@lowering("diagonal", "move")
def diagonal(b: Builder, x: Value, offset: int, axis1: int, axis2: int, *, task: Task) -> Value:
    def index(idx: Indices) -> Indices:
        rest, i = iter(idx[:-1]), idx[-1]
        own = []
        for k in range(len(x.dims)):
            if k == axis1:
                own.append(i + max(-offset, 0))
            elif k == axis2:
                own.append(i + max(offset, 0))
            else:
                own.append(next(rest))
        return tuple(own)

    return reindexed(b, x, index, task.out.dims)


@lowering("arange", "pointwise")
def arange(
    b: Builder, start: Any, end: Any, step: Any, dtype: Any, *place: Any, task: Task
) -> Value:
    meta = task.out
    scalar = ir.scalar_dtype(meta.dtype)

    def number(v: Any) -> Expr:
        if isinstance(v, Value):
            element = b.element(v, (ZERO,) * len(v.dims))
            assert isinstance(element, Expr)
            return sc.cast(element, scalar)
        if isinstance(v, dm.Dim):
            return sc.cast(b.dim(v), scalar)
        return sc.const(v, scalar)

    def flat(i: Expr) -> Element:
        real = number(start) + sc.cast(i, scalar) * number(step)
        return ir.Complex(real, sc.const(0, scalar)) if dt.is_complex(meta.dtype) else real

    return Value(meta.dims, meta.dtype, lambda idx: flat(idx[0]), flat, 2)
