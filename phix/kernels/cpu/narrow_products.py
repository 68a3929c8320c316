"""Products of bfloat16 by the instructions of a CPU that make tiles of sums of them.

``phix_product_bfloat16`` computes out = op(x) op(y) of bfloat16, with sums in float32, where a CPU
has AMX; see ``narrow_tiles`` for its blocks.

Both operands are packed first: columns of y that few rows meet right before, into a near cache, and
so are rows of x where a second cache holds all columns. Else a panel of 32 columns meets some rows,
which stay in a second cache, tile by tile. Its sums stay in registers from the first term to the
last, and are rounded once. How a sum is made depends on nothing else, so every number of threads
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phix.kernels.cpu import jit, narrow_tiles, pool, product_sums, threads
from phix.kernels.cpu.narrow_tiles import KIND, LINE, LINES, SIDE, SIZE, TERMS, rounded
from phix.kernels.cpu.product_panels import (
    ARGUMENTS,
    LEAST_SHARED,
    fields,
    memory,
    shared,
    stride,
    told,
)
from phix.kernels.cpu.tiles import Text

# Columns that no more panels of rows meet are packed right before.
FEW_PANELS = 8
# Bytes of packed rows that columns meet before the next do, half of a second cache, and the least
# of their panels.
NEAR, LEAST_NEAR = 1 << 20, 4
# Pieces that threads can share, if there are rows or columns for so many.
PIECES = 8
# Bytes to pack, and multiplications, below which threads do not share them: some microseconds.
LEAST_PACKED, LEAST_MULTIPLIED = 128_000, 8 * LEAST_SHARED


# -- jobs ------------------------------------------------------------------------------------------
def _packed(t: Text, name: str, operand: tuple[str, ...], panel: str, to: str, span: str) -> None:
    """All terms of a panel of 32 lines, as two of 16, each block by block; in a line of the cache
    in front of them the least of its numbers."""
    base, every, line, inner, k = operand
    first = t.op("mul", panel, SIDE)
    lines, half = t.least(t.op("sub", every, first), SIDE), t.op("mul", span, LINES)
    t.store("-1", to)
    with t.loop(0, k, TERMS) as q:
        source = t.at(base, t.op("mul", first, line), t.op("mul", q, inner))
        terms, block = t.least(t.op("sub", k, q), TERMS), t.at(to, LINE, t.op("mul", q, LINES))
        t.put(
            f"call void @{name}(ptr {source}, i64 {line}, i64 {inner}, i64 {lines}, i64 {terms}, "
            f"ptr {block}, i64 {half}, ptr {to})"
        )


def _size(t: Text, span: str) -> str:
    """Elements from one panel of 32 lines to the next."""
    return t.op("add", t.op("mul", span, SIDE), LINE)


_ROWS = ("x", "m", "x_row", "x_inner", "k")
_COLUMNS = ("y", "n", "y_column", "y_inner", "k")


def _pack_job() -> str:
    """Panels of 32 rows, then those of 32 columns: each as two of 16."""
    t = Text(KIND, SIZE)
    every, late, span = fields(t, "row_panels", "x_lies", "span")
    panels = t.let(f"select i1 {t.let(f'icmp ne i64 {late}, 0')}, i64 0, i64 {every}")
    end = t.least("%to", panels)
    start = t.let(f"call i64 @llvm.smax.i64(i64 %from, i64 {panels})")
    for first, last, before, name, place, names in (
        ("%from", end, "0", "pack_rows", "packed_x", _ROWS),
        (start, "%to", panels, "pack_columns", "packed_y", _COLUMNS),
    ):
        (packed,), operand = fields(t, place), tuple(fields(t, *names))
        with t.loop(first, last) as p:
            panel = t.op("sub", p, before)
            to = t.at(packed, t.op("mul", panel, _size(t, span)))
            _packed(t, name, operand, panel, to, span)
    return t.function("@pack_job(ptr %job, i64 %from, i64 %to)")


def _row_job(by_tiles: bool) -> str:
    """Some panels of rows, each packed right before it meets all columns."""
    t = Text(KIND, SIZE)
    span, columns, fault, packed = fields(t, "span", "column_panels", "fault", "packed_y")
    operand = tuple(fields(t, *_ROWS))
    room = t.op("mul", _size(t, span), SIZE)
    with memory(t, room, fault) as near, _with_tiles(t, by_tiles), t.loop("%from", "%to") as p:
        _packed(t, "pack_rows", operand, p, near, span)
        with t.loop(0, columns) as j:
            right = t.at(packed, t.op("mul", j, _size(t, span)))
            _sums_of_tile(t, p, j, near, right)
    return t.function("@row_job(ptr %job, i64 %from, i64 %to)")


def _tile_job(by_tiles: bool) -> str:
    """For one block of rows after the other, panels of columns with all rows of the block. Columns
    that few rows meet are packed right before."""
    t = Text(KIND, SIZE)
    span, panels, some, columns, lies, fault = fields(
        t, "span", "row_panels", "per_block", "column_panels", "y_lies", "fault"
    )
    (rows, packed), operand = fields(t, "packed_x", "packed_y"), tuple(fields(t, *_COLUMNS))
    is_late = t.let(f"icmp ne i64 {lies}, 0")
    room = t.op("mul", t.op("mul", _size(t, span), SIZE), lies)
    with memory(t, room, fault) as near, _with_tiles(t, by_tiles), t.loop("%from", "%to") as task:
        block, j = t.op("sdiv", task, columns), t.op("srem", task, columns)
        there = t.at(packed, t.op("mul", j, _size(t, span)))
        right = t.let(f"select i1 {is_late}, ptr {near}, ptr {there}")
        with t.where(is_late):
            _packed(t, "pack_columns", operand, j, near, span)
        first = t.op("mul", block, some)
        with t.loop(first, t.least(t.op("add", first, some), panels)) as p:
            left = t.at(rows, t.op("mul", p, _size(t, span)))
            _sums_of_tile(t, p, j, left, right)
    return t.function("@tile_job(ptr %job, i64 %from, i64 %to)")


@contextmanager
def _with_tiles(t: Text, by_tiles: bool) -> Iterator[None]:
    """The CPU's tiles are set up, and given back."""
    if by_tiles:
        t.put("call void @llvm.x86.ldtilecfg(ptr @shape)")
    yield
    if by_tiles:
        t.put("call void @llvm.x86.tilerelease()")


def _sums_of_tile(t: Text, p: str, j: str, left: str, right: str) -> None:
    """A panel of rows with one of columns, as both lie packed."""
    out, m, n, lead, span, narrow = fields(t, "out", "m", "n", "lead", "span", "add")
    is_narrow = t.let(f"icmp ne i64 {narrow}, 0")
    row, column = t.op("mul", p, SIDE), t.op("mul", j, SIDE)
    at = t.op("add", t.op("mul", row, lead), column)
    size = t.let(f"select i1 {is_narrow}, i64 {SIZE}, i64 4")
    to = t.let(f"getelementptr inbounds i8, ptr {out}, i64 {t.op('mul', at, size)}")
    rows, columns = (t.least(t.op("sub", e, at), SIDE) for e, at in ((m, row), (n, column)))
    both = ", ".join(f"{KIND} {t.load(panel)}" for panel in (left, right))
    t.put(
        f"call void @tile(i64 {t.op('sdiv', span, TERMS)}, ptr {t.at(left, LINE)}, "
        f"ptr {t.at(right, LINE)}, i64 {t.op('mul', span, LINES)}, "
        f"{KIND} {t.let(f'call {KIND} @llvm.umin.{KIND}({both})')}, ptr {to}, i64 {lead}, "
        f"i64 {rows}, i64 {columns}, i1 {is_narrow})"
    )


def _part() -> str:
    """A product of no more than ``product_sums.LONGEST`` terms: memory for what is packed, and the
    jobs. ``%narrow``: the result is of bfloat16, else of float32."""
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
    panel = t.op("mul", _size(t, span), SIZE)
    are_near = t.let(f"icmp sle i64 {t.op('mul', columns, panel)}, {NEAR}")
    by_rows = t.let(f"select i1 {is_late}, i1 false, i1 {are_near}")
    high = t.let(f"select i1 {by_rows}, i64 0, i64 {rows}")
    wide = t.let(f"select i1 {is_late}, i64 0, i64 {columns}")
    bytes_x, bytes_y = t.op("mul", high, panel), t.op("mul", wide, panel)
    with memory(t, t.op("add", bytes_x, bytes_y)) as found:
        known = {
            "x": "%x", "y": "%y", "out": "%out", "m": "%m", "n": "%n", "k": "%k",
            "lead": "%lead.out", "add": "%narrow", "span": span, "fault": "%fault",
            "x_row": stride(t, "x", "1", "%lead.x"), "x_inner": stride(t, "x", "%lead.x", "1"),
            "y_column": stride(t, "y", "%lead.y", "1"), "y_inner": stride(t, "y", "1", "%lead.y"),
            "packed_x": found, "row_panels": rows, "column_panels": columns, "per_block": some,
            "packed_y": t.let(f"getelementptr inbounds i8, ptr {found}, i64 {bytes_x}"),
            "x_lies": t.let(f"zext i1 {by_rows} to i64"),
            "y_lies": t.let(f"zext i1 {is_late} to i64"),
        }  # fmt: skip
        told(t, known)
        packs = t.op("add", high, wide)
        shared(t, "pack_job", packs, t.op("mul", packs, panel), LEAST_PACKED)
        work = t.op("mul", t.op("mul", "%m", "%n"), "%k")
        with t.where(by_rows):
            shared(t, "row_job", rows, work, LEAST_MULTIPLIED)
        with t.where(t.let(f"xor i1 {by_rows}, true")):
            tasks = t.op("mul", columns, whole(rows, some))
            shared(t, "tile_job", tasks, work, LEAST_MULTIPLIED)
    return t.function(f"@part({ARGUMENTS.replace('%adds', '%narrow')})")


def _entry(name: str) -> str:
    """Long sums are made in float32, whose parts go through float64, and rounded in the end."""
    t = Text(KIND, SIZE)
    is_long = t.let(f"icmp sgt i64 %k, {product_sums.LONGEST}")
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
                t.store(rounded(t, value, 1), to, 1)
    return t.function(f"@{name}({ARGUMENTS})", "")


# -- the module ------------------------------------------------------------------------------------
def text(name: str, by_tiles: bool) -> str:
    """The module with the product, as function ``name``; ``by_tiles``: the process may use AMX."""
    parts = [
        threads.IN_PIECES,
        *pool.DECLARATIONS,
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        *narrow_tiles.functions(by_tiles),
        _pack_job(),
        _row_job(by_tiles),
        _tile_job(by_tiles),
        _part(),
        *product_sums.functions("long", (KIND, SIZE), ("float", 4)),
        _entry(name),
        f"attributes #0 = {{ {jit.function_attributes()} }}",
    ]
    return "\n".join(parts) + "\n"
