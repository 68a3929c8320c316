"""Prints kernels that threads run at the same time: see ``schedule/beside.py``.

What the kernels are passed stands in a table on the stack, a row for each: the number of its
function, then its arguments. A piece of the job goes through some of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from phix.core import settings
from phix.kernels.cpu import threads
from phix.kernels.cpu.known import Known
from phix.kernels.cpu.llvm import KernelText
from phix.kernels.scalar.language import Expr

Called = tuple[str, KernelText]  # the name of a kernel's function, and what that is made from

_PIECE = """(ptr %data, i64 %from, i64 %to) #2 {
  br label %head
head:
  %k = phi i64 [%from, %0], [%next, %again]
  %more = icmp slt i64 %k, %to
  br i1 %more, label %row, label %end
row:
  %at = mul nsw i64 %k, WIDTH
  %own = getelementptr inbounds i64, ptr %data, i64 %at
  %which = load i64, ptr %own
  switch i64 %which, label %call0 [TABLE]
CALLSagain:
  %next = add nsw i64 %k, 1
  br label %head
end:
  ret void
}"""


def emit(p: Known, kernels: Sequence[Called], work: Expr) -> None:
    """Let threads run kernels; where they do too little, this one runs them in order."""
    passed = [[p.argument(parameter) for parameter in text.parameters] for _, text in kernels]
    if work.fn == "const":
        _share(p, kernels, passed)
        return
    many, alone, end = p.labels("many", "alone", "end")
    pays = p.let(f"icmp sge i64 {p.value(work)}, {settings.current().least_shared_work}")
    p.lines.append(f"  br i1 {pays}, label %{many}, label %{alone}")
    p.start(many)
    _share(p, kernels, passed)
    p.lines.append(f"  br label %{end}")
    p.start(alone)
    for (name, _), values in zip(kernels, passed):
        p.lines.append(f"  call void {name}({', '.join(values)})")
    p.lines.append(f"  br label %{end}")
    p.start(end)


def _share(p: Known, kernels: Sequence[Called], passed: list[list[str]]) -> None:
    """Fill the table, and have its rows gone through."""
    p.declare(threads.DECLARATION)
    functions = {name: values for (name, _), values in zip(kernels, passed)}
    numbers = {name: k for k, name in enumerate(functions)}
    count, width = len(kernels), 1 + max(map(len, passed))
    table = f"%d{len(p.stack)}"
    p.stack.append(f"  {table} = alloca [{count * width} x i64]")
    for row, ((name, _), values) in enumerate(zip(kernels, passed)):
        for place, value in enumerate((f"i64 {numbers[name]}", *values), row * width):
            at = p.let(f"getelementptr inbounds i64, ptr {table}, i64 {place}")
            p.lines.append(f"  store {value}, ptr {at}")
    piece = f"@beside{len(p.module.pieces)}"
    p.module.pieces[piece] = _piece(functions, width)
    p.lines.append(f"  call void @phix_share(ptr {piece}.piece, ptr {table}, i64 {count}, i64 1)")


def _piece(functions: dict[str, list[str]], width: int) -> str:
    """The text of a piece; of each function arguments of one call are given, for their types."""
    table = " ".join(f"i64 {n}, label %call{n}" for n in range(len(functions)))
    lines = []
    for n, (name, values) in enumerate(functions.items()):
        kinds = [value.split(" ", 1)[0] for value in values]
        lines.append(f"call{n}:")
        for k, kind in enumerate(kinds):
            lines.append(f"  %a{n}.{k} = getelementptr inbounds i64, ptr %own, i64 {k + 1}")
            lines.append(f"  %v{n}.{k} = load {kind}, ptr %a{n}.{k}")
        given = ", ".join(f"{kind} %v{n}.{k}" for k, kind in enumerate(kinds))
        lines += [f"  call void {name}({given})", "  br label %again"]
    calls = "".join(f"{line}\n" for line in lines)
    return _PIECE.replace("WIDTH", str(width)).replace("TABLE", table).replace("CALLS", calls)
