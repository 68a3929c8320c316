"""Which steps wait for which: in a recording the others run side by side.

A small kernel leaves most of a card idle, and a chain of many costs the start of each. A step waits
for those before it that write what it reads or writes, or read what it writes, and for no other; so
a long copy holds up only what needs it. Steps are put into *lanes*: those of a lane run one after
the other, and a step waits for those of other lanes by events.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from phix.core.records import dataclass
from phix.kernels.gpu.factors import Factor
from phix.kernels.gpu.products import SIDE_BY_SIDE, Product
from phix.kernels.gpu.routines import Routine
from phix.kernels.gpu.runtime import Waits
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of
from phix.kernels.loops.nodes import Buffer, Step


@dataclass
class Order:
    """``waits``: for each step the numbers of those it waits for, but for what one of these waits
    for anyway. ``turns``: of each product the number of the workspace of its library."""

    waits: list[Waits]
    turns: dict[Step, int]


def order(steps: Sequence[Step], memory: Callable[[Buffer], Hashable]) -> Order:
    """What each step waits for.

    ``memory`` says which buffers are in one memory: temps that are not needed at the same time may
    be. Products with one workspace wait for each other.
    """
    found = Order([], {})
    behind: list[int] = []  # of each step a bit for each that has ended when it begins
    written: dict[Hashable, int] = {}  # memory -> the last step that writes it
    readers: dict[Hashable, list[int]] = {}  # memory -> those that read it since
    products = [-1] * SIDE_BY_SIDE  # the last one of each workspace
    last_alone = -1
    for number, step in enumerate(steps):
        effects = effects_of(step)
        reads = {memory(b) for b in effects.reads}
        writes = {memory(b) for b in effects.writes}
        if _can_share(step):
            after = {written.get(m, -1) for m in reads | writes} | {last_alone}
            after.update(n for m in writes for n in readers.get(m, ()))
        else:
            after, last_alone = set(range(number)), number
        if isinstance(step, Product):
            turn = found.turns[step] = _turn(products, _ended(after - {-1}, behind))
            after.add(products[turn])
            products[turn] = number
        found.waits.append(_direct(after - {-1}, behind))
        behind.append(_ended(found.waits[-1], behind))
        for m in writes:
            written[m], readers[m] = number, []
        for m in reads - writes:
            readers.setdefault(m, []).append(number)
    return found


def _turn(last: list[int], ended: int) -> int:
    """The workspace for a product: one that nothing uses any more, if there is one, rather than a
    fresh one; else that of the earliest."""
    free = [turn for turn, n in enumerate(last) if n < 0 or ended >> n & 1]
    return max(free, key=last.__getitem__) if free else last.index(min(last))


def _ended(waits: Iterable[int], behind: list[int]) -> int:
    """What has ended when all of these steps have, a bit each."""
    found = 0
    for n in waits:
        found |= behind[n] | 1 << n
    return found


def _direct(after: set[int], behind: list[int]) -> Waits:
    """Of steps to wait for those that no other one of them waits for."""
    kept: list[int] = []
    ended = 0
    for n in sorted(after, reverse=True):
        if not ended >> n & 1:
            kept.append(n)
            ended |= behind[n] | 1 << n
    return tuple(reversed(kept))


def _can_share(step: Step) -> bool:
    """Whether a step may run beside others; what cannot is done by itself."""
    is_launch = type(step) is ir.Kernel or isinstance(step, Routine)
    return (is_launch and not isinstance(step, Factor)) or isinstance(step, Product)


def lanes(waits: Sequence[Waits], most: int) -> list[int]:
    """The lane of each step, of at most so many: behind a step that it waits for where that is the
    last of its lane, else an empty lane, else the one whose last step came first."""
    result: list[int] = []
    last = [-1] * most
    for number, after in enumerate(waits):
        behind = [lane for lane, n in enumerate(last) if n in after]
        lane = max(behind, key=last.__getitem__) if behind else last.index(min(last))
        result.append(lane)
        last[lane] = number
    return result
