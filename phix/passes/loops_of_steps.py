"""Which steps that a trace has written out become loops, and which values are rows of arrays.

What the steps read in order, places of one array or values of another such loop, need not be
stacked: it lies as rows already.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from phix.core import dims as dm
from phix.core.graph import Equation, Graph, Variable, plain_symbol, symbols_of
from phix.core.op import Op
from phix.core.records import dataclass, field
from phix.core.rules import OPS
from phix.passes.repeats import stretches
from phix.passes.unrolled_steps import (
    LEAST_STEPS,
    Made,
    Result,
    Steps,
    bytes_of,
    numbered,
    steps_of,
)

_MOST_STACKED = 1 << 26  # bytes of what all steps hand out
_MOST_COPIED = 1 << 18  # bytes of what lies apart and is stacked in each call
_SMALL = 512  # elements that stay in the nearest cache, step by step
_FUNCTION, _ROOT = 12, 4  # what a sine or the like takes, and a root, beside a sum or product
_ROOTS = ("sqrt", "rsqrt", "divide", "reciprocal")
_WORK_FOR_A_VALUE = 3  # in sums and products, for one that is loaded or stored
_JOINING = ("stack", "concat", "reshape", "pad", "slice_put")  # ops that take rows as they lie
_CALLS_FOR_A_VALUE = 6  # that one is copied into or out of a stack
_MOST_LEFT = 2  # steps that stay outside because they end otherwise


class Row(NamedTuple):
    """One place along an axis of a tensor; ``whole`` stands for that: a variable, or a value of
    all steps of a loop."""

    whole: Any
    axis: int
    number: int


@dataclass
class Loop:
    """Steps that become one scan: what somebody reads who is not in it, in which steps; what they
    read from outside, by equation and entry; whether it runs from the last row to the first."""

    steps: Steps
    used: dict[Result, list[int]]
    given: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)
    reverse: bool = False

    def __post_init__(self) -> None:
        for offset in self.steps.inside:
            for entry, read in enumerate(self.steps.read_inside(offset)):
                if read is None:
                    self.given[offset, entry] = self.steps.atoms(offset, entry)

    def is_final(self, value: Result) -> bool:
        """Whether what is read of a value is what the last steps carry on."""
        ago = self.steps.carried.get(value, 0)
        return self.used[value][0] >= self.steps.count - ago

    @property
    def series(self) -> list[tuple[Any, ...]]:
        """What each step reads another of."""
        return [atoms for atoms in dict.fromkeys(self.given.values()) if not is_one(atoms)]

    @property
    def ends_otherwise(self) -> bool:
        """Whether the last step alone is asked for something: better it stays what it is."""
        last = [self.steps.count - 1]
        return any(at == last and not self.is_final(v) for v, at in self.used.items())

    @property
    def streams(self) -> bool:
        """Whether steps do little for each element of large values, which a loop loads and stores
        in each: written out, each element goes through all of them at once."""
        steps = self.steps
        calls = [e for e in (steps.equation(0, o) for o in steps.inside) if not e.op.view]
        sizes = [dm.known_product(v.meta.dims) for e in calls for v in e.variables]
        is_small = all(size is not None and size <= _SMALL for size in sizes)
        if is_small or not all(e.op.is_pointwise for e in calls):
            return False
        work = sum(_work_of(e.op) for e in calls)
        moved = 2 * sum(steps.carried.values()) + len(self.stacked) + len(self.series)
        return work < _WORK_FOR_A_VALUE * moved

    @property
    def is_closed(self) -> bool:
        """Whether the values that a step takes have all unknown sizes in it as dims of theirs."""
        steps = self.steps
        needed = {s for o in steps.inside for s in symbols_of(steps.equation(0, o))}
        taken = [
            *(steps.variable(0, v) for v in steps.carried),
            *(a[0] for a in self.given.values()),
        ]
        return needed <= {plain_symbol(d) for atom in taken for d in atom.meta.dims}

    @property
    def stacked(self) -> list[Result]:
        """The values that are stacked for those who read them."""
        return [value for value in self.used if not self.is_final(value)]

    def number(self, step: int) -> int:
        """The row of a step."""
        return self.steps.count - 1 - step if self.reverse else step


def loops_of(graph: Graph) -> tuple[list[Loop], Rows | None]:
    """The loops that a graph holds written out, in order, and what it has rows of."""
    equations = graph.equations
    if not stretches([id(e.op) for e in equations], LEAST_STEPS):
        return [], None
    made = {v: (n, k) for n, e in enumerate(equations) for k, v in enumerate(e.variables)}
    chosen = _chosen(graph, made)
    while True:
        rows = Rows(graph, made)
        found = {steps: loop for steps in chosen if (loop := rows.loop(steps)) is not None}
        alone = {steps: rows.read_alone(loop, found.values()) for steps, loop in found.items()}
        worst = max(alone, key=alone.__getitem__, default=None)
        if worst is None or alone[worst] <= 1:
            return list(found.values()), rows
        chosen.remove(worst)  # and without it, others may not be worth it any more


def _chosen(graph: Graph, made: Made) -> list[Steps]:
    """The steps that could be loops, none in another, in order."""
    taken = np.zeros(len(graph.equations), bool)
    found: list[Steps] = []
    for stretch in stretches(numbered(graph.equations), LEAST_STEPS):
        if taken[stretch.start : stretch.stop].any():
            continue
        steps = steps_of(graph, made, stretch)
        if steps is not None:
            taken[stretch.start : stretch.stop] = True
            found.append(steps)
    return sorted(found, key=lambda s: s.start)


class Rows:
    """The variables of a graph that are rows of something, and the loops found in it so far."""

    def __init__(self, graph: Graph, made: Made) -> None:
        self.graph, self.made = graph, made
        self.constants = {c.variable for c in graph.constants}
        self.stacked: dict[Variable, Row] = {}
        self.readers: dict[Variable, list[int]] = defaultdict(list)
        for n, e in enumerate(graph.equations):
            for atom in e.atoms:
                if type(atom) is Variable:
                    self.readers[atom].append(n)
        for atom in graph.outputs:
            if type(atom) is Variable:
                self.readers[atom].append(len(graph.equations))

    def loop(self, steps: Steps) -> Loop | None:
        """The loop that steps become, if memory allows."""
        found = Loop(steps, steps.used(self.readers))
        for _ in range(_MOST_LEFT):
            shorter = steps.shortened() if found.ends_otherwise else None
            if shorter is not None:
                found = Loop(shorter, shorter.used(self.readers))
        if not found.steps.is_worth_it or found.streams or not found.is_closed:
            return None
        if not self._has_room(found):
            return None
        found.reverse = sum(map(self._direction, found.series)) < 0
        for value in found.stacked:
            for step in range(found.steps.count):
                row = Row((found.steps.start, value), 0, found.number(step))
                self.stacked[found.steps.variable(step, value)] = row
        return found

    def _has_room(self, loop: Loop) -> bool:
        """Whether what is stacked, before and behind, is little; of what lies apart there is to be
        less than there are calls."""
        steps = loop.steps
        apart = {a for atoms in loop.series for a in atoms if self.row(a) is None}
        apart = {a for a in apart if type(a) is Variable}
        copied = apart - self.constants
        stacked = steps.count * sum(bytes_of(steps.variable(0, v)) for v in loop.stacked)
        return (
            stacked + sum(map(bytes_of, apart)) <= _MOST_STACKED
            and sum(map(bytes_of, copied)) <= _MOST_COPIED
            and len(copied) * _CALLS_FOR_A_VALUE <= steps.calls
        )

    def read_alone(self, loop: Loop, loops: Collection[Loop]) -> float:
        """How much of what a loop stacks is read one by one, neither by loops nor by what stacks
        it; above 1 it is not worth it."""
        steps = loop.steps
        alone = 0
        for value in loop.stacked:
            for step in loop.used[value]:
                readers = self.readers[steps.variable(step, value)]
                alone += any(not self._takes_rows(place, loops) for place in readers)
        return alone * _CALLS_FOR_A_VALUE / steps.calls

    def _takes_rows(self, place: int, loops: Collection[Loop]) -> bool:
        if place == len(self.graph.equations):
            return False
        op = self.graph.equations[place].op
        if any(op is OPS[name] for name in _JOINING):
            return True
        return any(loop.steps.is_inside(place) for loop in loops)

    def row(self, atom: Any) -> Row | None:
        """What a variable is a row of."""
        if atom in self.stacked:
            return self.stacked[atom]
        place = self.made.get(atom) if type(atom) is Variable else None
        if place is None:
            return None
        equation = self.graph.equations[place[0]]
        if equation.op is OPS["reshape"]:
            return self.row(equation.inputs[0])
        return _row_of(equation)

    def _direction(self, atoms: tuple[Any, ...]) -> int:
        """How many rows come behind the one before them, less those that come in front of it."""
        rows = map(self.row, atoms)
        steps = (b.number - a.number for a, b in itertools.pairwise(rows) if a and b)
        return sum(s for s in steps if abs(s) == 1)


def _work_of(op: Op) -> int:
    """Sums and products that take as long as a pointwise op, for an element."""
    if any(op is OPS[name] for name in _ROOTS):
        return _ROOT
    return _FUNCTION if "promote_float" in op.traits else 1


def is_one(atoms: Sequence[Any]) -> bool:
    """Whether all steps read the same."""
    return all(a == atoms[0] for a in atoms)


def _row_of(equation: Equation) -> Row | None:
    """The place that an equation takes of a tensor, if it is one of one axis."""
    op = equation.op
    if op is not OPS["slice"] and op is not OPS["strided_slice"]:
        return None
    (axis, *more), starts, ends = (op.attr(n, equation.attrs) for n in ("axes", "starts", "ends"))
    whole: Any = equation.inputs[0]
    if more or not all(type(n) is int for n in (axis, *starts, *ends)):
        return None
    size = whole.meta.dims[axis]
    if axis < 0 or type(size) is not int or not 0 <= starts[0] < size or ends[0] != starts[0] + 1:
        return None
    return Row(whole, axis, starts[0])
