"""Steps of a loop that a trace has written out: what each reads, and what of it another one reads.

The equations ``start, ..., start + period * count - 1`` are ``count`` steps of ``period`` of them.
All steps read alike: from themselves, from the step some steps before, or from outside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from phix.core.graph import Equation, Graph, Literal, Variable, graphs_in, is_effect
from phix.core.op import Op
from phix.core.rules import OPS
from phix.interpreters.equal_calls import attr_key
from phix.passes.pipeline import LEAST_EQUATIONS
from phix.passes.repeats import Stretch

LEAST_STEPS = 16
_MIDDLING = 64
_LONGEST = 4096  # of the steps whose best beginning is looked for
# Ops that say by attributes which places they mean, and may say others in each step.
_AT_PLACES = frozenset({"slice", "strided_slice", "slice_put", "pad"})


Made = dict[Variable, tuple[int, int]]  # the number of the equation, and of its output


class Result(NamedTuple):
    """An output of one of the equations of each step."""

    offset: int
    number: int


class Read(NamedTuple):
    """What an equation reads of a step: its own, or the one so many steps before it."""

    value: Result
    ago: int


def key_of(equation: Equation) -> Any:
    """What equations of several steps have in common; None: it is not to be in any."""
    op, variables = equation.op, equation.variables
    if is_effect(equation) or op.binds_dim or op.asks or op.joins_ranks or not variables:
        return None
    if any(g.has_effects or g.own_sizes or g.joined_axes for g in graphs_in(equation.attrs)):
        return None
    attrs = None if _says_places(op) else attr_key(equation.attrs)
    return op, attrs, tuple(map(_kind, equation.inputs)), tuple([v.meta for v in variables])


def _says_places(op: Op) -> bool:
    return any(op is OPS[name] for name in _AT_PLACES)


def _kind(entry: Any) -> Any:
    if isinstance(entry, tuple):
        return tuple(map(_kind, entry))
    return None if entry is None else (type(entry), entry.meta)


def numbered(equations: Iterable[Equation]) -> list[int]:
    """A number for each equation, the same for those that may be of different steps."""
    keys: dict[Any, int] = {}
    alone = itertools.count(-1, -1)
    found = []
    for equation in equations:
        key = key_of(equation)
        found.append(next(alone) if key is None else keys.setdefault(key, len(keys)))
    return found


class Steps:
    """The steps of one stretch; ``made`` are the places of variables among the equations."""

    def __init__(self, graph: Graph, made: Made, stretch: Stretch, hoists: bool = False) -> None:
        self.graph, self.made, self.hoists = graph, made, hoists
        self.start, self.period, self.count = stretch

    def equation(self, step: int, offset: int) -> Equation:
        """One equation of one step."""
        return self.graph.equations[self.start + step * self.period + offset]

    def at(self, step: int) -> Sequence[Equation]:
        """The equations of a step."""
        start = self.start + step * self.period
        return self.graph.equations[start : start + self.period]

    def variable(self, step: int, value: Result) -> Variable:
        """What has a value in one step."""
        return self.equation(step, value.offset).variables[value.number]

    def place(self, atom: Any) -> tuple[int, Result] | None:
        """The step that makes a variable, and as which value; None: none of them does."""
        where = self.made.get(atom) if type(atom) is Variable else None
        if where is None or not 0 <= where[0] - self.start < self.period * self.count:
            return None
        step, offset = divmod(where[0] - self.start, self.period)
        return step, Result(offset, where[1])

    # -- which steps there are -------------------------------------------------------------
    def alike(self) -> Steps | None:
        """The longest run of these steps that read alike, each from others of these."""
        reads = list(map(self._reads_of, range(self.count)))
        runs = [len(list(run)) for _, run in itertools.groupby(reads)]
        longest = max(range(len(runs)), key=runs.__getitem__)
        first, wanted = sum(runs[:longest]), reads[sum(runs[:longest])]
        # steps before them may read from outside what later ones read of steps before
        for more in range(min(first, max((r.ago for r in wanted if r), default=0)), -1, -1):
            early = reads[first - more : first]
            if all(_begins(read, wanted, step) for step, read in enumerate(early)):
                found = self._part((first - more) * self.period, runs[longest] + more)
                if found is None or found.initial is not None:
                    return found
        return None

    def _reads_of(self, step: int) -> list[Read | None]:
        """What each entry of the equations of a step reads; None: it is from outside."""
        found: list[Read | None] = []
        for equation in self.at(step):
            for atom in equation.atoms:
                place = self.place(atom)
                found.append(Read(place[1], step - place[0]) if place else None)
        return found

    def _part(self, skipped: int, count: int) -> Steps | None:
        """So many steps, the first of which begins later by that many equations."""
        if count < LEAST_STEPS:
            return None
        stretch = Stretch(self.start + skipped, self.period, count)
        return Steps(self.graph, self.made, stretch, self.hoists)

    def shortened(self) -> Steps | None:
        """Those but the last."""
        return self._part(0, self.count - 1)

    @cached_property
    def reads(self) -> list[list[Read | None]]:
        """What each equation of a step reads, entry by entry, as long as there are steps before."""
        step = self.count - 1
        entries = iter(self._reads_of(step))
        return [list(itertools.islice(entries, len(e.atoms))) for e in self.at(step)]

    @cached_property
    def initial(self) -> dict[Read, Any] | None:
        """What a result is for the first step to read it as so many steps old, so for the second as
        one more; None: two equations of a step take it for different values."""
        found: dict[Read, Any] = {}
        for offset, reads in enumerate(self.reads):
            for entry, read in enumerate(reads):
                if read is None:
                    continue
                for step in range(read.ago):
                    atom = self.equation(step, offset).atoms[entry]
                    if found.setdefault(read._replace(ago=read.ago - step), atom) != atom:
                        return None
        return found

    def before_step(self, step: int, read: Read) -> Any:
        """What has a result so many steps before one."""
        if step >= read.ago:
            return self.variable(step - read.ago, read.value)
        return (self.initial or {})[read._replace(ago=read.ago - step)]

    def turned(self) -> Steps:
        """The same steps beginning where the fewest bytes go from one into the next."""
        if self.period > _LONGEST:
            return self
        furthest: dict[Result, Any] = {}
        begins: Any = np.arange(self.period)
        for offset, reads in enumerate(self.reads):
            for value, ago in filter(None, reads):
                # as seen from a later beginning, what is before that belongs to the step before
                seen = ago - (begins > offset) * 1 + (begins > value.offset)
                furthest[value] = np.maximum(furthest.get(value, seen), seen)
        size = np.zeros(self.period)
        for value, ago in furthest.items():
            size += ago * bytes_of(self.variable(0, value))
        best = int(np.argmin(size))
        return self if best == 0 else self._part(best, self.count - 1) or self

    # -- what of a step goes into the loop -------------------------------------------------
    @cached_property
    def differ(self) -> frozenset[int]:
        """The equations that say other places, or other numbers that count, in each step."""
        return frozenset(o for o in range(self.period) if self._differs(o))

    def _differs(self, offset: int) -> bool:
        first = self.equation(0, offset)
        others = [self.equation(step, offset) for step in range(1, self.count)]
        if _says_places(first.op):
            key = attr_key(first.attrs)
            return any(attr_key(e.attrs) != key for e in others)
        # powers by numbers that are known are computed in other ways
        if first.op is not OPS["elementwise_pow"]:
            return False
        return any(e.inputs[1] != first.inputs[1] for e in others if type(e.inputs[1]) is Literal)

    @cached_property
    def before(self) -> frozenset[int]:
        """Equations that differ and stay before the loop: no step computes it of what another one
        does. Where ``hoists``, what they are computed from stays there with them."""
        found: set[int] = set()
        free = set(self.differ)
        if self.hoists:
            free.update(range(self.period))
        for offset, reads in enumerate(self.reads):
            inner = [r for r in reads if r]
            if offset in free and all(not r.ago and r.value.offset in found for r in inner):
                found.add(offset)
        needed = set(self.differ & found)
        for offset in sorted(found, reverse=True):
            if offset in needed:
                needed.update(r.value.offset for r in self.reads[offset] if r)
        return frozenset(needed)

    @cached_property
    def behind(self) -> frozenset[int]:
        """Equations that differ and stay behind the loop, and what needs them."""
        found = set(self.differ - self.before)
        size = -1
        while size != len(found):
            size = len(found)
            for offset, reads in enumerate(self.reads):
                if any(r and r.value.offset in found for r in reads):
                    found.add(offset)
        return frozenset(found)

    @cached_property
    def inside(self) -> tuple[int, ...]:
        """The equations of the loop."""
        outside = self.behind | self.before
        return tuple(o for o in range(self.period) if o not in outside)

    def read_inside(self, offset: int) -> list[Read | None]:
        """What an equation of the loop reads of it, entry by entry."""
        return [r if r and r.value.offset in self._inside else None for r in self.reads[offset]]

    @cached_property
    def _inside(self) -> frozenset[int]:
        return frozenset(self.inside)

    @cached_property
    def carried(self) -> dict[Result, int]:
        """The values of the loop that its later steps read, and up to how many steps later."""
        found: dict[Result, int] = {}
        for offset in self.inside:
            for value, ago in filter(None, self.read_inside(offset)):
                if ago:
                    found[value] = max(found.get(value, 0), ago)
        return found

    def atoms(self, offset: int, entry: int) -> tuple[Any, ...]:
        """What an equation reads there in all steps."""
        return tuple(self.equation(step, offset).atoms[entry] for step in range(self.count))

    def used(self, readers: Mapping[Variable, Sequence[int]]) -> dict[Result, list[int]]:
        """The steps whose values somebody reads who is not in the loop; ``readers`` are the places
        of the equations that read a variable."""
        found: dict[Result, list[int]] = {}
        for step in range(self.count):
            for offset in self.inside:
                for number, v in enumerate(self.equation(step, offset).variables):
                    if any(not self.is_inside(place) for place in readers.get(v, ())):
                        found.setdefault(Result(offset, number), []).append(step)
        return found

    def is_read_by_others(
        self, variable: Variable, readers: Mapping[Variable, Sequence[int]]
    ) -> bool:
        """Whether an equation that is in none of the steps reads it."""
        length = self.period * self.count
        return any(not 0 <= n - self.start < length for n in readers.get(variable, ()))

    def is_inside(self, place: int) -> bool:
        """Whether the equation there is one of the loop."""
        step, offset = divmod(place - self.start, self.period)
        return 0 <= step < self.count and offset in self._inside

    @cached_property
    def calls(self) -> int:
        """How many equations the loop is in place of, those behind it with it, but for what costs
        nothing."""
        offsets = (*self.inside, *self.behind) if self.inside else ()
        return self.count * sum(not self.equation(0, o).op.view for o in offsets)

    @property
    def is_worth_it(self) -> bool:
        """Whether it saves much."""
        return self.calls >= LEAST_EQUATIONS


def _begins(read: list[Read | None], wanted: list[Read | None], step: int) -> bool:
    """Whether the step of that number may be one of those that read as wanted."""
    for found, r in zip(read, wanted):
        is_early = r is not None and r.ago > step and (found is None or found.ago > step)
        if found != r and not is_early:
            return False
    return True


def bytes_of(atom: Any) -> int:
    """How much memory a value takes, where unknown sizes are middling."""
    dims = [d if type(d) is int else _MIDDLING for d in atom.meta.dims]
    return math.prod(dims) * int(atom.meta.dtype.itemsize)


def steps_of(graph: Graph, made: Made, stretch: Stretch) -> Steps | None:
    """The steps that are a loop, among those of a stretch."""
    for hoists in (False, True):
        found = Steps(graph, made, stretch, hoists).alike()
        turned = found.turned() if found is not None else None
        if turned is not found and turned is not None:
            found = turned.alike()
        if found is not None and found.is_worth_it:
            return found
    return None
