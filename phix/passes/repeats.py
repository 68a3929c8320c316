"""Where a sequence repeats itself: stretches of one period, found without trying all periods.

Windows of 1, 2, 4, ... elements get numbers, equal ones the same (each is two of half its length).
Inside of a stretch the next window like one is a period away, if it is no shorter than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Stretch(NamedTuple):
    """The elements from ``start`` on are the first ``period`` of them, so many ``times``."""

    start: int
    period: int
    times: int

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + self.period * self.times


def stretches(keys: Sequence[int], least: int) -> list[Stretch]:
    """The stretches of at least ``least`` periods, those of most elements first; they may overlap.

    >>> stretches([7, 1, 2, 1, 2, 1, 2, 1, 8], 3)
    [Stretch(start=1, period=2, times=3), Stretch(start=2, period=2, times=3)]
    """
    numbers = np.asarray(keys, np.int64)
    found = [s for period in _periods(numbers, least) for s in _of_period(numbers, period, least)]
    return sorted(found, key=lambda s: (s.start - s.stop, s.period, s.start))


def _periods(numbers: np.ndarray, least: int) -> list[int]:
    """How far apart equal windows are that are no shorter than that, where this is so often."""
    found: set[int] = set()
    width, most = 1, len(numbers) // least
    _, ranks = np.unique(numbers, return_inverse=True)
    while len(ranks) and width < 2 * most:
        order = np.argsort(ranks, kind="stable")
        apart = np.diff(order)[ranks[order[1:]] == ranks[order[:-1]]]
        counts = np.bincount(apart[apart <= min(width, most)])
        # a stretch has windows at all places but in its last periods
        found.update(d for d in np.flatnonzero(counts).tolist() if counts[d] >= (least - 3) * d)
        pairs = ranks[:-width] * (len(ranks) + 1) + ranks[width:]
        _, ranks = np.unique(pairs, return_inverse=True)
        width *= 2
    return sorted(found)


def _of_period(numbers: np.ndarray, period: int, least: int) -> Iterator[Stretch]:
    """Its stretches, from each place where one may start that has as many periods."""
    same = np.concatenate([[False], numbers[period:] == numbers[:-period], [False]])
    edges = np.flatnonzero(np.diff(same))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist()):
        length = stop + period - start
        if length >= least * period:
            yield Stretch(start, period, length // period)
            if length % period:
                yield Stretch(start + length % period, period, length // period)
