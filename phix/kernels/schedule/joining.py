"""Loops that can share one pass over memory are made one loop.

Two loops of the same extent become one where every buffer that one of them writes and the other
touches is *aligned*: iteration ``i`` of both stays in the ``i``-th slice of it.
"""

from __future__ import annotations

from phix.core import rewrites, settings, stack
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import accesses, is_one_digit, slice_form
from phix.kernels.loops.effects import Effects, effects_of, may_meet, of_block
from phix.kernels.loops.nodes import (
    Buffer,
    For,
    Kernel,
    LibraryCall,
    LoopProgram,
    Statement,
    Step,
)
from phix.kernels.loops.spans import share_stretches
from phix.kernels.loops.target import Target
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule import inplace, ordering
from phix.kernels.schedule.interchange import interchanged
from phix.kernels.schedule.partial_results import scalar_totals
from phix.kernels.schedule.pipeline import Listener, Setting

# How many steps back to look for a loop to join, and the size a joined loop may reach.
_LOOK_BACK = 12
_MOST_EXPRESSIONS = 1500
# Expressions of floats that are much arithmetic, of which exp has some 20, and that are some.
_MUCH, _SOME = 20, 2
_CALLS = "one of them calls a library"


def join_loops(program: LoopProgram, setting: Setting) -> None:
    """The pass: loops over the same elements become one pass over memory."""
    limited = settings.current().memory_limit is not None
    asking = ordering.asking(program.steps) if limited else frozenset()
    joining = _Joining(setting.tried, setting.builder.target, asking)
    program.steps = joining.steps(program.steps)


# -- joining ---------------------------------------------------------------------------------
@dataclass(eq=False)
class _Placed:
    """A step that has its place, and its effects."""

    step: Step
    effects: Effects

    @property
    def is_total(self) -> bool:
        """Whether all it writes are single numbers, which later loops can only wait for."""
        return bool(self.effects.writes) and all(not b.dims for b in self.effects.writes)


@dataclass(eq=False)
class _Joining:
    tried: Listener | None
    target: Target
    asking: frozenset[Step]  # where memory is short: who asks for more than it frees

    @stack.nests
    def steps(self, steps: list[Step]) -> list[Step]:
        """The steps with kernels joined, in the blocks inside as well."""
        done: list[_Placed] = []
        head = 0  # what comes before may not know the dims bound here
        for step in steps:
            for block in ir.blocks(step):
                block[:] = self.steps(block)
            new = _Placed(step, effects_of(step))
            if not self._to_one(done, new):
                done.insert(_place(done, new, head), new)
            if isinstance(step, ir.BindStep):
                head = len(done)
        return [placed.step for placed in done]

    def _to_one(self, done: list[_Placed], new: _Placed) -> bool:
        """Join a kernel to an earlier one that nothing in between keeps it from."""
        step = new.step
        if not isinstance(step, Kernel):
            return False
        for earlier in reversed(done[-_LOOK_BACK:]):
            conflicts = earlier.effects.conflicts(new.effects)
            other = earlier.step
            has_shared = bool(earlier.effects.touched & new.effects.touched)
            if isinstance(other, Kernel) and (has_shared or not new.is_total):
                why = self._early(earlier, new, done[-1]) or self._strangers(earlier, new)
                why = why or self._join(other, step, conflicts)
                if self.tried is not None and has_shared:
                    self.tried(other, step, why)
                if not why:
                    other.start = other.start and step.start
                    earlier.effects = earlier.effects.joined(new.effects)
                    return True
            if conflicts or isinstance(other, ir.BindStep):
                return False
        return False

    def _early(self, earlier: _Placed, new: _Placed, last: _Placed) -> str:
        """Why a kernel that asks for memory stays where it is, where memory is short; else ""."""
        if new.step not in self.asking:
            return ""
        is_next = earlier is last and earlier.effects.writes & new.effects.reads
        return "" if is_next else "it would hold memory before it needs to"

    def _strangers(self, earlier: _Placed, new: _Placed) -> str:
        """Why two kernels stay two that have no array in common, else "": many arrays at once are
        more than the caches and those who fetch ahead can follow."""
        known, more = (
            {b for b in placed.effects.touched if b.dims and not ir.is_tiny(b)}
            for placed in (earlier, new)
        )
        most = self.target.most_streams
        if len(known) + len(more) <= most or known & more:
            return ""
        return f"they share no array, and together touch more than {most}"

    def _join(self, first: Kernel, second: Kernel, conflicts: frozenset[Buffer]) -> str:
        """Make ``second`` a part of ``first``; why not, where that cannot be, else ""."""
        why = _obstacle(first, second, conflicts)
        if why and (conflicts or ir.reads(first.body) & ir.reads(second.body)):
            why = self._interchange(first, second, conflicts) and why
        if why:
            return why
        (before, a, after), (others, b, rest) = (
            inplace.parts(first.body),
            inplace.parts(second.body),
        )
        assert a is not None and b is not None
        joined = _joined(a, b)
        if not self.target.joins(a, b, joined):
            return "apart they keep more threads busy"
        first.body[:] = [*before, *others, joined, *after, *rest]
        first.locals |= second.locals
        return ""

    def _interchange(self, first: Kernel, second: Kernel, conflicts: frozenset[Buffer]) -> str:
        """Exchange two loops of one of the kernels, so that they can be one; why not, or ""."""
        if not rewrites.is_on("interchange_loops"):
            return "loops stay as they are"
        for kernel in (second, first):
            changed = interchanged(kernel)
            if changed is None:
                continue
            pair = (first, changed) if kernel is second else (changed, second)
            if not _obstacle(*pair, conflicts):
                kernel.body[:] = changed.body
                return ""
        return "that does not help"


def _place(done: list[_Placed], new: _Placed, head: int) -> int:
    """Where a step that joins none goes: out of the way of loops that might become one.

    A start reads nothing, and all it may have to wait for is what the same memory held before. A
    total that they all wait for comes before what it does not need.
    """
    at = len(done)
    if not isinstance(new.step, Kernel) or not (new.step.start or new.is_total):
        return at
    while at > head and not done[at - 1].effects.conflicts(new.effects):
        at -= 1
    return at


def _obstacle(first: Kernel, second: Kernel, conflicts: frozenset[Buffer]) -> str:
    """Why two kernels cannot be one; "" if they can."""
    (_, a, after), (_, b, _) = inplace.parts(first.body), inplace.parts(second.body)
    if a is None or b is None:
        every = (*ir.walk(first.body), *ir.walk(second.body))
        calls = any(isinstance(s, LibraryCall) for s in every)
        return _CALLS if calls else "one of them is no single loop"
    if any(scalar_totals(k.body, loop) is None for k, loop in ((first, a), (second, b))):
        return (
            "one of them goes from iteration to iteration"  # and would keep the other from threads
        )
    if of_block(after).conflicts(of_block([b])):
        return "what follows the loop of one is in the way of the other's"
    return obstacle(a, b, conflicts)


def obstacle(first: Statement, second: Statement, conflicts: frozenset[Buffer]) -> str:
    """Why two loops, run one after the other, cannot be one; "" if they can."""
    if not isinstance(first, For) or not isinstance(second, For):
        return "one of them is no loop"
    if first.index is not second.index or first.extent is not second.extent:
        return "their extents differ"
    size = len(ir.expressions(first.body)) + len(ir.expressions(second.body))
    if size > _MOST_EXPRESSIONS:
        return f"together they have more than {_MOST_EXPRESSIONS} expressions"
    if _calls_library(first) or _calls_library(second):
        return _CALLS
    if _scalars_meet(first, second):
        return "one of them sets a scalar that the other reads"
    if _is_slowed(first, second) or _is_slowed(second, first):
        return "one of them is in vectors, and would be one by one in the other"
    for buffer in conflicts:
        slices = [c for c in conflicts if c.base is buffer]
        if slices:  # they are in question, each for itself
            if _has_other_slices(buffer, slices, [first, second]):
                return f"they touch {buffer.name} under two names"
        elif not _is_aligned(buffer, first.index, [first, second]):
            return f"their iterations do not stay in their own slices of {buffer.name}"
    return ""


def _is_slowed(leaf: For, sums: For) -> bool:
    """Whether a loop of arithmetic, which goes in vectors, would not in a loop of sums: of much
    where that has loops in it, of some where that stores at places from the data."""
    if leaf.kind != "parallel" or sums.kind != "reduction" or not rewrites.is_on("vectors_first"):
        return False
    if not all(isinstance(s, ir.Store) for s in leaf.body):
        return False
    most = _MUCH if any(isinstance(s, For) for s in sums.body) else _SOME
    if most == _SOME and not any(isinstance(s, ir.Store) and s.indices[0].loads for s in sums.body):
        return False
    return sum(e.dtype.kind == "f" for e in ir.expressions(leaf.body)) > most


def _has_other_slices(buffer: Buffer, slices: list[Buffer], loops: list[Statement]) -> bool:
    """Whether the loops touch memory of these slices of ``buffer`` by another name too."""
    own = [b for b in of_block(loops).touched if b.base is buffer or b is buffer]
    names = [b for b in own if b is not buffer or list(accesses(buffer, loops, {}))]
    return any(b is not s and may_meet(b, s) for b in names for s in slices)


def _joined(first: For, second: For) -> For:
    kinds = {first.kind, second.kind}
    kind = "reduction" if "reduction" in kinds else "parallel" if len(kinds) > 1 else first.kind
    return For(first.index, first.extent, _joined_block(first.body, second.body), kind)


def _joined_block(first: list[Statement], second: list[Statement]) -> list[Statement]:
    """Two blocks run one after the other, with their loops joined where that can be."""
    block = list(first)
    for statement in second:
        if isinstance(statement, For):
            at = _last_loop(block)
            if at is not None:
                declared = block[at + 1 :]
                conflicts = of_block([block[at]]).conflicts(of_block([statement]))
                if not obstacle(block[at], statement, conflicts):
                    joined = _joined(block[at], statement)  # type: ignore[arg-type]
                    block[at:] = [*declared, joined]
                    continue
        block.append(statement)
    return block


def _last_loop(block: list[Statement]) -> int | None:
    """The last loop with nothing but declarations of constants behind it."""
    for at in range(len(block) - 1, -1, -1):
        statement = block[at]
        if isinstance(statement, For):
            return at
        if not isinstance(statement, ir.Declare) or statement.value.fn != "const":
            return None
    return None


def _calls_library(loop: For) -> bool:
    return any(isinstance(s, LibraryCall) for s in ir.walk(loop.body))


def _scalars_meet(first: For, second: For) -> bool:
    """Whether one loop sets a scalar that the other reads."""

    def meet(setter: For, reader: For) -> bool:
        body = setter.body
        targets = {t for s in ir.walk(body) if isinstance(s, ir.Assign) for t in s.targets}
        return bool(targets) and any(e in targets for e in ir.expressions(reader.body))

    return meet(first, second) or meet(second, first)


def _is_aligned(buffer: Buffer, index: Expr, loops: list[For]) -> bool:
    """Whether iteration ``i`` of all loops stays in slice ``i`` of the buffer."""
    touched = [list(accesses(buffer, loop.body, {})) for loop in loops]
    if not all(touched):
        return False  # touched through a slice
    every = [access for found in touched for access in found]
    forms = {slice_form(linear, index, extents) for linear, extents in every}
    if (len(forms) == 1 and None not in forms) or share_stretches(every, index):
        return True
    block = [s for loop in loops for s in loop.body]
    return is_one_digit(buffer, index, block, {index: loops[0].extent})
