"""Steps that keep their place in the order, as those of the host do, and that native code does."""

from __future__ import annotations

from phix.core.records import dataclass
from phix.kernels.loops.nodes import HostStep, StartStep, WaitStep

# So many steps between ranks are under way at once, at most. Each has a slot for what is waited
# by, and there is one for a step that is begun and waited for at once.
MOST_UNDER_WAY = 8
SLOTS = MOST_UNDER_WAY + 1
# The name of steps between the ranks of a mesh. Their attrs: group, kind, detail, source.
RANK_STEP = "rank_step"


@dataclass(eq=False)
class CallStep(HostStep):
    """Native code calls ``routine`` with the arrays and ``numbers``; ``function`` does the same.

    Where ``attrs["begin"]`` is not None the routine only begins it, and ``slot`` is that of what it
    waits by. ``goes_on``: it is a part of a step that was begun: see ``schedule/overlap.py``.
    """

    routine: str = ""
    numbers: tuple[int, ...] = ()
    slot: int = MOST_UNDER_WAY
    goes_on: bool = False


@dataclass(eq=False)
class StartCall(CallStep, StartStep):
    """Begins what the call does, and waits for nothing."""


@dataclass(eq=False)
class WaitCall(CallStep, WaitStep):
    """Waits for what its ``start`` has begun."""
