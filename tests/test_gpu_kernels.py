"""The GPU engine without a GPU: its CUDA C++ goes through NVRTC, and runs on the CPU.

``cuda_emulator`` compiles the text of the kernels as C++ and runs them block by block, barriers
and shuffles included, so that whole programs are checked against the CPU engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import cuda_emulator
import phix
from cuda_emulator import Collector, Emulator
from harness.cases import Call, Case, table_cases
from harness.checks import assert_close
from phix.core.engines import engine
from phix.core.errors import DeviceError
from phix.core.graph import Graph
from phix.kernels.gpu import nvrtc
from phix.kernels.gpu.program import GpuProgram

ARCHITECTURE = 90
# Kernels of one NVRTC program: enough to make its start cheap, few enough to name a culprit.
_AT_ONCE = 200

CASES = {c.op.name: c for c in table_cases() if "elsewhere" not in c.test}
needs_compiler = pytest.mark.skipif(
    cuda_emulator.COMPILER is None, reason="no g++ to compile kernels for the CPU with"
)
pytestmark = pytest.mark.xdist_group("gpu kernels")


def program(graph: Graph, runtime: Callable[[], Any] = Emulator) -> GpuProgram:
    """A graph compiled by the GPU engine for a device of the tests."""
    return GpuProgram(graph, (True,) * len(graph.inputs), runtime)


def primitives(call: Call) -> Graph:
    """The graph of primitives that a sample is compiled as."""
    return phix.jit(call.fn).lower(*call.arrays).graph


def shapes(arrays: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(a.shape for a in arrays)


@cache
def table_graphs() -> dict[str, list[tuple[Call, Graph]]]:
    """The samples of every op, with their graphs."""
    return {
        name: [(call, primitives(call)) for call in case.calls()] for name, case in CASES.items()
    }


@cache
def table_sources() -> list[str]:
    """The modules of every sample."""
    collector = Collector()
    for graphs in table_graphs().values():
        for call, graph in graphs:
            program(graph, lambda: collector).launcher(shapes(call.arrays))
    return collector.sources


def compile_all(sources: list[str]) -> None:
    """Every distinct kernel of modules, through NVRTC, many at once."""
    try:
        nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    for module in cuda_emulator.merged(sources, _AT_ONCE):
        assert nvrtc.compiled(module, ARCHITECTURE)[:4] == b"\x7fELF"


def test_every_kernel_of_the_table_compiles_for_the_gpu() -> None:
    compile_all(table_sources())


@needs_compiler
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kernels_compute_what_the_cpu_engine_does(case: Case) -> None:
    cuda_emulator.prepare(table_sources())
    for call, graph in table_graphs()[case.op.name]:
        arrays = [np.asarray(a, order="C") for a in call.arrays]
        launch = program(graph).launcher(shapes(arrays))
        native = engine("cpu").compile(graph, (True,) * len(arrays)).launcher(shapes(arrays))
        wanted = native(*arrays)
        for _ in range(3):  # as it comes, recorded, replayed
            found = launch(*arrays)
            assert [f.dtype for f in found] == [w.dtype for w in wanted], call
            assert_close(found, wanted, case.tolerance(*(w.dtype for w in wanted)))
