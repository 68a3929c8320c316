"""From a graph of primitives to the native code of its steps: loop IR, then LLVM text."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from phix.core import dims as dm
from phix.core import stages
from phix.core.engines import Launcher, as_array
from phix.core.errors import ShapeError
from phix.core.graph import Graph
from phix.kernels.cpu import fourier_code, jit, pool, product_code, sort_code, threads
from phix.kernels.cpu.accumulators import accumulators
from phix.kernels.cpu.advice import has_masked_stores
from phix.kernels.cpu.asking import Asking
from phix.kernels.cpu.entry import native_text
from phix.kernels.cpu.native_segment import NativeSegment, SymbolSource
from phix.kernels.cpu.questions import questions
from phix.kernels.cpu.stepwise import MakeSegment, Stepwise
from phix.kernels.cpu.stored import NativeCall
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import text
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.effects import effects_of, has_host_step
from phix.kernels.loops.nodes import Buffer, Kernel, LoopProgram
from phix.kernels.loops.target import CPU, Sizes
from phix.kernels.schedule import inplace
from phix.kernels.schedule.pipeline import Setting, lowered, run


def _foresees(library: str, sizes: Sizes) -> None:
    if library.startswith("fft_"):
        fourier_code.begin(library)
    elif library in sort_code.NAMES:
        sort_code.begin(library)
    else:
        product_code.begin(library, sizes)


def _begin_routines(program: LoopProgram) -> None:
    """Start on what a program will call, if no disk has it, while it is printed and compiled."""
    kernels = [s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)]
    if any(k.shared is not None or k.beside is not None for k in kernels):
        threads.begin()
    if not all(map(ir.is_tiny, program.temps)):
        pool.begin()


# Products, transforms and sorts are compiled while lowering goes on, and this CPU is asked for the
# width of its vectors.
TARGET = replace(
    CPU,
    is_direct=product_code.is_direct,
    multiplies_narrow=product_code.is_narrow,
    foresees=_foresees,
    accumulators=accumulators,
    sorts_by_vectors=sort_code.is_chosen,
    factors_by_lapack=True,
    transforms_by_calls=True,
    convolves_along_lines=True,
    calls_ranks=True,
)


class _Builder(Builder):
    target = TARGET


class NativeProgram:
    """The loop program of a graph, and its native segments."""

    def __init__(
        self, graph: Graph, contiguous: tuple[bool, ...], donated: tuple[int, ...] = ()
    ) -> None:
        program, builder = self._lowered(graph, contiguous, donated)
        self.loops = program
        self.sizes = tuple((a.meta.dims, a.meta.dtype) for a in graph.outputs)
        self.values = program.constant_values
        self.constants = [as_array(v) for v in self.values]
        self.sources = _symbol_sources(program)
        names = {symbol: name for name, symbol in program.symbols.items()}

        self.asked = questions(program, {program.symbols[name] for name in self.sources})

        def segment(
            steps: list[ir.Step],
            symbols: dict[str, SymbolSource],
            known: Any,
            asking: Asking | None = None,
        ) -> NativeSegment:
            arguments = [*known, *self.further]
            made = NativeSegment(steps, arguments, symbols, builder.dim, names, asking)
            made.text = stages.made(stages.CODE, "llvm", lambda: self._printed(made))
            return made

        self.stepwise: Stepwise | None = None
        if self._is_one_call():
            touched = set().union(*(effects_of(s).touched for s in program.steps))
            # the numbers of the constants that the steps use
            self.kept = [k for k, b in enumerate(program.constants) if b in touched]
            constants = [program.constants[k] for k in self.kept]
            computed = {program.outputs[n] for n in self.asked.results}
            made = [b for b in program.outputs if b not in program.inputs and b not in computed]
            known = [*program.inputs, *constants, *made]
            asking = Asking(self.asked, program) if self.asked else None
            self.segments = [segment(program.steps, self.sources, known, asking)]
        else:
            self.stepwise = self._walked(program, segment)
            self.segments = self.stepwise.segments

    # -- what a program with more in it has of its own -----------------------------------------
    further: tuple[Buffer, ...] = ()  # the last arguments of every native call

    def _lowered(
        self, graph: Graph, contiguous: tuple[bool, ...], donated: tuple[int, ...]
    ) -> tuple[LoopProgram, Builder]:
        program, setting = lowered(graph, contiguous, _Builder, donated=donated)
        run("cpu", program, setting)
        _begin_routines(program)
        return program, setting.builder

    def _printed(self, segment: NativeSegment) -> str:
        return native_text(segment)

    def _walked(self, program: LoopProgram, segment: MakeSegment) -> Stepwise:
        return Stepwise(program, self.sources, segment)

    # -- what it is asked ------------------------------------------------------------------------
    def _is_one_call(self) -> bool:
        """Whether native code runs all steps."""
        steps = self.loops.steps
        return bool(steps) and not has_host_step(steps)

    def native_call(self) -> NativeCall | None:
        """The one native call that runs everything; None where Python has steps to run."""
        if self.stepwise is not None:
            return None
        text = self.segments[0].text
        return NativeCall(
            stages.made(stages.CODE, "machine code", lambda: jit.code_of(text)),
            tuple(self.constants[k] for k in self.kept),
            self.sizes,
            tuple(self.values[k] for k in self.kept),
            self.loops.reused,
            self.asked,
        )

    def launcher(self, env: dict[dm.Symbol, int]) -> Launcher:
        """What runs the steps where they are not one native call."""
        assert self.stepwise is not None
        return self.stepwise.launcher(env, self.constants)

    def verify_bounds(self, sizes: dict[dm.Symbol, int]) -> None:
        """Under PHIX_VERIFY, check the program for these sizes of unknown dims."""
        if stages.is_verifying():
            from phix.kernels.loops.verifier import verify_bounds

            verify_bounds(self.loops, sizes)

    @cached_property
    def sections(self) -> dict[str, str]:
        """The loop IR and the LLVM text."""
        native = [s.text for s in self.segments]
        return {"loop ir": text.program_text(self.loops), "llvm": "\n".join(native)}

    def assembly(self) -> str:
        """The machine code as text."""
        return "\n".join(jit.assembly(s.text) for s in self.segments)


def reuse_temps(program: LoopProgram, _: Setting) -> None:
    """The pass: a temp lives in the temp whose elements its own replace."""
    inplace.reuse_temps(program, _may_replace)


def _may_replace(kernel: Kernel) -> bool:
    """Whether a kernel may write over what it reads."""
    return not has_masked_stores(kernel)


def _symbol_sources(program: LoopProgram) -> dict[str, SymbolSource]:
    """Where each symbol is read from, but for those that get their values on the way.

    Raises:
        ShapeError: a symbol stands in no input's dim as factor * symbol + rest.
    """
    names = {symbol: name for name, symbol in program.symbols.items()}
    found = {
        names[symbol]: SymbolSource(program.inputs[s.number], s.axis, s.factor, s.rest)
        for symbol, s in dm.solutions([b.dims for b in program.inputs]).items()
    }
    bound = {s.name for s in ir.walk_steps(program.steps) if isinstance(s, ir.BindStep)}
    for name in program.symbols:
        if name not in found and name not in bound:
            raise ShapeError(
                f"the unknown dim {name!r} cannot be found from the inputs' shapes; give an input "
                "a dim that is this name alone"
            )
    return found
