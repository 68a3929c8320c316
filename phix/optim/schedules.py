"""Schedules: functions from the number of a step to a rate, as tensors of float32.

The number is an int or an int tensor, so that a schedule is part of a compiled step. Beside
parameters of float64 optimizers compute them in float64: see ``rate_at``.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.errors import ArgumentError, AttributeValueError, described
from phix.core.given import FUNCTIONS, NONE, is_int, named, takes
from phix.optim.base import NUMBER, Schedule, as_tensor

F = TypeVar("F", bound=Callable[..., Any])


def _takes_numbers(function: F) -> F:
    """As ``takes``, and what is a FloatLike is a number that a float can be."""
    kinds = {}
    for name, parameter in inspect.signature(function).parameters.items():
        text = str(parameter.annotation)
        if text.startswith("FloatLike"):
            kinds[name] = NUMBER | NONE if "None" in text else NUMBER
    return takes(**kinds)(function)


class _OfCount:
    """A schedule whose function gets the number of the step as a tensor of the dtype of rates."""

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        self._at = named(name)(functools.partial(_at, function))

    def __call__(self, count: Any) -> Any:
        return self._at(count, dt.float32)

    def at(self, count: Any, dtype: np.dtype) -> Any:
        """The rate in a dtype."""
        return self._at(count, dtype)


def _at(function: Callable[[Any], Any], count: Any, dtype: np.dtype) -> Any:
    step = as_tensor(count)
    if step.ndim or dt.kind(step.dtype) not in ("int", "float"):
        raise ArgumentError(f"the number of a step is one int, found {step.meta}")
    return _rate(function(step.astype(dtype)), dtype)


def _rate(value: Any, dtype: np.dtype) -> Any:
    """A number as a tensor, one of Python with all of its digits."""
    is_python = isinstance(value, (int, float)) and not isinstance(value, np.generic)
    return ops.full((), value, dtype) if is_python else as_tensor(value).astype(dtype)


def rate_at(schedule: Schedule, count: Any, dtype: np.dtype) -> Any:
    """What a schedule gives, in a dtype where it is one of these; others give what they like."""
    return schedule.at(count, dtype) if isinstance(schedule, _OfCount) else schedule(count)


@_takes_numbers
def constant_schedule(value: FloatLike) -> Schedule:
    """The value, at every step.

    >>> import phix
    >>> phix.optim.constant_schedule(0.5)(10).item()
    0.5
    """
    return _OfCount("constant_schedule", lambda count: value)


@_takes_numbers
def polynomial_schedule(
    init_value: FloatLike,
    end_value: FloatLike,
    power: FloatLike,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """(init_value - end_value) * (1 - t / transition_steps) ** power + end_value.

    t is the number of the step less transition_begin, from 0 to transition_steps. Without
    transition_steps (0 or less) it is init_value throughout.

    >>> import phix
    >>> schedule = phix.optim.polynomial_schedule(1.0, 0.0, 2, 10)
    >>> schedule(5).item(), schedule(99).item()
    (0.25, 0.0)
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)
    first: Any = init_value

    def schedule(count: Any) -> Any:
        share = 1 - ops.clip(count - begin, 0.0, float(transition_steps)) / transition_steps
        return (first - end_value) * share**power + end_value

    return _OfCount("polynomial_schedule", schedule)


@_takes_numbers
def linear_schedule(
    init_value: FloatLike, end_value: FloatLike, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From init_value to end_value in equal steps: :func:`polynomial_schedule` with power 1.

    >>> import phix
    >>> phix.optim.linear_schedule(0.0, 1.0, 4)(1).item()
    0.25
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


@_takes_numbers
def cosine_decay_schedule(
    init_value: FloatLike, decay_steps: int, alpha: FloatLike = 0.0, exponent: FloatLike = 1.0
) -> Schedule:
    """init_value * ((1 - alpha) * ((1 + cos(pi * t / decay_steps)) / 2) ** exponent + alpha).

    t is the number of the step, at most decay_steps.

    Raises:
        AttributeValueError: decay_steps is not positive.

    >>> import phix
    >>> round(phix.optim.cosine_decay_schedule(1.0, 10)(5).item(), 6)
    0.5
    """
    if decay_steps <= 0:
        raise AttributeValueError(f"decay_steps must be positive, found {decay_steps}")

    first: Any = init_value
    least: Any = alpha

    def schedule(count: Any) -> Any:
        share = ops.minimum(count, float(decay_steps)) / decay_steps
        wave = 0.5 * (1 + ops.cos(math.pi * share))
        return first * ((1 - least) * wave**exponent + least)

    return _OfCount("cosine_decay_schedule", schedule)


@_takes_numbers
def exponential_decay(
    init_value: FloatLike,
    transition_steps: int,
    decay_rate: FloatLike,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: FloatLike | None = None,
) -> Schedule:
    """init_value * decay_rate ** (t / transition_steps), init_value for t <= 0.

    t is the number of the step less transition_begin; with staircase the exponent is rounded down.
    end_value bounds the decay. Without transition_steps or decay_rate (0) it is init_value.

    >>> import phix
    >>> phix.optim.exponential_decay(1.0, 2, 0.25)(1).item()
    0.5
    """
    if transition_steps <= 0 or (isinstance(decay_rate, (int, float)) and decay_rate == 0):
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)
    rate: Any = decay_rate
    bound = ops.maximum if rate < 1 else ops.minimum

    def schedule(count: Any) -> Any:
        passed = count - begin
        exponent = passed / transition_steps
        if staircase:
            exponent = ops.floor(exponent)
        value = ops.where(passed <= 0, init_value, init_value * rate**exponent)
        return value if end_value is None else bound(value, end_value)

    return _OfCount("exponential_decay", schedule)


def _pairs(name: str, given: Any) -> list[tuple[int, float]]:
    if given is None:
        return []
    if not isinstance(given, dict) or not all(map(is_int, given)):
        raise ArgumentError(
            f"{name}: boundaries_and_scales must be a dict from steps to factors, found "
            f"{described(given)}"
        )
    for scale in given.values():
        if not isinstance(scale, (int, float)) or not scale >= 0:
            raise AttributeValueError(f"{name}: factors must be from 0, found {described(scale)}")
    return sorted(given.items())


@_takes_numbers
def piecewise_constant_schedule(
    init_value: FloatLike, boundaries_and_scales: dict[int, float] | None = None
) -> Schedule:
    """init_value, times the factor of each boundary that the step has reached.

    >>> import phix
    >>> schedule = phix.optim.piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.5})
    >>> schedule(9).item(), schedule(10).item(), schedule(99).item()
    (1.0, 0.5, 0.25)
    """
    steps = _pairs("piecewise_constant_schedule", boundaries_and_scales)

    def schedule(count: Any) -> Any:
        value = _rate(init_value, count.dtype)
        for boundary, scale in steps:
            value = ops.where(count < boundary, value, value * scale)
        return value

    return _OfCount("piecewise_constant_schedule", schedule)


# How far along a way is, by the share of its steps that are behind.
_WAYS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda share: share,
    "cosine": lambda share: 0.5 - 0.5 * ops.cos(math.pi * share),
}


@_takes_numbers
def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: FloatLike,
    boundaries_and_scales: dict[int, float] | None = None,
) -> Schedule:
    """From init_value to init_value times the factor of the first boundary at that step, from there
    to that times the next factor, and so on.

    Args:
        interpolate_type: "linear", or "cosine", by half a cosine.
        init_value: the rate at step 0.
        boundaries_and_scales: a dict from steps to factors; behind the last the rate stays.

    Raises:
        AttributeValueError: the type is another one, or a factor is below 0.

    >>> import phix
    >>> up_and_down = {4: 10.0, 8: 0.0}
    >>> schedule = phix.optim.piecewise_interpolate_schedule("linear", 1.0, up_and_down)
    >>> [schedule(n).item() for n in (0, 2, 4, 6, 9)]
    [1.0, 5.5, 10.0, 5.0, 0.0]
    """
    if interpolate_type not in _WAYS:
        raise AttributeValueError(
            f"piecewise_interpolate_schedule: interpolate_type must be one of {list(_WAYS)}, found "
            f"{described(interpolate_type)}"
        )
    steps = _pairs("piecewise_interpolate_schedule", boundaries_and_scales)

    def schedule(count: Any) -> Any:
        value = end = _rate(init_value, count.dtype)
        begin = 0
        for boundary, scale in steps:
            start, end = end, end * scale
            share = (count - begin) / max(boundary - begin, 1)
            inside = start + (end - start) * _WAYS[interpolate_type](share)
            value = ops.where(count < begin, value, ops.where(count < boundary, inside, end))
            begin = boundary
        return value

    return _OfCount("piecewise_interpolate_schedule", schedule)


def _one_cycle(way: str, transition_steps: int, first: Any, factors: Sequence[Any]) -> Schedule:
    """From the first rate by factors, each with the share of the steps at which it is reached."""
    if transition_steps <= 0:
        raise AttributeValueError(
            f"{way}_onecycle_schedule: transition_steps must be from 1, found {transition_steps}"
        )
    scales = {int(share * transition_steps): factor for share, factor in factors}
    return piecewise_interpolate_schedule(way, first, scales)


@_takes_numbers
def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: FloatLike,
    pct_start: FloatLike = 0.3,
    pct_final: FloatLike = 0.85,
    div_factor: FloatLike = 25.0,
    final_div_factor: FloatLike = 1e4,
) -> Schedule:
    """A line up to peak_value, one down to where it began, and one to almost nothing.

    Args:
        transition_steps: how many steps all take together.
        peak_value: the largest rate; the first is peak_value / div_factor, the last that divided
            by final_div_factor.
        pct_start, pct_final: the shares of the steps at which the first line ends, and the second.

    Raises:
        AttributeValueError: transition_steps is not positive.

    >>> import phix
    >>> schedule = phix.optim.linear_onecycle_schedule(20, 1.0, 0.5, 0.75, 4.0)
    >>> [round(schedule(n).item(), 6) for n in (0, 5, 10, 15)]
    [0.25, 0.625, 1.0, 0.25]
    """
    up: Any = div_factor
    down: Any = final_div_factor
    factors = ((pct_start, up), (pct_final, 1.0 / up), (1, 1.0 / down))
    return _one_cycle("linear", transition_steps, peak_value / up, factors)


@_takes_numbers
def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: FloatLike,
    pct_start: FloatLike = 0.3,
    div_factor: FloatLike = 25.0,
    final_div_factor: FloatLike = 1e4,
) -> Schedule:
    """Half a cosine up to peak_value, and half a one down to almost nothing.

    Args:
        transition_steps: how many steps both take together.
        peak_value: the largest rate; the first is peak_value / div_factor, the last that divided
            by final_div_factor.
        pct_start: the share of the steps at which the way up ends.

    Raises:
        AttributeValueError: transition_steps is not positive.

    >>> import phix
    >>> schedule = phix.optim.cosine_onecycle_schedule(20, 1.0, 0.5, 4.0)
    >>> [round(schedule(n).item(), 6) for n in (0, 5, 10)]
    [0.25, 0.625, 1.0]
    """
    up: Any = div_factor
    factors = ((pct_start, up), (1, 1.0 / (up * final_div_factor)))
    return _one_cycle("cosine", transition_steps, peak_value / up, factors)


def sgdr_schedule(cosine_kwargs: Iterable[dict[str, Any]]) -> Schedule:
    """:func:`warmup_cosine_decay_schedule` again and again, each as its arguments say.

    Args:
        cosine_kwargs: the arguments of each; it takes its ``decay_steps``, then the next begins.

    Raises:
        ArgumentError: an element is no dict with ``decay_steps``.

    >>> import phix
    >>> turns = [dict(init_value=0.0, peak_value=p, warmup_steps=2, decay_steps=10) for p in (1, 2)]
    >>> [round(phix.optim.sgdr_schedule(turns)(n).item(), 6) for n in (2, 6, 11, 12)]
    [1.0, 0.5, 1.0, 2.0]
    """
    turns: list[Any] = list(cosine_kwargs) if isinstance(cosine_kwargs, Iterable) else [None]
    for turn in turns:
        if not isinstance(turn, dict) or "decay_steps" not in turn:
            raise ArgumentError(
                "sgdr_schedule: cosine_kwargs must be dicts of the arguments of "
                f"warmup_cosine_decay_schedule, found {described(turn)}"
            )
    ends = list(itertools.accumulate(turn["decay_steps"] for turn in turns))
    return join_schedules([warmup_cosine_decay_schedule(**turn) for turn in turns], ends[:-1])


@takes(schedules=FUNCTIONS)
def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Each schedule from its boundary on, with steps counted from there.

    Args:
        schedules: functions of the number of the step.
        boundaries: where all but the first begin, one fewer than schedules.

    Raises:
        ArgumentError: the numbers do not fit.

    >>> import phix
    >>> parts = [phix.optim.constant_schedule(1.0), phix.optim.linear_schedule(1.0, 0.0, 4)]
    >>> phix.optim.join_schedules(parts, [10])(12).item()
    0.5
    """
    parts = list(schedules)
    ends = list(boundaries) if isinstance(boundaries, (list, tuple)) else None
    if not parts or ends is None or len(ends) != len(parts) - 1:
        raise ArgumentError(
            f"join_schedules: {len(parts)} schedules take a list of {max(len(parts) - 1, 0)} "
            f"boundaries, found {described(boundaries)}"
        )

    def schedule(count: Any) -> Any:
        def rate(part: Schedule, since: Any) -> Any:
            return _rate(rate_at(part, since, count.dtype), count.dtype)

        value = rate(parts[0], count)
        for boundary, part in zip(ends, parts[1:]):
            value = ops.where(count < boundary, value, rate(part, count - boundary))
        return value

    return _OfCount("join_schedules", schedule)


@_takes_numbers
def warmup_constant_schedule(
    init_value: FloatLike, peak_value: FloatLike, warmup_steps: int
) -> Schedule:
    """From init_value to peak_value in warmup_steps equal steps, where it stays.

    >>> import phix
    >>> phix.optim.warmup_constant_schedule(0.0, 1.0, 4)(2).item()
    0.5
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


@_takes_numbers
def warmup_cosine_decay_schedule(
    init_value: FloatLike,
    peak_value: FloatLike,
    warmup_steps: int,
    decay_steps: int,
    end_value: FloatLike = 0.0,
    exponent: FloatLike = 1.0,
) -> Schedule:
    """A linear way up to peak_value, and half a cosine down to end_value.

    Args:
        init_value, peak_value, end_value: the rates at the begin, after warmup_steps, and after
            decay_steps.
        warmup_steps: how many steps the way up takes.
        decay_steps: how many steps both take together.
        exponent: the power of the cosine.

    Raises:
        AttributeValueError: decay_steps is not larger than warmup_steps.

    >>> import phix
    >>> schedule = phix.optim.warmup_cosine_decay_schedule(0.0, 1.0, 2, 10)
    >>> [round(schedule(n).item(), 6) for n in (1, 2, 6, 10)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if decay_steps <= warmup_steps:
        raise AttributeValueError(
            f"decay_steps must be larger than warmup_steps, found {decay_steps} and {warmup_steps}"
        )
    peak: Any = peak_value
    alpha = 0.0 if peak == 0.0 else end_value / peak
    parts = [
        linear_schedule(init_value, peak_value, warmup_steps),
        cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent),
    ]
    return join_schedules(parts, [warmup_steps])


@_takes_numbers
def warmup_exponential_decay_schedule(
    init_value: FloatLike,
    peak_value: FloatLike,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: FloatLike,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: FloatLike | None = None,
) -> Schedule:
    """A linear way up to peak_value, then :func:`exponential_decay` from there.

    >>> import phix
    >>> phix.optim.warmup_exponential_decay_schedule(0.0, 1.0, 2, 2, 0.25)(3).item()
    0.5
    """
    decay = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), decay],
                          [warmup_steps])  # fmt: skip
