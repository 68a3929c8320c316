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
    plain_symbol,
    symbols_of,
    without_effects,
)
from phix.core.meta import MetaTensor
from phix.core.transforms import Split, provide
from phix.interpreters import batch as batching
from phix.interpreters import jet, ranks, stage
from phix.interpreters import jvp as forward
from phix.interpreters import vjp as reverse

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
) -> Split:
    """One graph of values and cotangents together, cut where the cotangents come in."""
    count = len(graph.inputs)
    metas = [v.meta for v in graph.inputs]
    cts = [a.meta for a in graph.outputs if dt.is_differentiable(a.meta.dtype)]

    def joint(*args: Any) -> list[Any]:
        inputs, given = args[:count], iter(args[count:])

        def of_active(*chosen: Any) -> Sequence[Any]:
            supply = iter(chosen)
            return graph(*(next(supply) if a else x for a, x in zip(active, inputs)))

        outs, pull = reverse.vjp(of_active, [x for a, x in zip(active, inputs) if a])
        seeds = [next(given) if dt.is_differentiable(o.dtype) else None for o in outs]
        return [*outs, *pull(seeds)]

    traced = stage.trace(joint, [*metas, *cts])
    cut = _Cut(traced, count, len(graph.outputs), invariant, saveable)
    if inside:
        cut.varying -= {v for v in cut.varying if cut.bound & _symbols(v)}
    return cut.split()


def _symbols(variable: Variable) -> set[dm.Symbol]:
    return {s for d in variable.meta.dims for s in dm.symbols(d)}


class _Cut:
    """Which equations of the joint graph run forward, and what they keep for the backward."""

    def __init__(
        self,
        joint: Graph,
        count: int,
        outs: int,
        invariant: Sequence[bool],
        saveable: Saveable | None,
    ) -> None:
        self.joint = joint
        self.inputs, self.cts = joint.inputs[:count], joint.inputs[count:]
        self.outs, self.grads = joint.outputs[:outs], joint.outputs[outs:]
        binding = (e for e in joint.equations if e.op.binds_dim)
        self.bound = {s for e in binding for s in dm.symbols(e.attrs[0])}
        loose = {v for v, i in zip(self.inputs, invariant) if not i}
        self.late = self.reached(set(self.cts))  # needs cotangents
        self.varying = self.reached(loose)  # cannot be computed again from what is invariant
        if saveable is not None:
            for e in joint.equations:
                if not self.is_late(e) and saveable(e):
                    self.varying.update(e.variables)

    def reached(self, seeds: set[Any]) -> set[Any]:
        found = set(seeds)
        for e in self.joint.equations:
            if any(a in found for a in e.atoms):
                found.update(e.variables)
        return found

    def is_late(self, equation: Equation) -> bool:
        return any(a in self.late for a in equation.atoms)

    def split(self) -> Split:
        early = [e for e in self.joint.equations if not self.is_late(e)]
        loose: set[Any] = set()
        backward, needed = self.backward(loose)
        while more := self.loose_symbols(backward, needed) - loose:
            loose |= more  # what binds them may need other dims in turn
            backward, needed = self.backward(loose)
        residuals = self.residuals(backward, needed)
        kept = tuple(i for i, v in enumerate(self.inputs) if v in needed)
        constants: tuple[Constant, ...] = self.joint.constants
        forward = Graph(self.inputs, constants, tuple(early), (*self.outs, *residuals))
        inputs = (*(self.inputs[i] for i in kept), *residuals, *self.cts)
        back = Graph(inputs, constants, tuple(backward), self.grads)
        return Split(stage.finish(copied(forward)), stage.finish(copied(back)), kept)

    def backward(self, loose: set[Any]) -> tuple[list[Equation], set[Any]]:
        """The equations that run backward, and all they need; they bind the ``loose`` dims anew."""
        backward: list[Equation] = []
        needed = {a for a in self.grads if isinstance(a, Variable)}
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
