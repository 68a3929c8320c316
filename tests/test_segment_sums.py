"""Sums of rows that stand together, of any sizes, none too, and their derivatives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised(4)

SIZES, TAILS = [0, 1, 2, 5, 17, 1000], [(), (1,), (5,), (2, 3), (40,), (0,)]


def _sums(x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    rows = [x[a:b].sum(0) for a, b in pairwise(starts)]
    return np.array(rows).reshape(len(starts) - 1, *x.shape[1:])


def _spread(rows: np.ndarray, starts: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Row r at the places of its segment."""
    out = np.zeros_like(like)
    for r, (a, b) in enumerate(pairwise(starts)):
        out[a:b] += rows[r]
    return out


def _squares(x: Any, starts: Any) -> Any:
    return ops.sum(ops.segment_sum_csr(x, starts) ** 2)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("tail", TAILS)
def test_values_and_gradients_of_segments(count, tail, rng):
    x = rng.normal(size=(count, *tail))
    unknown = [phix.spec(["n", *tail], "float64"), phix.spec(["r"], "int64")]
    slope = phix.grad(_squares)
    for segments in (0, 1, 3, 50):
        starts = np.sort(rng.integers(0, count + 1, segments + 1))
        expected = _sums(x, starts)
        for make in (lambda f: f, phix.jit, lambda f: phix.jit(f, input_spec=unknown)):
            found, gradient = make(ops.segment_sum_csr)(x, starts), make(slope)(x, starts)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(
                gradient, _spread(2 * expected, starts, x), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("tail", TAILS)
def test_lanes_of_values_and_of_segments(tail, rng):
    x, starts = rng.normal(size=(3, 9, *tail)), np.sort(rng.integers(0, 10, (3, 5)), 1)
    for make in (lambda f: f, phix.jit):
        of_values = make(phix.vmap(lambda x: ops.segment_sum_csr(x, starts[0])))(x)
        of_both = make(phix.vmap(ops.segment_sum_csr))(x, starts)
        for k in range(3):
            np.testing.assert_allclose(of_values[k], _sums(x[k], starts[0]), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(of_both[k], _sums(x[k], starts[k]), rtol=1e-12, atol=1e-12)


def test_a_long_segment_of_float32_keeps_its_digits():
    x = np.full(3_000_000, 0.1, np.float32)
    (found,) = np.asarray(phix.jit(ops.segment_sum_csr)(x, np.array([0, x.size])))
    assert found == np.float32(x.astype(np.float64).sum())
