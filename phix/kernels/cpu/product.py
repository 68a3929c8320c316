"""Products of matrices in machine code of our own, shared by the threads of the engine.

A library's product brings threads of its own, which wait for work on the cores that ours need. The
operands are first packed: ``x`` into panels of ROWS rows, ``y`` into panels of some vectors of
columns, both with the contracted dim outermost, so that a tile of the result is summed in registers
while two streams of memory are read in order. Threads share the panels, then the tiles; how a sum
is made depends on neither, so every number of threads gives the same bits.

``phix_product_<dtype>`` computes out = op(x) op(y), or adds that to out; see ``blas.wrapper``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, product

from phix.kernels.cpu import jit, pool, threads

# Sums run over so many products, then go to memory: two panels stay in the first cache or second,
# and a long sum is made of parts.
DEPTH = 512
# Bytes of packed columns that are read again and again for all rows before the next are.
BLOCK = 256 << 10
# An operand that meets so few panels of the other is read where it lies.
FEW = 2
# Multiplications below which a product is not shared.
LEAST_SHARED = 150_000
# Packed operands up to this many bytes need no memory from the pool.
ON_STACK = 32 << 10

_SIZES = {"float32": ("float", 4), "float64": ("double", 8)}
# What a product is told, in one block of int64 and pointers, in this order.
_FIELDS = (
    "x", "y", "out", "packed_x", "packed_y", "m", "n", "k", "x_row", "x_inner", "y_column",
    "y_inner", "lead", "add", "row_panels", "column_panels", "per_block", "x_lies", "y_lies",
)  # fmt: skip
_POINTERS = ("x", "y", "out", "packed_x", "packed_y")


@dataclass(frozen=True)
class Tile:
    """The tiles held in registers: ``rows`` and, as vectors of so many lanes, ``columns``.

    The first of each make the largest tile; smaller ones are for the edges of a matrix. Widths are
    multiples of 4.
    """

    rows: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(map(sum, self.columns))


def tile(dtype: str, vector_bytes: int, registers: int) -> Tile:
    """Tiles that leave registers for a row of y and one element of x."""
    lanes = vector_bytes // _SIZES[dtype][1]
    rows, vectors = ((12, 8, 1), 2) if registers >= 32 else ((4, 1), 3)
    half = ((lanes,) * (vectors - 1) + (lanes // 2,),) if lanes >= 8 else ()
    every = ((lanes,) * vectors, *half, (lanes,) * (vectors - 1))
    return Tile(rows, tuple(c for c in every if sum(c) % 4 == 0))


class _Text:
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
    def loop(self, start: str | int, end: str | int, step: str | int = 1) -> Iterator[str]:
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
        self.put(f"br label %test{n}")
        self.lines.append(f"end{n}:")

    @contextmanager
    def where(self, condition: str) -> Iterator[None]:
        self.count += 1
        n = self.count
        self.put(f"br i1 {condition}, label %then{n}, label %after{n}")
        self.lines.append(f"then{n}:")
        yield
        self.put(f"br label %after{n}")
        self.lines.append(f"after{n}:")

    def function(self, signature: str, linkage: str = "internal ") -> str:
        body = "\n".join(["entry:", *self.head, "  br label %start", "start:", *self.lines])
        return f"define {linkage}void {signature} #0 {{\n{body}\n  ret void\n}}"


# -- packing -------------------------------------------------------------------------------------
def _pack(kind: str, size: int, lanes: int) -> str:
    """``to[q * width + r] = from[r * row + q * inner]``, and 0 for r from ``count`` on.

    One of the strides is 1. Whole vectors, then fours, then the rest.
    """
    t = _Text(kind, size)
    unit = t.let("icmp eq i64 %row, 1")
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
    with t.loop(wide, fours, 4) as r:
        source = t.at("%from", t.op("mul", r, "%row"))
        with t.loop(0, squares, 4) as q:
            _transpose(t, t.at(source, q), t.at("%to", r, t.op("mul", q, "%width")))
        with t.where(unit), t.loop(0, "%k") as q:
            value = t.load(t.at(source, t.op("mul", q, "%inner")), 4)
            t.store(value, t.at("%to", r, t.op("mul", q, "%width")), 4)
    apart = t.let(f"select i1 {unit}, i64 %k, i64 {aligned}")
    _pack_rest(t, "0", fours, apart)  # the last steps of k, beside the squares
    part = t.least(t.op("add", fours, 4), "%width")
    _pack_rest(t, fours, part, "0")
    with t.loop(part, "%width", 4) as r, t.loop(0, "%k") as q:
        t.store("zeroinitializer", t.at("%to", r, t.op("mul", q, "%width")), 4)
    return t.function(
        "@pack(ptr %from, i64 %row, i64 %inner, i64 %count, i64 %k, ptr %to, i64 %width) noinline"
    )


def _pack_rest(t: _Text, first: str, end: str, start: str) -> None:
    """Element by element; rows from ``%count`` on are 0."""
    with t.loop(start, "%k") as q, t.loop(first, end) as r:
        inside = t.let(f"icmp slt i64 {r}, %count")
        row = t.let(f"select i1 {inside}, i64 {r}, i64 0")
        source = t.at("%from", t.op("mul", row, "%row"), t.op("mul", q, "%inner"))
        value = t.load(source)
        value = t.let(f"select i1 {inside}, {t.kind} {value}, {t.kind} 0.0")
        t.store(value, t.at("%to", r, t.op("mul", q, "%width")))


def _transpose(t: _Text, source: str, to: str) -> None:
    """Four elements of each of four rows, as four columns."""
    four = f"<4 x {t.kind}>"
    rows = [t.load(t.at(source, t.op("mul", "%row", r)), 4) for r in range(4)]

    def shuffled(a: str, b: str, *order: int) -> str:
        mask = ", ".join(f"i32 {n}" for n in order)
        return t.let(f"shufflevector {four} {a}, {four} {b}, <4 x i32> <{mask}>")

    low = [shuffled(rows[k], rows[k + 1], 0, 4, 1, 5) for k in (0, 2)]
    high = [shuffled(rows[k], rows[k + 1], 2, 6, 3, 7) for k in (0, 2)]
    orders = ((0, 1, 4, 5), (2, 3, 6, 7))
    columns = [shuffled(a, b, *order) for a, b in (low, high) for order in orders]
    for q, column in enumerate(columns):
        t.store(column, t.at(to, t.op("mul", "%width", q)), 4)


# -- one tile --------------------------------------------------------------------------------------
def _tile_function(kind: str, size: int, rows: int, columns: tuple[int, ...]) -> str:
    """``to = a b``, or that added to it: ``depth`` columns of a panel a by rows of a panel b."""
    t = _Text(kind, size)
    starts = [sum(columns[:c]) for c in range(len(columns))]
    vectors = [f"<{lanes} x {kind}>" for lanes in columns]
    offsets = [t.op("mul nsw", "%row", r) for r in range(rows)]
    t.put("br label %test")
    t.lines.append("test:")
    t.put("%q = phi i64 [0, %start], [%q.next, %body]")
    for r in range(rows):
        for c, vector in enumerate(vectors):
            t.put(f"%s{r}.{c} = phi {vector} [zeroinitializer, %start], [%n{r}.{c}, %body]")
    t.put("%more = icmp slt i64 %q, %depth")
    t.put("br i1 %more, label %body, label %sum")
    t.lines.append("body:")
    a, b = t.at("%a", t.op("mul nsw", "%q", "%inner")), t.at("%b", t.op("mul nsw", "%q", "%pitch"))
    row = [t.load(t.at(b, at), lanes) for at, lanes in zip(starts, columns)]
    for r in range(rows):
        factor = t.load(t.at(a, offsets[r]))
        for c, (vector, lanes) in enumerate(zip(vectors, columns)):
            spread = _spread(t, kind, factor, lanes)
            terms = f"{vector} {spread}, {vector} {row[c]}, {vector} %s{r}.{c}"
            t.put(f"%n{r}.{c} = call {vector} @llvm.fmuladd.{_mangled(kind, lanes)}({terms})")
    t.put("%q.next = add nuw nsw i64 %q, 1")
    t.put("br label %test")
    t.lines.append("sum:")
    _store_tile(t, rows, columns)
    return t.function(f"@tile_{rows}_{sum(columns)}({_TILE}) noinline")


def _mangled(kind: str, lanes: int) -> str:
    return f"v{lanes}f{32 if kind == 'float' else 64}"


def _spread(t: _Text, kind: str, scalar: str, lanes: int) -> str:
    vector = f"<{lanes} x {kind}>"
    one = t.let(f"insertelement {vector} poison, {kind} {scalar}, i64 0")
    return t.let(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer")


def _store_tile(t: _Text, rows: int, columns: tuple[int, ...]) -> None:
    """Put the sums into memory; at the edges of a matrix some rows and columns are not there."""
    starts = [sum(columns[:c]) for c in range(len(columns))]
    wide = t.let("trunc i64 %columns to i32")
    masks = []
    for at, lanes in zip(starts, columns):
        steps = ", ".join(f"i32 {at + n}" for n in range(lanes))
        every = _spread(t, "i32", wide, lanes)
        masks.append(t.let(f"icmp slt <{lanes} x i32> <{steps}>, {every}"))
    # what is not added to is not read: it may just have been written, by a store of other bytes
    t.put("br i1 %add, label %add0, label %set0")
    for label in ("set", "add"):
        for r in range(rows):
            t.lines.append(f"{label}{r}:")
            to = t.at("%to", t.op("mul nsw", "%lead", r))
            for c, lanes in enumerate(columns):
                vector, name = f"<{lanes} x {t.kind}>", _mangled(t.kind, lanes)
                place = f"ptr {t.at(to, starts[c])}, i32 {t.size}, <{lanes} x i1> {masks[c]}"
                new = f"%s{r}.{c}"
                if label == "add":
                    old = t.let(
                        f"call {vector} @llvm.masked.load.{name}.p0({place}, {vector} "
                        "zeroinitializer)"
                    )
                    new = t.let(f"fadd {vector} {old}, {new}")
                t.put(f"call void @llvm.masked.store.{name}.p0({vector} {new}, {place})")
            if r + 1 < rows:
                has = t.let(f"icmp slt i64 {r + 1}, %rows")
                t.put(f"br i1 {has}, label %{label}{r + 1}, label %done")
        t.put("br label %done")
    t.lines.append("done:")


# -- the whole product -----------------------------------------------------------------------------
def _fields(t: _Text, *names: str) -> list[str]:
    """What is known of the product, read from the block that a job is given."""
    found = []
    for name in names:
        at = t.let(f"getelementptr inbounds i64, ptr %job, i64 {_FIELDS.index(name)}")
        found.append(t.let(f"load {'ptr' if name in _POINTERS else 'i64'}, ptr {at}"))
    return found


def _panel(t: _Text, number: str, width: int, every: str) -> tuple[str, str]:
    """Where a panel starts, and how many of its rows or columns there are."""
    first = t.op("mul nsw", number, width)
    return first, t.least(t.op("sub", every, first), width)


def _width(t: _Text, count: str, widths: tuple[int, ...]) -> str:
    """The least width of a panel that holds so many."""
    width: str | int = widths[0]
    for smaller in widths[1:]:
        fits = t.let(f"icmp sle i64 {count}, {smaller}")
        width = t.let(f"select i1 {fits}, i64 {smaller}, i64 {width}")
    return str(width)


def _lying(t: _Text, lies: str, count: str, width: str, k: str, lead: str | None) -> str:
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


_X = ("x", "packed_x", "m", "x_row", "x_inner", "x_lies")
_Y = ("y", "packed_y", "n", "y_column", "y_inner", "y_lies")


def _pack_job(kind: str, size: int, tile: Tile) -> str:
    """Panels of x, then panels of y, each in its place; what is read where it lies is left out."""
    t = _Text(kind, size)
    panels, k = _fields(t, "row_panels", "k")
    last = t.least("%to", panels)
    start = t.let(f"call i64 @llvm.smax.i64(i64 %from, i64 {panels})")
    for first, end, before, widths, names in (
        ("%from", last, "0", tile.rows, _X),
        (start, "%to", panels, tile.widths, _Y),
    ):
        x, packed, every, row, inner, lies = _fields(t, *names)
        with t.loop(first, end) as p:
            at, count = _panel(t, t.op("sub", p, before), widths[0], every)
            width = _width(t, count, widths)
            lying = _lying(t, lies, count, width, k, inner if names is _Y else None)
            left = t.op("sub", k, lying)
            with t.where(t.let(f"icmp sgt i64 {left}, 0")):
                source = t.at(x, t.op("mul", at, row), t.op("mul", lying, inner))
                target = t.at(packed, t.op("mul", at, k), t.op("mul", lying, width))
                t.put(
                    f"call void @pack(ptr {source}, i64 {row}, i64 {inner}, i64 {count}, "
                    f"i64 {left}, ptr {target}, i64 {width})"
                )
    return t.function("@pack_job(ptr %job, i64 %from, i64 %to)")


def _left_panel(t: _Text, k: str, at: str, count: str, width: str) -> tuple[str, str, str]:
    """A panel of x, packed or as it lies: its address, and its strides."""
    x, packed, _, row, inner, lies = _fields(t, *_X)
    lying = t.let(f"icmp sgt i64 {_lying(t, lies, count, width, k, None)}, 0")
    there, moved = t.at(x, t.op("mul", at, row)), t.at(packed, t.op("mul", at, k))
    return (
        t.let(f"select i1 {lying}, ptr {there}, ptr {moved}"),
        t.let(f"select i1 {lying}, i64 {row}, i64 1"),
        t.let(f"select i1 {lying}, i64 {inner}, i64 {width}"),
    )


def _tile_job(kind: str, size: int, tile: Tile) -> str:
    """Blocks of columns; in each, for one panel of rows after the other, its tiles."""
    t = _Text(kind, size)
    out, m, k, panels, columns = _fields(t, "out", "m", "k", "row_panels", "column_panels")
    lead, add, per_block = _fields(t, "lead", "add", "per_block")
    y, packed, n, _, pitch, lies = _fields(t, *_Y)
    end = t.let(f"call i64 @llvm.smax.i64(i64 {k}, i64 1)")  # no terms: zeros are stored
    with t.loop("%from", "%to") as number:
        block, p = t.op("sdiv", number, panels), t.op("srem", number, panels)
        row, rows = _panel(t, p, tile.rows[0], m)
        height = _width(t, rows, tile.rows)
        left, step, inner = _left_panel(t, k, row, rows, height)
        begin = t.op("mul", block, per_block)
        with t.loop(begin, t.least(t.op("add", begin, per_block), columns)) as j:
            column, wide = _panel(t, j, tile.widths[0], n)
            width = _width(t, wide, tile.widths)
            lying = _lying(t, lies, wide, width, k, pitch)
            to = t.at(out, t.op("mul", row, lead), column)
            for first, last, right, apart in (
                ("0", lying, t.at(y, column), pitch),
                (lying, end, t.at(packed, t.op("mul", column, k)), width),
            ):
                with t.loop(first, last, DEPTH) as q:
                    adds = t.let(f"icmp ne i64 {t.op('or', add, q)}, 0")
                    depth = t.least(t.op("sub", t.least(last, k), q), DEPTH)
                    a, b = t.at(left, t.op("mul", q, inner)), t.at(right, t.op("mul", q, apart))
                    arguments = (
                        f"i64 {depth}, ptr {a}, i64 {step}, i64 {inner}, ptr {b}, i64 {apart}, "
                        f"ptr {to}, i64 {lead}, i64 {rows}, i64 {wide}, i1 {adds}"
                    )
                    t.put(f"call void @tile(i64 {height}, i64 {width}, {arguments})")
    return t.function("@tile_job(ptr %job, i64 %from, i64 %to)")


_TILE = (
    "i64 %depth, ptr %a, i64 %row, i64 %inner, ptr %b, i64 %pitch, ptr %to, i64 %lead, "
    "i64 %rows, i64 %columns, i1 %add"
)


def _tile_choice(kind: str, size: int, tile: Tile) -> str:
    """The tile of so many rows and columns."""
    t = _Text(kind, size)
    for rows, width in product(tile.rows, tile.widths):
        one = t.let(f"icmp eq i64 %height, {rows}")
        other = t.let(f"icmp eq i64 %width, {width}")
        with t.where(t.let(f"and i1 {one}, {other}")):
            t.put(f"call void @tile_{rows}_{width}({_TILE})")
    return t.function(f"@tile(i64 %height, i64 %width, {_TILE}) noinline")


def _entry(name: str, kind: str, size: int, tile: Tile) -> str:
    """Strides from flags and leads, memory for the panels, and the two jobs."""
    t = _Text(kind, size)
    t.put("%tx = icmp ne i64 %x.t, 0")
    t.put("%ty = icmp ne i64 %y.t, 0")

    def stride(flag: str, yes: str, no: str) -> str:
        return t.let(f"select i1 %{flag}, i64 {yes}, i64 {no}")

    def panels(count: str, width: int) -> str:
        return t.op("sdiv", t.op("add", count, width - 1), width)

    values = {
        "x": "%x", "y": "%y", "out": "%out", "m": "%m", "n": "%n", "k": "%k",
        "lead": "%lead.out", "add": "%adds",
        "x_row": stride("tx", "1", "%lead.x"), "x_inner": stride("tx", "%lead.x", "1"),
        "y_column": stride("ty", "%lead.y", "1"), "y_inner": stride("ty", "1", "%lead.y"),
        "row_panels": panels("%m", tile.rows[0]), "column_panels": panels("%n", tile.widths[0]),
    }  # fmt: skip
    few_columns = t.let(f"icmp sle i64 {values['column_panels']}, {FEW}")
    values["x_lies"] = t.let(f"zext i1 {few_columns} to i64")
    few_rows = t.let(f"icmp sle i64 {values['row_panels']}, {FEW}")
    as_is = t.let(f"icmp eq i64 {values['y_column']}, 1")
    values["y_lies"] = t.let(f"zext i1 {t.let(f'and i1 {few_rows}, {as_is}')} to i64")
    deep = t.let("call i64 @llvm.smax.i64(i64 %k, i64 1)")
    fit = t.op("sdiv", BLOCK // (size * tile.widths[0]), deep)
    values["per_block"] = t.let(f"call i64 @llvm.smax.i64(i64 {fit}, i64 1)")
    # whole panels: the next begins where the last element of this one may be padded
    high = t.op("mul", values["row_panels"], tile.rows[0])
    wide = t.op("mul", values["column_panels"], tile.widths[0])
    bytes_x, bytes_y = (t.op("mul", t.op("mul", c, "%k"), size) for c in (high, wide))
    every = t.op("add", bytes_x, bytes_y)
    t.head.append(f"  %job = alloca [{len(_FIELDS)} x i64]")
    t.head.append(f"  %near = alloca [{ON_STACK} x i8], align 64")
    t.head.append("  %memory = alloca ptr")
    is_large = t.let(f"icmp sgt i64 {every}, {ON_STACK}")
    t.put("store ptr %near, ptr %memory")
    with t.where(is_large):
        t.put(f"store ptr {t.let(f'call ptr @phix_take(i64 {every})')}, ptr %memory")
    values["packed_x"] = t.let("load ptr, ptr %memory")
    values["packed_y"] = t.let(
        f"getelementptr inbounds i8, ptr {values['packed_x']}, i64 {bytes_x}"
    )
    for number, field in enumerate(_FIELDS):
        at = t.let(f"getelementptr inbounds i64, ptr %job, i64 {number}")
        t.put(f"store {'ptr' if field in _POINTERS else 'i64'} {values[field]}, ptr {at}")
    blocks = t.op("sub", t.op("add", values["column_panels"], values["per_block"]), 1)
    blocks = t.op("sdiv", blocks, values["per_block"])
    tasks = t.op("mul", blocks, values["row_panels"])
    packs = t.op("add", values["row_panels"], values["column_panels"])
    work = t.op("mul", t.op("mul", "%m", "%n"), "%k")
    shares = t.let(f"icmp sge i64 {work}, {LEAST_SHARED}")
    alone = t.let(f"xor i1 {shares}, true")
    with t.where(shares):
        t.put(f"call void @phix_share(ptr @pack_job, ptr %job, i64 {packs}, i64 1)")
        t.put(f"call void @phix_share(ptr @tile_job, ptr %job, i64 {tasks}, i64 1)")
    with t.where(alone):
        t.put(f"call void @pack_job(ptr %job, i64 0, i64 {packs})")
        t.put(f"call void @tile_job(ptr %job, i64 0, i64 {tasks})")
    with t.where(is_large):
        t.put(f"call void @phix_give(ptr {values['packed_x']})")
    return t.function(f"@{name}({ARGUMENTS})", "")


# As ``blas.wrapper`` has them for gemm.
ARGUMENTS = (
    "i64 %x.t, i64 %y.t, i64 %adds, i64 %m, i64 %n, i64 %k, i64 %lead.x, i64 %lead.y, "
    "i64 %lead.out, ptr %x, ptr %y, ptr %out"
)


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines ``gemm_<dtype>``, and what it declares; None for other routines."""
    routine, _, dtype = library.rpartition("_")
    if routine != "gemm" or dtype not in _SIZES:
        return None
    kinds = ", ".join(a.split()[0] for a in ARGUMENTS.split(", "))
    called = f"call void @phix_product_{dtype}({ARGUMENTS})"
    return (
        f"define internal void @{library}({ARGUMENTS}) {{\n  {called}\n  ret void\n}}",
        f"declare void @phix_product_{dtype}({kinds})",
    )


def text(name: str, dtype: str, tile: Tile) -> str:
    """The module with the product of matrices of ``dtype``, as function ``name``."""
    kind, size = _SIZES[dtype]
    parts = [
        threads.DECLARATION,
        *pool.DECLARATIONS,
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
    ]
    for lanes in sorted(set(chain(*tile.columns))):
        vector, suffix = f"<{lanes} x {kind}>", _mangled(kind, lanes)
        masked = f"ptr, i32, <{lanes} x i1>"
        parts += [
            f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})",
            f"declare {vector} @llvm.masked.load.{suffix}.p0({masked}, {vector})",
            f"declare void @llvm.masked.store.{suffix}.p0({vector}, {masked})",
        ]
    parts += [
        _pack(kind, size, max(chain(*tile.columns))),
        *(_tile_function(kind, size, *shape) for shape in product(tile.rows, tile.columns)),
        _tile_choice(kind, size, tile),
        _pack_job(kind, size, tile),
        _tile_job(kind, size, tile),
        _entry(name, kind, size, tile),
        f"attributes #0 = {{ {jit.function_attributes()} }}",
    ]
    return "\n".join(parts) + "\n"


def provide(name: str) -> None:
    """See ``jit._provide``; ``name`` is ``phix_product_<dtype>``."""
    dtype = name.rsplit("_", 1)[1]
    jit.add_symbol(name, address(name, dtype, tile(dtype, *jit.vector_registers())))


def address(name: str, dtype: str, tile: Tile) -> int:
    """The machine code of a product, under a name that no other has."""
    pool.bind()
    threads.bind()
    (found,) = jit.addresses(text(name, dtype, tile), (name,), is_final=True)
    return found
