"""The sign of sums of -0.0 alone: they start at 0.0, as those of NumPy do, of few terms or many."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from phix import numpy as pn

SHAPES = (1, 1), (1, 4), (4, 1), (3, 2), (4, 100), (100, 4), (40, 1000), (1, 70_000), (70_000, 1)
SUMS = {
    "down": lambda m, x: m.sum(x, 0),
    "along": lambda m, x: m.sum(x, 1),
    "of all": lambda m, x: m.sum(x),
    "means": lambda m, x: m.mean(x, 1),
    "of what is computed": lambda m, x: m.sum(x + x, 1),
    "of products": lambda m, x: m.sum(x * (x + 1), 1),
    "on a diagonal": lambda m, x: m.trace(x),
    "of products of matrices": lambda m, x: m.matmul(x, m.ones((x.shape[1], 3), x.dtype)),
}
WAYS = {
    "eager": lambda f, dtype: f,
    "compiled": lambda f, dtype: phix.jit(f),
    "of unknown size": lambda f, dtype: phix.jit(f, input_spec=[phix.spec(["n", "m"], dtype)]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_negative_zeros(name, dtype, way) -> None:
    run = WAYS[way](lambda x: SUMS[name](pn, x), dtype)
    for shape in SHAPES:
        x = np.full(shape, -0.0, dtype)
        found = np.asarray(run(phix.to_tensor(x)))
        assert not found.any() and not np.signbit(found).any(), shape
