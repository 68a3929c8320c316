"""How the GPU engine lays loops on threads: what fuses, what is split, and that it is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from cuda_emulator import Emulator
from gpu_programs import check, needs_compiler, program, shapes, teams
from phix import ops
from phix.core import rewrites
from phix.core.engines import engine
from phix.core.errors import DeviceError
from phix.kernels.gpu import device
from phix.kernels.gpu.products import Product
from phix.kernels.gpu.program import GpuProgram
from phix.kernels.gpu.radix import LEAST, DigitMoves
from phix.kernels.loops import nodes as ir

RNG = np.random.default_rng(0)
pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu schedule"), pytest.mark.unoptimised]


def floats(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


# -- rows ------------------------------------------------------------------------------------
@pytest.mark.parametrize("columns", [5, 33, 300, 1027])
def test_softmax_is_one_kernel_with_a_block_a_row(columns: int) -> None:
    made = check(lambda x: ops.softmax(x), floats(300, columns))
    assert teams(made) == ["block" if columns >= 16 else "thread"]
    assert not made.loops.temps, "rows of exponentials stay where the result goes"


def test_layer_norm_is_one_kernel_with_vector_loads() -> None:
    made = check(
        lambda x, w, b: ops.layer_norm(x, w, b), floats(300, 256), floats(256), floats(256)
    )
    assert teams(made) == ["block"]
    assert "phix_pack<float, 4>" in made.sections["cuda"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("size", [1, 15, 16, 1000])
def test_packs_of_every_width_and_what_is_left(dtype: str, size: int) -> None:
    x = np.asarray(phix.to_tensor(floats(size) * 5, dtype))
    check(lambda a: a * a + a, x, tolerance=1e-2)


# -- reductions -------------------------------------------------------------------------------
def test_a_long_sum_is_split_and_the_same_on_every_run() -> None:
    x = floats(300_000)
    made = check(lambda a: ops.sum(a), x, tolerance=1e-3)
    assert len(made.launches) == 2
    launch = made.launcher(shapes([x]))
    assert launch(x)[0].tobytes() == launch(x)[0].tobytes()


def test_what_reads_a_long_sum_is_a_kernel_of_its_own() -> None:
    made = check(lambda a: a / ops.sum(a * a), floats(200_000))
    assert teams(made) == ["block", "block", "thread"]


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (0, 1), (0, 1, 2)])
def test_sums_over_any_axes(axis: Any) -> None:
    check(lambda a: ops.sum(a, axis), floats(40, 37, 50), tolerance=1e-4)
    check(lambda a: ops.max(a, axis), floats(40, 37, 50))


def test_columns_have_neighbouring_threads() -> None:
    made = check(lambda a: ops.sum(a, 0), floats(4000, 64), tolerance=1e-3)
    assert teams(made) == ["thread", "thread"]


def test_a_product_of_complex_numbers_is_not_taken_for_two() -> None:
    x = (floats(3, 100) + 1j * floats(3, 100)).astype(np.complex64)
    check(lambda a: ops.prod(a / 2, 1), x, tolerance=1e-4)
    check(lambda a: ops.sum(a, 1), x, tolerance=1e-4)


def test_sums_that_one_result_is_made_of_are_one_loop_in_parts() -> None:
    x, y = floats(2000, 40), floats(2000, 40)
    made = check(lambda x, y: ops.sum(x * y, 0) + ops.sum(x, 0) * 2.0, x, y, tolerance=1e-3)
    first, _ = made.loops.steps
    assert len([s for s in ir.walk(first.body) if isinstance(s, ir.Store)]) == 2, "parts of both"
    made = check(lambda x: ops.sum(x - ops.mean(x, 0), 0) + ops.sum(x, 0), x, tolerance=1e-3)
    made = check(lambda x: ops.sum(x, [0, 1]) + ops.sum(x * x), x, tolerance=1e-3)


ALONG = {
    "sum": (lambda x: ops.sum(x, [0]), lambda x: x.sum()),
    "backward": (lambda x: ops.sum(ops.flip(x, [0]) * x, [0]), lambda x: (x[::-1] * x).sum()),
    "running": (lambda x: ops.cumsum(x, 0), np.cumsum),
    "running back": (lambda x: ops.cumsum(x, 0, reverse=True), lambda x: np.cumsum(x[::-1])[::-1]),
}


@pytest.mark.parametrize("dims", [["n"], [400_000]], ids=["unknown", "known"])
@pytest.mark.parametrize("name", ALONG)
def test_blocks_go_along_memory_and_long_sums_keep_their_digits(name: str, dims: Any) -> None:
    function, reference = ALONG[name]
    made = program(phix.jit(function).lower(phix.spec(dims, "float32")).graph)
    numbers = dict.fromkeys(made.loops.symbols, 400_000)
    assert {made._team(launch, numbers) for launch in made.launches.values()} == {"block"}
    for x in (np.full(400_000, 0.1, np.float32), np.random.default_rng(0).random(400_000, "f")):
        (found,) = made.launcher(((400_000,),))(x)
        np.testing.assert_allclose(found, reference(x.astype(np.float64)), rtol=5e-7)


def test_running_sums_go_on_behind_infinity() -> None:
    x = np.ones((3, 9000), np.float32)
    x[0, 5000], x[1, 100] = np.inf, np.nan
    check(lambda x: ops.cumsum(x, 1), x)


# -- what has an order -------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(axis: int, reverse: bool) -> None:
    check(lambda a: ops.cumsum(a, axis, reverse=reverse), floats(70, 300), tolerance=1e-3)
    check(lambda a: ops.cummax(a, axis), floats(70, 30))


def writes(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return floats(7, 5), RNG.integers(-7, 7, count), floats(count, 5)


@pytest.mark.parametrize("count", [1, 30, 500, 20_000])
def test_scatters_add_and_overwrite_in_order(count: int) -> None:
    for overwrite in (True, False):
        check(lambda x, i, u, o=overwrite: ops.scatter(x, i, u, o), *writes(count))
    x, i, u = writes(count)
    made = check(lambda x, i, u: ops.index_put(x, [i], u, True), x, i, u, tolerance=1e-4)
    sorts = any(isinstance(s, DigitMoves) for s in made.loops.steps)
    assert sorts == (count >= LEAST), "fewer places are counted"


@pytest.mark.parametrize("count", [30, 20_000])
def test_scatters_leave_out_what_is_out_of_range(count: int) -> None:
    x, _, u = writes(count)
    i = RNG.integers(-11, 11, count)
    for adds in (True, False):
        check(
            lambda x, i, u, a=adds: ops.index_put(x, [i], u, a, (), "drop"),
            x, i, u, tolerance=1e-4,
        )  # fmt: skip


def test_writes_that_all_go_to_one_place() -> None:
    x, i, u = floats(1, 5), np.zeros(1, np.int64), floats(1, 5)
    check(lambda x, i, u: ops.index_put(x, [i], u, True), x, i, u, specs=[
        phix.spec([1, "n"]), phix.spec([1], "int64"), phix.spec([1, "n"])])  # fmt: skip


def test_scatter_along_an_axis_has_a_thread_a_column() -> None:
    i = RNG.integers(0, 7, (90, 5))
    check(lambda x, i, u: ops.put_along_axis(x, i, u, 0, "add"), floats(7, 5), i, floats(90, 5))
    check(
        lambda x, i, u: ops.put_along_axis(x, i, u, 1, "mul"), floats(90, 5), i % 5, floats(90, 5)
    )


def test_gradient_of_an_embedding() -> None:
    i = RNG.integers(0, 50, (8, 40))

    def loss(table: Any) -> Any:
        return ops.sum(ops.sin(ops.embedding(i, table)))

    check(lambda t: phix.grad(loss)(t), floats(50, 12), tolerance=1e-4)


# -- sizes at run time -------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_one_program_for_all_sizes(rows: int) -> None:
    spec = [phix.spec(["n", 40], "float32")]
    check(lambda x: ops.softmax(x), floats(rows, 40), specs=spec)
    check(lambda x: x - ops.sum(x), floats(rows, 40), specs=spec, tolerance=1e-3)
    check(lambda x: ops.sum(x, 0), floats(rows, 40), specs=spec, tolerance=1e-3)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_scatters_of_unknown_sizes(count: int) -> None:
    specs = [phix.spec(["n", 5]), phix.spec(["m"], "int64"), phix.spec(["m", 5])]
    check(lambda x, i, u: ops.scatter(x, i, u, False), *writes(count), specs=specs, tolerance=1e-4)


def test_inputs_with_strides() -> None:
    x, y = floats(6, 8)[::2, ::-1], floats(8, 3).T
    graph = phix.jit(lambda x, y: ops.softmax(x + y)).lower(x, y).graph
    (found,) = program(graph, contiguous=False).launcher(shapes([x, y]))(x, y)
    np.testing.assert_allclose(found, np.asarray(ops.softmax(x + y)), rtol=1e-5)


# -- products ----------------------------------------------------------------------------------
def batches(made: GpuProgram, *arrays: np.ndarray) -> list[Any]:
    """The calls that a program makes of the library of products."""
    runtime = Emulator()
    again = program(made.graph, lambda: runtime)
    again.launcher(shapes(arrays))(*arrays)
    return runtime.products


@pytest.fixture
def by_library() -> Iterator[None]:
    """Products of narrow matrices are the library's too."""
    with rewrites.without(frozenset({"small_products"})):
        yield


def test_a_large_batch_of_products_is_cut_where_a_grid_ends(by_library: None) -> None:
    x, y = RNG.standard_normal((70000, 3, 2)), RNG.standard_normal((70000, 2, 1))
    calls = batches(check(lambda x, y: x @ ops.concat([y] * 4, 2), x, y), x, y)
    assert [c.count for c in calls] == [65535, 70000 - 65535]
    assert calls[1].addresses[0] - calls[0].addresses[0] == 65535 * 3 * 2 * 8


def test_products_of_no_columns_by_no_rows_are_zero(by_library: None) -> None:
    x, y = np.ones((20, 0)), np.ones((0, 30))
    (call,) = batches(check(lambda x, y: x @ y, x, y), x, y)
    assert len(set(call.addresses)) == 1, "no address of what has no memory"


def test_a_batch_of_products_is_one_call(by_library: None) -> None:
    x, y = floats(3, 4, 20, 30), floats(3, 4, 30, 25)
    (call,) = batches(check(lambda x, y: x @ y, x, y, tolerance=1e-4), x, y)
    assert (call.count, call.sizes) == (12, (20, 25, 30))
    x, y = floats(3, 20, 30), floats(5, 1, 30, 25)
    calls = batches(check(lambda x, y: x @ y, x, y, tolerance=1e-4), x, y)
    assert [c.count for c in calls] in ([3] * 5, [5] * 3)


def test_products_of_16_bits_stay_16_bits() -> None:
    x = np.asarray(phix.to_tensor(floats(20, 30), "bfloat16"))
    made = check(lambda x: ops.matmul(x, x, False, True), x, tolerance=0.2)
    (product,) = (s for s in made.loops.steps if isinstance(s, Product))
    assert product.dtype == x.dtype


# -- control flow and memory -------------------------------------------------------------------
def test_loops_and_branches_of_steps() -> None:
    x = floats(50)
    check(lambda x: phix.scan(lambda c, r: (c * 0.5 + r, c), ops.sum(x) * 0, x)[1], x)
    check(lambda x: phix.while_loop(lambda v: ops.sum(v) < 100.0, lambda v: v + 1.0, ops.abs(x)), x)
    check(lambda x: phix.cond(ops.sum(x) > 0, ops.sin, ops.cos, x), x)


def test_a_program_is_recorded_when_its_memory_comes_again() -> None:
    class Recorder(Emulator):
        recorded_times = 0

        def recorded(self, run: Any) -> Any:
            Recorder.recorded_times += 1
            return run

    x = floats(100)
    launch = program(phix.jit(lambda x: ops.sin(x) * 2).lower(x).graph, Recorder).launcher(
        ((100,),)
    )
    memory = np.empty(100, np.float32)
    runtime = launch.__self__.runtime  # type: ignore[attr-defined]
    runtime.empty = lambda shape, dtype: memory
    for _ in range(5):
        np.testing.assert_allclose(launch(x)[0], np.sin(x) * 2, rtol=1e-6)
    assert Recorder.recorded_times == 1


def test_without_a_driver_running_says_what_is_missing() -> None:
    if device.DEVICE.count():
        pytest.skip("there is a GPU")
    x = floats(3)
    made = engine("gpu").compile(phix.jit(lambda x: x + 1).lower(x).graph, (True,))
    assert "__global__" in made.sections["cuda"]
    with pytest.raises(DeviceError, match=r"gpu:0.*(CuPy|driver)"):
        made.launcher(((3,),))


def test_explanation_counts_what_the_program_holds() -> None:
    x = floats(400, 256)
    graph = phix.jit(lambda x: ops.softmax(x @ x.T) @ x).lower(x).graph
    explained = engine("gpu").explain(graph, (True,))
    found = explained.memory({})
    assert (found.argument_size_in_bytes, found.output_size_in_bytes) == (x.nbytes, x.nbytes)
    launch = program(graph).launcher(shapes([x]))
    assert found.temp_size_in_bytes == launch.__self__.block_size  # type: ignore[attr-defined]
    assert len(explained.report.kernels) == 3


@pytest.mark.parametrize("exclusive", [False, True])
def test_rows_are_scanned_by_blocks(exclusive: bool) -> None:
    x = RNG.integers(-9, 9, (40, 700))
    made = check(lambda a: ops.cumsum(a, 1, exclusive=exclusive, reverse=exclusive), x)
    assert teams(made) == ["block"]
    assert "phix_scan" in made.sections["cuda"]


@pytest.mark.prove
def test_a_long_scan_is_done_in_parts() -> None:
    x = RNG.integers(-9, 9, 100_000)
    made = check(lambda a: ops.cumsum(a, 0), x)
    assert teams(made) == ["block"] * 3
    check(lambda a: ops.cumsum(a, 0), x[:777], specs=[phix.spec(["n"], "int64")])
    y = floats(70_000)
    check(lambda a: ops.cumsum(a, 0, exclusive=True, reverse=True), y, tolerance=2e-3)
