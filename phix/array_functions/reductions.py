"""NumPy's reductions, and what goes along an axis: sums, means, extremes, cumulated sums."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.lexicographic import extreme_of_two, first_place
from phix.array_functions.numpy_arguments import (
    floating,
    given,
    operand,
    reduced_axes,
    refuse,
    tensor,
    titled,
    with_dtype,
)
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axes_of, axis_of
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError
from phix.core.expectations import expect_dims

Function = Callable[..., Any]


def kept(keepdims: Any) -> bool:
    return keepdims is not np._NoValue and bool(keepdims)


def over(reduce: Function, x: Any, axis: Any, keepdims: Any) -> Any:
    """``reduce(x, axes, keepdim)``, or x where there are no axes, which phix takes for all."""
    axes = reduced_axes(axis, x.ndim)
    return reduce(x, list(axes), kept(keepdims)) if axes else x


def summable(x: Any) -> Any:
    """In the dtype in which sums and products of it come: of ints one of 64 bits."""
    if dt.is_differentiable(x.dtype):
        return x
    return x.astype(dt.uint64 if x.dtype in dt.UNSIGNED else dt.int64)


def in_sums(x: Any) -> Any:
    """``x`` in the dtype of sums that are divided before they are rounded."""
    return x.astype(dt.accumulator_dtype(x.dtype))


def rounded(found: Any, x: Any) -> Any:
    """What was computed of ``in_sums(x)``, as of x itself."""
    return found.astype(x.dtype) if dt.accumulator_dtype(x.dtype) != x.dtype else found


def chosen(x: Any, where: Any, instead: Any) -> Any:
    """``x``, and ``instead`` where the mask ``where`` does not hold."""
    if not given(where) or where is True:
        return x
    return ops.where(tensor(where), x, ops.full((), instead, x.dtype))


def counted(x: Any, axis: Any, keepdims: Any, where: Any) -> Any:
    """How many elements the mask chooses along the axes."""
    holds = ops.expand(tensor(where), x.shape)
    return sum(holds, axis, keepdims=keepdims)


def averaged(a: Any, dtype: Any) -> Any:
    """What a mean is taken of: floats, also where ints are asked for, which float64 holds."""
    if dtype is None:
        return floating(a)
    x = with_dtype(tensor(a), dtype)
    return x if dt.is_differentiable(x.dtype) else x.astype(dt.float64)


def in_ints(found: Any, dtype: Any) -> Any:
    """A result in the dtype asked for, if that has no fractions; another one it has already."""
    if dtype is None or dt.is_differentiable(dt.as_dtype(dtype)):
        return found
    return with_dtype(found, dtype)


def in_floats(name: str, a: Any, dtype: Any) -> Any:
    """``a`` in a dtype with fractions: the one asked for."""
    if dtype is None:
        return floating(a)
    if not dt.is_differentiable(asked := dt.as_dtype(dtype)):
        raise DTypeError(
            f"{name}: dtype must be that of floats or complex numbers, found {asked}; leave it "
            f"out, and cast the result (x.astype)"
        )
    x = tensor(a)
    if dt.is_complex(x.dtype) and not dt.is_complex(asked):
        raise DTypeError(
            f"{name}: elements are {x.dtype}, of which {asked} holds the real part alone; leave "
            "dtype= out, or take x.real"
        )
    return with_dtype(x, asked)


# -- sums and means ------------------------------------------------------------------------------
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """The sum along the axes; of bools and ints as ints of 64 bits."""
    refuse(out=out)
    x = with_dtype(tensor(a), dtype) if dtype is not None else summable(tensor(a))
    found = over(
        lambda x, axes, keep: ops.sum(x, axes, None, keep), chosen(x, where, 0), axis, keepdims
    )
    return with_dtype(found + operand(initial) if given(initial) else found, dtype)


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """The product along the axes; of bools and ints as ints of 64 bits."""
    refuse(out=out)
    x = with_dtype(tensor(a), dtype) if dtype is not None else summable(tensor(a))
    found = over(ops.prod, chosen(x, where, 1), axis, keepdims)
    return with_dtype(found * operand(initial) if given(initial) else found, dtype)


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Any = None,
) -> Any:  # fmt: skip
    """The mean along the axes; of ints a float, if no other dtype is asked for."""
    refuse(out=out)
    x = averaged(a, dtype)
    if given(where) and where is not True:
        total = sum(in_sums(x), axis, keepdims=keepdims, where=where)
        found = rounded(total / counted(x, axis, keepdims, where), x)
    else:
        found = over(ops.mean, x, axis, keepdims)
    return in_ints(found, dtype)


def freedom(name: str, ddof: Any, correction: Any) -> Any:
    """What the count is lessened by, under one name or the other."""
    if not given(correction):
        return ddof
    if isinstance(ddof, (int, float)) and ddof != 0:
        raise ArgumentError(
            f"{name}: ddof and correction are two names of one number, found {ddof} and "
            f"{correction}; leave one out"
        )
    return correction


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Any = None, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """The mean of abs(x - mean(x)) ** 2 along the axes, with n - ddof in the place of n."""
    refuse(out=out)
    x = in_floats("var", a, dtype)
    less = freedom("var", ddof, correction)
    if given(mean) or (given(where) and where is not True):
        return _var_about(x, mean, axis, less, keepdims, where)
    if dt.is_complex(x.dtype):
        return var(ops.real(x), axis, None, None, less, keepdims) + var(
            ops.imag(x), axis, None, None, less, keepdims
        )
    if not reduced_axes(axis, x.ndim):
        return x * 0 / (1 - less if less < 1 else 0) if less else x * 0
    return over(lambda x, axes, keep: ops.var(x, axes, keep, True, less), x, axis, keepdims)


def _var_about(x: Any, center: Any, axis: Any, less: Any, keepdims: Any, where: Any) -> Any:
    """The variance of what a mask chooses, or about a mean that is given."""
    given_x, x = x, in_sums(x)
    middle = tensor(center) if given(center) else mean(x, axis, keepdims=True, where=where)
    away = x - middle
    squares = ops.square(ops.abs(away)) if dt.is_complex(x.dtype) else away * away
    count = counted(x, axis, keepdims, True if not given(where) else where)
    total = sum(squares, axis, keepdims=keepdims, where=where)
    free = ops.maximum(count - less, 0)
    free = ops.cast(free, total.dtype) if dt.is_float(free.dtype) else free
    return rounded(total / free, given_x)


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Any = None, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """The square root of :func:`var`."""
    x = in_floats("std", a, dtype)
    found = var(
        in_sums(x), axis, None, out, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    return rounded(ops.sqrt(found), x)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False
) -> Any:
    """sum(a * weights) / sum(weights) along the axes; ``returned`` gives the latter as well."""
    if weights is None and not returned:
        return mean(a, axis, keepdims=keepdims)
    x = floating(a)
    w = ops.full_like(x, 1) if weights is None else floating(weights)
    refusal = (
        f"average: weights have the shape of a, or its sizes along axis, found {w.meta} for "
        f"{x.meta} and axis {axis}"
    )
    if axis is not None and w.ndim != x.ndim:
        at, dims = axes_of(axis, x.ndim), x.meta.dims
        w = expect_dims(w, refusal, tuple(dims[i] for i in at))
        w = ops.transpose(w, sorted(range(w.ndim), key=at.__getitem__))
        w = ops.reshape(w, tuple(d if i in at else 1 for i, d in enumerate(dims)))
        w = ops.expand(w, x.shape)
    w = expect_dims(w, refusal, x.meta.dims)
    total = sum(in_sums(w), axis, keepdims=keepdims)
    found = sum(in_sums(x) * in_sums(w), axis, keepdims=keepdims) / total
    found = found.astype(dt.promote(x.dtype, w.dtype))
    return (found, total.astype(w.dtype)) if returned else found


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """The integral of y along an axis by the trapezoidal rule: of the points x, or dx apart."""
    values = floating(y)
    at = axis_of(axis, values.ndim)
    both = _cut(values, at, 1, None) + _cut(values, at, 0, -1)
    if x is None:
        return sum(both * operand(dx), at) / 2
    points = floating(x)
    width = diff(points, 1, -1 if points.ndim == 1 else at)
    if width.ndim == 1:
        width = ops.reshape(width, tuple(-1 if i == at else 1 for i in range(values.ndim)))
    return sum(both * width, at) / 2


def _cut(x: Any, axis: int, start: Any, stop: Any) -> Any:
    index = [slice(None)] * x.ndim
    index[axis] = slice(start, stop)
    return x[tuple(index)]


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along an axis; of bools whether they differ."""
    x = tensor(a)
    at, count = axis_of(axis, x.ndim), operator.index(n)
    if count < 0:
        raise AttributeValueError(f"diff: n is at least 0, found {n}")
    if count and (given(prepend) or given(append)):
        ends = [_as_part(v, x, at) for v in (prepend, append)]
        x = ops.concat([v for v in (ends[0], x, ends[1]) if v is not None], at)
    for _ in range(count):
        after, before = _cut(x, at, 1, None), _cut(x, at, 0, -1)
        x = ops.not_equal(after, before) if x.dtype == dt.bool_ else after - before
    return x


def _as_part(value: Any, x: Any, at: int) -> Any:
    """What stands before or behind x along the axis ``at``; a number in each row."""
    if not given(value):
        return None
    part = tensor(value)
    python_type = next((t for t in (bool, int, float) if isinstance(value, t)), None)
    if python_type is not None and dt.promote_weak(x.dtype, python_type) == x.dtype:
        part = part.astype(x.dtype)
    rest = [1 if i == at else d for i, d in enumerate(x.shape)]
    return ops.expand(part, rest) if not part.ndim else part


# -- extremes ------------------------------------------------------------------------------------
def _of_complex(reduce: Function, worst: float) -> Function:
    """``reduce`` for complex numbers, which are ordered by their real and then their imaginary
    parts; NaN where one is."""

    def found(x: Any, axes: Any, keepdim: bool) -> Any:
        real, imag = ops.real(x), ops.imag(x)
        among = ops.where(real == reduce(real, axes, True), imag, worst)
        out = ops.complex(reduce(real, axes, keepdim), reduce(among, axes, keepdim))
        return ops.where(ops.any(ops.isnan(x), axes, keepdim), complex(math.nan, math.nan), out)

    return found


def _extreme(name: str, doc: str, reduce: Function) -> Function:
    pair = name + "imum"
    of_complex = _of_complex(reduce, -math.inf if name == "max" else math.inf)

    def extreme(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = None,
    ) -> Any:  # fmt: skip
        refuse(out=out)
        x = tensor(a)
        if given(where) and where is not True:
            if not given(initial):
                raise ArgumentError(f"{name}: with where=, initial= says what nothing chosen gives")
            start = tensor(initial).astype(x.dtype)
            x = ops.where(tensor(where), x, start)
        if not given(initial):
            return over(of_complex if dt.is_complex(x.dtype) else reduce, x, axis, keepdims)
        start = tensor(initial).astype(x.dtype)
        for i in reduced_axes(axis, x.ndim):
            if dm.may_equal(x.meta.dims[i], 0):  # no element is there then but the start
                row = [1 if i == k else d for k, d in enumerate(x.shape)]
                x = ops.concat([x, ops.expand(start, row)], i)
        found = over(of_complex if dt.is_complex(x.dtype) else reduce, x, axis, keepdims)
        return extreme_of_two(pair, found, start)

    return titled(extreme, name, doc)


max = _extreme("max", "The largest element along the axes; NaN where one is.", ops.max)
min = _extreme("min", "The smallest one along the axes; NaN where one is.", ops.min)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """max - min along the axes."""
    return max(a, axis, out, keepdims) - min(a, axis, out, keepdims)


def _arg(name: str, doc: str, find: Function, worst: float | None = None) -> Function:
    """``worst`` stands where NaN is, if it is not None: NaN is left out."""

    extreme = max if name.endswith("max") else min

    def place(x: Any, axis: int, keep: bool = False) -> Any:
        if dt.is_complex(x.dtype):
            if worst is None:
                return place_among(x, axis, keep)
            found = _place_of_number(place_among, x, complex(worst, worst), axis)
            return found if keep else ops.squeeze(found, [axis])
        if worst is None or not dt.is_float(x.dtype):
            return find(x, axis, keep)
        found = _place_of_number(find, x, worst, axis)
        return found if keep else ops.squeeze(found, [axis])

    def place_among(x: Any, axis: int, keep: bool) -> Any:
        return first_place(extreme(x, axis, keepdims=True), x, axis, keep)

    def arg(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        refuse(out=out)
        x, keep = tensor(a), kept(keepdims)
        if axis is not None and (x.ndim or reduced_axes(axis, 0)):
            return place(x, axis_of(axis, x.ndim), keep)
        found = place(ops.reshape(x, [-1]), 0)
        return ops.reshape(found, (1,) * x.ndim) if keep else found

    return titled(arg, name, doc)


def _place_of_number(find: Function, x: Any, worst: complex, axis: int) -> Any:
    """Where ``find`` finds the extreme of what is not NaN; -1 where all is NaN.

    Where no number is better than ``worst``, NaN, which ``worst`` stands for, is no worse than the
    numbers, and the first of these is the extreme.
    """
    is_number = ops.logical_not(ops.isnan(x))
    found = find(ops.where(is_number, x, worst), axis, True)
    first = ops.argmax(ops.cast(is_number, "uint8"), axis, True)
    some = ops.any(is_number, [axis], True)
    is_right = ops.take_along_axis(is_number, found, axis)
    return ops.where(is_right, found, ops.where(some, first, -1))


# -- truths --------------------------------------------------------------------------------------
def _truth(name: str, doc: str, reduce: Function, neutral: bool) -> Function:
    def truth(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
    ) -> Any:
        refuse(out=out)
        x = tensor(a)
        x = chosen(x if x.dtype == dt.bool_ else x != 0, where, neutral)
        return over(reduce, x, axis, keepdims)

    return titled(truth, name, doc)


all = _truth("all", "Whether all elements along the axes are neither 0 nor False.", ops.all, True)
any = _truth("any", "Whether one along the axes is neither 0 nor False.", ops.any, False)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """How many elements along the axes are not 0."""
    return sum(tensor(a) != 0, axis, keepdims=keepdims)


# -- cumulated -----------------------------------------------------------------------------------
def _cumulated(name: str, doc: str, function: Function, instead: float | None = None) -> Function:
    """``instead`` stands where NaN is, if it is not None."""

    def cumulated(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        refuse(out=out)
        x = with_dtype(tensor(a), dtype)
        x = x if dtype is not None else summable(x)
        if axis is None or (not x.ndim and not reduced_axes(axis, 0)):
            x, axis = ops.reshape(x, [-1]), 0
        if instead is not None and dt.is_differentiable(x.dtype):
            x = ops.where(ops.isnan(x), instead, x)
        return with_dtype(function(x, axis_of(axis, x.ndim)), dtype)

    return titled(cumulated, name, doc)


cumsum = _cumulated("cumsum", "The sums of the first elements along an axis.", ops.cumsum)
cumprod = _cumulated("cumprod", "The products of the first ones along an axis.", ops.cumprod)


def _from_initial(name: str, doc: str, function: Function, neutral: int) -> Function:
    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
        include_initial: bool = False,
    ) -> Any:  # fmt: skip
        refuse(out=out)
        array = tensor(x)
        if axis is None:
            if array.ndim != 1:
                raise ArgumentError(
                    f"{name}: axis must be given for {array.meta}, which has not one axis"
                )
            axis = 0
        at = axis_of(axis, array.ndim)
        found = function(array, at, dtype)
        if not include_initial:
            return found
        widths = [0] * 2 * array.ndim
        widths[2 * at] = 1
        return ops.pad(found, widths, neutral)

    return titled(cumulative, name, doc)


cumulative_sum = _from_initial(
    "cumulative_sum", "The sums of the first elements; include_initial: from 0 on.", cumsum, 0
)
cumulative_prod = _from_initial(
    "cumulative_prod", "The products of the first ones; include_initial: from 1 on.", cumprod, 1
)


NAMES: dict[str, Function] = {
    "sum": sum, "prod": prod, "mean": mean, "var": var, "std": std, "average": average,
    "trapezoid": trapezoid, "trapz": trapezoid, "diff": diff,
    "max": max, "amax": max, "min": min, "amin": min, "ptp": ptp,
    "argmax": _arg("argmax", "The place of the first largest element.", ops.argmax),
    "argmin": _arg("argmin", "The place of the first smallest element.", ops.argmin),
    "nanargmax": _arg("nanargmax", "argmax without NaN; -1 if all is NaN.", ops.argmax, -math.inf),
    "nanargmin": _arg("nanargmin", "argmin without NaN; -1 if all is NaN.", ops.argmin, math.inf),
    "all": all, "any": any, "count_nonzero": count_nonzero,
    "cumsum": cumsum, "cumprod": cumprod, "cumulative_sum": cumulative_sum,
    "cumulative_prod": cumulative_prod,
    "nancumsum": _cumulated("nancumsum", "As cumsum, NaN as 0.", ops.cumsum, 0.0),
    "nancumprod": _cumulated("nancumprod", "As cumprod, NaN as 1.", ops.cumprod, 1.0),
}  # fmt: skip
