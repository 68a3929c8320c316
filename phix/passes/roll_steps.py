"""Loops of Python that a trace has written out step by step become scans again.

What a step hands to later ones is carried. What the steps read of places one after the other, of
an array or of what another such loop has stacked, are rows that go along, and so are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phix import ops
from phix.core import context, rewrites, settings, stack
from phix.core.conversion import owned_tensor, tensor_from_scalar
from phix.core.graph import Equation, Graph, Literal, Variable, flat, map_attrs, map_entries
from phix.core.rules import OPS
from phix.core.tensor import Tensor
from phix.interpreters.stage import StageTracer, Staging, finish
from phix.passes.loops_of_steps import Loop, Row, Rows, loops_of
from phix.passes.pipeline import LEAST_EQUATIONS
from phix.passes.placed_rows import placed_rows
from phix.passes.step_bodies import Body
from phix.passes.unrolled_steps import Read, Steps

_NAME = "roll_steps"


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
    loops, rows = loops_of(graph)
    return _Writer(graph, loops, rows).written() if rows and loops else graph


def _with_inner(equation: Equation) -> Equation:
    return replace(equation, attrs=map_attrs(_rolled, equation.attrs))


class _Writer:
    """Writes the graph anew, with a scan for each loop."""

    def __init__(self, graph: Graph, loops: list[Loop], rows: Rows) -> None:
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
        """Write an equation as it was; one that joins rows of loops takes them as they lie."""
        self.stage.source, self.stage.replayed = equation.source, equation
        made = self.joined(equation)
        if made is None:
            inputs = map_entries(self.read, equation.inputs)
            made = self.stage.process(equation.op, inputs, equation.attrs)
        entries = (made,) if len(equation.outputs) == 1 else made
        self.values.update(zip(equation.variables, flat(tuple(entries))))

    def joined(self, equation: Equation) -> Any:
        """What stacks rows of loops, or joins them along an axis where each is one long."""
        if equation.op is not OPS["stack"] and equation.op is not OPS["concat"]:
            return None
        atoms = equation.atoms
        if not any(row and row.whole in self.wholes for row in map(self.rows.row, atoms)):
            return None
        (made,), axis = equation.variables, equation.attrs[0]
        if type(axis) is not int:
            return None
        axis %= made.meta.ndim
        if equation.op is OPS["stack"]:
            return _with_axis_at(self.series(atoms), 0, axis)
        if any(a.meta.dims[axis] != 1 for a in atoms):
            return None
        return ops.reshape(_with_axis_at(self.series(atoms), 0, axis), made.meta.dims)

    def roll(self, loop: Loop) -> None:
        """Write the scan of a loop, and what stays before and behind it."""
        steps = loop.steps
        for step in range(steps.count):
            for offset in sorted(steps.before):
                self.copy(steps.equation(step, offset))
        body = Body(loop)
        self.stage.source, self.stage.replayed = steps.equation(0, 0).source, None
        carry = [self.read(steps.before_step(0, Read(*each))) for each in body.carries]
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
            rows = ops.reshape(_with_axis_at(rows, 0, axis), dims)
            before = self.read(steps.before_step(0, Read(placed.made, 1)))
            made = placed.put(before, rows, axis, min(placed.places))
            self.values[steps.variable(steps.count - 1, placed.made)] = made
        for step in range(steps.count):
            for offset in sorted(left):
                self.copy(steps.equation(step, offset))

    def series(self, atoms: Sequence[Any]) -> Any:
        """A tensor that has these values as its rows."""
        if all(type(a) is Literal for a in atoms):
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
            values = [self.read(a) for a in atoms]
            if all(isinstance(v, Tensor) for v in values):
                return owned_tensor(np.stack([v.host for v in values]), None)
            return ops.stack(values, 0)
        (whole, axis, first), last = rows[0], rows[-1].number
        tensor = self.wholes[whole] if whole in self.wholes else self.read(whole)
        low, high = min(first, last), max(first, last) + 1
        if (low, high) != (0, tensor.shape[axis]):
            tensor = ops.slice(tensor, [axis], [low], [high], [1], [])
        tensor = _with_axis_at(tensor, axis, 0)
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


def _with_axis_at(tensor: Any, source: int, target: int) -> Any:
    """A tensor with one of its axes at another place."""
    if source == target:
        return tensor
    axes = [n for n in range(tensor.ndim) if n != source]
    axes.insert(target, source)
    return ops.transpose(tensor, axes)
