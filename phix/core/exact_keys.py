"""Keys of Python values that are equal only where no program could tell the values apart.

Python's own equality is too wide for what programs are looked up by: 0.0 == -0.0 and 1 == 1.0 ==
True, though they make different programs; and too narrow: NaN is unequal to itself, so that what
was made for it would never be found again.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

# Kinds whose equality, together with the kind, is exact.
_PLAIN = frozenset({bool, int, str, bytes, type(None), type})


def _complex(value: complex) -> Any:
    return (value.real.hex(), value.imag.hex())


# The values of a kind -> what tells them apart.
_KEYS: dict[type, Callable[[Any], Any]] = {
    float: float.hex,
    complex: _complex,
    Decimal: repr,
    range: lambda r: (r.start, r.stop, r.step),
    slice: lambda s: (exact_key(s.start), exact_key(s.stop), exact_key(s.step)),
    frozenset: lambda s: frozenset(map(exact_key, s)),
}


def exact_key(value: Any) -> Any:
    """What equals the key of another value only if the two are of one kind and alike to the bit.

    Looks into tuples, frozensets, slices and dataclasses; any other object is compared as it says.

    >>> exact_key(0.0) == exact_key(-0.0), exact_key(float("nan")) == exact_key(float("nan"))
    (False, True)
    >>> exact_key((1, 2)) == exact_key((1, 2.0)), exact_key((1, 2)) == exact_key((1, 2))
    (False, True)
    """
    kind = type(value)
    if kind in _PLAIN:
        return (kind, value)
    made = _KEYS.get(kind)
    if made is not None:
        return (kind, made(value))
    if isinstance(value, tuple):
        return (kind, *map(exact_key, value))
    if isinstance(value, np.generic):
        return (kind, value.dtype, value.tobytes())
    if isinstance(value, (float, complex)):  # of a class of the user's
        return (kind, repr(value), value)
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None and kind.__dataclass_params__.eq:
        named = [f.name for f in fields.values() if f.compare and hasattr(value, f.name)]
        key = (kind, *[(name, exact_key(getattr(value, name))) for name in named])
        if is_hashable(key):
            return key
    return (kind, value)


def is_hashable(value: Any) -> bool:
    """Whether a value can be part of a key; tuples that hold lists cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


class Exact:
    """A value that is compared by its :func:`exact_key`."""

    __slots__ = ("_key", "value")

    _key: Any

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def key(self) -> Any:
        """The exact key, made when it is first asked for."""
        try:
            return self._key
        except AttributeError:
            self._key = exact_key(self.value)
            return self._key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Exact) and bool(self.key == other.key))

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)
