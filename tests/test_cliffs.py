"""What ``benchmarks.cliffs`` times: no size counts far more work than the one before."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cliff_families import FAMILIES
from benchmarks.cliffs import Phix, Point, sizes, steps

# Where what a program is made of changes: widths of vectors, blocks, tiles.
PAIRS = ((8, 9), (16, 17), (32, 33), (64, 65), (4, 5), (12, 13), (24, 25), (48, 49), (63, 64),
         (256, 257))  # fmt: skip
TINY = 2000  # operations or bytes: a library call copies small matrices; nothing beside a call
# NumPy has all names of the others.
TRANSFORMED = {"grad", "vmap", "hessian", "at"}
PLAIN = [n for n, f in FAMILIES.items() if TRANSFORMED.isdisjoint(f.function.__code__.co_names)]


@pytest.mark.unoptimised
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "pair"),
    [(n, pair) for n, f in FAMILIES.items() for pair in PAIRS if pair[1] <= max(f.most, 70)],
)
def test_one_more_costs_its_share(name: str, pair: tuple[int, int]) -> None:
    """Of operations, and of bytes read and written, which the loops themselves say."""
    family = FAMILIES[name]
    few, many = (Phix(family, n).lowered.cost_analysis() for n in pair)
    growth = (pair[1] / pair[0]) ** 3  # of products and factors; of others less
    for count in ("flops", "transcendentals", "bytes_read", "bytes_written"):
        before, after = getattr(few, count), getattr(many, count)
        most = 1.5 * growth
        assert after <= most * before + TINY and before <= most * after + TINY, count


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", PLAIN)
def test_a_family_is_what_numpy_says(name: str) -> None:
    family = FAMILIES[name]
    found = np.asarray(Phix(family, 5).call())
    wanted = family.function(np, None, *family.arguments(5))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_sizes_are_neighbours_powers_and_primes() -> None:
    assert sizes(70) == list(range(1, 71))
    far = sizes(600, 10)
    assert {1, 11, 61, 127, 128, 129, 192, 255, 256, 257, 511, 512, 513, 163} <= set(far)
    assert max(far) <= 600


def test_a_step_is_measured_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    family = FAMILIES["sum of rows"]
    points = [Point("", n, took, 1e-4) for n, took in ((7, 1e-4), (8, 4e-4), (9, 4.4e-4))]
    monkeypatch.setattr("benchmarks.cliffs.lowest", lambda call: 3e-4)
    ((faster, slower, ratio),) = steps(family, points)
    assert (faster.n, slower.n) == (7, 8) and ratio == pytest.approx(3.0)
    monkeypatch.setattr("benchmarks.cliffs.lowest", lambda call: 1e-4)
    assert not list(steps(family, points))
