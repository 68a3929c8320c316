"""Totals down the columns take several rows at a time, and are the same bits as row after row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rewrites
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Store
from phix.kernels.loops.text import program_text
from phix.kernels.scalar import language as sc
from phix.kernels.schedule.pipeline import Setting
from phix.kernels.schedule.several_rows import several_rows

pytestmark = pytest.mark.unoptimised(4)

RNG = np.random.default_rng(0)


def text_of(function: Callable[..., Any], *args: Any) -> str:
    return phix.jit(function).lower(*args).as_text("loop ir")


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# -- which loops are taken together ------------------------------------------------------------
def test_eight_rows_add_to_a_total_that_is_loaded_once() -> None:
    text = text_of(lambda x: ops.sum(x, 0), array(16, 5))
    assert "for i2 in range(2):  # reduction" in text
    (line,) = (line for line in text.splitlines() if "o0[i1] = (" in line)
    assert line.count("o0[i1]") == 2 and line.count("x0[") == 8


def test_rows_that_are_left_have_a_loop_of_their_own() -> None:
    text = text_of(lambda x: ops.max(x, 0), array(19, 5))
    assert "for i2 in range(2):" in text and "for i0 in range(16, 19):" in text


def test_expensive_rows_are_taken_fewer_at_a_time() -> None:
    cheap = text_of(lambda x: ops.sum(x, 0), array(64, 5))
    dear = text_of(lambda x: ops.sum(ops.sin(ops.exp(x)), 0), array(64, 5))
    assert "in range(8):" in cheap and "in range(8):" not in dear


def test_a_running_sum_takes_several_rows_with_totals_of_its_own() -> None:
    x = array(16, 5)
    running = text_of(lambda x: ops.cumsum(x, 0), x)
    with rewrites.without(frozenset({"several_rows"})):
        assert text_of(lambda x: ops.cumsum(x, 0), x) != running
    np.testing.assert_allclose(ops.cumsum(x, 0), np.cumsum(x, 0), rtol=1e-6)


# -- what they compute -------------------------------------------------------------------------
CASES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: ops.sum(x, 0),
    "prod": lambda x: ops.prod(x, 0),
    "max": lambda x: ops.max(x, 0),
    "argmin": lambda x: ops.argmin(x, 0),
    "middle axis": lambda x: ops.sum(ops.reshape(x, [x.shape[0], -1, 3]), 1),
    "mean": lambda x: ops.mean(x, 0),
    "softmax": lambda x: ops.softmax(x, 0),
    "sums of what is stored": lambda x: (x * 2.0, ops.sum(x * 2.0, 0), ops.min(x * 2.0, 0)),
    "half": lambda x: ops.sum(ops.cast(x, "float16"), 0),
    "complex": lambda x: ops.sum(ops.complex(x, x + 1.0), 0),
    "any": lambda x: ops.any(x > 2.0, 0),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("rows", [1, 7, 8, 43])
@pytest.mark.parametrize("name", CASES)
def test_results_are_the_same_bits(name: str, rows: int, is_known: bool) -> None:
    function, x = CASES[name], array(rows, 12)
    x[rows // 2, 3] = np.nan
    spec = None if is_known else [phix.spec(["n", "m" if name != "middle axis" else 12], "float32")]
    options: dict[str, Any] = {} if spec is None else {"input_spec": spec}
    found = phix.jit(function, **options)(x)
    wanted = phix.jit(function, disable="several_rows", **options)(x)
    for a, b in zip(phix.tree.leaves(found), phix.tree.leaves(wanted)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


# -- loops written by hand ---------------------------------------------------------------------
I, J = sc.var("i0"), sc.var("i1")


def buffer(name: str, kind: str) -> Buffer:
    return Buffer(name, np.dtype("float32"), (16, 4), kind)


def load(b: Buffer, at: Any) -> Any:
    return ir.load(b, (at,))


def rows_of(*stores: Store) -> str:
    """A loop over 16 rows of 4 columns, after the rewrite."""
    loop = For(I, sc.const(16, np.dtype("int64")), [], "reduction")
    loop.body.append(For(J, sc.const(4, np.dtype("int64")), list(stores)))
    program = LoopProgram([], [], [], [], [Kernel([loop])], {})
    several_rows(program, Setting(Builder(())))
    return program_text(program)


X, A, B = buffer("x0", "input"), buffer("o0", "output"), buffer("o1", "output")
ROW = I * 4 + J


def add(total: Buffer, value: Any) -> Store:
    return Store(total, (J,), load(total, J) + value)


def test_totals_that_read_each_other_stay() -> None:
    assert "range(2)" not in rows_of(add(A, load(B, J)), add(B, load(X, ROW)))
    assert "range(2)" in rows_of(add(A, load(X, ROW)), add(B, load(X, ROW)))


def test_what_is_stored_of_a_running_total_is_that_of_its_row() -> None:
    lines = rows_of(add(A, load(X, ROW)), Store(B, (ROW,), load(A, J))).splitlines()
    stored = [line.strip() for line in lines if line.strip().startswith("o1[")]
    assert len(stored) == 8 and len({line.partition(" = ")[2] for line in stored}) == 8


def test_what_reaches_into_the_next_row_stays() -> None:
    reaching = Store(B, (I * 3 + J,), load(X, ROW))
    assert "range(2)" not in rows_of(add(A, load(X, ROW)), reaching)
    apart = Store(B, (ROW,), load(X, ROW))
    assert "range(2)" in rows_of(add(A, load(X, ROW)), apart)


def test_rows_that_read_the_row_before_stay() -> None:
    above = load(B, ROW - 4)
    assert "range(2)" not in rows_of(add(A, load(X, ROW)), Store(B, (ROW,), above + load(X, ROW)))


def test_a_total_of_what_the_rows_write_over_is_kept_in_a_scalar() -> None:
    lines = rows_of(add(A, load(B, ROW)), Store(B, (ROW,), load(B, ROW) + 1.0)).splitlines()
    order = [
        line.split()[0].split("[")[0] for line in lines if "o1[" in line or line.strip()[0] == "a"
    ]
    assert order == ["a0:", "o1"] + [f for k in range(1, 8) for f in (f"a{k}:", "o1")]


def test_what_reads_a_total_of_another_column_stays() -> None:
    assert "range(2)" not in rows_of(Store(A, (J,), load(A, J) + load(A, J + 1)))
