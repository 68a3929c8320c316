"""Steps that keep their place in the order, as those of the host do, and that native code does."""

from __future__ import annotations

from dataclasses import dataclass

from phix.kernels.loops.nodes import HostStep


@dataclass(eq=False)
class CallStep(HostStep):
    """Native code calls ``routine`` with the arrays and ``numbers``; ``function`` does the same."""

    routine: str = ""
    numbers: tuple[int, ...] = ()
