"""Carries of loops updated in place.

The steps of a body read a carry ``c`` and compute the next into a fresh buffer ``n``. With the
steps that write ``n`` put as late as what reads it allows, ``n`` can be ``c`` itself if from its
first write on nothing reads ``c``, but for a kernel that reads of ``c`` the element it replaces.
A copy of ``c`` into ``n`` is then no work at all, so a body that changes one row of an array
costs one row. Else the two exchange their memory after each iteration, or tiny ones are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from phix.core import dims as dm
from phix.core import passes
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import rewriting
from phix.kernels.primitive.affine import never_repeats
from phix.kernels.primitive.builder import Builder, buffer_value
from phix.kernels.primitive.loop_ir import Buffer, Kernel, Step, step_reads, step_writes
from phix.kernels.primitive.rewriting import change_accesses

# A buffer of at most this many bytes may live in registers or on the stack.
TINY_BYTES = 256


def is_tiny(buffer: Buffer) -> bool:
    """Whether a buffer is known to be small enough for the stack."""
    count = dm.product(buffer.dims)
    return isinstance(count, int) and count * buffer.dtype.itemsize <= TINY_BYTES


class Touched:
    """The buffers that steps read and write, found once for each step."""

    def __init__(self) -> None:
        self.found: dict[Step, tuple[set[Buffer], set[Buffer]]] = {}

    def of(self, step: Step) -> tuple[set[Buffer], set[Buffer]]:
        """What a step reads, and what it writes."""
        if step not in self.found:
            self.found[step] = step_reads(step), step_writes(step)
        return self.found[step]

    def rename(self, old: Buffer, new: Buffer) -> None:
        names = ir.with_bases({new})
        for sets in self.found.values():
            for buffers in sets:
                if old in buffers:
                    buffers.discard(old)
                    buffers |= names


def settle(
    b: Builder, steps: list[Step], pairs: Sequence[tuple[Buffer, Buffer]]
) -> list[tuple[Buffer, Buffer]]:
    """Make each ``(carry, new)`` one buffer where that is safe, changing ``steps``.

    Returns:
        the pairs that must exchange their memory after each iteration; tiny pairs are copied by
        kernels at the end of ``steps``.
    """
    touched = Touched()
    if passes.is_on("merge_copies"):
        merge_copies(steps, {b for pair in pairs for b in pair}, touched)
    shares = passes.is_on("carry_in_place")
    left = []
    for carry, new in pairs:
        sunk = _sunk(steps, new, touched)
        if shares and _check(sunk, carry, new, False, touched) is not None:
            steps[:] = sunk
            rename(steps, new, carry, touched)
            drop_empty_copies(steps)
        else:
            left.append((carry, new))
    # Python gives slices no memory of their own, so where it runs the loop they are copied
    in_python = _has_host_step(steps)
    swaps = [p for p in left if not is_tiny(p[0]) and not (in_python and p[0].base is not None)]
    with b.nested() as copies:
        for carry, new in left:
            if (carry, new) not in swaps:
                b.fill(carry, buffer_value(new))
    steps += copies
    return swaps


def donate(program: ir.LoopProgram, donated: Sequence[int]) -> None:
    """Let outputs live where donated inputs do, if that is safe."""
    if _has_host_step(program.steps) or any(isinstance(s, ir.BindStep) for s in program.steps):
        donated = ()  # in Python, every array has its own memory
    touched, free = Touched(), [n for n in donated if not program.inputs[n].strided]
    reused: list[int | None] = []
    for k, output in enumerate(program.outputs):
        fit = (n for n in free if _takes_over(program.steps, output, program.inputs[n], touched))
        number = next(fit, None)
        reused.append(number)
        if number is not None:
            free.remove(number)
            program.outputs[k] = program.inputs[number]
    program.reused = tuple(reused)


def _takes_over(steps: list[Step], output: Buffer, given: Buffer, touched: Touched) -> bool:
    """Whether the output can have the memory of ``given``, and then has it."""
    if output.dtype != given.dtype or not _fits(steps, output, given):
        return False
    sunk = _sunk(steps, output, touched)
    if _check(sunk, given, output, False, touched) is None:
        return False
    steps[:] = sunk
    rename(steps, output, given, touched)
    drop_empty_copies(steps)
    return True


def use_outputs(program: ir.LoopProgram) -> None:
    """Let a temp live where an output will, if the elements of that replace its own one by one.

    A step of gradient descent is such: the gradient of a weight needs no memory but the weight's.
    """
    touched, steps = Touched(), program.steps
    for output in program.outputs:
        if output.kind != "output" or output in program.inputs:
            continue
        first = next((k for k, s in enumerate(steps) if output in touched.of(s)[1]), len(steps))
        before, after = steps[:first], steps[first:]
        made = set().union(*(touched.of(s)[1] for s in before))
        for temp in sorted((b for b in made if b.kind == "temp"), key=lambda b: int(b.name[1:])):
            alike = temp.dtype == output.dtype and not is_tiny(temp)
            if alike and _hands_over(before, after, temp, output, touched):
                rename(steps, temp, output, touched)
                break
    program.temps = [
        t for t in program.temps if any(t in set().union(*touched.of(s)) for s in steps)
    ]


def _hands_over(
    before: list[Step], after: list[Step], temp: Buffer, output: Buffer, touched: Touched
) -> bool:
    """Whether the output, first written ``after``, can have the memory of the temp."""
    if any(output in touched.of(s)[0] for s in before) or not _fits(before + after, temp, output):
        return False
    is_read = any(temp in touched.of(s)[0] for s in after[:1])
    return is_read and _check(after, temp, output, False, touched) is not None


def reuse_temps(program: ir.LoopProgram, allowed: Callable[[Kernel], bool]) -> None:
    """Let a temp live where another does, if its elements are the last to need those of that.

    Of what a loop or a branch has inside, nothing is changed. ``allowed`` says whether a kernel may
    write over what it reads.
    """
    touched, steps = Touched(), program.steps
    spans: dict[Buffer, tuple[int, int]] = {}  # the first and the last step that touch a buffer
    for k, step in enumerate(steps):
        for buffer in set().union(*touched.of(step)):
            spans[buffer] = spans.get(buffer, (k, k))[0], k
    hosts = [b for s in steps if _has_host_step([s]) for part in touched.of(s) for b in part]
    kept = {*hosts, *(b.base for b in spans)}  # arrays of Python's, and what has slices
    large = {b for b in spans if b.kind == "temp" and not is_tiny(b)} - kept
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel) or not allowed(step):
            continue
        reads, writes = (sorted(b & large, key=lambda b: b.name) for b in touched.of(step))
        over = [b for b in reads if spans[b][0] < k == spans[b][1]]
        for new in [b for b in writes if spans[b][0] == k < spans[b][1]]:
            fit = (b for b in over if b.dtype == new.dtype and _fits(steps, new, b))
            old = next((b for b in fit if _is_elementwise(step, b, new)), None)
            if old is not None:
                over.remove(old)
                rename(steps, new, old, touched)
                spans[old] = spans[old][0], spans[new][1]
                program.temps.remove(new)


# -- order -----------------------------------------------------------------------------------
def _sunk(steps: list[Step], new: Buffer, touched: Touched) -> list[Step]:
    """The steps in an order in which the first write of ``new`` comes as late as it can."""
    first = next((k for k, s in enumerate(steps) if new in touched.of(s)[1]), len(steps))
    before, held = steps[:first], steps[first : first + 1]
    all_reads: set[Buffer] = set().union(*(touched.of(s)[0] for s in held))
    all_writes: set[Buffer] = set().union(*(touched.of(s)[1] for s in held))
    is_bound = any(isinstance(s, ir.BindStep) for s in held)
    for step in steps[first + 1 :]:
        reads, writes = touched.of(step)
        meets = bool(writes & all_reads or writes & all_writes or reads & all_writes)
        # host steps may have effects, so they keep their order
        if meets or is_bound or (_has_host_step([step]) and _has_host_step(held)):
            held.append(step)
            all_reads |= reads
            all_writes |= writes
            is_bound = is_bound or isinstance(step, ir.BindStep)
        else:
            before.append(step)
    return before + held


def _has_host_step(steps: list[Step]) -> bool:
    return any(isinstance(s, ir.HostStep) for s in ir.walk_steps(steps))


# -- what may share memory -------------------------------------------------------------------
def _check(
    steps: list[Step], carry: Buffer, new: Buffer, written: bool, touched: Touched
) -> bool | None:
    """Whether ``new`` is written after the steps; None if the two may not share memory."""
    for step in steps:
        reads, writes = touched.of(step)
        if carry in writes:
            return None
        if not written and _copied(step) == (new, carry):
            continue  # of one memory, this is no work, and changes nothing
        if carry in reads:
            if new not in writes:
                if written:
                    return None
            elif isinstance(step, ir.SwitchStep):
                ends = [_check(block, carry, new, written, touched) for block in step.branches]
                if None in ends:
                    return None
            elif written or not isinstance(step, Kernel) or not _is_elementwise(step, carry, new):
                return None
        written = written or new in writes
    return written


def _is_elementwise(kernel: Kernel, carry: Buffer, new: Buffer) -> bool:
    """Whether each element of ``carry`` is read last to compute that of ``new``."""
    body = kernel.body
    writers = [s for s in body if isinstance(s, ir.For) and new in ir.writes([s])]
    if len(writers) == 1:  # loops before it have read all they need
        if carry in ir.reads(body[body.index(writers[0]) + 1 :]):
            return False
        body = list(writers)
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


def drop_empty_copies(steps: list[Step]) -> None:
    """Leave out kernels that copy a buffer onto itself."""
    for step in steps:
        for block in ir.blocks(step):
            drop_empty_copies(block)
    steps[:] = [s for s in steps if (pair := _copied(s)) is None or pair[0] is not pair[1]]


def merge_copies(
    steps: list[Step], kept: Collection[Buffer] = (), touched: Touched | None = None
) -> None:
    """Compute what is only copied right where the copy goes.

    The temp it comes from, none of ``kept`` and used by these steps alone, must not be needed
    after the copy, or both must stay as they are; and nothing touches the target before.
    """
    touched = touched or Touched()
    for step in reversed(list(steps)):
        pair = _copy(step)
        if pair is None or pair[1].kind != "temp" or pair[1] in kept:
            continue
        to, source = pair
        if is_tiny(source) and to.kind != "temp":
            continue  # better on the stack
        at = steps.index(step)
        before, after = ([touched.of(s) for s in part] for part in (steps[:at], steps[at + 1 :]))
        if any(to in r or to in w for r, w in before) or any(source in w for _, w in after):
            continue
        changed = any(to in w for _, w in after) and any(source in r for r, _ in after)
        made_here = any(source in w for _, w in before)
        if made_here and not changed and _fits(steps, source, to):
            del steps[at]
            rename(steps, source, to, touched)


def _fits(steps: list[Step], old: Buffer, new: Buffer) -> bool:
    """Whether ``new`` has the size of ``old``, and its dims where something depends on them."""
    if dm.same_shape(old.dims, new.dims):
        return True
    if not dm.same(dm.product(old.dims), dm.product(new.dims)):
        return False
    every = list(ir.walk_steps(steps))
    hosts = (s for s in every if isinstance(s, ir.HostStep))
    if any(old in s.outputs for s in hosts):  # Python gets arrays, not memory
        return False
    used = set().union(*(step_reads(s) | step_writes(s) for s in every))
    return not any(b.base is old for b in used)


# -- renaming --------------------------------------------------------------------------------
def rename(steps: list[Step], old: Buffer, new: Buffer, touched: Touched) -> None:
    """Put the buffer ``new`` where the steps touch ``old``."""

    def one(buffer: Buffer) -> Buffer:
        return new if buffer is old else buffer

    for step in list(ir.walk_steps(steps)):
        buffers = set().union(*touched.of(step))
        if old not in buffers:
            continue
        for piece in buffers:
            if piece.base is old:
                piece.base = new
        if isinstance(step, Kernel):
            change_accesses(step.body, {old: rewriting.rename(new)})
        elif isinstance(step, ir.HostStep):
            step.inputs = tuple(map(one, step.inputs))
            step.outputs = tuple(map(one, step.outputs))
        elif isinstance(step, ir.SwitchStep):
            step.index = one(step.index)
        elif isinstance(step, ir.BindStep):
            step.source = one(step.source)
        else:
            step.swaps = [(one(a), one(c)) for a, c in step.swaps]
    touched.rename(old, new)
