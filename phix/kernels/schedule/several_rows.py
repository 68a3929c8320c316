"""Sums over an outer axis take several rows at a time.

A sum down the columns keeps its totals in memory and reads row after row:

    for i in rows: for j in columns: total[j] = total[j] + x[i, j]

so each element costs a load and a store of a total besides its own load. Eight rows at a time,
totals are loaded and stored once for eight elements, and memory is read as fast as it comes. The
elements are added in the same order.

A total on its way is an expression of what the rows read. Before the same rows write over that -
a carry that is updated in place while its columns are summed - it is put into a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import divides, factors, linear_form, times
from phix.kernels.loops.nodes import Buffer, For, Kernel, LoopProgram, Statement, Store
from phix.kernels.loops.rewriting import substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# So many rows at most, of so many operations together: beside more of them, a load and a store of
# a total cost nothing, and LLVM takes its time for each.
MOST_ROWS = 8
_MOST_OPERATIONS = 128


def several_rows(program: LoopProgram, _: Setting) -> None:
    """Let the kernels that keep totals in memory take several rows at a time."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            every = ir.walk(step.body)
            used = [s.index.data for s in every if isinstance(s, For)]
            fresh = sc.var(f"i{1 + max((int(name[1:]) for name in used), default=0)}")
            declared = [s.target.data for s in every if isinstance(s, ir.Declare)]
            scalars = count(1 + max((int(name[1:]) for name in declared), default=-1))
            _in_block(step.body, step, fresh, scalars)


def _in_block(block: list[Statement], kernel: Kernel, fresh: Expr, scalars: Iterator[int]) -> None:
    for at in range(len(block) - 1, -1, -1):
        s = block[at]
        if isinstance(s, (For, ir.If, ir.While)):
            _in_block(s.body, kernel, fresh, scalars)
        if isinstance(s, For):
            rows = _Rows.of(s, kernel)
            if rows is not None:
                block[at : at + 1] = rows.loops(fresh, scalars)


@dataclass(frozen=True)
class _Rows:
    """A loop over rows, the loop over columns in it, and the buffers with a total a column."""

    outer: For
    inner: For
    totals: dict[Buffer, Expr]
    count: int

    @staticmethod
    def of(loop: For, kernel: Kernel) -> _Rows | None:
        """``loop`` as one over rows that can be taken together; None if it is anything else."""
        inner = loop.body[0]
        if len(loop.body) != 1 or not isinstance(inner, For):
            return None
        if not inner.body or not all(isinstance(s, Store) for s in inner.body):
            return None
        if loop.index in ir.expressions([ir.Declare(e, e) for e in (inner.start, inner.extent)]):
            return None
        totals = _totals(loop, inner, kernel)
        if not totals:
            return None
        operations = sum(1 for e in ir.expressions(inner.body, usual=True) if e.args)
        rows = min(MOST_ROWS, _MOST_OPERATIONS // max(operations, 1))
        if loop.extent.fn == loop.start.fn == "const":
            rows = _even(loop.extent.data - loop.start.data, rows)
        return _Rows(loop, inner, totals, rows) if rows > 1 else None

    def loops(self, fresh: Expr, scalars: Iterator[int]) -> list[Statement]:
        """The loop in steps of ``count`` rows, and the one over the rows that are left."""
        outer, inner, count = self.outer, self.inner, self.count
        length = outer.extent - outer.start
        if length.fn == "const":
            steps = sc.const(length.data // count, dt.int64)
        else:
            steps = sc.binary("quotient", length, sc.const(count, dt.int64))
        first = outer.start + fresh * count
        columns = For(
            inner.index, inner.extent, self._block(first, scalars), inner.kind, inner.start
        )
        together = For(fresh, steps, [columns], outer.kind)
        rest = For(outer.index, outer.extent, outer.body, outer.kind, outer.start + steps * count)
        is_all = length.fn == "const" and length.data % count == 0
        return [together] if is_all else [together, rest]

    def _block(self, first: Expr, scalars: Iterator[int]) -> list[Statement]:
        """What is done to one column of the rows from ``first`` on, one row after the other."""
        outer = self.outer.index
        now = {b: _load(b, at) for b, at in self.totals.items()}
        block: list[Statement] = []
        for k in range(self.count):
            for s in self.inner.body:
                assert isinstance(s, Store)
                known = {_load(b, self.totals[b]): total for b, total in now.items()}
                known[outer] = first + k
                value = substituted(s.value, known)
                if s.buffer in now:
                    now[s.buffer] = value
                    continue
                at = tuple(substituted(i, known) for i in s.indices)
                for b, total in now.items():
                    if b is not s.buffer and any(e.data is s.buffer for e in total.loads):
                        now[b] = sc.var(f"a{next(scalars)}", total.dtype)
                        block.append(ir.Declare(now[b], total))
                block.append(Store(s.buffer, at, value))
        return [*block, *(Store(b, (self.totals[b],), value) for b, value in now.items())]


def _even(length: int, most: int) -> int:
    """Of how many rows, ``most`` or some fewer, groups are made, with none left over if possible:
    those are a loop of their own."""
    most = min(length, most)
    return next((k for k in range(most, most // 2, -1) if length % k == 0), most)


def _load(buffer: Buffer, index: Expr) -> Expr:
    return Expr("load", (index,), ir.scalar_dtype(buffer.dtype), buffer)


def _totals(loop: For, inner: For, kernel: Kernel) -> dict[Buffer, Expr]:
    """Where each buffer of totals is touched; empty if columns do not stay apart.

    A buffer that is written must be touched at one index alone. If that moves with the columns,
    it holds a total each, and may read no other total; if with the rows as well, rows must not
    reach into each other.
    """
    stores = [s for s in inner.body if isinstance(s, Store)]
    written = list(dict.fromkeys(s.buffer for s in stores))
    owners = {ir.owner(b) for b in written}
    touched = ir.writes(inner.body) | ir.reads(inner.body)
    if sum(ir.owner(b) in owners for b in touched) != len(owners):
        return {}
    is_piece = inner.extent is ir.PIECE_END and kernel.shared is not None
    width = factors(kernel.shared.extent if is_piece else inner.extent)  # type: ignore[union-attr]
    totals: dict[Buffer, Expr] = {}
    for buffer in written:
        places = {e.args for e in ir.loads(inner.body) if e.data is buffer}
        places |= {s.indices for s in stores if s.buffer is buffer}
        (index, *others), *more = places
        form = None if others or more else linear_form(index)
        if form is None or inner.index not in form[0] or buffer.dtype in (dt.float16, dt.bfloat16):
            return {}
        column, row = form[0][inner.index], form[0].get(loop.index)
        if row is None:
            totals[buffer] = index
        elif width is None or not divides(times(column, width), row):
            return {}
    for s in stores:
        if s.buffer in totals and any(e.data in totals.keys() - {s.buffer} for e in s.value.loads):
            return {}
    return totals
