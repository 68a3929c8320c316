"""Lowering of attention where it is kept whole: one call, or products around a softmax in loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer, LibraryCall, Pointer
from phix.kernels.lowering.contraction import Matrix, multiply
from phix.kernels.lowering.lower import broadcast_indices
from phix.kernels.lowering.reduction import as_dtype, converted
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr


@lowering("attention", "whole")
def attention(
    b: Builder, query: Value, key: Value, value: Value, mask: Value | None, scale: float,
    causal: bool, *, task: Task,
) -> Value:  # fmt: skip
    meta = task.out
    call = AttentionCall(b, query, key, value, mask, float(scale), causal, meta)
    sizes = (query.dims[-1], value.dims[-1])
    if all(isinstance(d, int) and 0 < d <= b.target.attention_size for d in sizes):
        return b.written((meta,), call.by_library)[0]
    wide = MetaTensor(meta.dims, dt.float32 if meta.dtype.itemsize == 2 else meta.dtype)
    return converted(b, b.written((wide,), call.by_products)[0], meta.dtype)


class AttentionCall:
    """One attention, its operands seen as stacks of matrices over the batch of the result."""

    def __init__(
        self, b: Builder, query: Value, key: Value, value: Value, mask: Value | None, scale: float,
        causal: bool, meta: MetaTensor,
    ) -> None:  # fmt: skip
        self.b, self.mask, self.scale, self.causal = b, mask, scale, causal
        self.operands: tuple[Value, ...] = (query, key, value)
        self.batch, self.dims = meta.dims[:-2], meta.dims
        self.rows, self.keys = query.dims[-2], key.dims[-2]
        self.size, self.width = query.dims[-1], value.dims[-1]

    def at(self, dims: dm.Shape, batch: tuple[Expr, ...]) -> Expr:
        """Where the matrix of an operand of these dims lies."""
        own = broadcast_indices(self.b, dims[:-2], self.batch, batch)
        return self.b.linear((*own, ZERO, ZERO), dims)

    # -- by one call -------------------------------------------------------------------------
    def by_library(self, out: Buffer) -> None:
        self.call("attention", out.dtype, [(x, self.b.contiguous(x)) for x in self.operands],
                  [(self.dims, out)])  # fmt: skip

    def call(
        self, name: str, dtype: np.dtype, reads: list[tuple[Value, Buffer]],
        writes: list[tuple[dm.Shape, Buffer]], given: list[tuple[dm.Shape, Buffer]] | None = None,
    ) -> None:  # fmt: skip
        """A call for each matrix of the batch; ``given`` is what earlier calls have written."""
        b = self.b
        mask = None if self.mask is None else b.contiguous(self.mask)
        numbers: list[DimLike] = [self.rows, self.keys, self.size, self.width]
        with b.kernel(), b.loops(self.batch) as batch:
            places = [(v.dims, x) for v, x in reads] + (given or []) + writes
            pointers = [Pointer(x, self.at(dims, batch)) for dims, x in places]
            steps: tuple[Expr, ...] = (ZERO, ZERO)
            if self.mask is not None and mask is not None:
                dims = (*((1,) * (2 - len(self.mask.dims))), *self.mask.dims)
                steps = (self.step(dims[-2], b.dim(dims[-1])), self.step(dims[-1], ir.ONE))
                pointers.append(Pointer(mask, self.at(dims, batch)))
            how = (sc.const(self.scale, dt.float64), sc.const(self.causal, np.dtype(bool)))
            own: list[Pointer | Expr] = [b.dim(d) for d in numbers]
            made = tuple(x for _, x in writes)
            b.emit(LibraryCall(f"{name}_{dtype}", (*own, *steps, *how, *pointers), made))

    def step(self, dim: DimLike, own: Expr) -> Expr:
        """How far the mask goes on with the next row or column: not at all where it has one."""
        if dm.is_one(dim):
            return ZERO
        if isinstance(dim, int):
            return own
        return sc.select(sc.eq(self.b.dim(dim), 1), ZERO, own)

    # -- by products -------------------------------------------------------------------------
    def by_products(self, out: Buffer) -> None:
        b, dtype = self.b, out.dtype
        query, key, value = (b.contiguous(converted(b, v, dtype)) for v in self.operands)
        weights = self.weights(query, key)
        v = self.operands[2].dims
        rows, keys, width = map(b.dim, (self.rows, self.keys, self.width))
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(weights, self.at(weights.dims, batch), keys),
                Matrix(value, self.at(v, batch), width),
                Matrix(out, self.at(out.dims, batch), width), (rows, width, keys),
            )  # fmt: skip

    def weights(self, query: Buffer, key: Buffer) -> Buffer:
        """What each query gives to each key, in memory."""
        b, (q, k) = self.b, (x.dims for x in self.operands[:2])
        if self.mask is not None:
            b.contiguous(self.mask)
        scores = b.temp((*self.batch, self.rows, self.keys), query.dtype)
        rows, keys, size = map(b.dim, (self.rows, self.keys, self.size))
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(query, self.at(q, batch), size),
                Matrix(key, self.at(k, batch), size, True),
                Matrix(scores, self.at(scores.dims, batch), keys), (rows, keys, size),
            )  # fmt: skip
        with b.kernel(), b.loops((*self.batch, self.rows)) as (*batch_, row):
            self.softmax(scores, tuple(batch_), row)
        return scores

    def softmax(self, scores: Buffer, batch: tuple[Expr, ...], row: Expr) -> None:
        """One row of scores as weights, in place."""
        b = self.b

        def place(column: Expr) -> Expr:
            return b.linear((*batch, row, column), scores.dims)

        def read(column: Expr) -> Any:
            return ir.load(scores, (place(column),))

        (top,) = b.mutable(sc.const(float("-inf"), scores.dtype))
        with b.loops((self.keys,), "reduction") as (column,):
            seen = self.seen(read(column), batch, row, column)
            b.emit(ir.Assign((top,), (sc.binary("maximum", top, seen),), True))
        (total,) = b.mutable(sc.const(0, scores.dtype))
        with b.loops((self.keys,), "reduction") as (column,):
            seen = self.seen(read(column), batch, row, column)
            (weight,) = b.mutable(
                b.applied("exp", seen - top)
            )  # what it is made of is about to change
            b.emit(ir.Store(scores, (place(column),), weight))
            b.emit(ir.Assign((total,), (total + weight,), True))
        with b.loops((self.keys,)) as (column,):
            b.emit(ir.Store(scores, (place(column),), read(column) / total))

    def seen(self, score: Any, batch: tuple[Expr, ...], row: Expr, column: Expr) -> Any:
        """A score as scale, mask and order make it."""
        b = self.b
        unseen = sc.const(float("-inf"), score.dtype)
        value = score * sc.const(self.scale, score.dtype)
        if self.causal:
            value = sc.select(row >= column, value, unseen)
        if self.mask is None:
            return value
        dims = (*self.batch, self.rows, self.keys)
        indices = broadcast_indices(b, self.mask.dims, dims, (*batch, row, column))
        element: Any = b.element(self.mask, indices)
        if self.mask.dtype == dt.bool_:
            return sc.select(element, value, unseen)
        return value + as_dtype(element, score.dtype)
