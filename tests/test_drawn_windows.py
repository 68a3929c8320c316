"""A short run of tests/drawn_windows.py, and calls of the kind that went wrong."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from drawn_windows import CASES, run_draw
from phix import ops
from window_cases import Draw

pytestmark = [pytest.mark.unoptimised]

GROUPS, EACH, APART = 6, 3, 7  # seeds so far apart come by all ops before one comes again


@pytest.mark.parametrize("group", range(GROUPS))
def test_small_images_under_all_attributes(group: int, seed: int) -> None:
    first = 100_000 * seed + APART * EACH * group
    outcomes = [run_draw(first + APART * k) for k in range(EACH)]
    reports = [o.report() for o in outcomes if o.error]
    assert not reports, "\n\n".join(reports)


def test_all_attributes_are_drawn() -> None:
    rng = np.random.default_rng(0)
    for name, make in CASES.items():
        cases = [make(Draw(rng)) for _ in range(40)]
        inputs = max(len(c.inputs) for c in cases)
        attributes = [*inspect.signature(getattr(ops, name)).parameters][inputs:]
        given = {attr for c in cases for attr in (*c.attrs, *c.fixed)}
        assert {*attributes} <= given, name
