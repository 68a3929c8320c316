"""Ops that make tensors from attributes, or triangles and indices of a shape."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim, check_number
from phix.core.conversion import to_tensor
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.tensor import TensorBase
from phix.primitives.widening import as_dtype, widened


def check_shape(shape: Any) -> None:
    """Raise ShapeError for a shape with a size known to be negative."""
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise ShapeError(f"shape {dm.shape_text(shape)} has a negative dim; write sizes from 0")


# -- full --------------------------------------------------------------------------------------
@rules.normalize("full")
def full_attrs(shape: Any, value: Any, dtype: Any, place: Any) -> Any:
    kind = int if isinstance(value, dm.Dim) else type(value)
    dtype = dtype or dt.default_dtype(kind)
    check_number(value, dtype)
    return shape, value, dtype, place


@rules.infer_meta("CreateInferMeta")
def create_meta(shape: Any, dtype: Any) -> MetaTensor:
    check_shape(shape)
    return MetaTensor(shape, dtype or dt.default_float())


@rules.operands("full")
def full_of_tensor(shape: Any, value: Any, dtype: Any, place: Any) -> Any:
    check_shape(shape)
    element = value if dtype is None else value.astype(dtype)
    return ops.expand(element if place is None else element.to(place), shape)


@rules.operands("full_like")
@rules.decompose("full_like")
def full_like(x: Any, value: Any, dtype: Any, place: Any) -> Any:
    return ops.full(x.meta.dims, value, dtype or x.dtype, place)


@rules.decompose("empty")
def empty(shape: Any, dtype: Any, place: Any) -> Any:
    return ops.full(shape, 0, dtype or dt.default_float(), place)


@rules.decompose("empty_like")
def empty_like(x: Any, dtype: Any, place: Any) -> Any:
    return ops.full(x.meta.dims, 0, dtype or x.dtype, place)


@rules.decompose("ones")
def ones(shape: Any, dtype: Any, place: Any) -> Any:
    return ops.full(shape, 1, dtype or dt.default_float(), place)


@rules.decompose("zeros")
def zeros(shape: Any, dtype: Any, place: Any) -> Any:
    return ops.full(shape, 0, dtype or dt.default_float(), place)


@rules.decompose("full_with_tensor")
def full_with_tensor(value: Any, shape: Any, dtype: Any) -> Any:
    check_shape(shape)
    if not dm.may_equal(value.meta.size, 1):
        raise ShapeError(f"value must have one element, found {value.meta}; index it first")
    element = ops.cast(ops.reshape(value, ()), dtype or value.dtype)
    return ops.expand(element, shape)


@rules.decompose("full_int_array")
def full_int_array(value: Any, dtype: Any, place: Any) -> Any:
    dtype = dtype or dt.default_float()
    for number in value:
        check_number(number, dtype)
    if not all(map(dm.is_known, value)):
        numbers = [ops.full((), number, dtype, place) for number in value]
        return ops.stack(numbers, 0)
    out = to_tensor(np.array(value, dt.int64).astype(dtype))
    return out if place is None else out.to(place)


@rules.normalize("full_batch_size_like")
def full_batch_size_like_attrs(
    input: MetaTensor, shape: Any, dtype: Any, value: Any, source: int, target: int, place: Any
) -> Any:
    if not -input.ndim <= source < input.ndim or not -len(shape) <= target < len(shape):
        raise AttributeValueError(
            f"input_dim_idx {source} and output_dim_idx {target} must name a dim of {input} and "
            f"one of the shape {dm.shape_text(shape)}"
        )
    source, target = source % input.ndim, target % len(shape)
    check_shape([d for i, d in enumerate(shape) if i != target])
    return shape, dtype or dt.default_float(), value, source, target, place


@rules.decompose("full_batch_size_like")
def full_batch_size_like(
    input: Any, shape: Any, dtype: Any, value: Any, source: int, target: int, place: Any
) -> Any:
    dims = [input.meta.dims[source] if i == target else d for i, d in enumerate(shape)]
    return ops.full(dims, value, dtype, place)


# -- arange, linspace --------------------------------------------------------------------------
@rules.normalize("arange")
def arange_attrs(start: Any, end: Any, step: Any, dtype: Any, place: Any) -> Any:
    numbers = (start, end, step)
    if any(isinstance(v, complex) for v in numbers):
        raise AttributeValueError("arange counts in real numbers, found a complex one")
    if not all(isinstance(v, (int, dm.Dim)) or math.isfinite(v) for v in numbers):
        raise AttributeValueError(f"arange counts in finite numbers, found {numbers}")
    if isinstance(step, dm.Dim) or step == 0:
        raise AttributeValueError(f"step must be a known number other than 0, found {step}")
    if dtype is None:
        dtype = dt.default_float() if any(isinstance(v, float) for v in numbers) else dt.int64
    if dtype in dt.STORAGE:
        raise DTypeError(f"arange counts in ints or floats, found {dtype}; cast what it gives")
    return start, end, step, dtype, place


@rules.infer_meta("ArangeInferMeta")
def arange_meta(start: Any, end: Any, step: Any, dtype: Any, place: Any) -> MetaTensor:
    return MetaTensor((_steps(start, end, step),), dtype)


def _steps(start: Any, end: Any, step: Any) -> dm.DimLike:
    """How many numbers from start stay before end: max(ceil((end - start) / step), 0)."""
    if not any(isinstance(v, dm.Dim) for v in (start, end)):
        if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
            return max(-((start - end) // step), 0)
        return max(math.ceil((end - start) / step), 0)
    if not all(isinstance(v, (int, dm.Dim)) for v in (start, end, step)):
        raise AttributeValueError("an arange over an unknown dim counts in ints; write an int step")
    if isinstance(start, int) and start == 0 and step == 1:
        return end  # a dim is never negative
    return dm.maximum(-dm.floordiv(start - end, step), 0)


@rules.operands("arange")
def arange_of_tensors(start: Any, end: Any, step: Any, dtype: Any, place: Any) -> Any:
    """As many numbers as the program finds to lie before the end."""
    kinds = [
        v.dtype if isinstance(v, TensorBase) else np.result_type(v) for v in (start, end, step)
    ]
    is_float = any(dt.is_differentiable(k) for k in kinds)
    kind = dt.float64 if is_float else dt.int64
    start, end, step = (
        ops.cast(v, kind) if isinstance(v, TensorBase) else ops.full((), v, kind)
        for v in (start, end, step)
    )
    if is_float:
        count = ops.cast(ops.ceil((end - start) / step), dt.int64)
    else:
        count = -ops.floor_divide(start - end, step)
    counted = ops.cast(ops.arange(0, as_dim(count), 1, dt.int64), kind)
    dtype = dtype or (dt.default_float() if is_float else dt.int64)
    out = ops.cast(start + step * counted, dtype)
    return out if place is None else out.to(place)


@rules.infer_meta("LinspaceInferMeta")
def linspace_meta(
    start: MetaTensor, stop: MetaTensor, number: Any, dtype: Any, place: Any
) -> MetaTensor:
    if start.ndim or stop.ndim:
        raise ShapeError(f"start and stop must be 0-d, found {start} and {stop}; index them first")
    if isinstance(number, int) and number < 0:
        raise AttributeValueError(f"number must be 0 or more, found {number}")
    return MetaTensor((number,), dtype or start.dtype)


@rules.decompose("linspace")
def linspace(start: Any, stop: Any, number: Any, dtype: Any, place: Any) -> Any:
    """Counted from both ends, so that each end comes out as it is."""
    dtype = dtype or start.dtype
    if start.dtype in (dt.float16, dt.bfloat16):
        start, stop = ops.cast(start, dt.float32), ops.cast(stop, dt.float32)
    index = ops.arange(0, number, 1, dt.int64)
    last = ops.full((), number, dt.int64) - 1
    step = (stop - start) / ops.cast(ops.maximum(last, 1), start.dtype)
    up = start + ops.cast(index, start.dtype) * step
    down = stop - ops.cast(last - index, start.dtype) * step
    out = ops.where(index + index <= last, up, down)
    if dt.kind(dtype) == "int":
        out = ops.floor(out)
    return out if out.dtype == dtype else ops.cast(out, dtype)


@rules.infer_meta("LogspaceInferMeta")
def logspace_meta(
    start: MetaTensor, stop: MetaTensor, num: Any, base: MetaTensor, dtype: Any, place: Any
) -> MetaTensor:
    if base.ndim:
        raise ShapeError(f"base must be 0-d, found {base}; index it first")
    if isinstance(num, int) and num < 0:
        raise AttributeValueError(f"num must be 0 or more, found {num}")
    return linspace_meta(start, stop, num, dtype, place)


@rules.decompose("logspace")
def logspace(start: Any, stop: Any, num: Any, base: Any, dtype: Any, place: Any) -> Any:
    dtype = dtype or start.dtype
    start, stop, base = map(widened, (start, stop, base))
    out = ops.elementwise_pow(base, ops.linspace(start, stop, num))
    if dt.kind(dtype) == "int":
        out = ops.floor(out)
    return as_dtype(out, dtype)


# -- eye, triangles ----------------------------------------------------------------------------
@rules.normalize("eye")
def eye_attrs(num_rows: Any, num_columns: Any, dtype: Any, place: Any) -> Any:
    columns = num_rows if num_columns is None else num_columns
    return num_rows, columns, dtype or dt.default_float(), place


@rules.decompose("eye")
def eye(num_rows: Any, num_columns: Any, dtype: Any, place: Any) -> Any:
    check_shape((num_rows, num_columns))
    return ops.cast(_offsets(num_rows, num_columns) == 0, dtype or dt.default_float())


def _offsets(rows: dm.DimLike, columns: dm.DimLike) -> Any:
    """column - row for each place of a matrix."""
    below = ops.reshape(ops.arange(0, rows, 1, dt.int64), (rows, 1))
    return ops.arange(0, columns, 1, dt.int64) - below


@rules.infer_meta("TrilInferMeta")
@rules.infer_meta("TriuInferMeta")
def triangle_meta(x: MetaTensor, diagonal: int) -> MetaTensor:
    if x.ndim < 2:
        raise ShapeError(f"a triangle is part of a matrix, found {x}; reshape it to 2 axes or more")
    return x


@rules.decompose("tril")
def tril(x: Any, diagonal: int) -> Any:
    rows, columns = x.meta.dims[-2:]
    return ops.where(_offsets(rows, columns) <= diagonal, x, ops.full((), 0, x.dtype))


@rules.decompose("triu")
def triu(x: Any, diagonal: int) -> Any:
    rows, columns = x.meta.dims[-2:]
    return ops.where(_offsets(rows, columns) >= diagonal, x, ops.full((), 0, x.dtype))


@rules.decompose("tril_indices")
def tril_indices(rows: int, cols: int, offset: int, dtype: Any, place: Any) -> Any:
    check_shape((rows, cols))
    return _places(rows, cols, offset, dtype, np.less_equal)


@rules.decompose("triu_indices")
def triu_indices(row: int, col: int, offset: int, dtype: Any, place: Any) -> Any:
    check_shape((row, col))
    return _places(row, col, offset, dtype, np.greater_equal)


_MOST_PLACES = 1 << 40  # of a triangle: their rows and columns are found on the host


def _places(rows: int, columns: int, offset: int, dtype: Any, lies: Any) -> Any:
    """Rows and columns of the places whose column minus row ``lies`` so to the offset, in order."""
    if rows * columns > _MOST_PLACES:
        raise ShapeError(f"a triangle of [{rows}, {columns}] has too many places to number")
    offset = builtins.min(builtins.max(offset, -rows), columns)
    found = np.nonzero(lies(np.arange(columns), np.arange(rows)[:, None] + offset))
    return to_tensor(np.stack(found).astype(dtype or dt.int64))
