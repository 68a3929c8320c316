"""What a plan of ``phix.parallel.shard`` costs: work of a part, and steps between the parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phix.core.graph import flat
from phix.parallel.forms import MULTIPLIED, TOUCHED, local_bytes
from phix.parallel.plans import DividedGraph, Run


@dataclass(frozen=True)
class Work:
    """Of one part: multiplications, and bytes that ops read and write, each by itself."""

    multiplied: float
    touched: float

    @property
    def cost(self) -> float:
        """As the planner weighs it: in bytes that could be moved between parts meanwhile."""
        return MULTIPLIED * self.multiplied + TOUCHED * self.touched


def work(plan: DividedGraph, sizes: Mapping[str, int]) -> Work:
    """The work of a part; bodies of loops as often as they run."""
    multiplied = touched = 0.0
    for step in plan.steps:
        if not isinstance(step, Run):
            continue
        length = step.equation.attrs[1] if step.equation.op.name == "scan" else 1
        for inner in step.inner:
            found = work(inner, sizes)
            multiplied += length * found.multiplied
            touched += length * found.touched
        if step.rule is None:
            continue
        multiplied += step.rule.flops / math.prod(n for _, n in step.cut.values())
        atoms = [*flat(step.equation.inputs), *flat(step.equation.outputs)]
        for atom, form in zip(atoms, [*step.operands, *step.outs]):
            touched += local_bytes(atom.meta, form, sizes)
    return Work(multiplied, touched)


def held(plan: Any, sizes: Mapping[str, int], names: tuple[str, ...]) -> float:
    """The bytes of a part of those arguments whose names begin so."""
    pairs = zip(plan.plan.graph.inputs, plan.plan.inputs)
    return sum(local_bytes(v.meta, f, sizes) for v, f in pairs if v.name.startswith(names))


def seconds(steps: Any, latency: Mapping[str, float], speed: Mapping[str, float]) -> float:
    """Of the steps between the parts, each after the other: ``latency`` and bytes a second of each
    axis."""
    return sum((s.times or 1) * (latency[s.axis] + s.bytes / speed[s.axis]) for s in steps)
