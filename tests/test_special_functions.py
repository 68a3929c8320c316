"""Special functions: values and derivatives keep their digits near 0, at the edges and far out."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import phix
from phix import ops

POINTS = np.array([1e-8, 0.03, 1.0, 4.0, 7.99, 8.01, 9.9, 10.1, 19.9, 21.0, 60.0, 400.0, 1e5])


def _scaled(order: int) -> Any:
    return lambda v: mpmath.besseli(order, v) * mpmath.exp(-v)


EXACT = {
    "i0": lambda v: mpmath.besseli(0, v),
    "i1": lambda v: mpmath.besseli(1, v),
    "i0e": _scaled(0),
    "i1e": _scaled(1),
}


def _slope(f: Any, order: int) -> Any:
    for _ in range(order):
        f = phix.grad(f)
    return phix.jit(phix.vmap(f))


@pytest.mark.parametrize("name", EXACT)
def test_bessel_functions_and_their_derivatives(name: str) -> None:
    """In float64, to the third derivative: far out those of i0e and i1e are sums that cancel."""
    f, closed = getattr(ops, name), EXACT[name]
    points = POINTS if name.endswith("e") else POINTS[POINTS < 700]
    np.testing.assert_allclose(np.asarray(f(points)), [float(closed(v)) for v in points], 1e-14)
    for order in (1, 3):
        found = np.asarray(_slope(f, order)(points))
        with mpmath.workdps(80):
            wanted = [float(mpmath.diff(closed, mpmath.mpf(float(v)), order)) for v in points]
        np.testing.assert_allclose(found, wanted, rtol=1e-13, err_msg=f"order {order}")
        sign = (-1) ** (order + (name[1] == "1"))
        np.testing.assert_allclose(np.asarray(_slope(f, order)(-points)), sign * found, rtol=1e-15)


@pytest.mark.parametrize("name", EXACT)
def test_bessel_functions_to_their_last_digits(name: str) -> None:
    """On both sides of the seam at 8, up to what overflows, and in float32."""
    points = np.array([5e-324, 1e-9, 0.5, 2.0, 5.0, 7.0, 7.999, 8.001, 8.5, 11.0, 25.0, 85.0])
    found = np.asarray(getattr(ops, name)(points))
    np.testing.assert_allclose(found, [float(EXACT[name](v)) for v in points], rtol=6e-16)
    few = np.linspace(0, 40, 1500).astype(np.float32)
    wide = np.asarray(getattr(ops, name)(few.astype(np.float64)))
    # that of i1e is a product of what is rounded, and others are of three factors
    some = {"i0e": 6.7e-8, "i1e": 1.2e-7}.get(name, 3e-7)
    np.testing.assert_allclose(np.asarray(getattr(ops, name)(few)), wide, rtol=some)


def test_i1e_where_its_factors_overflow() -> None:
    x = np.array([9.9e179, 1.1e180, -1e250, 1.7e308])
    want = np.sign(x) / np.sqrt(2 * np.pi) / np.sqrt(np.abs(x))
    np.testing.assert_allclose(np.asarray(ops.i1e(x)), want, rtol=1e-15)
    few = np.array([9e23, 1.1e24, -3e38], np.float32)
    want = np.sign(few) / np.sqrt(2 * np.pi * np.abs(few.astype(np.float64)))
    np.testing.assert_allclose(np.asarray(ops.i1e(few)), want, rtol=2e-7)
    assert np.signbit(np.asarray(ops.i1e(np.array([-np.inf, -0.0])))).all()


def test_edges() -> None:
    x = np.array([0.0, np.inf, -np.inf, np.nan, 1e308, 713.0])
    values = {name: np.asarray(getattr(ops, name)(x)) for name in EXACT}
    np.testing.assert_array_equal(values["i0"][:4], [1, np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(values["i1"][:4], [0, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(values["i0e"][:4], [1, 0, 0, np.nan])
    np.testing.assert_array_equal(values["i1e"][:4], [0, 0, 0, np.nan])
    for name in ("i0e", "i1e"):  # 1 / sqrt(2 pi x)
        np.testing.assert_allclose(values[name][4], 3.989422804014327e-155, rtol=1e-14)
    for name in ("i0", "i1"):  # exp alone has overflown
        assert 6.7e307 < values[name][5] < 6.71e307
    single = np.asarray(ops.i0e(x[:4].astype("f4")))
    np.testing.assert_array_equal(single, [1, 0, 0, np.nan])


def test_logit_at_its_edges() -> None:
    x = np.array([0.0, 1.0, 0.5, np.nan, -1e-9, 0.5 + 2.0**-50])
    found = np.asarray(ops.logit(x, eps=0.0))
    np.testing.assert_allclose(found, [-np.inf, np.inf, 0, np.nan, np.nan, 2.0**-48], rtol=1e-15)
    half = np.asarray(phix.vmap(phix.grad(ops.logit))(np.array([0.0, 0.25, 1.0])))
    np.testing.assert_allclose(half, [0, 16 / 3, 0])


def test_second_slopes_of_logit_next_to_its_ends() -> None:
    """-1 / x^2 + 1 / (1 - x)^2, beyond the largest number too."""
    for dtype, x in ((np.float32, [1e-25, 1e-15, 0.5, 0.25]), (np.float64, [1e-200, 1e-100, 0.75])):
        found = phix.vmap(phix.grad(phix.grad(lambda v: ops.logit(v, eps=0.0))))(np.array(x, dtype))
        wide = np.array(x, dtype).astype(np.longdouble)
        with np.errstate(over="ignore"):
            want = (1 / (1 - wide) ** 2 - 1 / wide**2).astype(dtype)
        np.testing.assert_allclose(found, want, rtol=1e-6 if dtype == np.float32 else 1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logit_to_its_last_digits(dtype: Any) -> None:
    tiny = [
        float(np.finfo(dtype).smallest_subnormal),
        float(np.finfo(dtype).tiny) / 8,
        1e-37,
        1e-20,
    ]
    middle = [0.01, 0.2499, 0.25, 0.49, 0.4999999, 0.5000001, 0.6, 0.75, 0.99, 1 - 2.0**-24]
    x = np.array(tiny + middle, dtype)
    with mpmath.workdps(40):
        want = [float(mpmath.log(mpmath.mpf(float(v)) / (1 - mpmath.mpf(float(v))))) for v in x]
    found = np.asarray(ops.logit(x, eps=0.0)).astype(np.float64)
    np.testing.assert_allclose(found, want, rtol=1.1 * float(np.finfo(dtype).eps))
    zeros = np.asarray(ops.logit(np.array([0.0, -0.0, 0.5], dtype), eps=0.0))
    np.testing.assert_array_equal(zeros, [-np.inf, -np.inf, 0])
    slope = phix.derivative(lambda v: ops.logit(v, eps=0.0), order=1)(dtype(1e-35))
    np.testing.assert_allclose(slope.item(), 1e35, rtol=2e-7)


def test_activations_at_their_edges() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -800.0, 1e-9])
    mish = np.asarray(ops.mish(x, 20.0))
    np.testing.assert_array_equal(mish[:5], [np.inf, 0, np.nan, 0, 0])
    slopes = np.asarray(_slope(lambda v: ops.mish(v, 20.0), 1)(x))
    np.testing.assert_allclose(slopes, [1, 0, np.nan, 0.6, 0, 0.6], atol=1e-8)
    np.testing.assert_allclose(
        np.asarray(ops.tanh_shrink(x))[[0, 1, 5]], [np.inf, -np.inf, 1e-27 / 3]
    )
    for f in (ops.softshrink, ops.hardshrink, ops.thresholded_relu, ops.selu, ops.celu):
        assert np.isnan(np.asarray(f(x))[2])


def test_the_incomplete_gamma_function() -> None:
    """Both sides of where one way of computing it gives way to another; the edges; the slope."""
    a = np.array([1e-10, 0.25, 0.5, 0.51, 1.9, 2.1, 4.2, 12.0, 12.1, 100.0, 100.0, 1e6, 0.3])
    y = np.array([0.5, 0.99, 1.0, 0.99, 1.99, 2.0, 4.1, 12.0, 12.2, 60.0, 300.0, 1e6 + 900, 80.0])
    with mpmath.workdps(40):
        wanted = [
            float(mpmath.gammainc(mpmath.mpf(float(u)), mpmath.mpf(float(v)), regularized=True))
            for u, v in zip(a, y)
        ]
    np.testing.assert_allclose(np.asarray(ops.gammaincc(a, y)), wanted, rtol=3e-13)
    ends = [(0, 1, 0), (1, 0, 1), (1, np.inf, 0), (np.inf, 1, 1)]
    ends += [(-1, 1, np.nan), (1, -1, np.nan), (0, 0, np.nan), (np.nan, 1, np.nan)]
    x, at, values = np.array(ends).T
    np.testing.assert_array_equal(np.asarray(ops.gammaincc(x, at)), values)
    slopes = phix.vmap(phix.grad(ops.gammaincc, argnums=1))(a, y)
    np.testing.assert_allclose(np.asarray(slopes), -np.asarray(ops.gamma_density(a, y)))
    for way in (phix.grad, phix.derivative, phix.hessian):
        with pytest.raises(phix.errors.DifferentiationError, match="gammaincc"):
            way(lambda x: ops.gammaincc(x, 1.0))(2.0)
