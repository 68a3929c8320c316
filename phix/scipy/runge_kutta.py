"""Steps of Runge and Kutta whose length follows their error, as loops of phix, with derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import scan, while_loop
from phix.api.custom import stop_gradient
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.scipy.runge_kutta_formulas import RK45, Formula
from phix.scipy.smoothness import like
from phix.scipy.steps import Counts, Leaves, Solver, chosen, stepped

# The length of a step is changed by so much at most, and aims a little below the tolerance.
_LEAST_FACTOR, _MOST_FACTOR, _SAFETY = 0.2, 10.0, 0.9
# The shortest step, in units of the last place of the time.
_SHORTEST = 10.0


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
    count: Any  # steps on the whole way
    refused: Any  # whether the last step was


class RungeKutta(Solver):
    """Explicit steps: all that they need of f is its values."""

    def __init__(self, *settings: Any, formula: Formula = RK45) -> None:
        super().__init__(*settings)
        self.formula, self.order = formula, formula.order

    def solve(self, y: Leaves, h0: Any) -> Leaves:
        """The leaves of y at all times, [n, ...]."""
        _, found = scan(self._reach, self.begun(y, h0), self.times[1:])
        return self.checked(y, found)

    def begun(self, y: Leaves, h0: Any) -> Progress:
        """Where it begins."""
        time = self.fixed[0]
        slope = self.slope(y, self.begin)
        length = ops.full_like(time, h0) if h0 else self.first_length(y, slope, time)
        none, count = [ops.zeros_like(v) for v in y], ops.full((), 0, dt.int32)
        # times equal to the first have a slope, too
        curve = [y, slope, *[none] * (2 + len(self.formula.between))]
        refused = ops.full((), False, dt.bool_)
        return Progress(
            time, y, slope, length, time, ops.ones_like(time), curve, count, count, refused
        )

    def _reach(self, at: Progress, asked: Any) -> tuple[Progress, Leaves]:
        """As many steps as it takes to a time, and y there."""
        time = stop_gradient(asked)

        at = while_loop(lambda at: self.is_before(at, time), self.step, at)
        is_there = (time - at.time) * self.direction <= 0
        after = at._replace(tried=ops.cast(ops.where(is_there, 0, self.mxstep), dt.int32))
        return after, self.at(at, asked)

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
        new = at._replace(
            time=after, y=y, slope=slopes[len(self.formula.a)], begin=at.time, taken=h, curve=curve
        )
        kept = chosen(good, new, at)
        is_stuck = ~good & ~(length > shortest)  # nor a NaN, which y is then
        tried = ops.cast(ops.where(is_stuck, self.mxstep, at.tried + 1), dt.int32)
        length = self._next_length(length, error)
        return kept._replace(length=length, tried=tried, count=at.count + 1, refused=~good)

    def between(self, at: Progress, part: Any) -> Leaves:
        return _between(at.curve, part)

    def counts(self, at: Progress, h0: Any) -> Counts:
        none = ops.zeros_like(at.count)
        return Counts(len(self.formula.a) * at.count + (1 if h0 else 2), none, none)

    def _stages(self, y: Leaves, slope: Leaves, time: Any, h: Any) -> tuple[list[Leaves], Leaves]:
        """The slopes of a step, and y behind it."""
        slopes, after, formula = [slope], y, self.formula
        for weights, c in zip(formula.a, formula.c):
            after = stepped(y, h, weights, slopes)
            slopes.append(self.slope(after, time + c * h))
        for weights, c in zip(formula.more, formula.later):
            slopes.append(self.slope(stepped(y, h, weights, slopes), time + c * h))
        return slopes, after

    def _error(self, h: Any, slopes: list[Leaves], before: Leaves, after: Leaves) -> Any:
        """The error of a step over what is allowed; NaN where there is one in y."""
        none = [ops.zeros_like(v) for v in before]
        first, *others = [
            self.size(stepped(none, h, weights, slopes), before, after)
            for weights in self.formula.errors
        ]
        for other in others:
            size = ops.sqrt(first * first + 0.01 * other * other)
            first = ops.where(size == 0, 0.0, first * (first / ops.where(size == 0, 1.0, size)))
        return stop_gradient(first)

    def _next_length(self, length: Any, error: Any) -> Any:
        factor = _SAFETY * ops.maximum(error, 1e-10) ** (-1.0 / (self.order + 1))
        factor = ops.clip(factor, _LEAST_FACTOR, _MOST_FACTOR)
        return length * ops.where(ops.isnan(error), _LEAST_FACTOR, factor)


class RungeKuttaHeld(RungeKutta):
    """After a step that was refused, the next one is not longer than it is, as in SciPy."""

    def step(self, at: Progress) -> Progress:
        after = super().step(at)
        held = at.refused & ~after.refused
        length = ops.where(held, ops.minimum(after.length, ops.abs(after.taken)), after.length)
        return after._replace(length=length)


def _curve(
    h: Any, slopes: list[Leaves], before: Leaves, after: Leaves, formula: Formula
) -> list[Leaves]:
    """What :func:`_between` takes of a step."""
    none = [ops.zeros_like(v) for v in before]
    change = [b - a for a, b in zip(before, after)]
    first, last = (stepped(none, h, (1.0,), [slopes[i]]) for i in (0, len(formula.a)))
    bend = [k - c for k, c in zip(first, change)]
    twist = [c - k - b for c, k, b in zip(change, last, bend)]
    more = [stepped(none, h, weights, slopes) for weights in formula.between]
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
