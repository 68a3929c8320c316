"""Rows that are no whole number of vectors are gone through several at a time, as one run.

Of rows of 20 elements, in vectors of 16, the last four of each take as long as the rest. Where
rows lie one behind the other, and what is the same for all of them (a bias) alone keeps them from
being one run, four of them are five vectors, beside a table that has the same thing four times:

    for i in range(100):
        for j in range(20): y[20 i + j] = f(x[20 i + j] + b[j])

    for i in range(4):
        for j in range(20): t[20 i + j] = b[j]
    for i in range(25):
        for j in range(80): y[80 i + j] = f(x[80 i + j] + t[j])

Rows that are left over behind these are gone through as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from phix.core import dtypes as dt
from phix.kernels.cpu import jit
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form, size_expr
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Statement, Store
from phix.kernels.loops.rewriting import replaced
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.collapse import depends
from phix.kernels.schedule.pipeline import Setting

# Shorter rows LLVM takes side by side; a longer run is no quicker than its rows.
_FEWEST, _LONGEST_RUN = 3, 1024
# So many runs pay for their table; of so many operands one is made.
_LEAST_RUNS, _MOST_TABLES = 4, 6


def joined_rows(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            _block(step, step.body)


def _block(kernel: Kernel, body: list[Statement]) -> None:
    for at in range(len(body) - 1, -1, -1):
        s = body[at]
        if not isinstance(s, (For, ir.If, ir.While)):
            continue
        rows = _Rows.of(s) if isinstance(s, For) and isinstance(s.body[0], For) else None
        if rows is not None and rows.pays():
            body[at : at + 1] = rows.joined(kernel)
        else:
            _block(kernel, s.body)


class _Rows:
    """Two loops, over rows and along them, that store elements of rows one behind the other.

    ``runs``: linear indices that go on from one row to the next, without what the loops add;
    ``alike``: loads that are the same in each row.
    """

    def __init__(self, outer: For, inner: For, runs: dict[Expr, Expr], alike: list[Expr]) -> None:
        self.outer, self.inner, self.runs, self.alike = outer, inner, runs, alike
        self.length: int = inner.extent.data
        sizes = [s.buffer.dtype.itemsize for s in inner.body if isinstance(s, Store)]
        self.lanes = jit.vector_registers()[0] // min(sizes)
        self.together = self.lanes // math.gcd(self.lanes, self.length)

    @staticmethod
    def of(s: For) -> _Rows | None:
        """None for any other loop."""
        if s.kind == "reduction" or len(s.body) != 1:
            return None
        inner = s.body[0]
        if not isinstance(inner, For) or inner.kind == "reduction" or inner.is_vector:
            return None
        if inner.extent.fn != "const" or inner.start is not ir.ZERO:
            return None
        if not all(isinstance(x, Store) and not x.buffer.strided for x in inner.body):
            return None
        return _found(s, inner)

    def pays(self) -> bool:
        """Whether rows end within vectors, and there are enough of them."""
        run = self.length * self.together
        if self.length < _FEWEST or self.together == 1 or run > _LONGEST_RUN:
            return False
        count = self.outer.extent - self.outer.start
        return count.fn != "const" or count.data >= _LEAST_RUNS * self.together

    def joined(self, kernel: Kernel) -> Iterator[Statement]:
        """The loops over runs, and over what is left, or a part of them."""
        count, is_piece = self.outer.extent - self.outer.start, self.outer.extent is ir.PIECE_END
        runs = sc.binary("quotient", count, sc.const(self.together, dt.int64))
        if count.fn == "const":
            runs = sc.const(count.data // self.together, dt.int64)
        if count.fn == "const" or is_piece:  # a piece is a run or longer, but where all is less
            yield from self._in_runs(kernel, runs)
        else:
            yield ir.If(runs > 0, list(self._in_runs(kernel, runs)))
        if not self._come_out_even(kernel, count):
            behind = self.outer.start + runs * self.together
            yield For(self.outer.index, self.outer.extent, [self.inner], self.outer.kind, behind)

    def _come_out_even(self, kernel: Kernel, count: Expr) -> bool:
        """Whether no rows are left: pieces that threads take are made of whole runs."""
        if self.outer.extent is ir.PIECE_END and kernel.shared is not None:
            grain = math.lcm(kernel.shared.grain, self.together)
            kernel.shared = replace(kernel.shared, grain=grain)
            count = kernel.shared.extent
        return count.fn == "const" and count.data % self.together == 0

    def _in_runs(self, kernel: Kernel, runs: Expr) -> Iterator[Statement]:
        outer, inner, size = self.outer, self.inner, self.together * self.length
        changes: dict[Expr, Expr] = {}
        fills: list[Statement] = []
        for load in self.alike:
            table = Buffer(f"b{len(kernel.locals)}", load.dtype, (size,), "local")
            kernel.locals[table] = sc.const(size, dt.int64)
            fills.append(Store(table, (outer.index * self.length + inner.index,), load))
            changes[load] = Expr("load", (inner.index,), load.dtype, table)
        first = (outer.start + outer.index * self.together) * self.length
        changes |= {linear: first + inner.index + rest for linear, rest in self.runs.items()}
        alike = For(inner.index, inner.extent, fills, "parallel")
        yield For(outer.index, sc.const(self.together, dt.int64), [alike], "parallel")
        run = For(inner.index, sc.const(size, dt.int64), replaced(inner.body, changes), inner.kind)
        yield For(outer.index, runs, [run], outer.kind)


def _found(outer: For, inner: For) -> _Rows | None:
    """None where an element depends on its row or place in any other way."""
    both, length = (outer.index, inner.index), ((), inner.extent.data)
    runs: dict[Expr, Expr] = {}
    for linear in _indices(inner.body):
        form = linear_form(linear)
        if form is None or form[0].pop(inner.index, None) != UNIT:
            continue
        if form[0].pop(outer.index, None) == length:
            rest: Expr = ir.ZERO
            for index, size in form[0].items():
                rest = rest + index * size_expr(size)
            for size in sorted(form[1]):
                rest = rest + size_expr(size)
            runs[linear] = rest
    written = {ir.owner(b) for b in ir.writes(inner.body)}
    loads = [x for x in ir.expressions(inner.body) if x.fn == "load"]  # in an order, which prints
    fixed = [x for x in loads if ir.owner(x.data) not in written]
    alike = [x for x in fixed if not x.data.strided and _is_alike(x.args[0], outer, inner)]
    known = {*runs, *alike}
    roots = [root for s in inner.body for root in ir.roots(s)]
    if not alike or len(alike) > _MOST_TABLES or depends(roots, both, known):
        return None
    return _Rows(outer, inner, runs, alike)


def _is_alike(linear: Expr, outer: For, inner: For) -> bool:
    form = linear_form(linear)
    return form is not None and form[0].get(inner.index) == UNIT and outer.index not in form[0]


def _indices(body: list[Statement]) -> Iterator[Expr]:
    yield from (s.indices[0] for s in body if isinstance(s, Store))
    yield from (load.args[0] for load in ir.loads(body) if not load.data.strided)
