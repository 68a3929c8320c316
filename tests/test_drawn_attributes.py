"""A short run of tests/drawn_attributes.py, and small programs of the kind that went wrong."""

from __future__ import annotations

import pytest

from drawn_attributes import NAMES, run_draw

pytestmark = [pytest.mark.unoptimised]

GROUPS, EACH = 4, 7


@pytest.mark.parametrize("group", range(GROUPS))
def test_ops_with_all_attributes_drawn(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    outcomes = [run_draw(31 * k) for k in range(first, first + EACH)]
    reports = [o.report() for o in outcomes if o.error]
    assert not reports, "\n\n".join(reports)
    assert sum(bool(o.refusal) for o in outcomes) < EACH / 2


def test_every_op_of_the_tables_is_one() -> None:
    from phix import ops

    assert len(NAMES) > 200 and all(hasattr(ops, name) for name in NAMES)
