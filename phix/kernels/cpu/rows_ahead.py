"""Rows that come from memory are asked for while the row before them is worked on.

Where a row is gone through several times, the first time waits for memory; later its elements are
in the caches, and memory rests. So a later loop asks for the lines of the next row:

    for i in range(n):
        m = -inf
        for j in range(1024): m = maximum(m, x[i, j])
        for j in range(1024): y[i, j] = exp(x[i, j] - m)

becomes

    for i in range(n):
        m = -inf
        for j in range(1024): m = maximum(m, x[i, j])
        for b in range(4):
            fetch(&x[minimum(i + 1, n - 1), 256 * b], 1024)
            for j in range(256 * b, 256 * b + 256): y[i, j] = exp(x[i, j] - m)

A core waits for some twenty lines at a time. So few are asked for at once, between blocks of a
loop that brings nothing new itself: the one that computes most. What comes later in the same row
is asked for there as well.

Rows that are in a cache anyway are not asked for. Where their number is known while running only,
so is that, and the loop stands there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import settings
from phix.core.records import dataclass
from phix.kernels.cpu import units
from phix.kernels.cpu.row_parts import operations
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.nodes import (
    Assign,
    Buffer,
    Declare,
    For,
    Kernel,
    LibraryCall,
    LoopProgram,
    Pointer,
    Statement,
    Store,
)
from phix.kernels.loops.rewriting import replaced, substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

FETCH = "fetch"
# Bytes of rows that a second cache keeps beside all else. Blocks are of several whole vectors.
_MOST, _GRAIN = 64 << 10, 32


def rows_ahead(program: LoopProgram, setting: Setting) -> None:
    """The pass: see above."""
    least = settings.current().least_asked_bytes
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            requests = list(_requests(step))
            touched = touched_bytes(step, setting.builder.dim) if requests else ir.ZERO
            is_known = touched.fn == "const"
            if not is_known or touched.data >= least:
                for request in requests:
                    request.carry_out(step, None if is_known else touched >= least)


def touched_bytes(kernel: Kernel, size_of: Callable[[dm.DimLike], Expr]) -> Expr:
    """The bytes of all that a kernel reads and writes, beside memory of its own."""
    count: Expr = ir.ZERO
    touched = {ir.owner(b) for b in ir.writes(kernel.body) | ir.reads(kernel.body)}
    for buffer in sorted(touched, key=lambda b: b.name):  # texts are the same in every process
        if buffer not in kernel.locals:
            count = count + size_of(dm.product(buffer.dims)) * buffer.dtype.itemsize
    return count


def goes_again(kernel: Kernel) -> bool:
    """Whether a kernel goes several times through rows, and through all but one in the caches."""
    return any(True for _ in _requests(kernel))


@dataclass(frozen=True)
class _Request:
    """``loop`` of a block is to ask for what stands at ``asked`` where it has come to, for so many
    iterations at a time: ``count``."""

    block: list[Statement]
    loop: For
    asked: tuple[Pointer, ...]
    count: int

    def carry_out(self, kernel: Kernel, condition: Expr | None) -> None:
        """Cut the loop into blocks, each behind what it asks for, where the condition holds."""
        made = self._blocks(kernel)
        if condition is not None:
            plain = replace(self.loop, body=replaced(self.loop.body, {}))
            made = [ir.If(condition, made), ir.If(~condition, [plain])]
        at = self.block.index(self.loop)
        self.block[at : at + 1] = made

    def _blocks(self, kernel: Kernel) -> list[Statement]:
        """The blocks, and what is left."""
        loop, count = self.loop, self.count
        used = [s.index.data for s in ir.walk(kernel.body) if isinstance(s, For)]
        block = sc.var(f"i{1 + max(int(name[1:]) for name in used)}")
        blocks, first = loop.extent.data // count, block * count
        body: list[Statement] = []
        for p in self.asked:
            there = Pointer(p.buffer, substituted(p.offset, {loop.index: first}))
            length = _number(count * p.buffer.dtype.itemsize)
            body.append(LibraryCall(FETCH, (there, length), ()))
        body.append(replace(loop, start=first, extent=first + count))
        made: list[Statement] = [replace(loop, index=block, extent=_number(blocks), body=body)]
        if blocks * count < loop.extent.data:
            rest = replaced(loop.body, {})
            made.append(replace(loop, start=_number(blocks * count), body=rest))
        return made


def _number(n: int) -> Expr:
    return sc.const(n, dt.int64)


# -- which loops ---------------------------------------------------------------------------------
def _requests(kernel: Kernel) -> Iterator[_Request]:
    """What a kernel's innermost loops over rows can do."""
    loops = _around_loops(kernel)
    written = ir.writes(kernel.body) | set(kernel.locals) if loops else set()
    done: set[int] = set()
    for rows in reversed(loops):  # inner before outer
        inside = {id(s) for s in ir.walk(rows.body)}
        request = None if done & inside else _request(rows, written)
        if request is not None:
            done.add(id(rows))
            yield request


def _around_loops(kernel: Kernel) -> list[For]:
    """The loops with several loops side by side in them: most kernels have none."""
    found = []
    for s in ir.walk(kernel.body):
        if isinstance(s, For):
            count = 0
            for inner in s.body:
                count += isinstance(inner, For)
            if count > 1:
                found.append(s)
    return found


def _request(rows: For, written: set[Buffer]) -> _Request | None:
    """What one of the loops in ``rows`` can ask for: of those that bring nothing themselves, the
    one that computes most and comes to where it is to ask."""
    every = list(_innermost(rows.body))
    comes = [_along(loop, rows, written) for _, loop in every]
    first: dict[Buffer, int] = {}
    for n, found in enumerate(comes):
        for buffer in found:
            first.setdefault(buffer, n)
    lengths = {b: _row_length(comes[n][b], rows) * b.dtype.itemsize for b, n in first.items()}
    if not 0 < sum(lengths.values()) <= _MOST or min(lengths.values()) <= 0:
        return None
    quiet = [n for n, (_, s) in enumerate(every) if n not in first.values() and _may_wait(s)]
    for n in sorted(quiet, key=lambda n: -_operations(every[n][1])):
        asked = tuple(_asked(rows, every, comes, first, n))
        count = at_a_time([p.buffer for p in asked]) if asked else 0
        if asked and every[n][1].extent.data >= 2 * count:
            return _Request(*every[n], asked, count)
    return None


def _asked(
    rows: For, every: list[_Spot], comes: list[_Along], first: dict[Buffer, int], n: int
) -> Iterator[Pointer]:
    """What loop ``n`` can ask for, where it has come to: of this row, or of the next."""
    inner = {s.index for s in ir.walk(rows.body) if isinstance(s, For)}
    following = {rows.index: sc.binary("minimum", rows.index + 1, rows.extent - 1)}
    for buffer, k in first.items():
        load = comes[n].get(buffer) or _translated(
            comes[k][buffer], every[k][1], every[n][1], inner
        )
        if load is not None:
            (offset,) = load.args
            yield Pointer(buffer, substituted(offset, following) if k < n else offset)


# An innermost loop and the block that it stands in; and of which buffers it reads a row, by which
# load.
_Spot = tuple[list[Statement], For]
_Along = dict[Buffer, Expr]


def _innermost(block: list[Statement]) -> Iterator[_Spot]:
    """The loops without loops in them, in order, each with the block that it stands in."""
    for s in block:
        if isinstance(s, For):
            if any(isinstance(inner, For) for inner in s.body):
                yield from _innermost(s.body)
            else:
                yield block, s


def _along(loop: For, rows: For, written: set[Buffer]) -> _Along:
    """The buffers of which a loop reads a row that no other turn of ``rows`` does; a load each."""
    found: _Along = {}
    for load in ir.loads(loop.body):
        form = linear_form(load.args[0]) if len(load.args) == 1 else None
        if form is None or rows.index not in form[0] or load.data in written:
            continue
        if form[0].get(loop.index) == UNIT:
            found.setdefault(load.data, load)
    return found


def at_a_time(asked: Sequence[Buffer]) -> int:
    """The iterations of which the bytes are asked for at once."""
    every = sum(buffer.dtype.itemsize for buffer in asked)
    count = max(settings.current().asked_bytes // every, 1)
    return count - count % _GRAIN if count > _GRAIN else count


def _may_wait(loop: For) -> bool:
    """Whether a loop may be cut into blocks."""
    is_plain = all(isinstance(s, (Store, Assign, Declare)) for s in loop.body)
    return is_plain and not loop.is_vector and loop.start is ir.ZERO and loop.extent.fn == "const"


def _operations(loop: For) -> int:
    return len(operations(*(root for s in loop.body for root in ir.roots(s))))


def _translated(load: Expr, loop: For, other: For, inner: set[Expr]) -> Expr | None:
    """A load of one loop as another of as many turns would have it; None where it cannot."""
    form = linear_form(load.args[0])
    if form is None or form[0].keys() & inner != {loop.index}:
        return None
    if (loop.start, loop.extent) != (other.start, other.extent):
        return None
    return substituted(load, {loop.index: other.index})


def _row_length(load: Expr, rows: For) -> int:
    """How many elements apart the rows are that a load goes along; 0 if that is not known."""
    form = linear_form(load.args[0])
    names, number = form[0][rows.index] if form is not None else ((), 0)
    return 0 if names else number


# -- LLVM text -----------------------------------------------------------------------------------
_LINE = 64
_PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines ``fetch``, and what it declares; None for other routines."""
    if library != FETCH:
        return None
    text = f"""define internal void @{FETCH}(ptr %from, i64 %bytes) {units.TAKEN_IN} {{
entry:
  br label %head
head:
  %at = phi i64 [0, %entry], [%next, %line]
  %more = icmp slt i64 %at, %bytes
  br i1 %more, label %line, label %done
line:
  %address = getelementptr i8, ptr %from, i64 %at
  call void @llvm.prefetch.p0(ptr %address, i32 0, i32 3, i32 1)
  %next = add nuw nsw i64 %at, {_LINE}
  br label %head
done:
  ret void
}}"""
    return text, _PREFETCH
