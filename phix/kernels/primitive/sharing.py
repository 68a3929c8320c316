"""Which loop of a kernel threads can share, and whether the work pays for it.

Of the loops around a kernel's innermost block, the first is taken whose iterations are
*independent*: no two of them touch the same element of a buffer that the kernel writes. That is
proved from the indices. Seen as digits of a mixed-radix number, the loop's index must be one and
the same digit of every index at which such a buffer is touched.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import scalar as sc
from phix.kernels.primitive.affine import Factors, accesses, divides, factors, linear_form, times
from phix.kernels.primitive.inplace import nest
from phix.kernels.primitive.loop_ir import For, Kernel, Statement, Step
from phix.kernels.primitive.scalar import Expr

# Scalar operations below which waking a thread costs more than it saves, some 25 us.
LEAST_WORK = 300_000
# A loop of unknown length is taken for one of this many iterations, where sizes must be guessed.
_GUESS = 16
# Pieces of an innermost loop are whole cache lines and vectors; inside another loop, which every
# piece runs through, longer ones.
_GRAIN, _GRAIN_INSIDE = 64, 512
_FEWEST_ITERATIONS = 4


def share(steps: list[Step]) -> None:
    """Mark the kernels that threads share, and cut the loops they share."""
    for step in ir.walk_steps(steps):
        if isinstance(step, Kernel):
            _share(step)


def _share(kernel: Kernel) -> None:
    work = _work(kernel.body)
    if work.fn == "const" and work.data < LEAST_WORK:
        return
    loops, block = nest(kernel)
    calls = any(isinstance(s, ir.LibraryCall) for s in ir.walk(block))
    loop = None if calls else next((x for x in loops if _is_shareable(x, loops, block)), None)
    if loop is None:
        return
    is_last = loop is loops[-1] and not _has_loop(block)
    grain = 1 if not is_last else _GRAIN if loop is loops[0] else _GRAIN_INSIDE
    kernel.shared = ir.Shared(loop.extent, work, grain)
    loop.start, loop.extent = ir.PIECE_START, ir.PIECE_END


def _has_loop(block: list[Statement]) -> bool:
    return any(isinstance(s, For) for s in ir.walk(block))


def _is_shareable(loop: For, loops: list[For], block: list[Statement]) -> bool:
    if loop.extent.fn == "const" and loop.extent.data < _FEWEST_ITERATIONS:
        return False
    if any(loop.index in ir.expressions([ir.Declare(x.extent, x.extent)]) for x in loops):
        return False
    extents = {x.index: x.extent for x in loops}
    written = {ir.owner(b) for b in ir.writes(block)}
    touched = ir.writes(block) | ir.reads(block)
    names = [b for b in touched if ir.owner(b) in written]
    if len(names) != len(written):
        return False  # a buffer and a slice of it
    return all(_is_one_digit(b, loop.index, block, extents) for b in names)


def _is_one_digit(
    buffer: ir.Buffer, index: Expr, block: list[Statement], extents: dict[Expr, Expr]
) -> bool:
    """Whether ``index`` is one and the same digit wherever the block touches the buffer."""
    own = factors(extents[index])
    strides = set()
    for linear, sizes in accesses(buffer, block, extents):
        form = linear_form(linear)
        stride = None if own is None or form is None else _stride(form[0], index, own, sizes)
        if form is None or stride is None:
            return False
        strides.add((stride, form[1]))
    return len(strides) == 1


def _stride(
    terms: dict[Expr, Factors], index: Expr, own: Factors, sizes: dict[Expr, Expr]
) -> Factors | None:
    """What ``index`` is multiplied with, if it is a digit of the sum of ``terms``."""
    if index not in terms:
        return None
    stride = terms.pop(index)
    above = times(stride, own)
    lower = {v: f for v, f in terms.items() if not divides(above, f)}
    covered: Factors = ((), 1)
    while lower:
        following = next((v for v, f in lower.items() if divides(covered, f)
                          and all(divides(f, g) for g in lower.values())), None)  # fmt: skip
        size = None if following is None or following not in sizes else _most(sizes[following])
        if following is None or size is None:
            return None
        covered = times(lower.pop(following), size)
    return stride if divides(covered, stride) else None


def _most(extent: Expr) -> Factors | None:
    """A bound of a loop's length: that of a tile is its full size."""
    if extent.fn == "minimum":
        return next((f for f in map(factors, extent.args) if f is not None), None)
    return factors(extent)


# -- work ------------------------------------------------------------------------------------
def _work(body: list[Statement]) -> Expr:
    """About how many scalar operations a block makes, as an expression of dims."""
    own = sum(1 for e in ir.expressions([s for s in body if not isinstance(s, For)]) if e.args)
    total = sc.const(own, dt.int64)
    for s in body:
        if isinstance(s, For):
            total = total + _length(s.extent) * _work(s.body)
    return total


def _length(extent: Expr) -> Expr:
    if extent.fn == "minimum":
        return next((e for e in map(_length, extent.args) if e.fn == "const"), extent)
    parts = ir.expressions([ir.Declare(extent, extent)])
    is_known = all(e.fn != "load" and not (e.fn == "var" and _is_inner(e)) for e in parts)
    return extent if is_known else sc.const(_GUESS, dt.int64)


def _is_inner(e: Expr) -> bool:
    """Whether a variable is a loop's index or a mutable scalar, not a dim."""
    return e.data[0] in "ia" and e.data[1:].isdigit()
