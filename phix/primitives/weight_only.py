"""Products with weights that are kept as ints: rows and columns in order, two int4 a byte."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.index_ranges import IndexRange
from phix.core.meta import MetaTensor
from phix.primitives.quantisation import rounded_away
from phix.primitives.widening import as_dtype, in_float32, widened

_INT4 = "weight_only_int4"
_LARGEST = {"weight_only_int8": 127.0, _INT4: 7.0, "llm.int8": 127.0}


def _check_algorithm(algo: str) -> None:
    if algo not in _LARGEST:
        raise AttributeValueError(f"algo must be one of {', '.join(_LARGEST)}, found {algo!r}")


def _groups(rows: dm.DimLike, group_size: int) -> tuple[dm.DimLike, dm.DimLike]:
    """How many groups of rows there are, and how many rows each has."""
    if group_size == -1:
        return 1, rows
    if group_size < 1:
        raise AttributeValueError(f"group_size must be positive, or -1, found {group_size}")
    if isinstance(rows, int) and rows % group_size:
        raise ShapeError(f"{rows} rows of weights are no groups of {group_size}")
    return rows // group_size, group_size


# -- weight_quantize ---------------------------------------------------------------------------
@rules.normalize("weight_quantize")
def weight_quantize_attrs(x: MetaTensor, algo: str, arch: int, group_size: int) -> Any:
    _check_algorithm(algo)
    if x.ndim != 2:
        raise ShapeError(f"x must be weights [k, n], found {x}")
    if algo == _INT4 and isinstance(x.dims[1], int) and x.dims[1] % 2:
        raise ShapeError(f"int4 are two columns a byte; {x} has an odd number of columns")
    _groups(x.dims[0], group_size)
    return algo, arch, group_size


@rules.decompose("weight_quantize")
def weight_quantize(x: Any, algo: str, arch: int, group_size: int) -> Any:
    wide, most = widened(x), _LARGEST[algo]
    rows, columns = x.meta.dims
    groups, size = _groups(rows, group_size)
    grouped = ops.reshape(wide, (groups, size, columns))
    scale = ops.max(ops.abs(grouped), [1], True) / most
    exact = grouped / ops.where(scale == 0, 1.0, scale)
    ints = ops.cast(ops.clip(rounded_away(exact), -most, most), dt.int8)
    out = ops.transpose(ops.reshape(ints, (rows, columns)), [1, 0])
    if algo == _INT4:
        pairs = ops.reshape(out, (columns // 2, 2, rows))
        low, high = ops.unbind(pairs, 1)
        out = ops.bitwise_or(ops.bitwise_and(low, 15), ops.bitwise_left_shift(high, 4))
    scale = ops.reshape(scale, (columns,) if group_size == -1 else (groups, columns))
    return out, as_dtype(scale, dt.float32 if algo == "llm.int8" else x.dtype)


# -- and back ----------------------------------------------------------------------------------
def _ints(weight: Any, algo: str) -> Any:
    """The ints [n, k] of bytes [n, k], or of two int4 each."""
    if weight.ndim != 2:
        raise ShapeError(f"weights must be [n, k], found {weight.meta}")
    if weight.dtype != dt.int8:
        raise DTypeError(f"weights must be int8, found {weight.meta}; see weight_quantize")
    if algo != _INT4:
        return weight
    half, rows = weight.meta.dims
    low = ops.bitwise_right_shift(ops.bitwise_left_shift(weight, 4), 4)
    pairs = ops.stack([low, ops.bitwise_right_shift(weight, 4)], 1)
    return ops.reshape(pairs, (half * 2, rows))


def _weights(weight: Any, scale: Any, algo: str, dtype: Any, group_size: int) -> Any:
    """The weights [k, n] in that dtype."""
    ints = _ints(weight, algo)
    columns, rows = ints.meta.dims
    groups, size = _groups(rows, group_size)
    wanted = (columns,) if group_size == -1 else (groups, columns)
    have = scale.meta.dims
    if len(have) != len(wanted) or not all(map(dm.may_equal, have, wanted)):
        raise ShapeError(
            f"the scale of these weights must be {dm.shape_text(wanted)}, found {scale.meta}"
        )
    grouped = ops.reshape(ops.cast(ops.transpose(ints, [1, 0]), dtype), (groups, size, columns))
    scales = ops.reshape(as_dtype(scale, dtype), (groups, 1, columns))
    return ops.reshape(grouped * scales, (rows, columns))


@rules.normalize("weight_dequantize")
def weight_dequantize_attrs(
    x: MetaTensor, scale: MetaTensor, algo: str, out_dtype: Any, group_size: int
) -> Any:
    _check_algorithm(algo)
    if not dt.is_float(out_dtype):
        raise DTypeError(f"out_dtype must be a float dtype, found {out_dtype}")
    return algo, out_dtype, group_size


@rules.decompose("weight_dequantize")
def weight_dequantize(x: Any, scale: Any, algo: str, out_dtype: Any, group_size: int) -> Any:
    wide = dt.float64 if out_dtype == dt.float64 else dt.float32
    return as_dtype(_weights(x, scale, algo, wide, group_size), out_dtype)


# -- products ----------------------------------------------------------------------------------
@rules.normalize("weight_only_linear")
def weight_only_linear_attrs(
    x: MetaTensor, weight: Any, bias: Any, scale: Any, weight_dtype: str, arch: int, size: int
) -> Any:
    if weight_dtype not in ("int8", "int4"):
        raise AttributeValueError(f"weight_dtype must be int8 or int4, found {weight_dtype!r}")
    return weight_dtype, arch, size


@rules.decompose("weight_only_linear")
@in_float32
def weight_only_linear(
    x: Any, weight: Any, bias: Any, weight_scale: Any, weight_dtype: str, arch: int, group_size: int
) -> Any:
    algo = f"weight_only_{weight_dtype}"
    return _product(x, _weights(weight, weight_scale, algo, x.dtype, group_size), bias)


def _product(x: Any, weights: Any, bias: Any) -> Any:
    rows, columns = weights.meta.dims
    if not x.ndim or not dm.may_equal(x.meta.dims[-1], rows):
        raise ShapeError(f"x must have a last axis of {dm.dim_text(rows)}, found {x.meta}")
    if bias is not None and (bias.ndim != 1 or not dm.may_equal(bias.meta.dims[0], columns)):
        raise ShapeError(f"bias must be [{dm.dim_text(columns)}], found {bias.meta}")
    return ops.linear(x, weights, None if bias is None else as_dtype(bias, x.dtype))


@rules.decompose("llm_int8_linear")
@in_float32
def llm_int8_linear(x: Any, weight: Any, bias: Any, weight_scale: Any, threshold: float) -> Any:
    """Each row of the columns that are not large as ints times a scale of its own."""
    weights = _weights(weight, weight_scale, "llm.int8", x.dtype, -1)
    lead = list(range(x.ndim - 1))
    size = ops.abs(x)
    is_large = ops.max(size, lead, True) > threshold
    small = ops.where(is_large, 0.0, x)
    scale = ops.max(ops.abs(small), [x.ndim - 1], True) / 127.0
    ints = rounded_away(small / ops.where(scale == 0, 1.0, scale))
    kept = ops.where(is_large, x, 0.0)
    return _product(kept, weights, bias) + _product(ints, weights, None) * scale


# -- lookup_table_dequant ----------------------------------------------------------------------
@rules.indices("lookup_table_dequant")
def lookup_indices(w: MetaTensor, ids: MetaTensor, padding_idx: int) -> list[IndexRange]:
    fits = w.ndim == 2 and not (dm.is_known(w.dims[1]) and w.dims[1] < 3)
    if padding_idx != -1 or not fits:  # what is padded need not be a row
        return []
    return [IndexRange("ids", w.dims[:1], "rows of the table", counts_back=False)]


@rules.decompose("lookup_table_dequant")
def lookup_table_dequant(w: Any, ids: Any, padding_idx: int) -> Any:
    if w.dtype != dt.float32:
        raise DTypeError(f"w must be float32, whose bytes are read, found {w.meta}")
    if dt.kind(ids.dtype) != "int":
        raise DTypeError(f"ids holds numbers of rows, found {ids.meta}; cast it to int64")
    if not ids.ndim or not dm.may_equal(ids.meta.dims[-1], 1):
        raise ShapeError(f"ids must be [..., 1], found {ids.meta}; reshape it")
    columns = w.meta.dims[1] if w.ndim == 2 else 0
    if dm.is_known(columns) and columns < 3:
        raise ShapeError(f"w must be [rows, 2 or more + 1], found {w.meta}")
    count = ids.meta.size
    ids, dims = ops.reshape(ids, (count,)), ids.meta.dims[:-1]
    rows = ops.gather(w, ids, 0)
    least, most = (ops.slice(rows, [1], [i], [i + 1]) for i in range(2))
    packed = ops.view_dtype(ops.slice(rows, [1], [2], [columns]), dt.uint8)
    out = ops.cast(packed, w.dtype) * ((most - least) / 256.0) + least
    if padding_idx != -1:
        out = ops.where(ops.reshape(ids == padding_idx, (count, 1)), 0.0, out)
    return ops.reshape(out, (*dims, out.meta.dims[1]))
