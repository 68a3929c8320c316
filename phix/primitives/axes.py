"""Axes as attributes: made positive, checked, moved for a batch dim."""

from __future__ import annotations

from collections.abc import Sequence

from phix.core.errors import AttributeValueError
from phix.core.meta import MetaTensor


def positive(axis: int, rank: int, name: str = "axis") -> int:
    """``axis`` counted from the front.

    Raises:
        AttributeValueError: it is outside [-rank, rank).
    """
    if not -max(rank, 1) <= axis < max(rank, 1):
        ways = f"one of {-rank}..{rank - 1}" if rank else "0 or -1"
        raise AttributeValueError(f"{name} {axis} is out of range for {rank} axes; write {ways}")
    return axis % rank if rank else 0


def all_positive(axes: Sequence[int], rank: int, name: str = "axis") -> tuple[int, ...]:
    """Each axis counted from the front; none twice."""
    found = tuple(positive(a, rank, name) for a in axes)
    if len(set(found)) != len(found):
        raise AttributeValueError(f"{name} {tuple(axes)} names an axis twice")
    return found


def reduced(axes: Sequence[int], x: MetaTensor) -> tuple[int, ...]:
    """The axes of a reduction, in order; none given means all. A 0-d tensor has its one value
    along axis 0 or -1, as in Paddle and NumPy."""
    found = all_positive(axes, x.ndim) if axes else range(x.ndim)
    return tuple(sorted(found)) if x.ndim else ()
