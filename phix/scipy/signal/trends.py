"""Signals without their mean or the line through them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, ShapeError
from phix.core.expectations import expect
from phix.core.given import INT, Kind, entries, is_int, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.fft.arguments import axes_of
from phix.linalg.arguments import floating
from phix.scipy.ranks import with_axis_at

_KINDS = ("linear", "constant")
_NOTHING = Kind("None or False, as nothing is overwritten", lambda v: v is None or v is False)


def _without_mean(x: Any) -> Any:
    return x - ops.mean(x, [-1], True)


def _without_line(x: Any) -> Any:
    """x less its mean and less slope times place, the place counted from the middle."""
    n = x.meta.dims[-1]
    twice = 2 * ops.arange(0, n, 1, dt.int64) - (n - 1)
    place = ops.cast(twice, dt.float64) / n
    power = ops.sum(place * place)
    weight = ops.cast(place / ops.where(power > 0, power, 1.0), x.dtype)  # of one point, no slope
    rest = _without_mean(x)
    slope = ops.sum(rest * weight, [-1], keepdim=True)
    return rest - slope * ops.cast(place, x.dtype)


def along_last(x: Any, kind: str) -> Any:
    """``x`` without its line or mean along the last axis."""
    return _without_line(x) if kind == "linear" else _without_mean(x)


def _breaks(bp: Any, x: Any, n: Any) -> tuple[Any, list[Any]]:
    """x, which has such places along an axis of n, and where the parts begin, and the end."""
    places = np.atleast_1d(np.asarray(entries(bp, "detrend: bp"), dtype=object)).ravel()
    if not all(map(is_int, places)):
        raise ArgumentError(f"detrend: bp must be an int or a list of ints, found {bp!r:.80}")
    inner = sorted({int(p) for p in places} - {0})
    refusal = f"detrend: bp must be places from 0 to {dm.dim_text(n)}, found {inner}"
    if any(p < 0 or (dm.is_known(n) and p > n) for p in inner):
        raise ArgumentError(refusal)
    x = expect(x, refusal, *(n - p for p in inner))
    return x, [0, *(p for p in inner if not (dm.is_known(n) and p == n)), n]


@takes(axis=INT, type=one_of(*_KINDS), overwrite_data=_NOTHING)
def detrend(
    data: TensorLike, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: Any = None
) -> Tensor:
    """The data less the line of least squares, or the mean, along an axis.

    Args:
        data: a tensor of floats or complex numbers; ints become the default float.
        axis: which axis.
        type: "linear": less a line; "constant": less the mean.
        bp: places where a line ends and the next one begins, for "linear": an int or several.
        overwrite_data: nothing is overwritten.

    Returns:
        Of the shape of data.

    Raises:
        ShapeError: data has no axis.
        AttributeValueError: axis is out of range.
        ArgumentError: a place in bp is none.

    >>> import phix
    >>> phix.scipy.signal.detrend([1.0, 2.0, 6.0]).round(decimals=3).tolist()
    [0.5, -1.0, 0.5]
    >>> phix.scipy.signal.detrend([1.0, 2.0, 6.0], type="constant").tolist()
    [-2.0, -1.0, 3.0]
    """
    x = floating(data)
    if not x.ndim:
        raise ShapeError(f"detrend: data must have an axis, found {x.meta}")
    (at,) = axes_of("detrend", x, axis, None)
    n = x.meta.dims[at]
    x, breaks = _breaks(bp, x, n) if type == "linear" else (x, [0, n])
    if dm.is_zero(n):
        return x
    wide = ops.cast(x, dt.float32) if x.dtype in (dt.float16, dt.bfloat16) else x
    rows = with_axis_at(wide, at, -1)
    parts = [along_last(rows[..., a:b], type) for a, b in pairwise(breaks)]
    joined = parts[0] if len(parts) == 1 else ops.concat(parts, -1)
    return ops.cast(with_axis_at(joined, -1, at), x.dtype)
