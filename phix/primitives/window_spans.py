"""Windows of unlike sizes or places, gathered: the elements of each side by side.

Along an axis window ``i`` holds the elements from ``begin[i]`` up to ``end[i]``, of which those
off the image count for nothing. Sizes and places may depend on unknown dims.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.primitives.positions import numbers


@dataclass(frozen=True)
class Spans:
    """The windows along one axis; ``taps`` is the size of the largest, or more."""

    axis: int
    size: dm.DimLike
    count: dm.DimLike
    taps: dm.DimLike
    begin: Any
    end: Any


def whole(dim: dm.DimLike) -> Any:
    """A dim as a 0-d int64 tensor, or the int that it is."""
    return dim if isinstance(dim, int) else ops.full((), dim, "int64")


def sliding(
    axis: int, size: dm.DimLike, count: dm.DimLike, taps: dm.DimLike, stride: Any, before: Any
) -> Spans:
    """Windows of ``taps`` elements, the first beginning ``before`` the image."""
    begin = numbers(count) * whole(stride) - whole(before)
    return Spans(axis, size, count, taps, begin, begin + whole(taps))


def adaptive(axis: int, size: dm.DimLike, count: dm.DimLike) -> Spans:
    """``count`` windows that cover an axis as evenly as can be; neighbours may share an element."""
    at = numbers(count)
    begin = ops.floor_divide(at * whole(size), whole(count))
    end = ops.floor_divide((at + 1) * whole(size) + (whole(count) - 1), whole(count))
    return Spans(axis, size, count, dm.floordiv(size + count - 1, count) + 1, begin, end)


def gathered(x: Any, spans: Sequence[Spans], fill: Any) -> Any:
    """The windows of x: each axis of ``spans`` becomes two, the windows and their elements."""
    inside = []
    for number, span in reversed(list(enumerate(spans))):
        at = ops.reshape(span.begin, (span.count, 1)) + numbers(span.taps)
        is_in = (at >= 0) & (at < ops.reshape(span.end, (span.count, 1))) & (at < whole(span.size))
        x = ops.gather(x, ops.minimum(ops.maximum(at, 0), whole(span.size - 1)), span.axis)
        inside.append((span.axis + number, is_in))
    rank = x.ndim
    masks = (
        ops.reshape(m, (*(1,) * axis, *m.meta.dims, *(1,) * (rank - axis - 2)))
        for axis, m in inside
    )
    is_in = functools.reduce(ops.logical_and, masks)
    return ops.where(is_in, x, ops.full((), fill, x.dtype))


def summed(x: Any, spans: Sequence[Spans]) -> Any:
    """The sums of the windows of x, axis by axis: what windows share is added up once."""
    for span in reversed(spans):
        x = ops.sum(gathered(x, [span], 0), span.axis + 1)
    return x


def within(spans: Sequence[Spans]) -> list[int]:
    """The axes of what :func:`gathered` gives that lie within a window."""
    return [span.axis + number + 1 for number, span in enumerate(spans)]


def sizes(spans: Sequence[Spans], rank: int, dtype: Any) -> Any:
    """How many elements each window holds, with ``rank`` axes."""
    total: Any = None
    for span in spans:
        held = ops.minimum(span.end, whole(span.size)) - ops.maximum(span.begin, 0)
        held = ops.reshape(held, [span.count if a == span.axis else 1 for a in range(rank)])
        total = held if total is None else total * held
    return ops.cast(total, dtype)


def largest(x: Any, spans: Sequence[Spans]) -> tuple[Any, Any]:
    """The first largest element of each window, and its number on the image, as int32.

    The spatial axes are the last.
    """
    taken = gathered(x, spans, float("-inf"))
    elements = within(spans)
    front = [a for a in range(taken.ndim) if a not in elements]
    rows = ops.transpose(taken, [*front, *elements])
    dims = rows.meta.dims[: len(front)]
    best = ops.argmax(ops.reshape(rows, (*dims, dm.product(tuple(s.taps for s in spans)))), -1)
    number: Any = None
    for span, (i, places) in zip(spans, _unraveled(best, spans)):
        first = ops.reshape(span.begin, [d if a == i else 1 for a, d in enumerate(dims)])
        # where all are -inf, the first may lie off the image
        at = ops.minimum(ops.maximum(first + places, 0), whole(span.size - 1))
        number = at if number is None else number * whole(span.size) + at
    leading = len(dims) - len(spans)
    area = dm.product(tuple(s.size for s in spans))
    flat = ops.reshape(x, (*x.meta.dims[:leading], area))
    places = ops.reshape(number, (*dims[:leading], dm.product(dims[leading:])))
    out = ops.reshape(ops.take_along_axis(flat, places, leading), dims)
    return out, ops.cast(number, dt.int32)


def _unraveled(best: Any, spans: Sequence[Spans]) -> list[tuple[int, Any]]:
    """The numbers of the elements along each axis of a window, with the windows' axis."""
    found = []
    axis = best.ndim
    for span in reversed(spans):
        axis -= 1
        found.append((axis, ops.remainder(best, whole(span.taps))))
        best = ops.floor_divide(best, whole(span.taps))
    return found[::-1]
