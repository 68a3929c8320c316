"""Updates that need not pass over a whole array. Backward passes of indexing are full of them.

``x + put(zeros, i, v, "add")`` costs as much as ``x``; ``put(x, i, v, "add")``, in place, only as
much as ``v``. A slice's gradient is such a sum too: ``v`` with zeros around it. And of
``put(x, i, v, "assign")`` that is only read at the same ``i``, nothing of ``x`` is read, so it
need not be copied. A put at one place of each row of a constant, as the gradient of the classes'
log-probabilities is one, is a choice for each element, so no array need be filled first. So is
one element padded to a row, as the gradient of ``x[:, 0]`` is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from phix.core import dims as dm
from phix.core import graph as gr
from phix.core import rewrites
from phix.core.graph import Equation, Graph, Variable
from phix.core.rules import get_op
from phix.kernels.lowering.registry import RULES

# Each update: whether it adds to what is there, by its attributes.
_ADDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "put_along_axis": lambda attrs: attrs["reduce"] == "add" and attrs["include_self"],
    "scatter_nd_add": lambda attrs: True,
    "index_put": lambda attrs: attrs["accumulate"],
    "slice_put": lambda attrs: True,  # in place of a zero or added to it: the same
    "pad": lambda attrs: _is_zero(attrs["pad_value"]) and all(map(_grows, attrs["paddings"])),
}


def _is_zero(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) and value == 0


def _grows(padding: dm.DimLike) -> bool:
    """Whether a padding adds elements; an unknown one never cuts."""
    return not isinstance(padding, int) or padding >= 0


def accumulated(graph: Graph) -> Graph:
    """The graph with such sums rewritten; the zeros and scatters they leave unused are dropped."""
    has_any = any(e.op.name in _ADDS for e in graph.equations)
    if not has_any or not rewrites.is_on("scatter_in_place"):
        return graph
    made: dict[Any, Equation] = {}
    uses: Counter[Any] = Counter(graph.outputs)
    for equation in graph.equations:
        uses.update(equation.atoms)
    result: list[Equation] = []
    unused: set[Equation] = set()
    for equation in graph.equations:
        found = _rewritten(equation, made, uses) if equation.op.name == "add" else None
        replacing, replaced = found if found is not None else ([equation], [])
        unused.update(replaced)
        result += replacing
        for e in replacing:
            made.update((v, e) for v in e.variables)
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
        return [_into(x, scatter, out)]
    reshape = get_op("reshape")
    flat_x, flat_out = (Variable(f"{v.name}_", inner.meta) for v in (x, out))
    return [
        Equation(reshape, (x,), (inner.meta.dims,), (flat_x,), scatter.source),
        _into(flat_x, scatter, flat_out),
        Equation(reshape, (flat_out,), (out.meta.dims,), (out,), scatter.source),
    ]


def _into(x: Variable, scatter: Equation, out: Variable) -> Equation:
    op, attrs, values = scatter.op, scatter.attrs, scatter.inputs[1:]
    if op.name == "slice_put":
        attrs = (*attrs[:-1], True)
    elif op.name == "pad":
        (value,) = scatter.inputs
        op, values = get_op("slice_put"), (value,)
        starts = attrs[0][::2]
        ends = tuple(p + d for p, d in zip(starts, value.meta.dims))  # type: ignore[union-attr]
        rank = len(ends)
        attrs = (tuple(range(rank)), starts, ends, (1,) * rank, True)
    return Equation(op, (x, *values), attrs, (out,), scatter.source)


def _adds_to_zeros(scatter: Equation, made: dict[Any, Equation]) -> bool:
    adds = _ADDS.get(scatter.op.name)
    if adds is None or not adds(_attributes(scatter)):
        return False
    if scatter.op.name == "pad":
        return True
    zeros = _constant(scatter.inputs[0], made)
    return zeros is not None and _is_zero(_attributes(zeros).get("value"))


def _constant(atom: Any, made: dict[Any, Equation]) -> Equation | None:
    """What fills all of ``atom`` with one value, if something does."""
    source = made.get(atom)
    while source is not None and source.op.name in ("reshape", "expand"):
        source = made.get(source.inputs[0])
    return source if source is not None and source.op.name == "full" else None


def chosen(graph: Graph) -> set[Equation]:
    """The puts of ``graph`` at one place of each row of a constant, and such paddings."""
    if not rewrites.is_on("put_as_choice"):
        return set()
    found = {e for e in graph.equations if e.op.name in _ONE_A_ROW and _ONE_A_ROW[e.op.name](e)}
    if not found:
        return found
    made = {v: e for e in graph.equations for v in e.variables}
    whole = [e.inputs for e in graph.equations if not _reads_elements(e)]
    has_memory = set(gr.flat((*whole, *graph.outputs)))  # a padding fills it at once
    pads = {e for e in found if e.op.name == "pad"}
    puts = {e for e in found - pads if _constant(e.inputs[0], made) is not None}
    return puts | {e for e in pads if e.outputs[0] not in has_memory}


def _pads_one(pad: Equation) -> bool:
    """Whether one element is all of a row along the last axis, and no other axis is padded."""
    (value,), paddings = pad.inputs, pad.attrs[0]
    dims = value.meta.dims  # type: ignore[union-attr]
    is_last = all(map(dm.is_zero, paddings[:-2])) and all(map(_grows, paddings[-2:]))
    return bool(dims) and dm.is_one(dims[-1]) and is_last


def _reads_elements(equation: Equation) -> bool:
    rule = RULES.get(equation.op.name)
    return rule is None or rule.kind in ("pointwise", "reduce")


def _is_one_a_row(put: Equation) -> bool:
    of_put = _attributes(put)
    if of_put["reduce"] == "mean":
        return False
    into, indices = (atom.meta.dims for atom in put.inputs[:2])  # type: ignore[union-attr]
    row = tuple(1 if k == of_put["axis"] else d for k, d in enumerate(into))
    return dm.same_shape(indices, row)


# Ops that may put one value into each row, and of which equations they do.
_ONE_A_ROW: dict[str, Callable[[Equation], bool]] = {
    "put_along_axis": _is_one_a_row,
    "pad": _pads_one,
}


def covered(graph: Graph) -> set[Equation]:
    """The assigning scatters of ``graph`` that are only read where they were written."""
    if not rewrites.is_on("scatter_in_place"):
        return set()
    puts = [
        e for e in graph.equations if e.op.name in _ASSIGNS and _ASSIGNS[e.op.name](_attributes(e))
    ]
    if not puts:
        return set()
    readers: dict[Any, list[Equation | None]] = {}
    for equation in graph.equations:
        for atom in equation.atoms:
            readers.setdefault(atom, []).append(equation)
    for atom in graph.outputs:
        readers.setdefault(atom, []).append(None)
    return {e for e in puts if all(_reads_same_places(e, r) for r in readers.get(e.outputs[0], []))}


_ASSIGNS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "put_along_axis": lambda attrs: attrs["reduce"] == "assign",
    "index_put": lambda attrs: not attrs["accumulate"],
}
# put -> the op that reads at an index tensor as it writes
_READERS = {"put_along_axis": "take_along_axis", "index_put": "gather"}


def _reads_same_places(put: Equation, reader: Equation | None) -> bool:
    if reader is None or reader.op.name != _READERS[put.op.name]:
        return False
    of_put, axis = _attributes(put), _attributes(reader)["axis"]
    where = put.inputs[1]
    axes, indices = (
        (of_put["axes"], where) if isinstance(where, tuple) else ((of_put["axis"],), (where,))
    )
    return reader.inputs[0] is put.outputs[0] and reader.inputs[1:] == indices and axes == (axis,)


def _attributes(equation: Equation) -> dict[str, Any]:
    return dict(zip(equation.op.attr_names, equation.attrs))
