"""Where the temps of a native segment live: on the stack, or together in one block of memory."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from phix.core import dims as dm
from phix.core import settings, stack, stages
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of
from phix.kernels.loops.nodes import Buffer, Step

# Tiny temps go on the stack, up to this many of a function.
_MOST_ON_STACK = 64
_WORST = 1 << 62
# Slots of other sizes that are looked at for a temp.
_MOST_TRIED = 256
# Temps up to which each is put into a gap between all others: that takes the square of the number.
_MOST_PACKED = 400

Lives = dict[Buffer, tuple[int, int]]


def touched(step: Step) -> set[Buffer]:
    """The temps a step uses, those of the steps inside it included."""
    return {b for b in effects_of(step).touched if b.kind == "temp"}


def apart(steps: list[Step]) -> dict[Step, list[Buffer]]:
    """The loops and branches of a program with many of them, and the tiny temps each alone uses.

    They are functions of their own, with those temps on the stack.
    """
    inner = [step for step in steps if ir.blocks(step)]
    if len(inner) <= settings.current().most_nested_loops:
        return {}
    users = Counter(b for step in steps for b in touched(step))
    return {
        step: _by_number(b for b in touched(step) if users[b] == 1 and ir.is_tiny(b))[
            :_MOST_ON_STACK
        ]
        for step in inner
    }


def on_stack(steps: list[Step]) -> list[Buffer]:
    """The temps that are small enough to live on the stack."""
    own = [b for temps in apart(steps).values() for b in temps]
    every = set().union(*map(touched, steps)) if steps else set()
    tiny = _by_number(b for b in every - set(own) if ir.is_tiny(b))
    return [*tiny[:_MOST_ON_STACK], *own]


def _by_number(temps: Iterable[Buffer]) -> list[Buffer]:
    return sorted(temps, key=lambda b: int(b.name[1:]))


def lifetimes(steps: list[Step]) -> Lives:
    """From where to where each temp is needed, in numbers of steps, inner ones included.

    A temp that is used inside one loop alone is computed anew by each iteration; any other lives
    through the whole of each loop that uses it.
    """
    lives: Lives = {}
    _number(steps, 0, lives, set())
    return lives


@stack.nests
def _number(steps: list[Step], start: int, lives: Lives, outer: set[Buffer]) -> int:
    """Number the steps from ``start``; ``outer`` temps are not theirs alone."""
    every = [touched(step) for step in steps]
    users = Counter(buffer for own in every for buffer in own)
    for step, own in zip(steps, every):
        begin = start
        start += 1
        inner = [block for block in ir.blocks(step) if block]
        kept = outer | {b for b in own if users[b] > 1} | ir.step_uses(step)
        if isinstance(step, ir.SwitchStep):
            counts = [b for block in inner for b in set().union(*map(touched, block))]
            kept |= {b for b in counts if counts.count(b) > 1}
            for block in inner:
                start = _number(block, start, lives, kept)
        elif inner:
            start = _number([s for block in inner for s in block], start, lives, kept)
        for buffer in own:
            if not inner or buffer in kept:
                first, last = lives.get(buffer, (begin, start))
                lives[buffer] = (min(first, begin), max(last, start))
    return start


def plan_slots(steps: list[Step], wanted: Callable[[Buffer], bool]) -> list[list[Buffer]]:
    """Groups of temps, no two of a group alive at once; sizes that fit best go together.

    The largest come first, so that smaller ones find the times at which these are not needed.
    """
    return _slots(steps, lifetimes(steps), wanted)


def _slots(steps: list[Step], every: Lives, wanted: Callable[[Buffer], bool]) -> list[list[Buffer]]:
    lives = {b: span for b, span in every.items() if wanted(b)}
    plan = _Slots()
    for buffer in sorted(lives, key=lambda t: (-_known_size(t), lives[t][0], int(t.name[1:]))):
        plan.place(buffer, *lives[buffer])
    slots = [slot.buffers for slot in plan.slots]
    if stages.is_verifying():
        from phix.kernels.loops import verifier

        verifier.verify_slots(steps, slots)
    return slots


class Packing(NamedTuple):
    """Where temps lie in their block: those of known sizes from its begin, in ``size`` bytes, and
    behind them slots for the others, each for the largest of its buffers."""

    offsets: dict[Buffer, int]
    size: int
    slots: list[list[Buffer]]

    def groups(self) -> list[list[Buffer]]:
        """For each piece of memory, the buffers that lie there; one may lie in several."""
        ends = {b: at + _known_size(b) for b, at in self.offsets.items()}
        found: dict[tuple[Buffer, ...], None] = {}
        for start in sorted(set(self.offsets.values())):
            here = tuple(b for b, at in self.offsets.items() if at <= start < ends[b])
            found[here] = None
        return [*map(list, found), *self.slots]


def plan(steps: list[Step], wanted: Callable[[Buffer], bool], alignment: int) -> Packing:
    """Where the wanted temps lie, those of known sizes at multiples of ``alignment``."""
    lives = lifetimes(steps)
    slots = _slots(steps, lives, wanted)
    known = [slot for slot in slots if all(_known_size(b) < _WORST for b in slot)]
    others = [slot for slot in slots if slot not in known]
    offsets: dict[Buffer, int] = {}
    total = 0
    for slot in known:
        offsets.update(dict.fromkeys(slot, total))
        total += _rounded(max(map(_known_size, slot)), alignment)
    if len(known) < len(offsets) <= _MOST_PACKED:
        packed, size = _packed(offsets, lives, alignment)
        if size < total:
            offsets, total = packed, size
    found = Packing(offsets, total, others)
    if stages.is_verifying():
        from phix.kernels.loops import verifier

        verifier.verify_slots(steps, found.groups())
    return found


def _packed(temps: Iterable[Buffer], lives: Lives, alignment: int) -> tuple[dict[Buffer, int], int]:
    """An offset for each temp, largest first: the smallest gap between those that are alive with it
    that has room for it. And the size of all."""
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # offset, end, and when it is alive, in order
    total = 0
    for buffer in sorted(temps, key=lambda t: (-_known_size(t), lives[t][0], int(t.name[1:]))):
        size, (first, last) = _rounded(_known_size(buffer), alignment), lives[buffer]
        free, best, least = 0, -1, _WORST
        for start, end, begin, over in placed:
            if begin < last and first < over:
                if size <= start - free < least:
                    best, least = free, start - free
                free = max(free, end)
        best = free if best < 0 else best
        offsets[buffer] = best
        bisect.insort(placed, (best, best + size, first, last))
        total = max(total, best + size)
    return offsets, total


def _rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _Slot:
    """Buffers in one piece of memory, and when it is taken, in order of time."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.spans: list[tuple[int, int]] = []

    def is_free(self, begin: int, end: int) -> bool:
        at = bisect.bisect_left(self.spans, (begin, begin))
        is_over = at == 0 or self.spans[at - 1][1] <= begin
        return is_over and (at == len(self.spans) or end <= self.spans[at][0])

    def take(self, buffer: Buffer, begin: int, end: int) -> None:
        self.buffers.append(buffer)
        bisect.insort(self.spans, (begin, end))


class _Slots:
    """Slots for buffers that come largest first, those of one size in order of time."""

    def __init__(self) -> None:
        self.slots: list[_Slot] = []
        self.by_size: dict[Any, list[_Slot]] = {}
        # of the slots made for a size: when each becomes free and its number, and those that are
        self.busy: dict[Any, list[tuple[int, int]]] = {}
        self.idle: dict[Any, list[int]] = {}

    def place(self, buffer: Buffer, begin: int, end: int) -> None:
        size = dm.product(buffer.dims) * buffer.dtype.itemsize
        key = size if isinstance(size, int) else size.key
        busy, idle = self.busy.setdefault(key, []), self.idle.setdefault(key, [])
        while busy and busy[0][0] <= begin:
            heapq.heappush(idle, heapq.heappop(busy)[1])
        if idle:
            number = heapq.heappop(idle)
        else:
            larger = self.larger(begin, end) if isinstance(key, int) else None
            if larger is not None:
                larger.take(buffer, begin, end)
                return
            number = len(self.slots)
            self.slots.append(_Slot())
            self.by_size.setdefault(key, []).append(self.slots[number])
        self.slots[number].take(buffer, begin, end)
        heapq.heappush(busy, (end, number))

    def larger(self, begin: int, end: int) -> _Slot | None:
        """A slot that is free then, of the known size that is closest."""
        sizes = (k for k in reversed(self.by_size) if isinstance(k, int))
        near = itertools.chain.from_iterable(self.by_size[k] for k in sizes)
        tried = itertools.islice(near, _MOST_TRIED)
        return next((slot for slot in tried if slot.is_free(begin, end)), None)


def _known_size(buffer: Buffer) -> int:
    """The bytes of a buffer; of unknown dims more than of any others, as they stay apart."""
    size = dm.product(buffer.dims) * buffer.dtype.itemsize
    return size if isinstance(size, int) else _WORST
