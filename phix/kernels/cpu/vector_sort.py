"""Sorting of unsigned ints by vectors, in machine code of our own.

A row is parted by a pivot: of each vector the keys below it are moved together, which is one
instruction of AVX-512, and go to the front; the others go to room beside, and are not put back
but parted from there. Parts that fit into some registers are sorted there, by a network of minima
and maxima, and stored where they belong. A pivot is a median of some keys. Where such guesses have
parted badly too often, it is the middle between the least and the largest key: as often as a key
has bits, and any row is parted.
"""

from __future__ import annotations

from phix.kernels.cpu import jit
from phix.kernels.cpu.tiles import spread
from phix.kernels.cpu.vector_keys import Keys, Network, extreme
from phix.kernels.loops.target import PARTS

# Registers of the networks, and vectors that are moved in one turn.
_REGISTERS, _AT_ONCE = (2, 4, 8), 4
# Bad pivots that are put up with, for each halving of a row.
_PATIENCE = 2
_EXTREMES = ("umin", "umax")
_COMPRESS = "@llvm.experimental.vector.compress"


def _few(size: int, lanes: int, count: int) -> str:
    """``n`` keys that fit into so many registers; behind them are the largest there are."""
    t = Keys(size, lanes)
    at = [k * lanes for k in range(count)]
    masks = [t.lanes_below(t.op("sub", "%n", first)) for first in at]
    loaded = [t.masked(t.at("%from", first), mask, t.every) for first, mask in zip(at, masks)]
    for vector, first, mask in zip(Network(t, loaded).sorted(), at, masks):
        t.put_masked(vector, t.at("%keys", first), mask)
    return t.function(f"@few{count}(ptr %from, ptr %keys, i64 %n) noinline")


def _part(size: int, lanes: int) -> str:
    """Keys below a pivot go to ``keys``, the others to ``room``; ``count`` becomes how many are
    below. They come from either: what is stored there lies where keys have been read."""
    t = Keys(size, lanes)
    pivot = spread(t, t.kind, "%pivot", lanes)
    low, high = t.variable("i64", 0), t.variable("i64", 0)
    whole = t.op("and", "%n", -lanes * _AT_ONCE)
    with t.loop(0, whole, lanes * _AT_ONCE) as i:
        loaded = [t.load(t.at("%from", i, k * lanes), lanes) for k in range(_AT_ONCE)]
        for vector in loaded:
            is_low = t.is_below(vector, pivot)
            is_high = t.let(f"xor {t.mask} {is_low}, splat (i1 true)")
            for base, end, mask in (("%keys", low, is_low), ("%room", high, is_high)):
                t.store(_together(t, vector, mask), t.at(base, t.value(end)), lanes)
            below = _count(t, is_low)
            t.increased(low, below)
            t.increased(high, t.op("sub", lanes, below))
    with t.loop(whole, "%n", lanes) as i:
        there = t.lanes_below(t.op("sub", "%n", i))
        vector = t.masked(t.at("%from", i), there, t.none)
        is_low = t.let(f"and {t.mask} {t.is_below(vector, pivot)}, {there}")
        is_high = t.let(f"xor {t.mask} {is_low}, {there}")
        for base, end, mask in (("%keys", low, is_low), ("%room", high, is_high)):
            count = _count(t, mask)
            into = t.at(base, t.value(end))
            t.put_masked(_together(t, vector, mask), into, t.lanes_below(count))
            t.increased(end, count)
    t.put(f"store i64 {t.value(low)}, ptr %count")
    return t.function(
        f"@part(ptr %from, i64 %n, {t.kind} %pivot, ptr %keys, ptr %room, ptr %count) noinline"
    )


def _together(t: Keys, vector: str, mask: str) -> str:
    """The keys under a mask in the first lanes."""
    passed = f"{t.vector} {vector}, {t.mask} {mask}, {t.vector} poison"
    return t.let(f"call {t.vector} {_COMPRESS}.{t.mangled}({passed})")


def _count(t: Keys, mask: str) -> str:
    bits = t.let(f"bitcast {t.mask} {mask} to i{t.lanes}")
    count = t.let(f"call i{t.lanes} @llvm.ctpop.i{t.lanes}(i{t.lanes} {bits})")
    return t.let(f"zext i{t.lanes} {count} to i64")


def _copy(t: Keys, source: str, to: str, count: str) -> None:
    with t.loop(0, count, t.lanes) as i:
        mask = t.lanes_below(t.op("sub", count, i))
        t.put_masked(t.masked(t.at(source, i), mask, t.none), t.at(to, i), mask)


def _quick(size: int, lanes: int) -> str:
    """Sort ``n`` keys to ``keys``: those that lie ``from`` there on, or in ``room``, which is as
    long. ``patience`` is how often a pivot may still be a guess."""
    t = Keys(size, lanes)
    lies, to, left = t.variable("ptr", "%from"), t.variable("ptr", "%keys"), t.variable("i64", "%n")
    patience, count = t.variable("i64", "%patience"), t.variable("i64", 0)
    t.put("br label %again")
    t.lines.append("again:")
    source, keys, n = t.value(lies, "ptr"), t.value(to, "ptr"), t.value(left)
    is_small = t.let(f"icmp sle i64 {n}, {lanes * _REGISTERS[-1]}")
    t.put(f"br i1 {is_small}, label %small, label %large")
    t.lines.append("large:")
    pivot = _pivot(t, source, n, patience)
    rest = f"ptr {keys}", "ptr %room", f"ptr {count}"
    t.call("part", f"ptr {source}", f"i64 {n}", f"{t.kind} {pivot}", *rest)
    is_least = t.let(f"icmp eq i64 {t.value(count)}, 0")
    with t.where(is_least):  # those that are equal to the pivot are done with
        t.put(f"br i1 {t.let(f'icmp eq {t.kind} {pivot}, -1')}, label %all, label %equal")
        t.lines.append("equal:")
        behind = t.let(f"add {t.kind} {pivot}, 1")
        t.call("part", "ptr %room", f"i64 {n}", f"{t.kind} {behind}", *rest)
    with t.where(t.let(f"xor i1 {is_least}, true")):
        below = t.value(count)
        room = t.at("%room", t.op("sub", n, below))
        more = f"i64 {below}", f"ptr {room}", f"i64 {t.value(patience)}"
        t.call("quick", f"ptr {keys}", f"ptr {keys}", *more)
    below = t.value(count)
    t.put(f"store ptr %room, ptr {lies}")
    t.put(f"store ptr {t.at(keys, below)}, ptr {to}")
    t.put(f"store i64 {t.op('sub', n, below)}, ptr {left}")
    t.put("br label %again")
    t.lines.append("all:")
    _copy(t, "%room", keys, n)
    t.put("br label %done")
    t.lines.append("small:")
    for fewer, registers in zip((0, *_REGISTERS), _REGISTERS):
        fits = t.let(f"icmp sle i64 {n}, {lanes * registers}")
        others = t.let(f"icmp sgt i64 {n}, {lanes * fewer}")
        with t.where(t.let(f"and i1 {fits}, {others}")):
            t.call(f"few{registers}", f"ptr {source}", f"ptr {keys}", f"i64 {n}")
    t.put("br label %done")
    t.lines.append("done:")
    passed = "ptr %from, ptr %keys, i64 %n, ptr %room, i64 %patience"
    return t.function(f"@quick({passed}) noinline")


def _pivot(t: Keys, keys: str, n: str, patience: str) -> str:
    """A guess, while there is patience."""
    pivot = t.variable(t.kind, 0)
    is_guess = t.let(f"icmp sgt i64 {t.value(patience)}, 0")
    with t.where(is_guess):
        _guess(t, keys, n, pivot)
    with t.where(t.let(f"xor i1 {is_guess}, true")):
        t.call("middle", f"ptr {keys}", f"i64 {n}", f"ptr {pivot}")
    t.increased(patience, "-1")
    return t.value(pivot, t.kind)


def _guess(t: Keys, keys: str, n: str, pivot: str) -> None:
    """The median of medians of 27 keys: of three vectors that lie evenly apart, then of lanes."""
    quarter = t.op("lshr", n, 2)
    places = (t.op("mul", quarter, k) for k in (1, 2, 3))
    found = _median(t, *(t.load(t.at(keys, place), t.lanes) for place in places))
    for step in (1, 3):
        turned = (t.rotated(found, step * k) for k in (1, 2))
        found = _median(t, found, *turned)
    first = t.let(f"extractelement {t.vector} {found}, i64 0")
    t.put(f"store {t.kind} {first}, ptr {pivot}")


def _median(t: Keys, a: str, b: str, c: str) -> str:
    low, high = (extreme(t, fn, a, b) for fn in ("umin", "umax"))
    return extreme(t, "umax", low, extreme(t, "umin", high, c))


def _middle(size: int, lanes: int) -> str:
    """The middle between the least and the largest key; the least one where all are equal."""
    t = Keys(size, lanes)
    found = {fn: t.variable(t.vector, none) for fn, none in zip(_EXTREMES, (t.every, t.none))}
    with t.loop(0, "%n", lanes) as i:
        there = t.lanes_below(t.op("sub", "%n", i))
        for (fn, end), none in zip(found.items(), (t.every, t.none)):
            vector = t.masked(t.at("%keys", i), there, none)
            t.put(f"store {t.vector} {extreme(t, fn, t.value(end, t.vector), vector)}, ptr {end}")
    ends = []
    for fn, end in found.items():
        name, vector = f"@llvm.vector.reduce.{fn}.{t.mangled}", t.value(end, t.vector)
        ends.append(t.let(f"call {t.kind} {name}({t.vector} {vector})"))
    way = t.let(f"sub {t.kind} {ends[1]}, {ends[0]}")
    half = t.let(f"lshr {t.kind} {t.let(f'add {t.kind} {way}, 1')}, 1")
    whole = t.let(f"icmp eq {t.kind} {way}, -1")
    top = 1 << (8 * size - 1)
    half = t.let(f"select i1 {whole}, {t.kind} {top}, {t.kind} {half}")
    t.put(f"store {t.kind} {t.let(f'add {t.kind} {ends[0]}, {half}')}, ptr %pivot")
    return t.function("@middle(ptr %keys, i64 %n, ptr %pivot) noinline")


def _sort(name: str, size: int, lanes: int) -> str:
    t = Keys(size, lanes)
    zeros = t.let("call i64 @llvm.ctlz.i64(i64 %n, i1 false)")
    patience = t.op("mul", t.op("sub", 64, zeros), _PATIENCE)
    t.call("quick", "ptr %keys", "ptr %keys", "i64 %n", "ptr %room", f"i64 {patience}")
    return t.function(f"@{name}(i64 %n, ptr %keys, ptr %room, ptr %fault)", "")


def _split(name: str, size: int, lanes: int) -> str:
    """Keys below the first pivot, then those below the second, and so on; where the parts end.

    Parts of even numbers lie in ``keys``, at their places in order; the others in ``room``, at
    ``places``.
    """
    t = Keys(size, lanes)

    def word(base: str, number: int, value: str | int) -> None:
        t.put(f"store i64 {value}, ptr {t.let(f'getelementptr i64, ptr {base}, i64 {number}')}")

    def halved(source: str, first: str | int, n: str, room: str | int, parts: range) -> None:
        if len(parts) == 1:
            word("%ends", parts[0], t.op("add", first, n))
            word("%places", parts[0], room if parts[0] % 2 else first)
            return
        half = len(parts) // 2
        pivot, count = t.load(t.at("%pivots", parts[half] - 1)), t.variable("i64", 0)
        keys, beside = t.at("%keys", first), t.at("%room", room)
        ends = f"ptr {keys}", f"ptr {beside}", f"ptr {count}"
        t.call("part", f"ptr {source}", f"i64 {n}", f"{t.kind} {pivot}", *ends)
        below = t.value(count)
        others = t.op("sub", n, below)
        halved(keys, first, below, t.op("add", room, others), parts[:half])
        halved(beside, t.op("add", first, below), others, room, parts[half:])

    halved("%keys", 0, "%n", 0, range(PARTS))
    passed = "i64 %n, ptr %keys, ptr %room, ptr %pivots, ptr %ends, ptr %places, ptr %fault"
    return t.function(f"@{name}({passed})", "")


def text(names: tuple[str, str], size: int, vector_bytes: int) -> str:
    """The module with ``sort`` and ``split`` of keys of so many bytes, under these names."""
    lanes = vector_bytes // size
    t = Keys(size, lanes)
    vector, mask, mangled, bits = t.vector, t.mask, t.mangled, f"i{lanes}"
    parts = [
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        "declare i64 @llvm.ctlz.i64(i64, i1)",
        f"declare {bits} @llvm.ctpop.{bits}({bits})",
        f"declare {vector} @llvm.masked.load.{mangled}.p0(ptr, i32, {mask}, {vector})",
        f"declare void @llvm.masked.store.{mangled}.p0({vector}, ptr, i32, {mask})",
        f"declare {vector} {_COMPRESS}.{mangled}({vector}, {mask}, {vector})",
        *(f"declare {vector} @llvm.{fn}.{mangled}({vector}, {vector})" for fn in _EXTREMES),
        *(f"declare {t.kind} @llvm.vector.reduce.{fn}.{mangled}({vector})" for fn in _EXTREMES),
        *(_few(size, lanes, count) for count in _REGISTERS),
        _part(size, lanes),
        _middle(size, lanes),
        _quick(size, lanes),
        _sort(names[0], size, lanes),
        _split(names[1], size, lanes),
        f"attributes #0 = {{ {jit.function_attributes()} }}",
    ]
    return "\n".join(parts) + "\n"
