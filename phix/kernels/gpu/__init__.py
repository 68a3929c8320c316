"""The GPU engine: prints the loop IR as CUDA C++, compiles it with NVRTC, runs it through CuPy.

Compiling needs neither CuPy nor a driver; running needs both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import dtypes as dt
from phix.core.graph import Graph
from phix.core.kernel_registry import provides
from phix.core.places import Place
from phix.kernels.engine_base import EngineOfPrimitives, LoopEngine
from phix.kernels.gpu import cudnn, cudnn_attention, device, views
from phix.kernels.gpu.device import DEVICE as DEVICE
from phix.kernels.gpu.explanation import GpuExplanation
from phix.kernels.gpu.program import GpuProgram

# Composites that this engine has whole.
for _name in ("attention", "attention_grad"):
    provides(_name, "GPU", (dt.float16, dt.bfloat16, dt.float32, dt.float64))


for _name in ("cholesky", "eigh", "lu", "lu_solve", "qr", "svd", "triangular_solve"):
    provides(_name, "GPUSOLVER", (dt.float32, dt.float64, dt.complex64, dt.complex128))

provides("fft_r2c", "GPUFFT", (dt.float32, dt.float64))
for _name in ("fft_c2c", "fft_c2r"):
    provides(_name, "GPUFFT", (dt.complex64, dt.complex128))

cudnn.register()
cudnn_attention.register()


class GpuEngine(EngineOfPrimitives, LoopEngine):
    """Compiles graphs of primitives to CUDA kernels, cached on disk."""

    name = "gpu"
    backends = ("GPUDNN", "GPU")

    def program(
        self, graph: Graph, contiguous: tuple[bool, ...], place: Place | None
    ) -> GpuProgram:
        """A program that asks for the device when it runs."""
        index = 0 if place is None else place.index
        return GpuProgram(graph, contiguous, lambda: device.runtime(index))

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> GpuExplanation:
        """See :class:`phix.core.engines.Engine`."""
        return GpuExplanation(graph, contiguous)

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What makes an eager result that shares its input's memory; see ``views.py``."""
        return views.view(op_name, attrs)


ENGINE = GpuEngine()
