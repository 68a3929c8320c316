"""Values in several forms: each place, order of axes and dtype that something asked for, once.

A writer keeps the equations of a graph being made. It brings a value into a form by a copy, a
transposition or a cast, made when the first asks for it; of a constant, it is made here and now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from phix.core import context, dispatch, kernel_registry, kernel_selection
from phix.core import dims as dm
from phix.core.conversion import moved_tensor
from phix.core.graph import Equation, State, Variable
from phix.core.kernel_arguments import ANY, Asked
from phix.core.kernel_registry import Kernel, KernelKey
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place
from phix.core.records import dataclass
from phix.core.rules import OPS
from phix.core.tensor import Tensor


class Order(NamedTuple):
    """The axes of a value in another layout: axis i is its own axis ``perm[i]``.

    A value of fewer axes gets axes of size 1 in front first, as broadcasting adds them. With a
    ``block``, a number of an axis and a size, that axis is cut into blocks, which are the last.
    """

    layout: str
    perm: tuple[int, ...]
    block: tuple[int, int] | None = None

    def dims(self, dims: dm.Shape) -> dm.Shape:
        wide = (1,) * (len(self.perm) - len(dims)) + tuple(dims)
        if self.block is None:
            return tuple(wide[p] for p in self.perm)
        cut = self.cut(wide)
        return tuple(cut[p] for p in self.cut_perm())

    def fits(self, dims: dm.Shape) -> bool:
        """Whether an axis that is to be cut has a known size, in whole blocks."""
        if self.block is None:
            return True
        axis, size = self.block
        return len(dims) == len(self.perm) and isinstance(dims[axis], int) and not dims[axis] % size

    def cut(self, dims: dm.Shape) -> dm.Shape:
        """Dims with the axis cut where it stands: how many blocks, and their size."""
        assert self.block is not None
        axis, size = self.block
        return (*dims[:axis], dims[axis] // size, size, *dims[axis + 1 :])

    def cut_perm(self) -> tuple[int, ...]:
        """The order of the axes of :meth:`cut`."""
        assert self.block is not None
        axis, _ = self.block
        return (*(p + (p > axis) for p in self.perm), axis + 1)


class MemoryForm(NamedTuple):
    """What a value is brought into; order None is that of the given graph."""

    place: Place
    order: Order | None
    dtype: np.dtype


@dataclass(eq=False)
class Data:
    """A value of the given graph and the variables of the new one that hold it, by their forms."""

    meta: MetaTensor
    forms: dict[MemoryForm, Variable]
    make: Callable[[Place], None] | None = None  # of a value that is computed where it is needed
    steps: int = 0  # how many such equations it is made of


class Writer:
    """The equations and constants of a graph being made, with values in their forms."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Variable, Tensor] = {}
        self.source: Any = None  # of the equation at work

    def want(self, data: Data, form: MemoryForm) -> Variable:
        """The variable that holds ``data`` in that form, made if there is none yet."""
        found = data.forms.get(form)
        if found is not None:
            return found
        if form.order is not None and len(form.order.perm) == 1:
            return self.want(data, form._replace(order=None))
        here = _forms_on(data, form.place)
        if not here and data.make is not None:
            data.make(form.place)  # where no kernel makes it there, it is copied after all
            here = _forms_on(data, form.place)
        if not here:
            there = next(f for f in data.forms if f.dtype == data.meta.dtype)
            data.forms[there._replace(place=form.place)] = self.copied(
                data.forms[there], form.place
            )
            return self.want(data, form)
        step = next((f for f in here if f.order == form.order), None)
        if step is None:  # the axes first, then the dtype
            whole = next((f for f in here if f.order is None), here[0])
            order = None if whole.order is not None else form.order
            self.restate(data, data.forms[whole], whole, whole._replace(order=order))
        else:
            self.restate(data, data.forms[step], step, form)
        return self.want(data, form)

    def restate(self, data: Data, x: Variable, have: MemoryForm, form: MemoryForm) -> None:
        """``x`` in another order or dtype, on its place; where no kernel does that, elsewhere."""
        for op, attrs, meta in restatements(x, have, form):
            kernel = kernel_selection.choose(op, KernelKey("", ANY, x.meta.dtype), form.place.kind)
            there = kernel_place(kernel, form.place)
            if there != form.place:
                x = self.copied(x, there)
            layout = form.order.layout if form.order is not None else ANY
            x = self.derived(op, x, attrs, Variable("", meta, State(there, layout)), kernel.key)
            if there != form.place:
                x = self.copied(x, form.place)
        data.forms[form] = x

    def copied(self, x: Variable, place: Place) -> Variable:
        assert x.state is not None
        new = Variable("", x.meta, replace(x.state, place=place))
        return self.derived(OPS["io_copy"], x, (place,), new, None)

    def derived(self, op: Op, x: Variable, attrs: Any, new: Variable, key: Any) -> Variable:
        """``new = op(x)``; of a constant it is made now."""
        constant = self.constants.get(x)
        if constant is None:
            self.equations.append(Equation(op, (x,), attrs, (new,), self.source, key))
        elif "moves" in op.traits:
            self.constants[new] = moved_tensor(constant, attrs[0])
        else:
            with context.active(context.base()):
                self.constants[new] = dispatch.bind(op, (constant,), attrs)
        return new


def _forms_on(data: Data, place: Place) -> list[MemoryForm]:
    """The forms of a value on a place, in its own dtype."""
    return [f for f in data.forms if f.place == place and f.dtype == data.meta.dtype]


def kernel_place(kernel: Kernel, place: Place) -> Place:
    """Where a kernel runs that was found for ``place``: there, or where it falls back to."""
    kind = kernel_registry.BACKENDS[kernel.key.backend].place_kind
    return place if kind == place.kind else Place(kind)


def asked_place(asked: Asked, place: Place) -> Place:
    """Where an argument is to be of a kernel that runs on ``place``."""
    return place if asked.place in (None, place.kind) else Place(str(asked.place))


Calls = list[tuple[Op, tuple[Any, ...], Any]]  # ops, their attributes, the metas they give


def restatements(x: Variable, have: MemoryForm, form: MemoryForm) -> Calls:
    """The calls that bring ``x`` from one order or dtype to the other."""
    calls: Calls = []
    meta = x.meta
    if have.order != form.order:
        order = form.order or have.order
        assert order is not None and None in (have.order, form.order)
        change = _reordered if order.block is None else _cut
        calls, meta = change(meta, order, form.order is None)
    if have.dtype != form.dtype:
        calls.append((OPS["cast"], (form.dtype,), meta.with_dtype(form.dtype)))
    return calls


def _reordered(meta: MetaTensor, order: Order, back: bool) -> tuple[Calls, MetaTensor]:
    """The calls that bring a value into an order, or back, and what they give."""
    dims, perm = meta.dims, order.perm
    if back:
        perm = tuple(map(order.perm.index, range(len(dims))))
        target = tuple(dims[p] for p in perm)
    else:
        target = order.dims(dims)
    if sum(not dm.is_one(d) for d in dims) <= 1:  # no element moves
        made = meta.with_dims(target)
        return [(OPS["reshape"], (target,), made)], made
    calls: Calls = []
    if len(perm) > len(dims):
        meta = meta.with_dims((1,) * (len(perm) - len(dims)) + tuple(dims))
        calls.append((OPS["reshape"], (meta.dims,), meta))
    made = meta.with_dims(target)
    return [*calls, (OPS["transpose"], (perm,), made)], made


def _cut(meta: MetaTensor, order: Order, back: bool) -> tuple[Calls, MetaTensor]:
    """The calls that cut an axis into blocks, or make it whole again, and what they give."""
    assert order.block is not None
    perm, axis = order.cut_perm(), order.block[0]
    if back:
        own = tuple(map(perm.index, range(len(perm))))
        moved = meta.with_dims([meta.dims[p] for p in own])
        blocks, size = moved.dims[axis : axis + 2]
        made = meta.with_dims([*moved.dims[:axis], blocks * size, *moved.dims[axis + 2 :]])
        return [(OPS["transpose"], (own,), moved), (OPS["reshape"], (made.dims,), made)], made
    cut, made = meta.with_dims(order.cut(meta.dims)), meta.with_dims(order.dims(meta.dims))
    return [(OPS["reshape"], (cut.dims,), cut), (OPS["transpose"], (perm,), made)], made
