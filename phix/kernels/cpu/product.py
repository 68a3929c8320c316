"""Products of matrices in machine code of our own, shared by the threads of the engine.

A library's product brings threads of its own, which wait for work on the cores that ours need. The
operands are first packed: ``x`` into panels of some rows, ``y`` into panels of some vectors of
columns, both with the contracted dim outermost, so that a tile of the result is summed in registers
while two streams of memory are read in order. Threads share the panels, then the tiles; of many
columns each panel is packed by who needs it, right before, and low tiles have long sums of few rows
and columns made by ``product_spans``. How a sum is made depends on none of this, so every number of
threads gives the same bits.

``phix_product_<dtype>`` computes out = op(x) op(y), or adds that to out; see ``blas.wrapper``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phix.kernels.cpu import jit, pool, product_spans, product_sums, threads, tiles
from phix.kernels.cpu.fourier_call import forwarded
from phix.kernels.cpu.product_panels import (
    ARGUMENTS,
    LEAST_SHARED,
    X,
    Y,
    fields,
    holds,
    memory,
    operands,
    panel,
    shared,
    told,
    width_of,
)
from phix.kernels.cpu.tiles import KINDS, Text, Tile

# Bytes of packed columns that are read again and again for all rows before the next are: half of a
# second cache of today.
BLOCK = 512 << 10
# An operand that meets so few panels of the other is read where it lies; a right one that a second
# cache holds, of so many bytes, pays for its packing later still, where tiles are high.
FEW, FEW_OF_NEAR, NEAR = 2, 6, 1 << 20
# Low tiles read rows that meet so few panels of columns where they lie, and keep a panel of columns
# near while so many bytes of rows come from a second cache.
FEW_OF_LOW, GROUP = 10, 256 << 10
# Panels of columns are packed right before all rows meet them where threads have enough of them to
# share; low tiles where rows come from a third cache, so many bytes at most. Of rows that do not
# stay near, high ones meet some panels at a time, and need more of them to share.
LEAST_PANELS, LEAST_OF_FAR, FROM_THIRD = 6, 12, 8 << 20
# Pieces of each thread's panels of columns where tiles are high: the packed rows come from far for
# each of them.
FEW_PIECES = 2
# Rows of y that are packed at a time, across all panels: they are read in order.
TOGETHER = 8
# Elements to pack below which threads do not share them: some microseconds.
LEAST_PACKED = 32_000


def _lying(t: Text, lies: str, count: str, width: str, k: str, lead: str | None) -> str:
    """How many of the first rows of a panel, k of them, are read where they lie.

    A row of y that is read past its end, into the next ones, is one of them; the last are not.
    Of x, whose rows may be far apart, a panel that is not whole is packed.
    """
    missing = t.op("sub", width, count)
    if lead is None:
        is_whole = t.let(f"icmp eq i64 {missing}, 0")
        lying = t.let(f"select i1 {is_whole}, i64 {k}, i64 0")
    else:
        rows = t.op("sdiv", t.op("sub", t.op("add", missing, lead), 1), lead)
        lying = t.let(f"call i64 @llvm.smax.i64(i64 {t.op('sub', k, rows)}, i64 0)")
    return t.op("mul", lying, lies)


def _pack_job(kind: str, size: int, tile: Tile) -> str:
    """Panels of x, then panels of y, each in its place; what is read where it lies is left out.

    Rows of y that lie in order are taken a few at a time, across all panels: down one panel after
    the other, memory comes in pieces far apart.
    """
    t = Text(kind, size)
    panels, k = fields(t, "row_panels", "k")
    last = t.least("%to", panels)
    start = t.let(f"call i64 @llvm.smax.i64(i64 %from, i64 {panels})")
    for first, end, before, widths, names in (
        ("%from", last, "0", tile.rows, X),
        (start, "%to", panels, tile.widths, Y),
    ):
        x, packed, every, row, inner, lies = fields(t, *names)
        in_order = t.let(f"icmp eq i64 {row if names is Y else 0}, 1")
        some = t.let(f"select i1 {in_order}, i64 {TOGETHER}, i64 {k}")
        with t.loop(0, k, some) as q, t.loop(first, end) as p:
            at, count = panel(t, t.op("sub", p, before), widths, every)
            width = width_of(t, count, widths)
            lying = _lying(t, lies, count, width, k, inner if names is Y else None)
            behind = t.let(f"call i64 @llvm.smax.i64(i64 {q}, i64 {lying})")
            left = t.op("sub", t.least(t.op("add", q, some), k), behind)
            with t.where(t.let(f"icmp sgt i64 {left}, 0")):
                source = t.at(x, t.op("mul", at, row), t.op("mul", behind, inner))
                target = t.at(packed, t.op("mul", at, k), t.op("mul", behind, width))
                t.put(
                    f"call void @pack(ptr {source}, i64 {row}, i64 {inner}, i64 {count}, "
                    f"i64 {left}, ptr {target}, i64 {width})"
                )
    return t.function("@pack_job(ptr %job, i64 %from, i64 %to)")


def _left_panel(t: Text, k: str, at: str, count: str, width: str) -> tuple[str, str, str]:
    """A panel of x, packed or as it lies: its address, and its strides."""
    x, packed, _, row, inner, lies = fields(t, *X)
    lying = t.let(f"icmp sgt i64 {_lying(t, lies, count, width, k, None)}, 0")
    there, moved = t.at(x, t.op("mul", at, row)), t.at(packed, t.op("mul", at, k))
    return (
        t.let(f"select i1 {lying}, ptr {there}, ptr {moved}"),
        t.let(f"select i1 {lying}, i64 {row}, i64 1"),
        t.let(f"select i1 {lying}, i64 {inner}, i64 {width}"),
    )


def _tile_job(kind: str, size: int, tile: Tile) -> str:
    """Blocks of columns; in each, for one span of the sums after the other, all panels of rows."""
    t = Text(kind, size)
    panels, k, span, per_block, columns = fields(
        t, "row_panels", "k", "span", "per_block", "column_panels"
    )
    end = t.let(f"call i64 @llvm.smax.i64(i64 {k}, i64 1)")  # no terms: zeros are stored
    some = t.let(f"call i64 @llvm.smax.i64(i64 {panels}, i64 1)")
    behind = t.op("sdiv", t.op("sub", t.op("add", "%to", some), 1), some)
    with t.loop(t.op("sdiv", "%from", some), behind) as block:
        before = t.op("mul", block, panels)
        first = t.let(f"call i64 @llvm.smax.i64(i64 {t.op('sub', '%from', before)}, i64 0)")
        last = t.least(t.op("sub", "%to", before), panels)
        begin = t.op("mul", block, per_block)
        finish = t.least(t.op("add", begin, per_block), columns)
        with t.loop(0, end, span) as start:
            stop = t.least(t.op("add", start, span), end)
            with _tiles(t, tile, (first, last), (begin, finish)) as (p, j):
                _sums_of_tile(t, tile, p, j, start, stop)
    return t.function("@tile_job(ptr %job, i64 %from, i64 %to)")


def _panel_job(kind: str, size: int, tile: Tile) -> str:
    """Some panels of columns, one span of the sums after the other: packed, then met by all rows.

    What is packed is in a cache then; packed ahead, it would come back from further away.
    """
    t = Text(kind, size)
    panels, m, k, fault = fields(t, "row_panels", "m", "k", "fault")
    whole, some = tile.depth * tile.widths[0], "1"
    if not tile.is_low:
        some = t.let(f"select i1 {_are_near(t, tile, m, k)}, i64 1, i64 {BLOCK // (whole * size)}")
    end = t.let(f"call i64 @llvm.smax.i64(i64 {k}, i64 1)")  # no terms: zeros are stored
    with (
        memory(t, t.op("mul", some, whole * size), fault) as near,
        t.loop("%from", "%to", some) as first,
    ):
        last = t.least(t.op("add", first, some), "%to")
        with t.loop(0, end, tile.depth) as q:
            depth = t.least(t.op("sub", k, q), tile.depth)
            with t.loop(first, last) as j:
                to = t.at(near, t.op("mul", t.op("sub", j, first), whole))
                _pack_columns(t, tile, j, q, depth, to)
            with t.loop(0, panels) as p, t.loop(first, last) as j:
                packed = t.at(near, t.op("mul", t.op("sub", j, first), whole))
                _packed_tile(t, tile, p, j, q, depth, packed)
    return t.function("@panel_job(ptr %job, i64 %from, i64 %to)")


def _pack_columns(t: Text, tile: Tile, j: str, q: str, depth: str, to: str) -> None:
    """So many terms, from ``q`` on, of a panel of columns."""
    y, _, n, y_column, y_inner, _ = fields(t, *Y)
    column, wide = panel(t, j, tile.widths, n)
    source = t.at(y, t.op("mul", column, y_column), t.op("mul", q, y_inner))
    t.put(
        f"call void @pack(ptr {source}, i64 {y_column}, i64 {y_inner}, i64 {wide}, "
        f"i64 {depth}, ptr {to}, i64 {width_of(t, wide, tile.widths)})"
    )


def _packed_tile(t: Text, tile: Tile, p: str, j: str, q: str, depth: str, packed: str) -> None:
    """These terms of a panel of rows with a packed panel of columns."""
    m, k, out, lead, add, n = fields(t, "m", "k", "out", "lead", "add", "n")
    row, rows = panel(t, p, tile.rows, m)
    height = width_of(t, rows, tile.rows)
    left, step, inner = _left_panel(t, k, row, rows, height)
    column, wide = panel(t, j, tile.widths, n)
    width = width_of(t, wide, tile.widths)
    a, to = t.at(left, t.op("mul", q, inner)), t.at(out, t.op("mul", row, lead), column)
    adds = t.let(f"icmp ne i64 {t.op('or', add, q)}, 0")
    t.put(
        f"call void @tile(i64 {height}, i64 {width}, i64 {depth}, ptr {a}, i64 {step}, "
        f"i64 {inner}, ptr {packed}, i64 {width}, ptr {to}, i64 {lead}, i64 {rows}, "
        f"i64 {wide}, i1 {adds}, i1 false)"
    )


@contextmanager
def _tiles(
    t: Text, tile: Tile, rows: tuple[str, str], columns: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """A loop over tiles by their panels of rows and of columns; one of the two stays near.

    High tiles keep their rows in the first cache, to which the columns come from the second; of low
    ones, for which that is too slow, the columns stay, and the rows of some tiles come.
    """
    if not tile.is_low:
        with t.loop(*rows) as p, t.loop(*columns) as j:
            yield p, j
        return
    group = GROUP // (tile.depth * t.size * tile.rows[0])
    with (
        t.loop(*rows, group) as first,
        t.loop(*columns) as j,
        t.loop(first, t.least(t.op("add", first, group), rows[1])) as p,
    ):
        yield p, j


def _goes_by_panels(t: Text, tile: Tile, known: dict[str, str]) -> str:
    """Whether ``panel_job`` makes the product."""
    least = str(LEAST_PANELS)
    if not tile.is_low:
        is_near = _are_near(t, tile, "%m", "%k")
        least = t.let(f"select i1 {is_near}, i64 {LEAST_PANELS}, i64 {LEAST_OF_FAR}")
    conditions = [
        f"icmp eq i64 {known['y_lies']}, 0",
        f"icmp sge i64 {known['column_panels']}, {least}",
    ]
    if tile.is_low:
        conditions.append(f"icmp sle i64 {t.op('mul', '%m', '%k')}, {FROM_THIRD // t.size}")
    return holds(t, *conditions)


def _are_near(t: Text, tile: Tile, m: str, k: str) -> str:
    """Whether a second cache holds all rows of one span of the sums."""
    return t.let(f"icmp slt i64 {t.op('mul', m, t.least(k, tile.depth))}, {BLOCK // t.size}")


def _sums_of_tile(t: Text, tile: Tile, p: str, j: str, start: str, end: str) -> None:
    """Part of the sums, from ``start`` on, of a panel of rows with one of columns."""
    out, m, k, lead, add = fields(t, "out", "m", "k", "lead", "add")
    y, packed, n, _, pitch, lies = fields(t, *Y)
    row, rows = panel(t, p, tile.rows, m)
    height = width_of(t, rows, tile.rows)
    left, step, inner = _left_panel(t, k, row, rows, height)
    column, wide = panel(t, j, tile.widths, n)
    width = width_of(t, wide, tile.widths)
    lying = _lying(t, lies, wide, width, k, pitch)
    to = t.at(out, t.op("mul", row, lead), column)
    behind = t.let(f"call i64 @llvm.smax.i64(i64 {lying}, i64 {start})")
    for first, last, right, apart in (
        (start, t.least(lying, end), t.at(y, column), pitch),
        (behind, end, t.at(packed, t.op("mul", column, k)), width),
    ):
        with t.loop(first, last, tile.depth) as q:
            adds = t.let(f"icmp ne i64 {t.op('or', add, q)}, 0")
            depth = t.least(t.op("sub", t.least(last, k), q), tile.depth)
            a, b = t.at(left, t.op("mul", q, inner)), t.at(right, t.op("mul", q, apart))
            t.put(
                f"call void @tile(i64 {height}, i64 {width}, i64 {depth}, ptr {a}, i64 {step}, "
                f"i64 {inner}, ptr {b}, i64 {apart}, ptr {to}, i64 {lead}, i64 {rows}, "
                f"i64 {wide}, i1 {adds}, i1 false)"
            )


def _which_lie(t: Text, tile: Tile, known: dict[str, str]) -> tuple[str, str]:
    """Whether x, and y, is read where it lies, by how few panels of the other it meets."""

    def is_most(count: str, most: str | int) -> str:
        return t.let(f"icmp sle i64 {count}, {most}")

    def is_one(stride: str) -> str:
        return t.let(f"icmp eq i64 {known[stride]}, 1")

    def both(a: str, b: str) -> str:
        return t.let(f"and i1 {a}, {b}")

    x, most = is_most(known["column_panels"], FEW), str(FEW)
    if tile.is_low:
        in_order = both(is_one("x_inner"), is_most(known["column_panels"], FEW_OF_LOW))
        x = t.let(f"or i1 {x}, {in_order}")
    else:
        is_near = is_most(t.op("mul", "%n", "%k"), NEAR // t.size)
        most = t.let(f"select i1 {is_near}, i64 {FEW_OF_NEAR}, i64 {FEW}")
    y = both(is_one("y_column"), is_most(known["row_panels"], most))
    return t.let(f"zext i1 {x} to i64"), t.let(f"zext i1 {y} to i64")


def _span(t: Text, tile: Tile, known: dict[str, str]) -> str:
    """How long the sums are that are made of all rows before they go on: as those of a tile.

    The rows of x, so many columns of them, then stay in a cache while blocks of columns of y come.
    What lies where it is has few rows or columns; in order, it is read as it lies, to its end.
    """
    in_order = t.let(f"icmp eq i64 {known['x_inner']}, 1")
    rows_lie = t.let(f"select i1 {in_order}, i64 {known['x_lies']}, i64 0")
    is_near = t.let(f"icmp ne i64 {t.op('or', rows_lie, known['y_lies'])}, 0")
    whole = t.let("call i64 @llvm.smax.i64(i64 %k, i64 1)")
    return t.let(f"select i1 {is_near}, i64 {whole}, i64 {tile.depth}")


def _part(kind: str, size: int, tile: Tile) -> str:
    """A product of no more than ``product_sums.LONGEST`` terms."""
    t = Text(kind, size)
    goes_by_spans = product_spans.is_chosen(t, tile)
    if tile.is_low:
        with t.where(goes_by_spans):
            t.put(f"call void @by_spans({ARGUMENTS})")
    with t.where(t.let(f"xor i1 {goes_by_spans}, true")):
        t.put(f"call void @by_tiles({ARGUMENTS})")
    return t.function(f"@part({ARGUMENTS})")


def _by_tiles(kind: str, size: int, tile: Tile) -> str:
    """Memory for the panels, and the jobs."""
    t = Text(kind, size)
    values = operands(t, tile)
    values["x_lies"], values["y_lies"] = _which_lie(t, tile, values)
    values["fault"] = "%fault"
    values["span"] = _span(t, tile, values)
    is_by_panels = _goes_by_panels(t, tile, values)
    deep = t.least(t.let("call i64 @llvm.smax.i64(i64 %k, i64 1)"), values["span"])
    fit = t.op("sdiv", BLOCK // (size * tile.widths[0]), deep)
    per_block = values["per_block"] = t.let(f"call i64 @llvm.smax.i64(i64 {fit}, i64 1)")
    high = t.op("mul", values["row_panels"], tile.rows[0])
    ahead = t.let(f"select i1 {is_by_panels}, i64 0, i64 {values['column_panels']}")
    wide = t.op("mul", ahead, tile.widths[0])
    bytes_x, bytes_y = (t.op("mul", t.op("mul", c, "%k"), size) for c in (high, wide))
    blocks = t.op("sub", t.op("add", values["column_panels"], per_block), 1)
    tasks = t.op("mul", t.op("sdiv", blocks, per_block), values["row_panels"])
    packs = t.op("add", values["row_panels"], ahead)
    work = t.op("mul", t.op("mul", "%m", "%n"), "%k")
    moved = [
        t.let(f"select i1 {t.let(f'icmp eq i64 {values[lies]}, 0')}, i64 {count}, i64 0")
        for count, lies in (("%m", "x_lies"), (wide, "y_lies"))
    ]
    elements = t.op("mul", t.op("add", *moved), "%k")
    pieces = threads.PIECES_PER_THREAD if tile.is_low else FEW_PIECES
    with memory(t, t.op("add", bytes_x, bytes_y)) as found:
        packed_y = t.let(f"getelementptr inbounds i8, ptr {found}, i64 {bytes_x}")
        told(t, values | {"packed_x": found, "packed_y": packed_y})
        shared(t, "pack_job", packs, elements, LEAST_PACKED)
        with t.where(is_by_panels):
            shared(t, "panel_job", values["column_panels"], work, LEAST_SHARED, pieces)
        with t.where(t.let(f"xor i1 {is_by_panels}, true")):
            shared(t, "tile_job", tasks, work, LEAST_SHARED)
    return t.function(f"@by_tiles({ARGUMENTS})")


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines ``gemm_<dtype>``, and what it declares; None for other routines."""
    routine, _, dtype = library.rpartition("_")
    if routine != "gemm" or dtype not in (*KINDS, "bfloat16"):
        return None
    return forwarded(library, f"phix_product_{dtype}", ARGUMENTS)


def text(name: str, dtype: str, tile: Tile) -> str:
    """The module with the product of matrices of ``dtype``, as function ``name``."""
    kind, size = KINDS[dtype]
    parts = [
        threads.IN_PIECES,
        *pool.DECLARATIONS,
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        *tiles.functions(dtype, tile),
        _pack_job(kind, size, tile),
        _tile_job(kind, size, tile),
        _panel_job(kind, size, tile),
        _by_tiles(kind, size, tile),
        *product_spans.functions(kind, size, tile),
        _part(kind, size, tile),
        *product_sums.functions(name, (kind, size), (kind, size)),
        f"attributes #0 = {{ {jit.function_attributes()} }}",
    ]
    return "\n".join(parts) + "\n"
