"""Order statistics, counts, and norms of whole tensors. NaN counts as the largest."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.transforms import transforms
from phix.primitives import axes as ax
from phix.primitives.norm import at_zero
from phix.primitives.positions import masked, nothing, numbers
from phix.primitives.reduction import check_not_empty, largest, reduced_dims, sum_attrs
from phix.primitives.widening import as_dtype, widened


# -- medians -----------------------------------------------------------------------------------
@rules.normalize("median")
@rules.normalize("nanmedian")
def median_attrs(x: MetaTensor, axis: Any, keepdim: bool, mode: str) -> Any:
    if mode not in ("avg", "min"):
        raise AttributeValueError(f"mode must be avg or min, found {mode!r}")
    return ax.reduced(axis, x), keepdim, mode


@rules.infer_meta("MedianInferMeta")
@rules.infer_meta("NanmedianInferMeta")
def median_meta(x: MetaTensor, axis: Any, keepdim: bool, mode: str) -> Any:
    check_not_empty(x, axis)
    dims = reduced_dims(x, axis, keepdim)
    places = (*dims, 2) if mode == "avg" else dims
    return x.with_dims(dims), MetaTensor(places, dt.int64)


def _as_rows(x: Any, axis: Any) -> Any:
    """The axes folded, in order, as the last one."""
    kept = [i for i in range(x.ndim) if i not in axis]
    moved = ops.transpose(x, [*kept, *axis]) if x.ndim else x
    dims = moved.meta.dims
    return ops.reshape(moved, (*dims[: len(kept)], dm.product(dims[len(kept) :])))


def _at(rows: Any, places: Any) -> Any:
    """The elements of the rows at a place, or at several, for each."""
    return ops.take_along_axis(rows, places, rows.ndim - 1)


def _median(x: Any, axis: Any, keepdim: bool, mode: str, places: Any, is_right: Any) -> Any:
    """Out of the two middle places of each row, and of whether there is a median."""
    rows = _as_rows(x, axis)
    dims = reduced_dims(x.meta, axis, keepdim)
    last = rows.ndim - 1
    if mode == "min":
        places = ops.slice(places, [last], [0], [1])
    found = _at(rows, places)
    if mode == "avg":
        low, high = (ops.slice(found, [last], [i], [i + 1]) for i in range(2))
        first, second = (ops.slice(places, [last], [i], [i + 1]) for i in range(2))
        found = ops.where(first == second, low, 0.5 * low + 0.5 * high)
    if is_right is not None:
        found = ops.where(is_right, found, ops.full((), float("nan"), x.dtype))
        places = ops.where(is_right, places, -1)
    return ops.reshape(found, dims), ops.reshape(places, (*dims, 2) if mode == "avg" else dims)


@rules.decompose("median")
def median(x: Any, axis: Any, keepdim: bool, mode: str) -> Any:
    rows = _as_rows(x, axis)
    last = rows.ndim - 1
    size = rows.meta.dims[-1]
    order = ops.argsort(rows, last)[1]
    is_nan = ops.isnan(rows)
    middle = ops.slice(order, [last], [dm.floordiv(size - 1, 2)], [dm.floordiv(size, 2) + 1])
    if not dm.is_known(size) or size % 2:  # one element, which stands for both
        low = ops.slice(middle, [last], [0], [1])
        top = ops.slice(order, [last], [dm.floordiv(size, 2)], [dm.floordiv(size, 2) + 1])
        middle = ops.concat([low, top], last)
    spoiled = ops.any(is_nan, [last], True)
    middle = ops.where(spoiled, ops.argmax(is_nan, last, True), middle)
    return _median(x, axis, keepdim, mode, middle, None)


@rules.decompose("nanmedian")
def nanmedian(x: Any, axis: Any, keepdim: bool, mode: str) -> Any:
    rows = _as_rows(x, axis)
    last = rows.ndim - 1
    order = ops.argsort(rows, last)[1]
    count = ops.sum(ops.cast(~ops.isnan(rows), dt.int64), [last], keepdim=True)
    low = ops.maximum(ops.floor_divide(count - 1, 2), 0)
    high = ops.minimum(ops.floor_divide(count, 2), ops.maximum(count - 1, 0))
    middle = _at(order, ops.concat([low, high], last))
    return _median(x, axis, keepdim, mode, middle, count > 0)


# -- one element of each row -------------------------------------------------------------------
def _dims_without(x: MetaTensor, axis: int, keepdim: bool) -> Any:
    return reduced_dims(x, (axis,) if x.ndim else (), keepdim)


def _picked(x: Any, places: Any, axis: int, keepdim: bool) -> Any:
    """The elements at places, of which there is one for each row, and the places."""
    if not x.ndim:
        return x, ops.reshape(places, ())
    dims = _dims_without(x.meta, axis, keepdim)
    found = ops.take_along_axis(x, places, axis)
    return ops.reshape(found, dims), ops.reshape(places, dims)


@rules.normalize("kthvalue")
def kthvalue_attrs(x: MetaTensor, k: Any, axis: int, keepdim: bool) -> Any:
    if isinstance(k, int) and k < 1:
        raise AttributeValueError(f"k must be 1 or more, found {k}")
    return k, ax.positive(axis, x.ndim), keepdim


@rules.infer_meta("KthvalueInferMeta")
def kthvalue_meta(x: MetaTensor, k: Any, axis: int, keepdim: bool) -> Any:
    size = x.dims[axis] if x.ndim else 1
    if dm.is_known(k, size) and k > size:
        raise AttributeValueError(f"k {k} is more than the {size} elements of axis {axis} of {x}")
    out = x.with_dims(_dims_without(x, axis, keepdim))
    return out, out.with_dtype(dt.int64)


@rules.decompose("kthvalue")
def kthvalue(x: Any, k: Any, axis: int, keepdim: bool) -> Any:
    order = ops.argsort(x, axis)[1]
    places = ops.slice(order, [axis], [k - 1], [k]) if x.ndim else order
    return _picked(x, places, axis, keepdim)


@rules.normalize("mode")
def mode_attrs(x: MetaTensor, axis: int, keepdim: bool) -> Any:
    return ax.positive(axis, x.ndim), keepdim


@rules.infer_meta("ModeInferMeta")
def mode_meta(x: MetaTensor, axis: int, keepdim: bool) -> Any:
    check_not_empty(x, (axis,) if x.ndim else ())
    out = x.with_dims(_dims_without(x, axis, keepdim))
    return out, out.with_dtype(dt.int64)


@rules.decompose("mode")
def mode(x: Any, axis: int, keepdim: bool) -> Any:
    """In order, the place where the count of equal ones is the largest for the first time."""
    rows = x if x.ndim else ops.reshape(x, (1,))
    size = rows.meta.dims[axis]
    ordered, order = ops.argsort(rows, axis)
    dims = [size if i == axis else 1 for i in range(rows.ndim)]
    place = ops.expand(ops.reshape(numbers(size), dims), rows.meta.dims)
    is_first = (ordered != ops.roll(ordered, [1], [axis])) | (place == 0)
    start = ops.cummax(ops.where(is_first, place, 0), axis)[0]
    most = ops.argmax(place - start, axis, True)
    return _picked(x, ops.take_along_axis(order, most, axis), axis, keepdim)


@rules.normalize("max_with_index")
@rules.normalize("min_with_index")
def with_index_attrs(x: MetaTensor, dim: int, keepdim: bool, flatten: bool) -> Any:
    return 0 if flatten else ax.positive(dim, x.ndim, "dim"), keepdim, flatten


@rules.infer_meta("MinMaxWithIndexInferMeta")
def with_index_meta(x: MetaTensor, dim: int, keepdim: bool, flatten: bool) -> Any:
    over = range(x.ndim) if flatten or not x.ndim else (dim,)
    check_not_empty(x, over)
    out = x.with_dims(reduced_dims(x, over, keepdim))
    return out, out.with_dtype(dt.int64)


def _with_index(op: Any, x: Any, dim: int, keepdim: bool, flatten: bool) -> Any:
    if not flatten:
        return _picked(x, op(x, dim, True), dim, keepdim)
    flat = ops.reshape(x, (x.meta.size,))
    dims = reduced_dims(x.meta, range(x.ndim), keepdim)
    return tuple(ops.reshape(v, dims) for v in _picked(flat, op(flat, 0, True), 0, True))


@rules.decompose("max_with_index")
def max_with_index(x: Any, dim: int, keepdim: bool, flatten: bool) -> Any:
    return _with_index(ops.argmax, x, dim, keepdim, flatten)


@rules.decompose("min_with_index")
def min_with_index(x: Any, dim: int, keepdim: bool, flatten: bool) -> Any:
    return _with_index(ops.argmin, x, dim, keepdim, flatten)


# -- searchsorted ------------------------------------------------------------------------------
_MOST_STEPS = 48  # of a search in a row of unknown length: 2 ** 48 elements


@rules.infer_meta("SearchsortedInferMeta")
def searchsorted_meta(
    sorted_sequence: MetaTensor, values: MetaTensor, out_int32: bool, right: bool
) -> MetaTensor:
    lead = sorted_sequence.dims[:-1]
    fits = len(lead) == values.ndim - 1 and all(map(dm.may_equal, lead, values.dims))
    if not sorted_sequence.ndim or (lead and not fits):
        raise ShapeError(
            f"sorted_sequence must have one axis, or the rows of values, {values}; found "
            f"{sorted_sequence}"
        )
    return MetaTensor(values.dims, dt.int32 if out_int32 else dt.int64)


@rules.decompose("searchsorted")
def searchsorted(sorted_sequence: Any, values: Any, out_int32: bool, right: bool) -> Any:
    """The place grows by 2 ** k as long as the element before it belongs in front of the value."""
    rows = sorted_sequence
    size = rows.meta.dims[-1]
    dtype = dt.int32 if out_int32 else dt.int64
    if dm.is_zero(size):
        return ops.full(values.meta.dims, 0, dtype)
    if isinstance(size, int):
        steps = size.bit_length()
    else:  # the row may be empty: one element more is there to be read, and never counts
        steps, rows = _MOST_STEPS, ops.pad(rows, [0] * (2 * rows.ndim - 1) + [1], 0)

    def body(i: Any, place: Any) -> Any:
        end = place + ops.bitwise_left_shift(ops.full((), 1, dt.int64), steps - 1 - i)
        last = ops.minimum(end, size) - 1
        one = rows.ndim == 1
        element = ops.gather(rows, last) if one else ops.take_along_axis(rows, last, rows.ndim - 1)
        return [ops.where((end <= size) & _is_before(element, values, right), end, place)]

    start = ops.full(values.meta.dims, 0, dt.int64)
    zero = ops.full((), 0, dt.int64)
    graph, closed = transforms().trace(body, [zero.meta, start.meta])
    (place,) = ops.fori_loop(zero, ops.full((), steps, dt.int64), [start], closed, graph, steps)
    return as_dtype(place, dtype)


def _is_before(element: Any, value: Any, right: bool) -> Any:
    before = element <= value if right else element < value
    if not dt.is_float(value.dtype):
        return before
    beyond = ops.isnan(value)
    return before | (beyond if right else beyond & ~ops.isnan(element))


# -- counts ------------------------------------------------------------------------------------
@rules.normalize("histogram")
def histogram_attrs(
    input: MetaTensor, weight: Any, bins: Any, min: float, max: float, density: bool
) -> Any:
    if isinstance(bins, int) and bins < 1:
        raise AttributeValueError(f"bins must be 1 or more, found {bins}")
    if not min <= max:
        raise AttributeValueError(f"min {min} must not be above max {max}")
    return bins, min, max, density


@rules.infer_meta("HistogramInferMeta")
def histogram_meta(
    input: MetaTensor, weight: Any, bins: Any, min: float, max: float, density: bool
) -> MetaTensor:
    if weight is not None and not (
        weight.ndim == input.ndim and all(map(dm.may_equal, weight.dims, input.dims))
    ):
        raise ShapeError(f"weight must have the dims of input, {input}, found {weight}")
    counts = weight is None and not density
    return MetaTensor((bins,), dt.int64 if counts else dt.float32)


@rules.decompose("histogram")
def histogram(input: Any, weight: Any, bins: Any, min: float, max: float, density: bool) -> Any:
    wide = widened(input) if dt.is_float(input.dtype) else ops.cast(input, dt.float64)
    x = ops.reshape(wide, (wide.meta.size,))
    low, high = _bounds(x, min, max)
    place = ops.floor((x - low) * ops.full((), bins, x.dtype) / (high - low))
    inside = (x >= low) & (x <= high)
    place = ops.minimum(ops.cast(ops.where(inside, place, 0.0), dt.int64), bins - 1)
    if weight is None:
        found = _counted(place, ops.cast(inside, dt.int64), bins)
    else:
        shares = ops.cast(ops.reshape(weight, x.meta.dims), dt.float32)
        found = _counted(place, masked(inside, shares), bins)
    if density:
        wide = ops.cast(found, x.dtype)
        width = (high - low) / ops.full((), bins, x.dtype)
        found = ops.cast(wide / (ops.sum(wide) * width), dt.float32)
    return found


def _bounds(x: Any, low: float, high: float) -> Any:
    """The range: that of the elements where both bounds are one number, and never empty."""
    if low != high:
        return ops.full((), low, x.dtype), ops.full((), high, x.dtype)
    if dm.is_zero(x.meta.size):
        return ops.full((), 0, x.dtype), ops.full((), 1, x.dtype)
    if dm.is_computed(x.meta.size):
        axes = list(range(x.ndim))
        least, most = (ops.reshape(t, ()) for t in (-largest(-x, axes), largest(x, axes)))
        is_none = least > most
        least, most = ops.where(is_none, 0.0, least), ops.where(is_none, 1.0, most)
    else:
        least, most = ops.min(x), ops.max(x)
    flat = least == most
    return ops.where(flat, least - 1, least), ops.where(flat, most + 1, most)


def _counted(place: Any, shares: Any, size: Any) -> Any:
    """The shares added up at their places."""
    return ops.index_put(nothing(shares, (size,)), [place], shares, True)


# -- sums --------------------------------------------------------------------------------------
@rules.normalize("nansum")
def nansum_attrs(x: MetaTensor, axis: Any, dtype: Any, keepdim: bool) -> Any:
    return sum_attrs(x, axis, dtype, keepdim)


@rules.decompose("nansum")
def nansum(x: Any, axis: Any, dtype: Any, keepdim: bool) -> Any:
    if dt.is_differentiable(x.dtype):
        x = ops.where(ops.isnan(x), ops.full((), 0, x.dtype), x)
    return ops.sum(x, axis, dtype, keepdim)


@rules.normalize("variance")
def variance_attrs(x: MetaTensor, axis: Any, keepdim: bool) -> Any:
    return ax.reduced(axis, x), keepdim


@rules.infer_meta("VarianceInferMeta")
def variance_meta(x: MetaTensor, axis: Any, keepdim: bool) -> MetaTensor:
    return x.with_dims(reduced_dims(x, axis, keepdim))


@rules.decompose("variance")
def variance(x: Any, axis: Any, keepdim: bool) -> Any:
    return ops.var(x, axis, keepdim, False)


@rules.normalize("frobenius_norm")
def frobenius_norm_attrs(x: MetaTensor, axis: Any, keep_dim: bool, reduce_all: bool) -> Any:
    return ax.reduced(() if reduce_all else axis, x), keep_dim, reduce_all


@rules.infer_meta("FrobeniusNormInferMeta")
def frobenius_norm_meta(x: MetaTensor, axis: Any, keep_dim: bool, reduce_all: bool) -> MetaTensor:
    return x.with_dims(reduced_dims(x, axis, keep_dim))


@rules.decompose("frobenius_norm")
def frobenius_norm(x: Any, axis: Any, keep_dim: bool, reduce_all: bool) -> Any:
    wide = widened(x)
    total = ops.sum(wide * wide, axis, keepdim=keep_dim)
    return as_dtype(at_zero(total, ops.sqrt), x.dtype)


@rules.decompose("l1_norm")
def l1_norm(x: Any) -> Any:
    return as_dtype(ops.sum(ops.abs(widened(x))), x.dtype)


@rules.normalize("clip_by_norm")
def clip_by_norm_attrs(x: MetaTensor, max_norm: float) -> Any:
    if not max_norm > 0:
        raise AttributeValueError(f"max_norm must be above 0, found {max_norm}")
    return (max_norm,)


@rules.infer_meta("ClipByNormInferMeta")
def clip_by_norm_meta(x: MetaTensor, max_norm: float) -> MetaTensor:
    return x


@rules.decompose("clip_by_norm")
def clip_by_norm(x: Any, max_norm: float) -> Any:
    wide = widened(x)
    norm = at_zero(ops.sum(wide * wide), ops.sqrt)
    is_long = norm > max_norm
    factor = ops.where(is_long, max_norm / ops.where(is_long, norm, 1.0), 1.0)
    return as_dtype(wide * factor, x.dtype)
