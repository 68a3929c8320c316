"""Equations that a kernel from outside phix runs as native code, in the program's own.

Such a kernel (``kernels/numba/kernel.py``) says which routine an equation calls, on which arrays.
"""

from __future__ import annotations

from typing import Any

from phix.core import graph as gr
from phix.core.graph import Equation
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer, Pointer
from phix.kernels.lowering.registry import Task


def emit(b: Builder, equation: Equation, kernel: Any, inputs: Any, task: Task) -> tuple[Value, ...]:
    """The outputs of an equation, filled by one call."""
    given: list[Value] = gr.flat(inputs)
    routine, arrays, numbers = kernel.call_of(equation)

    def write(*out: Buffer) -> None:
        buffers = [*(b.contiguous(v) for v in given), *out]
        assert [m.dtype for m in arrays] == [x.dtype for x in buffers]
        pointers = [Pointer(x, ZERO) for x in buffers]
        with b.kernel():
            b.emit(ir.LibraryCall(routine.name, (*pointers, *map(b.dim, numbers)), out))

    return b.written(task.metas, write)
