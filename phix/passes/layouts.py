"""Layouts: which axes of a tensor lie in which order, for the kernel that takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import kernel_keys
from phix.core.graph import Equation, flat, map_entries
from phix.core.kernel_arguments import ANY, Asked
from phix.core.kernel_registry import KERNELS, KernelKey
from phix.core.kernel_selection import Given, refusing
from phix.core.memory_layouts import goes_to, is_blocked, parts
from phix.core.op import Op
from phix.passes.forms import Data, Order


def order_between(asked: str, layout: str) -> Order | None:
    """What brings a tensor in one layout to the other; None: nothing is to be done, or can be."""
    if asked == layout or not goes_to(asked, layout):
        return None
    axes, size, block = parts(layout)
    own = parts(asked).axes
    return Order(layout, tuple(map(own.index, axes)), (own.index(block), size) if size else None)


def given_of(equation: Equation) -> Given:
    """What is known of an equation besides the key of its kernel."""
    dtypes, op = kernel_keys.given_dtypes(equation), equation.op
    metas = map_entries(lambda a: a.meta, equation.inputs)
    given = Given(dtypes, refusing=refusing(op, metas, equation.attrs))
    blocked = {k.layout for k in KERNELS.get(op.name, ()) if is_blocked(k.layout)}
    if not blocked:
        return given
    asked = kernel_keys.key_layout(op, equation.attrs)
    named: list[Any] = [*zip(op.inputs, equation.inputs), *zip(op.outputs, equation.outputs)]
    moved = [v.meta for a, e in named if a.name in op.with_layout for v in flat((e,))]
    orders = {layout: order_between(asked, layout) for layout in blocked}
    unfit = {n for n, o in orders.items() if o is None or not all(o.fits(m.dims) for m in moved)}
    return given._replace(unfit=frozenset(unfit - {asked}))


def layout_orders(op: Op, asked: KernelKey, key: KernelKey) -> dict[str, Order]:
    """The tensors whose axes the kernel wants in another order, by name."""
    order = order_between(asked.layout, key.layout)
    return {} if order is None else dict.fromkeys(op.with_layout, order)


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
            if first is not None and first.block is None and None not in others:
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
    own = "NCDHW" if len(parts(state.layout).axes) == 5 else "NCHW"
    own = asked.layout if name in op.with_layout and asked.layout != ANY else own
    order = order_between(own, state.layout)
    return order if order is not None and len(order.perm) == rank else None
