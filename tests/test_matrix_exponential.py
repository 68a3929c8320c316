"""Exponentials of matrices whose powers grow more slowly than those of their norms, by mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import phix
from phix import ops


def companion(count: int) -> np.ndarray:
    """A matrix with the eigenvalues 1, 2 and so on, the system of a linear equation of that
    order."""
    found = np.diag(np.ones(count - 1), 1)
    found[-1] = -np.poly(np.arange(1.0, count + 1))[:0:-1]
    return found


def graded(count: int) -> np.ndarray:
    """A triangle whose numbers grow away from the diagonal."""
    rng = np.random.default_rng(count)
    size = 10.0 ** np.maximum(np.subtract.outer(-np.arange(count), -np.arange(count)), 0)
    return np.triu(rng.standard_normal((count, count)) * size)


# name -> the matrix, and how many eps of the largest number the result may be off
MATRICES: dict[str, tuple[np.ndarray, float]] = {
    "far off the diagonal": (np.array([[1.0, 1e6], [0.0, -1.0]]), 4),
    "farther": (np.array([[0.5, 1e13, 3.0], [0.0, -2.0, 1e3], [0.0, 0.0, 0.25]]), 4000),
    "nilpotent": (np.diag([1e4, 2e5, 3e3], 1), 4),
    "companion of 5": (companion(5), 4000),
    "companion of 8": (companion(8), 1e5),
    "graded": (graded(6), 40),
    "normal": (np.random.default_rng(1).standard_normal((6, 6)) * 3, 40),
    "a turn": (np.array([[0.0, 50.0], [-50.0, 0.0]]), 400),
    "small": (np.random.default_rng(2).standard_normal((4, 4)) * 1e-3, 4),
}


def exact(matrix: np.ndarray) -> np.ndarray:
    with mpmath.workdps(150):
        found = mpmath.expm(mpmath.matrix(matrix.tolist()), method="taylor")
        return np.array(found.tolist()).astype(float)


def distance(found: Any, wanted: np.ndarray) -> float:
    return float(np.abs(np.asarray(found, float) - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATRICES)
def test_digits(name: str, dtype: str) -> None:
    matrix, eps = MATRICES[name]
    matrix = matrix.astype(dtype)
    wanted = exact(matrix.astype(float))
    bound = eps * float(np.finfo(dtype).eps)
    runs: dict[str, Callable[[Any], Any]] = {"eager": ops.expm, "jit": phix.jit(ops.expm)}
    for how, run in runs.items():
        assert distance(run(matrix), wanted) < bound, how
    beside = np.stack([matrix, matrix * 0.5, np.zeros_like(matrix)])
    for stacked in (phix.vmap(ops.expm)(beside), ops.expm(beside)):
        assert distance(stacked[0], wanted) < bound
        assert distance(stacked[1], exact(beside[1].astype(float))) < bound
        np.testing.assert_array_equal(stacked[2], np.eye(len(matrix)))


@pytest.mark.parametrize("name", ["far off the diagonal", "companion of 5", "graded", "normal"])
def test_rates(name: str) -> None:
    """exp(t a) has the slope a exp(t a) in t, and exp(a) the adjoint one in a."""
    matrix, eps = MATRICES[name]
    wanted, bound = matrix @ exact(matrix), 400 * eps * float(np.finfo(float).eps)
    rate = phix.jvp(lambda t: ops.expm(t * matrix), (1.0,), (1.0,))[1]
    assert distance(rate, wanted) < bound
    weights = np.random.default_rng(3).standard_normal(matrix.shape)
    slope = phix.jit(phix.grad(lambda a: ops.sum(weights * ops.expm(a))))(matrix)
    along = float(np.sum(np.asarray(slope) * matrix))  # the slope along a itself
    assert abs(along - np.sum(weights * wanted)) < bound * np.abs(weights * wanted).sum()


def test_what_is_not_finite_stays_so() -> None:
    for bad in (np.nan, np.inf):
        assert np.isnan(np.asarray(ops.expm(np.array([[bad, 1.0], [0.0, 1.0]])))).any()
    with np.errstate(over="ignore"):
        large = np.asarray(ops.expm(np.array([[800.0, 0.0], [0.0, 0.0]])))
    assert not np.isfinite(large[0, 0])
