"""The classes that were registered as nodes of trees, and how they come apart and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core.records import dataclass


@dataclass(frozen=True)
class Registered:
    """How a class comes apart, into children, a static part and the children's names, and
    together."""

    parts: Callable[[Any], tuple[Sequence[Any], Any, Sequence[Any]]]
    whole: Callable[[Any, Any], Any]


REGISTERED: dict[type, Registered] = {}
