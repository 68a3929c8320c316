"""The simplify pass: equations that need not run are removed, equal ones merged.

Algebra is each op's own: its ``simplification`` rule answers what a call is equal to, if that is
one of its inputs (``phix/primitives/simplifications.py`` is the table). Staging applies it, so a
replay is enough.
"""

from __future__ import annotations

from typing import Any

from phix.core import passes
from phix.core.dispatch import Interpreter
from phix.core.graph import Graph, graphs_in, map_attrs
from phix.core.op import Op
from phix.core.tensor import Tensor
from phix.interpreters.decompose import rewrite
from phix.interpreters.stage import Stage, StageTracer


class Simplify(Interpreter):
    """Common subexpressions are found by op, inputs and attributes as the graph is replayed."""

    name = "simplify"

    def __init__(self, parent: Stage) -> None:
        super().__init__(parent)
        self.seen: dict[Any, Any] = {}

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        assert self.parent is not None
        if op.has_graphs:
            attrs = map_attrs(simplify, attrs)
        has_effects = "side_effect" in op.traits or any(g.has_effects for g in graphs_in(attrs))
        if has_effects or not passes.is_on("common_subexpressions"):
            return self.parent.process(op, inputs, attrs)
        key = (op, _attr_key(attrs), tuple(map(_key, inputs)))
        if key not in self.seen:
            self.seen[key] = self.parent.process(op, inputs, attrs)
        return self.seen[key]


def _key(entry: Any) -> Any:
    if isinstance(entry, tuple):
        return tuple(map(_key, entry))
    if isinstance(entry, StageTracer):
        return entry.variable
    if isinstance(entry, Tensor) and entry.ndim == 0:
        return (entry.dtype, entry.host.tobytes())
    return id(entry)


def _attr_key(value: Any) -> Any:
    """Attributes compared by type and text: 0.0 is not -0.0, True is not 1."""
    if isinstance(value, tuple):
        return tuple(map(_attr_key, value))
    if isinstance(value, (bool, int, float, complex)):
        return (type(value), repr(value))
    return getattr(value, "key", value)


def simplify(graph: Graph) -> Graph:
    """The same program with fewer equations."""
    return rewrite(graph, Simplify)
