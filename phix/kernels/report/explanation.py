"""How a graph became kernels: what each holds, why a buffer is there, why loops stayed apart.

A graph is lowered once more, with a builder that writes down what it does: the way to a program
that runs pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import graph as gr
from phix.core import rewrites, settings, stages
from phix.core.analysis import CostAnalysis
from phix.core.graph import Equation, Graph, Source, Variable
from phix.core.graph_text import equation_text
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.calls import CallStep
from phix.kernels.loops.nodes import Buffer, Element, Kernel, LoopProgram
from phix.kernels.loops.target import CPU, Target
from phix.kernels.lowering import fusion
from phix.kernels.lowering.lower import stored_variables
from phix.kernels.report import cost
from phix.kernels.report.cost import StepCost
from phix.kernels.scalar import registry
from phix.kernels.scalar.language import Complex, Expr
from phix.kernels.schedule.pipeline import Setting, lowered, run

# Why a value is stored that the table of ``fusion`` would fuse.
IN_A_LOOP = "read inside a loop that would compute the same element again and again"
AS_MEMORY = "its reader takes whole memory, not elements"
PARTIAL = "partial results of a loop that threads share"
IN_ORDER = "has its place in the order of the steps"


class Recorder(Builder):
    """A builder that remembers for which equations it does what."""

    def __init__(self, symbols: tuple[dm.Symbol, ...]) -> None:
        super().__init__(symbols)
        self.graphs: list[tuple[Graph, dict[Any, Value]]] = []
        self.held: dict[Kernel, dict[Equation, None]] = {}
        self.why: dict[Value, str] = {}
        self.makers: dict[Buffer, Equation] = {}
        self._open: list[Kernel] = []
        self._owners: list[Equation | None] = [None]
        self._equations: dict[Value, Equation] = {}

    def observe(self, graph: Graph, values: dict[Any, Value]) -> None:
        """Hear of a graph before it is lowered; ``values`` is filled as it is."""
        self.graphs.append((graph, values))

    def equation_of(self, value: Value) -> Equation | None:
        """The equation whose output ``value`` is, if it is one."""
        if value not in self._equations:
            graph, values = self.graphs[-1]
            for equation in graph.equations:
                for v in gr.flat(equation.outputs):
                    if v in values:
                        self._equations.setdefault(values[v], equation)
        return self._equations.get(value)

    def stored(self, equation: Equation) -> set[Buffer]:
        """The buffers that hold its outputs."""
        found = (values.get(v) for _, values in self.graphs for v in gr.flat(equation.outputs))
        return {value.buffer for value in found if value is not None and value.buffer is not None}

    def _compute(
        self, value: Value, key: tuple[Any, ...], compute: Callable[[Any], Element], at: Any
    ) -> Any:
        result = super()._compute(value, key, compute, at)
        if value.buffer is not None:
            self.why[value] = IN_A_LOOP
        else:
            self._hold(self.equation_of(value))
        return result

    def _hold(self, equation: Equation | None) -> None:
        if equation is not None and self._open:
            self.held[self._open[-1]][equation] = None

    @contextmanager
    def kernel(self) -> Iterator[Kernel]:
        with super().kernel() as built:
            self._open.append(built)
            self.held[built] = {}
            self._hold(self._owners[-1])
            yield built
            self._open.pop()

    def contiguous(self, value: Value) -> Buffer:
        if value.buffer is None:
            self.why.setdefault(value, AS_MEMORY)
        return super().contiguous(value)

    def materialize(self, value: Value) -> None:
        # what a rule makes of inner values belongs to the equation of the rule
        owner = self.equation_of(value) or self._owners[-1]
        self._owners.append(owner)
        super().materialize(value)
        self._owners.pop()
        if owner is not None and value.buffer is not None:
            self.makers.setdefault(value.buffer, owner)

    def temp(self, dims: dm.Shape, dtype: Any) -> Buffer:
        buffer = super().temp(dims, dtype)
        owner = self._owners[-1]
        if owner is not None:
            self.makers[buffer] = owner
        return buffer


class Opaque(Builder):
    """A builder for which a transcendental function is one call, not the arithmetic it is made of.

    Which those are, the module says that holds the scalar body.
    """

    MODULES = ("exponential", "power", "special", "trigonometric")

    def applied(self, op_name: str, /, *elements: Element, **attrs: Any) -> Any:
        result = super().applied(op_name, *elements, **attrs)
        real_part = _parts(result)[0]
        is_one = registry.module(op_name) in self.MODULES and dt.is_float(real_part.dtype)
        if not is_one:
            return result
        parts = [p for e in elements for p in _parts(e)]
        made = Expr("call", tuple(parts), real_part.dtype, op_name)
        # one call gives both parts; how they differ does not matter here
        return Complex(made, -made) if isinstance(result, Complex) else made


def _parts(element: Any) -> tuple[Expr, ...]:
    return (element.real, element.imag) if isinstance(element, Complex) else (element,)


@dataclass(frozen=True)
class KernelReport:
    """One kernel: the equations it computes, and why it is not one with earlier ones."""

    number: int
    writes: tuple[str, ...]
    equations: tuple[str, ...]
    apart: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"kernel {self.number}, writes {', '.join(self.writes)}:"]
        lines += [f"  {e}" for e in self.equations] or ["  (a copy)"]
        return "\n".join([*lines, *(f"  not joined to {a}" for a in self.apart)])


@dataclass(frozen=True)
class BufferReport:
    """One buffer: the variables it holds, why it is there, and the user's line it comes from."""

    name: str
    meta: str
    holds: tuple[str, ...]
    why: str
    source: Source | None

    def __str__(self) -> str:
        held = f" = {', '.join(self.holds)}" if self.holds else ""
        return f"{self.name}{held}: {self.meta}: {self.why}{_at(self.source)}"


@dataclass(frozen=True)
class FusionReport:
    """What :func:`explain` finds; printed, a paragraph a kernel and a line a buffer."""

    kernels: tuple[KernelReport, ...]
    buffers: tuple[BufferReport, ...]
    fused: tuple[str, ...]

    def __str__(self) -> str:
        fused = f"without a buffer: {', '.join(self.fused) or 'none'}"
        return "\n".join([*map(str, self.kernels), "buffers:", *map("  {}".format, self.buffers),
                          fused])  # fmt: skip


class Explanation:
    """A graph lowered with its history."""

    target: Target = CPU
    pipeline = "cpu"
    recorder: type[Recorder] = Recorder

    def __init__(self, graph: Graph, contiguous: tuple[bool, ...]) -> None:
        made: list[Recorder] = []
        tries: list[tuple[Kernel, Kernel, str]] = []

        def recorder(symbols: tuple[dm.Symbol, ...]) -> Builder:
            made.append(self.recorder(symbols))
            made[0].target = self.target
            return made[0]

        self.graph, self.contiguous = graph, contiguous
        self.off, self.settings = rewrites.left_out(), settings.current()
        tell = lambda *found: tries.append(found)  # noqa: E731
        self.program, setting = lowered(graph, contiguous, recorder, tell)
        (self.record,) = made
        record = self.record
        into = _joined(tries, record)
        before = _all_kernels(self.program)
        self._joined = _timed(self.program)
        # what has a buffer once loops are joined; passes behind may have it in that of another
        self.written = frozenset(
            b for step in ir.walk_steps(self.program.steps) for b in ir.step_writes(step)
        )
        run(self.pipeline, self.program, setting)
        self._became: dict[Any, Kernel] = _follow(before, _all_kernels(self.program), record)
        into |= self._became
        self.report = FusionReport(
            tuple(_kernels(self.program, record, tries, into)),
            tuple(_buffers(self.program, record)),
            tuple(_fused(self.program, record)),
        )
        self.sources = {b: e.source for b, e in record.makers.items() if e.source is not None}

    @contextmanager
    def _as_made(self) -> Iterator[None]:
        """What was switched and set when the program was made."""
        with rewrites.without(self.off), settings.in_force(self.settings):
            yield

    def fault(
        self, inputs: Sequence[np.ndarray], donated: Sequence[int] = ()
    ) -> tuple[str, str] | None:
        """See :class:`phix.core.engines.Explanation`."""
        from phix.kernels.schedule import prover  # for those who ask alone

        def builder(symbols: tuple[dm.Symbol, ...]) -> Builder:
            made = Builder(symbols)
            made.target = self.target
            return made

        try:
            with self._as_made(), stages.watching(prover.Prover([list(inputs)])):
                program, setting = lowered(self.graph, self.contiguous, builder, donated=donated)
                run(self.pipeline, program, setting)
                stages.tell(stages.Stage(stages.LOOPS, prover.SLOTS, program, 0.0))
        except prover.PassFault as fault:
            return fault.name, fault.what
        return None

    def keep_local(self, program: LoopProgram, setting: Setting) -> None:
        """The part of that which takes buffers out of memory."""

    def cost(self, sizes: Mapping[dm.Symbol, int]) -> CostAnalysis:
        """The work of a run where unknown dims have these sizes; the others stay in the counts."""
        # loops as the CPU has them say what is done; what libraries do is counted by the call
        with self._as_made():
            operations, _ = lowered(self.graph, self.contiguous, Opaque)
            traffic, setting = lowered(self.graph, self.contiguous, Builder)
            self.keep_local(traffic, setting)
        return cost.count(operations, traffic, sizes)

    def step_costs(self, sizes: Mapping[dm.Symbol, int]) -> dict[ir.Step, StepCost]:
        """What each kernel, and each step that Python runs, costs in one of its runs.

        A kernel that is one of several made of one has no row; the first of them has it.
        """

        def counted(kind: type[Builder], is_local: bool) -> LoopProgram:
            def builder(symbols: tuple[dm.Symbol, ...]) -> Builder:
                made = kind(symbols)
                made.target = self.target
                return made

            program, setting = lowered(self.graph, self.contiguous, builder)
            if is_local:
                self.keep_local(program, setting)
            return program

        with self._as_made():
            # loops as they are before threads and blocks, which change no count, get to them
            tries = [counted(*way) for way in ((Opaque, False), (Builder, True), (Builder, False))]
        operations, local, plain = tries
        wanted = len(self._joined)
        traffic = local if len(_timed(local)) == wanted else plain
        if len(_timed(operations)) != wanted:
            operations = plain
        found = {}
        final = set(_timed(self.program))
        rows = cost.by_step(operations, traffic, sizes)
        for step, work, moved in zip(self._joined, _timed(operations), _timed(traffic)):
            if work in rows.flops and moved in rows.bytes:
                flops, calls = rows.flops[work]
                row = StepCost(flops, calls, rows.bytes[moved])
                found[step if step in final else self._became[step]] = row
        return found

    def groups(self) -> list[tuple[ir.Step, str, tuple[Equation, ...]]]:
        """Each kernel, and each step that Python runs: its name, and the equations it computes."""
        record = self.record
        order = {e: k for k, e in enumerate(e for g, _ in record.graphs for e in g.equations)}
        found: list[tuple[ir.Step, str, tuple[Equation, ...]]] = []
        kernels = 0
        for step in ir.walk_steps(self.program.steps):
            if isinstance(step, Kernel):
                name, held = f"kernel {kernels}", [*record.held.get(step, {})]
                kernels += 1
            elif isinstance(step, ir.HostStep):
                held = [*{record.makers[b]: None for b in step.outputs if b in record.makers}]
                by_python = f"{step.name} (Python)"
                name = step.routine if isinstance(step, CallStep) else by_python
            else:
                continue
            found.append((step, name, tuple(sorted(held, key=order.__getitem__))))
        return found


def _timed(program: LoopProgram) -> list[ir.Step]:
    """The steps that do the work; those around them only say how often."""
    return [s for s in ir.walk_steps(program.steps) if isinstance(s, (Kernel, ir.HostStep))]


def _all_kernels(program: LoopProgram) -> list[Kernel]:
    return [s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)]


def _joined(tries: list[tuple[Kernel, Kernel, str]], record: Recorder) -> dict[Kernel, Kernel]:
    """Which kernel each joined one is now a part of; that holds what the other held."""
    into: dict[Kernel, Kernel] = {}
    for first, second, obstacle in tries:
        if not obstacle:
            into[second] = first
            record.held[first] = record.held.get(first, {}) | record.held.get(second, {})
    return into


def _follow(before: list[Kernel], after: list[Kernel], record: Recorder) -> dict[Kernel, Kernel]:
    """The first of the kernels that came of one kernel each.

    It holds what that held, those after it what they write of it.
    """
    old, sources = set(before), _sources(before, after)
    into: dict[Kernel, Kernel] = {}
    for kernel in after:
        if kernel in old:
            continue
        source = sources.get(kernel) or _neighbour(kernel, after, old)
        held = record.held.get(source, {})
        if into.setdefault(source, kernel) is not kernel:
            held = {e: None for e in held if record.stored(e) & ir.writes(kernel.body)} or held
        record.held[kernel] = held
    return into


def _sources(before: list[Kernel], after: list[Kernel]) -> dict[Kernel, Kernel]:
    """Which of the kernels that are gone each new one came of: of those between the same two
    others, the one that has most buffers in common with it."""
    kept = set(before) & set(after)
    gone: dict[Kernel | None, list[Kernel]] = {}
    last: Kernel | None = None
    for kernel in before:
        if kernel in kept:
            last = kernel
        else:
            gone.setdefault(last, []).append(kernel)
    every = [k for some in gone.values() for k in some]
    touched = {k: ir.step_reads(k) | ir.step_writes(k) for k in (*every, *after)}
    found: dict[Kernel, Kernel] = {}
    last = None
    for kernel in after:
        if kernel in kept:
            last = kernel
            continue
        near = gone.get(last) or every
        if near:
            found[kernel] = max(near, key=lambda k: len(touched[k] & touched[kernel]))
    return found


def _neighbour(kernel: Kernel, after: list[Kernel], old: set[Kernel]) -> Kernel:
    """The kernel that a pass has put another one beside: the nearest that touches what it touches,
    else the last before it, or else the next."""
    at = after.index(kernel)
    near = [k for k in (*reversed(after[:at]), *after[at + 1 :]) if k in old]
    own = ir.step_reads(kernel) | ir.step_writes(kernel)
    beside = sorted(near, key=lambda k: abs(after.index(k) - at))
    alike = (k for k in beside if own & (ir.step_reads(k) | ir.step_writes(k)))
    return next(alike, near[0])


def _at(source: Source | None) -> str:
    return "" if source is None else f"  # {source.file.rpartition('/')[2]}:{source.line}"


def _kernels(
    program: LoopProgram,
    record: Recorder,
    tries: list[tuple[Kernel, Kernel, str]],
    into: dict[Kernel, Kernel],
) -> Iterator[KernelReport]:
    numbers = {kernel: k for k, kernel in enumerate(_all_kernels(program))}

    def number(kernel: Kernel) -> int | None:
        while kernel in into:
            kernel = into[kernel]
        return numbers.get(kernel)

    apart: dict[int, dict[str, None]] = {}
    for first, second, obstacle in tries:
        a, b = number(first), number(second)
        if obstacle and a is not None and b is not None and a != b:
            apart.setdefault(b, {})[f"kernel {a}: {obstacle}"] = None
    graphs = {e: g for g, _ in record.graphs for e in g.equations}
    order = {e: k for k, e in enumerate(graphs)}
    temps = {t.name for t in record.temps}
    for kernel, k in numbers.items():
        # what a pass keeps for itself holds no value of the graph
        own = {b for b in kernel.locals if b.name not in temps}
        writes = sorted({b.name for b in ir.writes(kernel.body) - own})
        held = sorted(record.held.get(kernel, {}), key=lambda e: order[e])
        texts = (f"{equation_text(graphs[e], e)}{_at(e.source)}" for e in held)
        yield KernelReport(k, tuple(writes), tuple(texts), tuple(apart.get(k, ())))


def _buffers(program: LoopProgram, record: Recorder) -> Iterator[BufferReport]:
    held: dict[Buffer, list[tuple[Variable, str]]] = {}
    for graph, values in record.graphs:
        stored = stored_variables(graph)
        for equation in graph.equations:
            for v in gr.flat(equation.outputs):
                value = values.get(v)
                if value is not None and value.buffer is not None:
                    why = stored.get(v) or record.why.get(value) or IN_ORDER
                    held.setdefault(value.buffer, []).append((v, why))
    # a buffer that needs memory for a row alone is another one, of the same name
    temps = {t.name: t for t in record.temps}
    rows = [temps[b.name] for k in _all_kernels(program) for b in k.locals if b.name in temps]
    for buffer in dict.fromkeys([*program.outputs, *program.temps, *rows]):
        found = held.get(buffer, [])
        maker = record.makers.get(buffer)
        why = found[0][1] if found else fusion.OUTPUT if buffer in program.outputs else ""
        if not why:
            why = f"inner to {maker.op.name}" if maker else PARTIAL
        meta = f"{buffer.dtype}{dm.shape_text(buffer.dims)}"
        meta += " (memory for a row)" if buffer in rows else ""
        names = tuple(v.name for v, _ in found)
        yield BufferReport(buffer.name, meta, names, why, maker.source if maker else None)


def _fused(program: LoopProgram, record: Recorder) -> Iterator[str]:
    """The variables that live in kernels alone."""
    local = {b.name for k in _all_kernels(program) for b in k.locals}
    buffers = (program.temps, program.outputs, program.inputs, program.constants)
    alive = {b for some in buffers for b in some} | {t for t in record.temps if t.name in local}
    for graph, values in record.graphs:
        for equation in graph.equations:
            for v in gr.flat(equation.outputs):
                value = values.get(v)
                if value is not None and (value.buffer is None or value.buffer not in alive):
                    yield v.name
