"""Short rows sorted side by side by a network, against NumPy and by the principle of 0 and 1."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.cpu import advice
from phix.kernels.loops import nodes as ir
from phix.kernels.lowering import sorting_networks
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from tests.loop_passes import prove_function
from tests.test_sorting import numbers, stable_order

pytestmark = pytest.mark.unoptimised


@lru_cache(maxsize=4)
def of_any_size(function: Any, dtype: str) -> Any:
    """One program for rows of any number and size."""
    return phix.jit(lambda t: function(t, 1), input_spec=[phix.spec(["rows", "size"], dtype)])


def zeros_and_ones(size: int) -> np.ndarray:
    """All rows of zeros and ones of a size."""
    return ((np.arange(1 << size)[:, None] >> np.arange(size)) & 1).astype(np.uint8)


def test_a_network_that_sorts_all_zeros_and_ones_sorts_all() -> None:
    """Knuth 5.3.4, theorem Z: compare-exchanges that sort all rows of 0 and 1 sort any."""
    for size in range(13):
        x = zeros_and_ones(size)
        found = of_any_size(ops.sort, "uint8")(x)
        np.testing.assert_array_equal(found, np.sort(x, 1), err_msg=f"rows of {size}")


def test_rows_of_all_sizes_up_to_the_longest_and_beyond() -> None:
    most = sorting_networks.MOST
    for size in (*range(13, 131, 2), *range(131, most, 29), *range(most - 1, most + 3)):
        x = np.random.default_rng(size).integers(0, 2 * size, (70, size)).astype(np.int32)
        order = np.argsort(x, 1, kind="stable")
        np.testing.assert_array_equal(of_any_size(ops.sort, "int32")(x), np.sort(x, 1))
        np.testing.assert_array_equal(of_any_size(ops.argsort, "int32")(x)[1], order)


# Blocks that are full and not; rows that lie along memory, across it, and both.
SHAPES = [((70, 9), 1), ((64, 50), 1), ((9, 33), 0), ((2, 7, 40), 1), ((90, 6, 3), 1),
          ((4, 3, 5, 17), 3)]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint16", "int32", "uint64", "int64", "float16", "float32", "float64"]
)
def test_networks_sort_as_one_by_one(name: str, descending: bool) -> None:
    for seed, (shape, axis) in enumerate(SHAPES):
        x = numbers(shape, np.dtype(name), seed)
        values = phix.jit(lambda t, a=axis: ops.sort(t, a, descending))(x)
        found, indices = phix.jit(lambda t, a=axis: ops.argsort(t, a, descending))(x)
        order = stable_order(x, axis, descending)
        wanted = np.take_along_axis(x, order, axis)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(found, wanted)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(wanted))
            alone = phix.jit(
                lambda t, a=axis: ops.sort(t, a, descending), disable="sorting_networks"
            )(x)
            bits = f"u{x.dtype.itemsize}"
            np.testing.assert_array_equal(values.numpy().view(bits), alone.numpy().view(bits))


def text(function: Any, shape: Any, form: str = "loop ir", **options: Any) -> str:
    return str(phix.jit(function, **options).lower(phix.spec(shape)).as_text(form))


def has_network(printed: str) -> bool:
    """Whether rows are compared in vectors: a loop over lanes says so."""
    return "# independent\n              a" in printed


def is_network(shape: Any, axis: int = -1, **options: Any) -> bool:
    return has_network(text(lambda t: ops.sort(t, axis), shape, **options))


def test_networks_sort_short_rows_of_which_there_are_many() -> None:
    most = sorting_networks.MOST
    assert is_network([100, 50]) and is_network([100, most]) and is_network(["n", 50])
    assert is_network([50, 100], 0) and is_network([40, 5, 2], 1)
    assert not is_network([100, most + 1]) and not is_network([3, 50]) and not is_network([50])
    assert not is_network([100, 50], disable="sorting_networks")


def test_topk_sorts_short_rows_but_for_few() -> None:
    def is_sorted(size: int, k: int) -> bool:
        return has_network(text(lambda t: ops.topk(t, k, 1), [100, size]))

    assert is_sorted(50, 10) and is_sorted(10, 2) and is_sorted(100, 3) and is_sorted(500, 20)
    assert not is_sorted(50, 1) and not is_sorted(200, 3) and not is_sorted(600, 20)


def test_threads_share_blocks_of_rows() -> None:
    assert "shared: 2000\n" in text(lambda t: ops.sort(t, 1), [64000, 50])


def test_code_of_a_network_does_not_grow_with_the_rows() -> None:
    few, many = (text(lambda t: ops.sort(t, 1), [3200, size]) for size in (17, 127))
    assert len(few.splitlines()) == len(many.splitlines())


@pytest.mark.parametrize("function", [ops.sort, ops.argsort, lambda x, a: ops.topk(x, 40, a)])
@pytest.mark.parametrize("shape, axis", [((37, 41), 1), ((2, 42, 9), 1)])
def test_passes_keep_what_networks_sort(function: Any, shape: Any, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    prove_function(lambda t: function(ops.sin(t), axis), x)


@pytest.mark.parametrize("shape", [(37, 5), (3, 50), (40, 131)])
def test_passes_keep_what_programs_choose_by_size(shape: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    specs = [phix.spec(["rows", "size"], "float32")]
    prove_function(lambda t: ops.argsort(t, 1), x, specs=specs)


# -- what LLVM is told ---------------------------------------------------------------------------
LANE, I = sc.var("i9"), sc.var("i8")
OWN = ir.Buffer("l0", dt.int32, (64,), "local")
OTHER, OUT = ir.Buffer("x0", dt.int32, (64,), "input"), ir.Buffer("o0", dt.int32, (64,), "output")


def stored(at: Expr, value: Any = 1, buffer: ir.Buffer = OWN) -> ir.Store:
    return ir.Store(buffer, (at,), sc.const(1, dt.int32) if value == 1 else value)


def is_told_apart(*body: ir.Statement, kind: str = "independent") -> bool:
    loop = ir.For(LANE, sc.const(8, dt.int64), list(body), kind, is_vector=True)
    return advice.is_of_lanes(loop)


def test_lanes_are_told_apart_where_each_has_places_of_its_own() -> None:
    own = I * 8 + LANE
    for at in (own, LANE, LANE + (I - LANE) * 8 + 16, (I + 1) * 8 + (LANE + 24)):
        assert is_told_apart(stored(at, ir.load(OWN, (own,)) + ir.load(OTHER, (I,))))
    a = sc.var("a0", dt.int32)
    assert is_told_apart(ir.Declare(a, ir.load(OWN, (own,))), stored(own + 8, a))
    assert not is_told_apart(stored(own), kind="parallel")
    assert not is_told_apart(stored(own, buffer=OUT))
    assert not is_told_apart(stored(own, ir.load(OWN, (own + 1,))))
    assert not is_told_apart(ir.Declare(a, ir.load(OWN, (I * 8,))), stored(own, a))
    for at in (I * 8, I * 4 + LANE, own + 4, LANE + LANE, I + LANE, I * 8 - LANE):
        assert not is_told_apart(stored(at))
    assert not is_told_apart(stored(own), ir.Assign((a,), (a + 1,)))
    for block in (ir.For(I, ir.ONE, [stored(own)]), ir.While(I > 0, []), ir.If(I > 0, [])):
        assert not is_told_apart(stored(own), block)


def test_llvm_is_told_of_networks_alone() -> None:
    for function in (ops.sort, ops.argsort):
        printed = text(lambda t, f=function: f(t, 1), [100, 50], "llvm")
        told = [line for line in printed.splitlines() if advice.APART_IN_LANES in line]
        assert len(told) == 4 and all("load" in s or "store" in s for s in told)
        assert any(f", {lanes}\n" in printed for lanes in advice.LANES.values())
        # both loops over the network's steps stay loops
        again = [line for line in printed.splitlines() if "br label %test" in line]
        assert sum(line.endswith(f", {advice.ROLLED}") for line in again) == 2
    alone = text(lambda t: ops.sort(t, 1), [3, 9], "llvm")
    assert "br label %test" in alone and advice.APART_IN_LANES not in alone
    assert not re.search(r"br label %test\d+, !", alone)
