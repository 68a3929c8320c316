"""What a graph over several places costs: each segment by its engine, and the copies between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from phix.core import dims as dm
from phix.core.analysis import CostAnalysis, HeldVariable, Holder, MemoryAnalysis
from phix.core.dims import Symbol
from phix.core.engines import Explanation, Uncounted, engine
from phix.core.errors import UnknownDimError
from phix.core.graph import Variable, flat, graphs_in, substitute_attrs
from phix.core.places import Place
from phix.kernels.several_places.segments import (
    Copy,
    Crossing,
    Mixed,
    Segment,
    SegmentsProgram,
    variable_place,
)

_NOTHING = CostAnalysis(0, 0, 0, 0)
Sizes = Mapping[Symbol, int]


class SegmentsExplanation:
    """See :class:`phix.core.engines.Explanation`."""

    def __init__(self, program: SegmentsProgram) -> None:
        self.program = program
        equations = program.graph.equations
        self.sources = {v: e.source for e in equations for v in flat(e.outputs)}
        self.explained: dict[Any, Explanation | str] = {}

    @property
    def report(self) -> str:
        """The steps, a line each."""
        return self.program.sections["segments"]

    def fault(self, inputs: Sequence[Any], donated: Sequence[int] = ()) -> tuple[str, str] | None:
        """None: the loops are those of the places."""
        return None

    def held(self, sizes: Sizes) -> tuple[HeldVariable, ...]:
        """None: what each place holds is planned part by part."""
        return ()

    def cost(self, sizes: Sizes) -> CostAnalysis:
        """The work of one run, in sum and for each place."""
        found: dict[Place, CostAnalysis] = {}
        for step in self.program.steps:
            for place, cost in self._costs(step, sizes):
                found[place] = _sum([found.get(place, _NOTHING), cost])
        places = tuple(sorted(found.items(), key=lambda item: str(item[0])))
        return replace(_sum(cost for _, cost in places), places=places)

    def _costs(self, step: Any, sizes: Sizes) -> Iterable[tuple[Place, CostAnalysis]]:
        """What a step costs, by place."""
        if isinstance(step, Copy):
            count = _size(step.target, sizes)
            yield variable_place(step.source), replace(_NOTHING, bytes_read=count)
            yield step.place, replace(_NOTHING, bytes_written=count)
        elif isinstance(step, Crossing):
            note = f"what the kernel of {step.equation.op.name} does"
            yield step.ctx.place, replace(_NOTHING, uncounted=(note,))
        elif isinstance(step, Mixed):
            name = step.equation.op.name
            note = f"turns of {name} beyond the first, and branches of it that are not taken"
            yield step.ctx.place, replace(_NOTHING, uncounted=(note,))
            for graph in graphs_in(step.equation.attrs):
                yield from self._inner(graph, step.ctx.place).cost(sizes).places
        else:
            explained = self._explain(step, sizes)
            if isinstance(explained, str):
                note = f"what runs on {step.place}: {explained}"
                yield step.place, replace(_NOTHING, uncounted=(note,))
            else:
                yield step.place, explained.cost(sizes)

    def _inner(self, graph: Any, place: Place) -> SegmentsExplanation:
        return SegmentsExplanation(SegmentsProgram(graph, place))

    def _explain(self, step: Segment, sizes: Sizes) -> Explanation | str:
        """A segment as its engine explains it, else why it cannot."""
        known = {s: sizes[s] for s in step.missing if s in sizes}
        key = (id(step), *known.values())
        if key not in self.explained:
            (graph,) = substitute_attrs((step.graph,), known)
            try:
                found = engine(step.place.kind).explain(graph, (True,) * len(step.reads))
                why = found.why if isinstance(found, Uncounted) else None
            except UnknownDimError:
                why = "its sizes depend on the data"
            self.explained[key] = why or found
        return self.explained[key]

    # -- memory --------------------------------------------------------------------------------
    def memory(self, sizes: Sizes) -> MemoryAnalysis:
        """The memory of one run, in sum and for each place."""
        graph, program = self.program.graph, self.program
        outputs = [a for a in graph.outputs if isinstance(a, Variable)]
        constants = [c.variable for c in graph.constants]
        made = [v for step in program.steps for v in step.gives]
        homes = {variable_place(v) for v in (*graph.inputs, *outputs, *constants, *made)}
        parts = (graph.inputs, outputs, constants)
        found = [(place, self._at(place, parts, sizes)) for place in sorted(homes, key=str)]
        every = [analysis for _, analysis in found]
        held = sorted((h for m in every for h in m.holders), key=lambda h: -h.size_in_bytes)
        return MemoryAnalysis(
            sum(m.argument_size_in_bytes for m in every),
            sum(m.output_size_in_bytes for m in every),
            sum(m.constant_size_in_bytes for m in every),
            sum(m.temp_size_in_bytes for m in every),
            tuple(held),
            tuple(dict.fromkeys(note for m in every for note in m.uncounted)),
            tuple(found),
        )

    def _at(self, place: Place, parts: Iterable[Iterable[Variable]], sizes: Sizes) -> Any:
        """The memory on one place, of the arguments, outputs and constants that are ``parts``."""
        mine = [[v for v in part if _on(place)(v)] for part in parts]
        temps, holders, notes = self._temps(place, sizes)
        sums = (sum(_bytes(v, sizes, notes) for v in part) for part in mine)
        holders += [self._holder(v, sizes, notes) for v in mine[1]]
        holders.sort(key=lambda h: (-h.size_in_bytes, h.name))
        argument, output, constant = sums
        return MemoryAnalysis(
            argument, output, constant, temps, tuple(holders), tuple(dict.fromkeys(notes))
        )

    def _temps(self, place: Place, sizes: Sizes) -> tuple[int, list[Holder], list[str]]:
        """The most that steps hold on a place at one time besides what goes in and comes out, what
        that is, and what is not known of it."""
        program, notes = self.program, list[str]()
        outputs = set(program.graph.outputs)
        alive: dict[Variable, None] = {}
        best: tuple[int, list[Holder]] = (0, [])
        for step, dead in zip(program.steps, program.dead):
            mine = (v for v in step.gives if v not in outputs)
            alive.update(dict.fromkeys(filter(_on(place), mine)))
            holders = [self._holder(v, sizes, notes) for v in alive]
            inner = self._inside(step, place, sizes, notes)
            total = sum(h.size_in_bytes for h in holders) + inner.temp_size_in_bytes
            if total > best[0]:
                best = total, [*holders, *inner.holders]
            for variable in dead:
                alive.pop(variable, None)
        return *best, notes

    def _inside(self, step: Any, place: Place, sizes: Sizes, notes: list[str]) -> MemoryAnalysis:
        """The temps of a step on a place, with what holds them."""
        nothing = MemoryAnalysis(0, 0, 0, 0)
        if isinstance(step, Mixed):
            parts = [self._inner(g, step.ctx.place) for g in graphs_in(step.equation.attrs)]
            each = [dict(p.memory(sizes).places).get(place, nothing) for p in parts]
            notes += [note for m in each for note in m.uncounted]
            # what a turn gives has memory of its own
            each = [
                replace(m, temp_size_in_bytes=m.temp_size_in_bytes + m.output_size_in_bytes)
                for m in each
            ]
            return max(each, key=lambda m: m.temp_size_in_bytes, default=nothing)
        if not isinstance(step, Segment) or step.place != place:
            return nothing
        explained = self._explain(step, sizes)
        if isinstance(explained, str):
            notes.append(f"temps of what runs on {place}: {explained}")
            return nothing
        found = explained.memory(sizes)
        notes += found.uncounted
        inner = [
            replace(h, name=f"{h.name}, on {place}")
            for h in found.holders if h.name.rpartition(" in ")[2].startswith("t")
        ]  # fmt: skip
        return replace(found, holders=tuple(inner))

    def _holder(self, variable: Variable, sizes: Sizes, notes: list[str]) -> Holder:
        meta = variable.meta
        where = variable_place(variable)
        name = f"{meta.dtype}{dm.shape_text(meta.dims)} in {variable.name}, on {where}"
        return Holder(_bytes(variable, sizes, notes), name, self.sources.get(variable))


def _on(place: Place) -> Callable[[Variable], bool]:
    return lambda variable: variable_place(variable) == place


def _size(variable: Variable, sizes: Sizes) -> Any:
    """The bytes of a variable; an expression where sizes are not known."""
    meta = variable.meta
    return dm.substitute(dm.product(meta.dims), sizes) * meta.dtype.itemsize


def _bytes(variable: Variable, sizes: Sizes, notes: list[str]) -> int:
    count = _size(variable, sizes)
    if isinstance(count, int):
        return count
    notes.append(f"{variable.name}, whose size depends on the data")
    return 0


def _sum(costs: Iterable[CostAnalysis]) -> CostAnalysis:
    total = _NOTHING
    for cost in costs:
        total = CostAnalysis(
            total.flops + cost.flops,
            total.transcendentals + cost.transcendentals,
            total.bytes_read + cost.bytes_read,
            total.bytes_written + cost.bytes_written,
            tuple(dict.fromkeys((*total.uncounted, *cost.uncounted))),
        )
    return total
