"""Settings of public functions, checked where they are given, and errors that name the function.

::

    @takes(function=FUNCTION, argnums=INTS, has_aux=FLAG)
    def grad(function, argnums=0, has_aux=False): ...

A setting of another kind raises an ArgumentError that says which, what was found and what it must
be. Errors of phix that come out of the function, and do not say where they are from, get its name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from phix.core.dims import Dim
from phix.core.errors import ArgumentError, PhixError, described

F = TypeVar("F", bound=Callable[..., Any])
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Kind:
    """What a setting may be: ``says`` it in messages, behind "must be"."""

    says: str
    holds: Callable[[Any], bool]

    def __or__(self, other: Kind) -> Kind:
        return Kind(f"{self.says}, or {other.says}", lambda v: self.holds(v) or other.holds(v))


def is_int(value: Any) -> bool:
    """Whether a value is an int that programs can count with, and no bool."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return False
    return bool(_INT64.min <= value <= _INT64.max)


def at_least(low: int) -> Kind:
    """An int from ``low``."""
    return Kind(f"an int from {low}", lambda v: is_int(v) and v >= low)


def one_of(*names: str) -> Kind:
    """One of these texts."""
    return Kind(
        f"one of {', '.join(map(repr, names))}", lambda v: isinstance(v, str) and v in names
    )


def list_of(kind: Kind, says: str) -> Kind:
    """A list or tuple of what is of a kind."""
    lists = (list, tuple, set, frozenset)
    return Kind(says, lambda v: isinstance(v, lists) and all(map(kind.holds, v)))


def _is_tree_of_axes(value: Any, levels: int = 32) -> bool:
    if value is None or is_int(value):
        return True
    if not isinstance(value, (list, tuple, dict)) or not levels:
        return False
    below = value.values() if isinstance(value, dict) else value
    return all(_is_tree_of_axes(v, levels - 1) for v in below)


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1))


FUNCTION = Kind("a function", callable)
FLAG = Kind("True or False", _is_flag)
INT = Kind("an int", is_int)
SIZE = Kind("an int from 0, or a dim", lambda v: isinstance(v, Dim) or (is_int(v) and v >= 0))
PAIRS = list_of(
    Kind("", lambda v: isinstance(v, (list, tuple)) and len(v) == 2 and all(map(is_int, v))),
    "a list of pairs of ints",
)
INTS = INT | list_of(INT, "a list or tuple of ints")
TEXT = Kind("a str", lambda v: isinstance(v, str))
NAMES = TEXT | list_of(TEXT, "a list, tuple or set of them")
NONE = Kind("None", lambda v: v is None)
FUNCTIONS = list_of(FUNCTION, "a list or tuple of functions")
LIST = Kind("a list or tuple", lambda v: isinstance(v, (list, tuple)))
AXES = Kind("an int, None, or a tree of them", _is_tree_of_axes)


def takes(**kinds: Kind) -> Callable[[F], F]:
    """A decorator: the arguments of these names are of these kinds."""

    def decorator(function: F) -> F:
        places = {name: n for n, name in enumerate(inspect.signature(function).parameters)}
        checks = tuple((places[name], name, kind) for name, kind in kinds.items())
        named = naming(function.__name__)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            count = len(args)
            for place, name, kind in checks:
                if place < count:
                    value = args[place]
                elif name in kwargs:
                    value = kwargs[name]
                else:
                    continue
                if not kind.holds(value):
                    raise wrong(function.__name__, name, kind, value)
            with named:
                return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorator


def named(name: str) -> Callable[[F], F]:
    """A decorator for what a public function makes: its errors name that function."""
    block = naming(name)

    def decorator(function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with block:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

    return decorator


def wrong(where: str, name: str, kind: Kind, value: Any) -> ArgumentError:
    """What a setting of another kind is answered with."""
    return ArgumentError(f"{where}: {name} must be {kind.says}, found {described(value)}")


class naming:
    """Errors of phix that leave the with block without a place of their own get this name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, PhixError) or getattr(error, "located", False):
            return
        error.located = True  # type: ignore[attr-defined]
        text = str(error)
        if self.name not in text:
            error.args = (f"{self.name}: {text}",)
