"""NumPy's functions whose results have a size that the data tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.array_functions.numpy_arguments import refuse, tensor
from phix.core.axes import axis_of
from phix.core.errors import ShapeError
from phix.core.expectations import expect

Function = Callable[..., Any]


def nonzero(a: Any) -> tuple[Any, ...]:
    """The indices of the elements that are not 0, one vector an axis."""
    x = tensor(a)
    rows = ops.nonzero(x)
    return tuple(rows[:, axis] for axis in range(x.ndim))


def argwhere(a: Any) -> Any:
    """Those as the rows of a matrix."""
    return ops.nonzero(tensor(a))


def flatnonzero(a: Any) -> Any:
    """The places of the elements that are not 0 in the flattened array."""
    return ops.nonzero(ops.reshape(tensor(a), [-1]))[:, 0]


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """The parts along an axis that are chosen."""
    refuse(out=out)
    x, chosen = tensor(a), tensor(condition)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at = axis_of(axis, x.ndim)
    if chosen.ndim != 1:
        raise ShapeError(f"compress: condition must have one axis, found {chosen.meta}")
    refusal = f"compress: condition {chosen.meta} is longer than axis {at} of {x.meta}"
    chosen = expect(chosen, refusal, x.meta.dims[at] - chosen.meta.dims[0])
    return ops.gather(x, flatnonzero(chosen), at)


def extract(condition: Any, arr: Any) -> Any:
    """The elements at which the condition holds."""
    return compress(ops.reshape(tensor(condition), [-1]), arr)


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """How often each int from 0 on is there; with weights their sums."""
    return ops.bincount(tensor(x), None if weights is None else tensor(weights), minlength)


NAMES: dict[str, Function] = {
    "nonzero": nonzero, "argwhere": argwhere, "flatnonzero": flatnonzero,
    "compress": compress, "extract": extract, "bincount": bincount,
}  # fmt: skip
