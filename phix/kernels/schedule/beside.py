"""Kernels that threads run at the same time: each does too little to be shared.

Where what neighbours write is apart from all that the others touch, as in the updates of many
small parameters, nobody sees in which order they run, and threads take one after the other. None of
them writes a temp: those that are not needed at once have the same memory, by the order of steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from phix.core import settings
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import Effects, effects_of
from phix.kernels.loops.nodes import Kernel, LoopProgram
from phix.kernels.schedule.pipeline import Setting
from phix.kernels.schedule.sharing import work_of


def kernels_beside(program: LoopProgram, _: Setting) -> None:
    """The pass: kernels that may run beside those before them are marked, where that pays."""
    run: list[Kernel] = []
    for step in program.steps:
        if isinstance(step, Kernel) and step.shared is None:
            run.append(step)
        else:
            _mark_some(run)
            run = []
    _mark_some(run)


def _mark_some(run: list[Kernel]) -> None:
    """Mark what may run at once of neighbours that one thread runs each."""
    least = settings.current().least_shared_work
    for group in _groups(run) if len(run) > 1 else ():
        works = [work_of(kernel.body) for kernel in group]
        known = [work.data for work in works if work.fn == "const"]
        if len(known) < len(works) or sum(known) - max(known, default=0) >= least:
            for kernel in group[1:]:
                kernel.beside = sum(works[1:], start=works[0])


def _groups(run: list[Kernel]) -> Iterator[list[Kernel]]:
    """Neighbours, as many as may run at once."""
    group: list[Kernel] = []
    touched = _NOTHING
    for kernel in run:
        effects = effects_of(kernel)
        is_result = _gives_results_alone(kernel, effects)
        if not is_result or touched.conflicts(effects):
            yield group
            group, touched = [], _NOTHING
        if is_result:
            group.append(kernel)
            touched = touched.joined(effects)
    yield group


_NOTHING = Effects(frozenset(), frozenset())


def _gives_results_alone(kernel: Kernel, effects: Effects) -> bool:
    """Whether what it writes is seen outside, and no library is at work in it."""
    has_call = any(isinstance(s, ir.LibraryCall) for s in ir.walk(kernel.body))
    return not has_call and all(b.kind != "temp" for b in effects.writes)
