"""Transformations that scale updates by a rate, and sums and means of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError
from phix.core.given import NONE, takes
from phix.optim.base import (
    NUMBER,
    RATE,
    GradientTransformationExtraArgs,
    RateLike,
    Schedule,
    Unbias,
    mapped,
    mean_of,
    needed,
    no_steps,
    number,
    of_shape,
    one_more,
    pair,
    root,
    split,
    square,
    stateless,
    to_dtype,
    wide,
    widest,
    zeros,
)
from phix.optim.schedules import rate_at


class ScaleByRpropState(NamedTuple):
    """How far each weight goes, and where it went last."""

    step_sizes: Any
    prev_updates: Any


class ScaleByScheduleState(NamedTuple):
    """How many steps were made."""

    count: Any


class TraceState(NamedTuple):
    """The decaying sum of updates."""

    trace: Any


class EmaState(NamedTuple):
    """How many steps were made, and the running mean."""

    count: Any
    ema: Any


def _times(rate: Any, update: Any) -> Any:
    return to_dtype(wide(update) * number(rate, update.dtype), update.dtype)


@takes(step_size=NUMBER)
def scale(step_size: float) -> GradientTransformationExtraArgs:
    """step_size * update.

    >>> import phix
    >>> phix.optim.scale(-0.5).update([phix.ones([1])], phix.optim.EmptyState())[0][0].tolist()
    [-0.5]
    """
    return stateless(
        "scale", lambda updates, params: mapped(lambda u: _times(step_size, u), updates)
    )


@takes()
def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformationExtraArgs:
    """step_size_fn(number of the step, from 0) * update.

    >>> import phix
    >>> tx = phix.optim.scale_by_schedule(lambda count: 1.0 + count)
    >>> g = [phix.ones([1])]
    >>> _, state = tx.update(g, tx.init(g))
    >>> tx.update(g, state)[0][0].tolist()
    [2.0]
    """
    if not callable(step_size_fn):
        raise ArgumentError("scale_by_schedule: step_size_fn must be a function of the step")

    return _scaled("scale_by_schedule", step_size_fn, 1)


def _scaled(name: str, schedule: Schedule, sign: int) -> GradientTransformationExtraArgs:
    def init(params: Any) -> ScaleByScheduleState:
        return ScaleByScheduleState(no_steps())

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        rate = sign * rate_at(schedule, state.count, widest(updates))
        new = ScaleByScheduleState(one_more(state.count))
        return mapped(lambda u: _times(rate, u), updates), new

    return pair(name, init, update)


@takes(learning_rate=RATE | NONE)
def scale_by_learning_rate(
    learning_rate: RateLike | None = None, *, flip_sign: bool = True
) -> GradientTransformationExtraArgs:
    """-learning_rate * update, with the rate a number or a schedule, None 1; + if not flip_sign.

    >>> import phix
    >>> tx = phix.optim.scale_by_learning_rate(0.5)
    >>> tx.update([phix.ones([1])], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """
    sign = -1 if flip_sign else 1
    learning_rate = 1.0 if learning_rate is None else learning_rate
    if callable(learning_rate):
        return _scaled("scale_by_learning_rate", learning_rate, sign)
    return scale(sign * learning_rate)  # type: ignore[arg-type]


@takes(learning_rate=NUMBER, eta_minus=NUMBER, eta_plus=NUMBER, min_step_size=NUMBER,
       max_step_size=NUMBER)  # fmt: skip
def scale_by_rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> GradientTransformationExtraArgs:
    """sign(g) times how far each weight goes, which grows by eta_plus while the sign stays.

    Where it changes, that shrinks by eta_minus and the weight rests for a step. (M. Riedmiller and
    H. Braun, 1993, without weights going back; optax's gives each step one call late.)

    >>> import phix
    >>> tx = phix.optim.scale_by_rprop(0.5)
    >>> tx.update([phix.full([1], -4.0)], tx.init([phix.ones([1])]))[0][0].tolist()
    [-0.5]
    """

    def init(params: Any) -> ScaleByRpropState:
        return ScaleByRpropState(zeros(params, value=learning_rate), zeros(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        def one(g: Any, size: Any, before: Any) -> Any:
            size = of_shape(size, g)
            same = ops.sign(wide(g)) * ops.sign(wide(before))
            low, high, less, more = (
                number(n, g.dtype) for n in (min_step_size, max_step_size, eta_minus, eta_plus)
            )
            # not by a factor: a choice of two numbers of Python would be float32
            moved = ops.where(same > 0, wide(size) * more, wide(size) * less)
            changed = ops.minimum(ops.maximum(moved, low), high)
            new = ops.where(same == 0, wide(size), changed)
            step = ops.where(same < 0, 0.0, new * ops.sign(wide(g)))
            return to_dtype(step, g.dtype), to_dtype(new, size.dtype), to_dtype(step, before.dtype)

        out, sizes, steps = split(3, one, updates, state.step_sizes, state.prev_updates)
        return out, ScaleByRpropState(sizes, steps)

    return pair("scale_by_rprop", init, update)


@takes(min_norm=NUMBER, trust_coefficient=NUMBER, eps=NUMBER)
def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> GradientTransformationExtraArgs:
    """update * trust_coefficient * norm(parameter) / (norm(update) + eps), a leaf at a time.

    Norms are min_norm at least; where one is 0, the update stays. update needs the parameters.

    >>> import phix
    >>> tx = phix.optim.scale_by_trust_ratio()
    >>> tx.update([phix.full([1], 4.0)], tx.init([]), [phix.full([1], 2.0)])[0][0].tolist()
    [2.0]
    """

    def norm(x: Any) -> Any:
        size = root(ops.sum(square(wide(x))))
        return ops.maximum(size, number(min_norm, size.dtype))

    def scaled(u: Any, p: Any) -> Any:
        own, other = norm(u), norm(p)
        is_told = (own != 0) & (other != 0)
        ratio = number(trust_coefficient, u.dtype) * other / (own + number(eps, u.dtype))
        return to_dtype(wide(u) * ops.where(is_told, ratio, 1.0), u.dtype)

    return stateless(
        "scale_by_trust_ratio", lambda updates, params: mapped(scaled, updates, needed(params))
    )


@takes(decay=NUMBER)
def trace(
    decay: float, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformationExtraArgs:
    """t = g + decay * t, a decaying sum; g + decay * t with the new t if nesterov.

    accumulator_dtype is what t is kept in; None: the dtype of the parameter.

    >>> import phix
    >>> tx = phix.optim.trace(0.5)
    >>> g = [phix.ones([1])]
    >>> _, state = tx.update(g, tx.init(g))
    >>> tx.update(g, state)[0][0].tolist()
    [1.5]
    """

    def init(params: Any) -> TraceState:
        return TraceState(zeros(params, accumulator_dtype))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        def one(g: Any, t: Any) -> Any:
            t = of_shape(t, g)
            d = number(decay, g.dtype)
            new = wide(g) + d * wide(t)
            out = wide(g) + d * new if nesterov else new
            return to_dtype(out, g.dtype), to_dtype(new, t.dtype)

        out, sums = split(2, one, updates, state.trace)
        return out, TraceState(sums)

    return pair("trace", init, update)


@takes(decay=NUMBER)
def ema(
    decay: float, debias: bool = True, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformationExtraArgs:
    """The running mean m of updates, decay * m + (1 - decay) * g, by 1 - decay ** n if debias.

    accumulator_dtype is what it is kept in; None: the dtype of the parameter.

    >>> import phix
    >>> tx = phix.optim.ema(0.5)
    >>> g = [phix.full([1], 4.0)]
    >>> tx.update(g, tx.init(g))[0][0].tolist()
    [4.0]
    """

    def init(params: Any) -> EmaState:
        return EmaState(no_steps(), zeros(params, accumulator_dtype))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        mean = mapped(lambda g, m: mean_of(decay, m, wide(g)), updates, state.ema)
        count = one_more(state.count)
        unbias: Callable[[Any], Any] = Unbias(decay, count) if debias else (lambda x: x)
        out = mapped(lambda g, m: to_dtype(unbias(m), g.dtype), updates, mean)
        return out, EmaState(count, mapped(lambda n, o: to_dtype(n, o.dtype), mean, state.ema))

    return pair("ema", init, update)
