"""Steps between the ranks of a mesh, which have a place in the order of the program: calls in
native code (``rank_calls.py``), or host steps.

``begin`` starts one without waiting for it, where that is worth it: see schedule/overlap.py.

An engine whose place has a library for them gets them in the form that such libraries have: whole
memory, one row a rank in front, in a dtype that they add. What changes axes and dtypes is loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.kernel_registry import provides
from phix.core.meta import MetaTensor
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.calls import RANK_STEP
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering import rank_calls
from phix.kernels.lowering.rank_calls import axes_moved
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import reindexed, transpose
from phix.kernels.scalar import bodies
from phix.kernels.scalar import language as sc

provides("rank_step", "NUMPY", dt.ALL)

# Sums of halves are rounded once; ints of 16 bits, which libraries do not add, wrap as they did.
_ADDED_AS = {
    dt.float16: dt.float32, dt.bfloat16: dt.float32, dt.int16: dt.int32, dt.uint16: dt.uint32,
}  # fmt: skip
# kind -> its detail where the rows are in front
_ROWS_IN_FRONT = {"gather": (0,), "rows": (0,), "scatter": (0,), "exchange": (0, 0)}


@lowering("rank_step", "whole")
def rank_step(
    b: Builder, x: Value, counts: Value | None, group: Any, kind: str, detail: Any, *, task: Task
) -> Value:
    if counts is not None:
        return _ragged(b, x, counts, group, detail, task)
    if b.target.ranks_by_rows:
        return _by_rows(b, x, group, kind, detail, task)
    port = rank_calls.port_for(b, x, group, kind)
    if port is not None:
        return rank_calls.by_calls(b, x, group, port, kind, detail, task)
    return _step(b, x, group, kind, detail, task.out, task)


def _step(
    b: Builder, x: Value, group: Any, kind: str, detail: Any, out: MetaTensor, task: Task
) -> Value:
    def run(given: np.ndarray, to: np.ndarray) -> None:
        group.run(kind, detail, given, to, task.source)

    def begin(given: np.ndarray, to: np.ndarray) -> Any:
        return group.begin(kind, detail, given, to, task.source)

    size = dm.product(x.dims)
    overlaps = dm.is_known(size) and group.overlaps(kind, int(size) * x.dtype.itemsize)

    def write(to: Buffer) -> None:
        attrs = {"group": group, "kind": kind, "detail": tuple(detail), "source": task.source,
                 "begin": begin if overlaps else None}  # fmt: skip
        b.host(RANK_STEP, run, (x,), (to,), **attrs)

    return b.written((out,), write)[0]


def _ragged(b: Builder, x: Value, counts: Value, group: Any, detail: Any, task: Task) -> Value:
    def run(given: np.ndarray, counts: np.ndarray, to: np.ndarray) -> None:
        group.run("ragged", counts, given, to, task.source)

    def write(to: Buffer) -> None:
        attrs = {"group": group, "kind": "ragged", "detail": tuple(detail), "source": task.source,
                 "begin": None}  # fmt: skip
        b.host(RANK_STEP, run, (x, counts), (to,), **attrs)

    return b.written((task.out,), write)[0]


def _by_rows(b: Builder, x: Value, group: Any, kind: str, detail: Any, task: Task) -> Value:
    if kind == "index":
        return b.constant(group.index, task.out.dims, task.out.dtype)
    if kind == "own":
        axis, own = detail[0], sc.const(group.index, dt.int64)
        return reindexed(b, x, lambda idx: (*idx[:axis], own, *idx[axis:]), task.out.dims)
    wide = _ADDED_AS.get(x.dtype, x.dtype) if kind in ("sum", "scatter") else x.dtype
    if kind in ("scatter", "exchange"):
        x = transpose(b, x, axes_moved(detail[0], 0, len(x.dims)))
    given = _cast(b, x, wide)
    rows = _ROWS_IN_FRONT.get(kind, detail)
    made = MetaTensor(group.shape(kind, rows, given.dims), wide)
    out = _step(b, given, group, kind, rows, made, task)
    if kind in ("gather", "rows", "exchange"):
        out = transpose(b, out, axes_moved(0, detail[-1], len(made.dims)))
    return _cast(b, out, task.out.dtype)


def _cast(b: Builder, x: Value, dtype: np.dtype) -> Value:
    if x.dtype == dtype:
        return x
    cast = bodies.get("cast")
    flat = (lambda i: cast(b.flat_element(x, i), dtype)) if x.is_flat else None
    return Value(x.dims, dtype, lambda idx: cast(b.element(x, idx), dtype), flat, x.cost + 1)
