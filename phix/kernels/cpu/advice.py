"""What LLVM is told of a loop: what to make vectors of, and what to leave as it is."""

from __future__ import annotations

from phix.kernels.cpu import jit, long_loops
from phix.kernels.cpu.level import has_masks
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.nodes import Store
from phix.kernels.scalar.language import Expr

# What keeps LLVM from unrolling a loop, and the nodes that a module needs for it.
ROLLED = "!llvm.loop !0"
# What keeps it from making vectors of several iterations.
APART = "!llvm.loop !2"
# What makes the last vector of a loop one that is not full.
MASKED = "!llvm.loop !4"
# What makes it work on two vectors at a time.
PAIRED = "!llvm.loop !6"
# What makes vectors of so many of its iterations, whatever they are thought to cost.
ACROSS = {16: "!llvm.loop !9", 8: "!llvm.loop !10", 4: "!llvm.loop !11"}
# What makes it one vector of so many elements.
WIDE = {64 >> k: f"!llvm.loop !{20 + k}" for k in range(6)}
# What is said of loads and stores of iterations that are apart, and of a loop of such.
APART_IN_LANES = ", !llvm.access.group !40"
LANES = {64 >> k: f"!llvm.loop !{41 + k}" for k in range(6)}
# What makes it one vector of so many elements, some of which are left out in the end.
PARTLY = {64 >> k: f"!llvm.loop !{50 + k}" for k in range(6)}
METADATA = (
    "!0 = distinct !{!0, !1}", '!1 = !{!"llvm.loop.unroll.disable"}',
    "!2 = distinct !{!2, !3}", '!3 = !{!"llvm.loop.vectorize.width", i32 1}',
    "!4 = distinct !{!4, !1, !5}", '!5 = !{!"llvm.loop.vectorize.predicate.enable", i1 true}',
    "!6 = distinct !{!6, !7}", '!7 = !{!"llvm.loop.interleave.count", i32 2}',
    "!8 = !{i32 1}",  # of stores past the caches
    *(f"!{9 + k} = distinct !{{!{9 + k}, !{12 + k}}}" for k in range(3)),
    *(f"!{20 + k} = distinct !{{!{20 + k}, !1, !{30 + k}}}" for k in range(6)),
    *(f'!{30 + k} = !{{!"llvm.loop.vectorize.width", i32 {64 >> k}}}' for k in range(6)),
    "!40 = distinct !{}", '!47 = !{!"llvm.loop.parallel_accesses", !40}',
    *(f"!{41 + k} = distinct !{{!{41 + k}, !1, !{30 + k}, !47}}" for k in range(6)),
    *(f"!{50 + k} = distinct !{{!{50 + k}, !1, !5, !{30 + k}}}" for k in range(6)),
    *(f'!{12 + k} = !{{!"llvm.loop.vectorize.width", i32 {16 >> k}}}' for k in range(3)),
)  # fmt: skip
# An innermost loop of so many iterations is a vector or more: written out, LLVM would find its
# vectors across the loop around it, in gathers and scatters. Longer ones it leaves alone.
_LEAST_ROLLED, _MOST_ROLLED = 16, 256
_LONG = 64
# What a loop around loops may do in all and still be written out: a small matrix, say.
_MOST_WRITTEN_OUT = 256
# Narrow rows that LLVM does not read side by side of itself: longer ones are vectors enough.
_NARROW = range(9, 33)
# The fewest neighbours that are worth a vector.
_FEWEST = 3
# Loops of so many vectors and more have the rest behind them.
_MOST_MASKED = 6
# So few operations on floats are done, one by one, as soon as a mask is there.
_LEAST_WORK = 8
# So many operations on floats are a chain longer than a CPU looks ahead, and compile soon.
_PAIRED = range(16, 41)
# From so many on it waits for what an element reads; see ``stretches_ahead``.
LEAST_APART = 41
# So many operations of all kinds take so long to compile that what is left behind whole vectors is
# to have no code of its own; a mask costs nothing beside them.
_LEAST_COMPILED_ONCE = 64
# Bytes of elements of which a register full is no more lanes than what is computed of them has.
_NARROWEST = 4


_At = tuple[ir.Buffer, tuple[Expr, ...]]


def _stays_rolled(loop: ir.For) -> bool:
    """Whether unrolling would lose vectors, or cost time to compile that no iteration gives back.

    Accumulators are faster unrolled; loops that store are bound by memory, and vectors enough.
    """
    if loop.extent.fn != "const":
        return any(map(is_of_lanes, loop.body))
    is_inner = not any(isinstance(s, (ir.For, ir.While)) for s in ir.walk(loop.body))
    if is_inner and _LEAST_ROLLED <= loop.extent.data <= _MOST_ROLLED:
        return not _is_narrow(loop)
    if loop.kind == "reduction" and any(map(_is_block, loop.body)):
        return True
    return loop.extent.data > _LONG and loop.kind == "parallel"


def _is_block(s: ir.Statement) -> bool:
    """Whether a loop is a block of a long sum: two of them written out are read side by side, from
    places that are a whole number of pages apart, and no CPU fetches them ahead of time."""
    is_long = isinstance(s, ir.For) and s.extent.fn == "const" and s.extent.data > _MOST_ROLLED
    return is_long and isinstance(s, ir.For) and s.kind == "reduction"


def _is_long_around(loop: ir.For) -> bool:
    """Whether a loop around loops does so much that the end of each iteration costs nothing.

    LLVM sees few instructions in it, and writes out what a call copies or a long row of vectors
    does for each of its iterations, one behind the other: that takes it several times as long.
    """
    if loop.extent.fn != "const" or not any(isinstance(s, ir.For) for s in loop.body):
        return False
    return long_loops.trips([loop], _MOST_WRITTEN_OUT) >= _MOST_WRITTEN_OUT


def _is_block_of_rows(loop: ir.For) -> bool:
    """Whether a loop goes through so many rows, or fewer where fewer are left: what is done to
    one of them is enough, and two of them written out are two more for what is left."""
    return loop.extent.fn == "minimum" and any(isinstance(s, ir.For) for s in loop.body)


def _is_masked(loop: ir.For) -> bool:
    """Whether the last vector should take what is left, where the CPU has masks for that.

    LLVM takes the rest in half a vector and one by one: of 20 elements 4 one by one.
    """
    sizes = [s.buffer.dtype.itemsize for s in loop.body if isinstance(s, Store)]
    sizes += [t.dtype.itemsize for s in loop.body if isinstance(s, ir.Assign) for t in s.targets]
    if not has_masks() or not sizes or not _stays_rolled(loop) or _only_adds(loop):
        return False
    lanes = 64 // max(sizes)
    is_short = lanes < loop.extent.data < _MOST_MASKED * lanes
    return bool(is_short and loop.extent.data % (lanes // 2) > lanes // 8)


def _only_adds(loop: ir.For) -> bool:
    """Whether a loop adds up what takes little to compute: so few elements are added one by one
    sooner than a mask is made. An extreme, and a function of each element, take longer."""
    if loop.kind != "reduction" or not all(
        s.reassociate for s in loop.body if isinstance(s, ir.Assign)
    ):
        return False
    operations = [
        e.dtype.kind for e in ir.expressions(loop.body, usual=True) if e.args and e.fn != "load"
    ]
    return operations.count("f") < _LEAST_WORK


def has_masked_stores(kernel: ir.Kernel) -> bool:
    """Whether vectors are stored in part: what is loaded next from the lanes left out, which a
    row written over itself does, waits until the store is in memory."""
    return any(isinstance(s, ir.For) and _is_masked(s) for s in ir.walk(kernel.body))


def _stays_apart(loop: ir.For) -> bool:
    """Whether the vectors are inside an iteration: sums along the rows of a small matrix.

    Vectors across the matrices of a batch would be gathered and scattered.
    """
    inner = loop.body[-1] if loop.body else None
    if not isinstance(inner, ir.For):
        return False
    while isinstance(inner.body[-1], ir.For):
        inner = inner.body[-1]
    extent, last = inner.extent, inner.body[-1]
    if extent.fn != "const" or extent.data < _FEWEST or inner.kind == "reduction":
        return False
    sums = [s for s in inner.body if isinstance(s, ir.For)]
    if not isinstance(last, Store) or len(sums) != 1 or sums[0].extent.fn != "const":
        return False
    form = linear_form(last.indices[0]) if len(last.indices) == 1 else None
    return form is not None and form[0].get(inner.index) == UNIT


def _is_narrow(row: ir.Statement) -> bool:
    """Whether a loop finds an extreme of a few elements.

    An extreme waits for the one before it, and not to lose NaN and the sign of 0 takes five
    instructions each, and more from one half of a vector to the other; sums need one.
    """
    if not isinstance(row, ir.For) or row.kind != "reduction" or len(row.body) != 1:
        return False
    if row.is_vector:
        return False
    is_short = row.extent.fn == "const" and row.extent.data in _NARROW
    (found,) = row.body
    return bool(is_short and isinstance(found, ir.Assign) and not found.reassociate)


def _across(loop: ir.For) -> str:
    """What is told of a loop over narrow rows: that its vectors are of elements of several rows.

    Not of one that goes on from what the row before left, nor of rows that are all the same or too
    few for a vector: LLVM says on stderr that it cannot.
    """
    rows = [s for s in loop.body if isinstance(s, ir.For)]
    if loop.kind == "reduction" or not rows or not all(map(_is_narrow, rows)):
        return ""
    if loop.index not in ir.expressions(list(rows)):
        return ""
    (found,) = rows[0].body
    assert isinstance(found, ir.Assign)
    lanes = jit.vector_registers()[0] // found.targets[0].dtype.itemsize
    are_few = loop.extent.fn == "const" and loop.extent.data < lanes
    return "" if are_few else ACROSS.get(lanes, "")


def _is_paired(loop: ir.For) -> bool:
    """Whether two vectors at a time keep the CPU busier: while one waits, the other goes on."""
    if loop.extent is not ir.PIECE_END or not all(isinstance(s, Store) for s in loop.body):
        return False
    return float_operations(loop) in _PAIRED


def _of_much_work(loop: ir.For) -> str:
    """What is told of a loop that does so much that its code is to stand there once: that the last
    vector takes what is left. Behind whole vectors, LLVM would have halves of them and single ones.

    Where all that comes and goes is in order, LLVM need not look for the best number of lanes.
    """
    if not has_masks() or not all(isinstance(s, (Store, ir.Declare)) for s in loop.body):
        return ""
    if loop.extent.fn == "const" and loop.extent.data < _LEAST_ROLLED:
        return ""
    every = ir.expressions(loop.body, usual=True)
    if sum(1 for e in every if e.args and e.fn != "load") < _LEAST_COMPILED_ONCE:
        return ""
    lanes = _lanes_in_order(loop)
    return PARTLY[lanes] if lanes else MASKED


def lanes_of_much_work(loop: ir.For) -> int:
    """How many lanes a loop of much work has, if LLVM is told that; else 0."""
    return _lanes_in_order(loop) if _of_much_work(loop) else 0


def _lanes_in_order(loop: ir.For) -> int:
    return 64 // _widest(loop) if _is_in_order(loop) else 0


def _is_in_order(loop: ir.For) -> bool:
    """Whether iterations come to one element of a buffer after the other, and no other one there,
    or all read the same."""
    written, read = _places(loop)
    buffers = {buffer for buffer, _ in written}
    places = set(written) | {place for place in read if place[0] in buffers}
    if loop.kind != "parallel" or len(places) > len(buffers) or _widest(loop) < _NARROWEST:
        return False
    return all(_comes_next(loop, *place) for place in written + read)


def _comes_next(loop: ir.For, buffer: ir.Buffer, indices: tuple[Expr, ...]) -> bool:
    form = linear_form(indices[0]) if len(indices) == 1 and not buffer.strided else None
    return form is not None and form[0].get(loop.index, UNIT) == UNIT


def _widest(loop: ir.For) -> int:
    """The bytes of the widest element that comes or goes."""
    written, read = _places(loop)
    return max(buffer.dtype.itemsize for buffer, _ in written + read)


def _places(loop: ir.For) -> tuple[list[_At], list[_At]]:
    """What is written, and what is read."""
    written = [(s.buffer, s.indices) for s in loop.body if isinstance(s, Store)]
    return written, [(e.data, e.args) for e in ir.loads(loop.body)]


def float_operations(loop: ir.For) -> int:
    """How many operations on floats make what a loop stores and adds up in each turn."""
    values: list[ir.Statement] = []
    for s in loop.body:
        made = s.values if isinstance(s, ir.Assign) else (s.value,) if isinstance(s, Store) else ()
        values += [ir.Declare(value, value) for value in made]
    operations = (e for e in ir.expressions(values, usual=True) if e.args and e.fn != "load")
    return sum(1 for e in operations if e.dtype.kind == "f")


def crosses_lanes(kernel: ir.Kernel) -> bool:
    """Whether vectors of what a kernel computes would be put together element by element.

    It has no loop, or reads elements in another order than theirs: a vector turned by one place.
    """
    if not any(isinstance(s, ir.For) for s in ir.walk(kernel.body)):
        return True
    return any(linear_form(e) is None for load in ir.loads(kernel.body) for e in load.args)


def fills_vectors(kernel: ir.Kernel) -> bool:
    """Whether a kernel computes with neighbours, enough for a vector, side by side.

    Where its loops are vectors already, LLVM is told so, and has to be free to make them.
    """
    if any(isinstance(s, ir.For) and s.is_vector for s in ir.walk(kernel.body)):
        return True
    if crosses_lanes(kernel):
        return False
    long = [
        s for s in ir.walk(kernel.body)
        if isinstance(s, ir.For) and s.extent.fn == "const" and s.extent.data > _FEWEST
    ]  # fmt: skip
    steps = [s for loop in long for s in loop.body]
    return any(isinstance(s, Store) and s.value.fn != "load" for s in steps) or any(
        isinstance(s, ir.Assign) for s in steps
    )


def is_of_lanes(s: ir.Statement) -> bool:
    """Whether it is a loop of one vector, no lane of which touches what another one writes.

    In the locals that it writes, each lane touches its own places alone: divided by the number of
    lanes, they leave its own number.
    """
    if not isinstance(s, ir.For) or not s.is_vector or s.kind != "independent":
        return False
    if s.extent.fn != "const" or not all(isinstance(x, (Store, ir.Declare)) for x in s.body):
        return False
    places = [(x.buffer, x.indices) for x in s.body if isinstance(x, Store)]
    written = {buffer for buffer, _ in places}
    places += [(x.data, x.args) for x in ir.loads(s.body) if x.data in written]
    return all(
        buffer.kind == "local" and len(at) == 1 and _is_own_place(at[0], s) for buffer, at in places
    )


def _is_own_place(at: Expr, loop: ir.For) -> bool:
    """Whether a place is the number of the iteration plus a multiple of how many there are."""
    terms, size = _terms(at), loop.extent.data
    if terms.count(loop.index) != 1:
        return False
    terms.remove(loop.index)
    return all(_is_multiple(e, size) for e in terms)


def _terms(e: Expr) -> list[Expr]:
    """What an expression adds up."""
    return [t for a in e.args for t in _terms(a)] if e.fn == "add" else [e]


def _is_multiple(e: Expr, size: int) -> bool:
    if e.fn == "const":
        return bool(e.data % size == 0)
    if e.fn in ("add", "sub"):
        return all(_is_multiple(a, size) for a in e.args)
    return e.fn == "mul" and any(_is_multiple(a, size) for a in e.args)


def advice(loop: ir.For | ir.While) -> str:
    """What LLVM is told of a loop, behind its last branch.

    Where it finds how often a loop around vectors runs, it would write all of them out.
    """
    if any(map(is_of_lanes, ir.walk(loop.body))):
        return f", {ROLLED}"
    if isinstance(loop, ir.While):
        return ""
    rules = (
        (_is_masked, MASKED),
        (_stays_rolled, ROLLED),
        (_stays_apart, APART),
        (_is_paired, PAIRED),
        (_is_long_around, ROLLED),
        (_is_block_of_rows, ROLLED),
    )
    if loop.is_vector:
        return f", {_of_vectors(loop)}"
    told = (
        _across(loop)
        or _of_much_work(loop)
        or next((told for holds, told in rules if holds(loop)), "")
    )
    return told and f", {told}"


def _of_vectors(loop: ir.For) -> str:
    """What is told of a loop whose iterations are lanes."""
    if loop.extent.fn != "const":
        return MASKED
    lanes = 1 << (loop.extent.data - 1).bit_length()
    whole = LANES if is_of_lanes(loop) else WIDE
    return (whole if lanes == loop.extent.data else PARTLY)[lanes]
