"""Ordinary differential equations from a point to start from: :func:`odeint`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import scan, while_loop
from phix.api.custom import custom_jvp, stop_gradient
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import holds_tensors, owned_tensor, stacked, values_of
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.core.expectations import expect, expect_dims
from phix.core.given import FLAG, FUNCTION, NONE, Kind, is_int, takes
from phix.core.tensor import TensorBase
from phix.scipy.minimising import is_array_like

# J. Dormand and P. Prince, "A family of embedded Runge-Kutta formulae" (1980): slopes k_i are those
# at t + C_i h and y + h sum_j A_ij k_j. The last row is the step, of order 5, ERROR its difference
# to one of order 4.
A = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
C = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1)
ERROR = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
# E. Hairer, S. Norsett and G. Wanner, "Solving Ordinary Differential Equations I", II.6: what their
# DOPRI5 adds to a cubic between the ends of a step, for order 4 in between.
BETWEEN = (
    -12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
    701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
)  # fmt: skip
# The length of a step is changed by so much at most, and aims a little below the tolerance.
_LEAST_FACTOR, _MOST_FACTOR, _SAFETY = 0.2, 10.0, 0.9
# The shortest step, in units of the last place of the time.
_SHORTEST = 10.0

Leaves = list[Any]


class _Progress(NamedTuple):
    time: Any
    y: Leaves
    slope: Leaves  # the last one of a step is the first of the next
    length: Any  # of the next step, from 0
    begin: Any  # where the last step began, how long it was, backwards below 0, ...
    taken: Any
    curve: list[Leaves]  # ... and the polynomial that y is over it, see _between
    tried: Any  # steps on the way to the time that is asked for; mxstep: it cannot be reached


_TOLERANCE = Kind("a number from 0", lambda v: _is_real(v) and v >= 0) | NONE
_LENGTH = Kind("a number above 0", lambda v: _is_real(v) and v > 0) | NONE


def _is_real(v: Any) -> bool:
    return isinstance(v, (int, float, np.integer, np.floating)) and not isinstance(v, bool)


@takes(func=FUNCTION, tfirst=FLAG, rtol=_TOLERANCE, atol=_TOLERANCE, h0=_LENGTH, hmax=_LENGTH,
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
    times = _times(t, field.start)
    eps = max(float(np.finfo(v.dtype).eps) for v in field.start)
    relative, absolute = (max(1.49e-8, 8 * eps) if v is None else float(v) for v in (rtol, atol))
    solver = _Solver(field.slope, times, relative, absolute, hmax, mxstep)
    return field.tree(solver.solve(field.start, h0))


# -- what is given ---------------------------------------------------------------------------------
class _Field:
    """dy/dt of the leaves of y."""

    def __init__(self, func: Callable[..., Any], y0: Any, args: Any, tfirst: bool) -> None:
        leaves, self.treedef = pytrees.flatten(owned_tensor(y0) if is_array_like(y0) else y0)
        if not leaves:
            raise ArgumentError("odeint: y0 has no tensors; give a point to start from")
        self.func, self.args, self.tfirst = func, args, tfirst
        self.start = [_floats(v) for v in leaves]
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
        return [_slope_like(v, x) for v, x in zip(leaves, y)]


def _floats(v: Any) -> Any:
    x = v if isinstance(v, TensorBase) else owned_tensor(v)
    if dt.kind(x.dtype) in ("int", "bool"):
        x = ops.cast(x, dt.default_float())
    if dt.real_dtype(x.dtype) not in (dt.float32, dt.float64):
        raise DTypeError(
            f"odeint: y0 must be float32, float64 or complex, found {x.meta}; write "
            "y0.astype('float32')"
        )
    return x


def _slope_like(v: Any, y: Any) -> Any:
    slope = v if isinstance(v, TensorBase) else owned_tensor(v)
    if dt.is_complex(slope.dtype) and not dt.is_complex(y.dtype):
        raise DTypeError(
            f"odeint: func gives complex numbers, {slope.meta}, for y {y.meta}; write "
            "y0.astype('complex64')"
        )
    refusal = f"odeint: func must give dy/dt of the shape of y, {y.meta}, found {slope.meta}"
    return ops.cast(expect_dims(slope, refusal, y.meta.dims), y.dtype)


def _times(t: Any, y: Leaves) -> Any:
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
        _check_order(t)
    if dt.is_complex(times.dtype):
        raise DTypeError(f"odeint: t must be real numbers, found {times.meta}")
    refusal = f"odeint: t must be the times [n], n from 1, found {times.meta}"
    if times.ndim != 1:
        raise ShapeError(refusal)
    return expect(ops.cast(times, own), refusal, times.shape[0] - 1)


def _check_order(t: np.ndarray) -> None:
    is_plain = t.ndim == 1 and t.dtype.kind in "iuf"
    steps = np.diff(t.astype(np.float64)) if is_plain else np.zeros(0)
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ArgumentError(f"odeint: t must ascend or descend, found {t}; sort it")


# -- the steps -------------------------------------------------------------------------------------
class _Solver:
    """Steps that go through all times, and y at each."""

    def __init__(
        self, slope: Callable[[Leaves, Any], Leaves], times: Any, rtol: float, atol: float,
        hmax: Any, mxstep: int,
    ) -> None:  # fmt: skip
        self.slope, self.times, self.begin = slope, times, times[0]
        # when steps are taken is settled, but that all of them come later where the first time does
        self.fixed = stop_gradient(times)
        self.shift, self.end = self.begin - self.fixed[0], self.fixed[-1]
        self.rtol, self.atol, self.mxstep = rtol, atol, min(mxstep, 2**31 - 1)
        self.longest = math.inf if hmax is None else float(hmax)
        self.direction = ops.where(self.end < self.fixed[0], -1.0, ops.ones_like(self.end))

    def solve(self, y: Leaves, h0: Any) -> Leaves:
        """The leaves of y at all times, [n, ...]."""
        time = self.fixed[0]
        slope = self.slope(y, self.begin)
        length = ops.full_like(time, h0) if h0 else self._first_length(y, slope, time)
        none, count = [ops.zeros_like(v) for v in y], ops.full((), 0, dt.int32)
        curve = [y, slope, *[none] * 3]  # times equal to the first have a slope, too
        begin = _Progress(time, y, slope, length, time, ops.ones_like(time), curve, count)
        _, found = scan(self._reach, begin, self.times[1:])
        in_order = ops.all((self.fixed[1:] - self.fixed[:-1]) * self.direction >= 0)
        found = [ops.where(in_order, v, math.nan) for v in found]
        return [ops.concat([ops.unsqueeze(a, [0]), b], 0) for a, b in zip(y, found)]

    def _reach(self, at: _Progress, asked: Any) -> tuple[_Progress, Leaves]:
        """As many steps as it takes to a time, and y there."""
        time = stop_gradient(asked)

        def is_before(at: _Progress) -> Any:
            return ((time - at.time) * self.direction > 0) & (at.tried < self.mxstep)

        at = while_loop(is_before, self._step, at)
        y = _between(at.curve, (asked - self.shift - at.begin) / at.taken)
        is_there = (time - at.time) * self.direction <= 0
        at = at._replace(tried=ops.cast(ops.where(is_there, 0, self.mxstep), dt.int32))
        return at, [ops.where(is_there, v, math.nan) for v in y]

    def _step(self, at: _Progress) -> _Progress:
        rest = ops.abs(self.end - at.time)
        shortest = _SHORTEST * float(np.finfo(at.time.dtype).eps) * ops.abs(at.time)
        length = ops.minimum(ops.maximum(at.length, shortest), self.longest)
        is_last = length >= rest
        length = ops.where(is_last, rest, length)
        after = ops.where(is_last, self.end, at.time + length * self.direction)
        # times far from 0 are rounded, and y is to be at those that they are rounded to
        h = after - at.time
        slopes, y = stop_gradient(self._stages(*stop_gradient((at.y, at.slope)), at.time, h))
        error = self._error(h, slopes, at.y, y)
        good = error <= 1
        # a step that is given up may have left where the equation holds, and have no derivative
        like = self._stages(at.y, at.slope, at.time + self.shift, ops.where(good, h, 0.0))
        slopes, y = pytrees.map(_like, (slopes, y), like)
        curve = _curve(h, slopes, at.y, y)
        new = _Progress(after, y, slopes[-1], length, at.time, h, curve, at.tried)
        kept = pytrees.map(lambda a, b: ops.where(good, a, b), new, at)
        is_stuck = ~good & (length <= shortest)
        tried = ops.cast(ops.where(is_stuck, self.mxstep, at.tried + 1), dt.int32)
        return kept._replace(length=self._next_length(length, error), tried=tried)

    def _stages(self, y: Leaves, slope: Leaves, time: Any, h: Any) -> tuple[list[Leaves], Leaves]:
        """The slopes of a step, and y behind it."""
        slopes, after = [slope], y
        for weights, c in zip(A, C):
            after = _stepped(y, h, weights, slopes)
            slopes.append(self.slope(after, time + c * h))
        return slopes, after

    def _error(self, h: Any, slopes: list[Leaves], before: Leaves, after: Leaves) -> Any:
        """The error of a step over what is allowed; NaN where there is one in y."""
        none = [ops.zeros_like(v) for v in before]
        return stop_gradient(self._size(_stepped(none, h, ERROR, slopes), before, after))

    def _next_length(self, length: Any, error: Any) -> Any:
        factor = _SAFETY * ops.maximum(error, 1e-10) ** -0.2
        factor = ops.clip(factor, _LEAST_FACTOR, _MOST_FACTOR)
        return length * ops.where(ops.isnan(error), _LEAST_FACTOR, factor)

    def _size(self, values: Leaves, *of: Leaves) -> Any:
        """The root of the mean of squares of values over the error that is allowed for y."""
        total: Any = 0.0
        for v, *ys in zip(values, *of):
            scale = functools.reduce(ops.maximum, [ops.abs(y) for y in ys])
            share = ops.cast(ops.abs(v) / (self.atol + self.rtol * scale), dt.float64)
            total = total + ops.sum(share * share)  # in float64: squares may be huge
        return ops.cast(ops.sqrt(total / sum(v.size for v in values)), self.end.dtype)

    def _first_length(self, y: Leaves, slope: Leaves, time: Any) -> Any:
        """That of Hairer, Norsett and Wanner, II.4: by how fast y moves, and how that changes."""
        y, slope, rest = *stop_gradient((y, slope)), ops.abs(self.end - time)
        d0, d1 = self._size(y, y), self._size(slope, y)
        slow = (d0 < 1e-5) | (d1 < 1e-5)
        first = ops.where(slow, 1e-6, 0.01 * d0 / ops.where(slow, 1.0, d1))
        first = ops.minimum(first, rest)
        h = first * self.direction
        stepped = self.slope(_stepped(y, h, (1.0,), [slope]), time + h)
        d2 = self._size([a - b for a, b in zip(stepped, slope)], y) / first
        most = ops.maximum(d1, d2)
        flat = most <= 1e-15
        second = (0.01 / ops.where(flat, 1.0, most)) ** 0.2
        second = ops.where(flat, ops.maximum(1e-6, 1e-3 * first), second)
        found = ops.minimum(100 * first, second)
        return stop_gradient(ops.where(found > 0, found, first))


@custom_jvp
def _like(value: Any, other: Any) -> Any:
    """A value, with the derivatives of another one that it is."""
    return value


@_like.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return _like(*primals), tangents[1]


def _stepped(y: Leaves, h: Any, weights: tuple[float, ...], slopes: list[Leaves]) -> Leaves:
    """y + h times the sum of weights * slopes."""
    stepped = []
    for v, *own in zip(y, *slopes):
        total = sum(w * k for w, k in zip(weights, own) if w)
        stepped.append(v + ops.cast(h, dt.real_dtype(v.dtype)) * total)
    return stepped


def _curve(h: Any, slopes: list[Leaves], before: Leaves, after: Leaves) -> list[Leaves]:
    """What :func:`_between` takes of a step."""
    none = [ops.zeros_like(v) for v in before]
    change = [b - a for a, b in zip(before, after)]
    first, last = (_stepped(none, h, (1.0,), [k]) for k in (slopes[0], slopes[-1]))
    bend = [k - c for k, c in zip(first, change)]
    twist = [c - k - b for c, k, b in zip(change, last, bend)]
    return [before, change, bend, twist, _stepped(none, h, BETWEEN, slopes)]


def _between(curve: list[Leaves], part: Any) -> Leaves:
    """y at a part of a step, from 0 to 1."""
    found = []
    for before, change, bend, twist, more in zip(*curve):
        x = ops.cast(part, dt.real_dtype(before.dtype))
        inner = bend + x * (twist + (1 - x) * more)
        found.append(before + x * (change + (1 - x) * inner))
    return found
