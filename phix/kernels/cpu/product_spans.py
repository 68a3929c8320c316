"""Products of few rows and columns, and long sums, by spans of these: as gradients of weights are.

Their operands are read once, and packing them takes as long as the multiplications. A span of
``Tile.depth`` terms is made by one thread, in a part of the result that is its own, some terms of
all rows and columns before the next: these stay in the first cache, where they lie. The parts are
added up in their order, so the results have the bits of the other ways.
"""

from __future__ import annotations

from phix.kernels.cpu import product_panels as panels
from phix.kernels.cpu.product_panels import ARGUMENTS, LEAST_SHARED, X, Y, fields
from phix.kernels.cpu.tiles import LINE, Text, Tile

# Bytes of the largest part, and of the terms that come before the next; the fewest of these.
PART, NEAREST, LEAST_DEPTH = 32 << 10, 24 << 10, 48
# Bytes of an operand that a second cache and its fetching ahead bring in time.
NEAR = 1 << 20


def is_chosen(t: Text, tile: Tile) -> str:
    """Whether a product is made so: where memory has its terms one after the other.

    Two panels of rows that lie in order are packed, a few terms at a time. High tiles were not
    measured.
    """
    if not tile.is_low:
        return "false"
    known = panels.operands(t, tile)
    has_two = t.let(f"icmp eq i64 {known['row_panels']}, 2")
    is_turned = t.let(f"icmp eq i64 {known['x_row']}, 1")
    return panels.holds(
        t,
        f"or i1 {has_two}, {is_turned}",
        f"icmp sgt i64 {known['row_panels']}, 1",
        f"icmp eq i64 {known['y_column']}, 1",
        f"icmp sgt i64 %k, {tile.depth}",
        "icmp sgt i64 %n, 0",  # what is asked for is shared by tiles
        f"icmp sle i64 {t.op('mul', '%m', '%n')}, {PART // t.size}",
    )


def product(kind: str, size: int, tile: Tile) -> str:
    """Memory for the parts and for what is packed, all spans, and the sum of the parts."""
    t = Text(kind, size)
    values = panels.operands(t, tile)
    spans = t.op("sdiv", t.op("add", "%k", tile.depth - 1), tile.depth)
    fit = t.op("sdiv", NEAREST // size, t.op("add", "%m", "%n"))
    deep = t.let(f"call i64 @llvm.smax.i64(i64 {fit}, i64 {LEAST_DEPTH})")
    values["span"] = deep = t.least(deep, tile.depth)
    high, wide = _padded(t, tile, values["row_panels"], values["column_panels"])
    parts = t.op("mul", t.op("mul", high, wide), spans)
    near = t.op("mul", t.op("mul", t.op("add", high, wide), deep), spans)
    with panels.memory(t, t.op("mul", t.op("add", parts, near), size)) as found:
        values |= {"packed_x": found, "packed_y": t.at(found, parts)}
        panels.told(t, values)
        work = t.op("mul", t.op("mul", "%m", "%n"), "%k")
        panels.shared(t, "span_job", spans, work, LEAST_SHARED)
        t.put(f"call void @add_parts(ptr %job, i64 {spans})")
    return t.function(f"@by_spans({ARGUMENTS})")


def _padded(t: Text, tile: Tile, row_panels: str, column_panels: str) -> tuple[str, str]:
    """The rows and columns of a part, which holds whole tiles."""
    return t.op("mul", row_panels, tile.rows[0]), t.op("mul", column_panels, tile.widths[0])


def span_job(kind: str, size: int, tile: Tile) -> str:
    """Spans of the sums, each with its part of the result.

    A tile may read past the end of a row, into the next ones; the last terms have none behind
    them, and are packed.
    """
    t = Text(kind, size)
    k, parts, near, deep = fields(t, "k", "packed_x", "packed_y", "span")
    x_row, x_inner, y_inner = fields(t, "x_row", "x_inner", "y_inner")
    high, wide = _padded(t, tile, *fields(t, "row_panels", "column_panels"))
    packed_x = t.at(near, t.op("mul", t.op("mul", "%from", t.op("add", high, wide)), deep))
    packed_y = t.at(packed_x, t.op("mul", high, deep))
    is_turned = t.let(f"icmp eq i64 {x_row}, 1")
    with t.loop("%from", "%to") as s:
        start = t.op("mul", s, tile.depth)
        end = t.least(t.op("add", start, tile.depth), k)
        part = t.at(parts, t.op("mul", s, t.op("mul", high, wide)))
        with t.loop(start, end, deep) as q:
            depth = t.least(t.op("sub", end, q), deep)
            behind = t.op("sub", t.op("sub", k, q), depth)
            y_lies = t.let(f"icmp sge i64 {t.op('mul', behind, y_inner)}, {tile.widths[0]}")
            is_whole = t.let(f"icmp sge i64 {t.op('mul', behind, x_inner)}, {tile.rows[0]}")
            x_lies = t.let(f"and i1 {is_turned}, {is_whole}")
            goes_on = t.let(f"icmp sgt i64 {q}, {start}")
            x = _Operand(t, X, tile.rows, "row_panels", packed_x, (q, depth), x_lies)
            y = _Operand(t, Y, tile.widths, "column_panels", packed_y, (q, depth), y_lies)
            x.pack()
            y.pack()
            tiles = t.op("mul", y.panels, x.panels)
            shares = [(operand, operand.share(tiles)) for operand in (x, y)]
            with t.loop(0, y.panels) as j, t.loop(0, x.panels) as p:
                number = t.op("add", t.op("mul", j, x.panels), p)
                for operand, share in shares:
                    operand.ask_for(number, share)
                (row, height, a, step, inner), (column, width, b, _, pitch) = x.panel(p), y.panel(j)
                to = t.at(part, t.op("mul", row, wide), column)
                t.put(
                    f"call void @tile(i64 {height}, i64 {width}, i64 {depth}, ptr {a}, i64 {step}, "
                    f"i64 {inner}, ptr {b}, i64 {pitch}, ptr {to}, i64 {wide}, i64 {height}, "
                    f"i64 {width}, i1 false, i1 {goes_on})"
                )
    return t.function("@span_job(ptr %job, i64 %from, i64 %to)")


class _Operand:
    """Some terms of x or of y: panels as they lie or, where ``lies`` does not hold, packed."""

    def __init__(
        self, t: Text, names: tuple[str, ...], widths: tuple[int, ...], panels_of: str,
        packed: str, terms: tuple[str, str], lies: str,
    ) -> None:  # fmt: skip
        self.t, self.widths, self.packed, self.lies = t, widths, packed, lies
        self.first, self.depth = terms
        self.x, _, self.count, self.row, self.inner, _ = fields(t, *names)
        self.panels, self.every = fields(t, panels_of, "k")

    def pack(self) -> None:
        t = self.t
        with t.where(t.let(f"xor i1 {self.lies}, true")), t.loop(0, self.panels) as p:
            at, count = panels.panel(t, p, self.widths, self.count)
            t.put(
                f"call void @pack(ptr {self._lying(at)}, i64 {self.row}, i64 {self.inner}, "
                f"i64 {count}, i64 {self.depth}, ptr {self._moved(at)}, "
                f"i64 {panels.width_of(t, count, self.widths)})"
            )

    def share(self, tiles: str) -> str:
        """The lines of the next terms that are asked for with each tile; none of what is near."""
        t = self.t
        is_far = t.let(f"icmp sgt i64 {t.op('mul', self.every, self.inner)}, {NEAR // t.size}")
        lines = t.op("sdiv", t.op("mul", self.depth, self.inner), LINE // t.size)
        return t.let(f"select i1 {is_far}, i64 {t.op('add', t.op('sdiv', lines, tiles), 1)}, i64 0")

    def ask_for(self, number: str, share: str) -> None:
        """Have lines of the next terms come, of which a tile reads little in many places."""
        t, line = self.t, LINE // self.t.size
        start = t.op("mul", t.op("add", self.first, self.depth), self.inner)
        first = t.op("mul", number, share)
        with t.loop(first, t.op("add", first, share)) as n:
            place = t.at(self.x, t.op("add", start, t.op("mul", n, line)))
            t.put(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 2, i32 1)")

    def panel(self, number: str) -> tuple[str, str, str, str, str]:
        """Its first row or column, how many of these a tile has, its address, and its strides."""
        t = self.t
        at, count = panels.panel(t, number, self.widths, self.count)
        width = panels.width_of(t, count, self.widths)
        return (
            at, width,
            t.let(f"select i1 {self.lies}, ptr {self._lying(at)}, ptr {self._moved(at)}"),
            t.let(f"select i1 {self.lies}, i64 {self.row}, i64 1"),
            t.let(f"select i1 {self.lies}, i64 {self.inner}, i64 {width}"),
        )  # fmt: skip

    def _lying(self, at: str) -> str:
        t = self.t
        return t.at(self.x, t.op("mul", at, self.row), t.op("mul", self.first, self.inner))

    def _moved(self, at: str) -> str:
        return self.t.at(self.packed, self.t.op("mul", at, self.depth))


def add_parts(kind: str, size: int, tile: Tile) -> str:
    """The sum of the parts, in their order, and of what is in the result if that is added to."""
    t = Text(kind, size)
    m, n, parts, out, lead, add = fields(t, "m", "n", "packed_x", "out", "lead", "add")
    high, wide = _padded(t, tile, *fields(t, "row_panels", "column_panels"))
    lanes = tile.lanes
    whole = t.op("sub", n, t.op("srem", n, lanes))
    with t.loop(0, "%spans") as s, t.loop(0, m) as row:
        adds = t.let(f"icmp ne i64 {t.op('or', add, s)}, 0")
        part = t.at(parts, t.op("mul", t.op("add", t.op("mul", s, high), row), wide))
        to = t.at(out, t.op("mul", row, lead))
        for first, end, width in (("0", whole, lanes), (whole, n, 0)):
            of = f"<{width} x {kind}>" if width else kind
            with t.loop(first, end, width or 1) as column:
                value, place = t.load(t.at(part, column), width), t.at(to, column)
                both = t.let(f"fadd {of} {t.load(place, width)}, {value}")
                t.store(t.let(f"select i1 {adds}, {of} {both}, {of} {value}"), place, width)
    return t.function("@add_parts(ptr %job, i64 %spans)")


def functions(kind: str, size: int, tile: Tile) -> list[str]:
    """The function ``@by_spans``, and what it calls; none for high tiles."""
    made = (span_job, add_parts, product) if tile.is_low else ()
    return [make(kind, size, tile) for make in made]
