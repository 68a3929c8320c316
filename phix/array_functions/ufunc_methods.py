"""Methods of NumPy's ufuncs: between all elements along axes (``reduce``), or the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.control_flow import associative_scan
from phix.array_functions import reductions as of
from phix.array_functions.numpy_arguments import (
    floating,
    given,
    reduced_axes,
    refuse,
    tensor,
    with_dtype,
)
from phix.array_functions.reductions import kept, over
from phix.array_functions.ufuncs import UFUNCS
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.errors import DTypeError
from phix.core.numpy_protocol import NotOfferedError

Function = Callable[..., Any]


def _of_truths(dtype: Any) -> None:
    """The dtype of truths is bool, whether it is said or not."""
    if given(dtype) and dt.as_dtype(dtype) != dt.bool_:
        raise DTypeError(f"what is true has dtype bool, found dtype={dtype!r:.80}; leave it out, "
                         "and cast what comes out: found.astype(dtype)")  # fmt: skip


# -- by functions that there are -----------------------------------------------------------------
def _reduce(function: Function) -> Function:
    names = function.__code__.co_varnames

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        """The function between all elements along the axes."""
        refuse(out=out)
        if function in (of.all, of.any):
            _of_truths(dtype)
            dtype = None
        said = {"dtype": dtype, "initial": initial, "where": where}
        said = {n: v for n, v in said.items() if given(v) and v is not True}
        if not said.keys() <= set(names):
            raise NotOfferedError(", ".join(f"{n}=" for n in said))
        return function(array, axis, keepdims=keepdims, **said)

    return reduce


def _accumulate(function: Function) -> Function:
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        """The function between the first elements along an axis, one more each time."""
        refuse(out=out)
        return function(array, axis, dtype)

    return accumulate


def _running(function: Function) -> Function:
    def running(a: Any, axis: Any = 0, dtype: Any = None) -> Any:
        """The extreme of the first elements along an axis, one more each time."""
        x = with_dtype(tensor(a), dtype)
        return function(x, axis_of(axis, x.ndim))[0]

    return running


def _logarithm(a: Any, axis: Any = 0, *, keepdims: Any = False) -> Any:
    return over(ops.logsumexp, floating(a), axis, keepdims)


# -- of associative functions --------------------------------------------------------------------
# name -> what gives the other operand, and whether truths alone are meant
_ASSOCIATIVE: dict[str, tuple[Any, bool]] = {
    "bitwise_and": (-1, False), "bitwise_or": (0, False), "bitwise_xor": (0, False),
    "logical_and": (True, True), "logical_or": (False, True), "logical_xor": (False, True),
    "logaddexp": (-math.inf, False), "logaddexp2": (-math.inf, False),
    "gcd": (0, False), "lcm": (1, False), "hypot": (0.0, False),
}  # fmt: skip


def _operands(name: str, a: Any, dtype: Any) -> tuple[Any, Any]:
    """The elements as the function gives them, and the neutral one."""
    neutral, of_truths = _ASSOCIATIVE[name]
    x = tensor(a) if of_truths else with_dtype(tensor(a), dtype)
    if of_truths:
        _of_truths(dtype)
        x = x if x.dtype == dt.bool_ else ops.not_equal(x, ops.full((), 0, x.dtype))
    elif isinstance(neutral, float):
        x = floating(x)
    if x.dtype.kind in "bu" and neutral == -1:  # all bits
        neutral = (1 << 8 * x.dtype.itemsize) - 1 if x.dtype.kind == "u" else True
    return x, ops.full((), neutral, x.dtype)


def _reduced(name: str) -> Function:
    function = UFUNCS[name]

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        """The function between all elements along the axes."""
        refuse(out=out)
        x, neutral = _operands(name, array, dtype)
        if where is not True:
            x = ops.where(tensor(where), x, neutral)
        axes = reduced_axes(axis, x.ndim)
        others = [k for k in range(x.ndim) if k not in axes]
        sizes = [x.shape[k] for k in others]
        rows = ops.reshape(ops.transpose(x, [*axes, *others]), [-1, *sizes])
        ends = ops.concat([rows, ops.expand(neutral, [1, *sizes])], 0)
        found = _between(function, ends)
        if given(initial):
            found = function(tensor(initial).astype(x.dtype), found)
        if kept(keepdims):
            found = ops.reshape(found, [1 if k in axes else x.shape[k] for k in range(x.ndim)])
        return found

    return reduce


def _between(function: Function, rows: Any) -> Any:
    """The function between the slices of the first axis, of which there is one: by halves, or
    slice by slice where nobody knows how many there are."""
    count: Any = rows.shape[0]
    if not isinstance(count, int):
        return associative_scan(function, rows)[-1]
    while count > 1:
        half = count // 2
        both = function(rows[:half], rows[half : 2 * half])
        rows = both if count % 2 == 0 else ops.concat([both, rows[2 * half :]], 0)
        count -= half
    return rows[0]


def _accumulated(name: str) -> Function:
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        """The function between the first elements along an axis, one more each time."""
        refuse(out=out)
        x, _ = _operands(name, array, dtype)
        return associative_scan(UFUNCS[name], x, axis=axis_of(axis, x.ndim))

    return accumulate


METHODS: dict[tuple[str, str], Function] = {
    **{(name, "reduce"): _reduced(name) for name in _ASSOCIATIVE},
    **{(name, "accumulate"): _accumulated(name) for name in _ASSOCIATIVE},
    ("add", "reduce"): _reduce(of.sum),
    ("multiply", "reduce"): _reduce(of.prod),
    ("maximum", "reduce"): _reduce(of.max),
    ("minimum", "reduce"): _reduce(of.min),
    ("logical_and", "reduce"): _reduce(of.all),
    ("logical_or", "reduce"): _reduce(of.any),
    ("logaddexp", "reduce"): _reduce(_logarithm),
    ("add", "accumulate"): _accumulate(of.cumsum),
    ("multiply", "accumulate"): _accumulate(of.cumprod),
    ("maximum", "accumulate"): _accumulate(_running(ops.cummax)),
    ("minimum", "accumulate"): _accumulate(_running(ops.cummin)),
}
