"""Checks a plan of memory by going through the steps in the order in which they run.

A slot holds what was written there last. A step that reads a temp must not find that another was
written over it, on any way there: loops run never, once or twice, a switch takes each of its
branches. A temp that nothing has written on a way is not asked for on it, though steps may seem to:
a loop over what an earlier one has left runs as often as that did. What a loop of a size has left
is not asked for where that is 0, and a size is the same in all turns of the loops around: such
loops run, or those of one size never do, or none does.
"""

from __future__ import annotations

from collections.abc import Iterator

from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, Step
from phix.kernels.scalar.language import Expr

# What was written to each slot, the last at the end, by the way that was taken.
_Orders = frozenset[tuple[Buffer, ...]]
_Held = dict[int, _Orders]
_NOTHING: _Orders = frozenset([()])
_MOST_WAYS = 64


def faults(steps: list[Step], slots: list[list[Buffer]]) -> Iterator[str]:
    """What is wrong with a plan; each list in ``slots`` shares one piece of memory. A temp may
    stand in several."""
    slots_of: dict[Buffer, list[int]] = {}
    for k, slot in enumerate(slots):
        for b in slot if len(slot) > 1 else ():
            slots_of.setdefault(b, []).append(k)
    sizes = _sizes(steps)
    ways = [set(), *({size} for size in sizes)]
    for empty in [*ways, sizes] if len(sizes) > 1 else ways:
        yield from _Check(slots_of, empty, sizes).block(steps, {})


def _sizes(steps: list[Step]) -> set[Expr]:
    """The extents of loops that depend on the sizes of the call alone, and may be 0."""
    loops = [s for s in ir.walk_steps(steps) if isinstance(s, ir.ForStep)]
    turns = {loop.index for loop in loops}
    return {loop.extent for loop in loops if _is_size(loop.extent, turns)}


def _is_size(extent: Expr, turns: set[Expr]) -> bool:
    if extent.fn in ("const", "load") or extent.operand_loads:
        return False
    left = [extent]
    while left:
        x = left.pop()
        if x in turns:
            return False
        left += x.args
    return True


@dataclass
class _Check:
    slots_of: dict[Buffer, list[int]]
    empty: set[Expr]
    sizes: set[Expr]

    def block(self, steps: list[Step], held: _Held) -> Iterator[str]:
        """What goes wrong in a block; ``held`` is changed to what it leaves."""
        for step in steps:
            if isinstance(step, ir.SwitchStep):
                ways = [dict(held) for _ in step.branches]
                for branch, way in zip(step.branches, ways):
                    yield from self.block(branch, way)
                _merge(held, ways)
            elif isinstance(step, (ir.ForStep, ir.WhileStep)):
                if isinstance(step, ir.ForStep) and step.extent in self.empty:
                    continue
                ways = [] if self._runs(step) else [dict(held)]
                for _ in range(2):
                    for part in ir.blocks(step):
                        yield from self.block(part, held)
                    yield from self._touch(ir.step_uses(step), set(), held)
                    ways.append(dict(held))
                _merge(held, ways)
            else:
                yield from self._touch(ir.step_reads(step), ir.step_writes(step), held)

    def _runs(self, step: Step) -> bool:
        """Whether a loop is known to run."""
        if not isinstance(step, ir.ForStep):
            return False
        is_number = step.extent.fn == "const" and step.extent.data > 0
        return is_number or step.extent in self.sizes

    def _touch(self, reads: set[Buffer], writes: set[Buffer], held: _Held) -> Iterator[str]:
        own = [(b, slot) for b in reads | writes for slot in self.slots_of.get(b, ())]
        for b, slot in own:
            others = [o for o, shared in own if o is not b and shared == slot]
            if others:
                yield f"{b} and {others[0]} share memory, and one step touches both"
            for order in held.get(slot, _NOTHING) if b not in writes else ():
                if b in order and order[-1] is not b:
                    yield f"{b} is read where {order[-1]} may have overwritten it"
                    break
        for b, slot in own:
            if b in writes:
                orders = held.get(slot, _NOTHING)
                held[slot] = frozenset((*(o for o in order if o is not b), b) for order in orders)


def _merge(held: _Held, ways: list[_Held]) -> None:
    for slot in {slot for way in ways for slot in way}:
        orders = {order for way in ways for order in way.get(slot, _NOTHING)}
        held[slot] = frozenset(sorted(orders, key=str)[:_MOST_WAYS])
