"""Ops whose eager result needs no kernel: an array of the GPU that shares its input's memory.

Each entry takes an array and the op's attributes; arrays of CuPy and of NumPy alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _slice(x: Any, axes: Any, starts: Any, ends: Any, flags: Any, decrease: Any) -> Any:
    return _strided_slice(x, axes, starts, ends, (1,) * len(axes)).squeeze(tuple(decrease))


def _strided_slice(x: Any, axes: Any, starts: Any, ends: Any, strides: Any) -> Any:
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, stride in zip(axes, starts, ends, strides):
        index[axis] = slice(start, end, stride)
    return x[(*index, ...)]


def _flip(x: Any, axis: Any) -> Any:
    return x[(*(slice(None, None, -1 if k in axis else None) for k in range(x.ndim)), ...)]


VIEWS: dict[str, Callable[..., Any]] = {
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, perm: x.transpose(perm),
    "slice": _slice,
    "strided_slice": _strided_slice,
    "flip": _flip,
    "squeeze": lambda x, axis: x.squeeze(axis),
}


def view(op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What makes the result of the op without a kernel; None where one must run."""
    function = VIEWS.get(op_name)
    if function is None:
        return None
    return lambda array: function(array, *attrs)
