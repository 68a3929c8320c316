"""Gathers, scatters and masks: metas, backward and batching rules.

An index counts from the end if it is negative. One outside [-n, n) is refused where the call runs
at once (see ``phix.core.index_ranges``); in compiled programs reads take the nearest that exists,
and nothing is written. ``mode`` says otherwise: "clip" writes at the nearest too, as the gradient
of a read has to. Of two writes to one place the one with the later index stands.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.dims import Shape
from phix.core.errors import AttributeValueError, DTypeError, ShapeError, UnknownDimError
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import check_computes, check_fits, unbroadcast
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.positions import (
    joined,
    masked,
    nothing,
    numbers,
    to_axis,
    with_places,
    within,
)
from phix.primitives.slicing import behind, expanded


def check_index(index: MetaTensor, name: str = "index") -> None:
    """Refuse what is no tensor of ints."""
    if dt.kind(index.dtype) != "int" or index.dtype in dt.STORAGE:
        raise DTypeError(f"{name} must be an int tensor, found {index}; cast it")


# -- what writes do out of range ------------------------------------------------------------------
_MODES = ("raise", "drop", "clip")


def check_mode(mode: str) -> str:
    """The mode.

    Raises:
        AttributeValueError: there is no such mode.
    """
    if mode not in _MODES:
        raise AttributeValueError(f"mode {mode!r} is not known; write one of {', '.join(_MODES)}")
    return mode


def to_values(gradient: Any, mode: str, indices: Any, sizes: Any) -> Any:
    """The gradient of what was written at indices into axes of these sizes, from what stands at
    the nearest inside: none where nothing was written."""
    return gradient if mode == "clip" else masked(within(indices, sizes), gradient)


# -- what indices may be -------------------------------------------------------------------------
# Calls that do not fit have no ranges: what infers their metas says why.
def _along_axis(name: str, x: MetaTensor, axis: int) -> list[IndexRange]:
    return [IndexRange(name, (x.dims[axis],), f"axis {axis}")] if axis < x.ndim else []


@rules.indices("gather")
@rules.indices("index_select")
def gather_indices(x: MetaTensor, index: MetaTensor, axis: int) -> list[IndexRange]:
    return _along_axis("index", x, axis)


@rules.indices("index_sample")
def index_sample_indices(x: MetaTensor, index: MetaTensor) -> list[IndexRange]:
    return _along_axis("index", x, 1)


@rules.indices("take_along_axis")
def take_along_axis_indices(arr: MetaTensor, indices: MetaTensor, axis: int) -> list[IndexRange]:
    return _along_axis("indices", arr, axis)


@rules.indices("put_along_axis")
def put_along_axis_indices(
    arr: MetaTensor, indices: MetaTensor, values: MetaTensor, axis: int, *attrs: Any
) -> list[IndexRange]:
    return _along_axis("indices", arr, axis) if attrs[-1] == "raise" else []


@rules.indices("scatter")
def scatter_indices(x: MetaTensor, index: MetaTensor, *rest: Any) -> list[IndexRange]:
    return _along_axis("index", x, 0)


@rules.indices("scatter_nd_add")
def scatter_nd_add_indices(
    x: MetaTensor, index: MetaTensor, updates: MetaTensor, mode: str
) -> list[IndexRange]:
    return gather_nd_indices(x, index) if mode == "raise" else []


@rules.indices("gather_nd")
def gather_nd_indices(x: MetaTensor, index: MetaTensor) -> list[IndexRange]:
    depth = index.dims[-1] if index.ndim else None
    if not isinstance(depth, int) or not 0 < depth <= x.ndim:
        return []
    return [IndexRange("index", x.dims[:depth], "", is_row=True)]


@rules.indices("index_put")
def index_put_indices(
    x: MetaTensor, indices: Any, value: MetaTensor, accumulate: bool, axes: Any, mode: str
) -> list[IndexRange]:
    if mode != "raise":
        return []
    return [r for k, a in enumerate(axes) for r in _along_axis(f"indices[{k}]", x, a)]


# -- gather ------------------------------------------------------------------------------------
@rules.normalize("gather")
def gather_attrs(x: MetaTensor, index: MetaTensor, axis: Any) -> Any:
    if not x.ndim:
        raise ShapeError(f"{x} has no axis to gather along; reshape it to [1] first")
    return (ax.positive(int(axis), x.ndim),)


@rules.infer_meta("GatherInferMeta")
def gather_meta(x: MetaTensor, index: MetaTensor, axis: int) -> MetaTensor:
    check_index(index)
    if dm.is_zero(x.dims[axis]) and dm.is_known(index.size) and not dm.is_zero(index.size):
        raise ShapeError(f"axis {axis} of {x} is empty, so there is nothing to gather there")
    return x.with_dims((*x.dims[:axis], *index.dims, *x.dims[axis + 1 :]))


@rules.decompose("gather_grad")
def gather_grad(x: Any, index: Any, out_grad: Any, axis: int) -> Any:
    rank = index.ndim
    order = [*range(axis, axis + rank), *range(axis), *range(axis + rank, out_grad.ndim)]
    updates = ops.transpose(out_grad, order) if axis and rank else out_grad
    return ops.index_put(nothing(out_grad, x.meta.dims), [index], updates, True, (axis,), "clip")


@rules.batch("gather")
def gather_batch(batched: Any, x: Any, index: Any, axis: int) -> Any:
    of_x, of_index = batched
    if not of_index:
        return ops.gather(x, index, axis + 1)
    if not of_x:
        return to_axis(ops.gather(x, index, axis), axis, 0)
    where = _with_rows(ops.reshape(index, (*index.meta.dims, 1)))
    found = ops.gather_nd(to_axis(x, axis + 1, 1), where)
    # (batch, index, before the axis, behind it) -> (batch, before, index, behind)
    rank = index.ndim
    order = [0, *range(rank, rank + axis), *range(1, rank), *range(rank + axis, found.ndim)]
    return ops.transpose(found, order)


def _with_rows(index: Any) -> Any:
    """A batch of gather_nd's indices, each entry with the number of its row in front."""
    dims = index.meta.dims
    wide = as_int64(index)
    rows = ops.reshape(numbers(dims[0]), (dims[0], *(1,) * (len(dims) - 1)))
    return ops.concat([ops.expand(rows, (*dims[:-1], 1)), wide], len(dims) - 1)


# -- gather_nd, scatter_nd_add -----------------------------------------------------------------
def _depth(x: MetaTensor, index: MetaTensor) -> int:
    """How many axes of x one entry of the index names."""
    check_index(index)
    if not index.ndim:
        raise ShapeError(f"index {index} must have a last axis, of the axes of x to name")
    depth = index.dims[-1]
    if not isinstance(depth, int):
        raise UnknownDimError(
            f"the last dim of index {index}, how many axes of x it names, must be known; declare it"
        )
    if depth > x.ndim:
        raise ShapeError(f"the last dim of index {index} names {depth} axes, {x} has {x.ndim}")
    return depth


@rules.infer_meta("GatherNdInferMeta")
def gather_nd_meta(x: MetaTensor, index: MetaTensor) -> MetaTensor:
    depth = _depth(x, index)
    count = dm.product(index.dims[:-1])
    if any(map(dm.is_zero, x.dims[:depth])) and dm.is_known(count) and not dm.is_zero(count):
        raise ShapeError(f"{x} is empty along the axes that index {index} names")
    return x.with_dims((*index.dims[:-1], *x.dims[depth:]))


@rules.decompose("gather_nd_grad")
def gather_nd_grad(x: Any, index: Any, out_grad: Any) -> Any:
    return ops.scatter_nd_add(nothing(out_grad, x.meta.dims), index, out_grad, "clip")


@rules.batch("gather_nd")
def gather_nd_batch(batched: Any, x: Any, index: Any) -> Any:
    of_x, of_index = batched
    if not of_x:
        return ops.gather_nd(x, index)
    if not of_index:
        depth = index.meta.dims[-1]
        return to_axis(ops.gather_nd(to_axis(x, 0, depth), index), index.ndim - 1, 0)
    return ops.gather_nd(x, _with_rows(index))


@rules.normalize("scatter_nd_add")
def scatter_nd_add_attrs(
    x: MetaTensor, index: MetaTensor, updates: MetaTensor, mode: str
) -> tuple[str]:
    return (check_mode(mode),)


@rules.infer_meta("ScatterNdAddInferMeta")
def scatter_nd_add_meta(
    x: MetaTensor, index: MetaTensor, updates: MetaTensor, mode: str
) -> MetaTensor:
    depth = _depth(x, index)
    wanted = (*index.dims[:-1], *x.dims[depth:])
    if updates.ndim != len(wanted) or not all(map(dm.may_equal, updates.dims, wanted)):
        raise ShapeError(
            f"updates for {x} at index {index} must have shape {dm.shape_text(wanted)}, found "
            f"{updates}; expand or reshape it"
        )
    count = dm.product(index.dims[:-1])
    is_empty = mode != "drop" and any(map(dm.is_zero, x.dims[:depth]))
    if is_empty and dm.is_known(count) and not dm.is_zero(count):
        raise ShapeError(f"{x} is empty along the axes that index {index} names")
    return x


@rules.decompose("scatter_nd_add_grad")
def scatter_nd_add_grad(index: Any, updates: Any, out_grad: Any, mode: str) -> Any:
    depth, last = index.shape[-1], index.ndim - 1
    there = with_places(out_grad, range(depth)) if mode == "drop" else out_grad
    found = ops.gather_nd(there, index)
    columns = [ops.slice(index, [last], [k], [k + 1], [], [last]) for k in range(depth)]
    is_empty = not columns  # of axes: then each adds to all of x
    return out_grad, found if is_empty else to_values(found, mode, columns, out_grad.meta.dims)


@rules.batch("scatter_nd_add")
def scatter_nd_add_batch(batched: Any, x: Any, index: Any, updates: Any, mode: str) -> Any:
    size = next(v.meta.dims[0] for v, b in zip((x, index, updates), batched) if b)
    x, index, updates = (expanded(v, b, size) for v, b in zip((x, index, updates), batched))
    return ops.scatter_nd_add(x, _with_rows(index), updates, mode)


# -- index_put, scatter ------------------------------------------------------------------------
@rules.normalize("index_put")
def index_put_attrs(
    x: MetaTensor, indices: Any, value: MetaTensor, accumulate: bool, axes: Any, mode: str
) -> Any:
    if not 0 < len(indices) <= x.ndim:
        raise ShapeError(f"{x} takes 1 to {x.ndim} index tensors, found {len(indices)}")
    axes = ax.all_positive(axes, x.ndim, "axes") if axes else tuple(range(len(indices)))
    if len(axes) != len(indices):
        raise AttributeValueError(
            f"axes {axes} must name one axis for each of the {len(indices)} index tensors"
        )
    return accumulate, axes, check_mode(mode)


def _rest(x: Any, axes: Any) -> Shape:
    """The dims of the axes that are not named."""
    return tuple(d for a, d in enumerate(x.dims) if a not in axes)


@rules.infer_meta("IndexPutInferMeta")
def index_put_meta(
    x: MetaTensor, indices: Any, value: MetaTensor, accumulate: bool, axes: Any, mode: str
) -> MetaTensor:
    for i in indices:
        check_index(i, "each of indices")
    batch = broadcast_shapes(*(i.dims for i in indices))
    count = dm.product(batch)
    is_empty = mode != "drop" and any(dm.is_zero(x.dims[a]) for a in axes)
    if is_empty and dm.is_known(count) and not dm.is_zero(count):
        raise ShapeError(f"{x} is empty along the axes that the indices name")
    check_fits(value, (*batch, *_rest(x, axes)), "value")
    if accumulate:
        check_computes(x, "accumulate")
    return x


@rules.decompose("index_put_grad")
def index_put_grad(
    x: Any, indices: Any, value: Any, out_grad: Any, accumulate: bool, axes: Any, mode: str
) -> Any:
    """To the value what stands where it was put; of several writes to one place, to the last."""
    batch = broadcast_shapes(*(i.meta.dims for i in indices))
    sizes = [x.meta.dims[a] for a in axes]
    there = with_places(out_grad, axes) if mode == "drop" else out_grad
    to_value = to_values(_picked(there, indices, batch, axes), mode, indices, sizes)
    if accumulate:
        return out_grad, unbroadcast(to_value, value)
    to_x = ops.index_put(out_grad, indices, nothing(out_grad, ()), False, axes, mode)
    count = dm.product(batch)
    if not dm.is_one(count):
        turns = ops.reshape(numbers(count), batch)
        none = ops.full(sizes, -1, dt.int64)
        last = ops.index_put(none, indices, turns, False, (), mode)
        every = tuple(range(len(axes)))
        last = with_places(last, every) if mode == "drop" else last
        stands = _picked(last, indices, batch, every) == turns
        to_value = masked(stands, to_value)
    return to_x, unbroadcast(to_value, value)


def _picked(x: Any, indices: Any, batch: Shape, axes: Any) -> Any:
    """What stands where the indices of these axes point: their dims, then those of the others."""
    if len(indices) == 1:
        found = ops.gather(x, indices[0], axes[0])
        rank = indices[0].ndim
        order = [*range(axes[0], axes[0] + rank), *range(axes[0])]
        order += range(len(order), found.ndim)
        return ops.transpose(found, order) if axes[0] and rank else found
    rest = [a for a in range(x.ndim) if a not in axes]
    front = ops.transpose(x, [*axes, *rest])
    return ops.gather_nd(front, joined(indices, batch))


@rules.batch("index_put")
def index_put_batch(
    batched: Any, x: Any, indices: Any, value: Any, accumulate: bool, axes: Any, mode: str
) -> Any:
    of_x, of_indices, of_value = batched
    flags = (of_x, *of_indices, of_value)
    size = next(v.meta.dims[0] for v, b in zip((x, *indices, value), flags) if b)
    rank = max(i.ndim - b for i, b in zip(indices, of_indices))
    rows = ops.reshape(numbers(size), (size, *(1,) * rank))
    own = [behind(i, rank - i.ndim + 1) if b else i for i, b in zip(indices, of_indices)]
    x = expanded(x, of_x, size)
    if of_value:
        value = behind(value, rank + x.ndim - 1 - len(indices) - (value.ndim - 1))
    return ops.index_put(x, [rows, *own], value, accumulate, (0, *(a + 1 for a in axes)), mode)


@rules.infer_meta("ScatterInferMeta")
def scatter_meta(
    x: MetaTensor, index: MetaTensor, updates: MetaTensor, overwrite: bool
) -> MetaTensor:
    check_index(index)
    is_column = index.ndim == 2 and dm.may_equal(index.dims[1], 1)
    wanted = (*(index.dims[:1] if is_column else index.dims), *x.dims[1:])
    if not x.ndim or not (index.ndim < 2 or is_column):
        raise ShapeError(
            f"scatter writes rows of x at an index of [], [n] or [n, 1], found {x} and {index}"
        )
    if updates.ndim != len(wanted) or not all(map(dm.may_equal, updates.dims, wanted)):
        raise ShapeError(
            f"updates for rows of {x} at index {index} must have shape {dm.shape_text(wanted)}, "
            f"found {updates}"
        )
    if dm.is_zero(x.dims[0]) and dm.is_known(index.size) and not dm.is_zero(index.size):
        raise ShapeError(f"{x} has no rows, so nothing can be written at {index}")
    return x


@rules.decompose("scatter")
def scatter(x: Any, index: Any, updates: Any, overwrite: bool) -> Any:
    if index.ndim == 2:
        index = ops.reshape(index, index.meta.dims[:1])
    if overwrite:
        return ops.index_put(x, [index], updates)
    cleared = ops.index_put(x, [index], nothing(x, ()))
    return ops.index_put(cleared, [index], updates, True)


# -- made of the above -------------------------------------------------------------------------
@rules.normalize("index_select")
def index_select_attrs(x: MetaTensor, index: MetaTensor, axis: int) -> Any:
    return gather_attrs(x, index, axis)


@rules.infer_meta("IndexSelectInferMeta")
def index_select_meta(x: MetaTensor, index: MetaTensor, axis: int) -> MetaTensor:
    if index.ndim != 1:
        raise ShapeError(f"index must have one axis, found {index}; gather takes any number")
    return gather_meta(x, index, axis)


@rules.infer_meta("MaskedFillInferMeta")
def masked_fill_meta(x: MetaTensor, mask: MetaTensor, value: MetaTensor) -> MetaTensor:
    if mask.dtype != dt.bool_:
        raise DTypeError(f"mask must be a bool tensor, found {mask}; compare or cast it")
    dims = broadcast_shapes(x.dims, mask.dims)
    check_fits(value, dims, "value")
    return x.with_dims(dims)
