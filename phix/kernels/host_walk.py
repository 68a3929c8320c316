"""Loops, branches and bindings of dims among the steps of a program, where the host runs them.

An engine that does not print them walks the steps: each becomes a function of the run under way,
once, and these call each other. What is not the same everywhere is the engine's: how steps between
them run (``block``), how the host reads a number (``value``), how storage is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import dims as dm
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, Step
from phix.kernels.loops.sizes import integer
from phix.kernels.scalar.language import Expr

Swaps = Sequence[tuple[Buffer, Buffer]]
Walk = Callable[[Any], None]  # of a run under way


class StepRun:
    """One run: the arrays made so far, and the sizes of the dims known so far, by symbol and, with
    the values of loop indices, by name."""

    def __init__(
        self, arrays: dict[Buffer, Any], env: dict[dm.Symbol, int], numbers: dict[str, int]
    ) -> None:
        self.arrays, self.env, self.numbers = arrays, env, numbers

    def make(self, buffer: Buffer) -> Any:
        """The array of a buffer that has none yet."""
        raise NotImplementedError

    def array(self, buffer: Buffer) -> Any:
        """The array of a buffer, made when it is first needed."""
        if buffer.base is not None:
            assert buffer.index is not None
            return self.array(buffer.base)[self.number(buffer.index), ...]
        found = self.arrays.get(buffer)
        if found is None:
            found = self.arrays[buffer] = self.make(buffer)
        return found

    def shape(self, dims: dm.Shape) -> tuple[int, ...]:
        """The sizes of dims."""
        env = self.env
        return tuple([d if type(d) is int else int(dm.substitute(d, env)) for d in dims])

    def number(self, expr: Expr) -> int:
        """The value of a slice's index or a loop's extent."""
        return integer(expr, self.numbers)

    def operands(self, step: ir.HostStep) -> tuple[list[Any], list[Any]]:
        """The arrays that a step reads, in the dims that it reads them in, and those it fills."""
        inputs = []
        for buffer, dims in zip(step.inputs, step.dims):
            array, shape = self.array(buffer), self.shape(dims)
            inputs.append(array if array.shape == shape else array.reshape(shape))
        return inputs, [self.array(b) for b in step.outputs]


class HostWalk:
    """Makes functions of a :class:`StepRun` of steps. ``scope`` is what an engine hands from a
    block to those inside."""

    per_run = "temp"  # the kind of buffers that a run makes arrays of

    def __init__(self, symbols: dict[str, dm.Symbol]) -> None:
        self.symbols = symbols

    # -- what the engine gives -------------------------------------------------------------------
    def block(self, steps: list[Step], scope: Any) -> Walk:
        """The steps, one after the other; ``step`` makes those that are walked."""
        raise NotImplementedError

    def value(self, array: Any) -> Any:
        """The one number that an array of a run holds."""
        raise NotImplementedError

    def copy(self, to: Any, array: Any) -> None:
        """Write the numbers of one array into another."""
        raise NotImplementedError

    def bound(self, step: ir.BindStep, scope: Any) -> None:
        """Note where the size of a dim is found, for the steps behind in the block."""

    def counted(self, loop: ir.ForStep, scope: Any) -> tuple[Any, Callable[[Any, int], None]]:
        """The scope of a loop's body, and what each iteration begins with."""
        return scope, lambda run, k: None

    # -- the steps -------------------------------------------------------------------------------
    def step(self, step: Step, scope: Any) -> Walk:
        """One step as a function of the run."""
        found: Walk = getattr(self, f"_{type(step).__name__.lower()}")(step, scope)
        return found

    def _bindstep(self, step: ir.BindStep, scope: Any) -> Walk:
        symbol = self.symbols[step.name]
        self.bound(step, scope)

        def walk(run: StepRun) -> None:
            size = int(self.value(run.array(step.source)))
            run.env[symbol] = run.numbers[step.name] = size
            if step.check is not None:
                step.check(run.env)
            for buffer in list(run.arrays):
                is_made = buffer.kind == self.per_run
                if is_made and any(symbol in dm.symbols(d) for d in buffer.dims):
                    del run.arrays[buffer]  # of the iteration before

        return walk

    def _forstep(self, loop: ir.ForStep, scope: Any) -> Walk:
        name = loop.index.data
        inner, begin = self.counted(loop, scope)
        body = self.block(loop.body, inner)

        def walk(run: StepRun) -> None:
            first = [run.array(a) for a, _ in loop.swaps]
            for k in range(run.number(loop.extent)):
                run.numbers[name] = k
                begin(run, k)
                body(run)
                _swap(run, loop.swaps)
            self._copy_back(run, loop.swaps, first)

        return walk

    def _whilestep(self, loop: ir.WhileStep, scope: Any) -> Walk:
        test, body = self.block(loop.test, scope), self.block(loop.body, scope)

        def walk(run: StepRun) -> None:
            first = [run.array(a) for a, _ in loop.swaps]
            test(run)
            while self.value(run.array(loop.flag)):
                body(run)
                _swap(run, loop.swaps)
                test(run)
            self._copy_back(run, loop.swaps, first)

        return walk

    def _switchstep(self, step: ir.SwitchStep, scope: Any) -> Walk:
        branches = [self.block(b, scope) for b in step.branches]
        return lambda run: branches[int(self.value(run.array(step.index)))](run)

    def _copy_back(self, run: StepRun, swaps: Swaps, first: list[Any]) -> None:
        """Each first of a pair in its own memory again."""
        for (a, b), own in zip(swaps, first):
            if run.arrays[a] is not own:
                self.copy(own, run.arrays[a])
                run.arrays[a], run.arrays[b] = own, _shaped(run.arrays[a], run.array(b))


def _swap(run: StepRun, swaps: Swaps) -> None:
    for a, b in swaps:
        one, other = run.array(a), run.array(b)
        run.arrays[a], run.arrays[b] = _shaped(other, one), _shaped(one, other)


def _shaped(array: Any, like: Any) -> Any:
    """The array in the dims of another one: buffers of one size may stand for each other."""
    return array if array.shape == like.shape else array.reshape(like.shape)
