"""Sums under SciPy's names: of exponentials, of powers; and Box and Cox' transformation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from phix import ops
from phix.core.axes import axes_of
from phix.core.expectations import never_empty
from phix.core.given import FLAG, INTS, NONE, at_least, takes
from phix.core.tensor import Tensor, TensorLike
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.entropies import floats
from phix.scipy.gammas import _gamma, _sine_of_pi
from phix.scipy.integrals import bernoulli_numbers
from phix.scipy.smoothness import in_float64, smooth

_AXES = INTS | NONE
_LARGEST_POWER = 88.0  # of e, that a float32 holds


# -- sums of exponentials --------------------------------------------------------------------------
def _axes(x: Any, axis: Any) -> list[int]:
    return list(axes_of(axis, x.ndim) if x.ndim or axis is None else ())


@takes(axis=_AXES, keepdims=FLAG, return_sign=FLAG)
def logsumexp(
    a: TensorLike,
    axis: Any = None,
    b: TensorLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Any:
    """log of the sum of b exp(a) along the axes, all of them for None; nothing overflows.

    Where the sum is negative it is NaN; with ``return_sign`` it is a pair: the log of the sum's
    absolute value, and its sign. Where b is 0, a counts for nothing, infinite ones too.

    >>> import phix
    >>> phix.scipy.special.logsumexp([1000.0, 1000.0], b=[0.5, 0.5]).item()
    1000.0
    """
    values = floats(a) if b is None else floats(a, b)
    x = values[0]
    if b is None and not return_sign:
        return ops.logsumexp(x, _axes(x, axis), keepdims) if x.ndim else x
    weight = values[1] if b is not None else ops.ones_like(x)
    x, weight = x + ops.zeros_like(weight), weight + ops.zeros_like(x)
    axes = _axes(x, axis)
    counts = weight != 0
    top = ops.stop_gradient(ops.where(counts, x, -math.inf))
    top = ops.max(never_empty(top, -math.inf, axes), axes, keepdim=True) if x.ndim else top
    top = ops.where(ops.isfinite(top), top, 0.0)
    # a weight of 0 has a slope, too, where that is a number
    is_part = counts | (x - top < _LARGEST_POWER)
    parts = ops.where(is_part, weight * ops.exp(ops.where(is_part, x, 0.0) - top), 0.0)
    total = ops.sum(parts, axes, keepdim=True) if x.ndim else parts
    size = ops.where(total == 0, -math.inf, ops.log(ops.abs(ops.where(total == 0, 1.0, total))))
    size, sign = size + top, ops.sign(total)
    if not return_sign:
        size = ops.where(total < 0, math.nan, size)
    if x.ndim and not keepdims:
        size, sign = ops.squeeze(size, axes), ops.squeeze(sign, axes)
    return (size, sign) if return_sign else size


def _along(function: Any, x: Any, axes: list[int]) -> Any:
    """A function along one axis that keeps the shape, along several as one."""
    if len(axes) == 1:
        return function(x, axes[0])
    last = [axis % x.ndim for axis in axes]
    order = [axis for axis in range(x.ndim) if axis not in last] + last
    moved = ops.transpose(x, order)
    kept = moved.shape[: x.ndim - len(axes)]
    rows = ops.reshape(moved, [*kept, math.prod(moved.shape[len(kept) :])])
    back = sorted(range(x.ndim), key=order.__getitem__)
    return ops.transpose(ops.reshape(function(rows, -1), moved.shape), back)


@takes(axis=_AXES)
def log_softmax(x: TensorLike, axis: Any = None) -> Tensor:
    """x - logsumexp(x) along the axes, all of them for None.

    >>> import phix
    >>> phix.scipy.special.log_softmax([1000.0, 0.0]).tolist()
    [0.0, -1000.0]
    """
    (value,) = floats(x)
    axes = _axes(value, axis)
    return _along(ops.log_softmax, value, axes) if axes else ops.zeros_like(value)


@takes(axis=_AXES)
def softmax(x: TensorLike, axis: Any = None) -> Tensor:
    """exp(x) over the sum of that along the axes, all of them for None.

    >>> import phix
    >>> phix.scipy.special.softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    (value,) = floats(x)
    axes = _axes(value, axis)
    return _along(ops.softmax, value, axes) if axes else ops.ones_like(value)


# -- sums of powers --------------------------------------------------------------------------------
_STEPS = 10
_TAIL = [float(b) / math.factorial(k) for k, b in enumerate(bernoulli_numbers(24))][2::2]
_LARGEST = 1e6  # of the exponent in the tail, which then is nothing


def _zeta(s: Any, q: Any) -> Any:
    """The sum of (q + k)^-s over k from 0 on, by Euler and Maclaurin, for q > 0."""
    total: Any = 0.0
    for k in range(_STEPS):
        total = total + ops.exp(-s * ops.log(q + float(k)))
    a, order = q + float(_STEPS), ops.minimum(s, _LARGEST)
    last = ops.exp(-s * ops.log(a))
    rest: Any = 0.0
    for k in reversed(range(len(_TAIL))):  # s (s + 1) ... (s + 2 k) / a^(2 k + 1) as products
        inner = rest * ((order + (2 * k + 1)) / a) * ((order + (2 * k + 2)) / a)
        rest = _TAIL[k] + inner
    rest = rest * (order / a)
    return total + last * (a / (s - 1) + 0.5 + rest)


def _hurwitz(s: Any, q: Any) -> Any:
    known = (s > 1) & (q > 0) & (s < math.inf) & (q < math.inf)
    found = _zeta(ops.where(known, s, 2.0), ops.where(known, q, 1.0))
    pole = (s == 1) | ((q <= 0) & (q == ops.floor(q)))
    edge = ops.where(s > 1, ops.where(pole, math.inf, math.nan), math.nan)
    edge = ops.where(s == 1, math.inf, edge)
    edge = ops.where((s > 1) & (q == math.inf), 0.0, edge)
    at_end = ops.where(q == 1, 1.0, ops.where(q > 1, 0.0, math.inf))
    edge = ops.where((s == math.inf) & (q > 0), at_end, edge)
    return ops.where(known, found, ops.where(ops.isnan(s) | ops.isnan(q), math.nan, edge))


_smooth_hurwitz: Any = smooth(_hurwitz, None, lambda s, q: -s * _smooth_hurwitz(s + 1, q))


def _riemann(s: Any) -> Any:
    """Below -1/2 by the functional equation."""
    reflected = s < -0.5
    t = ops.where(reflected, 1 - s, s)
    regular = (t != 1) & (t < math.inf)
    found = _zeta(ops.where(regular, t, 2.0), ops.ones_like(s))
    wide, sine = t > 150, _sine_of_pi(0.5 * s)
    few, many = ops.where(reflected & ~wide, t, 1.0), ops.where(reflected & wide, t, 1.0)
    turned = 2 * (2 * math.pi) ** -few * _gamma(few)
    far = 2 * ops.exp(ops.lgamma(many) - many * math.log(2 * math.pi))
    turned = ops.where(wide, far, turned) * found
    turned = ops.where((sine == 0) & ops.isinf(turned), 0.0, turned)
    found = ops.where(reflected, turned * sine, found)
    found = ops.where(s == 1, math.inf, ops.where(s == math.inf, 1.0, found))
    return ops.where(ops.isnan(s) | (s == -math.inf), math.nan, found)


_smooth_riemann = smooth(_riemann)


@takes()
def zeta(x: TensorLike, q: TensorLike | None = None) -> Tensor:
    """The sum of (k + q)^-x over k from 0 on, for x > 1 and q > 0; without q Riemann's function,
    for every x.

    Other q are answered by inf at the poles, and by NaN.

    >>> import phix
    >>> round(phix.scipy.special.zeta(2.0, 1.0).item(), 5)
    1.64493
    """
    return in_float64(_smooth_riemann, x) if q is None else in_float64(_smooth_hurwitz, x, q)


@takes(n=at_least(0))
def bernoulli(n: int) -> Tensor:
    """Bernoulli's numbers B_0 to B_n, float64[n + 1]; those that it has not are infinite.

    >>> import phix
    >>> phix.scipy.special.bernoulli(2).tolist()[:2]
    [1.0, -0.5]
    """
    return Tensor(np.array([_as_float(b) for b in bernoulli_numbers(n)]))


def _as_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# -- powers ----------------------------------------------------------------------------------------
def _of_log(log_x: Any, power: Any) -> Any:
    """(exp(power log_x) - 1) / power, log_x for the power 0."""
    gone = (log_x == -math.inf) & (power > 0)
    limit = -1 / ops.where(gone, power, 1.0)
    log_x = ops.where(gone, 0.0, log_x)
    z = log_x * power
    near = ops.abs(z) < 1
    few = ops.where(near, z, 0.0)
    series = incomplete._horner(few, [1 / math.factorial(k + 1) for k in range(20)])
    far = ops.expm1(ops.where(near, 1.0, z)) / ops.where(near, 1.0, power)
    found = ops.where(near, log_x * series, far)
    found = ops.where((power == 0) & ops.isinf(log_x), log_x, found)
    return ops.where(gone, limit, found)


_smooth_boxcox = smooth(lambda x, p: _of_log(ops.log(x), p), lambda x, p: x ** (p - 1))
_smooth_boxcox1p = smooth(lambda x, p: _of_log(ops.log1p(x), p), lambda x, p: (1 + x) ** (p - 1))


@takes()
def boxcox(x: TensorLike, lmbda: TensorLike) -> Tensor:
    """(x^lmbda - 1) / lmbda, and log(x) for lmbda 0; NaN for x < 0.

    >>> import phix
    >>> phix.scipy.special.boxcox([1.0, 4.0], 0.5).tolist()
    [0.0, 2.0]
    """
    return in_float64(_smooth_boxcox, x, lmbda)


@takes()
def boxcox1p(x: TensorLike, lmbda: TensorLike) -> Tensor:
    """((1 + x)^lmbda - 1) / lmbda, and log(1 + x) for lmbda 0; NaN for x < -1.

    >>> import phix
    >>> phix.scipy.special.boxcox1p([0.0, 3.0], 0.5).tolist()
    [0.0, 2.0]
    """
    return in_float64(_smooth_boxcox1p, x, lmbda)
