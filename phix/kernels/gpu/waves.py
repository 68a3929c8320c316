"""Steps that do not wait for each other: in a recording they run side by side.

A small kernel leaves most of a card idle, and a chain of many costs the start of each. Steps are
put into *waves*, each as early as what it reads and writes allows; a wave begins when the one
before it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from phix.kernels.gpu.factors import Factor
from phix.kernels.gpu.products import Product
from phix.kernels.gpu.routines import Routine
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of
from phix.kernels.loops.nodes import Buffer, Step

Wave = list[Step]


def waves(steps: list[Step], memory: Callable[[Buffer], Hashable]) -> list[Wave]:
    """The steps in an order that respects who reads what. ``memory`` says which buffers are in one
    memory: temps that are not needed at the same time may be."""
    result: list[Wave] = []
    written: dict[Hashable, int] = {}  # memory -> the last wave that writes it
    touched: dict[Hashable, int] = {}  # memory -> the last wave that reads or writes it
    first = 0  # what is done by itself holds up all that follows
    for step in steps:
        effects = effects_of(step)
        reads = {memory(b) for b in effects.reads}
        writes = {memory(b) for b in effects.writes}
        if not _can_share(step):
            number = len(result)
            first = number + 1
        else:
            after = [written.get(m, -1) + 1 for m in reads]
            number = max([first, *after, *(touched.get(m, -1) + 1 for m in writes)])
            while number < len(result) and not _fits(step, result[number]):
                number += 1
        if number == len(result):
            result.append([])
        result[number].append(step)
        for m in writes:
            written[m] = number
        for m in reads | writes:
            touched[m] = max(number, touched.get(m, -1))
    return result


def _can_share(step: Step) -> bool:
    is_launch = type(step) is ir.Kernel or isinstance(step, Routine)
    return (is_launch and not isinstance(step, Factor)) or isinstance(step, Product)


def _fits(step: Step, wave: Wave) -> bool:
    """Whether a step may run beside others: products share the workspace of their library."""
    if not all(map(_can_share, wave)):
        return False
    return not isinstance(step, Product) or not any(isinstance(s, Product) for s in wave)
