"""A search along the updates for a length that satisfies Wolfe's conditions, under optax's names.

One loop, a trial a round: while no interval is known the trials grow; then they lie between its
ends, where a cubic, else a parabola through known values has its minimum, else in the middle.
J. Nocedal and S. Wright, "Numerical Optimization", algorithms 3.5 and 3.6; the weaker condition on
the decrease is that of W. Hager and H. Zhang, 2005.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.api.branches import cond
from phix.api.control_flow import while_loop
from phix.api.gradients import value_and_grad
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DTypeError
from phix.core.given import FUNCTION, NONE, at_least, one_of, takes
from phix.core.records import dataclass
from phix.optim.base import (
    NO_TREE,
    NUMBER,
    GradientTransformationExtraArgs,
    as_tensor,
    mapped,
    needed,
    pair,
    to_dtype,
    wide,
    zeros,
)


class ZoomLinesearchInfo(NamedTuple):
    """What is told of a search: its trials, and by how much the conditions were missed."""

    num_linesearch_steps: Any
    decrease_error: Any
    curvature_error: Any


class ScaleByZoomLinesearchState(NamedTuple):
    """The length found last, the value and the gradient there, and what is told of the search."""

    learning_rate: Any
    value: Any
    grad: Any
    info: ZoomLinesearchInfo


class Point(NamedTuple):
    """A length that was tried, the value there and the slope."""

    length: Any
    value: Any
    slope: Any


class Search(NamedTuple):
    """What the loop carries; ``safe`` is the best length that satisfies the first condition."""

    count: Any
    low: Point
    high: Point
    other: Point
    last: Point
    grad: Any
    safe: Point
    safe_grad: Any
    decrease: Any
    curvature: Any
    has_interval: Any
    done: Any
    failed: Any


@dataclass(frozen=True)
class Settings:
    """Those of :func:`scale_by_zoom_linesearch`."""

    most: int
    longest: Any
    tol: Any
    growth: Any
    decrease: Any
    curvature: Any
    approximate: Any
    shortest: Any


def dot(a: Any, b: Any) -> Any:
    """The sum of the products of the elements of two trees."""
    total: Any = 0.0
    for part in pytrees.leaves(mapped(lambda x, y: ops.sum(wide(x) * wide(y)), a, b)):
        total = total + part
    return as_tensor(total)


def chosen(which: Any, a: Any, b: Any) -> Any:
    """One of two trees."""
    return pytrees.map(lambda x, y: ops.where(which, x, y), a, b)


def real_dtype_of(params: Any) -> Any:
    """What lengths and values are computed in: the first parameter's dtype, float32 at least."""
    leaves = [as_tensor(p) for p in pytrees.leaves(params)]
    for p in leaves:
        if dt.is_complex(p.dtype):
            raise DTypeError(f"parameters must be real, found {p.meta}; write them as two parts")
    if not leaves:
        raise ArgumentError("there are no parameters; give a tree of tensors")
    return wide(leaves[0]).dtype


def _cubic_minimum(low: Point, high: Point, other: Point) -> Any:
    """Of the cubic through three values, with a slope at the first."""
    db, dc = high.length - low.length, other.length - low.length
    rest_b = high.value - low.value - low.slope * db
    rest_c = other.value - low.value - low.slope * dc
    below = (db * dc) * (db * dc) * (db - dc)
    a = (dc * dc * rest_b - db * db * rest_c) / below
    b = (db * db * db * rest_c - dc * dc * dc * rest_b) / below
    return low.length + (ops.sqrt(b * b - 3 * a * low.slope) - b) / (3 * a)


def _parabola_minimum(low: Point, high: Point) -> Any:
    db = high.length - low.length
    bend = (high.value - low.value - low.slope * db) / (db * db)
    return low.length - low.slope / (2 * bend)


def _between(at: Search) -> Any:
    """The next length inside of the interval; NaN of a formula is in no range."""
    size = ops.abs(at.high.length - at.low.length)
    left = ops.minimum(at.high.length, at.low.length)
    right = ops.maximum(at.high.length, at.low.length)
    found = 0.5 * (at.low.length + at.high.length)
    trials = ((_parabola_minimum(at.low, at.high), 0.1),
              (_cubic_minimum(at.low, at.high, at.other), 0.2))  # fmt: skip
    for length, margin in trials:
        usable = (length > left + margin * size) & (length < right - margin * size)
        found = ops.where(usable, length, found)
    return found


def _errors(at: Point, start: Point, settings: Settings) -> tuple[Any, Any]:
    """By how much the value fell too little, and the slope is too steep; inf for NaN."""
    fall = at.value - start.value
    decrease = fall - settings.decrease * at.length * start.slope
    if settings.approximate is not None:
        flat = at.slope - (2 * settings.decrease - 1) * start.slope
        rise = fall - settings.approximate * ops.abs(start.value)
        decrease = ops.minimum(ops.maximum(flat, rise), decrease)
    curvature = ops.abs(at.slope) - settings.curvature * ops.abs(start.slope)
    clean = [ops.where(ops.isnan(e), math.inf, ops.maximum(e, 0.0)) for e in (decrease, curvature)]
    return clean[0], clean[1]


def _growing(at: Search, new: Point, error: Any, is_longest: Any, settings: Settings) -> Any:
    """low, high, other, whether there is an interval, and whether the search is over."""
    rises = (at.decrease > 0) | ((new.value >= at.last.value) & (at.count > 0))
    turns = (new.slope >= 0) & ~rises
    low, high = chosen(turns, (new, at.last), (at.last, new))
    is_enough = error <= settings.tol
    found = rises | turns | is_enough
    return low, high, low, found, is_enough | (is_longest & ~found)


def _zooming(at: Search, new: Point, error: Any, settings: Settings) -> Any:
    rises = (at.decrease > 0) | (new.value >= at.low.value)
    crosses = (new.slope * (at.high.length - at.low.length) >= 0) & ~rises
    high = chosen(crosses, at.low, chosen(rises, new, at.high))
    low = chosen(rises, at.low, new)
    other = chosen(rises | crosses, at.high, at.low)
    return low, high, other, at.has_interval, error <= settings.tol


def _round(at: Search, start: Point, first: Any, evaluate: Any, settings: Settings) -> Search:
    """One trial more."""
    length = ops.where(at.count == 0, first, settings.growth * at.last.length)
    is_longest = ops.zeros_like(at.done)
    if settings.longest is not None:
        is_longest = length >= settings.longest
        length = ops.minimum(length, settings.longest)
    length = ops.where(at.has_interval, _between(at), length)
    value, slope, grad = evaluate(length)
    new = Point(length, value, slope)
    decrease, curvature = _errors(new, start, settings)
    error = ops.maximum(decrease, curvature)
    is_safe = (decrease <= settings.tol) & (~at.has_interval | (value < at.safe.value))
    safe, safe_grad = chosen(is_safe, (new, grad), (at.safe, at.safe_grad))
    is_tiny = ops.abs(at.high.length - at.low.length) <= settings.shortest

    known = at._replace(decrease=decrease)
    ends = chosen(
        at.has_interval,
        _zooming(known, new, error, settings),
        _growing(known, new, error, is_longest, settings),
    )
    low, high, other, has_interval, done = ends
    gives_up = (at.count + 1 >= settings.most) | (at.has_interval & is_tiny & (safe.length > 0))
    failed = gives_up & ~done
    # what is left then is the safe length, or none at all where the function has no value
    falls_back = failed & ((safe.length > 0) | ops.isinf(decrease))
    last, grad = chosen(falls_back, (safe._replace(slope=slope), safe_grad), (new, grad))
    return Search(at.count + 1, low, high, other, last, grad, safe, safe_grad, decrease, curvature,
                  has_interval, done, failed)  # fmt: skip


def _search(value: Any, grad: Any, updates: Any, first: Any, evaluate: Any, settings: Any) -> Any:
    zero, infinite = ops.zeros_like(value), ops.full_like(value, math.inf)
    start = Point(zero, value, to_dtype(dot(updates, grad), value.dtype))
    no = zero > 0
    begin = Search(ops.full((), 0, dt.int32), start, start, start, start, grad, start, grad,
                   infinite, infinite, no, no, no)  # fmt: skip
    return while_loop(
        lambda at: ~(at.done | at.failed),
        lambda at: _round(at, start, first, evaluate, settings),
        begin,
    )


def _along(function: Any, params: Any, updates: Any, dtype: Any) -> Callable[[Any], Any]:
    def evaluate(length: Any) -> Any:
        def stepped(p: Any, u: Any) -> Any:
            return to_dtype(wide(p) + to_dtype(length, wide(p).dtype) * wide(u), p.dtype)

        value, grad = function(mapped(stepped, params, updates))
        return to_dtype(value, dtype), to_dtype(dot(grad, updates), dtype), grad

    return evaluate


def _own_arguments(function: Callable[..., Any], extra: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    for name in extra:
        if name not in parameters:
            raise ArgumentError(
                f"update takes value, grad, value_fn and what value_fn takes by name, found "
                f"{name!r}; value_fn has {', '.join(parameters)}"
            )
    return extra


def _updated(
    settings: Settings, keeps: bool, updates: Any, state: Any, params: Any, *, value: Any = None,
    grad: Any = None, value_fn: Any = None, **extra: Any,
) -> Any:  # fmt: skip
    """What ``update`` gives: the updates times the length that is found, and the state."""
    if value is None or grad is None or not callable(value_fn):
        raise ArgumentError(
            "the search needs the value, the gradient and the function; write update(grad, "
            "state, params, value=value, grad=grad, value_fn=f)"
        )
    params, dtype = mapped(lambda p: p, needed(params)), real_dtype_of(params)
    own = _own_arguments(value_fn, extra)
    evaluate = _along(value_and_grad(lambda p: value_fn(p, **own)), params, updates, dtype)
    first = state.learning_rate if keeps else ops.full((), 1.0, dtype)
    grad = mapped(lambda g, p: to_dtype(g, p.dtype), grad, params)
    value = to_dtype(as_tensor(value), dtype)
    end = _search(value, grad, updates, first, evaluate, settings)
    length = end.last.length
    scaled = mapped(lambda u: to_dtype(to_dtype(length, wide(u).dtype) * wide(u), u.dtype), updates)
    info = ZoomLinesearchInfo(end.count, end.decrease, end.curvature)
    return scaled, ScaleByZoomLinesearchState(length, end.last.value, end.grad, info)


@takes(max_linesearch_steps=at_least(1), max_learning_rate=NUMBER | NONE, tol=NUMBER,
       increase_factor=NUMBER, slope_rtol=NUMBER, curv_rtol=NUMBER,
       approx_dec_rtol=NUMBER | NO_TREE, stepsize_precision=NUMBER,
       initial_guess_strategy=one_of("one", "keep"))  # fmt: skip
def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: Any = None,
    tol: float = 0.0,
    increase_factor: float = 2.0,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    approx_dec_rtol: Any = 1e-6,
    stepsize_precision: float = 1e-5,
    initial_guess_strategy: str = "keep",
) -> GradientTransformationExtraArgs:
    """Updates times a length, at which Wolfe's strong conditions hold.

    ``update(updates, state, params, value=, grad=, value_fn=)`` also takes the value and the
    gradient at the parameters, the function of parameters to a number, and by keyword what that
    takes beside them. The state keeps the value and the gradient at the new parameters for
    :func:`value_and_grad_from_state`.

    Args:
        max_linesearch_steps: how often the function is evaluated at most.
        max_learning_rate: the longest length.
        tol: by how much the conditions may be missed.
        increase_factor: how much longer the next trial is while no interval is known.
        slope_rtol: the part of the first slope by which the value must fall, times the length.
        curv_rtol: the part of the first slope that may be left.
        approx_dec_rtol: by what part of itself the value may rise where the slopes say that it
            falls; None for not at all.
        stepsize_precision: an interval as short as this is not searched on.
        initial_guess_strategy: the first trial is "one", or "keep": the last length.

    Raises:
        ArgumentError: a keyword that ``value_fn`` does not take.
        DTypeError: complex parameters.

    >>> import phix
    >>> f = lambda x: (x * x).sum()
    >>> tx = phix.optim.scale_by_zoom_linesearch(10)
    >>> x = phix.to_tensor([3.0])
    >>> step, _ = tx.update(-x, tx.init(x), x, value=f(x), grad=2 * x, value_fn=f)
    >>> step.tolist()
    [-3.0]
    """
    settings = Settings(max_linesearch_steps, max_learning_rate, tol, increase_factor, slope_rtol,
                        curv_rtol, approx_dec_rtol, stepsize_precision)  # fmt: skip
    keeps = initial_guess_strategy == "keep"

    def init(params: Any) -> ScaleByZoomLinesearchState:
        dtype = real_dtype_of(params)
        infinite = ops.full((), math.inf, dtype)
        info = ZoomLinesearchInfo(ops.full((), 0, dt.int32), infinite, infinite)
        return ScaleByZoomLinesearchState(ops.full((), 1.0, dtype), infinite, zeros(params), info)

    def update(updates: Any, state: Any, params: Any = None, **given: Any) -> Any:
        return _updated(settings, keeps, updates, state, params, **given)

    return pair("scale_by_zoom_linesearch", init, update)


def _with_value(state: Any) -> Any:
    """The first part of a state that has a value and a gradient."""
    if {"value", "grad"} <= set(getattr(state, "_fields", ())):
        return state
    parts = state.values() if isinstance(state, dict) else state
    if isinstance(state, (dict, tuple, list)):
        for part in parts:
            found = _with_value(part)
            if found is not None:
                return found
    return None


@takes(value_fn=FUNCTION)
def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function as ``value_and_grad(value_fn)``, which looks into the state of an optimizer first.

    It is called as ``f(params, *args, state=state, **kwargs)``, and takes the value and the
    gradient that a search has left there; they are computed where that has none yet.

    Raises:
        ArgumentError: the state is that of an optimizer without a search.

    >>> import phix
    >>> f = phix.optim.value_and_grad_from_state(lambda x: (x * x).sum())
    >>> x = phix.to_tensor([3.0])
    >>> value, grad = f(x, state=phix.optim.lbfgs().init(x))
    >>> value.item(), grad.tolist()
    (9.0, [6.0])
    """

    def found(params: Any, *args: Any, state: Any, **kwargs: Any) -> Any:
        own = _with_value(state)
        if own is None:
            raise ArgumentError(
                "value_and_grad_from_state: the state has no value and gradient; use the optimizer "
                "lbfgs, or scale_by_zoom_linesearch"
            )

        def computed() -> Any:
            value, grad = value_and_grad(lambda p: value_fn(p, *args, **kwargs))(params)
            return to_dtype(value, own.value.dtype), grad

        return cond(ops.isfinite(own.value), lambda: (own.value, own.grad), computed)

    return found
