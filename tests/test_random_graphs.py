"""A short run of tests/random_graphs.py; the long one is a command, see there."""

from __future__ import annotations

import numpy as np
import pytest

from phix import ops
from random_graphs import STEPS, Node, Program, check, computed, draw_program, run_draw, shrunk

GROUPS, EACH = 12, 3
# What graphs are drawn for is phix's: LLVM does all it can for one group in three.
MARKS = [pytest.mark.unoptimised, pytest.mark.each_pass]


@pytest.mark.parametrize(
    "group", [pytest.param(k, marks=MARKS if k % 3 else []) for k in range(GROUPS)]
)
def test_random_graphs_compiled_eager_and_in_numpy(group: int, seed: int) -> None:
    first = 100_000 * seed + EACH * group
    outcomes = list(map(run_draw, range(first, first + EACH)))
    reports = [o.report() for o in outcomes if o.error]
    assert not reports, "\n\n".join(reports)


def test_a_seed_makes_one_program() -> None:
    assert str(draw_program(7)) == str(draw_program(7)) != str(draw_program(8))
    assert len(STEPS) >= 18


def test_what_goes_wrong_is_found_and_shrunk() -> None:
    """A step whose reference says something else, in the middle of steps that are right."""
    x = np.array([0.25, -1.5, 2.0], np.float32)

    def node(text, reads, run, reference):
        return Node(text, np.empty(0), False, reads, run, reference)

    nodes = [Node("input", x)]
    nodes.append(computed(node("sin", (0,), ops.sin, np.sin), nodes))
    nodes.append(computed(node("wrong", (1,), ops.exp, lambda x: np.exp(x) + 1e-3), nodes))
    nodes.append(computed(node("cos", (1,), ops.cos, np.cos), nodes))
    nodes.append(computed(node("sum", (2, 3), ops.add, np.add), nodes))
    program = Program(nodes, (3, 4), 3)
    error, _ = check(program, 0)
    assert error.startswith("eager, output 1: ")
    small = shrunk(program, 0)
    assert [n.text for n in small.nodes] == ["input", "wrong", "input", "sum"]
