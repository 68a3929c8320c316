"""Products of small matrices, written out for their sizes: every vector, edge, stride and flag."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rewrites
from phix.kernels.cpu import direct_products, jit, product_code
from phix.kernels.cpu.advice import METADATA
from phix.kernels.cpu.direct_products import Sizes, Vector
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.evaluator import evaluate
from phix.kernels.loops.target import CPU
from phix.kernels.schedule.pipeline import lowered, run

pytestmark = pytest.mark.unoptimised(4)

TOLERANCES = {"float32": 1e-5, "float64": 1e-13}
# bytes of a vector register, and how many registers: AVX-512, AVX2, SSE and Neon
MACHINES = [(64, 32), (32, 16), (16, 16), (16, 32)]
# rows, columns, inner: less than a vector, a masked one, overlapping ones, several blocks
SHAPES = [(1, 1, 1), (5, 3, 2), (13, 13, 7), (2, 29, 5), (17, 70, 9), (4, 7, 40)]
# the flags, and elements beside each row
CASES = [
    (SHAPES[k % len(SHAPES)], (k & 1, k >> 1 & 1, k >> 2 & 1), 3 * (k % 4 == 3)) for k in range(14)
]
# at most 24 rows, of which so many are there
SOME_ROWS = (0, 1, 7, 24)


def sizes_of(shape: Any, flags: Any, beside: int, is_most: int = 0) -> Sizes:
    m, n, k = shape
    tx, ty, adds = flags
    pitches = ((m if tx else k) + beside, (k if ty else n) + beside, n + beside)
    return Sizes(tx, ty, adds, m, n, k, *pitches, is_most)


@cache
def native(dtype: str, machine: tuple[int, int]) -> list[Any]:
    """The functions of all cases, and one for blocks of rows, in one module."""
    every = [sizes_of(*case) for case in CASES] + [sizes_of((24, 21, 6), (0, 0, 0), 1, 1)]
    prefix = f"test_direct_{dtype}_{machine[0]}_{machine[1]}"
    names = tuple(f"{prefix}.{k}" for k in range(len(every)))
    texts = [direct_products.text(n, dtype, s, *machine) for n, s in zip(names, every)]
    declared = sorted({line for _, needs in texts for line in needs.splitlines()})
    functions = [body.replace("define internal", "define") for body, _ in texts]
    attributes = f"attributes #0 = {{ noinline {jit.function_attributes()} }}"
    found = jit.addresses("\n".join([*functions, *declared, attributes, *METADATA]), names)
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
    return [ctypes.CFUNCTYPE(None, *kinds)(at) for at in found]


def stored(values: np.ndarray, transposed: int, beside: int) -> np.ndarray:
    """The matrix as it lies in memory, in rows that have ``beside`` more elements."""
    lies = values.T if transposed else values
    rows = np.full((lies.shape[0], lies.shape[1] + beside), np.nan, values.dtype)
    rows[:, : lies.shape[1]] = lies
    return rows


def check(multiply: Any, dtype: str, sizes: Sizes, beside: int, rows: int) -> None:
    rng = np.random.default_rng(0)
    n, k, m = sizes.columns, sizes.inner, sizes.rows
    x, y, out = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n)))
    a, b, c = (
        stored(v, t, beside)
        for v, t in ((x, sizes.transpose_x), (y, sizes.transpose_y), (out, 0))
    )  # fmt: skip
    expected = out.astype("float64")
    expected[:rows] = x[:rows].astype("float64") @ y + sizes.adds * out[:rows]
    multiply(*(v.ctypes.data for v in (a, b, c)), rows)
    size = 1 + float(np.abs(expected).max(initial=0))
    np.testing.assert_allclose(c[:, :n], expected, 0, TOLERANCES[dtype] * size, err_msg=str(sizes))
    assert np.isnan(c[:, n:]).all(), f"{sizes}: written beside the matrix"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_direct_products_of_every_kind(dtype: str, machine: tuple[int, int]) -> None:
    functions = native(dtype, machine)
    for multiply, (shape, flags, beside) in zip(functions, CASES):
        check(multiply, dtype, sizes_of(shape, flags, beside), beside, shape[0])
    for rows in SOME_ROWS:
        check(functions[-1], dtype, sizes_of((24, 21, 6), (0, 0, 0), 1, 1), 1, rows)


def vectors(columns: int, **options: Any) -> list[Vector]:
    known = {"lanes": 8, "adds": 0, "has_masks": True, **options}
    return direct_products._vectors(columns, **known)


def test_every_column_is_in_a_vector() -> None:
    for columns in range(1, 40):
        for adds in (0, 1):
            for has_masks in (False, True):
                found = vectors(columns, adds=adds, has_masks=has_masks)
                held = [c for v in found for c in range(v.at, v.at + v.used)]
                assert set(held) == set(range(columns)), found
                assert not adds or len(held) == columns, f"{found}: a sum is added twice"
                assert all(v.used == v.lanes or has_masks for v in found)
                assert all(v.at + v.lanes <= columns or v.used < v.lanes for v in found)


def test_vectors_overlap_or_are_masked() -> None:
    assert vectors(13) == [Vector(0, 8, 8), Vector(5, 8, 8)]
    assert vectors(13, adds=1) == [Vector(0, 8, 8), Vector(8, 8, 5)]
    assert vectors(6) == [Vector(0, 8, 6)]
    assert vectors(7, has_masks=False) == [Vector(0, 4, 4), Vector(3, 4, 4)]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_sums_of_a_tile_fit_into_registers(machine: tuple[int, int]) -> None:
    for rows, columns in ((1, 5), (13, 13), (48, 49), (20, 200), (7, 1000)):
        sizes = sizes_of((rows, columns, 30), (0, 0, 0), 0)
        tiles = direct_products.tiling(sizes, machine[0] // 4, machine[1], has_masks=True)
        assert {v.at for block in tiles.blocks for v in block} >= {0}
        for block, height in zip(tiles.blocks, tiles.heights):
            assert 0 < height <= rows and (height + 1) * len(block) < machine[1]


def kernels(function: Any, *shapes: Any, **options: Any) -> str:
    found = phix.jit(function, **options).lower(*(phix.spec(s) for s in shapes))
    return str(found.sections["loop ir"] + found.sections["llvm"])


def test_which_products_are_direct() -> None:
    direct = "@gemm_float32.direct."
    assert f"{direct}0.0.0.20.30.40.40.30.30.0" in kernels(ops.matmul, (9, 20, 40), (9, 40, 30))
    assert direct not in kernels(ops.matmul, (200, 300), (300, 400))
    assert direct not in kernels(ops.matmul, (9, 20, 40), (9, 40, 30), disable="direct_products")
    assert direct not in kernels(ops.matmul, (9, 20, -1), (9, -1, 30))
    assert direct not in kernels(ops.matmul, (-1, -1, -1), (-1, 30))
    rows = kernels(ops.matmul, (1000, 40), (40, 30))
    assert direct in rows and "gemm_float32(0, 0, 0, 40, 30, 40, " in rows
    rows = kernels(lambda x, y: ops.matmul(x, y, False, True), (-1, 40), (30, 40))
    assert direct in rows and "minimum((d0 - " in rows


class _Cut(Builder):
    target = replace(CPU, is_direct=product_code.is_direct)


@pytest.mark.parametrize("rows", [0, 1, 48, 97])
def test_blocks_of_rows_are_the_product(rows: int) -> None:
    """By the evaluator, which knows nothing of machine code, and natively."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((rows, 5)), rng.standard_normal((9, 5))
    graph = phix.make_graph(lambda x, y: ops.matmul(x, y, False, True))(
        phix.spec([-1, 5], "float64"), phix.spec([9, 5], "float64")
    )
    program, setting = lowered(graph, (True, True), _Cut)
    run("cpu", program, setting)
    np.testing.assert_allclose(evaluate(program, (x, y))[0], x @ y.T, rtol=1e-12, atol=1e-12)


def test_products_of_unknown_rows_are_those_of_known_ones() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal((33, 40)).astype("float32")
    unknown = phix.jit(ops.matmul, input_spec=[phix.spec([-1, 33]), phix.spec(y.shape)])
    for rows in (0, 1, 50, 1000):
        x = rng.standard_normal((rows, 33)).astype("float32")
        with rewrites.without(frozenset({"direct_products"})):
            packed = phix.jit(lambda x, y: ops.matmul(x, y))(x, y)
        np.testing.assert_allclose(unknown(x, y), packed, rtol=1e-5, atol=1e-5)
