"""NumPy's medians and quantiles, and its reductions that leave NaN out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import (
    default_float,
    floating,
    given,
    refuse,
    require_real,
    tensor,
    titled,
)
from phix.array_functions.reductions import (
    counted,
    freedom,
    in_floats,
    in_sums,
    kept,
    max,
    min,
    prod,
    rounded,
    sum,
    var,
)
from phix.array_functions.sorting import argsort, sort
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.axes import axes_of
from phix.core.errors import AttributeValueError
from phix.core.expectations import expect, expect_dims
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import Tracer
from phix.core.weak import weak_kind

Function = Callable[..., Any]


# -- in order ------------------------------------------------------------------------------------
def _ordered(x: Any, axis: Any, has_middle: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """What is along the axes as a last one, in order, NaN at the end; the dims with ones there."""
    rows, dims = _rows(x, axis, has_middle)
    return sort(rows), dims


def _rows(x: Any, axis: Any, has_middle: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """What is along the axes as a last one; the dims with ones there."""
    axes = axes_of(axis, x.ndim)
    if dt.is_complex(x.dtype) and not has_middle:
        raise NotOfferedError("complex numbers")
    rest = [i for i in range(x.ndim) if i not in axes]
    count: Any = 1
    for i in axes:
        count = count * x.shape[i]
    if not has_middle:
        refusal = f"a quantile of no elements: {x.meta} has none along axis {axis}"
        x = expect(x, refusal, count - 1)
    rows = ops.transpose(x, [*rest, *axes]) if x.ndim else x
    rows = ops.reshape(rows, (*(x.shape[i] for i in rest), count))
    return rows, tuple(1 if i in axes else x.shape[i] for i in range(x.ndim))


def _continuous(alpha: float, beta: float) -> Function:
    """Where the quantile q of n elements is, by Hyndman and Fan's family of two parameters."""
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _averaged(n: Any, q: Any) -> Any:
    at = n * q - 1
    return ops.where(ops.floor(at) == at, at + 0.5, ops.ceil(at))


def _closest(n: Any, q: Any) -> Any:
    at = n * q - 1.5
    low = ops.floor(at)
    is_odd = ops.logical_and(low == at, ops.remainder(low, 2) == 1)
    return ops.where(is_odd, low, low + 1)


# method -> the place of a quantile among n elements in order, between two of them
_PLACES: dict[str, Function] = {
    "linear": lambda n, q: (n - 1) * q,
    "lower": lambda n, q: ops.floor((n - 1) * q),
    "higher": lambda n, q: ops.ceil((n - 1) * q),
    "midpoint": lambda n, q: 0.5 * (ops.floor((n - 1) * q) + ops.ceil((n - 1) * q)),
    "nearest": lambda n, q: ops.round((n - 1) * q),  # to even
    "inverted_cdf": lambda n, q: ops.ceil(n * q - 1),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _closest,
    "interpolated_inverted_cdf": _continuous(0, 1),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0, 0),
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "normal_unbiased": _continuous(3 / 8, 3 / 8),
}
_OF_ONE_ELEMENT = {"lower", "higher", "nearest", "inverted_cdf", "closest_observation"}


def _at(rows: Any, place: Any, is_median: bool = False) -> Any:
    """What is at places between the elements of rows, counted from the nearer neighbour.

    On an element, too, it is on its way to the next one, on the last from that before: its slope.
    A median between two is their mean, which is rounded once.
    """
    axis, last = rows.ndim - 1, rows.shape[-1] - 1
    below = ops.floor(place)
    if not dt.is_float(rows.dtype):
        return ops.take_along_axis(rows, below.astype(dt.int64), axis)
    below = ops.maximum(ops.minimum(below, last - 1), 0)
    way = (place - below).astype(rows.dtype)
    low = ops.take_along_axis(rows, below.astype(dt.int64), axis)
    high = ops.take_along_axis(rows, ops.minimum(below + 1, last).astype(dt.int64), axis)
    has_end = ops.logical_or(ops.isinf(low), ops.isinf(high))
    is_on_last = ops.logical_and(ops.isnan(high), way == 0)  # of those that are no NaN
    step = ops.where(has_end | is_on_last, 0.0, high - low)
    between = ops.where(way < 0.5, low + step * way, high - step * (1 - way))
    between = ops.where(has_end, low + high, between)  # what is between with an infinity
    if is_median:
        total = low + high
        between = ops.where((way == 0.5) & ops.isfinite(total), 0.5 * total, between)
    has_no_step = ~ops.isfinite(high - low)
    found = ops.where(has_no_step & (way == 0), low, between)
    return ops.where(has_no_step & (way == 1), high, found)


def _fractions(name: str, q: Any, whole: int) -> Any:
    """What is asked for, from 0 to 1, as float64."""
    is_known = not isinstance(q, Tracer)
    known = np.asarray(q, np.float64) / whole if is_known else None
    if known is not None and not np.all((known >= 0) & (known <= 1)):
        raise AttributeValueError(f"{name}: q goes from 0 to {whole}, found {q!r:.80}")
    return tensor(known) if is_known else q.astype(dt.float64) / whole


def _result_dtype(rows: Any, q: Any, method: str) -> Any:
    """Python's numbers take the dtype of the elements, others meet it."""
    if method in _OF_ONE_ELEMENT or weak_kind(q) is not None:
        return rows.dtype
    own = q.dtype if hasattr(q, "dtype") and dt.is_float(q.dtype) else default_float()
    return dt.promote(rows.dtype, own)


def _quantile(
    name: str, doc: str, whole: int, skips_nan: bool = False, is_median: bool = False
) -> Function:
    """NumPy's function that counts from 0 to ``whole``."""

    def quantile(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False,
        method: Any = "linear", keepdims: Any = False, *, weights: Any = None,
    ) -> Any:  # fmt: skip
        refuse(out=out)
        if method not in _PLACES:
            raise AttributeValueError(
                f"{name}: method is one of {', '.join(_PLACES)}, found {method!r:.80}"
            )
        require_real(name, q)
        asked = _fractions(name, q, whole)
        if given(weights):
            if method != "inverted_cdf":
                raise AttributeValueError(f"{name}: weights= goes with method='inverted_cdf' alone")
            x, weight = _weights(name, tensor(a), weights, axis)
            found, dims = _weighted(x, weight, axis, ops.reshape(asked, [-1]), q, skips_nan)
        else:
            rows, dims = _ordered(tensor(a) if method in _OF_ONE_ELEMENT else floating(a), axis)
            rows = rows.astype(_result_dtype(rows, q, method))
            found = _quantiles(rows, ops.reshape(asked, [-1]), method, skips_nan, is_median)
        found = ops.transpose(found, [found.ndim - 1, *range(found.ndim - 1)])
        rest = dims if kept(keepdims) else found.shape[1:]
        return ops.reshape(found, (*asked.shape, *rest))

    return titled(quantile, name, doc)


def _weights(name: str, x: Any, weights: Any, axis: Any) -> tuple[Any, Any]:
    """x, and a weight of each of its elements, float64: there is one of each of them, or of each
    place along the axes."""
    w = tensor(weights).astype(dt.float64)
    axes = axes_of(axis, x.ndim)
    along = tuple(x.meta.dims[i] for i in axes)
    refusal = f"{name}: weights of {w.meta} are neither of {x.meta} nor of its places along {axis}"
    if axis is not None and w.meta.dims != x.meta.dims:
        w = expect_dims(w, refusal, along)
        w = ops.transpose(w, sorted(range(len(axes)), key=axes.__getitem__))
        w = ops.reshape(w, [x.shape[i] if i in axes else 1 for i in range(x.ndim)])
        w = ops.expand(w, x.shape)
    w = expect_dims(w, refusal, x.meta.dims)
    if not is_traced(w):
        held = beneath(w).numpy()
        if not (np.isfinite(held).all() and (held >= 0).all()):
            raise AttributeValueError(f"{name}: weights are finite and none is below 0")
    return x, w


def _weighted(
    x: Any, w: Any, axis: Any, asked: Any, q: Any, skips_nan: bool
) -> tuple[Any, tuple[Any, ...]]:
    """The first elements in order that have as much of the weights up to them as is asked for, and
    some; NaN where there are no weights."""
    rows, dims = _rows(x, axis)
    weights, _ = _rows(w, axis)
    order, last = argsort(rows), rows.ndim - 1
    rows, weights = (ops.take_along_axis(v, order, last) for v in (rows, weights))
    is_nan = ops.isnan(rows)
    if skips_nan:
        weights = ops.where(is_nan, 0.0, weights)
    part = ops.cumsum(weights, last)
    whole = part[..., -1:]
    if not (skips_nan or is_traced(whole)) and not bool(beneath(whole).numpy().all()):
        raise AttributeValueError("weights= are all 0")
    part = part / whole
    if hasattr(q, "dtype") and dt.is_float(q.dtype):  # compared in the digits that q has
        part, asked = (v.astype(q.dtype).astype(dt.float64) for v in (part, asked))
    part = ops.where(part == 0, -1.0, part)
    before = ops.unsqueeze(part, [-2]) < ops.unsqueeze(asked, [-1])
    place = ops.sum(before.astype(dt.int64), [-1])
    place = ops.minimum(place, ops.sum(ops.full_like(order, 1), [-1], None, True) - 1)
    found = ops.take_along_axis(rows, place, last)
    if not dt.is_float(rows.dtype):
        return found, dims
    spoiled = ops.isnan(part[..., -1:]) | (is_nan[..., -1:] & (not skips_nan))
    return ops.where(spoiled, math.nan, found), dims


def _ended(rows: Any) -> Any:
    """Rows whose length the run will tell with a NaN behind them: what is taken of empty ones."""
    if isinstance(rows.shape[-1], int):
        return rows
    return ops.concat([rows, ops.full((*rows.shape[:-1], 1), math.nan, rows.dtype)], rows.ndim - 1)


def _quantiles(
    rows: Any, q: Any, method: str, skips_nan: bool, is_median: bool, has_middle: bool = False
) -> Any:
    """The quantiles of each row, on a last axis; if has_middle, NaN of empty rows."""
    is_nan = ops.isnan(rows) if dt.is_float(rows.dtype) else None
    if skips_nan and is_nan is not None:
        count = ops.sum(ops.logical_not(is_nan).astype(dt.int64), [-1], None, True)
        count = count.astype(dt.float64)
    else:
        count = ops.full((1,) * rows.ndim, rows.shape[-1], dt.int64).astype(dt.float64)
    last = ops.maximum(count - 1, 0.0)
    place = _PLACES[method](count, q)
    place = ops.where(place < 0, 0.0, ops.where(place > last, last, place))
    taken = _ended(rows) if has_middle else rows
    found = _at(taken, ops.expand(place, (*rows.shape[:-1], q.shape[0])), is_median)
    if is_nan is None:
        return found
    last_is_nan = ops.any(is_nan, [-1], True) if has_middle else is_nan[..., -1:]
    spoiled = count == 0 if skips_nan else last_is_nan
    return ops.where(spoiled, math.nan, found)


def _median(name: str, doc: str, skips_nan: bool) -> Function:
    of_half = _quantile(name, doc, 1, skips_nan, is_median=True)

    def median(
        a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False,
        keepdims: Any = False,
    ) -> Any:  # fmt: skip
        refuse(out=out)
        x = floating(a)
        sizes = [x.shape[i] for i in axes_of(axis, x.ndim)]
        known = [n for n in sizes if isinstance(n, int)]
        if dt.is_complex(x.dtype) or 0 in known:
            return _middle(x, axis, kept(keepdims), skips_nan)
        if len(known) == len(sizes):
            return of_half(a, 0.5, axis, keepdims=keepdims)
        rows, dims = _ordered(x, axis, has_middle=True)
        half = tensor(np.array([0.5]))
        found = _quantiles(rows, half, "linear", skips_nan, is_median=True, has_middle=True)
        return ops.reshape(found, dims) if kept(keepdims) else found[..., 0]

    return titled(median, name, doc)


def _middle(x: Any, axis: Any, keeps: bool, skips_nan: bool) -> Any:
    """The median of complex numbers, and of nothing, NaN."""
    rows, dims = _ordered(x, axis, has_middle=True)
    if isinstance(rows.shape[-1], int) and not rows.shape[-1]:
        return ops.full(dims if keeps else rows.shape[:-1], math.nan, x.dtype)
    is_nan = ops.isnan(rows)
    known = ops.logical_not(is_nan) if skips_nan else ops.full_like(is_nan, True)
    count = ops.sum(known.astype(dt.int64), [-1], None, True)
    last = ops.maximum(count - 1, 0)
    ended = _ended(rows)
    low, high = (
        ops.take_along_axis(ended, ops.floor_divide(n, 2), rows.ndim - 1) for n in (last, last + 1)
    )
    high = ops.where(ops.remainder(count, 2) == 0, high, low)
    end = ops.maximum(ops.sum(ops.full_like(is_nan, 1, "int64"), [-1], None, True) - 1, 0)
    of_nan = ops.take_along_axis(ended, end, rows.ndim - 1)
    spoiled = count == 0 if skips_nan else ops.isnan(of_nan)
    found = ops.where(spoiled, of_nan, 0.5 * low + 0.5 * high)
    return ops.reshape(found, dims) if keeps else found[..., 0]


# -- without NaN ---------------------------------------------------------------------------------
def _known(a: Any, where: Any) -> tuple[Any, Any]:
    """The array as floats, and which elements are no NaN and chosen."""
    x = floating(a)
    known = ops.logical_not(ops.isnan(x))
    is_chosen = given(where) and where is not True
    return x, ops.logical_and(known, tensor(where)) if is_chosen else known


def _without_nan(name: str, doc: str, function: Function, instead: float) -> Function:
    def reduced(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        x = tensor(a)
        if dt.is_differentiable(x.dtype):  # ints have no NaN, and more digits than floats
            x = ops.where(ops.isnan(x), instead, x)
        return function(x, axis, dtype, out, keepdims, initial, where)

    return titled(reduced, name, doc)


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Any = None,
) -> Any:  # fmt: skip
    """As mean, NaN left out."""
    refuse(out=out)
    x, known = _known(a if dtype is None else in_floats("nanmean", a, dtype), where)
    total = sum(in_sums(ops.where(known, x, 0.0)), axis, keepdims=keepdims)
    return rounded(total / counted(x, axis, keepdims, known), x)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Any = None, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """As var, NaN left out."""
    refuse(out=out)
    x, known = _known(a if dtype is None else in_floats("nanvar", a, dtype), where)
    less = freedom("nanvar", ddof, correction)
    count = counted(x, axis, keepdims, known)
    found = var(ops.where(known, x, 0.0), axis, None, None, less, keepdims, where=known, mean=mean)
    return ops.where(count - less > 0, found, math.nan)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Any = None, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """As std, NaN left out."""
    said = {"where": where, "mean": mean, "correction": correction}
    x = in_floats("nanstd", a, dtype)
    return rounded(ops.sqrt(nanvar(in_sums(x), axis, None, out, ddof, keepdims, **said)), x)


def _nan_extreme(name: str, doc: str, function: Function, worst: float) -> Function:
    """Of NaN alone it is NaN."""

    def reduced(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = None,
    ) -> Any:  # fmt: skip
        x = tensor(a)
        if not dt.is_differentiable(x.dtype):
            return function(x, axis, out, keepdims, initial, where)
        _, known = _known(x, where)
        found = function(ops.where(ops.isnan(x), worst, x), axis, out, keepdims, initial, where)
        if given(initial):
            return found
        return ops.where(counted(x, axis, keepdims, known) == 0, math.nan, found)

    return titled(reduced, name, doc)


NAMES: dict[str, Function] = {
    "median": _median("median", "The element in the middle, or the mean of two.", False),
    "nanmedian": _median("nanmedian", "As median, NaN left out.", True),
    "quantile": _quantile("quantile", "What a part q of the elements is below.", 1),
    "percentile": _quantile("percentile", "What q percent of the elements are below.", 100),
    "nanquantile": _quantile("nanquantile", "As quantile, NaN left out.", 1, True),
    "nanpercentile": _quantile("nanpercentile", "As percentile, NaN left out.", 100, True),
    "nansum": _without_nan("nansum", "As sum, NaN as 0.", sum, 0.0),
    "nanprod": _without_nan("nanprod", "As prod, NaN as 1.", prod, 1.0),
    "nanmean": nanmean, "nanvar": nanvar, "nanstd": nanstd,
    "nanmax": _nan_extreme("nanmax", "As max, NaN left out; NaN of NaN alone.", max, -math.inf),
    "nanmin": _nan_extreme("nanmin", "As min, NaN left out; NaN of NaN alone.", min, math.inf),
}  # fmt: skip
