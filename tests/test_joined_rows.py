"""Rows that end within vectors, several at a time: which loops, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu import jit
from phix.kernels.cpu.joined_rows import joined_rows
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Store
from phix.kernels.scalar import language as sc
from phix.kernels.schedule.pipeline import Setting

# Of float32. Rows of SIZE end within a vector, TOGETHER of them with one.
LANES = jit.vector_registers()[0] // 4
SIZE, TOGETHER = LANES + LANES // 4 or 5, 4
OFF = {"disable": "joined_rows"}


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    x = np.random.default_rng([*shape]).standard_normal(shape) * 3
    return x.astype(dtype)


def text_of(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    return phix.jit(function, **options).lower(*args).as_text("loop ir")


def layer(x: Any, b: Any) -> Any:
    return ops.tanh(x + b) * b


# -- which loops ---------------------------------------------------------------------------------
def test_four_rows_are_one_run_beside_a_table() -> None:
    text = text_of(layer, array(100, SIZE), array(SIZE))
    assert f"local b0: float32[{TOGETHER * SIZE}]" in text
    assert f"range({TOGETHER * SIZE})" in text and "range(25)" in text
    assert text.count(f"range({SIZE})") == 1  # that of the table: 100 rows come out even
    text = text_of(layer, array(103, SIZE), array(SIZE))
    assert text.count(f"range({SIZE})") == 2 and "range(100, 103)" in text


@pytest.mark.parametrize(
    "shapes",
    [
        ((100, 2 * LANES), (2 * LANES,)),  # whole vectors
        ((4 * TOGETHER - 1, SIZE), (SIZE,)),  # too few rows
        ((100, SIZE), (SIZE, )[:0]),  # nothing but one run
        ((100, SIZE), (100, 1)),  # what differs from row to row
        ((100, 2), (2,)),  # what is short
        ((40, 64 * LANES + 1), (64 * LANES + 1,)),  # a run would be long
    ],
    ids=str,
)  # fmt: skip
def test_other_rows_stay(shapes: tuple[tuple[int, ...], ...]) -> None:
    x, b = (array(*shape) for shape in shapes)
    assert "local b0" not in text_of(layer, x, b)


def test_rows_whose_numbers_are_used_stay() -> None:
    number = lambda x: x + ops.arange(0, SIZE, 1, "float32")  # noqa: E731
    assert "local b0" not in text_of(number, array(100, SIZE))


X, Y = (Buffer(name, dt.float32, (100, SIZE), "temp") for name in ("t0", "t1"))
B = Buffer("t2", dt.float32, (SIZE,), "temp")
I, J = sc.var("i0"), sc.var("i1")
HERE = I * SIZE + J


def load(buffer: Buffer, at: Any) -> Any:
    return ir.load(buffer, (at,))


def is_joined(*stores: Store, outer: str = "parallel") -> bool:
    inner = For(J, sc.const(SIZE, dt.int64), list(stores))
    kernel = Kernel([For(I, sc.const(100, dt.int64), [inner], outer)])
    program = LoopProgram([], [], [], [X, Y, B], [kernel], {})
    joined_rows(program, Setting(Builder(())))
    return len(kernel.body) > 1


ROW = Store(Y, (HERE,), load(X, HERE) + load(B, J))
STAY: dict[str, list[Store]] = {
    "writes what is the same in each row": [ROW, Store(B, (J,), load(X, HERE))],
    "reads rows of another length": [Store(Y, (HERE,), load(X, I * (SIZE + 1) + J) + load(B, J))],
    "reads across": [Store(Y, (HERE,), load(X, J * 100 + I) + load(B, J))],
    "counts": [Store(Y, (HERE,), load(B, J) + sc.cast(I, dt.float32))],
    "picks by the place": [Store(Y, (HERE,), sc.select(J > 2, load(B, J), load(X, HERE)))],
}


def test_rows_that_are_joined() -> None:
    assert is_joined(Store(Y, (HERE,), load(X, HERE) + load(B, J)))
    assert is_joined(Store(Y, (HERE,), load(Y, HERE) + load(B, J)), outer="independent")
    assert is_joined(Store(Y, (HERE,), load(X, HERE - SIZE) + load(B, J)))
    assert not is_joined(Store(Y, (HERE,), load(X, HERE) + load(B, J)), outer="reduction")


@pytest.mark.parametrize("name", STAY)
def test_rows_that_touch_otherwise_stay(name: str) -> None:
    assert not is_joined(*STAY[name])


# -- what they compute ---------------------------------------------------------------------------
def in_float64(x: Any, b: Any) -> np.ndarray:
    x, b = np.asarray(x, float), np.asarray(b, float)
    return np.tanh(x + b) * b


@pytest.mark.parametrize("size", [3, 5, 7, 12, 20, 33, 63])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_are_the_same_bits(dtype: str, size: int) -> None:
    unknown = phix.jit(layer, input_spec=[phix.spec(["n", size], dtype), phix.spec([size], dtype)])
    for count in (0, 1, 3, 16, 64, 67, 255):
        x, b = array(count, size, dtype=dtype), array(size, dtype=dtype)
        wanted = np.asarray(phix.jit(layer, **OFF)(x, b))
        assert np.asarray(phix.jit(layer)(x, b)).tobytes() == wanted.tobytes(), count
        assert np.asarray(unknown(x, b)).tobytes() == wanted.tobytes(), count
        tolerance = 4 * float(np.finfo(dtype).eps) * 10
        np.testing.assert_allclose(wanted.astype(float), in_float64(x, b), rtol=0, atol=tolerance)


@pytest.mark.parametrize("count", [1, 5, 64, 97, 400])
def test_pieces_that_threads_take_are_made_of_runs(count: int) -> None:
    x, b = array(count, SIZE), array(SIZE)
    with phix.debug.settings(least_shared_work=1, shared_run=3, shared_run_inside=3):
        found = np.asarray(phix.jit(layer)(x, b))
        again = phix.jit(layer, input_spec=[phix.spec(["n", SIZE]), phix.spec([SIZE])])(x, b)
    wanted = np.asarray(phix.jit(layer, **OFF)(x, b))
    assert found.tobytes() == wanted.tobytes() and np.asarray(again).tobytes() == wanted.tobytes()


def test_rows_written_over_themselves_in_loops() -> None:
    """A scan whose carry stays in its memory; ints, and what is true of each row, beside it."""

    def run(x: Any, b: Any, is_kept: Any, shift: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, n = carry
            return (ops.where(is_kept, ops.sigmoid(x) - b, x + b), n + shift), None

        return phix.scan(step, (x, ops.cast(x, "int32")), None, 7)[0]

    x, b, is_kept = array(50, SIZE), array(SIZE), array(SIZE) > 0
    shift = np.arange(SIZE, dtype=np.int32)
    found, wanted = phix.jit(run)(x, b, is_kept, shift), phix.jit(run, **OFF)(x, b, is_kept, shift)
    for y, z in zip(found, wanted):
        assert np.asarray(y).tobytes() == np.asarray(z).tobytes()
    value = x.astype(float)
    for _ in range(7):
        value = np.where(is_kept, 1 / (1 + np.exp(-value)) - b, value + b)
    np.testing.assert_allclose(np.asarray(found[0]), value, rtol=1e-5, atol=1e-5)
    assert np.array_equal(np.asarray(found[1]), x.astype(np.int32) + 7 * shift)


def test_a_layer_and_its_gradient() -> None:
    """Beside other kinds of kernels, sums down the columns among them."""

    def loss(w: Any, b: Any, x: Any) -> Any:
        return (ops.tanh(x @ w + b) ** 2).sum()

    w, b, x = (
        array(7, SIZE, dtype="float64"),
        array(SIZE, dtype="float64"),
        array(90, 7, dtype="float64"),
    )
    slopes = phix.jit(phix.grad(loss, argnums=(0, 1)))(w, b, x)
    y = np.tanh(x @ w + b)
    inner = 2 * y * (1 - y * y)
    for found, wanted in zip(slopes, (x.T @ inner, inner.sum(0))):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12, atol=1e-12)
