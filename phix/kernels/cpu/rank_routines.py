"""The functions, in LLVM, by which native code does steps between ranks: each calls one of MPI's,
by its address in a group's table.

What is begun and not waited for has a slot of two words: the table, null where nothing is under
way, and MPI's request. The slots lie on the stack of the program's entry. Whoever leaves a function
with a fault first waits for all of them: MPI reads and writes memory that is given back then.
"""

from __future__ import annotations

from phix.core.rank_ports import BEGUN, CROWDED, PLACES
from phix.kernels.cpu import faults
from phix.kernels.loops.calls import SLOTS

KEY = ("flights", "slots")  # the address of the slots among the names of a function
SLOT_BYTES = 16
MEMORY = f"[{2 * SLOTS} x i64]"

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
# One thread at a time is in the steps of a group, from the first that it begins to the last wait.
_ALONE = f"""BUSY
  %own = call i64 @PyThread_get_thread_ident()
  %seen = cmpxchg ptr %busy, i64 0, i64 %own acq_rel monotonic
  %is_free = extractvalue {{ i64, i1 }} %seen, 1
  %owner = extractvalue {{ i64, i1 }} %seen, 0
  %is_own = icmp eq i64 %owner, %own
  %is_alone = or i1 %is_free, %is_own
  br i1 %is_alone, label %alone, label %crowded
crowded:
  ret i32 {CROWDED}
alone:"""
_LEFT = """
define internal void @rank_left(ptr %busy, i64 %change) {
  %count.at = getelementptr inbounds i64, ptr %busy, i64 1
  %before = load i64, ptr %count.at
  %count = add i64 %before, %change
  store i64 %count, ptr %count.at
  %is_none = icmp eq i64 %count, 0
  br i1 %is_none, label %free, label %done
free:
  store atomic i64 0, ptr %busy release, align 8
  br label %done
done:
  ret void
}"""
_MOVED = """
define internal i32 @NAME(ptr %table, ptr %x, ptr %out, i64 %count, i64 %placeSLOT) noinline {
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
# What is added stands where the sum will.
_ADDED = "ptr %in_place, ptr %out, i32 %number, HANDLE %type, HANDLE %sum, HANDLE %communicator"
# No tag but 0 is in use, and no status is longer.
_SENT = """
define internal i32 @NAME(
    ptr %table, ptr %x, ptr %out, i64 %count, i64 %target, i64 %sourceSLOT) noinline {
ALONE
FUNCTION
COMMUNICATOR
BYTES
  %status = alloca [256 x i8], align 16
  %number = trunc i64 %count to i32
  %to = trunc i64 %target to i32
  %by = trunc i64 %source to i32
CALL
LEFT
  ret i32 %code
}"""
_EXCHANGED = (
    "ptr %x, i32 %number, HANDLE %bytes, i32 %to, i32 0, "
    "ptr %out, i32 %number, HANDLE %bytes, i32 %by, i32 0, HANDLE %communicator"
)
_BEHIND_WHOLE = "  call void @rank_left(ptr %busy, i64 0)"
# What MPI refuses to begin is not under way.
_BEHIND_BEGUN = """  %is_begun = icmp eq i32 %code, 0
  %begun = zext i1 %is_begun to i64
  %shown = select i1 %is_begun, ptr %table, ptr null
  store ptr %shown, ptr %slot
  call void @rank_left(ptr %busy, i64 %begun)"""
_REQUEST = "  %request = getelementptr inbounds i64, ptr %slot, i64 1"
_WAITED = """
define internal i32 @MPI_Wait(ptr %slot) noinline {
  %table = load ptr, ptr %slot
FUNCTION
BUSY
REQUEST
  %status = alloca [256 x i8], align 16
  %code = call i32 %function(ptr %request, ptr %status)
  store ptr null, ptr %slot
  call void @rank_left(ptr %busy, i64 -1)
  ret i32 %code
}"""
_ALL_WAITED = f"""
define internal void @rank_flights_end(ptr %slots, ptr %lock) noinline {{
entry:
  br label %head
head:
  %k = phi i64 [0, %entry], [%next, %behind]
  %at = mul i64 %k, {SLOT_BYTES}
  %slot = getelementptr inbounds i8, ptr %slots, i64 %at
  %table = load ptr, ptr %slot
  %is_free = icmp eq ptr %table, null
  br i1 %is_free, label %behind, label %wait
wait:
  %own = call ptr @step_out(ptr %lock)
  %code = call i32 @MPI_Wait(ptr %slot)
  call void @step_in(ptr %own)
  br label %behind
behind:
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, {SLOTS}
  br i1 %more, label %head, label %end
end:
  ret void
}}"""


def around(handle: str) -> tuple[str, ...]:
    """What steps are told by before and behind a call; ``handle`` is the type of MPI's handles."""
    says = [_filled(text, handle) for text in (_BEGINS, _ENDS)]
    return *says, _LEFT, "declare i64 @PyThread_get_thread_ident()"


def function(routine: str, handle: str, goes_on: bool) -> tuple[str, str]:
    """What calls a function of MPI: its name and text. One that ``goes_on`` has the second
    communicator."""
    whole = next((name for name, begun in BEGUN.items() if begun == routine), routine)
    is_begun = routine != whole
    given = {"MPI_Allreduce": _ADDED, "MPI_Sendrecv": _EXCHANGED}.get(whole, _RECEIVED)
    text = _SENT if whole == "MPI_Sendrecv" else _MOVED
    before = ["SUM", "IN_PLACE"] if whole == "MPI_Allreduce" else []
    if is_begun:
        before.append("REQUEST")
        given += ", ptr %request"
    elif whole == "MPI_Sendrecv":
        given += ", ptr %status"
    call = "\n".join([*before, f"  %code = call i32 %function({given})"])
    text = text.replace("CALL", call).replace("SLOT", ", ptr %slot" if is_begun else "")
    text = text.replace("LEFT", _BEHIND_BEGUN if is_begun else _BEHIND_WHOLE)
    name = f"{routine}.second" if goes_on else routine
    communicator = "second" if goes_on else "communicator"
    return name, _filled(text.replace("NAME", name), handle, routine, communicator)


def waits(handle: str) -> tuple[str, ...]:
    """What waits for a slot, and for all of them."""
    return _filled(_WAITED, handle, "MPI_Wait"), _ALL_WAITED


def _filled(text: str, handle: str, routine: str = "", communicator: str = "communicator") -> str:
    words = {"WHEREABOUTS": ("whereabouts", "whereabouts", "ptr"),
             "FUNCTION": ("function", routine, "ptr"), "SUM": ("sum", "sum", handle),
             "IN_PLACE": ("in_place", "in_place", "ptr"),
             "COMMUNICATOR": ("communicator", communicator, handle),
             "BUSY": ("busy", "busy", "ptr"), "BYTES": ("bytes", "bytes", handle)}  # fmt: skip
    lines = []
    for line in text.replace("ALONE", _ALONE).replace("REQUEST", _REQUEST).splitlines():
        if line in words:
            name, word, kind = words[line]
            line = _WORD.replace("NAME", name).replace("PLACE", str(PLACES[word]))
            line = line.replace("TYPE", kind)
        lines.append(line)
    return "\n".join(lines).replace("HANDLE", handle)


__all__ = ["KEY", "MEMORY", "SLOT_BYTES", "around", "function", "waits"]
