"""Arguments of the methods that tensors share with arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions import reductions
from phix.array_functions.numpy_arguments import tensor
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.errors import ArgumentError, AttributeValueError, described
from phix.core.tensor import Tensor

TRUTHS = (bool, np.bool_)
Shaped = Any  # a tensor, with whatever it has


def no_out(name: str, out: Any) -> None:
    if out is not None:
        raise ArgumentError(
            f"{name}: tensors are immutable, so there is no out=, found {described(out)}; use what "
            f"the call returns, y = x.{name}(...)"
        )


def keeps(name: str, out: Any, keep: Any) -> Any:
    """Whether axes are kept: Paddle's methods take that in the place of NumPy's ``out``."""
    if isinstance(out, TRUTHS):
        keep, out = out, None
    no_out(name, out)
    return keep


def no_order(name: str, order: Any) -> None:
    if order not in (None, "C", "K", "A"):
        raise ArgumentError(
            f"{name}: the elements of a tensor come in the order of C, found order={order!r}; "
            f"write x.T.{name}() for the order of Fortran"
        )


def only_where(x: Any, where: Any, neutral: Any) -> Any:
    if where is None or where is True:
        return x
    return ops.where(tensor(where), x, neutral)


def extreme_of(
    name: str, x: Any, axis: Any, out: Any, keep: Any, initial: Any, where: Any
) -> Tensor:
    keep = keeps(name, out, keep)
    found: Tensor = reductions.NAMES[name](x, axis, None, keep, initial, where)
    return found


def several(name: str, what: str, given: tuple[Any, ...]) -> Any:
    """What is given one by one, or as one sequence."""
    if not given:
        raise ArgumentError(f"{name} takes {what}, found nothing; write x.{name}(2, 3), say")
    if len(given) > 1:
        return given
    return (given[0],) if isinstance(given[0], (int, np.integer)) else given[0]


def swap_meant(error: Exception, x: Any, order: Any) -> Exception:
    """The error, with what torch's ``transpose(i, j)`` is here."""
    if len(order) != 2 or x.ndim == 2:
        return error
    i, j = order
    return type(error)(f"{error}; two axes change places by x.swapaxes({i}, {j})")


def lost_freedom(ddof: Any, correction: Any, unbiased: bool | None) -> Any:
    if correction is not None and correction is not np._NoValue:
        return correction
    return ddof if unbiased is None else int(bool(unbiased))


def truth_of(x: Any) -> Any:
    return x if x.dtype == dt.bool_ else x != 0


def extreme_at(name: str, x: Any, axis: Any, out: Any, keep: Any, dtype: Any) -> Tensor:
    if isinstance(out, TRUTHS):
        keep, out = out, None
    no_out(name, out)
    find = ops.argmax if name == "argmax" else ops.argmin
    kind = dt.int64 if dtype is None else dt.as_dtype(dtype)
    if dt.is_complex(x.dtype):
        places: Tensor = reductions.NAMES[name](x, axis, keepdims=bool(keep))
        return ops.cast(places, kind)
    if axis is not None:
        return find(x, axis_of(axis, x.ndim), bool(keep), False, kind)
    found = find(ops.reshape(x, [-1]), 0, False, False, kind)
    return ops.reshape(found, (1,) * x.ndim) if keep else found


def line_of(x: Any, axis: Any) -> tuple[Any, int]:
    """The tensor and the axis; the flattened tensor where there is none."""
    return (ops.reshape(x, [-1]), 0) if axis is None else (x, axis_of(axis, x.ndim))


def no_fields(name: str, order: Any) -> None:
    if order is not None:
        raise ArgumentError(
            f"{name}: order= names fields, which tensors have none of, found {described(order)}; "
            "leave it out"
        )


def check_kth(x: Any, kth: Any, axis: Any) -> None:
    line, at = line_of(x, axis)
    size = line.shape[at]
    for k in kth if isinstance(kth, (list, tuple)) else (kth,):
        axis_of(k, size) if isinstance(size, int) else operator.index(k)


def indices_within(name: str, indices: Any, size: Any, mode: str) -> Any:
    if mode not in ("raise", "wrap", "clip"):
        raise AttributeValueError(
            f"{name}: mode is 'raise', 'wrap' or 'clip', found {mode!r}; leave it out for 'raise'"
        )
    number = indices if isinstance(indices, int) and mode == "raise" else tensor(indices)
    if mode == "wrap":
        return ops.remainder(number, size)
    if mode == "clip":
        return ops.minimum(ops.maximum(number, 0), size - 1)
    return number
