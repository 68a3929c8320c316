"""Sorting in the CPU engine, against NumPy: every dtype, short and long rows, NaN and -0.0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import PhixError
from phix.kernels.gpu import host_steps as gpu_host_steps

pytestmark = pytest.mark.unoptimised

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64"]  # fmt: skip
# Sorted by insertion (up to 48 elements), with short digits (to 2048), with long ones, and not
# at all; along the last axis and others.
ROWS = [((), -1), ((0,), 0), ((1,), 0), ((48,), 0), ((49,), 0), ((2048,), 0), ((2049,), 0),
        ((3, 7), 1), ((60, 4), 0), ((2, 100, 3), 1), ((4, 0), 1), ((0, 4), 1)]  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    """Over the whole range of the dtype, with equal elements and all that is special."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) > 0.5)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
        return np.asarray(np.where(rng.random(shape) < 0.5, wide, wide % dtype.type(5)), dtype)
    special = np.array(
        [np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal], dtype
    )
    x = np.asarray(rng.standard_normal(shape), dtype)
    return np.asarray(np.where(rng.random(shape) < 0.4, rng.choice(special, shape), x), dtype)


def stable_order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """NaN the largest; equal elements in the order they came."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backward, axis)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("name", DTYPES)
def test_sorts_are_stable_and_nan_is_the_largest(
    name: str, descending: bool, unknown: bool
) -> None:
    def compiled(f: Any, x: np.ndarray) -> Any:
        dims = [f"n{k}" for k in range(x.ndim)]
        return phix.jit(f, input_spec=[phix.spec(dims, x.dtype)] if unknown else None)

    for seed, (shape, axis) in enumerate(ROWS):
        x = numbers(shape, np.dtype(name), seed)
        values = compiled(lambda t, a=axis: ops.sort(t, a, descending), x)(x)
        found, indices = compiled(lambda t, a=axis: ops.argsort(t, a, descending), x)(x)
        if not x.ndim:
            np.testing.assert_array_equal([values, found], [x, x])
            assert indices.item() == 0
            continue
        order = stable_order(x, axis, descending)
        wanted = np.take_along_axis(x, order, axis)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(found, wanted)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(wanted))


@pytest.mark.parametrize("size", [4, 300, 5000])
@pytest.mark.parametrize("largest", [True, False])
def test_the_first_of_equals_come_first_in_topk(size: int, largest: bool) -> None:
    x = np.random.default_rng(size).integers(0, 9, (3, size)).astype(np.float32)
    values, indices = phix.jit(lambda t: ops.topk(t, 3, -1, largest))(x)
    order = stable_order(x, 1, largest)[:, :3]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint32", "int64", "float16", "float32", "float64"]
)
def test_a_few_are_found_without_sorting(name: str, largest: bool) -> None:
    """Rows that end with a block, within one, and before the first; more than a few are sorted."""
    for seed, (k, size) in enumerate([(1, 1), (3, 19), (3, 20), (32, 32), (5, 200), (33, 60)]):
        x = numbers((3, size, 2), np.dtype(name), seed)
        spec = [phix.spec(["rows", "size", 2], name)] if size > 32 else None
        values, indices = phix.jit(lambda t, k=k: ops.topk(t, k, 1, largest), input_spec=spec)(x)
        order = stable_order(x, 1, largest)[:, :k]
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_rows_in_which_each_is_better_than_the_one_before(order: str) -> None:
    row = {"rising": np.arange(100), "falling": -np.arange(100), "equal": np.zeros(100, int)}[order]
    values, indices = phix.jit(lambda t: ops.topk(t, 4))(row)
    wanted = {"rising": [99, 98, 97, 96]}.get(order, [0, 1, 2, 3])
    assert indices.tolist() == wanted
    assert values.tolist() == row[wanted].tolist()


def test_threads_sort_rows_of_their_own() -> None:
    x = np.random.default_rng(1).standard_normal((900, 600)).astype(np.float32)
    for function, wanted in (
        (lambda t: ops.sort(t, 1), np.sort(x, 1)),
        (lambda t: ops.topk(t, 5)[0], -np.sort(-x, 1)[:, :5]),
    ):
        jitted = phix.jit(function)
        assert "shared: 900" in jitted.lower(x).as_text("loop ir")
        np.testing.assert_array_equal(jitted(x), wanted)


def test_a_row_is_sorted_in_each_iteration() -> None:
    x = np.random.default_rng(0).standard_normal((4, 100))

    def step(carry: Any, row: Any) -> Any:
        row = ops.sort(row + carry)
        return row[50], row

    found = phix.jit(lambda t: phix.scan(step, ops.sum(t) * 0.0, t)[1])(x)
    middle = 0.0
    for row, got in zip(x, found.numpy()):
        wanted = np.sort(row + middle)
        middle = wanted[50]
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("function", [ops.sort, ops.argsort, lambda x: ops.topk(x, 1)])
def test_a_row_of_too_many_elements_is_refused(function: Any) -> None:
    with pytest.raises(PhixError, match="sort it in parts"):
        phix.infer_meta(function)(phix.spec([2**32]))


def test_rows_sorted_twice_are_one_pass_with_memory_for_both() -> None:
    x = np.random.default_rng(5).standard_normal((3, 9)).astype("float32")

    def both(x: Any) -> Any:
        return ops.sort(x, 1), ops.sort(ops.sin(x), 1)

    text = phix.jit(both).lower(x).as_text("loop ir")
    assert text.count("kernel") == 1 and text.count("local l") > 1, text
    for got, expected in zip(phix.jit(both)(x), (np.sort(x, 1), np.sort(np.sin(x), 1))):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


class OrderOfBits:
    """NumPy in CuPy's place, with a sort that goes by the bits, as sorts by digits do."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def argsort(x: np.ndarray, axis: int, kind: str) -> np.ndarray:
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
        return np.argsort(np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits), axis, kind)

    def sort(self, x: np.ndarray, axis: int) -> np.ndarray:
        return np.take_along_axis(x, self.argsort(x, axis, "stable"), axis)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_a_nan_with_a_sign_is_the_largest_on_a_gpu_too(name: str, descending: bool) -> None:
    x = np.array([1.0, -np.nan, -np.inf, np.nan, np.inf, -2.0], name)
    wanted = np.sort(x)[::-1] if descending else np.sort(x)
    attrs = {"axis": 0, "descending": descending}
    out, order = np.empty_like(x), np.empty(x.shape, np.int64)
    steps = [gpu_host_steps.find(name, OrderOfBits(), attrs) for name in ("sort", "argsort")]
    for step, outputs in zip(steps, [(out,), (out, order)]):
        assert step is not None
        step(x, *outputs)
        np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(x[order], wanted)
