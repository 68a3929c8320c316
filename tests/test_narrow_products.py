"""Products of bfloat16: by the tiles of a CPU that has them, and by what stands in for these."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu import product_code
from tests.guarded_memory import check_in_a_process
from tests.test_products import stored

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# rows, columns, terms: blocks, tiles and panels whole and cut, few rows and many, long sums, none
SIZES = [
    (1, 1, 1), (16, 16, 32), (32, 32, 64), (33, 31, 33), (17, 50, 95), (5, 70, 1), (64, 15, 130),
    (300, 40, 70), (290, 96, 129), (8, 300, 31), (31, 9, 600), (9, 33, 16_400), (300, 7, 16_385),
    (0, 4, 4), (4, 0, 4), (20, 40, 0),
]  # fmt: skip
has_tiles = product_code.may_use_tiles()


@cache
def native(by_tiles: bool) -> Any:
    name = f"test_narrow_product_{by_tiles}"
    kinds = [ctypes.c_int64] * 9 + [ctypes.c_void_p] * 4
    return ctypes.CFUNCTYPE(None, *kinds)(product_code.address_of_narrow(name, by_tiles))


WAYS = [False, pytest.param(True, marks=pytest.mark.skipif(not has_tiles, reason="no tiles"))]


@pytest.mark.parametrize("by_tiles", WAYS)
@pytest.mark.parametrize("beside", [0, 3])
def test_products_of_every_size(by_tiles: bool, beside: int) -> None:
    """Of small ints, all sums of float32 are exact, so there is one right answer."""
    multiply, rng = native(by_tiles), np.random.default_rng(0)
    for m, n, k in SIZES:
        for flags in range(4):
            tx, ty = flags & 1, flags >> 1
            x, y = (rng.integers(-8, 9, s).astype(BFLOAT16) for s in ((m, k), (k, n)))
            a, b = (stored(v, bool(t), beside) for v, t in ((x, tx), (y, ty)))
            c = np.full((m, n + beside), np.nan, BFLOAT16)
            sizes = (m, n, k, a.shape[1], b.shape[1], c.shape[1])
            multiply(tx, ty, 0, *sizes, *(v.ctypes.data for v in (a, b, c)), None)
            want = (x.astype(np.int64) @ y.astype(np.int64)).astype(BFLOAT16)
            message = f"{(m, n, k)}, flags {flags}"
            np.testing.assert_array_equal(
                c[:, :n].astype(float), want.astype(float), err_msg=message
            )
            assert np.isnan(c[:, n:].astype(float)).all(), f"{message}: beside the matrix"


# Powers of two that ints of x and y are multiplied by: operands, products or sums are not normal,
# or all; and one where nothing is lost by taking them for 0, as other sums are large.
SCALES = [(-130, 100), (100, -133), (-70, -70), (-60, -72), (-133, 0), (0, -128), (-63, -63)]


@pytest.mark.parametrize("by_tiles", WAYS)
@pytest.mark.parametrize("scales", SCALES)
def test_numbers_that_are_not_normal_are_not_lost(by_tiles: bool, scales: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(40, 50, 70), (300, 33, 40)]:
        x, y = (rng.integers(-8, 9, s) * 2.0**p for s, p in zip(((m, k), (k, n)), scales))
        x[3] = rng.integers(-8, 9, k)  # one row is of usual size, one all zeros
        x[5] = 0
        a, b, c = x.astype(BFLOAT16), y.astype(BFLOAT16), np.zeros((m, n), BFLOAT16)
        assert (a.astype(float) == x).all() and (b.astype(float) == y).all()
        native(by_tiles)(0, 0, 0, m, n, k, k, n, n, *(v.ctypes.data for v in (a, b, c)), None)
        with np.errstate(under="ignore"):
            want = (x @ y).astype(np.float32).astype(BFLOAT16)  # float32 has all of its digits
        np.testing.assert_array_equal(c.astype(float), want.astype(float))


@pytest.mark.parametrize("by_tiles", WAYS)
def test_numbers_that_are_not_normal_count_in_large_sums(by_tiles: bool) -> None:
    rng, (m, n, k) = np.random.default_rng(0), (40, 50, 64)
    x, y = (rng.integers(1, 9, s).astype(float) for s in ((m, k), (k, n)))  # no sum is small
    x[:, ::2] *= 2.0**-132
    y[::2] *= 2.0**124
    a, b, c = x.astype(BFLOAT16), y.astype(BFLOAT16), np.zeros((m, n), BFLOAT16)
    native(by_tiles)(0, 0, 0, m, n, k, k, n, n, *(v.ctypes.data for v in (a, b, c)), None)
    want = (x @ y).astype(np.float32).astype(BFLOAT16)
    np.testing.assert_array_equal(c.astype(float), want.astype(float))


@pytest.mark.parametrize("by_tiles", WAYS)
@pytest.mark.parametrize("power", range(-66, -54))
def test_differences_of_products_are_not_lost(by_tiles: bool, power: int) -> None:
    """Products of such numbers are normal, and some of their differences are not."""
    rng, (m, n, k) = np.random.default_rng(0), (40, 50, 64)
    x, y = (rng.integers(128, 256, s) * 2.0 ** (power - 7) for s in ((m, k), (k, n)))
    y[1::2] = -y[::2]  # the sum is that of the differences
    x[:, 1::2] = x[:, ::2] + rng.integers(0, 2, (m, k // 2)) * 2.0 ** (power - 7)
    a, b, c = x.astype(BFLOAT16), y.astype(BFLOAT16), np.zeros((m, n), BFLOAT16)
    native(by_tiles)(0, 0, 0, m, n, k, k, n, n, *(v.ctypes.data for v in (a, b, c)), None)
    want, room = x @ y, (abs(x) @ abs(y)) * 2.0**-21 + 2.0**-134
    assert (abs(c.astype(float) - want) <= abs(want) * 2.0**-8 + room).all()


GUARDED = """
import numpy as np
from tests.guarded_memory import at_the_end_of_memory
from tests.test_narrow_products import BFLOAT16, SIZES, has_tiles, native

for by_tiles in (False, True)[: 1 + has_tiles]:
    for m, n, k in SIZES:
        for tx, ty in ((0, 0), (0, 1), (1, 0), (1, 1)):
            x = at_the_end_of_memory(np.ones((k, m) if tx else (m, k), BFLOAT16))
            y = at_the_end_of_memory(np.ones((n, k) if ty else (k, n), BFLOAT16))
            out = at_the_end_of_memory(np.zeros((m, n), BFLOAT16))
            sizes = (m, n, k, x.shape[1], y.shape[1], n)
            native(by_tiles)(tx, ty, 0, *sizes, *(v.ctypes.data for v in (x, y, out)), None)
            assert (out == BFLOAT16.type(k)).all(), (m, n, k, tx, ty)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to guard a page")
def test_nothing_is_read_behind_the_operands() -> None:
    check_in_a_process(GUARDED)


PROGRAM = """
import hashlib
import ml_dtypes
import numpy as np
import phix
rng = np.random.default_rng(0)
for m, n, k in [(300, 90, 100), (40, 500, 700), (1000, 33, 64)]:
    x, y = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    out = np.asarray(phix.jit(phix.ops.matmul)(x, y))
    print(hashlib.sha256(out.tobytes()).hexdigest())
"""


def test_the_product_is_the_same_with_any_number_of_threads() -> None:
    found = set()
    for count in ("1", "2", "5"):
        run = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        env = {**os.environ, "PHIX_NUM_THREADS": count}
        done = subprocess.run(run, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1 and "" not in found


def ints(seed: int, *shape: int) -> phix.Tensor:
    """Ints of bfloat16, of which sums of 512 products are exact."""
    return phix.to_tensor(np.random.default_rng(seed).integers(-8, 9, shape).astype(BFLOAT16))


def exact(x: Any, y: Any) -> np.ndarray:
    both = (np.asarray(v).astype(np.int64) for v in (x, y))
    return np.matmul(*both).astype(BFLOAT16).astype(float)


@pytest.mark.parametrize("shapes", [
    ((70, 65), (65, 90)), ((7, 256), (256, 300)), ((3, 70, 64), (3, 64, 65)),
    ((4, 33, 100), (100, 70)), ((2, 3, 64, 80), (80, 64)), ((5, 300), (300, 400)),
])  # fmt: skip
@pytest.mark.parametrize("unknown", [False, True])
def test_programs_multiply_to_the_last_bit(shapes: Any, unknown: bool) -> None:
    x, y = ints(0, *shapes[0]), ints(1, *shapes[1])
    spec = [phix.spec([-1] * len(s) if unknown else s, dt.bfloat16) for s in shapes]
    for options in ({}, {"disable": ["narrow_products"]}):
        found = phix.jit(ops.matmul, input_spec=spec, **options)(x, y)
        np.testing.assert_array_equal(np.asarray(found).astype(float), exact(x, y))


def test_gradients_multiply_to_the_last_bit() -> None:
    x, w, g = ints(0, 96, 128), ints(1, 128, 80), ints(2, 96, 80)

    def loss(x: Any, w: Any) -> Any:
        return ops.sum(ops.cast(x @ w * g, "float32"))

    dx, dw = phix.jit(phix.grad(loss, argnums=(0, 1)))(x, w)
    np.testing.assert_array_equal(np.asarray(dx).astype(float), exact(g, np.asarray(w).T))
    np.testing.assert_array_equal(np.asarray(dw).astype(float), exact(np.asarray(x).T, g))


def test_what_is_no_number_stays_in_its_row_and_column() -> None:
    x, y = np.ones((70, 64), BFLOAT16), np.ones((64, 90), BFLOAT16)
    x[65, 3], y[5, 33] = np.nan, np.inf
    found = np.asarray(phix.jit(ops.matmul)(x, y)).astype(float)
    assert np.isnan(found[65]).all() and np.isposinf(np.delete(found[:, 33], 65)).all()
    assert (np.delete(np.delete(found, 65, 0), 33, 1) == 64).all()


@pytest.mark.skipif(not has_tiles, reason="no tiles")
def test_products_go_by_tiles_where_the_cpu_has_them() -> None:
    calls = phix.jit(ops.matmul).lower(ints(0, 70, 65), ints(1, 65, 90)).as_text("loop ir")
    few = phix.jit(ops.matmul).lower(ints(0, 3, 65), ints(1, 65, 90)).as_text("loop ir")
    assert "gemm_bfloat16(" in calls and "gemm_bfloat16(" not in few
