"""Lowerings of host functions inside programs, and of what leaves values as they are: barriers, and
copies to where the program runs anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.kernel_registry import provides
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.registry import Task, lowering

for _name in ("pure_callback", "debug_callback"):
    provides(_name, "NUMPY", dt.ALL)


@lowering("optimization_barrier", "pointwise")
def optimization_barrier(b: Builder, x: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(x)


@lowering("io_copy", "pointwise")
def io_copy(b: Builder, x: Value, place: Any) -> Value:
    return x


@lowering("io_copy_like", "pointwise")
def io_copy_like(b: Builder, x: Value, like: Value) -> Value:
    return x


@lowering("pure_callback", "whole")
def pure_callback(
    b: Builder, operands: Sequence[Value], function: Any, *attrs: Any, task: Task
) -> tuple[Value, ...]:
    count = len(operands)

    def run(*arrays: np.ndarray) -> None:
        found = function([a.copy() for a in arrays[:count]], [a.shape for a in arrays[count:]])
        for out, value in zip(arrays[count:], found):
            out[...] = value

    def write(*out: Buffer) -> None:
        b.host("pure_callback", run, operands, out)

    return b.written(task.metas, write)


@lowering("debug_callback", "whole")
def debug_callback(b: Builder, operands: Sequence[Value], function: Any, *, task: Task) -> Value:
    """The output, a zero, gives the step its place in the order of the program."""

    def run(*arrays: np.ndarray) -> None:
        function([a.copy() for a in arrays[:-1]])
        arrays[-1][...] = 0

    def write(out: Buffer) -> None:
        b.host("debug_callback", run, operands, (out,))

    return b.written(task.metas, write)[0]
