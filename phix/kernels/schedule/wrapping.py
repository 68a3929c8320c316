"""Loops whose reads begin again at the other end are cut where they do.

What is rolled along a row is read at ``i + c`` up to the end of the row, and then from its start:

    for i in range(n): y[i] = x[i + c - n if i + c >= n else i + c]

No CPU loads vectors from there: each element is looked for on its own. Cut at n - c, both loops
walk along memory:

    for i in range(n - c): y[i] = x[i + c]
    for i in range(c): y[i + n - c] = x[i]

Each iteration is made once, in the order of before. Sums stay whole, as threads share one loop.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import For, Kernel, LoopProgram, Statement, Step
from phix.kernels.loops.rewriting import replaced
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Shorter loops are soon over, more cuts and longer bodies are much code.
_FEWEST, _MOST_CUTS, _MOST_STATEMENTS = 16, 4, 8


def peel_wraps(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    _in_steps(program.steps)


def _in_steps(steps: list[Step]) -> None:
    changed: list[Step] = []
    for step in steps:
        for block in ir.blocks(step):
            _in_steps(block)
        changed += _cut_kernel(step) if isinstance(step, Kernel) else [step]
    steps[:] = changed


def _cut_kernel(kernel: Kernel) -> list[Step]:
    """A kernel that is one loop becomes as many as there are parts: threads share one loop each."""
    parts = _parts(kernel.body[0]) if len(kernel.body) == 1 else []
    if len(parts) > 1 and not kernel.locals:
        return [Kernel([part]) for part in parts]
    _cut(kernel.body)
    return [kernel]


def _cut(block: list[Statement]) -> None:
    cut: list[Statement] = []
    for s in block:
        if isinstance(s, (For, ir.If, ir.While)):
            _cut(s.body)
        cut += _parts(s) or [s]
    block[:] = cut


def _parts(s: Statement) -> list[For]:
    """The loops that one is cut into; none where it stays whole."""
    if not isinstance(s, For) or s.start is not ir.ZERO or s.extent.fn != "const":
        return []
    extent = s.extent.data
    is_inner = not any(isinstance(inner, (For, ir.While)) for inner in ir.walk(s.body))
    if extent < _FEWEST or not is_inner or len(s.body) > _MOST_STATEMENTS:
        return []
    if s.kind == "reduction":  # threads share a sum that is one loop
        return []
    wrapping = [e for e in ir.expressions(s.body) if e.fn == "select"]
    wraps = {e: at for e in wrapping if (at := _place(e, s)) is not None}
    bounds = [0, *sorted({at for at in wraps.values() if 0 < at < extent}), extent]
    if not 1 < len(bounds) - 1 <= _MOST_CUTS:
        return []
    made = []
    for first, end in pairwise(bounds):
        chosen = {e: e.args[1] if first >= at else e.args[2] for e, at in wraps.items()}
        body = replaced(s.body, chosen)
        if first:
            body = replaced(body, {s.index: s.index + first})
        made.append(replace(s, extent=sc.const(end - first, dt.int64), body=body))
    return made


def _place(e: Expr, loop: For) -> int | None:
    """Where in a loop an index of the form above begins again; None for another expression."""
    if e.fn != "select" or e.dtype != dt.int64 or e.args[0].fn != "ge":
        return None
    moved, size = e.args[0].args
    if size.fn != "const" or moved.fn != "add" or loop.index not in moved.args:
        return None
    (step,) = [a for a in moved.args if a is not loop.index] or [moved]
    return int(size.data - step.data) if step.fn == "const" else None
