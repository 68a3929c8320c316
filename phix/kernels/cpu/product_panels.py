"""What the ways to make a product share: the block that tells a job what it works on, panels of
rows and of columns, and memory for what is packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from phix.kernels.cpu import faults, threads
from phix.kernels.cpu.tiles import Text, Tile

# Multiplications below which threads do not share them: some microseconds.
LEAST_SHARED = 300_000
# Packed operands up to this many bytes need no memory from the pool.
ON_STACK = 32 << 10

# What a product is told, in one block of int64 and pointers, in this order.
FIELDS = (
    "x", "y", "out", "packed_x", "packed_y", "m", "n", "k", "x_row", "x_inner", "y_column",
    "y_inner", "lead", "add", "row_panels", "column_panels", "per_block", "span", "x_lies",
    "y_lies", "fault",
)  # fmt: skip
_POINTERS = ("x", "y", "out", "packed_x", "packed_y", "fault")

# Of each operand: where it is and where it is packed, how many rows or columns it has, the strides
# between these and between the terms of a sum, and whether it is read where it lies.
X = ("x", "packed_x", "m", "x_row", "x_inner", "x_lies")
Y = ("y", "packed_y", "n", "y_column", "y_inner", "y_lies")

# As ``blas.wrapper`` has them for gemm.
ARGUMENTS = (
    "i64 %x.t, i64 %y.t, i64 %adds, i64 %m, i64 %n, i64 %k, i64 %lead.x, i64 %lead.y, "
    "i64 %lead.out, ptr %x, ptr %y, ptr %out, ptr %fault"
)


# -- the block of a job ----------------------------------------------------------------------------
def fields(t: Text, *names: str) -> list[str]:
    """What is known of the product, read from the block that a job is given."""
    found = []
    for name in names:
        at = t.let(f"getelementptr inbounds i64, ptr %job, i64 {FIELDS.index(name)}")
        found.append(t.let(f"load {'ptr' if name in _POINTERS else 'i64'}, ptr {at}"))
    return found


def told(t: Text, values: Mapping[str, str]) -> None:
    """Make the block of the jobs that come, ``%job``."""
    t.head.append(f"  %job = alloca [{len(FIELDS)} x i64]")
    for number, field in enumerate(FIELDS):
        if field in values:
            at = t.let(f"getelementptr inbounds i64, ptr %job, i64 {number}")
            t.put(f"store {'ptr' if field in _POINTERS else 'i64'} {values[field]}, ptr {at}")


def operands(t: Text, tile: Tile) -> dict[str, str]:
    """The fields that follow from the arguments: strides, and how many panels there are."""

    def panels(count: str, width: int) -> str:
        return t.op("sdiv", t.op("add", count, width - 1), width)

    return {
        "x": "%x", "y": "%y", "out": "%out", "m": "%m", "n": "%n", "k": "%k",
        "lead": "%lead.out", "add": "%adds",
        "x_row": stride(t, "x", "1", "%lead.x"), "x_inner": stride(t, "x", "%lead.x", "1"),
        "y_column": stride(t, "y", "%lead.y", "1"), "y_inner": stride(t, "y", "1", "%lead.y"),
        "row_panels": panels("%m", tile.rows[0]), "column_panels": panels("%n", tile.widths[0]),
    }  # fmt: skip


def stride(t: Text, of: str, yes: str, no: str) -> str:
    """``yes`` where the operand is transposed, else ``no``."""
    is_turned = t.let(f"icmp ne i64 %{of}.t, 0")
    return t.let(f"select i1 {is_turned}, i64 {yes}, i64 {no}")


# -- panels ----------------------------------------------------------------------------------------
def panel(t: Text, number: str, widths: tuple[int, ...], every: str) -> tuple[str, str]:
    """Where a panel starts, and how many of its rows or columns there are.

    Where whole panels have three vectors, and the last would have one, it gets one of those of the
    panel before: two and two take less time than three and one.
    """
    whole, vector = widths[0], widths[0] - widths[-1]
    first = t.op("mul nsw", number, whole)
    left = t.op("sub", every, first)
    count = t.least(left, whole)
    if widths[-1] != 2 * vector:
        return first, count
    is_short = t.let(f"icmp sle i64 {left}, {vector}")
    takes = t.let(f"select i1 {is_short}, i1 {t.let(f'icmp sgt i64 {number}, 0')}, i1 false")
    over = t.let(f"icmp sgt i64 {left}, {whole}")
    gives = t.let(f"select i1 {over}, i1 {t.let(f'icmp sle i64 {left}, {whole + vector}')}, i1 0")
    taken, given = (t.let(f"select i1 {flag}, i64 {vector}, i64 0") for flag in (takes, gives))
    return t.op("sub", first, taken), t.op("sub", t.op("add", count, taken), given)


def width_of(t: Text, count: str, widths: tuple[int, ...]) -> str:
    """The least width of a panel that holds so many."""
    least: str | int = widths[0]
    for smaller in widths[1:]:
        fits = t.let(f"icmp sle i64 {count}, {smaller}")
        least = t.let(f"select i1 {fits}, i64 {smaller}, i64 {least}")
    return str(least)


# -- conditions, threads, memory -------------------------------------------------------------------
def holds(t: Text, *conditions: str) -> str:
    """Whether all conditions hold, which are instructions."""
    every, *rest = map(t.let, conditions)
    for flag in rest:
        every = t.let(f"and i1 {every}, {flag}")
    return every


def shared(
    t: Text, job: str, extent: str, work: str, least: int, pieces: int = threads.PIECES_PER_THREAD
) -> None:
    """Run a job in so many pieces for each thread, where there is so much work, or here."""
    pays = t.let(f"icmp sge i64 {work}, {least}")
    with t.where(pays):
        job_and_extent = f"ptr @{job}, ptr %job, i64 {extent}"
        t.put(f"call void @phix_share_in({job_and_extent}, i64 1, i64 {pieces})")
    with t.where(t.let(f"xor i1 {pays}, true")):
        t.put(f"call void @{job}(ptr %job, i64 0, i64 {extent})")


@contextmanager
def memory(t: Text, count: str, fault: str = "%fault") -> Iterator[str]:
    """So many bytes, on the stack where they are few; where there are none, that is reported."""
    t.head.append(f"  %near = alloca [{ON_STACK} x i8], align 64")
    t.head.append("  %memory = alloca ptr")
    is_large = t.let(f"icmp sgt i64 {count}, {ON_STACK}")
    t.put("store ptr %near, ptr %memory")
    with t.where(is_large):
        t.put(f"store ptr {t.let(f'call ptr @phix_take(i64 {count})')}, ptr %memory")
    found = t.let("load ptr, ptr %memory")
    has_none = t.let(f"icmp eq ptr {found}, null")
    with t.where(has_none):
        t.put(faults.report(fault, faults.NO_ROOM).strip())
    with t.where(t.let(f"xor i1 {has_none}, true")):
        yield found
        with t.where(is_large):
            t.put(f"call void @phix_give(ptr {found})")
