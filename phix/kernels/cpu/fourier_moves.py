"""LLVM text that brings tensors into vectors of transforms, and back.

Scratch memory has two vectors for each point, real and imaginary parts. A lane is a transform, or
a place along one. ``apart`` says how many numbers an imaginary part is behind its real one; 1 in
tensors of complex numbers, 0: there are no imaginary parts, which are read as 0 and not written.
Where ``swap`` holds real and imaginary parts change places, which turns a transform into its
inverse.
"""

from __future__ import annotations

from collections.abc import Callable

from phix.kernels.cpu.fourier_text import Lanes, Pair
from phix.kernels.cpu.tiles import mangled, spread

# Squares of more points a side are transposed by a function: they take all registers.
_INLINE = 8


# -- lanes that lie side by side -----------------------------------------------------------------
def _mask(t: Lanes, count: str, first: int) -> str:
    """Which lanes of a vector are there, of ``count`` numbers from the ``first`` lane on."""
    numbers = ", ".join(f"i32 {first + n}" for n in range(t.lanes))
    every = spread(t, "i32", t.let(f"trunc i64 {count} to i32"), t.lanes)
    return t.let(f"icmp slt <{t.lanes} x i32> <{numbers}>, {every}")


def _masked_load(t: Lanes, at: str, mask: str) -> str:
    name = f"@llvm.masked.load.{mangled(t.kind, t.lanes)}.p0"
    given = f"ptr {at}, i32 {t.size}, <{t.lanes} x i1> {mask}, {t.vector} zeroinitializer"
    return t.let(f"call {t.vector} {name}({given})")


def _masked_store(t: Lanes, value: str, at: str, mask: str) -> None:
    name = f"@llvm.masked.store.{mangled(t.kind, t.lanes)}.p0"
    given = f"{t.vector} {value}, ptr {at}, i32 {t.size}, <{t.lanes} x i1> {mask}"
    t.put(f"call void {name}({given})")


def _by_kind(t: Lanes, one: Callable[[str, bool], None]) -> None:
    """A loop for each way that parts lie, over whole vectors or those that are not."""
    is_whole = t.let(f"icmp eq i64 %count, {t.lanes}")
    for kind, test in (("pairs", "eq i64 %apart, 1"), ("none", "eq i64 %apart, 0"),
                       ("planes", "ugt i64 %apart, 1")):  # fmt: skip
        is_kind = t.let(f"icmp {test}")
        for whole, condition in ((True, is_whole), (False, t.is_not(is_whole))):
            with t.where(t.let(f"and i1 {is_kind}, {condition}")):
                one(kind, whole)


def _load_columns(t: Lanes) -> str:
    lanes = t.lanes
    low, high = _mask(t, "%count", 0), ""
    twice = t.op("mul", "%count", 2)
    first, high = _mask(t, twice, 0), _mask(t, twice, lanes)

    def one(kind: str, whole: bool) -> None:
        def load(at: str, mask: str) -> str:
            return t.load(at, lanes) if whole else _masked_load(t, at, mask)

        with t.loop(0, "%points") as j:
            at = t.at("%from", t.op("mul", j, "%step"))
            if kind == "pairs":
                a, b = load(at, first), load(t.at(at, lanes), high)
                pair: Pair = t.parted(a, b)
            elif kind == "planes":
                pair = load(at, low), load(t.at(at, "%apart"), low)
            else:
                pair = load(at, low), t.number(0.0)
            t.put_pair(t.swapped("%swap", pair), "%to", j)

    _by_kind(t, one)
    return t.function(
        "@load_columns(ptr %from, i64 %step, i64 %apart, i64 %count, i64 %points, ptr %to, "
        "i1 %swap) noinline"
    )


def _store_columns(t: Lanes) -> str:
    lanes = t.lanes
    low, factor = _mask(t, "%count", 0), t.everywhere("%factor")
    twice = t.op("mul", "%count", 2)
    first, high = _mask(t, twice, 0), _mask(t, twice, lanes)

    def one(kind: str, whole: bool) -> None:
        def store(value: str, at: str, mask: str) -> None:
            if whole:
                t.store(value, at, lanes)
            else:
                _masked_store(t, value, at, mask)

        with t.loop(0, "%points") as j:
            at = t.at("%to", t.op("mul", j, "%step"))
            found = t.swapped("%swap", t.pair("%from", j))
            pair = t.mul(found[0], factor), t.mul(found[1], factor)
            if kind == "pairs":
                a, b = t.merged(pair)
                store(a, at, first)
                store(b, t.at(at, lanes), high)
                return
            store(pair[0], at, low)
            if kind == "planes":
                store(pair[1], t.at(at, "%apart"), low)

    _by_kind(t, one)
    return t.function(
        "@store_columns(ptr %to, i64 %step, i64 %apart, i64 %count, i64 %points, ptr %from, "
        f"i1 %swap, {t.kind} %factor) noinline"
    )


# -- lanes that lie apart ------------------------------------------------------------------------
def _lane(t: Lanes, base: str, lane: str) -> str:
    """Where the transform of a lane begins: one of ``inner`` side by side in a group."""
    number = t.op("add", "%first", lane)
    group = t.op("sdiv", number, "%inner")
    place = t.op("sub", number, t.op("mul", group, "%inner"))
    beside = t.op("mul", place, "%beside")
    return t.at(base, t.op("add", t.op("mul", group, "%group"), beside))


_APART = (
    "i64 %inner, i64 %group, i64 %beside, i64 %step, i64 %apart, i64 %first, i64 %count, "
    "i64 %begin, i64 %points"
)


def _gather(t: Lanes) -> str:
    """One lane after the other; those that nothing is in hold zeros."""
    has_imaginary = t.let("icmp ne i64 %apart, 0")
    width = 2 * t.lanes
    with t.loop(0, "%count") as lane:
        source = _lane(t, "%from", lane)
        ends = t.at("%to", lane), t.at("%to", lane, t.lanes)
        real = t.let(f"select i1 %swap, ptr {ends[1]}, ptr {ends[0]}")
        imaginary = t.let(f"select i1 %swap, ptr {ends[0]}, ptr {ends[1]}")
        with t.loop("%begin", "%points") as j:
            at, place = t.at(source, t.op("mul", j, "%step")), t.op("mul", j, width)
            other = t.let(f"select i1 {has_imaginary}, {t.kind} {t.load(t.at(at, '%apart'))}, "
                          f"{t.kind} 0.0")  # fmt: skip
            t.store(t.load(at), t.at(real, place))
            t.store(other, t.at(imaginary, place))
    with t.loop("%count", t.lanes) as lane, t.loop("%begin", "%points") as j:
        to = t.at("%to", lane, t.op("mul", j, width))
        t.store("0.0", to)
        t.store("0.0", t.at(to, t.lanes))
    return t.function(f"@gather(ptr %from, {_APART}, ptr %to, i1 %swap) noinline")


def _scatter(t: Lanes) -> str:
    has_imaginary = t.let("icmp ne i64 %apart, 0")
    width = 2 * t.lanes
    with t.loop(0, "%count") as lane:
        target = _lane(t, "%to", lane)
        ends = t.at("%from", lane), t.at("%from", lane, t.lanes)
        real = t.let(f"select i1 %swap, ptr {ends[1]}, ptr {ends[0]}")
        imaginary = t.let(f"select i1 %swap, ptr {ends[0]}, ptr {ends[1]}")
        with t.loop("%begin", "%points") as j:
            at, place = t.at(target, t.op("mul", j, "%step")), t.op("mul", j, width)
            value = t.let(f"fmul {t.kind} {t.load(t.at(real, place))}, %factor")
            t.store(value, at)
            with t.where(has_imaginary):
                value = t.let(f"fmul {t.kind} {t.load(t.at(imaginary, place))}, %factor")
                t.store(value, t.at(at, "%apart"))
    return t.function(
        f"@scatter(ptr %to, {_APART}, ptr %from, i1 %swap, {t.kind} %factor) noinline"
    )


# -- rows, a lane each: squares of so many points are transposed in registers ----------------------
def transposed(t: Lanes, rows: list[str]) -> list[str]:
    """Lane l of vector k as lane k of vector l."""
    lanes, apart = t.lanes, 1
    rows = list(rows)
    while apart < lanes:
        for k in range(lanes):
            if k & apart:
                continue
            a, b = rows[k], rows[k + apart]
            low = [n if not n & apart else lanes + n - apart for n in range(lanes)]
            high = [n + apart if not n & apart else lanes + n for n in range(lanes)]
            rows[k], rows[k + apart] = t.shuffled(a, b, low), t.shuffled(a, b, high)
        apart *= 2
    return rows


def _square(t: Lanes, source: str, pitch: str | int, count: str | int, to: str, apart: int) -> None:
    """``to[k, r] = source[r, k]``; the last row stands for those from ``count`` on."""
    given = f"ptr {source}, i64 {pitch}, i64 {count}, ptr {to}, i64 {apart}"
    if t.lanes > _INLINE:
        t.call("square", given)
        return
    rows = []
    for r in range(t.lanes):
        row = r if count == t.lanes else t.least(r, t.op("sub", count, 1))
        rows.append(t.load(t.at(source, t.op("mul", row, pitch)), t.lanes))
    for k, row in enumerate(transposed(t, rows)):
        t.store(row, t.at(to, k * apart), t.lanes)


def _large_square(t: Lanes) -> str:
    rows = []
    for r in range(t.lanes):
        row = t.least(r, t.op("sub", "%count", 1))
        rows.append(t.load(t.at("%from", t.op("mul", row, "%pitch")), t.lanes))
    for k, row in enumerate(transposed(t, rows)):
        t.store(row, t.at("%to", t.op("mul", "%apart", k)), t.lanes)
    return t.function("@square(ptr %from, i64 %pitch, i64 %count, ptr %to, i64 %apart) noinline")


def _near_squares(t: Lanes) -> None:
    """Memory for two squares: of real parts and of imaginary ones."""
    for name in ("real", "imaginary"):
        t.head.append(f"  %{name} = alloca [{t.lanes * t.lanes} x {t.kind}], align 64")


def _load_rows(t: Lanes) -> str:
    """Whole squares of complex numbers; the rest is gathered."""
    if t.lanes > _INLINE:
        _load_large(t)
    else:
        last = t.op("sub", "%count", 1)
        rows = [t.op("mul", t.least(str(r), last), "%pitch") for r in range(t.lanes)]
        with t.loop(0, "%points", t.lanes) as j:
            start = t.at("%from", t.op("mul", j, 2))
            pairs = [t.swapped("%swap", t.separated(t.at(start, row))) for row in rows]
            parts = [transposed(t, [p[k] for p in pairs]) for k in range(2)]
            for n, pair in enumerate(zip(*parts)):
                t.put_pair(pair, "%to", t.op("add", j, n))
    return t.function(
        "@load_rows(ptr %from, i64 %pitch, i64 %count, i64 %points, ptr %to, i1 %swap) noinline"
    )


def _load_large(t: Lanes) -> None:
    """By way of memory, where registers do not hold both parts."""
    _near_squares(t)
    lanes = t.lanes
    with t.loop(0, "%points", lanes) as j:
        with t.loop(0, "%count") as r:
            start = t.at("%from", t.op("mul", r, "%pitch"), t.op("mul", j, 2))
            pair = t.swapped("%swap", t.separated(start))
            for name, value in zip(("%real", "%imaginary"), pair):
                t.store(value, t.at(name, t.op("mul", r, lanes)), lanes)
        to = t.at("%to", t.op("mul", j, 2 * lanes))
        for name, target in (("%real", to), ("%imaginary", t.at(to, lanes))):
            _square(t, name, lanes, "%count", target, 2 * lanes)


def _store_rows(t: Lanes) -> str:
    """Whole squares of complex numbers."""
    factor = t.everywhere("%factor")
    if t.lanes > _INLINE:
        _store_large(t, factor)
    else:
        with t.loop(0, "%points", t.lanes) as j:
            pairs = [t.swapped("%swap", t.pair("%from", t.op("add", j, n))) for n in range(t.lanes)]
            parts = [transposed(t, [t.mul(p[k], factor) for p in pairs]) for k in range(2)]
            start = t.at("%to", t.op("mul", j, 2))
            for r, pair in enumerate(zip(*parts)):
                with t.where(t.let(f"icmp slt i64 {r}, %count")):
                    t.interleaved(pair, t.at(start, t.op("mul", "%pitch", r)))
    return t.function(
        "@store_rows(ptr %to, i64 %pitch, i64 %count, i64 %points, ptr %from, i1 %swap, "
        f"{t.kind} %factor) noinline"
    )


def _store_large(t: Lanes, factor: str) -> None:
    _near_squares(t)
    lanes = t.lanes
    with t.loop(0, "%points", lanes) as j:
        source = t.at("%from", t.op("mul", j, 2 * lanes))
        for name, start in (("%real", source), ("%imaginary", t.at(source, lanes))):
            _square(t, start, 2 * lanes, lanes, name, lanes)
        with t.loop(0, "%count") as r:
            places = [t.at(name, t.op("mul", r, lanes)) for name in ("%real", "%imaginary")]
            found = [t.mul(t.load(place, lanes), factor) for place in places]
            pair = t.swapped("%swap", (found[0], found[1]))
            t.interleaved(pair, t.at("%to", t.op("mul", "%pitch", r), t.op("mul", j, 2)))


def _load_turned(t: Lanes) -> str:
    """Rows of memory of our own, real parts and imaginary ones apart, read to whole vectors."""
    lanes = t.lanes
    with t.loop(0, "%points", lanes) as j:
        source, to = t.at("%from", j), t.at("%to", t.op("mul", j, 2 * lanes))
        for start, target in ((source, to), (t.at(source, "%apart"), t.at(to, lanes))):
            _square(t, start, "%pitch", "%count", target, 2 * lanes)
    return t.function(
        "@load_turned(ptr %from, i64 %pitch, i64 %apart, i64 %count, i64 %points, ptr %to) noinline"
    )


def text(kind: str, size: int, lanes: int) -> list[str]:
    """All of these functions, and what they declare."""
    vector, name, mask = f"<{lanes} x {kind}>", mangled(kind, lanes), f"<{lanes} x i1>"
    makers = [
        _load_columns, _store_columns, _gather, _scatter, _load_rows, _store_rows, _load_turned
    ]  # fmt: skip
    if lanes > _INLINE:
        makers.append(_large_square)
    return [
        f"declare {vector} @llvm.masked.load.{name}.p0(ptr, i32, {mask}, {vector})",
        f"declare void @llvm.masked.store.{name}.p0({vector}, ptr, i32, {mask})",
        *(make(Lanes(kind, size, lanes)) for make in makers),
    ]
