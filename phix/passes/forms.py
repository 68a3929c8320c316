"""Values in several forms: each place, order of axes and dtype that something asked for, once.

A writer keeps the equations of a graph being made. It brings a value into a form by a copy, a
transposition or a cast, made when the first asks for it; of a constant, it is made here and now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from phix.core.rules import OPS
from phix.core.tensor import Tensor


class Order(NamedTuple):
    """The axes of a value in another layout: axis i is its own axis ``perm[i]``.

    A value of fewer axes gets axes of size 1 in front first, as broadcasting adds them.
    """

    layout: str
    perm: tuple[int, ...]

    def dims(self, dims: dm.Shape) -> dm.Shape:
        wide = (1,) * (len(self.perm) - len(dims)) + tuple(dims)
        return tuple(wide[p] for p in self.perm)


class Form(NamedTuple):
    """What a value is brought into; order None is that of the given graph."""

    place: Place
    order: Order | None
    dtype: np.dtype


@dataclass(eq=False)
class Data:
    """A value of the given graph and the variables of the new one that hold it, by their forms."""

    meta: MetaTensor
    forms: dict[Form, Variable]
    make: Callable[[Place], None] | None = None  # of a value that is computed where it is needed
    steps: int = 0  # how many such equations it is made of


class Writer:
    """The equations and constants of a graph being made, with values in their forms."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Variable, Tensor] = {}
        self.source: Any = None  # of the equation at work

    def want(self, data: Data, form: Form) -> Variable:
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

    def restate(self, data: Data, x: Variable, have: Form, form: Form) -> None:
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


def _forms_on(data: Data, place: Place) -> list[Form]:
    """The forms of a value on a place, in its own dtype."""
    return [f for f in data.forms if f.place == place and f.dtype == data.meta.dtype]


def kernel_place(kernel: Kernel, place: Place) -> Place:
    """Where a kernel runs that was found for ``place``: there, or where it falls back to."""
    kind = kernel_registry.BACKENDS[kernel.key.backend].place_kind
    return place if kind == place.kind else Place(kind)


def asked_place(asked: Asked, place: Place) -> Place:
    """Where an argument is to be of a kernel that runs on ``place``."""
    return place if asked.place in (None, place.kind) else Place(str(asked.place))


def restatements(x: Variable, have: Form, form: Form) -> list[tuple[Op, tuple[Any, ...], Any]]:
    """The calls that bring ``x`` from one order or dtype to the other."""
    meta = x.meta
    calls: list[tuple[Op, tuple[Any, ...], Any]] = []
    if have.order != form.order:
        assert have.order is None or form.order is None
        dims = meta.dims
        if form.order is None:
            assert have.order is not None
            perm = tuple(map(have.order.perm.index, range(len(dims))))
            target = tuple(dims[p] for p in perm)
        else:
            perm, target = form.order.perm, form.order.dims(dims)
        if sum(not dm.is_one(d) for d in dims) > 1:
            if len(perm) > len(dims):
                meta = meta.with_dims((1,) * (len(perm) - len(dims)) + tuple(dims))
                calls.append((OPS["reshape"], (meta.dims,), meta))
            meta = meta.with_dims(target)
            calls.append((OPS["transpose"], (perm,), meta))
        else:  # no element moves
            meta = meta.with_dims(target)
            calls.append((OPS["reshape"], (target,), meta))
    if have.dtype != form.dtype:
        calls.append((OPS["cast"], (form.dtype,), meta.with_dtype(form.dtype)))
    return calls
