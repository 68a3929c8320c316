"""Ops whose eager result needs no kernel: NumPy makes it, as a view of the input where it can.

Tensors are immutable, so sharing is safe. Each entry takes the arrays and the op's attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _reshape(x: np.ndarray, shape: Any) -> np.ndarray:
    return x.reshape(shape)


def _slice(x: np.ndarray, axes: Any, starts: Any, ends: Any, flags: Any, decrease: Any) -> Any:
    return _strided_slice(x, axes, starts, ends, (1,) * len(axes)).squeeze(tuple(decrease))


def _strided_slice(x: np.ndarray, axes: Any, starts: Any, ends: Any, strides: Any) -> Any:
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, stride in zip(axes, starts, ends, strides):
        index[axis] = slice(start, end, stride)
    return x[(*index, ...)]


def _expand(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """np.broadcast_to, but for one number in a fifth of its time."""
    if x.ndim or x.dtype.kind == "V":
        return np.broadcast_to(x, shape)
    return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))


def _diagonal(x: np.ndarray, offset: int, axis1: int, axis2: int) -> np.ndarray:
    behind = min(max(offset, -x.shape[axis1]), x.shape[axis2])  # NumPy takes no more than 32 bits
    return np.diagonal(x, behind, axis1, axis2)


def _split(x: np.ndarray, sections: Any, axis: int) -> tuple[np.ndarray, ...]:
    return tuple(np.split(x, np.cumsum(sections)[:-1], axis)) if sections else ()


def _unbind(x: np.ndarray, axis: int, *num: int) -> tuple[np.ndarray, ...]:
    moved = np.moveaxis(x, axis, 0)
    return tuple([moved[i, ...] for i in range(moved.shape[0])])


def _flatten(x: np.ndarray, start: int, stop: int) -> np.ndarray:
    size = int(np.prod(x.shape[start : stop + 1]))
    return x.reshape(*x.shape[:start], size, *x.shape[stop + 1 :])


VIEWS: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "transpose": np.transpose,
    "expand": _expand,
    "slice": _slice,
    "strided_slice": _strided_slice,
    "flip": lambda x, axis: np.flip(x, axis) if axis else x,  # of no axes: a number, no array
    "squeeze": lambda x, axis: x.squeeze(axis),
    "unsqueeze": np.expand_dims,
    "flatten": _flatten,
    "diagonal": _diagonal,
    "split": _split,
    "split_with_num": lambda x, num, axis: tuple(np.split(x, num, axis)),
    "unbind": _unbind,
    "unstack": _unbind,
    "broadcast_tensors": lambda *xs: np.broadcast_arrays(*xs) if xs else (),
    "expand_as": lambda x, y, shape: np.broadcast_to(x, shape or y.shape),
    "shape": lambda x: np.array(x.shape, np.int64),
    "numel": lambda x: np.array(x.size, np.int64),
    "full": lambda shape, value, dtype, place: np.full(shape, value, dtype),
}


def view(op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What makes the result of the op without a kernel; None where one must run."""
    function = VIEWS.get(op_name)
    if function is None:
        return None
    return lambda *arrays: function(*arrays, *attrs)
