"""What calls are told apart by, where what was found for one is kept for others like it."""

from __future__ import annotations

from typing import Any

from phix.core import dtypes as dt
from phix.core.graph import flat
from phix.core.libraries import PINS, pinned
from phix.core.op import Op

# Inputs that are part of a plan, where the user wrote them: Python scalars, absent optionals.
FIXED = frozenset({bool, int, float, complex, type(None)})
_PLAIN = FIXED | {str, type, type(dt.float32)} | {type(d) for d in dt.ALL}


def keep(store: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Keep ``value``; where there are ``most``, the oldest quarter of them goes."""
    if len(store) >= most:
        for old in list(store)[: most // 4]:
            store.pop(old, None)
    store[key] = value


def number_key(value: Any) -> Any:
    """Of a number as the user wrote it, or None: 0.0 is not -0.0, and nan is nan."""
    kind = type(value)
    if kind is int or (kind is float and value and value == value):
        return (kind, value)  # a text takes longer than all else that a call looks up
    return (kind, repr(value))


def call_of(op: Op, attrs: tuple[Any, ...]) -> Any:
    """What calls of an op are told apart by, besides their inputs: attributes, a pinned library."""
    if not op.inexact and not PINS:
        return (op, attrs)
    return (op, attrs, pinned(), *[repr(attrs[i]) for i in op.inexact])


def asked(op: Op, attrs: tuple[Any, ...]) -> Any:
    """As ``call_of``, of a call as the user wrote it, whose numbers may be of the default float."""
    call, float_ = call_of(op, attrs), dt.default_float()
    return call if float_ is dt.float32 else (call, float_)


def plan_key(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """The key of a plan, for inputs that are tensors, lists of them, or absent."""
    keys = [x.key for x in flat(inputs)]
    structure = tuple([len(e) if isinstance(e, tuple) else e is None for e in inputs])
    if structure.count(False) == len(structure):
        return (call_of(op, attrs), *keys)
    return (call_of(op, attrs), structure, *keys)


def is_plain(value: Any) -> bool:
    """Whether equal values of this kind, of one text, mean the same attribute."""
    return type(value) in _PLAIN or (type(value) is tuple and all(map(is_plain, value)))
