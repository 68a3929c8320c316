"""What was used last of what can be made again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Kept = TypeVar("Kept")
_NONE: Any = object()


class Recent(Generic[Kept]):
    """Values by key, of which those used last are kept, as many as ``most()``.

    Threads may share one: a value that another thread is after at that moment may be made twice.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self.most = most
        self.kept: OrderedDict[Hashable, Kept] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The value of ``key``; ``make()`` where there is none."""
        found: Kept = self.kept.pop(key, _NONE)
        if found is _NONE:
            found = make()
        self.kept[key] = found  # behind all others
        if len(self.kept) > self.most():
            self.kept.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self.kept)
