"""Products of matrices: every tile, edge, stride and flag, against NumPy's."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rewrites
from phix.kernels.cpu import jit, product_code, tiles
from phix.kernels.cpu.advice import APART
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.target import CPU
from phix.kernels.schedule.pipeline import lowered
from tests.guarded_memory import check_in_a_process

pytestmark = pytest.mark.unoptimised(4)

TOLERANCES = {"float32": 1e-5, "float64": 1e-13}
# bytes of a vector register, and how many registers: AVX-512, AVX2, SSE, Neon
MACHINES = [(64, 32), (32, 16), (16, 16), (16, 32)]
# rows, columns, inner: tiles and panels whole and cut, sums in parts and long ones, nothing at all
SIZES = [
    (1, 1, 1), (12, 32, 7), (13, 33, 5), (24, 64, 16), (31, 20, 3), (7, 10, 130), (20, 20, 600),
    (13, 9, 17_000), (2, 33, 32_768),
    (3, 200, 40), (1, 90, 33), (90, 1, 33), (40, 130, 1030), (90, 600, 1030), (150, 260, 530),
    (8, 16, 0), (0, 5, 4), (5, 0, 4), (20, 0, 600),
    (20, 20, 1000), (9, 3, 1030), (30, 1, 600), (8, 50, 1025), (7, 30, 1600), (44, 32, 17_000),
    (5, 56, 40), (50, 33, 513),
]  # fmt: skip


@cache
def native(dtype: str, machine: tuple[int, int]) -> Any:
    name = f"test_product_{dtype}_{machine[0]}_{machine[1]}"
    kinds = [ctypes.c_int64] * 9 + [ctypes.c_void_p] * 4
    return ctypes.CFUNCTYPE(None, *kinds)(product_code.address(name, dtype, *machine))


@pytest.mark.parametrize(
    ("shapes", "dtype", "told"),
    [
        ([(20, 30), (30, 40)], "float32", [("gemm_float32", (20, 40, 30))]),
        ([(7, 20, 30), (30, -1)], "float64", [("gemm_float64", (140, None, 30))]),
        ([(4, 4), (4, 4)], "float32", []),  # a loop
        ([(20, 30), (30, 1)], "float32", []),  # a loop of sums
    ],
)
def test_a_product_is_foreseen_where_it_will_be_called(
    shapes: list[tuple[int, int]], dtype: str, told: list[tuple[str, Any]]
) -> None:
    heard: list[tuple[str, Any]] = []

    class Hearing(Builder):
        target = replace(CPU, foresees=lambda *told: heard.append(told))

    graph = phix.make_graph(ops.matmul)(*(phix.spec(s, dtype) for s in shapes))
    lowered(graph, (True, True), Hearing)
    assert heard == told


def stored(values: np.ndarray, transposed: bool, beside: int) -> np.ndarray:
    """The matrix as it lies in memory, in rows that have ``beside`` more elements."""
    lies = values.T if transposed else values
    rows = np.full((lies.shape[0], lies.shape[1] + beside), np.nan, values.dtype)
    rows[:, : lies.shape[1]] = lies
    return rows


@pytest.mark.one_in(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("beside", [0, 3])
def test_products_of_every_size(dtype: str, machine: tuple[int, int], beside: int) -> None:
    multiply, rng = native(dtype, machine), np.random.default_rng(0)
    for m, n, k in SIZES:
        for flags in range(8):
            tx, ty, adds = flags & 1, flags >> 1 & 1, flags >> 2
            x, y, out = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n)))
            a, b, c = (
                stored(v, bool(t), beside) for v, t in ((x, tx), (y, ty), (out, False))
            )  # fmt: skip
            expected = x.astype("float64") @ y.astype("float64") + adds * out
            sizes = (m, n, k, a.shape[1], b.shape[1], c.shape[1])
            multiply(tx, ty, adds, *sizes, *(v.ctypes.data for v in (a, b, c)), None)
            found, rest = c[:, :n], c[:, n:]
            size = 1 + float(np.abs(expected).max(initial=0))
            message = f"{(m, n, k)}, flags {flags}"
            np.testing.assert_allclose(
                found, expected, 0, TOLERANCES[dtype] * size, err_msg=message
            )
            assert np.isnan(rest).all(), f"{message}: written beside the matrix"


GUARDED = """
import ctypes
import numpy as np
import phix
from phix.kernels.cpu import jit, product_code
from tests.guarded_memory import at_the_end_of_memory
from tests.test_products import SIZES

kinds = [ctypes.c_int64] * 9 + [ctypes.c_void_p] * 4
for dtype in ("float32", "float64"):
    code = product_code.address("guarded_" + dtype, dtype, *jit.vector_registers())
    multiply = ctypes.CFUNCTYPE(None, *kinds)(code)
    for m, n, k in SIZES:
        for tx, ty in ((0, 0), (0, 1), (1, 0), (1, 1)):
            x = at_the_end_of_memory(np.ones((k, m) if tx else (m, k), dtype))
            y = at_the_end_of_memory(np.ones((n, k) if ty else (k, n), dtype))
            out = at_the_end_of_memory(np.zeros((m, n), dtype))
            sizes = (m, n, k, x.shape[1], y.shape[1], n)
            multiply(tx, ty, 0, *sizes, *(v.ctypes.data for v in (x, y, out)), None)
            assert (out == k).all(), (m, n, k, tx, ty)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to guard a page")
def test_nothing_is_read_behind_the_operands() -> None:
    check_in_a_process(GUARDED)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_nan_and_inf_stay_in_their_row_and_column(dtype: str) -> None:
    x, y = np.ones((13, 21), dtype), np.ones((21, 35), dtype)
    x[12, 3], y[5, 34] = np.nan, np.inf
    found = np.asarray(phix.jit(ops.matmul)(x, y))
    assert np.isnan(found[12]).all() and np.isposinf(found[:12, 34]).all()
    assert (found[:12, :34] == 21).all()


@pytest.mark.parametrize("name, lead", [("addmm", ()), ("baddbmm", (2,))])
def test_a_start_times_the_number_0_is_not_read(name: str, lead: tuple[int, ...]) -> None:
    start, x, y = np.full((*lead, 3, 4), np.nan), np.ones((*lead, 3, 2)), np.ones((*lead, 2, 4))
    start[..., 0, :] = np.inf

    def added(start: Any) -> Any:
        return getattr(ops, name)(start, x, y, 0.0, 2.5)

    unknown = phix.jit(added, input_spec=[phix.spec([-1] * start.ndim, "float64")])
    for run in (added, phix.jit(added), unknown):
        np.testing.assert_array_equal(run(start), np.full(start.shape, 5.0))
    assert not np.any(phix.grad(lambda start: ops.sum(added(start)))(start))


@pytest.mark.parametrize("batch", [(), (6,), (2, 5)])
@pytest.mark.parametrize("unknown", [False, True])
def test_batches_are_as_with_the_library(batch: tuple[int, ...], unknown: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((*batch, 70, 30)), rng.standard_normal((*batch, 30, 50))
    spec = [phix.spec([-1] * v.ndim if unknown else v.shape, "float64") for v in (x, y)]
    own = np.asarray(phix.jit(ops.matmul, input_spec=spec)(x, y))
    with rewrites.without(frozenset({"own_products"})):
        other = np.asarray(phix.jit(lambda x, y: ops.matmul(x, y), input_spec=spec)(x, y))
    np.testing.assert_allclose(own, x @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(other, x @ y, rtol=1e-12, atol=1e-12)


def test_threads_share_a_batch_of_products() -> None:
    x = np.ones((16, 128, 128), "float32")
    assert "# shared: 16" in phix.jit(ops.matmul).lower(x, x).sections["loop ir"]


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_vectors_do_not_reach_across_small_matrices(n: int) -> None:
    x = np.random.default_rng(0).standard_normal((1000, n, n))
    jitted = phix.jit(lambda x: ops.matmul(x, x))
    np.testing.assert_allclose(np.asarray(jitted(x)), x @ x, rtol=1e-12, atol=1e-12)
    assert (APART in jitted.lower(x).sections["llvm"]) == (n > 2)


PROGRAM = """
import numpy as np, phix
from phix import ops
rng = np.random.default_rng(0)
f = phix.jit(lambda x, y: (ops.matmul(x, y), ops.matmul(x, x, True), ops.matmul(y, y, False, True)))
x, y = rng.standard_normal((333, 700), "float32"), rng.standard_normal((700, 130), "float32")
print(*(np.asarray(o).tobytes().hex() for o in f(x, y)))
"""


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("transposed", [False, True])
def test_rows_come_out_as_they_do_among_many(dtype: str, transposed: bool) -> None:
    """Columns that are packed right before the rows meet them are summed as those packed ahead.

    Few rows that high tiles meet read columns where these lie, but for the last terms of a panel
    that is not whole: those they sum apart.
    """
    rng = np.random.default_rng(0)
    is_low = tiles.tile(dtype, *jit.vector_registers()).is_low
    columns = 260 if is_low or transposed else 288
    x = rng.standard_normal((2000, 1100)).astype(dtype)
    y = rng.standard_normal((columns, 1100) if transposed else (1100, columns)).astype(dtype)
    every = np.asarray(ops.matmul(x, y, transpose_y=transposed))
    for rows in (12, 33, 128, 129, 800):
        np.testing.assert_array_equal(ops.matmul(x[:rows], y, transpose_y=transposed), every[:rows])


def test_the_product_is_the_same_with_any_number_of_threads() -> None:
    found = set()
    for count in ("1", "2", "5"):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env={**os.environ, "PHIX_NUM_THREADS": count},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


COLUMNS = {
    "matrix": lambda x, v: x @ v,
    "transposed": lambda x, v: ops.tanh(x).T @ v,
    "gradient": lambda x, v: phix.grad(lambda w: ops.sum(ops.log(1 + ops.exp(x @ w))))(v),
    "hessian": lambda x, v: phix.hessian(lambda w: ops.sum(ops.exp(ops.sin(x @ w))))(v),
}


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("lanes", [(6,), (2, 3), (1,), (0,)])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float64") for name in COLUMNS),
        *((name, dtype) for name in ["matrix", "transposed"] for dtype in ["complex128", "int64"]),
    ],
)
def test_one_matrix_meets_many_columns(
    name: str, lanes: tuple[int, ...], dtype: str, unknown: bool
) -> None:
    """A mapped matrix times vector is one product, and gives what the single ones give."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((12, 12)) * 3).astype(dtype)
    v = (rng.standard_normal((*lanes, 12)) * 3).astype(dtype)
    one = COLUMNS[name]
    wanted = [np.asarray(one(phix.to_tensor(x), phix.to_tensor(w)))
              for w in v.reshape(-1, 12)]  # fmt: skip
    mapped = one
    for _ in lanes:
        mapped = phix.vmap(mapped, in_axes=(None, 0))
    found = phix.jit(mapped, dynamic=unknown)(x, v)
    if wanted:
        largest = max(np.abs(w).max() for w in wanted)
        rtol = 1e-5 if wanted[0].dtype == np.float32 else 1e-13
        shape = (-1, *wanted[0].shape)
        np.testing.assert_allclose(found.numpy().reshape(shape), wanted, 0, rtol * largest)
    if name == "matrix" and dtype == "float64" and not unknown and lanes == (6,):
        loops = phix.jit(mapped).lower(x, v).as_text("loop ir")
        assert loops.count("gemm") == 1 and "for" not in loops


def test_a_transpose_of_what_was_reshaped_is_put_in_order() -> None:
    x = np.arange(3 * 16).reshape(3, 2, 2, 2, 2)

    def product(x: Any) -> Any:
        y = ops.reshape(x, [3, 4, 4])
        return ops.matmul(y, ops.transpose(y, [0, 2, 1]), transpose_y=True)

    y = x.reshape(3, 4, 4)
    off = ["view_of_view", "transposed_operands", "small_products", "direct_products"]
    found = phix.jit(product, disable=off)(x)
    np.testing.assert_array_equal(found, y @ y)
