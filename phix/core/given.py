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
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from phix.core.dims import Dim
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    KernelNotFoundError,
    KernelRegistrationError,
    NumberRangeError,
    ShapeError,
    UnknownOpError,
    described,
)
from phix.core.hints import unknown_arguments
from phix.core.places import called_at_home, is_host_alone
from phix.core.records import dataclass
from phix.core.tracebacks import shorten

F = TypeVar("F", bound=Callable[..., Any])
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Kind:
    """What a setting may be: ``says`` it in messages, behind "must be"."""

    says: str
    holds: Callable[[Any], bool]
    runs: bool = False  # whether the function that takes it runs it

    def __or__(self, other: Kind) -> Kind:
        says, runs = f"{self.says}, or {other.says}", self.runs or other.runs
        return Kind(says, lambda v: self.holds(v) or other.holds(v), runs)


def is_int(value: Any) -> bool:
    """Whether a value is an int that programs can count with, and no bool."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return False
    return bool(_INT64.min <= value <= _INT64.max)


def at_least(low: int) -> Kind:
    """An int from ``low``."""
    return Kind(f"an int from {low}", lambda v: is_int(v) and v >= low)


def between(low: int, high: int) -> Kind:
    """An int from ``low`` to ``high``."""
    return Kind(f"an int from {low} to {high}", lambda v: is_int(v) and low <= v <= high)


def one_of(*names: str) -> Kind:
    """One of these texts."""
    return Kind(
        f"one of {', '.join(map(repr, names))}", lambda v: isinstance(v, str) and v in names
    )


def list_of(kind: Kind, says: str, *others: type) -> Kind:
    """A list, a tuple, or one of other types, of what is of a kind."""
    lists: tuple[Any, ...] = (list, tuple, *others)
    return Kind(says, lambda v: isinstance(v, lists) and all(kind.holds(e) for e in v), kind.runs)


def entries(value: Any, where: str) -> tuple[Any, ...]:
    """What a list, a tuple or a vector holds, in order; a number alone is the one entry."""
    if isinstance(value, (int, Dim)) or _is_single(value, "iu"):
        return (value,)
    try:
        if not isinstance(value, (str, bytes, dict, set, frozenset)):
            return tuple(value)
    except Exception:  # whatever the value answers
        pass
    raise ArgumentError(f"{where} must be an int or a list of ints, found {described(value)}")


def sizes(value: Any, where: str) -> tuple[Any, ...]:
    """As :func:`entries`, of what is an int or several: ints of Python's, and dims."""
    found = entries(value, where)
    if not all(map(_INT_LIKE.holds, found)):
        raise ArgumentError(f"{where} must be an int or a list of ints, found {described(value)}")
    return tuple(v if isinstance(v, Dim) else int(v) for v in found)


def sizes_of(value: Any, where: str, count: int) -> list[Any]:
    """As :func:`sizes`; a number alone stands for ``count`` of them."""
    found = sizes(value, where)
    is_alone = isinstance(value, (int, Dim)) or getattr(value, "ndim", None) == 0
    return list(found * count if is_alone else found)


def _is_tree_of_axes(value: Any, levels: int = 32) -> bool:
    if value is None or is_int(value):
        return True
    if not isinstance(value, (list, tuple, dict)) or not levels:
        return False
    below = value.values() if isinstance(value, dict) else value
    return all(_is_tree_of_axes(v, levels - 1) for v in below)


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1))


FUNCTION = Kind("a function", callable, runs=True)
FLAG = Kind("True or False", _is_flag)
INT = Kind("an int", is_int)
# For a bound that may lie one beyond what programs count with; what takes it says how far.
BOUND = Kind(
    "an int", lambda v: isinstance(v, (int, np.integer)) and not isinstance(v, (bool, np.bool_))
)
SIZE = Kind("an int from 0, or a dim", lambda v: isinstance(v, Dim) or (is_int(v) and v >= 0))
PAIRS = list_of(
    Kind("", lambda v: isinstance(v, (list, tuple)) and len(v) == 2 and all(is_int(n) for n in v)),
    "a list of pairs of ints",
)
INTS = INT | list_of(INT, "a list or tuple of ints")
TEXT = Kind("a str", lambda v: isinstance(v, str))
CLASS = Kind("a class", lambda v: isinstance(v, type))
NAMES = TEXT | list_of(TEXT, "a list, tuple or set of them", set, frozenset)
NONE = Kind("None", lambda v: v is None)
FUNCTIONS = list_of(FUNCTION, "a list or tuple of functions")
LIST = Kind("a list or tuple", lambda v: isinstance(v, (list, tuple)))
AXES = Kind("an int, None, or a tree of them", _is_tree_of_axes)


def _is_single(value: Any, kinds: str) -> bool:
    """Whether a value is an array or tensor without axes, of a dtype of these kinds of NumPy."""
    if getattr(value, "ndim", None) != 0:
        return False
    return getattr(getattr(value, "dtype", None), "kind", " ") in kinds


# What faces of ops take where their annotation says so; the ops say the rest.
_INT_LIKE = Kind("an int", lambda v: isinstance(v, Dim) or is_int(v) or _is_single(v, "iu"))
_REAL_LIKE = Kind(
    "a number",
    lambda v: isinstance(v, (int, float, np.integer, np.floating)) or _is_single(v, "biufV"),
)
_INTS_LIKE = Kind(
    "an int, or a list or tuple of ints",
    lambda v: (
        _INT_LIKE.holds(v)
        or (isinstance(v, (list, tuple)) and all(_INT_LIKE.holds(n) for n in v))
        or (getattr(v, "ndim", None) == 1 and getattr(v.dtype, "kind", " ") in "iu")
    ),
)
_PADDING = TEXT | Kind(
    "an int, or a list or tuple of ints or of pairs of them",
    lambda v: (
        _INTS_LIKE.holds(v)
        or (isinstance(v, (list, tuple)) and all(_INTS_LIKE.holds(n) for n in v))
    ),
)
_PLAIN = (
    ("str", TEXT),
    ("bool", FLAG),
    ("int", _INT_LIKE),
    *((name, _REAL_LIKE) for name in ("float", "FloatLike")),
    ("Padding", _PADDING),
    ("Sizes", list_of(_INT_LIKE | NONE, "a list or tuple of ints")),
    *((name, _INTS_LIKE) for name in ("Size", "Axes", "Sequence[int]")),
    *((name, _INTS_LIKE) for name in ("int | Sequence[int]", "int | Axes")),
)
_BY_ANNOTATION = {
    name + none: kind | NONE if none else kind for name, kind in _PLAIN for none in ("", " | None")
}


# What is given by name alone has no place among the others.
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def takes(**kinds: Kind) -> Callable[[F], F]:
    """A decorator: the arguments of these names are of these kinds.

    Those that are not named are of the kind their annotation says, if that is a plain one. What the
    function makes, it makes where the tensors among its arguments are.
    """

    def decorator(function: F) -> F:
        parameters = inspect.signature(function).parameters
        places = {
            name: n if parameter.kind in _BY_PLACE else sys.maxsize
            for n, (name, parameter) in enumerate(parameters.items())
        }
        found = {n: _BY_ANNOTATION.get(p.annotation) for n, p in parameters.items()} | kinds
        checks = tuple((places[name], name, kind) for name, kind in found.items() if kind)
        is_open = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        known = None if is_open else parameters.keys()
        # what runs functions of the user's lets the errors of ops in them through as they are
        named = naming(function.__name__, not any(kind.runs for kind in kinds.values()))

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if kwargs and known is not None and not kwargs.keys() <= known:
                raise unknown_arguments(function.__name__, known, kwargs.keys() - known)
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
                if is_host_alone():
                    return function(*args, **kwargs)
                return called_at_home(function, args, kwargs)

        return checked  # type: ignore[return-value]

    return decorator


def named(name: str, of_ops: bool = False) -> Callable[[F], F]:
    """A decorator for what a public function makes: its errors name that function."""
    block = naming(name, of_ops)

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


# Errors about what a function was given; others have places of their own in their text.
_ABOUT_ARGUMENTS = (ArgumentError, AttributeValueError, DTypeError, NumberRangeError, ShapeError)
# Errors about what stands in registries; out of a function that programs run in, they are its own.
_ABOUT_NAMES = (KernelNotFoundError, KernelRegistrationError, UnknownOpError)


class naming:
    """Errors about arguments that leave the with block get this name in front, if they lack it.

    Those that an op raises, which say where it was called, only if ``of_ops``.
    """

    __slots__ = ("name", "of_ops")

    def __init__(self, name: str, of_ops: bool = False) -> None:
        self.name, self.of_ops = name, of_ops

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            return
        about = (*_ABOUT_ARGUMENTS, *_ABOUT_NAMES) if self.of_ops else _ABOUT_ARGUMENTS
        if isinstance(error, about):
            text = str(error)
            is_placed = getattr(error, "located", False) or "(at " in text
            if self.name not in text and (self.of_ops or not is_placed):
                error.args = (f"{self.name}: {text}",)
        shorten(error, trace)
