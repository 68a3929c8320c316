"""Temps that one iteration of a kernel writes and reads alone need memory for one iteration.

The rows of a softmax are such: an iteration stores the exponentials of its row and reads them
again, so one row of memory, which stays in the first cache, does for all.
"""

from __future__ import annotations

from collections.abc import Callable

from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import (
    UNIT,
    Factors,
    accesses,
    clamped_extent,
    divides,
    linear_form,
    over,
    size_expr,
    stride_of,
    times,
)
from phix.kernels.loops.affine import factors as factors_of
from phix.kernels.loops.effects import users_of
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Statement
from phix.kernels.loops.rewriting import change_accesses
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.inplace import nest, parts
from phix.kernels.schedule.pipeline import Setting


def shrink_temps(program: LoopProgram, _: Setting) -> None:
    """The pass: a temp used one row at a time has memory for one row."""
    shrink(program, lambda kernel, temp, size: True)


def shrink(program: LoopProgram, fits: Callable[[Kernel, Buffer, Factors], bool]) -> None:
    """Make temps of one iteration local to their kernels, if ``fits`` says yes to their size."""
    users = users_of(program.steps)
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
    if any(
        isinstance(s, ir.LibraryCall) and temp in ir.writes([s]) | ir.reads([s])
        for s in ir.walk(block)
    ):
        return  # nobody says which of its elements a routine touches
    row = _row(temp, loops, block)
    if row is None or not fits(kernel, temp, row.size):
        return
    local = Buffer(temp.name, temp.dtype, temp.dims, "local")
    kernel.locals[local] = size_expr(row.size)

    def within_row(indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        form = linear_form(indices[0], clamped=True)
        assert form is not None
        position: Expr = ir.ZERO
        for index, stride in form[0].items():
            if index not in row.gone:
                position = position + index * size_expr(row.stride(stride))
        return local, (position, *indices[1:])

    change_accesses(block, {temp: within_row})


@dataclass(frozen=True)
class _Row:
    """The elements an iteration of some loops has to itself.

    Their numbers are those in the buffer without the digits of the loops. Of several loops all
    other digits are below; above that of one loop, which has ``above`` elements and takes
    ``extent`` values, there may be others.
    """

    gone: frozenset[Expr]
    size: Factors
    above: Factors | None = None
    extent: Factors = UNIT

    def stride(self, stride: Factors) -> Factors:
        """What an index is multiplied with in the row, from its stride in the buffer."""
        is_above = self.above is not None and divides(self.above, stride)
        return over(stride, self.extent) if is_above else stride


def _row(temp: Buffer, loops: list[For], block: list[Statement]) -> _Row | None:
    """The elements of ``temp`` that an iteration of the loops touches, if they are its own."""
    extents = {loop.index: loop.extent for loop in loops}
    strides: dict[Expr, set[Factors]] = {loop.index: set() for loop in loops}
    terms: list[tuple[Factors, Expr]] = []  # of the loops inside: stride and extent
    fixed: set[frozenset[tuple[Factors, Expr]]] = set()  # what is no loop's
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
        inside = [(f, v, sizes.get(v, clamped_extent(v)))
                  for v, f in form[0].items() if v not in strides]  # fmt: skip
        terms += [(f, e) for f, _, e in inside if e is not None]
        fixed.add(frozenset((f, v) for f, v, e in inside if e is None))
    if len(fixed) > 1:
        return None  # places apart by a dim, which no loop counts
    if not loops or any(len(found) != 1 for found in strides.values()):
        return None
    every = [found.pop() for found in strides.values()]
    size = next((s for s in every if all(divides(s, other) for other in every)), UNIT)
    return _with_digits_above(loops, size, terms)


def _with_digits_above(
    loops: list[For], size: Factors, terms: list[tuple[Factors, Expr]]
) -> _Row | None:
    """The row of ``size`` elements, as many times as the digits above that of the loop say."""
    gone = frozenset(loop.index for loop in loops)
    extent = factors_of(loops[0].extent)
    assert extent is not None
    above = times(size, extent)
    higher = [(f, factors_of(e)) for f, e in terms if not divides(f, size) or f == size]
    if not higher:
        return _Row(gone, size)
    if len(loops) > 1 or any(e is None or not divides(above, f) for f, e in higher):
        return None
    ends = [times(over(f, extent), e) for f, e in higher if e is not None]
    largest = next((s for s in ends if all(divides(other, s) for other in ends)), None)
    return None if largest is None else _Row(gone, largest, above, extent)
