"""Products of small matrices whose sizes are known, in machine code written out for these sizes.

``product.py`` packs its operands, looks for tiles that fit, and stores with masks: for a matrix of
13 that takes ten times as long as the multiplications. A direct product reads both operands where
they lie and holds a tile of the result in registers: some rows, and some vectors of columns, which
may overlap at the end of a row, so that none is masked. Only a right operand that is transposed is
put in order first, on the stack.

A sum is made as ``product.py`` makes it, one fused step a term, so the results have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise, product
from typing import NamedTuple

from phix.core.records import dataclass
from phix.kernels.cpu import jit, units
from phix.kernels.cpu.advice import ROLLED
from phix.kernels.cpu.product_code import is_direct
from phix.kernels.cpu.tiles import KINDS, Text, mangled, spread, transposed
from phix.kernels.loops.nodes import LibraryCall, Pointer
from phix.kernels.scalar.language import Expr

# Vectors of a tile, side by side.
_MOST_VECTORS = 8
# What is taken to choose between tiles: cycles of a step beside its multiplications, which wait
# for each other so long, and cycles of a tile beside its steps.
_LATENCY, _TILE, _SEVERAL_BLOCKS = 4, 12, 1.1
# Rows of the tiles behind the last whole one, where the run says how many these are.
_HEIGHTS_OF_REST = (4, 1)
_NAME = ".direct."


@dataclass(frozen=True)
class Sizes:
    """One product: ``out = op(x) op(y)``, or that added to it, as ``blas.wrapper`` has them.

    ``is_most``: the run says how many rows there are, at most ``rows``.
    """

    transpose_x: int
    transpose_y: int
    adds: int
    rows: int
    columns: int
    inner: int
    pitch_x: int
    pitch_y: int
    pitch_out: int
    is_most: int


def name_of(call: LibraryCall) -> str | None:
    """The name of the direct product that a call is; None where it is none."""
    every = [a for a in call.arguments[:9] if isinstance(a, Expr)]
    is_most = len(every) == 9 and _is_cut(every[3])
    if is_most:
        every[3] = every[3].args[1]
    known = [a.data for a in every if a.fn == "const"]
    if len(known) < 9 or not is_direct(call.name, tuple(known[3:6])):
        return None
    return f"{call.name}{_NAME}{'.'.join(map(str, known))}.{int(is_most)}"


def _is_cut(rows: Expr) -> bool:
    """Whether rows are those of a block, which may be the last."""
    return rows.fn == "minimum" and rows.args[1].fn == "const"


def arguments_of(call: LibraryCall) -> tuple[Expr | Pointer, ...]:
    """What a direct product is passed, of what the call is."""
    rows, *pointers = call.arguments[3], *call.arguments[9:]
    return (*pointers, rows) if isinstance(rows, Expr) and _is_cut(rows) else tuple(pointers)


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines a direct product, and what it declares; None for other routines."""
    found = told(library, _NAME)
    return found and text(library, found[0], Sizes(*found[1]), *jit.vector_registers())


def told(library: str, mark: str) -> tuple[str, list[int]] | None:
    """The dtype and the sizes in the name of a routine; None where the mark is not in it."""
    routine, found, sizes = library.partition(mark)
    return (routine.rpartition("_")[2], list(map(int, sizes.split(".")))) if found else None


# -- tiles -----------------------------------------------------------------------------------------
class Vector(NamedTuple):
    """Columns from ``at`` on: as many as there are ``lanes``, of which the first ``used`` count."""

    at: int
    lanes: int
    used: int


def _vectors(columns: int, lanes: int, adds: int, has_masks: bool) -> list[Vector]:
    """The vectors of a row. The last may overlap the one before, unless a sum would be added twice;
    what is shorter than a vector is one that is masked, where the CPU has masks."""
    found, at = [], 0
    while at < columns:
        left = columns - at
        width = 1 << int(math.log2(min(left, lanes)))
        if width < min(left, lanes):
            if not adds and 2 * width <= columns:
                at, width, left = columns - 2 * width, 2 * width, 2 * width
            elif has_masks:
                width *= 2
        found.append(Vector(at, width, min(width, left)))
        at += width
    return found


@dataclass(frozen=True)
class Tiling:
    """The tiles of a product: vectors of columns in blocks, and rows a tile in each."""

    blocks: tuple[tuple[Vector, ...], ...]
    heights: tuple[int, ...]


def tiling(sizes: Sizes, lanes: int, registers: int, has_masks: bool) -> Tiling:
    """The tiles that take the fewest cycles, as far as that is known of all CPUs."""
    every = _vectors(sizes.columns, lanes, sizes.adds, has_masks)
    found = []
    for most in range(1, min(_MOST_VECTORS, len(every)) + 1):
        count = -(-len(every) // most)
        bounds = [len(every) * c // count for c in range(count + 1)]
        blocks = tuple(tuple(every[a:b]) for a, b in pairwise(bounds))
        # a register for each sum, for a row of y, and for one element of x
        heights = tuple((registers - 1 - len(b)) // len(b) for b in blocks)
        if min(heights) > 0:
            heights = tuple(_even(sizes, h) for h in heights)
            found.append((_cycles(sizes, blocks, heights), most, Tiling(blocks, heights)))
    return min(found, key=lambda f: f[:2])[2]


def _even(sizes: Sizes, most: int) -> int:
    """Rows a tile, at most so many, that leave tiles of about one height."""
    if sizes.is_most:
        return max(h for h in range(1, most + 1) if sizes.rows % h == 0)
    return -(-sizes.rows // -(-sizes.rows // most))


def _cycles(sizes: Sizes, blocks: tuple, heights: tuple[int, ...]) -> float:
    total = 0.0
    for block, height in zip(blocks, heights):
        for rows in (height,) * (sizes.rows // height) + (sizes.rows % height,):
            sums = rows * len(block)
            step = max(sums, rows + len(block), _LATENCY)  # a load for a multiplication at most
            total += sizes.inner * step + sums + _TILE if rows else 0
    # one block writes and reads memory in order, as those who fetch ahead like it
    return total * (1.0 if len(blocks) == 1 else _SEVERAL_BLOCKS)


# -- text ------------------------------------------------------------------------------------------
def text(name: str, dtype: str, sizes: Sizes, vector_bytes: int, registers: int) -> tuple[str, str]:
    """The function of a product, and the declarations it needs."""
    kind, size = KINDS[dtype]
    t = Text(kind, size)
    tiles = tiling(sizes, vector_bytes // size, registers, has_masks=vector_bytes >= 32)
    y, pitch = ("%y", sizes.pitch_y)
    if sizes.transpose_y:
        y, pitch = _in_order(t, sizes), sizes.columns
    for blocks, height in _like(tiles):
        for first, end, rows in _runs(t, sizes, height):
            with _columns(t, blocks) as column, t.loop(first, end, rows, ROLLED) as row:
                _tile(t, sizes, row, rows, blocks[0], t.at(y, column), t.at("%out", column), pitch)
    passed = "ptr noalias %x, ptr noalias %y, ptr noalias %out"
    passed += ", i64 %rows" if sizes.is_most else ""
    vectors = {(v.lanes, v.used < v.lanes) for block in tiles.blocks for v in block}
    declared = "\n".join(line for v in sorted(vectors) for line in _declarations(kind, *v))
    return t.function(f"@{name}({passed})", attributes=units.WRITTEN_OUT), declared


def _like(tiles: Tiling) -> Iterator[tuple[list[tuple[Vector, ...]], int]]:
    """Blocks that differ in the place of their columns alone, one after the other."""
    every = list(zip(tiles.blocks, tiles.heights))
    while every:
        first, height = every[0]
        width = sum(v.used for v in first)
        count = 0
        for block, of_rows in every:
            moved = tuple(v._replace(at=v.at + count * width) for v in first)
            if (block, of_rows) != (moved, height):
                break
            count += 1
        yield [block for block, _ in every[:count]], height
        del every[:count]


@contextmanager
def _columns(t: Text, blocks: list[tuple[Vector, ...]]) -> Iterator[str]:
    """A loop over blocks: how far its columns are behind those of the first one."""
    if len(blocks) == 1:
        yield "0"
        return
    width = blocks[1][0].at - blocks[0][0].at
    with t.loop(0, len(blocks) * width, width, ROLLED) as column:
        yield column


def _declarations(kind: str, lanes: int, is_masked: bool) -> Iterator[str]:
    one, suffix = _type(kind, lanes), mangled(kind, lanes)
    yield f"declare {one} @llvm.fmuladd.{suffix}({one}, {one}, {one})"
    if is_masked:
        masked = f"ptr, i32, <{lanes} x i1>"
        yield f"declare {one} @llvm.masked.load.{suffix}.p0({masked}, {one})"
        yield f"declare void @llvm.masked.store.{suffix}.p0({one}, {masked})"


def _runs(t: Text, sizes: Sizes, height: int) -> Iterator[tuple[str, str, int]]:
    """Loops over the rows: from where, to where, and the rows of a tile."""
    if not sizes.is_most:
        rest = sizes.rows % height
        yield "0", str(sizes.rows - rest), height
        if rest:
            yield str(sizes.rows - rest), str(sizes.rows), rest
        return
    first = "0"
    for rows in (height, *(h for h in _HEIGHTS_OF_REST if h < height)):
        left = t.op("sub", "%rows", first)
        end = t.op("sub", "%rows", t.op("srem", left, rows))
        yield first, end, rows
        first = end


def _type(kind: str, lanes: int) -> str:
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def _tile(
    t: Text,
    sizes: Sizes,
    row: str,
    rows: int,
    block: tuple[Vector, ...],
    y: str,
    out: str,
    pitch: int,
) -> None:
    """So many rows of the result from ``row`` on, in the columns of a block.

    ``y`` and ``out`` are where the columns are counted from.
    """
    step, inner = (1, sizes.pitch_x) if sizes.transpose_x else (sizes.pitch_x, 1)
    left = t.at("%x", t.op("mul nsw", row, step))
    types = [_type(t.kind, v.lanes) for v in block]
    cells = list(product(range(rows), range(len(block))))
    with t.sums({(r, c): types[c] for r, c in cells}, sizes.inner, ROLLED) as (q, now, then):
        a, b = t.at(left, t.op("mul nsw", q, inner)), t.at(y, t.op("mul nsw", q, pitch))
        across = [_load(t, v, t.at(b, v.at)) for v in block]
        for r in range(rows):
            factor = t.load(t.at(a, r * step))
            spreads = {1: factor}
            for c, (v, one) in enumerate(zip(block, types)):
                if v.lanes not in spreads:
                    spreads[v.lanes] = spread(t, t.kind, factor, v.lanes)
                terms = f"{one} {spreads[v.lanes]}, {one} {across[c]}, {one} {now[r, c]}"
                fma = f"@llvm.fmuladd.{mangled(t.kind, v.lanes)}"
                t.put(f"{then[r, c]} = call {one} {fma}({terms})")
    to = t.at(out, t.op("mul nsw", row, sizes.pitch_out))
    for r, c in cells:
        place, total = t.at(to, r * sizes.pitch_out + block[c].at), then[r, c]
        if sizes.adds:
            total = t.let(f"fadd {types[c]} {_load(t, block[c], place)}, {total}")
        _store(t, block[c], total, place)


def _mask(v: Vector) -> str:
    return f"<{v.lanes} x i1> <{', '.join(f'i1 {int(k < v.used)}' for k in range(v.lanes))}>"


def _load(t: Text, v: Vector, place: str) -> str:
    if v.used == v.lanes:
        return t.load(place, v.lanes if v.lanes > 1 else 0)
    one = _type(t.kind, v.lanes)
    known = f"ptr {place}, i32 {t.size}, {_mask(v)}, {one} zeroinitializer"
    return t.let(f"call {one} @llvm.masked.load.{mangled(t.kind, v.lanes)}.p0({known})")


def _store(t: Text, v: Vector, value: str, place: str) -> None:
    if v.used == v.lanes:
        t.store(value, place, v.lanes if v.lanes > 1 else 0)
        return
    known = f"{_type(t.kind, v.lanes)} {value}, ptr {place}, i32 {t.size}, {_mask(v)}"
    t.put(f"call void @llvm.masked.store.{mangled(t.kind, v.lanes)}.p0({known})")


def _in_order(t: Text, sizes: Sizes) -> str:
    """The right operand in rows of ``columns`` elements, on the stack."""
    n, k, pitch = sizes.columns, sizes.inner, sizes.pitch_y
    t.head.append(f"  %ordered = alloca [{n * k} x {t.kind}], align 64")
    for columns, terms in product(_fours(n), _fours(k)):
        with t.loop(*columns, ROLLED) as j, t.loop(*terms, ROLLED) as q:
            source = t.at("%y", t.op("mul nsw", j, pitch), q)
            to = t.at("%ordered", t.op("mul nsw", q, n), j)
            if columns[2] == terms[2] == 4:
                transposed(t, source, pitch, to, n)
            else:
                for c, r in product(range(columns[2]), range(terms[2])):
                    t.store(t.load(t.at(source, c * pitch + r)), t.at(to, r * n + c))
    return "%ordered"


def _fours(count: int) -> Iterator[tuple[int, int, int]]:
    """Loops over so many, four at a time and then one by one: from where, to where, how many."""
    whole = count - count % 4
    yield from (loop for loop in ((0, whole, 4), (whole, count, 1)) if loop[0] < loop[1])
