"""Derivatives far from 0 and next to it: forward and reverse mode are finite together.

A branch that is not taken may overflow, and 0 times infinity then makes the other one NaN. Power
series and reverse mode take different ways through a decomposition, so each checks the other.
"""

from __future__ import annotations

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
