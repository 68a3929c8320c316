"""A short run of tests/random_updates.py."""

from __future__ import annotations

import pytest

from random_updates import STEPS, Program, run_draw

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

GROUPS, EACH = 4, 6


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_updates_of_what_is_still_read(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    reports = [o.report() for o in map(run_draw, range(first, first + EACH)) if o.error]
    assert not reports, "\n\n".join(reports)


def test_every_step_is_drawn() -> None:
    assert {name for seed in range(30) for name, *_ in Program(seed).steps} == set(STEPS)
