"""A short run of tests/random_steps.py."""

from __future__ import annotations

import pytest

from random_steps import OPS, Loop, Program, run_draw

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

GROUPS, EACH = 3, 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_loops_that_are_written_out(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    outcomes = list(map(run_draw, range(first, first + EACH)))
    reports = [o.report() for o in outcomes if o.error]
    assert not reports, "\n\n".join(reports)
    assert any(o.scans for o in outcomes)


def test_every_op_and_source_is_drawn() -> None:
    loops: list[Loop] = [loop for seed in range(30) for loop in Program(seed).loops]
    calls = [call for loop in loops for call in loop.calls]
    assert {c.op for c in calls} == set(OPS)
    kinds = {kind for c in calls for kind, _ in (c.a, c.b)}
    assert kinds == {"state", "value", "row", "column", "number", "fixed", "ago", "list"}
    assert any(loop.inner for loop in loops)
