"""Ordinary differential equations from a point to start from: :func:`odeint`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import holds_tensors, owned_tensor, stacked, values_of
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.core.expectations import expect, expect_dims
from phix.core.given import FLAG, FUNCTION, NONE, Kind, is_int, takes
from phix.core.tensor import TensorBase
from phix.scipy.minimising import is_array_like
from phix.scipy.runge_kutta import RungeKutta
from phix.scipy.steps import Leaves

TOLERANCE = Kind("a number from 0", lambda v: _is_real(v) and v >= 0) | NONE
LENGTH = Kind("a number above 0", lambda v: _is_real(v) and v > 0) | NONE


def _is_real(v: Any) -> bool:
    return isinstance(v, (int, float, np.integer, np.floating)) and not isinstance(v, bool)


@takes(func=FUNCTION, tfirst=FLAG, rtol=TOLERANCE, atol=TOLERANCE, h0=LENGTH, hmax=LENGTH,
       args=Kind("a tuple", lambda v: isinstance(v, tuple)),
       mxstep=Kind("an int from 1", lambda v: is_int(v) and v >= 1))  # fmt: skip
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    tfirst: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    h0: float | None = None,
    hmax: float | None = None,
    mxstep: int = 10_000,
) -> Any:
    """The solution of dy/dt = func(y, t, ...) with y(t[0]) = y0, at the times t.

    Steps are Dormand and Prince's, of order 5, each as long as its error allows; times between
    their ends are read off a polynomial of order 4. So it is for equations that are not stiff. All
    is loops of phix: it runs inside ``jit``, under ``vmap`` over starts and parameters, and has
    derivatives of any order by y0 and whatever ``func`` uses, and by t to the second order: higher
    ones are those of the polynomial. They are those of the steps that were taken, whose lengths
    count as given; going backward keeps all steps.

    Args:
        func: of y, a tree as y0, the time, and ``args``, to dy/dt, a tree as y0. Of one tensor it
            may also be a list of its elements.
        y0: a tensor or a tree of them, floats or complex numbers; lists of numbers are one tensor,
            and ints become the default float.
        t: times, [n], n from 1, ascending or descending; y0 is y at the first.
        args: what else the function is given.
        tfirst: func takes the time first.
        rtol, atol: a step errs by rtol |y| + atol at most, in the root of the mean of squares over
            all elements of y; 1.49e-8, or 8 units in the last place of 1 if that is more.
        h0: the length of the first step; found from func where None.
        hmax: the length of the longest.
        mxstep: so many steps are tried at most from one of the times to the next.

    Returns:
        A tree as y0, with n times in front: [n, ...]. NaN from the first time on that could not be
        reached: y is unbounded before it, or mxstep is too small. All NaN but the first where the
        times, traced ones, are not in order.

    Raises:
        ArgumentError: y0 has no tensors, t is not in order, or func gives another tree.
        ShapeError: t is not [n], n from 1, or func gives another shape.
        DTypeError: t is complex, or func gives complex numbers for a real y.

    >>> import phix
    >>> y = phix.scipy.integrate.odeint(lambda y, t, k: -k * y, [1.0], [0.0, 1.0, 2.0], (0.5,))
    >>> y[:, 0].round(decimals=4).tolist()
    [1.0, 0.6065, 0.3679]
    """
    field = _Field(func, y0, args, tfirst)
    times = times_of(t, field.start)
    eps = max(float(np.finfo(v.dtype).eps) for v in field.start)
    relative, absolute = (max(1.49e-8, 8 * eps) if v is None else float(v) for v in (rtol, atol))
    solver = RungeKutta(field.slope, times, relative, absolute, hmax, mxstep)
    return field.tree(solver.solve(field.start, h0))


# -- what is given ---------------------------------------------------------------------------------
class _Field:
    """dy/dt of the leaves of y."""

    def __init__(self, func: Callable[..., Any], y0: Any, args: Any, tfirst: bool) -> None:
        leaves, self.treedef = pytrees.flatten(owned_tensor(y0) if is_array_like(y0) else y0)
        if not leaves:
            raise ArgumentError("odeint: y0 has no tensors; give a point to start from")
        self.func, self.args, self.tfirst = func, args, tfirst
        self.start = [floats_of(v) for v in leaves]
        self.is_one = len(leaves) == 1 and self.treedef == pytrees.flatten(self.start[0])[1]

    def tree(self, leaves: Leaves) -> Any:
        """The leaves as a tree like y0."""
        return pytrees.unflatten(self.treedef, leaves)

    def slope(self, y: Leaves, t: Any) -> Leaves:
        """dy/dt at y and t."""
        at = (t, self.tree(y)) if self.tfirst else (self.tree(y), t)
        found = self.func(*at, *self.args)
        if self.is_one and isinstance(found, (list, tuple)):
            found = stacked(list(found), y[0].dtype)
        leaves, treedef = pytrees.flatten(found)
        if treedef != self.treedef:
            raise ArgumentError(
                f"odeint: func must give dy/dt as a tree like y0, {self.treedef}, found {treedef}"
            )
        return [slope_like(v, x) for v, x in zip(leaves, y)]


def floats_of(v: Any, name: str = "odeint") -> Any:
    """What y starts from; ints become the default float."""
    x = v if isinstance(v, TensorBase) else owned_tensor(v)
    if dt.kind(x.dtype) in ("int", "bool"):
        x = ops.cast(x, dt.default_float())
    if dt.real_dtype(x.dtype) not in (dt.float32, dt.float64):
        raise DTypeError(
            f"{name}: y0 must be float32, float64 or complex, found {x.meta}; write "
            "y0.astype('float32')"
        )
    return x


def slope_like(v: Any, y: Any, name: str = "odeint: func") -> Any:
    """What a function gives, as dy/dt of y."""
    slope = v if isinstance(v, TensorBase) else owned_tensor(v)
    if dt.is_complex(slope.dtype) and not dt.is_complex(y.dtype):
        raise DTypeError(
            f"{name} gives complex numbers, {slope.meta}, for y {y.meta}; write "
            "y0.astype('complex64')"
        )
    refusal = f"{name} must give dy/dt of the shape of y, {y.meta}, found {slope.meta}"
    return ops.cast(expect_dims(slope, refusal, y.meta.dims), y.dtype)


def times_of(t: Any, y: Leaves, name: str = "odeint: t") -> Any:
    """The times in a dtype that holds them and parts of y: numbers of Python have its digits."""
    own = functools.reduce(dt.promote, [dt.real_dtype(v.dtype) for v in y])
    is_list = isinstance(t, (list, tuple))
    if is_list and not holds_tensors(t):
        t = values_of(t, dt.float64)
        times = owned_tensor(t)
    else:
        times = stacked(t) if is_list else t if isinstance(t, TensorBase) else owned_tensor(t)
        own = dt.promote(own, times.dtype)
    if isinstance(t, np.ndarray):
        _check_order(t, name)
    if dt.is_complex(times.dtype):
        raise DTypeError(f"{name} must be real numbers, found {times.meta}")
    refusal = f"{name} must be the times [n], n from 1, found {times.meta}"
    if times.ndim != 1:
        raise ShapeError(refusal)
    return expect(ops.cast(times, own), refusal, times.shape[0] - 1)


def _check_order(t: np.ndarray, name: str) -> None:
    is_plain = t.ndim == 1 and t.dtype.kind in "iuf"
    steps = np.diff(t.astype(np.float64)) if is_plain else np.zeros(0)
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ArgumentError(f"{name} must ascend or descend, found {t}; sort it")
