"""Programs that run long let the interpreter go, so that other threads of Python run beside them.

A call of native code holds the lock of the interpreter, and all other threads wait. To let it go
and to take it back costs some tens of nanoseconds, and whoever takes it back may wait for another
thread to let it go: programs of little work keep it. Those of which nothing tells how much they do
go by their arguments, and let it go at the latest when they have looked for signals. What is called
runs without the lock, so it must know nothing of Python; before a signal is looked for, or a fault
raised, the lock is taken back. Calls of one program beside each other share nothing that is
written: temps come from the pool or lie on the stack of the call, and threads of the engine work
for one call at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from phix.core import dims as dm
from phix.core import rewrites, stack
from phix.kernels.cpu import long_loops
from phix.kernels.cpu.native_segment import NativeSegment
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, Kernel

# The state of the thread, while the lock is let go, among the names of a function; else null.
KEY = ("lock", "state")
# Work, in iterations, that takes some tens of microseconds. Of unknown sizes so many elements of
# arrays are taken for as much.
LEAST_WORK, LEAST_ELEMENTS = 1 << 17, 1 << 16
# Of products and transforms: where three sizes begin among the numbers that a call is given, and
# how many iterations a multiplication is, or a point.
_CALLS = {"gemm": (3, 1 / 16), "fft": (2, 4)}

DECLARATIONS = (
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)
FUNCTIONS = """
define internal void @let_go(ptr %lock) noinline {
  %state = call ptr @PyEval_SaveThread()
  store ptr %state, ptr %lock
  ret void
}
define internal void @let_go_where(ptr %lock, i64 %elements) {
  %pays = icmp sge i64 %elements, LEAST
  br i1 %pays, label %go, label %stay
go:
  call void @let_go(ptr %lock)
  br label %stay
stay:
  ret void
}
define internal void @take_back(ptr %lock) noinline {
  %state = load ptr, ptr %lock
  %is_held = icmp eq ptr %state, null
  br i1 %is_held, label %held, label %gone
gone:
  call void @PyEval_RestoreThread(ptr %state)
  store ptr null, ptr %lock
  br label %held
held:
  ret void
}""".replace("LEAST", str(LEAST_ELEMENTS))

# Around a call that waits for other processes, where the program has not let the lock go already.
AROUND = """
define internal ptr @step_out(ptr %lock) noinline {
  %is_none = icmp eq ptr %lock, null
  br i1 %is_none, label %go, label %look
look:
  %state = load ptr, ptr %lock
  %is_held = icmp eq ptr %state, null
  br i1 %is_held, label %go, label %stay
go:
  %own = call ptr @PyEval_SaveThread()
  ret ptr %own
stay:
  ret ptr null
}
define internal void @step_in(ptr %own) noinline {
  %is_none = icmp eq ptr %own, null
  br i1 %is_none, label %stay, label %back
back:
  call void @PyEval_RestoreThread(ptr %own)
  br label %stay
stay:
  ret void
}"""

# What stands for FUNCTIONS in programs that keep the lock all the time.
KEPT = """
define internal void @let_go(ptr %lock) { ret void }
define internal void @let_go_where(ptr %lock, i64 %elements) { ret void }
define internal void @take_back(ptr %lock) { ret void }"""


def pays(segment: NativeSegment) -> bool | None:
    """Whether the steps of a segment take long enough; None where that depends on its sizes."""
    if segment.asking is not None or not rewrites.is_on("parallel_callers"):
        return False
    if _work(segment.steps, 1) >= LEAST_WORK:
        return True
    if _work(segment.steps, long_loops.UNKNOWN) < LEAST_WORK:
        return False
    return None


@stack.nests
def _work(steps: list[ir.Step], unknown: int) -> int:
    """About how much steps do, where loops of unknown length have ``unknown`` iterations."""
    total = 0
    for step in steps:
        if isinstance(step, Kernel):
            total += _of_body(step.body, unknown)
        elif isinstance(step, ir.ForStep):
            times = step.extent.data if step.extent.fn == "const" else unknown
            total += times * _work(step.body, unknown)
        elif isinstance(step, ir.WhileStep):
            total += unknown * _work([*step.test, *step.body], unknown)
        elif isinstance(step, ir.SwitchStep):
            total += max((_work(branch, unknown) for branch in step.branches), default=0)
    return total


def _of_body(body: list[ir.Statement], unknown: int) -> int:
    total = 0
    for s in body:
        if isinstance(s, ir.For):
            total += _extent(s.extent, unknown) * max(1, _of_body(s.body, unknown))
        elif isinstance(s, (ir.If, ir.While)):
            total += _of_body(s.body, unknown)
        elif isinstance(s, ir.LibraryCall):
            first, factor = _CALLS.get(s.name.partition("_")[0], (None, 0))
            if first is None:
                total += unknown
                continue
            numbers = [a for a in s.arguments if not isinstance(a, ir.Pointer)]
            sizes = (_extent(a, unknown) for a in numbers[first : first + 3])
            total += int(math.prod(sizes) * factor)
    return total


def _extent(e: ir.Expr, unknown: int) -> int:
    if e.fn == "minimum":  # what is left for the last of some pieces
        return min((a.data for a in e.args if a.fn == "const"), default=unknown)
    return int(e.data) if e.fn == "const" else unknown


def elements(buffers: Iterable[Buffer]) -> dm.DimLike:
    """How many elements some arrays have."""
    total: dm.DimLike = 0
    for buffer in buffers:
        total = total + dm.product(buffer.dims)
    return total
