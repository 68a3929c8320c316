"""The GPU engine: prints the loop IR as CUDA C++, compiles it with NVRTC, runs it through CuPy.

Compiling needs neither CuPy nor a driver; running needs both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.graph import Graph
from phix.core.kernel_registry import provides
from phix.kernels.gpu import cudnn, device, views
from phix.kernels.gpu.device import DEVICE as DEVICE
from phix.kernels.gpu.explanation import GpuExplanation
from phix.kernels.gpu.program import GpuProgram
from phix.kernels.lowering.registry import has_lowering
from phix.kernels.scalar import bodies

# Composites that this engine has whole.
for _name in ("attention", "attention_grad"):
    provides(_name, "GPU", (dt.float16, dt.bfloat16, dt.float32, dt.float64))


for _name in ("cholesky", "lu", "lu_solve", "triangular_solve"):
    provides(_name, "GPUSOLVER", (dt.float32, dt.float64, dt.complex64, dt.complex128))

provides("fft_r2c", "GPUFFT", (dt.float32, dt.float64))
for _name in ("fft_c2c", "fft_c2r"):
    provides(_name, "GPUFFT", (dt.complex64, dt.complex128))

cudnn.register()


class GpuEngine:
    """Compiles graphs of primitives to CUDA kernels, cached on disk."""

    name = "gpu"
    backends = ("GPUDNN", "GPU")
    flattens = True

    def compile(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Callable[[], Graph] | None = None,
        place: Any = None,
    ) -> GpuProgram:
        """See :class:`phix.core.engines.Engine`; running the program asks for the device."""
        index = 0 if place is None else place.index
        primitives = lower() if lower is not None else graph
        return GpuProgram(primitives, contiguous, lambda: device.runtime(index))

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> GpuExplanation:
        """See :class:`phix.core.engines.Engine`."""
        return GpuExplanation(graph, contiguous)

    def supports(self, op_name: str, dtype: np.dtype) -> bool:
        """Whether the op has a lowering or a scalar body: they serve every dtype it claims."""
        has_body = op_name in bodies.names() and not bodies.is_native(op_name)
        return has_lowering(op_name) or has_body

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What makes an eager result that shares its input's memory; see ``views.py``."""
        return views.view(op_name, attrs)


ENGINE = GpuEngine()
