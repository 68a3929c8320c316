"""As many rows from each lane to each as data say: between lanes, and what is made of that.

Rows go in slices, which stand one behind the other in a table's order. To bring them into another
order, or to give them places of their own, each row of a result looks for the slice it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.context import axis_size
from phix.core.errors import AttributeValueError, DTypeError, ShapeError, TensorValueError
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.core.source import at_user_line
from phix.core.tensor import TensorBase, Tracer
from phix.primitives.collective import with_axis_moved
from phix.primitives.flat import expanded, zeros

_LARGEST = (1 << 63) - 1

Tables = Callable[[Any], Any]


# -- slices --------------------------------------------------------------------------------------
def numeral(dim: Any) -> Any:
    """A size, maybe one that is unknown yet, as an int64 to compute with."""
    return ops.full((), dim, dt.int64)


def as_ints(table: Any) -> Any:
    """Ints as int64, those that it does not hold as the largest that it does."""
    if table.dtype == dt.uint64:
        table = ops.minimum(table, ops.full((), _LARGEST, dt.uint64))
    return ops.cast(table, dt.int64)


def starts(counts: Any) -> Any:
    """Where each slice begins, of slices that stand one behind the other: [..., slices]."""
    return ops.cumsum(counts, -1) - counts


def picked(x: Any, begins: Any, counts: Any, rows: Any, kept: Any = None) -> Any:
    """Slices of x, one behind the other: [..., rows, ...].

    x: [n, ...]. begins, counts: [..., slices], where in x each slice begins, and how many rows it
    has in the result. kept: how many of those it has in x; the others are zeros, as are rows that
    x has not, and those behind the last slice.
    """
    if dm.same(x.shape[0], 0):
        return zeros(x.meta.with_dims((*counts.shape[:-1], rows, *x.shape[1:])))
    last = numeral(x.shape[0]) - 1
    ends = ops.cumsum(counts, -1)
    number = ops.expand(ops.arange(0, rows, 1, dt.int64), (*counts.shape[:-1], rows))
    of = ops.searchsorted(ends, number, right=True)
    slices = numeral(counts.shape[-1])
    is_some = of < slices
    of = ops.minimum(of, slices - 1)

    def each(table: Any) -> Any:
        return ops.take_along_axis(table, of, counts.ndim - 1)

    offset = number - each(ends - counts)
    place = each(begins) + offset
    is_some &= (place >= 0) & (place <= last)
    if kept is not None:
        is_some &= offset < each(kept)
    found = ops.gather(_never_empty(x), ops.maximum(ops.minimum(place, last), numeral(0)), 0)
    mask = ops.reshape(is_some, (*is_some.shape, *(1,) * (x.ndim - 1)))
    return ops.where(mask, found, ops.full((), 0, x.dtype))


def _never_empty(x: Any) -> Any:
    """x, if its number of rows is not known with a row behind: there is one to be read, whose value
    is not used."""
    if dm.is_known(x.shape[0]):
        return x
    return ops.concat([x, zeros(x.meta.with_dims((1, *x.shape[1:])))], 0)


# -- between lanes -------------------------------------------------------------------------------
@rules.normalize("all_to_allv")
def all_to_allv_attrs(x: MetaTensor, counts: MetaTensor, axis_name: str, rows: Any) -> Any:
    size = axis_size(axis_name)
    if dt.kind(counts.dtype) != "int":
        raise DTypeError(f"all_to_allv: counts are numbers of rows, ints, found {counts}")
    if x.ndim == 0 or counts.ndim != 1 or not dm.may_equal(counts.dims[0], size):
        raise ShapeError(
            f"all_to_allv: x is [rows, ...], and counts has a number for each of the "
            f"{dm.dim_text(size)} lanes of {axis_name!r}; found {x} and {counts}"
        )
    if isinstance(rows, int) and rows < 0:
        raise AttributeValueError(f"all_to_allv: rows must be 0 or more, found {rows}")
    return (axis_name, rows)


@rules.infer_meta("AllToAllvInferMeta")
def all_to_allv_meta(x: MetaTensor, counts: MetaTensor, rows: Any) -> MetaTensor:
    return x.with_dims((rows, *x.dims[1:]))


def sent_between(x: Any, counts: Any, rows: Any) -> Any:
    """[lanes, rows, ...] of what goes between lanes: x is [lanes, n, ...], counts [from, to]."""
    lanes, n = x.shape[:2]
    counts = ops.cast(counts, dt.int64)
    first = ops.arange(0, lanes, 1, dt.int64)[:, None] * numeral(n)
    end = first + numeral(n)  # a slice ends with the rows of its lane
    begins = first + starts(counts)
    kept = ops.minimum(counts, end - begins)
    turned = [ops.transpose(table, (1, 0)) for table in (begins, counts, kept)]
    every = ops.reshape(x, (lanes * n, *x.shape[2:]))
    return picked(every, turned[0], turned[1], rows, turned[2])


@rules.collective("all_to_allv")
def all_to_allv_lanes(
    size: Any, batched: Any, x: Any, counts: Any, axis_name: str, rows: Any
) -> Any:
    x, counts = (v if b else expanded(v, size) for b, v in zip(batched, (x, counts)))
    return sent_between(x, counts, rows), True


@rules.vjp("all_to_allv")
def all_to_allv_vjp(active: Any, x: Any, counts: Any, axis_name: str, rows: Any) -> Any:
    came = ops.all_to_all(counts, axis_name, 0, 0)

    def pull(ct: Any) -> Any:
        return ops.all_to_allv(ct, came, axis_name, x.shape[0]), None

    return ops.all_to_allv(x, counts, axis_name, rows), pull


# -- under a batch of another axis ---------------------------------------------------------------
@rules.batch("all_to_allv")
def all_to_allv_batch(batched: Any, x: Any, counts: Any, axis_name: str, rows: Any) -> Any:
    def send(x: Any, counts: Any, rows: Any) -> Any:
        return ops.all_to_allv(x, counts, axis_name, rows)

    return batched_rows(
        batched, x, counts, rows, send, lambda t: ops.all_to_all(t, axis_name, 0, 0)
    )


def batched_rows(
    batched: Any, x: Any, counts: Any, rows: Any, send: Callable[..., Any], swap: Tables
) -> Any:
    """[batch, rows, ...] by one exchange. ``send(x, counts, rows)`` is one, of an x; ``swap`` gives
    row i of every lane's table to lane i."""
    if not batched[1]:  # rows of the whole batch
        return with_axis_moved(send(with_axis_moved(x, 0, 1), counts, rows), 0, 1)
    batch = counts.shape[0]
    x = x if batched[0] else expanded(x, batch)
    n = x.shape[1]
    # [lanes, batch] on either side: slices go by lane, then by element of the batch
    sent = ops.transpose(ops.cast(counts, dt.int64), (1, 0))
    came = swap(sent)
    first = ops.arange(0, batch, 1, dt.int64) * numeral(n)
    begins = first + ops.transpose(starts(ops.transpose(sent, (1, 0))), (1, 0))
    together = picked(
        ops.reshape(x, (batch * n, *x.shape[2:])), _flat(begins), _flat(sent), batch * n
    )
    arrived = send(together, ops.sum(sent, 1), batch * rows)
    lies = ops.reshape(starts(_flat(came)), came.shape)
    begins, counts = (ops.transpose(table, (1, 0)) for table in (lies, came))
    return picked(arrived, begins, counts, rows)


def _flat(table: Any) -> Any:
    return ops.reshape(table, (-1,))


# -- slices with places of their own -------------------------------------------------------------
@rules.decompose("ragged_all_to_all")
def ragged_all_to_all(
    operand: Any, output: Any, input_offsets: Any, send_sizes: Any, output_offsets: Any,
    recv_sizes: Any, axis_name: str,
) -> Any:  # fmt: skip
    _check_rows(operand, output)
    tables = (input_offsets, send_sizes, output_offsets, recv_sizes)
    begins, sizes, theirs, expected = _numbers(tables, axis_name)
    lands, came = (ops.all_to_all(t, axis_name, 0, 0) for t in (theirs, sizes))
    n, most = operand.shape[0], output.shape[0]
    counts = (ops.expand(numeral(rows), sizes.shape) for rows in (n, most))
    looked_at = [begins, sizes, lands, came, expected, *counts]
    at_each_run(looked_at, SliceCheck(f"ragged_all_to_all{at_user_line()}"))
    arrived = ops.all_to_allv(picked(operand, begins, sizes, n), sizes, axis_name, most)
    if dm.same(most, 0):
        return output
    firsts, order = ops.argsort(ops.where(came > 0, lands, numeral(most)), -1)
    lands, came, lies = (ops.gather(t, order, 0) for t in (lands, came, starts(came)))
    number = ops.arange(0, most, 1, dt.int64)
    of = ops.searchsorted(firsts, number, right=True) - 1  # the slice that begins there or before
    is_first = of >= 0
    of = ops.maximum(of, numeral(0))
    offset = number - ops.gather(lands, of, 0)
    has_come = is_first & (offset < ops.gather(came, of, 0))
    place = ops.where(has_come, ops.gather(lies, of, 0) + offset, numeral(0))
    mask = ops.reshape(has_come, (most, *(1,) * (output.ndim - 1)))
    return ops.where(mask, ops.gather(_never_empty(arrived), place, 0), output)


def _check_rows(operand: Any, output: Any) -> None:
    rows = [v.meta.dims[1:] for v in (operand, output)]
    fits = 0 not in (operand.ndim, output.ndim) and len(rows[0]) == len(rows[1])
    if not fits or not all(map(dm.may_equal, *rows)) or operand.dtype != output.dtype:
        raise ShapeError(
            "ragged_all_to_all: operand [rows, ...] and output [rows, ...] have rows of one shape "
            f"and dtype, found {operand.meta} and {output.meta}"
        )


def _numbers(tables: Sequence[Any], axis_name: str) -> list[Any]:
    """The tables as int64, a number for each part."""
    parts = axis_size(axis_name)
    names = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
    for name, table in zip(names, tables):
        if dt.kind(table.dtype) != "int":
            raise DTypeError(f"ragged_all_to_all: {name} has ints, found {table.meta}")
        if table.ndim != 1 or not dm.may_equal(table.shape[0], parts):
            raise ShapeError(
                f"ragged_all_to_all: {name} has a number for each of the {dm.dim_text(parts)} "
                f"parts of {axis_name!r}, found {table.meta}"
            )
    return [as_ints(table) for table in tables]


@dataclass(frozen=True)
class SliceCheck:
    """What each run of ``ragged_all_to_all`` calls with its tables, and how many rows operand and
    output have; all are [..., parts]."""

    where: str
    __name__ = "check_slices"

    def __call__(self, tables: Sequence[np.ndarray]) -> None:
        begins, sizes, lands, came, expected, n, most = tables
        self._inside("operand", begins, sizes, n)
        self._inside("output", lands, came, most)
        if (sizes.sum(-1) > n[..., 0]).any():
            self._fail(f"send_sizes count {sizes.sum(-1).max()} rows, and operand has {n.flat[0]}")
        if (came != expected).any():
            self._fail(f"recv_sizes are {expected.tolist()}, and the parts send {came.tolist()}")
        order = np.argsort(np.where(came > 0, lands, most), -1)
        first, count = (np.take_along_axis(v, order, -1) for v in (lands, came))
        if ((first + count)[..., :-1] > first[..., 1:])[count[..., 1:] > 0].any():
            self._fail(
                f"slices overlap in output: they begin at {lands.tolist()} and have "
                f"{came.tolist()} rows"
            )

    def _inside(self, name: str, offsets: Any, counts: Any, rows: Any) -> None:
        wrong = (counts < 0) | ((counts > 0) & ((offsets < 0) | (offsets > rows - counts)))
        for at in np.argwhere(wrong)[:1]:
            count, first, most = (int(v[tuple(at)]) for v in (counts, offsets, rows))
            self._fail(f"{count} rows from row {first} on are no slice of {name}, which has {most}")

    def _fail(self, why: str) -> None:
        raise TensorValueError(f"{self.where}: {why}")


def at_each_run(tables: Sequence[Any], check: Callable[[Sequence[np.ndarray]], None]) -> None:
    """Have each run call a function with what tables of one shape are, of all lanes: each with
    those in front."""
    stacked = ops.stack(list(tables), 0)
    while isinstance(stacked, Tracer) and isinstance(getattr(stacked, "value", None), TensorBase):
        stacked = stacked.value  # type: ignore[attr-defined]
    ops.debug_callback([stacked], _Apart(check, tables[0].ndim))


@dataclass(frozen=True)
class _Apart:
    """Calls a function with the tables of a stack, each of ``rank`` axes behind those of lanes."""

    check: Callable[[Sequence[np.ndarray]], None]
    rank: int
    __name__ = "check_rows"

    def __call__(self, arrays: Sequence[np.ndarray]) -> None:
        self.check(list(np.moveaxis(arrays[0], -1 - self.rank, 0)))
