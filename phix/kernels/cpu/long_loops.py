"""Loops that may run long, and what lets a signal, such as that of Ctrl-C, end them.

A native call keeps the lock of the interpreter: no handler in Python runs before it ends, which a
loop may never do. So loops that may run long call ``PyErr_CheckSignals`` between iterations. It
runs the handlers, in the main thread, and says whether one has raised something; then the program
leaves as it does where memory is missing. Loops of little work ask once in many iterations, and
those that are soon over never.
"""

from __future__ import annotations

from phix.core import stack
from phix.kernels.loops import nodes as ir

# The first word of a fault (``faults.py``): Python has the exception already.
RAISED_IN_PYTHON = -1
DECLARATION = "declare i32 @PyErr_CheckSignals()"
# Work is counted in iterations of loops in kernels, some nanoseconds each.
BETWEEN_LOOKS = 1 << 16
SHORT = 1 << 22  # a loop of so much is over before anybody waits for it
UNKNOWN = 1 << 32


def trips(body: list[ir.Statement], unknown: int) -> int:
    """How many iterations of its loops a block makes; of a loop of unknown length ``unknown``."""
    total = 1
    for s in body:
        if isinstance(s, ir.For):
            extent = s.extent.data if s.extent.fn == "const" else unknown
            total += extent * trips(s.body, unknown)
        elif isinstance(s, (ir.If, ir.While)):
            total += trips(s.body, unknown)
    return total


@stack.nests
def work(steps: list[ir.Step]) -> int:
    """About how much some steps do, at most; UNKNOWN where nothing tells."""
    return min(UNKNOWN, sum(map(_work_of, steps)))


def _work_of(step: ir.Step) -> int:
    if isinstance(step, ir.Kernel):
        calls = any(isinstance(s, ir.LibraryCall) for s in ir.walk(step.body))
        return UNKNOWN if calls else trips(step.body, UNKNOWN)
    if isinstance(step, ir.ForStep) and step.extent.fn == "const":
        return int(step.extent.data) * work(step.body)
    if isinstance(step, ir.SwitchStep):
        return max(map(work, step.branches), default=1)
    return 1 if isinstance(step, ir.BindStep) else UNKNOWN
