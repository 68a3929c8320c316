"""The steps between ranks of a program, as a whole: along which axes they are, and which."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.calls import RANK_STEP
from phix.kernels.loops.nodes import HostStep, Step


@dataclass(frozen=True)
class RankSteps:
    """``groups``: those along the axes. ``digest`` is the same on ranks whose programs have the
    same steps between them; ``are_recordable``: nobody looks at them one by one."""

    first: HostStep
    groups: tuple[Any, ...]
    digest: int
    are_recordable: bool

    @classmethod
    def of(cls, steps: Sequence[Step]) -> RankSteps | None:
        """Those among the steps of a program, loops and branches included; None: there are none."""
        lines, found = [], []
        for depth, step in _walk(steps, ()):
            if isinstance(step, HostStep) and step.name == RANK_STEP:
                attrs = step.attrs
                what = (attrs["group"].name, attrs["kind"], attrs["detail"])
                lines.append(f"{depth} {what} {step.inputs[0].dtype}")
                found.append(step)
        if not found:
            return None
        groups = [step.attrs["group"] for step in found]
        each = tuple(dict.fromkeys(groups))
        is_plain = all(g.watch is None for g in each)
        return cls(found[0], each, zlib.crc32("\n".join(lines).encode()), is_plain)

    def enter(self) -> None:
        """Say where this rank is, to those who look when it is gone."""
        attrs = self.first.attrs
        attrs["group"].announce(attrs["kind"], attrs["source"])

    def leave(self) -> None:
        """Say that they are under way, or done."""
        self.first.attrs["group"].leave()


def _walk(steps: Sequence[Step], place: tuple[int, ...]) -> Iterator[tuple[Any, Step]]:
    """Each step, with the kinds of the blocks around it."""
    for step in steps:
        yield place, step
        for number, block in enumerate(ir.blocks(step)):
            yield from _walk(block, (*place, type(step).__name__, number))  # type: ignore[arg-type]
