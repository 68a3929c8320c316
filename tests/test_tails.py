"""Derivatives far from 0 and next to it: forward and reverse mode are finite together.

A branch that is not taken may overflow, and 0 times infinity then makes the other one NaN. Power
series and reverse mode take different ways through a decomposition, so each checks the other.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import phix
from phix import ops
from phix.core.op import REQUIRED
from phix.core.rules import OPS

pytestmark = pytest.mark.unoptimised(4)

POINTS = np.concatenate([-np.logspace(4, -8, 25), [0.0], np.logspace(-8, 4, 25)])
# a kink: the two modes take different sides of it
KINKS = {"p_norm": [0.0], "frobenius_norm": [0.0]}


def pointwise_names() -> list[str]:
    """The differentiable ops of one float tensor that make one number of one."""
    names = []
    for name, op in sorted(OPS.items()):
        tensors = [a for a in op.args if a.type.startswith("Tensor")]
        is_of_one = len(tensors) == 1 and op.args[0] is tensors[0] and op.args[0].type == "Tensor"
        required = [a for a in op.attrs if a.default is REQUIRED]
        if is_of_one and not required and op.backward and op.single_output:
            meta = phix.infer_meta(getattr(ops, name))
            try:
                found = meta(phix.spec([], "float64"))
            except phix.errors.PhixError:
                continue
            if found.dims == () and found.dtype == np.float64:
                names.append(name)
    return names


NAMES = pointwise_names()

# op, order of the derivative, and the derivative in closed form: what cancels far out
FAR_OUT = {
    "erfcx": (1, lambda x: 2 * x * mpmath.erfc(x) * mpmath.exp(x * x) - 2 / mpmath.sqrt(mpmath.pi)),
    "log_ndtr": (2, lambda x: -(r := mpmath.npdf(x) / mpmath.ncdf(x)) * (x + r)),
}
WAYS = {
    "reverse": lambda f, order: phix.vmap(phix.grad(f) if order == 1 else phix.grad(phix.grad(f))),
    "series": lambda f, order: phix.vmap(phix.derivative(f, order=order)),
    "compiled": lambda f, order: phix.jit(WAYS["reverse"](f, order)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", FAR_OUT)
def test_derivatives_do_not_cancel_far_out(name: str, dtype: str, way: str) -> None:
    order, closed = FAR_OUT[name]
    most = 1e2 if dtype == "float16" else 1e5
    points = np.array([0.0, 0.5, 3.0, 9.9, 10.0, 10.1, 36.0, 1e2, 1e3, 1e5])
    points = points[points <= most].astype(dtype)
    points = -points if name == "log_ndtr" else points
    with mpmath.workdps(60):
        wanted = np.array([float(closed(mpmath.mpf(float(x)))) for x in points])
    found = np.asarray(WAYS[way](getattr(ops, name), order)(points), np.float64)
    bound = {"float16": 2e-3, "float32": 5e-7, "float64": 3e-13}[dtype]
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=6e-8 if dtype == "float16" else 0)


def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _tanh_gelu(x: Any) -> Any:
    return x * _logistic(mpmath.sqrt(8 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))


GATES = {
    "silu": (ops.silu, lambda x: x * _logistic(x)),
    "swish": (ops.swish, lambda x: x * _logistic(x)),
    "gelu": (ops.gelu, lambda x: x * mpmath.ncdf(x)),
    "approximate gelu": (lambda x: ops.gelu(x, True), _tanh_gelu),
}


@pytest.mark.parametrize("way", ["reverse", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GATES)
def test_gates_keep_their_digits_on_both_sides(name: str, dtype: str, way: str) -> None:
    f, closed = GATES[name]
    points = np.array([-9, -5, -4, -3, -2, -0.1, -1e-5, 0, 1e-5, 0.1, 2, 5, 9, 12, 15, 30], dtype)
    with mpmath.workdps(60):
        exact = [mpmath.mpf(float(x)) for x in points]
        values = np.array([float(closed(x)) for x in exact])
        slopes = np.array([float(mpmath.diff(closed, x)) for x in exact])
    bound = 40 * float(np.finfo(dtype).eps)  # exp far out has that of its argument
    np.testing.assert_allclose(f(points).numpy().astype("f8"), values, rtol=bound)
    found = WAYS[way](f, 1)(points).numpy().astype("f8")
    np.testing.assert_allclose(found, slopes, rtol=bound)


def _elu_slope(alpha: float) -> Any:
    return lambda x: mpmath.mpf(1) if x > 0 else alpha * mpmath.exp(x)


def _selu_slope(x: Any) -> Any:
    scale, alpha = mpmath.mpf(1.0507009873554805), mpmath.mpf(1.6732632423543772)
    return scale if x > 0 else scale * alpha * mpmath.exp(x)


LEFT = [-80.0, -30.0, -17.0, -10.0, -7.0, -0.25]
TINY = [-0.75, -0.1, -1e-3, -1e-8, 1e-30, 0.3]
HUGE = [1e-20, 0.75, 1.5, 1e6, 1e15, 1e18]
# What is 1 - 1 or overflows on the way: the function, its slope and the slope of that, and places
CANCEL: dict[str, tuple[Any, list[Any], list[float]]] = {
    "expm1": (ops.expm1, [mpmath.exp, mpmath.exp], LEFT),
    "elu": (lambda x: ops.elu(x, 0.25), [_elu_slope(0.25)], LEFT),
    "selu": (ops.selu, [_selu_slope], LEFT),
    "celu": (lambda x: ops.celu(x, 1.0), [_elu_slope(1.0)], LEFT),
    "logsigmoid": (
        ops.logsigmoid, [lambda x: _logistic(-x), lambda x: -_logistic(x) * _logistic(-x)], LEFT,
    ),
    "softplus": (
        lambda x: -ops.softplus(-x, 1.0, 1e30),
        [lambda x: _logistic(-x), lambda x: -_logistic(x) * _logistic(-x)], LEFT,
    ),
    "asin": (
        ops.asin, [lambda x: (1 - x * x) ** -0.5, lambda x: x * (1 - x * x) ** -1.5], TINY,
    ),
    "atanh": (
        ops.atanh, [lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2], TINY,
    ),
    "asinh": (
        ops.asinh, [lambda x: (1 + x * x) ** -0.5, lambda x: -x * (1 + x * x) ** -1.5], HUGE,
    ),
    "acosh": (
        ops.acosh, [lambda x: (x * x - 1) ** -0.5, lambda x: -x * (x * x - 1) ** -1.5], HUGE[2:],
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CANCEL)
def test_slopes_keep_their_digits(name: str, dtype: str, way: str) -> None:
    f, closed, places = CANCEL[name]
    points = np.array(places, dtype)
    bound = 40 * float(np.finfo(dtype).eps)
    for order, slope in enumerate(closed, 1):
        with mpmath.workdps(60):
            wanted = np.array([float(slope(mpmath.mpf(float(x)))) for x in points])
        known = np.abs(wanted) > float(np.finfo(dtype).tiny)
        found = np.asarray(WAYS[way](f, order)(points), np.float64)
        np.testing.assert_allclose(found[known], wanted[known], rtol=bound, err_msg=str(order))


@pytest.mark.parametrize("way", ["reverse", "compiled"])
def test_slopes_of_approximate_gelu_far_out_are_0_and_1(way: str) -> None:
    points = np.array([-np.inf, -1e35, -1e15, -50.0, 50.0, 1e15, 1e35, np.inf], np.float32)
    f = lambda x: ops.gelu(x, True)  # noqa: E731
    np.testing.assert_array_equal(WAYS[way](f, 1)(points), [0.0] * 4 + [1.0] * 4)
    np.testing.assert_array_equal(WAYS[way](f, 2)(points), [0.0] * 8)


def test_acosh_has_no_slope_below_1() -> None:
    assert np.isnan(phix.grad(ops.acosh)(np.float64(-2.0)).item())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values_at_infinity(dtype: str) -> None:
    ends = np.array([-np.inf, np.inf], dtype)
    for f in (ops.erfcx, phix.jit(ops.erfcx)):
        np.testing.assert_array_equal(f(ends), [np.inf, 0.0])
    for f in (ops.log_ndtr, phix.jit(ops.log_ndtr)):
        np.testing.assert_array_equal(f(ends), [-np.inf, 0.0])
    for way in ("reverse", "compiled"):
        np.testing.assert_array_equal(WAYS[way](ops.log_ndtr, 1)(ends), [np.inf, 0.0])


def test_slopes_of_16_bits_are_rounded_once() -> None:
    """The density is a subnormal float16 where its slope is none yet."""
    points = np.array([-4.9, -4.3, -2.0, 0.3, 3.7, 4.5, 5.1], np.float16)
    wide = points.astype(np.float64)
    wanted = -wide * np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    for way in ("reverse", "compiled"):
        found = WAYS[way](ops.normal_density, 1)(points).numpy()
        np.testing.assert_array_equal(found, wanted.astype(np.float16))


def test_there_are_many() -> None:
    assert len(NAMES) > 60 and {"log_ndtr", "gelu", "sinh"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_both_modes_are_finite_together(name: str) -> None:
    f = getattr(ops, name)
    points = np.setdiff1d(POINTS, KINKS.get(name, []))
    reverse = np.asarray(phix.vmap(phix.grad(phix.grad(f)))(points))
    series = np.asarray(phix.vmap(phix.derivative(f, order=2))(points))
    differ = points[np.isfinite(reverse) != np.isfinite(series)]
    assert not differ.size, f"second derivatives of {name}: one mode alone is finite at {differ}"
