"""Lowerings of control flow: a graph inside becomes steps inside a loop or a switch.

A carry has a buffer that each iteration reads; the body computes the next into a fresh one, and
the pass ``carry_in_place`` makes the two one where that is safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import graph as gr
from phix.core import stack
from phix.core.graph import Graph
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value, buffer_value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.lower import GraphLowering
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Values = tuple[Value, ...]


def _operand(b: Builder, value: Value) -> Value:
    """A value that can be read inside a loop without anything being computed outside it."""
    if b.is_open(value) and not _is_part_of_memory(b, value):
        b.materialize(value)
    result = Value(value.dims, value.dtype, cost=value.cost)
    result.buffer = value.buffer
    if value.buffer is None:
        result.at = lambda idx: b.element(value, idx)
        result.flat = (lambda i: b.flat_element(value, i)) if value.is_flat else None
    return result


def _is_part_of_memory(b: Builder, value: Value) -> bool:
    """Whether a value is a slice of one that can only be computed whole, and then is."""
    whole = value
    while whole.buffer is None and whole.part_of is not None:
        whole = whole.part_of
    if whole is value or (whole.buffer is None and whole.writer is None):
        return False
    if whole.buffer is None:
        b.materialize(whole)
    return True


def _row(b: Builder, value: Value, index: Expr) -> Value:
    """``value[index]``."""
    buffer = value.buffer
    if buffer is not None and dm.same_shape(buffer.dims, value.dims):  # else it is a reshaped one
        return buffer_value(b.row(buffer, index))
    return Value(
        value.dims[1:], value.dtype, lambda idx: b.element(value, (index, *idx)), cost=value.cost
    )


@stack.nests
def _inside(b: Builder, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Buffer]) -> None:
    """Emit the steps of a graph inside, its unknown dims those of the inputs at hand."""
    env = gr.solve_dims([v.meta for v in graph.inputs], [v.dims for v in inputs])
    (fitted,) = gr.substitute_attrs((graph,), env)
    bound = []
    for variable, value in zip(fitted.inputs, inputs):
        seen = Value(variable.meta.dims, value.dtype, value.at, value.flat, value.cost)
        seen.buffer = value.buffer
        bound.append(seen)
    GraphLowering(b, fitted, bound).into(outputs)


class _Carried:
    """The carries of a loop: ``buffers`` that its steps read and ``new`` ones they write."""

    def __init__(self, b: Builder, initial: Sequence[Value], finals: Sequence[Buffer]) -> None:
        self.b, self.finals = b, finals
        # a tiny one in memory of its own, which the compiler may keep in registers
        self.buffers = [b.temp(f.dims, f.dtype) if ir.is_tiny(f) else f for f in finals]
        for buffer, value in zip(self.buffers, initial):
            b.fill(buffer, value)
        self.new = [b.temp(f.dims, f.dtype) for f in finals]
        self.values = [buffer_value(buffer) for buffer in self.buffers]

    @property
    def swaps(self) -> list[tuple[Buffer, Buffer]]:
        return list(zip(self.buffers, self.new))

    def finish(self) -> None:
        for value, final in zip(self.values, self.finals):
            if value.buffer is not final:
                self.b.fill(final, value)


@lowering("scan", "whole")
def scan(
    b: Builder, carry: Values, xs: Values, constants: Values, body: Graph, length: Any,
    reverse: bool, *, task: Task,
) -> Values:  # fmt: skip
    def write(*out: Buffer) -> None:
        rows_of = [_operand(b, v) for v in xs]
        fixed = [_operand(b, v) for v in constants]
        carried = _Carried(b, [_operand(b, v) for v in carry], out[: len(carry)])
        extent, index = b.dim(length), b.step_index()
        at = extent - 1 - index if reverse else index
        with b.nested() as steps:
            rows = [_row(b, v, at) for v in rows_of]
            ys = [b.row(y, at) for y in out[len(carry) :]]
            _inside(b, body, [*carried.values, *rows, *fixed], [*carried.new, *ys])
        b.steps.append(ir.ForStep(index, extent, steps, carried.swaps))
        carried.finish()

    return b.written(task.metas, write)


@lowering("while_loop", "whole")
def while_loop(
    b: Builder, carry: Values, constants: Values, cond: Graph, body: Graph, *, task: Task
) -> Values:
    def write(*out: Buffer) -> None:
        fixed = [_operand(b, v) for v in constants]
        carried = _Carried(b, [_operand(b, v) for v in carry], out)
        flag = b.temp((), dt.bool_)
        with b.nested() as test:
            _inside(b, cond, [*carried.values, *fixed], [flag])
        with b.nested() as steps:
            _inside(b, body, [*carried.values, *fixed], carried.new)
        b.steps.append(ir.WhileStep(test, flag, steps, carried.swaps))
        carried.finish()

    return b.written(task.metas, write)


@lowering("branch", "whole")
def branch(
    b: Builder, index: Value, operands: Values, branches: tuple[Graph, ...], *, task: Task
) -> Values:
    def write(*out: Buffer) -> None:
        given = [_operand(b, v) for v in operands]
        chosen = b.temp((), dt.int64)
        b.fill(chosen, _limited(b, index, 0, len(branches) - 1))
        lists = []
        for graph in branches:
            with b.nested() as steps:
                _inside(b, graph, given, out)
            lists.append(steps)
        b.steps.append(ir.SwitchStep(chosen, lists))

    return b.written(task.metas, write)


@lowering("dim_value", "whole")
def dim_value(b: Builder, x: Value, dim: Any, largest: bool, refusal: str, *, task: Task) -> Value:
    (symbol,) = dm.symbols(dim)

    def write(out: Buffer) -> None:
        b.fill(out, x)
        size = b.temp((), dt.int64)
        b.fill(size, _limited(b, buffer_value(out), None if refusal else 0, None))
        b.steps.append(ir.BindStep(b.bind(symbol), size, b.size_checks.get(symbol)))

    return b.written(task.metas, write)[0]


def _limited(b: Builder, x: Value, low: int | None, high: int | None) -> Value:
    """One int as an int64 between two limits, or one, or none."""

    def at(indices: tuple[Expr, ...]) -> Expr:
        number = b.element(x, indices)
        assert isinstance(number, Expr)
        if low is not None:
            number = sc.binary("maximum", number, sc.const(low, number.dtype))
        if high is not None:
            number = sc.binary("minimum", number, sc.const(high, number.dtype))
        return sc.cast(number, dt.int64)

    return Value((), dt.int64, at, cost=x.cost + 2)
