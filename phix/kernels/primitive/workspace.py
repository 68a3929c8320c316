"""Where the temps of a native segment live: on the stack, or together in one block of memory."""

from __future__ import annotations

from collections.abc import Callable

from phix.core import dims as dm
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import pipeline
from phix.kernels.primitive.inplace import is_tiny
from phix.kernels.primitive.loop_ir import Buffer, Step

# Tiny temps go on the stack, up to this many.
_MOST_ON_STACK = 64
_WORST = 1 << 62

Lives = dict[Buffer, tuple[int, int]]


def touched(step: Step) -> set[Buffer]:
    """The temps a step uses, those of the steps inside it included."""
    return {b for b in ir.step_reads(step) | ir.step_writes(step) if b.kind == "temp"}


def on_stack(steps: list[Step]) -> list[Buffer]:
    """The temps that are small enough to live on the stack."""
    every = set().union(*map(touched, steps)) if steps else set()
    tiny = sorted((b for b in every if is_tiny(b)), key=lambda b: int(b.name[1:]))
    return tiny[:_MOST_ON_STACK]


def lifetimes(steps: list[Step]) -> Lives:
    """From where to where each temp is needed, in numbers of steps, inner ones included.

    A temp that is used inside one loop alone is computed anew by each iteration; any other lives
    through the whole of each loop that uses it.
    """
    lives: Lives = {}
    _number(steps, 0, lives, set())
    return lives


def _number(steps: list[Step], start: int, lives: Lives, outer: set[Buffer]) -> int:
    """Number the steps from ``start``; ``outer`` temps are not theirs alone."""
    users: dict[Buffer, int] = {}
    for step in steps:
        for buffer in touched(step):
            users[buffer] = users.get(buffer, 0) + 1
    for step in steps:
        begin = start
        start += 1
        own = touched(step)
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
    lives = {b: span for b, span in lifetimes(steps).items() if wanted(b)}
    slots: list[list[Buffer]] = []
    for buffer in sorted(lives, key=lambda t: (-_known_size(t), lives[t][0], int(t.name[1:]))):
        begin, end = lives[buffer]
        free = [s for s in slots if all(lives[b][1] <= begin or end <= lives[b][0] for b in s)]
        best = min(free, key=lambda s: _misfit(s[0], buffer), default=None)
        if best is None or _misfit(best[0], buffer) == _WORST:
            slots.append([buffer])
        else:
            best.append(buffer)
    if pipeline.is_verifying():
        from phix.kernels.primitive import verifier

        verifier.verify_slots(steps, slots)
    return slots


def _known_size(buffer: Buffer) -> int:
    """The bytes of a buffer; of unknown dims more than of any others, as they stay apart."""
    size = dm.product(buffer.dims) * buffer.dtype.itemsize
    return size if isinstance(size, int) else _WORST


def _misfit(held: Buffer, buffer: Buffer) -> int:
    """How badly a buffer fits where another was: 0 is exactly."""
    a, b = (dm.product(x.dims) * x.dtype.itemsize for x in (held, buffer))
    if dm.same(a, b):
        return 0
    if isinstance(a, int) and isinstance(b, int):
        return abs(a - b)
    return _WORST
