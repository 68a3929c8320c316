"""A graph run through in memory of some bytes, on paper: what does not fit is dropped, and computed
again when it is read.

What is dropped is what costs least to compute again for its bytes and the time that these are
free: as in Dynamic Tensor Rematerialization (Kirisame et al., 2021), but for the time, which here
is known to lie ahead. The run as it was made is a graph again.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from phix.core.analysis import HeldVariable
from phix.core.graph import (
    Equation,
    Graph,
    Variable,
    flat,
    graphs_in,
    is_effect,
    map_entries,
    named_axes,
)
from phix.core.records import dataclass, field

# A run that computes more than this many times as much again is given up.
_MOST_AGAIN = 4
# Units that are computed where one is read, at most.
_MOST_FUSED = 8


def is_repeatable(equation: Equation) -> bool:
    """Whether an equation gives the same when it is made again, and nothing else is changed.

    Random numbers follow from their key, but where somebody's kernel draws them.
    """
    op = equation.op
    is_drawn = "random" in op.traits and equation.kernel is not None
    runs_python = any(a.type == "Object" for a in op.attrs)
    if op.binds_dim or is_drawn or runs_python or is_effect(equation):
        return False
    if "side_effect" in op.traits or any(True for _ in named_axes(op, equation.attrs)):
        return False
    return all(is_repeatable(e) for g in graphs_in(equation.attrs) for e in g.equations)


@dataclass(eq=False)
class Unit:
    """What is computed at once: an equation whose outputs have memory, and those before it whose
    outputs have none. ``leaves`` are the units that it reads."""

    number: int
    equation: Equation
    parts: list[Equation]  # in order, the equation last
    leaves: list[Unit]
    is_repeatable: bool
    size: int = 0
    in_place: bool = False  # the program writes it over what it reads, where that ends
    readers: list[int] = field(default_factory=list)  # numbers of units, in order
    fusing: set[Unit] = field(default_factory=set)  # who can compute it where it is read


def units_of(graph: Graph, held: Sequence[HeldVariable]) -> list[Unit]:
    """The units of a graph in the order in which they run."""
    sizes = {h.variable: h.size_in_bytes for h in held}
    steps = {h.variable: h.step for h in held}
    replacing = {h.variable for h in held if h.in_place}
    repeatable = {e: is_repeatable(e) for e in graph.equations}
    numbers = {e: k for k, e in enumerate(graph.equations)}
    made: dict[Any, Equation] = {v: e for e in graph.equations for v in flat(e.outputs)}
    units: dict[Equation, Unit] = {}
    for equation in graph.equations:
        own = flat(equation.outputs)
        if not repeatable[equation] or any(v in sizes for v in own):
            parts, leaves = _cone(equation, made, units)
            parts.sort(key=numbers.__getitem__)
            unit = Unit(len(units), equation, parts, leaves, all(map(repeatable.get, parts)))
            unit.size = sum(sizes.get(v, 0) for v in own)
            unit.in_place = any(v in replacing for v in own)
            units[equation] = unit
    found = list(units.values())
    if all(repeatable.values()):  # nothing has its place in the order of the graph
        found = _in_order(found, steps)
    for unit in found:
        for leaf in unit.leaves:
            leaf.readers.append(unit.number)
            if _is_fused(leaf, unit):
                leaf.fusing.add(unit)
    return found


def _is_fused(leaf: Unit, reader: Unit) -> bool:
    """Whether ``leaf``, computed again, needs no memory where ``reader`` reads it."""
    own = set(flat(leaf.equation.outputs))
    reading = (e for e in reader.parts if not own.isdisjoint(flat(e.inputs)))
    return leaf.is_repeatable and all(e.op.is_pointwise for e in (*leaf.parts, *reading))


def _cone(
    equation: Equation, made: dict[Any, Equation], units: dict[Equation, Unit]
) -> tuple[list[Equation], list[Unit]]:
    """The equations that are computed with one, and the units that they read."""
    parts: dict[Equation, None] = {}
    leaves: dict[Unit, None] = {}
    todo = [equation]
    while todo:
        one = todo.pop()
        if one in units:
            leaves[units[one]] = None
        elif one not in parts:
            parts[one] = None
            todo += [made[a] for a in flat(one.inputs) if a in made]
    return list(parts), list(leaves)


def _in_order(units: list[Unit], steps: dict[Any, int]) -> list[Unit]:
    """The units in the order of the program's steps, each behind what it reads."""
    turn: dict[Unit, int] = {}
    for unit in units:
        own = max((steps.get(v, -1) for v in flat(unit.equation.outputs)), default=-1)
        turn[unit] = max([own, *(turn[leaf] for leaf in unit.leaves)])
    found = sorted(units, key=lambda u: (turn[u], u.number))
    for number, unit in enumerate(found):
        unit.number = number
    return found


class _Needs(NamedTuple):
    """What a unit is computed from: units that are there, and those computed with it."""

    leaves: list[Unit]
    fused: list[Unit]


class LimitedRun:
    """The units run in memory of ``budget`` bytes; ``cost`` says what computing one again takes.

    ``peak`` is what was held at most, which is more than the budget where it could not be kept;
    ``graph`` is what was run.
    """

    def __init__(
        self, graph: Graph, units: list[Unit], budget: int, cost: Callable[[Unit], float]
    ) -> None:
        self.budget, self.cost, self.units = budget, cost, units
        self.resident: dict[Unit, None] = {}
        self.locked: Counter[Unit] = Counter()
        self.used = self.peak = self.now = self.again = 0
        self.time = 0.0
        self.writer = _Writer(graph)
        for unit in units:
            self._compute(unit)
            self.now += 1
            self._free([unit, *unit.leaves])
            self.is_whole = self.again <= _MOST_AGAIN * len(units)
            if not self.is_whole:
                break

    @property
    def graph(self) -> Graph:
        """What was run."""
        return self.writer.graph()

    # -- running -------------------------------------------------------------------------------
    def _compute(self, unit: Unit) -> None:
        """Compute a unit, and before it what it reads that is not there."""
        todo: list[tuple[Unit, _Needs | None]] = [(unit, None)]  # no recursion: chains are long
        while todo:
            one, needs = todo.pop()
            if needs is None and one not in self.resident:
                needs = self._needs(one)
                todo.append((one, needs))
                todo += [(leaf, None) for leaf in reversed(needs.leaves)]
                continue
            if needs is not None:
                if one not in self.resident:
                    self._write(one, needs)
                self.locked.subtract(needs.leaves)
                self._free(needs.leaves)
            if one is not unit:
                self.locked[one] += 1
                if needs is not None:
                    self._count([one])

    def _needs(self, unit: Unit) -> _Needs:
        """What is to be there for a unit, but for what is computed where it is read."""
        leaves: dict[Unit, None] = {}
        fused: list[Unit] = []
        todo = [(unit, leaf) for leaf in unit.leaves]
        while todo:
            reader, leaf = todo.pop(0)
            is_fused = leaf not in self.resident and reader in leaf.fusing and leaf not in fused
            if is_fused and len(fused) < _MOST_FUSED:
                fused.append(leaf)
                todo += [(leaf, below) for below in leaf.leaves]
            elif leaf not in fused:
                leaves[leaf] = None
        return _Needs(list(leaves), fused)

    def _count(self, units: list[Unit]) -> None:
        self.again += len(units)
        self.time += sum(map(self.cost, units))

    def _write(self, unit: Unit, needs: _Needs) -> None:
        """Give a unit memory, that of what ends with it where the program does so, and write it."""
        if unit.in_place:
            alike = (u for u in needs.leaves if u.size == unit.size and self.locked[u] == 1)
            ended = next((u for u in alike if self._has_ended(u)), None)
            if ended is not None:
                self._drop(ended)
        self._make_room(unit.size)
        for fused in sorted(needs.fused, key=lambda u: u.number):
            self.writer.write(fused)
        self._count(needs.fused)
        self.writer.write(unit)
        self.resident[unit] = None
        self.used += unit.size
        self.peak = max(self.peak, self.used)

    def _free(self, units: Sequence[Unit]) -> None:
        """Give back the memory of what has ended."""
        for unit in units:
            if unit in self.resident and not self.locked[unit] and self._has_ended(unit):
                self._drop(unit)

    def _has_ended(self, unit: Unit) -> bool:
        """Whether nothing reads a unit any more, nor what is to be computed again."""
        if self._next(unit) is not None:
            return False
        return all(self._next(reader) is None for reader in self._gone(unit))

    def _drop(self, unit: Unit) -> None:
        del self.resident[unit]
        self.used -= unit.size

    def _next(self, unit: Unit) -> int | None:
        """The unit that reads this one next."""
        at = bisect.bisect_left(unit.readers, self.now)
        return unit.readers[at] if at < len(unit.readers) else None

    def _gone(self, unit: Unit) -> Iterator[Unit]:
        """What is computed from a unit, at once or by others like that, and is not there."""
        seen, todo = {unit}, [unit]
        while todo:
            for number in todo.pop().readers:
                reader = self.units[number]
                if number < self.now and reader not in self.resident and reader not in seen:
                    yield reader
                    seen.add(reader)
                    todo.append(reader)

    # -- dropping ------------------------------------------------------------------------------
    def _make_room(self, size: int) -> None:
        while self.used + size > self.budget:
            choices = ((s, u) for u in self.resident if (s := self._loss(u)) is not None)
            best = min(choices, key=lambda c: (c[0], c[1].number), default=None)
            if best is None:
                return
            self._drop(best[1])

    def _loss(self, unit: Unit) -> float | None:
        """What dropping a unit costs for a byte and a unit of time; None where it must stay.

        It costs what it is computed from and is not there either; and who is computed from it and
        is not there will cost more.
        """
        if not unit.size or not unit.is_repeatable or self.locked[unit]:
            return None
        cost = 0.0
        seen, todo = {unit}, [unit]
        while todo:
            one = todo.pop()
            if not one.is_repeatable:
                return None
            cost += self.cost(one)
            for leaf in one.leaves:
                if leaf not in self.resident and leaf not in seen:
                    seen.add(leaf)
                    todo.append(leaf)
        turns = [self._next(unit)]
        for reader in self._gone(unit):
            turns.append(self._next(reader))
            cost += self.cost(reader)
        after = min((t for t in turns if t is not None), default=len(self.units))
        return cost / unit.size / (after - self.now + 1)


class _Writer:
    """Writes down what is run, as a graph: what is computed again is another variable."""

    def __init__(self, source: Graph) -> None:
        self.source = source
        self.equations: list[Equation] = []
        self.version: dict[Variable, Variable] = {}  # of what was computed last
        self.known: dict[Any, Equation] = {}
        self.written: set[Equation] = set()

    def write(self, unit: Unit) -> None:
        """Write the equations of a unit. Units share those before the last where these read the
        same; but not what is computed again, or it would be kept for that."""
        own: dict[Any, Any] = {}
        is_again = unit.equation in self.written
        assert unit.is_repeatable or not is_again, unit.equation

        def read(atom: Any) -> Any:
            return own.get(atom, self.version.get(atom, atom))

        for equation in unit.parts:
            inputs = map_entries(read, equation.inputs)
            is_head = equation is unit.equation
            key = (equation, inputs)
            done = None if is_head or is_again else self.known.get(key)
            if done is None:
                done = self._new(equation, inputs)
                if not is_again:
                    self.known[key] = done
            for old, new in zip(flat(equation.outputs), flat(done.outputs)):
                (self.version if is_head else own)[old] = new

    def _new(self, equation: Equation, inputs: tuple[Any, ...]) -> Equation:
        """The equation on other operands, under the names that it has where it is the first."""
        outputs = equation.outputs
        if equation in self.written:
            outputs = map_entries(lambda v: Variable(v.name, v.meta, v.state), outputs)
        self.written.add(equation)
        made = Equation(
            equation.op, inputs, equation.attrs, outputs, equation.source, equation.kernel
        )
        self.equations.append(made)
        return made

    def graph(self) -> Graph:
        """The graph of all that was written."""
        g = self.source
        outputs = tuple(self.version.get(a, a) if isinstance(a, Variable) else a for a in g.outputs)
        return Graph(g.inputs, g.constants, tuple(self.equations), outputs)
