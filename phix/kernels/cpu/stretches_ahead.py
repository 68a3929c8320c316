"""Long loops ask for what they are about to read, some lines of memory at a time.

A core works on some hundred instructions at once. Where an element takes little, those reach far
ahead, and so what they read is asked for early. Where it takes much, each vector waits for memory,
above all on pages of 4 KiB, whose places have to be looked up: of 4e6 elements ``tanh(x) + exp(x)``
takes up to three times what it takes in a cache.

    for i in range(n): y[i] = f(x[i])

becomes

    for b in range(n // 256):
        fetch(&x[minimum(256 * b + 512, n - 256)], 1024)
        for i in range(256): y[256 * b + i] = f(x[256 * b + i])
    for i in range(256 * (n // 256), n): y[i] = f(x[i])

What is in a cache anyway is not asked for, and what goes along rows only where the next one lies
behind. Where a size is known while running only, so is that, and the loop stands there twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import replace
from itertools import count

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import settings
from phix.core.dims import DimLike
from phix.kernels.cpu.advice import LEAST_APART, float_operations
from phix.kernels.cpu.rows_ahead import FETCH, at_a_time, touched_bytes
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.nodes import (
    Assign,
    Buffer,
    For,
    Kernel,
    LibraryCall,
    LoopProgram,
    Pointer,
    Statement,
    Store,
)  # fmt: skip
from phix.kernels.loops.rewriting import replaced, substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Stretches that lie between what is asked for and what is worked on.
_AHEAD = 2
# Shorter rows have not two stretches, whatever they read.
_LEAST_ROW = 64


def stretches_ahead(program: LoopProgram, setting: Setting) -> None:
    """The pass: see above."""
    least, size_of = settings.current().least_asked_bytes, setting.builder.dim
    for step in ir.walk_steps(program.steps):
        if not isinstance(step, Kernel) or not any(map(_is_long_work, ir.walk(step.body))):
            continue
        touched = touched_bytes(step, size_of)
        if touched.fn != "const" or touched.data >= least:
            condition = None if touched.fn == "const" else touched >= least
            _Loops(step, size_of, condition).ask(step.body, frozenset())


def _is_long_work(s: Statement) -> bool:
    """Whether a loop without loops in it computes much in each turn, through a piece of something
    or so many times as is known."""
    if not isinstance(s, For) or s.is_vector:
        return False
    is_row = s.extent.fn == "const" and s.extent.data >= _LEAST_ROW and s.start is ir.ZERO
    if not (is_row or s.extent is ir.PIECE_END):
        return False
    is_plain = all(isinstance(x, (Store, Assign)) for x in s.body)  # a copy may stand beside it
    return is_plain and float_operations(s) >= LEAST_APART


class _Loops:
    """The loops of a kernel; where a condition is given, they ask where it holds."""

    def __init__(
        self, kernel: Kernel, size_of: Callable[[DimLike], Expr], condition: Expr | None
    ) -> None:
        self.kernel, self.size_of, self.condition = kernel, size_of, condition
        self.written = ir.writes(kernel.body) | set(kernel.locals)
        used = [s.index.data for s in ir.walk(kernel.body) if isinstance(s, For)]
        self.names = count(1 + max(int(name[1:]) for name in used))

    def ask(self, block: list[Statement], around: frozenset[Expr]) -> None:
        """Have the loops of a block ask; ``around`` are the indices of those around it."""
        made: list[Statement] = []
        for s in block:
            if isinstance(s, For) and _is_long_work(s):
                made += self._asking(s, around)
                continue
            if isinstance(s, For):
                self.ask(s.body, around | {s.index})
            made.append(s)
        block[:] = made

    def _asking(self, loop: For, around: frozenset[Expr]) -> list[Statement]:
        """A loop cut into stretches, each behind what it asks for, where the condition holds."""
        is_piece = loop.extent is ir.PIECE_END
        loads = [x for x in self._streams(loop) if is_piece or _goes_on(x, loop, around)]
        many = at_a_time([x.data for x in loads]) if loads else 0
        is_row = self.condition is None and not is_piece and loop.extent.data >= 2 * many
        if not loads or not (is_piece or is_row):
            return [loop]
        if self.condition is None:
            return self._whole(loop, loads, many)
        plain = replace(loop, body=replaced(loop.body, {}))
        return [
            ir.If(self.condition, [self._any(loop, loads, many)]),
            ir.If(~self.condition, [plain]),
        ]

    def _streams(self, loop: For) -> list[Expr]:
        """A load of each buffer that a loop goes through from one element to the next."""
        found: dict[Buffer, Expr] = {}
        for load in ir.loads(loop.body):
            form = linear_form(load.args[0]) if len(load.args) == 1 else None
            is_run = form is not None and form[0].get(loop.index) == UNIT
            if is_run and load.data not in self.written:
                found.setdefault(load.data, load)
        return sorted(found.values(), key=lambda load: load.data.name)

    def _whole(self, loop: For, loads: list[Expr], many: int) -> list[Statement]:
        """In stretches of one length, which LLVM sees, and what is left of them: of all that
        threads share, no more than of one piece."""
        shared, length = self.kernel.shared, loop.extent - loop.start
        if loop.extent is ir.PIECE_END and shared is not None:
            self.kernel.shared = replace(shared, grain=math.lcm(shared.grain, many))
            all_of_it = shared.extent
        else:
            all_of_it = loop.extent
        every = sc.binary("quotient", length, _number(many))
        if length.fn == "const":
            every = _number(length.data // many)
        made: list[Statement] = [self._cut(loop, loads, many, every, _number(many))]
        if all_of_it.fn != "const" or all_of_it.data % many:
            start, rest = loop.start + every * many, replaced(loop.body, {})
            made.append(replace(loop, start=start, body=rest))
        return made

    def _any(self, loop: For, loads: list[Expr], many: int) -> For:
        """In stretches of which the last may be shorter: less code, and a seventh slower."""
        length = loop.extent - loop.start
        every = sc.binary("quotient", length + (many - 1), _number(many))
        return self._cut(loop, loads, many, every, length)

    def _cut(self, loop: For, loads: list[Expr], many: int, every: Expr, length: Expr) -> For:
        """A loop over so many stretches. ``length`` is theirs, or that of all they are of."""
        stretch = sc.var(f"i{next(self.names)}")
        first = loop.start + stretch * many
        body: list[Statement] = [
            self._asked(load, {loop.index: first + _AHEAD * many}, many) for load in loads
        ]
        if length.fn != "const":
            length = sc.binary("minimum", length - stretch * many, _number(many))
        moved = replaced(loop.body, {loop.index: first + loop.index})
        body.append(replace(loop, start=ir.ZERO, extent=length, body=moved))
        return replace(loop, index=stretch, start=ir.ZERO, extent=every, body=body)

    def _asked(self, load: Expr, there: dict[Expr, Expr], many: int) -> LibraryCall:
        """What asks for a stretch, of memory that there is."""
        last = self.size_of(dm.product(load.data.dims)) - many
        last = sc.binary("maximum", last, ir.ZERO) if last.fn != "const" else last
        place = sc.binary("minimum", substituted(load.args[0], there), last)
        size = _number(many * load.data.dtype.itemsize)
        return LibraryCall(FETCH, (Pointer(load.data, place), size), ())


def _goes_on(load: Expr, loop: For, around: Container[Expr]) -> bool:
    """Whether what a loop along a row reads goes on in the next row, where this one ends; and is
    longer than a row."""
    form = linear_form(load.args[0])
    length = ((), loop.extent.data)
    return form is not None and any(i in around and c == length for i, c in form[0].items())


def _number(n: int) -> Expr:
    return sc.const(n, dt.int64)
