"""Long rows gone through several at a time: which loops, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu.rows_together import rows_together
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, LoopProgram, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

OFF = {"disable": "rows_together"}


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng([*shape]).standard_normal(shape) * 2).astype(dtype)


def normal_of(x: np.ndarray) -> np.ndarray:
    apart = x - x.mean(-1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)


# -- which loops ---------------------------------------------------------------------------------
def text_of(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    return phix.jit(function, **options).lower(*args).as_text("loop ir")


def test_four_parts_of_the_rows_are_gone_through_at_once() -> None:
    maximum = lambda x: ops.max(x, 1)  # noqa: E731
    text = text_of(maximum, array(100, 200))
    assert text.count("-inf") == 4 and text.count("for ") == 2 and "range(25)" in text
    assert "o0[(25 + i2)]" in text and "o0[(75 + i2)]" in text
    assert text_of(maximum, array(100, 200), **OFF).count("-inf") == 1


def test_parts_of_unlike_sizes_overlap() -> None:
    text = text_of(lambda x: ops.max(x, 1), array(101, 200))
    assert "range(26)" in text and "o0[(75 + i2)]" in text and "o0[(52 + i2)]" in text


def test_memory_of_a_row_is_that_of_four() -> None:
    text = text_of(lambda x: ops.layer_norm(x, None, None), array(100, 200))
    assert "t0: float32[800]" in text and "t0: float32[200]" not in text


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: ops.max(x, 1), (31, 200)),  # few rows
        (lambda x: ops.max(x, 1), (100, 31)),  # short ones
        (lambda x: ops.max(ops.exp(x), 1), (100, 200)),  # of which much is made
        (lambda x: ops.max(x, 0), (100, 200)),  # columns
        (ops.exp, (100, 200)),  # nothing is found of a row
    ],
)
def test_other_rows_stay(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    assert text_of(function, array(*shape)) == text_of(function, array(*shape), **OFF)


def test_an_unknown_number_of_rows_may_be_a_few() -> None:
    one = phix.jit(lambda x: ops.max(x, 1)).lower(phix.spec(["n", 200]))
    assert one.as_text("loop ir").count("-inf") == 1


I, J, SUM, ALL = sc.var("i0"), sc.var("i1"), sc.var("a0", dt.float32), sc.var("a1", dt.float32)
ROWS, SIZE = 100, 64
X, Y = (Buffer(name, np.dtype("float32"), (ROWS * SIZE,), "temp") for name in ("t0", "t1"))
TOTAL = Buffer("t2", np.dtype("float32"), (ROWS,), "temp")
OWN = Buffer("t3", np.dtype("float32"), (SIZE,), "local")
HERE = I * SIZE + J


def load(buffer: Buffer, at: Expr) -> Expr:
    return Expr("load", (at,), dt.float32, buffer)


def along(*body: Any, kind: str = "reduction") -> For:
    return For(J, sc.const(SIZE, dt.int64), list(body), kind)


def add(target: Expr, value: Expr) -> Assign:
    return Assign((target,), (target + value,), True)


def is_taken(*body: Any, outer: str = "parallel") -> bool:
    kernel = Kernel([For(I, sc.const(ROWS, dt.int64), list(body), outer)])
    if any(OWN in ir.writes([s]) for s in body):
        kernel.locals[OWN] = sc.const(SIZE, dt.int64)
    program = LoopProgram([], [], [], [X, Y, TOTAL], [kernel], {})
    rows_together(program, Setting(Builder(())))
    (loop,) = kernel.body
    assert isinstance(loop, For)
    return bool(loop.extent.data != ROWS)


START, FIND = Declare(SUM, sc.const(0.0, dt.float32)), along(add(SUM, load(X, HERE)))
END = Store(TOTAL, (I,), SUM)
TAKEN: dict[str, tuple[Any, ...]] = {
    "a total": (START, FIND, END),
    "a row": (START, FIND, along(Store(Y, (HERE,), load(X, HERE) / SUM), kind="parallel")),
    "memory of its own": (
        START,
        along(Store(OWN, (J,), load(X, HERE) * 2.0), add(SUM, load(OWN, J))),
        along(Store(Y, (HERE,), load(OWN, J) / SUM), kind="parallel"),
    ),
}
STAY: dict[str, tuple[Any, ...]] = {
    "over what it reads": (START, FIND, along(Store(X, (HERE,), SUM * 1.0), kind="parallel")),
    "what the row before wrote": (START, FIND, Store(TOTAL, (I,), SUM + load(TOTAL, I - 1))),
    "one place for all rows": (START, FIND, Store(TOTAL, (ir.ZERO,), SUM)),
    "two places": (START, FIND, END, Store(TOTAL, (I + 1,), SUM)),
    "a total of all rows": (START, FIND, add(ALL, SUM), END),
    "memory that the row before filled": (
        START,
        along(add(SUM, load(X, HERE) + load(OWN, J))),
        along(Store(OWN, (J,), SUM * 1.0), kind="parallel"),
        END,
    ),
    "numbers that all rows read": (START, along(add(SUM, load(X, J))), END),
    "numbers that lie apart": (START, along(add(SUM, load(X, J * ROWS + I))), END),
}


@pytest.mark.parametrize("name", TAKEN)
def test_rows_that_are_taken(name: str) -> None:
    assert is_taken(*TAKEN[name])
    assert not is_taken(*TAKEN[name], outer="reduction")


@pytest.mark.parametrize("name", STAY)
def test_rows_that_touch_otherwise_stay(name: str) -> None:
    assert not is_taken(*STAY[name])


# -- what they compute ---------------------------------------------------------------------------
Case = tuple[Callable[..., Any], Callable[..., Any]]
CASES: dict[str, Case] = {
    "max": (lambda x, w: ops.max(x, 1), lambda x, w: x.max(1)),
    "min and max": (
        lambda x, w: (ops.min(x + w, 1), ops.max(x, 1)),
        lambda x, w: ((x + w).min(1), x.max(1)),
    ),
    "sum": (lambda x, w: ops.sum(x, 1), lambda x, w: x.sum(1)),
    "squares": (lambda x, w: (x * x - w).sum(1), lambda x, w: (x * x - w).sum(1)),
    "variance": (lambda x, w: phix.numpy.var(x, 1), lambda x, w: x.var(1)),
    "argmax": (lambda x, w: ops.argmax(x, 1), lambda x, w: x.argmax(1)),
    "norm of a layer": (lambda x, w: ops.layer_norm(x, w, None), lambda x, w: normal_of(x) * w),
    "rms norm": (
        lambda x, w: x / ops.sqrt((x * x).mean(1, keepdim=True) + 1e-5) * w,
        lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w,
    ),
    "apart from their means": (
        lambda x, w: x - x.mean(1, keepdim=True),
        lambda x, w: x - x.mean(1, keepdims=True),
    ),
    "inner products": (lambda x, w: (x * w).sum(1), lambda x, w: (x * w).sum(1)),
    "gradient of norms": (
        phix.grad(lambda x, w: ops.sqrt((x * x).sum(1)).sum()),
        lambda x, w: x / np.sqrt((x * x).sum(1, keepdims=True)),
    ),
}
TOLERANCE = {"float16": 1e-2, "float32": 2e-5, "float64": 2e-13}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_results_are_those_of_float64(name: str, dtype: str) -> None:
    function, reference = CASES[name]
    for size in (33, 64, 600):
        spec = [phix.spec(dims, dtype) for dims in (["n", size], [size])]
        unknown = phix.jit(function, input_spec=spec)
        for count in (1, 3, 31, 32, 33, 130, 131):
            args = [array(*shape, dtype=dtype) for shape in ((count, size), (size,))]
            wanted = phix.tree.leaves(reference(*(a.astype(float) for a in args)))
            with phix.debug.settings(least_shared_work=1, shared_run=3, shared_run_inside=3):
                pieces = phix.jit(function)(*args)
            for found in (phix.jit(function)(*args), unknown(*args), pieces):
                for y, z in zip(phix.tree.leaves(found), wanted):
                    atol = TOLERANCE[dtype] * max(1.0, np.abs(z).max())
                    np.testing.assert_allclose(np.asarray(y, float), z, TOLERANCE[dtype], atol)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "uint8"])
def test_ints_and_bools_are_exact(dtype: str) -> None:
    x = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 100, (131, 70)).astype(dtype)
    assert (np.asarray(phix.jit(lambda x: ops.max(x, 1))(x)) == x.max(1)).all()
    assert (np.asarray(phix.jit(lambda x: ops.sum(x, 1))(x)) == x.sum(1)).all()


@pytest.mark.parametrize("name", ["max", "variance", "norm of a layer", "squares"])
def test_equal_rows_have_equal_results_wherever_they_stand(name: str) -> None:
    function = phix.jit(CASES[name][0])
    with phix.debug.settings(least_shared_work=1, shared_run=3, shared_run_inside=3):
        for count in (35, 64, 131, 1001):
            x, w = np.tile(array(1, 100), (count, 1)), array(100)
            found = np.asarray(function(x, w)).reshape(count, -1)
            assert (found == found[0]).all()


def test_a_row_with_no_number_spoils_no_other() -> None:
    x = array(131, 100)
    x[7, 3], x[50, 99], x[130, 0], x[64, 64] = np.nan, np.inf, -np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        for name in ("max", "min and max", "variance", "norm of a layer"):
            function, reference = CASES[name]
            w = array(100)
            wanted = phix.tree.leaves(reference(x.astype(float), w.astype(float)))
            for y, z in zip(phix.tree.leaves(phix.jit(function)(x, w)), wanted):
                np.testing.assert_allclose(np.asarray(y), z, 1e-4, 1e-4)


def test_rows_written_over_themselves() -> None:
    """Where the result lies in the argument's memory, and where a loop carries it on."""
    step = lambda x: x - x.mean(1, keepdim=True) * 0.5  # noqa: E731
    x = array(131, 100)
    wanted = x.astype(float)
    for _ in range(5):
        wanted = wanted - wanted.mean(1, keepdims=True) * 0.5
    looped = phix.jit(lambda x: phix.fori_loop(0, 5, lambda _, x: step(x), x))(x)
    np.testing.assert_allclose(np.asarray(looped), wanted, 1e-5, 1e-5)
    moved, given = phix.jit(step, donate_argnums=0), phix.to_tensor(x.copy())
    for _ in range(5):
        given = moved(given)
    np.testing.assert_allclose(np.asarray(given), wanted, 1e-5, 1e-5)


def test_a_lane_each() -> None:
    """Of vmap of vmap, whose rows are those of several axes."""
    x = array(5, 40, 64)
    found = phix.jit(phix.vmap(phix.vmap(lambda v: (ops.max(v), (v * v).sum()))))(x)
    for y, z in zip(found, (x.max(2), (x.astype(float) ** 2).sum(2))):
        np.testing.assert_allclose(np.asarray(y), z, 1e-5)
