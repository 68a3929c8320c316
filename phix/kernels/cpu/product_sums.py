"""Long sums of products: parts are added up in float64s, and go back in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phix.kernels.cpu import faults
from phix.kernels.cpu.product_panels import ARGUMENTS, stride
from phix.kernels.cpu.tiles import Text

# So many terms are added up in memory, in parts; of longer sums what these come to goes into
# float64s.
LONGEST = 16 << 10


def _add_to_wide(kind: str, size: int) -> str:
    """What is in the result goes to the float64s; with ``%clears`` they start from it."""
    t = Text(kind, size)
    with _over_result(t) as (wide, at):
        value = t.load(at)
        term = value if kind == "double" else t.let(f"fpext {kind} {value} to double")
        old = t.let(f"select i1 %clears, double 0.0, double {t.let(f'load double, ptr {wide}')}")
        t.put(f"store double {t.let(f'fadd double {old}, {term}')}, ptr {wide}")
    return t.function(f"@add_to_wide({_WIDE}, i1 %clears) noinline")


def _from_wide(kind: str, size: int) -> str:
    t = Text(kind, size)
    with _over_result(t) as (wide, at):
        total = t.let(f"load double, ptr {wide}")
        t.store(total if kind == "double" else t.let(f"fptrunc double {total} to {kind}"), at)
    return t.function(f"@from_wide({_WIDE}) noinline")


_WIDE = "ptr %wide, ptr %out, i64 %lead, i64 %rows, i64 %columns"


@contextmanager
def _over_result(t: Text) -> Iterator[tuple[str, str]]:
    """A loop over the elements of a result: where the float64 of each is, and where it is."""
    with t.loop(0, "%rows") as row, t.loop(0, "%columns") as column:
        number = t.op("add", t.op("mul", row, "%columns"), column)
        wide = t.let(f"getelementptr inbounds double, ptr %wide, i64 {number}")
        yield wide, t.at("%out", t.op("mul", row, "%lead"), column)


def _entry(name: str, kind: str, size: int) -> str:
    """Parts of ``LONGEST`` terms, one after the other."""
    t = Text(kind, size)
    is_long = t.let(f"icmp sgt i64 %k, {LONGEST}")
    with t.where(t.let(f"xor i1 {is_long}, true")):
        t.put(f"call void @part({ARGUMENTS})")
    with t.where(is_long):
        wide = t.let(f"call ptr @phix_take(i64 {t.op('mul', t.op('mul', '%m', '%n'), 8)})")
        has_none = t.let(f"icmp eq ptr {wide}, null")
        with t.where(has_none):
            t.put(faults.report("%fault", faults.NO_ROOM).strip())
        with t.where(t.let(f"xor i1 {has_none}, true")):
            result = f"ptr {wide}, ptr %out, i64 %lead.out, i64 %m, i64 %n"
            with t.loop(0, "%k", LONGEST) as q:
                is_first = t.let(f"icmp eq i64 {q}, 0")
                part = {
                    "%adds": t.let(f"select i1 {is_first}, i64 %adds, i64 0"),
                    "%k": t.least(t.op("sub", "%k", q), LONGEST),
                    "%x": t.at("%x", t.op("mul", q, stride(t, "x", "%lead.x", "1"))),
                    "%y": t.at("%y", t.op("mul", q, stride(t, "y", "1", "%lead.y"))),
                }
                given = (a.split() for a in ARGUMENTS.split(", "))
                arguments = ", ".join(f"{a} {part.get(word, word)}" for a, word in given)
                t.put(f"call void @part({arguments})")
                t.put(f"call void @add_to_wide({result}, i1 {is_first})")
            t.put(f"call void @from_wide({result})")
            t.put(f"call void @phix_give(ptr {wide})")
    return t.function(f"@{name}({ARGUMENTS})", "")


def functions(name: str, given: tuple[str, int], made: tuple[str, int]) -> list[str]:
    """The function ``name``, which calls ``@part``; operands and results are of these types, of so
    many bytes."""
    return [_add_to_wide(*made), _from_wide(*made), _entry(name, *given)]
