"""Ops that change places of elements or the number of axes, made of the movement primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.conversion import to_tensor
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.positions import numbers
from phix.primitives.shape import expand_meta
from phix.primitives.slicing import pieces


# -- flip, roll --------------------------------------------------------------------------------
@rules.normalize("flip")
def flip_attrs(x: MetaTensor, axis: Any) -> Any:
    return (tuple(sorted(ax.all_positive(axis, x.ndim))) if x.ndim else (),)


@rules.batch("flip")
def flip_batch(batched: Any, x: Any, axis: Any) -> Any:
    return ops.flip(x, tuple(a + 1 for a in axis))


@rules.normalize("roll")
def roll_attrs(x: MetaTensor, shifts: Any, axis: Any) -> Any:
    """One shift an axis; of no axis, the elements in C order are rolled by the single shift."""
    if len(shifts) != max(len(axis), 1):
        raise AttributeValueError(
            f"shifts {shifts} must have one number for each axis in {axis} (one if there is none)"
        )
    return shifts, tuple(ax.positive(a, x.ndim) for a in axis) if x.ndim else ()


@rules.decompose("roll_grad")
def roll_grad(x: Any, out_grad: Any, shifts: Any, axis: Any) -> Any:
    return ops.roll(out_grad, [-s for s in shifts], axis)


@rules.batch("roll")
def roll_batch(batched: Any, x: Any, shifts: Any, axis: Any) -> Any:
    if axis:
        return ops.roll(x, shifts, tuple(a + 1 for a in axis))
    dims = x.meta.dims
    flat = ops.reshape(x, (dims[0], dm.product(dims[1:])))
    return ops.reshape(ops.roll(flat, shifts, [1]), dims)


# -- diagonal ----------------------------------------------------------------------------------
@rules.normalize("diagonal")
def diagonal_attrs(x: MetaTensor, offset: int, axis1: int, axis2: int) -> Any:
    if x.ndim < 2:
        raise ShapeError(f"{x} has no diagonal; it takes at least two axes")
    return offset, *ax.all_positive((axis1, axis2), x.ndim)


@rules.infer_meta("DiagonalInferMeta")
def diagonal_meta(x: MetaTensor, offset: int, axis1: int, axis2: int) -> MetaTensor:
    rest = [d for i, d in enumerate(x.dims) if i not in (axis1, axis2)]
    return x.with_dims([*rest, _diagonal_length(x, offset, axis1, axis2)])


def _diagonal_length(x: MetaTensor, offset: int, axis1: int, axis2: int) -> dm.DimLike:
    rows, columns = x.dims[axis1] + min(offset, 0), x.dims[axis2] - max(offset, 0)
    length = dm.minimum(rows, columns)
    return length if offset == 0 else dm.maximum(length, 0)


@rules.decompose("diagonal_grad")
def diagonal_grad(x: Any, out_grad: Any, offset: int, axis1: int, axis2: int) -> Any:
    """Row i holds the gradient of its element in the column where it stands, and zeros."""
    rows, columns = x.meta.dims[axis1], x.meta.dims[axis2]
    lead = out_grad.ndim - 1
    length = out_grad.meta.dims[-1]
    before = max(-offset, 0)
    if dm.is_known(length, rows):
        before = min(before, rows - length)
    by_row = ops.pad(out_grad, [0] * (2 * lead) + [before, rows - length - before], 0)
    column = ops.reshape(by_row, (*by_row.meta.dims, 1))
    stands = ops.reshape(numbers(rows), (rows, 1)) + offset == numbers(columns)
    whole = ops.where(stands, column, ops.full((), 0, out_grad.dtype))
    order = list(range(lead))
    for axis, place in sorted([(axis1, lead), (axis2, lead + 1)]):
        order.insert(axis, place)
    return ops.transpose(whole, order)


@rules.batch("diagonal")
def diagonal_batch(batched: Any, x: Any, offset: int, axis1: int, axis2: int) -> Any:
    return ops.diagonal(x, offset, axis1 + 1, axis2 + 1)


# -- axes of one element -----------------------------------------------------------------------
@rules.normalize("squeeze")
def squeeze_attrs(x: MetaTensor, axis: Any) -> Any:
    if axis:
        named = {ax.positive(a, x.ndim) for a in axis} if x.ndim else ()
        return (tuple(a for a in sorted(named) if dm.may_equal(x.dims[a], 1)),)
    if not x.is_static():
        raise AttributeValueError(f"which axes of {x} have one element is unknown; name the axes")
    return (tuple(i for i, d in enumerate(x.dims) if d == 1),)


@rules.infer_meta("SqueezeInferMeta")
def squeeze_meta(x: MetaTensor, axis: Any) -> MetaTensor:
    for a in axis:
        if not dm.may_equal(x.dims[a], 1):
            raise ShapeError(
                f"axis {a} of {x} has {dm.dim_text(x.dims[a])} elements; only an axis of one "
                "element can go"
            )
    return x.with_dims([d for i, d in enumerate(x.dims) if i not in axis])


@rules.decompose("squeeze")
def squeeze(x: Any, axis: Any) -> Any:
    return ops.reshape(x, [d for i, d in enumerate(x.meta.dims) if i not in axis])


@rules.normalize("unsqueeze")
def unsqueeze_attrs(x: MetaTensor, axis: Any) -> Any:
    """One after the other, each counted in what those before it have left."""
    places: list[bool] = [False] * x.ndim
    for a in axis:
        places.insert(ax.positive(a, len(places) + 1), True)
    return (tuple(i for i, is_new in enumerate(places) if is_new),)


@rules.decompose("unsqueeze")
def unsqueeze(x: Any, axis: Any) -> Any:
    dims = list(x.meta.dims)
    for a in axis:
        dims.insert(a, 1)
    return ops.reshape(x, dims)


@rules.normalize("flatten")
def flatten_attrs(x: MetaTensor, start_axis: int, stop_axis: int) -> Any:
    start, stop = ax.positive(start_axis, x.ndim), ax.positive(stop_axis, x.ndim)
    if start > stop:
        raise AttributeValueError(f"start_axis {start_axis} comes after stop_axis {stop_axis}")
    return start, stop


@rules.decompose("flatten")
def flatten(x: Any, start_axis: int, stop_axis: int) -> Any:
    dims = x.meta.dims
    joined = dm.product(dims[start_axis : stop_axis + 1])
    return ops.reshape(x, (*dims[:start_axis], joined, *dims[stop_axis + 1 :]))


# -- stack and its inverses --------------------------------------------------------------------
@rules.normalize("stack")
def stack_attrs(x: Any, axis: int) -> Any:
    if not x:
        raise ShapeError("stack needs at least one tensor")
    return (ax.positive(axis, x[0].ndim + 1),)


@rules.infer_meta("StackInferMeta")
def stack_meta(x: Any, axis: int) -> MetaTensor:
    dims = list(x[0].dims)
    for other in x[1:]:
        if other.ndim != len(dims) or not all(map(dm.may_equal, dims, other.dims)):
            raise ShapeError(f"tensors to stack must have one shape, found {x[0]} and {other}")
        dims = [e if dm.is_known(e) else d for d, e in zip(dims, other.dims)]
    return x[0].with_dims((*dims[:axis], len(x), *dims[axis:]))


@rules.decompose("stack")
def stack(x: Any, axis: int) -> Any:
    return ops.concat([unsqueeze(part, (axis,)) for part in x], axis)


@rules.normalize("unbind")
def unbind_attrs(input: MetaTensor, axis: int) -> Any:
    axis = ax.positive(axis, input.ndim)
    if not input.ndim or not dm.is_known(input.dims[axis]):
        raise ShapeError(
            f"{input} cannot be unbound along axis {axis}: it needs a known size there"
        )
    return (axis,)


@rules.decompose("unbind")
def unbind(input: Any, axis: int) -> Any:
    dims = input.meta.dims
    rest = (*dims[:axis], *dims[axis + 1 :])
    return tuple(ops.reshape(part, rest) for part in pieces(input, (1,) * dims[axis], axis))


@rules.decompose("unbind_grad")
@rules.decompose("unstack_grad")
def unbind_grad(out_grad: Any, axis: int) -> Any:
    return ops.stack(list(out_grad), axis)


@rules.normalize("unstack")
def unstack_attrs(x: MetaTensor, axis: int, num: int) -> Any:
    axis = ax.positive(axis, x.ndim)
    size = x.dims[axis] if x.ndim else 0
    if not x.ndim or not dm.may_equal(size, num or size) or not (num or dm.is_known(size)):
        raise ShapeError(
            f"{x} does not unstack along axis {axis} into num = {num} tensors; write the size of "
            "the axis, which 0 stands for where it is known"
        )
    return axis, num or size


@rules.infer_meta("UnStackInferMeta")
def unstack_meta(x: MetaTensor, axis: int, num: int) -> Any:
    if not dm.may_equal(x.dims[axis], num):
        raise ShapeError(f"axis {axis} of {x} does not have num = {num} elements")
    return (x.with_dims((*x.dims[:axis], *x.dims[axis + 1 :])),) * num


@rules.decompose("unstack")
def unstack(x: Any, axis: int, num: int) -> Any:
    dims = x.meta.dims
    rest = (*dims[:axis], *dims[axis + 1 :])
    return tuple(ops.reshape(part, rest) for part in pieces(x, (1,) * num, axis))


# -- repeating and broadcasting ----------------------------------------------------------------
@rules.decompose("tile")
def tile(x: Any, repeat_times: Any) -> Any:
    """Each axis behind a new one of its count, then both joined."""
    rank = max(x.ndim, len(repeat_times))
    dims = (*(1,) * (rank - x.ndim), *x.meta.dims)
    counts = (*(1,) * (rank - len(repeat_times)), *repeat_times)
    if any(isinstance(c, int) and c < 0 for c in counts):
        raise AttributeValueError(f"repeat_times {repeat_times} must not be negative")
    apart = [d for dim in dims for d in (1, dim)]
    spread = [d for pair in zip(counts, dims) for d in pair]
    repeated = ops.expand(ops.reshape(x, apart), spread)
    return ops.reshape(repeated, [c * d for c, d in zip(counts, dims)])


@rules.infer_meta("ExpandAsInferMeta")
def expand_as_meta(x: MetaTensor, y: MetaTensor, target_shape: Any) -> MetaTensor:
    shape = target_shape or y.dims
    if len(shape) < x.ndim:
        raise ShapeError(f"{x} has more axes than the shape {dm.shape_text(shape)} to expand to")
    return expand_meta(x, shape)


@rules.decompose("expand_as")
def expand_as(x: Any, y: Any, target_shape: Any) -> Any:
    return ops.expand(x, target_shape or y.meta.dims)


@rules.decompose("broadcast_tensors")
def broadcast_tensors(input: Any) -> Any:
    if not input:
        return ()
    dims = broadcast_shapes(*(x.meta.dims for x in input))
    return tuple(ops.expand(x, dims) for x in input)


@rules.decompose("meshgrid")
def meshgrid(inputs: Any) -> Any:
    """Input i varies along axis i."""
    if not inputs:
        raise ArgumentError("meshgrid takes at least one tensor, found none")
    for x in inputs:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid takes 1-d tensors, found {x.meta}; flatten it first")
    sizes = [x.meta.size for x in inputs]
    found = []
    for i, x in enumerate(inputs):
        own = [size if i == k else 1 for k, size in enumerate(sizes)]
        found.append(ops.expand(ops.reshape(x, own), sizes))
    return tuple(found)


# -- shapes as tensors -------------------------------------------------------------------------
@rules.decompose("shape")
def shape(input: Any) -> Any:
    """A constant where all dims are known; unknown ones are filled in when the program runs."""
    if input.meta.is_static():
        return to_tensor(np.array(input.meta.dims, dt.int64))
    dims = [ops.full((), d, dt.int64) for d in input.meta.dims]
    return ops.stack(dims, 0)


@rules.decompose("numel")
def numel(x: Any) -> Any:
    return ops.full((), x.meta.size, dt.int64)
