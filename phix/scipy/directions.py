"""The ways to a direction in which a function falls: what each carries from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.api.control_flow import scan, while_loop
from phix.api.gradients import grad, jvp
from phix.core import dtypes as dt


class Way(NamedTuple):
    """A method: its memory at the start, the direction it takes, and what it learns of a step.

    ``direction(memory, x, gradient)`` gives a direction and the gradients that it cost;
    ``learn(memory, s, y)`` takes the step and by how much it changed the gradient.
    """

    start: Callable[[Any], Any]
    direction: Callable[[Any, Any, Any], tuple[Any, Any]]
    learn: Callable[[Any, Any, Any], Any]
    curvature: float  # how much of the slope a step may leave
    is_scaled: bool  # whether a step of length 1 is the one to try from the start


def dot(a: Any, b: Any) -> Any:
    return ops.sum(a * b)


def _curves(s: Any, y: Any) -> Any:
    """Whether a step says that the function is convex along it, by more than roundings."""
    eps = float(np.finfo(s.dtype).eps)
    return dot(s, y) > eps * ops.sqrt(dot(s, s)) * ops.sqrt(dot(y, y))


def _none() -> Any:
    return ops.full((), 0, dt.int32)


# -- BFGS ----------------------------------------------------------------------------------------
def bfgs() -> Way:
    """The memory is the inverse of the Hessian, and whether a step has been learnt from."""

    def start(x: Any) -> Any:
        size = x.shape[0]
        return ops.eye(size, size, x.dtype), ops.full((), False, dt.bool_)

    def direction(memory: Any, x: Any, gradient: Any) -> tuple[Any, Any]:
        return -ops.mv(memory[0], gradient), _none()

    def learn(memory: Any, s: Any, y: Any) -> Any:
        inverse, is_known = memory
        usable = _curves(s, y)
        along = ops.where(usable, dot(s, y), 1.0)
        unit = ops.where(usable & ~is_known, along / ops.where(usable, dot(y, y), 1.0), 1.0)
        inverse = inverse * unit  # the first step tells the size of the curvature
        hy = ops.mv(inverse, y)
        both = _outer(hy, s)
        more = (1 + dot(y, hy) / along) / along * _outer(s, s) - (both + both.T) / along
        return ops.where(usable, inverse + more, inverse), is_known | usable

    return Way(start, direction, learn, 0.9, False)


def _outer(a: Any, b: Any) -> Any:
    return ops.unsqueeze(a, [1]) * ops.unsqueeze(b, [0])


# -- L-BFGS --------------------------------------------------------------------------------------
class Pairs(NamedTuple):
    """The last steps, the oldest first, and the size of the Hessian's inverse."""

    s: Any  # [memory, n]
    y: Any
    weight: Any  # 1 / (s . y), 0 where there is no step yet
    scale: Any


def lbfgs(size: int) -> Way:
    def start(x: Any) -> Any:
        none = ops.zeros([size, x.shape[0]], x.dtype)
        return Pairs(none, none, ops.zeros([size], x.dtype), ops.full((), 1.0, x.dtype))

    def direction(memory: Pairs, x: Any, gradient: Any) -> tuple[Any, Any]:
        return -two_loops(memory, gradient), _none()

    def learn(memory: Pairs, s: Any, y: Any) -> Any:
        usable = _curves(s, y)
        along = ops.where(usable, dot(s, y), 1.0)
        new = Pairs(
            _pushed(memory.s, s),
            _pushed(memory.y, y),
            _pushed(memory.weight, 1 / along),
            along / ops.where(usable, dot(y, y), 1.0),
        )
        return Pairs(*(ops.where(usable, a, b) for a, b in zip(new, memory)))

    return Way(start, direction, learn, 0.9, False)


def _pushed(rows: Any, new: Any) -> Any:
    return ops.concat([rows[1:], ops.unsqueeze(new, [0])], 0)


def two_loops(memory: Pairs, gradient: Any) -> Any:
    """The inverse of the Hessian that the pairs make, times the gradient."""

    def back(q: Any, pair: Any) -> tuple[Any, Any]:
        s, y, weight = pair
        share = weight * dot(s, q)
        return q - share * y, share

    def forth(r: Any, pair: Any) -> tuple[Any, Any]:
        s, y, weight, share = pair
        return r + (share - weight * dot(y, r)) * s, None

    rows = (memory.s, memory.y, memory.weight)
    q, shares = scan(back, gradient, rows, reverse=True)
    return scan(forth, memory.scale * q, (*rows, shares))[0]


# -- Newton's method with conjugate gradients ------------------------------------------------------
class _Solution(NamedTuple):
    """Conjugate gradients on their way to H x = -g."""

    x: Any
    residual: Any  # H x + g
    direction: Any
    count: Any
    is_done: Any


def newton_cg(function: Callable[[Any], Any]) -> Way:
    """Of a function of a vector. The equations are solved the better the closer the minimum is,
    and left where the curvature is not positive."""

    def direction(memory: Any, x: Any, gradient: Any) -> tuple[Any, Any]:
        size = ops.sum(ops.abs(gradient))
        enough = ops.minimum(ops.sqrt(size), 0.5) * size
        eps = 3 * float(np.finfo(x.dtype).eps)

        def body(at: _Solution) -> _Solution:
            along = jvp(grad(function), (x,), (at.direction,))[1]
            curve = dot(at.direction, along)
            before = dot(at.residual, at.residual)
            is_bowl = curve > eps * dot(at.direction, at.direction)
            length = before / ops.where(is_bowl, curve, 1.0)
            steepest = ops.where(at.count == 0, -gradient, at.x)  # curved down from the start
            residual = at.residual + length * along
            is_done = ~is_bowl | (ops.sum(ops.abs(residual)) <= enough)
            ratio = dot(residual, residual) / ops.where(before > 0, before, 1.0)
            return _Solution(
                ops.where(is_bowl, at.x + length * at.direction, steepest),
                residual,
                ratio * at.direction - residual,
                at.count + 1,
                is_done,
            )

        no = ops.full((), False, dt.bool_)
        begin = _Solution(ops.zeros_like(x), gradient, -gradient, _none(), no)
        most = 20 * x.shape[0]
        end = while_loop(lambda at: (at.count < most) & ~at.is_done, body, begin)
        return end.x, end.count

    return Way(lambda x: _none(), direction, lambda memory, s, y: memory, 0.9, True)
