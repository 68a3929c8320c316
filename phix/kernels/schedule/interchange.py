"""Two loops around a run of memory change places, so that the kernel can join another.

Statistics of a channel go over all images, one channel after the other; what is made of them goes
image by image. With its two outer loops exchanged the second is a loop over channels too, and both
become one: a channel that was read from far away is still near when it is read again.
"""

from __future__ import annotations

from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, accesses, is_one_digit, linear_form
from phix.kernels.loops.nodes import For, Kernel
from phix.kernels.loops.rewriting import replaced
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.inplace import parts
from phix.kernels.schedule.partial_results import scalar_totals

# Runs of fewer elements cost more to walk through than they save.
SHORTEST_RUN = 128
# Fewer iterations than that leave threads without work.
_FEWEST = 8


def interchanged(kernel: Kernel) -> Kernel | None:
    """The kernel with its two outer loops exchanged; None where that cannot be, or does not pay.

    It can where each pair of iterations has its own elements of all that is written, and scalars
    that outlive the loops are totals, whose order is free.
    """
    before, outer, after = parts(kernel.body)
    if outer is None or len(outer.body) != 1 or not isinstance(outer.body[0], For):
        return None
    inner = outer.body[0]
    if not _is_large(inner.extent) or _depends(inner, outer.index):
        return None
    if scalar_totals(kernel.body, outer) is None or not _keeps_apart(outer, inner):
        return None
    change = {outer.index: inner.index, inner.index: outer.index}
    second = For(inner.index, outer.extent, replaced(inner.body, change), outer.kind)
    first = For(outer.index, inner.extent, [second], inner.kind)
    return Kernel([*before, first, *after], kernel.start, kernel.whole)


def _is_large(extent: Expr) -> bool:
    return extent.fn != "const" or extent.data >= _FEWEST


def _depends(loop: For, index: Expr) -> bool:
    return index in ir.expressions([ir.Declare(loop.extent, loop.extent)])


def _keeps_apart(outer: For, inner: For) -> bool:
    """Whether iterations touch runs of their own of what is written, and these are long."""
    if not any(isinstance(s, For) for s in inner.body):
        return False
    if any(isinstance(s, (ir.LibraryCall, ir.While)) for s in ir.walk(inner.body)):
        return False
    written = ir.writes(inner.body)
    touched = written | ir.reads(inner.body)
    owners = set(map(ir.owner, written))
    if sum(ir.owner(b) in owners for b in touched) != len(owners):
        return False  # a buffer and a slice of it
    extents = {outer.index: outer.extent, inner.index: inner.extent}
    loops = (outer.index, inner.index)
    apart = (is_one_digit(b, i, inner.body, extents) for b in written for i in loops)
    return all(apart) and all(_has_runs(b, inner) for b in touched)


def _has_runs(buffer: ir.Buffer, inner: For) -> bool:
    """Whether the inner loop steps over long runs of a buffer that the loops inside walk along."""
    for linear, inside in accesses(buffer, inner.body, {}):
        form = linear_form(linear)
        if buffer.strided or form is None:
            return False
        if not any(i in form[0] for i in inside):
            continue  # the same element all along
        names, number = form[0].get(inner.index, ((), 0))
        walks = any(form[0].get(i) == UNIT for i in inside)
        if not walks or (not names and number < SHORTEST_RUN):
            return False
    return True
