"""Scalar functions in Numba as pointwise ops: fused, vectorised, derived by tracing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import KernelNotFoundError, KernelRegistrationError, PhixError
from phix.core.rules import OPS

RNG = np.random.default_rng(7)


def _wave(t: Any, rate: float = 0.5) -> Any:
    return math.exp(-rate * t) * np.sin(t)


def _smooth(x: Any, y: Any) -> Any:
    return 0.5 * (x + y + math.sqrt((x - y) ** 2 + 0.25))


def _steps(x: Any, most: int = 3) -> Any:
    count = 0.0
    while x > 1.0 and count < most:  # what no expression says
        x, count = x / 2.0, count + 1.0
    return count


def _inside(x: Any, y: Any) -> bool:
    return x * x + y * y < 1.0


wave: Any
smooth: Any
steps: Any
inside: Any


@pytest.fixture(autouse=True, scope="module")
def made() -> Iterator[None]:
    global wave, smooth, steps, inside
    with phix.scoped_registries():
        wave = phix.numba.scalar("numba_wave", derive=True)(_wave)
        smooth = phix.numba.scalar("numba_smooth", derive=True)(_smooth)
        steps = phix.numba.scalar("numba_steps")(_steps)
        inside = phix.numba.scalar("numba_inside")(_inside)
        yield


def test_values_in_each_dtype() -> None:
    t = np.linspace(0, 3, 50)
    np.testing.assert_allclose(wave(t), np.exp(-0.5 * t) * np.sin(t), rtol=1e-15)
    np.testing.assert_allclose(wave(t, rate=0.1), np.exp(-0.1 * t) * np.sin(t), rtol=1e-15)
    for dtype, epsilon in (("float32", 2**-23), ("float16", 2**-10)):
        x = t.astype(dtype)
        want = np.exp(-0.5 * x.astype("d")) * np.sin(x.astype("d"))
        found = wave(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.numpy().astype("d"), want, rtol=2 * epsilon, atol=1e-7)
    assert wave(np.arange(3)).dtype == np.float32
    x = np.array([0.5, 3.0, 100.0, np.nan])
    np.testing.assert_array_equal(steps(x), [0, 2, 3, 0])
    np.testing.assert_array_equal(phix.jit(lambda x: steps(x, most=5))(x), [0, 2, 5, 0])
    found = inside(RNG.random((4, 1)), 0.5)
    assert found.dtype == bool and found.shape == (4, 1)
    positive = phix.numba.scalar("numba_positive")(lambda x: x > 0)  # not said to be bool: a float
    np.testing.assert_array_equal(positive([-1.0, 2.0]), [0.0, 1.0])


def test_derivatives_of_any_order_and_mode() -> None:
    t, r = np.linspace(-1, 2, 9), 0.5
    e, s, c = np.exp(-r * t), np.sin(t), np.cos(t)

    def slope(f: Any) -> Any:
        return phix.grad(lambda t: ops.sum(f(t)))

    np.testing.assert_allclose(slope(wave)(t), e * (c - r * s), atol=1e-15)
    second = phix.jit(slope(slope(wave)))(t)
    np.testing.assert_allclose(second, e * (-s - 2 * r * c + r * r * s), atol=1e-14)
    forward = phix.jvp(slope(wave), (t,), (np.ones(9),))[1]
    np.testing.assert_allclose(forward, second, atol=1e-14)
    by_series = phix.jet(wave, (t,), ([np.ones(9), np.zeros(9)],))
    np.testing.assert_allclose(by_series[1][1], second, atol=1e-13)
    a, b = RNG.random((3, 1)), RNG.random((1, 4))
    x, y = np.broadcast_arrays(a, b)
    own = 0.5 * (x - y) / np.sqrt((x - y) ** 2 + 0.25)
    found = phix.jit(phix.grad(lambda a, b: ops.sum(smooth(a, b)), (0, 1)))(a, b)
    np.testing.assert_allclose(found[0], (0.5 + own).sum(1, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(found[1], (0.5 - own).sum(0, keepdims=True), rtol=1e-14)


def test_batches_sizes_and_programs() -> None:
    x = RNG.random((5, 3))
    np.testing.assert_array_equal(phix.vmap(wave)(x), wave(x))
    sized = phix.jit(lambda x: wave(x * 2.0), input_spec=[phix.spec(["n"], "float64")])
    for n in (0, 1, 33):
        np.testing.assert_array_equal(sized(np.ones(n)), wave(np.full(n, 2.0)))
    total = phix.jit(lambda x: phix.scan(lambda c, r: (wave(c + r), c), x[0], x)[0])
    want = x[0]
    for row in x:
        want = np.exp(-0.5 * (want + row)) * np.sin(want + row)
    np.testing.assert_allclose(total(x), want, rtol=1e-13)


def test_it_is_put_into_the_loops_around_it() -> None:
    program = phix.jit(lambda x: ops.sum(smooth(x, 1.0) * 2.0)).lower(np.ones(1000, "f"))
    loops = program.sections["loop ir"]
    assert loops.count("kernel ") == 1 and "phix_linked_" in loops, "one loop, nothing stored"
    machine_code = program.assembly() if hasattr(program, "assembly") else ""
    assert "phix_linked_" not in machine_code


def test_what_is_refused() -> None:
    def fails(x: Any) -> Any:
        if x < 0:
            raise ValueError
        return x

    def text(x: Any) -> Any:
        return "text"

    def branches(x: Any) -> Any:
        return x if x > 0 else 0.0

    for name, function, message in (
        ("numba_fails", fails, "may raise an exception"),
        ("numba_text", text, "is to give one real number or bool"),
        ("numba_unknown", lambda x: nobody(x), "name 'nobody' is not defined"),  # noqa: F821
    ):
        op = phix.numba.scalar(name)(function)
        with pytest.raises(KernelRegistrationError, match=message):
            op(1.0)
    with pytest.raises(KernelRegistrationError, match=r"cannot be found by tracing.*np\.maximum"):
        phix.numba.scalar("numba_branches", derive=True)(branches)
    assert "numba_branches" not in OPS, "nothing is half made"
    with pytest.raises(KernelRegistrationError, match="is not pointwise"):
        phix.numba.scalar("matmul")(branches)
    with pytest.raises(KernelRegistrationError, match="leave out derive=True"):
        phix.numba.scalar("tanh", derive=True)(lambda x: x)
    with pytest.raises(PhixError, match="scalar body already"):
        phix.numba.scalar("tanh")(branches)
    with pytest.raises(KernelRegistrationError, match=r"found \(\*x\)"):
        phix.numba.scalar("numba_many")(lambda *x: x[0])
    with pytest.raises((KernelNotFoundError, PhixError)):
        wave(1.0 + 2.0j)
    with pytest.raises(PhixError):
        phix.grad(steps)(2.0)


@numba.njit
def _helper(x: Any) -> Any:
    return math.sin(x) * x


def test_derivatives_go_through_helpers_closures_and_gamma() -> None:
    """Against central differences; gamma is negative between -1 and 0, and every other gap."""
    inner, module = _helper, math

    def closed(x: Any) -> Any:
        return inner(x) * module.exp(x)

    x = np.array([-3.2, -2.5, -1.5, -0.5, 0.5, 2.2])
    for k, function in enumerate((math.gamma, _helper.py_func, closed)):
        with phix.scoped_registries():
            plain = (lambda x: math.gamma(x)) if function is math.gamma else function
            op = phix.numba.scalar(f"numba_derived_{k}", derive=True)(plain)
            found = phix.vmap(phix.grad(op))(x)
        step = 1e-6
        change = [(function(t + step) - function(t - step)) / (2 * step) for t in x]
        np.testing.assert_allclose(found, change, rtol=1e-6)


def test_derivatives_keep_the_digits_of_numbers() -> None:
    """What ``math`` makes of numbers alone, of attributes too, is no tensor of float32."""

    def normal(x: Any, spread: float = 2.0) -> Any:
        return 0.5 * math.erf(x / math.sqrt(spread)) + math.log(0.0) * 0.0

    def turned(x: Any) -> Any:
        return math.hypot(x, math.radians(30.0)) + math.degrees(x)

    with phix.scoped_registries():
        slope = phix.grad(phix.numba.scalar("numba_normal", derive=True)(normal))
        assert math.isfinite(slope(np.float64(0.7)).item())
        want = math.exp(-(0.7**2) / 3.0) / math.sqrt(3.0 * math.pi)
        found = phix.grad(lambda x: ops.numba_normal(x, spread=3.0))(np.float64(0.7))
        np.testing.assert_allclose(found, want, rtol=1e-14)
        assert slope(np.float32(0.7)).dtype == np.float32
        slope = phix.grad(phix.numba.scalar("numba_turned", derive=True)(turned))
        want = 0.7 / math.hypot(0.7, math.pi / 6.0) + 180.0 / math.pi
        np.testing.assert_allclose(slope(np.float64(0.7)), want, rtol=1e-14)


def test_defaults_that_are_not_finite() -> None:
    def capped(x: Any, least: float = -math.inf, most: float = math.inf) -> Any:
        return max(least, min(x, most))

    def or_else(x: Any, other: float = math.nan) -> Any:
        return x if x > 0 else other

    with phix.scoped_registries():
        op = phix.numba.scalar("numba_capped")(capped)
        np.testing.assert_array_equal(op(np.array([-9.0, 9.0])), [-9.0, 9.0])
        np.testing.assert_array_equal(op(np.array([-9.0, 9.0]), most=1.0), [-9.0, 1.0])
        np.testing.assert_array_equal(phix.numba.scalar("numba_or_else")(or_else)(-1.0), np.nan)


def test_what_a_function_raises_while_it_is_traced_is_named() -> None:
    def looks_up(x: Any) -> Any:
        return {}["gone"] * x

    with pytest.raises(KernelRegistrationError, match=r"cannot be found by tracing: 'gone'"):
        phix.numba.scalar("numba_looks_up", derive=True)(looks_up)
