"""The GPU engine without a GPU: its CUDA C++ goes through NVRTC, and runs on the CPU.

``cuda_emulator`` compiles the text of the kernels as C++ and runs them block by block, barriers
and shuffles included, so that whole programs are checked against the CPU engine.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import cuda_emulator
import phix
from benchmarks.__main__ import load_rows
from benchmarks.harness import ROWS
from benchmarks.peers import Functional, leaves
from gpu_programs import (
    compile_all,
    needs_compiler,
    program,
    shapes,
    sources,
)
from harness.cases import Call, Case, table_cases
from harness.checks import assert_close
from phix import ops
from phix.core.engines import engine
from phix.core.graph import Graph

# One worker compiles the kernels of the whole table at once.
pytestmark = [pytest.mark.xdist_group("gpu kernels"), pytest.mark.unoptimised]

# Of factors whose signs are free, two libraries give two.
CASES = {c.op.name: c for c in table_cases() if not {"elsewhere", "values"} & {*c.test}}
# One op in so many runs in every run, the others where there is time to prove.
PARTS = 16
PART_OF = {name: number % PARTS for number, name in enumerate(CASES)}


def marked(part: int, *values: Any, id: str) -> Any:
    return pytest.param(*values, id=id, marks=[pytest.mark.prove if part else pytest.mark.slow])


each_part = pytest.mark.parametrize("part", [marked(p, p, id=str(p)) for p in range(PARTS)])


@cache
def table_graphs(part: int) -> dict[str, list[tuple[Call, Graph]]]:
    """The samples of a part of the ops, with the graphs of primitives they are compiled as."""
    return {
        name: [(call, phix.jit(call.fn).lower(*call.arrays).graph) for call in case.calls()]
        for name, case in CASES.items()
        if PART_OF[name] == part
    }


@cache
def table_sources(part: int) -> list[str]:
    """The modules of every sample of a part."""
    every = (pair for graphs in table_graphs(part).values() for pair in graphs)
    return [module for call, graph in every for module in sources(graph, call.arrays)]


@each_part
def test_every_kernel_of_the_table_compiles_for_the_gpu(part: int) -> None:
    compile_all(table_sources(part))


@each_part
def test_no_kernel_of_the_table_uses_atomics(part: int) -> None:
    for source in table_sources(part):
        assert not re.search(r"\batomic|__reduce_|\bred\.|\batom\.", source)


@pytest.mark.one_in(3)
@needs_compiler
@pytest.mark.parametrize("case", [marked(PART_OF[n], c, id=n) for n, c in CASES.items()])
def test_kernels_compute_what_the_cpu_engine_does(case: Case) -> None:
    part = PART_OF[case.op.name]
    cuda_emulator.prepare(table_sources(part))
    for call, graph in table_graphs(part)[case.op.name]:
        arrays = [np.asarray(a, order="C") for a in call.arrays]
        launch = program(graph).launcher(shapes(arrays))
        native = engine("cpu").compile(graph, (True,) * len(arrays)).launcher(shapes(arrays))
        wanted = native(*arrays)
        for _ in range(3):  # as it comes, recorded, replayed
            found = launch(*arrays)
            assert [f.dtype for f in found] == [w.dtype for w in wanted], call
            assert_close(found, wanted, case.tolerance(*(w.dtype for w in wanted)))


# -- whole graphs ----------------------------------------------------------------------------
BENCHMARKS = (
    "mlp 784-512-512-10, batch 32: train step",
    "beam 1-20-20-20-1, 1000 points: loss and gradient",
    "gpt block, 4 x 128 x 256, 4 heads: with gradient",
    "resnet block, 32 x 64 x 16 x 16: with gradient",
    "log_softmax and nll with gradient, 4096 x 1024",
)


@cache
def benchmark(name: str) -> tuple[Graph, list[np.ndarray]]:
    """The graph of primitives of a benchmark, and its arrays."""
    load_rows()
    case, library = ROWS[name].build(), Functional("phix")
    function = library.wrapped(case.functions["phix"], case.mode)
    arrays = [np.asarray(leaf) for leaf in leaves(case.args)]
    return phix.jit(function).lower(*case.args).graph, arrays


@pytest.mark.parametrize("name", BENCHMARKS)
def test_kernels_of_benchmarks_compile_for_the_gpu(name: str) -> None:
    graph, arrays = benchmark(name)
    compile_all(sources(graph, arrays))


@needs_compiler
@pytest.mark.parametrize("name", BENCHMARKS[:3])
def test_benchmarks_compute_what_the_cpu_engine_does(name: str) -> None:
    graph, arrays = benchmark(name)
    found = program(graph).launcher(shapes(arrays))(*arrays)
    native = engine("cpu").compile(graph, (True,) * len(arrays)).launcher(shapes(arrays))
    for f, w in zip(found, native(*arrays)):
        np.testing.assert_allclose(f, w, rtol=0, atol=2e-4 * max(np.abs(w).max(), 1e-3))


LARGE: dict[str, tuple[Any, list[tuple[list[Any], str]]]] = {
    "scan": (lambda a: ops.cumsum(a, 0), [([100_000], "float32")]),
    "scan of unknown size": (lambda a: ops.cumsum(a, 0), [(["n"], "float32")]),
    "sum": (lambda a: a / ops.sum(a), [([300_000], "bfloat16")]),
    "extremes of unknown sizes": (lambda a: a - ops.max(a, 0), [(["n", "m"], "float16")]),
    "scatter": (
        lambda x, i, u: ops.scatter(x, i, u, False),
        [([7, 5], "float64"), (["m"], "int64"), (["m", 5], "float64")],
    ),
    "softmax": (lambda a: ops.softmax(a), [(["n", 4096], "bfloat16")]),
}


@pytest.mark.parametrize("name", LARGE)
def test_kernels_of_large_and_unknown_sizes_compile_for_the_gpu(name: str) -> None:
    function, inputs = LARGE[name]
    specs = [phix.spec(dims, dtype) for dims, dtype in inputs]
    sizes = [[500 if isinstance(d, str) else d for d in dims] for dims, _ in inputs]
    graph = phix.jit(function).lower(*specs).graph
    compile_all(sources(graph, [np.empty(s) for s in sizes]))
