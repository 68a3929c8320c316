"""What goes between ranks is begun in its place, and waited for where it is needed.

A collective moves bytes while this process has other work: steps that need none of its results go
ahead of the wait for it. Collectives begin in the order of the program, on every rank the same;
where they are waited for is each rank's own affair.
"""

from __future__ import annotations

from phix.core import dims as dm
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import Effects, effects_of
from phix.kernels.loops.nodes import Buffer, HostStep, StartStep, Step, WaitStep

# What is in flight keeps memory: so many collectives at most, and of those that give more than they
# take (weights that are gathered) the next one besides the one in use.
_MOST, _MOST_GROWING = 8, 2
# Steps that go ahead of a wait: results that are due stay in memory meanwhile.
_MOST_PASSED = 64
_GUESS = 256  # of dims that are not known


def overlapped(steps: list[Step]) -> list[Step]:
    """The steps in the order in which collectives overlap with what does not need them."""
    if not any(isinstance(s, HostStep) for s in ir.walk_steps(steps)):
        return steps
    order = _Order()
    for step in steps:
        for block in ir.blocks(step):
            block[:] = overlapped(block)
        order.take(step)
    order.release(len(order.later))
    return _joined(order.done)


class _Order:
    """Steps in their new order: those that are ``done``, and what comes ``later``, because it waits
    for a collective or needs what does, with the effects of each."""

    def __init__(self) -> None:
        self.done: list[Step] = []
        self.later: list[tuple[Step, Effects]] = []
        self.reads: set[Buffer] = set()  # of all that comes later
        self.writes: set[Buffer] = set()
        self.passed = 0

    def take(self, step: Step) -> None:
        """The next step of the block."""
        own = effects_of(step)
        if _is_collective(step):
            self.release_needed(own)
            self.collective(step, own)
        elif own.in_python or own.binds:
            self.release(len(self.later))
            self.done.append(step)
        elif own.writes & (self.reads | self.writes) or own.reads & self.writes:
            self.put_off(step, own)
        else:
            self.done.append(step)
            self.passed += bool(self.later)
            if self.passed >= _MOST_PASSED:
                self.release(len(self.later))

    def collective(self, step: Step, own: Effects) -> None:
        assert isinstance(step, HostStep)
        if step.attrs["begin"] is None:
            self.done.append(step)
            return
        parts = (step.name, step.function, step.inputs, step.outputs, step.dims, step.attrs)
        start = StartStep(*parts)
        waits = [(n, s) for n, (s, _) in enumerate(self.later) if isinstance(s, WaitStep)]
        growing = [n for n, s in waits if _grows(s)]
        if len(waits) >= _MOST or (_grows(step) and len(growing) >= _MOST_GROWING):
            self.release((growing if _grows(step) else [n for n, _ in waits])[0] + 1)
        self.done.append(start)
        self.put_off(WaitStep(*parts, start), own)

    def put_off(self, step: Step, own: Effects) -> None:
        self.later.append((step, own))
        self.reads |= own.reads
        self.writes |= own.writes

    def keep(self, later: list[tuple[Step, Effects]]) -> None:
        """Nothing else comes later."""
        self.later, self.reads, self.writes = [], set(), set()
        for step, own in later:
            self.put_off(step, own)
        if not later:
            self.passed = 0

    def release(self, count: int) -> None:
        """Let the first of what comes later come now."""
        self.done += [step for step, _ in self.later[:count]]
        self.keep(self.later[count:])

    def release_needed(self, own: Effects) -> None:
        """Let come now what a step with these effects has to come behind, and nothing else."""
        needed: list[Step] = []
        kept: list[tuple[Step, Effects]] = []
        behind = own
        for step, effects in reversed(self.later):
            if effects.conflicts(behind):
                behind = behind.joined(effects)
                needed.append(step)
            else:
                kept.append((step, effects))
        self.done += reversed(needed)
        self.keep(kept[::-1])


def _is_collective(step: Step) -> bool:
    return isinstance(step, HostStep) and "begin" in step.attrs


def _grows(step: HostStep) -> bool:
    """Whether a step gives more than it takes."""
    given, made = (
        sum(dm.estimate(dm.product(b.dims), _GUESS) for b in buffers)
        for buffers in (step.inputs, step.outputs)
    )
    return made > given


def _joined(steps: list[Step]) -> list[Step]:
    """The steps, those whole again that have nothing to do between start and wait."""
    found: list[Step] = []
    begun: dict[StartStep | None, int] = {}
    count: dict[StartStep | None, int] = {}
    work = 0  # how many steps do something besides
    for step in steps:
        if isinstance(step, StartStep):
            begun[step], count[step] = len(found), work
        elif isinstance(step, WaitStep) and count[step.start] == work:
            at = begun[step.start]
            found[at] = HostStep(
                step.name, step.function, step.inputs, step.outputs, step.dims, step.attrs
            )
            continue
        elif not isinstance(step, HostStep):
            work += 1
        found.append(step)
    return found
