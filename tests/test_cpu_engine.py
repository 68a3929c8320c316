"""The CPU engine on graphs written by hand, against NumPy."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
from engine_graphs import GraphWriter, make_op
from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.engines import engine
from phix.kernels.cpu import pool
from phix.kernels.cpu.advice import ACROSS, PAIRED, ROLLED

pytestmark = pytest.mark.unoptimised(4)

POINTWISE = {
    name: make_op(f"{name}({args}) -> out", "pointwise")
    for name, args in {
        "add": "Tensor x, Tensor y",
        "subtract": "Tensor x, Tensor y",
        "multiply": "Tensor x, Tensor y",
        "divide": "Tensor x, Tensor y",
        "exp": "Tensor x",
        "tanh": "Tensor x",
        "cast": "Tensor x, DataType dtype",
        "less_than": "Tensor x, Tensor y",
        "where": "Tensor condition, Tensor x, Tensor y",
    }.items()
}
OPS = {
    op.name: op
    for op in map(
        make_op,
        [
            "full(IntArray shape, Scalar value, DataType dtype, Place place) -> out",
            "reshape(Tensor x, IntArray shape) -> out",
            "transpose(Tensor x, int[] perm) -> out",
            "expand(Tensor x, IntArray shape) -> out",
            "sum(Tensor x, IntArray axis, DataType dtype, bool keepdim) -> out",
            "prod(Tensor x, IntArray axis, bool keepdim) -> out",
            "max(Tensor x, IntArray axis, bool keepdim) -> out",
            "min(Tensor x, IntArray axis, bool keepdim) -> out",
            "any(Tensor x, int64_t[] axis, bool keepdim) -> out",
            "all(Tensor x, int64_t[] axis, bool keepdim) -> out",
            "argmax(Tensor x, Scalar axis, bool keepdims, bool flatten, DataType dtype) -> out",
            "argmin(Tensor x, Scalar axis, bool keepdims, bool flatten, DataType dtype) -> out",
            "cumsum(Tensor x, Scalar axis, bool flatten, bool exclusive, bool reverse) -> out",
            "cumprod(Tensor x, int dim, bool exclusive, bool reverse) -> out",
            "matmul(Tensor x, Tensor y, bool transpose_x, bool transpose_y) -> out",
            "slice(Tensor input, int64_t[] axes, IntArray starts, IntArray ends, "
            "int64_t[] infer_flags, int64_t[] decrease_axis) -> out",
            "strided_slice(Tensor x, int[] axes, IntArray starts, IntArray ends, "
            "IntArray strides) -> out",
            "concat(Tensor[] x, Scalar axis) -> out",
            "split(Tensor x, IntArray sections, Scalar axis) -> out[]",
            "pad(Tensor x, int[] paddings, Scalar pad_value) -> out",
            "flip(Tensor x, int[] axis) -> out",
            "roll(Tensor x, IntArray shifts, int64_t[] axis) -> out",
            "diagonal(Tensor x, int offset, int axis1, int axis2) -> out",
            "gather(Tensor x, Tensor index, Scalar axis) -> out",
            "gather_nd(Tensor x, Tensor index) -> out",
            "scatter(Tensor x, Tensor index, Tensor updates, bool overwrite) -> out",
            "scatter_nd_add(Tensor x, Tensor index, Tensor updates) -> out",
            "take_along_axis(Tensor arr, Tensor indices, int axis) -> out",
            "put_along_axis(Tensor arr, Tensor indices, Tensor values, int axis, str reduce, "
            "bool include_self, str mode) -> out",
            "index_put(Tensor x, Tensor[] indices, Tensor value, bool accumulate) -> out",
            "argsort(Tensor x, int axis, bool descending, bool stable) -> out, indices",
            "topk(Tensor x, Scalar k, int axis, bool largest, bool sorted) -> out, indices",
            "reduce_as(Tensor x, Tensor target) -> out",
            "conv2d(Tensor input, Tensor filter, int[] strides, int[] paddings, "
            "str padding_algorithm, int[] dilations, int groups, str data_format) -> out",
            "random_bits(Tensor key, IntArray shape, int bit_width) -> out",
        ],
    )
}
OPS |= POINTWISE
RNG = np.random.default_rng(0)


def random(shape: Any, dtype: Any = "float32") -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    if dtype.kind in "iu":
        return RNG.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    value = RNG.uniform(-2, 2, shape)
    if dtype.kind == "c":
        value = value + 1j * RNG.uniform(-2, 2, shape)
    return np.asarray(value).astype(dtype)


def strided(x: np.ndarray) -> np.ndarray:
    """The same values with a gap between all elements."""
    wide = np.zeros(tuple(2 * d for d in x.shape), x.dtype)
    view = wide[(*(slice(None, None, 2) for _ in x.shape), ...)]
    view[...] = x
    return view


def unknown(dims: Any) -> list[Any]:
    """Names for dims, so that equal sizes above 1 are known to be equal."""
    return [d if d == 1 else f"n{d}" for d in dims]


def run_op(name: str, inputs: Any, attrs: Any, metas: Any, *, gap: bool = False) -> Any:
    """One op through the engine; ``inputs`` are arrays (a tuple of them for a list)."""
    writer = GraphWriter()
    arrays: list[np.ndarray] = []

    def add(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(add, x))
        arrays.append(strided(x) if gap else x)
        return writer.input(x.shape, x.dtype)

    variables = [add(x) for x in inputs]
    made = writer.add(OPS[name], variables, attrs, *metas)
    outs = made if isinstance(made, tuple) else (made,)
    program = engine("cpu").compile(writer.graph(*outs), tuple(not gap for _ in arrays))
    results = program.launcher(tuple(a.shape for a in arrays))(*arrays)
    return results if len(results) > 1 else results[0]


def check(name: str, inputs: Any, attrs: Any, expected: Any, **tolerance: Any) -> None:
    """The op gives ``expected`` (an array or a list of them) on contiguous and strided inputs."""
    many = isinstance(expected, (list, tuple))
    wanted = [np.asarray(e) for e in (expected if many else [expected])]
    metas: Any = [(e.shape, e.dtype) for e in wanted]
    if OPS[name].outputs[0].is_list:
        metas = [metas]
    for gap in (False, True):
        found = run_op(name, inputs, attrs, metas, gap=gap)
        found = found if many and len(wanted) > 1 else [found]
        for f, w in zip(found, wanted):
            assert f.shape == w.shape and f.dtype == w.dtype
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            if w.dtype == np.dtype(ml_dtypes.bfloat16) or w.dtype == np.float16:
                tolerance = {"rtol": 2e-2, "atol": 2e-2}
            settings = {"rtol": 2e-5, "atol": 1e-6, **tolerance}
            np.testing.assert_allclose(f.astype(wide), w.astype(wide), **settings)


FLOATS = ["float16", "bfloat16", "float32", "float64"]
NUMBERS = [str(d) for d in dt.ALL if d != dt.bool_]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_pointwise_of_every_dtype(dtype: str) -> None:
    x, y = random((3, 5), dt.as_dtype(dtype)), random((3, 5), dt.as_dtype(dtype))
    check("add", (x, y), (), x + y)
    check("multiply", (x, y), (), x * y)


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((), (3,)), ((0, 3), (1,))]
)
def test_broadcast(shapes: Any) -> None:
    x, y = (random(s) for s in shapes)
    check("subtract", (x, y), (), x - y)


@pytest.mark.parametrize("source", [str(d) for d in dt.ALL if d.kind != "c"])
@pytest.mark.parametrize("target", [str(d) for d in dt.ALL if d.kind != "c"])
def test_cast(source: str, target: str) -> None:
    x = random((40,), dt.as_dtype(source))
    check("cast", (x,), (dt.as_dtype(target),), x.astype(dt.as_dtype(target)))


def test_a_cast_to_fewer_bits_rounds_inside_a_fused_kernel() -> None:
    writer = GraphWriter()
    x = writer.input([8])
    for dtype in ("bfloat16", "float32"):
        x = writer.add(OPS["cast"], (x,), (dt.as_dtype(dtype),), ((8,), dtype))
    program = engine("cpu").compile(writer.graph(x), (True,))
    data = random((8,))
    (found,) = program.launcher(((8,),))(data)
    np.testing.assert_array_equal(found, data.astype(ml_dtypes.bfloat16).astype(np.float32))


SHAPES = [(3, 4), (2, 3, 4), (5,), (0, 3), (3, 0), (1, 7), (2, 1, 3, 2)]


def axis_sets(rank: int) -> list[tuple[int, ...]]:
    return (
        [(k,) for k in range(rank)] + [tuple(range(rank))] + ([(0, rank - 1)] if rank > 2 else [])
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(shape: Any, keepdim: bool) -> None:
    x = random(shape)
    for axes in axis_sets(len(shape)):

        def done(fn: Any, value: np.ndarray = x, axes: Any = axes) -> Any:
            return np.asarray(fn(value, axis=axes, keepdims=keepdim))

        check("sum", (x,), (axes, None, keepdim), done(np.sum))
        check("prod", (x,), (axes, keepdim), done(np.prod))
        if x.size:
            check("max", (x,), (axes, keepdim), done(np.max))
            check("min", (x,), (axes, keepdim), done(np.min))
        check("any", (x > 1,), (axes, keepdim), done(np.any, x > 1))
        check("all", (x > -1,), (axes, keepdim), done(np.all, x > -1))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_sum_of_every_dtype(dtype: str) -> None:
    x = random((6, 7), dt.as_dtype(dtype))
    out = x.dtype if dt.is_differentiable(x.dtype) else np.dtype("int64")
    for axes in [(0,), (1,), (0, 1)]:
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        check("sum", (x,), (axes, None, False), np.asarray(wide.sum(axes)).astype(out))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_nan_goes_through_max_and_min(axes: Any) -> None:
    x = random((33, 70))
    x[5, 7] = np.nan
    check("max", (x,), (axes, False), np.asarray(np.max(x, axes)))
    check("min", (x,), (axes, False), np.asarray(np.min(x, axes)))


def test_sum_of_a_scalar() -> None:
    check("sum", (np.asarray(np.float32(3)),), ((), None, False), np.float32(3))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (7,)])
def test_argmax(shape: Any) -> None:
    for dtype in ("float32", "int32"):
        x = random(shape, dtype)
        for axis in range(len(shape)):
            attrs = (axis, False, False, dt.int64)
            check("argmax", (x,), attrs, np.asarray(np.argmax(x, axis)))
            check("argmin", (x,), attrs, np.asarray(np.argmin(x, axis)))
            kept = np.argmax(x, axis, keepdims=True)
            check("argmax", (x,), (axis, True, False, dt.int64), kept)
        check("argmax", (x,), (0, False, True, dt.int64), np.asarray(np.argmax(x)))
    x = random(shape)
    x.flat[1] = np.nan
    check("argmax", (x,), (0, False, True, dt.int64), np.asarray(np.argmax(x)))


@pytest.mark.parametrize("size", [4095, 4096, 4097, 3 * 4096, 20_000])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_argmax_by_blocks(size: int, dtype: str) -> None:
    # few values: the first of many equals, which stand in several blocks
    x = np.random.default_rng(size).integers(0, 4, size).astype(dtype)
    check("argmax", (x,), (0, False, True, dt.int64), np.asarray(np.argmax(x)))
    check("argmin", (x,), (0, False, True, dt.int32), np.asarray(np.argmin(x), "int32"))
    x[:] = 0  # in the last place alone
    x[-1] = 1
    check("argmax", (x,), (0, False, True, dt.int64), np.asarray(size - 1))


@pytest.mark.parametrize("first", [0, 4096, 19_999])
def test_argmax_by_blocks_finds_the_first_nan(first: int) -> None:
    x = random((20_000,))
    x[17] = np.inf
    x[first::500] = np.nan
    check("argmax", (x,), (0, False, True, dt.int64), np.asarray(first))
    x[:] = -np.inf
    check("argmax", (x,), (0, False, True, dt.int64), np.asarray(0))


@pytest.mark.parametrize("size", [256, 257, 512, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_argmax_of_rows_by_blocks(size: int, dtype: str) -> None:
    x = np.random.default_rng(size).integers(0, 4, (2, 3, size)).astype(dtype)
    x[0, 0], x[0, 1, :-1], x[1, 2, 1:] = 0, 0, 0  # all are equal, or all but the last or the first
    for axis in (1, 2):
        check("argmax", (x,), (axis, True, False, dt.int64), np.argmax(x, axis, keepdims=True))
        check("argmin", (x,), (axis, False, False, dt.int32), np.argmin(x, axis).astype("int32"))


@pytest.mark.parametrize("shape", [(2, 17, 3, 16), (1, 20), (9, 1030), (3, 40, 16), (10, 2, 8)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint32"])
def test_argmax_of_columns(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(shape).integers(0, 4, shape).astype(dtype)
    axis = len(shape) // 2 - (len(shape) == 2)
    check("argmax", (x,), (axis, True, False, dt.int64), np.argmax(x, axis, keepdims=True))
    check("argmin", (x,), (axis, False, False, dt.int32), np.argmin(x, axis).astype("int32"))
    if x.dtype.kind == "f":
        x[np.random.default_rng(1).random(shape) < 0.1] = np.nan
        x[..., 0] = -np.inf
        check("argmax", (x,), (axis, False, False, dt.int64), np.argmax(x, axis))
        check("argmin", (x,), (axis, False, False, dt.int64), np.argmin(x, axis))


def test_argmax_of_columns_of_unknown_size() -> None:
    """Of what is computed for it alone, and of what is strided."""
    f = phix.jit(lambda x: ops.argmax(x * -2.0, 1), input_spec=[phix.spec([-1, -1, -1])])
    rng = np.random.default_rng(0)
    for shape in ((1, 1, 1), (2, 9, 1), (0, 3, 4), (2, 8, 1500), (3, 30, 7), (1, 100, 16)):
        x = rng.normal(size=shape).astype(np.float32)
        np.testing.assert_array_equal(f(x), np.argmax(-x, 1), err_msg=str(shape))
        there = np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0)
        np.testing.assert_array_equal(phix.jit(lambda x: ops.argmax(x, 1))(there), np.argmax(x, 1))


def test_argmax_of_rows_by_blocks_finds_the_first_nan() -> None:
    x = random((6, 700))
    x[:, 17] = np.inf
    x[1, 699], x[2, 300:], x[3, ::299] = np.nan, np.nan, np.nan
    x[4], x[5] = -np.inf, np.nan
    expected = np.array([17, 699, 300, 0, 0, 0])
    check("argmax", (x,), (1, False, False, dt.int64), expected)
    check("argmin", (-x,), (1, False, False, dt.int64), expected)


def test_argmax_of_rows_that_are_computed_by_blocks() -> None:
    x = RNG.standard_normal((5, 3, 600)).astype("float32")
    functions: list[tuple[Any, np.ndarray]] = [
        (lambda x: ops.sum(x * x, 1), np.sum(x.astype("float64") ** 2, 1)),
        (lambda x: ops.softmax(x), x),
        (lambda x: ops.exp(x)[:, 0], x[:, 0]),
    ]
    for function, like in functions:
        found = phix.jit(lambda x, function=function: ops.argmax(function(x), axis=-1))(x)
        np.testing.assert_array_equal(np.asarray(found), np.argmax(like, -1))


def test_a_long_row_is_read_once_for_its_extreme_and_the_place_of_it() -> None:
    text = phix.jit(lambda x: ops.argmax(x, 1)).lower(phix.spec([30, 4096])).as_text("loop ir")
    assert text.count("kernel") == 1 and "local t0: float32[16]" in text
    assert text.count("in range(4096)") == 0


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (7,), (0, 3), (3, 0)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(shape: Any, exclusive: bool, reverse: bool) -> None:
    x = random(shape)

    def scanned(fn: Any, axis: int, first: float) -> np.ndarray:
        y = np.flip(x, axis) if reverse else x
        y = fn(y, axis=axis)
        if exclusive:
            head = np.full([1 if k == axis else d for k, d in enumerate(shape)], first, x.dtype)
            y = np.concatenate([head, y], axis)
            y = np.take(y, range(shape[axis]), axis)
        return np.ascontiguousarray(np.flip(y, axis) if reverse else y)

    for axis in range(len(shape)):
        check("cumsum", (x,), (axis, False, exclusive, reverse), scanned(np.cumsum, axis, 0))
        check("cumprod", (x,), (axis, exclusive, reverse), scanned(np.cumprod, axis, 1))


def test_cumsum_flat_and_half() -> None:
    x = random((3, 4))
    check("cumsum", (x,), (0, True, False, False), np.cumsum(x))
    half = x.astype(np.float16)
    check("cumsum", (half,), (0, False, False, False), np.cumsum(half, 0))


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128", "int64"])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (20, 30, 10), (1, 9, 1), (2, 0, 3)])
def test_matmul(dtype: str, sizes: Any) -> None:
    m, k, n = sizes
    for tx in (False, True):
        for ty in (False, True):
            x = random((k, m) if tx else (m, k), dt.as_dtype(dtype))
            y = random((n, k) if ty else (k, n), dt.as_dtype(dtype))
            wide = np.complex128 if "complex" in dtype else np.float64
            a, b = (x.T if tx else x).astype(wide), (y.T if ty else y).astype(wide)
            check("matmul", (x, y), (tx, ty), (a @ b).astype(x.dtype), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
        ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
        ((2, 12, 14), (2, 14, 15)), ((2, 12, 14), (14, 15)), ((14,), (14, 15)), ((5, 14), (14,)),
    ],
)  # fmt: skip
def test_matmul_of_stacks(shapes: Any) -> None:
    x, y = (random(s) for s in shapes)
    check("matmul", (x, y), (False, False), np.asarray(x @ y), rtol=1e-4, atol=1e-5)


def test_movement() -> None:
    x = random((2, 3, 4))
    check("transpose", (x,), ((2, 0, 1),), np.transpose(x, (2, 0, 1)))
    check("transpose", (x,), ((0, 2, 1),), np.transpose(x, (0, 2, 1)))
    check("reshape", (x,), ((4, 6),), x.reshape(4, 6))
    check("reshape", (x,), ((2, 1, 3, 4),), x.reshape(2, 1, 3, 4))
    check("expand", (x,), ((5, 2, 3, 4),), np.broadcast_to(x, (5, 2, 3, 4)))
    check("flip", (x,), ((0, 2),), np.flip(x, (0, 2)))
    check("roll", (x,), ((1, -5), (0, 2)), np.roll(x, (1, -5), (0, 2)))
    check("roll", (x,), ((5,), ()), np.roll(x, 5))
    for offset in (-1, 0, 2):
        expected = np.ascontiguousarray(np.diagonal(x, offset, 1, 2))
        check("diagonal", (x,), (offset, 1, 2), expected)
    check("full", (), ((2, 3), 1.5, dt.float32, None), np.full((2, 3), 1.5, np.float32))
    sections = np.split(x, [1, 3], 2)
    check("split", (x,), ((1, 2, 1), 2), [np.ascontiguousarray(s) for s in sections])


def test_slices() -> None:
    x = random((5, 6, 4))
    check("slice", (x,), ((0, 2), (1, -3), (4, 100), (), ()), x[1:4, :, -3:])
    check("slice", (x,), ((1,), (2,), (3,), (), (1,)), x[:, 2])
    check("strided_slice", (x,), ((0, 1), (4, 1), (0, 6), (-1, 2)), x[4:0:-1, 1:6:2])


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool", "bfloat16"])
def test_concat_and_pad(dtype: str) -> None:
    x, y, z = (random(s, dt.as_dtype(dtype)) for s in [(2, 3, 4), (2, 1, 4), (2, 0, 4)])
    check("concat", ((x, y, z, x),), (1,), np.concatenate([x, y, z, x], 1))
    check("concat", ((x, x),), (0,), np.concatenate([x, x], 0))
    check("concat", ((x, x),), (2,), np.concatenate([x, x], 2))
    check("pad", (x,), ((1, 2, 0, 0, 0, 1), 1), np.pad(x, ((1, 2), (0, 0), (0, 1)),
                                                       constant_values=1))  # fmt: skip


def test_gathers() -> None:
    x = random((5, 6, 4))
    index = np.array([3, 0, -1, 3, 2])
    for axis in range(3):
        check("gather", (x, index), (axis,), np.take(x, index, axis))
    check("gather", (x, np.array(2, np.int32)), (1,), np.take(x, 2, 1))
    where = np.array([[0, 1], [4, -1], [2, 2]])
    check("gather_nd", (x, where), (), x[where[:, 0], where[:, 1]])
    along = RNG.integers(0, 6, (5, 3, 4))
    check("take_along_axis", (x, along), (1,), np.take_along_axis(x, along, 1))


def test_an_index_out_of_range_stays_in_memory() -> None:
    x = random((5,))
    found = run_op("gather", (x, np.array([10**12, -(10**12)])), (0,), [((2,), "float32")])
    assert set(found) <= set(x)


def test_scatters() -> None:
    x, updates = random((5, 3)), random((4, 3))
    index = np.array([1, 4, 1, 0])
    expected = x.copy()
    expected[index] = updates
    check("scatter", (x, index, updates), (True,), expected)
    expected = x.copy()
    expected[index] = 0
    np.add.at(expected, index, updates)
    check("scatter", (x, index, updates), (False,), expected)
    where, few = np.array([[0, 1], [4, 2], [0, 1]]), random((3,))
    expected = x.copy()
    np.add.at(expected, (where[:, 0], where[:, 1]), few)
    check("scatter_nd_add", (x, where, few), (), expected)
    rows, columns, value = np.array([[0], [3]]), np.array([1, 2, -1]), random((2, 3))
    for accumulate in (False, True):
        expected = x.copy()
        if accumulate:
            np.add.at(expected, (rows, columns), value)
        else:
            expected[rows, columns] = value
        check("index_put", (x, (rows, columns), value), (accumulate,), expected)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["assign", "add", "mul", "amax", "amin", "mean"])
def test_put_along_axis(reduce: str, include_self: bool) -> None:
    x, values = random((4, 3)), random((5, 3))
    index = RNG.integers(0, 4, (5, 3))
    expected = x.astype(np.float64)
    for k in range(3):
        for place in range(4):
            new = [float(values[j, k]) for j in range(5) if index[j, k] == place]
            if not new:
                continue
            if reduce == "assign":
                expected[place, k] = new[-1]
                continue
            every = ([float(x[place, k])] if include_self else []) + new
            fn = {"add": sum, "mul": np.prod, "amax": max, "amin": min, "mean": np.mean}[reduce]
            expected[place, k] = fn(every)
    check("put_along_axis", (x, index, values), (0, reduce, include_self), expected.astype("f"))


def test_sorting() -> None:
    x = random((4, 6))
    x[1, 2] = np.nan
    check("argsort", (x,), (1, False, True), [np.sort(x, 1), np.argsort(x, 1)])
    small = random((4, 6), "int32")
    down = np.argsort(-small, 0, kind="stable")
    check("argsort", (small,), (0, True, True), [np.take_along_axis(small, down, 0), down])
    best = np.argsort(-small, 1, kind="stable")[:, :2]
    check("topk", (small,), (2, 1, True, True), [np.take_along_axis(small, best, 1), best])


def test_host_steps_between_native_ones() -> None:
    writer = GraphWriter()
    x = writer.input(["n", 4])
    dims = x.meta.dims
    e = writer.add(OPS["exp"], (x,), (), (dims, "float32"))
    out, order = writer.add(
        OPS["argsort"], (e,), (1, False, True), (dims, "float32"), (dims, "int64")
    )
    y = writer.add(OPS["add"], (out, e), (), (dims, "float32"))
    program = engine("cpu").compile(writer.graph(y, order), (True,))
    for n in (0, 1, 7):
        data = random((n, 4))
        found, indices = program.launcher(((n, 4),))(data)
        np.testing.assert_allclose(found, np.sort(np.exp(data), 1) + np.exp(data), rtol=1e-5)
        np.testing.assert_array_equal(indices, np.argsort(data, 1, kind="stable"))


def test_reduce_as_of_dims_known_and_unknown() -> None:
    check("reduce_as", (random((2, 3, 4)), random((3, 1))), (), np.zeros((3, 1), "f"), atol=99)
    writer = GraphWriter()
    x, t = writer.input(["n", "m"]), writer.input(["k", "l"])
    y = writer.add(OPS["reduce_as"], (x, t), (), (t.meta.dims, "float32"))
    program = engine("cpu").compile(writer.graph(y), (True, True))
    data = random((3, 5))
    for shape, axes in (((3, 5), ()), ((1, 5), (0,)), ((3, 1), (1,)), ((1, 1), (0, 1))):
        (found,) = program.launcher(((3, 5), shape))(data, random(shape))
        np.testing.assert_allclose(found, data.sum(axes, keepdims=True), rtol=1e-5)


def convolution(x: np.ndarray, w: np.ndarray, s: Any, p: Any, d: Any, groups: int) -> np.ndarray:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (p[0],) * 2, (p[1],) * 2))
    n, _, h, wd = x.shape
    o, per, kh, kw = w.shape
    oh, ow = (h - d[0] * (kh - 1) - 1) // s[0] + 1, (wd - d[1] * (kw - 1) - 1) // s[1] + 1
    out = np.zeros((n, o, oh, ow))
    for k in range(o):
        g = k // (o // groups)
        for i in range(oh):
            for j in range(ow):
                rows = slice(i * s[0], i * s[0] + d[0] * (kh - 1) + 1, d[0])
                columns = slice(j * s[1], j * s[1] + d[1] * (kw - 1) + 1, d[1])
                patch = x[:, g * per : (g + 1) * per, rows, columns]
                out[:, k, i, j] = (patch * w[k]).sum((1, 2, 3))
    return out


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("settings", [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2))])
def test_conv2d(dtype: str, groups: int, settings: Any) -> None:
    s, p, d = settings
    x, w = random((2, 4, 7, 6), dtype), random((6, 4 // groups, 3, 2), dtype)
    expected = convolution(x, w, s, p, d, groups).astype(dtype)
    attrs = (s, p, "EXPLICIT", d, groups)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype != "float16" else {"rtol": 0.05, "atol": 0.05}
    check("conv2d", (x, w), (*attrs, "NCHW"), expected, **tolerance)
    last = np.ascontiguousarray(np.moveaxis(x, 1, 3))
    expected = np.ascontiguousarray(np.moveaxis(expected, 1, 3))
    check("conv2d", (last, w), (*attrs, "NHWC"), expected, **tolerance)


def test_random_bits_are_threefry() -> None:
    key = np.array([0x13198A2E, 0x03707344], np.uint32)
    found = run_op("random_bits", (key,), ((4,), 64), [((4,), "uint64")])
    assert len(set(found.tolist())) == 4
    zero = run_op("random_bits", (np.zeros(2, np.uint32),), ((1,), 64), [((1,), "uint64")])
    assert zero[0] == (0x6B200159 << 32) | 0x99BA4EFE  # the known answer of the authors' test


@pytest.mark.parametrize("contiguous", [True, False])
def test_one_program_serves_all_sizes(contiguous: bool) -> None:
    writer = GraphWriter()
    x, y = writer.input(["n", "m"]), writer.input(["k", "m"])
    n, m, k = x.meta.dims[0], x.meta.dims[1], y.meta.dims[0]
    dims = (dm.broadcast(n, k), m)
    z = writer.add(OPS["add"], (x, y), (), (dims, "float32"))
    s = writer.add(OPS["sum"], (z,), ((1,), None, True), ((dims[0], 1), "float32"))
    q = writer.add(OPS["divide"], (z, s), (), (dims, "float32"))
    program = engine("cpu").compile(writer.graph(q, s), (contiguous, contiguous))
    for shapes in [((7, 5), (7, 5)), ((1, 5), (7, 5)), ((7, 5), (1, 5)), ((1000, 1), (1, 1)),
                   ((0, 3), (1, 3)), ((3, 0), (3, 0)), ((1, 1), (1, 1))]:  # fmt: skip
        a, b = (random(s) for s in shapes)
        if not contiguous:
            a, b = strided(a), strided(b)
        found, total = program.launcher(shapes)(a, b)
        np.testing.assert_allclose(total, (a + b).sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found, (a + b) / total, rtol=1e-4)


def test_outputs_that_are_inputs_literals_or_given_twice() -> None:
    writer = GraphWriter()
    x = writer.input(["n"])
    y = writer.add(OPS["exp"], (x,), (), (x.meta.dims, "float32"))
    flat = writer.add(OPS["reshape"], (y,), ((1, -1),), ((1, *x.meta.dims), "float32"))
    program = engine("cpu").compile(writer.graph(x, y, y, flat), (True,))
    data = random((5,))
    a, b, c, d = results = program.launcher(((5,),))(data)
    assert not any(np.shares_memory(p, q) for p in results for q in (data, *results)
                   if p is not q)  # fmt: skip
    for found in (b, c, d.reshape(-1)):
        np.testing.assert_allclose(found, np.exp(data), rtol=1e-6)
    np.testing.assert_array_equal(a, data)


def test_constants_are_bound() -> None:
    writer = GraphWriter()
    x = writer.input([3, 4])
    w = random((4, 2))
    y = writer.add(OPS["matmul"], (x, writer.constant(w)), (False, False), ((3, 2), "float32"))
    program = engine("cpu").compile(writer.graph(y), (True,))
    data = random((3, 4))
    np.testing.assert_allclose(program.launcher(((3, 4),))(data)[0], data @ w, rtol=1e-5)


def test_programs_run_in_threads() -> None:
    writer = GraphWriter()
    x = writer.input(["n", "n"])
    dims = x.meta.dims
    y = writer.add(OPS["matmul"], (x, x), (False, False), (dims, "float32"))
    z = writer.add(OPS["transpose"], (y,), ((1, 0),), (dims, "float32"))
    launch = engine("cpu").compile(writer.graph(z), (True,)).launcher(((40, 40),))
    failures: list[Any] = []

    def work() -> None:
        data = RNG.random((40, 40), np.float32)
        for _ in range(50):
            if not np.allclose(launch(data)[0], (data @ data).T, rtol=1e-4):
                failures.append(data)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


# -- the pool of temps -----------------------------------------------------------------------------
GIVEN_BACK = """
import ctypes

from phix.kernels.cpu import pool

take, give = pool.functions()
first = take(1 << 20)
second = take(1 << 20)
assert first % 64 == second % 64 == 0 and abs(first - second) >= 1 << 20
ctypes.memset(first, 1, 1 << 20)
give(first)
assert take((1 << 20) - 4096) == first  # one that is a little too large will do
third = take(100 << 10)  # one that is far too large will not
assert third not in (first, second)
for block in (first, second, third):
    give(block)
"""


def test_a_block_given_back_is_handed_out_again() -> None:
    """In a process of its own: others have left blocks in the pool."""
    run = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


GROWING = """
from phix.kernels.cpu import pool

take, give = pool.functions()
sizes = [(3 << 20) + (1 << 20) * k for k in range(6)]


def taken(size):
    block = take(size)
    give(block)
    return block


for size in sizes:
    largest = taken(size)
assert {taken(size) for size in sizes[1:]} == {largest}  # the least is less than a quarter of none
assert taken(256 << 10) != largest  # for which a block of megabytes is too much
assert taken(sizes[-1]) == largest
"""


def test_a_block_takes_the_place_of_smaller_ones_that_it_can_stand_for() -> None:
    """Products of growing sizes pack into one block in the end, not into one each. In a process of
    its own: others have left blocks in the pool."""
    run = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="madvise is asked on Linux alone")
def test_large_blocks_are_of_huge_pages() -> None:
    huge = 2 << 20
    take, give = pool.functions()
    blocks = {size: take(size) for size in (huge * 8 // 10, 2 * huge, 9 * huge + 4096)}
    for size, block in blocks.items():
        assert (block - 64) % huge == 0  # behind a header
        # the list of areas is read piece by piece, while other threads may change it
        assert any(_is_advised(block, block + size) for _ in range(5))
        give(block)


def _is_advised(start: int, end: int) -> bool:
    return any(first <= start and end <= last for first, last in _advised_ranges())


def _advised_ranges() -> list[tuple[int, int]]:
    """Where in this process's memory huge pages were asked for; areas side by side are one."""
    found: list[tuple[int, int]] = []
    place = (0, 0)
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if "-" in first and not first.endswith(":"):
            start, end = first.split("-")
            place = (int(start, 16), int(end, 16))
        elif first == "VmFlags:" and "hg" in rest.split():
            joins = bool(found) and found[-1][1] == place[0]
            found.append((found.pop()[0], place[1]) if joins else place)
    return found


def test_threads_share_the_pool() -> None:
    take, give = pool.functions()

    def work(mark: int) -> None:
        for size in range(1, 200):
            block = take(size << 12)
            ctypes.memset(block, mark, size << 12)
            assert ctypes.string_at(block, size << 12) == bytes([mark]) * (size << 12)
            give(block)

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(work, range(1, 9)))


def test_long_loops_that_store_are_not_unrolled_whole() -> None:
    def rolled(function: Any, *shape: Any) -> int:
        text = phix.jit(function).lower(phix.spec(shape)).as_text("llvm")
        return text.count(f", {ROLLED}\n")

    assert rolled(ops.tanh, 1000) == 1
    assert rolled(ops.tanh, 8) == 0  # short: unrolled, and joined with what is around it
    assert rolled(ops.max, 1000) == 0  # an accumulator, which several are faster than
    assert rolled(ops.tanh, "n") == 0  # LLVM cannot unroll what it does not know


def test_long_chains_of_floats_take_two_vectors_at_a_time() -> None:
    def is_paired(function: Any, size: int) -> bool:
        text = phix.jit(function).lower(phix.spec([size])).as_text("llvm")
        return f", {PAIRED}\n" in text

    assert is_paired(ops.silu, 1 << 20)
    assert not is_paired(ops.silu, 1000)  # no work for threads
    assert not is_paired(lambda x: x + 1.0, 1 << 20)  # no chain
    x = RNG.standard_normal(200_003).astype("float32")  # vectors left over
    np.testing.assert_array_equal(phix.jit(ops.silu)(x), np.asarray(ops.silu(x)))


def test_extremes_of_narrow_rows_are_found_side_by_side() -> None:
    def is_across(columns: int, function: Any = ops.argmax) -> bool:
        lowered = phix.jit(lambda x: function(x, axis=1)).lower(phix.spec((40, columns)))
        return any(f", {told}\n" in lowered.as_text("llvm") for told in ACROSS.values())

    assert is_across(20) and not is_across(5) and not is_across(100)
    assert not is_across(20, ops.sum)
    best = phix.jit(lambda x: ops.topk(x, 1, 0)).lower(phix.spec(["n"])).as_text("llvm")
    assert not any(f", {told}\n" in best for told in ACROSS.values())  # each goes on from the last
    assert not is_across(20, ops.sum) and not is_across(20, ops.max)  # a vector of each row
    x = RNG.standard_normal((40, 20)).astype("float32")
    x[::3, ::4], x[1::5, 7], x[2::6] = -0.0, np.nan, 0.0  # of both signs in some rows
    found = phix.jit(lambda x: (ops.max(x, [1]), ops.argmax(x, axis=1)))(x)
    np.testing.assert_array_equal(np.asarray(found[0]), np.max(x, 1))
    np.testing.assert_array_equal(np.asarray(found[1]), np.argmax(x, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_few_narrow_rows_are_compiled_without_a_word(dtype: str, capfd: Any) -> None:
    for rows, columns in ((2, 14), (3, 9), (7, 20), (8, 9)):
        x = phix.to_tensor(np.arange(rows * columns).reshape(rows, columns) % 13).astype(dtype)
        both = phix.jit(lambda x: (ops.max(x, [1]), ops.argmax(x, axis=1)))
        assert both(x)[0].tolist() == x.numpy().max(1).tolist()
    assert capfd.readouterr().err == ""


def test_a_masked_extreme_is_made_of_vectors() -> None:
    def masked(x: Any, mask: Any) -> Any:
        return ops.max(ops.where(mask, x, -np.inf), [1])

    mask = RNG.random((40, 64)) < 0.5
    mask[3] = False
    x = RNG.standard_normal((40, 64)).astype("float32")
    text = phix.jit(masked).lower(phix.spec(x.shape), phix.spec(x.shape, "bool")).as_text("llvm")
    assert re.search(r"= load volatile float", text)  # what LLVM knows it makes a branch of
    expected = np.where(mask, x, -np.inf).max(1)
    np.testing.assert_array_equal(np.asarray(phix.jit(masked)(x, mask)), expected)


@pytest.mark.parametrize("size", [21, 37, 63])
def test_what_is_left_of_a_row_is_found_in_one_vector(size: int) -> None:
    """Extremes, and sums of functions, of rows that are no whole number of vectors."""
    x = np.random.default_rng(size).standard_normal((9, size)).astype(np.float32)
    x[1, -1], x[2, 3], x[3], x[4] = np.nan, np.nan, -np.inf, np.inf
    x[5], x[5, -1] = -0.0, 0.0
    rows = phix.jit(lambda t: (ops.max(t, [1]), ops.argmin(t, axis=1), ops.sum(ops.exp(t), [1])))
    with np.errstate(over="ignore"):
        largest, place, total = (np.asarray(r) for r in rows(x))
        np.testing.assert_array_equal(largest, x.max(1))
        np.testing.assert_array_equal(place, x.argmin(1))
        np.testing.assert_allclose(total, np.exp(x.astype(np.float64)).sum(1), rtol=1e-6)
    assert not np.signbit(largest[5])


def test_few_channels_are_read_side_by_side() -> None:
    """Of planes that are whole pages apart the first cache holds a few lines each: more go in
    tiles."""

    def text(channels: int) -> str:
        x = phix.spec((2, channels, 64, 64))
        return phix.jit(lambda x: ops.transpose(x, [0, 2, 3, 1])).lower(x).as_text("loop ir")

    assert "minimum(3" not in text(3) and "for i1 in range(4096)" in text(3)
    assert "for i1 in range(4096)" not in text(32)
    x = np.arange(2 * 3 * 64 * 64, dtype="float32").reshape(2, 3, 64, 64)
    found = phix.jit(lambda x: ops.transpose(x, [0, 2, 3, 1]))(x)
    np.testing.assert_array_equal(found, x.transpose(0, 2, 3, 1))


def test_llvm_sees_constants_and_not_how_sizes_were_made() -> None:
    x = phix.to_tensor(np.arange(100))
    rest = phix.jit(lambda x: x % 64)
    assert "volatile" not in rest.lower(x).as_text("llvm")  # a division by 64 is a shift
    spec = phix.spec(["n"])
    sums = lambda x: ops.sum(ops.reshape(x, [2, x.shape[0] // 2]), axis=1)  # noqa: E731
    halves = phix.jit(sums, input_spec=[spec])
    assert "load volatile" in halves.lower(spec).as_text("llvm")
    np.testing.assert_array_equal(halves(np.arange(6, dtype="f")), [3.0, 12.0])
