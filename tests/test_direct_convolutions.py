"""Convolutions along lines: machine code for every width of vectors, and which ones are made so."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import phix
from harness.references.windows import conv2d
from phix import ops
from phix.kernels.cpu import direct_convolutions, jit
from phix.kernels.cpu.advice import METADATA
from phix.kernels.cpu.direct_convolutions import Sizes
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.evaluator import evaluate
from phix.kernels.loops.target import CPU
from phix.kernels.schedule.pipeline import lowered, run

pytestmark = pytest.mark.unoptimised(4)

TOLERANCES = {"float32": 1e-5, "float64": 1e-13}
# bytes of a vector register, and how many registers: AVX-512, AVX2, SSE and Neon
MACHINES = [(64, 32), (32, 16), (16, 16), (16, 32)]
# filters, channels, taps, places, and how many elements of a row are no places
SHAPES = [
    (1, 1, (2, 2), (12, 11), 1),
    (8, 3, (5, 5), (9, 28), 4),
    (13, 2, (1, 3), (7, 16), 2),
    (7, 4, (3, 2), (10, 8), 5),
    (29, 1, (4, 7), (6, 33), 6),
]


def sizes_of(filters: int, channels: int, taps: Any, places: Any, beside: int) -> Sizes:
    height = places[0] + taps[0]  # a row more than it takes
    return Sizes(filters, *places, channels, *taps, height, places[1] + beside)


@cache
def native(dtype: str, machine: tuple[int, int]) -> list[Any]:
    """The functions of all shapes, in one module."""
    every = [sizes_of(*shape) for shape in SHAPES]
    names = tuple(
        f"test_lines_{dtype}_{'_'.join(map(str, machine))}.{k}" for k in range(len(every))
    )
    texts = [direct_convolutions.text(n, dtype, s, *machine) for n, s in zip(names, every)]
    declared = sorted({line for _, needs in texts for line in needs.splitlines()})
    functions = [body.replace("define internal", "define") for body, _ in texts]
    attributes = f"attributes #0 = {{ noinline {jit.function_attributes()} }}"
    found = jit.addresses("\n".join([*functions, *declared, attributes, *METADATA]), names)
    return [ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(at) for at in found]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_every_place_is_made_and_nothing_beside(dtype: str, machine: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for function, shape in zip(native(dtype, machine), SHAPES):
        sizes = sizes_of(*shape)
        line = rng.standard_normal((sizes.channels, sizes.height * sizes.pitch)).astype(dtype)
        weights = rng.standard_normal((sizes.filters, sizes.channels, sizes.kh, sizes.kw))
        weights = weights.astype(dtype)
        out = np.full((sizes.filters + 2, sizes.rows, sizes.columns), 7, dtype)
        function(*(a.ctypes.data for a in (line, weights, out[1:])))
        expected = np.zeros(out[1:-1].shape)
        for y, x, ky, kx in np.ndindex(sizes.rows, sizes.columns, sizes.kh, sizes.kw):
            under = line[:, (y + ky) * sizes.pitch + x + kx].astype(float)
            expected[:, y, x] += weights[:, :, ky, kx].astype(float) @ under
        most = 1 + np.abs(expected).max()
        np.testing.assert_allclose(out[1:-1], expected, 0, TOLERANCES[dtype] * most)
        assert (out[[0, -1]] == 7).all(), f"{sizes}: written beside the result"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_sums_of_a_tile_fit_into_registers(machine: tuple[int, int]) -> None:
    for filters, places in ((1, (9, 12)), (8, (28, 28)), (33, (14, 14)), (64, (112, 112))):
        sizes = sizes_of(filters, 3, (5, 5), places, 2)
        for size in (4, 8):
            rows, vectors = direct_convolutions.tiling(sizes, machine[0] // size, machine[1])
            assert 0 < rows <= filters and (rows + 1) * vectors < machine[1]
            assert vectors * machine[0] // size <= sizes.line


# -- which convolutions --------------------------------------------------------------------------
def text_of(x: Any, w: Any, options: Any = None, **attrs: Any) -> str:
    function = phix.jit(lambda x, w: ops.conv2d(x, w, **attrs), **options or {})
    return str(function.lower(phix.spec(x), phix.spec(w)).sections["llvm"])


def test_which_convolutions_are_direct() -> None:
    lines = "@convolution_float32.lines."
    some = (2, 3, 20, 18), (6, 3, 5, 5)
    assert f"{lines}6.20.18.3.5.5.25.20" in text_of(*some, paddings=(2, 2))
    assert f"{lines}6.20.18.3.5.5.25.21" in text_of(*some, paddings=(2, 2, 1, 3))
    assert lines in text_of((-1, 3, 20, 18), (6, 3, 5, 5))  # for any number of images
    assert lines in text_of((2, 6, 20, 18), (12, 3, 5, 5), groups=2)
    assert lines not in text_of(*some, {"disable": "direct_convolutions"})
    assert lines not in text_of(*some, strides=(2, 2))
    assert lines not in text_of(*some, dilations=(2, 1))
    assert lines not in text_of((2, 3, -1, 18), (6, 3, 5, 5))
    assert lines not in text_of((2, 48, 20, 18), (6, 48, 5, 5))  # long sums
    assert lines not in text_of((2, 3, 6, 6), (6, 3, 3, 3))  # small images


# -- what they compute ---------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(12))
def test_convolutions_drawn_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, each = (int(n) for n in rng.integers(1, 3, 2))
    kernel, pads = rng.integers(2, 7, 2), tuple(int(p) for p in rng.integers(0, 6, 4))
    n, per_group, h, w = (int(v) for v in rng.integers((1, 1, 9, 9), (6, 8, 24, 40)))
    dims = (n, groups * per_group, h, w)
    filter_dims = (groups * each * int(rng.choice([5, 8, 16])), per_group, *map(int, kernel))
    attrs = {"paddings": pads, "groups": groups}
    x, v = rng.standard_normal(dims), rng.standard_normal(filter_dims)
    expected = conv2d(x, v, **attrs)
    f = phix.jit(lambda x, v: ops.conv2d(x, v, **attrs))
    batch = phix.jit(f.function, input_spec=[phix.spec(["n", *dims[1:]]), phix.spec(filter_dims)])
    assert "lines" in str(f.lower(x, v).sections["llvm"])
    np.testing.assert_allclose(f(x, v), expected, rtol=1e-11, atol=1e-11)
    single = x.astype("f"), v.astype("f")
    found = np.asarray(f(*single))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    # an image has the same bits alone, among others, and in pieces that threads take
    alone = np.asarray(f(single[0][:1].copy(), single[1]))
    assert alone.tobytes() == found[:1].tobytes()
    assert np.asarray(batch(*single)).tobytes() == found.tobytes()
    with phix.debug.settings(least_shared_work=1, shared_run=1, shared_run_inside=1):
        assert np.asarray(phix.jit(f.function)(*single)).tobytes() == found.tobytes()


def test_what_is_no_number_reaches_the_windows_that_hold_it_alone() -> None:
    x = np.ones((2, 3, 14, 15))
    for value, at in ((np.nan, (0, 1, 4, 14)), (np.inf, (1, 0, 13, 0)), (-np.inf, (1, 2, 0, 14))):
        x[at] = value
    w = np.random.default_rng(0).standard_normal((8, 3, 5, 5))
    found = phix.jit(lambda x, w: ops.conv2d(x, w, paddings=(2, 2)))(x, w)
    expected = conv2d(x, w, paddings=(2, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    assert np.isnan(expected).any() and np.isfinite(expected).any()


def test_the_gradients_of_a_convolution_and_a_pool() -> None:
    """Both are linear or nearly so: differences of float64 say what they are."""
    rng = np.random.default_rng(0)
    x, w, g = (rng.standard_normal(s) for s in ((3, 2, 14, 16), (6, 2, 5, 5), (3, 6, 14, 16)))

    def loss(x: Any, w: Any) -> Any:
        return (ops.tanh(ops.conv2d(x, w, paddings=(2, 2)) * 0.1) * g).sum()

    slopes = phix.jit(phix.grad(loss, argnums=(0, 1)))(x, w)
    for k, (slope, size) in enumerate(zip(slopes, (x.shape, w.shape))):
        step = rng.standard_normal(size)
        ends = [loss(*((x + s * step, w) if k == 0 else (x, w + s * step))) for s in (1e-5, -1e-5)]
        wanted = (float(ends[0]) - float(ends[1])) / 2e-5
        np.testing.assert_allclose(np.vdot(slope, step), wanted, rtol=1e-6)


class _Along(Builder):
    target = replace(CPU, convolves_along_lines=True)


def test_the_evaluator_gives_the_call_its_meaning() -> None:
    x, w = phix.spec((1, 2, 10, 12), "float64"), phix.spec((5, 2, 4, 4), "float64")
    graph = phix.make_graph(lambda x, w: ops.conv2d(x, w, paddings=(1, 2, 3, 0)))(x, w)
    program, setting = lowered(graph, (True, True), _Along)
    kernels = [k for k in program.steps if isinstance(k, ir.Kernel)]
    assert any(isinstance(s, ir.LibraryCall) for k in kernels for s in ir.walk(k.body))
    run("cpu", program, setting)
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(x.dims), rng.standard_normal(w.dims)
    (found,) = evaluate(program, [a, b])
    np.testing.assert_allclose(found, conv2d(a, b, paddings=(1, 2, 3, 0)), rtol=1e-11, atol=1e-12)
