"""Derivatives far from 0 and next to it: forward and reverse mode are finite together.

A branch that is not taken may overflow, and 0 times infinity then makes the other one NaN. Power
series and reverse mode take different ways through a decomposition, so each checks the other.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import phix
from phix import ops
from phix.core.op import REQUIRED
from phix.core.rules import OPS

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
