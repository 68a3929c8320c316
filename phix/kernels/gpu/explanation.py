"""How a graph becomes kernels of a GPU, and what a run holds."""

from __future__ import annotations

from collections.abc import Mapping

from phix.core import dims as dm
from phix.core.analysis import HeldVariable, Holder, MemoryAnalysis
from phix.core.dims import Symbol
from phix.kernels.gpu.schedule import GPU
from phix.kernels.loops.nodes import Buffer
from phix.kernels.report import holding
from phix.kernels.report.explanation import Explanation
from phix.kernels.schedule import workspace

# Temps begin at multiples of this in the block they share.
ALIGNMENT = 256


class GpuExplanation(Explanation):
    """A graph lowered for a GPU with its history."""

    target, pipeline = GPU, "gpu"

    def held(self, sizes: Mapping[Symbol, int]) -> tuple[HeldVariable, ...]:
        """See :class:`phix.core.engines.Explanation`."""
        return holding.held(self, lambda buffer: _bytes(buffer, sizes) or 0)

    def memory(self, sizes: Mapping[Symbol, int]) -> MemoryAnalysis:
        """What a run holds where the unknown dims have these sizes."""
        program = self.program
        uncounted: list[str] = []

        def size(buffer: Buffer) -> int:
            count = _bytes(buffer, sizes)
            if count is None:
                uncounted.append(f"{buffer.name}, whose size depends on the data")
            return count or 0

        def total(buffers: list[Buffer]) -> int:
            return sum(map(size, buffers))

        slots = workspace.plan_slots(program.steps, lambda b: True)
        temps = sum(max(-(-size(b) // ALIGNMENT) * ALIGNMENT for b in slot) for slot in slots)
        lives = workspace.lifetimes(program.steps)
        times = sorted({first for first, _ in lives.values()})
        alive = [[b for b, (a, z) in lives.items() if a <= t < z] for t in times]
        largest = max(alive, key=total, default=[])
        holders = [
            Holder(size(b), f"{b.dtype}{dm.shape_text(b.dims)} in {b.name}", self.sources.get(b))
            for b in [*largest, *program.outputs]
        ]
        return MemoryAnalysis(
            total(program.inputs),
            total(program.outputs),
            total(program.constants),
            temps,
            tuple(sorted(holders, key=lambda h: (-h.size_in_bytes, h.name))),
            tuple(dict.fromkeys(uncounted)),
        )


def _bytes(buffer: Buffer, sizes: Mapping[Symbol, int]) -> int | None:
    """The size of a buffer, where it is known."""
    count = dm.substitute(dm.product(buffer.dims), sizes)
    return count * buffer.dtype.itemsize if isinstance(count, int) else None
