"""Rows that go to experts on the parts of a mesh, as many to each as the data say, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.api.batching import all_to_all, axis_size
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import to_tensor
from phix.core.errors import DTypeError, ShapeError, TensorValueError
from phix.core.given import FLAG, at_least, takes
from phix.core.records import dataclass
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, TensorBase, TensorLike, Tracer

# More rows than any part has, few enough that sums of such numbers are no more than int64 holds.
_MOST = 1 << 40
# Where a row is put that does not go to a part: behind all rows that a result can have.
_BEHIND = (1 << 63) - 1


@takes(rows=at_least(0), drops=FLAG)
def global_scatter(
    x: TensorLike, local_count: TensorLike, axis_name: str, *, rows: int, drops: bool = False
) -> tuple[Tensor, Tensor]:
    """The rows that all parts send to the experts of this one: Paddle's op of this name.

    Each part of the axis has as many experts. The first rows of ``x`` go to expert 0 of part 0, the
    next ones to its expert 1, those of the last experts to the last part. What arrives stands by
    expert, then by the part it is from. The sizes go along, so parts cannot disagree about them.

    Args:
        x: the rows of this part, [n, ...]. Those behind the last that is counted are not sent.
        local_count: ints, [parts * experts of a part]: how many rows go to each.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.
        rows: how many rows the result has, the same on all parts, for shapes do not depend on data.
            Behind what arrives are zeros.
        drops: whether what arrives beyond ``rows`` is dropped, as by experts of a capacity, and
            numbers are taken as the nearest that can be. Otherwise each run looks at them.

    Returns:
        [rows, ...], and Paddle's global_count, [parts * experts of a part]: how many rows each part
        has sent to each expert here. All have arrived where ``global_count.sum() <= rows``.

    Raises:
        ShapeError: local_count does not have as many numbers for each part.
        DTypeError: its numbers are no ints.
        TensorValueError: more rows arrive than the result has; local_count counts more rows than
            ``x`` has, or less than none. Not with ``drops``.

    >>> import phix
    >>> mesh = phix.parallel.mesh({"expert": 2}, virtual=True)
    >>> sent = lambda x, n: phix.parallel.global_scatter(x, n, "expert", rows=3)
    >>> x, counts = phix.to_tensor([1.0, 2.0, 3.0, 4.0]), phix.to_tensor([0, 2, 1, 1])
    >>> [v.tolist() for v in phix.parallel.spmd(sent, mesh, "expert", "expert")(x, counts)]
    [[3.0, 0.0, 0.0, 1.0, 2.0, 4.0], [0, 1, 2, 1]]
    """
    given, here, there = _tables("global_scatter", x, local_count, axis_name, drops)
    if not drops:
        _look("global_scatter", _SENT, here, given.shape[0])
        _look("global_scatter", _ARRIVED, there, rows)
    places = all_to_all(_transposed(_starts(_transposed(there))), axis_name, 0, 0)
    parts, experts = here.shape
    to = ops.expand(ops.arange(0, parts, 1, dt.int64)[:, None], (parts, experts))
    return _delivered(given, (here, to, places), rows, axis_name), ops.reshape(there, (-1,))


@takes(rows=at_least(0), drops=FLAG)
def global_gather(
    x: TensorLike, local_count: TensorLike, axis_name: str, *, rows: int, drops: bool = False
) -> Tensor:
    """The rows that :func:`global_scatter` has sent, back where they came from, in their order.

    Args:
        x: a row for each that came to the experts of this part, [n, ...], in the order in which
            ``global_scatter`` gives them.
        local_count: what ``global_scatter`` was given on this part.
        axis_name: of :func:`spmd`, or of ``phix.vmap``.
        rows: how many rows the result has, those of the x that was sent, say. Behind the last that
            is counted are zeros.
        drops: whether what is beyond ``rows`` is dropped, and what ``x`` has no row for is zeros.

    Returns:
        [rows, ...].

    Raises:
        ShapeError: local_count does not have as many numbers for each part.
        DTypeError: its numbers are no ints.
        TensorValueError: more rows come back than the result has, ``x`` has not all of the rows
            that came here, or a number is less than none. Not with ``drops``.

    >>> import phix
    >>> def doubled(x, n):
    ...     there, _ = phix.parallel.global_scatter(x, n, "expert", rows=4)
    ...     return phix.parallel.global_gather(2.0 * there, n, "expert", rows=2)
    >>> mesh = phix.parallel.mesh({"expert": 2}, virtual=True)
    >>> x, counts = phix.to_tensor([1.0, 2.0, 3.0, 4.0]), phix.to_tensor([0, 2, 1, 1])
    >>> phix.parallel.spmd(doubled, mesh, "expert", "expert")(x, counts).tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    given, here, there = _tables("global_gather", x, local_count, axis_name, drops)
    if not drops:
        _look("global_gather", _CAME, there, given.shape[0])
        _look("global_gather", _RETURNED, here, rows)
    places = all_to_all(_starts(here), axis_name, 0, 0)
    parts, experts = here.shape
    to = ops.expand(ops.arange(0, parts, 1, dt.int64)[None], (experts, parts))
    slices = (_transposed(there), to, _transposed(places))
    return _delivered(given, slices, rows, axis_name)


# Each of these takes how many rows there are, and how many there is room for.
_SENT = "local_count counts {0} rows, and x has {1}"
_ARRIVED = (
    "{0} rows arrive at a part, and the result has {1}; write rows={0} or more, or drops=True"
)
_CAME = "{0} rows came to a part, and x has {1}"
_RETURNED = "{0} rows come back, and the result has {1}; write rows={0} or drops=True"


@dataclass(frozen=True)
class RowCheck:
    """What each run calls with numbers of rows, [..., parts, experts], and how many can be."""

    says: str
    where: str
    __name__ = "check_rows"

    def __call__(self, arrays: Sequence[np.ndarray]) -> None:
        counts, most = arrays
        if counts.min() < 0:
            raise TensorValueError(
                f"{self.where}: local_count has {int(counts.min())}, and no rows are less than none"
            )
        total = int(counts.sum((-2, -1)).max())
        if total > int(most):
            raise TensorValueError(f"{self.where}: {self.says.format(total, int(most))}")


def _look(name: str, says: str, counts: Any, most: Any) -> None:
    """Have each run look whether so many rows can be."""
    while isinstance(counts, Tracer) and isinstance(getattr(counts, "value", None), TensorBase):
        counts = counts.value  # type: ignore[attr-defined]
    ops.debug_callback(
        [counts, ops.full((), most, dt.int64)], RowCheck(says, f"{name}{at_user_line()}")
    )


def _tables(
    name: str, x: TensorLike, counts: TensorLike, axis_name: str, drops: bool
) -> tuple[Any, Any, Any]:
    """The rows; how many go from here to each part's experts, and come from each part to those
    here: [parts, experts of a part]."""
    given, numbers = to_tensor(x), to_tensor(counts)
    parts = axis_size(axis_name)
    if dt.kind(numbers.dtype) != "int":
        raise DTypeError(f"{name}: local_count has numbers of rows, ints, found {numbers.meta}")
    is_even = numbers.ndim == 1 and dm.is_known(numbers.shape[0]) and numbers.shape[0] > 0
    if given.ndim == 0 or not is_even or numbers.shape[0] % parts:
        raise ShapeError(
            f"{name}: x is [rows, ...] and local_count has a number for each expert of the "
            f"{dm.dim_text(parts)} parts of {axis_name!r}, as many for each part; found "
            f"{given.meta} and {numbers.meta}"
        )
    numbers = ops.clip(ops.cast(numbers, dt.int64), 0 if drops else -_MOST, _MOST)
    here = ops.reshape(numbers, (parts, numbers.shape[0] // parts))
    return given, here, all_to_all(here, axis_name, 0, 0)


def _starts(counts: Any) -> Any:
    """Where each of the slices begins that stand one behind the other, in C order."""
    flat = ops.reshape(counts, (-1,))
    return ops.reshape(ops.cumsum(flat, 0) - flat, counts.shape)


def _transposed(table: Any) -> Any:
    return ops.transpose(table, (1, 0))


def _delivered(x: Any, slices: tuple[Any, Any, Any], rows: int, axis_name: str) -> Any:
    """[rows, ...] of what the parts send here. ``slices``: how many rows each has, in the order in
    which they stand in ``x``, to which part it goes, and from which row on it stands there.

    Each part sends every other one as much room as ``x`` takes, with its rows in their places there
    and nothing else: shapes do not depend on data, and derivatives are those of ``all_to_all``.
    """
    counts, to, places = (ops.reshape(table, (-1,)) for table in slices)
    number, parts = ops.arange(0, x.shape[0], 1, dt.int64), axis_size(axis_name)
    ends = ops.cumsum(counts, 0)
    of = ops.sum(ops.cast(number[:, None] >= ends, dt.int64), 1)  # the slice of each row
    is_counted = of < counts.shape[0]
    of = ops.where(is_counted, of, ops.full((), 0, dt.int64))
    place = places[of] + number - (ends - counts)[of]
    is_sent = is_counted & (to[of] == ops.arange(0, parts, 1, dt.int64)[:, None])
    place = ops.where(is_sent, place, ops.full((), _BEHIND, dt.int64))
    mask = ops.reshape(is_sent, (*is_sent.shape, *(1,) * (x.ndim - 1)))
    sent = ops.where(mask, x, ops.full((), 0, x.dtype))
    arrived, place = (all_to_all(v, axis_name, 0, 0) for v in (sent, place))
    place = ops.minimum(place, ops.full((), rows, dt.int64))  # of this part's result
    out = ops.full((rows + 1, *x.shape[1:]), 0, x.dtype)
    found = ops.reshape(arrived, (parts * x.shape[0], *x.shape[1:]))
    return out.at[ops.reshape(place, (-1,))].set(found)[:rows]


__all__ = ["global_gather", "global_scatter"]
