"""Steps of Runge and Kutta whose length follows their error, as loops of phix, with derivatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import scan, while_loop
from phix.api.custom import stop_gradient
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.scipy.runge_kutta_formulas import RK45, Formula
from phix.scipy.smoothness import like

# The length of a step is changed by so much at most, and aims a little below the tolerance.
_LEAST_FACTOR, _MOST_FACTOR, _SAFETY = 0.2, 10.0, 0.9
# The shortest step, in units of the last place of the time.
_SHORTEST = 10.0

Leaves = list[Any]


class Progress(NamedTuple):
    """How far the steps are."""

    time: Any
    y: Leaves
    slope: Leaves  # the last one of a step is the first of the next
    length: Any  # of the next step, from 0
    begin: Any  # where the last step began, how long it was, backwards below 0, ...
    taken: Any
    curve: list[Leaves]  # ... and the polynomial that y is over it, see _between
    tried: Any  # steps on the way to the time that is asked for; mxstep: it cannot be reached


class Solver:
    """Steps that go through all times, and y at each."""

    def __init__(
        self, slope: Callable[[Leaves, Any], Leaves], times: Any, rtol: float, atol: Any,
        hmax: Any, mxstep: int, formula: Formula = RK45,
    ) -> None:  # fmt: skip
        self.formula = formula
        self.slope, self.times, self.begin = slope, times, times[0]
        # when steps are taken is settled, but that all of them come later where the first time does
        self.fixed = stop_gradient(times)
        self.shift, self.end = self.begin - self.fixed[0], self.fixed[-1]
        self.rtol, self.atol, self.mxstep = rtol, atol, min(mxstep, 2**31 - 1)
        self.longest = math.inf if hmax is None else float(hmax)
        self.direction = ops.where(self.end < self.fixed[0], -1.0, ops.ones_like(self.end))

    def solve(self, y: Leaves, h0: Any) -> Leaves:
        """The leaves of y at all times, [n, ...]."""
        _, found = scan(self._reach, self.begun(y, h0), self.times[1:])
        return self.checked(y, found)

    def begun(self, y: Leaves, h0: Any) -> Progress:
        """Where it begins."""
        time = self.fixed[0]
        slope = self.slope(y, self.begin)
        length = ops.full_like(time, h0) if h0 else self._first_length(y, slope, time)
        none, count = [ops.zeros_like(v) for v in y], ops.full((), 0, dt.int32)
        # times equal to the first have a slope, too
        curve = [y, slope, *[none] * (2 + len(self.formula.between))]
        return Progress(time, y, slope, length, time, ops.ones_like(time), curve, count)

    def checked(self, y: Leaves, found: Leaves) -> Leaves:
        """y at all times, of those behind the first; NaN where they are in no order."""
        in_order = ops.all((self.fixed[1:] - self.fixed[:-1]) * self.direction >= 0)
        found = [ops.where(in_order, v, math.nan) for v in found]
        return [ops.concat([ops.unsqueeze(a, [0]), b], 0) for a, b in zip(y, found)]

    def _reach(self, at: Progress, asked: Any) -> tuple[Progress, Leaves]:
        """As many steps as it takes to a time, and y there."""
        time = stop_gradient(asked)

        at = while_loop(lambda at: self.is_before(at, time), self.step, at)
        is_there = (time - at.time) * self.direction <= 0
        after = at._replace(tried=ops.cast(ops.where(is_there, 0, self.mxstep), dt.int32))
        return after, self.at(at, asked)

    def is_before(self, at: Progress, time: Any) -> Any:
        """Whether steps are to be taken to come to a time."""
        return ((time - at.time) * self.direction > 0) & (at.tried < self.mxstep)

    def at(self, at: Progress, asked: Any) -> Leaves:
        """y at a time within the last step, or NaN if it was not reached."""
        y = _between(at.curve, (asked - self.shift - at.begin) / at.taken)
        is_there = (stop_gradient(asked) - at.time) * self.direction <= 0
        return [ops.where(is_there, v, math.nan) for v in y]

    def step(self, at: Progress) -> Progress:
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
        again = self._stages(at.y, at.slope, at.time + self.shift, ops.where(good, h, 0.0))
        slopes, y = pytrees.map(like, (slopes, y), again)
        curve = _curve(h, slopes, at.y, y, self.formula)
        new = Progress(after, y, slopes[len(self.formula.a)], length, at.time, h, curve, at.tried)
        kept = pytrees.map(lambda a, b: ops.where(good, a, b), new, at)
        is_stuck = ~good & ~(length > shortest)  # nor a NaN, which y is then
        tried = ops.cast(ops.where(is_stuck, self.mxstep, at.tried + 1), dt.int32)
        return kept._replace(length=self._next_length(length, error), tried=tried)

    def _stages(self, y: Leaves, slope: Leaves, time: Any, h: Any) -> tuple[list[Leaves], Leaves]:
        """The slopes of a step, and y behind it."""
        slopes, after, formula = [slope], y, self.formula
        for weights, c in zip(formula.a, formula.c):
            after = _stepped(y, h, weights, slopes)
            slopes.append(self.slope(after, time + c * h))
        for weights, c in zip(formula.more, formula.later):
            slopes.append(self.slope(_stepped(y, h, weights, slopes), time + c * h))
        return slopes, after

    def _error(self, h: Any, slopes: list[Leaves], before: Leaves, after: Leaves) -> Any:
        """The error of a step over what is allowed; NaN where there is one in y."""
        none = [ops.zeros_like(v) for v in before]
        first, *others = [
            self._size(_stepped(none, h, weights, slopes), before, after)
            for weights in self.formula.errors
        ]
        for other in others:
            size = ops.sqrt(first * first + 0.01 * other * other)
            first = ops.where(size == 0, 0.0, first * (first / ops.where(size == 0, 1.0, size)))
        return stop_gradient(first)

    def _next_length(self, length: Any, error: Any) -> Any:
        factor = _SAFETY * ops.maximum(error, 1e-10) ** self._root()
        factor = ops.clip(factor, _LEAST_FACTOR, _MOST_FACTOR)
        return length * ops.where(ops.isnan(error), _LEAST_FACTOR, factor)

    def _root(self) -> float:
        return -1.0 / (self.formula.order + 1)

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
        second = (0.01 / ops.where(flat, 1.0, most)) ** -self._root()
        second = ops.where(flat, ops.maximum(1e-6, 1e-3 * first), second)
        found = ops.minimum(100 * first, second)
        return stop_gradient(ops.where(found > 0, found, first))


def _stepped(y: Leaves, h: Any, weights: tuple[float, ...], slopes: list[Leaves]) -> Leaves:
    """y + h times the sum of weights * slopes."""
    stepped = []
    for v, *own in zip(y, *slopes):
        total = sum(w * k for w, k in zip(weights, own) if w)
        stepped.append(v + ops.cast(h, dt.real_dtype(v.dtype)) * total)
    return stepped


def _curve(
    h: Any, slopes: list[Leaves], before: Leaves, after: Leaves, formula: Formula
) -> list[Leaves]:
    """What :func:`_between` takes of a step."""
    none = [ops.zeros_like(v) for v in before]
    change = [b - a for a, b in zip(before, after)]
    first, last = (_stepped(none, h, (1.0,), [slopes[i]]) for i in (0, len(formula.a)))
    bend = [k - c for k, c in zip(first, change)]
    twist = [c - k - b for c, k, b in zip(change, last, bend)]
    more = [_stepped(none, h, weights, slopes) for weights in formula.between]
    return [before, change, bend, twist, *more]


def _between(curve: list[Leaves], part: Any) -> Leaves:
    """y at a part x of a step, from 0 to 1: v0 + x (v1 + (1 - x) (v2 + x (v3 + ...)))."""
    found = []
    for before, *rest in zip(*curve):
        x = ops.cast(part, dt.real_dtype(before.dtype))
        inner = rest[-1]
        for place in range(len(rest) - 2, -1, -1):
            inner = rest[place] + (x if place % 2 else 1 - x) * inner
        found.append(before + x * inner)
    return found
