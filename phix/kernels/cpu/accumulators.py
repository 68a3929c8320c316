"""How many sums LLVM keeps side by side where a loop adds to one: a lane of its vectors each."""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.cpu import jit
from phix.kernels.cpu.level import level
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import linear_form
from phix.kernels.loops.nodes import For
from phix.kernels.scalar.language import Expr

# Vectors that take turns, so that none waits for its last sum: four, or with SSE two or one.
_VECTORS, _VECTORS_OF_SSE = 4, 1


def accumulators(loop: For) -> int:
    """How many numbers an innermost loop that LLVM makes vectors of adds up side by side.

    One, where it makes none: of calls, of elements a stride apart that only the run knows, and
    before AVX2 of reads from anywhere, which it cannot gather, and of int64. All vectors have as
    many lanes as those of the widest numbers in the loop.
    """
    loads, values = ir.loads(loop.body), _values(loop)
    is_scattered = any(linear_form(e) is None for load in loads for e in load.args)
    dtypes, functions = {e.dtype for e in values}, {e.fn for e in values}
    is_of_int64 = not dtypes.isdisjoint((dt.int64, dt.uint64))
    has_avx2 = "avx2" in level().has
    steps = any(e.data.strided and any(_moves(i, loop) for i in e.args) for e in loads)
    if steps or "call" in functions or (not has_avx2 and (is_scattered or is_of_int64)):
        return 1
    vectors, (register, _) = _VECTORS if has_avx2 else _VECTORS_OF_SSE, jit.vector_registers()
    return vectors * register // max(d.itemsize for d in dtypes | {load.dtype for load in loads})


def _moves(index: Expr, loop: For) -> bool:
    """Whether an index is another in each turn of the loop."""
    return loop.index in ir.expressions([ir.Declare(index, index)])


def _values(loop: For) -> set[Expr]:
    """The expressions of a loop, but for what only says where something is."""
    found: set[Expr] = set()
    left = [e for s in ir.walk(loop.body) for e in ir.roots(s) if not isinstance(s, For)]
    while left:
        e = left.pop()
        if e not in found:
            found.add(e)
            left += e.args if e.fn != "load" else ()
    return found
