"""What may differ along the axes of a mesh: for each value the axes along which it varies.

The meta of a value has them (``MetaTensor.varying``). A result varies along the axes that any of
its inputs varies along; ops that join the parts along an axis say in their entry whether all get
the same. Loops are typed by what their bodies give back, choices by what chooses, too.

Known while a function runs on the parts of a mesh (``context.tracked``), and so in the graphs that
are written down meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from phix.core.context import context
from phix.core.errors import ArgumentError
from phix.core.graph import Constant, Graph, flat, graphs_in, map_attrs, map_entries
from phix.core.later import call_op
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.transforms import transforms

Axes = frozenset[str]
_NONE: Axes = frozenset()


def union(values: Iterable[Any]) -> Axes:
    """The axes along which any of the values varies."""
    return _NONE.union(*(v.meta.varying for v in values if v is not None))


def along(value: Any, axes: Axes) -> Any:
    """The value as one of each part's own along these axes."""
    if value is None:
        return None
    for axis in sorted(axes - value.meta.varying):
        value = call_op("pvary", value, attrs=(axis,))
    return value


def alike(outs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of an op, varying along the same axes, as one rule takes the cotangents of all:
    one that is summed over the parts already would be summed again with those that are not."""
    if len(outs) == 1 or not context.tracked:
        return outs
    axes = union(flat(outs))
    return map_entries(lambda x: along(x, axes), outs) if axes else outs


def check_tangent(tangent: MetaTensor, value: MetaTensor, name: str) -> None:
    """A derivative along a direction of each part's own is that at a value of each part's own: of
    one that is the same on all of them, gradients inside would be sums over the parts.

    Raises:
        ArgumentError: the tangent varies along an axis of a mesh, and its value does not.
    """
    for axis in sorted(tangent.varying - value.varying):
        raise ArgumentError(
            f"{name}: a tangent differs along the axis {axis!r} of the mesh, and the value {value} "
            f"is the same along it; for a direction of each part's own take it at "
            f"phix.pvary(value, {axis!r}), for all of them on all parts gather the tangents first "
            f"(phix.all_gather)"
        )


def typed(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...], outs: Any) -> Any:
    """The metas that ``op`` gives, with the axes along which each varies."""
    found = union(flat(metas))
    if op.has_graphs:
        return _typed_by_graphs(op, metas, attrs, outs)
    if "collective" in op.traits:
        axis = op.attr("axis_name", attrs)
        if axis in context.tracked:
            found = found - {axis} if "uniform" in op.traits else found | {axis}
    if not found and not union(flat(outs)):
        return outs
    return map_entries(lambda m: m if m is None else m.with_varying(found), outs)


# -- ops with graphs in them ---------------------------------------------------------------------
def _control(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Axes:
    """The axes along which differs what decides how often, or which, graphs run."""
    single = (x for arg, x in zip(op.inputs, inputs) if not arg.is_list)
    tests = (a for g in _tests(op, attrs) for a in g.outputs)
    return union(single) | union(tests)


def _tests(op: Op, attrs: tuple[Any, ...]) -> list[Graph]:
    return [op.attr("cond", attrs)] if "cond" in op.attr_names else []


def _bodies(op: Op, attrs: tuple[Any, ...]) -> list[Graph]:
    tests = _tests(op, attrs)
    return [g for g in graphs_in(attrs) if not any(g is t for t in tests)]


def carried(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the op carries from one run of its graph to the next."""
    entries = (x for arg, x in zip(op.inputs, inputs) if arg.name == "carry")
    return next(entries, ())


def _typed_by_graphs(op: Op, metas: Any, attrs: Any, outs: Any) -> Any:
    control = _control(op, metas, attrs)
    bodies = _bodies(op, attrs)
    before = [m.varying for m in carried(op, metas)]
    supply = iter(range(len(flat(outs))))

    def one(meta: MetaTensor) -> MetaTensor:
        number = next(supply)
        given = [g.outputs[number] for g in bodies if number < len(g.outputs)]
        start = before[number] if number < len(before) else _NONE
        return meta.with_varying(control | union(given) | start)

    return map_entries(one, outs)


def prepared(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The attributes with graphs whose inputs vary at least as what they are given does.

    Where parts go different ways, all that the graphs are given is each part's own, so that the
    cotangents of what is the same are summed outside, where every part comes by.

    Raises:
        ArgumentError: parts along an axis would join a collective of the graphs, or not, as each
            decides.
    """
    lists = [x.meta.varying for a, e in zip(op.inputs, inputs) if a.is_list for x in e or ()]
    for graph in graphs_in(attrs):  # those of one call are all for the same inputs
        own = graph.inputs[len(graph.inputs) - len(lists) :]
        lists = [a | v.meta.varying for a, v in zip(lists, own)]
    control = _control(op, inputs, attrs)
    count = len(carried(op, inputs))
    while True:
        lists = [a | control for a in lists]
        attrs = map_attrs(partial(_retyped, lists=lists, control=control), attrs)
        wider = list(lists)
        for graph in _bodies(op, attrs) if count else ():
            for k in range(count):
                wider[k] |= graph.outputs[k].meta.varying | control
        control = _control(op, inputs, attrs) | control
        if wider == lists and all(control <= a for a in lists):
            break
        lists = wider
    _check_control(op, attrs, control)
    return _with_results_alike(op, attrs, [*lists[:count]], control)


def _with_results_alike(
    op: Op, attrs: tuple[Any, ...], start: Sequence[Axes], control: Axes
) -> tuple[Any, ...]:
    """Graphs whose results vary as those of the op do, so that their cotangents do."""
    bodies = _bodies(op, attrs)
    count = max((len(g.outputs) for g in bodies), default=0)
    wanted = [
        control | union(g.outputs[k] for g in bodies) | (start[k] if k < len(start) else _NONE)
        for k in range(count)
    ]

    def alike(graph: Graph) -> Graph:
        if not any(graph is g for g in bodies):
            return graph
        missing = [sorted(w - v.meta.varying) for v, w in zip(graph.outputs, wanted)]
        return _traced(graph, [v.meta for v in graph.inputs], missing) if any(missing) else graph

    return map_attrs(alike, attrs)


def _retyped(graph: Graph, lists: Sequence[Axes], control: Axes) -> Graph:
    """The graph for inputs that vary so; those before the lists are what control gives."""
    own = [control] * (len(graph.inputs) - len(lists))
    wanted = [v.meta.varying | a for v, a in zip(graph.inputs, [*own, *lists])]
    if all(v.meta.varying == w for v, w in zip(graph.inputs, wanted)):
        return graph
    metas = [v.meta.with_varying(w) for v, w in zip(graph.inputs, wanted)]
    return _traced(graph, metas, [[]] * len(graph.outputs))


def _traced(graph: Graph, metas: Sequence[MetaTensor], missing: Sequence[Sequence[str]]) -> Graph:
    """The graph for inputs of these metas, its results made each part's own along some axes."""
    key = ("varying", *(m.varying for m in metas), *map(tuple, missing))
    found: Graph | None = graph.memo.get(key)
    if found is None:

        def run(*inputs: Any) -> list[Any]:
            outs = list(graph(*inputs))
            for k, axes in enumerate(missing):
                for axis in axes:
                    outs[k] = call_op("pvary", outs[k], attrs=(axis,))
            return outs

        made, closed = transforms().trace(run, metas)
        count = len(graph.inputs)
        constants = tuple(map(Constant, made.inputs[count:], closed))
        found = Graph(made.inputs[:count], constants, made.equations, made.outputs)
        graph.memo[key] = found
    return found


def _check_control(op: Op, attrs: tuple[Any, ...], control: Axes) -> None:
    for graph in graphs_in(attrs):
        wrong = sorted(graph.joined_axes & control)
        if wrong:
            raise ArgumentError(
                f"{op.name}: what decides which graph runs, or how often, differs along the axis "
                f"{wrong[0]!r}, and a collective over that axis stands inside: some parts would "
                f"wait for others that never come; decide by a value that is the same along it "
                f"(phix.pmax(pred, {wrong[0]!r})), or take the collective out"
            )
