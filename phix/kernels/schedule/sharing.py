"""Which loop of a kernel threads can share, and whether the work pays for it.

Of the loops around a kernel's innermost block, the first is taken whose iterations are
*independent*: no two of them touch the same element of a buffer that the kernel writes. That is
proved from the indices: see :func:`phix.kernels.loops.affine.is_one_digit`. A loop of the kind
``independent`` needs no proof: its lowering answers for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites, settings, stack
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import accesses, is_one_digit
from phix.kernels.loops.nodes import For, Kernel, LoopProgram, Statement, Step
from phix.kernels.loops.spans import share_stretches
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.inplace import nest
from phix.kernels.schedule.partial_results import split
from phix.kernels.schedule.pipeline import Setting

# A loop of unknown length is taken for one of this many iterations, where sizes must be guessed.
_GUESS = 16
_FEWEST_ITERATIONS = 4
# Loops of more scalar operations than that are never written out.
_WRITTEN_OUT = 4096
# What a call of a library is taken for, where nothing it is told says more.
_CALL = 20_000
# The beginning of a routine's name -> which of its arguments, multiplied, say how much it does; so
# often that, by so much.
_CALLS = {
    "gemm": (slice(3, 6), 1, 8), "convolution": (slice(0, 7), 1, 8),
    "sort": (slice(0, 1), 16, 1), "split": (slice(0, 1), 4, 1),
}  # fmt: skip


def share_loops(program: LoopProgram, setting: Setting) -> None:
    """The pass: kernels that threads share are marked, and the loops they share are cut."""
    _Sharing(program, setting.builder.dim).block(program.steps)


class _Sharing:
    def __init__(self, program: LoopProgram, size_of: Callable[[dm.DimLike], Expr]) -> None:
        self.program, self.size_of = program, size_of

    @stack.nests
    def block(self, steps: list[Step]) -> None:
        """Share the kernels of a block and of those inside it."""
        for step in steps:
            for inner in ir.blocks(step):
                self.block(inner)
        steps[:] = [s for step in steps for s in self._shared(step)]

    def _shared(self, step: Step) -> list[Step]:
        if not isinstance(step, Kernel):
            return [step]
        work = work_of(step.body)
        least = settings.current().least_shared_work
        if work.fn == "const" and work.data < least:
            return [step]
        loops, block = nest(step)
        loop = _shareable(loops, block)
        # rows are read in longer runs than columns
        if (loop is None or loop is not loops[0]) and rewrites.is_on("partial_results"):
            changes = _changes(step.body)
            parts = split(step, work, changes, least, self.size_of, self._temp)
            if parts is not None:
                _coarsen(parts[0])
                return list(parts)
        if loop is not None:
            _cut(step, loop, work)
        return [step]

    def _temp(self, dims: dm.Shape, dtype: np.dtype) -> ir.Buffer:
        temps = self.program.temps
        number = 1 + max((int(t.name[1:]) for t in temps), default=-1)
        temps.append(ir.Buffer(f"t{number}", dtype, dims, "temp"))
        return temps[-1]


def _shareable(loops: list[For], block: list[Statement]) -> For | None:
    """The first of the loops of a nest whose iterations are independent."""
    # a library has threads of its own, unless who made the loop says otherwise
    tried = [x for x in loops if not _has_call(block) or x.kind == "independent"]
    return next((x for x in tried if _is_shareable(x, loops, block)), None)


def _cut(kernel: Kernel, loop: For, work: Expr) -> None:
    """Let threads share a loop of the kernel."""
    loops, block = nest(kernel)
    is_last = loop is loops[-1] and not _has_loop(block)
    bounds = settings.current()
    is_whole = loop is loops[0] or not is_last
    grain = bounds.shared_run if is_whole else bounds.shared_run_inside
    if _has_call(block) or not (is_last or _is_short(loop.body)):
        grain = 1
    kernel.shared = ir.Shared(loop.extent, work, grain)
    loop.start, loop.extent = ir.PIECE_START, ir.PIECE_END


def _coarsen(kernel: Kernel) -> None:
    """Let pieces of a kernel with partial results be longer, where its loop's body is short."""
    (loop,) = (s for s in kernel.body if isinstance(s, For))
    if kernel.shared is not None and _is_short(loop.body):
        kernel.shared = replace(kernel.shared, grain=settings.current().shared_run)


def _is_short(body: list[Statement]) -> bool:
    """Whether a compiler may write the loops of a body out, and make vectors of the one around it.

    What its vectors leave over it does with other instructions, so their sums may be rounded in
    another order. Whole vectors in every piece leave the same over with any number of threads.
    """
    work = work_of(body, at_least=True)
    return bool(work.fn == "const" and work.data <= _WRITTEN_OUT)


def _has_call(block: list[Statement]) -> bool:
    return any(isinstance(s, ir.LibraryCall) for s in ir.walk(block))


def _has_loop(block: list[Statement]) -> bool:
    return any(isinstance(s, For) for s in ir.walk(block))


def _is_shareable(loop: For, loops: list[For], block: list[Statement]) -> bool:
    if loop.extent.fn == "const" and loop.extent.data < _FEWEST_ITERATIONS:
        return False
    if loop.kind == "independent":
        return True
    if any(loop.index in ir.expressions([ir.Declare(x.extent, x.extent)]) for x in loops):
        return False
    extents = {x.index: x.extent for x in loops}
    written = {ir.owner(b) for b in ir.writes(block) if b.kind != "local"}
    touched = ir.writes(block) | ir.reads(block)
    names = [b for b in touched if ir.owner(b) in written]
    if len(names) != len(written):
        return False  # a buffer and a slice of it
    return all(
        is_one_digit(b, loop.index, block, extents)
        or share_stretches(accesses(b, block, extents), loop.index)
        for b in names
    )


# -- work ------------------------------------------------------------------------------------
def work_of(body: list[Statement], at_least: bool = False) -> Expr:
    """About how many scalar operations a block makes, as an expression of dims.

    Loops that start anywhere but at 0, as over a part of something longer, may make one turn alone,
    or as many as the part says: ``at_least`` counts that.
    """
    own: list[Statement] = []
    for s in body:
        if isinstance(s, (ir.If, ir.While)):
            own.append(ir.Declare(s.condition, s.condition))
        elif not isinstance(s, For):
            own.append(s)
    every = ir.expressions(own, usual=True)
    total = sc.const(len([e for e in every if e.args]), dt.int64)
    for s in body:
        if isinstance(s, For):
            is_part = at_least and s.start is not ir.ZERO
            turns = _length_of_part(s) if is_part else _length(s.extent)
            total = total + turns * work_of(s.body, at_least)
        elif isinstance(s, (ir.If, ir.While)):
            total = total + work_of(s.body, at_least)
        elif isinstance(s, ir.LibraryCall):
            total = total + _call(s)
    return total


def _changes(body: list[Statement]) -> Expr:
    """About how often a block stores and assigns."""
    total = sc.const(sum(isinstance(s, (ir.Store, ir.Assign)) for s in body), dt.int64)
    for s in body:
        if isinstance(s, (For, ir.If, ir.While)):
            turns = _length(s.extent) if isinstance(s, For) else ir.ONE
            total = total + turns * _changes(s.body)
    return total


def _call(call: ir.LibraryCall) -> Expr:
    known = _CALLS.get(call.name.partition("_")[0])
    if known is None:
        return sc.const(_CALL, dt.int64)
    sizes, times, parts = known
    work: Expr = sc.const(times, dt.int64)
    for a in call.arguments[sizes]:
        work = work * _length(a) if isinstance(a, Expr) else work
    if work.fn == "const":
        return sc.const(work.data // parts, dt.int64)
    return sc.binary("quotient", work, sc.const(parts, dt.int64))


def _length_of_part(loop: For) -> Expr:
    """How long a part is that goes from its start on and ends with the whole; 1 where that is not
    said."""
    ends = loop.extent.args if loop.extent.fn == "minimum" else ()
    lengths = (
        b for e in ends if e.fn == "add" for a, b in (e.args, e.args[::-1]) if a == loop.start
    )
    return next(lengths, ir.ONE)


def _length(extent: Expr) -> Expr:
    if extent.fn == "const":
        return extent
    size = next((e for e in extent.args if e.fn == "const"), None)
    if extent.fn == "minimum" and size is not None:
        return size  # of a block: all have it but the last
    parts = ir.expressions([ir.Declare(extent, extent)])
    is_known = all(e.fn != "load" and not (e.fn == "var" and _is_inner(e)) for e in parts)
    return extent if is_known else sc.const(_GUESS, dt.int64)


def _is_inner(e: Expr) -> bool:
    """Whether a variable is a loop's index or a mutable scalar, not a dim."""
    return e.data[0] in "ia" and e.data[1:].isdigit()
