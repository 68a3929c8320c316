"""Lowering of attention where it is kept whole: one call, or products around a softmax in loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.core.meta import MetaTensor
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import scalar as sc
from phix.kernels.primitive.builder import ZERO, Builder, Value
from phix.kernels.primitive.loop_ir import Buffer, LibraryCall, Pointer
from phix.kernels.primitive.lowering import broadcast_indices, lowering
from phix.kernels.primitive.lowering_linalg import Matrix, multiply
from phix.kernels.primitive.lowering_reduce import as_dtype, converted
from phix.kernels.primitive.scalar import Expr


@lowering("attention", "whole")
def attention(
    b: Builder, query: Value, key: Value, value: Value, mask: Value | None, scale: float,
    causal: bool,
) -> Value:  # fmt: skip
    meta = b.out
    call = _Attention(b, query, key, value, mask, float(scale), causal, meta)
    sizes = (query.dims[-1], value.dims[-1])
    if all(isinstance(d, int) and 0 < d <= b.target.attention_size for d in sizes):
        return b.written((meta,), call.by_library)[0]
    wide = MetaTensor(meta.dims, dt.float32 if meta.dtype.itemsize == 2 else meta.dtype)
    return converted(b, b.written((wide,), call.by_products)[0], meta.dtype)


class _Attention:
    """One attention, its operands seen as stacks of matrices over the batch of the result."""

    def __init__(
        self, b: Builder, query: Value, key: Value, value: Value, mask: Value | None, scale: float,
        causal: bool, meta: MetaTensor,
    ) -> None:  # fmt: skip
        self.b, self.mask, self.scale, self.causal = b, mask, scale, causal
        self.operands = (query, key, value)
        self.batch, self.dims = meta.dims[:-2], meta.dims
        self.rows, self.keys = query.dims[-2], key.dims[-2]
        self.size, self.width = query.dims[-1], value.dims[-1]

    def at(self, dims: dm.Shape, batch: tuple[Expr, ...]) -> Expr:
        """Where the matrix of an operand of these dims lies."""
        own = broadcast_indices(self.b, dims[:-2], self.batch, batch)
        return self.b.linear((*own, ZERO, ZERO), dims)

    # -- by one call -------------------------------------------------------------------------
    def by_library(self, out: Buffer) -> None:
        b = self.b
        values = list(self.operands) if self.mask is None else [*self.operands, self.mask]
        buffers = [b.contiguous(v) for v in values]
        numbers: list[DimLike] = [self.rows, self.keys, self.size, self.width]
        with b.kernel(), b.loops(self.batch) as batch:
            pointers = [Pointer(x, self.at(v.dims, batch)) for x, v in zip(buffers[:3], values)]
            pointers.append(Pointer(out, self.at(self.dims, batch)))
            steps: tuple[Expr, ...] = (ZERO, ZERO)
            if self.mask is not None:
                dims = (*((1,) * (2 - len(self.mask.dims))), *self.mask.dims)
                steps = (self.step(dims[-2], b.dim(dims[-1])), self.step(dims[-1], ir.ONE))
                pointers.append(Pointer(buffers[3], self.at(dims, batch)))
            how = (sc.const(self.scale, dt.float64), sc.const(self.causal, np.dtype(bool)))
            own: list[Pointer | Expr] = [b.dim(d) for d in numbers]
            arguments = (*own, *steps, *how, *pointers)
            b.emit(LibraryCall(f"attention_{out.dtype}", arguments, (out,)))

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
        q, k, v = (x.dims for x in self.operands)
        if self.mask is not None:
            b.contiguous(self.mask)
        scores = b.temp((*self.batch, self.rows, self.keys), dtype)
        rows, keys, size, width = map(b.dim, (self.rows, self.keys, self.size, self.width))
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(query, self.at(q, batch), size),
                Matrix(key, self.at(k, batch), size, True),
                Matrix(scores, self.at(scores.dims, batch), keys), (rows, keys, size),
            )  # fmt: skip
        with b.kernel(), b.loops((*self.batch, self.rows)) as (*batch_, row):
            self.softmax(scores, tuple(batch_), row)
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(scores, self.at(scores.dims, batch), keys),
                Matrix(value, self.at(v, batch), width),
                Matrix(out, self.at(out.dims, batch), width), (rows, width, keys),
            )  # fmt: skip

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
        exp = b.body("exp")
        with b.loops((self.keys,), "reduction") as (column,):
            seen = self.seen(read(column), batch, row, column)
            (weight,) = b.mutable(exp(seen - top))  # what it is made of is about to change
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
