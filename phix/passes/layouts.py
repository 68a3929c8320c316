"""Layouts: which axes of a tensor lie in which order, for the kernel that takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import kernel_keys
from phix.core.graph import Equation, flat
from phix.core.kernel_arguments import ANY, Asked
from phix.core.kernel_registry import KernelKey
from phix.core.op import Op
from phix.passes.forms import Data, Order

_PERM = {("NCHW", "NHWC"): (0, 2, 3, 1), ("NHWC", "NCHW"): (0, 3, 1, 2)}


def layout_orders(op: Op, asked: KernelKey, key: KernelKey) -> dict[str, Order]:
    """The tensors whose axes the kernel wants in another order, by name."""
    perm = _PERM.get((asked.layout, key.layout))
    return {} if perm is None else dict.fromkeys(op.with_layout, Order(key.layout, perm))


def orders_as_they_lie(equation: Equation, given: Any) -> dict[str, Order]:
    """Pointwise ops and reductions take their operands as they lie: if one is there in another
    layout alone, the others are brought to it, and the result has it too."""
    op = equation.op
    if not (op.single_output and (op.is_pointwise or "reduces" in op.traits)):
        return {}
    rank = max(v.meta.ndim for v in (*flat(given), *flat(equation.outputs)))
    for value in flat(given):
        if isinstance(value, Data) and value.meta.ndim == rank:
            first, *others = [f.order for f in value.forms] or [None]
            if first is not None and None not in others:
                return dict.fromkeys([*(a.name for a in op.args), "out"], first)
    return {}


def reduced(
    equation: Equation, orders: dict[str, Order], attrs: tuple[Any, ...]
) -> tuple[dict[str, Order], tuple[Any, ...]]:
    """A reduction over the same axes of an input in that order.

    Where the axes that are left would not be in the order of the result, the input is brought back.
    """
    op, given = equation.op, list(attrs)
    order = orders[op.inputs[0].name]
    axes, keeps = op.attr("axis", attrs), op.attr("keepdim", attrs)
    left = [p for p in order.perm if p not in axes]
    if not keeps and left != sorted(left):
        return {}, attrs
    given[op.attr_names.index("axis")] = tuple(sorted(map(order.perm.index, axes)))
    return (orders if keeps else {op.inputs[0].name: order}), tuple(given)


def restated_attrs(equation: Equation, asked: KernelKey, key: KernelKey) -> tuple[Any, ...]:
    """The attributes for the kernel's layout and dtype."""
    layout_attr = kernel_keys.layout_attr(equation.op)
    attrs = list(equation.attrs)
    for number, name in enumerate(equation.op.attr_names):
        if name == layout_attr and key.layout != ANY:
            attrs[number] = key.layout
        elif isinstance(attrs[number], np.dtype) and attrs[number] == asked.dtype:
            attrs[number] = key.dtype
    return tuple(attrs)


def argument_order(
    op: Op, name: str, asked: KernelKey, plain: Order | None, state: Asked, rank: int
) -> Order | None:
    """The order of one argument: as for all (``plain``), unless its own state names a layout."""
    if state.layout is None:
        return plain
    own = asked.layout if name in op.with_layout and asked.layout != ANY else "NCHW"
    perm = _PERM.get((own, state.layout))
    return Order(state.layout, perm) if perm is not None and len(perm) == rank else None
