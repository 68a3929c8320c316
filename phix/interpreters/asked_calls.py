"""What calls ask of unknown sizes of which a graph holds no equation.

A call whose result nobody uses is dropped, as that of a function of which only the derivative is
asked for, and rules take composites apart. Eagerly such a call is refused for some sizes; so the
graph holds, if there are any, an op in its place that computes nothing, ``expect_call``, and for
sizes that it computes itself a step that looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from phix.core import dims as dm
from phix.core import size_checks
from phix.core.attrs import metas_of
from phix.core.dims import Dim, Symbol
from phix.core.errors import PhixError
from phix.core.graph import Equation, Graph, Variable, flat, graphs_in, map_entries
from phix.core.later import call_op, infer
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.source import user_source


class UserCall(NamedTuple):
    """A call of the user's, and the line it stands in."""

    op: Op
    metas: tuple[Any, ...]
    attrs: tuple[Any, ...]
    source: Any


Calls = dict[Any, UserCall]


def note(calls: Calls, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
    """Remember a call that has unknown sizes, and those of the graphs in it."""
    if op.has_graphs:
        inside = [*graphs_in(attrs)]
        bound = frozenset[Symbol]().union(*(g.bound_symbols for g in inside))
        for equation in (e for g in inside for e in g.equations):
            if bound.isdisjoint(size_checks.symbols_around(equation)):
                note(calls, equation.op, equation.inputs, equation.attrs)
    elif not (op.is_written_out or op.binds_dim) and _has_unknown((metas_of(inputs), attrs)):
        metas = metas_of(inputs)
        key = _key((op.name, metas, attrs))
        if key not in calls:
            calls[key] = UserCall(op, metas, attrs, user_source())


def keep(calls: Calls, live: Iterable[Equation], equations: list[Equation]) -> None:
    """Put what looks at the sizes of the calls that no live equation makes in front of what is
    computed with them, into the equations of the graph that is being made."""
    made: Calls = {}
    noted = {call.op for call in calls.values()}
    for e in live:
        if e.op.has_graphs or e.op in noted:
            note(made, e.op, e.inputs, e.attrs)
    for asked in (equation_of(call) for key, call in [*calls.items()] if key not in made):
        if asked is not None and size_checks.asks(asked):
            symbols = sorted(size_checks.symbols_around(asked), key=lambda s: s.number)
            before = len(equations)
            if any(s.computed for s in symbols):
                look_at(asked, symbols)
            else:
                call_op("expect_call", attrs=(_alone(asked),))
            binding = [
                k
                for k, e in enumerate(equations)
                if e.op.binds_dim and not dm.symbols(e.attrs[0]).isdisjoint(symbols)
            ]
            place, added = 1 + max(binding, default=-1), equations[before:]
            equations[before:] = []
            equations[place:place] = added


class CallCheck:
    """What a program calls with the sizes of a run, in the order of ``symbols``."""

    def __init__(self, equation: Equation, symbols: Sequence[Symbol]) -> None:
        self.check = size_checks.SizeCheck([equation], set(symbols))
        self.symbols = tuple(symbols)
        self.__name__ = f"fits({equation.op.name})"

    def __call__(self, sizes: Sequence[np.ndarray]) -> None:
        self.check(dict(zip(self.symbols, map(int, sizes))))


def look_at(equation: Equation, symbols: Sequence[Symbol]) -> None:
    """A step of the program that is being made: it raises where the sizes do not fit."""
    dims = [dm.Dim({(s,): 1}) for s in symbols]
    given = [call_op("full", attrs=((), d, np.dtype("int64"), None)) for d in dims]
    call_op("debug_callback", given, attrs=(CallCheck(equation, symbols),))


def _has_unknown(values: Sequence[Any]) -> bool:
    """Whether a dim in what calls are made with is not known."""
    seen = list(values)  # a loop: this is asked of every call that is traced
    for value in seen:
        if type(value) is tuple:
            seen += value
        elif type(value) is MetaTensor:
            seen += value.dims
        elif isinstance(value, Dim):
            return True
    return False


def _key(value: Any) -> Any:
    """What decides which sizes a call is refused for; unknown dims compare by what they are."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, MetaTensor):
        return value.dtype, tuple(map(_key, value.dims))
    return value.key if isinstance(value, Dim) else value


def equation_of(call: UserCall) -> Equation | None:
    """It as an equation of a graph; None where it is refused at once."""
    try:
        outs = infer(call.op, call.metas, call.attrs)
    except PhixError:
        return None
    taken, made = (map_entries(lambda m: Variable("", m), ms) for ms in (call.metas, outs))
    return Equation(call.op, taken, call.attrs, made, call.source)


def _alone(equation: Equation) -> Graph:
    """The graph of one equation."""
    inputs, outputs = tuple(flat(equation.inputs)), tuple(equation.variables)
    for k, variable in enumerate((*inputs, *outputs)):
        variable.name = f"x{k}"
    return Graph(inputs, (), (equation,), outputs)
