"""A short run of tests/random_moves.py, and small programs of the kind that went wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import VerificationError
from phix.core.rules import Call
from random_moves import MOVES, Program, run_draw

pytestmark = [pytest.mark.unoptimised, pytest.mark.each_pass]

GROUPS, EACH = 4, 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_moves_in_scans_and_step_by_step(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    reports = [o.report() for o in map(run_draw, range(first, first + EACH)) if o.error]
    assert not reports, "\n\n".join(reports)


def test_every_move_is_drawn() -> None:
    drawn = {name for seed in range(50) for name, _ in Program(seed).steps}
    assert drawn == {*MOVES, "of two", "of one"}


def test_what_a_scan_has_changed_is_not_read_again(rng: np.random.Generator) -> None:
    """A part of the carry that stood in a temp was read where that was, behind a loop that had
    written the new carry."""

    def pad(x: Any, before: int, behind: int) -> Any:
        return ops.pad(x, paddings=(0, 0, before, behind))

    def step(carry: Any, read: Any) -> Any:
        (a, b), (p, q, w) = carry, read
        s = ops.reshape(ops.reshape(a[:, 1:], (2,)) + ops.reshape(b[:, :1], (2,)), (2, 1))
        return (pad(p, 0, 1) * w, pad(b[:, 1:], 1, 0) + pad(s, 0, 1) + pad(q, 0, 1)), None

    carry = tuple(rng.normal(size=(2, 2, 2)))
    read = (*rng.normal(size=(2, 2, 2, 1)), rng.normal(size=(2, 2, 2)))
    a, b = carry
    for p, q, w in zip(*read):
        s = np.append(a[:, 1:] + b[:, :1], [[0], [0]], 1)
        moved = np.append([[0], [0]], b[:, 1:], 1)
        a, b = np.append(p, [[0], [0]], 1) * w, moved + s + np.append(q, [[0], [0]], 1)
    for make in (lambda f: f, phix.jit):
        (found_a, found_b), _ = make(lambda c, xs: phix.scan(step, c, xs))(carry, read)
        np.testing.assert_allclose(found_a, a, rtol=1e-13)
        np.testing.assert_allclose(found_b, b, rtol=1e-13)


def test_an_element_with_more_axes_is_expanded_to_fewer() -> None:
    """Left as it was, it gave its axes to all that followed."""

    def program(one: Any, x: Any) -> Any:
        wide = ops.expand(ops.reshape(one, (1,)), (3,))
        return ops.cumsum(x + wide, 0)

    one, x = np.full((1, 1), 2.0), np.arange(3.0)
    found = phix.jit(program)(one, x)
    np.testing.assert_array_equal(found, np.cumsum(x + 2.0))
    assert phix.make_graph(program)(one, x).outputs[0].meta.dims == (3,)


def test_a_rewrite_that_changes_dims_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(op: str, x: Any) -> Any:
        return Call("reshape", (x, (1, 3)))

    monkeypatch.setattr(phix.core.rules.OPS["tanh"], "simplifications", (("idempotent", wrong),))
    with pytest.raises(VerificationError, match=r"idempotent makes float64\[1, 3\] of tanh that"):
        phix.make_graph(ops.tanh)(np.ones(3))
