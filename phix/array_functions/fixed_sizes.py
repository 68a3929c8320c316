"""Results of a size that the caller gives, where the data would tell another in each call.

``size=`` of ``nonzero``, ``unique`` and their kin, ``length=`` of ``bincount`` and
``total_repeat_length=`` of ``repeat`` are JAX's. One op finds what is chosen, ``true_positions``:
the places of the first ``size`` true elements of a mask. All else is a mask, and a gather from
those places, so that results have one size in each lane of ``vmap``, and derivatives go through.
"""

from __future__ import annotations

import operator
from typing import Any

from phix import ops
from phix.api.control_flow import scan
from phix.array_functions.numpy_arguments import operand, tensor
from phix.array_functions.sorting import argsort, isin, searchsorted
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.axes import axis_of
from phix.core.dims import Dim
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
    described,
)
from phix.core.expectations import expect, expect_dims, never_empty
from phix.core.tensor import TensorBase


# -- sizes and what fills them -------------------------------------------------------------------
def checked(where: str, size: Any, name: str = "size") -> Any:
    """The size that a caller gives: an int from 0, or a size of a tensor.

    Raises:
        ArgumentError: it is no int, or one that is not known when the program is made.
        AttributeValueError: it is negative.
    """
    if isinstance(size, Dim):
        return size
    if isinstance(size, TensorBase):
        if is_traced(size):
            raise ArgumentError(
                f"{where}: {name} must be an int that is known before the program runs, found "
                f"{size.meta}, which is traced; write an int or x.shape[0], name the argument in "
                "static_argnums of jit, or leave it out, and the program computes the size"
            )
        size = beneath(size)
    try:
        found = None if isinstance(size, bool) else operator.index(size)
    except Exception:  # whatever the value answers
        found = None
    if found is None:
        raise ArgumentError(f"{where}: {name} must be an int from 0, found {described(size)}")
    if found < 0:
        raise AttributeValueError(f"{where}: {name} must be an int from 0, found {found}")
    return found


def _never_negative(where: str, x: Any, size: Any, name: str = "size") -> Any:
    """``x``, where a size that is computed from others turns out to be none."""
    return expect(x, f"{where}: {name} {dm.dim_text(size)} must be 0 or more", size)


def _truths(x: Any) -> Any:
    return x if x.dtype == dt.bool_ else ops.not_equal(x, ops.full((), 0, x.dtype))


def _places(where: str, mask: Any, size: Any) -> tuple[Any, Any]:
    """The places of the first ``size`` true elements of a vector, 0 behind them, and whether there
    is one."""
    found = ops.true_positions(_never_negative(where, mask, size), size, -1)
    return ops.maximum(found, 0), ops.greater_equal(found, 0)


def _taken(x: Any, places: Any) -> Any:
    """The slices of the first axis at the places; of none, each is of zeros."""
    return ops.gather(never_empty(x, 0.0, [0]), places, 0)


def _padded(x: Any, is_there: Any, fill: Any) -> Any:
    """``x`` with the fill in the slices of the first axis that are not there."""
    return ops.where(ops.reshape(is_there, (is_there.shape[0], *[1] * (x.ndim - 1))), x, fill)


def _single(where: str, fill: Any) -> Any:
    """A fill, which is one number."""
    fill = operand(fill)
    if getattr(fill, "ndim", 0):
        raise ShapeError(
            f"{where}: fill_value must be one number, found {described(fill)} of the shape "
            f"{dm.shape_text(tuple(fill.shape))}"
        )
    return fill


def _of_rows(where: str, fill: Any, x: Any) -> Any:
    """A fill of slices of x: one number, or what broadcasts to a slice, in the dtype of x."""
    fill = tensor(fill).astype(x.dtype)
    row = x.shape[1:]
    if fill.ndim > len(row) or any(
        not dm.is_one(a) and not dm.same(a, b)
        for a, b in zip(fill.shape[::-1], row[::-1])
    ):  # fmt: skip
        raise ShapeError(
            f"{where}: fill_value must be a number or broadcast to the shape "
            f"{dm.shape_text(row)} of what is filled, found {fill.meta}"
        )
    return fill


# -- places --------------------------------------------------------------------------------------
def nonzero(where: str, x: Any, size: Any, fill: Any) -> tuple[Any, ...]:
    """The indices of the first ``size`` elements that are not 0, one vector an axis; behind them
    the fill, which is a number, or one for each axis."""
    size = checked(where, size)
    if not x.ndim:
        raise ShapeError(f"{where} needs an axis, found {x.meta}; reshape it to [1]")
    fills = fill if isinstance(fill, tuple) else (fill,) * x.ndim
    if len(fills) != x.ndim:
        raise AttributeValueError(
            f"{where}: fill_value must be a number, or a tuple of one for each of the {x.ndim} "
            f"axes of {x.meta}, found {described(fill)}"
        )
    places, is_there = _places(where, ops.reshape(_truths(x), [-1]), size)
    found: list[Any] = []
    for axis in range(x.ndim - 1, -1, -1):
        count: Any = dm.maximum(x.shape[axis], 1)  # of an array of nothing, all places are 0
        found.append(ops.remainder(places, count) if axis else places)
        places = ops.floor_divide(places, count) if axis else places
    return tuple(
        [v if f is None else _padded(v, is_there, _single(where, f))
         for v, f in zip(found[::-1], fills)]
    )  # fmt: skip


def argwhere(x: Any, size: Any, fill: Any) -> Any:
    """Those as the rows of a matrix, of no columns where x is a single value."""
    found = nonzero("argwhere", ops.reshape(x, [1]) if not x.ndim else x, size, fill)
    return ops.stack(found, 1) if x.ndim else ops.full((found[0].shape[0], 0), 0, dt.int64)


def compress(where: str, chosen: Any, x: Any, axis: Any, size: Any, fill: Any) -> Any:
    """The first ``size`` parts along an axis that are chosen, and parts of the fill. What the one
    of the two has more of than the other is left out."""
    size, at = checked(where, size), axis_of(axis, x.ndim)
    rows = _axis_at(x, at, 0)
    count = dm.minimum(rows.shape[0], chosen.shape[0])
    refusal = (
        f"{where}: size must be 0 to {dm.dim_text(count)}, as many as axis {at} of {x.meta} and "
        f"the condition {chosen.meta} have, found {dm.dim_text(size)}"
    )
    if isinstance(size, int) and isinstance(count, int) and size > count:
        raise AttributeValueError(refusal)
    mask = expect(_truths(chosen)[:count], refusal, count - size)
    places, is_there = _places(where, mask, size)
    found = _padded(_taken(rows, places), is_there, _of_rows(where, fill, rows))
    return _axis_at(found, 0, at)


def _axis_at(x: Any, axis: int, to: int) -> Any:
    """``x`` with an axis in another place."""
    if axis == to:
        return x
    order = [k for k in range(x.ndim) if k != axis]
    return ops.transpose(x, [*order[:to], axis, *order[to:]])


# -- counts --------------------------------------------------------------------------------------
def bincount(x: Any, weights: Any, length: Any) -> Any:
    """How often each int below ``length`` is there, or the sums of their weights, in their dtype.
    Negative ones count as 0, greater ones not at all."""
    length = checked("bincount", length, "length")
    if dt.kind(x.dtype) not in ("bool", "int"):
        raise DTypeError(f"bincount: x must hold ints, found {x.meta}; cast it")
    if x.ndim != 1:
        raise ShapeError(f"bincount: x must have one axis, found {x.meta}; reshape it to [-1]")
    if weights is None:
        weights = ops.full((), 1, dt.int64)
    else:
        refusal = f"bincount: weights must have the shape of x, {x.meta}, found {weights.meta}"
        weights = expect_dims(weights, refusal, x.meta.dims)
    x = _never_negative("bincount", x, length, "length")
    if x.dtype == dt.uint64:  # the greatest ones are no int64
        x = ops.minimum(x, ops.full((), 2**63 - 1, dt.uint64))
    numbers = ops.maximum(x.astype(dt.int64), 0)
    return ops.full((length,), 0, weights.dtype).at[numbers].add(weights, mode="drop")


def repeat(x: Any, repeats: Any, axis: int, total: Any) -> Any:
    """The first ``total`` of the slices along an axis, each repeated; behind them the last one. An
    axis of nothing stays one. A negative number of times is none."""
    total = checked("repeat", total, "total_repeat_length")
    count = x.shape[axis]
    if dt.kind(repeats.dtype) != "int":
        raise DTypeError(f"repeat: repeats must hold ints, found {repeats.meta}; cast it")
    refusal = (
        f"repeat: repeats must have one number for each of the {dm.dim_text(count)} slices along "
        f"axis {axis} of {x.meta}, or one for all, found {repeats.meta}"
    )
    if dm.broadcast(repeats.shape[0], count) is None:
        raise ShapeError(refusal)
    times = ops.maximum(repeats.astype(dt.int64), ops.full((count,), 0, dt.int64))
    times = expect_dims(times, refusal, (count,))
    if dm.is_zero(count):
        return x
    x = _never_negative("repeat", x, total, "total_repeat_length")
    nothing = f"repeat: axis {axis} of {x.meta} has nothing to repeat"
    x = expect(x, nothing, count - dm.minimum(total, 1))
    ends = ops.cumsum(times, 0)[: count - 1]
    # which one stands at a place: as many as those before it that end up to there
    places = ops.cumsum(bincount(ends, None, total), 0)
    return ops.gather(never_empty(x, 0.0, [axis]), places, axis)


# -- what differs --------------------------------------------------------------------------------
def _order(x: Any) -> Any:
    """The places of the slices of the first axis in order: the first element of each decides, of
    equal ones the second, and so on."""
    if x.ndim == 1:
        return argsort(x, 0)
    count, width = x.shape[0], dm.product(x.shape[1:])
    columns = ops.transpose(ops.reshape(ops.stop_gradient(x), (count, width)), [1, 0])

    def by(order: Any, column: Any) -> tuple[Any, None]:
        return ops.gather(order, argsort(ops.gather(column, order, 0), 0), 0), None

    # the sorts keep the order of equal ones, so the one by the first column is the last
    return scan(by, ops.arange(0, count, 1, dt.int64), ops.flip(columns, [0]))[0]


def sorted_groups(x: Any, equal_nan: bool) -> tuple[Any, Any, Any]:
    """The places of the slices of the first axis in order, the slices so, and which of them differ
    from the one before. Without ``equal_nan`` each one with NaN does."""
    order = _order(x)
    ordered = ops.gather(x, order, 0)
    is_first = ops.equal(ops.arange(0, x.shape[0], 1, dt.int64), 0)
    if dm.is_zero(x.shape[0]):
        return order, ordered, is_first
    before = ops.roll(ordered, [1], [0])
    differs = ops.not_equal(ordered, before)
    if equal_nan and dt.is_differentiable(x.dtype):
        differs = ops.logical_and(differs, ops.logical_not(ops.isnan(ordered) & ops.isnan(before)))
    if x.ndim > 1:
        differs = ops.any(differs, list(range(1, x.ndim)))
    return order, ordered, ops.logical_or(differs, is_first)


def unique(
    where: str, x: Any, asked: tuple[bool, bool, bool], axis: Any, equal_nan: bool, size: Any,
    fill: Any,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """The first ``size`` of the slices that differ, in order, and behind them the fill, or the
    first one where that is None; and where asked, their first places, which one each slice is, and
    how many each is. Behind them, places are that of the first one, and counts 0."""
    size = checked(where, size)
    at = 0 if axis is None else axis_of(axis, x.ndim)
    rows = ops.reshape(x, [-1]) if axis is None else _axis_at(x, at, 0)
    count: Any = rows.shape[0]
    if fill is None:
        refusal = f"{where}: {x.meta} has nothing that could fill the size; give a fill_value"
        if dm.is_zero(count) and not dm.is_zero(size):
            raise AttributeValueError(refusal)
        rows = expect(rows, refusal, count - dm.minimum(size, 1))
    order, _, is_new = sorted_groups(rows, equal_nan)
    # one more than asked for, which says where the last one ends
    starts = ops.true_positions(_never_negative(where, is_new, size), size + 1, -1)
    is_there = ops.greater_equal(starts, 0)[:size]
    index = _taken(order, ops.maximum(starts[:size], 0))
    values = _taken(rows, index)
    if fill is not None:
        values = _padded(values, is_there, _of_rows(where, fill, values))
    inverse = counts = None
    if asked[1]:
        number = ops.cumsum(is_new.astype(dt.int64), 0) - 1
        inverse = ops.put_along_axis(ops.full_like(order, 0), order, number, 0)
        inverse = ops.reshape(inverse, x.shape) if axis is None else inverse
    if asked[2]:
        ends = ops.where(ops.less_than(starts, 0), count, starts)
        counts = ends[1:] - ends[:-1]
    return _axis_at(values, 0, at), index if asked[0] else None, inverse, counts


# -- sets ----------------------------------------------------------------------------------------
def _chosen(where: str, x: Any, mask: Any, size: Any, fill: Any) -> tuple[Any, Any, Any]:
    """The first ``size`` elements of a vector at which the mask holds, behind them the fill, or
    the first of them where that is None; their places, and whether there is one."""
    places, is_there = _places(where, mask, size)
    fill = fill if fill is None else _single(where, fill)
    if isinstance(fill, int) and dt.kind(x.dtype) == "int":
        fill = tensor(fill).astype(x.dtype)  # -1 of unsigned ones is the greatest, as in unique
    if fill is None:  # 0 where there is none
        first = ops.true_positions(mask, 1)
        fill = _padded(_taken(x, first), ops.any(mask, [0], True), ops.full((), 0, x.dtype))
    return _padded(_taken(x, places), is_there, fill), places, is_there


def setdiff1d(x: Any, y: Any, assume_unique: bool, size: Any, fill: Any) -> Any:
    """The first ``size`` values of x that y has not, and behind them the fill, or 0."""
    where, size = "setdiff1d", checked("setdiff1d", size)
    fill = tensor(_single(where, 0 if fill is None else fill)).astype(x.dtype)
    is_new = None
    if not assume_unique:
        _, x, is_new = sorted_groups(x, True)
    mask = isin(x, y, invert=True)
    mask = mask if is_new is None else ops.logical_and(mask, is_new)
    return _chosen(where, x, mask, size, fill)[0]


def setxor1d(x: Any, y: Any, size: Any, fill: Any) -> Any:
    """The first ``size`` values that one of the two has, in order, and behind them the fill, or
    the first of them."""
    where, size = "setxor1d", checked("setxor1d", size)
    is_alone = ops.concat([isin(x, y, invert=True), isin(y, x, invert=True)], 0)
    order, ordered, is_new = sorted_groups(ops.concat([x, y], 0), True)
    # NaN is in neither of the two for the other, so that both have one, where both do
    is_of_x = ops.less_than(order, x.shape[0])
    if not dm.is_zero(order.shape[0]):
        is_new = ops.logical_or(is_new, ops.not_equal(is_of_x, ops.roll(is_of_x, [1], [0])))
    mask = ops.logical_and(is_new, _taken(is_alone, order))
    return _chosen(where, ordered, mask, size, fill)[0]


def intersect1d(x: Any, y: Any, return_indices: bool, size: Any, fill: Any) -> Any:
    """The first ``size`` values that both have, in order, and behind them the fill, or the first
    of them; with ``return_indices`` their first places in both, and behind them the sizes."""
    where, size = "intersect1d", checked("intersect1d", size)
    dtype = dt.promote(x.dtype, y.dtype)
    x, y = x.astype(dtype), y.astype(dtype)
    order, ordered, is_new = sorted_groups(x, True)
    mask = ops.logical_and(is_new, isin(ordered, y))
    values, places, is_there = _chosen(where, ordered, mask, size, fill)
    if not return_indices:
        return values
    in_y = argsort(y, 0)
    found = searchsorted(ops.gather(y, in_y, 0), _taken(ordered, places))
    in_y = ops.concat([in_y, ops.full((1,), 0, dt.int64)], 0)  # what fills may be behind all
    return (
        values,
        ops.where(is_there, _taken(order, places), x.shape[0]),
        ops.where(is_there, ops.gather(in_y, found, 0), y.shape[0]),
    )
