"""What samples say: ranks, the most frequent number, the error of a mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.conversion import owned_tensor
from phix.core.given import FLAG, INT, NONE, one_of, takes
from phix.core.tensor import TensorBase, TensorLike
from phix.scipy.entropies import floats

_AXIS = INT | NONE
_POLICY = one_of("propagate", "omit")


def with_axis_at(x: Any, source: int, target: int) -> Any:
    """x with one axis moved to another place."""
    order = list(range(x.ndim))
    order.insert(target % x.ndim, order.pop(source))
    return ops.transpose(x, order)


def _last(a: Any, axis: int | None) -> Any:
    """The axis as the last one; None is all elements in order."""
    x = a if isinstance(a, TensorBase) else owned_tensor(a)
    if axis is None or not x.ndim:
        return ops.reshape(x, [-1])
    return with_axis_at(x, axis_of(axis, x.ndim), -1)


def _around(ordered: Any, x: Any) -> tuple[Any, Any]:
    """How many of the sorted numbers along the last axis are less than each of x, and how many are
    not more."""
    return ops.searchsorted(ordered, x), ops.searchsorted(ordered, x, right=True)


@takes(axis=_AXIS, method=one_of("average", "min", "max", "dense", "ordinal"))
def rankdata(a: TensorLike, method: str = "average", *, axis: int | None = None) -> Any:
    """The ranks of numbers, from 1 on, of all in order or along an axis.

    ``method`` says what equal ones get: their ranks' "average" (float32, float64 of float64, the
    default float of ints), the "min" or "max" of them; all the next one, "dense"; or each its own
    in order, "ordinal" (int64).
    A NaN makes all averages along the axis NaN; ints have none, and rank it last.

    >>> import phix
    >>> phix.scipy.stats.rankdata([3.0, 1.0, 3.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    x = _last(a, axis)
    ordered, order = ops.argsort(x, -1, stable=True)
    if method == "ordinal":
        ranks = ops.argsort(order, -1)[1] + 1
    elif method == "dense":
        first = ops.searchsorted(ordered, ordered)
        is_new = ops.cast(first == ops.arange(0, x.shape[-1], 1, "int64"), "int64")
        ranks = ops.take_along_axis(ops.cumsum(is_new, -1), ops.searchsorted(ordered, x), -1)
    else:
        below, up_to = _around(ordered, x)
        ranks = below + 1 if method == "min" else up_to
        if method == "average":
            wide = dt.float64 if x.dtype == dt.float64 else dt.float32
            if not dt.is_float(x.dtype):
                wide = dt.default_float()
            ranks = (ops.cast(below + 1, wide) + ops.cast(up_to, wide)) * 0.5
            if dt.is_float(x.dtype):
                ranks = ops.where(ops.any(ops.isnan(x), -1, True), math.nan, ranks)
    return ranks if axis is None else with_axis_at(ranks, -1, axis)


class ModeResult(NamedTuple):
    """What :func:`mode` found: the numbers, and how often each is there."""

    mode: Any
    count: Any


@takes(axis=_AXIS, nan_policy=_POLICY, keepdims=FLAG)
def mode(
    a: TensorLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent number along an axis, the least of several, and how often it is there.

    All NaNs count as one number, behind the others; nan_policy "omit" leaves them out: of NaNs
    alone the mode is NaN, 0 times. (No program can raise an error for what it finds, so there is no
    "raise".)

    >>> import phix
    >>> found = phix.scipy.stats.mode([1.0, 3.0, 3.0])
    >>> found.mode.item(), found.count.item()
    (3.0, 2)
    """
    x = _last(a, axis)
    ordered = ops.sort(x, -1)
    below, up_to = _around(ordered, ordered)
    counts = up_to - below
    if nan_policy == "omit" and dt.is_float(x.dtype):
        counts = ops.where(ops.isnan(ordered), 0, counts)
    place = ops.argmax(counts, -1, True)
    found = [ops.take_along_axis(v, place, -1) for v in (ordered, counts)]
    if not keepdims:
        return ModeResult(*(ops.squeeze(v, [-1]) for v in found))
    if axis is None:
        rank = a.ndim if isinstance(a, TensorBase) else owned_tensor(a).ndim
        return ModeResult(*(ops.reshape(v, [1] * rank) for v in found))
    return ModeResult(*(with_axis_at(v, -1, axis) for v in found))


@takes(axis=_AXIS, ddof=INT, nan_policy=_POLICY, keepdims=FLAG)
def sem(
    a: TensorLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The standard error of the mean: the standard deviation, over n - ddof, by sqrt(n).

    NaNs make it NaN, or nan_policy "omit" leaves them out; of no more than ddof numbers it is NaN.

    >>> import phix
    >>> phix.scipy.stats.sem([1.0, 3.0]).item()
    1.0
    """
    (x,) = floats(a)
    if axis is None or not x.ndim:
        found = sem(ops.reshape(x, [-1]), 0, ddof, nan_policy)
        return ops.reshape(found, [1] * x.ndim) if keepdims else found
    count = x.shape[axis_of(axis, x.ndim)]
    wide = x.astype(dt.accumulator_dtype(x.dtype))
    if nan_policy == "omit":
        return _sem_of_numbers(wide, axis, ddof, keepdims).astype(x.dtype)
    away = wide - ops.mean(wide, [axis], True)
    square = ops.sum(away * away, [axis], keepdim=keepdims)
    found = ops.sqrt(square / dm.maximum(count - ddof, 0) / count)  # of too few, nothing is known
    return found.astype(x.dtype)


def _sem_of_numbers(x: Any, axis: int, ddof: int, keepdims: bool) -> Any:
    """That of what is no NaN."""
    is_number = ~ops.isnan(x)
    x = ops.where(is_number, x, 0.0)
    count = ops.sum(ops.cast(is_number, dt.real_dtype(x.dtype)), [axis], keepdim=True)
    mean = ops.sum(x, [axis], keepdim=True) / ops.maximum(count, 1.0)
    away = ops.where(is_number, x - mean, 0.0)
    square = ops.sum(away * away, [axis], keepdim=True)
    is_enough = count > ddof
    left = ops.where(is_enough, count - ddof, 1.0)
    rest = square / left / ops.maximum(count, 1.0)
    found = ops.where(is_enough, ops.sqrt(ops.where(is_enough, rest, 1.0)), math.nan)
    return found if keepdims else ops.squeeze(found, [axis])
