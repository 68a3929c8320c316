"""Rules of jets: the series of an op from the series of its inputs.

Pointwise functions follow the recurrences that their differential equations give. Choices
(maximum, sorting) are made on the values, and the coefficients go the way of what was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.primitives.jet_series import (
    Series,
    applied,
    composed,
    constant,
    convolution,
    each,
    integral,
    is_constant,
    over,
    plus,
    power,
    product,
    quotient,
    rate,
    squared,
    times,
    whole_power,
)
from phix.primitives.pointwise import SLOPES_AT_X
from phix.primitives.reduction import restored
from phix.primitives.scan import before
from phix.primitives.sorting import taken
from phix.primitives.special import i1e_slope, logit_grad


# -- arithmetic ----------------------------------------------------------------------------------
def _sum(x: Series, y: Series, value: Any, sign: int) -> Series:
    """x + sign * y; a coefficient that one of them has alone is stretched to the result's dims."""
    dims = value.meta.dims

    def whole(c: Any) -> Any:
        return c if c is None or dm.same_shape(c.meta.dims, dims) else ops.expand(c, dims)

    def one(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return whole(times(sign, b) if a is None else a)
        return a + b if sign > 0 else a - b

    return [value, *(one(a, b) for a, b in zip(x[1:], y[1:]))]


@rules.jet("add")
def add_jet(x: Series, y: Series) -> Series:
    return _sum(x, y, ops.add(x[0], y[0]), 1)


@rules.jet("subtract")
def subtract_jet(x: Series, y: Series) -> Series:
    return _sum(x, y, ops.subtract(x[0], y[0]), -1)


@rules.jet("scale")
def scale_jet(x: Series, scale: Any, bias: Any, after: bool) -> Series:
    value = ops.scale(x[0], scale, bias, after)
    return [value, *each(lambda c: ops.scale(c, scale, 0.0, True), x[1:])]


rules.jet("multiply")(product)
rules.jet("divide")(quotient)


@rules.jet("remainder")
def remainder_jet(x: Series, y: Series) -> Series:
    """x - q y, the whole number q standing still."""
    turns = ops.floor_divide(x[0], y[0])
    return _sum(x, [None, *each(lambda c: turns * c, y[1:])], ops.remainder(x[0], y[0]), -1)


# -- powers --------------------------------------------------------------------------------------
@rules.jet("sqrt")
def sqrt_jet(x: Series) -> Series:
    """y y = x: 2 y_0 y_k = x_k - the sum of y_j y_(k-j), j = 1 .. k - 1."""
    y: Series = [ops.sqrt(x[0])]
    twice = 2 * y[0]
    for k in range(1, len(x)):
        rest = plus(x[k], squared([*y, None], k, 1, -1))
        y.append(None if rest is None else rest / twice)
    return y


@rules.jet("rsqrt")
def rsqrt_jet(x: Series) -> Series:
    return power(x, ops.rsqrt(x[0]), -0.5)


@rules.jet("pow")
def pow_jet(x: Series, y: Any) -> Series:
    value = ops.pow(x[0], y)
    if y == 0:
        return constant(value, x)
    if not isinstance(y, complex) and y > 0:
        if y == int(y):
            return [value, *whole_power(x, int(y))[1:]]
        return composed(x, _binomials(x, y, value))
    return power(x, value, y)


def _binomials(x: Series, exponent: Any, value: Any) -> Series:
    """x_0^(a-i) a (a-1) ... (a-i+1) / i! for a Python number a: finite at x_0 = 0 while i <= a."""
    found, factor = [value], 1.0
    for i in range(1, len(x)):
        factor *= (exponent - i + 1) / i
        found.append(ops.pow(x[0], exponent - i) * factor)
    return found


@rules.jet("elementwise_pow")
def elementwise_pow_jet(x: Series, y: Series) -> Series:
    value = ops.elementwise_pow(x[0], y[0])
    if is_constant(y):
        found, factor = [value], 1.0
        for i in range(1, len(x)):
            factor = factor * ((y[0] - (i - 1)) / i)
            exponent = y[0] - i
            is_flat = (factor == 0) & ~ops.isfinite(ops.elementwise_pow(x[0], exponent))
            slope = ops.elementwise_pow(ops.where(is_flat, 1.0, x[0]), exponent)
            found.append(ops.where(is_flat, 0.0, factor * slope))
        return composed(x, found)
    at_zero = x[0] == 0
    safe = [ops.where(at_zero, 1.0, x[0]), *x[1:]]
    out = applied(lambda a, b: ops.exp(b * ops.log(a)), safe, y)
    return [value, *each(lambda c: ops.where(at_zero, 0.0, c), out[1:])]


# -- one input: recurrences ----------------------------------------------------------------------
def _along(x: Series, value: Any, slope: Callable[[Series, int], Any]) -> Series:
    """y' = s x': k y_k is the sum of j x_j s_(k-j), j = 1 .. k; ``slope(y, k)`` is s_k of y."""
    y: Series = [value]
    s: Series = []
    weighted = [None, *(times(j, c) for j, c in enumerate(x) if j)]
    for k in range(1, len(x)):
        s.append(slope(y, k - 1))
        y.append(over(convolution(weighted, s, k, 1, k), k))
    return y


@rules.jet("exp")
def exp_jet(x: Series) -> Series:
    return _along(x, ops.exp(x[0]), lambda y, k: y[k])


@rules.jet("expm1")
def expm1_jet(x: Series) -> Series:
    return _along(x, ops.expm1(x[0]), lambda y, k: y[k] if k else ops.exp(x[0]))


@rules.jet("tanh")
def tanh_jet(x: Series) -> Series:
    return _along(x, ops.tanh(x[0]), lambda y, k: _square_and_one(y, k, -1))


@rules.jet("tan")
def tan_jet(x: Series) -> Series:
    return _along(x, ops.tan(x[0]), lambda y, k: _square_and_one(y, k, 1))


def _square_and_one(y: Series, k: int, sign: int) -> Any:
    """Coefficient k of 1 + sign y^2."""
    square = squared(y, k, factor=sign)
    return square if k else square + 1


def _pair(x: Series, first: Any, second: Any, sign: int) -> tuple[Series, Series]:
    """f' = g x' and g' = sign f x', for f and g that start at the given values."""
    f, g = [first], [second]
    weighted = [None, *(times(j, c) for j, c in enumerate(x) if j)]
    for k in range(1, len(x)):
        a = convolution(weighted, g, k, 1, k)
        b = convolution(weighted, f, k, 1, k)
        f.append(over(a, k))
        g.append(over(times(sign, b), k))
    return f, g


@rules.jet("sin")
def sin_jet(x: Series) -> Series:
    return _pair(x, ops.sin(x[0]), ops.cos(x[0]), -1)[0]


@rules.jet("cos")
def cos_jet(x: Series) -> Series:
    return _pair(x, ops.sin(x[0]), ops.cos(x[0]), -1)[1]


@rules.jet("sinh")
def sinh_jet(x: Series) -> Series:
    return _pair(x, ops.sinh(x[0]), ops.cosh(x[0]), 1)[0]


@rules.jet("cosh")
def cosh_jet(x: Series) -> Series:
    return _pair(x, ops.sinh(x[0]), ops.cosh(x[0]), 1)[1]


@rules.jet("log")
def log_jet(x: Series) -> Series:
    return integral(ops.log(x[0]), quotient(rate(x), x[:-1]))


# -- one input: the series of the slope, times x', integrated ----------------------------------
def _register_slope(name: str, slope: Callable[[Any], Any]) -> None:
    @rules.jet(name)
    def rule(x: Series) -> Series:
        return integral(getattr(ops, name)(x[0]), product(applied(slope, x[:-1]), rate(x)))


_HAVE_RECURRENCES = {"expm1", "log", "sin", "cos", "sinh", "cosh"}
for _name, _slope in SLOPES_AT_X.items():
    if _name not in _HAVE_RECURRENCES:
        _register_slope(_name, _slope)


@rules.jet("polygamma")
def polygamma_jet(x: Series, n: int) -> Series:
    slope = applied(lambda v: ops.polygamma(v, n + 1), x[:-1])
    return integral(ops.polygamma(x[0], n), product(slope, rate(x)))


@rules.jet("scaled_bessel")
def scaled_bessel_jet(x: Series, m: int, n: int) -> Series:
    side = -ops.sign(x[0])
    slope = each(lambda c: side * c, applied(lambda v: ops.scaled_bessel(v, m + 1, n), x[:-1]))
    return integral(ops.scaled_bessel(x[0], m, n), product(slope, rate(x)))


@rules.jet("logit")
def logit_jet(x: Series, eps: float) -> Series:
    """By its own slope: those of the quotient that it is made of overflow where it does not."""
    slope = applied(lambda v: logit_grad(v, ops.ones_like(v), eps), x[:-1])
    return integral(ops.logit(x[0], eps), product(slope, rate(x)))


@rules.jet("i1e")
def i1e_jet(x: Series) -> Series:
    return integral(ops.i1e(x[0]), product(applied(i1e_slope, x[:-1]), rate(x)))


@rules.jet("bessel_ratio")
def bessel_ratio_jet(x: Series, n: int) -> Series:
    """By its own slope, which is smooth at 0, where what it is made of has a kink."""
    slope = product(x[:-1], applied(lambda v: ops.bessel_ratio(v, n + 1), x[:-1]))
    return integral(ops.bessel_ratio(x[0], n), product(slope, rate(x)))


# -- choices -------------------------------------------------------------------------------------
@rules.jet("abs")
def abs_jet(x: Series) -> Series:
    if x[0].dtype.kind == "c":
        return NotImplemented
    side = ops.sign(x[0])
    return [ops.abs(x[0]), *each(lambda c: side * c, x[1:])]


@rules.jet("sign")
def sign_jet(x: Series) -> Series:
    return NotImplemented if x[0].dtype.kind == "c" else constant(ops.sign(x[0]), x)


def _one_of(x: Series, y: Series, value: Any, takes_x: Any, tie: Any = None) -> Series:
    """Of each element the coefficients of x or of y; at a tie the mean of both."""

    def one(a: Any, b: Any) -> Any:
        if a is None and b is None:
            return None
        a, b = (ops.full((), 0, value.dtype) if c is None else c for c in (a, b))
        if tie is not None:
            b = ops.where(tie, 0.5 * (a + b), b)
        return ops.where(takes_x, a, b)

    return [value, *(one(a, b) for a, b in zip(x[1:], y[1:]))]


@rules.jet("maximum")
def maximum_jet(x: Series, y: Series) -> Series:
    return _one_of(x, y, ops.maximum(x[0], y[0]), x[0] > y[0], x[0] == y[0])


@rules.jet("minimum")
def minimum_jet(x: Series, y: Series) -> Series:
    return _one_of(x, y, ops.minimum(x[0], y[0]), x[0] < y[0], x[0] == y[0])


@rules.jet("fmax")
def fmax_jet(x: Series, y: Series) -> Series:
    return _one_of(x, y, ops.fmax(x[0], y[0]), (x[0] >= y[0]) | ops.isnan(y[0]))


@rules.jet("fmin")
def fmin_jet(x: Series, y: Series) -> Series:
    return _one_of(x, y, ops.fmin(x[0], y[0]), (x[0] <= y[0]) | ops.isnan(y[0]))


def _extreme(x: Series, value: Any, axis: Any, keepdim: bool) -> Series:
    """The mean over the elements equal to the extreme one."""
    hits = x[0] == restored(value, x[0], axis, keepdim)
    count = ops.sum(ops.cast(hits, value.dtype), axis, keepdim=keepdim)

    def chosen(c: Any) -> Any:
        return ops.sum(ops.where(hits, c, 0.0), axis, keepdim=keepdim) / count

    return [value, *each(chosen, x[1:])]


@rules.jet("max")
def max_jet(x: Series, axis: Any, keepdim: bool) -> Series:
    return _extreme(x, ops.max(x[0], axis, keepdim), axis, keepdim) if axis else x


@rules.jet("min")
def min_jet(x: Series, axis: Any, keepdim: bool) -> Series:
    return _extreme(x, ops.min(x[0], axis, keepdim), axis, keepdim) if axis else x


def _picked(x: Series, found: Any, axis: int) -> tuple[Series, Series]:
    """The coefficients of the elements that an op's second output names."""
    value, indices = found
    rest = each(lambda c: taken(c, indices, axis), x[1:])
    return [value, *rest], constant(indices, x)


@rules.jet("argsort")
def argsort_jet(x: Series, axis: int, descending: bool, stable: bool) -> Any:
    return _picked(x, ops.argsort(x[0], axis, descending, stable), axis)


@rules.jet("sort")
def sort_jet(x: Series, axis: int, descending: bool) -> Series:
    return _picked(x, ops.argsort(x[0], axis, descending), axis)[0]


@rules.jet("topk")
def topk_jet(x: Series, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    return _picked(x, ops.topk(x[0], k, axis, largest, sorted), axis)


@rules.jet("cummax")
def cummax_jet(x: Series, axis: int, dtype: Any) -> Any:
    return _picked(x, ops.cummax(x[0], axis, dtype), axis)


@rules.jet("cummin")
def cummin_jet(x: Series, axis: int, dtype: Any) -> Any:
    return _picked(x, ops.cummin(x[0], axis, dtype), axis)


# -- linear in some of the inputs ----------------------------------------------------------------
@rules.jet("pad")
def pad_jet(x: Series, paddings: Any, pad_value: Any) -> Series:
    rest = each(lambda c: ops.pad(c, paddings, 0), x[1:])
    return [ops.pad(x[0], paddings, pad_value), *rest]


@rules.jet("reduce_as")
def reduce_as_jet(x: Series, target: Series) -> Series:
    return each(lambda c: ops.reduce_as(c, target[0]), x)


@rules.jet("put_along_axis")
def put_along_axis_jet(
    arr: Series,
    indices: Series,
    values: Series,
    axis: int,
    reduce: str,
    include_self: bool,
    mode: str,
) -> Series:
    if reduce not in ("assign", "add", "mean"):
        return NotImplemented

    def put(a: Any, v: Any) -> Any:
        if a is None and v is None:
            return None
        a = ops.full(arr[0].meta.dims, 0, arr[0].dtype) if a is None else a
        v = ops.full(values[0].meta.dims, 0, values[0].dtype) if v is None else v
        return ops.put_along_axis(a, indices[0], v, axis, reduce, include_self, mode)

    return [put(a, v) for a, v in zip(arr, values)]


# -- along an axis -------------------------------------------------------------------------------
@rules.jet("linear_recurrence")
def linear_recurrence_jet(a: Series, x: Series, axis: int, reverse: bool) -> Series:
    """Coefficient k of h follows a_0 h + x_k + a_j (h_(k-j) one step before), j = 1 .. k."""
    out: Series = []
    earlier: Series = []
    for k in range(len(x)):
        given = plus(x[k], convolution(a, earlier, k, 1, k))
        out.append(None if given is None else ops.linear_recurrence(a[0], given, axis, reverse))
        earlier += each(lambda h: before(h, axis, reverse, 0), out[-1:])
    return out


@rules.jet("cumprod")
def cumprod_jet(x: Series, dim: int, exclusive: bool, reverse: bool) -> Series:
    """p_k = x_0 p_k + x_j p_(k-j), j = 1 .. k, each p one step before: a linear recurrence."""
    value = ops.cumprod(x[0], dim, exclusive, reverse)
    if not x[0].ndim:
        return constant(value, x) if exclusive else [value, *x[1:]]
    out: Series = [ops.cumprod(x[0], dim, False, reverse) if exclusive else value]
    earlier = [before(out[0], dim, reverse, 1)]
    for k in range(1, len(x)):
        given = convolution(x, earlier, k, 1, k)
        out.append(None if given is None else ops.linear_recurrence(x[0], given, dim, reverse))
        earlier += each(lambda p: before(p, dim, reverse, 0), out[-1:])
    return [value, *(earlier if exclusive else out)[1:]]


@rules.jet("prod")
def prod_jet(x: Series, axis: Any, keepdim: bool, reduce_all: bool) -> Series:
    """The product of all is the last one of the running products."""
    value = ops.prod(x[0], axis, keepdim, reduce_all)
    if not axis or not dm.is_known(*x[0].meta.dims) or not int(x[0].meta.size):
        return [value, *x[1:]] if not axis else NotImplemented
    order = [*axis, *(i for i in range(x[0].ndim) if i not in axis)]
    dims = x[0].meta.dims
    kept = tuple(dims[i] for i in order[len(axis) :])
    rows = (dm.product(tuple(dims[i] for i in axis)), *kept)
    columns = each(lambda c: ops.reshape(ops.transpose(c, order), rows), x)
    running = cumprod_jet(columns, 0, False, False)
    return [value, *each(lambda c: ops.reshape(c[-1], value.meta.dims), running[1:])]
