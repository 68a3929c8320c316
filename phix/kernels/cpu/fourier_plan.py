"""LLVM text of plans: the factors of a size, and the roots that its passes take.

A size with a prime factor above ``fourier_passes.LARGEST`` is transformed as a convolution with
exp(i pi j^2 / n), by transforms of a larger size (L. I. Bluestein, 1970). 2 n real numbers are
transformed as n complex ones, but for few.
"""

from __future__ import annotations

from phix.kernels.cpu import fourier_passes as passes
from phix.kernels.cpu.fourier_text import Lanes

# The words at the head of a plan. POINTS: the size; LENGTH: how many complex points that are;
# CORE: the size of the transforms made of it. Of CORE, the first CUT passes are over OUTER points
# that are INNER apart, if the transform is cut; the others over the INNER ones. Behind tables are
# the distances between their real parts and imaginary ones.
POINTS, IS_REAL, LENGTH, CORE, COUNT, CUT, OUTER, INNER, CHIRP, CHIRP_PITCH = range(10)
KERNEL, KERNEL_PITCH, HALVES, HALVES_PITCH, NUMBERS, PASSES = range(10, 16)
MOST_PASSES = 64
_HEAD = PASSES + MOST_PASSES * passes.WORDS
# How many plans are kept at a time, and among them of more than so many bytes; a plan of more than
# the largest is made for each call.
SLOTS, SLOTS_OF_LARGE, LARGE, LARGEST = 16, 2, 4 << 20, 128 << 20
# Sizes of convolutions are powers of 2 times one of these.
_ODD = (1, 3, 5, 9, 15)
_PAD = 16  # numbers behind a table: vectors are read to their end

# Real numbers up to so many are transformed as complex ones, which rounds less often.
_WHOLE = 16


def halves(t: Lanes) -> str:
    """Whether so many real numbers are transformed as half as many complex ones."""
    is_even = t.test("eq", t.op("and", "%points", 1), 0)
    return t.both(is_even, t.test("sgt", "%points", _WHOLE))


def _factored(t: Lanes, registers: int) -> str:
    """The factors of ``%points``, as words of passes; COUNT is -1 if a prime one is too large."""
    t.variable("rest", "%points")
    t.variable("count", 0)

    def append(factor: str) -> None:
        count = t.get("count")
        at = t.op("add", t.op("mul", count, passes.WORDS), PASSES)
        t.set_word("%head", t.op("add", at, passes.FACTOR), factor)
        t.set("count", t.op("add", count, 1))
        t.set("rest", t.op("sdiv", t.get("rest"), factor))

    with t.loop(0, MOST_PASSES):
        rest = t.get("rest")
        factor: str | int = t.select(t.test("eq", t.op("and", rest, 1), 0), 2, 1)
        factor = t.select(t.test("eq", t.op("and", rest, 3), 0), 4, factor)
        if 8 in passes.evens(registers):  # 16 is 4 times 4
            is_eight = t.test("eq", t.op("and", rest, 7), 0)
            is_more = t.test("ne", t.op("and", rest, 31), 16)
            factor = t.select(t.both(is_eight, is_more), 8, factor)
        with t.where(t.test("sgt", factor, 1)):
            append(factor)
    with t.loop(3, passes.LARGEST + 1, 2) as factor, t.loop(0, 40):
        is_factor = t.test("eq", t.op("srem", t.get("rest"), factor), 0)
        with t.where(t.both(is_factor, t.test("sgt", t.get("rest"), 1))):
            append(factor)
    is_done = t.test("eq", t.get("rest"), 1)
    t.set_word("%head", COUNT, t.select(is_done, t.get("count"), -1))
    return t.function("@factored(i64 %points, ptr %head) noinline")


def _cut(t: Lanes) -> str:
    """Where lanes of both parts are filled best; nowhere if there is one factor alone."""
    points, count = t.field("%head", CORE), t.field("%head", COUNT)
    t.variable("outer", 1)
    t.variable("least", (1 << 62))
    t.set_word("%head", CUT, 0)
    with t.loop(0, t.op("sub", count, 1)) as k:
        at = t.op("add", t.op("mul", k, passes.WORDS), PASSES + passes.FACTOR)
        outer = t.op("mul", t.get("outer"), t.field("%head", at))  # type: ignore[arg-type]
        t.set("outer", outer)
        inner = t.op("sdiv", points, outer)
        one = t.op("mul", outer, t.parts_of(inner, t.lanes))
        cost = t.op("add", one, t.op("mul", inner, t.parts_of(outer, t.lanes)))
        with t.where(t.test("slt", cost, t.get("least"))):
            t.set("least", cost)
            for word, value in ((CUT, t.op("add", k, 1)), (OUTER, outer), (INNER, inner)):
                t.set_word("%head", word, value)
    return t.function("@cut(ptr %head) noinline")


def _each_pass(t: Lanes, head: str, body: str) -> None:
    """Of each pass, ``@body`` gets the plan, its words, the size from it on and the roots of it."""
    t.variable(f"left_{body}", t.field(head, CORE))
    with t.loop(0, t.field(head, COUNT)) as number:
        at = t.op("add", t.op("mul", number, passes.WORDS), PASSES)
        t.call(body, f"ptr {head}", f"ptr {t.word(head, at)}", f"i64 {t.get(f'left_{body}')}")
        factor = t.field(t.word(head, at), passes.FACTOR)
        t.set(f"left_{body}", t.op("sdiv", t.get(f"left_{body}"), factor))


def _measured(t: Lanes) -> str:
    """Counts the numbers of a pass's tables: where each is, in numbers from the first on."""
    r = t.field("%pass", passes.FACTOR)
    every = t.op("sdiv", "%left", r)
    is_last = t.test("eq", every, 1)
    pitch = t.rounded_up(every, 4)
    start = t.field("%head", NUMBERS)
    size = t.op("mul", t.op("mul", pitch, 2), t.op("sub", r, 1))
    size = t.select(is_last, 0, size)
    for word, value in (
        (passes.TABLE, start), (passes.PITCH, pitch),
        (passes.IS_LAST, t.let(f"zext i1 {is_last} to i64")),
        (passes.ROOTS, t.op("add", start, size)),
    ):  # fmt: skip
        t.set_word("%pass", word, value)
    t.set_word("%head", NUMBERS, t.op("add", t.op("add", start, size), 2 * passes.ROOM))
    return t.function("@measured(ptr %head, ptr %pass, i64 %left) noinline")


def _filled(t: Lanes) -> str:
    """Fills a pass's tables, and puts their addresses in the place of their numbers."""
    r, numbers = t.field("%pass", passes.FACTOR), t.word("%head", _HEAD)
    pitch, every = t.field("%pass", passes.PITCH), t.op("sdiv", "%left", r)
    for word in (passes.TABLE, passes.ROOTS):
        t.set_word("%pass", word, t.at(numbers, t.field("%pass", word)), "ptr")
    table, roots = (t.field("%pass", w, "ptr") for w in (passes.TABLE, passes.ROOTS))
    is_last = t.test("ne", t.field("%pass", passes.IS_LAST), 0)
    with t.where(t.is_not(is_last)), t.loop(1, r) as i:
        at = t.at(table, t.op("mul", t.op("sub", i, 1), t.op("mul", pitch, 2)))
        _roots(t, at, t.at(at, pitch), "%left", i, 0, every)
    _roots(t, roots, t.at(roots, passes.ROOM), r, 1, 0, r)
    return t.function("@filled(ptr %head, ptr %pass, i64 %left) noinline")


def _roots(
    t: Lanes, re: str, im: str, order: str, step: str | int, squared: int, count: str
) -> None:
    t.call("roots", f"ptr {re}", f"ptr {im}", f"i64 {order}", f"i64 {step}", f"i64 {squared}",
           f"i64 {count}")  # fmt: skip


def _convolution_size(t: Lanes) -> None:
    """The size of a transform of prime factors that are too large: CORE, at least 2 LENGTH - 1."""
    least = t.op("sub", t.op("mul", t.field("%head", LENGTH), 2), 1)
    t.variable("best", 1 << 62)
    t.variable("size", 0)
    for odd in _ODD:
        t.set("size", odd)
        with t.loop(0, 60), t.where(t.test("slt", t.get("size"), least)):
            t.set("size", t.op("mul", t.get("size"), 2))
        t.set("best", t.least(t.get("best"), t.get("size")))
    t.set_word("%head", CORE, t.get("best"))
    t.call("factored", f"i64 {t.get('best')}", "ptr %head")


def _room(t: Lanes, table: int, count: str, planes: int, condition: str) -> None:
    """Memory for a table with so many planes of ``count`` numbers, if ``condition`` holds."""
    pitch = t.op("add", t.rounded_up(count, 4), _PAD)
    start = t.field("%head", NUMBERS)
    t.set_word("%head", table, t.select(condition, start, -1))
    t.set_word("%head", table + 1, pitch)
    size = t.select(condition, t.op("mul", pitch, planes), 0)
    t.set_word("%head", NUMBERS, t.op("add", start, size))


def _laid_out(t: Lanes) -> str:
    """The head of a plan: all but its tables."""
    is_real = t.test("ne", "%real", 0)
    is_halved = t.both(is_real, halves(t))
    length = t.select(is_halved, t.op("sdiv", "%points", 2), "%points")
    for word, value in (
        (POINTS, "%points"), (IS_REAL, "%real"), (LENGTH, length), (CORE, length), (NUMBERS, "0")
    ):  # fmt: skip
        t.set_word("%head", word, value)
    t.call("factored", f"i64 {length}", "ptr %head")
    is_large = t.test("slt", t.field("%head", COUNT), 0)
    with t.where(is_large):
        _convolution_size(t)
    t.call("cut", "ptr %head")
    _each_pass(t, "%head", "measured")
    _room(t, CHIRP, length, 3, is_large)
    _room(t, KERNEL, t.field("%head", CORE), 2, is_large)
    _room(t, HALVES, t.op("add", length, 1), 2, is_halved)
    return t.function("@laid_out(i64 %points, i64 %real, ptr %head) noinline")


def _tables(t: Lanes) -> str:
    """Fills the tables of a plan; ``failed`` becomes 1 where there is no room."""
    _each_pass(t, "%head", "filled")
    numbers = t.word("%head", _HEAD)
    length = t.field("%head", LENGTH)
    for word in (CHIRP, KERNEL, HALVES):
        start = t.field("%head", word)
        at = t.select(t.test("slt", start, 0), "null", t.at(numbers, start), "ptr")
        t.set_word("%head", word, at, "ptr")
    halves, pitch = t.field("%head", HALVES, "ptr"), t.field("%head", HALVES_PITCH)
    with t.where(t.let(f"icmp ne ptr {halves}, null")):
        points = t.field("%head", POINTS)
        _roots(t, halves, t.at(halves, pitch), points, 1, 0, t.op("add", length, 1))
    chirp = t.field("%head", CHIRP, "ptr")
    with t.where(t.let(f"icmp ne ptr {chirp}, null")):
        t.call("convolution", "ptr %head", "ptr %failed")
    return t.function("@tables(ptr %head, ptr %failed) noinline")


def _convolution(t: Lanes) -> str:
    """exp(-i pi j^2 / n) in three planes, minus the imaginary parts first, and the transform of
    the conjugates, as they go round the circle of CORE points."""
    length, core = t.field("%head", LENGTH), t.field("%head", CORE)
    first, pitch = t.field("%head", CHIRP, "ptr"), t.field("%head", CHIRP_PITCH)
    chirp = t.at(first, pitch)
    t.set_word("%head", CHIRP, chirp, "ptr")
    _roots(t, chirp, t.at(chirp, pitch), t.op("mul", length, 2), 1, 1, length)
    kernel, apart = t.field("%head", KERNEL, "ptr"), t.field("%head", KERNEL_PITCH)
    with t.loop(0, core) as j:
        at = t.at(kernel, j)
        t.store("0.0", at)
        t.store("0.0", t.at(at, apart))
    with t.loop(0, length) as j:
        at = t.at(chirp, j)
        less = t.let(f"fneg {t.kind} {t.load(t.at(at, pitch))}")
        t.store(less, t.at(first, j))
        back = t.op("srem", t.op("sub", core, j), core)
        for place in (j, back):
            to = t.at(kernel, place)
            t.store(t.load(at), to)
            t.store(less, t.at(to, apart))
    kind = t.kind
    share = t.let(f"fdiv {kind} 1.0, {t.let(f'sitofp i64 {core} to {kind}')}")
    ends = f"ptr {kernel}, i64 {apart}, i1 false"
    t.call("pieces", "ptr %head", ends, ends, f"{kind} {share}", "i64 0", "ptr %failed")
    return t.function("@convolution(ptr %head, ptr %failed) noinline")


def _made(t: Lanes) -> str:
    """A plan of a size, null where there is no room for it."""
    t.head.append(f"  %head = alloca [{_HEAD} x i64]")
    t.variable("failed", 0)
    t.put("store ptr null, ptr %found")
    t.call("laid_out", "i64 %points", "i64 %real", "ptr %head")
    size = t.op("mul", t.op("add", t.field("%head", NUMBERS), 2 * _PAD), t.size)
    plan = t.let(f"call ptr @phix_take(i64 {t.op('add', size, _HEAD * 8)})")
    with t.where(t.let(f"icmp ne ptr {plan}, null")):
        t.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {plan}, ptr %head, i64 {_HEAD * 8}, i1 false)")
        t.call("tables", f"ptr {plan}", "ptr %failed")
        is_whole = t.test("eq", t.get("failed"), 0)
        with t.where(is_whole):
            t.put(f"store ptr {plan}, ptr %found")
        with t.where(t.is_not(is_whole)):
            t.call("phix_give", f"ptr {plan}")
    return t.function("@made(i64 %points, i64 %real, ptr %found) noinline")


# -- plans that are kept: who takes one out of its slot has it alone, and puts it back -------------
def _plan_taken(t: Lanes) -> str:
    t.put("store ptr null, ptr %found")
    with t.loop(0, SLOTS) as k:
        slot = t.word("@plans", k)
        is_open = t.let("icmp eq ptr " + t.let("load ptr, ptr %found") + ", null")
        seen = t.let(f"load atomic i64, ptr {slot} monotonic, align 8")
        with t.where(t.both(is_open, t.test("ne", seen, 0))):
            kept = t.let(f"atomicrmw xchg ptr {slot}, i64 0 acquire")
            with t.where(t.test("ne", kept, 0)):
                plan = t.let(f"inttoptr i64 {kept} to ptr")
                is_size = t.test("eq", t.field(plan, POINTS), "%points")
                is_kind = t.test("eq", t.field(plan, IS_REAL), "%real")
                fits = t.both(is_size, is_kind)
                with t.where(fits):
                    t.put(f"store ptr {plan}, ptr %found")
                with t.where(t.is_not(fits)):
                    _put_back(t, slot, kept)
    none = t.let("icmp eq ptr " + t.let("load ptr, ptr %found") + ", null")
    with t.where(none):
        t.call("made", "i64 %points", "i64 %real", "ptr %found")
    return t.function("@plan_taken(i64 %points, i64 %real, ptr %found) noinline")


def _put_back(t: Lanes, slot: str, kept: str) -> None:
    other = t.let(f"atomicrmw xchg ptr {slot}, i64 {kept} acq_rel")
    with t.where(t.test("ne", other, 0)):
        t.call("phix_give", f"ptr {t.let(f'inttoptr i64 {other} to ptr')}")


def _plan_given(t: Lanes) -> str:
    """Into a free slot, else into the next one in turn."""
    t.variable("kept", t.let("ptrtoint ptr %plan to i64"))
    bytes_ = t.op("mul", t.field("%plan", NUMBERS), t.size)
    slots = t.select(t.test("sle", bytes_, LARGE), SLOTS, SLOTS_OF_LARGE)
    is_small = t.test("sle", bytes_, LARGEST)
    with t.loop(0, t.select(is_small, slots, 0)) as k, t.where(t.test("ne", t.get("kept"), 0)):
        slot = t.word("@plans", k)
        seen = t.let(f"load atomic i64, ptr {slot} monotonic, align 8")
        with t.where(t.test("eq", seen, 0)):
            kept = t.get("kept")
            pair = t.let(f"cmpxchg ptr {slot}, i64 0, i64 {kept} release monotonic")
            with t.where(t.let(f"extractvalue {{i64, i1}} {pair}, 1")):
                t.set("kept", 0)
    with t.where(t.test("ne", t.get("kept"), 0)):
        with t.where(is_small):
            turn = t.let("atomicrmw add ptr @turn, i64 1 monotonic")
            _put_back(t, t.word("@plans", t.op("and", turn, t.op("sub", slots, 1))), t.get("kept"))
        with t.where(t.is_not(is_small)):
            t.call("phix_give", "ptr %plan")
    return t.function("@plan_given(ptr %plan) noinline")


def text(kind: str, size: int, lanes: int, registers: int) -> list[str]:
    """``@plan_taken(points, real, found)`` and ``@plan_given(plan)``, and all that makes plans."""

    def begun() -> Lanes:
        return Lanes(kind, size, lanes)

    makers = (
        _cut, _measured, _filled, _laid_out, _tables, _convolution, _made, _plan_taken,
        _plan_given,
    )  # fmt: skip
    return [
        f"@plans = internal global [{SLOTS} x i64] zeroinitializer, align 64",
        "@turn = internal global i64 0",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        _factored(begun(), registers),
        *(make(begun()) for make in makers),
    ]
