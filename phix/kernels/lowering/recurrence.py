"""Lowerings of scans that carry more than a sum: linear recurrences, running extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.reduction import as_dtype, parts, whole
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr


@lowering("linear_recurrence", "whole")
def linear_recurrence(
    b: Builder, a: Value, x: Value, axis: int, reverse: bool, *, task: Task
) -> Value:
    meta = task.out
    is_half = meta.dtype in (dt.float16, dt.bfloat16)
    wide = MetaTensor(x.dims, dt.float32 if is_half else meta.dtype)

    def write(out: Buffer) -> None:
        size = b.dim(x.dims[axis])
        with b.kernel(), b.loops(x.dims[:axis] + x.dims[axis + 1 :]) as rest:
            total = b.mutable(*parts(constant(0, out.dtype)))
            with b.loop(size, "reduction") as step:
                at = _at(rest, axis, size - 1 - step if reverse else step)
                factor: Any = as_dtype(b.element(a, at), out.dtype)
                term: Any = as_dtype(b.element(x, at), out.dtype)
                carried = whole(total) * factor
                kept = [sc.select(sc.eq(step, 0), 0, p) for p in parts(carried)]
                new = whole(tuple(kept)) + term
                b.emit(ir.Assign(total, parts(new)))
                b.store(out, at, whole(total))

    (stored,) = b.written((wide,), write)
    if not is_half:
        return stored
    result = Value(meta.dims, meta.dtype, cost=1)
    result.flat = lambda i: b.flat_element(stored, i)
    return result


def _running(op_name: str, wins: Callable[[Expr, Expr], Expr]) -> None:
    """The extreme element so far and where it stands, the last of equals; NaN wins and stays."""

    @lowering(op_name, "whole")
    def rule(b: Builder, x: Value, axis: int, dtype: Any, *, task: Task) -> tuple[Value, ...]:
        if not x.dims:
            return x, b.constant(0, task.metas[1].dims, task.metas[1].dtype)

        def write(out: Buffer, indices: Buffer) -> None:
            index_dtype = ir.scalar_dtype(task.metas[1].dtype)
            with b.kernel(), b.loops(x.dims[:axis] + x.dims[axis + 1 :]) as rest:
                first = constant(0, x.dtype)
                assert isinstance(first, Expr)
                best, where = b.mutable(first, ZERO)
                with b.loop(b.dim(x.dims[axis]), "reduction") as k:
                    at = _at(rest, axis, k)
                    new = b.element(x, at)
                    assert isinstance(new, Expr)
                    takes = wins(new, best) | sc.eq(k, 0)
                    if new.dtype.kind == "f":
                        takes = takes | sc.ne(new, new)
                    chosen = sc.select(takes, new, best), sc.select(takes, k, where)
                    b.emit(ir.Assign((best, where), chosen))
                    b.store(out, at, best)
                    b.store(indices, at, sc.cast(where, index_dtype))

        return b.written(task.metas, write)


_running("cummax", lambda new, best: new >= best)
_running("cummin", lambda new, best: new <= best)


def _at(rest: tuple[Expr, ...], axis: int, k: Expr) -> tuple[Expr, ...]:
    return (*rest[:axis], k, *rest[axis:])
