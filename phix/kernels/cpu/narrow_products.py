"""Products of bfloat16 by the instructions of a CPU that make tiles of sums of them.

``phix_product_bfloat16`` computes out = op(x) op(y) of bfloat16, with sums in float32, where a CPU
has AMX: an instruction makes 16 x 16 sums of 32 terms. It reads blocks of 16 lines, rows of x or
columns of y, by 32 terms, the terms in pairs: those of x line by line, those of y pair by pair.

It takes numbers below the least normal one for 0, those it reads and those it makes. So of each
panel the least of its numbers is known, but for zeros: where one is not normal, and where one is so
small that products of it may not be and some of the sums are small as well, the tile is made in
float32.

Both operands are packed first; columns of y that few rows meet right before, into a near cache. A
panel of 32 columns then meets some rows, which stay in a second cache, tile by tile: its sums stay
in registers from the first term to the last, and are rounded once. How a sum is made depends on
nothing else, so every number of threads gives the same bits.
"""

from __future__ import annotations

import struct
from itertools import product

from phix.kernels.cpu import jit, pool, product_sums, threads
from phix.kernels.cpu.product_panels import (
    ARGUMENTS,
    DEPTH,
    LEAST_SHARED,
    fields,
    memory,
    shared,
    stride,
    told,
)
from phix.kernels.cpu.tiles import Text, first_lanes, spread

KIND, SIZE = "i16", 2
LINES, TERMS = 16, 32
BLOCK = LINES * TERMS
LINE = 64 // SIZE  # elements of a cache line
SIDE = 2 * LINES  # rows and columns of a tile of the result
# Columns that no more panels of rows meet are packed right before.
FEW_PANELS = 8
# Bytes of packed rows that columns meet before the next do, half of a second cache, and the least
# of their panels.
NEAR, LEAST_NEAR = 1 << 20, 4
# Pieces that threads can share, if there are rows or columns for so many.
PIECES = 8
# Bytes to pack, and multiplications, below which threads do not share them: some microseconds.
LEAST_PACKED, LEAST_MULTIPLIED = 128_000, 8 * LEAST_SHARED
# Longer sums are made of parts.
LONGEST = DEPTH * product_sums.PARTS


# -- packing ---------------------------------------------------------------------------------------
_PACKED = "ptr %from, i64 %line, i64 %inner, i64 %lines, i64 %terms, ptr %to, ptr %least"
# The least of some numbers that are not 0: their bits without the sign, less 1, as an unsigned int.
# Below these bounds some are not normal; products of some may not be.
NOT_NORMAL, TINY = (1 << 7) - 1, (127 - 63 << 7) - 1
# Sums of up to LONGEST products that were taken for 0 are below half a digit of such numbers.
SMALL = 2.0**-100


def _pack(name: str, by_pairs: bool) -> str:
    """A block of up to 16 lines and 32 terms, one of whose strides is 1, and 0 for all others."""
    t = Text(KIND, SIZE)
    t.head.append(f"  %all = alloca <{TERMS} x {KIND}>, align 64")
    t.put(f"store <{TERMS} x {KIND}> {spread(t, KIND, '-1', TERMS)}, ptr %all")
    in_order = t.let("icmp eq i64 %inner, 1")
    turned = t.let(f"xor i1 {in_order}, true")
    with t.where(in_order), t.loop(0, LINES) as r:
        at, terms = _inside(t, r, "%lines", "%terms")
        row = _some(t, t.at("%from", t.op("mul", at, "%line")), terms, TERMS)
        _noted(t, row)
        t.store(row, t.at("%to", t.op("mul", r, TERMS)), TERMS)
    with t.where(turned), t.loop(0, TERMS, 2) as q:
        pair = []
        for term in (q, t.op("add", q, 1)):
            at, lines = _inside(t, term, "%terms", "%lines")
            pair.append(_some(t, t.at("%from", t.op("mul", at, "%inner")), lines, LINES))
        order = ", ".join(f"i32 {n}, i32 {LINES + n}" for n in range(LINES))
        half = f"<{LINES} x {KIND}>"
        pairs = f"{half} {pair[0]}, {half} {pair[1]}, <{TERMS} x i32> <{order}>"
        mixed = t.let(f"shufflevector {pairs}")
        _noted(t, mixed)
        t.store(mixed, t.at("%to", t.op("mul", q, LINES)), TERMS)
    with t.where(in_order if by_pairs else turned):
        t.put("call void @turn(ptr %to)")
    every = f"<{TERMS} x {KIND}> {t.let(f'load <{TERMS} x {KIND}>, ptr %all')}"
    own = t.let(f"call {KIND} @llvm.vector.reduce.umin.v{TERMS}{KIND}({every})")
    least = f"{KIND} {own}, {KIND} {t.load('%least')}"
    t.store(t.let(f"call {KIND} @llvm.umin.{KIND}({least})"), "%least")
    return t.function(f"@{name}({_PACKED}) noinline")


def _noted(t: Text, numbers: str) -> None:
    """``%all`` holds the least, lane by lane."""
    vector = f"<{TERMS} x {KIND}>"
    one, no_sign = (spread(t, KIND, str(bits), TERMS) for bits in (1, 0x7FFF))
    sizes = t.let(f"sub {vector} {t.let(f'and {vector} {numbers}, {no_sign}')}, {one}")
    both = f"{vector} {sizes}, {vector} {t.let(f'load {vector}, ptr %all')}"
    least = t.let(f"call {vector} @llvm.umin.v{TERMS}{KIND}({both})")
    t.put(f"store {vector} {least}, ptr %all")


def _inside(t: Text, number: str, every: str, count: str) -> tuple[str, str]:
    """A place that may be read, and how many elements are: none of a row that is not there."""
    inside = t.let(f"icmp slt i64 {number}, {every}")
    kept = (t.let(f"select i1 {inside}, i64 {value}, i64 0") for value in (number, count))
    at, some = kept
    return at, some


def _some(t: Text, address: str, count: str, lanes: int) -> str:
    """The first elements of a vector in memory, and 0 for the others."""
    vector, mask = f"<{lanes} x {KIND}>", first_lanes(t, count, lanes)
    known = f"ptr {address}, i32 {SIZE}, <{lanes} x i1> {mask}, {vector} zeroinitializer"
    return t.let(f"call {vector} @llvm.masked.load.v{lanes}i16.p0({known})")


def _turn() -> str:
    """A block of 16 x 16 pairs the other way round, in place: halves, quarters and so on change
    their places across the diagonal."""
    t = Text("i32", 4)
    vector = f"<{LINES} x i32>"
    rows = [t.load(t.at("%to", r * LINES), LINES) for r in range(LINES)]
    for far in (8, 4, 2, 1):
        for r in (r for r in range(LINES) if not r & far):
            a, b = rows[r], rows[r + far]
            for place, taken in ((r, 0), (r + far, far)):
                order = [n + taken if not n & far else n - far + taken + LINES
                         for n in range(LINES)]  # fmt: skip
                mask = ", ".join(f"i32 {n}" for n in order)
                mixed = f"{vector} {a}, {vector} {b}, {vector} <{mask}>"
                rows[place] = t.let(f"shufflevector {mixed}")
    for r, row in enumerate(rows):
        t.store(row, t.at("%to", r * LINES), LINES)
    return t.function("@turn(ptr %to) noinline")


# -- a tile of sums --------------------------------------------------------------------------------
_SUMMED = "i64 %blocks, ptr %a, i64 %below, ptr %b, i64 %beside, ptr %c"
_TO = "i16 %least, ptr %out, i64 %lead, i64 %rows, i64 %columns, i1 %narrow"


def _tile(by_tiles: bool) -> str:
    """Up to 32 rows and columns of the result, by way of the stack: rounded to bfloat16, or as they
    are. ``below`` and ``beside`` are from the upper 16 rows to the lower, and so of columns."""
    t = Text("float", 4)
    t.head.append(f"  %c = alloca [{SIDE * SIDE} x float], align 64")
    is_doubtful = "true"
    if by_tiles:
        t.head.append("  %doubtful = alloca i1")
        is_out = t.let(f"icmp ult i16 %least, {NOT_NORMAL}")
        t.put(f"store i1 {is_out}, ptr %doubtful")
        with t.where(t.let(f"xor i1 {is_out}, true")):
            _of_a_size(t)
            with t.where(t.let(f"icmp ult i16 %least, {TINY}")):
                _doubted(t)
        is_doubtful = t.let("load i1, ptr %doubtful")
    with t.where(is_doubtful):
        t.put(f"call void @sums_in_float32({_SUMMED})")
    is_wide = t.let("xor i1 %narrow, true")
    with t.where("%narrow"):
        _put_rows(t, is_narrow=True)
    with t.where(is_wide):
        _put_rows(t, is_narrow=False)
    return t.function(f"@tile({_SUMMED.rpartition(',')[0]}, {_TO}) noinline")


def _of_a_size(t: Text) -> None:
    """By the function for as many rows and columns as there are."""
    over = [t.let(f"icmp sgt i64 {n}, {LINES}") for n in ("%rows", "%columns")]
    few = [t.let(f"xor i1 {flag}, true") for flag in over]
    for high, wide in product((1, 2), (1, 2)):
        fits = [(few, over)[many - 1][n] for n, many in enumerate((high, wide))]
        with t.where(t.let(f"and i1 {fits[0]}, {fits[1]}")):
            t.put(f"call void @sums_{high}_{wide}({_SUMMED})")


def _doubted(t: Text) -> None:
    """Whether one of the sums is small."""
    floats, mask = f"<{SIDE} x float>", first_lanes(t, "%columns", SIDE)
    bound = spread(t, "float", f"0x{struct.unpack('<Q', struct.pack('<d', SMALL))[0]:X}", SIDE)
    with t.loop(0, "%rows") as r:
        row = t.load(t.at("%c", t.op("mul", r, SIDE)), SIDE)
        size = t.let(f"call {floats} @llvm.fabs.v{SIDE}f32({floats} {row})")
        small = t.let(f"fcmp olt {floats} {size}, {bound}")
        small = t.let(f"and <{SIDE} x i1> {small}, {mask}")
        has_some = t.let(f"call i1 @llvm.vector.reduce.or.v{SIDE}i1(<{SIDE} x i1> {small})")
        with t.where(has_some):
            t.put("store i1 true, ptr %doubtful")


def _put_rows(t: Text, is_narrow: bool) -> None:
    """The rows and columns that are there go where they belong."""
    kind = KIND if is_narrow else "float"
    stored, mask = f"<{SIDE} x {kind}>", first_lanes(t, "%columns", SIDE)
    with t.loop(0, "%rows") as r:
        value = t.load(t.at("%c", t.op("mul", r, SIDE)), SIDE)
        if is_narrow:
            value = _rounded(t, value, SIDE)
        to = t.let(f"getelementptr inbounds {kind}, ptr %out, i64 {t.op('mul', r, '%lead')}")
        size = SIZE if is_narrow else 4
        given = f"{stored} {value}, ptr {to}, i32 {size}, <{SIDE} x i1> {mask}"
        name = f"v{SIDE}{KIND if is_narrow else 'f32'}"
        t.put(f"call void @llvm.masked.store.{name}.p0({given})")


def _rounded(t: Text, value: str, lanes: int) -> str:
    """Floats as the bits of bfloat16, half to even; a NaN stays one, a small number what it is."""
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"

    def all_of(number: int) -> str:
        return spread(t, "i32", str(number), lanes)

    bits = t.let(f"bitcast {floats} {value} to {ints}")
    odd = t.let(f"lshr {ints} {bits}, {all_of(16)}")
    odd = t.let(f"and {ints} {odd}, {all_of(1)}")
    sums = t.let(f"add {ints} {t.let(f'add {ints} {bits}, {all_of(0x7FFF)}')}, {odd}")
    is_nan = t.let(f"fcmp uno {floats} {value}, {value}")
    quiet = t.let(f"or {ints} {bits}, {all_of(1 << 22)}")
    chosen = t.let(f"select <{lanes} x i1> {is_nan}, {ints} {quiet}, {ints} {sums}")
    upper = t.let(f"lshr {ints} {chosen}, {all_of(16)}")
    return t.let(f"trunc {ints} {upper} to <{lanes} x {KIND}>")


def _sums_by_tiles(high: int, wide: int) -> str:
    """Of so many blocks of rows and of columns: their sums stay in registers of 16 x 16."""
    t = Text("float", 4)
    cells = list(product(range(high), range(wide)))
    for r, c in cells:
        t.put(f"call void @llvm.x86.tilezero(i8 {2 * r + c})")
    with t.loop(0, "%blocks") as q:
        at = t.op("mul", q, BLOCK)
        for first, count, base, step in ((4, high, "%a", "%below"), (6, wide, "%b", "%beside")):
            for n in range(count):
                there = t.op("add", at, t.op("mul", step, n))
                block = t.let(f"getelementptr inbounds {KIND}, ptr {base}, i64 {there}")
                t.put(f"call void @llvm.x86.tileloadd64(i8 {first + n}, ptr {block}, i64 64)")
        for r, c in cells:
            t.put(f"call void @llvm.x86.tdpbf16ps(i8 {2 * r + c}, i8 {4 + r}, i8 {6 + c})")
    for r, c in cells:
        place = t.at("%c", r * LINES * SIDE + c * LINES)
        t.put(f"call void @llvm.x86.tilestored64(i8 {2 * r + c}, ptr {place}, i64 {4 * SIDE})")
    return t.function(f"@sums_{high}_{wide}({_SUMMED}) noinline")


# Rows whose sums are made at a time, so that all registers but a few hold sums.
_TOGETHER = 4


def _sums_in_float32() -> str:
    """The same of all rows and columns, by what any CPU can."""
    t = Text("float", 4)
    vector = f"<{LINES} x float>"
    cells = list(product(range(_TOGETHER), range(2)))
    t.head += [f"  %sum{n} = alloca {vector}, align 64" for n in range(len(cells))]
    with t.loop(0, SIDE, _TOGETHER) as row:
        below = t.op("mul", t.op("sdiv", row, LINES), "%below")
        first = t.op("add", below, t.op("mul", t.op("and", row, LINES - 1), TERMS))
        for n in range(len(cells)):
            t.put(f"store {vector} zeroinitializer, ptr %sum{n}")
        with t.loop(0, "%blocks") as q, t.loop(0, LINES) as p:
            _multiply_pairs(t, first, t.op("mul", q, BLOCK), p)
        for n, (r, c) in enumerate(cells):
            place = t.at("%c", t.op("mul", t.op("add", row, r), SIDE), c * LINES)
            t.store(t.let(f"load {vector}, ptr %sum{n}"), place, LINES)
    return t.function(f"@sums_in_float32({_SUMMED}) noinline")


def _multiply_pairs(t: Text, first: str, block: str, p: str) -> None:
    """A pair of each row with those of 32 columns, added to the sums in ``%sum<n>``."""
    vector = f"<{LINES} x float>"
    upper, half = (spread(t, "i32", str(bits), LINES) for bits in (-1 << 16, 16))
    left = t.op("add", t.op("add", block, first), t.op("mul", p, 2))
    right = t.op("add", block, t.op("mul", p, TERMS))
    columns = [
        _floats(t, _pair(t, "%b", t.op("add", right, beside), f"<{LINES} x i32>", 64), upper, half)
        for beside in ("0", "%beside")
    ]
    for r in range(_TOGETHER):
        pair = _pair(t, "%a", t.op("add", left, r * TERMS), "i32", 4)
        factors = _floats(t, spread(t, "i32", pair, LINES), upper, half)
        for c, column in enumerate(columns):
            total = t.let(f"load {vector}, ptr %sum{2 * r + c}")
            for x, y in zip(factors, column):
                given = f"{vector} {x}, {vector} {y}, {vector} {total}"
                total = t.let(f"call {vector} @llvm.fmuladd.v{LINES}f32({given})")
            t.put(f"store {vector} {total}, ptr %sum{2 * r + c}")


def _pair(t: Text, base: str, at: str, kind: str, align: int) -> str:
    place = t.let(f"getelementptr inbounds {KIND}, ptr {base}, i64 {at}")
    return t.let(f"load {kind}, ptr {place}, align {align}")


def _floats(t: Text, pairs: str, upper: str, half: str) -> tuple[str, str]:
    """The first of each pair, and the second, as float32."""
    ints, vector = f"<{LINES} x i32>", f"<{LINES} x float>"
    first = t.let(f"shl {ints} {pairs}, {half}")
    second = t.let(f"and {ints} {pairs}, {upper}")
    both = (t.let(f"bitcast {ints} {bits} to {vector}") for bits in (first, second))
    one, other = both
    return one, other


# -- jobs ------------------------------------------------------------------------------------------
def _packed(t: Text, name: str, operand: tuple[str, ...], first: str, to: str, least: str) -> None:
    """All terms of up to 16 lines, from ``first`` on, block by block; of none, nothing."""
    base, every, line, inner, k = operand
    t.store("-1", least)
    lines = t.least(t.op("sub", every, first), LINES)
    with t.where(t.let(f"icmp sgt i64 {lines}, 0")), t.loop(0, k, TERMS) as q:
        source = t.at(base, t.op("mul", first, line), t.op("mul", q, inner))
        t.put(
            f"call void @{name}(ptr {source}, i64 {line}, i64 {inner}, i64 {lines}, "
            f"i64 {t.least(t.op('sub', k, q), TERMS)}, ptr {t.at(to, t.op('mul', q, LINES))}, "
            f"ptr {least})"
        )


def _place(t: Text, packed: str, panel: str, span: str) -> tuple[str, str]:
    """Where a panel of 16 lines is packed, and, in a line of the cache in front of it, the least of
    its numbers."""
    least = t.at(packed, t.op("mul", panel, _size(t, span)))
    return t.at(least, LINE), least


def _size(t: Text, span: str) -> str:
    """Elements from one panel of 16 lines to the next."""
    return t.op("add", t.op("mul", span, LINES), LINE)


def _bytes(t: Text, span: str) -> str:
    """Those of a panel of 32 lines."""
    return t.op("mul", _size(t, span), 2 * SIZE)


_ROWS = ("x", "m", "x_row", "x_inner", "k")
_COLUMNS = ("y", "n", "y_column", "y_inner", "k")


def _pack_job() -> str:
    """Panels of 32 rows, then those of 32 columns: each as two of 16."""
    t = Text(KIND, SIZE)
    panels, span = fields(t, "row_panels", "span")
    end = t.least("%to", panels)
    start = t.let(f"call i64 @llvm.smax.i64(i64 %from, i64 {panels})")
    for first, last, before, name, place, names in (
        ("%from", end, "0", "pack_rows", "packed_x", _ROWS),
        (start, "%to", panels, "pack_columns", "packed_y", _COLUMNS),
    ):
        (packed,), operand = fields(t, place), tuple(fields(t, *names))
        with t.loop(first, last) as p, t.loop(0, 2) as half:
            panel = t.op("add", t.op("mul", t.op("sub", p, before), 2), half)
            line = t.op("mul", panel, LINES)
            _packed(t, name, operand, line, *_place(t, packed, panel, span))
    return t.function("@pack_job(ptr %job, i64 %from, i64 %to)")


def _tile_job(by_tiles: bool) -> str:
    """For one block of rows after the other, panels of columns with all rows of the block. Columns
    that few rows meet are packed right before."""
    t = Text(KIND, SIZE)
    span, panels, some, columns, lies, fault = fields(
        t, "span", "row_panels", "per_block", "column_panels", "y_lies", "fault"
    )
    (packed,), operand = fields(t, "packed_y"), tuple(fields(t, *_COLUMNS))
    is_late = t.let(f"icmp ne i64 {lies}, 0")
    with memory(t, t.op("mul", _bytes(t, span), lies), fault) as near:
        if by_tiles:
            t.put("call void @llvm.x86.ldtilecfg(ptr @shape)")
        with t.loop("%from", "%to") as task:
            block, j = t.op("sdiv", task, columns), t.op("srem", task, columns)
            there = t.at(packed, t.op("mul", t.op("mul", j, 2), _size(t, span)))
            right = t.let(f"select i1 {is_late}, ptr {near}, ptr {there}")
            with t.where(is_late), t.loop(0, 2) as half:
                line = t.op("mul", t.op("add", t.op("mul", j, 2), half), LINES)
                _packed(t, "pack_columns", operand, line, *_place(t, near, half, span))
            first = t.op("mul", block, some)
            with t.loop(first, t.least(t.op("add", first, some), panels)) as p:
                _sums_of_tile(t, p, j, right)
        if by_tiles:
            t.put("call void @llvm.x86.tilerelease()")
    return t.function("@tile_job(ptr %job, i64 %from, i64 %to)")


def _sums_of_tile(t: Text, p: str, j: str, right: str) -> None:
    packed, out, m, n, lead, span, narrow = fields(
        t, "packed_x", "out", "m", "n", "lead", "span", "add"
    )
    is_narrow = t.let(f"icmp ne i64 {narrow}, 0")
    row, column = t.op("mul", p, SIDE), t.op("mul", j, SIDE)
    at = t.op("add", t.op("mul", row, lead), column)
    size = t.let(f"select i1 {is_narrow}, i64 {SIZE}, i64 4")
    to = t.let(f"getelementptr inbounds i8, ptr {out}, i64 {t.op('mul', at, size)}")
    rows, columns = (t.least(t.op("sub", e, at), SIDE) for e, at in ((m, row), (n, column)))
    apart, blocks = _size(t, span), t.op("sdiv", span, TERMS)
    left = t.at(packed, t.op("mul", t.op("mul", p, 2), apart))
    least = "-1"
    for each in (left, t.at(left, apart), right, t.at(right, apart)):
        least = t.let(f"call {KIND} @llvm.umin.{KIND}({KIND} {least}, {KIND} {t.load(each)})")
    t.put(
        f"call void @tile(i64 {blocks}, ptr {t.at(left, LINE)}, i64 {apart}, "
        f"ptr {t.at(right, LINE)}, i64 {apart}, {KIND} {least}, ptr {to}, i64 {lead}, "
        f"i64 {rows}, i64 {columns}, i1 {is_narrow})"
    )


def _part() -> str:
    """A product of no more than ``LONGEST`` terms: memory for what is packed, and the jobs. The
    result is of bfloat16 where ``%adds``, which no such product does, is not 0."""
    t = Text(KIND, SIZE)

    def whole(count: str, of: str | int) -> str:
        """How many it takes to hold so many."""
        return t.op("sdiv", t.op("sub", t.op("add", count, of), 1), of)

    def most(a: str, b: str | int) -> str:
        return t.let(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    span = t.op("mul", whole("%k", TERMS), TERMS)
    rows, columns = whole("%m", SIDE), whole("%n", SIDE)
    is_late = t.let(f"icmp sle i64 {rows}, {FEW_PANELS}")
    pieces = whole(str(PIECES), most(columns, 1))
    near = most(t.op("sdiv", NEAR // (SIDE * SIZE), most(span, 1)), LEAST_NEAR)
    some = t.let(f"select i1 {is_late}, i64 {most(whole(rows, pieces), 1)}, i64 {near}")
    ahead = t.let(f"select i1 {is_late}, i64 0, i64 {columns}")
    panel = _bytes(t, span)
    bytes_x, bytes_y = t.op("mul", rows, panel), t.op("mul", ahead, panel)
    with memory(t, t.op("add", bytes_x, bytes_y)) as found:
        known = {
            "x": "%x", "y": "%y", "out": "%out", "m": "%m", "n": "%n", "k": "%k",
            "lead": "%lead.out", "add": "%adds", "span": span, "fault": "%fault",
            "x_row": stride(t, "x", "1", "%lead.x"), "x_inner": stride(t, "x", "%lead.x", "1"),
            "y_column": stride(t, "y", "%lead.y", "1"), "y_inner": stride(t, "y", "1", "%lead.y"),
            "packed_x": found, "row_panels": rows, "column_panels": columns, "per_block": some,
            "packed_y": t.let(f"getelementptr inbounds i8, ptr {found}, i64 {bytes_x}"),
            "y_lies": t.let(f"zext i1 {is_late} to i64"),
        }  # fmt: skip
        told(t, known)
        packs = t.op("add", rows, ahead)
        shared(t, "pack_job", packs, t.op("mul", packs, panel), LEAST_PACKED)
        work = t.op("mul", t.op("mul", "%m", "%n"), "%k")
        tasks = t.op("mul", columns, whole(rows, some))
        shared(t, "tile_job", tasks, work, LEAST_MULTIPLIED)
    return t.function(f"@part({ARGUMENTS})")


def _entry(name: str) -> str:
    """Long sums are made in float32, whose parts go through float64, and rounded in the end."""
    t = Text(KIND, SIZE)
    is_long = t.let(f"icmp sgt i64 %k, {LONGEST}")
    with t.where(t.let(f"xor i1 {is_long}, true")):
        t.put(f"call void @part({ARGUMENTS.replace('%adds', '1')})")
    with t.where(is_long):
        room = t.op("mul", t.op("mul", "%m", "%n"), 4)
        with memory(t, room) as wide:
            own = ARGUMENTS.replace("%adds", "0").replace("%lead.out", "%n")
            t.put(f"call void @long({own.replace('%out', wide)})")
            with t.loop(0, "%m") as r, t.loop(0, "%n") as c:
                at = t.op("add", t.op("mul", r, "%n"), c)
                value = t.let(f"getelementptr inbounds float, ptr {wide}, i64 {at}")
                value = t.let(f"load <1 x float>, ptr {value}, align 4")
                to = t.at("%out", t.op("mul", r, "%lead.out"), c)
                t.store(_rounded(t, value, 1), to, 1)
    return t.function(f"@{name}({ARGUMENTS})", "")


# -- the module ------------------------------------------------------------------------------------
_DECLARED = (
    "declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)",
    "declare <32 x float> @llvm.fabs.v32f32(<32 x float>)",
    "declare i1 @llvm.vector.reduce.or.v32i1(<32 x i1>)",
    "declare i16 @llvm.vector.reduce.umin.v32i16(<32 x i16>)",
    "declare <32 x i16> @llvm.umin.v32i16(<32 x i16>, <32 x i16>)",
    "declare i16 @llvm.umin.i16(i16, i16)",
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
    *(f"declare <{n} x i16> @llvm.masked.load.v{n}i16.p0(ptr, i32, <{n} x i1>, <{n} x i16>)"
      for n in (LINES, TERMS)),
    *(f"declare void @llvm.masked.store.v{SIDE}{name}.p0(<{SIDE} x {kind}>, ptr, i32, "
      f"<{SIDE} x i1>)" for name, kind in (("i16", "i16"), ("f32", "float"))),
)  # fmt: skip
# How the instructions with tiles see them: eight of 16 rows of 64 bytes.
_SHAPE = "".join(f"\\{b:02X}" for b in (1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8))
_OF_TILES = (
    f'@shape = private constant [64 x i8] c"{_SHAPE}", align 64',
    "declare void @llvm.x86.ldtilecfg(ptr)",
    "declare void @llvm.x86.tilerelease()",
    "declare void @llvm.x86.tilezero(i8)",
    "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
    "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
    "declare void @llvm.x86.tdpbf16ps(i8, i8, i8)",
)
_OF_FLOATS = (
    "declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)",
)


def text(name: str, by_tiles: bool) -> str:
    """The module with the product, as function ``name``."""
    parts = [
        threads.DECLARATION,
        *pool.DECLARATIONS,
        *_DECLARED,
        *(_OF_TILES if by_tiles else ()),
        _turn(),
        _pack("pack_rows", by_pairs=False),
        _pack("pack_columns", by_pairs=True),
        *(_sums_by_tiles(*shape) for shape in product((1, 2), (1, 2)) if by_tiles),
        _sums_in_float32(),
        _tile(by_tiles),
        _pack_job(),
        _tile_job(by_tiles),
        _part(),
        *product_sums.functions("long", (KIND, SIZE), ("float", 4)),
        _entry(name),
        f"attributes #0 = {{ {jit.function_attributes()} }}",
    ]
    return "\n".join(parts) + "\n"
