"""The memory of a program as it is planned: see :mod:`phix.kernels.schedule.workspace`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from phix.core import dims as dm
from phix.core import rewrites
from phix.core.analysis import HeldVariable, Holder, MemoryAnalysis
from phix.core.dims import Symbol
from phix.kernels.cpu import sort_code, stepwise
from phix.kernels.cpu.known import ALIGNMENT
from phix.kernels.cpu.llvm import MOST_ON_STACK
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import has_host_step
from phix.kernels.loops.nodes import Buffer, LoopProgram, Step
from phix.kernels.loops.target import CPU
from phix.kernels.report import cost, holding
from phix.kernels.report.explanation import Explanation
from phix.kernels.schedule import shrinking, workspace
from phix.kernels.schedule.pipeline import Setting


class CpuExplanation(Explanation):
    """A graph lowered for the CPU with its history."""

    pipeline = "cpu"
    target = replace(
        CPU,
        calls_ranks=True,
        convolves_along_lines=True,
        sorts_by_vectors=sort_code.is_chosen,
    )

    def keep_local(self, program: LoopProgram, setting: Setting) -> None:
        """See :class:`Explanation`."""
        if rewrites.is_on("shrink_temps"):
            shrinking.shrink_temps(program, setting)

    def memory(self, sizes: Mapping[Symbol, int]) -> MemoryAnalysis:
        """What a run holds where the unknown dims have these sizes."""
        return _Planner(self, sizes).analysis()

    def held(self, sizes: Mapping[Symbol, int]) -> tuple[HeldVariable, ...]:
        """See :class:`phix.core.engines.Explanation`."""
        return holding.held(self, _Planner(self, sizes).bytes)


class _Planner:
    def __init__(self, explained: Explanation, sizes: Mapping[Symbol, int]) -> None:
        self.explained, self.sizes = explained, sizes
        self.program: LoopProgram = explained.program
        self.named = {n: sizes[s] for n, s in self.program.symbols.items() if s in sizes}
        self.uncounted: list[str] = []
        self.largest: tuple[int, list[Buffer]] = (0, [])

    def analysis(self) -> MemoryAnalysis:
        program = self.program
        if not has_host_step(program.steps):
            temps = self._workspace(program.steps)
        else:
            stepwise.share(program.steps)
            temps = self._steps(program.steps)
            shared = {b for b in program.temps if b.kind == "shared"}
            temps += sum(map(self.bytes, shared))
            self.largest = (self.largest[0], [*self.largest[1], *shared])
        held = [*self.largest[1], *program.outputs]
        holders = sorted(map(self._holder, held), key=lambda h: (-h.size_in_bytes, h.name))
        return MemoryAnalysis(
            sum(map(self.bytes, program.inputs)),
            sum(map(self.bytes, program.outputs)),
            sum(map(self.bytes, program.constants)),
            temps,
            tuple(holders),
            tuple(dict.fromkeys(self.uncounted)),
        )

    def bytes(self, buffer: Buffer) -> int:
        """The size of a buffer; 0, and said so, where it is known only while running."""
        count = dm.substitute(dm.product(buffer.dims), self.sizes)
        if isinstance(count, int):
            return count * buffer.dtype.itemsize
        self.uncounted.append(f"{buffer.name}, whose size depends on the data")
        return 0

    def _holder(self, buffer: Buffer) -> Holder:
        report = next((b for b in self.explained.report.buffers if b.name == buffer.name), None)
        held = f"{', '.join(report.holds)} = " if report and report.holds else ""
        name = f"{held}{buffer.dtype}{dm.shape_text(buffer.dims)} in {buffer.name}"
        return Holder(self.bytes(buffer), name, self.explained.sources.get(buffer))

    # -- temps -----------------------------------------------------------------------------
    def _steps(self, steps: list[Step]) -> int:
        """The largest workspace of the native parts of steps that Python runs."""
        largest = 0
        for part in stepwise.parts(steps):
            if isinstance(part, list):
                largest = max(largest, self._workspace(part))
            else:
                largest = max([largest, *map(self._steps, ir.blocks(part))])
        return largest

    def _workspace(self, steps: list[Step]) -> int:
        """The block of memory of a native part."""
        on_stack = set(workspace.on_stack(steps))
        plan = workspace.plan(steps, lambda b: b not in on_stack, ALIGNMENT)
        self._find_peak(steps, on_stack)
        shared = plan.size + sum(max(_rounded(self.bytes(b)) for b in s) for s in plan.slots)
        return shared + max([0, *map(self._locals, ir.walk_steps(steps))])

    def _locals(self, step: Step) -> int:
        """The buffers a kernel has for itself, but for those on the stack."""
        total = 0
        for buffer, count in step.locals.items() if isinstance(step, ir.Kernel) else ():
            is_known = count.fn == "const" and count.data * buffer.dtype.itemsize <= MOST_ON_STACK
            total += 0 if is_known else cost.value(count, self.named) * buffer.dtype.itemsize
        return total

    def _find_peak(self, steps: list[Step], on_stack: set[Buffer]) -> None:
        """Where in the steps most bytes are needed at once."""
        lives = {b: s for b, s in workspace.lifetimes(steps).items() if b not in on_stack}
        for start in sorted({first for first, _ in lives.values()}):
            alive = [b for b, (first, last) in lives.items() if first <= start < last]
            total = sum(map(self.bytes, alive))
            if total > self.largest[0]:
                self.largest = (total, alive)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
