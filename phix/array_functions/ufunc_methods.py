"""Methods of NumPy's ufuncs: between all elements along axes (``reduce``), or the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from phix import ops
from phix.api.control_flow import associative_scan, scan
from phix.array_functions import quantiles
from phix.array_functions import reductions as of
from phix.array_functions.numpy_arguments import (
    given,
    reduced_axes,
    refuse,
    tensor,
    with_dtype,
)
from phix.array_functions.reductions import kept, over
from phix.array_functions.ufuncs import BINARY, CHECKS, SINGLE, UFUNCS
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.core.numpy_protocol import NotOfferedError

Function = Callable[..., Any]


def _of_truths(dtype: Any) -> None:
    """The dtype of truths is bool, whether it is said or not."""
    if given(dtype) and dt.as_dtype(dtype) != dt.bool_:
        raise DTypeError(f"what is true has dtype bool, found dtype={dtype!r:.80}; leave it out, "
                         "and cast what comes out: found.astype(dtype)")  # fmt: skip


def _reduction(found: Function) -> Function:
    """The method, by a function of the array, axis, dtype and what is named."""

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        """The function between all elements along the axes; along one, from the first to the last,
        where its order matters.

        Raises:
            AttributeValueError: there are several axes, and the order matters.
            ShapeError: there is no element, nothing stands for none, and there is no ``initial``.
            ArgumentError: a mask ``where`` may leave all out, and so.
        """
        refuse(out=out)
        mask = None if where is True or not given(where) else where
        return found(array, axis, dtype, keepdims=keepdims, initial=initial, where=mask)

    return reduce


# -- by functions that there are -----------------------------------------------------------------
def _reduce(function: Function) -> Function:
    names = function.__code__.co_varnames

    def found(array: Any, axis: Any, dtype: Any, keepdims: Any, **said: Any) -> Any:
        if function in (of.all, of.any):
            _of_truths(dtype)
            dtype = None
        if given(dtype) and "dtype" not in names:  # it gives what it is given
            array, dtype = with_dtype(tensor(array), dtype), None
        said = {n: v for n, v in {"dtype": dtype, **said}.items() if given(v)}
        if not said.keys() <= set(names):
            raise NotOfferedError(", ".join(f"{n}=" for n in said))
        return function(array, axis, keepdims=keepdims, **said)

    return _reduction(found)


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


def _logarithm(a: Any, axis: Any = 0, *, dtype: Any = None, keepdims: Any = False) -> Any:
    return over(ops.logsumexp, of.in_floats("logaddexp", a, dtype), axis, keepdims)


# -- of associative functions --------------------------------------------------------------------
# name -> what gives the other operand, and whether truths alone are meant
_ASSOCIATIVE: dict[str, tuple[Any, bool]] = {
    "bitwise_and": (-1, False), "bitwise_or": (0, False), "bitwise_xor": (0, False),
    "logical_and": (True, True), "logical_or": (False, True), "logical_xor": (False, True),
    "logaddexp": (-math.inf, False), "logaddexp2": (-math.inf, False),
    "gcd": (0, False), "lcm": (1, False), "hypot": (0.0, False),
}  # fmt: skip
_OF_NONE_NOTHING = ("lcm",)  # as in NumPy, for all that 1 gives the other operand
_SUMS = ("add", "multiply")
_EXTREMES = ("maximum", "minimum", "fmax", "fmin")
ASSOCIATIVE = (*_ASSOCIATIVE, *_SUMS, *_EXTREMES)
# All others that give one result of two elements: from the left to the right.
_ORDERED = [n for n in BINARY if n in SINGLE and n not in ASSOCIATIVE and n != "ldexp"]


def elements(name: str, a: Any, dtype: Any) -> Any:
    """An array in the dtype that the function between its elements gives.

    Raises:
        DTypeError: it gives another one than is asked for, or bools of what are none.
    """
    if name in _ASSOCIATIVE:
        return _operands(name, a, dtype)[0]
    x = with_dtype(tensor(a), dtype)
    if name in _EXTREMES:
        return x
    if name in _SUMS:
        return x if dtype is not None else of.summable(x)
    none = ops.full((0,), 0, x.dtype)
    found = UFUNCS[name](none, none).dtype
    if dtype is not None and found != x.dtype:
        raise DTypeError(f"{name} gives {found}, not {x.dtype}; leave dtype= out")
    if found == dt.bool_ != x.dtype:
        raise DTypeError(
            f"{name} gives bools, and between {x.meta} there are none; compare neighbours: "
            f"phix.numpy.{name}(x[:-1], x[1:])"
        )
    return x.astype(found)


def _operands(name: str, a: Any, dtype: Any) -> tuple[Any, Any]:
    """The elements as the function gives them, and the neutral one."""
    neutral, of_truths = _ASSOCIATIVE[name]
    x = tensor(a)
    if of_truths:
        _of_truths(dtype)
        x = x if x.dtype == dt.bool_ else ops.not_equal(x, ops.full((), 0, x.dtype))
    elif isinstance(neutral, float):
        x = of.in_floats(name, x, dtype)
    else:
        x = with_dtype(x, dtype)
    if x.dtype.kind in "bu" and neutral == -1:  # all bits
        neutral = (1 << 8 * x.dtype.itemsize) - 1 if x.dtype.kind == "u" else True
    return x, ops.full((), neutral, x.dtype)


def _reduced(name: str) -> Function:
    function = UFUNCS[name]

    def found(
        array: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any
    ) -> Any:  # fmt: skip
        x, neutral = _operands(name, array, dtype)
        axes = reduced_axes(axis, x.ndim)
        if name in _OF_NONE_NOTHING and not given(initial):
            _require_elements(name, any(dm.is_zero(x.meta.dims[k]) for k in axes), where)
        if where is not None:
            x = ops.where(tensor(where), x, neutral)
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

    return _reduction(found)


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
    def found(array: Any, axis: Any, dtype: Any) -> Any:
        x = elements(name, array, dtype)
        return associative_scan(UFUNCS[name], x, axis=axis_of(axis, x.ndim))

    return _accumulate(found)


# -- from the left to the right ------------------------------------------------------------------
def _folded(name: str) -> Function:
    function = UFUNCS[name]

    def found(
        array: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any
    ) -> Any:  # fmt: skip
        x = elements(name, array, dtype)
        axes = reduced_axes(axis, x.ndim)
        if len(axes) > 1:
            raise AttributeValueError(
                f"{name}.reduce: its order matters, so it goes along one axis, found {axes}"
            )
        first = partial(_first, axis=axes[0]) if axes else partial(ops.unsqueeze, axis=[0])
        mask = None if where is None else first(ops.expand(tensor(where), x.shape))
        whole = _fold(name, function, first(x), mask, initial)
        return ops.unsqueeze(whole, list(axes)) if kept(keepdims) else whole

    return _reduction(found)


def _first(x: Any, axis: int) -> Any:
    """The axis put first."""
    return ops.transpose(x, [axis, *(k for k in range(x.ndim) if k != axis)])


def _require_elements(name: str, is_empty: bool, mask: Any) -> None:
    """Refuse to go between no elements, where nothing stands for none."""
    if mask is not None:
        raise ArgumentError(f"{name}.reduce: where= may leave all elements out; give initial=")
    if is_empty:
        raise ShapeError(f"{name}.reduce: there are no elements, and nothing stands for none "
                         "of them; give initial=")  # fmt: skip


def _fold(name: str, function: Function, rows: Any, mask: Any, initial: Any) -> Any:
    if given(initial):
        first = ops.expand(tensor(initial).astype(rows.dtype), rows.shape[1:])
    else:
        _require_elements(name, dm.is_zero(rows.meta.dims[0]), mask)
        first, rows = rows[0], rows[1:]
    if name in CHECKS:
        CHECKS[name](first, rows if mask is None else ops.where(mask, rows, 0 * rows))

    def step(found: Any, row: Any) -> tuple[Any, None]:
        value, holds = row
        following = function(found, value)
        return (following if holds is None else ops.where(holds, following, found)), None

    return scan(step, first, (rows, mask))[0]


def _folds(name: str) -> Function:
    function = UFUNCS[name]

    def found(array: Any, axis: Any, dtype: Any) -> Any:
        x = elements(name, array, dtype)
        at = axis_of(axis, x.ndim)
        rows = _first(x, at)
        if dm.is_zero(rows.meta.dims[0]):
            return x
        if name in CHECKS:
            CHECKS[name](rows[0], rows[1:])

        def step(before: Any, row: Any) -> tuple[Any, Any]:
            following = function(before, row)
            return following, following

        rest = scan(step, rows[0], rows[1:])[1]
        whole = ops.concat([rows[:1], rest], 0)
        return ops.transpose(whole, [*range(1, at + 1), 0, *range(at + 1, x.ndim)])

    return _accumulate(found)


METHODS: dict[tuple[str, str], Function] = {
    **{(name, "reduce"): _reduced(name) for name in _ASSOCIATIVE},
    **{(name, "accumulate"): _accumulated(name) for name in (*_ASSOCIATIVE, "fmax", "fmin")},
    **{(name, "reduce"): _folded(name) for name in _ORDERED},
    **{(name, "accumulate"): _folds(name) for name in _ORDERED},
    ("add", "reduce"): _reduce(of.sum),
    ("multiply", "reduce"): _reduce(of.prod),
    ("maximum", "reduce"): _reduce(of.max),
    ("minimum", "reduce"): _reduce(of.min),
    ("fmax", "reduce"): _reduce(quantiles.NAMES["nanmax"]),
    ("fmin", "reduce"): _reduce(quantiles.NAMES["nanmin"]),
    ("logical_and", "reduce"): _reduce(of.all),
    ("logical_or", "reduce"): _reduce(of.any),
    ("logaddexp", "reduce"): _reduce(_logarithm),
    ("add", "accumulate"): _accumulate(of.cumsum),
    ("multiply", "accumulate"): _accumulate(of.cumprod),
    ("maximum", "accumulate"): _accumulate(_running(ops.cummax)),
    ("minimum", "accumulate"): _accumulate(_running(ops.cummin)),
}
