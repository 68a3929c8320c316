"""Short rows in whole vectors that may overlap: which loops, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu import jit, level
from phix.kernels.cpu.row_vectors import fits_mask, overlapping_vectors
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, LoopProgram, Store
from phix.kernels.scalar import language as sc
from phix.kernels.schedule.pipeline import Setting

# Of float32; rows of that many and 3 are two vectors, of which the second overlaps the first.
LANES = jit.vector_registers()[0] // 4
SIZE = max(LANES, 8) + 3

sums = pytest.mark.skipif(LANES < 8, reason="of such short vectors less than two are left")


def rows(size: int, dtype: str = "float32") -> np.ndarray:
    """Rows with NaN, infinities and zeros of both signs in some."""
    x = np.random.default_rng(size).standard_normal((9, size)).astype(dtype)
    x[1, -1], x[2, 0], x[3, size // 2], x[4] = np.nan, np.inf, -np.inf, -0.0
    x[5], x[5, -1] = -0.0, 0.0
    return x


def text_of(function: Callable[..., Any], x: np.ndarray, **options: Any) -> str:
    return phix.jit(function, **options).lower(x).as_text("loop ir")


# -- which loops ---------------------------------------------------------------------------------
def test_rows_of_two_vectors_are_a_loop_over_the_lanes_of_both() -> None:
    text = text_of(lambda x: ops.max(x, 1), rows(SIZE))
    assert f"range({LANES})" in text and f"range({SIZE})" not in text
    assert f"(i1 + {SIZE - LANES})" in text
    assert "range(7)" in text_of(lambda x: ops.max(x, 1), rows(7))
    assert "range(1000)" in text_of(lambda x: ops.max(x, 1), rows(1000))


@sums
def test_what_is_kept_of_a_row_lies_vector_by_vector() -> None:
    apart = "distributed_rows"
    text = text_of(lambda x: ops.softmax(x, 1), rows(SIZE), disable=apart)
    assert f"local t0: float32[{-(-SIZE // LANES) * LANES}]" in text
    assert f"range({SIZE})" not in text and "else 0" not in text
    assert f"range({SIZE})" in text_of(
        lambda x: ops.softmax(x, 1), rows(SIZE), disable=("overlapping_vectors", apart)
    )


# A kernel of two loops along a row: a maximum, and what each statement of the case does.
X, Y = (Buffer(name, dt.float32, (4, SIZE), "temp") for name in ("t0", "t1"))
KEPT = Buffer("l0", dt.float32, (SIZE,), "local")
I, A, TOTAL = sc.var("i1"), sc.var("a0", dt.float32), sc.var("a1", dt.float32)
HERE = (sc.var("i0") * SIZE + I,)


def of(buffer: Buffer, *at: sc.Expr) -> Any:
    return ir.load(buffer, at)


STAY: dict[str, list[ir.Statement]] = {
    "made of itself": [Store(Y, HERE, of(Y, *HERE) * A)],
    "made of its neighbour": [Store(Y, HERE, of(Y, *(HERE[0] + 1,)) * A)],
    "stored before it is read": [Store(Y, HERE, of(X, *HERE)), Store(X, HERE, A)],
    "a running total": [Assign((TOTAL,), (TOTAL + of(X, *HERE),)), Store(Y, HERE, TOTAL)],
    "a sum in order": [Assign((TOTAL,), (TOTAL + of(X, *HERE),))],
    "backwards": [Store(Y, (sc.const(SIZE, dt.int64) - I,), A)],
    "a kept row read elsewhere": [Store(KEPT, (I,), A), Store(Y, HERE, of(KEPT, ir.ZERO))],
}


def changed(statements: list[ir.Statement]) -> tuple[list[ir.Statement], For]:
    """What becomes of a maximum of rows and a second loop, and that loop."""
    extent = sc.const(SIZE, dt.int64)
    largest = Assign((A,), (sc.binary("maximum", A, of(X, *HERE)),))
    first = For(I, extent, [largest], "reduction")
    start = [Declare(A, sc.const(-np.inf, dt.float32)), Declare(TOTAL, sc.const(0, dt.float32))]
    second = For(I, extent, statements, "reduction")
    row = For(sc.var("i0"), sc.const(4, dt.int64), [*start, first, second])
    kernel = Kernel([row], locals={KEPT: extent})
    program = LoopProgram([], [], [], [X, Y], [kernel], {})
    overlapping_vectors(program, Setting(Builder(())))
    return row.body[2:], second


@pytest.mark.parametrize("case", STAY)
def test_what_would_not_be_the_same_twice_stays(case: str) -> None:
    (largest, *rest), second = changed(list(STAY[case]))
    assert rest == [second] and second.body == STAY[case] and not second.is_vector
    assert isinstance(largest, For) and largest.is_vector  # the maximum goes ahead


@sums
def test_a_kept_row_that_is_read_where_it_was_stored_is_changed() -> None:
    steps: list[ir.Statement] = [
        Store(KEPT, (I,), of(X, *HERE) * A),
        Store(Y, HERE, of(KEPT, I) + 1.0),
        Assign((TOTAL,), (TOTAL + of(KEPT, I),), True),
    ]
    (_, *loops), second = changed(steps)
    assert second not in loops and all(isinstance(s, For) and s.is_vector for s in loops)
    assert len(loops) == -(-SIZE // LANES) + 1  # stores of each vector, and the sum


# -- vectors of which a mask leaves out the last lanes -------------------------------------------
masks = pytest.mark.skipif(not level.has_masks(), reason="the CPU has no masks")
FEW = 10
SHORT, SHORT_TOO, BYTES = (
    Buffer(name, dtype, (4, FEW), "temp")
    for name, dtype in (("t2", dt.float32), ("t3", dt.float32), ("t4", dt.int8))
)
AT = (sc.var("i0") * FEW + I,)
LARGEST = Assign((A,), (sc.binary("maximum", A, of(SHORT, *AT)),))
TOTAL_OF_ALL = Assign((TOTAL,), (TOTAL + of(SHORT, *AT),), True)
ONE: dict[str, tuple[bool, list[ir.Statement]]] = {
    "an extreme": (True, [LARGEST]),
    "a total": (True, [TOTAL_OF_ALL]),
    "both, and what is kept": (True, [LARGEST, TOTAL_OF_ALL, Store(SHORT_TOO, AT, A)]),
    "made of itself": (True, [Store(SHORT, AT, of(SHORT, *AT) * A)]),
    "made of its neighbour": (False, [Store(SHORT, AT, of(SHORT, *(AT[0] + 1,)))]),
    "a sum in order": (False, [Assign((TOTAL,), (TOTAL + of(SHORT, *AT),))]),
    "across memory": (False, [Store(SHORT, AT, of(SHORT_TOO, *(sc.var("i0") + I * 4,)))]),
    "bytes": (False, [Store(BYTES, AT, sc.const(1, dt.int8))]),
    "a call": (False, [Store(SHORT, AT, sc.Expr("call", (of(SHORT, *AT),), dt.float32, "erff"))]),
}


@masks
@pytest.mark.parametrize("case", ONE)
def test_which_loops_have_masks(case: str) -> None:
    wanted, body = ONE[case]
    assert fits_mask(For(I, sc.const(FEW, dt.int64), body)) is wanted
    assert fits_mask(For(I, sc.const(4 * LANES, dt.int64), body)) is wanted
    for size in (4 * LANES + 1, 6):
        assert not fits_mask(For(I, sc.const(size, dt.int64), body))
    assert not fits_mask(For(I, sc.var("n"), body))


@masks
@pytest.mark.parametrize("size", [*range(2, 17), 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_beside_a_row_is_touched(size: int, dtype: str) -> None:
    """Neither by what is found of it, in one or in both dtypes, nor by what is stored; and LLVM
    has nothing to say of it."""

    def function(x: Any) -> tuple[Any, ...]:
        y = x * ops.rsqrt(ops.mean(x * x, 1, keepdim=True) + 1.0)
        return y, ops.max(x, 1), ops.sum(ops.cast(x, "float64"), 1), ops.min(y, 1)

    for count in (1, 5, 40):
        x = np.random.default_rng(size).standard_normal((count, size)).astype(dtype)
        x[0, -1], x[count // 2, 0] = np.nan, -0.0
        if count > 3:
            x[2], x[3, 0] = np.inf, -np.inf
        wide = x.astype(np.longdouble)
        with np.errstate(invalid="ignore"):
            y = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1)
        tolerance = 10 * np.finfo(dtype).eps
        found = [np.asarray(v) for v in phix.jit(function)(x)]
        np.testing.assert_allclose(found[0], y, tolerance, tolerance)
        np.testing.assert_array_equal(found[1], x.max(1))
        np.testing.assert_allclose(found[2], wide.sum(1), 1e-14, 1e-13)
        np.testing.assert_array_equal(found[3], found[0].min(1))


@masks
def test_llvm_says_nothing_of_masks(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))
    f = lambda x: x * ops.max(x, 1, keepdim=True) / ops.sum(x, 1, keepdim=True)  # noqa: E731
    g = lambda x: ops.log_softmax(x, 1) + ops.cumsum(x, 1)  # noqa: E731
    for size in (7, 10, 20):
        x = phix.to_tensor(rows(size))
        for h in (f, g, phix.grad(lambda x: ops.sum(g(x) * x))):
            phix.jit(h)(x)
            phix.jit(h, donate_argnums=0)(phix.to_tensor(rows(size)))
            phix.jit(lambda x: phix.fori_loop(0, 2, lambda i, c: f(c), x))(x)
    assert capfd.readouterr().err == ""


# -- what they compute ---------------------------------------------------------------------------
def statistics(x: Any) -> tuple[Any, ...]:
    h = ops.softmax(x, 1)
    return ops.max(x, 1), ops.min(x * 2.0, 1), h, ops.layer_norm(x, None, None, 1e-5, 1)


@pytest.mark.parametrize(("size", "dtype"), [(11, "float32"), (31, "float32"), (19, "float64")])
def test_rows_have_their_values(size: int, dtype: str) -> None:
    x = rows(size, dtype)
    wide = x.astype("float64")
    largest, least, h, y = map(np.asarray, phix.jit(statistics)(x))
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_array_equal(least, x.min(1) * 2.0)
    np.testing.assert_array_equal(np.signbit(largest[4:6]), [True, False])
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(1, keepdims=True))
        mean, var = wide.mean(1, keepdims=True), wide.var(1, keepdims=True)
        tolerance = 1e-6 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(h, powers / powers.sum(1, keepdims=True), rtol=3 * tolerance)
        expected = (wide - mean) / np.sqrt(var + 1e-5)
        np.testing.assert_allclose(y, expected, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.unoptimised
def test_each_pass_keeps_what_rows_mean() -> None:
    f = lambda x: phix.grad(lambda x: ops.sum(ops.softmax(x, 1) ** 2.0))(x)  # noqa: E731
    x = np.random.default_rng(0).standard_normal((3, SIZE))
    found = phix.debug.compare(f, rewrites=["overlapping_vectors"])(x.astype("float32"))
    assert "agree" in str(found)


def test_rows_that_are_written_over_are_changed_once() -> None:
    """A donated input, and a carry, whose memory the result has: no element is made twice."""
    f = lambda x: x * ops.max(x, 1, keepdim=True)  # noqa: E731
    x = np.random.default_rng(1).standard_normal((5, SIZE)).astype("float32")
    wanted = x * x.max(1, keepdims=True)
    np.testing.assert_array_equal(phix.jit(f, donate_argnums=0)(phix.to_tensor(x)), wanted)
    twice = phix.jit(lambda x: phix.fori_loop(0, 2, lambda i, c: f(c), x))(x)
    np.testing.assert_array_equal(twice, wanted * wanted.max(1, keepdims=True))


def test_llvm_says_nothing_of_rows_that_are_all_the_same(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PHIX_CACHE_DIR", str(tmp_path))  # so that they are compiled here
    x = np.random.default_rng(3).normal(size=(1, 24)).astype("float32")
    found = phix.jit(lambda y: ops.argmin(ops.expand(y, [6, 24]), -1))(x)
    np.testing.assert_array_equal(found.numpy(), np.full(6, x.argmin()))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
@pytest.mark.parametrize("shape", [(33, 22), (4, 33), (9, 16)])
def test_what_stands_at_the_largest_element_is_found_without_a_word_of_llvms(
    shape: tuple[int, int], dtype: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("PHIX_CACHE", "0")
    rows = np.arange(shape[0])
    function = phix.jit(lambda x, q: q[rows, phix.numpy.argmax(x, axis=1)])
    x, q = (np.random.default_rng(k).integers(0, 200, shape).astype(dtype) for k in (0, 1))
    found = function(x, q)
    assert capfd.readouterr().err == ""
    np.testing.assert_array_equal(found, q[rows, x.argmax(1)])


@pytest.mark.parametrize("size", [21, 33])
def test_llvm_is_free_to_make_vectors_of_rows_in_a_small_body_that_crosses_lanes(
    size: int, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("PHIX_CACHE", "0")
    x = np.random.default_rng(5).normal(size=(size, size))
    found = phix.jit(lambda c: phix.fori_loop(0, 4, lambda _, c: ops.gather(x, ops.argmax(c)), c))
    wanted = x[0]
    for _ in range(4):
        wanted = x[wanted.argmax()]
    np.testing.assert_array_equal(found(x[0]).numpy(), wanted)
    assert capfd.readouterr().err == ""
