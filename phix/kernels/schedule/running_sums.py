"""Running totals of float32 terms are found in blocks: terms, totals, and what is made of them.

Each turn of

    for i in range(n): a = a + cast<float64>(x[i]); y[i] = cast<float32>(a)

waits for the addition of the one before, and a loop of such is no vectors. In blocks of 256

    for j in range(256): t[j] = cast<float64>(x[...])
    for j in range(256): a = a + t[j]; t[j] = a         # in any order
    for j in range(256): y[...] = cast<float32>(t[j])

the first and the last are, and the one between is the same few lines for all terms: engines know
it, and add up within a vector what then waits for one addition (``cpu.running_totals``). In float64
that makes no difference to what float32 terms and totals show. Other totals keep their order.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, LoopProgram, Store
from phix.kernels.loops.rewriting import replaced
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# The terms of a block: with them, the totals stay in the first cache.
_BLOCK = 256
# Behind the total before a block, and a vector further, so that vectors lie in one cache line.
_FIRST = 8
# Shorter loops are written out, or over before it counts.
_LEAST_TURNS = 64


def running_sums(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            _in_block(step, step.body)


def _in_block(kernel: Kernel, block: list[ir.Statement]) -> None:
    for s in list(block):
        if isinstance(s, (For, ir.If, ir.While)):
            _in_block(kernel, s.body)
        if isinstance(s, For) and (found := running(s)) is not None:
            at = block.index(s)
            block[at : at + 1] = _Blocks(kernel, s, found).loops()


def running(loop: For) -> Assign | None:
    """The addition to a running total, if that and stores are all that the loop does."""
    extent, additions = loop.extent, [s for s in loop.body if isinstance(s, Assign)]
    is_short = extent.fn == "const" and extent.data < _LEAST_TURNS
    if loop.start is not ir.ZERO or loop.kind != "reduction" or len(additions) != 1 or is_short:
        return None
    (addition,) = additions
    if addition.reassociate or len(addition.targets) != 1 or len(loop.body) < 2:
        return None
    (total,), (value,) = addition.targets, addition.values
    terms = [a for a in value.args if a is not total]
    is_sum = value.fn == "add" and total.dtype == dt.float64 and len(terms) == 1
    is_wide = is_sum and terms[0].fn == "cast" and terms[0].args[0].dtype == dt.float32
    others = [s for s in loop.body if s is not addition]
    if not is_wide or _uses(terms[0], total) or not all(isinstance(s, Store) for s in others):
        return None
    both = (ir.with_bases(found) for found in (ir.reads(loop.body), ir.writes(loop.body)))
    return None if set.intersection(*both) else addition


def _uses(root: Expr, e: Expr) -> bool:
    return e in ir.expressions([Declare(root, root)])


@dataclass
class _Blocks:
    """One loop."""

    kernel: Kernel
    loop: For
    addition: Assign

    def loops(self) -> list[ir.Statement]:
        """The loop over blocks, or the one block."""
        extent = self.loop.extent
        if extent.fn == "const" and extent.data <= _BLOCK:
            return self._block(ir.ZERO, extent, self._index(0))
        block, most = self._index(0), sc.const(_BLOCK, dt.int64)
        first = block * _BLOCK
        is_even = extent.fn == "const" and extent.data % _BLOCK == 0
        count = most if is_even else sc.binary("minimum", extent - first, most)
        blocks = sc.binary("quotient", extent + (_BLOCK - 1), most)
        if extent.fn == "const":
            blocks = sc.const(-(-extent.data // _BLOCK), dt.int64)
        body = self._block(first, count, self._index(1))
        return [For(block, blocks, body, self.loop.kind)]

    def _block(self, first: Expr, count: Expr, j: Expr) -> list[ir.Statement]:
        """The terms from the first one on, their totals, and what is stored of them."""
        (total,), (value,) = self.addition.targets, self.addition.values
        (term,) = [a for a in value.args if a is not total]
        totals, at = self._local(total), {self.loop.index: first + j}
        here = (_FIRST + j,)
        own, before = (Expr("load", (_FIRST - k + j,), total.dtype, totals) for k in range(2))
        terms = replaced([Store(totals, here, term)], at)
        grown = Assign((total,), (total + own,), True)
        results, is_behind = list[ir.Statement](), False
        for s in self.loop.body:
            is_behind = is_behind or s is self.addition
            if isinstance(s, Store):
                results += replaced([s], {**at, total: own if is_behind else before})
        return [
            For(j, count, terms),
            Store(totals, (sc.const(_FIRST - 1, dt.int64),), total),
            For(j, count, [grown, Store(totals, here, total)], "reduction"),
            For(j, count, results),
        ]

    def _index(self, number: int) -> Expr:
        used = [s.index.data for s in ir.walk(self.kernel.body) if isinstance(s, For)]
        return sc.var(f"i{1 + number + max(int(name[1:]) for name in used)}")

    def _local(self, total: Expr) -> Buffer:
        number = 1 + max((int(b.name[1:]) for b in self.kernel.locals), default=-1)
        made = Buffer(f"l{number}", total.dtype, (_FIRST + _BLOCK,), "local")
        self.kernel.locals[made] = sc.const(_FIRST + _BLOCK, dt.int64)
        return made
