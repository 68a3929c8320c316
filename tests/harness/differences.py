"""Derivatives against central differences, and forward mode against reverse mode.

All in float64 (or complex128). ``fn`` takes tensors and gives a tuple of tensors; a point is the
list of its inputs. Gradients of complex inputs pair by ``Re(conj(a) * b)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import phix
from phix.core import dtypes as dt

Arrays = list[np.ndarray]
Function = Callable[..., tuple[Any, ...]]

_STEP = 1e-5
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


def moved(point: Arrays, direction: Arrays, step: float) -> Arrays:
    return [np.asarray(x + step * d, x.dtype) for x, d in zip(point, direction)]


def central(fn: Function, point: Arrays, direction: Arrays) -> Arrays:
    """The derivative of ``fn`` along ``direction`` by central differences."""
    ahead = fn(*moved(point, direction, _STEP))
    behind = fn(*moved(point, direction, -_STEP))
    return [(np.asarray(a) - np.asarray(b)) / (2 * _STEP) for a, b in zip(ahead, behind)]


def precision(outs: Sequence[Any]) -> float:
    """The relative error that outputs narrower than float64 bring into differences of them."""
    narrow = any(dt.real_dtype(o.dtype) != dt.float64 for o in outs)
    return 3e-2 if narrow else 0.0


def assert_near(found: Any, wanted: Any, tolerance: float, size: float, what: str) -> None:
    """Equal up to ``tolerance`` of the values or of ``size``, the magnitude they come from."""
    np.testing.assert_allclose(
        found, wanted, rtol=tolerance, atol=tolerance * max(1.0, size), err_msg=what
    )


def magnitude(arrays: Sequence[Any]) -> float:
    return max((float(np.abs(np.asarray(a)).max()) for a in arrays if a.size), default=0.0)


def pullback(fn: Function, cotangents: Arrays) -> Function:
    """The function that maps a point to the cotangents of its inputs."""

    def gradient(*point: Any) -> tuple[Any, ...]:
        _, pull = phix.vjp(fn, *point)
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


def check_pullback(fn: Function, point: Arrays, rng: Any, tolerance: float) -> None:
    """Each element of the gradient of a random linear functional of ``fn``."""
    outs = fn(*point)
    if not outs or not point:
        return
    tolerance = max(tolerance, precision(outs))
    cotangents = random_like(outs, rng)
    found = [np.asarray(g) for g in pullback(fn, cotangents)(*point)]
    assert [(g.shape, g.dtype) for g in found] == [(x.shape, x.dtype) for x in point]
    for i, element, unit in unit_directions(point, rng):
        direction = [np.zeros_like(x) for x in point]
        direction[i].flat[element] = unit
        wanted = dot(cotangents, central(fn, point, direction))
        where = f"gradient of input {i}, element {element}, step {unit}"
        component = np.vdot(found[i].flat[element], unit).real
        assert_near(component, wanted, tolerance, magnitude(outs), where)


def check_tangent(fn: Function, point: Arrays, rng: Any, tolerance: float) -> None:
    """The tangent along a random direction, and its inner product with random cotangents."""
    outs = fn(*point)
    if not outs or not point:
        return
    tolerance = max(tolerance, precision(outs))
    direction, cotangents = random_like(point, rng), random_like(outs, rng)
    values, tangents = phix.jvp(fn, tuple(point), tuple(direction))
    for value, out, tangent in zip(values, outs, tangents):
        assert tangent.shape == out.shape and tangent.dtype == out.dtype
        np.testing.assert_allclose(value, np.asarray(out), rtol=1e-12, atol=1e-14)
    for tangent, wanted in zip(tangents, central(fn, point, direction)):
        assert_near(tangent, wanted, tolerance, magnitude(outs), "tangent")
    backward = dot(pullback(fn, cotangents)(*point), direction)
    size = magnitude(tangents)
    exact = 1e-5 if precision(outs) else 1e-10
    assert_near(dot(cotangents, tangents), backward, exact, size, "forward against reverse")


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
    _, tangents = phix.jvp(g, tuple(point), tuple(direction))
    forward = dot(tested, tangents)
    reverse = dot(pullback(g, tested)(*point), direction)
    assert_near(forward, wanted, tolerance, size, "forward over reverse against differences")
    assert_near(reverse, forward, exact, size, "reverse over reverse against forward over reverse")
    if order == 2:

        def tangent(*at: Any) -> tuple[Any, ...]:
            return tuple(phix.jvp(fn, tuple(at), tuple(tested))[1])

        mixed = dot(pullback(tangent, weights)(*point), direction)
        assert_near(mixed, forward, exact, size, "reverse over forward")
