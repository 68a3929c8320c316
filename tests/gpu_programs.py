"""Programs of the GPU engine for the tests: compiled for a device that the CPU plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cuda_emulator
import phix
from cuda_emulator import Collector, Emulator
from phix.core.errors import DeviceError
from phix.core.graph import Graph
from phix.interpreters.decompose import decompose
from phix.kernels.gpu import nvrtc
from phix.kernels.gpu.program import GpuProgram

ARCHITECTURE = 90
# Kernels of one NVRTC program: enough to make its start cheap, few enough to name a culprit.
_AT_ONCE = 200

needs_compiler = pytest.mark.skipif(
    cuda_emulator.COMPILER is None, reason="no g++ to compile kernels for the CPU with"
)


def program(
    graph: Graph, runtime: Callable[[], Any] = Emulator, contiguous: bool = True
) -> GpuProgram:
    """A graph compiled by the GPU engine for a device of the tests."""
    return GpuProgram(graph, (contiguous,) * len(graph.inputs), runtime)


def shapes(arrays: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(a.shape for a in arrays)


def sources(graph: Graph, arrays: Any) -> list[str]:
    """The modules that a program asks for where its inputs are like ``arrays``."""
    collector = Collector()
    program(graph, lambda: collector).launcher(shapes(arrays))
    return collector.sources


def kept(function: Callable[..., Any], *names: str, like: Any) -> Graph:
    """The graph of a function on tensors like these: primitives, and composites of these names."""
    graph = phix.make_graph(function)(*like)
    return decompose(graph, lambda op: op.name in names)


def compile_all(modules: list[str]) -> None:
    """Every distinct kernel of modules, through NVRTC, many at once."""
    try:
        nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    for module in cuda_emulator.merged(modules, _AT_ONCE):
        assert nvrtc.compiled(module, ARCHITECTURE)[:4] == b"\x7fELF"


def check(
    function: Callable[..., Any], *arrays: np.ndarray, specs: Any = None, tolerance: float = 1e-5
) -> GpuProgram:
    """The function gives on the emulated GPU what it gives on the CPU, three times."""
    made = program(phix.jit(function).lower(*(arrays if specs is None else specs)).graph)
    launch = made.launcher(shapes(arrays))
    wanted = phix.tree.leaves(phix.jit(function)(*arrays))
    for _ in range(3):  # as it comes, recorded, replayed
        found = launch(*arrays)
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted):
            np.testing.assert_allclose(f, np.asarray(w), rtol=tolerance, atol=tolerance)
    return made


def teams(made: GpuProgram) -> list[str]:
    """The team of each kernel of a program whose sizes are known."""
    return [launch.team({}) for launch in made.launches.values()]
