"""Every operation rounds on its own, wherever it is computed: what is computed in two places, and
compared, is the same in both. A maximum finds its elements again in the backward pass by that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from tests.machine_code import unoptimised


def loss(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Products and a sum, which one instruction could do; and the products alone."""
    p = a * ops.sigmoid(a)
    y = ops.max(p * b + c, axis=[0])
    return ops.sum(y * d) + ops.mean((p * b) ** 2)


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The derivative with respect to c: what is largest in its column has all of it."""
    wide = [x.astype(np.float64) for x in (a, b, c)]
    values = wide[0] / (1 + np.exp(-wide[0])) * wide[1] + wide[2]
    return np.where(values == values.max(0), d, 0.0)


@pytest.mark.parametrize("shape", [(7, 16), (64, 3), (5, 300), (300, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_maximum_is_found_again_in_optimised_code_and_in_other(dtype: str, shape: Any) -> None:
    rng = np.random.default_rng(sum(shape))
    a, b, c = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
    d = rng.standard_normal(shape[1]).astype(dtype)
    slope = phix.grad(loss, argnums=2)
    wanted = expected(a, b, c, d)
    found = [slope(a, b, c, d), phix.jit(slope)(a, b, c, d)]
    with unoptimised():
        found += [slope(a, b, c, d), phix.jit(lambda *args: slope(*args))(a, b, c, d)]
    for x in found:
        np.testing.assert_allclose(x, wanted, rtol=1e-6, atol=0)


def test_jit_rounds_as_eager_calls_do() -> None:
    x, y, z = (np.random.default_rng(k).standard_normal(10_007) for k in range(3))
    for f in (lambda x, y, z: x * y + z, lambda x, y, z: (x - y * z) * x - z * y):
        np.testing.assert_array_equal(phix.jit(f)(x, y, z), f(x, y, z))


def test_only_terms_of_a_sum_are_contracted() -> None:
    specs = [phix.spec([8, 5], "float64")] * 3
    pointwise = phix.jit(lambda x, y, z: x * y + z).lower(*specs)
    assert " contract " not in pointwise.as_text("llvm")
    dots = phix.jit(lambda x, y, z: ops.sum(x * y, [1])).lower(*specs)
    assert "fadd reassoc contract" in dots.as_text("llvm")


def test_results_in_the_memory_of_an_operand_round_as_elsewhere() -> None:
    """x + w (y - x) put into x is no sum that goes on: its product rounds."""
    x, y, w = (np.random.default_rng(k).uniform(-4, 4, 100).astype(np.float32) for k in range(3))
    wanted = x + w * (y - x)
    donated = phix.jit(lambda x: x + w * (y - x), donate_argnums=0)
    for found in (
        ops.lerp(x, y, w),
        ops.lerp_(phix.to_tensor(x), y, w),
        donated(phix.to_tensor(x)),
    ):
        np.testing.assert_array_equal(found, wanted)
