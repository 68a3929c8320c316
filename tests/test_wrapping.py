"""What is rolled is read in order: loops that are cut, and their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops


def text(function: Any, *shapes: Any, **options: Any) -> str:
    specs = [phix.spec(s) for s in shapes]
    return str(phix.jit(function, **options).lower(*specs).as_text("loop ir"))


def test_loops_are_cut_where_reads_begin_again() -> None:
    row = text(lambda x: ops.roll(x, [7], [1]), (50, 100))
    assert "select" not in row and "range(7)" in row and "range(93)" in row
    flat = text(lambda x: ops.roll(x, [7]), (50, 100))
    assert "select" not in flat and "range(4993)" in flat
    four = text(lambda x: sum(ops.roll(x, [s], [a]) for s in (1, -1) for a in (0, 1)), (50, 100))
    assert "range(98)" in four and four.count("range(1)") <= 2


def test_what_stays_whole() -> None:
    assert "select" in text(lambda x: ops.roll(x, [7], [1]), (50, 100), disable="peel_wraps")
    assert "select" in text(lambda x: ops.roll(x, [3], [1]), (50, 9))  # soon over
    assert "select" in text(lambda x: ops.roll(x, [3], [1]), (50, -1))
    many = text(lambda x: sum(ops.roll(x, [s], [0]) for s in range(1, 12)), (100,))
    assert "select" in many


@pytest.mark.parametrize("size", [16, 17, 70])
def test_rolled_elements_are_those_of_numpy(size: int) -> None:
    """Bit by bit, NaN and zeros of both signs among them, by every step there is."""
    x = np.random.default_rng(size).standard_normal((3, size)).astype("float32")
    x[0, 0], x[1, -1], x[2, 3] = np.nan, -0.0, np.inf
    shifts = (0, 1, -1, 5, size - 1, size, size + 3, -2 * size - 1)

    def rolls(x: Any) -> list[Any]:
        own = [ops.roll(x, [s], [1]) for s in shifts] + [ops.roll(x, [s]) for s in shifts]
        return [*own, ops.roll(x, [1, 2], [0, 1])]

    wanted = [np.roll(x, s, 1) for s in shifts] + [np.roll(x, s) for s in shifts]
    wanted.append(np.roll(x, (1, 2), (0, 1)))
    for found, right in zip(phix.jit(rolls)(x), wanted):
        assert np.asarray(found).tobytes() == right.tobytes()
