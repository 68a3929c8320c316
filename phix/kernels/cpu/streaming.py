"""Large results go past the caches.

A store into a line that is in no cache reads the line first. Where a kernel touches more memory
than the last cache holds, its results are gone from there before anybody reads them, and that
reading is in vain. Such a kernel writes some elements of a result into memory of its own, which
stays in the first cache, and ``stream`` puts them where they belong with stores that bypass the
caches. That pays where memory is what a kernel waits for, not arithmetic.

A kernel that fills a buffer with a number waits for nothing else, and pays from a quarter of that
memory on: what follows, as a scatter does, seldom comes back to all of it.

Only where all sizes are known while compiling is it known to pay; code for both would take twice
as long to compile.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import settings
from phix.core.records import dataclass
from phix.kernels.cpu import jit, rows_ahead
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Statement, Store
from phix.kernels.loops.rewriting import substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Bytes of a result that are written at once, and of a row that is written as a whole.
_BLOCK, _LONGEST_ROW = 1024, 4096
# A fill pays from so small a part of the bytes on that other kernels pay from.
_FILLED = 4
# Of a kernel that goes through rows several times, so many times the work: it waits in one of them.
_AGAIN = 4
_UNKNOWN_CACHE = 32 << 20  # where the system does not tell
STREAM = "stream"


def least_bytes() -> int:
    """How many bytes a kernel touches that the last cache certainly does not keep."""
    given = settings.current().least_streamed_bytes
    return _beyond_the_cache() if given is None else given


@lru_cache(maxsize=1)
def _beyond_the_cache() -> int:
    size = jit.last_cache_bytes() or _UNKNOWN_CACHE
    return size + size // 4


def stream_results(program: LoopProgram, setting: Setting) -> None:
    """The pass: kernels that are worth it write their results past the caches."""
    results = _written_once(program)
    for kernel in program.steps:
        if not isinstance(kernel, Kernel):
            continue
        fill = _fill(kernel)
        if fill is not None:
            _stream_fill(kernel, fill)
        elif kernel.shared is not None:
            own = results & ir.writes(kernel.body)
            if own and _pays(kernel, kernel.shared.work, setting.builder.dim):
                _Streams(kernel, own).block(kernel.body)


def _written_once(program: LoopProgram) -> set[Buffer]:
    """The results that one store of the program writes, and nothing reads."""
    stores: Counter[Buffer] = Counter()
    touched: set[Buffer] = set()
    for step in ir.walk_steps(program.steps):
        if not isinstance(step, Kernel):
            touched |= ir.step_uses(step)
            continue
        touched |= ir.with_bases(ir.reads(step.body))
        for s in ir.walk(step.body):
            if isinstance(s, Store):
                stores[ir.owner(s.buffer)] += 1
            elif isinstance(s, ir.LibraryCall):
                touched |= ir.with_bases(set(s.writes))
    return {
        b for b in program.outputs
        if b.kind == "output" and stores[b] == 1 and b not in touched
        and not dt.is_complex(b.dtype)
    }  # fmt: skip


def _pays(kernel: Kernel, work: Expr, size_of: Callable[[dm.DimLike], Expr]) -> bool:
    """Whether a kernel is known to wait for memory that no cache holds."""
    count = rows_ahead.touched_bytes(kernel, size_of)
    if count.fn != "const" or work.fn != "const" or count.data < least_bytes():
        return False
    most = settings.current().most_streamed_work * count.data
    if work.data > most:
        return bool(work.data <= most * _AGAIN and rows_ahead.goes_again(kernel))
    return True


# -- fills ---------------------------------------------------------------------------------------
def _fill(kernel: Kernel) -> For | None:
    """The loop of a kernel that does nothing but to write a number all over a large buffer."""
    if kernel.start or kernel.shared is not None or len(kernel.body) != 1:
        return None  # sums come back to all of it
    (loop,) = kernel.body
    if not isinstance(loop, For) or len(loop.body) != 1 or loop.extent.fn != "const":
        return None
    (store,) = loop.body
    if not isinstance(store, Store) or store.indices != (loop.index,):
        return None
    if dt.is_complex(store.buffer.dtype) or store.value.fn != "const":
        return None
    size = loop.extent.data * store.buffer.dtype.itemsize
    return loop if size >= least_bytes() // _FILLED else None


def _stream_fill(kernel: Kernel, loop: For) -> None:
    """Fill one block in the first cache, and copy that all over the buffer."""
    (store,) = loop.body
    assert isinstance(store, Store)
    target, size = store.buffer, store.buffer.dtype.itemsize
    count = _BLOCK // size
    row = Buffer("r0", target.dtype, (count,), "local")
    kernel.locals[row] = sc.const(count, dt.int64)
    store.buffer = row
    first = loop.index * count
    length = sc.binary("minimum", loop.extent - first, sc.const(count, dt.int64)) * size
    copy = ir.LibraryCall(
        STREAM, (ir.Pointer(target, first), ir.Pointer(row, ir.ZERO), length), (target,)
    )
    blocks = sc.const(-(-loop.extent.data // count), dt.int64)
    kernel.body = [
        For(loop.index, sc.const(count, dt.int64), loop.body),
        For(loop.index, blocks, [copy]),
    ]


# -- loops ---------------------------------------------------------------------------------------
@dataclass
class _Streams:
    """``results`` of a kernel, to be written past the caches."""

    kernel: Kernel
    results: set[Buffer]

    def block(self, body: list[Statement]) -> None:
        """Change the innermost loops of a block that store along a row of a result."""
        for at in range(len(body) - 1, -1, -1):
            s = body[at]
            if not isinstance(s, For):
                continue
            if not all(isinstance(inner, (Store, ir.Assign, ir.Declare)) for inner in s.body):
                self.block(s.body)
                continue
            stores = [x for x in s.body if isinstance(x, Store) and self._is_along(x, s)]
            if stores:
                body[at : at + 1] = self._streamed(s, stores)

    def _is_along(self, store: Store, loop: For) -> bool:
        """Whether a loop writes a row of a result, or a long part of one: tiles leave off lines."""
        if store.buffer not in self.results:
            return False
        form = linear_form(store.indices[0])
        if form is None or form[0].get(loop.index) != UNIT:
            return False
        length, row = loop.extent - loop.start, store.buffer.dims[-1:]
        is_short = length.fn == "const" and length.data * store.buffer.dtype.itemsize < _BLOCK
        return not is_short or row == (length.data,)

    def _streamed(self, loop: For, stores: list[Store]) -> list[Statement]:
        """The loop in blocks, each with what takes its results to memory behind it."""
        size = max(s.buffer.dtype.itemsize for s in stores)
        length = loop.extent - loop.start
        if length.fn == "const" and length.data * size <= _LONGEST_ROW:
            return self._written(loop, stores, length.data, loop.start, loop.extent)
        count = _BLOCK // size
        used = [s.index.data for s in ir.walk(self.kernel.body) if isinstance(s, For)]
        block = sc.var(f"i{1 + max(int(name[1:]) for name in used)}")
        first = loop.start + block * count
        end = sc.binary("minimum", first + count, loop.extent)
        blocks = sc.binary("quotient", length + (count - 1), sc.const(count, dt.int64))
        return [For(block, blocks, self._written(loop, stores, count, first, end), loop.kind)]

    def _written(
        self, loop: For, stores: list[Store], count: int, first: Expr, end: Expr
    ) -> list[Statement]:
        """The loop from ``first`` to ``end``, at most ``count`` iterations, and the copies."""
        copies: list[Statement] = []
        for s in stores:
            row = Buffer(f"r{len(self.kernel.locals)}", s.buffer.dtype, (count,), "local")
            self.kernel.locals[row] = sc.const(count, dt.int64)
            start = substituted(s.indices[0], {loop.index: first})
            ends = ir.Pointer(s.buffer, start), ir.Pointer(row, ir.ZERO)
            length = (end - first) * s.buffer.dtype.itemsize
            copies.append(ir.LibraryCall(STREAM, (*ends, length), (s.buffer,)))
            s.buffer, s.indices = row, (loop.index - first,)
        return [For(loop.index, end, loop.body, loop.kind, first), *copies]


# -- LLVM text -----------------------------------------------------------------------------------
_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines ``stream``, and what it declares; None for other routines.

    Whole lines of 64 bytes go past the caches, what is left at both ends does not.
    """
    if library != STREAM:
        return None
    text = f"""define internal void @{STREAM}(ptr %to, ptr %from, i64 %bytes) #0 {{
entry:
  %address = ptrtoint ptr %to to i64
  %below = sub i64 0, %address
  %odd = and i64 %below, 63
  %is_short = icmp sgt i64 %odd, %bytes
  %head = select i1 %is_short, i64 %bytes, i64 %odd
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %head, i1 false)
  %left = sub i64 %bytes, %head
  %whole = and i64 %left, -64
  %end = add i64 %head, %whole
  %is_any = icmp sgt i64 %whole, 0
  br i1 %is_any, label %line, label %rest
line:
  %at = phi i64 [%head, %entry], [%next, %line]
  %source = getelementptr inbounds i8, ptr %from, i64 %at
  %target = getelementptr inbounds i8, ptr %to, i64 %at
  %value = load <16 x i32>, ptr %source, align 1
  store <16 x i32> %value, ptr %target, align 64, !nontemporal !8
  %next = add nuw nsw i64 %at, 64
  %more = icmp slt i64 %next, %end
  br i1 %more, label %line, label %rest
rest:
  %tail = sub i64 %left, %whole
  %last.source = getelementptr inbounds i8, ptr %from, i64 %end
  %last = getelementptr inbounds i8, ptr %to, i64 %end
  call void @llvm.memcpy.p0.p0.i64(ptr %last, ptr %last.source, i64 %tail, i1 false)
  ret void
}}"""
    return text, _MEMCPY


def fence() -> str | None:
    """What makes other threads see streamed stores before later ones; None: they do anyway."""
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return "void @llvm.x86.sse.sfence()" if is_x86 else None
