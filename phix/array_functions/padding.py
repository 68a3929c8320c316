"""NumPy's ``pad`` in all of its modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import tensor
from phix.array_functions.quantiles import NAMES as _QUANTILES
from phix.array_functions.reductions import max as largest
from phix.array_functions.reductions import mean
from phix.array_functions.reductions import min as smallest
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError
from phix.core.expectations import expect
from phix.core.numpy_protocol import NotOfferedError

Function = Callable[..., Any]


def _edge(p: Any, n: Any) -> Any:
    return ops.minimum(ops.maximum(p, 0), n - 1)


def _wrap(p: Any, n: Any) -> Any:
    return ops.remainder(p, n)


def _symmetric(p: Any, n: Any) -> Any:
    p = ops.remainder(p, 2 * n)
    return ops.where(p < n, p, 2 * n - 1 - p)


def _reflect(p: Any, n: Any) -> Any:
    if isinstance(n, int) and n == 1:
        return p * 0
    p = ops.remainder(p, 2 * n - 2)
    return ops.where(p < n, p, 2 * n - 2 - p)


# mode -> the place within n elements that a place around them shows
_PLACES: dict[str, Function] = {
    "edge": _edge, "wrap": _wrap, "symmetric": _symmetric, "reflect": _reflect,
}  # fmt: skip
_STATISTICS: dict[str, Function] = {
    "maximum": largest, "minimum": smallest, "mean": mean, "median": _QUANTILES["median"],
}  # fmt: skip
_MODES = ("constant", "empty", "linear_ramp", *_PLACES, *_STATISTICS)


def _pairs(name: str, value: Any, rank: int) -> list[tuple[int, int]]:
    """A pair of ints for each axis."""
    if isinstance(value, dict):
        whole = [(0, 0)] * rank
        for axis, pair in value.items():
            whole[axis] = tuple(np.broadcast_to(pair, 2).tolist())
        return whole
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise AttributeValueError(f"pad: {name} are ints, found {value!r:.80}")
    found = np.broadcast_to(array, (rank, 2)).tolist()
    if any(n < 0 for pair in found for n in pair):
        raise AttributeValueError(f"pad: a width is negative, found {value!r:.80}")
    return [(low, high) for low, high in found]


def _values(value: Any, rank: int, dtype: Any) -> list[tuple[Any, Any]]:
    """A pair of numbers for each axis."""
    whole = ops.expand(tensor(value).astype(dtype), [rank, 2])
    return [(whole[i, 0], whole[i, 1]) for i in range(rank)]


def _part(x: Any, axis: int, start: Any, stop: Any) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _block(x: Any, axis: int, value: Any, count: int) -> Any:
    """``count`` times a value along an axis."""
    return ops.expand(value, [count if i == axis else d for i, d in enumerate(x.shape)])


def _ramp(x: Any, axis: int, edge: Any, end: Any, count: int, is_before: bool) -> Any:
    """From the value at the end to before the edge, in equal steps."""
    wide = x.dtype if dt.is_differentiable(x.dtype) else dt.float64
    step = ops.arange(0, count, 1, dt.int64).astype(wide)
    step = ops.reshape(step if is_before else ops.flip(step, [0]),
                       [-1 if i == axis else 1 for i in range(x.ndim)])  # fmt: skip
    end = end.astype(wide)
    # a distance of whole numbers is exact: what a floor is taken of is not just below one
    found = end + step * ((edge.astype(wide) - end) / max(count, 1))
    return (found if wide == x.dtype else ops.floor(found)).astype(x.dtype)


def _statistic(x: Any, axis: int, mode: str, length: Any, is_before: bool) -> Any:
    size = x.shape[axis]
    count = size if length is None else dm.minimum(length, size)
    part = _part(x, axis, 0, count) if is_before else _part(x, axis, size - count, size)
    found = _STATISTICS[mode](part, axis, keepdims=True)
    return (found if dt.is_differentiable(x.dtype) else ops.round(found)).astype(x.dtype)


def pad(
    array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0,
    end_values: Any = 0, reflect_type: str = "even", stat_length: Any = None,
) -> Any:  # fmt: skip
    """The array with more elements around it, in one of NumPy's modes: constant, edge, wrap,
    reflect, symmetric, linear_ramp, maximum, minimum, mean, median or empty."""
    x = tensor(array)
    if mode not in _MODES:
        if callable(mode):
            raise NotOfferedError("mode= as a function, which writes to arrays")
        raise AttributeValueError(f"pad: mode is one of {', '.join(_MODES)}, found {mode!r:.80}")
    if reflect_type not in ("even", "odd"):
        raise AttributeValueError(f"pad: reflect_type is even or odd, found {reflect_type!r:.80}")
    widths = _pairs("widths", pad_width, x.ndim)
    lengths = (
        [(None, None)] * x.ndim if stat_length is None else _pairs("lengths", stat_length, x.ndim)
    )
    ends = _values(constant_values if mode == "constant" else end_values, x.ndim, x.dtype)
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        size = x.shape[axis]
        if mode not in ("constant", "empty"):
            refusal = f"pad: axis {axis} of {x.meta} is empty, and mode {mode} takes from it"
            x = expect(x, refusal, size - 1)
        if mode in _PLACES:
            x = _by_places(x, axis, before, after, mode, reflect_type)
        else:
            x = _between(x, axis, (before, after), mode, ends[axis], lengths[axis])
    return x


def _by_places(x: Any, axis: int, before: int, after: int, mode: str, reflect_type: str) -> Any:
    size = x.shape[axis]
    place = ops.arange(-before, size + after, 1, dt.int64)
    found = ops.gather(x, _PLACES[mode](place, size), axis)
    if reflect_type == "even" or mode not in ("reflect", "symmetric"):
        return found
    return _point_mirrored(x, axis, place, found, size - (mode == "reflect"))


def _point_mirrored(x: Any, axis: int, place: Any, found: Any, stride: Any) -> Any:
    """``found``, the mirrored elements, so that each mirror turns them about its element.

    Mirrors are ``stride`` apart. Two in turn move by what x rises from end to end, twice.
    """
    size = x.shape[axis]
    first, last = _part(x, axis, 0, 1), _part(x, axis, size - 1, size)
    edges = ops.gather(x, _edge(place, size), axis)
    place = ops.reshape(place, [-1 if i == axis else 1 for i in range(x.ndim)])
    mirrors = place // ops.full((), dm.maximum(stride, 1), dt.int64)
    is_odd = ops.remainder(mirrors, 2) == 1
    rises = ops.where(is_odd, mirrors + ops.where(place < 0, 1, -1), mirrors)
    turned = ops.where(is_odd, 2 * edges - found, found)
    moved = turned + rises.astype(x.dtype) * (last - first)
    inside = ops.logical_and(place >= 0, place < size)
    return ops.where(inside, found, ops.where(rises == 0, turned, moved))


def _between(x: Any, axis: int, widths: tuple[int, int], mode: str, ends: Any, lengths: Any) -> Any:
    size, parts = x.shape[axis], [x]
    for is_before, count, end, length in zip((True, False), widths, ends, lengths):
        if not count:
            continue
        if mode in ("constant", "empty"):
            added = _block(x, axis, ops.full((), 0, x.dtype) if mode == "empty" else end, count)
        elif mode == "linear_ramp":
            edge = _part(x, axis, 0, 1) if is_before else _part(x, axis, size - 1, size)
            added = _ramp(x, axis, edge, end, count, is_before)
        else:
            added = _block(x, axis, _statistic(x, axis, mode, length, is_before), count)
        parts = [added, *parts] if is_before else [*parts, added]
    return ops.concat(parts, axis)


NAMES: dict[str, Function] = {"pad": pad}
