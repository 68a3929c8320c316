"""What a loop program computes, by its meaning alone: Python numbers and loops.

It shares nothing with the printers, and takes no step that the IR does not have, so a pass that
changes a result is found by evaluating the program before it and after it (``tests/test_passes``).

Memory is real. A buffer is a list of scalars; a slice, an output in a donated input, and buffers
that a pass made one, have one list. Reading where nothing was stored is poison, which is an error
where it decides something or leaves the program; so is an access outside of a buffer, and a store
into an input that is not given away. A temp of one loop's steps loses its values with each
iteration, and temps that share a slot of the workspace lose them to each other. What threads share
runs in pieces, the last first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.engines import as_array
from phix.core.kernel_context import KernelContext
from phix.core.places import CPU
from phix.kernels.loops import evaluator_scalars as scalars
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.evaluator_code import KernelCode, array_of, scalars_of
from phix.kernels.loops.evaluator_scalars import EvaluationError as EvaluationError
from phix.kernels.loops.evaluator_scalars import Poison
from phix.kernels.loops.nodes import Buffer, LoopProgram, Step
from phix.kernels.scalar.language import Expr

# A list of scalars, and where a buffer begins in it.
Memory = tuple[list[Any], int]


def evaluate(
    program: LoopProgram, inputs: Sequence[Any], slots: Iterable[Sequence[Buffer]] = ()
) -> tuple[np.ndarray, ...]:
    """The outputs of a program for arrays of its inputs' dims.

    Args:
        program: as it is after any pass; it is not changed.
        inputs: arrays; they are not changed, even where they are given away.
        slots: groups of temps that share memory, as ``workspace.Packing.groups`` gives them.

    Raises:
        EvaluationError: the program does what none may do.
    """
    return evaluate_each(program, [inputs], slots)[0]


def evaluate_each(
    program: LoopProgram, samples: Iterable[Sequence[Any]], slots: Iterable[Sequence[Buffer]] = ()
) -> list[tuple[np.ndarray, ...]]:
    """:func:`evaluate` for several inputs."""
    codes: dict[ir.Kernel, KernelCode] = {}
    found = []
    with np.errstate(all="ignore"):
        for inputs in samples:
            run = _Run(program, [np.asarray(x) for x in inputs], slots, codes)
            run.block(program.steps)
            found.append(tuple(run.result(b) for b in program.outputs))
    return found


class _Run:
    def __init__(
        self,
        program: LoopProgram,
        inputs: list[np.ndarray],
        slots: Iterable[Sequence[Buffer]],
        codes: dict[ir.Kernel, KernelCode],
    ) -> None:
        self.program = program
        self.memory: dict[Buffer, Memory] = {}
        self.numbers: dict[str, int] = {}
        self.env: dict[dm.Symbol, Any] = {}
        self.codes = codes
        self.slots_of: dict[Buffer, list[int]] = {}
        for k, slot in enumerate(slots):
            for buffer in slot:
                self.slots_of.setdefault(buffer, []).append(k)
        self.owner: dict[int, Buffer] = {}  # which buffer of a slot has its values there
        self.private = _private(program.steps)
        for symbol, s in dm.solutions([b.dims for b in program.inputs]).items():
            self.env[symbol] = (inputs[s.number].shape[s.axis] - s.rest) // s.factor
        for name, symbol in program.symbols.items():
            if symbol in self.env:
                self.numbers[name] = self.env[symbol]
        values = [as_array(v) for v in program.constant_values]
        for buffer, array in zip([*program.inputs, *program.constants], [*inputs, *values]):
            self._check_input(buffer, array)
            self.memory[buffer] = scalars_of(array), 0
        kept = {*program.inputs, *program.constants} - set(program.outputs)
        for step in ir.walk_steps(program.steps):
            if isinstance(step, ir.Kernel) and kept & ir.writes(step.body):
                raise EvaluationError("a kernel stores into an input that is not given away")

    def _check_input(self, buffer: Buffer, array: np.ndarray) -> None:
        if array.dtype != buffer.dtype or array.shape != self.shape(buffer.dims):
            found = f"{array.dtype}{list(array.shape)}"
            raise EvaluationError(f"{buffer} is {found}, not {buffer.dtype}{list(buffer.dims)}")

    def result(self, buffer: Buffer) -> np.ndarray:
        return self.array(buffer).reshape(self.shape(buffer.dims))

    # -- memory ------------------------------------------------------------------------------
    def shape(self, dims: dm.Shape) -> tuple[int, ...]:
        return tuple(int(dm.substitute(d, self.env)) for d in dims)

    def count(self, buffer: Buffer) -> int:
        """The elements of a buffer."""
        return int(np.prod(self.shape(buffer.dims), dtype=np.int64))

    def view(self, buffer: Buffer) -> Memory:
        """Where a buffer is; a buffer that was never touched is made."""
        found = self.memory.get(buffer)
        if found is not None:
            return found
        each = 2 if dt.is_complex(buffer.dtype) else 1
        if buffer.base is not None:
            assert buffer.index is not None
            memory, offset = self.view(buffer.base)
            index, rows = self.number(buffer.index), self.shape(buffer.base.dims)[0]
            if not 0 <= index < rows:
                raise EvaluationError(f"{buffer.base}[{index}] is outside of its {rows} rows")
            return memory, offset + index * self.count(buffer) * each
        self.memory[buffer] = [Poison(buffer.name)] * (self.count(buffer) * each), 0
        return self.memory[buffer]

    def array(self, buffer: Buffer) -> np.ndarray:
        """The values of a buffer, all of which must have been stored."""
        memory, offset = self.view(buffer)
        each = 2 if dt.is_complex(buffer.dtype) else 1
        return array_of(memory[offset : offset + each * self.count(buffer)], buffer.dtype)

    def forget(self, buffer: Buffer) -> None:
        """What a buffer holds is lost."""
        if buffer in self.memory:
            memory, _ = self.memory[buffer]
            memory[:] = [Poison(buffer.name)] * len(memory)

    def claim(self, buffers: Iterable[Buffer]) -> None:
        """Buffers about to be written take their slots from those that had them."""
        for buffer in map(ir.owner, buffers):
            for slot in self.slots_of.get(buffer, ()):
                if self.owner.get(slot, buffer) is not buffer:
                    self.forget(self.owner[slot])
                self.owner[slot] = buffer

    def number(self, root: Expr) -> int:
        """The value of an expression of dims and indices."""
        if root.fn == "const":
            return int(root.data)
        if root.fn == "var":
            return self.numbers[root.data]
        return int(scalars.meaning(root)(*map(self.number, root.args)))

    # -- steps -------------------------------------------------------------------------------
    def block(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, ir.Kernel):  # those of a GPU's routines, too
                self._kernel(step)
            else:
                getattr(self, f"_{type(step).__name__.lower()}")(step)

    def _kernel(self, kernel: ir.Kernel) -> None:
        code = self.codes.get(kernel)
        if code is None:
            code = self.codes[kernel] = KernelCode(kernel)
        self.claim(code.writes)
        for start, end in self._pieces(kernel.shared):
            piece = {ir.PIECE_START.data: start, ir.PIECE_END.data: end}
            for buffer, size in kernel.locals.items():
                each = 2 if dt.is_complex(buffer.dtype) else 1
                self.memory[buffer] = [Poison(buffer.name)] * (self.number(size) * each), 0
            views = [self._seen(b, kernel) for b in code.buffers]
            numbers = [piece[n] if n in piece else self.numbers[n] for n in code.names]
            code.run(views, numbers)

    def _seen(self, buffer: Buffer, kernel: ir.Kernel) -> Any:
        memory, offset = self.view(buffer)
        if buffer in kernel.locals:
            return memory, offset, self.number(kernel.locals[buffer]), ()
        return memory, offset, self.count(buffer), self.shape(buffer.dims)

    def _pieces(self, shared: ir.Shared | None) -> Iterator[tuple[int, int]]:
        if shared is None:
            yield 0, 0
            return
        extent = self.number(shared.extent)
        starts = [0, *range(shared.grain, extent - shared.grain + 1, shared.grain)]
        yield from reversed(list(zip(starts, [*starts[1:], extent])))

    def _hoststep(self, step: ir.HostStep, *context: Any) -> None:
        given = [self.array(b).reshape(self.shape(d)) for b, d in zip(step.inputs, step.dims)]
        self.claim(step.outputs)
        outs = [np.empty(self.shape(b.dims), b.dtype) for b in step.outputs]
        step.function(*context, *given, *outs)
        for buffer, out in zip(step.outputs, outs):
            memory, offset = self.view(buffer)
            found = scalars_of(out)
            memory[offset : offset + len(found)] = found

    def _startstep(self, step: ir.StartStep) -> None:
        """All of it is done where it is waited for."""

    _startcall = _startstep
    _waitstep = _callstep = _waitcall = _hoststep

    def _librarystep(self, step: ir.LibraryStep) -> None:
        self._hoststep(step, KernelContext(CPU), self.env)

    def _bindstep(self, step: ir.BindStep) -> None:
        symbol = self.program.symbols[step.name]
        (size,) = self.array(step.source)
        self.env[symbol] = self.numbers[step.name] = int(size)
        if step.check is not None:
            step.check(self.env)
        for buffer in list(self.memory):  # of the iteration before
            if any(symbol in dm.symbols(d) for d in buffer.dims):
                del self.memory[buffer]

    def _forstep(self, loop: ir.ForStep) -> None:
        extent = self.number(loop.extent)
        first = self._enter(loop)
        for k in range(extent):
            self.numbers[loop.index.data] = k
            self._begin(loop)
            self.block(loop.body)
            self._swap(loop)
        self._leave(loop, first)

    def _whilestep(self, loop: ir.WhileStep) -> None:
        first = self._enter(loop)
        while True:
            self._begin(loop)
            self.block(loop.test)
            if not self.array(loop.flag)[0]:
                break
            self.block(loop.body)
            self._swap(loop)
        self._leave(loop, first)

    def _switchstep(self, step: ir.SwitchStep) -> None:
        (index,) = self.array(step.index)
        self.block(step.branches[index])

    # -- loops of steps ----------------------------------------------------------------------
    def _enter(self, loop: ir.ForStep | ir.WhileStep) -> list[Memory]:
        """Where the carries of a loop are before it; slices among them stay where they are."""
        for pair in loop.swaps:
            for buffer in pair:
                self.memory[buffer] = self.view(buffer)
        return [self.memory[a] for a, _ in loop.swaps]

    def _begin(self, loop: ir.ForStep | ir.WhileStep) -> None:
        for buffer in self.private.get(loop, ()):
            self.forget(buffer)

    def _swap(self, loop: ir.ForStep | ir.WhileStep) -> None:
        for a, b in loop.swaps:
            self.memory[a], self.memory[b] = self.memory[b], self.memory[a]

    def _leave(self, loop: ir.ForStep | ir.WhileStep, first: list[Memory]) -> None:
        """What counts goes back to where the first of each pair was."""
        for (a, b), (memory, offset) in zip(loop.swaps, first):
            now, at = self.memory[a]
            if (now, at) != (memory, offset):
                size = (2 if dt.is_complex(a.dtype) else 1) * self.count(a)
                memory[offset : offset + size] = now[at : at + size]
                self.memory[a], self.memory[b] = (memory, offset), (now, at)
            for buffer in (a, b):
                if buffer.base is not None:
                    del self.memory[buffer]


def _private(steps: list[Step]) -> dict[Step, set[Buffer]]:
    """The temps that the steps of one loop touch and no other, by the innermost such loop.

    Each iteration computes them anew: between two, their memory may be another's.
    """
    uses: Counter[Buffer] = Counter()
    for step in ir.walk_steps(steps):
        uses.update(_own(step))
    found: dict[Step, set[Buffer]] = {}
    taken: set[Buffer] = set()
    for step in reversed(list(ir.walk_steps(steps))):  # inner before outer
        if isinstance(step, (ir.ForStep, ir.WhileStep)):
            inner = Counter(b for block in ir.blocks(step) for s in ir.walk_steps(block)
                            for b in _own(s))  # fmt: skip
            apart = {b for pair in step.swaps for b in pair}
            if isinstance(step, ir.WhileStep):
                uses_here = Counter({step.flag: 1})
                inner.update(uses_here)
            mine = {b for b, n in inner.items() if b.kind == "temp" and n == uses[b]}
            found[step] = mine - apart - taken
            taken |= mine
    return found


def _own(step: Step) -> set[Buffer]:
    """The buffers a step touches itself, slices as what they are slices of."""
    touched = ir.step_reads(step) | ir.step_writes(step) if isinstance(step, ir.Kernel) \
        else ir.step_uses(step)  # fmt: skip
    return set(map(ir.owner, touched))
