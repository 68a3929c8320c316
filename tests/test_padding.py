"""``pad`` adds and cuts at both ends, also where one end cuts off all that is there, and more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised

ENDS = (-7, -3, -1, 0, 1, 3, 7)


def padded(x: np.ndarray, before: int, after: int, value: float) -> np.ndarray:
    at = np.arange(len(x) + before + after) - before
    there = (at >= 0) & (at < len(x))
    return np.array([x[i] if ok else value for i, ok in zip(at, there)], x.dtype)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_pad_and_its_gradient_are_those_of_the_definition(size: int) -> None:
    x = np.arange(1.0, size + 1)
    for before, after in itertools.product(ENDS, repeat=2):
        if size + before + after < 0:
            continue
        f = lambda x: ops.pad(x, [before, after], 9.0)  # noqa: B023, E731
        expected = padded(x, before, after, 9.0)
        unsized = phix.jit(f, input_spec=[phix.spec(["n"], "float64")])
        for run in (f, phix.jit(f), unsized):
            np.testing.assert_array_equal(run(x), expected, f"{size} {before} {after}")
        weights = np.arange(1.0, len(expected) + 1)
        slope = phix.grad(lambda x: ops.sum(f(x) * weights))  # noqa: B023
        expected = padded(weights, -before, -after, 0.0)
        for run in (slope, phix.jit(slope)):
            np.testing.assert_array_equal(run(x), expected, f"{size} {before} {after}")


def test_paddings_unknown_when_traced_may_cut() -> None:
    f = phix.jit(
        lambda x, y: ops.pad(x, [2 - y.shape[0], y.shape[0] - 3], 9.0),
        input_spec=[phix.spec(["n"], "float64"), phix.spec(["m"], "float64")],
    )
    for n, m in ((4, 0), (4, 3), (1, 9), (2, 1), (5, 2)):
        x = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(f(x, np.zeros(m)), padded(x, 2 - m, m - 3, 9.0), f"{n}, {m}")


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("width", [(2, 3), (9, 0), (0, 8), (11, 13)])
def test_odd_mirrors_turn_as_often_as_the_width_takes(mode: str, width: tuple[int, int]) -> None:
    call = lambda np, x: np.pad(x, width, mode=mode, reflect_type="odd")  # noqa: E731
    f = lambda x: call(phix.numpy, x)  # noqa: E731
    for dtype in ("float64", "int32"):
        unsized = phix.jit(f, input_spec=[phix.spec(["n"], dtype)])
        for size in (1, 2, 3, 4, 7):
            x = (np.arange(1, size + 1) ** 2).astype(dtype)
            for run in (f, unsized):
                found = run(x)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, call(np, x), f"{size}")


def test_numbers_to_pad_with_may_be_computed() -> None:
    """One, or a pair for all axes or for each, also where they have derivatives."""
    x = np.array([1.0, 5.0, 2.0])
    for pick in (lambda x: x[1], lambda x: x[:2], lambda x: (x[0], 2 * x[1]), lambda x: [x[1:]]):
        f = lambda np, x: np.pad(x, (1, 2), constant_values=pick(x))  # noqa: B023, E731
        g = lambda x: f(phix.numpy, x)  # noqa: B023, E731
        for run in (g, phix.jit(g)):
            np.testing.assert_array_equal(run(x), f(np, x))
        np.testing.assert_array_equal(phix.jacrev(g)(x), phix.jit(phix.jacrev(g))(x))
        np.testing.assert_allclose(phix.jacfwd(g)(x) @ x, f(np, x))  # f is linear
