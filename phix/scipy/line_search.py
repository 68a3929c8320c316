"""A search along a line for a step that satisfies Wolfe's conditions, as one loop.

The step lies between ``low``, the best that is known to lower the function enough, and ``high``,
which is infinite until a bound is found; each round tries one step between them, or a larger one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import while_loop
from phix.core import dtypes as dt

_DECREASE = 1e-4  # of the slope: how far the function must fall
_NOISE = 32  # in roundings of the value: what falls by less is judged by its slope
_GROWTH = 4.0
_MARGIN = 0.1  # of the interval, at each end


class Trial(NamedTuple):
    """A step that has been tried: its length, the value there, the slope, and the gradient."""

    length: Any
    value: Any
    slope: Any
    gradient: Any


class Search(NamedTuple):
    """What the loop carries."""

    low: Trial
    high: Trial
    trial: Any
    count: Any
    is_done: Any


def search(
    function: Callable[[Any], tuple[Any, Any]],
    x: Any,
    direction: Any,
    value: Any,
    gradient: Any,
    first: Any,
    curvature: float,
    most: int,
) -> tuple[Trial, Any, Any]:
    """A step from x, how often the function was evaluated, and whether there was one at all.

    ``function`` gives value and gradient; ``first`` is the step tried first; ``curvature`` is how
    much of the slope at x may be left at the step.
    """
    start = Trial(ops.zeros_like(value), value, ops.sum(direction * gradient), gradient)
    infinite = ops.full_like(value, math.inf)
    bound = Trial(infinite, infinite, infinite, ops.zeros_like(gradient))
    no = ops.full((), False, dt.bool_)
    begin = Search(start, bound, first, ops.full((), 0, dt.int32), no)

    def body(at: Search) -> Search:
        new = _tried(function, x, direction, at.trial)
        falls = new.value <= value + _DECREASE * new.length * start.slope
        flat = ops.abs(new.slope) <= -curvature * start.slope
        is_done = flat & ((falls & (new.value < at.low.value)) | _is_level(new, start))
        is_bound = ~is_done & (~falls | (new.value >= at.low.value))
        # the minimum is on the side of the old low step, which bounds it from now on
        turns = ~is_done & ~is_bound & (new.slope * (at.high.length - at.low.length) >= 0)
        high = _chosen(is_bound, new, _chosen(turns, at.low, at.high))
        low = _chosen(is_bound, at.low, new)
        return Search(low, high, _between(low, high), at.count + 1, is_done)

    end = while_loop(lambda at: (at.count < most) & ~at.is_done, body, begin)
    return end.low, end.count, end.is_done | (end.low.value < value)


def _tried(function: Any, x: Any, direction: Any, length: Any) -> Trial:
    """The step of a length; where anything is not finite, the value is infinite."""
    value, gradient = function(x + length * direction)
    slope = ops.sum(direction * gradient)
    known = ops.isfinite(value) & ops.isfinite(slope)
    return Trial(
        length,
        ops.where(known, value, math.inf),
        ops.where(known, slope, math.inf),
        gradient,
    )


def _is_level(new: Trial, start: Trial) -> Any:
    """Whether the values differ by roundings alone, and the slope says that the function fell."""
    noise = _NOISE * float(np.finfo(start.value.dtype).eps) * ops.abs(start.value)
    fell = new.slope <= (2 * _DECREASE - 1) * start.slope
    return (ops.abs(new.value - start.value) <= noise) & fell


def _chosen(which: Any, yes: Trial, no: Trial) -> Trial:
    return Trial(*(ops.where(which, a, b) for a, b in zip(yes, no)))


def _between(low: Trial, high: Trial) -> Any:
    """The next step: a larger one, or where the cubic through both ends is least."""
    is_open = ops.isinf(high.length)
    width = ops.where(is_open, 1.0, high.length - low.length)
    known = ops.isfinite(high.value) & ~is_open
    # in t = (a - low) / width the slopes are these, and the cubic's derivative is
    # fall + 2 b t + 3 c t^2, whose upper root is where the cubic is least
    fall, end = low.slope * width, ops.where(known, high.slope, 0.0) * width
    rise = ops.where(known, high.value - low.value, 0.0)
    b, c = 3 * rise - 2 * fall - end, fall + end - 2 * rise
    root = ops.sqrt(ops.maximum(b * b - 3 * c * fall, 0.0))
    is_bowl = b > 0  # which way of writing the root cancels nothing
    inner = ops.where(is_bowl, -fall, root - b) / ops.where(is_bowl, b + root, 3 * c)
    t = ops.where(known & ops.isfinite(inner), ops.clip(inner, _MARGIN, 1 - _MARGIN), 0.5)
    return ops.where(is_open, _GROWTH * low.length, low.length + t * width)
