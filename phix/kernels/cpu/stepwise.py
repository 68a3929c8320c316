"""Programs that native code cannot run in one call: Python runs their steps.

Native steps between two others make one segment. Python runs host steps, loops and switches
with a host step inside, and bindings of dims, since arrays are sized by them. Arrays are made
when a step first needs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import stack
from phix.core.engines import Launcher
from phix.core.kernel_context import KernelContext
from phix.core.places import CPU
from phix.kernels.cpu import host_steps, jit
from phix.kernels.cpu.native_segment import NativeSegment, SymbolSource
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, LoopProgram, Step
from phix.kernels.loops.sizes import integer
from phix.kernels.scalar.language import Expr

Sources = dict[str, SymbolSource]
MakeSegment = Callable[[list[Step], Sources, list[Buffer]], NativeSegment]
Run = Callable[["_HostRun"], None]


def is_native(step: Step) -> bool:
    """Whether native code can run a step whole."""
    return not any(isinstance(s, ir.HostStep) for s in ir.walk_steps([step]))


class _HostRun:
    """One run: the arrays made so far, and the sizes of the dims known so far."""

    def __init__(self, arrays: dict[Buffer, Any], env: dict[dm.Symbol, int]) -> None:
        self.arrays, self.env = arrays, env
        self.index: dict[str, int] = {}

    def array(self, buffer: Buffer) -> Any:
        if buffer.base is not None:
            assert buffer.index is not None
            return self.array(buffer.base)[self.number(buffer.index), ...]
        found = self.arrays.get(buffer)
        if found is None:
            found = self.arrays[buffer] = np.empty(self.shape(buffer.dims), buffer.dtype)
        return found

    def shape(self, dims: dm.Shape) -> tuple[int, ...]:
        """The sizes of dims."""
        return tuple(int(dm.substitute(d, self.env)) for d in dims)

    def number(self, expr: Expr) -> int:
        """The value of a slice's index or a loop's extent."""
        return integer(expr, self.index)


class Stepwise:
    """The steps of a program as Python runs them; ``segments`` are its native parts."""

    def __init__(self, program: LoopProgram, sources: Sources, segment: MakeSegment) -> None:
        self.program, self.make = program, segment
        self.segments: list[NativeSegment] = []
        self.symbols = {symbol: name for name, symbol in program.symbols.items()}
        share(program.steps)
        self.run = self._block(program.steps, sources)

    def launcher(self, env: dict[dm.Symbol, Any], constants: list[Any]) -> Launcher:
        program, names = self.program, self.symbols
        fixed = dict(zip(program.constants, constants))
        known = {names[symbol]: size for symbol, size in env.items()}

        def launch(*inputs: Any) -> tuple[Any, ...]:
            state = _HostRun({**dict(zip(program.inputs, inputs)), **fixed}, dict(env))
            state.index.update(known)
            self.run(state)
            return tuple([state.array(b) for b in program.outputs])

        return launch

    # -- steps -----------------------------------------------------------------------------
    @stack.nests
    def _block(self, steps: list[Step], sources: Sources) -> Run:
        sources = dict(sources)
        runs: list[Run] = []
        for part in parts(steps):
            if isinstance(part, list):
                runs.append(self._native(part, sources))
            else:
                runs.append(getattr(self, f"_{type(part).__name__.lower()}")(part, sources))

        def run(state: _HostRun) -> None:
            for one in runs:
                one(state)

        return run

    def _native(self, steps: list[Step], sources: Sources) -> Run:
        touched = {ir.owner(b) for s in steps for b in ir.step_reads(s) | ir.step_writes(s)}
        arguments = {b: None for b in _ordered(touched) if b.kind != "temp"}
        arguments.update((source.buffer, None) for source in sources.values())
        segment = self.make(steps, sources, list(arguments))
        self.segments.append(segment)
        function, places = jit.compiled(segment.text), segment.arguments
        return lambda state: function(*[state.array(b) for b in places])

    def _hoststep(self, step: ir.HostStep, sources: Sources) -> Run:
        reads, writes = tuple(zip(step.inputs, step.dims)), step.outputs
        function = host_steps.find(step.name, step.attrs) or step.function

        def run(state: _HostRun) -> None:
            arrays = [state.array(b).reshape(state.shape(dims)) for b, dims in reads]
            function(*arrays, *[state.array(b) for b in writes])

        return run

    def _librarystep(self, step: ir.LibraryStep, sources: Sources) -> Run:
        ctx = KernelContext(CPU)
        reads, writes = tuple(zip(step.inputs, step.dims)), step.outputs

        def run(state: _HostRun) -> None:
            arrays = [state.array(b).reshape(state.shape(dims)) for b, dims in reads]
            step.function(ctx, state.env, *arrays, *[state.array(b) for b in writes])

        return run

    def _bindstep(self, step: ir.BindStep, sources: Sources) -> Run:
        symbol = self.program.symbols[step.name]
        sources[step.name] = SymbolSource(step.source)

        def run(state: _HostRun) -> None:
            size = int(state.array(step.source))
            state.env[symbol] = state.index[step.name] = size
            for buffer in list(state.arrays):
                if buffer.kind == "shared" and any(symbol in dm.symbols(d) for d in buffer.dims):
                    del state.arrays[buffer]  # of the iteration before

        return run

    def _forstep(self, loop: ir.ForStep, sources: Sources) -> Run:
        counter = Buffer(loop.index.data, dt.int64, (), "shared")
        name = loop.index.data
        body = self._block(loop.body, {**sources, name: SymbolSource(counter)})

        def run(state: _HostRun) -> None:
            first = [state.array(a) for a, _ in loop.swaps]
            for k in range(state.number(loop.extent)):
                state.index[name] = k
                state.array(counter)[...] = k
                body(state)
                _swap(state, loop.swaps)
            _copy_back(state, loop.swaps, first)

        return run

    def _whilestep(self, loop: ir.WhileStep, sources: Sources) -> Run:
        test, body = self._block(loop.test, sources), self._block(loop.body, sources)

        def run(state: _HostRun) -> None:
            first = [state.array(a) for a, _ in loop.swaps]
            test(state)
            while state.array(loop.flag):
                body(state)
                _swap(state, loop.swaps)
                test(state)
            _copy_back(state, loop.swaps, first)

        return run

    def _switchstep(self, step: ir.SwitchStep, sources: Sources) -> Run:
        branches = [self._block(b, sources) for b in step.branches]
        return lambda state: branches[int(state.array(step.index))](state)


def _swap(state: _HostRun, swaps: list[tuple[Buffer, Buffer]]) -> None:
    for a, b in swaps:
        state.arrays[a], state.arrays[b] = state.array(b), state.array(a)


def _copy_back(state: _HostRun, swaps: list[tuple[Buffer, Buffer]], first: list[Any]) -> None:
    """Each first of a pair in its own memory again."""
    for (a, b), own in zip(swaps, first):
        if state.arrays[a] is not own:
            own[...] = state.arrays[a]
            state.arrays[a], state.arrays[b] = own, state.arrays[a]


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
            users.update({b for s in part for b in ir.step_reads(s) | ir.step_writes(s)})
            continue
        for block in ir.blocks(part):
            _count_users(block, users)
        own = ir.step_uses(part)
        users.update([*own, *own])


def _ordered(buffers: set[Buffer]) -> list[Buffer]:
    """In an order that does not change from run to run: the text is a key of the disk cache."""
    return sorted(buffers, key=lambda b: (b.name[0], int(b.name[1:])))
