"""What CUDA reports when a card cannot be used, or not any more, as errors of phix.

Kernels run after the calls that start them have returned, so a fault of one shows in a later call,
often where a result is read; after it no call of the process reaches the card.
"""

from __future__ import annotations

from phix.core.errors import DeviceError

# Statuses of CUDA after which the context is gone, and what has happened.
_LOST = {
    700: "a kernel read or wrote outside its memory (an illegal address)",
    701: "a kernel wants more registers or shared memory than the card has",
    702: "a kernel ran longer than the system lets it",
    710: "an assertion in a kernel failed",
    714: "a fault of the card's stack",
    715: "a kernel ran an illegal instruction",
    716: "a kernel used an address that is not aligned",
    717: "a kernel used an address of another kind of memory",
    718: "a kernel's program counter left its code",
    719: "a kernel failed",
}
# Statuses at the first use of a card, and what to do about them.
_CLOSED = {
    35: "the driver is older than the CUDA libraries; update it, or install phix[cuda12]",
    46: "another process has the card for itself; wait for it, or ask for another card",
    100: "the driver finds no GPU",
    802: "the card is not ready yet; wait for it",
    803: "the driver and the CUDA libraries do not fit each other; install those of its version",
}


def fault(error: Exception, place: str) -> Exception:
    """The error of phix for one of CUDA; what is none of CUDA's, or says enough, as it is."""
    status = getattr(error, "status", getattr(error.__cause__, "status", None))
    if status in _LOST:
        return DeviceError(
            f"{place} is lost to this process: {_LOST[status]}. Start a new process, no call of "
            "this one reaches the card any more. The fault is that of a kernel started before "
            "this call, most likely one that is not phix's own; CUDA_LAUNCH_BLOCKING=1 stops at "
            f"the call that starts it, compute-sanitizer names the line in it ({error})"
        )
    if status in _CLOSED:
        return DeviceError(f"cannot use {place}: {_CLOSED[status]} ({error})")
    return error
