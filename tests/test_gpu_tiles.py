"""Reads across memory on a GPU: by tiles in shared memory, in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import check, needs_compiler, teams
from phix import ops

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu tiles"), pytest.mark.unoptimised]
RNG = np.random.default_rng(0)


def floats(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(dims).astype(dtype)


def swapped(*perm: int) -> Any:
    return lambda x: ops.transpose(x, list(perm))


@pytest.mark.parametrize(
    ("function", "dims"),
    [
        (swapped(1, 0), (70, 45)),
        (swapped(1, 0), (64, 32)),
        (swapped(0, 2, 1), (3, 33, 65)),
        (swapped(2, 1, 0), (33, 5, 40)),
        (swapped(1, 2, 0), (34, 5, 20)),
        (lambda x: ops.tanh(ops.transpose(x, [1, 0])) * 2.0 + 1.0, (40, 50)),
        (lambda x: ops.transpose(x, [1, 0]) + ops.sin(x[:, ::1]), (40, 40)),
        (lambda x: ops.transpose(x * x, [1, 0])[1:, 2:], (50, 60)),
    ],
)
def test_tiles(function: Any, dims: tuple[int, ...]) -> None:
    for dtype in (np.float32, np.float64, np.float16):
        made = check(
            function, floats(*dims, dtype=dtype), tolerance=1e-3 if dtype == np.float16 else 1e-5
        )
        assert "tile" in teams(made)


def test_two_operands_across_and_one_along() -> None:
    x, y, z = floats(40, 70), floats(40, 70), floats(70, 40)
    made = check(lambda x, y, z: ops.transpose(x, [1, 0]) * ops.transpose(y, [1, 0]) + z, x, y, z)
    assert teams(made) == ["tile"]


def test_of_unknown_sizes() -> None:
    specs = [phix.spec(["n", "m"])]
    for dims in ((1, 1), (3, 50), (33, 31), (64, 96)):
        check(lambda x: ops.transpose(x, [1, 0]) + 1.0, floats(*dims), specs=specs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.transpose(x, [1, 0]),  # short sides
        lambda x: x * 2.0,
        lambda x: x[:, ::-1],
    ],
)
def test_what_is_better_without(function: Any) -> None:
    assert "tile" not in teams(check(function, floats(5, 9)))


def test_what_one_iteration_writes_and_another_reads_is_in_no_tile() -> None:
    x = floats(48, 48)
    step = phix.jit(lambda x: ops.transpose(x, [1, 0]) + 1.0, donate_argnums=0)
    np.testing.assert_allclose(step(phix.to_tensor(x)), x.T + 1.0)
    check(lambda x: phix.fori_loop(0, 3, lambda i, c: ops.transpose(c, [1, 0]) + c, x), x)
