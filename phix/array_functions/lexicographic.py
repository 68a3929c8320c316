"""Complex numbers in NumPy's order: the real parts decide, and of equal ones the imaginary parts.

Of two numbers none is before the other where a part is NaN; sorted, numbers with NaN come last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.array_functions.numpy_arguments import of_truths, tensor
from phix.core import dtypes as dt
from phix.core.tensor import TensorBase

Function = Callable[..., Any]


def are_complex(*values: Any) -> bool:
    """Whether one of the values is complex, which makes all of them so."""
    return any(
        isinstance(v, complex) or (hasattr(v, "dtype") and dt.is_complex(v.dtype)) for v in values
    )


def _together(x: Any, y: Any) -> tuple[Any, Any]:
    """Both as complex tensors of one dtype; a number of Python's takes that of the other."""
    own = [v.dtype for v in (x, y) if hasattr(v, "dtype")]
    dtypes = own or [v.dtype for v in (tensor(x), tensor(y))]
    dtype = dtypes[0] if len(dtypes) == 1 else dt.promote(*dtypes)
    dtype = dt.complex_dtype(dtype) if not dt.is_complex(dtype) else dtype
    return tensor(x).astype(dtype), tensor(y).astype(dtype)


def _compared(of_parts: Function, of_equals: Function) -> Function:
    def compared(x: Any, y: Any) -> Any:
        x, y = _together(x, y)
        (a, b), (c, d) = ((ops.real(v), ops.imag(v)) for v in (x, y))
        is_nan = ops.logical_or(ops.isnan(b), ops.isnan(d))
        decided = ops.logical_and(of_parts(a, c), ops.logical_not(is_nan))
        return ops.logical_or(decided, ops.logical_and(ops.equal(a, c), of_equals(b, d)))

    return compared


COMPARISONS: dict[str, Function] = {
    "less": _compared(ops.less_than, ops.less_than),
    "less_equal": _compared(ops.less_than, ops.less_equal),
    "greater": _compared(ops.greater_than, ops.greater_than),
    "greater_equal": _compared(ops.greater_than, ops.greater_equal),
}


def _pair(name: str, of_first: bool) -> Function:
    """The extreme one of two. ``of_first``: NaN in x is taken, else NaN in y leaves x."""

    def extreme(x: Any, y: Any) -> Any:
        x, y = _together(x, y)
        is_better = COMPARISONS[name](x, y)
        return ops.where(ops.logical_or(is_better, ops.isnan(x if of_first else y)), x, y)

    return extreme


PAIRS: dict[str, Function] = {
    "maximum": _pair("greater_equal", True), "minimum": _pair("less_equal", True),
    "fmax": _pair("greater_equal", False), "fmin": _pair("less_equal", False),
}  # fmt: skip


def extreme_of_two(name: str, x: Any, y: Any) -> Any:
    """The ``maximum`` or ``minimum`` of two arrays, complex ones too; of bools a bool."""
    own = (x, y) if isinstance(x, TensorBase) else (tensor(x), y)
    if are_complex(*own):
        return PAIRS[name](*own)
    return of_truths(getattr(ops, name)(*own), *own)


def in_order(x: Any, axis: int, descending: bool) -> Any:
    """The places of the numbers in order along an axis; equal ones keep theirs."""
    real, imag = ops.real(x), ops.imag(x)
    is_last = ops.logical_and(ops.isnan(imag), ops.logical_not(ops.isnan(real)))
    rank = ops.where(ops.isnan(real), 2, ops.cast(is_last, dt.int64))
    found = ops.argsort(imag, axis, descending, True)[1]
    for key in (real, rank):
        ordered = ops.take_along_axis(key, found, axis)
        found = ops.take_along_axis(found, ops.argsort(ordered, axis, descending, True)[1], axis)
    return found


def first_place(extreme: Any, x: Any, axis: int, keepdim: bool) -> Any:
    """Where along the axis the extreme, which keeps that axis, is first; NaN, where one is."""
    is_nan = ops.isnan(x)
    is_it = ops.where(ops.any(is_nan, [axis], True), is_nan, ops.equal(x, extreme))
    return ops.argmax(ops.cast(is_it, dt.uint8), axis, keepdim)
