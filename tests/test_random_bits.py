"""A short run of tests/random_bits.py."""

from __future__ import annotations

import pytest

from random_bits import MASKS, OF_ALL, OF_INTS, Program, run_draw

GROUPS, EACH = 4, 8


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_bits_and_masks_in_vectors(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    reports = [o.report() for o in map(run_draw, range(first, first + EACH)) if o.error]
    assert not reports, "\n\n".join(reports)


def test_every_step_is_drawn() -> None:
    drawn = [step for seed in range(60) for step in Program(seed).steps]
    assert {name for name, *_ in drawn} == {*OF_ALL, *OF_INTS}
    assert {kind for _, kind, *_ in drawn} == set(MASKS)
