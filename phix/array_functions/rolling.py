"""``roll`` of NumPy, also by shifts that only a run tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import tensor
from phix.core import dtypes as dt
from phix.core.attrs import is_traced
from phix.core.axes import axis_of
from phix.core.errors import ArgumentError, DTypeError
from phix.core.tensor import TensorBase


def _each(numbers: Any) -> list[Any]:
    """The numbers of a sequence or an array with an axis, or the one number."""
    return list(numbers) if isinstance(numbers, Sequence) or np.ndim(numbers) else [numbers]


def _rolled(x: Any, by: Any, axis: int) -> Any:
    """Along one axis by a shift that only a run tells. As a size, which attributes are, it could
    neither be below 0 nor another in each lane of a batch; so the places it gives are read."""
    if dt.kind(by.dtype) != "int":
        raise DTypeError(f"roll: a shift is an int, found {by.meta}")
    size = x.shape[axis]
    # one remainder for all: of each element it would take longer than to read it
    places = ops.arange(0, size, 1, dt.int64) - ops.remainder(by.astype(dt.int64), size)
    return ops.index_select(x, ops.where(places < 0, places + size, places), axis)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The elements moved along the axes, the last to the front; along one axis by all its shifts,
    and along none given in the order of memory."""
    x = tensor(a)
    if axis is None:
        return ops.reshape(roll(ops.reshape(x, [-1]), shift, 0), x.shape)
    axes, shifts = _each(axis), _each(shift)
    count = len(shifts) if len(axes) == 1 else len(axes)
    if len(shifts) not in (1, count):
        raise ArgumentError(f"roll: a shift for each axis, found {len(shifts)} for {len(axes)}")
    axes = axes * count if len(axes) == 1 else axes
    shifts = shifts * count if len(shifts) == 1 else shifts
    total: dict[int, Any] = {}
    for at, by in zip((axis_of(k, x.ndim) for k in axes), shifts):
        total[at] = total[at] + by if at in total else by
    for at in [k for k, by in total.items() if isinstance(by, TensorBase) and is_traced(by)]:
        x = _rolled(x, total.pop(at), at)
    return ops.roll(x, list(total.values()), list(total)) if total else x


NAMES: dict[str, Callable[..., Any]] = {"roll": roll}
