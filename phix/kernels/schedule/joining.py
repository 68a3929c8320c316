"""Loops that can share one pass over memory are made one loop.

Two loops of the same extent become one where every buffer that one of them writes and the other
touches is *aligned*: iteration ``i`` of both stays in the ``i``-th slice of it.
"""

from __future__ import annotations

from collections.abc import Collection

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
from phix.kernels.schedule import inplace, ordering, running_sums
from phix.kernels.schedule.interchange import interchanged
from phix.kernels.schedule.partial_results import scalar_totals
from phix.kernels.schedule.pipeline import Listener, Setting

# How many steps back to look for a loop to join, and the size a joined loop may reach.
_LOOK_BACK = 12
_MOST_EXPRESSIONS = 1500
# Expressions of floats that are much arithmetic, of which exp has some 20, that are some, and the
# most that a running total has time for.
_MUCH, _SOME, _MOST_BESIDE = 20, 2, 4
_CALLS = "one of them calls a library"


def join_loops(program: LoopProgram, setting: Setting) -> None:
    """The pass: loops over the same elements become one pass over memory."""
    limited = settings.current().memory_limit is not None
    asking = ordering.asking(program.steps) if limited else frozenset()
    joining = _Joining(setting.tried, setting.builder.target, asking)
    program.steps = joining.steps(program.steps)


# -- joining ---------------------------------------------------------------------------------
class _Loop:
    """A loop, and what is asked of it for each other one beside it, found once.

    ``known``: its expressions, where those are known that it was joined of.
    """

    def __init__(self, loop: For, known: Collection[Expr] | None = None) -> None:
        self.loop, self._known = loop, known
        self._accesses: dict[Buffer, list[tuple[Expr, dict[Expr, Expr]]]] = {}

    @stack.lazy
    def _statements(self) -> list[Statement]:
        return ir.walk(self.loop.body)

    @stack.lazy
    def expressions(self) -> Collection[Expr]:
        """Every expression of its body, once."""
        return ir.expressions(self.loop.body) if self._known is None else self._known

    @stack.lazy
    def calls_library(self) -> bool:
        """Whether it calls a routine of a library."""
        return any(isinstance(s, LibraryCall) for s in self._statements)

    @stack.lazy
    def targets(self) -> frozenset[Expr]:
        """The scalars that it sets."""
        assigned = [s.targets for s in self._statements if isinstance(s, ir.Assign)]
        return frozenset().union(*assigned)

    @stack.lazy
    def effects(self) -> Effects:
        """Its own effects."""
        return of_block([self.loop])

    def accesses(self, buffer: Buffer) -> list[tuple[Expr, dict[Expr, Expr]]]:
        """Each linear index at which it touches a buffer, and the extents of its inner loops."""
        if buffer not in self._accesses:
            self._accesses[buffer] = list(accesses(buffer, self.loop.body, {}))
        return self._accesses[buffer]


class _Facts:
    """What is asked of a kernel for each one that it might join, while its body stays as it is."""

    def __init__(self, kernel: Kernel, known: Collection[Expr] | None = None) -> None:
        self.kernel = kernel
        self.before, loop, self.after = inplace.parts(kernel.body)
        self.loop = None if loop is None else _Loop(loop, known)

    @stack.lazy
    def reads(self) -> set[Buffer]:
        """The buffers it reads."""
        return ir.reads(self.kernel.body)

    @stack.lazy
    def calls_library(self) -> bool:
        """Whether it calls a routine of a library."""
        return any(isinstance(s, LibraryCall) for s in ir.walk(self.kernel.body))

    @stack.lazy
    def goes_on(self) -> bool:
        """Whether an iteration of its loop needs more of those before than their totals."""
        return self.loop is not None and scalar_totals(self.kernel.body, self.loop.loop) is None

    @stack.lazy
    def effects_after(self) -> Effects:
        """The effects of what follows its loop."""
        return of_block(self.after)

    @stack.lazy
    def interchanged(self) -> _Facts | None:
        """Of the kernel with two loops exchanged, where that can be."""
        changed = interchanged(self.kernel)
        return None if changed is None else _Facts(changed)


class _Placed:
    """A step that has its place, and its effects."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.facts = _Facts(step) if isinstance(step, Kernel) else None
        self._have(effects_of(step))

    def _have(self, effects: Effects) -> None:
        self.effects = effects
        # all it writes are single numbers, which later loops can only wait for
        self.is_total = bool(effects.writes) and all(not b.dims for b in effects.writes)
        self._arrays: set[Buffer] | None = None

    @property
    def arrays(self) -> set[Buffer]:
        """What it touches of more than a few elements."""
        if self._arrays is None:
            touched = self.effects.touched
            self._arrays = {b for b in touched if b.dims and not ir.is_tiny(b)}
        return self._arrays

    def take(self, other: _Placed) -> None:
        """Be what has become of both, in the kernel that was here before."""
        arrays = self.arrays | other.arrays
        loops = [p.facts.loop for p in (self, other) if p.facts is not None]
        known = frozenset().union(*(loop.expressions for loop in loops if loop is not None))
        assert isinstance(self.step, Kernel)
        self.facts = _Facts(self.step, known)
        self._have(self.effects.joined(other.effects))
        self._arrays = arrays


class _Order:
    """The steps of a block that have their places; those before ``head`` keep them.

    Kept for each buffer: the last step that writes it, and those that read it since.
    """

    def __init__(self) -> None:
        self.steps: list[_Placed] = []
        self.head = 0
        self._writer: dict[Buffer, _Placed] = {}
        self._readers: dict[Buffer, set[_Placed]] = {}

    def note(self, placed: _Placed, effects: Effects) -> None:
        """``placed`` has these effects, which nothing behind it conflicts with."""
        for buffer in effects.reads:
            self._readers.setdefault(buffer, set()).add(placed)
        for buffer in effects.writes:
            self._writer[buffer] = placed
            self._readers.pop(buffer, None)

    def put(self, new: _Placed) -> None:
        """Give a step that joins none its place: out of the way of loops that might become one.

        A start reads nothing, and all it may have to wait for is what the same memory held before.
        A total that they all wait for comes before what it does not need.
        """
        at = len(self.steps)
        if isinstance(new.step, Kernel) and (new.step.start or new.is_total):
            last = self._last_of(new.effects)
            while at > self.head and self.steps[at - 1] not in last:
                at -= 1
        self.steps.insert(at, new)
        self.note(new, new.effects)

    def _last_of(self, effects: Effects) -> set[_Placed]:
        """Steps that conflict with a further one, among them the last of all that do."""
        found = {self._writer[b] for b in effects.touched if b in self._writer}
        return found.union(*(self._readers.get(b, ()) for b in effects.writes))


@dataclass(eq=False)
class _Joining:
    tried: Listener | None
    target: Target
    asking: frozenset[Step]  # where memory is short: who asks for more than it frees

    @stack.nests
    def steps(self, steps: list[Step]) -> list[Step]:
        """The steps with kernels joined, in the blocks inside as well."""
        order = _Order()
        for step in steps:
            for block in ir.blocks(step):
                block[:] = self.steps(block)
            new = _Placed(step)
            if not self._to_one(order, new):
                order.put(new)
            if isinstance(step, ir.BindStep):
                order.head = len(order.steps)  # what comes before may not know the dims bound here
        return [placed.step for placed in order.steps]

    def _to_one(self, order: _Order, new: _Placed) -> bool:
        """Join a kernel to an earlier one that nothing in between keeps it from."""
        step, done = new.step, order.steps
        if not isinstance(step, Kernel):
            return False
        for earlier in reversed(done[-_LOOK_BACK:]):
            conflicts = earlier.effects.conflicts(new.effects)
            other = earlier.step
            has_shared = not earlier.effects.touched.isdisjoint(new.effects.touched)
            if isinstance(other, Kernel) and (has_shared or not new.is_total):
                why = self._early(earlier, new, done[-1]) or self._strangers(earlier, new)
                why = why or self._join(earlier, new, conflicts)
                if self.tried is not None and has_shared:
                    self.tried(other, step, why)
                if not why:
                    other.start = other.start and step.start
                    earlier.take(new)
                    order.note(earlier, new.effects)
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
        most = self.target.most_streams
        known, more = earlier.arrays, new.arrays
        if len(known) + len(more) <= most or not known.isdisjoint(more):
            return ""
        return f"they share no array, and together touch more than {most}"

    def _join(self, earlier: _Placed, new: _Placed, conflicts: frozenset[Buffer]) -> str:
        """Make a kernel a part of an earlier one; why not, where that cannot be, else ""."""
        first, second = earlier.facts, new.facts
        assert first is not None and second is not None
        why = _obstacle(first, second, conflicts)
        if why and (conflicts or not first.reads.isdisjoint(second.reads)):
            why = self._interchange(earlier, new, conflicts) and why
        if why:
            return why
        first, second = earlier.facts, new.facts
        assert first is not None and second is not None
        assert first.loop is not None and second.loop is not None
        a, b = first.loop.loop, second.loop.loop
        joined = _joined(a, b)
        if not self.target.joins(a, b, joined):
            return "apart they keep more threads busy"
        kernel = first.kernel
        kernel.body[:] = [*first.before, *second.before, joined, *first.after, *second.after]
        kernel.locals |= second.kernel.locals
        return ""

    def _interchange(self, earlier: _Placed, new: _Placed, conflicts: frozenset[Buffer]) -> str:
        """Exchange two loops of one of the kernels, so that they can be one; why not, or ""."""
        if not rewrites.is_on("interchange_loops"):
            return "loops stay as they are"
        first, second = earlier.facts, new.facts
        assert first is not None and second is not None
        for placed, facts in ((new, second), (earlier, first)):
            changed = facts.interchanged
            if changed is None:
                continue
            pair = (first, changed) if placed is new else (changed, second)
            if not _obstacle(*pair, conflicts):
                facts.kernel.body[:] = changed.kernel.body
                placed.facts = _Facts(facts.kernel)
                return ""
        return "that does not help"


def _obstacle(first: _Facts, second: _Facts, conflicts: frozenset[Buffer]) -> str:
    """Why two kernels cannot be one; "" if they can."""
    if first.loop is None or second.loop is None:
        calls = first.calls_library or second.calls_library
        return _CALLS if calls else "one of them is no single loop"
    if first.goes_on or second.goes_on:
        return (
            "one of them goes from iteration to iteration"  # and would keep the other from threads
        )
    if first.after and first.effects_after.conflicts(second.loop.effects):
        return "what follows the loop of one is in the way of the other's"
    return _between(first.loop, second.loop, conflicts)


def _between(a: _Loop, b: _Loop, conflicts: frozenset[Buffer]) -> str:
    """Why two loops, run one after the other, cannot be one; "" if they can."""
    first, second = a.loop, b.loop
    if first.index is not second.index or first.extent is not second.extent:
        return "their extents differ"
    if len(a.expressions) + len(b.expressions) > _MOST_EXPRESSIONS:
        return f"together they have more than {_MOST_EXPRESSIONS} expressions"
    if a.calls_library or b.calls_library:
        return _CALLS
    if not (a.targets.isdisjoint(b.expressions) and b.targets.isdisjoint(a.expressions)):
        return "one of them sets a scalar that the other reads"
    if _is_slowed(a, second) or _is_slowed(b, first) or _waits(a, second) or _waits(b, first):
        return "one of them is in vectors, and would be one by one in the other"
    for buffer in conflicts:
        slices = [c for c in conflicts if c.base is buffer]
        if slices:  # they are in question, each for itself
            if _has_other_slices(buffer, slices, [first, second]):
                return f"they touch {buffer.name} under two names"
        elif not _is_aligned(buffer, a, b):
            return f"their iterations do not stay in their own slices of {buffer.name}"
    return ""


def _is_slowed(arithmetic: _Loop, sums: For) -> bool:
    """Whether a loop of arithmetic, which goes in vectors, would not in a loop of sums: of much
    where that has loops in it, of some where that stores at places from the data."""
    leaf = arithmetic.loop
    if leaf.kind != "parallel" or sums.kind != "reduction" or not rewrites.is_on("vectors_first"):
        return False
    if not all(isinstance(s, ir.Store) for s in leaf.body):
        return False
    most = _MUCH if any(isinstance(s, For) for s in sums.body) else _SOME
    if most == _SOME and not any(isinstance(s, ir.Store) and s.indices[0].loads for s in sums.body):
        return False
    return sum(e.dtype.kind == "f" for e in arithmetic.expressions) > most


def _waits(free: _Loop, chain: For) -> bool:
    """Whether a loop that goes in vectors would go from one running total, or one place from the
    data, to the next: one that finds an extreme, or that computes more than there is time for."""
    if not _goes_one_by_one(chain) or _goes_one_by_one(free.loop):
        return False
    in_blocks = running_sums.running(chain) is not None  # if it is alone
    if any(isinstance(s, ir.Assign) and (in_blocks or not s.reassociate) for s in free.loop.body):
        return True
    return sum(e.dtype.kind == "f" for e in free.expressions) > _MOST_BESIDE


def _goes_one_by_one(loop: For) -> bool:
    """Whether a loop stores what it has added up so far, or stores at places from the data."""
    stores = [s for s in loop.body if isinstance(s, ir.Store)]
    if loop.kind != "reduction" or not stores:
        return False
    if any(s.indices[0].loads for s in stores):
        return True
    found = {t for s in loop.body if isinstance(s, ir.Assign) for t in s.targets}
    return bool(found) and not found.isdisjoint(ir.expressions(list[Statement](stores)))


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
                one, other = _Loop(block[at]), _Loop(statement)  # type: ignore[arg-type]
                if not _between(one, other, one.effects.conflicts(other.effects)):
                    block[at:] = [*declared, _joined(one.loop, statement)]
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


def _is_aligned(buffer: Buffer, first: _Loop, second: _Loop) -> bool:
    """Whether iteration ``i`` of both loops stays in slice ``i`` of the buffer."""
    touched = [first.accesses(buffer), second.accesses(buffer)]
    if not all(touched):
        return False  # touched through a slice
    every = [access for found in touched for access in found]
    index = first.loop.index
    forms = {slice_form(linear, index, extents) for linear, extents in every}
    if (len(forms) == 1 and None not in forms) or share_stretches(every, index):
        return True
    block = [*first.loop.body, *second.loop.body]
    return is_one_digit(buffer, index, block, {index: first.loop.extent})
