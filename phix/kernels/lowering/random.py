"""Lowering of random bits: each element is the cipher of its index, so order does not matter."""

from __future__ import annotations

from typing import Any

from phix.core import dtypes as dt
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Element
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.scalar.random_bits import threefry2x32

_COST = 80  # scalar operations a block: about four each round


@lowering("random_bits", "move")
def random_bits(
    b: Builder, key: Value, shape: Any, bit_width: int, first: Value | None = None, *, task: Task
) -> Value:
    meta = task.out
    keys = len(key.dims) - 1

    def block(high: Any, low: Any, i: Expr) -> Element:
        counter = (sc.cast(i >> 32, dt.uint32), sc.cast(i, dt.uint32))
        left, right = threefry2x32(high, low, *counter)
        if bit_width == 32:
            return left ^ right
        return (sc.cast(left, dt.uint64) << 32) | sc.cast(right, dt.uint64)

    def flat(i: Expr) -> Element:
        return block(b.flat_element(key, b.dim(0)), b.flat_element(key, b.dim(1)), i)

    def at(idx: tuple[Expr, ...]) -> Element:
        high, low = (b.element(key, (*idx[:keys], b.dim(k))) for k in (0, 1))
        number = b.linear(idx[keys:], meta.dims[keys:])
        if first is not None:
            start: Any = b.element(first, idx[:keys])
            number = number + start
        return block(high, low, number)

    is_plain = not keys and first is None
    return Value(meta.dims, meta.dtype, at, flat if is_plain else None, _COST)
