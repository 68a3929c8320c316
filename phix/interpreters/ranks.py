"""The interpreter of one axis of a mesh whose parts lie in processes: each runs its own.

A tracer stands for a value that may differ between the ranks of the group; all else is known to be
the same on them. Ops run in the parent on this rank's part; collectives become steps between the
ranks. Where a value that is the same everywhere meets one that is not, that is written down
(``rank_vary``), so that derivatives taken outside find their way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import context
from phix.core import dtypes as dt
from phix.core.dispatch import bind
from phix.core.graph import Constant, Graph, flat, graphs_in, map_attrs, map_entries, named_axes
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.rules import OPS
from phix.core.tensor import TensorBase, Tracer, ValueTracer
from phix.core.transforms import transforms
from phix.interpreters.infer_meta import infer


class RankTracer(ValueTracer):
    """This rank's part of a value that may differ between the ranks."""

    __slots__ = ()

    def __init__(self, interpreter: Interpreter, value: TensorBase) -> None:
        self.interpreter = interpreter
        self.value = value

    @property
    def meta(self) -> MetaTensor:
        meta = self.value.meta
        return meta.with_varying(meta.varying | {self.interpreter.axis_name or ""})


class Ranks(Interpreter):
    """Ops on its tracers run in the parent; those over its axis join the ranks of ``group``."""

    name = "spmd"

    def __init__(self, parent: Interpreter, group: Any) -> None:
        super().__init__(parent)
        self.axis_name = group.name
        self.size = group.size
        self.group = group

    def owns(self, value: Any) -> bool:
        return isinstance(value, RankTracer) and value.interpreter is self

    def lower(self, value: Any) -> Any:
        return value.value if self.owns(value) else value

    def wrap(self, value: Any, varies: Any = True) -> Any:
        if isinstance(value, (tuple, list)):
            flags = varies if isinstance(varies, (tuple, list)) else [varies] * len(value)
            return tuple(map(self.wrap, value, flags))
        return RankTracer(self, value) if varies and value is not None else value

    def wide(self, value: Any) -> Any:
        """The value below, as one that differs between the ranks."""
        if self.owns(value):
            return value.value
        return vary(value, self.group)

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        parent = self.parent
        assert parent is not None
        joins = self.group.name in named_axes(op, attrs)
        if not joins and not any(map(self.owns, flat(inputs))):
            with context.active(parent):
                return parent.process(op, inputs, attrs)
        if joins and op.decomposition is not None and not op.has_graphs:
            outs = op.decomposition(*op.merge(inputs, attrs))
            return outs if op.single_output else tuple(outs)
        if op.rank_rule is not None and (joins or op.has_graphs):
            values = map_entries(self.lower, inputs)
            with context.active(parent):
                varies = map_entries(self.owns, inputs)
                out, flags = op.rank_rule(self.group, varies, *op.merge(values, attrs))
            return self.wrap(out, flags)
        if op.has_graphs:
            return self.by_graphs(op, inputs, attrs)
        with context.active(parent):
            return self.wrap(parent.process(op, map_entries(self.wide, inputs), attrs))

    def by_graphs(self, op: Op, inputs: Any, attrs: Any) -> Any:
        """An op with graphs, which become what they are on this rank."""
        assert self.parent is not None
        outs = infer(op, map_entries(lambda x: x.meta, inputs), attrs)
        wanted = [self.axis_name in m.varying for m in flat(outs)]
        graphs = map_attrs(lambda g: bound(g, wanted, self.group), attrs)
        first = next(graphs_in(attrs))
        lists = sum(len(x) for x in inputs if isinstance(x, tuple))
        taken = iter(first.inputs[len(first.inputs) - lists :])

        def one(entry: Any) -> Any:
            if not isinstance(entry, tuple):
                return self.lower(entry)
            return tuple(
                self.wide(x) if self.axis_name in next(taken).meta.varying else self.lower(x)
                for x in entry
            )

        with context.active(self.parent):
            found = self.parent.process(op, tuple(map(one, inputs)), graphs)
        flags = iter(wanted)
        if not isinstance(found, tuple):
            return self.wrap(found, next(flags))
        return map_entries(lambda x: self.wrap(x, next(flags)), found)


def bound(graph: Graph, wanted: Sequence[bool], group: Any) -> Graph:
    """The graph on this rank. ``wanted``: which outputs are to be taken for such that differ
    between the ranks; those of a test, of which there is another number, are as they are."""
    is_test = len(wanted) != len(graph.outputs)
    key = ("ranks", group, () if is_test else tuple(wanted))
    found: Graph | None = graph.memo.get(key)
    if found is not None:
        return found
    varies = [group.name in v.meta.varying for v in graph.inputs]
    metas = [v.meta.with_varying(v.meta.varying - {group.name}) for v in graph.inputs]

    def run(*args: Any) -> list[Any]:
        outs, owned = on_ranks(graph, args, varies, group)
        if is_test:
            return outs
        return [vary(o, group) if w and not own else o for o, w, own in zip(outs, wanted, owned)]

    made, closed = transforms().trace(run, metas)
    count = len(metas)
    constants = tuple(map(Constant, made.inputs[count:], closed))
    found = Graph(made.inputs[:count], constants, made.equations, made.outputs)
    if not any(isinstance(c, Tracer) for c in closed):
        graph.memo[key] = found
    return found


def vary(value: Any, group: Any) -> Any:
    """A value that is the same on all ranks, for each to go on with by itself. Of tensors at hand
    nothing is differentiated."""
    if not isinstance(value, Tracer) or not dt.is_differentiable(value.dtype) or group.size == 1:
        return value
    return bind(OPS["rank_vary"], (value,), (group,))


def on_ranks(
    function: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    varies: Sequence[bool],
    group: Any,
) -> tuple[list[Any], list[bool]]:
    """``function`` on this rank's parts, and which of its outputs may differ between the ranks."""
    interpreter = Ranks(context.current(), group)
    with context.transformation(interpreter), context.tracking((group.name,)):
        outs = list(function(*map(interpreter.wrap, args, varies)))
        return [interpreter.lower(o) for o in outs], [interpreter.owns(o) for o in outs]


__all__ = ["RankTracer", "Ranks", "bound", "on_ranks", "vary"]
