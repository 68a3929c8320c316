"""The transformations that rules of ops with graphs in them ask for (see core.transforms)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from phix.core import context, stack
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike
from phix.core.graph import (
    Constant,
    Equation,
    Graph,
    Variable,
    copied,
    is_effect,
    map_attrs,
    map_entries,
    plain_symbol,
    symbols_of,
    without_effects,
)
from phix.core.later import call_op
from phix.core.meta import MetaTensor
from phix.core.transforms import Split, provide
from phix.interpreters import batch as batching
from phix.interpreters import jet, ranks, stage
from phix.interpreters import jvp as forward
from phix.interpreters import vjp as reverse
from phix.interpreters.equal_calls import attr_key

Function = Callable[..., Sequence[Any]]
Saveable = Callable[[Equation], bool]


class Provided:
    """See :class:`phix.core.transforms.Transforms`."""

    def trace(self, function: Function, metas: Sequence[MetaTensor]) -> tuple[Graph, list[Any]]:
        graph = stage.trace(function, metas)
        closed = tuple(c.variable for c in graph.constants)
        inputs = (*graph.inputs, *closed)
        values = [c.value for c in graph.constants]
        return Graph(inputs, (), graph.equations, graph.outputs), values

    def jvp(self, function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return forward.jvp(function, primals, tangents, instantiate=False)

    def jet(self, function: Function, inputs: Sequence[list[Any]]) -> list[list[Any]]:
        return jet.jet(function, inputs)

    def vjp(self, function: Function, primals: Sequence[Any]) -> tuple[list[Any], Any]:
        outs, pullback = reverse.vjp(function, primals)
        return outs, lambda cotangents: pullback(cotangents, instantiate=False)

    def split(self, *args: Any, **options: Any) -> Split:
        return split(*args, **options)

    def batch(
        self, function: Function, args: Sequence[Any], batched: Sequence[bool], size: DimLike
    ) -> Any:
        return batching.batch_mapped(function, args, batched, size, context.mapped_axis())

    def on_ranks(
        self, function: Function, args: Sequence[Any], varies: Sequence[bool], group: Any
    ) -> Any:
        return ranks.on_ranks(function, args, varies, group)

    def ranked(self, graph: Graph, group: Any) -> tuple[Graph, list[bool]]:
        flags = [group.name in a.meta.varying for a in graph.outputs]
        return ranks.bound(graph, flags, group), flags


@stack.nests
def split(
    graph: Graph,
    active: Sequence[bool],
    invariant: Sequence[bool],
    saveable: Saveable | None = None,
    inside: bool = False,
    given: Sequence[bool] | None = None,
) -> Split:
    """One graph of values and cotangents together, cut where the cotangents come in."""
    count = len(graph.inputs)
    metas = [v.meta for v in graph.inputs]
    cts = [_shown(a.meta, graph) for a in graph.outputs if dt.is_differentiable(a.meta.dtype)]

    def joint(*args: Any) -> list[Any]:
        inputs = args[:count]

        def of_active(*chosen: Any) -> Sequence[Any]:
            supply = iter(chosen)
            return graph(*(next(supply) if a else x for a, x in zip(active, inputs)))

        outs, pull = reverse.vjp(of_active, [x for a, x in zip(active, inputs) if a])
        floats = [dt.is_differentiable(o.dtype) for o in outs]
        made = [o.meta.dims for o in outs if dt.is_differentiable(o.dtype)]
        cts = [*map(_with_dims, args[count:], made)]
        grads = pull(_seeds(cts, floats))
        if given is None:
            return [*outs, *grads]
        less = [ct if g else None for ct, g in zip(cts, given)]
        return [*outs, *grads, *pull(_seeds(less, floats))]

    traced = stage.trace(joint, [*metas, *cts])
    sizes = (count, len(graph.outputs), sum(active))
    cut = _Cut(traced, sizes, invariant, saveable, inside)
    if given is None:
        return cut.split(cut.grads)
    merged, same = _merged(traced)
    less = _Cut(merged, sizes, invariant, saveable, inside)
    return less.fewer_of(cut, same) or cut.split(cut.grads)


def _shown(meta: MetaTensor, graph: Graph) -> MetaTensor:
    """The meta of a cotangent: what sizes that the graph binds come to, a cotangent shows itself,
    for each run of the graph binds others."""
    own = graph.bound_symbols
    dims = [d if own.isdisjoint(dm.symbols(d)) else dm.symbol() for d in meta.dims]
    return meta.with_dims(dims)


def _with_dims(ct: Any, dims: dm.Shape) -> Any:
    """A cotangent with the dims of the output that it is of."""
    return ct if dm.same_shape(ct.meta.dims, dims) else call_op("reshape", ct, attrs=(dims,))


def _seeds(cts: Sequence[Any], floats: Sequence[bool]) -> list[Any]:
    """The cotangents of all outputs, of those of the floats."""
    supply = iter(cts)
    return [next(supply) if is_float else None for is_float in floats]


def _merged(joint: Graph) -> tuple[Graph, dict[Any, Any]]:
    """What both ways back make anew is made once, so that one finds in the other's residuals what
    it needs; and which variable each that is gone equals."""
    known: dict[Any, tuple[Variable, ...]] = {}
    same: dict[Any, Any] = {}
    equations: list[Equation] = []
    for e in joint.equations:
        e = replace(e, inputs=map_entries(lambda a: same.get(a, a), e.inputs))
        if e.op.has_graphs or e.op.binds_dim or is_effect(e):
            equations.append(e)
            continue
        variables = known.setdefault((e.op, e.inputs, attr_key(e.attrs)), e.variables)
        if variables is e.variables:
            equations.append(e)
        else:
            same.update(zip(e.variables, variables))
    outputs = tuple(same.get(a, a) for a in joint.outputs)
    return Graph(joint.inputs, joint.constants, tuple(equations), outputs), same


def _symbols(variable: Variable) -> set[dm.Symbol]:
    return {s for d in variable.meta.dims for s in dm.symbols(d)}


class _Cut:
    """Which equations of the joint graph run forward, and what they keep for the backward."""

    def __init__(
        self,
        joint: Graph,
        sizes: tuple[int, int, int],
        invariant: Sequence[bool],
        saveable: Saveable | None,
        inside: bool,
    ) -> None:
        count, outs, active = sizes
        self.joint = joint
        self.inputs, self.cts = joint.inputs[:count], joint.inputs[count:]
        self.outs, grads = joint.outputs[:outs], joint.outputs[outs:]
        # of all cotangents, and of those that are given
        self.grads, self.fewer = grads[:active], grads[active:]
        binding = (e for e in joint.equations if e.op.binds_dim)
        self.bound = {s for e in binding for s in dm.symbols(e.attrs[0])}
        loose = {v for v, i in zip(self.inputs, invariant) if not i}
        self.late = self.reached(set(self.cts))  # needs cotangents
        self.varying = self.reached(loose)  # cannot be computed again from what is invariant
        if saveable is not None:
            for e in joint.equations:
                if not self.is_late(e) and saveable(e):
                    self.varying.update(e.variables)
        if inside:
            self.varying -= {v for v in self.varying if self.bound & _symbols(v)}

    def reached(self, seeds: set[Any]) -> set[Any]:
        found = set(seeds)
        for e in self.joint.equations:
            if any(a in found for a in e.atoms):
                found.update(e.variables)
        return found

    def is_late(self, equation: Equation) -> bool:
        return any(a in self.late for a in equation.atoms)

    def split(self, grads: Sequence[Any]) -> Split:
        early = [e for e in self.joint.equations if not self.is_late(e)]
        backward, needed = self.settled(grads)
        residuals, kept = self.residuals(backward, needed), self.kept(needed)
        constants: tuple[Constant, ...] = self.joint.constants
        forward = Graph(self.inputs, constants, tuple(early), (*self.outs, *residuals))
        inputs = (*(self.inputs[i] for i in kept), *residuals, *self.cts)
        back = Graph(inputs, constants, tuple(backward), tuple(grads))
        return Split(stage.finish(copied(forward)), stage.finish(copied(back)), kept)

    def kept(self, needed: set[Any]) -> tuple[int, ...]:
        return tuple(i for i, v in enumerate(self.inputs) if v in needed)

    def fewer_of(self, whole: _Cut, same: dict[Any, Any]) -> Split | None:
        """The way back from the cotangents that are given, of what all of them would need; None if
        it needs more."""
        found = whole.split(whole.grads)
        backward, needed = self.settled(self.fewer)
        held = [same.get(v, v) for v in whole.residuals(*whole.settled(whole.grads))]
        own = {*self.residuals(backward, needed), *(self.inputs[i] for i in self.kept(needed))}
        inputs = [*(self.inputs[i] for i in found.kept), *held, *self.cts]
        if not own.issubset(inputs):
            return None
        inputs = [
            Variable(f"unused_{n}", v.meta) if v in inputs[:n] else v for n, v in enumerate(inputs)
        ]
        back = Graph(tuple(inputs), self.joint.constants, tuple(backward), tuple(self.fewer))
        return replace(found, backward=stage.finish(copied(back)))

    def settled(self, grads: Sequence[Any]) -> tuple[list[Equation], set[Any]]:
        """The equations that run backward to these, and all they need."""
        loose: set[Any] = set()
        backward, needed = self.backward(grads, loose)
        while more := self.loose_symbols(backward, needed) - loose:
            loose |= more  # what binds them may need other dims in turn
            backward, needed = self.backward(grads, loose)
        return backward, needed

    def backward(self, grads: Sequence[Any], loose: set[Any]) -> tuple[list[Equation], set[Any]]:
        """The equations that run backward, and all they need; they bind the ``loose`` dims anew."""
        backward: list[Equation] = []
        needed = {a for a in grads if isinstance(a, Variable)}
        for e in reversed(self.joint.equations):
            late = self.is_late(e)
            binds = e.op.binds_dim and not loose.isdisjoint(dm.symbols(e.attrs[0]))
            wanted = any(v in needed for v in e.variables) or (late and is_effect(e))
            again = any(v in needed and v not in self.varying for v in e.variables)
            if binds or (wanted and (late or again)):
                if e.op.has_graphs and not late:  # the forward has done what it does besides
                    e = replace(e, attrs=map_attrs(without_effects, e.attrs))
                backward.append(e)
                needed.update(a for a in e.atoms if isinstance(a, Variable))
        backward.reverse()
        return backward, needed

    def loose_symbols(self, backward: list[Equation], needed: set[Any]) -> set[Any]:
        """Dims that the backward uses, bound by an equation, and not to be read off an input."""
        if not self.bound:
            return set()
        used = {s for e in backward for s in symbols_of(e)}
        read = [*self.cts, *self.residuals(backward, needed)]
        read += [v for v in self.inputs if v in needed]
        return (used & self.bound) - {plain_symbol(d) for v in read for d in v.meta.dims}

    def residuals(self, backward: list[Equation], needed: set[Any]) -> list[Variable]:
        made = {v for e in backward for v in e.variables} | set(self.cts)
        made.update(c.variable for c in self.joint.constants)
        made.update(self.inputs)
        return [
            v for e in self.joint.equations for v in e.variables if v in needed and v not in made
        ]


provide(Provided())
