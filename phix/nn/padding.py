"""Padding: elements put around those of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.tensor import TensorLike
from phix.nn.arguments import as_tensor

_CHANNELS_LAST = ("NLC", "NHWC", "NDHWC")
_CHANNELS_FIRST = ("NCL", "NCHW", "NCDHW")


def _clipped(at: Any, last: Any) -> Any:
    return ops.minimum(ops.maximum(at, 0), last)


def _mirrored(at: Any, last: Any) -> Any:
    return last - ops.abs(last - ops.abs(at))


def _wrapped(at: Any, last: Any) -> Any:
    return ops.remainder(at, last + 1)


# Where the element for a position outside the axis is taken from; last is its last position.
_SOURCES: dict[str, Callable[[Any, Any], Any]] = {
    "replicate": _clipped,
    "reflect": _mirrored,
    "circular": _wrapped,
}
# How much more than the axis holds each mode can put at one end.
_REACH = {"reflect": -1, "circular": 0}


def pad(
    x: TensorLike,
    pad: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
    data_format: str | None = None,
    pad_from_left_axis: bool = True,
) -> Any:
    """Elements put before and after those of x, along some of its axes.

    Args:
        x: a tensor; with fewer numbers in pad than two an axis, images or the like of 3 to 5 axes.
        pad: two numbers, before and after, for each axis of x, from the first axis on (from the
            last with pad_from_left_axis False); or for the spatial axes alone, from the last of
            them on: (left, right), (left, right, top, bottom), ...
        mode: "constant", "reflect" (without the outermost element), "replicate" (the outermost
            element again), "circular" (from the other end).
        value: what "constant" puts.
        data_format: NCL, NCHW, NCDHW, NLC, NHWC or NDHWC: where the spatial axes are; channels are
            first if None.
        pad_from_left_axis: from which end numbers for all the axes are read.

    >>> import phix
    >>> phix.nn.functional.pad([1.0, 2.0], [1, 2]).tolist()
    [0.0, 1.0, 2.0, 0.0, 0.0]
    >>> phix.nn.functional.pad([[[1.0, 2.0, 3.0]]], [2, 1], mode="reflect").tolist()
    [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]
    """
    tensor = as_tensor(x)
    if mode != "constant" and mode not in _SOURCES:
        known = ", ".join(("constant", *_SOURCES))
        raise AttributeValueError(f"pad: mode {mode!r} is not known; write one of {known}")
    pairs = _pairs(tensor, list(pad), data_format, pad_from_left_axis)
    if mode == "constant":
        around = [n for i in range(tensor.ndim) for n in pairs.get(i, (0, 0))]
        return ops.pad(tensor, around, value)
    for axis, (before, after) in pairs.items():
        if (before, after) != (0, 0):
            tensor = _extended(tensor, axis, before, after, mode)
    return tensor


def _pairs(x: Any, numbers: list[int], data_format: str | None, from_left: bool) -> dict[int, Any]:
    """(before, after) of each axis that is padded."""
    pairs = list(zip(numbers[::2], numbers[1::2]))
    if len(numbers) == 2 * x.ndim:
        axes = list(range(x.ndim) if from_left else range(x.ndim)[::-1])
    elif len(numbers) == 2 * (x.ndim - 2):
        known = (*_CHANNELS_FIRST, *_CHANNELS_LAST)
        if data_format is not None and (data_format not in known or len(data_format) != x.ndim):
            raise AttributeValueError(f"pad: data_format {data_format!r} does not name the axes of "
                                      f"{x.meta}; write one of {', '.join(known)}")  # fmt: skip
        first = 1 if data_format in _CHANNELS_LAST else 2
        axes = list(range(first, first + x.ndim - 2))[::-1]
    else:
        raise ShapeError(
            f"pad: pad {numbers} must have two numbers for each axis of {x.meta}, or for each but "
            "the batch and the channels"
        )
    return dict(zip(axes, pairs))


def _extended(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """``x`` with more elements of its own along ``axis``."""
    size = x.meta.dims[axis]
    most = size + _REACH[mode] if mode in _REACH else None
    if min(before, after) < 0 or (isinstance(most, int) and max(before, after) > most):
        limit = "" if most is None else f" to {dm.dim_text(most)}"
        raise AttributeValueError(
            f"pad: mode {mode!r} puts from 0{limit} elements at an end of axis {axis} of {x.meta}, "
            f"found {(before, after)}"
        )
    at = ops.arange(0, size + (before + after), 1, dt.int64) - before
    last = ops.full((), size, dt.int64) - 1
    return ops.gather(x, _SOURCES[mode](at, last), axis)
