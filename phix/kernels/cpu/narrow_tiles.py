"""LLVM text of what a product of bfloat16 is made of: packing of blocks, and tiles of sums.

An instruction of AMX makes 16 x 16 sums of 32 terms. It reads blocks of 16 lines, rows of x or
columns of y, by 32 terms, the terms in pairs: those of x line by line, those of y pair by pair.

It takes numbers below the least normal one for 0, those it reads and those it makes. So of each
panel the least of its numbers is known, but for zeros: where one is not normal, and where one is so
small that products of it may not be and some of the sums are small as well, the tile is made in
float32.
"""

from __future__ import annotations

import struct
from itertools import product

from phix.kernels.cpu.tiles import Text, first_lanes, spread

KIND, SIZE = "i16", 2
LINES, TERMS = 16, 32
BLOCK = LINES * TERMS
LINE = 64 // SIZE  # elements of a cache line
SIDE = 2 * LINES  # rows and columns of a tile of the result


# -- packing ---------------------------------------------------------------------------------------
_PACKED = (
    "ptr %from, i64 %line, i64 %inner, i64 %lines, i64 %terms, ptr %to, i64 %below, ptr %least"
)
# The least of some numbers that are not 0: their bits without the sign, less 1, as an unsigned int.
# Below these bounds some are not normal; products of some, or differences of these, may not be:
# all numbers from 2.0**-56 on are multiples of 2.0**-63, whose products are normal.
NOT_NORMAL, TINY = (1 << 7) - 1, (127 - 56 << 7) - 1
# Below half a digit of such numbers, of float32 too, is what all products of a sum come to that
# were taken for 0.
SMALL = 2.0**-84


def _pack(name: str, by_pairs: bool) -> str:
    """Two blocks of up to 16 lines and 32 terms, one of whose strides is 1, and 0 for all others;
    the second of more than 16 lines, ``below`` the first."""
    t = Text(KIND, SIZE)
    t.head.append(f"  %all = alloca <{TERMS} x {KIND}>, align 64")
    t.put(f"store <{TERMS} x {KIND}> {spread(t, KIND, '-1', TERMS)}, ptr %all")
    in_order = t.let("icmp eq i64 %inner, 1")
    turned = t.let(f"xor i1 {in_order}, true")
    has_more = t.let(f"icmp sgt i64 %lines, {LINES}")
    with t.where(in_order):
        _pack_lines(t, t.let(f"select i1 {has_more}, i64 {SIDE}, i64 {LINES}"))
    with t.where(turned):
        _pack_terms(t)
    with t.where(in_order if by_pairs else turned):
        t.put("call void @turn(ptr %to)")
        with t.where(has_more):
            t.put(f"call void @turn(ptr {t.at('%to', '%below')})")
    every = f"<{TERMS} x {KIND}> {t.let(f'load <{TERMS} x {KIND}>, ptr %all')}"
    own = t.let(f"call {KIND} @llvm.vector.reduce.umin.v{TERMS}{KIND}({every})")
    least = f"{KIND} {own}, {KIND} {t.load('%least')}"
    t.store(t.let(f"call {KIND} @llvm.umin.{KIND}({least})"), "%least")
    return t.function(f"@{name}({_PACKED}) noinline")


def _pack_lines(t: Text, count: str) -> None:
    """Of terms that lie in order: line by line."""
    with t.loop(0, count) as r:
        at, terms = _inside(t, r, "%lines", "%terms")
        row = _some(t, t.at("%from", t.op("mul", at, "%line")), terms)
        _noted(t, row)
        half = t.op("mul", t.op("sdiv", r, LINES), "%below")
        t.store(row, t.at("%to", half, t.op("mul", t.op("and", r, LINES - 1), TERMS)), TERMS)


def _pack_terms(t: Text) -> None:
    """Of lines that lie in order: pair by pair."""
    vector = f"<{TERMS} x {KIND}>"
    with t.loop(0, TERMS, 2) as q:
        pair = []
        for term in (q, t.op("add", q, 1)):
            at, lines = _inside(t, term, "%terms", "%lines")
            pair.append(_some(t, t.at("%from", t.op("mul", at, "%inner")), lines))
        for half, below in ((0, "0"), (LINES, "%below")):
            order = ", ".join(f"i32 {n}, i32 {SIDE + n}" for n in range(half, half + LINES))
            pairs = f"{vector} {pair[0]}, {vector} {pair[1]}, <{TERMS} x i32> <{order}>"
            mixed = t.let(f"shufflevector {pairs}")
            _noted(t, mixed)
            t.store(mixed, t.at("%to", below, t.op("mul", q, LINES)), TERMS)


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


def _some(t: Text, address: str, count: str) -> str:
    """The first elements of a vector in memory, and 0 for the others."""
    vector, mask = f"<{TERMS} x {KIND}>", first_lanes(t, count, TERMS)
    known = f"ptr {address}, i32 {SIZE}, <{TERMS} x i1> {mask}, {vector} zeroinitializer"
    return t.let(f"call {vector} @llvm.masked.load.v{TERMS}{KIND}.p0({known})")


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
SUMMED = "i64 %blocks, ptr %a, ptr %b, i64 %below, ptr %c"
TO = "i16 %least, ptr %out, i64 %lead, i64 %rows, i64 %columns, i1 %narrow"


def _tile(by_tiles: bool) -> str:
    """Up to 32 rows and columns of the result, by way of the stack: rounded to bfloat16, or as they
    are. ``below`` is from the upper 16 rows to the lower, and from 16 columns to the next."""
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
        t.put(f"call void @sums_in_float32({SUMMED})")
    is_wide = t.let("xor i1 %narrow, true")
    with t.where("%narrow"):
        _put_rows(t, is_narrow=True)
    with t.where(is_wide):
        _put_rows(t, is_narrow=False)
    return t.function(f"@tile({SUMMED.rpartition(',')[0]}, {TO}) noinline")


def _of_a_size(t: Text) -> None:
    """By the function for as many rows and columns as there are."""
    over = [t.let(f"icmp sgt i64 {n}, {LINES}") for n in ("%rows", "%columns")]
    few = [t.let(f"xor i1 {flag}, true") for flag in over]
    for high, wide in product((1, 2), (1, 2)):
        fits = [(few, over)[many - 1][n] for n, many in enumerate((high, wide))]
        with t.where(t.let(f"and i1 {fits[0]}, {fits[1]}")):
            t.put(f"call void @sums_{high}_{wide}({SUMMED})")


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
            value = rounded(t, value, SIDE)
        to = t.let(f"getelementptr inbounds {kind}, ptr %out, i64 {t.op('mul', r, '%lead')}")
        size = SIZE if is_narrow else 4
        given = f"{stored} {value}, ptr {to}, i32 {size}, <{SIDE} x i1> {mask}"
        name = f"v{SIDE}{KIND if is_narrow else 'f32'}"
        t.put(f"call void @llvm.masked.store.{name}.p0({given})")


def rounded(t: Text, value: str, lanes: int) -> str:
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
        for first, count, base in ((4, high, "%a"), (6, wide, "%b")):
            for n in range(count):
                there = t.op("add", at, t.op("mul", "%below", n))
                block = t.let(f"getelementptr inbounds {KIND}, ptr {base}, i64 {there}")
                t.put(f"call void @llvm.x86.tileloadd64(i8 {first + n}, ptr {block}, i64 64)")
        for r, c in cells:
            t.put(f"call void @llvm.x86.tdpbf16ps(i8 {2 * r + c}, i8 {4 + r}, i8 {6 + c})")
    for r, c in cells:
        place = t.at("%c", r * LINES * SIDE + c * LINES)
        t.put(f"call void @llvm.x86.tilestored64(i8 {2 * r + c}, ptr {place}, i64 {4 * SIDE})")
    return t.function(f"@sums_{high}_{wide}({SUMMED}) noinline")


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
    return t.function(f"@sums_in_float32({SUMMED}) noinline")


def _multiply_pairs(t: Text, first: str, block: str, p: str) -> None:
    """A pair of each row with those of 32 columns, added to the sums in ``%sum<n>``."""
    vector = f"<{LINES} x float>"
    upper, half = (spread(t, "i32", str(bits), LINES) for bits in (-1 << 16, 16))
    left = t.op("add", t.op("add", block, first), t.op("mul", p, 2))
    right = t.op("add", block, t.op("mul", p, TERMS))
    columns = [
        _floats(t, _pair(t, "%b", t.op("add", right, beside), f"<{LINES} x i32>", 64), upper, half)
        for beside in ("0", "%below")
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


# -- all of it -------------------------------------------------------------------------------------
_DECLARED = (
    "declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)",
    "declare <32 x float> @llvm.fabs.v32f32(<32 x float>)",
    "declare i1 @llvm.vector.reduce.or.v32i1(<32 x i1>)",
    "declare i16 @llvm.vector.reduce.umin.v32i16(<32 x i16>)",
    "declare <32 x i16> @llvm.umin.v32i16(<32 x i16>, <32 x i16>)",
    "declare i16 @llvm.umin.i16(i16, i16)",
    "declare <32 x i16> @llvm.masked.load.v32i16.p0(ptr, i32, <32 x i1>, <32 x i16>)",
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


def functions(by_tiles: bool) -> list[str]:
    """Declarations, and the functions ``@pack_rows``, ``@pack_columns`` and ``@tile``."""
    return [
        *_DECLARED,
        *(_OF_TILES if by_tiles else ()),
        _turn(),
        _pack("pack_rows", by_pairs=False),
        _pack("pack_columns", by_pairs=True),
        *(_sums_by_tiles(*shape) for shape in product((1, 2), (1, 2)) if by_tiles),
        _sums_in_float32(),
        _tile(by_tiles),
    ]
