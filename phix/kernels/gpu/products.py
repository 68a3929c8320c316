"""Matrix products in loops over batches: as few calls of the library as there can be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.gpu.runtime import Batch
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, For, LibraryCall, Pointer
from phix.kernels.loops.sizes import integer
from phix.kernels.scalar.language import Expr

# The most products of one call: the library's kernels have them along an axis of the grid that goes
# no further.
MOST_AT_ONCE = 65535


# Products that may run side by side, each in a workspace of the library of its own.
SIDE_BY_SIDE = 3


@dataclass(frozen=True)
class _Repeat:
    """A loop over equal products: how often, and how far each operand moves on."""

    count: int
    steps: tuple[int, ...]


class Product(ir.Kernel):
    """``gemm(flags, sizes, pointers)`` inside loops over a batch: a kernel of a library."""

    def __init__(self, statement: ir.Statement, loops: list[For], call: LibraryCall) -> None:
        super().__init__([statement])
        self.loops = loops
        self.dtype: np.dtype = dt.as_dtype(call.name.split("_", 1)[1])
        numbers = [a for a in call.arguments if isinstance(a, Expr)]
        self.flags, self.sizes, self.pitches = numbers[:3], numbers[3:6], numbers[6:]
        self.pointers = [a for a in call.arguments if isinstance(a, Pointer)]

    @property
    def buffers(self) -> list[Buffer]:
        """The operands and the result."""
        return [p.buffer for p in self.pointers]

    def batches(self, addresses: list[int], numbers: Mapping[str, int]) -> Iterator[Batch]:
        """The calls to make for operands at these addresses."""
        m, n, k = (integer(e, numbers) for e in self.sizes)
        extents = [integer(loop.extent, numbers) for loop in self.loops]
        if min([m, n, *extents], default=0) <= 0:
            return
        first = self._offsets(numbers, [0] * len(extents))
        dims = _merged([_Repeat(e, s) for e, s in zip(extents, self._steps(numbers, first))])
        outer, inner = dims[:-1], dims[-1] if dims else _Repeat(1, (0,) * len(first))
        if inner.steps[2] == 0 and inner.count > 1:  # all into one matrix: one after the other
            outer, inner = dims, _Repeat(1, (0,) * len(first))
        size = self.dtype.itemsize
        transpose_x, transpose_y, accumulate = (bool(integer(f, numbers)) for f in self.flags)
        pitches = tuple(integer(p, numbers) for p in self.pitches)
        for place in itertools.product(*(range(d.count) for d in outer)):
            moved = [sum(p * d.steps[j] for p, d in zip(place, outer)) for j in range(len(first))]
            for start in range(0, inner.count, MOST_AT_ONCE):
                at = [f + o + start * step for f, o, step in zip(first, moved, inner.steps)]
                x, y, out = (a + o * size for a, o in zip(addresses, at))
                if not k:  # sums of nothing; what has no memory has no address
                    x = y = out
                count = min(inner.count - start, MOST_AT_ONCE)
                yield Batch(
                    self.dtype, transpose_x, transpose_y, accumulate, (m, n, k), pitches,
                    (x, y, out), count, inner.steps,
                )  # fmt: skip

    def _offsets(self, numbers: Mapping[str, int], at: list[int]) -> tuple[int, ...]:
        """Where the operands of one product begin, in elements."""
        known = {**numbers, **{loop.index.data: i for loop, i in zip(self.loops, at)}}
        return tuple(integer(p.offset, known) for p in self.pointers)

    def _steps(self, numbers: Mapping[str, int], first: tuple[int, ...]) -> list[tuple[int, ...]]:
        """How far the operands move with each loop: offsets are linear in the indices."""
        found = []
        for axis in range(len(self.loops)):
            unit = [int(axis == k) for k in range(len(self.loops))]
            offsets = self._offsets(numbers, unit)
            found.append(tuple(o - f for o, f in zip(offsets, first)))
        return found


def _merged(dims: list[_Repeat]) -> list[_Repeat]:
    """Loops as one where the outer one goes on where the inner one ends."""
    result: list[_Repeat] = []
    for d in dims:
        if d.count == 1:
            continue
        last = result[-1] if result else None
        if last is not None and last.steps == tuple(s * d.count for s in d.steps):
            result[-1] = _Repeat(last.count * d.count, d.steps)
        else:
            result.append(d)
    return result
