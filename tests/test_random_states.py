"""A short run of tests/random_states.py."""

from __future__ import annotations

import pytest

from random_states import BODIES, MOVES, PLAIN, Program, Step, run_draw

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

GROUPS, EACH = 4, 6


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_states_in_loops_and_branches(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    reports = [o.report() for o in map(run_draw, range(first, first + EACH)) if o.error]
    assert not reports, "\n\n".join(reports)


def names(steps: list[Step]) -> set[str]:
    return {s.name for s in steps} | {name for s in steps for name in names(s.steps)}


def test_every_step_is_drawn() -> None:
    drawn = {name for seed in range(100) for name in names(Program(seed).steps)}
    assert drawn == {*PLAIN, *MOVES, *BODIES, "cast"}
