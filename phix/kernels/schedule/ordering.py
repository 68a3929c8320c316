"""The order of steps: what frees memory comes as soon as it can.

A weight's gradient is the last to need the layer's input, and nothing waits for it: left where it
was asked for, behind all others, it would keep the inputs of all layers to the end.
"""

from __future__ import annotations

from collections import Counter

from phix.core import dims as dm
from phix.core import settings
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import Uses, has_effect
from phix.kernels.loops.nodes import Buffer, Kernel, LoopProgram, Step
from phix.kernels.schedule.estimates import estimate
from phix.kernels.schedule.pipeline import Setting

# Where a step goes: behind the step of that number, and how many were moved there that it needs.
_Position = tuple[int, int]


def free_early(program: LoopProgram, _: Setting) -> None:
    """Move steps that end the lives of more memory than they ask for behind what they need.

    Of what a loop or a branch has inside, nothing is moved.
    """
    steps = program.steps
    least = settings.current().least_freed_bytes
    uses = Uses(steps)
    spans = {b: span for b, span in uses.spans().items() if b.kind == "temp"}
    written: dict[Buffer, _Position] = {}  # where last
    used: dict[Buffer, _Position] = {}
    fence: _Position = (-1, 0)
    places: list[_Position] = []
    for number, step in enumerate(steps):
        reads, writes = uses.of(step).reads, uses.of(step).writes
        place = (number, 0)
        if isinstance(step, Kernel) and _freed(number, reads | writes, spans) >= least:
            needs = [written.get(b, fence) for b in reads] + [used.get(b, fence) for b in writes]
            behind = max(fence, *needs)
            place = behind[0], behind[1] + 1
        if _keeps_order(step):
            fence = place
        for buffers, last in ((writes, written), (reads | writes, used)):
            last.update((b, max(place, last.get(b, place))) for b in buffers)
        places.append(place)
    order = sorted(range(len(steps)), key=places.__getitem__)
    program.steps = [steps[number] for number in order]


def overlap_collectives(program: LoopProgram, _: Setting) -> None:
    """The pass: put off the waits for collectives, and what needs their results."""
    if has_effect(program.steps):
        from phix.kernels.schedule.overlap import overlapped  # for programs with collectives alone

        program.steps = overlapped(program.steps)


def asking(steps: list[Step]) -> frozenset[Step]:
    """The steps that ask for much memory."""
    least = settings.current().least_freed_bytes
    asked: Counter[int] = Counter()
    for buffer, (first, _) in Uses(steps).spans().items():
        asked[first] += _size(buffer) if buffer.kind == "temp" else 0
    return frozenset(step for k, step in enumerate(steps) if asked[k] >= least)


def _freed(number: int, touched: frozenset[Buffer], spans: dict[Buffer, tuple[int, int]]) -> int:
    """How many bytes more than before are free behind a step."""
    total = 0
    for buffer in touched & spans.keys():
        first, last = spans[buffer]
        total += _size(buffer) * ((last == number) - (first == number))
    return total


def _size(buffer: Buffer) -> int:
    return estimate(dm.product(buffer.dims)) * buffer.dtype.itemsize


def _keeps_order(step: Step) -> bool:
    """Whether nothing goes past the step: it may have effects, or gives dims their values."""
    return any(isinstance(s, (ir.HostStep, ir.BindStep)) for s in ir.walk_steps([step]))
