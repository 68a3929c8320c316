"""A short run of tests/random_programs.py; the long one is a command, see there."""

from __future__ import annotations

import pytest

from phix.interpreters import known_pulls
from random_programs import TRANSFORMATIONS, run_draw

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

GROUPS, EACH = 8, 3


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_under_random_stacks(
    group: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_pulls, "ENOUGH", 2)  # as after many calls
    first = 100_000 * seed + EACH * group
    reports = [o.report() for o in map(run_draw, range(first, first + EACH)) if o.error]
    assert not reports, "\n\n".join(reports)


def test_every_transformation_is_drawn() -> None:
    assert set(TRANSFORMATIONS) == {"checkpoint", "grad", "jet", "jit", "jvp", "linearize", "vmap"}
