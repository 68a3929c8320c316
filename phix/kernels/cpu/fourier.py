"""Fourier transforms in machine code of our own, shared by the threads of the engine.

A transform is made of passes over vectors (``fourier_passes.py``). Where there are several, as
many as a vector has lanes run side by side, one a lane; a long one, or one alone, is cut in two
parts which fill the lanes by themselves (``fourier_lines.py``). Either way each point comes out of
the same operations, so that neither the batch, nor how it lies in memory, nor the number of
threads changes a bit.

``phix_fft_<dtype>`` transforms along the middle axis of [outer, size, inner].
"""

from __future__ import annotations

from phix.kernels.cpu import (
    faults,
    fourier_lines,
    fourier_moves,
    fourier_passes,
    fourier_plan,
    fourier_points,
    fourier_roots,
    jit,
    pool,
    threads,
)
from phix.kernels.cpu import fourier_plan as plan
from phix.kernels.cpu.fourier_call import ARGUMENTS
from phix.kernels.cpu.fourier_lines import run_passes, with_memory
from phix.kernels.cpu.fourier_text import Lanes, intrinsics
from phix.kernels.cpu.tiles import KINDS

# What is on either side: complex numbers, or real ones on one; R2ALL: of real numbers all points,
# not half of them.
C2C, R2C, C2R, R2ALL = range(4)
# Points below which threads do not share a call: some tens of microseconds.
LEAST_SHARED = 16_000
# What a vector of points costs where a transform is in each lane, whose scratch memory has fewer
# bytes than so many: that of a first cache or second, of a second one, of none. One of a transform
# that is cut costs more, by the bytes of its numbers, and half of that again as a convolution.
COSTS = ((256 << 10, 8), (1 << 20, 12), (1 << 62, 20))
COST_OF_CUT = 4

# What the jobs are told. PER_GROUP: in how many parts the lanes of a group are; 0: lanes go on in
# the next group. A side says where the points of a transform lie, and how many there are.
_PLAN, _KIND, _FORWARD, _FACTOR, _FAULT, _PER_GROUP, _ALONG, _TOTAL, _SHARED = range(9)
_IN, _OUT, _WORDS = 16, 24, 32
_BASE, _STEP, _APART, _BESIDE, _GROUP, _COUNT = range(6)


def _side(t: Lanes, side: int) -> tuple[str, ...]:
    base = t.field("%job", side + _BASE, "ptr")
    words = (_STEP, _APART, _BESIDE, _GROUP, _COUNT)
    return (base, *(t.field("%job", side + word) for word in words))


class _Transform:
    """The text of one transform, or of one a lane, from load to store."""

    def __init__(self, t: Lanes, name: str) -> None:
        self.t, self.name = t, name
        self.of = t.field("%job", _PLAN, "ptr")
        kind, forward = t.field("%job", _KIND), t.field("%job", _FORWARD)
        self.core, self.length = t.field(self.of, plan.CORE), t.field(self.of, plan.LENGTH)
        self.halves = t.field(self.of, plan.HALVES, "ptr")
        is_halved = t.let(f"icmp ne ptr {self.halves}, null")
        is_all = t.test("eq", kind, R2ALL)
        self.to_real = t.test("eq", kind, C2R)
        self.from_real = t.let(f"or i1 {is_all}, {t.test('eq', kind, R2C)}")
        self.to_halves = t.both(self.from_real, is_halved)
        self.from_halves = t.both(self.to_real, is_halved)
        self.to_all = t.both(self.to_halves, is_all)
        self.from_few = t.both(self.to_real, t.is_not(is_halved))
        is_backward = t.test("eq", forward, 0)
        every = t.select(self.to_all, t.op("mul", self.length, 2), self.core)
        self.most = t.let(f"call i64 @llvm.smax.i64(i64 {every}, i64 {self.core})")
        # parts are swapped on the way in where that is not done with halves, and on the way out
        self.swap_in = t.both(
            is_backward, t.is_not(t.let(f"or i1 {self.to_real}, {self.to_halves}"))
        )
        self.swap_out = t.let(f"or i1 {self.swap_in}, {self.to_real}")
        # transforms to half the points and back are of the other direction's conjugates
        is_conjugate = t.select(self.to_real, t.is_not(is_backward), is_backward, "i1")
        self.sign = t.select(is_conjugate, "-1.0", "1.0", t.kind)
        self.factor = t.field("%job", _FACTOR, t.kind)

    def spread(self, x: str, z: str, pitch: str) -> None:
        """From the points that a side with half of them has."""
        t, ends = self.t, f"ptr {x}, ptr {z}, i64 {pitch}"
        apart = t.field(self.of, plan.HALVES_PITCH)
        with t.where(self.from_halves):
            t.call(f"from_halves_{self.name}", ends, f"ptr {self.halves}, i64 {apart}",
                   f"i64 {self.length}", f"{t.kind} {self.sign}")  # fmt: skip
        with t.where(self.from_few):
            t.call(f"from_few_{self.name}", ends, f"i64 {self.length}", f"{t.kind} {self.sign}")

    def gathered(self, z: str, x: str, pitch: str) -> None:
        t, apart = self.t, self.t.field(self.of, plan.HALVES_PITCH)
        t.call(f"to_halves_{self.name}", f"ptr {z}, ptr {x}, i64 {pitch}",
               f"ptr {self.halves}, i64 {apart}", f"i64 {self.length}",
               f"{t.kind} {self.sign}")  # fmt: skip
        with t.where(self.to_all):
            t.call(f"mirror_{self.name}", f"ptr {x}, i64 {pitch}, i64 {self.length}")

    def times(self, x: str, pitch: str, table: int, way: int, end: str, swap: bool) -> None:
        """Points times a table of the plan, or its conjugate for a ``way`` of -1."""
        t = self.t
        at, apart = t.field(self.of, table, "ptr"), t.field(self.of, table + 1)
        count = self.length if table == plan.CHIRP else self.core
        t.call(f"times_{self.name}", f"ptr {x}, i64 {pitch}",
               f"ptr {at}, i64 {t.op('mul', apart, way)}", f"i64 {count}, i64 {end}",
               f"i1 {str(swap).lower()}")  # fmt: skip

    @property
    def is_convolution(self) -> str:
        return self.t.let(f"icmp ne ptr {self.t.field(self.of, plan.CHIRP, 'ptr')}, null")


# -- a transform a lane ----------------------------------------------------------------------------
def _lanes_job(t: Lanes) -> str:
    made = _Transform(t, "lanes")
    of, core = made.of, made.core
    room = t.op("add", t.rounded_up(made.most, t.lanes), t.lanes)
    half = t.op("mul", room, 2 * t.lanes)
    count = t.field(of, plan.COUNT)

    def body(memory: str) -> None:
        a, b = memory, t.at(memory, half)
        t.variable("found", a, "ptr")
        t.variable("other", b, "ptr")
        with t.loop("%from", "%to") as block:
            first = t.select(made.to_real, b, a, "ptr")
            t.call("load_side", "ptr %job", f"i64 {block}", f"ptr {first}", f"i1 {made.swap_in}")
            made.spread(b, a, "0")
            with t.where(made.is_convolution):
                made.times(a, "0", plan.CHIRP, 1, core, False)
            results = run_passes(t, of, 0, count, core, (a, b))
            _set(t, results)
            with t.where(made.is_convolution):
                made.times(results[0], "0", plan.KERNEL, 1, core, True)
                again = run_passes(t, of, 0, count, core, results)
                made.times(again[0], "0", plan.CHIRP, -1, made.length, True)
                _set(t, again)
            with t.where(made.to_halves):
                found, other = t.get("found", "ptr"), t.get("other", "ptr")
                made.gathered(found, other, "0")
                _set(t, (other, found))
            t.call("store_side", "ptr %job", f"i64 {block}", f"ptr {t.get('found', 'ptr')}",
                   f"i1 {made.swap_out}")  # fmt: skip

    with_memory(t, "scratch", t.op("mul", half, 2 * t.size), t.field("%job", _FAULT, "ptr"), body)
    return t.function("@lanes_job(ptr %job, i64 %from, i64 %to)")


def _set(t: Lanes, results: tuple[str, str]) -> None:
    t.set("found", results[0], "ptr")
    t.set("other", results[1], "ptr")


def _moved_side(t: Lanes, is_load: bool) -> str:
    """The transforms of a block: as they lie side by side, or as rows, or one by one."""
    base, step, apart, beside, group, points = _side(t, _IN if is_load else _OUT)
    per_group, along = t.field("%job", _PER_GROUP), t.field("%job", _ALONG)
    factor = "" if is_load else f", {t.kind} {t.field('%job', _FACTOR, t.kind)}"
    way = "load" if is_load else "store"
    ends = f"ptr %scratch, i1 %swap{factor}"
    is_grouped = t.test("ne", per_group, 0)
    with t.where(is_grouped):
        number = t.op("sdiv", "%block", t.select(is_grouped, per_group, 1))
        part = t.op("sub", "%block", t.op("mul", number, per_group))
        first = t.op("mul", part, t.lanes)
        count = t.least(t.op("sub", along, first), t.lanes)
        at = t.at(base, t.op("mul", number, group), t.op("mul", first, beside))
        t.call(f"{way}_columns", f"ptr {at}", f"i64 {step}", f"i64 {apart}", f"i64 {count}",
               f"i64 {points}", ends)  # fmt: skip
    with t.where(t.is_not(is_grouped)):
        first = t.op("mul", "%block", t.lanes)
        count = t.least(t.op("sub", t.field("%job", _TOTAL), first), t.lanes)
        is_rows = t.both(t.test("eq", along, 1), t.test("eq", apart, 1))
        whole = t.select(is_rows, t.op("and", points, -t.lanes), 0)
        with t.where(is_rows):
            at = t.at(base, t.op("mul", first, group))
            t.call(f"{way}_rows", f"ptr {at}", f"i64 {group}", f"i64 {count}", f"i64 {whole}",
                   ends)  # fmt: skip
        with t.where(t.test("slt", whole, points)):
            t.call("gather" if is_load else "scatter", f"ptr {base}", f"i64 {along}",
                   f"i64 {group}", f"i64 {beside}", f"i64 {step}", f"i64 {apart}", f"i64 {first}",
                   f"i64 {count}", f"i64 {whole}", f"i64 {points}", ends)  # fmt: skip
    return t.function(f"@{way}_side(ptr %job, i64 %block, ptr %scratch, i1 %swap) noinline")


# -- one transform after the other, each cut in two ------------------------------------------------
def _line_job(t: Lanes) -> str:
    """Rows from ``from`` to ``to``."""
    made = _Transform(t, "planes")
    of, core = made.of, made.core
    pitch = t.op("add", t.rounded_up(made.most, t.lanes), 3 * t.lanes)
    source, _, apart_in, _, group_in, count_in = _side(t, _IN)
    target, _, apart_out, _, group_out, count_out = _side(t, _OUT)
    shared, fault = t.field("%job", _SHARED), t.field("%job", _FAULT, "ptr")
    is_plain = t.is_not(made.is_convolution)
    reads = t.both(t.both(is_plain, t.test("eq", apart_in, 1)), t.is_not(made.to_real))
    writes = t.both(t.both(is_plain, t.test("eq", apart_out, 1)), t.is_not(made.to_halves))
    writes = t.both(writes, t.is_not(made.from_real))
    needs = t.is_not(t.both(reads, writes))
    bytes_ = t.select(needs, t.op("mul", pitch, 4 * t.size), 0)

    def pieces(ends: tuple[str, ...], factor: str) -> None:
        (x, x_apart, x_swap, y, y_apart, y_swap) = ends
        t.call("pieces", f"ptr {of}", f"ptr {x}, i64 {x_apart}, i1 {x_swap}",
               f"ptr {y}, i64 {y_apart}, i1 {y_swap}", f"{t.kind} {factor}", f"i64 {shared}",
               f"ptr {fault}")  # fmt: skip

    def body(memory: str) -> None:
        a = t.at(memory, t.lanes)
        b = t.at(a, t.op("mul", pitch, 2))
        with t.loop("%from", "%to") as row:
            x = t.at(source, t.op("mul", row, group_in))
            y = t.at(target, t.op("mul", row, group_out))
            with t.where(t.is_not(reads)):
                first = t.select(made.to_real, b, a, "ptr")
                t.call("read_line", f"ptr {x}, i64 {apart_in}, i64 {count_in}, ptr {first}",
                       f"i64 {pitch}, i1 {made.swap_in}")  # fmt: skip
                made.spread(b, a, pitch)
            with t.where(made.is_convolution):
                made.times(a, pitch, plan.CHIRP, 1, core, False)
                pieces((a, pitch, "false", a, pitch, "false"), "1.0")
                made.times(a, pitch, plan.KERNEL, 1, core, True)
                pieces((a, pitch, "false", a, pitch, "false"), "1.0")
                made.times(a, pitch, plan.CHIRP, -1, made.length, True)
            with t.where(is_plain):
                pieces((
                    t.select(reads, x, a, "ptr"), t.select(reads, apart_in, pitch),
                    t.both(reads, made.swap_in), t.select(writes, y, a, "ptr"),
                    t.select(writes, apart_out, pitch), t.both(writes, made.swap_out),
                ), t.select(writes, made.factor, "1.0", t.kind))  # fmt: skip
            with t.where(made.to_halves):
                made.gathered(a, b, pitch)
            with t.where(t.is_not(writes)):
                found = t.select(made.to_halves, b, a, "ptr")
                t.call(
                    "write_line",
                    f"ptr {found}, i64 {pitch}, ptr {y}, i64 {apart_out}",
                    f"i64 {count_out}, i1 {made.swap_out}",
                    f"{t.kind} {made.factor}",
                )

    with_memory(t, "planes", bytes_, fault, body)
    return t.function("@line_job(ptr %job, i64 %from, i64 %to)")


# -- the call --------------------------------------------------------------------------------------
def _put_sides(t: Lanes) -> None:
    """How both sides lie, from the sizes."""
    is_halved = plan.halves(t)
    behind = t.op("add", t.op("sdiv", "%points", 2), 1)
    row = t.op("mul", "%points", "%inner")
    twice = t.op("mul", "%inner", 2)
    half = t.op("sdiv", "%points", 2)
    is_all = t.let(f"or i1 {t.test('eq', '%kind', C2C)}, {t.test('eq', '%kind', R2ALL)}")
    from_real = t.let(f"or i1 {t.test('eq', '%kind', R2C)}, {t.test('eq', '%kind', R2ALL)}")
    to_real = t.test("eq", "%kind", C2R)
    for side, base, is_real in ((_IN, "%x", from_real), (_OUT, "%out", to_real)):
        count = t.select(is_all, "%points", behind)
        values = (
            (_STEP, t.select(is_halved, twice, "%inner"), twice),
            (_APART, t.select(is_halved, "%inner", 0), 1),
            (_BESIDE, 1, 2),
            (_GROUP, row, t.op("mul", count, twice)),
            (_COUNT, t.select(is_halved, half, "%points"), count),
        )
        t.set_word("%job", side + _BASE, base, "ptr")
        for word, of_real, of_complex in values:
            t.set_word("%job", side + word, t.select(is_real, of_real, of_complex))


def _run(t: Lanes) -> None:
    """Choose the way, and have it gone by threads where there is enough to do."""
    of = t.field("%job", _PLAN, "ptr")
    core, outer, inner = (t.field(of, w) for w in (plan.CORE, plan.OUTER, plan.INNER))
    total = t.op("mul", "%outer", "%inner")
    is_wide = t.test("sge", t.op("mul", "%inner", 2), t.lanes)
    is_single = t.both(t.test("eq", "%outer", 1), t.test("sgt", "%inner", 1))
    is_grouped = t.let(f"or i1 {is_wide}, {is_single}")
    per_group = t.select(is_grouped, t.parts_of("%inner", t.lanes), 0)
    blocks = t.select(is_grouped, t.op("mul", "%outer", per_group), t.parts_of(total, t.lanes))
    bytes_ = t.op("mul", core, 4 * t.lanes * t.size)
    each: str | int = COSTS[-1][1]
    for most, price in reversed(COSTS[:-1]):
        each = t.select(t.test("slt", bytes_, most), price, each)
    cost = t.op("mul", t.op("mul", blocks, core), each)
    own = t.op("mul", outer, t.parts_of(inner, t.lanes))
    own = t.op("add", own, t.op("mul", inner, t.parts_of(outer, t.lanes)))
    of_cut = t.op("mul", t.op("mul", own, "%outer"), COST_OF_CUT + t.size // 4)
    is_plain = t.let(f"icmp eq ptr {t.field(of, plan.CHIRP, 'ptr')}, null")
    of_cut = t.select(is_plain, of_cut, t.op("sdiv", t.op("mul", of_cut, 3), 2))
    can = t.both(t.test("eq", "%inner", 1), t.test("ne", t.field(of, plan.CUT), 0))
    is_cut = t.both(can, t.test("slt", of_cut, cost))
    pays = t.test("sge", t.op("mul", total, core), LEAST_SHARED)
    is_few = t.test("slt", "%outer", 4)
    inside = t.both(t.both(is_cut, pays), is_few)
    for word, value in (
        (_PER_GROUP, per_group), (_ALONG, "%inner"), (_TOTAL, total),
        (_SHARED, t.let(f"zext i1 {inside} to i64")),
    ):  # fmt: skip
        t.set_word("%job", word, value)
    around = t.both(pays, t.is_not(t.both(is_cut, is_few)))
    for job, extent, chosen in (
        ("lanes_job", blocks, t.is_not(is_cut)), ("line_job", "%outer", is_cut)
    ):  # fmt: skip
        with t.where(t.both(chosen, around)):
            t.call("phix_share", f"ptr @{job}", "ptr %job", f"i64 {extent}", "i64 1")
        with t.where(t.both(chosen, t.is_not(around))):
            t.call(job, "ptr %job", "i64 0", f"i64 {extent}")


def _entry(t: Lanes, name: str) -> str:
    t.head.append(f"  %job = alloca [{_WORDS} x i64]")
    t.head.append("  %taken = alloca ptr")
    number = t.let("sitofp i64 %divisor to double")
    root = t.let(f"call double @llvm.sqrt.f64(double {number})")
    number = t.select(t.test("ne", "%rooted", 0), root, number, "double")
    factor = t.let(f"fdiv double 1.0, {number}")
    if t.kind != "double":
        factor = t.let(f"fptrunc double {factor} to {t.kind}")
    t.set_word("%job", _FACTOR, factor, t.kind)
    t.set_word("%job", _FAULT, "%fault", "ptr")
    t.set_word("%job", _KIND, "%kind")
    t.set_word("%job", _FORWARD, "%forward")
    _put_sides(t)
    total = t.op("mul", t.op("mul", "%outer", "%inner"), "%points")
    with t.where(t.test("sgt", total, 0)):
        is_real = t.let(f"zext i1 {t.test('ne', '%kind', C2C)} to i64")
        t.call("plan_taken", "i64 %points", f"i64 {is_real}", "ptr %taken")
        taken = t.get("taken", "ptr")
        has_none = t.let(f"icmp eq ptr {taken}, null")
        with t.where(has_none):
            t.put(faults.report("%fault", faults.NO_ROOM).strip())
        with t.where(t.is_not(has_none)):
            t.set_word("%job", _PLAN, taken, "ptr")
            _run(t)
            t.call("plan_given", f"ptr {taken}")
    return t.function(f"@{name}({ARGUMENTS})", "")


def text(name: str, dtype: str, vector_bytes: int, registers: int) -> str:
    """The module with the transforms of numbers of ``dtype``, as function ``name``."""
    kind, size = KINDS[dtype]
    lanes = vector_bytes // size

    def begun() -> Lanes:
        return Lanes(kind, size, lanes)

    parts = [
        threads.DECLARATION,
        *pool.DECLARATIONS,
        "declare double @llvm.sqrt.f64(double)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        *intrinsics(kind, lanes),
        *fourier_roots.text(kind, size),
        *fourier_passes.text(kind, size, lanes, registers),
        *fourier_moves.text(kind, size, lanes),
        *fourier_points.text(kind, size, lanes),
        *fourier_plan.text(kind, size, lanes, registers),
        *fourier_lines.text(kind, size, lanes),
        _moved_side(begun(), True),
        _moved_side(begun(), False),
        _lanes_job(begun()),
        _line_job(begun()),
        _entry(begun(), name),
        f"attributes #0 = {{ {jit.function_attributes()} }}",
    ]
    return "\n".join(dict.fromkeys(parts)) + "\n"  # some declare the same
