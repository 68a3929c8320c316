"""Prints steps between ranks: calls of MPI's functions, by the addresses in a group's table.

While ranks wait for each other, other threads of Python run. Before a call a rank writes down what
it is about to do, where those look who see that a rank is gone.
"""

from __future__ import annotations

from phix.core.rank_ports import MOST_TEXT
from phix.kernels.cpu import parallel_callers, rank_routines
from phix.kernels.cpu.known import Known
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.calls import CallStep, StartCall, WaitCall
from phix.kernels.loops.nodes import Step

_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_CLEAR = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"


def begins(steps: list[Step]) -> bool:
    """Whether calls among the steps are begun, and waited for by a slot."""
    return any(isinstance(s, CallStep) and _is_begun(s) for s in ir.walk_steps(steps))


def _is_begun(step: CallStep) -> bool:
    return step.attrs["begin"] is not None


def emit(text: Known, step: CallStep) -> None:
    """Print a step."""
    handle = str(step.attrs["handle"])
    for part in (*rank_routines.around(handle), _COPY, parallel_callers.AROUND):
        text.declare(part)
    for part in parallel_callers.DECLARATIONS:
        text.declare(part)
    if not isinstance(step, WaitCall):
        _called(text, step)
    if _is_begun(step):
        for part in rank_routines.waits(handle):
            text.declare(part)
        if not isinstance(step, StartCall):
            _told(text, step, f"@MPI_Wait(ptr {_slot(text, step)})")


def _called(text: Known, step: CallStep) -> None:
    """The call of a function of MPI, which does a step or begins it."""
    name, function = rank_routines.function(step.routine, str(step.attrs["handle"]), step.goes_on)
    text.declare(function)
    (x, table), (out,) = step.inputs, step.outputs
    numbers = "".join(f", i64 {n}" for n in step.numbers)
    if step.attrs["kind"] == "permute" and step.numbers[-1] < 0:  # nobody sends: zeros
        text.declare(_CLEAR)
        clear = f"ptr {text.data(out)}, i8 0, i64 {step.numbers[0]}, i1 false"
        text.lines.append(f"  call void @llvm.memset.p0.i64({clear})")
    given = f"ptr {text.data(table)}, ptr {text.data(x)}, ptr {text.data(out)}{numbers}"
    slot = f", ptr {_slot(text, step)}" if _is_begun(step) else ""
    _told(text, step, f"@{name}({given}{slot})")


def _told(text: Known, step: CallStep, call: str) -> None:
    """A call, and what is said before and behind it."""
    words = text.data(step.inputs[1])
    name, count = _said(text, step)
    fault, lock = text.fault(), text.known(parallel_callers.KEY) or "null"
    text.lines.append(f"  call void @rank_step_begins(ptr {words}, ptr {name}, i64 {count})")
    own = text.let(f"call ptr @step_out(ptr {lock})")
    code = text.let(f"call i32 {call}")
    text.lines.append(f"  call void @step_in(ptr {own})")
    ends = f"ptr {words}, i32 {code}, ptr {name}, ptr {fault}"
    text.lines.append(f"  call void @rank_step_ends({ends})")
    text.leave_if_failed()


def _slot(text: Known, step: CallStep) -> str:
    """The address of what a step waits by."""
    at = rank_routines.SLOT_BYTES * step.slot
    slots = text.known(rank_routines.KEY)
    return text.let(f"getelementptr inbounds i8, ptr {slots}, i64 {at}")


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


__all__ = ["begins", "emit"]
