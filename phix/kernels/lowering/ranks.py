"""Steps between the ranks of a mesh: host steps, which have a place in the order of the program.

``begin`` starts one without waiting for it, where that is worth it: see schedule/overlap.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.kernel_registry import provides
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.registry import Task, lowering

provides("rank_step", "NUMPY", dt.ALL)


@lowering("rank_step", "whole")
def rank_step(b: Builder, x: Value, group: Any, kind: str, detail: Any, *, task: Task) -> Value:
    def run(given: np.ndarray, out: np.ndarray) -> None:
        group.run(kind, detail, given, out, task.source)

    def begin(given: np.ndarray, out: np.ndarray) -> Any:
        return group.begin(kind, detail, given, out, task.source)

    size = dm.product(x.dims)
    overlaps = dm.is_known(size) and group.overlaps(kind, int(size) * x.dtype.itemsize)

    def write(out: Buffer) -> None:
        b.host("rank_step", run, (x,), (out,), begin=begin if overlaps else None)

    return b.written(task.metas, write)[0]
