"""phix.random gives the numbers that JAX gives for the same keys.

``data/jax_random_numbers.json`` was written by JAX 0.10.2 with jax_enable_x64: draws of
``jax.random`` under the key of the seed 12345678901.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phix import random

RECORDED = json.loads((Path(__file__).parent / "data" / "jax_random_numbers.json").read_text())
KEY = random.key(12345678901)
SHAPES = np.array([0.1, 0.9, 1, 3, 50])
LOGITS = np.sin(np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
CHANCES = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
# Of JAX's erfinv in float32, and of tan far out.
TOLERANCES = {"float32": 2e-5, "float64": 1e-12, "float16": 0, "bfloat16": 0}

DRAWS: dict[str, Callable[[], Any]] = {
    "bits": lambda: random.bits(KEY, [4]),
    "bits 64": lambda: random.bits(KEY, [3], 64),
    "bernoulli": lambda: random.bernoulli(KEY, 0.3, [8]),
    "permutation": lambda: random.permutation(KEY, 9),
    "permutation 1700": lambda: random.permutation(KEY, 1700)[:8],
    "permutation axis": lambda: random.permutation(KEY, np.arange(12).reshape(3, 4), 1),
    **{f"categorical {axis}": lambda axis=axis: random.categorical(KEY, LOGITS, axis)
       for axis in (-1, 0, 1)},
    "categorical shape": lambda: random.categorical(KEY, LOGITS, 1, [2, 2, 4]),
    "choice": lambda: random.choice(KEY, 10, [4]),
    "choice once": lambda: random.choice(KEY, 10, [4], False),
    "choice p": lambda: random.choice(KEY, 4, [5], p=CHANCES),
    "choice p once": lambda: random.choice(KEY, 4, [3], False, CHANCES),
    "poisson": lambda: random.poisson(KEY, np.array([0.1, 3, 9], np.float32)),
}  # fmt: skip


def _draw(name: str) -> Any:
    if name in DRAWS:
        return DRAWS[name]()
    kind, dtype, *bounds = name.split()
    if kind == "randint":
        return random.randint(KEY, *map(int, bounds), [4], dtype)
    if kind == "uniform":
        return random.uniform(KEY, [2, 3], dtype, -1.0, 3.0)
    if kind == "truncated_normal":
        return random.truncated_normal(KEY, -1.0, 2.0, [5], dtype)
    if kind == "beta":
        return random.beta(KEY, SHAPES, SHAPES[::-1], None, dtype)
    if kind in ("gamma", "loggamma", "dirichlet", "t"):
        return getattr(random, kind)(KEY, SHAPES, None, dtype)
    return getattr(random, kind)(KEY, [5], dtype)


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", RECORDED["draws"])
def test_draws(name: str) -> None:
    found, wanted = _draw(name).numpy(), np.array(RECORDED["draws"][name])
    assert found.shape == wanted.shape
    tolerance = TOLERANCES.get(str(found.dtype), 0)
    np.testing.assert_allclose(found.astype(wanted.dtype), wanted, tolerance, tolerance)


def test_keys() -> None:
    for seed, words in RECORDED["keys"].items():
        assert random.key(int(seed)).tolist() == words
    assert random.split(KEY, (2, 2)).tolist() == RECORDED["split"]
    for number, words in RECORDED["fold_in"].items():
        assert random.fold_in(KEY, int(number)).tolist() == words
