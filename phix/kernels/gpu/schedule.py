"""The form of kernels that fills a GPU: what joins, what is taken apart, what is split up.

A card runs well above a hundred thousand threads at once, so a kernel wants that many
iterations that do not depend on each other, or rows that blocks share.
"""

from __future__ import annotations

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.gpu import convolution, mapping, scatter, small_loops
from phix.kernels.gpu.mapping import Nest, Scan, Spread
from phix.kernels.gpu.one_pass import in_one_pass
from phix.kernels.gpu.rewriting import Rewriter, assigned, declared, scalars
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.effects import Uses
from phix.kernels.loops.nodes import (  # fmt: skip
    Assign,
    Buffer,
    Declare,
    For,
    Kernel,
    LoopProgram,
    Statement,
    Step,
    Store,
)
from phix.kernels.loops.target import Target
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Rows that keep a card busy with a block each.
_ENOUGH_ROWS = 256
# A row longer than this is better done by many blocks.
_LONG_ROW = 1 << 15
# Reductions of fewer elements are not split; each part of one has at least so many.
_SPLIT_FROM, _PART = 1 << 15, 1 << 12
# A split reduction has at most so many parts, and this many where its size is not known.
_MOST_PARTS, _DEFAULT_PARTS = 1 << 10, 1 << 8
# Loops that one block does as fast as many.
_SMALL = 1 << 12
# With a thread a column: the threads to make, and the elements each of them is to have.
_THREADS, _COLUMN_PART = 1 << 18, 1 << 4

# Matrices of so few rows or columns do not fill the tiles of a library.
_NARROW = 32

_ZERO = sc.const(0, dt.int64)
# Parts are numbered by an index no loop of the builder has.
_PART_INDEX = sc.var("i900")


def joins(first: For, second: For, joined: For) -> bool:
    """Whether two loops are as well done as one: it must leave enough that is independent."""
    if first.kind != "parallel" or second.kind != "parallel":
        return False
    nests = [mapping.items_of(Kernel([loop])) for loop in (first, second, joined)]
    depths = [len(n.loops) for n in nests]
    if {True, False} <= {_goes_across(n) for n in nests[:2]}:
        return False  # a block would read each column an element here and an element there
    if depths[2] == max(depths[:2]):
        # two sums down columns are each split into parts, together they could not be
        inner = _inner(nests[2])
        is_apart = len(inner) > max(len(_inner(n)) for n in nests[:2])
        return not (is_apart and nests[2].loops and mapping.prefers_threads(nests[2], inner))
    # the rows of one are done row by row with those of the other
    rows, most = _size(nests[2]), max((_size(s) or 0 for s in _inner(nests[2])), default=0)
    if depths[2] != min(depths[:2]):
        # what one makes of elements of a row the other reads, all in the caches of a block
        return rows is not None and rows >= _ENOUGH_ROWS and 1 < most <= _NARROW * _NARROW
    return (rows is None or rows >= _ENOUGH_ROWS) and most <= _LONG_ROW


def multiplies_in_loops(sizes: tuple[int | None, ...]) -> bool:
    """Whether a product has so little to share that a thread or a block a result is no slower than
    a library, and what is done to its operands and its results is done on the way."""
    *narrow, _ = sorted(_NARROW + 1 if size is None else size for size in sizes)
    return max(narrow) <= _NARROW


GPU = Target(
    sums_in_memory=False,
    product_dtypes=(
        dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.complex64, dt.complex128,
    ),
    own_products=(),
    multiplies_in_loops=multiplies_in_loops,
    block_bytes=512 << 20,
    reuses_planes=False,
    tiles_in_loops=False,  # see tiles.py
    sorts_in_loops=False,
    ranks_by_rows=True,
    attention_size=256,
    convolution_parts=convolution.parts,
    joins=joins,
    most_streams=1 << 20,  # a launch costs more
)  # fmt: skip


class GpuBuilder(Builder):
    """Builds loops in the form that suits a GPU."""

    target = GPU


def _size(nest: Nest) -> int | None:
    """How many iterations a nest has; None where that is not known."""
    total = 1
    for extent in nest.extents:
        if extent.fn != "const":
            return None
        total *= int(extent.data)
    return total


def _inner(nest: Nest) -> list[Spread]:
    return mapping.spreads(nest.body)


def _goes_across(nest: Nest) -> bool | None:
    """Whether each item of a nest adds up a column, not a row; None where there is neither."""
    inner = _inner(nest)
    return mapping.prefers_threads(nest, inner) if inner and nest.loops else None


def fill_the_card(program: LoopProgram, _: Setting) -> None:
    """The pass: as much is independent as a card has threads for."""
    arranger = _Arranger(program)
    arranger.block(program.steps)
    small_loops.keep_in_blocks(program, arranger.loops)


class _Arranger:
    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.loops: set[Step] = set()  # the kernels that were loops of steps
        self.number = max((int(t.name[1:]) for t in program.temps), default=-1) + 1

    def temp(self, dims: dm.Shape, like: Expr) -> Buffer:
        """A new temp for values of the dtype of ``like``."""
        buffer = Buffer(f"t{self.number}", like.dtype, dims, "temp")
        self.number += 1
        self.program.temps.append(buffer)
        return buffer

    def block(self, steps: list[Step]) -> None:
        result: list[Step] = []
        for step in small_loops.joined(steps, self.loops):
            if step in self.loops:
                result.append(step)
                continue
            for inner in ir.blocks(step):
                self.block(inner)
            result += self.kernel(step) if isinstance(step, Kernel) else [step]
        steps[:] = result

    def kernel(self, kernel: Kernel) -> list[Step]:
        """The steps that do what a kernel does."""
        if _calls_library(kernel):
            return [kernel]
        kernel.body[:] = in_one_pass(kernel.body)
        steps: list[Step] = []
        for step in scatter.rearranged(self.program, kernel, self.temp):
            if not isinstance(step, Kernel):
                steps.append(step)
                continue
            for part in self.apart(step):
                steps += self.split(part)
        return steps

    # -- top-level loops, each a kernel ----------------------------------------------------
    def apart(self, kernel: Kernel) -> list[Kernel]:
        """One kernel for each top-level loop; scalars go from one to the next through memory."""
        segments = _segments(kernel.body)
        if len(segments) < 2 or not _are_settled(segments) or _is_small(kernel.body):
            return [kernel]
        values: dict[Expr, Expr] = {}
        made = []
        for k, segment in enumerate(segments):
            body = Rewriter(values).block(segment)
            later = set().union(*(scalars(s) for s in segments[k + 1 :]))
            for target in sorted(declared(segment) & later, key=lambda e: str(e.data)):
                buffer = self.temp((), target)
                body.append(Store(buffer, (_ZERO,), target))
                values[target] = Expr("load", (_ZERO,), target.dtype, buffer)
            made.append(Kernel(body))
        return made

    # -- reductions in two steps -----------------------------------------------------------
    def split(self, kernel: Kernel) -> list[Kernel]:
        """A long reduction or scan of few items as one of parts, and what joins the parts."""
        items = mapping.items_of(kernel)
        at = _only_loop(items)
        if at is None:
            return [kernel]
        loop = items.body[at]
        assert isinstance(loop, For)
        spread, scan = mapping.spread_of(loop), mapping.scan_of(loop)
        if spread is None and scan is not None and _adds_up(scan, items, at):
            parts = _parts(_size(items), _size(scan), loop.extent, False)
            return [kernel] if parts is None else self._scan_in_parts(items, at, scan, parts)
        if spread is None or not _adds_up(spread, items, at):
            return [kernel]
        by_threads = mapping.prefers_threads(items, [spread]) and bool(items.loops)
        cut = _cut(spread, by_threads)
        parts = _parts(_size(items), _size(spread), cut.extent, by_threads)
        if parts is None:
            return [kernel]
        return self._in_parts(items, at, spread, cut, parts, by_threads)

    def _in_parts(
        self, items: Nest, at: int, spread: Spread, cut: For, parts: int, by_threads: bool
    ) -> list[Kernel]:
        before, after = items.body[:at], items.body[at + 1 :]
        extent, count = cut.extent, sc.const(parts, dt.int64)
        length = _rounded_quotient(extent, parts)
        place = _place(items, parts, by_threads)
        sizes = (count, *items.extents) if by_threads else (*items.extents, count)
        dims = tuple(e.data for e in sizes)
        buffers = {t: self.temp(dims, t) for t in spread.combined}
        # the first kernel: every part from the identity on
        start = _PART_INDEX * length
        left = sc.binary("minimum", extent - start, length)
        inner = Rewriter({cut.index: start + cut.index}).block(spread.body)
        own = [For(s.index, left if s is cut else s.extent, [], "reduction") for s in spread.loops]
        starts: list[Statement] = []
        for s in before:
            if isinstance(s, Declare) and s.target in spread.combined:
                identity = mapping.identity(spread.combined[s.target], s.target.dtype)
                starts.append(Declare(s.target, identity))
            elif not isinstance(s, Store):
                starts.append(s)
        body = [*starts, *_around(own, inner)]
        body += [Store(b, (place,), t) for t, b in buffers.items()]
        first = _around(items.loops, [For(_PART_INDEX, count, body)])
        if by_threads:  # neighbouring threads do neighbouring items
            first = [For(_PART_INDEX, count, _around(items.loops, body))]
        # the second one: the parts in order
        ends: list[Statement] = []
        for target, fn in spread.combined.items():
            load = Expr("load", (place,), target.dtype, buffers[target])
            ends.append(Assign((target,), (sc.binary(fn, target, load),), True))
        total = For(_PART_INDEX, count, ends, "reduction")
        second = _around(items.loops, [*before, total, *after])
        return [Kernel(first), Kernel(second)]

    def _scan_in_parts(self, items: Nest, at: int, scan: Scan, parts: int) -> list[Kernel]:
        """Combine each part, scan what comes of it, and go through the parts from there."""
        before, after = items.body[:at], items.body[at + 1 :]
        (loop,), target, fn = scan.loops, scan.target, scan.combined[scan.target]
        count, place = sc.const(parts, dt.int64), _place(items, parts, False)
        length = _rounded_quotient(loop.extent, parts)
        start = _PART_INDEX * length
        left = sc.binary("minimum", loop.extent - start, length)
        within = Rewriter({loop.index: start + loop.index})
        dims = tuple(e.data for e in (*items.extents, count))
        totals, starts = self.temp(dims, target), self.temp(dims, target)
        others = [s for s in before if isinstance(s, Declare) and s.target is not target]

        def plus(element: Expr) -> Assign:
            return Assign((target,), (sc.binary(fn, target, element),), True)

        def read(buffer: Buffer) -> Expr:
            return Expr("load", (place,), target.dtype, buffer)

        combine = For(loop.index, left, [plus(within.expr(scan.element))], "reduction")
        neutral = Declare(target, mapping.identity(fn, target.dtype))
        first: list[Statement] = [*others, neutral, combine, Store(totals, (place,), target)]
        so_far: list[Statement] = [Store(starts, (place,), target), plus(read(totals))]
        again = For(loop.index, left, within.block(loop.body), "reduction")
        last: list[Statement] = [*others, Declare(target, read(starts)), again]
        return [
            Kernel(_around(items.loops, [For(_PART_INDEX, count, first)])),
            Kernel(
                _around(
                    items.loops, [*before, For(_PART_INDEX, count, so_far, "reduction"), *after]
                )
            ),
            Kernel(_around(items.loops, [For(_PART_INDEX, count, last)])),
        ]


def _calls_library(kernel: Kernel) -> bool:
    return any(isinstance(s, ir.LibraryCall) for s in ir.walk(kernel.body))


def _around(loops: list[For], body: list[Statement]) -> list[Statement]:
    for loop in reversed(loops):
        body = [For(loop.index, loop.extent, body, loop.kind)]
    return body


def _segments(body: list[Statement]) -> list[list[Statement]]:
    """A block cut behind each loop; what follows the last one goes with it."""
    segments: list[list[Statement]] = [[]]
    for s in body:
        has_loop = any(isinstance(earlier, For) for earlier in segments[-1])
        if has_loop and isinstance(s, (For, Declare, ir.If, ir.While)):
            segments.append([])
        segments[-1].append(s)
    return segments


def _is_small(body: list[Statement]) -> bool:
    """Whether one block does all loops of a body about as fast as many would."""
    for s in body:
        if isinstance(s, For):
            loops, inside = [], [s]
            while len(inside) == 1 and isinstance(inside[0], For):
                loops.append(inside[0])
                inside = inside[0].body  # type: ignore[assignment]
            size = _size(Nest(loops, []))
            if size is None or size > _SMALL:
                return False
    return True


def _are_settled(segments: list[list[Statement]]) -> bool:
    """Whether each segment sets scalars of its own alone."""
    return all(assigned(s) <= declared(s) for s in segments)


def _only_loop(items: Nest) -> int | None:
    """Where the one loop of an item is; None if it has more, or branches."""
    loops = [k for k, s in enumerate(items.body) if isinstance(s, (For, ir.If, ir.While))]
    is_one = len(loops) == 1 and isinstance(items.body[loops[0]], For)
    return loops[0] if is_one else None


def _adds_up(spread: Spread, items: Nest, at: int) -> bool:
    """Whether the loop adds something up, of sizes that are the same for all items."""
    own = {s.target for s in items.body[:at] if isinstance(s, Declare)}
    return bool(spread.combined) and set(spread.combined) <= own and not _depends(spread, items)


def _cut(spread: Spread, by_threads: bool) -> For:
    """The loop of a reduction that is cut: a long one, so that rows in memory stay whole."""
    loops = spread.loops if by_threads or len(spread.loops) == 1 else spread.loops[:-1]
    if any(loop.extent.fn != "const" for loop in loops):
        return loops[0]
    return max(loops, key=lambda loop: int(loop.extent.data))


def _depends(spread: Spread, items: Nest) -> bool:
    used = {v for e in spread.extents for v in mapping.variables(e)}
    return bool(used & set(items.indices))


def _parts(items: int | None, longest: int | None, outer: Expr, by_threads: bool) -> int | None:
    """How many parts a reduction is split into; None for as it is."""
    if items is None:
        return None
    most = outer.data if outer.fn == "const" else _MOST_PARTS
    if longest is None:
        return _DEFAULT_PARTS if items == 1 else None
    if by_threads:
        wanted = min(_THREADS // max(items, 1), longest // _COLUMN_PART)
    else:
        wanted = min(_MOST_PARTS // max(items, 1), longest // _PART)
        wanted = wanted if longest >= _SPLIT_FROM else 0
    wanted = min(wanted, most, _MOST_PARTS)
    return wanted if wanted >= 4 else None


def _rounded_quotient(extent: Expr, parts: int) -> Expr:
    """The length of a part: the extent over their number, rounded up."""
    if extent.fn == "const":
        length = -(-extent.data // parts)
        # rows of whole packs
        return sc.const(length if length < 1024 else -(-length // 32) * 32, dt.int64)
    return sc.binary("quotient", extent + (parts - 1), sc.const(parts, dt.int64))


def _place(items: Nest, parts: int, by_threads: bool) -> Expr:
    """Where the result of a part lies: those of one item together, or of one part."""
    linear: Expr = _ZERO
    for loop in items.loops:
        linear = linear * loop.extent + loop.index
    if not by_threads:
        return linear * parts + _PART_INDEX
    return _PART_INDEX * (_size(items) or 1) + linear


# -- rows that only go on to an output ---------------------------------------------------------
def drop_private_rows(program: LoopProgram, _: Setting) -> None:
    """Keep what a kernel stores and reads again where its result goes, not in a temp.

    A row of a temp that one block writes, reads, and turns into a row of an output of the same
    dims would go to memory twice.
    """
    uses = Uses(program.steps)
    for step in program.steps:
        if type(step) is not Kernel:
            continue
        for temp in [b for b in ir.writes(step.body) if b.kind == "temp"]:
            output = _heir(step, temp)
            if output is not None and uses.users(temp) == [step]:
                uses.rename(temp, output)


def _heir(kernel: Kernel, temp: Buffer) -> Buffer | None:
    """The output that is stored, once and last, exactly where the temp is read."""
    stores = [s for s in ir.walk(kernel.body) if isinstance(s, Store)]
    places = {s.indices for s in stores if s.buffer is temp}
    loads = {e.args for e in ir.expressions(kernel.body) if e.fn == "load" and e.data is temp}
    if len(places | loads) != 1 or dt.is_complex(temp.dtype):
        return None
    last = stores[-1]
    out = last.buffer
    fits = (
        out.kind == "output"
        and out.dtype == temp.dtype
        and dm.same_shape(out.dims, temp.dims)
        and last.indices in places
        and sum(s.buffer is out for s in stores) == 1
        and out not in ir.reads(kernel.body)
        and out not in {b for s in _behind(kernel, last) for b in ir.reads([s])}
        and not any(temp in ir.reads([s]) for s in _behind(kernel, last))
    )
    return out if fits else None


def _behind(kernel: Kernel, store: Store) -> list[Statement]:
    """The statements that run after ``store`` in its own iteration or later."""
    every = list(ir.walk(kernel.body))
    return every[every.index(store) + 1 :]
