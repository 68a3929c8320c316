"""Passes over a loop program: loops that can share one pass over memory are made one loop.

Two loops of the same extent become one where every buffer that one of them writes and the other
touches is *aligned*: iteration ``i`` of both stays in the ``i``-th slice of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from phix.core import dtypes as dt
from phix.core import rewrites, stack
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import accesses, is_one_digit, slice_form
from phix.kernels.loops.effects import Effects, effects_of, may_meet, of_block, users_of
from phix.kernels.loops.nodes import (
    Buffer,
    For,
    Kernel,
    LibraryCall,
    LoopProgram,
    Statement,
    Step,
    Store,
)
from phix.kernels.loops.rewriting import substituted
from phix.kernels.loops.spans import share_stretches
from phix.kernels.loops.target import Target
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule import inplace
from phix.kernels.schedule.interchange import interchanged
from phix.kernels.schedule.partial_results import scalar_totals
from phix.kernels.schedule.pipeline import (
    LOWERED,
    Listener,
    LoopPass,
    Setting,
    run,
    switchable,
    tell,
)

# How many steps back to look for a loop to join, and the size a joined loop may reach.
_LOOK_BACK = 12
_MOST_EXPRESSIONS = 1500
_CALLS = "one of them calls a library"


def finish(program: LoopProgram, setting: Setting) -> LoopProgram:
    """Make the passes of every engine: join loops, drop copies and temps that became scalars."""
    tell(LOWERED, program)
    run(PASSES, program, setting)
    return program


def _merge_copies(program: LoopProgram, _: Setting) -> None:
    every = users_of(program.steps)

    def visit(steps: list[Step]) -> None:
        for step in steps:
            for block in ir.blocks(step):
                visit(block)
        own = users_of(steps)
        inplace.merge_copies(steps, {b for b, count in own.items() if count < every[b]})
        every.subtract(own)
        every.update(users_of(steps))

    visit(program.steps)


def _settle_carries(program: LoopProgram, setting: Setting) -> None:
    """Let the carries of loops be updated in place, those of inner loops first."""

    def visit(steps: list[Step]) -> None:
        for step in steps:
            for block in ir.blocks(step):
                visit(block)
            if isinstance(step, (ir.ForStep, ir.WhileStep)):
                step.swaps = inplace.settle(setting.builder, step.body, step.swaps)

    visit(program.steps)


def _join_loops(program: LoopProgram, setting: Setting) -> None:
    program.steps = _Joining(setting.tried, setting.builder.target).steps(program.steps)


def drop_temps(program: LoopProgram, _: Setting) -> None:
    """Forget temps that nothing touches."""
    used = frozenset().union(*(effects_of(s).touched for s in program.steps))
    program.temps = [t for t in program.temps if t in used]


def _drop_dead(program: LoopProgram) -> None:
    """Leave out stores into temps that nothing reads, and kernels with nothing left to do."""
    kernels = [s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)]
    direct = set().union(*(ir.step_uses(s) for s in ir.walk_steps(program.steps)))
    while True:
        read = direct.union(*(ir.with_bases(ir.reads(k.body)) for k in kernels))
        count = sum(_drop_stores(kernel.body, read) for kernel in kernels)
        if not count:
            break
    _drop_empty(program.steps)


def _drop_stores(body: list[Statement], read: set[Buffer]) -> int:
    """Leave out stores into temps that are not read, and the blocks this empties; how many."""
    count = 0
    for s in list(body):
        if isinstance(s, (For, ir.If)):
            count += _drop_stores(s.body, read)
            is_dead = not s.body
        else:
            buffers = [s.buffer] if isinstance(s, Store) else []
            buffers = list(s.writes) if isinstance(s, LibraryCall) else buffers
            owners = map(ir.owner, buffers)
            is_dead = bool(buffers) and all(b.kind == "temp" and b not in read for b in owners)
        if is_dead:
            body.remove(s)
            count += 1
    return count


@stack.nests
def _drop_empty(steps: list[Step]) -> None:
    """Leave out kernels that write nothing."""
    for step in steps:
        for block in ir.blocks(step):
            _drop_empty(block)
    steps[:] = [s for s in steps if not isinstance(s, Kernel) or ir.writes(s.body)]


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
                why = self._join(other, step, conflicts)
                if self.tried is not None and has_shared:
                    self.tried(other, step, why)
                if not why:
                    other.start = other.start and step.start
                    earlier.effects = earlier.effects.joined(new.effects)
                    return True
            if conflicts or isinstance(other, ir.BindStep):
                return False
        return False

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
    size = sum(1 for _ in ir.expressions(first.body)) + sum(1 for _ in ir.expressions(second.body))
    if size > _MOST_EXPRESSIONS:
        return f"together they have more than {_MOST_EXPRESSIONS} expressions"
    if _calls_library(first) or _calls_library(second):
        return _CALLS
    if _scalars_meet(first, second):
        return "one of them sets a scalar that the other reads"
    for buffer in conflicts:
        slices = [c for c in conflicts if c.base is buffer]
        if slices:  # they are in question, each for itself
            if _has_other_slices(buffer, slices, [first, second]):
                return f"they touch {buffer.name} under two names"
        elif not _is_aligned(buffer, first.index, [first, second]):
            return f"their iterations do not stay in their own slices of {buffer.name}"
    return ""


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


# -- temps that are read where they are written ----------------------------------------------
def _forward_temps(program: LoopProgram) -> None:
    """Put the value of a temp where it is read, if all reads follow its store in one block."""
    users = users_of(program.steps)
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            own = {t for t in ir.writes(step.body) if t.kind == "temp" and users[t] == 1}
            if own:
                step.body = _forwarded(step.body, own)


def _forwarded(body: list[Statement], temps: set[Buffer]) -> list[Statement]:
    for block in _blocks(body):
        for at, statement in enumerate(block):
            if isinstance(statement, Store) and statement.buffer in temps:
                _forward(body, block, at, statement)
    return body


def _blocks(body: list[Statement]) -> Iterator[list[Statement]]:
    yield body
    for s in body:
        if isinstance(s, (For, ir.If, ir.While)):
            yield from _blocks(s.body)


def _forward(body: list[Statement], block: list[Statement], at: int, store: Store) -> None:
    buffer = store.buffer
    if dt.is_complex(buffer.dtype):
        return
    if any(isinstance(s, LibraryCall) for s in ir.walk(body)):
        return
    load = Expr("load", store.indices, ir.scalar_dtype(buffer.dtype), buffer)
    every = [e for e in ir.loads(body) if e.data is buffer]
    later = block[at + 1 :]
    plain = [s for s in later if isinstance(s, (Store, ir.Assign, ir.Declare))]
    count = sum(isinstance(s, Store) and s.buffer is buffer for s in ir.walk(body))
    here = sum(1 for s in ir.walk(body) if _own_loads(s, load))
    if count != 1 or any(e is not load for e in every):
        return
    if here != sum(1 for s in plain if _own_loads(s, load)):
        return
    value = store.value
    if buffer.dtype in (dt.float16, dt.bfloat16):
        value = sc.cast(sc.cast(value, buffer.dtype), dt.float32)
    if _changes_between(value, plain):
        return
    for s in plain:
        if isinstance(s, Store):
            s.indices = tuple(substituted(i, {load: value}) for i in s.indices)
            s.value = substituted(s.value, {load: value})
        elif isinstance(s, ir.Declare):
            s.value = substituted(s.value, {load: value})
        else:
            s.values = tuple(substituted(v, {load: value}) for v in s.values)
    del block[at]


def _own_loads(statement: Statement, load: Expr) -> bool:
    return any(load in root.loads for root in ir.roots(statement))


def _changes_between(value: Expr, statements: Sequence[Statement]) -> bool:
    """Whether a statement changes something that ``value`` reads."""
    probe = ir.Declare(value, value)
    parts = list(ir.expressions([probe]))
    loads = {e.data for e in parts if e.fn == "load"}
    names = {e for e in parts if e.fn == "var"}
    for s in statements:
        if isinstance(s, Store) and s.buffer in loads:
            return True
        if isinstance(s, ir.Assign) and names & set(s.targets):
            return True
    return False


# What every engine wants done to the loops, in order. Outputs are given the memory of inputs
# while what reads is apart from what replaces.
PASSES = (
    switchable("merge_copies", _merge_copies),
    LoopPass("carry_in_place", _settle_carries),  # without the rewrite, carries are swapped
    LoopPass("donate", lambda program, setting: inplace.donate(program, setting.donated)),
    switchable("join_loops", _join_loops),
    switchable("forward_temps", lambda program, _: _forward_temps(program)),
    switchable("drop_dead_stores", lambda program, _: _drop_dead(program)),
    LoopPass("drop_temps", drop_temps),
)
