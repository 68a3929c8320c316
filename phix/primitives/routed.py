"""Rows that go to parts of an axis, as many to each as the data say.

All that goes from one part to another goes at once (``all_to_allv``); where rows stand by expert
on one side, they are put in order there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim
from phix.core.context import axis_size, bound_axes
from phix.core.errors import DTypeError, ShapeError, TensorValueError
from phix.core.records import dataclass
from phix.core.source import at_user_line
from phix.primitives.communication import ring
from phix.primitives.ragged import as_ints, at_each_run, numeral, picked, starts

# More rows than any part has, few enough that sums of such numbers are no more than int64 holds.
_MOST = 1 << 40


# -- experts -------------------------------------------------------------------------------------
@rules.decompose("scatter_rows")
def scatter_rows(x: Any, local_count: Any, axis_name: str, rows: Any, drops: bool) -> Any:
    here, there = _tables("global_scatter", x, local_count, axis_name, drops)
    return _scattered(x, here, there, axis_name, rows, drops), _flat(there)


@rules.decompose("gather_rows")
def gather_rows(x: Any, local_count: Any, axis_name: str, rows: Any, drops: bool) -> Any:
    here, there = _tables("global_gather", x, local_count, axis_name, drops)
    return _gathered(x, here, there, axis_name, rows, drops)


@rules.decompose("global_scatter")
def global_scatter(x: Any, local_count: Any, global_count: Any, ring_id: int) -> Any:
    name, _ = ring(ring_id)
    here, there = _tables("global_scatter", x, local_count, name, False)
    _agree("global_scatter", global_count, there)
    return _scattered(x, here, there, name, _most_anywhere(there, name), False)


@rules.decompose("global_gather")
def global_gather(x: Any, local_count: Any, global_count: Any, ring_id: int) -> Any:
    name, _ = ring(ring_id)
    here, there = _tables("global_gather", x, local_count, name, False)
    _agree("global_gather", global_count, there)
    return _gathered(x, here, there, name, _most_anywhere(here, name), False)


def _scattered(x: Any, here: Any, there: Any, axis_name: str, rows: Any, drops: bool) -> Any:
    if not drops:
        _look("global_scatter", _SENT, here, x.shape[0])
        _look("global_scatter", _ARRIVED, there, rows)
    return _Way(axis_name, rows, drops, here, there, by_expert=_THERE).delivered(x)


def _gathered(x: Any, here: Any, there: Any, axis_name: str, rows: Any, drops: bool) -> Any:
    if not drops:
        _look("global_gather", _CAME, there, x.shape[0])
        _look("global_gather", _RETURNED, here, rows)
    return _Way(axis_name, rows, drops, there, here, by_expert=_HERE).delivered(x)


def _most_anywhere(counts: Any, axis_name: str) -> Any:
    """The largest number of rows that any part gets: a size that is the same on all of them, along
    other axes, too."""
    most = ops.sum(counts)
    others = [name for name, *_ in bound_axes() if name != axis_name]
    for name in (axis_name, *others):
        most = ops.max(ops.all_gather(most, name), [0])
    return as_dim(most)


def _tables(name: str, x: Any, numbers: Any, axis_name: str, drops: bool) -> tuple[Any, Any]:
    """How many rows go from here to each part's experts, and come from each part to those here:
    [parts, experts of a part]."""
    parts = axis_size(axis_name)
    if dt.kind(numbers.dtype) != "int":
        raise DTypeError(f"{name}: local_count has numbers of rows, ints, found {numbers.meta}")
    is_even = numbers.ndim == 1 and dm.is_known(numbers.shape[0]) and numbers.shape[0] > 0
    if x.ndim == 0 or not is_even or numbers.shape[0] % parts:
        raise ShapeError(
            f"{name}: x is [rows, ...] and local_count has a number for each expert of the "
            f"{dm.dim_text(parts)} parts of {axis_name!r}, as many for each part; found "
            f"{x.meta} and {numbers.meta}"
        )
    numbers = ops.clip(as_ints(numbers), 0 if drops else -_MOST, _MOST)
    here = ops.reshape(numbers, (parts, numbers.shape[0] // parts))
    return here, ops.all_to_all(here, axis_name, 0, 0)


# Where rows stand by expert and then by part; on the other side they stand by part.
_HERE, _THERE = "here", "there"


@dataclass(frozen=True)
class _Way:
    """Slices of rows from each part to each. ``sent`` and ``came``, [parts, experts], say how many
    rows the slices have that go from here to each part, and come from each part to here."""

    axis_name: str
    rows: int
    drops: bool
    sent: Any
    came: Any
    by_expert: str

    def delivered(self, x: Any) -> Any:
        """[rows, ...] of what comes, of the slices of ``x``."""
        sent, came = self.sent, self.came
        if self.drops:
            sent, came = self._that_fit(x.shape[0])
        if self.drops or not self._goes_by_part(_HERE):
            begins, counts = (_flat(t) for t in (self._begins(_HERE), sent))
            x = picked(x, begins, counts, x.shape[0])
        arrived = ops.all_to_allv(x, ops.sum(sent, 1), self.axis_name, self.rows)
        if not self.drops and self._goes_by_part(_THERE):
            return arrived
        lies = ops.reshape(starts(_flat(came)), came.shape)
        tables = (lies, self.came, came)
        begins, counts, kept = (_flat(self._in_order(table, _THERE)) for table in tables)
        return picked(arrived, begins, counts, self.rows, kept)

    def _that_fit(self, most: Any) -> tuple[Any, Any]:
        """As ``sent`` and ``came``, without rows that x has not, or the result has no room for."""
        are = _fitting(self._begins(_HERE), self.sent, most)
        have_room = _fitting(self._begins(_THERE), self.came, self.rows)
        came = ops.minimum(ops.all_to_all(are, self.axis_name, 0, 0), have_room)
        return ops.all_to_all(came, self.axis_name, 0, 0), came

    def _goes_by_part(self, side: str) -> bool:
        return side != self.by_expert or dm.same(self.sent.shape[1], 1)

    def _in_order(self, table: Any, side: str) -> Any:
        """A table of slices, as they stand one behind the other on a side."""
        return ops.transpose(table, (1, 0)) if side == self.by_expert else table

    def _begins(self, side: str) -> Any:
        """Where each slice begins on a side, [parts, experts]."""
        counts = self._in_order(self.sent if side == _HERE else self.came, side)
        return self._in_order(ops.reshape(starts(_flat(counts)), counts.shape), side)


def _fitting(begins: Any, counts: Any, most: Any) -> Any:
    """How many rows of each slice are among the first ``most``."""
    return ops.minimum(ops.maximum(numeral(most) - begins, numeral(0)), counts)


def _flat(table: Any) -> Any:
    return ops.reshape(table, (-1,))


# -- what each run looks at ----------------------------------------------------------------------
# Each of these takes how many rows there are, and how many there is room for.
_SENT = "local_count counts {0} rows, and x has {1}"
_ARRIVED = (
    "{0} rows arrive at a part, and the result has {1}; write rows={0} or more, or drops=True"
)
_CAME = "{0} rows came to a part, and x has {1}"
_RETURNED = "{0} rows come back, and the result has {1}; write rows={0} or drops=True"


@dataclass(frozen=True)
class RowCheck:
    """What each run calls with numbers of rows, and how many can be, [..., parts, experts]."""

    says: str
    where: str

    def __call__(self, tables: Sequence[np.ndarray]) -> None:
        counts, most = tables[0], tables[1].flat[0]
        if counts.min() < 0:
            raise TensorValueError(
                f"{self.where}: local_count has {int(counts.min())}, and no rows are less than none"
            )
        total = int(counts.sum((-2, -1)).max())
        if total > int(most):
            raise TensorValueError(f"{self.where}: {self.says.format(total, int(most))}")


@dataclass(frozen=True)
class AgreeCheck:
    """What each run calls with the global_count that it is given, and what the parts send."""

    where: str

    def __call__(self, tables: Sequence[np.ndarray]) -> None:
        given, sent = tables
        if (given != sent).any():
            raise TensorValueError(
                f"{self.where}: global_count is {given.tolist()}, and the parts send "
                f"{sent.tolist()}; it is what all_to_all makes of local_count"
            )


def _look(name: str, says: str, counts: Any, most: Any) -> None:
    """Have each run look whether so many rows can be."""
    at_each_run(
        [counts, ops.expand(numeral(most), counts.shape)], RowCheck(says, f"{name}{at_user_line()}")
    )


def _agree(name: str, given: Any, there: Any) -> None:
    """Have each run look whether the numbers are those that the parts send."""
    if dt.kind(given.dtype) != "int" or not dm.same(given.meta.size, there.meta.size):
        raise ShapeError(
            f"{name}: global_count has as many ints as local_count, {there.meta.size}; found "
            f"{given.meta}"
        )
    given = ops.reshape(as_ints(given), (given.meta.size,))
    at_each_run([given, _flat(there)], AgreeCheck(f"{name}{at_user_line()}"))
