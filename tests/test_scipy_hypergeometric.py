"""hyp1f1 and hyp2f1 beside mpmath over their domains, their edges, and their slopes."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import phix
from phix.scipy import hypergeometric, special

pytestmark = pytest.mark.unoptimised
COUNT = 160
INF, NAN = np.inf, np.nan


def _drawn(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Numbers of either sign from 10^low to 10^high, of which some are whole or halves."""
    found = 10 ** rng.uniform(low, high, COUNT) * rng.choice([-1, 1], COUNT)
    kind = rng.random(COUNT)
    return np.where(
        kind < 0.3, np.round(found), np.where(kind < 0.5, np.round(2 * found) / 2, found)
    )


def _arguments(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    shapes = [_drawn(rng, -1, 1.2) for _ in range(3 if name == "hyp2f1" else 2)]
    shapes[-1] = np.where((shapes[-1] <= 0) & (shapes[-1] % 1 == 0), 1.5, shapes[-1])
    if name == "hyp1f1":
        return [*shapes, np.where(rng.random(COUNT) < 0.9, _drawn(rng, -2, 2.4), 0)]
    inside, below = rng.uniform(-1, 1, COUNT), -(10 ** rng.uniform(-2, 6, COUNT))
    next_to_one = 1 - 10 ** rng.uniform(-9, -1, COUNT)
    return [*shapes, np.choose(rng.integers(0, 3, COUNT), [inside, below, next_to_one])]


@pytest.mark.parametrize("name", ["hyp1f1", "hyp2f1"])
def test_a_value_is_right_or_none_is_given(name: str) -> None:
    mp = pytest.importorskip("mpmath")
    args = _arguments(name)
    found = phix.jit(getattr(special, name))(*map(phix.to_tensor, args)).numpy()
    with mp.workdps(60):
        want = np.array([float(getattr(mp, name)(*map(float, at))) for at in zip(*args)])
    told = ~np.isnan(found)
    np.testing.assert_allclose(found[told], want[told], rtol=1e-9)
    assert told.mean() > 0.95


# Values that formulas give, of each way of computing.
CLOSED: list[tuple[str, tuple[float, ...], float]] = [
    ("hyp1f1", (1.5, 1.5, -700.0), np.exp(-700.0)),
    ("hyp1f1", (1.0, 2.0, 700.0), np.expm1(700) / 700),
    ("hyp1f1", (1.0, 2.0, -1e9), 1e-9), ("hyp1f1", (1.0, 2.0, 1e4), INF),
    ("hyp1f1", (-2.0, 1.0, 1e8), 0.5e16 - 2e8 + 1), ("hyp1f1", (-2.0, -2.0, 3.0), 8.5),
    ("hyp1f1", (0.5, 0.0, 1.0), INF), ("hyp1f1", (0.5, -3.0, 1.0), INF),
    ("hyp1f1", (0.0, 2.0, 5.0), 1.0),
    ("hyp1f1", (-1.0, 1.0, 1.0), 0.0), ("hyp1f1", (NAN, 1.0, 1.0), NAN),
    ("hyp1f1", (150.0, 0.3, -120.0), NAN),
    ("hyp2f1", (1.0, 1.0, 2.0, -1e12), np.log1p(1e12) / 1e12),
    ("hyp2f1", (1.0, 1.0, 2.0, 1 - 2.0**-40), 40 * np.log(2) / (1 - 2.0**-40)),
    ("hyp2f1", (0.5, 2.5, 2.5, 1 - 2.0**-30), 2.0**15),
    ("hyp2f1", (0.3, 0.4, 0.4, -1e8), (1 + 1e8) ** -0.3),
    ("hyp2f1", (0.5, 0.5, 1.5, 1.0), np.pi / 2), ("hyp2f1", (1.0, 1.0, 2.0, 1.0), INF),
    ("hyp2f1", (-2.0, 1.0, 1.0, 3.0), 4.0), ("hyp2f1", (1.0, 1.0, 2.0, 1.5), NAN),
    ("hyp2f1", (1.0, 1.0, -2.0, 0.5), INF), ("hyp2f1", (1.0, 2.0, 3.0, 0.0), 1.0),
    ("hyp2f1", (4.0, -3.0, 4.0, 1 - 2.0**-8), 2.0**-24),
]  # fmt: skip


@pytest.mark.parametrize("name", ["hyp1f1", "hyp2f1"])
def test_values_that_formulas_give(name: str) -> None:
    rows = [(args, want) for own, args, want in CLOSED if own == name]
    columns = [phix.to_tensor(np.array(c)) for c in zip(*(args for args, _ in rows))]
    found = getattr(special, name)(*columns).numpy()
    np.testing.assert_allclose(found, [want for _, want in rows], rtol=1e-11, atol=1e-15)


def test_slopes_are_the_functions_next_to_them() -> None:
    x = phix.to_tensor(np.array([-30.0, -0.4, 0.3, 0.7]))

    def total(f: Any, *shapes: float) -> Any:
        return lambda x: f(*(phix.to_tensor(np.float64(s)) for s in shapes), x).sum()

    kummer, v = total(special.hyp1f1, 1.0, 2.0), x.numpy()
    np.testing.assert_allclose(
        phix.jit(phix.grad(kummer))(x), (np.exp(v) * (v - 1) + 1) / v**2, rtol=1e-11
    )
    gauss = total(special.hyp2f1, 1.0, 1.0, 2.0)  # -log(1 - x) / x
    first = (v / (1 - v) + np.log1p(-v)) / v**2
    np.testing.assert_allclose(phix.jit(phix.grad(gauss))(x), first, rtol=1e-11)
    second = (1 / (1 - v) ** 2 - 2 * first) / v
    found = phix.jit(phix.hessian(gauss))(x).numpy()
    np.testing.assert_allclose(found, np.diag(second), rtol=1e-10)


def test_slopes_that_are_not_known_are_nan() -> None:
    slopes = phix.grad(lambda a, b: special.hyp1f1(a, b, 1.0), (0, 1))(0.5, 1.5)
    assert all(np.isnan(s.item()) for s in slopes)
    assert special.hyp1f1(np.float32(1), 2, 1).dtype == "float32"


def test_the_examples_run() -> None:
    found = doctest.testmod(hypergeometric)
    assert found.attempted and not found.failed
