"""The graph of one step: what it takes from the steps before, from rows, and from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from phix.core import stages
from phix.core.errors import VerificationError
from phix.core.graph import Equation, Graph, Variable, flat, map_entries
from phix.interpreters.equal_calls import attr_key
from phix.interpreters.stage import finish
from phix.passes.loops_of_steps import Loop, is_one
from phix.passes.unrolled_steps import Read, Result


class Body:
    """The graph of one step: what it takes from the steps before, from rows, and from outside."""

    def __init__(self, loop: Loop) -> None:
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
            if not is_one(atoms):
                self.series.append(atoms)
            elif type(atoms[0]) is Variable:
                self.constants.append(atoms[0])
            else:
                continue
            self.read[atoms] = Variable("", atoms[0].meta)

    def graph(self) -> Graph:
        """What one step does."""
        equations = tuple(map(self._equation, self.steps.inside))
        if stages.is_verifying():
            self._check(equations)
        carries = [Read(v, ago) for v, ago in self.carries]
        xs = [self.read[atoms] for atoms in self.series]
        constants = [self.read[self.steps.count * (a,)] for a in self.constants]
        inputs = (*(self.read[c] for c in carries), *xs, *constants)
        following = [self.read[c._replace(ago=c.ago - 1)] for c in carries]
        ys = [self.read[Read(v, 0)] for v in self.loop.stacked]
        for number, variable in enumerate(inputs):
            variable.name = f"x{number}"
        return finish(Graph(inputs, (), equations, (*following, *ys)))

    def _check(self, equations: Sequence[Equation]) -> None:
        """That running the steps one after the other makes the equations they come from."""
        for step in range(self.steps.count):
            old: dict[Any, Any] = {
                self.read[Read(v, ago)]: self.steps.before_step(step, Read(v, ago))
                for v, ago in self.carries
            }
            old.update((self.read[atoms], atoms[step]) for atoms in self.series)
            old.update((self.read[self.steps.count * (a,)], a) for a in self.constants)
            for offset, new in zip(self.steps.inside, equations):
                was = self.steps.equation(step, offset)
                atoms = tuple(old.get(a, a) for a in new.atoms)
                is_same = new.op is was.op and attr_key(new.attrs) == attr_key(was.attrs)
                if not is_same or atoms != was.atoms:
                    raise VerificationError(f"roll_steps makes another call of {was.op.name}")
                old.update(zip(new.variables, was.variables))

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
            self.read[Read(Result(offset, number), 0)] = variable
        return replace(old, inputs=inputs, outputs=outputs)
