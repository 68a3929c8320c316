"""Kernels with a text of their own, for calls that the loop IR has as one statement.

A routine does all calls in loops over a batch in one launch. The blocks of the grid stride over
its *items*: the tiles of the first call, then those of the next. Where operands lie is printed
from the IR's expressions; what a block does to a tile is the routine's own text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu import mapping, scalars
from phix.kernels.gpu.scalars import ScalarPrinter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import For, LibraryCall, Pointer
from phix.kernels.loops.sizes import integer
from phix.kernels.scalar.language import Expr

# The grid strides over what is left above this.
_MOST_BLOCKS = 1 << 20


class Routine(ir.Kernel):
    """A call in loops over a batch, done by one kernel. Subclasses give the text of a tile."""

    threads = 256
    # Blocks that a multiprocessor is to hold at once, which bounds the registers of a thread.
    resident = 1

    def __init__(self, statement: ir.Statement, loops: list[For], call: LibraryCall) -> None:
        super().__init__([statement])
        self.loops = loops
        self.dtype: np.dtype = dt.as_dtype(call.name.split("_", 1)[1])
        self.numbers = [a for a in call.arguments if isinstance(a, Expr)]
        self.pointers = [a for a in call.arguments if isinstance(a, Pointer)]

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        """How a call parts into tiles: sizes, and how much of each is one tile's."""
        raise NotImplementedError

    def print_tile(self, text: RoutineText) -> None:
        """Print what a block does to the tile whose numbers are in ``text.tile``."""
        raise NotImplementedError

    # -- as a launch: see launches.py ------------------------------------------------------------
    @cached_property
    def _text(self) -> RoutineText:
        return RoutineText(self)

    def text(self, team: str) -> RoutineText:
        return self._text

    @cached_property
    def names(self) -> set[str]:
        """The dims and indices that the launch depends on."""
        sizes = [*(loop.extent for loop in self.loops), *(size for size, _ in self.tiles())]
        return {v.data for e in sizes for v in mapping.variables(e)}

    def team(self, numbers: Mapping[str, int]) -> str:
        return RoutineText.team

    def default_team(self) -> str:
        return RoutineText.team

    def size(self, team: str, numbers: Mapping[str, int]) -> tuple[int, int]:
        """Blocks, and threads of a block; no blocks for no work."""
        calls = prod(max(integer(loop.extent, numbers), 0) for loop in self.loops)
        parts = prod(max(-(-integer(size, numbers) // own), 0) for size, own in self.tiles())
        return min(calls * parts, _MOST_BLOCKS), self.threads


class RoutineText(ScalarPrinter):
    """The text of a routine; ``operands`` are the addresses of a call's, by their position."""

    team = "routine"

    def __init__(self, routine: Routine) -> None:
        super().__init__(routine)
        self.routine = routine
        self.operands: list[str] = []
        self.tile: list[str] = []
        self.values = [self._number(e) for e in routine.numbers]
        self._print(ir.writes(routine.body))
        self.text = scalars.function_text(routine.body, self.parameters, self.lines)

    def source(self, name: str) -> str:
        """The function under a name."""
        least = f", {self.routine.resident}" if self.routine.resident > 1 else ""
        bounds = f"__launch_bounds__({self.routine.threads}{least})"
        return f'extern "C" __global__ void {bounds} {name}{self.text}\n'

    @staticmethod
    def filled_in(text: str, names: Mapping[str, object]) -> str:
        """A text with what stands between $ signs replaced."""
        for name, value in names.items():
            text = text.replace(f"${name}$", str(value))
        return text

    def lines_of(self, text: str) -> None:
        """Append lines of C++, indented as they are."""
        for line in text.strip("\n").split("\n"):
            self.line(line)

    def _number(self, e: Expr) -> str:
        return str(e.data) if e.fn == "const" else self.index(e)

    def _print(self, written: set[ir.Buffer]) -> None:
        routine = self.routine
        counts = []
        for size, own in routine.tiles():
            name = self.fresh("c")
            self.line(f"const long long {name} = ({self.index(size)} + {own - 1}) / {own};")
            counts.append(name)
        extents = [self.index(loop.extent) for loop in routine.loops]
        total = " * ".join([*extents, *counts]) or "1"
        self.open(f"for (long long item = blockIdx.x; item < {total}; item += gridDim.x)")
        self.line("long long rest = item;")
        names = []
        for count in [*reversed(counts), *reversed(extents)]:
            name = self.fresh("i")
            self.line(f"const long long {name} = rest % {count};")
            self.line(f"rest /= {count};")
            names.append(name)
        self.tile = names[: len(counts)][::-1]
        for loop, name in zip(reversed(routine.loops), names[len(counts) :]):
            self.index_names[loop.index] = name
        for k, pointer in enumerate(routine.pointers):
            buffer, name = pointer.buffer, f"q{k}"
            const = "" if buffer in written else "const "
            kind, base = ins.memory_type(buffer.dtype), self.parameter("data", buffer)
            if dt.is_complex(buffer.dtype):
                kind = f"phix_complex<{kind}>"
                base = f"({const}{kind}*){base}"
            self.line(f"{const}{kind}* const {name} = {base} + {self.index(pointer.offset)};")
            self.operands.append(name)
        routine.print_tile(self)
        self.close()
