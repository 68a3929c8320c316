"""Prints steps between ranks: calls of MPI's functions, by the addresses in a group's table.

While ranks wait for each other, other threads of Python run. Before a call a rank writes down what
it is about to do, where those look who see that a rank is gone.
"""

from __future__ import annotations

from phix.core.rank_ports import CROWDED, MOST_TEXT, PLACES
from phix.kernels.cpu import faults, parallel_callers
from phix.kernels.cpu.known import Known
from phix.kernels.loops.calls import CallStep

_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_CLEAR = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
# A word of the table, as what LLVM calls TYPE.
_WORD = """  %NAME.at = getelementptr inbounds i64, ptr %table, i64 PLACE
  %NAME = load TYPE, ptr %NAME.at"""
# What a rank says: that it is in a step, which one, and the end; then that it is behind it.
_BEGINS = """
define internal void @rank_step_begins(ptr %table, ptr %text, i64 %count) noinline {
WHEREABOUTS
  call void @llvm.memcpy.p0.p0.i64(ptr %whereabouts, ptr %text, i64 %count, i1 false)
  ret void
}"""
_ENDS = f"""
define internal void @rank_step_ends(ptr %table, i32 %code, ptr %text, ptr %fault) noinline {{
WHEREABOUTS
  store i8 2, ptr %whereabouts
  %is_done = icmp eq i32 %code, 0
  br i1 %is_done, label %done, label %refused
refused:
{faults.report("%fault", faults.REFUSED)}
  %info.at = getelementptr inbounds i64, ptr %fault, i64 1
  %info = sext i32 %code to i64
  store i64 %info, ptr %info.at
  %title.at = getelementptr inbounds i64, ptr %fault, i64 2
  %title = getelementptr inbounds i8, ptr %text, i64 1
  store ptr %title, ptr %title.at
  br label %done
done:
  ret void
}}"""
# One thread at a time is in a call of a group.
_ALONE = f"""BUSY
  %seen = cmpxchg ptr %busy, i64 0, i64 1 acq_rel monotonic
  %is_free = extractvalue {{ i64, i1 }} %seen, 1
  br i1 %is_free, label %alone, label %crowded
crowded:
  ret i32 {CROWDED}
alone:"""
_LEFT = "  store atomic i64 0, ptr %busy release, align 8"
_MOVED = """
define internal i32 @ROUTINE(ptr %table, ptr %x, ptr %out, i64 %count, i64 %place) noinline {
ALONE
FUNCTION
COMMUNICATOR
  %type.at = getelementptr inbounds i64, ptr %table, i64 %place
  %type = load HANDLE, ptr %type.at
  %number = trunc i64 %count to i32
CALL
LEFT
  ret i32 %code
}"""
_RECEIVED = (
    "ptr %x, i32 %number, HANDLE %type, ptr %out, i32 %number, HANDLE %type, HANDLE %communicator"
)
_ADDED = "ptr %x, ptr %out, i32 %number, HANDLE %type, HANDLE %sum, HANDLE %communicator"
# No tag but 0 is in use, and no status is longer.
_SENT = """
define internal i32 @MPI_Sendrecv(
    ptr %table, ptr %x, ptr %out, i64 %count, i64 %target, i64 %source) noinline {
ALONE
FUNCTION
COMMUNICATOR
BYTES
  %status = alloca [256 x i8], align 16
  %number = trunc i64 %count to i32
  %to = trunc i64 %target to i32
  %by = trunc i64 %source to i32
  %code = call i32 %function(ptr %x, i32 %number, HANDLE %bytes, i32 %to, i32 0, ptr %out, i32 %number, HANDLE %bytes, i32 %by, i32 0, HANDLE %communicator, ptr %status)
LEFT
  ret i32 %code
}"""  # noqa: E501


def emit(text: Known, step: CallStep) -> None:
    """Print a step."""
    handle = str(step.attrs["handle"])
    text.declare(_filled(_BEGINS, "", handle))
    text.declare(_filled(_ENDS, "", handle))
    text.declare(_COPY)
    text.declare(_function(step.routine, handle))
    text.declare(parallel_callers.AROUND)
    for line in parallel_callers.DECLARATIONS:
        text.declare(line)
    (x, table), (out,) = step.inputs, step.outputs
    words, arrays = text.data(table), f"ptr {text.data(x)}, ptr {text.data(out)}"
    name, count = _said(text, step)
    numbers = "".join(f", i64 {n}" for n in step.numbers)
    fault, lock = text.fault(), text.known(parallel_callers.KEY) or "null"
    if step.attrs["kind"] == "permute" and step.numbers[-1] < 0:  # nobody sends: zeros
        text.declare(_CLEAR)
        clear = f"ptr {text.data(out)}, i8 0, i64 {step.numbers[0]}, i1 false"
        text.lines.append(f"  call void @llvm.memset.p0.i64({clear})")
    text.lines.append(f"  call void @rank_step_begins(ptr {words}, ptr {name}, i64 {count})")
    own = text.let(f"call ptr @step_out(ptr {lock})")
    code = text.let(f"call i32 @{step.routine}(ptr {words}, {arrays}{numbers})")
    text.lines.append(f"  call void @step_in(ptr {own})")
    ends = f"ptr {words}, i32 {code}, ptr {name}, ptr {fault}"
    text.lines.append(f"  call void @rank_step_ends({ends})")
    text.leave_if_failed()


def _said(text: Known, step: CallStep) -> tuple[str, int]:
    """The name of a constant with what the rank says it is in, and how many bytes that is."""
    group, source = step.attrs["group"], step.attrs["source"]
    at = f" at {source}" if source is not None else ""
    said = f"{group.text(step.attrs['asked'])}{at}".encode()[:MOST_TEXT]
    whole = said.decode(errors="ignore").encode()  # of no half characters: errors are titled so
    held = b"\1" + whole + b"\0"
    shown = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in held)
    texts = text.module.texts
    name = texts.setdefault(shown, f"@said{len(texts)}")
    text.declare(f'{name} = private constant [{len(held)} x i8] c"{shown}"')
    return name, len(held)


def _function(routine: str, handle: str) -> str:
    """The LLVM text of what calls a function of MPI."""
    if routine == "MPI_Sendrecv":
        return _filled(_SENT, routine, handle)
    is_sum = routine == "MPI_Allreduce"
    call = f"  %code = call i32 %function({_ADDED if is_sum else _RECEIVED})"
    text = _MOVED.replace("CALL", f"SUM\n{call}" if is_sum else call)
    return _filled(text, routine, handle)


def _filled(text: str, routine: str, handle: str) -> str:
    words = {"WHEREABOUTS": ("whereabouts", "whereabouts", "ptr"),
             "FUNCTION": ("function", routine, "ptr"), "SUM": ("sum", "sum", handle),
             "COMMUNICATOR": ("communicator", "communicator", handle),
             "BUSY": ("busy", "busy", "ptr"), "BYTES": ("bytes", "bytes", handle)}  # fmt: skip
    lines = []
    text = text.replace("ALONE", _ALONE).replace("LEFT", _LEFT).replace("ROUTINE", routine)
    for line in text.splitlines():
        if line in words:
            name, word, kind = words[line]
            line = _WORD.replace("NAME", name).replace("PLACE", str(PLACES[word]))
            line = line.replace("TYPE", kind)
        lines.append(line)
    return "\n".join(lines).replace("HANDLE", handle)


__all__ = ["emit"]
