"""Programs that note when each of their kernels ran: what ``phix.debug.profile`` runs.

The text of such a program is that of the plain one, with the clock read before and after each call
of a kernel; the library routines and threads that a kernel calls are in its time. Steps that Python
runs are timed by Python, with the same clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.engines import environment
from phix.core.errors import ArgumentError
from phix.core.graph import Equation, Graph
from phix.core.records import dataclass
from phix.kernels.cpu import jit
from phix.kernels.cpu.entry import _Entry
from phix.kernels.cpu.memory import CpuExplanation
from phix.kernels.cpu.native_program import TARGET, NativeProgram
from phix.kernels.cpu.native_segment import NativeSegment
from phix.kernels.cpu.results import allocator
from phix.kernels.cpu.steps import Steps
from phix.kernels.cpu.stepwise import MakeSegment, Sources, Stepwise
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Buffer, LoopProgram, Step
from phix.kernels.report import cost

MOST_EVENTS = 20_000  # runs of kernels whose beginning and end are kept, for one run of a program
_CLOCK = getattr(time, "CLOCK_MONOTONIC", None)  # of Python's time.perf_counter_ns too
# Nanoseconds, by the clock of the system.
_NOW = """
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() noinline {{
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr inbounds i64, ptr %time, i64 1
  %rest = load i64, ptr %at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}"""
# The array of times: how many runs were noted; of each step its nanoseconds and its runs; then of
# each run the step, its beginning and its end.
_STAMP = """
define internal void @stamp(ptr %times, i64 %step, i64 %start) noinline {{
  %end = call i64 @now()
  %spent = sub i64 %end, %start
  %twice = shl i64 %step, 1
  %own = getelementptr inbounds i64, ptr %times, i64 %twice
  %total.at = getelementptr inbounds i64, ptr %own, i64 1
  %total = load i64, ptr %total.at
  %total.now = add i64 %total, %spent
  store i64 %total.now, ptr %total.at
  %runs.at = getelementptr inbounds i64, ptr %own, i64 2
  %runs = load i64, ptr %runs.at
  %runs.now = add i64 %runs, 1
  store i64 %runs.now, ptr %runs.at
  %noted = load i64, ptr %times
  %noted.now = add i64 %noted, 1
  store i64 %noted.now, ptr %times
  %fits = icmp slt i64 %noted, {most}
  br i1 %fits, label %note, label %end.of.it
note:
  %thrice = mul i64 %noted, 3
  %place = add i64 %thrice, {first}
  %event = getelementptr inbounds i64, ptr %times, i64 %place
  store i64 %step, ptr %event
  %event.start = getelementptr inbounds i64, ptr %event, i64 1
  store i64 %start, ptr %event.start
  %event.end = getelementptr inbounds i64, ptr %event, i64 2
  store i64 %end, ptr %event.end
  br label %end.of.it
end.of.it:
  ret void
}}"""


class Clock:
    """Prints the reading of the clock around kernels, which have the numbers of ``steps``.

    One more than these is the time that two readings take with nothing between them.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.numbers = {step: k for k, step in enumerate(steps)}
        self.first = 1 + 2 * (len(steps) + 1)
        self.buffer = Buffer("times", dt.int64, (self.first + 3 * MOST_EVENTS,), "input")

    def read(self, text: Steps) -> str:
        return text.let("call i64 @now()")

    def stamp(self, text: Steps, step: Step, start: str) -> None:
        self._stamp(text, self.numbers[step], start)

    def calibrate(self, text: Steps) -> None:
        self._stamp(text, len(self.numbers), self.read(text))

    def _stamp(self, text: Steps, number: int, start: str) -> None:
        times = text.data(self.buffer)
        text.lines.append(f"  call void @stamp(ptr {times}, i64 {number}, i64 {start})")

    def functions(self) -> set[str]:
        return {
            _NOW.format(clock=_CLOCK),
            _STAMP.format(most=MOST_EVENTS, first=self.first),
        }

    def note(self, times: np.ndarray, step: Step, start: int, end: int) -> None:
        """The same for a step that Python runs."""
        at, noted = 1 + 2 * self.numbers[step], int(times[0])
        times[at] += end - start
        times[at + 1] += 1
        times[0] += 1
        if noted < MOST_EVENTS:
            place = self.first + 3 * noted
            times[place : place + 3] = self.numbers[step], start, end


class _TimedEntry(_Entry):
    def __init__(self, segment: NativeSegment, clock: Clock) -> None:
        super().__init__(segment)
        self.module.clock = clock
        self.module.declarations |= clock.functions()

    def block(self, steps: list[Step]) -> None:
        if len(self.scopes) == 1:
            self.module.clock.calibrate(self)
        super().block(steps)


class _TimedSteps(Stepwise):
    """Times the steps that Python runs, too."""

    def __init__(
        self, clock: Clock, program: LoopProgram, sources: Sources, segment: MakeSegment
    ) -> None:
        self.clock = clock
        super().__init__(program, sources, segment)

    def _hoststep(self, step: ir.HostStep, sources: Sources) -> Any:
        return self._timed(step, super()._hoststep(step, sources))

    def _startstep(self, step: ir.StartStep, sources: Sources) -> Any:
        return self._timed(step, super()._startstep(step, sources))

    def _waitstep(self, step: ir.WaitStep, sources: Sources) -> Any:
        return self._timed(step, super()._waitstep(step, sources))

    def _librarystep(self, step: ir.LibraryStep, sources: Sources) -> Any:
        return self._timed(step, super()._librarystep(step, sources))

    def _timed(self, step: Step, run: Callable[[Any], None]) -> Callable[[Any], None]:
        clock = self.clock

        def timed(state: Any) -> None:
            start = time.perf_counter_ns()
            run(state)
            clock.note(state.array(clock.buffer), step, start, time.perf_counter_ns())

        return timed


class _Explained(CpuExplanation):
    target = TARGET


class _TimedNative(NativeProgram):
    def __init__(self, explained: CpuExplanation, clock: Clock) -> None:
        self.explained, self.clock = explained, clock
        self.further = (clock.buffer,)
        super().__init__(explained.graph, explained.contiguous)

    def _lowered(
        self, graph: Graph, contiguous: tuple[bool, ...], donated: tuple[int, ...]
    ) -> tuple[LoopProgram, Builder]:
        return self.explained.program, self.explained.record

    def _printed(self, segment: NativeSegment) -> str:
        return _TimedEntry(segment, self.clock).text()

    def _is_one_call(self) -> bool:
        return not self.asked and super()._is_one_call()

    def _walked(self, program: LoopProgram, segment: MakeSegment) -> Stepwise:
        return _TimedSteps(self.clock, program, self.sources, segment)


@dataclass(frozen=True)
class TimedStep:
    """What is timed: its name, the equations in it, and what one run of a program costs in it."""

    name: str
    equations: tuple[Equation, ...]
    cost: cost.StepCost


_SEVERAL = cost.StepCost()  # of a kernel that is counted with another one


class TimedProgram:
    """A graph compiled with a clock around each step; ``steps`` are what is timed."""

    def __init__(self, graph: Graph, contiguous: tuple[bool, ...]) -> None:
        if _CLOCK is None:
            raise ArgumentError("profile: this system has no monotonic clock that C can read")
        self.graph = graph
        self.explained = _Explained(graph, contiguous)
        self.groups = self.explained.groups()
        self.clock = Clock([step for step, _, _ in self.groups])
        self.native = _TimedNative(self.explained, self.clock)
        self.solutions = dm.solutions([v.meta.dims for v in graph.inputs])

    def steps(self, shapes: tuple[tuple[int, ...], ...]) -> list[TimedStep]:
        """What is timed, by number, with what it costs for inputs of these shapes."""
        env = environment(self.graph, self.solutions, shapes)
        costs = self.explained.step_costs(env)
        return [
            TimedStep(name, held, costs.get(step, _SEVERAL)) for step, name, held in self.groups
        ]

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...]
    ) -> tuple[Callable[..., tuple[Any, ...]], np.ndarray]:
        """What runs the program, and the array in which it adds up times."""
        env = environment(self.graph, self.solutions, shapes)
        times = np.zeros(self.clock.buffer.dims, np.int64)
        native = self.native
        if native.stepwise is not None:
            further = {self.clock.buffer: times}
            return native.stepwise.launcher(env, native.constants, further), times
        function = jit.compiled(native.segments[0].text)
        constants = [native.constants[k] for k in native.kept]
        sizes = [(tuple(int(dm.substitute(d, env)) for d in dims), t) for dims, t in native.sizes]
        empty = [allocator(shape, dtype) for shape, dtype in sizes]

        def launch(*inputs: Any) -> tuple[Any, ...]:
            made = [make(*size) for make, size in zip(empty, sizes)]
            function(*inputs, *constants, *made, times)
            return tuple(made)

        return launch, times
