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

import phix
from phix import random

RECORDED = json.loads((Path(__file__).parent / "data" / "jax_random_numbers.json").read_text())
KEY = random.key(12345678901)
SHAPES = np.array([0.1, 0.9, 1, 3, 50])
LOGITS = np.sin(np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
CHANCES_OF_SUCCESS = np.array([0.1, 0.3, 0.5, 0.9, 0.99], np.float32)
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
    "geometric": lambda: random.geometric(KEY, CHANCES_OF_SUCCESS),
    "poisson": lambda: random.poisson(KEY, np.array([0.1, 3, 9], np.float32)),
}  # fmt: skip

MEAN, COVARIANCE = np.array([1.0, -2.0]), np.array([[2.0, 0.3], [0.3, 1.0]])
DERIVED: dict[str, Callable[[str], Any]] = {
    "rademacher": lambda dtype: random.rademacher(KEY, (7,), dtype),
    "pareto": lambda dtype: random.pareto(KEY, SHAPES, None, dtype),
    "rayleigh": lambda dtype: random.rayleigh(KEY, SHAPES, None, dtype),
    "weibull_min": lambda dtype: random.weibull_min(KEY, 2.0, 3.0, (5,), dtype),
    "triangular": lambda dtype: random.triangular(KEY, -1.0, 0.5, 3.0, (5,), dtype),
    "lognormal": lambda dtype: random.lognormal(KEY, 0.7, (5,), dtype),
    "maxwell": lambda dtype: random.maxwell(KEY, (5,), dtype),
    "double_sided_maxwell": lambda dtype: random.double_sided_maxwell(KEY, 1.0, 2.0, (5,), dtype),
    "wald": lambda dtype: random.wald(KEY, SHAPES, None, dtype),
    "multivariate_normal": lambda dtype: random.multivariate_normal(
        KEY, MEAN, COVARIANCE, (3,), dtype
    ),
    "orthogonal": lambda dtype: random.orthogonal(KEY, 3, (2,), dtype),
    "orthogonal_wide": lambda dtype: random.orthogonal(KEY, 2, (), dtype, 4),
    "chisquare": lambda dtype: random.chisquare(KEY, SHAPES, None, dtype),
    "f": lambda dtype: random.f(KEY, SHAPES, SHAPES[::-1], None, dtype),
    "generalized_normal": lambda dtype: random.generalized_normal(KEY, 3.0, (5,), dtype),
    "ball": lambda dtype: random.ball(KEY, 3, 2, (4,), dtype),
}


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
    if kind in DERIVED:
        with phix.default_dtype("float64"):  # as JAX has it, of which coins are thrown
            return DERIVED[kind](dtype)
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


def test_numbers_of_python_keep_their_digits_in_float64() -> None:
    """As parameters, whatever the default float is."""
    z = random.normal(KEY, [5], "float64").numpy()
    u = random.uniform(KEY, [5], "float64").numpy()
    np.testing.assert_allclose(random.normal(KEY, [5], "float64", 0.1, 0.3), 0.1 + 0.3 * z, 1e-15)
    np.testing.assert_allclose(random.uniform(KEY, [5], "float64", 0.1, 0.7), 0.1 + 0.6 * u, 1e-15)
    exact = random.gamma(KEY, np.full(5, 0.7), None, "float64")
    np.testing.assert_array_equal(random.gamma(KEY, 0.7, [5], "float64"), exact)
    inside = random.truncated_normal(KEY, np.array(-0.1), np.array(0.3), [5], "float64")
    np.testing.assert_array_equal(random.truncated_normal(KEY, -0.1, 0.3, [5], "float64"), inside)
