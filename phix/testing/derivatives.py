"""Derivatives against central differences, and forward mode against reverse mode.

All in float64 (or complex128). ``fn`` takes tensors and gives a tuple of tensors; a point is the
list of its inputs. Gradients of complex inputs pair by ``Re(conj(a) * b)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.api.gradients import jvp, vjp
from phix.core import dtypes as dt
from phix.testing.comparison import about, close_arrays, require

Arrays = list[np.ndarray]
Function = Callable[..., tuple[Any, ...]]

BY_DIFFERENCES = "by central differences"
STEP = 1e-5
# Inputs with more elements than this are probed at that many of them.
_PROBES = 24


def random_like(arrays: Sequence[Any], rng: np.random.Generator) -> Arrays:
    """Normal numbers in the shapes and dtypes of ``arrays``."""
    drawn = []
    for a in arrays:
        numbers = rng.normal(size=a.shape)
        if a.dtype.kind == "c":
            numbers = numbers + 1j * rng.normal(size=a.shape)
        drawn.append(np.asarray(numbers, a.dtype))
    return drawn


def dot(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The real inner product of two lists of arrays."""
    return float(sum(np.vdot(np.asarray(x), np.asarray(y)).real for x, y in zip(a, b)))


def nudged(point: Arrays, direction: Arrays, step: float) -> Arrays:
    return [np.asarray(x + step * d, x.dtype) for x, d in zip(point, direction)]


def central(fn: Function, point: Arrays, direction: Arrays) -> Arrays:
    """The derivative of ``fn`` along ``direction`` by central differences."""
    ahead = fn(*nudged(point, direction, STEP))
    behind = fn(*nudged(point, direction, -STEP))
    return [(np.asarray(a) - np.asarray(b)) / (2 * STEP) for a, b in zip(ahead, behind)]


def precision(outs: Sequence[Any]) -> float:
    """The relative error that outputs narrower than float64 bring into differences of them."""
    narrow = any(dt.real_dtype(o.dtype) != dt.float64 for o in outs)
    return 3e-2 if narrow else 0.0


def assert_near(
    found: Any, wanted: Any, tolerance: float, size: float, what: str, by: str = BY_DIFFERENCES
) -> None:
    """Equal up to ``tolerance`` of the values or of ``size``, the magnitude they come from."""
    __tracebackhide__ = True
    actual, expected = np.asarray(found), np.asarray(wanted)
    require(
        actual.shape == expected.shape,
        f"{what} has shape {list(actual.shape)}, expected {list(expected.shape)} ({by})",
    )
    close_arrays(actual, expected, (tolerance, tolerance * max(1.0, size)), what, by)


def magnitude(arrays: Sequence[Any]) -> float:
    return max((float(np.abs(np.asarray(a)).max()) for a in arrays if a.size), default=0.0)


def pullback(fn: Function, cotangents: Arrays) -> Function:
    """The function that maps a point to the cotangents of its inputs."""

    def gradient(*point: Any) -> tuple[Any, ...]:
        _, pull = vjp(fn, *point)
        return tuple(pull(tuple(cotangents)))

    return gradient


def unit_directions(point: Arrays, rng: np.random.Generator) -> list[tuple[int, int, complex]]:
    """Input, element and value of the unit steps to probe; complex inputs have two an element."""
    steps = [
        (i, e, unit)
        for i, x in enumerate(point)
        for e in range(x.size)
        for unit in ((1.0, 1.0j) if x.dtype.kind == "c" else (1.0,))
    ]
    if len(steps) > _PROBES:
        steps = [steps[i] for i in sorted(rng.choice(len(steps), _PROBES, replace=False))]
    return steps


def check_pullback(
    fn: Function, point: Arrays, rng: Any, tolerance: float, names: Sequence[str] = ()
) -> None:
    """Each element of the gradient of a random linear functional of ``fn``; the inputs have
    ``names`` in messages, or numbers."""
    outs = fn(*point)
    if not outs or not point:
        return
    tolerance = max(tolerance, precision(outs))
    cotangents = random_like(outs, rng)
    found = [np.asarray(g) for g in pullback(fn, cotangents)(*point)]
    called = names or [f"input {i}" for i in range(len(point))]
    for name, g, x in zip(called, found, point):
        require(
            (g.shape, g.dtype) == (x.shape, x.dtype),
            f"the gradient of {name} is {g.dtype}{list(g.shape)}, {name} {x.dtype}{list(x.shape)}",
        )
    for i, element, unit in unit_directions(point, rng):
        direction = [np.zeros_like(x) for x in point]
        direction[i].flat[element] = unit
        wanted = dot(cotangents, central(fn, point, direction))
        at = [int(n) for n in np.unravel_index(element, point[i].shape)]
        along = "" if unit == 1 else ", its imaginary part"
        where = f"reverse mode, gradient of {called[i]}, element {at}{along}"
        component = np.vdot(found[i].flat[element], unit).real
        assert_near(component, wanted, tolerance, magnitude(outs), where)


def check_tangent(fn: Function, point: Arrays, rng: Any, tolerance: float) -> None:
    """The tangent along a random direction, and its inner product with random cotangents."""
    outs = fn(*point)
    if not outs or not point:
        return
    tolerance = max(tolerance, precision(outs))
    direction, cotangents = random_like(point, rng), random_like(outs, rng)
    values, tangents = jvp(fn, tuple(point), tuple(direction))
    for n, (value, out, tangent) in enumerate(zip(values, outs, tangents)):
        require(
            tangent.shape == out.shape and tangent.dtype == out.dtype,
            f"the tangent of output {n} is {tangent.meta}, the output {out.meta}",
        )
        value, out = np.asarray(value), np.asarray(out)
        close_arrays(value, out, (1e-12, 1e-14), f"output {n} under jvp", "run eagerly")
    for n, (tangent, wanted) in enumerate(zip(tangents, central(fn, point, direction))):
        what = f"forward mode, tangent of output {n}"
        assert_near(tangent, wanted, tolerance, magnitude(outs), what)
    backward = dot(pullback(fn, cotangents)(*point), direction)
    size = magnitude(tangents)
    exact = 1e-5 if precision(outs) else 1e-10
    what = "forward mode, tangent times cotangents"
    assert_near(dot(cotangents, tangents), backward, exact, size, what, "by reverse mode")


def check_higher(fn: Function, point: Arrays, rng: Any, tolerance: float, order: int) -> None:
    """The derivative of order ``order`` along random directions, taken in three ways.

    With g the pullback applied ``order - 1`` times to random cotangents: differences of g, the
    tangent of g, and the pullback of g must agree; for order 2 the pullback of a tangent too.
    """
    outs = fn(*point)
    if not outs or not point:
        return
    tolerance = max(tolerance, precision(outs))
    exact = 1e-5 if precision(outs) else 1e-9
    g, tested = fn, random_like(outs, rng)
    for _ in range(order - 1):
        g, weights = pullback(g, tested), tested
        tested = random_like(point, rng)
    direction = random_like(point, rng)
    wanted = dot(tested, central(g, point, direction))
    size = magnitude(g(*point))
    _, tangents = jvp(g, tuple(point), tuple(direction))
    forward = dot(tested, tangents)
    reverse = dot(pullback(g, tested)(*point), direction)
    over = "by forward over reverse mode"
    with about(f"order {order}"):
        assert_near(forward, wanted, tolerance, size, "forward over reverse mode")
        assert_near(reverse, forward, exact, size, "reverse over reverse mode", over)
    if order == 2:

        def tangent(*at: Any) -> tuple[Any, ...]:
            return tuple(jvp(fn, tuple(at), tuple(tested))[1])

        mixed = dot(pullback(tangent, weights)(*point), direction)
        assert_near(mixed, forward, exact, size, "order 2: reverse over forward mode", over)
