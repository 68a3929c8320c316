"""Temps that one iteration of a kernel writes and reads alone need memory for one iteration.

The rows of a softmax are such: an iteration stores the exponentials of its row and reads them
again, so one row of memory, which stays in the first cache, does for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive.affine import (
    UNIT,
    Factors,
    accesses,
    divides,
    linear_form,
    size_expr,
    stride_of,
)
from phix.kernels.primitive.affine import factors as factors_of
from phix.kernels.primitive.inplace import nest, parts
from phix.kernels.primitive.loop_ir import Buffer, For, Kernel, LoopProgram, Statement
from phix.kernels.primitive.rewriting import change_accesses
from phix.kernels.primitive.scalar import Expr


def _any(kernel: Kernel, temp: Buffer, size: Factors) -> bool:
    return True


def users_of(program: LoopProgram) -> Counter[Buffer]:
    """How many kernels touch each buffer; what other steps touch counts twice."""
    users: Counter[Buffer] = Counter()
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            users.update(ir.step_reads(step) | ir.step_writes(step))
        users.update([*ir.step_uses(step), *ir.step_uses(step)])
    return users


def shrink(program: LoopProgram, fits: Callable[[Kernel, Buffer, Factors], bool] = _any) -> None:
    """Make temps of one iteration local to their kernels, if ``fits`` says yes to their size."""
    users = users_of(program)
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            own = [t for t in ir.writes(step.body) if t.kind == "temp" and users[t] == 1]
            for temp in sorted(own, key=lambda t: int(t.name[1:])):
                _shrink(step, temp, fits)


def _shrink(kernel: Kernel, temp: Buffer, fits: Callable[[Kernel, Buffer, Factors], bool]) -> None:
    """Make a temp local to the kernel, if one iteration alone uses each of its elements."""
    before, main, after = parts(kernel.body)
    if main is None or temp in ir.reads([*before, *after]) | ir.writes(after):
        return
    loops, block = nest(Kernel([main]))
    size = _row_size(temp, loops, block)
    if size is None or not fits(kernel, temp, size):
        return
    gone = {loop.index for loop in loops}
    local = Buffer(temp.name, temp.dtype, temp.dims, "local")
    kernel.locals[local] = size_expr(size)

    def within_row(indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        form = linear_form(indices[0], clamped=True)
        assert form is not None
        position: Expr = ir.ZERO
        for index, stride in form[0].items():
            if index not in gone:
                position = position + index * size_expr(stride)
        return local, (position, *indices[1:])

    change_accesses(block, {temp: within_row})


def _row_size(temp: Buffer, loops: list[For], block: list[Statement]) -> Factors | None:
    """How many elements of ``temp`` an iteration of the loops touches, if they are its own."""
    extents = {loop.index: loop.extent for loop in loops}
    strides: dict[Expr, set[Factors]] = {loop.index: set() for loop in loops}
    for linear, sizes in accesses(temp, block, extents):
        form = linear_form(linear, clamped=True)
        if form is None or form[1]:
            return None
        for loop in loops:
            own = factors_of(loop.extent)
            stride = None if own is None else stride_of(form[0], loop.index, own, sizes)
            if stride is None:
                return None
            strides[loop.index].add(stride)
    if not loops or any(len(found) != 1 for found in strides.values()):
        return None
    every = [found.pop() for found in strides.values()]
    return next((s for s in every if all(divides(s, other) for other in every)), UNIT)
