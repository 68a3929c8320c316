"""Steps between ranks as calls of MPI in native code: what moves is memory, all else is loops.

The calls, and the order in which parts are added, are those of the host's steps
(``phix/parallel/exchange.py``): results are the same to the bit, and ranks may do either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.meta import MetaTensor
from phix.core.rank_ports import ADDED, BEGUN, BYTES, MOST, PLACES, Port
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value, buffer_value
from phix.kernels.loops.calls import RANK_STEP, CallStep
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.reduction import SUM, as_dtype, parts, whole
from phix.kernels.lowering.registry import Task
from phix.kernels.lowering.shape import reindexed, transpose
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Sums of so many parts are written out; of more they are a loop.
_WRITTEN_OUT = 16


def port_for(b: Builder, x: Value, group: Any, kind: str) -> Port | None:
    """The port by which native code does a step; None: it is a step of the host.

    This is the one place that decides it. Ranks may decide differently.
    """
    if not (b.target.calls_ranks and rewrites.is_on("native_collectives")):
        return None
    size = dm.product(x.dims)
    if not isinstance(size, int) or size * x.dtype.itemsize * group.size > MOST:
        return None
    if kind in ("sum", "scatter") and (x.dtype == dt.bool_ or x.dtype in dt.STORAGE):
        return None
    found: Port | None = getattr(group, "port", None)
    return found


def by_calls(
    b: Builder, x: Value, group: Any, port: Port, kind: str, detail: Any, task: Task
) -> Value:
    """What a step gives."""
    begins = group.overlaps(kind, math.prod(map(int, x.dims)) * x.dtype.itemsize)
    calls = _Calls(b, group, port, task, kind, begins)
    found: Value = getattr(calls, kind)(x, tuple(detail))
    return found


def axes_moved(source: int, target: int, rank: int) -> tuple[int, ...]:
    """The order of axes in which one has gone elsewhere, the others as they were."""
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return tuple(order)


@dataclass(frozen=True, eq=False)
class _Calls:
    """The kinds of steps, each a method with its name. Whatever calls one takes, they are told of
    as ``asked``; where the step ``begins``, the first may be waited for later, and those behind it
    go by the second communicator, as some ranks do them before other steps, some after."""

    b: Builder
    group: Any
    port: Port
    task: Task
    asked: str
    begins: bool

    # -- kinds -----------------------------------------------------------------------------------
    def index(self, x: Value, detail: Any) -> Value:
        number = self._number()
        return Value((), dt.int64, lambda _: number, lambda _: number)

    def own(self, x: Value, detail: Any) -> Value:
        (axis,), own = detail, self._number()
        at = lambda idx: (*idx[:axis], own, *idx[axis:])  # noqa: E731
        return reindexed(self.b, x, at, self.task.out.dims)

    def gather(self, x: Value, detail: Any) -> Value:
        rows = self._called("gather", x, (self.group.size, *x.dims), (0,))
        return transpose(self.b, rows, axes_moved(0, detail[0], len(rows.dims)))

    rows = gather

    def exchange(self, x: Value, detail: Any) -> Value:
        dealt = self._dealt(x, detail[0])
        return transpose(self.b, dealt, axes_moved(0, detail[1], len(dealt.dims)))

    def scatter(self, x: Value, detail: Any) -> Value:
        return self._added(self._dealt(x, detail[0]))

    def permute(self, x: Value, detail: Any) -> Value:
        return self._called("permute", x, x.dims, detail)

    def sum(self, x: Value, detail: Any) -> Value:
        count = self._size(x) * x.dtype.itemsize
        way = self.group.way_of_sum(x.dtype, count)
        if way == "at once":
            return self.b.written((self.task.out,), lambda to: self._at_once(x, to))[0]
        if way == "whole":
            return self._added(self.gather(x, (0,)))
        return self.b.written((self.task.out,), lambda to: self._by_pieces(x, to))[0]

    # -- sums ------------------------------------------------------------------------------------
    def _at_once(self, x: Value, to: Buffer) -> None:
        """MPI adds where its result will be: x is computed there, and MPI copies nothing."""
        self.b.fill(to, x)
        self._call("sum", buffer_value(to), x.dims, (), to)

    def _by_pieces(self, x: Value, to: Buffer) -> None:
        """Each rank adds a piece, the pieces go to all; what is left over goes to all as it is."""
        b, size, count = self.b, self.group.size, self._size(x)
        piece, left = divmod(count, size)
        x = buffer_value(b.contiguous(x))
        dealt = self._called("exchange", x, (size, piece), (0, 0))
        self._call("gather", self._added(dealt), (size, piece), (0,), to, goes_on=self.begins)
        if left:
            first = sc.const(count - left, dt.int64)
            rest = Value((left,), x.dtype, None, lambda i: b.flat_element(x, i + first))
            rows = self._called("gather", rest, (size, left), (0,), goes_on=self.begins)
            rest = self._added(rows)
            rest = buffer_value(b.contiguous(rest))
            with b.kernel(), b.loop(sc.const(left, dt.int64)) as i:
                b.put(to, i + first, b.flat_element(rest, i))

    def _added(self, rows: Value) -> Value:
        """The sum over the first axis, row by row; of half precision in float32, rounded once."""
        b, dims, wide = self.b, rows.dims[1:], dt.accumulator_dtype(rows.dtype)
        count = math.prod(map(int, dims))

        def row(number: Expr, i: Expr) -> Element:
            return as_dtype(b.flat_element(rows, number * count + i), wide)

        if self.group.size > _WRITTEN_OUT:
            write = lambda to: self._add_in_a_loop(row, count, to)  # noqa: E731
            return b.written((MetaTensor(dims, rows.dtype),), write)[0]

        def added(i: Expr) -> Element:
            numbers = [sc.const(k, dt.int64) for k in range(self.group.size)]
            return reduce(SUM.combine, [row(k, i) for k in numbers])

        return Value(dims, rows.dtype, None, added, self.group.size)

    def _add_in_a_loop(self, row: Callable[[Expr, Expr], Element], count: int, to: Buffer) -> None:
        b, others = self.b, sc.const(self.group.size - 1, dt.int64)
        with b.kernel(), b.loop(sc.const(count, dt.int64)) as i:
            totals = b.mutable(*parts(row(ir.ZERO, i)))
            with b.loop(others, "reduction") as k:
                new = SUM.combine(whole(totals), row(k + 1, i))
                b.emit(ir.Assign(totals, parts(new)))
            b.put(to, i, whole(totals))

    # -- calls -----------------------------------------------------------------------------------
    def _dealt(self, x: Value, axis: int) -> Value:
        """Row ``index`` along an axis of every rank's x, one behind the other."""
        moved = transpose(self.b, x, axes_moved(axis, 0, len(x.dims)))
        return self._called("exchange", moved, moved.dims, (0, 0))

    def _called(
        self, kind: str, x: Value, dims: Sequence[Any], detail: Any, goes_on: bool = False
    ) -> Value:
        """What a call gives, of these dims."""
        dims = tuple(dims)
        write = lambda to: self._call(kind, x, dims, detail, to, goes_on)  # noqa: E731
        return self.b.written((MetaTensor(dims, x.dtype),), write)[0]

    def _call(
        self,
        kind: str,
        x: Value,
        dims: tuple[Any, ...],
        detail: Any,
        to: Buffer,
        goes_on: bool = False,
    ) -> None:
        """Emit a call that fills the first elements of ``to`` with those of an array of these dims:
        of the first elements of x, as many as ranks send."""
        group, source = self.group, self.task.source
        sent = dims[1:] if kind == "gather" else dims
        run = group.go_on if goes_on else group.run_begun if self.begins else group.run

        def function(given: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
            run(kind, detail, _first(given, sent), _first(out, dims), source)

        def begin(given: np.ndarray, table: np.ndarray, out: np.ndarray) -> Any:
            return group.begin(kind, detail, _first(given, sent), _first(out, dims), source)

        routine, numbers = _ROUTINES[kind](group, x.dtype, math.prod(sent), detail)
        is_begun = self.begins and not goes_on
        attrs = {"group": group, "kind": kind, "detail": detail, "source": source,
                 "begin": begin if is_begun else None, "handle": self.port.handle,
                 "asked": self.asked}  # fmt: skip
        table = self._table()
        read, shapes = (self.b.contiguous(x), table), (x.dims, table.dims)
        name = BEGUN[routine] if is_begun else routine
        step = CallStep(RANK_STEP, function, read, (to,), shapes, attrs, name, numbers)
        step.goes_on = goes_on
        self.b.steps.append(step)

    def _table(self) -> Buffer:
        words = self.port.table
        return self.b.constant_buffer(words, words.shape, words.dtype)

    def _number(self) -> Expr:
        """The number of this rank, read from the table: code is the same on all ranks."""
        found = ir.load(self._table(), (sc.const(PLACES["index"], dt.int64),))
        assert isinstance(found, Expr)
        return found

    def _size(self, x: Value) -> int:
        return math.prod(map(int, x.dims))


def _first(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """The first elements of an array as one of these dims."""
    return array.reshape(-1)[: math.prod(dims)].reshape(dims)


# -- what calls are passed ---------------------------------------------------------------------
Routine = tuple[str, tuple[int, ...]]  # the routine, and its numbers


def _type_of(dtype: np.dtype, count: int) -> tuple[int, int]:
    """How many there are of a dtype of MPI's, and its place in the table."""
    if dtype.char in ADDED:
        return count, PLACES[dtype.char]
    return count * dtype.itemsize, PLACES[BYTES]


def _allreduce(group: Any, dtype: np.dtype, count: int, detail: Any) -> Routine:
    return "MPI_Allreduce", _type_of(dtype, count)


def _allgather(group: Any, dtype: np.dtype, count: int, detail: Any) -> Routine:
    return "MPI_Allgather", _type_of(dtype, count)


def _alltoall(group: Any, dtype: np.dtype, count: int, detail: Any) -> Routine:
    return "MPI_Alltoall", (count * dtype.itemsize // group.size, PLACES[BYTES])


def _sendrecv(group: Any, dtype: np.dtype, count: int, detail: Any) -> Routine:
    target, source = group.neighbours(detail)
    return "MPI_Sendrecv", (count * dtype.itemsize, target, source)


_ROUTINES: dict[str, Callable[[Any, np.dtype, int, Any], Routine]] = {
    "sum": _allreduce, "gather": _allgather, "exchange": _alltoall, "permute": _sendrecv,
}  # fmt: skip
