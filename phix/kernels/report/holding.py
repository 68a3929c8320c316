"""Which variables of a graph have memory of their own, and when it is first written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phix.core.analysis import HeldVariable
from phix.core.graph import Variable, flat
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer

if TYPE_CHECKING:
    from phix.kernels.report.explanation import Explanation


def held(explained: Explanation, size: Callable[[Buffer], int]) -> tuple[HeldVariable, ...]:
    """The variables of the graph with a buffer that outlives a kernel's iteration, in the order of
    the steps that write them; ``size`` gives the bytes of a buffer.

    One that lives in the memory of an output has no bytes of its own. Views have those of what
    they show, and are left out.
    """
    graph, values = explained.record.graphs[0]
    steps = list(ir.walk_steps(explained.program.steps))
    rows = {b.name for s in steps for b in _locals(s)}
    written = {b for s in steps for b in ir.step_writes(s)}
    first = _first_steps(explained)
    found: dict[Buffer, HeldVariable] = {}
    for equation in graph.equations:
        for variable in flat(equation.outputs):
            buffer = values[variable].buffer if variable in values else None
            if buffer is None or buffer in found or buffer not in explained.written:
                continue
            if buffer.kind == "output" or (buffer.kind == "temp" and buffer.name not in rows):
                count = size(buffer) if buffer.kind == "temp" else 0
                found[buffer] = HeldVariable(
                    variable, count, first.get(variable, -1), buffer not in written
                )
    outputs = {v for v in explained.graph.outputs if isinstance(v, Variable)}
    known = {h.variable for h in found.values()}
    every = [*found.values(), *(HeldVariable(v, 0, -1) for v in outputs - known)]
    return tuple(every)


def _locals(step: ir.Step) -> Any:
    return step.locals if isinstance(step, ir.Kernel) else ()


def _first_steps(explained: Explanation) -> dict[Any, int]:
    """The number of the first step that computes each variable."""
    first: dict[Any, int] = {}
    for number, (_, _, equations) in enumerate(explained.groups()):
        for equation in equations:
            for variable in flat(equation.outputs):
                first.setdefault(variable, number)
    return first
