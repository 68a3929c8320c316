"""What the values of an input may be: lengths, counts, offsets, weights.

Calls that run at once look, and raise; compiled programs do under ``phix.debug.check_indices()``:
see ``phix.core.index_ranges``, which has the range of indices beside these.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from phix.core.dims import DimLike
from phix.core.errors import PhixError, TensorValueError
from phix.core.records import dataclass


@dataclass(frozen=True)
class ValueRange:
    """A rule for the values of the argument ``name``, which may ask for ``sizes``."""

    name: str
    sizes: tuple[DimLike, ...] = ()
    kinds: ClassVar[tuple[str, ...]] = ("int",)  # of dtypes; what infers metas refuses others
    error: ClassVar[type[PhixError]] = TensorValueError

    def wrong(self, array: np.ndarray) -> str | None:
        """What to say of an array that breaks the rule; lanes may stand in front of its axes."""
        raise NotImplementedError

    @property
    def is_moot(self) -> bool:
        """Whether what infers the metas of a call says what is wrong, whatever the values are."""
        return False


@dataclass(frozen=True)
class OfSize(ValueRange):
    """A rule that asks for one size; () where the tensor that has it lacks the axis."""

    what: str = "rows"

    @property
    def is_moot(self) -> bool:
        return not self.sizes

    @property
    def size(self) -> int:
        return int(self.sizes[0])


@dataclass(frozen=True)
class Lengths(OfSize):
    """Each from 0 to the one size: steps of a sequence, draws of a number."""

    what: str = "steps"

    def wrong(self, array: np.ndarray) -> str | None:
        most = self.size
        bad = (array < 0) | (array > most)
        if not bad.any():
            return None
        return (
            f"{self.name} holds {int(array[bad].flat[0])}, and there are {most} {self.what}; "
            f"write ints from 0 to {most}"
        )


@dataclass(frozen=True)
class Counts(OfSize):
    """None negative, and their sum is the one size."""

    def wrong(self, array: np.ndarray) -> str | None:
        total, sums = self.size, np.atleast_1d(array).sum(-1, dtype=np.int64)
        if array.size and int(array.min()) < 0:
            return f"{self.name} holds {int(array.min())}, which counts nothing; write ints from 0"
        if (sums == total).all():
            return None
        found = int(np.atleast_1d(sums)[np.atleast_1d(sums != total)][0])
        return f"{self.name} counts {found} {self.what}, there are {total}; count each of them once"


@dataclass(frozen=True)
class Offsets(OfSize):
    """Where one sequence ends and the next begins: from 0 to the one size, never descending."""

    def wrong(self, array: np.ndarray) -> str | None:
        most = self.size
        outside = (array < 0) | (array > most)
        if outside.any():
            return (
                f"{self.name} holds {int(array[outside].flat[0])}, and there are {most} "
                f"{self.what}; write ints from 0 to {most}"
            )
        array = np.atleast_1d(array)
        before, after = array[..., :-1], array[..., 1:]
        falls = after < before
        if not falls.any():
            return None
        return (
            f"{self.name} descends from {int(before[falls].flat[0])} to "
            f"{int(after[falls].flat[0])}; each sequence ends where it begins, or later"
        )


@dataclass(frozen=True)
class Weights(ValueRange):
    """Of alternatives, along the last axis: finite, none negative, ``drawn`` of them above 0."""

    drawn: int = 1
    kinds: ClassVar[tuple[str, ...]] = ("int", "float")

    def wrong(self, array: np.ndarray) -> str | None:
        bad = ~((array >= 0) & (array < np.inf))
        if bad.any():
            return f"{self.name} holds {array[bad].flat[0].item():g}; write finite weights from 0"
        positive = (np.atleast_1d(array) > 0).sum(-1)
        if (positive >= self.drawn).all():
            return None
        return (
            f"{self.name} has {int(positive.min())} weights above 0, and {self.drawn} "
            "alternatives are drawn of them; draw fewer, or with replacement=True"
        )
