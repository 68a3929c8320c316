"""NumPy's reductions, and what goes along an axis: sums, means, extremes, cumulated sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import (
    axes_of,
    axis_of,
    floating,
    named,
    operand,
    refuse,
    tensor,
    with_dtype,
)
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import Tracer

Function = Callable[..., Any]


def _kept(keepdims: Any) -> bool:
    return keepdims is not np._NoValue and bool(keepdims)


def _over(reduce: Function, x: Any, axis: Any, keepdims: Any) -> Any:
    """``reduce(x, axes, keepdim)``, or x where there are no axes, which phix takes for all."""
    axes = axes_of(axis, x.ndim)
    return reduce(x, list(axes), _kept(keepdims)) if axes else x


def _summable(x: Any) -> Any:
    """In the dtype in which sums and products of it come."""
    return x if dt.is_differentiable(x.dtype) or x.dtype == dt.uint64 else x.astype(dt.int64)


# -- sums and means ------------------------------------------------------------------------------
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    refuse(out=out)
    x = with_dtype(tensor(a), dtype)
    x = x if dtype is not None else _summable(x)
    found = _over(lambda x, axes, keep: ops.sum(x, axes, None, keep), x, axis, keepdims)
    return with_dtype(found, dtype)


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    refuse(out=out)
    x = with_dtype(tensor(a), dtype)
    x = x if dtype is not None else _summable(x)
    return with_dtype(_over(ops.prod, x, axis, keepdims), dtype)


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    refuse(out=out)
    x = tensor(a).astype(dtype) if dtype is not None else floating(a)
    return _over(ops.mean, x, axis, keepdims)


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    refuse(out=out, mean=mean)
    x = tensor(a).astype(dtype) if dtype is not None else floating(a)
    less = ddof if correction is None or correction is np._NoValue else correction

    def reduce(x: Any, axes: Any, keep: bool) -> Any:
        return ops.var(x, axes, keep, True, less)

    if dt.is_complex(x.dtype):
        return var(ops.real(x), axis, None, None, less, keepdims) + var(
            ops.imag(x), axis, None, None, less, keepdims
        )
    return _over(reduce, x, axis, keepdims) if axes_of(axis, x.ndim) else x * 0


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    return ops.sqrt(var(a, axis, dtype, out, ddof, keepdims, mean=mean, correction=correction))


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False
) -> Any:
    if weights is None and not returned:
        return mean(a, axis, keepdims=keepdims)
    x = floating(a)
    w = ops.full_like(x, 1) if weights is None else floating(weights)
    if w.shape != x.shape:
        (at,) = axes_of(axis, x.ndim) if axis is not None else (-1,)
        if w.ndim != 1 or at < 0 or not dm.may_equal(w.shape[0], x.shape[at]):
            raise ShapeError(
                f"average: weights have the shape of a, or are 1-d along axis, found {w.meta} "
                f"for {x.meta} and axis {axis}"
            )
        w = ops.reshape(w, tuple(-1 if i == at else 1 for i in range(x.ndim)))
        w = ops.expand(w, x.shape)
    total = sum(w, axis, keepdims=keepdims)
    found = sum(x * w, axis, keepdims=keepdims) / total
    return (found, total) if returned else found


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    values = floating(y)
    at = axis_of(axis, values.ndim)
    both = _cut(values, at, 1, None) + _cut(values, at, 0, -1)
    if x is None:
        return sum(both * operand(dx), at) / 2
    points = floating(x)
    width = diff(points, 1, -1 if points.ndim == 1 else at)
    if width.ndim == 1:
        width = ops.reshape(width, tuple(-1 if i == at else 1 for i in range(values.ndim)))
    return sum(both * width, at) / 2


def _cut(x: Any, axis: int, start: Any, stop: Any) -> Any:
    index = [slice(None)] * x.ndim
    index[axis] = slice(start, stop)
    return x[tuple(index)]


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    refuse(prepend=prepend, append=append)
    x = tensor(a)
    at = axis_of(axis, x.ndim)
    for _ in range(n):
        after, before = _cut(x, at, 1, None), _cut(x, at, 0, -1)
        x = ops.not_equal(after, before) if x.dtype == dt.bool_ else after - before
    return x


# -- extremes ------------------------------------------------------------------------------------
def _extreme(reduce: Function) -> Function:
    def extreme(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        refuse(out=out)
        return _over(reduce, tensor(a), axis, keepdims)

    return extreme


max, min = _extreme(ops.max), _extreme(ops.min)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return max(a, axis, out, keepdims) - min(a, axis, out, keepdims)


def _arg(find: Function) -> Function:
    def arg(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        refuse(out=out)
        x, keep = tensor(a), _kept(keepdims)
        if axis is not None:
            return find(x, axis_of(axis, x.ndim), keep)
        found = find(ops.reshape(x, [-1]), 0)
        return ops.reshape(found, (1,) * x.ndim) if keep else found

    return arg


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False
) -> Any:
    """The mean of the two elements in the middle; NaN where one is."""
    refuse(out=out)
    rows, kept = _ordered(floating(a), axis)
    count = rows.shape[-1]
    found = 0.5 * (rows[..., (count - 1) // 2] + rows[..., count // 2])
    found = ops.where(ops.isnan(rows[..., -1]), math.nan, found)
    return ops.reshape(found, kept) if _kept(keepdims) else found


def _ordered(x: Any, axis: Any) -> tuple[Any, tuple[Any, ...]]:
    """What is along the axes as a last one, in order, NaN at the end; the dims with ones there."""
    axes = axes_of(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    count = math.prod(x.shape[i] if isinstance(x.shape[i], int) else 0 for i in axes)
    if not count or dt.is_complex(x.dtype):
        raise NotOfferedError("complex numbers, nor an unknown size or none")
    rows = ops.transpose(x, [*rest, *axes])
    rows = ops.sort(ops.reshape(rows, (*(x.shape[i] for i in rest), count)), -1)
    return rows, tuple(1 if i in axes else x.shape[i] for i in range(x.ndim))


# method -> where between its neighbours a quantile is, from the fraction of the way to the next
_BETWEEN: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "linear": lambda below, way: way,
    "lower": lambda below, way: 0.0 * way,
    "higher": lambda below, way: np.ceil(way),
    "midpoint": lambda below, way: 0.5 * np.ceil(way),
    "nearest": lambda below, way: np.rint(below + way) - below,  # to even
}


def _quantile(name: str, whole: int) -> Function:
    """NumPy's function that counts from 0 to ``whole``; of q that is known alone."""

    def quantile(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False,
        method: Any = "linear", keepdims: Any = False, *, weights: Any = None,
        interpolation: Any = None,
    ) -> Any:  # fmt: skip
        refuse(out=out, weights=weights, interpolation=interpolation)
        if isinstance(q, Tracer):
            raise NotOfferedError("q that is not known")
        if method not in _BETWEEN:
            raise NotOfferedError(f"method={method!r}")
        asked: Any = np.asarray(q, np.float64) / whole
        if not np.all((asked >= 0) & (asked <= 1)):
            raise AttributeValueError(f"{name}: q goes from 0 to {whole}, found {q!r:.80}")
        is_between = method in ("linear", "midpoint")
        rows, kept = _ordered(floating(a) if is_between else tensor(a), axis)
        if is_between and type(q) not in (int, float):  # Python's take the dtype of a
            own = np.asarray(q).dtype
            rows = rows.astype(dt.promote(rows.dtype, own if own.kind == "f" else dt.float64))
        at = asked.ravel() * (rows.shape[-1] - 1)
        found = _between(rows, np.floor(at), at - np.floor(at), method)
        if dt.is_differentiable(rows.dtype):
            found = ops.where(ops.isnan(rows[..., -1:]), math.nan, found)
        found = ops.transpose(found, [found.ndim - 1, *range(found.ndim - 1)])
        rest = kept if _kept(keepdims) else found.shape[1:]
        return ops.reshape(found, (*asked.shape, *rest))

    return quantile


def _between(rows: Any, below: np.ndarray, way: np.ndarray, method: str) -> Any:
    """What is that far on the way from the neighbour below to the next, counted from the nearer."""
    way = _BETWEEN[method](below, way)
    first, last = below.astype(np.int64), rows.shape[-1] - 1
    if np.all((way == 0) | (way == 1)):  # no sums: infinities stay, and ints
        return ops.index_select(rows, first + way.astype(np.int64), -1)
    low = ops.index_select(rows, first, -1)
    high = ops.index_select(rows, np.minimum(first + 1, last), -1)
    step, share = high - low, way.astype(rows.dtype)
    return ops.where(share < 0.5, low + step * share, high - step * (1 - share))


# -- truths --------------------------------------------------------------------------------------
def _truth(reduce: Function) -> Function:
    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        refuse(out=out)
        x = tensor(a)
        return _over(reduce, x if x.dtype == dt.bool_ else x != 0, axis, keepdims)

    return truth


all, any = _truth(ops.all), _truth(ops.any)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return sum(tensor(a) != 0, axis, keepdims=keepdims)


# -- without NaN ---------------------------------------------------------------------------------
def _without_nan(function: Function, instead: float) -> Function:
    def reduced(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
        x = tensor(a)
        if not dt.is_differentiable(x.dtype):  # ints have no NaN, and more digits than floats
            return function(x, axis, keepdims=keepdims)
        return function(ops.where(ops.isnan(x), instead, x), axis, keepdims=keepdims)

    return reduced


def nanmean(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    x = floating(a)
    known = sum(ops.logical_not(ops.isnan(x)), axis, keepdims=keepdims)
    return _without_nan(sum, 0.0)(x, axis, keepdims=keepdims) / known


def _nan_extreme(function: Function, worst: float) -> Function:
    """Of NaN alone it is NaN."""

    def reduced(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
        x = tensor(a)
        if not dt.is_differentiable(x.dtype):
            return function(x, axis, keepdims=keepdims)
        none = all(ops.isnan(x), axis, keepdims=keepdims)
        found = _without_nan(function, worst)(x, axis, keepdims=keepdims)
        return ops.where(none, math.nan, found)

    return reduced


# -- cumulated -----------------------------------------------------------------------------------
def _cumulated(function: Function, instead: float | None = None) -> Function:
    """``instead`` stands where NaN is, if it is not None."""

    def cumulated(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        refuse(out=out)
        x = with_dtype(tensor(a), dtype)
        x = x if dtype is not None else _summable(x)
        if axis is None:
            x, axis = ops.reshape(x, [-1]), 0
        if instead is not None and dt.is_differentiable(x.dtype):
            x = ops.where(ops.isnan(x), instead, x)
        return function(x, axis_of(axis, x.ndim))

    return cumulated


cumsum, cumprod = _cumulated(ops.cumsum), _cumulated(ops.cumprod)


# -- methods of ufuncs ---------------------------------------------------------------------------
def _reduce(function: Function) -> Function:
    takes_dtype = "dtype" in function.__code__.co_varnames

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False
    ) -> Any:
        refuse(out=out)
        if dtype is None:
            return function(array, axis, keepdims=keepdims)
        if not takes_dtype:
            raise NotOfferedError("dtype=")
        return function(array, axis, dtype, keepdims=keepdims)

    return reduce


def _accumulate(function: Function) -> Function:
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        refuse(out=out)
        return function(array, axis, dtype)

    return accumulate


def _running(function: Function) -> Function:
    def running(a: Any, axis: Any = 0, dtype: Any = None) -> Any:
        x = with_dtype(tensor(a), dtype)
        return function(x, axis_of(axis, x.ndim))[0]

    return running


_METHODS: dict[Any, Function] = {
    (np.add, "reduce"): _reduce(sum),
    (np.multiply, "reduce"): _reduce(prod),
    (np.maximum, "reduce"): _reduce(max),
    (np.minimum, "reduce"): _reduce(min),
    (np.logical_and, "reduce"): _reduce(all),
    (np.logical_or, "reduce"): _reduce(any),
    (np.add, "accumulate"): _accumulate(cumsum),
    (np.multiply, "accumulate"): _accumulate(cumprod),
    (np.maximum, "accumulate"): _accumulate(_running(ops.cummax)),
    (np.minimum, "accumulate"): _accumulate(_running(ops.cummin)),
}
_PLAIN: dict[str, Function] = {
    "sum": sum, "prod": prod, "mean": mean, "var": var, "std": std, "average": average,
    "trapezoid": trapezoid, "trapz": trapezoid, "diff": diff,
    "max": max, "amax": max, "min": min, "amin": min, "ptp": ptp, "median": median,
    "argmax": _arg(ops.argmax), "argmin": _arg(ops.argmin),
    "all": all, "any": any, "count_nonzero": count_nonzero,
    "nansum": _without_nan(sum, 0.0), "nanprod": _without_nan(prod, 1.0), "nanmean": nanmean,
    "nanmax": _nan_extreme(max, -math.inf), "nanmin": _nan_extreme(min, math.inf),
    "quantile": _quantile("quantile", 1), "percentile": _quantile("percentile", 100),
    "cumsum": cumsum, "cumprod": cumprod,
    "nancumsum": _cumulated(ops.cumsum, 0.0), "nancumprod": _cumulated(ops.cumprod, 1.0),
}  # fmt: skip
FUNCTIONS: dict[Any, Function] = {**named(_PLAIN, np), **_METHODS}
