"""What a step of the loop IR reads and writes, and what keeps its place: all passes ask here.

Who lets two buffers be one memory, moves a step or joins two must know whether that is seen.
Buffers are told apart by the memory they have: whoever touches a slice touches its base.
:class:`Uses` answers for a whole block, at a cost that does not grow with the block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from phix.core import stack
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import rewriting
from phix.kernels.loops.calls import CallStep
from phix.kernels.loops.nodes import Buffer, HostStep, Kernel, Statement, Step


@dataclass(frozen=True)
class Effects:
    """The buffers that are read and written, with the bases of slices.

    ``in_python``: Python runs a part of it, or a call between ranks is, and may have effects that
    no buffer shows. ``binds``: a dim has its value only from there on, so what comes behind stays
    behind.
    """

    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    in_python: bool = False
    binds: bool = False

    @stack.lazy
    def touched(self) -> frozenset[Buffer]:
        """What is read or written."""
        return self.reads | self.writes

    def conflicts(self, other: Effects) -> frozenset[Buffer]:
        """The buffers because of which the two must stay in order."""
        return (self.writes & other.touched) | (self.reads & other.writes)

    def may_exchange(self, later: Effects) -> bool:
        """Whether what comes later may as well come before."""
        both_in_python = self.in_python and later.in_python
        return not (self.binds or both_in_python or self.conflicts(later))

    def joined(self, other: Effects) -> Effects:
        """The effects of both."""
        return Effects(
            self.reads | other.reads,
            self.writes | other.writes,
            self.in_python or other.in_python,
            self.binds or other.binds,
        )

    def renamed(self, old: Buffer, names: frozenset[Buffer]) -> Effects:
        """The effects where ``old`` has become another buffer: ``names``, its bases among them."""
        reads = (self.reads - {old}) | names if old in self.reads else self.reads
        writes = (self.writes - {old}) | names if old in self.writes else self.writes
        return Effects(reads, writes, self.in_python, self.binds)


def effects_of(step: Step) -> Effects:
    """The effects of a step, those of the steps inside it included."""
    if isinstance(step, Kernel):
        return of_block(step.body)
    return Effects(
        frozenset(ir.step_reads(step)),
        frozenset(ir.step_writes(step)),
        has_effect([step]),
        isinstance(step, ir.BindStep),
    )


def of_block(body: list[Statement]) -> Effects:
    """The effects of statements of a kernel."""
    every = ir.walk(body)
    reads, writes = ir.reads(body, every), ir.writes(body, every)
    return Effects(frozenset(ir.with_bases(reads)), frozenset(ir.with_bases(writes)))


def users_of(steps: list[Step]) -> Counter[Buffer]:
    """How many of the steps, those inside included, touch each buffer themselves.

    What is no kernel counts twice: a buffer with one user is a kernel's own.
    """
    users: Counter[Buffer] = Counter()
    for step in ir.walk_steps(steps):
        if isinstance(step, Kernel):
            users.update(effects_of(step).touched)
        else:
            users.update([*ir.step_uses(step), *ir.step_uses(step)])
    return users


def may_meet(a: Buffer, b: Buffer) -> bool:
    """Whether two buffers may have elements in common: one is memory of the other, or both are
    slices of a third that are not known to be apart."""
    if ir.owner(a) is not ir.owner(b):
        return False
    if a is b or a.base is None or a.base is not b.base or a.index is None or b.index is None:
        return True
    return a.index is b.index or not a.index.fn == b.index.fn == "const"


def has_host_step(steps: list[Step]) -> bool:
    """Whether Python runs one of the steps."""
    return any(
        isinstance(s, HostStep) and not isinstance(s, CallStep) for s in ir.walk_steps(steps)
    )


def has_effect(steps: list[Step]) -> bool:
    """Whether one of the steps has effects that no buffer shows."""
    return any(isinstance(s, HostStep) for s in ir.walk_steps(steps))


class Uses:
    """Which steps of a block touch which buffer, found once and kept while passes change it.

    ``steps`` is the block itself. Change it through the methods here alone.
    """

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self._effects: dict[Step, Effects] = {}
        self._users: dict[Buffer, set[Step]] = {}
        self._number: dict[Step, int] = {}
        self._bases: set[Buffer] = set()
        self._made_by_host: set[Buffer] = set()
        for step in steps:
            for buffer in self.of(step).touched:
                self._users.setdefault(buffer, set()).add(step)
                if buffer.base is not None:
                    self._bases.add(buffer.base)
        for step in ir.walk_steps(steps):
            if isinstance(step, HostStep):
                self._made_by_host.update(step.outputs)
        self._renumber()

    def _renumber(self) -> None:
        self._number = {step: k for k, step in enumerate(self.steps)}

    def of(self, step: Step) -> Effects:
        """The effects of a step of the block."""
        if step not in self._effects:
            self._effects[step] = effects_of(step)
        return self._effects[step]

    # -- who touches a buffer ----------------------------------------------------------------
    def number(self, step: Step) -> int:
        """The place of a step in the order; numbers of steps that have gone are left out."""
        return self._number[step]

    def users(self, *buffers: Buffer) -> list[Step]:
        """The steps that touch one of the buffers, in order."""
        found = set().union(*(self._users.get(b, ()) for b in buffers))
        return sorted(found, key=self._number.__getitem__)

    def writers(self, buffer: Buffer) -> list[Step]:
        """The steps that write the buffer, in order."""
        return [s for s in self.users(buffer) if buffer in self.of(s).writes]

    def readers(self, buffer: Buffer) -> list[Step]:
        """The steps that read the buffer, in order."""
        return [s for s in self.users(buffer) if buffer in self.of(s).reads]

    def spans(self) -> dict[Buffer, tuple[int, int]]:
        """The numbers of the first and the last step that touch each buffer."""
        return {b: (min(n), max(n)) for b in self._users if (n := self._numbers(b))}

    def _numbers(self, buffer: Buffer) -> list[int]:
        return [self._number[s] for s in self._users[buffer]]

    def is_touched(self, buffer: Buffer) -> bool:
        """Whether any step touches the buffer."""
        return bool(self._users.get(buffer))

    def has_slices(self, buffer: Buffer) -> bool:
        """Whether a step touches the buffer through a slice of it."""
        return buffer in self._bases

    def is_made_by_host(self, buffer: Buffer) -> bool:
        """Whether Python makes the buffer, as an array of its dims."""
        return buffer in self._made_by_host

    # -- changes -----------------------------------------------------------------------------
    def rename(self, old: Buffer, new: Buffer) -> None:
        """Let the steps touch ``new`` where they touched ``old``."""
        names = frozenset(ir.with_bases({new}))
        if old in self._bases:
            for buffer in self._users:
                if buffer.base is old:
                    buffer.base = new
        users = self._users.pop(old, set())
        for step in users:
            for inner in ir.walk_steps([step]):
                _rename_in(inner, old, new)
            self._effects[step] = self.of(step).renamed(old, names)
        for buffer in names:
            self._users.setdefault(buffer, set()).update(users)
        self._bases.update(b.base for b in names if b.base is not None)
        for known in (self._bases, self._made_by_host):
            if old in known:
                known.add(new)

    def remove(self, gone: Iterable[Step]) -> None:
        """Take steps out of the block."""
        dead = set(gone)
        for step in dead:
            for buffer in self._effects.pop(step).touched:
                self._users[buffer].discard(step)
            del self._number[step]
        if dead:
            self.steps[:] = [s for s in self.steps if s not in dead]

    def put_in_order(self, steps: list[Step]) -> None:
        """Give the steps of the block another order."""
        self.steps[:] = steps
        self._renumber()

    def between(self, first: Step, last: Step) -> list[Step]:
        """The steps behind ``first``, up to ``last``."""
        start = self.steps.index(first) + 1
        stop = self.steps.index(last, start - 1) + 1
        return self.steps[start:stop]


def _rename_in(step: Step, old: Buffer, new: Buffer) -> None:
    """Put ``new`` where a step itself, not those inside it, touches ``old``."""

    def one(buffer: Buffer) -> Buffer:
        return new if buffer is old else buffer

    if isinstance(step, Kernel):
        rewriting.change_accesses(step.body, {old: rewriting.rename(new)})
    elif isinstance(step, HostStep):
        step.inputs = tuple(map(one, step.inputs))
        step.outputs = tuple(map(one, step.outputs))
    elif isinstance(step, ir.SwitchStep):
        step.index = one(step.index)
    elif isinstance(step, ir.BindStep):
        step.source = one(step.source)
    else:
        if isinstance(step, ir.WhileStep):
            step.flag = one(step.flag)
        step.swaps = [(one(a), one(c)) for a, c in step.swaps]
