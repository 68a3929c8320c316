"""Loops with calls of C's functions in them are vectors of all else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops
from phix.kernels.cpu import compiler, lane_calls

RNG = np.random.default_rng(11)


def much(x: Any) -> Any:
    """What is worth vectors, near 1."""
    for k in range(6):
        x = ops.exp(-x * x) * ops.cos(x) + ops.log1p(ops.abs(x)) / (k + 1.5)
    return x


def much_of_numpy(x: np.ndarray) -> np.ndarray:
    for k in range(6):
        x = np.exp(-x * x) * np.cos(x) + np.log1p(np.abs(x)) / (k + 1.5)
    return x


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "fmod": (
        lambda x, y: pn.fmod(much(x) * 9, much(y)) + much(x + y),
        lambda x, y: np.fmod(much_of_numpy(x) * 9, much_of_numpy(y)) + much_of_numpy(x + y),
    ),
}  # fmt: skip


def text_of(f: Any, dtype: str, size: int = 1000) -> str:
    return phix.jit(f).lower(*[phix.spec([size], dtype)] * 2).as_text("llvm")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_go_lane_by_lane_beside_vectors(name: str) -> None:
    text = text_of(FUNCTIONS[name][0], "float64")
    assert f"{name}.lanes" in compiler.assembly(text)
    assert "lanes" not in text_of(getattr(pn, name), "float64")


@pytest.mark.parametrize("size", [1, 7, 64, 1003])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_numpy(name: str, dtype: str, size: int) -> None:
    f, wanted = FUNCTIONS[name]
    x, y = RNG.uniform(0.5, 2.0, (2, size)).astype(dtype)
    exact = wanted(x.astype("float64"), y.astype("float64"))
    found = phix.jit(f)(x, y).numpy()
    far = np.abs(found - exact) > 1e-3  # it jumps, by as much as y
    assert far.mean() < 0.02, far.mean()
    found, exact = found[~far], exact[~far]
    digits = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, exact, rtol=digits, atol=digits)


def test_infinities_and_nan_stay_in_their_lanes() -> None:
    x = RNG.uniform(0.5, 2.0, 100)
    x[[3, 40, 77]] = np.inf, np.nan, -np.inf
    program = phix.jit(lambda x: pn.fmod(x, 0.7) + 0 * much(ops.where(pn.isfinite(x), x, 1.0)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(program(x), np.fmod(x, 0.7), rtol=1e-13)


def test_what_is_called_twice_and_with_two_arguments_has_a_vector_each() -> None:
    body = "\n".join([
        "  %v1 = call double @pow(double %x, double %x)",
        "  %v2 = call float @powf(float %a, float %b)",
        *["  %w = fadd double 1.0, 2.0"] * 100,
    ])  # fmt: skip
    declared = ["declare double @pow(double, double) #1", "declare float @powf(float, float) #1",
                "declare double @sine(double) #1", "declare i64 @pow64(i64) #1"]  # fmt: skip
    (told,), lines = lane_calls.spread([body], declared, 7)
    assert "@pow(double %x, double %x) #7" in told and "@powf(float %a, float %b) #8" in told
    assert sum("attributes" in line for line in lines) == 2
    assert "_ZGV_LLVM_N4vv_powf(powf.lanes4)" in "".join(lines)
    assert lines[-1].startswith("@llvm.compiler.used")
    assert (
        lane_calls.spread(["  %v = call double @pow(double %x, double %x)"], declared, 7)[1] == []
    )
