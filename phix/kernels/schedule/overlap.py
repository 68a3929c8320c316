"""What goes between ranks is begun in its place, and waited for where it is needed.

A collective moves bytes while this process has other work: steps that need none of its results go
ahead of the wait for it. Collectives begin in the order of the program, on every rank the same;
where they are waited for is each rank's own affair.

Native code does so with calls of its own, the host with steps of its own: what one has begun is
waited for before the other comes. A sum by pieces has calls behind the one that is begun, by a
communicator of their own, for which ranks wait for each other. No rank may wait there for one that
waits for it elsewhere. So these calls come in the order in which their steps were begun, before any
later step is waited for, and before any collective that is not begun; then of all ranks that wait
the one at the earliest step goes on, since the others have begun that step or are at it themselves.
The host sees to it as it runs (``core/in_flight.py``), here it is the order of the steps.
"""

from __future__ import annotations

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.calls import MOST_UNDER_WAY, CallStep, StartCall, WaitCall
from phix.kernels.loops.effects import Effects, effects_of, has_effect
from phix.kernels.loops.nodes import Buffer, HostStep, StartStep, Step, WaitStep
from phix.kernels.schedule.estimates import estimate

# What is in flight keeps memory: of collectives that give more than they take (weights that are
# gathered) the next one besides the one in use.
_MOST_GROWING = 2
# Steps that go ahead of a wait: results that are due stay in memory meanwhile.
_MOST_PASSED = 64
# What calls that go on write, and waits and collectives that are not begun read, as it were.
_TURN = frozenset({Buffer("turn", dt.int64, (), "temp")})
_GOES_ON, _IN_TURN = Effects(frozenset(), _TURN), Effects(_TURN, frozenset())


def overlapped(steps: list[Step]) -> list[Step]:
    """The steps in the order in which collectives overlap with what does not need them."""
    if not has_effect(steps):
        return steps
    order = _Order()
    for step in steps:
        for block in ir.blocks(step):
            block[:] = overlapped(block)
        order.take(step)
    order.release(len(order.later))
    return _placed(_joined(order.done))


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
        if any(_is_native(s) != _is_native(step) for s, _ in self.later if _is_collective(s)):
            self.release(len(self.later))
        if isinstance(step, CallStep) and step.goes_on:
            own = own.joined(_GOES_ON)
            if own.conflicts(Effects(frozenset(self.reads), frozenset(self.writes))):
                self.put_off(step, own)
            else:
                self.done.append(step)
            return
        if step.attrs["begin"] is None:
            self.release_needed(own.joined(_IN_TURN))
            self.done.append(step)
            return
        self.release_needed(own)
        start, wait = _apart(step)
        waits = [(n, s) for n, (s, _) in enumerate(self.later) if isinstance(s, WaitStep)]
        growing = [n for n, s in waits if _grows(s)]
        if len(waits) >= MOST_UNDER_WAY or (_grows(step) and len(growing) >= _MOST_GROWING):
            self.release((growing if _grows(step) else [n for n, _ in waits])[0] + 1)
        self.done.append(start)
        self.put_off(wait, own.joined(_IN_TURN))

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


def _is_native(step: Step) -> bool:
    return isinstance(step, CallStep)


def _apart(step: HostStep) -> tuple[StartStep, WaitStep]:
    """What begins a step, and what waits for it."""
    parts = (step.name, step.function, step.inputs, step.outputs, step.dims, step.attrs)
    if not isinstance(step, CallStep):
        start = StartStep(*parts)
        return start, WaitStep(*parts, start)
    given = step.routine, step.numbers
    begun = StartCall(*parts, *given)
    return begun, WaitCall(*parts, begun, *given)


def _whole(step: WaitStep) -> HostStep:
    """What begins a step and waits for it."""
    parts = (step.name, step.function, step.inputs, step.outputs, step.dims, step.attrs)
    if isinstance(step, CallStep):
        return CallStep(*parts, step.routine, step.numbers)
    return HostStep(*parts)


def _grows(step: HostStep) -> bool:
    """Whether a step gives more than it takes."""
    given, made = (
        sum(estimate(dm.product(b.dims)) for b in buffers)
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
            found[begun[step.start]] = _whole(step)
            continue
        elif not isinstance(step, HostStep) or (isinstance(step, CallStep) and step.goes_on):
            work += 1
        found.append(step)
    return found


def _placed(steps: list[Step]) -> list[Step]:
    """The steps, where those that native code begins have places for what it waits by."""
    free = list(range(MOST_UNDER_WAY))
    for step in steps:
        if isinstance(step, StartCall):
            step.slot = free.pop()
        elif isinstance(step, WaitCall):
            assert isinstance(step.start, StartCall)
            step.slot = step.start.slot
            free.append(step.slot)
    return steps
