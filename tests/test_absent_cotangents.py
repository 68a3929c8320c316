"""What nothing comes from has no part in a derivative, also where its own slope is infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn

AT = np.array([0.0, 2.0, 3.0])


def _used(p: Any) -> Any:
    return p[2] ** 2


def _unused(p: Any) -> Any:
    return pn.sqrt(p[0]) * p[2]  # its slope at 0 is infinite


def _both(p: Any) -> Any:
    return _used(p), _unused(p), p[1]


def _step(p: Any) -> Callable[..., Any]:
    return lambda c, _: ((c[0] + _used(p), c[1] + _unused(p)), None)


def _scan(p: Any) -> Any:
    return phix.scan(_step(p), (p[1], p[1]), None, length=3)[0][0]


def _errors(p: Any) -> Any:
    """An error beside what is integrated, which decides and is not differentiated."""

    def step(c: Any, _: Any) -> Any:
        size = pn.sqrt(pn.sum((c[0] * p[0]) ** 2))
        return (pn.where(c[1] < 1.0, c[0] * p[2], c[0]), size), None

    return phix.scan(step, (p[1], p[0]), None, length=3)[0][0]


def _while(p: Any) -> Any:
    def step(c: Any) -> Any:
        return c[0] + _used(p), c[1] + _unused(p), c[2] + 1

    return phix.while_loop(lambda c: c[2] < 3, step, (p[1], p[1], 0))[0]


CASES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "jit": (lambda p: phix.jit(_both)(p)[0], [0, 0, 6]),
    "checkpoint": (lambda p: phix.checkpoint(_both)(p)[0], [0, 0, 6]),
    "cond": (lambda p: phix.cond(p[1] > 0, _both, lambda p: (p[0], p[1], p[2]), p)[0], [0, 0, 6]),
    "fori_loop": (
        lambda p: phix.fori_loop(0, 3, lambda _, c: _step(p)(c, None)[0], (p[1], p[1]))[0],
        [0, 1, 18],
    ),
    "scan": (_scan, [0, 1, 18]),
    "rows": (
        lambda p: phix.scan(lambda c, _: (c + _used(p), _unused(p)), p[1], None, length=3)[0],
        [0, 1, 18],
    ),
    "an error": (_errors, [0, 27, 54]),
    "while_loop": (_while, [0, 1, 18]),
    "scan in checkpoint": (phix.checkpoint(_scan), [0, 1, 18]),
    "vmap": (lambda p: phix.vmap(lambda b: _scan(p) * b)(p[1:]).sum(), [0, 34, 119]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_take_no_notice_of_what_is_unused(name: str) -> None:
    function, wanted = CASES[name]
    point = phix.to_tensor(AT)
    gradients = [phix.grad(function)(point), phix.jit(phix.grad(function))(point)]
    for found in gradients:
        np.testing.assert_allclose(found.numpy(), wanted)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_too(name: str) -> None:
    found = phix.jit(phix.hessian(CASES[name][0]))(phix.to_tensor(AT))
    assert np.isfinite(found.numpy()).all()


def test_what_is_used_keeps_its_infinite_slope() -> None:
    def function(p: Any) -> Any:
        first, last = phix.scan(_step(p), (p[1], p[1]), None, length=3)[0]
        return first + last

    found = phix.jit(phix.grad(function))(phix.to_tensor(AT)).numpy()
    assert np.isinf(found[0])
    np.testing.assert_allclose(found[1:], [2.0, 18.0])


def test_a_carry_that_comes_to_matter_in_later_steps() -> None:
    """Each carry's cotangent comes from another's, three steps back."""

    def function(p: Any) -> Any:
        c = (p[0], p[1], p[2])
        return phix.scan(lambda c, _: ((c[1] * p[2], c[2] * p[1], c[0]), None), c, None, length=4)[
            0
        ][0]

    def plain(p: Any) -> Any:
        c = (p[0], p[1], p[2])
        for _ in range(4):
            c = (c[1] * p[2], c[2] * p[1], c[0])
        return c[0]

    point = phix.to_tensor(AT + 0.5)
    wanted = phix.grad(plain)(point).numpy()
    np.testing.assert_allclose(phix.jit(phix.grad(function))(point).numpy(), wanted)


@pytest.mark.parametrize("sizes", [(1, 4), (0, 3)])
def test_unknown_sizes(sizes: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return (c[0] + row * row, c[1] + pn.sqrt(row)), row * c[0]

        return phix.scan(step, (0.0 * pn.sum(x), 0.0 * pn.sum(x)), x)[0][0]

    compiled = phix.jit(phix.grad(function), input_spec=[phix.spec([-1], "float64")])
    for n in sizes:
        x = np.arange(float(n))
        np.testing.assert_allclose(compiled(phix.to_tensor(x)).numpy(), 2.0 * x)


def test_what_leads_to_a_carry_that_is_unused_is_not_reached() -> None:
    """Nor is its own slope multiplied by zeros."""

    def function(p: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            more = (c[0] + _used(p), c[1] + _unused(p))
            return phix.cond(c[1] > 0, lambda: more, lambda: c), None

        return phix.scan(step, (p[2], _unused(p)), None, length=3)[0][0]

    found = phix.jit(phix.grad(function))(phix.to_tensor(AT))
    np.testing.assert_allclose(found.numpy(), [0.0, 0.0, 1.0])


def _within(name: str, loop: Any) -> Any:
    """A loop in something that asks which of its arguments matter."""
    return {
        "checkpoint": lambda c, xs: phix.checkpoint(loop)(c, xs),
        "jit": lambda c, xs: phix.jit(loop)(c, xs),
        "branch": lambda c, xs: phix.cond(
            pn.sum(c) > 0, loop, lambda c, _: pn.zeros_like(c), c, xs
        ),
        "scan": lambda c, xs: phix.scan(lambda _, y: (loop(c, xs), y), 0.0 * c, pn.ones(1))[0],
    }[name]


@pytest.mark.parametrize("name", ["checkpoint", "jit", "branch", "scan"])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_loop_of_no_steps_gives_the_carry_that_its_steps_forget(name: str, rows: int) -> None:
    loop = lambda c, xs: phix.scan(lambda c, x: (x, None), c, xs)[0]  # noqa: E731
    f = lambda c, xs: pn.sum(2.0 * _within(name, loop)(c, xs))  # noqa: E731
    c, xs = phix.to_tensor(np.ones(3)), phix.to_tensor(np.ones((rows, 3)))
    wanted = np.full(3, 0.0 if rows else 2.0)
    specs = [phix.spec([3], "float64"), phix.spec(["n", 3], "float64")]
    for found in (phix.grad(f), phix.jit(phix.grad(f)), phix.jit(phix.grad(f), input_spec=specs)):
        np.testing.assert_array_equal(found(c, xs).numpy(), wanted)
