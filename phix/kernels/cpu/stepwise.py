"""Programs with host steps, which native code cannot run in one call: Python runs their steps.

Native steps between two others make one segment. Python runs host steps, loops and switches
with a host step inside, and bindings of dims, since arrays are sized by them. Arrays are made
when a step first needs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import in_flight, stack
from phix.core.engines import Launcher
from phix.core.kernel_context import KernelContext
from phix.core.places import CPU
from phix.kernels.cpu import host_steps, jit, results
from phix.kernels.cpu.native_segment import NativeSegment, SymbolSource
from phix.kernels.host_walk import HostWalk, StepRun
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.effects import effects_of, has_effect, has_host_step
from phix.kernels.loops.nodes import Buffer, LoopProgram, Step

Sources = dict[str, SymbolSource]
MakeSegment = Callable[[list[Step], Sources, list[Buffer]], NativeSegment]
Run = Callable[["_HostRun"], None]


def is_native(step: Step) -> bool:
    """Whether native code can run a step whole."""
    return not has_host_step([step]) and not any(
        isinstance(s, ir.BindStep) and s.check is not None for s in ir.walk_steps([step])
    )


class _HostRun(StepRun):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.begun: dict[ir.StartStep | None, in_flight.Flight] = {}

    def make(self, buffer: Buffer) -> Any:
        shape = self.shape(buffer.dims)
        return results.allocator(shape, buffer.dtype)(shape, buffer.dtype)


class Stepwise(HostWalk):
    """The steps of a program as Python runs them; ``segments`` are its native parts."""

    per_run = "shared"

    def __init__(self, program: LoopProgram, sources: Sources, segment: MakeSegment) -> None:
        super().__init__(program.symbols)
        self.program, self.make = program, segment
        self.segments: list[NativeSegment] = []
        self.names = {symbol: name for name, symbol in program.symbols.items()}
        share(program.steps)
        self.run = self.block(program.steps, sources)

    def launcher(
        self,
        env: dict[dm.Symbol, Any],
        constants: list[Any],
        further: Mapping[Buffer, Any] | None = None,
    ) -> Launcher:
        """What runs the steps for these sizes; ``further`` are arrays besides the program's."""
        program, names = self.program, self.names
        fixed = {**dict(zip(program.constants, constants)), **(further or {})}
        known = {names[symbol]: size for symbol, size in env.items()}

        def launch(*inputs: Any) -> tuple[Any, ...]:
            arrays = {**dict(zip(program.inputs, inputs)), **fixed}
            state = _HostRun(arrays, dict(env), dict(known))
            try:
                self.run(state)
            except BaseException:
                in_flight.finish_all()  # the other ranks wait for it, and MPI writes to our arrays
                raise
            return tuple([state.array(b) for b in program.outputs])

        return launch

    # -- steps -----------------------------------------------------------------------------
    @stack.nests
    def block(self, steps: list[Step], scope: Sources) -> Run:
        sources = dict(scope)
        runs: list[Run] = []
        for part in parts(steps):
            if isinstance(part, list):
                runs.append(self._native(part, sources))
            else:
                runs.append(self.step(part, sources))

        def run(state: _HostRun) -> None:
            for one in runs:
                one(state)

        return run

    def _native(self, steps: list[Step], sources: Sources) -> Run:
        touched = {ir.owner(b) for s in steps for b in effects_of(s).touched}
        arguments = {b: None for b in _ordered(touched) if b.kind != "temp"}
        arguments.update((source.buffer, None) for source in sources.values())
        segment = self.make(steps, sources, list(arguments))
        self.segments.append(segment)
        function, places = jit.compiled(segment.text), segment.arguments
        if not has_effect(steps):
            return lambda state: function(*[state.array(b) for b in places])

        def run(state: _HostRun) -> None:
            in_flight.let_go_on()  # others may wait for that before they come to these calls
            function(*[state.array(b) for b in places])

        return run

    def _hoststep(self, step: ir.HostStep, sources: Sources) -> Run:
        function = host_steps.find(step.name, step.attrs) or step.function

        def run(state: _HostRun) -> None:
            inputs, outputs = state.operands(step)
            function(*inputs, *outputs)

        return run

    def _startstep(self, step: ir.StartStep, sources: Sources) -> Run:
        begin = step.attrs["begin"]

        def run(state: _HostRun) -> None:
            inputs, outputs = state.operands(step)
            state.begun[step] = begin(*inputs, *outputs)

        return run

    def _waitstep(self, step: ir.WaitStep, sources: Sources) -> Run:
        return lambda state: in_flight.finish(state.begun.pop(step.start))

    def _librarystep(self, step: ir.LibraryStep, sources: Sources) -> Run:
        ctx = KernelContext(CPU)

        def run(state: _HostRun) -> None:
            inputs, outputs = state.operands(step)
            step.function(ctx, state.env, *inputs, *outputs)

        return run

    # -- what the walk asks ------------------------------------------------------------------
    def value(self, array: Any) -> Any:
        return array.item()

    def copy(self, to: Any, array: Any) -> None:
        to[...] = array

    def bound(self, step: ir.BindStep, scope: Sources) -> None:
        scope[step.name] = SymbolSource(step.source)

    def counted(
        self, loop: ir.ForStep, scope: Sources
    ) -> tuple[Sources, Callable[[_HostRun, int], None]]:
        counter = Buffer(loop.index.data, dt.int64, (), "shared")

        def begin(run: _HostRun, k: int) -> None:
            run.array(counter)[...] = k

        return {**scope, loop.index.data: SymbolSource(counter)}, begin


# -- what runs where -------------------------------------------------------------------------
def parts(steps: list[Step]) -> Iterator[list[Step] | Step]:
    """Lists of native steps, and the steps that Python runs between them."""
    pending: list[Step] = []
    for step in steps:
        if is_native(step) and not isinstance(step, ir.BindStep):
            pending.append(step)
            continue
        if pending:
            yield pending
        pending = []
        yield step
    if pending:
        yield pending


def share(steps: list[Step]) -> None:
    """Make arrays of the temps that more than one segment, or Python, touches."""
    users: Counter[Buffer] = Counter()
    _count_users(steps, users)
    for buffer, count in users.items():
        if count > 1 and buffer.kind == "temp":
            buffer.kind = "shared"


@stack.nests
def _count_users(steps: list[Step], users: Counter[Buffer]) -> None:
    for part in parts(steps):
        if isinstance(part, list):
            users.update({b for s in part for b in effects_of(s).touched})
            continue
        for block in ir.blocks(part):
            _count_users(block, users)
        own = ir.step_uses(part)
        users.update([*own, *own])


def _ordered(buffers: set[Buffer]) -> list[Buffer]:
    """In an order that does not change from run to run: the text is a key of the disk cache."""
    return sorted(buffers, key=lambda b: (b.name[0], int(b.name[1:])))
