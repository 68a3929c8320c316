"""LLVM text of a transform that is cut in two, so that one alone fills the lanes of vectors.

Of points j = i + INNER o, the passes over o are made for neighbouring i side by side, then those
over i for neighbouring results side by side: the same operations as on whole transforms, one a
lane. What lies between is ``temp``: rows of INNER points, in planes.
"""

from __future__ import annotations

from collections.abc import Callable

from phix.kernels.cpu import faults
from phix.kernels.cpu import fourier_plan as plan
from phix.kernels.cpu.fourier_text import Lanes

# Scratch memory up to so many bytes is on the stack.
ON_STACK = 32 << 10
# What the two jobs are told.
_PLAN, _FROM, _FROM_APART, _FROM_SWAP, _TO, _TO_APART, _TO_SWAP, _FACTOR, _TEMP, _FAULT = range(10)


def with_memory(t: Lanes, name: str, size: str, fault: str, body: Callable[[str], None]) -> None:
    """``body`` with the address of so many bytes; a fault is reported where there is no room."""
    t.head.append(f"  %{name}.near = alloca [{ON_STACK} x i8], align 64")
    is_large = t.test("sgt", size, ON_STACK)
    t.variable(f"{name}.at", f"%{name}.near", "ptr")
    with t.where(is_large):
        t.set(f"{name}.at", t.let(f"call ptr @phix_take(i64 {size})"), "ptr")
    memory = t.get(f"{name}.at", "ptr")
    has_none = t.let(f"icmp eq ptr {memory}, null")
    with t.where(has_none):
        t.put(faults.report(fault, faults.NO_ROOM).strip())
    with t.where(t.is_not(has_none)):
        body(memory)
        with t.where(is_large):
            t.call("phix_give", f"ptr {memory}")


def run_passes(
    t: Lanes, of: str, first: str | int, last: str | int, points: str, ends: tuple[str, str],
    scale: str | int = 1, column: str | int = 0, varies: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """Some passes of a plan; where the results are, and the other block of memory."""
    a, b = ends
    at = t.word(of, plan.PASSES)
    t.call("passes", f"ptr {at}", f"i64 {first}", f"i64 {last}", f"i64 {points}", f"ptr {a}",
           f"ptr {b}", f"i64 {scale}", f"i64 {column}", f"i1 {str(varies).lower()}")  # fmt: skip
    is_odd = t.test("ne", t.op("and", t.op("sub", last, first), 1), 0)
    return t.select(is_odd, b, a, "ptr"), t.select(is_odd, a, b, "ptr")


def _fields(t: Lanes) -> tuple[str, ...]:
    of = t.field("%job", _PLAN, "ptr")
    words = (plan.CUT, plan.COUNT, plan.OUTER, plan.INNER)
    return (of, *(t.field(of, w) for w in words), t.field("%job", _TEMP, "ptr"),
            t.field("%job", _FAULT, "ptr"))  # fmt: skip


def _pitch(t: Lanes, inner: str) -> str:
    """How far rows of ``temp`` are apart: an odd number of vectors, for the sake of caches."""
    vectors = t.parts_of(inner, t.lanes)
    return t.op("mul", t.op("or", vectors, 1), t.lanes)


def _step(t: Lanes, apart: str) -> str:
    return t.select(t.test("eq", apart, 1), 2, 1)


def _flag(t: Lanes, word: int) -> str:
    return t.test("ne", t.field("%job", word), 0)


def _first_part(t: Lanes) -> str:
    of, cut, _, outer, inner, temp, fault = _fields(t)
    source, apart = t.field("%job", _FROM, "ptr"), t.field("%job", _FROM_APART)
    swap, step, pitch = _flag(t, _FROM_SWAP), _step(t, apart), _pitch(t, inner)
    half = t.op("mul", outer, 2 * t.lanes)

    def body(memory: str) -> None:
        with t.loop("%from", "%to") as block:
            column = t.op("mul", block, t.lanes)
            count = t.least(t.op("sub", inner, column), t.lanes)
            t.call("load_columns", f"ptr {t.at(source, t.op('mul', column, step))}",
                   f"i64 {t.op('mul', inner, step)}", f"i64 {apart}", f"i64 {count}",
                   f"i64 {outer}", f"ptr {memory}", f"i1 {swap}")  # fmt: skip
            ends = memory, t.at(memory, half)
            found, _ = run_passes(t, of, 0, cut, outer, ends, inner, column, True)
            t.call("store_columns", f"ptr {t.at(temp, column)}", f"i64 {pitch}",
                   f"i64 {t.op('mul', pitch, outer)}", f"i64 {t.lanes}", f"i64 {outer}",
                   f"ptr {found}", "i1 false", f"{t.kind} 1.0")  # fmt: skip

    with_memory(t, "scratch", t.op("mul", half, 2 * t.size), fault, body)
    return t.function("@first_part(ptr %job, i64 %from, i64 %to)")


def _second_part(t: Lanes) -> str:
    of, cut, count, outer, inner, temp, fault = _fields(t)
    target, apart = t.field("%job", _TO, "ptr"), t.field("%job", _TO_APART)
    swap, step, pitch = _flag(t, _TO_SWAP), _step(t, apart), _pitch(t, inner)
    factor = t.field("%job", _FACTOR, t.kind)
    half = t.op("mul", t.rounded_up(inner, t.lanes), 2 * t.lanes)

    def body(memory: str) -> None:
        with t.loop("%from", "%to") as block:
            row = t.op("mul", block, t.lanes)
            rows = t.least(t.op("sub", outer, row), t.lanes)
            t.call("load_turned", f"ptr {t.at(temp, t.op('mul', row, pitch))}", f"i64 {pitch}",
                   f"i64 {t.op('mul', pitch, outer)}", f"i64 {rows}", f"i64 {inner}",
                   f"ptr {memory}")  # fmt: skip
            found, _ = run_passes(t, of, cut, count, inner, (memory, t.at(memory, half)))
            t.call("store_columns", f"ptr {t.at(target, t.op('mul', row, step))}",
                   f"i64 {t.op('mul', outer, step)}", f"i64 {apart}", f"i64 {rows}",
                   f"i64 {inner}", f"ptr {found}", f"i1 {swap}", f"{t.kind} {factor}")  # fmt: skip

    with_memory(t, "scratch", t.op("mul", half, 2 * t.size), fault, body)
    return t.function("@second_part(ptr %job, i64 %from, i64 %to)")


def _pieces(t: Lanes) -> str:
    """One transform of CORE points by the two jobs, which threads share if that is wanted."""
    of = "%plan"
    outer, inner = t.field(of, plan.OUTER), t.field(of, plan.INNER)
    t.head.append("  %job = alloca [10 x i64]")
    size = t.op("mul", t.op("mul", t.op("mul", _pitch(t, inner), outer), 2), t.size)

    def body(temp: str) -> None:
        swaps = [t.let(f"zext i1 %{name}.swap to i64") for name in ("from", "to")]
        for word, value, kind in (
            (_PLAN, of, "ptr"), (_FROM, "%from", "ptr"), (_FROM_APART, "%from.apart", "i64"),
            (_FROM_SWAP, swaps[0], "i64"), (_TO, "%to", "ptr"), (_TO_APART, "%to.apart", "i64"),
            (_TO_SWAP, swaps[1], "i64"), (_FACTOR, "%factor", t.kind), (_TEMP, temp, "ptr"),
            (_FAULT, "%fault", "ptr"),
        ):  # fmt: skip
            t.set_word("%job", word, value, kind)
        is_shared = t.test("ne", "%shared", 0)
        for job, extent in (("first_part", inner), ("second_part", outer)):
            blocks = t.parts_of(extent, t.lanes)
            with t.where(is_shared):
                t.call("phix_share", f"ptr @{job}", "ptr %job", f"i64 {blocks}", "i64 1")
            with t.where(t.is_not(is_shared)):
                t.call(job, "ptr %job", "i64 0", f"i64 {blocks}")

    with_memory(t, "temp", t.op("add", size, 64), "%fault", body)
    return t.function(
        "@pieces(ptr %plan, ptr %from, i64 %from.apart, i1 %from.swap, ptr %to, i64 %to.apart, "
        f"i1 %to.swap, {t.kind} %factor, i64 %shared, ptr %fault) noinline"
    )


# -- between tensors and planes --------------------------------------------------------------------
def _read_line(t: Lanes) -> str:
    """Points of a tensor that lie one behind the other, to planes; ``apart``: 1 pairs, 0 reals."""
    is_pair = t.test("eq", "%apart", 1)
    step = _step(t, "%apart")
    whole = t.select(is_pair, t.op("and", "%count", -t.lanes), 0)
    with t.loop(0, whole, t.lanes) as j:
        pair = t.swapped("%swap", t.separated(t.at("%from", t.op("mul", j, 2))))
        at = t.at("%to", j)
        t.store(pair[0], at, t.lanes)
        t.store(pair[1], t.at(at, "%pitch"), t.lanes)
    with t.loop(whole, "%count") as j:
        at, to = t.at("%from", t.op("mul", j, step)), t.at("%to", j)
        other = t.select(is_pair, t.load(t.at(at, "%apart")), "0.0", t.kind)
        ends = (to, t.at(to, "%pitch"))
        t.store(t.load(at), t.select("%swap", ends[1], ends[0], "ptr"))
        t.store(other, t.select("%swap", ends[0], ends[1], "ptr"))
    return t.function(
        "@read_line(ptr %from, i64 %apart, i64 %count, ptr %to, i64 %pitch, i1 %swap) noinline"
    )


def _write_line(t: Lanes) -> str:
    """The way back, times a factor."""
    is_pair = t.test("eq", "%apart", 1)
    step, factors = _step(t, "%apart"), t.everywhere("%factor")
    whole = t.select(is_pair, t.op("and", "%count", -t.lanes), 0)
    with t.loop(0, whole, t.lanes) as j:
        at = t.at("%from", j)
        pair = t.load(at, t.lanes), t.load(t.at(at, "%pitch"), t.lanes)
        pair = t.swapped("%swap", (t.mul(pair[0], factors), t.mul(pair[1], factors)))
        t.interleaved(pair, t.at("%to", t.op("mul", j, 2)))
    with t.loop(whole, "%count") as j:
        at, to = t.at("%from", j), t.at("%to", t.op("mul", j, step))
        ends = at, t.at(at, "%pitch")
        for number, condition in ((0, None), (1, is_pair)):
            place = t.select("%swap", ends[1 - number], ends[number], "ptr")
            value = t.let(f"fmul {t.kind} {t.load(place)}, %factor")
            if condition is None:
                t.store(value, to)
            else:
                with t.where(condition):
                    t.store(value, t.at(to, 1))
    return t.function(
        "@write_line(ptr %from, i64 %pitch, ptr %to, i64 %apart, i64 %count, i1 %swap, "
        f"{t.kind} %factor) noinline"
    )


def text(kind: str, size: int, lanes: int) -> list[str]:
    """``@pieces``, ``@read_line`` and ``@write_line``."""
    makers = (_first_part, _second_part, _pieces, _read_line, _write_line)
    return [make(Lanes(kind, size, lanes)) for make in makers]
