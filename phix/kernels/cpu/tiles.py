"""LLVM text of what a product of matrices is made of: packing of panels, and tiles in registers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TypeVar

from phix.core.records import dataclass
from phix.kernels.cpu import units

# What LLVM calls a dtype, and its bytes.
KINDS = {"float32": ("float", 4), "float64": ("double", 8)}
LINE = 64  # bytes of a cache line
# Terms of all rows that are packed before the next are: what they go to stays in the first cache.
SOME_TERMS = 64


@dataclass(frozen=True)
class Tile:
    """The tiles held in registers: ``rows``, and columns as so many ``vectors`` of ``lanes``.

    The first of each make the largest tile; smaller ones are for the edges of a matrix. Widths are
    multiples of 4; part of a vector would take as long as a whole one.
    """

    rows: tuple[int, ...]
    lanes: int
    vectors: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(count * self.lanes for count in self.vectors)

    @property
    def is_low(self) -> bool:
        """Whether it has few rows, so that its columns are most of what it reads."""
        return self.rows[0] <= 8

    @property
    def depth(self) -> int:
        """So many products are added up before sums go to memory: two panels stay in the first
        cache or second, and a long sum is made of parts."""
        return 512 if self.is_low else 256


def tile(dtype: str, vector_bytes: int, registers: int) -> Tile:
    """Tiles that leave registers for a row of y and one element of x."""
    lanes = vector_bytes // KINDS[dtype][1]
    rows, vectors = ((12, 8, 1), 2) if registers >= 32 else ((4, 1), 3)
    return Tile(rows, lanes, tuple(v for v in (vectors, vectors - 1) if v * lanes % 4 == 0))


Cell = TypeVar("Cell", bound=Hashable)
Sums = tuple[str, dict[Cell, str], dict[Cell, str]]


class Text:
    """LLVM text of a function under construction; loops count in memory, LLVM finds registers."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size = kind, size
        self.head: list[str] = []
        self.lines: list[str] = []
        self.count = 0

    def let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def put(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def op(self, name: str, a: str | int, b: str | int) -> str:
        return self.let(f"{name} i64 {a}, {b}")

    def least(self, a: str | int, b: str | int) -> str:
        return self.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def at(self, base: str, *offsets: str | int) -> str:
        """The address of the element so many elements behind ``base``."""
        for offset in offsets:
            base = self.let(f"getelementptr inbounds {self.kind}, ptr {base}, i64 {offset}")
        return base

    def load(self, address: str, lanes: int = 0) -> str:
        kind = f"<{lanes} x {self.kind}>" if lanes else self.kind
        return self.let(f"load {kind}, ptr {address}, align {self.size}")

    def store(self, value: str, address: str, lanes: int = 0) -> None:
        kind = f"<{lanes} x {self.kind}>" if lanes else self.kind
        self.put(f"store {kind} {value}, ptr {address}, align {self.size}")

    @contextmanager
    def loop(
        self, start: str | int, end: str | int, step: str | int = 1, advice: str = ""
    ) -> Iterator[str]:
        self.count += 1
        n = self.count
        self.head.append(f"  %slot{n} = alloca i64")
        self.put(f"store i64 {start}, ptr %slot{n}")
        self.put(f"br label %test{n}")
        self.lines.append(f"test{n}:")
        index = self.let(f"load i64, ptr %slot{n}")
        more = self.let(f"icmp slt i64 {index}, {end}")
        self.put(f"br i1 {more}, label %body{n}, label %end{n}")
        self.lines.append(f"body{n}:")
        yield index
        self.put(f"store i64 {self.op('add nsw', index, step)}, ptr %slot{n}")
        self.put(f"br label %test{n}{advice and ', '}{advice}")
        self.lines.append(f"end{n}:")

    @contextmanager
    def sums(self, kinds: dict[Cell, str], turns: int, advice: str) -> Iterator[Sums[Cell]]:
        """A loop of one turn or more that holds sums of these types in registers: its index, the
        sums before a turn, and the names they are to have behind it."""
        self.count += 1
        n = self.count
        now = {cell: f"%s{n}.{k}" for k, cell in enumerate(kinds)}
        self.put(f"br label %before{n}")
        self.lines += [f"before{n}:", f"  br label %terms{n}", f"terms{n}:"]
        self.put(f"%q{n} = phi i64 [0, %before{n}], [%q{n}.next, %terms{n}]")
        for cell, kind in kinds.items():
            zero = "zeroinitializer" if kind.startswith("<") else "0.0"
            name = now[cell]
            self.put(f"{name} = phi {kind} [{zero}, %before{n}], [{name}.next, %terms{n}]")
        yield f"%q{n}", now, {cell: f"{name}.next" for cell, name in now.items()}
        self.put(f"%q{n}.next = add nuw nsw i64 %q{n}, 1")
        self.put(f"%more{n} = icmp slt i64 %q{n}.next, {turns}")
        self.put(f"br i1 %more{n}, label %terms{n}, label %sum{n}, {advice}")
        self.lines.append(f"sum{n}:")

    @contextmanager
    def where(self, condition: str) -> Iterator[None]:
        self.count += 1
        n = self.count
        self.put(f"br i1 {condition}, label %then{n}, label %after{n}")
        self.lines.append(f"then{n}:")
        yield
        self.put(f"br label %after{n}")
        self.lines.append(f"after{n}:")

    def function(
        self, signature: str, linkage: str = "internal ", attributes: str = units.KERNEL
    ) -> str:
        body = "\n".join(["entry:", *self.head, "  br label %start", "start:", *self.lines])
        return f"define {linkage}void {signature} {attributes} {{\n{body}\n  ret void\n}}"


# -- packing -------------------------------------------------------------------------------------
def _pack(kind: str, size: int, tile: Tile) -> str:
    """``to[q * width + r] = from[r * row + q * inner]``, and 0 for r from ``count`` on.

    One of the strides is 1.
    """
    t = Text(kind, size)
    unit = t.let("icmp eq i64 %row, 1")
    # a part of a wider panel, of rows of x, may have as many as a whole one of columns
    fits = [t.let(f"icmp eq i64 {name}, {tile.widths[0]}") for name in ("%count", "%width")]
    is_whole = t.let(f"and i1 {unit}, {t.let(f'and i1 {fits[0]}, {fits[1]}')}")
    with t.where(is_whole):
        _pack_whole(t, tile)
    with t.where(t.let(f"xor i1 {is_whole}, true")):
        _pack_part(t, unit, tile.lanes)
    return t.function(
        "@pack(ptr %from, i64 %row, i64 %inner, i64 %count, i64 %k, ptr %to, i64 %width) noinline"
    )


def _pack_whole(t: Text, tile: Tile) -> None:
    """Row by row; down vectors of columns, lines of the first cache would come twice."""
    starts = range(0, tile.widths[0], tile.lanes)
    with t.loop(0, "%k") as q:
        source = t.at("%from", t.op("mul", q, "%inner"))
        to = t.at("%to", t.op("mul", q, tile.widths[0]))
        values = [t.load(t.at(source, at), tile.lanes) for at in starts]
        for value, at in zip(values, starts):
            t.store(value, t.at(to, at), tile.lanes)


def _pack_part(t: Text, unit: str, lanes: int) -> None:
    """Whole vectors, then fours, then the rest; ``unit`` says whether rows lie in order."""
    fours = t.op("and", "%count", -4)
    wide = t.op("and", "%count", -lanes)
    wide = t.let(f"select i1 {unit}, i64 {wide}, i64 0")
    if lanes > 4:
        with t.loop(0, wide, lanes) as r, t.loop(0, "%k") as q:
            value = t.load(t.at("%from", r, t.op("mul", q, "%inner")), lanes)
            t.store(value, t.at("%to", r, t.op("mul", q, "%width")), lanes)
    else:
        wide = "0"
    aligned = t.op("and", "%k", -4)
    squares = t.let(f"select i1 {unit}, i64 0, i64 {aligned}")
    with t.loop(0, squares, SOME_TERMS) as first, t.loop(wide, fours, 4) as r:
        source = t.at("%from", t.op("mul", r, "%row"))
        with t.loop(first, t.least(t.op("add", first, SOME_TERMS), squares), 4) as q:
            to = t.at("%to", r, t.op("mul", q, "%width"))
            transposed(t, t.at(source, q), "%row", to, "%width")
    with t.where(unit), t.loop(wide, fours, 4) as r, t.loop(0, "%k") as q:
        value = t.load(t.at("%from", r, t.op("mul", q, "%inner")), 4)
        t.store(value, t.at("%to", r, t.op("mul", q, "%width")), 4)
    apart = t.let(f"select i1 {unit}, i64 %k, i64 {aligned}")
    _pack_rest(t, "0", fours, apart)  # the last steps of k, beside the squares
    part = t.least(t.op("add", fours, 4), "%width")
    _pack_rest(t, fours, part, "0")
    with t.loop(part, "%width", 4) as r, t.loop(0, "%k") as q:
        t.store("zeroinitializer", t.at("%to", r, t.op("mul", q, "%width")), 4)


def _pack_rest(t: Text, first: str, end: str, start: str) -> None:
    """Element by element; rows from ``%count`` on are 0."""
    with t.loop(start, "%k") as q, t.loop(first, end) as r:
        inside = t.let(f"icmp slt i64 {r}, %count")
        row = t.let(f"select i1 {inside}, i64 {r}, i64 0")
        source = t.at("%from", t.op("mul", row, "%row"), t.op("mul", q, "%inner"))
        value = t.load(source)
        value = t.let(f"select i1 {inside}, {t.kind} {value}, {t.kind} 0.0")
        t.store(value, t.at("%to", r, t.op("mul", q, "%width")))


def transposed(t: Text, source: str, row: str | int, to: str, width: str | int) -> None:
    """Four elements of each of four rows, ``row`` apart, as four columns ``width`` apart."""
    four = f"<4 x {t.kind}>"
    rows = [t.load(t.at(source, t.op("mul", row, r)), 4) for r in range(4)]

    def shuffled(a: str, b: str, *order: int) -> str:
        mask = ", ".join(f"i32 {n}" for n in order)
        return t.let(f"shufflevector {four} {a}, {four} {b}, <4 x i32> <{mask}>")

    low = [shuffled(rows[k], rows[k + 1], 0, 4, 1, 5) for k in (0, 2)]
    high = [shuffled(rows[k], rows[k + 1], 2, 6, 3, 7) for k in (0, 2)]
    orders = ((0, 1, 4, 5), (2, 3, 6, 7))
    columns = [shuffled(a, b, *order) for a, b in (low, high) for order in orders]
    for q, column in enumerate(columns):
        t.store(column, t.at(to, t.op("mul", width, q)), 4)


# -- one tile --------------------------------------------------------------------------------------
_ARGUMENTS = (
    "i64 %depth, ptr %a, i64 %row, i64 %inner, ptr %b, i64 %pitch, ptr %to, i64 %lead, "
    "i64 %rows, i64 %columns, i1 %add, i1 %goes_on"
)


def _tile_function(kind: str, size: int, rows: int, vectors: int, tile: Tile) -> str:
    """``to = a b``, or that added to it: ``depth`` columns of a panel a by rows of a panel b.

    With ``%goes_on`` the sums begin with what ``to`` holds, where whole tiles can be read; high
    tiles are never asked for that. In the largest tile, rows of a that are packed, next to each
    other, have a loop of their own: where each of them is takes as many instructions as half of the
    sums otherwise.
    """
    t = Text(kind, size)
    vector = f"<{tile.lanes} x {kind}>"
    offsets = [t.op("mul nsw", "%row", r) for r in range(rows)]
    _ask_for(t, rows, vectors * tile.lanes)
    cells = list(product(range(rows), range(vectors)))
    before = _sums_before(t, cells, tile.lanes) if tile.is_low else {}
    t.put("br label %begin")
    t.lines.append("begin:")
    for cell in cells:
        come = f"[zeroinitializer, %start]{before.get(cell, '')}"
        t.put(f"{_named('first', cell)} = phi {vector} {come}")
    ways: dict[str, Sequence[str | int]] = {"lying": offsets}
    if (rows, vectors) == (tile.rows[0], tile.vectors[0]):
        ways = {"packed": range(rows), "lying": offsets}
        is_packed = t.let("icmp eq i64 %row, 1")
        t.put(f"br i1 {is_packed}, label %packed, label %lying")
    else:
        t.put("br label %lying")
    for way, places in ways.items():
        _sum_up(t, way, places, tile.lanes, cells)
    t.lines.append("sum:")
    for cell in cells:
        come = ", ".join(f"[{_named(way, cell)}, %{way}]" for way in ways)
        t.put(f"{_named('sum', cell)} = phi {vector} {come}")
    _store_tile(t, rows, vectors, tile.lanes)
    return t.function(f"@tile_{rows}_{vectors * tile.lanes}({_ARGUMENTS}) noinline")


# A row of a tile, and one of its vectors.
_Cell = tuple[int, int]


def _sums_before(t: Text, cells: Sequence[_Cell], lanes: int) -> dict[_Cell, str]:
    """What sums that go on begin with, in the block ``old``; else they begin in ``begin``."""
    t.put("br i1 %goes_on, label %old, label %begin")
    t.lines.append("old:")
    rows = {r: t.at("%to", t.op("mul nsw", "%lead", r)) for r, _ in cells}
    return {(r, c): f", [{t.load(t.at(rows[r], c * lanes), lanes)}, %old]" for r, c in cells}


def _named(what: str, cell: _Cell) -> str:
    return f"%{what}.{cell[0]}.{cell[1]}"


def _sum_up(
    t: Text,
    way: str,
    places: Sequence[str | int],
    lanes: int,
    cells: Sequence[_Cell],
) -> None:
    """A loop over the terms, from the block ``begin`` to ``sum``; in ``places`` are the elements of
    one column of a."""
    vector = f"<{lanes} x {t.kind}>"
    t.lines.append(f"{way}:")
    q = f"%{way}.q"
    t.put(f"{q} = phi i64 [0, %begin], [{q}.next, %{way}.body]")
    for cell in cells:
        come = f"[{_named('first', cell)}, %begin], [{_named(way, cell)}.next, %{way}.body]"
        t.put(f"{_named(way, cell)} = phi {vector} {come}")
    t.put(f"%{way}.more = icmp slt i64 {q}, %depth")
    t.put(f"br i1 %{way}.more, label %{way}.body, label %sum")
    t.lines.append(f"{way}.body:")
    a, b = t.at("%a", t.op("mul nsw", q, "%inner")), t.at("%b", t.op("mul nsw", q, "%pitch"))
    row = [t.load(t.at(b, c * lanes), lanes) for r, c in cells if r == 0]
    for r, c in cells:
        if not c:
            factor = spread(t, t.kind, t.load(t.at(a, places[r])), lanes)
        old = _named(way, (r, c))
        terms = f"{vector} {factor}, {vector} {row[c]}, {vector} {old}"
        t.put(f"{old}.next = call {vector} @llvm.fmuladd.{mangled(t.kind, lanes)}({terms})")
    t.put(f"{q}.next = add nuw nsw i64 {q}, 1")
    t.put(f"br label %{way}")


def _ask_for(t: Text, rows: int, width: int) -> None:
    """Fetch the lines that a tile goes to while its sums are made: its rows lie far apart."""
    last = t.op("sub", "%rows", 1)
    for r in range(rows):
        to = t.at("%to", t.op("mul nsw", "%lead", t.least(str(r), last)))
        for at in range(0, width, LINE // t.size):
            t.put(f"call void @llvm.prefetch.p0(ptr {t.at(to, at)}, i32 1, i32 3, i32 1)")


def mangled(kind: str, lanes: int) -> str:
    """A type of vectors, or of one number, in the name of an intrinsic."""
    return f"{f'v{lanes}' if lanes > 1 else ''}f{32 if kind == 'float' else 64}"


def spread(t: Text, kind: str, scalar: str, lanes: int) -> str:
    """One number in all lanes."""
    vector = f"<{lanes} x {kind}>"
    one = t.let(f"insertelement {vector} poison, {kind} {scalar}, i64 0")
    return t.let(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer")


def first_lanes(t: Text, count: str, lanes: int, before: int = 0) -> str:
    """A mask of those lanes, ``before`` and more on, that are below a count."""
    steps = ", ".join(f"i32 {before + n}" for n in range(lanes))
    every = spread(t, "i32", t.let(f"trunc i64 {count} to i32"), lanes)
    return t.let(f"icmp slt <{lanes} x i32> <{steps}>, {every}")


def _store_tile(t: Text, rows: int, vectors: int, lanes: int) -> None:
    """Put the sums into memory; at the edges of a matrix some rows and columns are not there."""
    starts = range(0, vectors * lanes, lanes)
    parts = [(at, first_lanes(t, "%columns", lanes, at)) for at in starts]
    whole = [(at, None) for at in starts]
    is_whole = t.let(f"icmp eq i64 %columns, {vectors * lanes}")
    # what is not added to is not read: it may just have been written, by a store of other bytes
    t.put("br i1 %add, label %added, label %set")
    t.lines.append("set:")
    t.put(f"br i1 {is_whole}, label %whole0, label %part0")
    _set_tile(t, "whole", rows, whole, lanes)
    _set_tile(t, "part", rows, parts, lanes)
    t.lines.append("added:")
    _add_tile(t, rows, is_whole, (whole, parts), lanes)
    t.put("br label %done")
    t.lines.append("done:")


# Vectors of a row of a tile: the first column, and which lanes are there; None: all. A masked store
# of whole vectors takes 12 cycles on some CPUs.
_Parts = Sequence[tuple[int, str | None]]


def _set_tile(t: Text, name: str, rows: int, parts: _Parts, lanes: int) -> None:
    """Put the sums where they belong; the blocks of the rows are named so."""
    for r in range(rows):
        t.lines.append(f"{name}{r}:")
        to = t.at("%to", t.op("mul nsw", "%lead", r))
        for c, (at, mask) in enumerate(parts):
            _store(t, _named("sum", (r, c)), t.at(to, at), lanes, mask)
        if r + 1 < rows:
            has = t.let(f"icmp slt i64 {r + 1}, %rows")
            t.put(f"br i1 {has}, label %{name}{r + 1}, label %done")
    t.put("br label %done")


def _add_tile(t: Text, rows: int, is_whole: str, each: tuple[_Parts, _Parts], lanes: int) -> None:
    """Add the sums to memory, by way of the stack: few products need it, and a loop is short."""
    width = len(each[0]) * lanes
    t.head.append(f"  %sums = alloca [{rows * width} x {t.kind}], align 64")
    for r, (c, (at, _)) in product(range(rows), enumerate(each[0])):
        t.store(_named("sum", (r, c)), t.at("%sums", r * width + at), lanes)
    is_part = t.let(f"xor i1 {is_whole}, true")
    for condition, vectors in zip((is_whole, is_part), each):
        with t.where(condition), t.loop(0, "%rows") as row:
            to = t.at("%to", t.op("mul nsw", "%lead", row))
            own = t.at("%sums", t.op("mul", row, width))
            for at, mask in vectors:
                old, new = _load(t, t.at(to, at), lanes, mask), t.load(t.at(own, at), lanes)
                total = t.let(f"fadd <{lanes} x {t.kind}> {old}, {new}")
                _store(t, total, t.at(to, at), lanes, mask)


def _load(t: Text, address: str, lanes: int, mask: str | None) -> str:
    if mask is None:
        return t.load(address, lanes)
    vector = f"<{lanes} x {t.kind}>"
    known = f"ptr {address}, i32 {t.size}, <{lanes} x i1> {mask}, {vector} zeroinitializer"
    return t.let(f"call {vector} @llvm.masked.load.{mangled(t.kind, lanes)}.p0({known})")


def _store(t: Text, value: str, address: str, lanes: int, mask: str | None) -> None:
    if mask is None:
        t.store(value, address, lanes)
        return
    place = f"ptr {address}, i32 {t.size}, <{lanes} x i1> {mask}"
    name = f"@llvm.masked.store.{mangled(t.kind, lanes)}.p0"
    t.put(f"call void {name}(<{lanes} x {t.kind}> {value}, {place})")


def _choice(kind: str, size: int, tile: Tile) -> str:
    """The tile of so many rows and columns."""
    t = Text(kind, size)
    for rows, width in product(tile.rows, tile.widths):
        one = t.let(f"icmp eq i64 %height, {rows}")
        other = t.let(f"icmp eq i64 %width, {width}")
        with t.where(t.let(f"and i1 {one}, {other}")):
            t.put(f"call void @tile_{rows}_{width}({_ARGUMENTS})")
    return t.function(f"@tile(i64 %height, i64 %width, {_ARGUMENTS}) noinline")


def functions(dtype: str, tile: Tile) -> list[str]:
    """Declarations, and the functions ``@pack`` and ``@tile``."""
    kind, size = KINDS[dtype]
    vector, suffix = f"<{tile.lanes} x {kind}>", mangled(kind, tile.lanes)
    masked = f"ptr, i32, <{tile.lanes} x i1>"
    return [
        f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})",
        f"declare {vector} @llvm.masked.load.{suffix}.p0({masked}, {vector})",
        f"declare void @llvm.masked.store.{suffix}.p0({vector}, {masked})",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        _pack(kind, size, tile),
        *(_tile_function(kind, size, *shape, tile) for shape in product(tile.rows, tile.vectors)),
        _choice(kind, size, tile),
    ]
