"""A short run of tests/random_sizes.py."""

from __future__ import annotations

import pytest

from random_sizes import STEPS, Program, run_draw

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

GROUPS, EACH = 3, 3


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_for_sizes_they_do_not_know(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    reports = [o.report() for o in map(run_draw, range(first, first + EACH)) if o.error]
    assert not reports, "\n\n".join(reports)


def test_every_step_is_drawn() -> None:
    drawn = {name for seed in range(40) for name, *_ in Program(seed).steps}
    assert drawn == set(STEPS)
