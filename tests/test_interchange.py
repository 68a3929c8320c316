"""Loops over images and channels that change places, and loops along one run that become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised(4)

RNG = np.random.default_rng(0)


def normalised(x: Any) -> Any:
    centred = x - ops.mean(x, [0, 2, 3], True)
    return centred / ops.sqrt(ops.mean(centred * centred, [0, 2, 3], True) + 1e-5)


def loss(x: Any) -> Any:
    return ops.sum(normalised(x) ** 3)


def loss_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
    """The same in closed form: with n the normalised x, sum(n ** 3), and its derivative."""
    mean = x.mean((0, 2, 3), keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean((0, 2, 3), keepdims=True) + 1e-5)
    n = (x - mean) / deviation
    inner = 3 * n**2
    along = (inner * n).mean((0, 2, 3), keepdims=True)
    return (n**3).sum(), (inner - inner.mean((0, 2, 3), keepdims=True) - n * along) / deviation


def loop_ir(function: Any, *args: Any, **options: Any) -> str:
    return str(phix.jit(function, **options).lower(*args).as_text("loop ir"))


# Runs of 64 elements are too short, 3 channels too few; odd sizes, one image, one row of pixels.
SHAPES = [
    (5, 9, 12, 12),
    (3, 16, 7, 29),
    (4, 9, 8, 8),
    (6, 3, 12, 12),
    (1, 8, 1, 130),
    (2, 8, 200, 1),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_statistics_of_channels_and_what_is_made_of_them(shape: Any, unknown: bool) -> None:
    x = RNG.standard_normal(shape)
    spec = [phix.spec(["n", "c", "h", "w"], "float64")] if unknown else None
    value, gradient = phix.jit(phix.value_and_grad(loss), input_spec=spec)(x)
    wanted = loss_and_gradient(x)
    np.testing.assert_allclose(value, wanted[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-8, atol=1e-8)


def test_channels_are_normalised_one_after_the_other() -> None:
    """One pass over memory, with rows of its own for each thread, and no array besides."""
    x = RNG.standard_normal((40, 64, 16, 16)).astype("f")
    text = loop_ir(phix.value_and_grad(loss), x)
    assert sum("x0[" in kernel for kernel in text.split("\n  kernel ")[1:]) == 1
    temps = [line for line in text.splitlines() if line.startswith("  temp ")]
    assert all(line.endswith("float64[16]") for line in temps)  # partial results of threads
    value, gradient = phix.jit(phix.value_and_grad(loss))(x)
    wanted = loss_and_gradient(x.astype("d"))
    np.testing.assert_allclose(value, wanted[0], rtol=1e-3, atol=1.0)  # of sums near 0
    np.testing.assert_allclose(gradient, wanted[1], atol=2e-4)
    apart = loop_ir(phix.value_and_grad(loss), x, disable="interchange_loops")
    assert sum("x0[" in kernel for kernel in apart.split("\n  kernel ")[1:]) > 1


@pytest.mark.parametrize("shape", [(4, 9, 8, 8), (6, 3, 12, 12)])
def test_short_runs_and_few_channels_stay_in_their_order(shape: Any) -> None:
    x = RNG.standard_normal(shape)
    assert loop_ir(normalised, x) == loop_ir(normalised, x, disable="interchange_loops")


def test_what_moves_between_channels_stays_in_its_order() -> None:
    """Each channel needs the one before it, which channels first would not have yet."""

    def shifted(x: Any) -> Any:
        y = x - ops.mean(x, [0, 2, 3], True)
        return y + ops.roll(ops.tanh(y), [1], [1])

    x = RNG.standard_normal((4, 9, 12, 12))
    y = x - x.mean((0, 2, 3), keepdims=True)
    wanted = y + np.roll(np.tanh(y), 1, 1)
    np.testing.assert_allclose(phix.jit(shifted)(x), wanted, rtol=1e-12, atol=1e-12)


# -- loops along one run -------------------------------------------------------------------------
X = RNG.standard_normal((3, 5, 4, 6))
S = RNG.standard_normal((5, 1, 1))
# name -> (function, what NumPy makes, the extents of its loops)
RUNS: dict[str, tuple[Any, Any, list[str]]] = {
    "pixels": (lambda x, s: x * s, X * S, ["3", "5", "24"]),
    "sums": (lambda x, s: ops.sum(x * s, [2, 3]), (X * S).sum((2, 3)), ["3", "5", "24"]),
    "all but rows": (
        lambda x, s: x * ops.reshape(s, [5, 1])[:4],
        X * S.reshape(5, 1)[:4],
        ["15", "4", "6"],
    ),
    "columns first": (
        lambda x, s: ops.transpose(x, [0, 1, 3, 2]) * s, X.swapaxes(2, 3) * S, ["3", "5", "6", "4"],
    ),
    "numbers of the rows": (
        lambda x, s: x * ops.reshape(phix.arange(4, dtype="float64"), [4, 1]),
        X * np.arange(4.0)[:, None],
        ["15", "4", "6"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_loops_along_one_run_are_one(name: str) -> None:
    function, wanted, extents = RUNS[name]
    np.testing.assert_allclose(phix.jit(function)(X, S), wanted, rtol=1e-12, atol=1e-12)
    text = loop_ir(function, X, S, disable=["share_loops", "tiles"])
    found = [line.partition("range(")[2].partition(")")[0] for line in text.splitlines()]
    assert [f for f in found if f] == extents


def test_the_rows_of_an_array_with_strides_stay_apart() -> None:
    x = np.asarray(RNG.standard_normal((3, 5, 4, 12)))[..., ::2]
    jitted = phix.jit(lambda x, s: x * s)
    np.testing.assert_allclose(jitted(x, S), x * S, rtol=1e-12)
