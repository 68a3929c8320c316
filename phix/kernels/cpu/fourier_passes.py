"""LLVM text of the passes of a transform: one for each factor of its size (T. G. Stockham, 1966).

A pass by r takes s m r points x[q + s (p + m i)] to y[q + s (r p + k)] = w^(p k) sum_i e^(i k) x_i,
where w and e are the roots of unity of orders m r and r; then s is r times as large. Each point is
one vector of real and one of imaginary parts; its lanes are different transforms, or, in the first
part of a transform that is cut in two, places along the second.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product

from phix.kernels.cpu.fourier_text import Lanes, Pair

# The factors with code of their own, those tried first before the others, and the largest factor
# that is a pass at all.
ODD, LARGEST = (3, 5, 7), 127
# What a pass is told of itself in the plan: its factor, where its roots are and how far real and
# imaginary parts are apart, whether all are 1, and, for factors without code of their own, where
# the roots of that order are: real parts, then imaginary ones from ROOM on.
FACTOR, TABLE, PITCH, IS_LAST, ROOTS, WORDS = 0, 1, 2, 3, 4, 5
ROOM = 128

_TAKES = "ptr %pass, ptr %from, ptr %to, i64 %s, i64 %m, i64 %scale, i64 %column, i1 %varies"


def evens(registers: int) -> tuple[int, ...]:
    """The powers of two with code of their own, largest first."""
    return (8, 4, 2) if registers >= 32 else (4, 2)


_BITS = 200
_PI = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89 << _BITS >> 256


@cache
def root(k: int, n: int) -> tuple[float, float]:
    """Cosine and sine of 2 pi k / n, rounded once: their series, in whole multiples of 2^-200."""
    angle = 2 * _PI * k // n
    term, parts, number = 1 << _BITS, [0, 0], 0
    while term:
        parts[number % 2] += term if number % 4 < 2 else -term
        number += 1
        term = (term * angle >> _BITS) // number
    cosine, sine = (float(Fraction(part, 1 << _BITS)) for part in parts)
    return cosine, sine


# -- small transforms ----------------------------------------------------------------------------
def _rotated(t: Lanes, x: Pair) -> Pair:
    """-i x"""
    return x[1], t.negated(x[0])


def _small(t: Lanes, x: list[Pair]) -> list[Pair]:
    """The transform of so many points."""
    r = len(x)
    if r == 1:
        return x
    if r % 2:
        return _odd(t, x)
    if r == 2:
        return [t.plus(*x), t.minus(*x)]
    if r == 4:
        a, b, c = t.plus(x[0], x[2]), t.minus(x[0], x[2]), t.plus(x[1], x[3])
        d = t.minus(x[1], x[3])
        turned = t.add(b[0], d[1]), t.sub(b[1], d[0])
        back = t.sub(b[0], d[1]), t.add(b[1], d[0])
        return [t.plus(a, c), turned, t.minus(a, c), back]
    even, odd = _small(t, x[::2]), _small(t, x[1::2])
    half = t.number(math.sqrt(0.5))
    a, b = odd[1], odd[3]
    odd[1] = t.mul(t.add(a[0], a[1]), half), t.mul(t.sub(a[1], a[0]), half)
    odd[3] = t.mul(t.sub(b[1], b[0]), half), t.negated(t.mul(t.add(b[0], b[1]), half))
    odd[2] = _rotated(t, odd[2])
    return [
        *(t.plus(e, o) for e, o in zip(even, odd)), *(t.minus(e, o) for e, o in zip(even, odd))
    ]  # fmt: skip


def _odd(t: Lanes, x: list[Pair]) -> list[Pair]:
    """By sums and differences of points that are as far from the first on either side."""
    r, half = len(x), len(x) // 2
    sums = [t.plus(x[j], x[r - j]) for j in range(1, half + 1)]
    differences = [t.minus(x[j], x[r - j]) for j in range(1, half + 1)]
    every = x[0]
    for one in sums:
        every = t.plus(every, one)
    found = [every] + [every] * (r - 1)
    for k in range(1, half + 1):
        near, far = x[0], ("", "")
        for j in range(1, half + 1):
            cosine, sine = map(t.number, root(j * k % r, r))
            a, b = sums[j - 1], differences[j - 1]
            near = t.fma(a[0], cosine, near[0]), t.fma(a[1], cosine, near[1])
            if j == 1:
                far = t.mul(b[0], sine), t.mul(b[1], sine)
            else:
                far = t.fma(b[0], sine, far[0]), t.fma(b[1], sine, far[1])
        found[k] = t.add(near[0], far[1]), t.sub(near[1], far[0])
        found[r - k] = t.sub(near[0], far[1]), t.add(near[1], far[0])
    return found


# -- passes --------------------------------------------------------------------------------------
def _roots_of(t: Lanes, table: str, pitch: str, i: str | int, place: str) -> Pair:
    """w^(place i), of the place in all lanes, or of this and those behind it one a lane."""
    at = t.at(table, t.op("mul", pitch, t.op("mul", i, 2)), place)
    parts = at, t.at(at, pitch)
    name = f"root{len(t.head)}"
    t.hold(name, (t.number(1.0), t.number(0.0)))

    def vectors() -> None:
        t.keep(name, (t.load(parts[0], t.lanes), t.load(parts[1], t.lanes)))

    def numbers() -> None:
        t.keep(name, (t.everywhere(t.load(parts[0])), t.everywhere(t.load(parts[1]))))

    t.either("%varies", vectors, numbers)
    return t.held(name)


def _pass(t: Lanes, r: int, is_last: bool) -> str:
    table, pitch = t.field("%pass", TABLE, "ptr"), t.field("%pass", PITCH)
    apart = t.op("mul", "%s", "%m")
    with t.loop(0, "%m") as p:
        roots = []
        if not is_last:
            place = t.op("add", t.op("mul", p, "%scale"), "%column")
            roots = [_roots_of(t, table, pitch, i, place) for i in range(r - 1)]
        first = t.op("mul", "%s", p)
        with t.loop(0, "%s") as q:
            number = t.op("add", first, q)
            x = []
            for i in range(r):
                x.append(t.pair("%from", t.op("add", number, t.op("mul", apart, i))))
            target = t.op("add", t.op("mul", first, r), q)
            for k, value in enumerate(_small(t, x)):
                if roots and k:
                    value = t.times(value, roots[k - 1])
                t.put_pair(value, "%to", t.op("add", target, t.op("mul", "%s", k)))
    return t.function(f"@pass_{r}{'_last' if is_last else ''}({_TAKES}) noinline")


def _any_pass(t: Lanes) -> str:
    """A pass by an odd factor that is read from the plan: sums and differences go to memory."""
    table, pitch = t.field("%pass", TABLE, "ptr"), t.field("%pass", PITCH)
    r, roots = t.field("%pass", FACTOR), t.field("%pass", ROOTS, "ptr")
    half, apart = t.op("sdiv", r, 2), t.op("mul", "%s", "%m")
    is_last = t.let(f"icmp ne i64 {t.field('%pass', IS_LAST)}, 0")
    for name in ("sums", "differences"):
        t.head.append(f"  %{name} = alloca [{(LARGEST + 3) * t.lanes} x {t.kind}], align 64")
    zero = t.number(0.0)
    for name in ("sums", "differences"):
        t.put_pair((zero, zero), f"%{name}", half)  # a term more, where their number is odd
    with t.loop(0, "%m") as p, t.loop(0, "%s") as q:
        first = t.op("mul", "%s", p)
        number, target = t.op("add", first, q), t.op("add", t.op("mul", first, r), q)
        x = t.pair("%from", number)
        t.hold("every", x)
        with t.loop(1, t.op("add", half, 1)) as j:
            one = t.pair("%from", t.op("add", number, t.op("mul", apart, j)))
            back = t.op("mul", apart, t.op("sub", r, j))
            other = t.pair("%from", t.op("add", number, back))
            both = t.plus(one, other)
            t.put_pair(both, "%sums", t.op("sub", j, 1))
            t.put_pair(t.minus(one, other), "%differences", t.op("sub", j, 1))
            t.keep("every", t.plus(t.held("every"), both))
        t.put_pair(t.held("every"), "%to", target)
        with t.loop(1, t.op("add", half, 1), 2) as k:
            following = t.least(t.op("add", k, 1), half)
            for way, value in _four_of_any(t, x, r, roots, half, (k, following)):
                to = t.op("add", target, t.op("mul", "%s", way))
                t.put_pair(value, "%to", to)
                with t.where(t.is_not(is_last)):
                    place = t.op("add", t.op("mul", p, "%scale"), "%column")
                    root = _roots_of(t, table, pitch, t.op("sub", way, 1), place)
                    t.put_pair(t.times(value, root), "%to", to)
    return t.function(f"@pass_any({_TAKES}) noinline")


def _four_of_any(
    t: Lanes, x: Pair, r: str, roots: str, half: str, ways: tuple[str, str]
) -> list[tuple[str, Pair]]:
    """The results k and r - k of a pass, of two k: sums of every other term, then of two sums."""
    zero = (t.number(0.0), t.number(0.0))
    for w, n in product(range(2), range(2)):
        t.hold(f"near{w}{n}", zero if n else x)
        t.hold(f"far{w}{n}", zero)
    for w in range(2):
        t.variable(f"turn{w}", 0)
    with t.loop(0, half, 2) as first:
        for n in range(2):
            j = t.op("add", first, n)
            a, b = t.pair("%sums", j), t.pair("%differences", j)
            for w, k in enumerate(ways):
                over = t.op("sub", t.op("add", t.get(f"turn{w}"), k), r)
                turn = t.op("add", over, t.op("and", r, t.op("ashr", over, 63)))
                t.set(f"turn{w}", turn)
                real = t.everywhere(t.load(t.at(roots, turn)))
                imaginary = t.everywhere(t.load(t.at(roots, ROOM, turn)))  # minus the sine
                near, far = t.held(f"near{w}{n}"), t.held(f"far{w}{n}")
                t.keep(f"near{w}{n}", (t.fma(a[0], real, near[0]), t.fma(a[1], real, near[1])))
                far = t.fma(b[0], imaginary, far[0]), t.fma(b[1], imaginary, far[1])
                t.keep(f"far{w}{n}", far)
    found = []
    for w, k in enumerate(ways):
        near, far = (
            t.plus(t.held(f"{name}{w}0"), t.held(f"{name}{w}1")) for name in ("near", "far")
        )
        found.append((k, (t.sub(near[0], far[1]), t.add(near[1], far[0]))))
        found.append((t.op("sub", r, k), (t.add(near[0], far[1]), t.sub(near[1], far[0]))))
    return found


def _passes(t: Lanes, factors: tuple[int, ...]) -> str:
    """Passes one after the other, between two blocks of memory: the first begins in ``%from``."""
    t.head += ["  %source = alloca ptr", "  %target = alloca ptr", "  %stride = alloca i64"]
    t.put("store ptr %from, ptr %source")
    t.put("store ptr %to, ptr %target")
    t.put("store i64 1, ptr %stride")
    with t.loop("%first", "%last") as number:
        step = t.word("%passes", t.op("mul", number, WORDS))
        r = t.field(step, FACTOR)
        source, target = (t.let(f"load ptr, ptr %{name}") for name in ("source", "target"))
        s = t.let("load i64, ptr %stride")
        m = t.op("sdiv", "%points", t.op("mul", s, r))
        given = (
            f"ptr {step}, ptr {source}, ptr {target}, i64 {s}, i64 {m}, i64 %scale, "
            "i64 %column, i1 %varies"
        )
        is_last = t.let(f"icmp ne i64 {t.field(step, IS_LAST)}, 0")
        t.head.append("  %is_other = alloca i1")
        t.put("store i1 true, ptr %is_other")
        for factor in factors:
            is_own = t.let(f"icmp eq i64 {r}, {factor}")
            with t.where(t.let(f"and i1 {is_own}, {is_last}")):
                t.put(f"call void @pass_{factor}_last({given})")
            with t.where(t.let(f"and i1 {is_own}, {t.is_not(is_last)}")):
                t.put(f"call void @pass_{factor}({given})")
            with t.where(is_own):
                t.put("store i1 false, ptr %is_other")
        with t.where(t.let("load i1, ptr %is_other")):
            t.put(f"call void @pass_any({given})")
        t.put(f"store ptr {target}, ptr %source")
        t.put(f"store ptr {source}, ptr %target")
        t.put(f"store i64 {t.op('mul', s, r)}, ptr %stride")
    return t.function(
        "@passes(ptr %passes, i64 %first, i64 %last, i64 %points, ptr %from, ptr %to, "
        "i64 %scale, i64 %column, i1 %varies) noinline"
    )


def text(kind: str, size: int, lanes: int, registers: int) -> list[str]:
    """The function ``@passes`` and those it calls.

    ``points`` is the product of the factors from ``first`` to ``last``; the roots of place p are
    those of ``p scale + column``, and in the lanes those behind it where it ``varies``.
    """
    factors = (*evens(registers), *ODD)
    found = []
    for r in factors:
        found += [_pass(Lanes(kind, size, lanes), r, is_last) for is_last in (False, True)]
    found.append(_any_pass(Lanes(kind, size, lanes)))
    found.append(_passes(Lanes(kind, size, lanes), factors))
    return found
