"""Ops that read the memory of a tensor in another way."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.positions import numbers_along
from phix.primitives.shape import reshape_attrs


# -- complex numbers as pairs ------------------------------------------------------------------
@rules.infer_meta("AsRealInferMeta")
def as_real_meta(x: MetaTensor) -> MetaTensor:
    return MetaTensor((*x.dims, 2), dt.real_dtype(x.dtype))


@rules.decompose("as_real")
def as_real(x: Any) -> Any:
    return ops.stack([ops.real(x), ops.imag(x)], x.ndim)


@rules.infer_meta("AsComplexInferMeta")
def as_complex_meta(x: MetaTensor) -> MetaTensor:
    if not x.ndim or not dm.may_equal(x.dims[-1], 2):
        raise ShapeError(f"the last axis must hold a real and an imaginary part, found {x}")
    return MetaTensor(x.dims[:-1], dt.complex_dtype(x.dtype))


@rules.decompose("as_complex")
def as_complex(x: Any) -> Any:
    last = x.ndim - 1
    parts = (ops.slice(x, [last], [i], [i + 1], [], [last]) for i in range(2))
    return ops.complex(*parts)


# -- the bits of another dtype -----------------------------------------------------------------
@rules.infer_meta("BitcastInferMeta")
def bitcast_meta(x: MetaTensor, dtype: Any) -> MetaTensor:
    fits = x.dtype.itemsize == dtype.itemsize and dtype.itemsize in (4, 8)
    fits = fits or {x.dtype, dtype} <= {dt.uint8, *dt.STORAGE}
    if not fits or dt.is_complex(x.dtype) or dt.is_complex(dtype):
        raise DTypeError(
            "bitcast is between real dtypes of 32 bits, or of 64, or uint8 and dtypes of storage; "
            f"found {x.dtype} to {dtype}; view_dtype takes others"
        )
    return x.with_dtype(dtype)


@rules.infer_meta("ViewDtypeInferMeta")
def view_dtype_meta(input: MetaTensor, dtype: Any) -> MetaTensor:
    have, want = input.dtype.itemsize, dtype.itemsize
    if have == want:
        return input.with_dtype(dtype)
    if not input.ndim:
        raise ShapeError(
            f"{input} has no axis to hold elements of another width; reshape it to [1] first"
        )
    last = input.dims[-1]
    if isinstance(last, int) and last * have % want:
        raise ShapeError(
            f"rows of {last} elements of {input.dtype} are no whole number of {dtype}; reshape it"
        )
    size = last * (have // want) if have > want else dm.floordiv(last, want // have)
    return MetaTensor((*input.dims[:-1], size), dtype)


@rules.decompose("view_dtype")
def view_dtype(input: Any, dtype: Any) -> Any:
    """Rows of words - a number, or a part of a complex one - are cut or joined, and read anew."""
    if input.dtype == dtype:
        return input
    dims = view_dtype_meta(input.meta, dtype).dims
    word = dt.real_dtype(dtype)
    rows = as_real(input) if dt.is_complex(input.dtype) else input
    if rows.dtype != word:
        lead = input.meta.dims[:-1]
        rows = ops.reshape(rows, (*lead, _row_length(rows.meta, len(lead))))
        rows = _from_bits(_regrouped(_to_bits(rows), word.itemsize), word)
    if dt.is_complex(dtype):
        return as_complex(ops.reshape(rows, (*dims, 2)))
    return ops.reshape(rows, dims)


def _row_length(x: MetaTensor, lead: int) -> dm.DimLike:
    return dm.product(x.dims[lead:])


def _uint(size: int) -> Any:
    return np.dtype(f"uint{8 * size}")


def _number(value: int, dtype: Any) -> Any:
    return ops.full((), value, dtype)


def _regrouped(words: Any, size: int) -> Any:
    """Unsigned words of a last axis as words of ``size`` bytes, the low ones first."""
    have, (*lead, length) = words.dtype.itemsize, words.meta.dims
    if have > size:
        shifts = np.arange(0, 8 * have, 8 * size, dtype=words.dtype)
        cut = ops.bitwise_right_shift(ops.reshape(words, (*lead, length, 1)), shifts)
        return ops.reshape(ops.cast(cut, _uint(size)), (*lead, length * len(shifts)))
    if have == size:
        return words
    count = size // have
    wide = _uint(size)
    rows = ops.cast(ops.reshape(words, (*lead, dm.floordiv(length, count), count)), wide)
    axis = len(lead) + 1
    out = None
    for i in range(count):
        part = ops.slice(rows, [axis], [i], [i + 1], [], [axis])
        part = ops.bitwise_left_shift(part, _number(8 * have * i, wide)) if i else part
        out = part if out is None else out | part
    return out


def _to_bits(x: Any) -> Any:
    """Real numbers as unsigned words of their width."""
    bits = _uint(x.dtype.itemsize)
    if x.dtype in dt.STORAGE:
        return ops.bitcast(x, bits)
    if not dt.is_float(x.dtype):
        return ops.cast(x, bits)
    if x.dtype.itemsize > 2:
        return ops.bitcast(x, bits)
    wide = ops.bitcast(ops.cast(x, dt.float32), dt.uint32)
    if x.dtype == dt.bfloat16:
        return ops.cast(ops.bitwise_right_shift(wide, _number(16, dt.uint32)), bits)
    sign = ops.bitwise_right_shift(wide, _number(16, dt.uint32)) & _number(1 << 15, dt.uint32)
    size = wide & _number((1 << 31) - 1, dt.uint32)
    high = ops.bitwise_right_shift(size, _number(13, dt.uint32))
    # below 2 ** -14 a half counts in units of 2 ** -24; what is infinite stays so
    units = ops.cast(ops.abs(ops.cast(x, dt.float32)) * 2.0**24, dt.int32)
    usual = high - _number(112 << 10, dt.uint32)
    special = (high & _number(1023, dt.uint32)) | _number(31 << 10, dt.uint32)
    found = ops.where(size < _number(113 << 23, dt.uint32), ops.cast(units, dt.uint32), usual)
    found = ops.where(size >= _number(255 << 23, dt.uint32), special, found)
    return ops.cast(found | sign, bits)


def _from_bits(words: Any, dtype: Any) -> Any:
    """Unsigned words as the real numbers that they are the bits of."""
    if dtype in dt.STORAGE:
        return ops.bitcast(words, dtype)
    if dtype == dt.bool_:
        return words != 0
    if not dt.is_float(dtype):
        return ops.cast(words, dtype)
    if dtype.itemsize > 2:
        return ops.bitcast(words, dtype)
    wide = ops.cast(words, dt.uint32)
    if dtype == dt.bfloat16:
        up = ops.bitwise_left_shift(wide, _number(16, dt.uint32))
        return ops.cast(ops.bitcast(up, dt.float32), dtype)
    size = wide & _number((1 << 15) - 1, dt.uint32)
    up = ops.bitwise_left_shift(size, _number(13, dt.uint32))
    usual = ops.bitcast(up + _number(112 << 23, dt.uint32), dt.float32)
    special = ops.bitcast(up | _number(255 << 23, dt.uint32), dt.float32)
    found = ops.where(size < 1 << 10, ops.cast(size, dt.float32) * 2.0**-24, usual)
    found = ops.where(size >= 31 << 10, special, found)
    return ops.cast(ops.where(wide == size, found, -found), dtype)


# -- other shapes ------------------------------------------------------------------------------
@rules.normalize("view_shape")
def view_shape_attrs(input: MetaTensor, dims: Any) -> Any:
    return reshape_attrs(input, dims)


@rules.infer_meta("ViewShapeInferMeta")
def view_shape_meta(input: MetaTensor, dims: Any) -> MetaTensor:
    if not dm.may_equal(input.size, dm.product(dims)):
        raise ShapeError(
            f"dims {dm.shape_text(dims)} do not hold the {dm.dim_text(input.size)} elements of "
            f"{input}"
        )
    return input.with_dims(dims)


@rules.decompose("view_shape")
def view_shape(input: Any, dims: Any) -> Any:
    return ops.reshape(input, dims)


@rules.infer_meta("ViewSliceInferMeta")
def view_slice_meta(input: MetaTensor, begin_idx: Any, end_idx: Any) -> MetaTensor:
    if not input.ndim:
        raise ShapeError(f"{input} has no rows; reshape it to [1] first")
    known = [v for v in (0, begin_idx, end_idx, input.dims[0]) if isinstance(v, int)]
    if known != sorted(known):
        raise AttributeValueError(
            f"begin_idx {begin_idx} and end_idx {end_idx} must be rows of {input}, in this order"
        )
    return input.with_dims((end_idx - begin_idx, *input.dims[1:]))


@rules.decompose("view_slice")
def view_slice(input: Any, begin_idx: Any, end_idx: Any) -> Any:
    return ops.slice(input, [0], [begin_idx], [end_idx])


# -- strides -----------------------------------------------------------------------------------
@rules.infer_meta("AsStridedInferMeta")
def as_strided_meta(input: MetaTensor, dims: Any, stride: Any, offset: int) -> MetaTensor:
    if len(dims) != len(stride):
        raise AttributeValueError(f"stride {stride} must have a number for each of dims {dims}")
    if any(isinstance(v, int) and v < 0 for v in (*dims, *stride, offset)):
        raise AttributeValueError(
            f"dims {dims}, stride {stride} and offset {offset} must not be negative; flip it"
        )
    width = input.dtype.itemsize
    if offset % width:
        raise AttributeValueError(
            f"offset {offset} counts bytes: it must be a multiple of the {width} of {input.dtype}"
        )
    last = offset // width + sum(s * (d - 1) for d, s in zip(dims, stride))
    is_empty = any(map(dm.is_zero, dims))
    if not is_empty and dm.is_known(last, input.size) and last >= input.size:
        raise ShapeError(
            f"dims {dims}, stride {stride} and offset {offset} lead to element {last} of {input}, "
            f"which has {input.size}"
        )
    return input.with_dims(dims)


@rules.decompose("as_strided")
def as_strided(input: Any, dims: Any, stride: Any, offset: int) -> Any:
    places = ops.full((), offset // input.dtype.itemsize, dt.int64)
    for axis, step in enumerate(stride):
        places = places + numbers_along(axis, dims) * step
    flat = ops.reshape(input, (input.meta.size,))
    return ops.gather(flat, ops.expand(places, dims))


@rules.infer_meta("SetInferMeta")
def set_meta(x: MetaTensor, source: MetaTensor, dims: Any, stride: Any, offset: int) -> MetaTensor:
    if x.dtype != source.dtype:
        raise DTypeError(f"x and source must have one dtype, found {x} and {source}; cast it")
    return as_strided_meta(source, dims, stride, offset)


@rules.decompose("set")
def set(x: Any, source: Any, dims: Any, stride: Any, offset: int) -> Any:
    return ops.as_strided(source, dims, stride, offset)


@rules.normalize("index_select_strided")
def index_select_strided_attrs(x: MetaTensor, index: Any, axis: int) -> Any:
    if not x.ndim:
        raise ShapeError(f"{x} has no axis to select along; reshape it to [1] first")
    return index, ax.positive(axis, x.ndim)


@rules.infer_meta("IndexSelectStridedInferMeta")
def index_select_strided_meta(x: MetaTensor, index: Any, axis: int) -> MetaTensor:
    size = x.dims[axis]
    if dm.is_known(index, size) and not -size <= index < size:
        raise ShapeError(
            f"index {index} is out of range for the {size} elements of axis {axis} of {x}"
        )
    return x.with_dims((*x.dims[:axis], *x.dims[axis + 1 :]))


@rules.decompose("index_select_strided")
def index_select_strided(x: Any, index: Any, axis: int) -> Any:
    first = index + x.meta.dims[axis] if isinstance(index, int) and index < 0 else index
    return ops.slice(x, [axis], [first], [first + 1], [], [axis])
