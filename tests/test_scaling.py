"""benchmarks/scaling.py: what its plans cost, beside formulas; and docs/scaling.md."""

from __future__ import annotations

import math

import pytest

from benchmarks import scaling
from benchmarks.scaling import Machine, Model

MODEL = Model(layers=3, width=16, wide=32, heads=4, words=64, length=8, batch=8)
WEIGHTS = sum(math.prod(s) for s in scaling.shapes(MODEL).values())
NODE = Machine(node=2)


def bytes_of(row: scaling.Row, kind: str, axis: str = "data") -> float:
    return sum((s.times or 1) * s.bytes for s in row.steps if (s.kind, s.axis) == (kind, axis))


def test_plans_cost_what_formulas_say() -> None:
    m = MODEL
    rows = {name: scaling.row(name, 4, m, NODE) for name in scaling.PLANS}
    data, states, zero = (rows[n] for n in scaling.PLANS[:3])
    assert bytes_of(data, "psum") == pytest.approx(2 * 2 * WEIGHTS * 3 / 4, rel=0.02)
    assert data.held == (2 + 12) * WEIGHTS
    for kind in ("psum_scatter", "all_gather"):
        assert bytes_of(states, kind) == pytest.approx(2 * WEIGHTS * 3 / 4, rel=0.02)
    layers = {n: math.prod(s) for n, s in scaling.shapes(m).items() if s[0] == m.layers}
    assert bytes_of(zero, "all_gather") > 1.8 * 2 * sum(layers.values()) * 3 / 4
    assert zero.held == pytest.approx((2 + 12) * WEIGHTS / 4, rel=0.01)
    # forward, again, and twice backward: of each row of each product, and of the scores
    tokens, d = m.batch * m.length, m.width
    layer = tokens * (4 * d * d + 3 * d * m.wide) + 2 * tokens * m.length * d
    whole = 4 * m.layers * layer + 3 * tokens * d * m.words
    assert data.computing * NODE.rate / 2 == pytest.approx(whole / 4, rel=0.05)
    tensor = rows["tensor"]
    activation = 2 * tokens / 2 * d
    # two sums of each layer forward, two backward, and one again
    assert bytes_of(tensor, "psum", "model") == pytest.approx(m.layers * 5 * activation, rel=0.01)
    staged = scaling.staged(data, m, NODE)
    assert staged.computing == pytest.approx(5 / 4 * data.computing * (4 + 2) / 4)


@pytest.mark.prove
def test_the_page_is_what_is_written() -> None:
    found = scaling.page(Model(), Machine(), scaling.DEVICES)
    assert scaling.PAGE.read_text("utf-8") == found
