"""Loops of steps as one kernel: a block goes through a loop whose body is small.

A launch for each step of such a loop would cost more than the step. The block's threads share the
loops inside a step, as in any kernel of blocks, and wait for each other where one step reads what
another has written. Small kernels before and after the loop join it, so that carries and temps are
its own: those are in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import prod

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import (  # fmt: skip
    Assign,
    Buffer,
    Declare,
    For,
    If,
    Kernel,
    LibraryCall,
    Pointer,
    Statement,
    Step,
    Store,
    While,
)
from phix.kernels.loops.rewriting import Change, change_accesses
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr

# The most that a block does in one step, in statements run: so many products of a matrix product
# count as one.
_MOST_WORK, _PRODUCTS = 1 << 16, 4

_numbers = count(1000)


class _TooMuch(Exception):
    """The loop is not for one block: too much work, of unknown amount, or not for kernels."""


# A kernel beside a loop joins it if it runs at most so many statements.
_MOST_BESIDE = 1 << 12
# The shared memory that the temps of a kernel may take.
_MOST_SHARED = 32 << 10


def joined(steps: list[Step], loops: set[Step]) -> list[Step]:
    """The steps with loops that one block does as kernels, noted in ``loops``."""
    result: list[Step] = []
    for step in steps:
        kernel = as_kernel(step)
        last = result[-1] if result else None
        if kernel is None:
            if last in loops and isinstance(last, Kernel) and _is_beside(step):
                assert isinstance(step, Kernel)
                last.body.extend(step.body)
            else:
                result.append(step)
            continue
        while last is not None and (last in loops or _is_beside(last)):
            assert isinstance(last, Kernel)
            kernel.body[:0] = last.body
            loops.discard(result.pop())
            last = result[-1] if result else None
        loops.add(kernel)
        result.append(kernel)
    return result


def _is_beside(step: Step) -> bool:
    if not isinstance(step, Kernel) or any(isinstance(s, LibraryCall) for s in ir.walk(step.body)):
        return False
    try:
        return sum(map(_work, step.body)) <= _MOST_BESIDE
    except _TooMuch:
        return False


def keep_in_blocks(program: ir.LoopProgram, loops: set[Step]) -> None:
    """Give kernels that were loops the temps that no other step touches, in shared memory."""
    every = list(ir.walk_steps(program.steps))
    for kernel in every:
        if kernel not in loops:
            continue
        assert isinstance(kernel, Kernel)
        rest = [s for s in every if s is not kernel and not _holds(s, kernel)]
        others = set().union(*(ir.step_reads(s) | ir.step_writes(s) for s in rest))
        others |= set().union(*(ir.step_uses(s) for s in every))
        room = _MOST_SHARED
        for temp in sorted(ir.step_reads(kernel) | ir.step_writes(kernel), key=lambda b: b.name):
            size = dm.product(temp.dims)
            if temp.kind != "temp" or temp in others or not isinstance(size, int):
                continue
            room -= -(-size * temp.dtype.itemsize // 16) * 16
            if room < 0:
                break
            temp.kind = "local"
            kernel.locals[temp] = sc.const(size, dt.int64)
    program.temps = [t for t in program.temps if t.kind == "temp"]


def _holds(step: Step, kernel: Kernel) -> bool:
    """Whether the kernel is a step inside another."""
    return any(inner is kernel for block in ir.blocks(step) for inner in ir.walk_steps(block))


def as_kernel(step: Step) -> Kernel | None:
    """The kernel that does what a loop does; None where it is better done step by step."""
    if not isinstance(step, (ir.ForStep, ir.WhileStep)):
        return None
    try:
        body = _loop(step)
    except _TooMuch:
        return None
    _without_slices(body)
    return Kernel(body)


def _block(steps: list[Step]) -> list[Statement]:
    return [s for step in steps for s in _statements(step)]


def _statements(step: Step) -> list[Statement]:
    if isinstance(step, Kernel):
        if sum(map(_work, step.body)) > _MOST_WORK:
            raise _TooMuch
        return [_in_loops(s) for s in step.body]
    if isinstance(step, ir.SwitchStep):
        chosen = _load(step.index, ir.ZERO)
        return [
            If(sc.eq(chosen, number), _block(branch)) for number, branch in enumerate(step.branches)
        ]
    if isinstance(step, (ir.ForStep, ir.WhileStep)):
        return _loop(step)
    raise _TooMuch


def _loop(step: ir.ForStep | ir.WhileStep) -> list[Statement]:
    body = _block(step.body) + [s for a, b in step.swaps for s in _copy(a, b)]
    if isinstance(step, ir.ForStep):
        return [For(step.index, step.extent, body, "reduction")]
    goes_on = sc.var(f"a{next(_numbers)}", dt.bool_)
    test = _block(step.test) + [Assign((goes_on,), (_load(step.flag, ir.ZERO),))]
    start = Declare(goes_on, sc.const(True, dt.bool_))
    return [start, While(goes_on, [*test, If(goes_on, body)])]


def _load(buffer: Buffer, index: Expr) -> Expr:
    found = ir.load(buffer, (index,))
    assert not isinstance(found, Complex)
    return found


def _copy(to: Buffer, source: Buffer) -> Iterator[Statement]:
    """What a loop of the host does by exchanging memory."""
    size = dm.product(to.dims)
    if not isinstance(size, int) or size > _MOST_WORK:
        raise _TooMuch
    index = sc.var(f"i{next(_numbers)}")
    stores = ir.stores(to, (index,), ir.load(source, (index,)))
    yield For(index, sc.const(size, dt.int64), list(stores))


def _work(s: Statement) -> int:
    """How many statements a statement runs."""
    if isinstance(s, LibraryCall):
        sizes = [a for a in s.arguments if isinstance(a, Expr)][3:6]
        if s.name.partition("_")[0] != "gemm" or any(e.fn != "const" for e in sizes):
            raise _TooMuch
        return prod(int(e.data) for e in sizes) // _PRODUCTS
    if isinstance(s, For):
        if s.extent.fn != "const":
            raise _TooMuch
        return int(s.extent.data) * sum(map(_work, s.body))
    if isinstance(s, (If, While)):
        return 1 + sum(map(_work, s.body))
    return 1


# -- matrix products -----------------------------------------------------------------------------
def _in_loops(s: Statement) -> Statement:
    """A statement with small matrix products in loops in place of calls."""
    if isinstance(s, LibraryCall):
        return _product(s)
    if isinstance(s, (For, If, While)):
        inside = [_in_loops(inner) for inner in s.body]
        if isinstance(s, For):
            return For(s.index, s.extent, inside, s.kind, s.start)
        return type(s)(s.condition, inside)
    return s


def _product(call: LibraryCall) -> Statement:
    """``out = op(x) op(y)``, or ``out += ...``: a sum for each element."""
    numbers = [a for a in call.arguments if isinstance(a, Expr)]
    pointers = [a for a in call.arguments if isinstance(a, Pointer)]
    flags_known = all(e.fn == "const" for e in numbers[:3])
    if not flags_known or dt.is_complex(pointers[2].buffer.dtype):
        raise _TooMuch
    transpose_x, transpose_y, accumulate = (bool(e.data) for e in numbers[:3])
    m, n, k = numbers[3:6]
    x_pitch, y_pitch, pitch = numbers[6:]
    x, y, out = pointers
    row, column, inner = (sc.var(f"i{next(_numbers)}") for _ in range(3))

    def at(p: Pointer, i: Expr, j: Expr, pitch: Expr, swaps: bool) -> Expr:
        return p.offset + (j * pitch + i if swaps else i * pitch + j)

    place = at(out, row, column, pitch, False)
    wide = ir.scalar_dtype(out.buffer.dtype)
    total = sc.var(f"a{next(_numbers)}", wide)
    start = _load(out.buffer, place) if accumulate else sc.const(0, wide)
    left = _load(x.buffer, at(x, row, inner, x_pitch, transpose_x))
    right = _load(y.buffer, at(y, inner, column, y_pitch, transpose_y))
    add = Assign((total,), (total + left * right,), True)
    element: list[Statement] = [
        Declare(total, start),
        For(inner, k, [add], "reduction"),
        Store(out.buffer, (place,), total),
    ]
    return For(row, m, [For(column, n, element)])


# -- slices --------------------------------------------------------------------------------------
def _without_slices(body: list[Statement]) -> None:
    """Touch what slices are slices of: where they begin changes from step to step."""
    while True:
        touched = ir.reads(body) | ir.writes(body)
        changes = {b: _in_base(b) for b in touched if b.base is not None}
        if not changes:
            return
        change_accesses(body, changes)


def _in_base(buffer: Buffer) -> Change:
    base, index = buffer.base, buffer.index
    assert base is not None and index is not None
    if not base.strided:
        size = dm.product(buffer.dims)
        assert isinstance(size, int)
        return lambda indices: (base, (index * size + indices[0], *indices[1:]))
    if buffer.strided:
        return lambda indices: (base, (index, *indices))
    return lambda indices: (base, (index, *indices[1:]))  # a number of a strided vector
