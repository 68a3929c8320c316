"""Carries of loops updated in place.

The steps of a body read a carry ``c`` and compute the next into a fresh buffer ``n``. With the
steps that write ``n`` put as late as what reads it allows, ``n`` can be ``c`` itself if from its
first write on nothing reads ``c``, but for a kernel that reads of ``c`` the element it replaces.
A copy of ``c`` into ``n`` is then no work at all, so a body that changes one row of an array
costs one row. Else the two exchange their memory after each iteration, or tiny ones are copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from phix.core import dims as dm
from phix.core import rewrites
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import never_repeats
from phix.kernels.loops.builder import Builder, buffer_value
from phix.kernels.loops.effects import Uses, has_host_step, users_of
from phix.kernels.loops.nodes import Buffer, Kernel, LoopProgram, Step
from phix.kernels.schedule.pipeline import Setting

# Steps that the update of a carry is put behind: few enough to compare it with each of them.
_MOST_PASSED = 32


def carry_in_place(program: LoopProgram, setting: Setting) -> None:
    """Let the carries of loops be updated in place, those of inner loops first."""

    def visit(steps: list[Step]) -> None:
        for step in steps:
            for block in ir.blocks(step):
                visit(block)
            if isinstance(step, (ir.ForStep, ir.WhileStep)):
                step.swaps = _made_one(setting.builder, step.body, step.swaps)

    visit(program.steps)


def _made_one(
    b: Builder, steps: list[Step], pairs: Sequence[tuple[Buffer, Buffer]]
) -> list[tuple[Buffer, Buffer]]:
    """Make each ``(carry, new)`` of a loop's body one buffer where that is safe.

    Returns:
        the pairs that must exchange their memory after each iteration; tiny pairs are copied by
        kernels at the end of ``steps``.
    """
    uses = Uses(steps)
    is_on = rewrites.is_on("carry_in_place")
    left = [pair for pair in pairs if not (is_on and _takes_over(uses, *pair))]
    for carry, _ in pairs:
        _put_late(uses, carry)
    # Python gives slices no memory of their own, so where it runs the loop they are copied
    in_python = has_host_step(steps)
    swaps = [p for p in left if not ir.is_tiny(p[0]) and not (in_python and p[0].base is not None)]
    with b.nested() as copies:
        for carry, new in left:
            if (carry, new) not in swaps:
                b.fill(carry, buffer_value(new))
    steps += copies
    return swaps


def _put_late(uses: Uses, carry: Buffer) -> None:
    """Put the first step that writes a carry behind those it may change places with.

    It often stores at a place that is known only then: what comes behind such a store reads its
    operands again, and computes again what it has in common with what came before.
    """
    writers = [] if ir.is_tiny(carry) else uses.writers(carry)
    behind = uses.between(writers[0], uses.steps[-1]) if writers else []
    if 0 < len(behind) <= _MOST_PASSED:
        uses.put_in_order(_sunk(uses, writers[0], behind[-1]))


def donate(program: LoopProgram, setting: Setting) -> None:
    """The pass: let outputs live where donated inputs do, if that is safe."""
    donated = setting.donated
    if has_host_step(program.steps) or any(isinstance(s, ir.BindStep) for s in program.steps):
        donated = ()  # in Python, every array has its own memory
    uses = Uses(program.steps if donated else [])
    free = [n for n in donated if not program.inputs[n].strided]
    reused: list[int | None] = []
    for k, output in enumerate(program.outputs):
        fit = (n for n in free if _hosts(uses, program.inputs[n], output))
        number = next(fit, None)
        reused.append(number)
        if number is not None:
            free.remove(number)
            program.outputs[k] = program.inputs[number]
    program.reused = tuple(reused)


def _hosts(uses: Uses, given: Buffer, output: Buffer) -> bool:
    """Whether the output can have the memory of ``given``, and then has it."""
    return (
        output.dtype == given.dtype
        and _fits(uses, output, given)
        and _takes_over(uses, given, output)
    )


def use_outputs(program: LoopProgram, _: Setting) -> None:
    """Let a temp live where an output will, if the elements of that replace its own one by one.

    A step of gradient descent is such: the gradient of a weight needs no memory but the weight's.
    """
    uses = Uses(program.steps)
    gone: set[Buffer] = set()
    for output in program.outputs:
        if output.kind != "output" or output in program.inputs:
            continue
        users = uses.users(output)
        if not users or output not in uses.of(users[0]).writes:
            continue
        first = users[0]
        reads = (b for b in uses.of(first).reads if b.kind == "temp" and not ir.is_tiny(b))
        in_order = sorted(reads, key=lambda b: int(b.name[1:]))
        temp = next((t for t in in_order if _becomes(uses, t, output, first)), None)
        if temp is not None:
            uses.rename(temp, output)
            gone.add(temp)
    program.temps = [t for t in program.temps if t not in gone and uses.is_touched(t)]


def _becomes(uses: Uses, temp: Buffer, output: Buffer, first: Step) -> bool:
    """Whether a temp can live in the output, which ``first`` reads it for and is first to use."""
    return (
        any(uses.number(s) < uses.number(first) for s in uses.writers(temp))
        and temp.dtype == output.dtype
        and _fits(uses, temp, output)
        and _replaces(uses, uses.users(temp, output), temp, output)
    )


def reuse_temps(program: LoopProgram, allowed: Callable[[Kernel], bool]) -> None:
    """Let a temp live where another does, if its elements are the last to need those of that.

    Of what a loop or a branch has inside, nothing is changed. ``allowed`` says whether a kernel may
    write over what it reads.
    """
    uses = Uses(program.steps)
    hosts = set().union(*(uses.of(s).touched for s in program.steps if uses.of(s).in_python))
    spans = uses.spans()
    gone: set[Buffer] = set()

    def is_free(buffer: Buffer) -> bool:
        # neither an array of Python's, nor anything with slices
        is_own = buffer.kind == "temp" and buffer not in hosts and not uses.has_slices(buffer)
        return is_own and not ir.is_tiny(buffer)

    for step in program.steps:
        if not isinstance(step, Kernel) or not allowed(step):
            continue
        at = uses.number(step)
        found = uses.of(step)
        ending = [b for b in found.reads if spans[b][0] < at == spans[b][1] and is_free(b)]
        begun = [b for b in found.writes if spans[b][0] == at < spans[b][1] and is_free(b)]
        over = sorted(ending, key=lambda b: b.name)
        for new in sorted(begun, key=lambda b: b.name):
            fit = (b for b in over if b.dtype == new.dtype and _fits(uses, new, b))
            old = next((b for b in fit if _is_elementwise(step, b, new)), None)
            if old is not None:
                over.remove(old)
                uses.rename(new, old)
                spans[old] = spans[old][0], spans[new][1]
                gone.add(new)
    program.temps = [t for t in program.temps if t not in gone]


# -- order -----------------------------------------------------------------------------------
def _takes_over(uses: Uses, given: Buffer, new: Buffer) -> bool:
    """Whether ``new`` can have the memory of ``given``, and then has it.

    Where what reads ``given`` comes behind the first write of ``new``, and need not, it goes ahead.
    """
    if uses.writers(given):
        return False
    users = uses.users(given, new)
    if not _replaces(uses, users, given, new):
        readers = uses.readers(given)
        order = _sunk(uses, uses.writers(new)[0], readers[-1])
        numbers = {step: k for k, step in enumerate(order)}
        if not _replaces(uses, sorted(users, key=numbers.__getitem__), given, new):
            return False
        uses.put_in_order(order)
    uses.rename(new, given)
    uses.remove(s for s in uses.users(given) if _is_empty_copy(s))
    for step in uses.users(given):
        for block in ir.blocks(step):
            _drop_empty_copies(block)
    return True


def _sunk(uses: Uses, first: Step, last: Step) -> list[Step]:
    """The steps in an order in which ``first`` comes behind those up to ``last`` that it may."""
    held, ahead, together = [first], [], uses.of(first)
    passed = uses.between(first, last)
    for step in passed:
        own = uses.of(step)
        if together.may_exchange(own):
            ahead.append(step)
        else:
            held.append(step)
            together = together.joined(own)
    at = uses.steps.index(first)
    return [*uses.steps[:at], *ahead, *held, *uses.steps[at + 1 + len(passed) :]]


# -- what may share memory -------------------------------------------------------------------
def _replaces(uses: Uses, users: list[Step], carry: Buffer, new: Buffer) -> bool:
    """Whether ``new`` may be written over ``carry``: nothing needs what it replaces any more.

    ``users`` are the steps that touch one of the two, in order. From the first that writes ``new``
    on, none may write ``carry``, and none read it but that one, if it reads just what it replaces.
    Copies that come first are, of one memory, no work, and change nothing; but ``carry`` is to stay
    what they took.
    """
    is_written = is_copied = False
    for step in users:
        own = uses.of(step)
        if not is_written and _copied(step) == (new, carry):
            is_copied = True
            continue
        if is_written and carry in own.reads:
            return False
        if carry in own.reads and new in own.writes and not _hands_over(step, carry, new):
            return False
        is_written = is_written or new in own.writes
        if (is_written or is_copied) and carry in own.writes:
            return False
    return True


def _hands_over(step: Step, carry: Buffer, new: Buffer) -> bool:
    """Whether a step that reads ``carry`` and writes ``new`` reads no more than it replaces."""
    if isinstance(step, ir.SwitchStep):
        inside = map(Uses, step.branches)
        return all(_replaces(uses, uses.users(carry, new), carry, new) for uses in inside)
    return isinstance(step, Kernel) and _is_elementwise(step, carry, new)


def _is_elementwise(kernel: Kernel, carry: Buffer, new: Buffer) -> bool:
    """Whether each element of ``carry`` is read last to compute that of ``new``."""
    body = kernel.body
    writers = [s for s in body if new in ir.writes([s])]
    if len(writers) == 1:  # what is before it has read all it needs
        if carry in ir.reads(body[body.index(writers[0]) + 1 :]):
            return False
        body = writers
    loops, block = _innermost(body)
    stores = [s for s in block if isinstance(s, ir.Store) and s.buffer is new]
    if len(stores) != 1 or any(_is_nested_use(s, carry, new) for s in block):
        return False
    (linear,) = stores[0].indices
    after = block[block.index(stores[0]) + 1 :]
    if any(carry in ir.reads([s]) for s in after):
        return False
    loads = [e for e in ir.expressions(block) if e.fn == "load" and e.data is carry]
    if any(e.args[0] is not linear for e in loads):
        return False
    return never_repeats(linear, loops)


def _is_nested_use(s: ir.Statement, carry: Buffer, new: Buffer) -> bool:
    """Whether one of the two is touched in a block inside, or by a library routine."""
    if isinstance(s, (ir.Store, ir.Declare, ir.Assign)):
        return False
    return new in ir.writes([s]) or carry in ir.reads([s])


def parts(
    body: list[ir.Statement],
) -> tuple[list[ir.Statement], ir.For | None, list[ir.Statement]]:
    """What a kernel does before its one loop, the loop, and after it; no loop if there is more.

    Before it are constants that a loop starts from, after it what becomes of them.
    """
    loops = [s for s in body if isinstance(s, ir.For)]
    if len(loops) != 1:
        return [], None, []
    at = body.index(loops[0])
    before, after = body[:at], body[at + 1 :]
    is_plain = all(isinstance(s, ir.Declare) and s.value.fn == "const" for s in before)
    if not is_plain or not all(isinstance(s, (ir.Store, ir.Declare)) for s in after):
        return [], None, []
    return before, loops[0], after


def nest(kernel: Kernel) -> tuple[list[ir.For], list[ir.Statement]]:
    """The loops around the innermost block of a perfect nest, and that block."""
    return _innermost(kernel.body)


def _innermost(block: list[ir.Statement]) -> tuple[list[ir.For], list[ir.Statement]]:
    loops: list[ir.For] = []
    while len(block) == 1 and isinstance(block[0], ir.For):
        loops.append(block[0])
        block = block[0].body
    return loops, block


# -- copies ----------------------------------------------------------------------------------
def _copied(step: Step) -> tuple[Buffer, Buffer] | None:
    """``(to, from)`` of a step that does no more than copy elements to the same linear index."""
    if not isinstance(step, Kernel):
        return None
    pairs = set()
    for s in ir.walk(step.body):
        if isinstance(s, ir.For):
            continue
        if not isinstance(s, ir.Store) or s.value.fn != "load" or s.value.args != s.indices:
            return None
        pairs.add((s.buffer, s.value.data))
    if len(pairs) != 1:
        return None
    ((to, source),) = pairs
    return (to, source) if to.dtype == source.dtype and not source.strided else None


def _copy(step: Step) -> tuple[Buffer, Buffer] | None:
    """``(to, from)`` of a step that copies one whole contiguous buffer into another."""
    if not isinstance(step, Kernel) or not step.whole:
        return None
    loops, block = nest(step)
    if len(loops) > 1 or not all(isinstance(s, ir.Store) for s in block):
        return None
    indices = {s.indices[0] for s in block if isinstance(s, ir.Store)}
    is_whole = all(i is loops[0].index if loops else i.fn == "const" for i in indices)
    return _copied(step) if is_whole else None


def _is_empty_copy(step: Step) -> bool:
    """Whether a step copies a buffer onto itself."""
    pair = _copied(step)
    return pair is not None and pair[0] is pair[1]


def _drop_empty_copies(steps: list[Step]) -> None:
    """Leave out what copies a buffer onto itself, in the blocks inside as well."""
    for step in steps:
        for block in ir.blocks(step):
            _drop_empty_copies(block)
    steps[:] = [s for s in steps if not _is_empty_copy(s)]


def merge_copies(program: LoopProgram, _: Setting) -> None:
    """The pass: what is only copied is computed right where the copy goes."""
    inner = any(ir.blocks(step) for step in program.steps)
    every = users_of(program.steps) if inner else Counter[Buffer]()

    def visit(steps: list[Step]) -> None:
        for step in steps:
            for block in ir.blocks(step):
                visit(block)
        if not any(map(_copy, steps)):
            return
        if steps is program.steps:  # nobody else uses anything
            _merge(steps)
            return
        own = users_of(steps)
        _merge(steps, {b for b, count in own.items() if count < every[b]})
        every.subtract(own)
        every.update(users_of(steps))

    visit(program.steps)


def _merge(steps: list[Step], kept: Collection[Buffer] = ()) -> None:
    """Compute what is only copied right where the copy goes.

    The temp it comes from, none of ``kept`` and used by these steps alone, must not be needed
    after the copy, or both must stay as they are; and nothing touches the target before.
    """
    uses = Uses(steps)
    for step in reversed(list(steps)):
        pair = _copy(step)
        if pair is None or pair[1].kind != "temp" or pair[1] in kept:
            continue
        to, source = pair
        if ir.is_tiny(source) and to.kind != "temp":
            continue  # better on the stack
        at = uses.number(step)
        writers = [uses.number(s) for s in uses.writers(source)]
        if uses.users(to)[0] is not step or not writers or writers[-1] > at:
            continue
        is_changed = uses.number(uses.writers(to)[-1]) > at
        is_read = uses.number(uses.readers(source)[-1]) > at
        if not (is_changed and is_read) and _fits(uses, source, to):
            uses.remove([step])
            uses.rename(source, to)


def _fits(uses: Uses, old: Buffer, new: Buffer) -> bool:
    """Whether ``new`` has the size of ``old``, and its dims where something depends on them."""
    if dm.same_shape(old.dims, new.dims):
        return True
    if not dm.same(dm.product(old.dims), dm.product(new.dims)):
        return False
    # Python gets arrays, not memory
    return not uses.is_made_by_host(old) and not uses.has_slices(old)
