"""The simplify pass: equations that need not run are removed, equal ones merged.

Algebra is each op's own: its ``simplification`` rule answers what a call is equal to, if that is
one of its inputs (``phix/primitives/simplifications.py`` is the table). Staging applies it, so a
replay is enough.
"""

from __future__ import annotations

from typing import Any

from phix.core.graph import Graph, map_attrs
from phix.core.interpreter import Interpreter
from phix.core.op import Op
from phix.interpreters.decompose import rewrite
from phix.interpreters.equal_calls import call_key
from phix.interpreters.stage import Staging


class Simplify(Interpreter):
    """Common subexpressions are found by op, inputs and attributes as the graph is replayed."""

    name = "simplify"

    def __init__(self, parent: Staging) -> None:
        super().__init__(parent)
        self.seen: dict[Any, Any] = {}

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        assert self.parent is not None
        if op.has_graphs:
            attrs = map_attrs(simplify, attrs)
        key = call_key(op, inputs, attrs)
        if key is None:
            return self.parent.process(op, inputs, attrs)
        if key not in self.seen:
            self.seen[key] = self.parent.process(op, inputs, attrs)
        return self.seen[key]


def simplify(graph: Graph) -> Graph:
    """The same program with fewer equations."""
    return rewrite(graph, Simplify)
