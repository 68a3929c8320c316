"""Integrals under SciPy's names: of samples, :func:`trapezoid`, :func:`simpson` and
:func:`cumulative_trapezoid`, and of differential equations, :func:`odeint` and
:func:`solve_ivp`."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import DTypeError, ShapeError
from phix.core.expectations import expect, expect_dims
from phix.core.faces import face
from phix.core.given import INT, NONE, Kind, takes
from phix.core.tensor import Tensor, TensorLike
from phix.core.weak import weak_kind
from phix.linalg.arguments import floating
from phix.scipy.initial_value_problems import OdeResult, solve_ivp
from phix.scipy.initial_values import odeint
from phix.scipy.ranks import with_axis_at

__all__ = [
    "OdeResult", "cumulative_trapezoid", "odeint", "simpson", "solve_ivp", "trapezoid",
]  # fmt: skip
__dir__ = face(__all__)

_INITIAL = Kind("0", lambda v: isinstance(v, (int, float)) and v == 0) | NONE


def _samples(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """y with the axis as the last one, and the steps between its points: a number, or a tensor
    with such an axis of one element less."""
    values = floating(y)
    if not -values.ndim <= axis < values.ndim:
        raise ShapeError(f"y {values.meta} has no axis {axis}; give it as [n]")
    values = with_axis_at(values, axis, -1)
    points = None if x is None else _points(x, values, axis)
    if points is not None:
        steps = points[..., 1:] - points[..., :-1]
    elif weak_kind(dx) is None:
        steps = floating(dx)
    else:  # a number has the digits of y
        steps = ops.cast(dx, dt.real_dtype(values.dtype))
    if dt.is_complex(steps.dtype):
        raise DTypeError("points and steps must be real numbers, found complex ones")
    if points is None and steps.ndim:
        raise ShapeError(f"dx must be one number, found {steps.meta}; give the points as x")
    return values, steps


def _points(x: Any, values: Any, axis: int) -> Any:
    """x with its axis as the last one, of as many points as y has samples."""
    points = floating(x)
    if points.ndim not in (1, values.ndim):
        raise ShapeError(
            f"x must be [n], or have the axes of y, {values.ndim}, found {points.meta}"
        )
    points = points if points.ndim == 1 else with_axis_at(points, axis, -1)
    size, own = values.meta.dims[-1], points.meta.dims[-1]
    refusal = (
        f"x must have as many points as y has samples along axis {axis}, {dm.dim_text(size)}, "
        f"found {dm.dim_text(own)}"
    )
    return expect_dims(points, refusal, (*points.meta.dims[:-1], size))


def _some(values: Any, axis: int) -> Any:
    refusal = f"y must have samples along axis {axis}, found {values.meta} with that at the end"
    return expect(values, refusal, values.shape[-1] - 1)


def _areas(values: Any, steps: Any) -> Any:
    """What lies under the line from each sample to the next."""
    return (values[..., 1:] + values[..., :-1]) * (steps * 0.5)


@takes(axis=INT)
def trapezoid(
    y: TensorLike, x: TensorLike | None = None, dx: TensorLike = 1.0, axis: int = -1
) -> Tensor:
    """The integral of the line through samples: the sum of (x_i+1 - x_i) (y_i + y_i+1) / 2.

    Args:
        y: the samples, ``[..., n, ...]``, floats or complex numbers; ints become the default float.
        x: the points, ``[n]`` or as y, in any order; points ``dx`` apart where None.
        dx: the step between points, one number.
        axis: the axis of y, and of an x like it, along which it integrates.

    Returns:
        A tensor of the shape of y without that axis; 0 of fewer than two samples.

    Raises:
        ShapeError: y has no such axis, or x another number of points or axes.
        DTypeError: x or dx is complex.

    >>> import phix
    >>> phix.scipy.integrate.trapezoid([1.0, 2.0, 5.0], x=[0.0, 1.0, 3.0]).item()
    8.5
    """
    return ops.sum(_areas(*_samples(y, x, dx, axis)), [-1])


@takes(axis=INT, initial=_INITIAL)
def cumulative_trapezoid(
    y: TensorLike, x: TensorLike | None = None, dx: TensorLike = 1.0, axis: int = -1,
    initial: int | None = None,
) -> Tensor:  # fmt: skip
    """The integrals of the line through samples, from the first one to each of those behind it.

    Args:
        y: the samples, ``[..., n, ...]``, n from 1, floats or complex numbers; ints become the
            default float.
        x: the points, ``[n]`` or as y, in any order; points ``dx`` apart where None.
        dx: the step between points, one number.
        axis: the axis of y, and of an x like it, along which it integrates.
        initial: 0 puts the integral up to the first sample, which is 0, in front.

    Returns:
        A tensor of the shape of y, with n - 1 elements along the axis, or n with ``initial``.

    Raises:
        ShapeError: y has no such axis or nothing along it, or x another number of points or axes.
        DTypeError: x or dx is complex.

    >>> import phix
    >>> phix.scipy.integrate.cumulative_trapezoid([1.0, 3.0, 5.0], initial=0).tolist()
    [0.0, 2.0, 6.0]
    """
    values, steps = _samples(y, x, dx, axis)
    values = _some(values, axis)
    areas = _areas(values, steps)
    if initial is not None:
        areas = ops.concat([ops.zeros_like(values[..., :1]).astype(areas.dtype), areas], -1)
    return with_axis_at(ops.cumsum(areas, -1), -1, axis)


def _over(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0, as SciPy has it of points that coincide."""
    none = b == 0
    return ops.where(none, 0.0, a / ops.where(none, 1.0, b))


def _parabola(h0: Any, h1: Any) -> tuple[Any, Any, Any]:
    """The weights of three samples in the integral over both steps between them."""
    both, ratio = h0 + h1, _over(h0, h1)
    sixth = both / 6.0
    middle = sixth * _over(both * both, h0 * h1)
    return sixth * (2.0 - _over(1.0, ratio)), middle, sixth * (2.0 - ratio)


def _last_step(h0: Any, h1: Any) -> tuple[Any, Any, Any]:
    """The weights of three samples in the integral over the second step alone."""
    both = h0 + h1
    first = -_over(h1 * h1 * h1, 6.0 * h0 * both)
    middle = _over(h1 * h1 + 3.0 * h0 * h1, 6.0 * h0)
    return first, middle, _over(2.0 * h1 * h1 + 3.0 * h0 * h1, 6.0 * both)


@takes(axis=INT)
def simpson(
    y: TensorLike, x: TensorLike | None = None, *, dx: TensorLike = 1.0, axis: int = -1
) -> Tensor:
    """The integral of samples by Simpson's rule: under a parabola through each three of them.

    Of an even number of samples the last step is integrated under the parabola through the last
    three (K. Cartwright, "Simpson's rule cumulative integration", 2017), as in SciPy from 1.11 on;
    two samples are integrated by the trapezoid, and one is 0.

    Args:
        y: the samples, ``[..., n, ...]``, n from 1, floats or complex numbers; ints become the
            default float.
        x: the points, ``[n]`` or as y, ascending; points ``dx`` apart where None.
        dx: the step between points, one number.
        axis: the axis of y, and of an x like it, along which it integrates.

    Returns:
        A tensor of the shape of y without that axis.

    Raises:
        ShapeError: y has no such axis or nothing along it, or x another number of points or axes.
        DTypeError: x or dx is complex.

    >>> import phix
    >>> x = phix.to_tensor([0.0, 1.0, 3.0, 4.0])
    >>> round(phix.scipy.integrate.simpson(x * x, x=x).item(), 4)
    21.3333
    """
    values, steps = _samples(y, x, dx, axis)
    values = _some(values, axis)
    count = values.shape[-1]
    h0, h1 = (steps[..., :-1], steps[..., 1:]) if steps.ndim else (steps, steps)
    # by the first of three: from each second one both steps, from the last one the step left over
    first = ops.arange(0, dm.maximum(count - 2, 0), 1, "int64")
    is_whole, is_last = first % 2 == 0, first == count - 3
    total = ops.sum(_areas(values, steps), [-1])
    total = ops.where(ops.full((), count, "int64") == 2, total, 0.0)
    three = values[..., :-2], values[..., 1:-1], values[..., 2:]
    for sample, whole, last in zip(three, _parabola(h0, h1), _last_step(h0, h1)):
        weight = ops.where(is_whole, whole, ops.where(is_last, last, 0.0))
        total = total + ops.sum(sample * weight, [-1])
    return total
