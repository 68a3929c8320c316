"""Lowering of the gradient of attention where it is kept whole: two calls, which compute the
weights again, or products around loops."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.loops.value import unread
from phix.kernels.lowering.attention import AttentionCall
from phix.kernels.lowering.contraction import Matrix, multiply
from phix.kernels.lowering.reduction import converted
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr


@lowering("attention_grad", "whole")
def attention_grad(
    b: Builder, query: Value, key: Value, value: Value, mask: Value | None, out_grad: Value,
    scale: float, causal: bool, *, task: Task,
) -> tuple[Value, ...]:  # fmt: skip
    metas = task.metas
    call = _Gradients(b, (query, key, value, out_grad), mask, float(scale), causal)
    sizes = (query.dims[-1], value.dims[-1])
    is_one_call = all(isinstance(d, int) and 0 < d <= b.target.attention_size for d in sizes)
    if len(metas) > 3 and task.is_read[3]:  # of all scores, which are in memory then
        return b.written(metas, call.by_products)
    found = b.written(metas[:3], call.by_calls if is_one_call else call.by_products)
    return (*found, *(unread(m) for m in metas[3:]))


class _Gradients(AttentionCall):
    """The gradients of one attention; its operands are query, key, value and the cotangent."""

    def __init__(
        self, b: Builder, operands: tuple[Value, ...], mask: Value | None, scale: float,
        causal: bool,
    ) -> None:  # fmt: skip
        query, key, value, out_grad = operands
        meta = MetaTensor(out_grad.dims, out_grad.dtype)
        super().__init__(b, query, key, value, mask, scale, causal, meta)
        self.operands: tuple[Value, ...] = operands
        self.dtype: np.dtype = dt.float64 if query.dtype == dt.float64 else dt.float32

    def temp(self, *dims: dm.DimLike) -> Buffer:
        """Memory for the whole batch, for sums."""
        return self.b.temp((*self.batch, *dims), self.dtype)

    def whole(self, out: Buffer, *dims: dm.DimLike) -> Buffer:
        """Where a gradient is computed: in its place, unless operands were broadcast."""
        return out if dm.same_shape(out.dims, (*self.batch, *dims)) else self.temp(*dims)

    # -- by calls ------------------------------------------------------------------------------
    def by_calls(self, *outs: Buffer) -> None:
        """The first call also gives of each row what the second needs: the logarithm of the sum
        of its exponentials, and the mean of the gradients to its weights."""
        b = self.b
        reads = [(v, b.contiguous(v)) for v in self.operands]
        sizes = ((self.rows, self.size), (self.keys, self.size), (self.keys, self.width))
        made = [self.whole(out, *size) for out, size in zip(outs, sizes)]
        full = [(*self.batch, *size) for size in sizes]
        rows = [self.temp(self.rows, 1), self.temp(self.rows, 1)]
        of_rows = [(r.dims, r) for r in rows]
        dtype = self.operands[0].dtype
        self.call("querygrad", dtype, reads, [*of_rows, (full[0], made[0])])
        self.call("keygrad", dtype, reads, list(zip(full[1:], made[1:])), of_rows)
        for whole, out in zip(made, outs):
            if whole is not out:
                self.fold(whole, out)

    # -- by products -------------------------------------------------------------------------
    def to_scores(self) -> tuple[Buffer, Buffer, list[Buffer]]:
        """The weights, the gradient to the scores, and the operands."""
        b = self.b
        operands = [b.contiguous(converted(b, v, self.dtype)) for v in self.operands]
        weights = self.weights(*operands[:2])
        slopes = self.temp(self.rows, self.keys)
        v, g = (x.dims for x in self.operands[2:])
        rows, keys, width = map(b.dim, (self.rows, self.keys, self.width))
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(operands[3], self.at(g, batch), width),
                Matrix(operands[2], self.at(v, batch), width, True),
                Matrix(slopes, self.at(slopes.dims, batch), keys), (rows, keys, width),
            )  # fmt: skip
        with b.kernel(), b.loops((*self.batch, self.rows)) as (*place, row):

            def read(buffer: Buffer, column: Expr) -> Any:
                return ir.load(buffer, (b.linear((*place, row, column), buffer.dims),))

            (mean,) = b.mutable(sc.const(0, self.dtype))
            with b.loops((self.keys,), "reduction") as (column,):
                term = read(weights, column) * read(slopes, column)
                b.emit(ir.Assign((mean,), (mean + term,), True))
            with b.loops((self.keys,)) as (column,):
                slope = read(weights, column) * (read(slopes, column) - mean)
                b.emit(ir.Store(slopes, (b.linear((*place, row, column), slopes.dims),), slope))
        return weights, slopes, operands

    def by_products(self, *outs: Buffer) -> None:
        """The gradients, the fourth to numbers that are added to the scores if it is wanted."""
        b = self.b
        weights, slopes, (query, key, _, out_grad) = self.to_scores()
        q, k, _, g = (x.dims for x in self.operands)
        rows, keys, size, width = map(b.dim, (self.rows, self.keys, self.size, self.width))
        made = [self.temp(self.rows, self.size), self.temp(self.keys, self.size),
                self.temp(self.keys, self.width)]  # fmt: skip
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(slopes, self.at(slopes.dims, batch), keys),
                Matrix(key, self.at(k, batch), size),
                Matrix(made[0], self.at(made[0].dims, batch), size), (rows, size, keys),
            )  # fmt: skip
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(slopes, self.at(slopes.dims, batch), keys, True),
                Matrix(query, self.at(q, batch), size),
                Matrix(made[1], self.at(made[1].dims, batch), size), (keys, size, rows),
            )  # fmt: skip
        with b.kernel(), b.loops(self.batch) as batch:
            multiply(
                b, Matrix(weights, self.at(weights.dims, batch), keys, True),
                Matrix(out_grad, self.at(g, batch), width),
                Matrix(made[2], self.at(made[2].dims, batch), width), (keys, width, rows),
            )  # fmt: skip
        for whole, out, factor in zip(made, outs, (self.scale, self.scale, 1.0)):
            self.fold(whole, out, factor)
        for out in outs[3:]:
            self.fold(slopes, out)

    def fold(self, whole: Buffer, out: Buffer, factor: float = 1.0) -> None:
        """Sums over the axes that an operand of the dims of ``out`` was broadcast along."""
        b, full = self.b, whole.dims
        lead = len(full) - len(out.dims)
        with b.kernel(), b.loops(out.dims) as at:
            (total,) = b.mutable(sc.const(0, whole.dtype))
            with ExitStack() as loops:
                indices = []
                for axis, d in enumerate(full):
                    own = 1 if axis < lead else out.dims[axis - lead]
                    index = ZERO if axis < lead else at[axis - lead]
                    if not dm.same(own, d):
                        extent, is_one = b.dim(d), sc.eq(b.dim(own), 1)
                        turns = extent if dm.is_one(own) else sc.select(is_one, extent, ir.ONE)
                        turn = loops.enter_context(b.loop(turns, "reduction"))
                        index = turn if dm.is_one(own) else sc.select(is_one, turn, index)
                    indices.append(index)
                element: Any = ir.load(whole, (b.linear(tuple(indices), full),))
                b.emit(ir.Assign((total,), (total + element,), True))
            value: Any = total * sc.const(factor, whole.dtype)
            b.store(out, tuple(at), sc.cast(value, ir.scalar_dtype(out.dtype)))
