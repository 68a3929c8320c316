"""Axes as users write them, counted from the front."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from phix.core.errors import AttributeValueError


def axis_of(axis: Any, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        AttributeValueError: it is outside [-rank, rank).
    """
    number = operator.index(axis)
    if not -rank <= number < rank:
        raise AttributeValueError(f"axis {number} is out of range for {rank} axes")
    return number % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes that ``axis`` names, each once; all of them where it is None."""
    if axis is None:
        return tuple(range(rank))
    several = axis if isinstance(axis, Sequence) else (axis,)
    found = tuple(axis_of(a, rank) for a in several)
    if len(set(found)) < len(found):
        raise AttributeValueError(f"axis {axis} names an axis twice")
    return found
