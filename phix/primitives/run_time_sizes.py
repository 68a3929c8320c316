"""Ops whose results have a size that their data tell.

Each computes the size, makes an unknown dim of it (``as_dim``), and fills arrays of that size with
ops that know it. So what a program computes with such results runs in the same program, and
derivatives and the rest follow from the ops it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim
from phix.core.dims import DimLike
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.index_ranges import NO_END, IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.core.transforms import transforms
from phix.primitives import axes as ax
from phix.primitives.indexing import check_index
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.positions import numbers, to_axis


def flat(x: Any) -> Any:
    """``x`` as one axis."""
    return x if x.ndim == 1 else ops.reshape(x, (x.meta.size,))


def count_true(mask: Any) -> Any:
    """How many elements of a bool tensor are true, as one int64."""
    return ops.sum(ops.cast(mask, dt.int64), list(range(mask.ndim)), dt.int64, False)


def chosen(mask: Any) -> Any:
    """The flat positions of all true elements: as many as the program finds."""
    mask = flat(mask)
    return ops.true_positions(mask, as_dim(count_true(mask)))


def _check_mask(mask: MetaTensor) -> None:
    if mask.dtype != dt.bool_:
        raise DTypeError(f"mask must be a bool tensor, found {mask}; compare or cast it")


# -- true_positions ------------------------------------------------------------------------------
@rules.infer_meta("TruePositionsInferMeta")
def true_positions_meta(mask: MetaTensor, size: DimLike, fill: int, lead: int) -> MetaTensor:
    _check_mask(mask)
    if isinstance(size, int) and size < 0:
        raise AttributeValueError(f"size {size} must be 0 or more")
    if not 0 <= lead <= mask.ndim:
        raise AttributeValueError(f"lead {lead} must be 0 to {mask.ndim}, the axes of {mask}")
    return MetaTensor((*mask.dims[:lead], size), dt.int64)


@rules.batch("true_positions")
def true_positions_batch(batched: Any, mask: Any, size: DimLike, fill: int, lead: int) -> Any:
    return ops.true_positions(mask, size, fill, lead + 1)


# -- nonzero, masked_select ----------------------------------------------------------------------
@rules.infer_meta("NonZeroInferMeta")
def nonzero_meta(condition: MetaTensor) -> MetaTensor:
    if not condition.ndim:
        raise ShapeError(f"condition must have an axis, found {condition}; reshape it to [1]")
    return MetaTensor((dm.symbol(), condition.ndim), dt.int64)


@rules.decompose("nonzero")
def nonzero(condition: Any) -> Any:
    mask = condition if condition.dtype == dt.bool_ else condition != 0
    return unraveled(chosen(mask), mask.meta.dims)


def unraveled(positions: Any, dims: Sequence[Any]) -> Any:
    """Flat positions as rows of indices, one for each of ``dims``."""
    if len(dims) == 1:
        return ops.reshape(positions, (*positions.meta.dims, 1))
    columns: list[Any] = []
    for number, dim in reversed(list(enumerate(dims))):
        columns.append(ops.remainder(positions, dim) if number else positions)
        positions = ops.floor_divide(positions, dim) if number else positions
    return ops.stack(columns[::-1], 1)


@rules.infer_meta("MaskedSelectInferMeta")
def masked_select_meta(x: MetaTensor, mask: MetaTensor) -> MetaTensor:
    _check_mask(mask)
    broadcast_shapes(x.dims, mask.dims)
    return x.with_dims((dm.symbol(),))


@rules.decompose("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    dims = broadcast_shapes(x.meta.dims, mask.meta.dims)
    x, mask = (v if dm.same_shape(v.meta.dims, dims) else ops.expand(v, dims) for v in (x, mask))
    return ops.gather(flat(x), chosen(mask), 0)


# -- unique, unique_consecutive ------------------------------------------------------------------
def _one_axis(x: MetaTensor, axis: Any) -> Any:
    """The axis that is compared along, or none: all elements."""
    if len(axis) > 1:
        raise AttributeValueError(f"axis names one axis, or none for all elements; found {axis}")
    return tuple(ax.positive(a, x.ndim) for a in axis)


@rules.normalize("unique")
def unique_attrs(
    x: MetaTensor, index: bool, inverse: bool, counts: bool, axis: Any, dtype: Any
) -> Any:
    return index, inverse, counts, _one_axis(x, axis), dtype or dt.int64


@rules.normalize("unique_consecutive")
def consecutive_attrs(x: MetaTensor, inverse: bool, counts: bool, axis: Any, dtype: Any) -> Any:
    return inverse, counts, _one_axis(x, axis), dtype


def _unique_metas(x: MetaTensor, axis: Any, dtype: Any, *asked: tuple[bool, bool]) -> Any:
    """The metas of the result and of what is asked for besides: (is asked, is one each of x)."""
    count = dm.symbol()
    size = x.dims[axis[0]] if axis else x.size
    dims = (*x.dims[: axis[0]], count, *x.dims[axis[0] + 1 :]) if axis else (count,)
    rest = [
        MetaTensor((size if of_each else count,), dtype) if is_asked else None
        for is_asked, of_each in asked
    ]
    return (x.with_dims(dims), *rest)


@rules.infer_meta("UniqueInferMeta")
def unique_meta(
    x: MetaTensor, index: bool, inverse: bool, counts: bool, axis: Any, dtype: Any
) -> Any:
    if dtype not in (dt.int32, dt.int64):
        raise DTypeError(f"dtype is that of indices, int32 or int64, found {dtype}")
    return _unique_metas(x, axis, dtype, (index, False), (inverse, True), (counts, False))


@rules.infer_meta("UniqueConsecutiveInferMeta")
def consecutive_meta(x: MetaTensor, inverse: bool, counts: bool, axis: Any, dtype: Any) -> Any:
    return _unique_metas(x, axis, _index_dtype(dtype), (inverse, True), (counts, False))


def _index_dtype(dtype: Any) -> Any:
    return dt.int32 if dtype == dt.int32 else dt.int64


@rules.decompose("unique")
def unique(x: Any, index: bool, inverse: bool, counts: bool, axis: Any, dtype: Any) -> Any:
    """Sorted, equal ones stand side by side, the first of them first."""
    order: Any = None
    first: Any = None
    axis = () if x.ndim == 1 else axis
    if axis:
        rows = _rows(x, axis[0])
        order = _row_order(rows)
        rows = ops.gather(rows, order, 0)
    elif index or inverse:
        rows, order = ops.argsort(flat(x), 0, False, True)
    else:
        rows = ops.sort(flat(x), 0, False)
    starts = _starts(rows)
    places = chosen(starts)
    if axis or index:
        first = ops.gather(order, places, 0)
    out = ops.gather(x, first, axis[0]) if axis else ops.gather(rows, places, 0)
    number = _numbered(starts, order) if inverse else None
    times = _counts(places, rows.meta.dims[0]) if counts else None
    return (out, *_cast_all(dtype, first if index else None, number, times))


@rules.decompose("unique_consecutive")
def unique_consecutive(x: Any, inverse: bool, counts: bool, axis: Any, dtype: Any) -> Any:
    rows = _rows(x, axis[0]) if axis else flat(x)
    starts = _starts(rows)
    places = chosen(starts)
    out = ops.gather(x, places, axis[0]) if axis else ops.gather(rows, places, 0)
    number = _numbered(starts, None) if inverse else None
    times = _counts(places, rows.meta.dims[0]) if counts else None
    return (out, *_cast_all(_index_dtype(dtype), number, times))


def _cast_all(dtype: Any, *found: Any) -> list[Any]:
    return [None if f is None else ops.cast(f, dtype) for f in found]


def _rows(x: Any, axis: int) -> Any:
    """The slices along an axis as rows of numbers."""
    front = to_axis(x, axis, 0)
    size = front.meta.dims[0]
    return ops.reshape(front, (size, dm.product(front.meta.dims[1:])))


def _row_order(rows: Any) -> Any:
    """What sorts rows by their first numbers, equal ones by the next, and so on: sorted by the last
    ones first, by stable sorts."""
    count, width = rows.meta.dims

    def by_column(order: Any, column: Any) -> list[Any]:
        return [ops.gather(order, ops.argsort(ops.gather(column, order, 0), 0, False, True)[1], 0)]

    columns = ops.transpose(rows, (1, 0))
    metas = [MetaTensor((count,), dt.int64), MetaTensor((count,), rows.dtype)]
    graph, closed = transforms().trace(by_column, metas)
    return ops.scan([numbers(count)], [columns], closed, graph, width, True)[0][0]


def _starts(rows: Any) -> Any:
    """Where an element, or a row, differs from the one before; NaNs are equal."""
    size = rows.meta.dims[0]
    before = ops.roll(rows, (1,), (0,))
    differs = rows != before
    if dt.is_differentiable(rows.dtype):
        differs = ops.logical_and(differs, ops.logical_or(rows == rows, before == before))
    if rows.ndim > 1:
        differs = ops.any(differs, [1], False)
    return ops.logical_or(differs, numbers(size) == 0)


def _numbered(starts: Any, order: Any) -> Any:
    """For each, how many different ones stand before it."""
    number = ops.cumsum(ops.cast(starts, dt.int64), 0, False, False, False) - 1
    if order is None:
        return number
    return ops.index_put(ops.full(starts.meta.dims, 0, dt.int64), [order], number)


def _counts(places: Any, size: DimLike) -> Any:
    """From each place how far it is to the next, or to the end."""
    count = places.meta.dims[0]
    ends = ops.concat([places, ops.full((1,), size, dt.int64)], 0)
    return ops.slice(ends, [0], [1], [count + 1], (), ()) - places


# -- repeat_interleave_with_tensor_index, bincount -----------------------------------------------
@rules.normalize("repeat_interleave_with_tensor_index")
def repeat_attrs(x: MetaTensor, repeats: MetaTensor, axis: int) -> Any:
    return (ax.positive(axis, x.ndim),)


@rules.indices("repeat_interleave_with_tensor_index")
def repeat_ranges(x: MetaTensor, repeats: MetaTensor, axis: int) -> list[IndexRange]:
    return [IndexRange("repeats", (NO_END,), "numbers of repeats", counts_back=False)]


@rules.infer_meta("RepeatInterleaveWithTensorIndexInferMeta")
def repeat_meta(x: MetaTensor, repeats: MetaTensor, axis: int) -> MetaTensor:
    check_index(repeats, "repeats")
    if not x.ndim:
        raise ShapeError(f"x must have an axis, found {x}; reshape it to [1]")
    size = x.dims[axis]
    if repeats.ndim != 1 or not (dm.may_equal(repeats.dims[0], size) or repeats.dims[0] == 1):
        raise ShapeError(
            f"repeats must have one number for each of the {dm.dim_text(size)} slices along axis "
            f"{axis} of {x}, or one for all, found {repeats}"
        )
    return x.with_dims((*x.dims[:axis], dm.symbol(), *x.dims[axis + 1 :]))


@rules.decompose("repeat_interleave_with_tensor_index")
def repeat_interleave_with_tensor_index(x: Any, repeats: Any, axis: int) -> Any:
    """Each slice puts a mark where its copies begin; of the marks so far, the last is whose copy
    a place holds."""
    repeats = ops.expand(ops.cast(repeats, dt.int64), (x.meta.dims[axis],))
    count = ops.sum(repeats, [0], dt.int64, False)
    count = ops.where(ops.any(repeats < 0, [0], False), ops.full((), -1, dt.int64), count)
    count = as_dim(count, refusal="repeats must be 0 or more")
    begins = ops.cumsum(repeats, 0, False, True, False)
    one = ops.full((), 1, dt.int64)
    marks = ops.index_put(ops.full((count + 1,), 0, dt.int64), [begins], one, True)
    owner = ops.cumsum(marks, 0, False, False, False) - 1
    return ops.gather(x, ops.slice(owner, [0], [0], [count], (), ()), axis)


@rules.indices("bincount")
def bincount_ranges(x: MetaTensor, weights: Any, minlength: Any) -> list[IndexRange]:
    return [IndexRange("x", (NO_END,), "bins", counts_back=False)]


@rules.infer_meta("BincountInferMeta")
def bincount_meta(x: MetaTensor, weights: MetaTensor | None, minlength: Any) -> MetaTensor:
    check_index(x, "x")
    if x.ndim != 1:
        raise ShapeError(f"x must have one axis, found {x}; reshape it to [-1]")
    if isinstance(minlength, int) and minlength < 0:
        raise AttributeValueError(f"minlength {minlength} must be 0 or more")
    if weights is None:
        return MetaTensor((dm.symbol(),), dt.int64)
    if weights.ndim != 1 or not dm.may_equal(weights.dims[0], x.dims[0]):
        raise ShapeError(f"weights must have the shape of x, {x}, found {weights}")
    return MetaTensor((dm.symbol(),), _sum_dtype(weights))


def _sum_dtype(weights: Any) -> Any:
    return weights.dtype if dt.is_differentiable(weights.dtype) else dt.float64


@rules.decompose("bincount")
def bincount(x: Any, weights: Any, minlength: Any) -> Any:
    bins = ops.maximum(as_int64(x), ops.full((), 0, dt.int64))
    least = ops.full((1,), minlength, dt.int64) - 1
    count = ops.max(ops.concat([bins, least], 0), [0], False) + 1
    count = ops.where(ops.any(as_int64(x) < 0, [0], False), ops.full((), -1, dt.int64), count)
    count = as_dim(count, refusal="x must hold ints from 0")
    if weights is not None:  # one for all would be broadcast
        refusal = f"weights must have the shape of x, {x.meta}, found {weights.meta}"
        weights = expect_dims(weights, refusal, x.meta.dims)
    value = ops.full((), 1, dt.int64) if weights is None else ops.cast(weights, _sum_dtype(weights))
    return ops.index_put(ops.full((count,), 0, value.dtype), [bins], value, True)
