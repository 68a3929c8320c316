"""Lowerings that put whole tensors into boxes of others: concat, pad, slice_put.

A box is what a slice takes: of each axis some elements side by side, or every so manieth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from phix.core import dims as dm
from phix.core import slices
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.lower import broadcast_element, is_single
from phix.kernels.lowering.reduction import as_dtype, sum_of
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import reindexed
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]


class Box(NamedTuple):
    """Some of the elements of an array: along axis k ``dims[k]`` of them from ``first[k]`` on."""

    of: dm.Shape  # the dims of the array
    first: tuple[dm.DimLike, ...]
    dims: dm.Shape
    strides: tuple[int, ...]

    def is_whole(self, axis: int) -> bool:
        """Whether the box takes all elements of an axis, in order."""
        is_dense = self.strides[axis] == 1 or dm.is_one(self.dims[axis])
        return is_dense and dm.same(self.dims[axis], self.of[axis])

    @property
    def cut(self) -> int:
        """How many axes there are up to the last one that the box does not take whole."""
        return max((k + 1 for k in range(len(self.of)) if not self.is_whole(k)), default=0)

    @property
    def is_dense(self) -> bool:
        """Whether what is left out lies around the box, not in it."""
        return all(s == 1 or dm.is_one(d) for s, d in zip(self.strides, self.dims))

    @property
    def is_empty(self) -> bool:
        return any(map(dm.is_zero, self.dims))

    @property
    def is_large(self) -> bool:
        """Whether it holds at least half of the array; a guess where dims are unknown."""
        count, total = dm.product(self.dims), dm.product(self.of)
        if isinstance(count, int) and isinstance(total, int):
            return 2 * count >= total
        return not any(dm.is_known(d) and not dm.same(d, n) for d, n in zip(self.dims, self.of))


def put_in(
    b: Builder, out: Buffer, box: Box, value: Value, old: Callable[[Expr], Element] | None = None
) -> None:
    """A kernel that stores ``value``, broadcast, into the box, added to ``old(linear index)``."""
    if box.is_empty:
        return

    def store(at: Expr, new: Element) -> None:
        new = as_dtype(new, out.dtype)
        if old is not None:
            new = sum_of(out.dtype).combine(old(at), new)
        b.put(out, at, new)

    first = [b.dim(f) for f in box.first]
    strides = b.strides(box.of)

    def linear(indices: Indices) -> Expr:
        total: Expr = ZERO
        for i, f, step, stride in zip(indices, first, box.strides, strides):
            total = total + (f + i * step) * stride
        return total

    cut = box.cut
    fits = value.is_flat and dm.same_shape(value.dims, box.dims)
    with b.kernel():
        # axes taken whole, and the one before them, are one run in memory
        if (fits or is_single(value)) and not (cut and box.strides[cut - 1] != 1):
            outer = max(cut - 1, 0)
            run = dm.product(box.dims[outer:])
            with b.loops(box.dims[:outer]) as head, b.loops((run,)) as (i,):
                start = first[outer] * strides[outer] if cut else ZERO
                at = linear(head) + (start + i)
                if fits:
                    own = b.linear(head, box.dims[:outer]) * b.dim(run) + i
                    store(at, b.flat_element(value, own))
                else:
                    store(at, b.element(value, (ZERO,) * len(value.dims)))
        else:
            with b.loops(box.dims) as idx:
                store(linear(idx), broadcast_element(b, value, box.dims, idx))


def copy_around(b: Builder, out: Buffer, box: Box, x: Value) -> None:
    """Kernels that store the elements of ``x`` outside a dense box."""
    if box.is_empty:
        b.fill(out, x)
        return
    strides = b.strides(box.of)
    for axis in range(box.cut):
        if box.is_whole(axis):
            continue
        inner = box.of[axis + 1 :]
        end = box.first[axis] + box.dims[axis]
        for start, count in ((0, box.first[axis]), (end, box.of[axis] - end)):
            if dm.is_zero(count):
                continue
            with b.kernel(), b.loops(box.dims[:axis]) as head:
                around = [b.dim(f) + i for f, i in zip(box.first, head)]
                if x.is_flat:
                    with b.loops((count * dm.product(inner),)) as (i,):
                        at = b.dim(start) * strides[axis] + i
                        for k, h in enumerate(around):
                            at = at + h * strides[k]
                        b.put(out, at, b.flat_element(x, at))
                else:
                    with b.loops((count, *inner)) as (i, *rest):
                        place = (*around, b.dim(start) + i, *rest)
                        b.store(out, place, b.element(x, place))


# -- slice_put -----------------------------------------------------------------------------------
@lowering("slice_put", "whole")
def slice_put(
    b: Builder,
    x: Value,
    value: Value,
    axes: Any,
    starts: Any,
    ends: Any,
    strides: Any,
    accumulate: bool,
    *,
    task: Task,
) -> Value:
    first: list[dm.DimLike] = [0] * len(x.dims)
    dims, steps = list(x.dims), [1] * len(x.dims)
    for axis, start, end, step in zip(axes, starts, ends, strides or (1,) * len(axes)):
        steps[axis] = step
        first[axis], dims[axis] = slices.extent(start, end, step, x.dims[axis])
    box = Box(x.dims, tuple(first), tuple(dims), tuple(steps))

    def write(out: Buffer) -> None:
        if x.buffer is None and x.writer is not None and not task.is_consumed:
            b.materialize(x)
        if _is_better_in_place(b, x, box):
            b.settled(value)
            b.fill(out, x)
            put_in(b, out, box, value, (lambda i: ir.load(out, (i,))) if accumulate else None)
            return
        copy_around(b, out, box, x)
        put_in(b, out, box, value, (lambda i: _at(b, x, i)) if accumulate else None)

    return b.written(task.metas, write)[0]


def _is_better_in_place(b: Builder, x: Value, box: Box) -> bool:
    """Whether to make all of ``x`` first and then to change the box, not to go around it."""
    if not box.is_dense or (x.buffer is None and (x.writer is not None or x.cost > CHEAP)):
        return True
    # of a carry that is updated in place, the copy costs nothing
    return b.depth > 0 and not box.is_large


def _at(b: Builder, x: Value, linear: Expr) -> Element:
    return b.flat_element(x, linear) if x.is_flat else b.element(x, b.unravel(linear, x.dims))


# -- concat --------------------------------------------------------------------------------------
@lowering("concat", "whole")
def concat(b: Builder, xs: tuple[Value, ...], axis: int, *, task: Task) -> Value:
    ones = (1,) * len(task.out.dims)

    def write(out: Buffer) -> None:
        start: dm.DimLike = 0
        for x in xs:
            first = tuple(start if k == axis else 0 for k in range(len(ones)))
            put_in(b, out, Box(out.dims, first, x.dims, ones), x)
            start = start + x.dims[axis]

    return b.written(task.metas, write)[0]


# -- pad -----------------------------------------------------------------------------------------
@lowering("pad", "whole")
def pad(b: Builder, x: Value, paddings: Any, pad_value: Any, *, task: Task) -> Value:
    if task.is_chosen:
        return _one_padded(b, x, paddings[-2], pad_value, task.out.dims)
    return padded(b, x, tuple(zip(paddings[::2], paddings[1::2])), pad_value, task.out.dims)


def _one_padded(b: Builder, x: Value, place: dm.DimLike, value: Any, dims: dm.Shape) -> Value:
    """Rows with one element of ``x`` each, found by a look at where in a row an element is."""
    around = b.constant(value, dims, x.dtype)

    def choice(idx: Indices) -> Element:
        is_there = sc.eq(idx[-1], b.dim(place))
        return b.applied("where", is_there, b.element(x, (*idx[:-1], ZERO)), b.element(around, idx))

    return Value(dims, x.dtype, choice, None, x.cost + 2)


def padded(b: Builder, x: Value, paddings: Any, value: Any, dims: dm.Shape) -> Value:
    """``x`` with (before, after) added along each axis; less than 0 cuts."""
    if all(dm.is_zero(p) for pair in paddings for p in pair):
        return x
    parts = [_part(n, p, q, of) for n, (p, q), of in zip(x.dims, paddings, dims)]
    skipped, first, kept = (tuple(column) for column in zip(*parts))
    if not dm.same_shape(kept, x.dims):
        offsets = [b.dim(s) for s in skipped]
        x = reindexed(b, x, lambda idx: tuple(i + o for i, o in zip(idx, offsets)), kept)

    def write(out: Buffer) -> None:
        box = Box(dims, first, x.dims, (1,) * len(dims))
        copy_around(b, out, box, b.constant(value, dims, x.dtype))
        put_in(b, out, box, x)

    return b.written((MetaTensor(dims, x.dtype),), write)[0]


def _part(size: Any, before: Any, after: Any, of: Any) -> tuple[Any, Any, Any]:
    """How many elements of an axis are skipped, where those that are kept go, and their count.

    What one end adds the other may cut off again, with more than the axis has: nothing is kept
    then, and all bounds must stay in the arrays.
    """
    if dm.is_never_negative(before) and dm.is_never_negative(after):
        return 0, before, size
    first = dm.minimum(dm.maximum(before, 0), of)
    end = dm.minimum(dm.maximum(before + size, 0), of)
    return dm.minimum(dm.maximum(-before, 0), size), first, dm.maximum(end - first, 0)
