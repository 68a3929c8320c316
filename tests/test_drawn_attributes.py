"""A short run of tests/drawn_attributes.py, and small programs of the kind that went wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from drawn_attributes import NAMES, run_draw
from phix import ops

pytestmark = [pytest.mark.unoptimised]

GROUPS, EACH = 4, 5
STRIDE = 61  # between the ops of one run, whose names are in order


@pytest.mark.parametrize("group", range(GROUPS))
def test_ops_with_all_attributes_drawn(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    outcomes = [run_draw(STRIDE * k) for k in range(first, first + EACH)]
    reports = [o.report() for o in outcomes if o.error]
    assert not reports, "\n\n".join(reports)
    assert sum(bool(o.refusal) for o in outcomes) < EACH / 2


def test_every_row_is_of_an_op() -> None:
    assert len(NAMES) > 200
    assert all(hasattr(ops, name) for name in NAMES)


def test_factors_of_wide_and_tall_matrices_compiled_for_both(rng: np.random.Generator) -> None:
    """Gradients for unknown sizes were joined from parts that fit tall matrices alone."""

    def loss(x: Any) -> Any:
        return ops.sum(ops.sin(ops.lu(x)[0]))

    compiled = phix.jit(phix.grad(loss), input_spec=[phix.spec([-1, -1], "float64")])
    for shape in ((2, 4), (4, 2), (3, 3), (0, 2)):
        x = rng.normal(size=shape)
        np.testing.assert_allclose(compiled(x), phix.grad(loss)(x), rtol=1e-12, atol=1e-12)
