"""Sorts by digits on the emulated GPU, against NumPy: every dtype and all that is special."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import compile_all, needs_compiler, program, shapes, sources
from phix import ops
from phix.kernels.gpu import radix, scatter
from phix.kernels.loops import nodes as ir
from tests.test_sorting import DTYPES, numbers, stable_order

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu sorts"), pytest.mark.unoptimised]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 30 elements are long."""
    monkeypatch.setattr(radix, "LEAST", 30)


def run(f: Callable[..., Any], *args: np.ndarray) -> tuple[list[np.ndarray], list[ir.Step]]:
    """What the emulated GPU makes of a function, and the steps of its program."""
    made = program(phix.jit(f).lower(*args).graph)
    found = made.launcher(shapes(args))(*args)
    return [np.asarray(a) for a in found], made.loops.steps


def passes(steps: list[ir.Step]) -> int:
    return sum(isinstance(s, radix.DigitMoves) for s in steps)


@pytest.mark.parametrize("name", DTYPES)
def test_rows_are_in_the_order_of_numpy(name: str, short: None) -> None:
    x = numbers((3, 71), np.dtype(name), 5)
    (up, down, found, order), steps = run(
        lambda t: (ops.sort(t), ops.sort(t, -1, True), *ops.argsort(t, -1, True)), x
    )
    assert passes(steps) == 3 * x.dtype.itemsize
    backward = stable_order(x, -1, True)
    np.testing.assert_array_equal(order, backward)
    for values, wanted in (
        (up, np.take_along_axis(x, stable_order(x, -1, False), -1)),
        (down, np.take_along_axis(x, backward, -1)),
        (found, np.take_along_axis(x, backward, -1)),
    ):
        np.testing.assert_array_equal(values, wanted)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(values), np.signbit(wanted))


def test_bfloat16(short: None, rng: np.random.Generator) -> None:
    x = rng.normal(size=100).astype(phix.bfloat16)
    (values, order), steps = run(ops.argsort, x)
    np.testing.assert_array_equal(order, np.argsort(x.astype("f"), kind="stable"))
    np.testing.assert_array_equal(values.astype("f"), np.sort(x.astype("f")))
    assert passes(steps) == 2


def test_blocks_go_along_several_tiles(monkeypatch: pytest.MonkeyPatch, rng: Any) -> None:
    monkeypatch.setattr(radix, "_MOST_CHUNKS", 2)
    x = rng.integers(-300, 300, (2, 20_000)).astype(np.int16)  # five tiles a row
    (values, order), _ = run(ops.argsort, x)
    np.testing.assert_array_equal(order, np.argsort(x, -1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, -1))


def test_the_first_of_a_sorted_row(short: None, rng: np.random.Generator) -> None:
    x = rng.integers(0, 9, (2, 400)).astype(np.float32)
    (values, order), _ = run(lambda t: ops.topk(t, 7, -1), x)
    wanted = stable_order(x, -1, True)[:, :7]
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))


def test_what_is_not_known_or_lies_across_is_left_to_a_library(short: None) -> None:
    def steps(f: Callable[..., Any], spec: Any) -> list[ir.Step]:
        return program(phix.jit(f).lower(spec).graph).loops.steps

    assert passes(steps(ops.sort, phix.spec([64])))
    for f, dims in ((ops.sort, ["n"]), (ops.sort, [29]), (lambda x: ops.sort(x, 0), [64, 2])):
        assert [type(s) for s in steps(f, phix.spec(dims))] == [ir.HostStep]


@pytest.mark.parametrize(("size", "count"), [(300, 2), (256, 1)])
def test_places_of_a_scatter_take_the_passes_that_the_bits_of_rows_need(
    short: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, size: int, count: int
) -> None:
    monkeypatch.setattr(scatter, "_NOT_COUNTED", 30)
    table = rng.normal(size=(size, 4)).astype(np.float32)
    ids, rows = rng.integers(0, size, 90), rng.normal(size=(90, 4)).astype(np.float32)
    (found,), steps = run(lambda t, i, r: ops.index_add(t, i, r, 0), table, ids, rows)
    assert passes(steps) == count
    wanted = table.astype(np.float64)
    np.add.at(wanted, ids, rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_programs_with_sorts_are_recorded() -> None:
    made = program(phix.jit(lambda x: ops.sort(x) * 2.0).lower(phix.spec([8192])).graph)
    assert made.is_recordable
    assert not program(phix.jit(ops.sort).lower(phix.spec([100])).graph).is_recordable


def test_nvrtc_compiles_the_passes() -> None:
    modules = []
    for dtype in ("uint8", "float16", "float32", "float64"):
        x = np.zeros((2, 8192), dtype)
        modules += sources(phix.jit(lambda t: ops.argsort(t, -1, True)).lower(x).graph, [x])
    compile_all(modules)
