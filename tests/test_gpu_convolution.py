"""Convolutions of the GPU as implicit matrix products: through NVRTC, and run on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from gpu_programs import compile_all, needs_compiler, program, shapes, sources
from harness.references.windows import conv2d as reference
from phix import ops
from phix.core.graph import Graph
from phix.kernels.gpu.convolution import Convolution, parts
from phix.kernels.gpu.products import Product

RNG = np.random.default_rng(0)
pytestmark = [pytest.mark.xdist_group("gpu convolution"), pytest.mark.unoptimised]

# images, filters, strides, paddings, dilations, groups
CASES = {
    "plain": ((2, 4, 9, 8), (6, 4, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    "everything": ((2, 6, 11, 10), (20, 3, 3, 2), (2, 1), (1, 0, 2, 1), (1, 2), 2),
    "more than a tile": ((3, 5, 13, 12), (70, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "many taps": ((1, 40, 5, 5), (9, 40, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    "stride over the image": ((2, 6, 6, 7), (8, 6, 2, 2), (3, 5), (0, 0), (1, 1), 1),
    "wide padding": ((1, 7, 3, 3), (5, 7, 2, 2), (1, 1), (4, 3), (1, 1), 1),
}
TOLERANCES = {"float16": 3e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}


def operands(case: str, dtype: str = "float64") -> list[np.ndarray]:
    return [np.array(phix.to_tensor(RNG.standard_normal(d), dtype)) for d in CASES[case][:2]]


def convolve(case: str) -> Any:
    strides, paddings, dilations, groups = CASES[case][2:]
    return lambda x, w: ops.conv2d(x, w, strides, paddings, "EXPLICIT", dilations, groups)


def with_gradients(function: Any) -> Any:
    def both(x: Any, w: Any) -> Any:
        out, pull = phix.vjp(function, x, w)
        return (out, *pull(ops.sin(out)))

    return both


def graph(function: Any, *like: Any) -> Graph:
    return phix.jit(function).lower(*like).graph


def routines(made: Any) -> list[type]:
    return [type(s) for s in made.loops.steps if type(s) in (Convolution, Product)]


@pytest.mark.one_in(3)
@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("case", CASES)
def test_against_numpy(case: str, dtype: str) -> None:
    arrays = operands(case, dtype)
    made = program(graph(convolve(case), *arrays))
    (out,) = made.launcher(shapes(arrays))(*arrays)
    x, w = (a.astype(np.float64) for a in arrays)
    strides, paddings, dilations, groups = CASES[case][2:]
    wanted = reference(x, w, strides, paddings, dilations, groups, "NCHW")
    tolerance = TOLERANCES[dtype] * np.abs(wanted).max()
    assert out.dtype == arrays[0].dtype and routines(made) == [Convolution]
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=0, atol=tolerance)


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_convolutions_of_the_same_kernel(case: str) -> None:
    arrays = operands(case)
    function = with_gradients(convolve(case))
    made = program(graph(function, *arrays))
    # one tap of each remainder by the strides is a product
    others = {Product} if case == "stride over the image" else set()
    assert routines(made)[0] is Convolution and set(routines(made)) == {Convolution} | others
    found = made.launcher(shapes(arrays))(*arrays)
    for f, w in zip(found, phix.jit(function)(*arrays), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-10, atol=1e-10)


@needs_compiler
def test_sums_over_many_taps_are_cut_into_parts_that_are_added_in_order() -> None:
    x, w = RNG.standard_normal((4, 3, 20, 20)), RNG.standard_normal((8, 3, 3, 3))

    def to_filter(x: Any, w: Any) -> Any:
        ones = ops.full((4, 8, 20, 20), 1.0, "float64")
        return phix.vjp(lambda w: ops.conv2d(x, w, paddings=(1, 1)), w)[1](ones)

    made = program(graph(to_filter, x, w))
    (call,) = (s for s in made.loops.steps if isinstance(s, Convolution))
    assert call.numbers[Convolution.NAMES.index("PARTS")].data == parts(8, 27, 1600) == 6
    launch = made.launcher(shapes([x, w]))
    (found,) = launch(x, w)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    wanted = np.array([[[padded[:, c, i : i + 20, j : j + 20].sum() for j in range(3)]
                        for i in range(3)] for c in range(3)])  # fmt: skip
    np.testing.assert_allclose(found, np.broadcast_to(wanted, (8, 3, 3, 3)), rtol=1e-12)
    assert found.tobytes() == launch(x, w)[0].tobytes()


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((64, 9, 1 << 20), 264), ((64, 9, 511), 1), ((64, None, None), 1), ((64, 128, None), 64),
     ((64, 128 * 200, 1 << 20), 1), ((0, 5, 1 << 20), 1)],
)  # fmt: skip
def test_how_many_parts(sizes: Any, count: int) -> None:
    assert parts(*sizes) == count


@needs_compiler
def test_one_program_for_all_sizes() -> None:
    specs = [phix.spec(["n", 3, "h", "w"]), phix.spec([20, 3, 3, 3])]
    made = program(graph(with_gradients(convolve("more than a tile")), *specs))
    for n, h, w in [(1, 3, 3), (2, 9, 7), (0, 4, 4)]:
        arrays = [RNG.standard_normal(d).astype(np.float32) for d in ((n, 3, h, w), (20, 3, 3, 3))]
        found = made.launcher(shapes(arrays))(*arrays)
        wanted = with_gradients(convolve("more than a tile"))(*map(phix.Tensor, arrays))
        for f, e in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, e, rtol=2e-4, atol=2e-4)


@needs_compiler
def test_which_way_is_taken() -> None:
    def ways(x: Any, w: Any, dtype: str = "float16", **attrs: Any) -> list[type]:
        like = [phix.spec(x, dtype), phix.spec(w, dtype)]
        return routines(program(graph(lambda x, w: ops.conv2d(x, w, **attrs), *like)))

    assert ways([2, 8, 5, 5], [9, 8, 1, 1]) == [Product], "one tap: a product of the library"
    assert ways([2, 8, 5, 5], [9, 8, 1, 1], strides=(2, 2)) == [Convolution]
    assert ways([2, 8, 5, 5], [8, 1, 3, 3], groups=8) == [], "few taps of few filters: plain loops"
    assert ways([2, 32, 8, 8], [32, 32, 3, 3], "float32", paddings=(1, 1)) == [Convolution]
    assert Convolution not in ways([2, 8, 9, 9], [9, 8, 3, 3], "int32")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("case", ["plain", "everything"])
def test_it_compiles_for_the_gpu(case: str, dtype: str) -> None:
    arrays = operands(case, dtype)
    compile_all(sources(graph(with_gradients(convolve(case)), *arrays), arrays))


def test_it_compiles_for_the_gpu_with_unknown_sizes() -> None:
    specs = [phix.spec(["n", "c", "h", "w"], "bfloat16"), phix.spec(["o", "c", 3, 3], "bfloat16")]
    made = program(graph(lambda x, w: ops.conv2d(x, w, paddings=(1, 1)), *specs))
    compile_all([made.sections["cuda"]])
