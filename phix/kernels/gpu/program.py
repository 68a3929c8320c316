"""A compiled graph on a GPU: its kernels, and the launchers that run its steps in order.

The host runs the steps: it launches kernels, calls libraries, and goes round loops. The temps
whose sizes the inputs tell share one block of memory. A program that never looks at data on the
way is recorded, and started as a whole when it is called again with the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Union

import numpy as np

from phix.core import dims as dm
from phix.core import rewrites, settings
from phix.core.engines import Launcher, environment
from phix.core.graph import Graph
from phix.core.tensor import Tensor
from phix.kernels.gpu import prelude
from phix.kernels.gpu.cuda import KernelText
from phix.kernels.gpu.dependences import order
from phix.kernels.gpu.explanation import ALIGNMENT
from phix.kernels.gpu.factors import Factor
from phix.kernels.gpu.launches import Launch
from phix.kernels.gpu.nccl import NEVER, decide
from phix.kernels.gpu.products import Product
from phix.kernels.gpu.rank_steps import RankSteps
from phix.kernels.gpu.recordings import JointRecordings, Recordings
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.gpu.runtime import Runtime
from phix.kernels.gpu.schedule import GpuBuilder
from phix.kernels.host_walk import HostWalk, StepRun
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import sizes
from phix.kernels.loops import text as loop_text
from phix.kernels.loops.calls import RANK_STEP
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering import library_step
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule import workspace
from phix.kernels.schedule.pipeline import lowered, run

# Launches that a recording has at most, those of each iteration of a loop counted.
_MOST_RECORDED = 4096
Run = Callable[["_GpuRun"], None]
Maker = Callable[[tuple[Any, ...]], Any]
Text = Union[KernelText, RoutineText]


class GpuProgram:
    """A graph compiled for a GPU; ``runtime()`` is asked for when it is first to run."""

    def __init__(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        runtime: Callable[[], Runtime],
        donated: tuple[int, ...] = (),
    ) -> None:
        self.graph, self.contiguous, self._runtime = graph, contiguous, runtime
        self.donating: dict[tuple[int, ...], GpuProgram] = {}  # the same, given inputs' memory
        self.donated = donated
        # the same, without kernels of these ops that are not for some sizes
        self.generated: dict[frozenset[str], GpuProgram] = {}
        self.left_out, self.settings = rewrites.left_out(), settings.current()
        program, setting = lowered(graph, contiguous, GpuBuilder, donated=donated)
        self.loops = program
        self.solutions = dm.solutions([v.meta.dims for v in graph.inputs])
        run("gpu", program, setting)
        self.launches: dict[ir.Kernel, Launch | Routine] = {}
        for step in ir.walk_steps(program.steps):
            if isinstance(step, Routine):
                self.launches[step] = step
            elif type(step) is ir.Kernel:
                self.launches[step] = Launch(step)
        self.out_dims = [atom.meta.dims for atom in graph.outputs]
        self.symbol_names = {symbol: name for name, symbol in program.symbols.items()}
        self._modules: dict[tuple[str, ...], dict[Text, Any]] = {}

    @cached_property
    def sections(self) -> dict[str, str]:
        """The loop IR, and the CUDA C++ for sizes that are not known."""
        texts = [launch.text(self._team(launch, {})) for launch in self.launches.values()]
        source, _ = _module(texts)
        return {"loop ir": loop_text.program_text(self.loops), "cuda": source}

    @cached_property
    def runtime(self) -> Runtime:
        return self._runtime()

    @cached_property
    def constants(self) -> list[Any]:
        values = self.loops.constant_values
        return [self.runtime.upload(v.data if isinstance(v, Tensor) else v) for v in values]

    @cached_property
    def is_recordable(self) -> bool:
        """Whether the host never waits for data on the way."""
        return all(
            isinstance(s, (ir.Kernel, ir.ForStep))
            or (isinstance(s, ir.LibraryStep) and s.recordable)
            or (type(s) is ir.HostStep and s.name == RANK_STEP and s.attrs["kind"] != "ragged")
            for s in ir.walk_steps(self.loops.steps)
        )

    def _team(self, launch: Launch | Routine, numbers: dict[str, int]) -> str:
        if launch.names <= set(numbers):
            return launch.team(numbers)
        return launch.default_team()

    def module(self, numbers: dict[str, int]) -> dict[ir.Kernel, tuple[Text, Any]]:
        """The kernels' texts and functions for these sizes, compiled once a choice of teams."""
        chosen = {
            kernel: launch.text(self._team(launch, numbers))
            for kernel, launch in self.launches.items()
        }
        key = tuple(text.team for text in chosen.values())
        if key not in self._modules:
            source, names = _module(list(chosen.values()))
            functions = self.runtime.functions(source, list(names.values())) if names else []
            by_name = dict(zip(names.values(), functions))
            self._modules[key] = {t: by_name[names[t.text]] for t in chosen.values()}
        functions_of = self._modules[key]
        return {kernel: (text, functions_of[text]) for kernel, text in chosen.items()}

    def prepare(self) -> None:
        """See :class:`phix.core.engines.Program`."""
        if not self.graph.symbols():
            self.module({})

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """See :class:`phix.core.engines.Program`."""
        if donated:
            if donated not in self.donating:
                self.donating[donated] = self._again(self.graph, donated)
            return self.donating[donated].launcher(shapes)
        env = environment(self.graph, self.solutions, shapes)
        if names := self._unfit(env):
            if names not in self.generated:
                own = library_step.engines_own(self.graph, names, "GPU")
                self.generated[names] = self._again(own, self.donated)
            return self.generated[names].launcher(shapes)
        return _SizedProgram(self, env).launch

    def _again(self, graph: Graph, donated: tuple[int, ...]) -> GpuProgram:
        with rewrites.without(self.left_out), settings.in_force(self.settings):
            return GpuProgram(graph, self.contiguous, self._runtime, donated)

    def _unfit(self, env: dict[dm.Symbol, int]) -> frozenset[str]:
        """The ops with a kernel in the program that is not for the sizes."""
        found: set[str] = set()
        for step in ir.walk_steps(self.loops.steps):
            if isinstance(step, ir.LibraryStep) and step.fits is not None:
                ask = partial(self._ask, step, env, found)
                self.runtime.call(ask)
        return frozenset(found)

    def _ask(self, step: ir.LibraryStep, env: dict[dm.Symbol, int], unfit: set[str]) -> None:
        assert step.fits is not None
        if not step.fits(self.runtime.context([]), env):
            unfit.add(step.name)


def _module(texts: Sequence[Text]) -> tuple[str, dict[str, str]]:
    """The source of kernels, equal ones once, and their names by their texts."""
    names: dict[str, str] = {}
    parts = [prelude.TEXT]
    for text in texts:
        if text.text not in names:
            names[text.text] = f"phix_{len(names)}"
            parts.append(text.source(names[text.text]))
    return "\n".join(parts), names


class _GpuRun(StepRun):
    """One run, in a block of memory for temps of known sizes."""

    def __init__(self, plan: _SizedProgram, arrays: dict[Buffer, Any], block: Any) -> None:
        super().__init__(arrays, dict(plan.env), dict(plan.numbers))
        self.plan, self.block = plan, block
        self.made: list[Any] = []  # what kernels of libraries allocate: a recording keeps it

    def make(self, buffer: Buffer) -> Any:
        shape, runtime = self.shape(buffer.dims), self.plan.runtime
        offset = self.plan.offsets.get(buffer)
        if offset is None:
            return runtime.empty(shape, buffer.dtype)
        return runtime.view(self.block, offset, shape, buffer.dtype)


class _SizedProgram(HostWalk):
    """A program for known shapes of its inputs."""

    def __init__(self, program: GpuProgram, env: dict[dm.Symbol, int]) -> None:
        super().__init__(program.loops.symbols)
        self.program, self.env, self.runtime = program, env, program.runtime
        self.numbers = {program.symbol_names[symbol]: size for symbol, size in env.items()}
        self.functions = program.module(self.numbers)
        self.slots: dict[Buffer, int] = {}
        self.turns: dict[ir.Step, int] = {}  # of the products
        self.offsets, self.block_size = self._planned(program.loops.steps)
        out_shapes = [self._shape(dims) for dims in program.out_dims]
        loops = program.loops
        self.makers = [*map(self._maker, loops.outputs, loops.reused, out_shapes)]
        self.run = self.block(program.loops.steps)
        self.recordings: Recordings | None = None
        steps = program.loops.steps
        self.is_recorded = (
            program.is_recordable and self._is_short(steps) and not self._asks_solver(steps)
        )
        self.ranks = RankSteps.of(steps)
        if self.is_recorded and self.ranks is None:
            self.recordings = Recordings(self.runtime, self.block_size, program.contiguous)

    def _planned(self, steps: list[ir.Step]) -> tuple[dict[Buffer, int], int]:
        """Where the temps of known sizes lie in their block, and its size in bytes."""
        offsets: dict[Buffer, int] = {}
        total = 0
        for number, slot in enumerate(self._slots(steps)):
            for buffer in slot:
                offsets[buffer], self.slots[buffer] = total, number
            largest = max(int(self._bytes(b)) for b in slot)
            total += -(-largest // ALIGNMENT) * ALIGNMENT
        return offsets, total

    def _slots(self, steps: list[ir.Step]) -> list[list[Buffer]]:
        """Temps that share memory, as they are not needed at one time. Where all of them take
        little room none shares, so that more steps can run side by side."""
        slots = workspace.plan_slots(steps, self._takes_room)
        temps = [b for slot in slots for b in slot]
        is_little = sum(map(self._bytes, temps)) <= settings.current().most_unshared_bytes
        return [[b] for b in temps] if is_little else slots

    def _memory(self, buffer: Buffer) -> Any:
        owner = ir.owner(buffer)
        return self.slots.get(owner, owner)

    def _shape(self, dims: dm.Shape) -> tuple[int, ...] | None:
        """The sizes of dims; None where they are found on the way."""
        if any(s not in self.env for d in dims for s in dm.symbols(d)):
            return None
        return tuple(int(dm.substitute(d, self.env)) for d in dims)

    def _is_sized(self, buffer: Buffer) -> bool:
        return self._shape(buffer.dims) is not None

    def _takes_room(self, buffer: Buffer) -> bool:
        return self._is_sized(buffer) and self._bytes(buffer) > 0

    def _bytes(self, buffer: Buffer) -> int:
        return int(dm.substitute(dm.product(buffer.dims), self.env)) * buffer.dtype.itemsize

    def _asks_solver(self, steps: list[ir.Step]) -> bool:
        """Whether a library may be called that allocates on the way."""
        factors = [s for s in ir.walk_steps(steps) if isinstance(s, Factor)]
        known = set(self.numbers)
        return any(not f.names <= known or f.is_large(self.numbers) for f in factors)

    def _is_short(self, steps: list[ir.Step]) -> bool:
        return self._launches(steps) <= _MOST_RECORDED

    def _launches(self, steps: list[ir.Step]) -> float:
        """What the steps launch, loops gone through; infinitely much where a size is not known."""
        total = 0.0
        for step in steps:
            if not isinstance(step, ir.ForStep):
                total += 1
            elif {v.data for v in _variables(step.extent)} <= set(self.numbers):
                times = max(sizes.integer(step.extent, self.numbers), 1)
                total += times * self._launches(step.body)
            else:
                return math.inf
        return total

    def launch(self, *inputs: Any) -> tuple[Any, ...]:
        """Run the program on arrays of the device."""
        outputs = tuple([make(inputs) for make in self.makers])
        recordings = self.recordings if self.ranks is None else self._recorder(self.ranks)
        if recordings is not None:
            recordings.run(inputs, outputs, self._made)
            if self.ranks is not None:
                self.ranks.leave()
            return outputs
        empty, size = self.runtime.empty, self.block_size
        state = self._start(inputs, outputs, empty((size,), np.dtype(np.uint8)) if size else None)
        made = zip(outputs, self.program.loops.outputs)  # a size found on the way has none yet
        return tuple([state.array(b) if x is None else x for x, b in made])

    def _maker(self, buffer: Buffer, reused: int | None, shape: tuple[int, ...] | None) -> Maker:
        """What gives the array of an output for the inputs, or None: it is made on the way."""
        empty, dtype = self.runtime.empty, buffer.dtype
        if shape is None:
            return lambda inputs: None
        if reused is None:
            return lambda inputs: empty(shape, dtype)

        def given(inputs: tuple[Any, ...]) -> Any:
            found = inputs[reused]  # a view of it would not be alone with its memory
            return found if found.shape == shape else found.reshape(shape)

        return given

    def _recorder(self, ranks: RankSteps) -> Recordings | None:
        """What records a program with steps between ranks, in each of whose calls they decide
        together whether it is recorded."""
        links = [self.runtime.link(group) for group in ranks.groups]
        if self.is_recorded and ranks.are_recordable and all(links):
            if self.recordings is None:
                self.recordings = JointRecordings(
                    self.runtime, self.block_size, self.program.contiguous, links, ranks.digest
                )
            ranks.enter()
            return self.recordings
        if any(links):
            ranks.enter()
            decide(links, ranks.digest, NEVER)
            ranks.leave()
        return None

    def _start(self, inputs: Sequence[Any], outputs: Sequence[Any], block: Any) -> _GpuRun:
        loops = self.program.loops
        arrays = dict(zip(loops.inputs, inputs))
        arrays.update(zip(loops.constants, self.program.constants))
        own = zip(loops.outputs, loops.reused, outputs)
        arrays.update((b, x) for b, reused, x in own if reused is None and x is not None)
        state = _GpuRun(self, arrays, block)
        self.run(state)
        return state

    def _made(self, inputs: Sequence[Any], outputs: Sequence[Any], block: Any) -> list[Any]:
        """Start the program; what libraries have allocated for it."""
        return self._start(inputs, outputs, block).made

    # -- steps -----------------------------------------------------------------------------
    def block(self, steps: list[ir.Step], scope: None = None) -> Run:
        found = order(steps, self._memory)
        self.turns |= found.turns
        runs, runtime, waits = [self.step(s) for s in steps], self.runtime, found.waits
        if len(runs) == 1:
            return runs[0]
        return lambda state: runtime.start([partial(run, state) for run in runs], waits)

    def step(self, step: ir.Step, scope: None = None) -> Run:
        if isinstance(step, Factor):  # these two have kinds in programs
            return self._factor(step)
        if isinstance(step, Routine):
            return self._kernel(step)
        return super().step(step, scope)

    def _kernel(self, kernel: ir.Kernel, scope: None = None) -> Run:
        text, function = self.functions[kernel]
        launch, runtime = self.program.launches[kernel], self.runtime
        fixed = launch.size(text.team, self.numbers) if launch.names <= set(self.numbers) else None

        def run(state: _GpuRun) -> None:
            grid, block = fixed or launch.size(text.team, state.numbers)
            if grid:
                runtime.launch(function, grid, block, list(self._arguments(text, state)))

        return run

    def _arguments(self, text: Text, state: _GpuRun) -> Iterator[int]:
        for kind, what, axis in text.parameters:
            if isinstance(what, str):
                yield state.numbers[what]
            elif kind == "data":
                yield self.runtime.address(state.array(what))
            else:
                yield state.array(what).strides[axis]

    def _factor(self, factor: Factor) -> Run:
        own, runtime = self._kernel(factor), self.runtime

        def run(state: _GpuRun) -> None:
            solve = runtime.solver() if factor.is_large(state.numbers) else None
            if solve is None:
                own(state)
                return
            addresses = [runtime.address(state.array(p.buffer)) for p in factor.pointers]
            for call in factor.calls(addresses, state.numbers):
                solve(call)

        return run

    def _product(self, product: Product, scope: None = None) -> Run:
        runtime, turn = self.runtime, self.turns[product]

        def run(state: _GpuRun) -> None:
            addresses = [runtime.address(state.array(b)) for b in product.buffers]
            for batch in product.batches(addresses, state.numbers):
                runtime.multiply(batch, turn)

        return run

    def _hoststep(self, step: ir.HostStep, scope: None = None) -> Run:
        runtime = self.runtime
        if step.name == RANK_STEP:
            return self._rank_step(step)
        native = runtime.host_step(step.name, step.attrs)
        if native is None:
            return self._on_host(step)

        def run(state: _GpuRun) -> None:
            inputs, outputs = state.operands(step)
            native(*inputs, *outputs)

        return run

    def _rank_step(self, step: ir.HostStep) -> Run:
        runtime, on_host = self.runtime, self._on_host(step)
        group, kind, detail, source = (
            step.attrs[name] for name in ("group", "kind", "detail", "source")
        )

        def run(state: _GpuRun) -> None:
            link = runtime.link(group)
            if link is None:
                on_host(state)
                return
            (x, *counts), (out,) = state.operands(step)
            stream = runtime.context([]).stream
            how = runtime.download(counts[0]) if counts else detail
            runtime.call(lambda: link.run(kind, how, x, out, stream, source))

        return run

    def _on_host(self, step: ir.HostStep) -> Run:
        runtime = self.runtime

        def run(state: _GpuRun) -> None:
            inputs, outputs = state.operands(step)
            made = [np.empty(o.shape, o.dtype) for o in outputs]
            step.function(*map(runtime.download, inputs), *made)
            for output, value in zip(outputs, made):
                runtime.copy(output, value)

        return run

    def _librarystep(self, step: ir.LibraryStep, scope: None = None) -> Run:
        runtime = self.runtime

        def run(state: _GpuRun) -> None:
            inputs, outputs = state.operands(step)
            ctx = runtime.context(state.made)
            runtime.call(lambda: step.function(ctx, state.env, *inputs, *outputs))

        return run

    # -- what the walk asks ------------------------------------------------------------------
    def value(self, array: Any) -> Any:
        return self.runtime.download(array)

    def copy(self, to: Any, array: Any) -> None:
        self.runtime.copy(to, array)


def _variables(expr: Expr) -> Iterator[Expr]:
    return (e for e in ir.expressions([ir.Declare(expr, expr)]) if e.fn == "var")
