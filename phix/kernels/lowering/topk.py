"""The lowering of topk. For a few elements of a row the row need not be sorted.

The best so far are kept in order. A block of the row none of whose keys is better than the last of
them is passed over: one minimum, in vectors, tells. The keys are those of sorting, where less is
better. As an element has to be better than one before it to come in, equals stay in the order
they came. Many short rows are sorted all the same, by a network, where that takes less.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import CHEAP, ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer, Kernel
from phix.kernels.lowering import sorting_steps
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.sort_keys import UINT32, key_dtype, sort_key
from phix.kernels.lowering.sorting import Way, in_rows, ordered, picked, read, rows_of
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# More than so many are found by sorting the row.
FEW = 32
# Elements of which one minimum is taken.
BLOCK = 16
# The best are kept sooner than a row is sorted by a network where it has so many elements for each.
_LATER = 64


@lowering("topk", "whole")
def topk(
    b: Builder, x: Value, k: Any, axis: int, largest: bool, sorted_: bool, *, task: Task
) -> tuple[Value, ...]:
    if not b.target.sorts_in_loops:
        return sorting_steps.topk(b, task, x, axis, largest)
    if not x.dims or not isinstance(k, int) or not 0 < k <= FEW:
        return ordered(b, x, axis, largest, k)
    if _is_sorted_sooner(b, x, k, axis):
        return ordered(b, x, axis, largest, k)
    rows = rows_of(b, x, axis)

    def write(out: Buffer, indices: Buffer) -> None:
        if rows.buffer is None and rows.cost > CHEAP:
            b.materialize(rows)
        with b.kernel() as kernel:
            best = _Best(b, kernel, k, x.dtype)
            with b.loops(rows.dims[:-1], "independent") as head:
                best.find(
                    b.dim(rows.dims[-1]),
                    lambda i: sort_key(read(b, rows, (*head, i)), largest, False),
                )
                picked(b, k, rows, head, best.place, out, indices)

    return in_rows(b, x, rows, axis, k, write)


def _is_sorted_sooner(b: Builder, x: Value, k: int, axis: int) -> bool:
    """Whether a network sorts rows sooner than the best are kept: one, or few, are not."""
    size = x.dims[axis]
    is_few = not isinstance(size, int) or k == 1 or k * _LATER <= size
    return not is_few and Way(b, x, axis).network is True


class _Best:
    """The ``count`` least keys of a row and their places, the least first."""

    def __init__(self, b: Builder, kernel: Kernel, count: int, dtype: np.dtype) -> None:
        self.b, self.count = b, count
        self.keys = b.local(kernel, count, key_dtype(dtype))
        self.places = b.local(kernel, count, UINT32)

    def place(self, i: Expr) -> Expr:
        return sc.cast(_load(self.places, i), dt.int64)

    def find(self, size: Expr, key_at: Callable[[Expr], Expr]) -> None:
        """Those of the first ``size`` keys."""
        b = self.b
        count = b.dim(self.count)
        with b.loop(count) as i:  # in a row that is shorter, which is an error, places of its own
            b.emit(ir.Store(self.places, (i,), sc.const(0, UINT32)))
        with b.loop(sc.binary("minimum", count, size), "reduction") as i:
            self._insert(key_at(i), i, i)
        blocks = sc.binary("quotient", sc.binary("maximum", size - count, ZERO), b.dim(BLOCK))
        with b.loop(blocks, "reduction") as block:
            start = count + block * BLOCK
            (least,) = b.mutable(sc.const(np.iinfo(self.keys.dtype).max, self.keys.dtype))
            with b.loop(b.dim(BLOCK), "reduction") as i:
                b.emit(ir.Assign((least,), (sc.binary("minimum", least, key_at(start + i)),)))
            with self._where_better(least), b.loop(b.dim(BLOCK), "reduction") as i:
                self._try(key_at(start + i), start + i)
        start = count + blocks * BLOCK
        with b.loop(sc.binary("maximum", size - start, ZERO), "reduction") as i:
            self._try(key_at(start + i), start + i)

    def _try(self, key: Expr, place: Expr) -> None:
        """Let a key in, in place of the last, if it is better."""
        (key,) = self.b.mutable(key)
        with self._where_better(key):
            self._insert(key, place, self.b.dim(self.count - 1))

    def _where_better(self, key: Expr) -> AbstractContextManager[None]:
        """A block for keys that are better than the last."""
        is_better = key < _load(self.keys, self.b.dim(self.count - 1))
        return self.b.block(lambda body: ir.If(is_better, body))

    def _insert(self, key: Expr, place: Expr, end: Expr) -> None:
        """Put a key in order among the ``end`` first; what is there moves on."""
        b = self.b
        key, at = b.mutable(key, end)
        before = sc.binary("maximum", at - 1, ZERO)
        goes_on = (at > 0) & (_load(self.keys, before) > key)
        with b.block(lambda body: ir.While(goes_on, body)):
            for buffer in (self.keys, self.places):
                b.emit(ir.Store(buffer, (at,), _load(buffer, at - 1)))
            b.emit(ir.Assign((at,), (at - 1,)))
        b.emit(ir.Store(self.keys, (at,), key))
        b.emit(ir.Store(self.places, (at,), sc.cast(place, UINT32)))


def _load(buffer: Buffer, i: Expr) -> Expr:
    element = ir.load(buffer, (i,))
    assert isinstance(element, Expr)
    return element
