"""Ops that compare whole tensors, and small counters of training."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.indexing import check_index
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.positions import numbers


def _same_shape(x: MetaTensor, y: MetaTensor) -> bool:
    return x.ndim == y.ndim and all(map(dm.may_equal, x.dims, y.dims))


# -- equal, nearly -----------------------------------------------------------------------------
@rules.infer_meta("ValueCompareInferMeta")
def isclose_meta(x: MetaTensor, y: MetaTensor, *attrs: Any) -> MetaTensor:
    return MetaTensor(broadcast_shapes(x.dims, y.dims), dt.bool_)


@rules.infer_meta("AllValueCompareInferMeta")
def allclose_meta(x: MetaTensor, y: MetaTensor, *attrs: Any) -> MetaTensor:
    broadcast_shapes(x.dims, y.dims)
    return MetaTensor((), dt.bool_)


@rules.infer_meta("AccuracyCheckInferMeta")
def accuracy_check_meta(x: MetaTensor, y: MetaTensor, *attrs: Any) -> MetaTensor:
    if not _same_shape(x, y):
        raise ShapeError(f"x and y must have one shape, found {x} and {y}")
    return isclose_meta(x, y)


@rules.decompose("isclose")
def isclose(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """In float64 where an int or a bound would not fit; infinities are close to themselves."""
    if not dt.is_differentiable(x.dtype):
        return _numbers_close(x, y, rtol, atol)
    if x.dtype in (dt.float16, dt.bfloat16):
        x, y = ops.cast(x, dt.float32), ops.cast(y, dt.float32)
    close = ops.isfinite(x) & ops.isfinite(y)
    found = (x == y) | (close & (ops.abs(x - y) <= atol + rtol * ops.abs(y)))
    return found | (ops.isnan(x) & ops.isnan(y)) if equal_nan else found


def _numbers_close(x: Any, y: Any, rtol: float, atol: float) -> Any:
    """Of ints, whose difference as a uint64 is exact."""
    if x.dtype != dt.uint64:
        x, y = ops.cast(x, dt.int64), ops.cast(y, dt.int64)
    apart = ops.cast(ops.maximum(x, y) - ops.minimum(x, y), dt.uint64)
    allowed = atol + rtol * ops.abs(ops.cast(y, dt.float64))
    return ops.cast(apart, dt.float64) <= allowed


@rules.decompose("allclose")
def allclose(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    return ops.all(isclose(x, y, rtol, atol, equal_nan))


@rules.decompose("accuracy_check")
def accuracy_check(x: Any, y: Any, fn_name: str, rtol: float, atol: float, equal_nan: bool) -> Any:
    return isclose(x, y, rtol, atol, equal_nan)


@rules.infer_meta("CompareAllInferMeta")
def equal_all_meta(x: MetaTensor, y: MetaTensor) -> MetaTensor:
    return MetaTensor((), dt.bool_)


@rules.decompose("equal_all")
def equal_all(x: Any, y: Any) -> Any:
    if not _same_shape(x.meta, y.meta):
        return ops.full((), False, dt.bool_)
    if dm.same_shape(x.meta.dims, y.meta.dims):
        return ops.all(x == y)
    return _all_equal_if_as_many(x, y)


def _all_equal_if_as_many(x: Any, y: Any) -> Any:
    """Of shapes that are not known to agree: each element of x finds one of y, or a 0 behind it."""
    pairs = zip(x.meta.dims, y.meta.dims)
    fit = [ops.full((), a, dt.int64) == ops.full((), b, dt.int64) for a, b in pairs]
    size = y.meta.size
    behind = ops.concat([ops.reshape(y, (size,)), ops.full((1,), 0, y.dtype)], 0)
    place = ops.minimum(numbers(x.meta.size), ops.full((), size, dt.int64))
    equal = ops.all(ops.reshape(x, (x.meta.size,)) == ops.gather(behind, place))
    return ops.all(ops.stack([equal, *fit], 0))


@rules.infer_meta("IsEmptyInferMeta")
def is_empty_meta(x: MetaTensor) -> MetaTensor:
    return MetaTensor((), dt.bool_)


@rules.decompose("is_empty")
def is_empty(x: Any) -> Any:
    return ops.full((), x.meta.size, dt.int64) == 0


# -- places and counts -------------------------------------------------------------------------
@rules.infer_meta("RestrictNonZeroInferMeta")
def restrict_nonzero_meta(condition: MetaTensor, total_true_num: Any) -> MetaTensor:
    if isinstance(total_true_num, int) and total_true_num < 0:
        raise AttributeValueError(f"total_true_num must be 0 or more, found {total_true_num}")
    return MetaTensor((total_true_num, condition.ndim), dt.int64)


@rules.decompose("restrict_nonzero")
def restrict_nonzero(condition: Any, total_true_num: Any) -> Any:
    """Each writes its place in the row of its turn; what has no row writes behind them all."""
    dims, size = condition.meta.dims, condition.meta.size
    if not dims:
        return ops.full((total_true_num, 0), 0, dt.int64)
    hits = ops.reshape(condition, (size,)) != 0
    turn = ops.cumsum(ops.cast(hits, dt.int64), 0) - 1
    total = ops.full((), total_true_num, dt.int64)
    row = ops.where(hits & (turn < total), turn, total)
    rows = ops.index_put(ops.full((total_true_num + 1,), 0, dt.int64), [row], numbers(size))
    places = ops.slice(rows, [0], [0], [total_true_num])
    found = []
    for d in reversed(dims[1:]):
        found.append(ops.remainder(places, d))
        places = ops.floor_divide(places, d)
    return ops.stack([places, *reversed(found)], 1)


@rules.infer_meta("AccuracyInferMeta")
def accuracy_meta(x: MetaTensor, indices: MetaTensor, label: MetaTensor) -> Any:
    check_index(indices, "indices")
    check_index(label, "label")
    if x.ndim != 2 or not _same_shape(x, indices):
        raise ShapeError(f"x and indices must be [rows, k] both, found {x} and {indices}")
    is_column = label.ndim == 1 or (label.ndim == 2 and dm.may_equal(label.dims[1], 1))
    if not is_column or not dm.may_equal(label.dims[0], x.dims[0]):
        raise ShapeError(f"label must be [rows, 1] of the rows of {x}, found {label}")
    return MetaTensor((), dt.float32), *(MetaTensor((), dt.int32) for _ in range(2))


@rules.decompose("accuracy")
def accuracy(x: Any, indices: Any, label: Any) -> Any:
    rows = x.meta.dims[0]
    wide = (ops.cast(v, dt.int64) for v in (indices, ops.reshape(label, (rows, 1))))
    given, wanted = wide
    hits = ops.any(given == wanted, [1])
    correct = ops.sum(ops.cast(hits, dt.int64))
    total = ops.full((), rows, dt.int64)
    share = ops.cast(correct, dt.float32) / ops.cast(ops.maximum(total, 1), dt.float32)
    return share, ops.cast(correct, dt.int32), ops.cast(total, dt.int32)


@rules.infer_meta("IncrementInferMeta")
def increment_meta(x: MetaTensor, value: float) -> MetaTensor:
    if not dm.may_equal(x.size, 1):
        raise ShapeError(f"x must have one element, found {x}")
    return x


@rules.decompose("increment")
def increment(x: Any, value: float) -> Any:
    number = value if dt.is_float(x.dtype) else int(value)
    return x + ops.full((), number, x.dtype)
