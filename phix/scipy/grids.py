"""Values between those on a grid: the sum over the corners of a cell, or the nearest corner."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from phix import ops
from phix.core import dtypes as dt


class Side(NamedTuple):
    """Where points lie along one axis: between two indices, a fraction of the way from the lower
    one. ``inside`` says of both whether the grid has them; None is that it has."""

    lower: Any
    upper: Any
    fraction: Any
    inside: tuple[Any, Any] | None = None


def indices(x: Any) -> Any:
    """Whole floats as int64; 0 for a NaN."""
    return ops.cast(ops.where(ops.isnan(x), 0.0, x), dt.int64)


def clamped(x: Any, size: Any) -> Any:
    """The nearest of the indices 0 to size - 1, of ints or floats; floats at both ends keep their
    slope, which ``minimum`` would share with the bound."""
    last = ops.cast(ops.full((), size - 1, dt.int64), x.dtype)
    x = ops.where(x > last, last, x)
    return ops.where(x < 0, ops.zeros_like(last), x)


def at_corners(values: Any, sides: list[Side], outside: Any = None) -> Any:
    """The sum of the values at the corners of cells, each by its share.

    Args:
        values: ``[*sizes, *rest]``.
        sides: one for each of the sizes, of tensors of one shape ``[*points]``.
        outside: the value of corners that the grid has not.

    Returns:
        ``[*points, *rest]``, in the dtype of the values and fractions together.
    """
    rest = values.ndim - len(sides)
    total = None
    for corner in itertools.product((0, 1), repeat=len(sides)):
        found = picked(values, [s[c] for s, c in zip(sides, corner)])
        inside = [s.inside[c] for s, c in zip(sides, corner) if s.inside is not None]
        for holds in inside:
            found = ops.where(holds, found, outside)
        share: Any = 1.0
        for side, is_upper in zip(sides, corner):
            share = share * (side.fraction if is_upper else 1.0 - side.fraction)
        found = found * _with_axes(share, rest)
        total = found if total is None else total + found
    return total


def picked(values: Any, places: list[Any]) -> Any:
    """values[i, j, ...] for tensors of indices of one shape: ``[*points, *rest]``."""
    return ops.gather_nd(values, ops.stack(places, -1))


def _with_axes(x: Any, count: int) -> Any:
    """x with so many axes of one element behind its own."""
    return ops.unsqueeze(x, list(range(x.ndim, x.ndim + count))) if count else x


def spread(x: Any, like: Any) -> Any:
    """x, which says something of points, beside ``[*points, *rest]``."""
    return _with_axes(x, like.ndim - x.ndim)
