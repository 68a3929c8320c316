"""Views of memory: every dtype as every other one, and derivatives through overlaps."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt

BYTES = np.random.default_rng(0).integers(0, 256, 64, np.uint8)


@pytest.mark.parametrize("target", [d for d in dt.ALL if d != dt.bool_], ids=str)
def test_bytes_are_those_of_numpy(target: np.dtype) -> None:
    """Read as each dtype and back, in one program; NaNs keep being NaNs."""
    rows = BYTES.reshape(2, 32)

    def views(x: phix.Tensor) -> tuple[phix.Tensor, phix.Tensor]:
        there = ops.view_dtype(x, target)
        return there, ops.view_dtype(there, "uint16")

    there, back = phix.jit(views)(rows)
    wanted = rows.view(target)
    np.testing.assert_array_equal(there.numpy(), wanted)
    if target.kind in "iu":
        np.testing.assert_array_equal(back.numpy(), rows.view(np.uint16))


@pytest.mark.parametrize("half", [dt.float16, dt.bfloat16], ids=str)
def test_every_half_keeps_its_bits(half: np.dtype) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    numbers = ops.view_dtype(bits, half)
    wide = numbers.numpy().astype(np.float32)
    np.testing.assert_array_equal(wide, bits.view(half).astype(np.float32))
    found = ops.view_dtype(numbers, "uint16").numpy()
    is_nan = np.isnan(bits.view(half).astype(np.float32))
    np.testing.assert_array_equal(found[~is_nan], bits[~is_nan])
    assert np.isnan(found[is_nan].view(half).astype(np.float32)).all()


def test_gradients_of_views() -> None:
    """Overlaps add up; parts of complex numbers pass their gradients, bits pass none."""
    x = phix.to_tensor([1.0, 2.0, 3.0, 4.0])
    windows = phix.grad(lambda x: (ops.as_strided(x, [3, 2], [1, 1]) ** 2.0).sum())(x)
    assert windows.tolist() == [2.0, 8.0, 12.0, 8.0]
    parts = phix.grad(lambda x: (ops.real(ops.view_dtype(x, "complex64")) ** 2.0).sum())(x)
    assert parts.tolist() == [2.0, 0.0, 6.0, 0.0]
    bits = phix.grad(lambda x: ops.view_dtype(ops.view_dtype(x, "int32"), "float32").sum())(x)
    assert bits.tolist() == [0.0] * 4
