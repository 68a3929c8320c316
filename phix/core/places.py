"""Places: where data lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phix.core.errors import DeviceError

_KINDS = {"cpu"}


@dataclass(frozen=True)
class Place:
    """A device: its kind and number. Prints as ``cpu`` or ``gpu:0``.

    >>> import phix
    >>> phix.to_tensor(1.0).place == phix.Place("cpu")
    True
    """

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"


CPU = Place("cpu")


def as_place(value: Any) -> Place | None:
    """A Place from ``"cpu"``, ``"gpu:0"`` or a Place; None stays None (follow the inputs).

    Raises:
        DeviceError: no engine for that kind of device is there.
    """
    if value is None or isinstance(value, Place):
        return value
    kind, _, index = str(value).partition(":")
    if kind not in _KINDS or (index and not index.isdigit()):
        raise DeviceError(f"no place {value!r}; the places of this installation: {sorted(_KINDS)}")
    return Place(kind, int(index or 0))
