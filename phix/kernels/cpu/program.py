"""A compiled graph on the CPU, and the launchers that run it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import passes
from phix.core.engines import Launcher, as_array
from phix.core.errors import ShapeError
from phix.core.graph import Graph
from phix.kernels.cpu import jit
from phix.kernels.cpu.entry import Segment, SymbolSource
from phix.kernels.cpu.stepwise import Stepwise, is_native
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import loop_text, sharing, shrinking
from phix.kernels.primitive.builder import Builder
from phix.kernels.primitive.loop_ir import LoopProgram


class CpuProgram:
    """A graph compiled for the CPU: one native call, or several with Python steps between."""

    def __init__(self, graph: Graph, program: LoopProgram) -> None:
        self.graph, self.loops = graph, program
        self.constants = [as_array(v) for v in program.constant_values]
        self.sources = _symbol_sources(program)
        builder = Builder(tuple(program.symbols.values()))
        prepare(program, builder)
        names = {symbol: name for name, symbol in program.symbols.items()}

        def segment(steps: list[ir.Step], symbols: dict[str, SymbolSource], known: Any) -> Segment:
            return Segment(steps, known, symbols, builder.dim, names)

        self.stepwise: Stepwise | None = None
        if self._is_one_call():
            touched = set().union(*(ir.step_reads(s) | ir.step_writes(s) for s in program.steps))
            self.kept = [c for b, c in zip(program.constants, self.constants) if b in touched]
            constants = [b for b in program.constants if b in touched]
            known = [*program.inputs, *constants, *program.outputs]
            self.segments = [segment(program.steps, self.sources, known)]
            self.native = jit.compiled(self.segments[0].text)
        else:
            self.stepwise = Stepwise(program, self.sources, segment)
            self.segments = self.stepwise.segments

    def _is_one_call(self) -> bool:
        """Whether native code runs all steps, with the sizes of the outputs known before."""
        steps = self.loops.steps
        sized = {s for b in self.loops.outputs for d in b.dims for s in dm.symbols(d)}
        known = {self.loops.symbols[name] for name in self.sources}
        return bool(steps) and all(map(is_native, steps)) and sized <= known

    @cached_property
    def sections(self) -> dict[str, str]:
        """The loop IR and the LLVM text of the program."""
        native = [s.text for s in self.segments]
        return {"loop ir": loop_text.program_text(self.loops), "llvm": "\n".join(native)}

    def assembly(self) -> str:
        """The machine code as text."""
        return "\n".join(jit.assembly(s.text) for s in self.segments)

    # -- launching -------------------------------------------------------------------------
    def _environment(self, shapes: tuple[tuple[int, ...], ...]) -> dict[dm.Symbol, int]:
        env: dict[dm.Symbol, Any] = {}
        place = {buffer: k for k, buffer in enumerate(self.loops.inputs)}
        for name, source in self.sources.items():
            assert source.axis is not None
            size = shapes[place[source.buffer]][source.axis]
            env[self.loops.symbols[name]] = (size - source.rest) // source.factor
        for variable, shape in zip(self.graph.inputs, shapes):
            dims = variable.meta.dims
            expected = tuple(dm.substitute(d, env) for d in dims)
            if expected != tuple(shape):
                raise ShapeError(
                    f"input {variable.name!r} has shape {list(shape)}, the compiled program takes "
                    f"{dm.shape_text(dims)}"
                )
        return env

    def launcher(self, shapes: tuple[tuple[int, ...], ...]) -> Launcher:
        """See :class:`phix.core.engines.Program`."""
        env = self._environment(shapes)
        if self.stepwise is not None:
            return self.stepwise.launcher(env, self.constants)
        outputs = [
            (tuple(int(dm.substitute(d, env)) for d in b.dims), b.dtype) for b in self.loops.outputs
        ]
        return _single(self.native, tuple(self.kept), outputs)


def _single(native: Callable[..., Any], constants: tuple[Any, ...], outputs: list[Any]) -> Launcher:
    """The launcher of a program that is one native call."""
    empty = np.empty
    if len(outputs) == 1:
        ((shape, dtype),) = outputs

        def launch_one(*inputs: Any) -> tuple[Any, ...]:
            out = empty(shape, dtype)
            native(*inputs, *constants, out)
            return (out,)

        return launch_one

    def launch(*inputs: Any) -> tuple[Any, ...]:
        made = tuple([empty(shape, dtype) for shape, dtype in outputs])
        native(*inputs, *constants, *made)
        return made

    return launch


def prepare(program: LoopProgram, builder: Builder) -> None:
    """What the CPU wants done to the loops: memory that stays in the cache, and threads."""
    if passes.is_on("shrink_temps"):
        shrinking.shrink(program)
    if passes.is_on("share_loops"):
        sharing.share(program, builder.dim)


def _symbol_sources(program: LoopProgram) -> dict[str, SymbolSource]:
    """Where each symbol is read from, but for those that get their values on the way.

    Raises:
        ShapeError: a symbol stands in no input's dim as factor * symbol + rest.
    """
    names = {symbol: name for name, symbol in program.symbols.items()}
    found: dict[str, SymbolSource] = {}
    for buffer in program.inputs:
        for axis, d in enumerate(buffer.dims):
            linear = _linear(d)
            if linear is None:
                continue
            symbol, factor, rest = linear
            name, source = names[symbol], SymbolSource(buffer, axis, factor, rest)
            if name not in found or (factor, rest) == (1, 0) != (
                found[name].factor,
                found[name].rest,
            ):
                found[name] = source
    bound = {s.name for s in ir.walk_steps(program.steps) if isinstance(s, ir.BindStep)}
    for name in program.symbols:
        if name not in found and name not in bound:
            raise ShapeError(
                f"the unknown dim {name!r} cannot be found from the inputs' shapes; give an input "
                "a dim that is this name alone"
            )
    return found


def _linear(dim: dm.DimLike) -> tuple[dm.Symbol, int, int] | None:
    if isinstance(dim, int):
        return None
    rest = factor = 0
    symbol = None
    for monomial, coefficient in dim.terms:
        if not monomial:
            rest = coefficient
        elif len(monomial) == 1 and isinstance(monomial[0], dm.Symbol) and symbol is None:
            symbol, factor = monomial[0], coefficient
        else:
            return None
    return None if symbol is None else (symbol, factor, rest)
