"""Steps of solvers of y' = f(t, y) through given times: what all methods have in common."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.api.custom import stop_gradient
from phix.core import dtypes as dt
from phix.core import pytrees

Leaves = list[Any]


class Counts(NamedTuple):
    """How much work there was, int32 each."""

    nfev: Any  # calls of f for the steps
    njev: Any  # Jacobians
    nlu: Any  # factorisations of matrices


class Solver(ABC):
    """Steps of one method. A tree says how far they are, see ``begun``; ``step`` tries one more.

    It has at least ``time``, ``y`` and ``slope`` there, the ``length`` of the next step, from 0;
    ``begin`` and ``taken``, where the last step began and how long it was, below 0 backwards; and
    ``tried``, steps on the way to the time that is asked for: ``mxstep`` if it cannot be reached.
    """

    order: int  # of the estimate of the error

    def __init__(
        self, slope: Callable[[Leaves, Any], Leaves], times: Any, rtol: float, atol: Any,
        hmax: Any, mxstep: int,
    ) -> None:  # fmt: skip
        self.slope, self.times, self.begin = slope, times, times[0]
        # when steps are taken is settled, but that all of them come later where the first time does
        self.fixed = stop_gradient(times)
        self.shift, self.end = self.begin - self.fixed[0], self.fixed[-1]
        self.rtol, self.atol, self.mxstep = rtol, atol, min(mxstep, 2**31 - 1)
        self.longest = math.inf if hmax is None else float(hmax)
        self.direction = ops.where(self.end < self.fixed[0], -1.0, ops.ones_like(self.end))

    @abstractmethod
    def begun(self, y: Leaves, h0: Any) -> Any:
        """Where it begins; ``h0`` is the length of the first step, or None."""

    @abstractmethod
    def step(self, at: Any) -> Any:
        """One step more, or a shorter one to try where its error is too large."""

    @abstractmethod
    def between(self, at: Any, part: Any) -> Leaves:
        """y at a part of the last step, from 0 to 1."""

    @abstractmethod
    def counts(self, at: Any, h0: Any) -> Counts:
        """The work up to here."""

    def is_before(self, at: Any, time: Any) -> Any:
        """Whether steps are to be taken to come to a time."""
        return ((time - at.time) * self.direction > 0) & (at.tried < self.mxstep)

    def at(self, at: Any, asked: Any) -> Leaves:
        """y at a time within the last step, or NaN if it was not reached."""
        y = self.between(at, (asked - self.shift - at.begin) / at.taken)
        is_there = (stop_gradient(asked) - at.time) * self.direction <= 0
        return [ops.where(is_there, v, math.nan) for v in y]

    def checked(self, y: Leaves, found: Leaves) -> Leaves:
        """y at all times, of those behind the first; NaN where they are in no order."""
        in_order = ops.all((self.fixed[1:] - self.fixed[:-1]) * self.direction >= 0)
        found = [ops.where(in_order, v, math.nan) for v in found]
        return [ops.concat([ops.unsqueeze(a, [0]), b], 0) for a, b in zip(y, found)]

    def size(self, values: Leaves, *of: Leaves) -> Any:
        """The root of the mean of squares of values over the error that is allowed for y."""
        total: Any = 0.0
        for v, *ys in zip(values, *of):
            scale = functools.reduce(ops.maximum, [ops.abs(y) for y in ys])
            share = ops.cast(ops.abs(v) / (self.atol + self.rtol * scale), dt.float64)
            total = total + ops.sum(share * share)  # in float64: squares may be huge
        return ops.cast(ops.sqrt(total / sum(v.size for v in values)), self.end.dtype)

    def first_length(self, y: Leaves, slope: Leaves, time: Any) -> Any:
        """That of Hairer, Norsett and Wanner, II.4: by how fast y moves, and how that changes."""
        y, slope, rest = *stop_gradient((y, slope)), ops.abs(self.end - time)
        d0, d1 = self.size(y, y), self.size(slope, y)
        slow = (d0 < 1e-5) | (d1 < 1e-5)
        first = ops.where(slow, 1e-6, 0.01 * d0 / ops.where(slow, 1.0, d1))
        first = ops.minimum(first, rest)
        h = first * self.direction
        later = self.slope(stepped(y, h, (1.0,), [slope]), time + h)
        d2 = self.size([a - b for a, b in zip(later, slope)], y) / first
        most = ops.maximum(d1, d2)
        flat = most <= 1e-15
        second = (0.01 / ops.where(flat, 1.0, most)) ** (1 / (self.order + 1))
        second = ops.where(flat, ops.maximum(1e-6, 1e-3 * first), second)
        found = ops.minimum(ops.minimum(100 * first, second), ops.minimum(rest, self.longest))
        return stop_gradient(ops.where(found > 0, found, first))


def stepped(y: Leaves, h: Any, weights: tuple[float, ...], slopes: list[Leaves]) -> Leaves:
    """y + h times the sum of weights * slopes."""
    after = []
    for v, *own in zip(y, *slopes):
        total = sum(w * k for w, k in zip(weights, own) if w)
        after.append(v + ops.cast(h, dt.real_dtype(v.dtype)) * total)
    return after


def chosen(which: Any, a: Any, b: Any) -> Any:
    """The leaves of one of two trees."""
    return pytrees.map(lambda x, y: ops.where(which, x, y), a, b)
