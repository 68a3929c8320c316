"""The bundle pass: sums of several small values over the ranks of a mesh become one exchange.

An exchange of few bytes costs as much as one of thousands. A small sum waits for those behind it,
until one of them needs its result, or another collective comes; then all that wait are one sum of
one vector. Which sums meet depends on the collectives of the program and on what they need of each
other alone, so it is the same on all ranks, whatever else one of them does. Each element is added
as before, to the bit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rewrites, stack
from phix.core.graph import (
    Constant,
    Equation,
    Graph,
    graphs_in,
    is_effect,
    map_attrs,
    map_entries,
)
from phix.core.meta import MetaTensor
from phix.core.records import dataclass, field
from phix.core.rules import OPS
from phix.interpreters.decompose import decompose
from phix.interpreters.stage import finish, trace

_NAME = "bundle_sums"
# Bytes of a sum that is worth to be copied into a vector with others, and of such a vector.
_SMALL, _MOST = 1 << 16, 1 << 20
# Kinds of steps that are done without the other ranks.
_LOCAL = frozenset({"own", "index"})


def bundle(graph: Graph) -> Graph:
    """``graph`` with small sums over the same ranks made together, inside loops too."""
    return _changed(graph) if rewrites.is_on(_NAME) and _joins_ranks(graph) else graph


@stack.nests
def _joins_ranks(graph: Graph) -> bool:
    """Whether the graph has steps between ranks, or one inside it has."""
    found: bool | None = graph.memo.get("joins ranks")
    if found is None:
        found = graph.memo["joins ranks"] = any(map(_is_collective, graph.equations))
    return found


def _is_collective(equation: Equation) -> bool:
    if equation.op is OPS["rank_step"]:
        return equation.attrs[1] not in _LOCAL
    return equation.op.has_graphs and any(map(_joins_ranks, graphs_in(equation.attrs)))


def _key(equation: Equation) -> Any:
    """Sums of one key may become one; None: it stays alone."""
    if equation.op is not OPS["rank_step"] or equation.attrs[1] != "sum":
        return None
    meta = equation.inputs[0].meta  # type: ignore[union-attr]
    if not dm.is_known(*meta.dims) or not 0 < _bytes(meta) <= _SMALL:
        return None
    return (equation.attrs[0], meta.dtype)


def _bytes(meta: MetaTensor) -> int:
    return math.prod(int(d) for d in meta.dims) * meta.dtype.itemsize


@stack.nests
def _changed(graph: Graph) -> Graph:
    queue = _Queue()
    for equation in graph.equations:
        if equation.op.has_graphs:
            equation = replace(equation, attrs=map_attrs(bundle, equation.attrs))
        queue.take(equation)
    queue.flush()
    if not queue.has_bundles:
        return replace(graph, equations=tuple(queue.done))
    constants = (*graph.constants, *queue.constants)
    return finish(replace(graph, equations=tuple(queue.done), constants=constants))


@dataclass
class _Queue:
    """Equations in their new order: those that are ``done``, sums that are ``waiting`` for others,
    and what comes ``later`` because it needs one of them (``needs``: all that is made there)."""

    done: list[Equation] = field(default_factory=list)
    waiting: dict[Any, list[Equation]] = field(default_factory=dict)
    later: list[Equation] = field(default_factory=list)
    needs: set[Any] = field(default_factory=set)
    constants: list[Constant] = field(default_factory=list)
    has_bundles: bool = False
    holds_effects: bool = False
    bytes: int = 0

    def take(self, equation: Equation) -> None:
        """The next equation of the graph."""
        key = _key(equation)
        if key is not None:
            size = _bytes(equation.inputs[0].meta)  # type: ignore[union-attr]
            if not self.needs.isdisjoint(equation.atoms) or self.bytes + size > _MOST:
                self.flush()
            self.waiting.setdefault(key, []).append(equation)
            self.needs.update(equation.variables)
            self.bytes += size
            return
        if _is_collective(equation):
            self.flush()
        # effects keep their order among themselves
        has_effect = is_effect(equation)
        if not self.needs.isdisjoint(equation.atoms) or (has_effect and self.holds_effects):
            self.later.append(equation)
            self.needs.update(equation.variables)
            self.holds_effects = self.holds_effects or has_effect
        else:
            self.done.append(equation)

    def flush(self) -> None:
        """Make the sums that wait, then what comes later."""
        for group in self.waiting.values():
            if len(group) == 1:
                self.done += group
                continue
            made = _bundled(group)
            self.has_bundles = True
            self.done += made.equations
            self.constants += made.constants
        self.done += self.later
        self.waiting, self.later, self.needs = {}, [], set()
        self.holds_effects, self.bytes = False, 0


def _bundled(sums: list[Equation]) -> Graph:
    """The equations that make several sums as one."""
    given = [e.atoms[0] for e in sums]
    group = sums[0].attrs[0]

    def together(*values: Any) -> list[Any]:
        total = ops.rank_step(
            ops.concat([ops.reshape(v, [-1]) for v in values], 0), None, group, "sum", ()
        )
        found, at = [], 0
        for v in values:
            size = math.prod(v.shape)
            found.append(ops.reshape(ops.slice(total, [0], [at], [at + size], [1], []), v.shape))
            at += size
        return found

    made = decompose(trace(together, [atom.meta for atom in given]))
    outer: dict[Any, Any] = dict(zip(made.inputs, given))
    outer.update(zip(made.outputs, (e.variables[0] for e in sums)))

    def read(atom: Any) -> Any:
        return outer.get(atom, atom)

    equations = tuple(
        replace(
            e, inputs=map_entries(read, e.inputs), outputs=map_entries(read, e.outputs),
            source=sums[0].source,
        )
        for e in made.equations
    )  # fmt: skip
    return Graph((), made.constants, equations, ())
