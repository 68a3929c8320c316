"""Short rows of which much is made, a block at a time: which loops, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu import jit
from phix.kernels.cpu.distributed_rows import distributed_rows
from phix.kernels.cpu.level import has_masks
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, LoopProgram, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

LANES = jit.vector_registers()[0] // 4  # of float32
SIZE = 11
OFF = {"disable": "distributed_rows"}


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng([*shape]).standard_normal(shape) * 2).astype(dtype)


def text_of(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    return phix.jit(function, **options).lower(*args).as_text("loop ir")


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def total_of(x: np.ndarray) -> np.ndarray:
    most = x.max(-1, keepdims=True)
    return np.log(np.exp(x - most).sum(-1)) + most[..., 0]


def part_of(v: np.ndarray) -> np.ndarray:
    """Rows of ``v`` in places 1 to 3, and zeros."""
    return v[:, None] * np.isin(np.arange(SIZE), [1, 2, 3])


# -- which loops ---------------------------------------------------------------------------------
def test_exponentials_and_logarithms_have_loops_of_their_own() -> None:
    """Of 500 rows: the extremes, all exponentials, the sums, all logarithms, what comes of them."""
    text = text_of(lambda x: ops.log_softmax(x, 1), array(500, SIZE))
    most = LANES * max(1, 512 // (SIZE * LANES))
    rows = f"range(minimum(((piece.end - piece.start) - (i0 * {most})), {most}))"
    elements = f"range(({rows[6:-1]} * {SIZE}))"
    assert text.count(rows) == 4 and text.count(elements) == 1
    assert f"local b1: float32[{most * SIZE}]" in text and f": float32[{most}]" in text
    assert rows not in text_of(lambda x: ops.log_softmax(x, 1), array(500, SIZE), **OFF)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: ops.softmax(x, 1), (500, 4 * LANES + 1)),  # long rows
        (lambda x: ops.log_softmax(x, 1), (500, 8 * LANES + 1)),
        (lambda x: ops.softmax(x, 1), (3, SIZE)),  # few of them
        (lambda x: x / ops.sum(x, 1, keepdim=True), (500, SIZE)),  # what takes little
        (ops.exp, (500, SIZE)),  # nothing is found of a row
    ],
)
def test_other_rows_stay(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    x = array(*shape)
    assert text_of(function, x) == text_of(function, x, **OFF)


def test_an_exponential_is_made_once_for_all_that_read_it() -> None:
    def both(x: Any, w: Any) -> Any:
        e = ops.exp(x - ops.max(x, 1, keepdim=True))
        return (e * w).sum(1) / e.sum(1)

    x, w = array(300, SIZE), array(SIZE)
    assert text_of(both, x, w).count("<< 23") == 1
    e = np.exp(x.astype(float))
    np.testing.assert_allclose(phix.jit(both)(x, w), (e * w).sum(1) / e.sum(1), rtol=1e-4)


@pytest.mark.parametrize("size", [4, 6, 10, 16])
def test_a_row_may_be_stored_part_by_part(size: int) -> None:
    """And a total of all rows, which keeps LLVM from taking short rows side by side, be found."""

    def loss(x: Any) -> Any:
        return (ops.log_softmax(x, 1)[:, 1:3] ** 2.0).sum()

    for function in (phix.grad(loss), phix.value_and_grad(loss)):
        assert "local b" in text_of(function, array(500, size))
        assert "local b" not in text_of(function, array(500, size), **OFF)


X, Y = (Buffer(name, dt.float32, (100, SIZE), "temp") for name in ("t0", "t1"))
ROW, T = Buffer("t3", dt.float32, (SIZE,), "temp"), Buffer("t4", dt.float32, (SIZE,), "local")
I, J = sc.var("i0"), sc.var("i1")
HERE, SUM, ALL = I * SIZE + J, sc.var("a0", dt.float32), sc.var("a1", dt.float32)


def load(buffer: Buffer, at: Expr) -> Expr:
    return Expr("load", (at,), dt.float32, buffer)


def much(e: Expr) -> Expr:
    """Of twenty operations."""
    for k in range(20):
        e = e * e if k % 2 else e + 1.0
    return e


def along(*body: Any) -> For:
    return For(J, sc.const(SIZE, dt.int64), list(body), "reduction")


def add(target: Expr, value: Expr) -> Assign:
    return Assign((target,), (target + value,), True)


def is_split(*body: Any, outer: str = "parallel", rows: int = 100) -> bool:
    kernel = Kernel([For(I, sc.const(rows, dt.int64), list(body), outer)])
    if any(T in ir.writes([s]) for s in body):
        kernel.locals[T] = sc.const(SIZE, dt.int64)
    program = LoopProgram([], [], [], [X, Y, ROW], [kernel], {})
    distributed_rows(program, Setting(Builder(())))
    (loop,) = kernel.body
    assert isinstance(loop, For)
    return loop.extent.data != rows


START = Declare(SUM, sc.const(0.0, dt.float32))
END = along(Store(Y, (HERE,), load(X, HERE) / SUM))
FIND = along(add(SUM, much(load(X, HERE) - load(ROW, J))))
STAY: dict[str, tuple[Any, ...]] = {
    "writes what all rows read": (START, FIND, along(Store(ROW, (J,), load(X, HERE) / SUM))),
    "writes into the next row": (START, FIND, along(Store(Y, (HERE + 1,), load(X, HERE) / SUM))),
    "reads the row before": (START, FIND, along(Store(Y, (HERE,), load(Y, HERE - SIZE) / SUM))),
    "reads another row": (START, FIND, along(Store(Y, (HERE,), load(Y, J * 100 + I) / SUM))),
    "reads a total of all rows": (START, FIND, add(ALL, SUM), along(Store(Y, (HERE,), ALL * 1.0))),
    "adds to a total twice": (START, FIND, add(ALL, SUM), add(ALL, SUM)),
    "goes on behind what takes long": (
        START,
        FIND,
        along(Store(Y, (HERE,), much(load(X, HERE) - SUM))),
        along(add(SUM, load(X, HERE))),
    ),
    "goes on from the row before": (
        START,
        along(add(SUM, much(load(X, HERE) - load(T, J)))),
        along(Store(T, (J,), load(X, HERE) + SUM)),
    ),
    "makes running sums": (
        START,
        along(add(SUM, load(X, HERE)), Store(Y, (HERE,), much(load(X, HERE) - SUM))),
    ),
    "takes little": (START, along(add(SUM, load(X, HERE) * 2.0)), END),
}


def test_rows_that_are_split() -> None:
    assert is_split(START, FIND, END)
    assert is_split(START, FIND, END, outer="independent")
    assert is_split(START, FIND, add(ALL, SUM), END, outer="reduction")
    assert is_split(START, FIND, along(Store(X, (HERE,), load(X, HERE) / SUM)))
    kept = along(Store(T, (J,), much(load(X, HERE) - load(ROW, J))), add(SUM, load(T, J)))
    assert is_split(START, kept, along(Store(Y, (HERE,), load(T, J) / SUM)))
    assert is_split(START, FIND, along(add(SUM, much(load(X, HERE) + SUM))))
    assert not is_split(START, FIND, END, rows=3)


@pytest.mark.parametrize("name", STAY)
def test_rows_that_touch_otherwise_stay(name: str) -> None:
    outer = "reduction" if "total" in name else "parallel"
    assert not is_split(*STAY[name], outer=outer)


# -- what they compute ---------------------------------------------------------------------------
Case = tuple[Callable[..., Any], Callable[..., Any]]
CASES: dict[str, Case] = {
    "softmax": (lambda x, w, v: ops.softmax(x, -1), lambda x, w, v: softmax_of(x)),
    "beside a row": (
        lambda x, w, v: ops.softmax(x * 0.5 + w, -1),
        lambda x, w, v: softmax_of(x * 0.5 + w),
    ),
    "log_softmax": (
        lambda x, w, v: ops.log_softmax(x, -1),
        lambda x, w, v: x - total_of(x)[:, None],
    ),
    "logsumexp": (lambda x, w, v: ops.logsumexp(x, -1), lambda x, w, v: total_of(x)),
    "gradient of softmax": (
        phix.grad(lambda x, w, v: (ops.softmax(x, -1) * w).sum()),
        lambda x, w, v: softmax_of(x) * (w - (softmax_of(x) * w).sum(-1, keepdims=True)),
    ),
    "gradient of log_softmax": (
        phix.grad(lambda x, w, v: (ops.log_softmax(x, -1) * w).sum()),
        lambda x, w, v: w - softmax_of(x) * w.sum(),
    ),
    "gradient of a part of log_softmax": (  # whose zeros and values are stored loop by loop
        phix.grad(lambda x, w, v: (ops.log_softmax(x, -1)[:, 1:4] * v[:, None]).sum()),
        lambda x, w, v: part_of(v) - softmax_of(x) * 3 * v[:, None],
    ),
    "gradient of logsumexp": (
        phix.grad(lambda x, w, v: (ops.logsumexp(x, -1) * v).sum()),
        lambda x, w, v: softmax_of(x) * v[:, None],
    ),
    "gate": (
        lambda x, w, v: ops.sigmoid(x - x.mean(-1, keepdim=True)) * w + v[:, None],
        lambda x, w, v: 1 / (1 + np.exp(x.mean(-1, keepdims=True) - x)) * w + v[:, None],
    ),
    "columns": (lambda x, w, v: ops.softmax(x, -1).sum(0), lambda x, w, v: softmax_of(x).sum(0)),
    "a total": (
        lambda x, w, v: (ops.log_softmax(x, -1)[:, 1] * v).sum(),
        lambda x, w, v: ((x - total_of(x)[:, None])[:, 1] * v).sum(),
    ),
    "several": (
        lambda x, w, v: (ops.softmax(x, -1), ops.exp(x - v[:, None]).sum(-1), ops.exp(v)),
        lambda x, w, v: (softmax_of(x), np.exp(x - v[:, None]).sum(-1), np.exp(v)),
    ),
}
TOLERANCE = {"float16": 1e-2, "float32": 2e-5, "float64": 2e-13}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_results_are_those_of_float64(name: str, dtype: str) -> None:
    function, reference = CASES[name]
    spec = [phix.spec(dims, dtype) for dims in (["n", SIZE], [SIZE], ["n"])]
    unknown = phix.jit(function, input_spec=spec)
    for count in (2, 5, 48, 131):
        args = [array(*shape, dtype=dtype) for shape in ((count, SIZE), (SIZE,), (count,))]
        wanted = phix.tree.leaves(reference(*(a.astype(float) for a in args)))
        with phix.debug.settings(least_shared_work=1, shared_run=3, shared_run_inside=3):
            pieces = phix.jit(function)(*args)
        for found in (phix.jit(function)(*args), unknown(*args), pieces):
            for y, z in zip(phix.tree.leaves(found), wanted):
                atol = TOLERANCE[dtype] * max(1.0, np.abs(z).max())
                np.testing.assert_allclose(np.asarray(y, float), z, TOLERANCE[dtype], atol)


@pytest.mark.skipif(not has_masks(), reason="what is left of a block is taken one by one here")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [7, 8, 9, 10, 12, 16, 17, 31, 40])
def test_rows_have_the_same_bits_wherever_they_stand(size: int, dtype: str) -> None:
    """In whichever block, and beside however many others that make it a block."""
    spec = [phix.spec(["n", size], dtype)]
    function = phix.jit(lambda x: ops.log_softmax(x, 1), input_spec=spec)
    x = array(200, size, dtype=dtype)
    whole = np.asarray(function(x))
    for start, count in ((0, 1), (3, 2), (47, 50), (48, 48), (199, 1), (130, 70)):
        part = np.asarray(function(x[start : start + count].copy()))
        assert part.tobytes() == whole[start : start + count].tobytes()


def test_a_row_with_no_number_spoils_no_other() -> None:
    x = array(100, SIZE)
    clean = np.asarray(phix.jit(lambda x: ops.softmax(x, 1))(x))
    odd = {0: np.nan, 47: -np.inf, 48: np.inf, 99: np.nan}
    for row, value in odd.items():
        x[row, row % SIZE] = value
    found = np.asarray(phix.jit(lambda x: ops.softmax(x, 1))(x))
    others = [row for row in range(100) if row not in odd]
    assert found[others].tobytes() == clean[others].tobytes()
    assert np.isnan(found[[0, 48, 99]]).all() and found[47, 47 % SIZE] == 0.0
    np.testing.assert_allclose(found[47], softmax_of(x[47].astype(float)), rtol=1e-5)


def test_rows_written_over_themselves() -> None:
    """A carry that stays in its memory, and an argument that is given away."""

    def step(x: Any, _: Any) -> Any:
        return ops.softmax(x * 3.0, 1), None

    x = array(60, SIZE)
    wanted = x.astype(float)
    for _ in range(4):
        wanted = softmax_of(wanted * 3.0)
    found = phix.jit(lambda x: phix.scan(step, x, None, 4)[0])(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    given = phix.to_tensor(x.copy())
    found = phix.jit(lambda x: ops.softmax(x, 1), donate_argnums=0)(given)
    np.testing.assert_allclose(found, softmax_of(x.astype(float)), rtol=1e-5)


def test_a_classifier_learns_what_float64_says() -> None:
    """Products, rows of chances and what they were to be, several orders of derivatives."""

    def loss(w: Any, x: Any, chosen: Any) -> Any:
        return -(ops.log_softmax(ops.tanh(x) @ w, 1) * chosen).sum(1).mean()

    x, w = array(70, 6, dtype="float64"), array(6, SIZE, dtype="float64")
    chosen = np.eye(SIZE)[np.arange(70) % SIZE]
    p, h = softmax_of(np.tanh(x) @ w), np.tanh(x)
    slope = phix.jit(phix.grad(loss))(w, x, chosen)
    np.testing.assert_allclose(slope, h.T @ (p - chosen) / 70, rtol=1e-10, atol=1e-12)
    curved = phix.jit(phix.hessian(loss))(w, x, chosen)
    inner = p[:, :, None] * np.eye(SIZE) - p[:, :, None] * p[:, None, :]
    wanted = np.einsum("na,nb,nij->aibj", h, h, inner) / 70
    np.testing.assert_allclose(curved, wanted, rtol=1e-9, atol=1e-12)
    many = phix.jit(phix.vmap(phix.grad(loss), in_axes=(0, None, None)))
    each = many(np.stack([w, 2 * w, -w]), x, chosen)
    for found, v in zip(each, (w, 2 * w, -w)):
        q = softmax_of(h @ v)
        np.testing.assert_allclose(found, h.T @ (q - chosen) / 70, rtol=1e-10, atol=1e-12)


def picked_and_turned(x: Any, z: Any, y: Any) -> Any:
    """The gradient of classes' losses, from labels that may be negative, times what takes long."""
    n = x.shape[1]
    label = ops.clip(ops.where(y < 0, y + n, y), 0, n - 1)[:, None]
    shares = ops.exp(ops.log_softmax(x, -1))
    return ops.where(ops.arange(0, n, 1, "int64") == label, shares - 1.0, shares) * ops.sin(z)


@pytest.mark.parametrize("size", [9, 15, 17])
@pytest.mark.parametrize("rows", [17, 40, 500])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_index_that_is_a_number_too(size: int, rows: int, dtype: str) -> None:
    """What is read at that index is read there, whatever becomes of the number."""
    x, z = array(rows, size, dtype=dtype), array(size, rows, dtype=dtype).T.copy()
    y = np.random.default_rng(rows).integers(-size, size, rows)
    wanted = (softmax_of(x) - (np.arange(size) == (y % size)[:, None])) * np.sin(z)
    np.testing.assert_allclose(phix.jit(picked_and_turned)(x, z, y), wanted, atol=1e-6)
    unknown = [phix.spec(["n", size], dtype)] * 2 + [phix.spec(["n"], "int64")]
    found = phix.jit(picked_and_turned, input_spec=unknown)(x, z, y)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_number_that_is_also_a_place() -> None:
    """The flat place of an element, as a number and to read at: neither knows of blocks."""

    def function(x: Any, z: Any) -> Any:
        rows, size = x.shape
        place = ops.reshape(ops.arange(0, rows * size, 1, "int64"), (rows, size))
        turned = ops.remainder(ops.floor_divide(place * 7 + 3, 5), 11)
        return ops.exp(ops.log_softmax(x, -1)) * ops.sin(z) * ops.cast(turned, "float64")

    x, z = array(200, SIZE, dtype="float64"), array(200, SIZE + 1, dtype="float64")[:, 1:].copy()
    turned = (np.arange(200 * SIZE).reshape(200, SIZE) * 7 + 3) // 5 % 11
    wanted = softmax_of(x) * np.sin(z) * turned
    np.testing.assert_allclose(phix.jit(function)(x, z), wanted, rtol=1e-12, atol=1e-14)
