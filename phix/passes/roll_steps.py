"""Loops of Python that a trace has written out step by step become scans again.

What a step hands to later ones is carried. What the steps read of places one after the other, of
an array or of what another such loop has stacked, are rows that go along, and so are numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.core import context, rewrites, settings, stack
from phix.core.conversion import owned_tensor, tensor_from_scalar
from phix.core.graph import Equation, Graph, Literal, Variable, flat, map_attrs, map_entries
from phix.core.records import dataclass, field
from phix.core.rules import OPS
from phix.interpreters.stage import StageTracer, Staging, finish
from phix.passes.placed_rows import placed_rows
from phix.passes.repeats import stretches
from phix.passes.unrolled_steps import (
    LEAST_EQUATIONS,
    LEAST_STEPS,
    Read,
    Steps,
    Value,
    bytes_of,
    numbered,
    steps_of,
)

_NAME = "roll_steps"
_MOST_STACKED = 1 << 26  # bytes of what all steps hand out
_MOST_COPIED = 1 << 18  # bytes of what lies apart and is stacked for the loop


def roll_steps(graph: Graph) -> Graph:
    """``graph`` with scans for steps that it repeats, in the graphs inside it too."""
    if not rewrites.is_on(_NAME) or settings.current().memory_limit is not None:
        return graph
    return _rolled(graph)


@stack.nests
def _rolled(graph: Graph) -> Graph:
    if any(e.op.has_graphs for e in graph.equations):
        equations = [_with_inner(e) if e.op.has_graphs else e for e in graph.equations]
        graph = replace(graph, equations=tuple(equations))
    if len(graph.equations) < LEAST_EQUATIONS:
        return graph
    loops, rows = _loops_of(graph)
    return _Writer(graph, loops, rows).written() if loops else graph


def _with_inner(equation: Equation) -> Equation:
    return replace(equation, attrs=map_attrs(_rolled, equation.attrs))


# -- which loops there are -------------------------------------------------------------------------
class Row(NamedTuple):
    """One place along an axis of a tensor; ``whole`` stands for that: a variable, or a value of
    all steps of a loop."""

    whole: Any
    axis: int
    number: int


@dataclass
class _Loop:
    """Steps that become one scan: what somebody reads who is not in it, in which steps; what they
    read from outside, by equation and entry; whether it runs from the last row to the first."""

    steps: Steps
    used: dict[Value, list[int]]
    given: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)
    reverse: bool = False

    def __post_init__(self) -> None:
        for offset in self.steps.inside:
            for entry, read in enumerate(self.steps.read_inside(offset)):
                if read is None:
                    self.given[offset, entry] = self.steps.atoms(offset, entry)

    def is_final(self, value: Value) -> bool:
        """Whether what is read of a value is what the last steps carry on."""
        ago = self.steps.carried.get(value, 0)
        return self.used[value][0] >= self.steps.count - ago

    @property
    def stacked(self) -> list[Value]:
        """The values that are stacked for those who read them."""
        return [value for value in self.used if not self.is_final(value)]

    def number(self, step: int) -> int:
        """The row of a step."""
        return self.steps.count - 1 - step if self.reverse else step


def _loops_of(graph: Graph) -> tuple[list[_Loop], _Rows]:
    equations = graph.equations
    made = {v: (n, k) for n, e in enumerate(equations) for k, v in enumerate(e.variables)}
    taken = np.zeros(len(equations), bool)
    chosen: list[Steps] = []
    for stretch in stretches(numbered(equations), LEAST_STEPS):
        if taken[stretch.start : stretch.stop].any():
            continue
        steps = steps_of(graph, made, stretch)
        if steps is not None:
            taken[stretch.start : stretch.stop] = True
            chosen.append(steps)
    rows = _Rows(graph, made)
    return list(filter(None, map(rows.loop, sorted(chosen, key=lambda s: s.start)))), rows


class _Rows:
    """The variables of a graph that are rows of something, and the loops found in it so far."""

    def __init__(self, graph: Graph, made: dict[Variable, tuple[int, int]]) -> None:
        self.graph, self.made = graph, made
        self.stacked: dict[Variable, Row] = {}
        self.readers: dict[Variable, list[int]] = defaultdict(list)
        for n, e in enumerate(graph.equations):
            for atom in e.atoms:
                if type(atom) is Variable:
                    self.readers[atom].append(n)
        for atom in graph.outputs:
            if type(atom) is Variable:
                self.readers[atom].append(len(graph.equations))

    def loop(self, steps: Steps) -> _Loop | None:
        """The loop that steps become, if memory allows."""
        used = steps.used(self.readers)
        found = _Loop(steps, used)
        # what only the last step is asked for is no row: the step stays what it is
        if any(s == [steps.count - 1] and not found.is_final(v) for v, s in used.items()):
            shorter = steps.shortened()
            return shorter and self.loop(shorter) if steps.is_worth_it else None
        sizes = (bytes_of(steps.variable(0, v)) for v in found.stacked)
        if not steps.is_worth_it or sum(sizes) * steps.count > _MOST_STACKED:
            return None
        series = set(found.given.values())
        if sum(map(self._copied, series)) > _MOST_COPIED:
            return None
        found.reverse = sum(map(self._direction, series)) < 0
        for value in found.stacked:
            for step in range(steps.count):
                row = Row((steps.start, value), 0, found.number(step))
                self.stacked[steps.variable(step, value)] = row
        return found

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

    def _copied(self, atoms: tuple[Any, ...]) -> int:
        """The bytes of variables that are rows of nothing, where they are not all one."""
        if _is_one(atoms) or type(atoms[0]) is Literal:
            return 0
        return sum(bytes_of(a) for a in atoms if self.row(a) is None)

    def _direction(self, atoms: tuple[Any, ...]) -> int:
        """How many rows come behind the one before them, less those that come in front of it."""
        if _is_one(atoms):
            return 0
        rows = list(map(self.row, atoms))
        steps = (b.number - a.number for a, b in zip(rows, rows[1:]) if a and b)
        return sum(s for s in steps if abs(s) == 1)


def _is_one(atoms: Sequence[Any]) -> bool:
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
    if axis < 0 or not 0 <= starts[0] < int(whole.meta.dims[axis]) or ends[0] != starts[0] + 1:
        return None
    return Row(whole, axis, starts[0])


# -- the graph with loops in it --------------------------------------------------------------------
class _Writer:
    """Writes the graph anew, with a scan for each loop."""

    def __init__(self, graph: Graph, loops: list[_Loop], rows: _Rows) -> None:
        self.graph, self.rows = graph, rows
        self.loops = {loop.steps.start: loop for loop in loops}
        self.stage = Staging(None)
        self.wholes: dict[Any, Any] = {}  # what rows are of -> its tensor
        self.values: dict[Variable, Any] = {}

    def written(self) -> Graph:
        """The graph with scans."""
        old, stage = self.graph, self.stage
        inputs = tuple(Variable(v.name, v.meta) for v in old.inputs)
        self.values.update((v, StageTracer(stage, new, None)) for v, new in zip(old.inputs, inputs))
        self.values.update((c.variable, c.value) for c in old.constants)
        with context.transformation(stage), context.inside():
            place = 0
            while place < len(old.equations):
                loop = self.loops.get(place)
                if loop is None:
                    self.copy(old.equations[place])
                    place += 1
                else:
                    self.roll(loop)
                    place += loop.steps.period * loop.steps.count
            outputs = tuple(stage.atom(self.read(a)) for a in old.outputs)
        equations, constants = tuple(stage.equations), tuple(stage.constants.values())
        return finish(Graph(inputs, constants, equations, outputs))

    def read(self, atom: Any) -> Any:
        """The value of an atom of the old graph."""
        if isinstance(atom, Literal):
            return tensor_from_scalar(atom.value, atom.meta.dtype)
        if atom not in self.values:
            whole, _, number = self.rows.stacked[atom]
            self.values[atom] = ops.slice(self.wholes[whole], [0], [number], [number + 1], [1], [0])
        return self.values[atom]

    def copy(self, equation: Equation) -> None:
        """Write an equation as it was; one that stacks rows of loops may take them as they lie."""
        self.stage.source, self.stage.replayed = equation.source, equation
        atoms = equation.atoms
        if equation.op is OPS["stack"] and any(a in self.rows.stacked for a in atoms):
            whole = self.series(atoms)
            made = _moved(whole, 0, equation.attrs[0] % whole.ndim)
        else:
            inputs = map_entries(self.read, equation.inputs)
            made = self.stage.process(equation.op, inputs, equation.attrs)
        entries = (made,) if len(equation.outputs) == 1 else made
        self.values.update(zip(equation.variables, flat(tuple(entries))))

    def roll(self, loop: _Loop) -> None:
        """Write the scan of a loop, and what stays before and behind it."""
        steps = loop.steps
        for step in range(steps.count):
            for offset in sorted(steps.before):
                self.copy(steps.equation(step, offset))
        body = _Body(loop)
        self.stage.source, self.stage.replayed = steps.equation(0, 0).source, None
        carry = [self.read(steps.variable(-ago, value)) for value, ago in body.carries]
        order = -1 if loop.reverse else 1
        xs = [self.series(atoms[::order]) for atoms in body.series]
        constants = [self.read(a) for a in body.constants]
        finals, ys = ops.scan(
            carry, xs, constants, _rolled(body.graph()), steps.count, loop.reverse
        )
        for (value, ago), final in zip(body.carries, finals):
            self.values[steps.variable(steps.count - ago, value)] = final
        for value, y in zip(loop.stacked, ys):
            self.wholes[steps.start, value] = y
        self.put_rows(steps)

    def put_rows(self, steps: Steps) -> None:
        """Write what stays behind a loop: as it was, or once for all steps."""
        left = set(steps.behind)
        for placed in placed_rows(steps, lambda v: steps.is_read_by_others(v, self.rows.readers)):
            left.difference_update(placed.offsets)
            order = 1 if placed.places[0] < placed.places[1] else -1
            rows, axis = self.series(placed.rows[::order]), placed.axis
            dims = list(rows.shape[1:])
            dims[axis] = steps.count
            rows = ops.reshape(_moved(rows, 0, axis), dims)
            before = self.read(steps.variable(-1, placed.made))
            made = placed.put(before, rows, axis, min(placed.places))
            self.values[steps.variable(steps.count - 1, placed.made)] = made
        for step in range(steps.count):
            for offset in sorted(left):
                self.copy(steps.equation(step, offset))

    def series(self, atoms: Sequence[Any]) -> Any:
        """A tensor that has these values as its rows."""
        if type(atoms[0]) is Literal:
            return owned_tensor(np.array([a.value for a in atoms], atoms[0].meta.dtype), None)
        parts = [self._part(atoms[0].meta.dims, *piece) for piece in self._pieces(atoms)]
        return parts[0] if len(parts) == 1 else ops.concat(parts, 0)

    def _pieces(self, atoms: Sequence[Any]) -> Iterator[tuple[list[Any], list[Row]]]:
        """Runs of values that are rows of one tensor, one after the other, or of none."""
        piece: list[Any] = []
        rows: list[Row] = []
        for atom in atoms:
            row = self.rows.row(atom)
            if piece and not _goes_on(rows, row):
                yield piece, rows
                piece, rows = [], []
            piece.append(atom)
            rows += [row] if row else []
        yield piece, rows

    def _part(self, dims: tuple[Any, ...], atoms: list[Any], rows: list[Row]) -> Any:
        if not rows:
            return ops.stack([self.read(a) for a in atoms], 0)
        first, last = rows[0].number, rows[-1].number
        whole = rows[0].whole
        tensor = self.wholes[whole] if whole in self.wholes else self.read(whole)
        tensor = _moved(tensor, rows[0].axis, 0)
        low, high = min(first, last), max(first, last) + 1
        if (low, high) != (0, tensor.shape[0]):
            tensor = ops.slice(tensor, [0], [low], [high], [1], [])
        if first > last:
            tensor = ops.flip(tensor, [0])
        return ops.reshape(tensor, (len(rows), *dims))


def _goes_on(rows: list[Row], row: Row | None) -> bool:
    """Whether a row comes next after those, in their direction; or all are of nothing."""
    if not rows or row is None:
        return not rows and row is None
    last = rows[-1]
    by = rows[1].number - rows[0].number if len(rows) > 1 else row.number - last.number
    return abs(by) == 1 and row == last._replace(number=last.number + by)


def _moved(tensor: Any, source: int, target: int) -> Any:
    """A tensor with one of its axes at another place."""
    if source == target:
        return tensor
    axes = [n for n in range(tensor.ndim) if n != source]
    axes.insert(target, source)
    return ops.transpose(tensor, axes)


class _Body:
    """The graph of one step: what it takes from the steps before, from rows, and from outside."""

    def __init__(self, loop: _Loop) -> None:
        self.loop, self.steps = loop, loop.steps
        carried = loop.steps.carried
        self.carries = [(v, ago) for v, most in carried.items() for ago in range(1, most + 1)]
        variable = self.steps.variable
        self.read: dict[Any, Variable] = {
            Read(v, ago): Variable("", variable(0, v).meta) for v, ago in self.carries
        }
        self.series: list[tuple[Any, ...]] = []
        self.constants: list[Any] = []
        for atoms in dict.fromkeys(loop.given.values()):
            if not _is_one(atoms):
                self.series.append(atoms)
            elif type(atoms[0]) is Variable:
                self.constants.append(atoms[0])
            else:
                continue
            self.read[atoms] = Variable("", atoms[0].meta)

    def graph(self) -> Graph:
        """What one step does."""
        equations = tuple(map(self._equation, self.steps.inside))
        carries = [Read(v, ago) for v, ago in self.carries]
        xs = [self.read[atoms] for atoms in self.series]
        constants = [self.read[self.steps.count * (a,)] for a in self.constants]
        inputs = (*(self.read[c] for c in carries), *xs, *constants)
        following = [self.read[c._replace(ago=c.ago - 1)] for c in carries]
        ys = [self.read[Read(v, 0)] for v in self.loop.stacked]
        for number, variable in enumerate(inputs):
            variable.name = f"x{number}"
        return finish(Graph(inputs, (), equations, (*following, *ys)))

    def _equation(self, offset: int) -> Equation:
        old = self.steps.equation(self.steps.count - 1, offset)
        reads = iter(enumerate(self.steps.read_inside(offset)))

        def atom(_: Any) -> Any:
            entry, read = next(reads)
            if read is not None:
                return self.read[read]
            atoms = self.loop.given[offset, entry]
            return self.read.get(atoms, atoms[0])

        inputs = map_entries(atom, old.inputs)
        outputs = map_entries(lambda v: Variable("", v.meta), old.outputs)
        for number, variable in enumerate(flat(outputs)):
            self.read[Read(Value(offset, number), 0)] = variable
        return replace(old, inputs=inputs, outputs=outputs)
