"""Memory for temps: blocks given back are handed out again, already in the process's pages.

A fresh block costs a page fault every 4 KiB, often more than the arithmetic on it; large ones are
of huge pages where the system has them, a fifth of that. Up to SLOTS blocks of at most LARGEST
bytes are kept, for all programs and threads together; an exchange of one pointer takes a block out
of its slot or puts it back, so there is no lock. Who finds none that is large enough gets a fresh
one, and those that it can stand for are freed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache, partial

from phix.kernels.cpu import jit

SLOTS = 8
SMALLEST = 64 << 10  # below this the C library is quick enough
LARGEST = 128 << 20
_HEADER = 64  # holds the size of the block; as wide as temps are aligned
_HUGE = 2 << 20  # the size of a huge page, and of the least block that is asked to lie in some
_MADV_HUGEPAGE = 14  # of Linux


def _each_kept(fits: str, taken: str, end: str) -> str:
    """The loop that takes each block out of its slot: to ``taken`` where ``%fits``, else it goes
    back, and behind the last to ``end``. Blocks that are ``taken`` may come back to ``%next``."""
    return f"""
search:
  %i = phi i64 [0, %entry], [%following, %next]
  %slot = getelementptr inbounds i64, ptr @slots, i64 %i
  %kept = atomicrmw xchg ptr %slot, i64 0 acquire
  %is_empty = icmp eq i64 %kept, 0
  br i1 %is_empty, label %next, label %look
look:
  %block = inttoptr i64 %kept to ptr
  %has = load i64, ptr %block
{fits}
  br i1 %fits, label %{taken}, label %back
back:
  %other = atomicrmw xchg ptr %slot, i64 %kept release
  %is_displaced = icmp ne i64 %other, 0
  br i1 %is_displaced, label %drop, label %next
drop:
  %displaced = inttoptr i64 %other to ptr
  call void @free(ptr %displaced)
  br label %next
next:
  %following = add nuw nsw i64 %i, 1
  %is_last = icmp eq i64 %following, {SLOTS}
  br i1 %is_last, label %{end}, label %search"""


_ENOUGH = """  %holds = icmp uge i64 %has, %size
  %is_fair = icmp ule i64 %has, %most
  %fits = and i1 %holds, %is_fair"""
_NEEDLESS = """  %most = shl i64 %has, 2
  %is_less = icmp ult i64 %has, %size
  %is_near = icmp uge i64 %most, %size
  %fits = and i1 %is_less, %is_near"""

_TEXT = f"""
@slots = internal global [{SLOTS} x i64] zeroinitializer
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.smax.i64(i64, i64)

; A block of at least %bytes bytes, and at most four times as many: one kept, else a fresh one. Who
; would fill three quarters of a last huge page gets all of it, which is quicker than small pages.
; Null where there is no room.
define ptr @phix_take(i64 %bytes) nounwind {{
entry:
  %raised = add i64 %bytes, {_HEADER + 4095}
  %pages = and i64 %raised, -4096
  %above = add i64 %pages, REST_OF_HUGE
  %near = and i64 %above, ROUNDED_HUGE
  %size = call i64 @llvm.smax.i64(i64 %pages, i64 %near)
  %most = shl i64 %size, 2
  %is_small = icmp ult i64 %size, {SMALLEST}
  br i1 %is_small, label %fresh, label %search
{_each_kept(_ENOUGH, "found", "clear")}
clear:
  call void @drop_smaller(i64 %size)
  br label %fresh
fresh:
  %may_be_huge = icmp uge i64 %size, LEAST_HUGE
  %alignment = select i1 %may_be_huge, i64 {_HUGE}, i64 {_HEADER}
  %new = call ptr @aligned_alloc(i64 %alignment, i64 %size)
  %is_none = icmp eq ptr %new, null
  br i1 %is_none, label %none, label %made
none:
  ret ptr null
made:
  br i1 %may_be_huge, label %advise, label %note
advise:
  call i32 @madvise(ptr %new, i64 %size, i32 {_MADV_HUGEPAGE})
  br label %note
note:
  store i64 %size, ptr %new
  br label %found
found:
  %taken = phi ptr [%block, %look], [%new, %note]
  %data = getelementptr inbounds i8, ptr %taken, i64 {_HEADER}
  ret ptr %data
}}

; Free the kept blocks for which one of %size bytes will do as well: from a quarter of it on.
define internal void @drop_smaller(i64 %size) nounwind {{
entry:
  br label %search
{_each_kept(_NEEDLESS, "needless", "done")}
needless:
  call void @free(ptr %block)
  br label %next
done:
  ret void
}}

define void @phix_give(ptr %data) nounwind {{
entry:
  %block = getelementptr inbounds i8, ptr %data, i64 -{_HEADER}
  %size = load i64, ptr %block
  %is_small = icmp ult i64 %size, {SMALLEST}
  %is_large = icmp ugt i64 %size, {LARGEST}
  %is_other = or i1 %is_small, %is_large
  %number = ptrtoint ptr %block to i64
  br i1 %is_other, label %release, label %search
search:
  %i = phi i64 [0, %entry], [%following, %next]
  %slot = getelementptr inbounds i64, ptr @slots, i64 %i
  %swapped = cmpxchg ptr %slot, i64 0, i64 %number release monotonic
  %is_kept = extractvalue {{i64, i1}} %swapped, 1
  br i1 %is_kept, label %done, label %next
next:
  %following = add nuw nsw i64 %i, 1
  %is_last = icmp eq i64 %following, {SLOTS}
  br i1 %is_last, label %release, label %search
release:
  call void @free(ptr %block)
  br label %done
done:
  ret void
}}
"""

DECLARATIONS = ("declare ptr @phix_take(i64)", "declare void @phix_give(ptr)")


def _text(system: str) -> str:
    """The module; where there are no huge pages to ask for, no block is large enough."""
    least, rounded = (_HUGE, -_HUGE) if system == "linux" else (-1, 0)
    text = _TEXT.replace("LEAST_HUGE", str(least)).replace("REST_OF_HUGE", str(_HUGE // 4))
    return text.replace("ROUNDED_HUGE", str(rounded))


@cache
def bind() -> tuple[int, int]:
    """Make the two functions known to compiled code; their addresses."""
    names = ("phix_take", "phix_give")
    take, give = jit.addresses(_module(), names, is_final=True)
    jit.add_symbol("phix_take", take)
    jit.add_symbol("phix_give", give)
    return take, give


def provide(name: str) -> None:
    """See ``jit._provide``."""
    bind()


def begin() -> None:
    """Start on the machine code, beside what the caller goes on with."""
    if not jit.is_provided("phix_take"):
        jit.begin(_module())


def _module() -> partial[str]:
    return partial(_text, sys.platform)


def functions() -> tuple[Callable[[int], int], Callable[[int], None]]:
    """The two functions as Python sees them: ``take(bytes) -> address``, ``give(address)``."""
    take, give = bind()
    return (
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(take),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(give),
    )
