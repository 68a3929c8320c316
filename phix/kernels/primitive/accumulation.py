"""Scatters that need not pass over a whole array. Backward passes of indexing are full of them.

``x + put(zeros, i, v, "add")`` costs as much as ``x``; ``put(x, i, v, "add")``, in place, only as
much as ``v``. And of ``put(x, i, v, "assign")`` that is only read at the same ``i``, nothing of
``x`` is read, so it need not be copied.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from phix.core import dims as dm
from phix.core import graph as gr
from phix.core import passes
from phix.core.graph import Equation, Graph, Variable
from phix.core.rules import get_op

_SCATTERS = ("put_along_axis", "scatter_nd_add", "index_put")


def accumulated(graph: Graph) -> Graph:
    """The graph with such sums rewritten; the zeros and scatters they leave unused are dropped."""
    has_any = any(e.op.name in _SCATTERS for e in graph.equations)
    if not has_any or not passes.is_on("scatter_in_place"):
        return graph
    made: dict[Any, Equation] = {}
    uses: Counter[Any] = Counter(graph.outputs)
    for equation in graph.equations:
        uses.update(gr.flat(equation.inputs))
    result: list[Equation] = []
    unused: set[Equation] = set()
    for equation in graph.equations:
        found = _rewritten(equation, made, uses) if equation.op.name == "add" else None
        replacing, replaced = found if found is not None else ([equation], [])
        unused.update(replaced)
        result += replacing
        for e in replacing:
            made.update((v, e) for v in gr.flat(e.outputs))
    kept = tuple(e for e in result if e not in unused)
    return Graph(graph.inputs, graph.constants, kept, graph.outputs)


def _rewritten(
    add: Equation, made: dict[Any, Equation], uses: Counter[Any]
) -> tuple[list[Equation], list[Equation]] | None:
    """The equations for a sum, and those it leaves unused; None if it is of another form."""
    for k in (1, 0):
        x, term = add.inputs[1 - k], add.inputs[k]
        scatter, views = made.get(term), []
        while scatter is not None and scatter.op.name == "reshape" and uses[term] == 1:
            views.append(scatter)
            term = scatter.inputs[0]
            scatter = made.get(term)
        if scatter is None or uses[term] != 1 or not _adds_to_zeros(scatter, made):
            continue
        (out,) = add.outputs
        assert isinstance(out, Variable) and isinstance(term, Variable)
        if isinstance(x, Variable) and dm.same_shape(x.meta.dims, out.meta.dims):
            dims = add.inputs[k].meta.dims  # type: ignore[union-attr]
            if dm.same_shape(dims, out.meta.dims) and x.meta.dtype == term.meta.dtype:
                return _scattered(x, scatter, out, bool(views)), [scatter, *views]
    return None


def _scattered(x: Variable, scatter: Equation, out: Variable, is_viewed: bool) -> list[Equation]:
    """``out = scatter into x``, in the shape the scatter has."""
    (inner,) = scatter.outputs
    assert isinstance(inner, Variable)
    if not is_viewed:
        inputs = (x, *scatter.inputs[1:])
        return [Equation(scatter.op, inputs, scatter.attrs, (out,), scatter.source)]
    reshape = get_op("reshape")
    flat_x, flat_out = (Variable(f"{v.name}_", inner.meta) for v in (x, out))
    return [
        Equation(reshape, (x,), (inner.meta.dims,), (flat_x,), scatter.source),
        Equation(
            scatter.op, (flat_x, *scatter.inputs[1:]), scatter.attrs, (flat_out,), scatter.source
        ),
        Equation(reshape, (flat_out,), (out.meta.dims,), (out,), scatter.source),
    ]


def _adds_to_zeros(scatter: Equation, made: dict[Any, Equation]) -> bool:
    attrs = dict(zip(scatter.op.attr_names, scatter.attrs))
    adds = {
        "put_along_axis": lambda: attrs["reduce"] == "add" and attrs["include_self"],
        "scatter_nd_add": lambda: True,
        "index_put": lambda: attrs["accumulate"],
    }.get(scatter.op.name)
    if adds is None or not adds():
        return False
    zeros = made.get(scatter.inputs[0])
    while zeros is not None and zeros.op.name in ("reshape", "expand"):
        zeros = made.get(zeros.inputs[0])
    if zeros is None or zeros.op.name != "full":
        return False
    value = dict(zip(zeros.op.attr_names, zeros.attrs)).get("value")
    return isinstance(value, (bool, int, float, complex)) and value == 0


def covered(graph: Graph) -> set[Equation]:
    """The assigning scatters of ``graph`` that are only read where they were written."""
    if not passes.is_on("scatter_in_place"):
        return set()
    readers: dict[Any, list[Equation | None]] = {}
    for equation in graph.equations:
        for atom in gr.flat(equation.inputs):
            readers.setdefault(atom, []).append(equation)
    for atom in graph.outputs:
        readers.setdefault(atom, []).append(None)
    return {
        e
        for e in graph.equations
        if e.op.name == "put_along_axis"
        and _attribute(e, "reduce") == "assign"
        and all(_reads_same_places(e, r) for r in readers.get(e.outputs[0], []))
    }


def _reads_same_places(put: Equation, reader: Equation | None) -> bool:
    return (
        reader is not None
        and reader.op.name == "take_along_axis"
        and reader.inputs[0] is put.outputs[0]
        and reader.inputs[1] is put.inputs[1]
        and _attribute(reader, "axis") == _attribute(put, "axis")
    )


def _attribute(equation: Equation, name: str) -> Any:
    return equation.attrs[equation.op.attr_names.index(name)]
