"""Pickles of what holds functions: by name where there is one, else a refusal that says the way."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from typing import Any

from phix.core.errors import ArgumentError

# These pickle functions by their code, and ask the same questions as pickle itself.
_BY_CODE = ("cloudpickle", "dill")


def global_name(value: Any) -> str | None:
    """The name that a value has in its module; pickles then hold that name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    found: Any = module
    path = getattr(value, "__qualname__", "")
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is value:
        return str(path)
    return next((name for name, v in vars(module).items() if v is value), None) if module else None


def check(what: str, functions: Iterable[Any], way: str) -> None:
    """Raise where pickle cannot find the functions again.

    Raises:
        ArgumentError: one has no name in a module.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _BY_CODE:
            return
        frame = frame.f_back
    for function in functions:
        try:
            pickle.dumps(function)
        except Exception as error:
            name = getattr(function, "__qualname__", type(function).__name__)
            raise ArgumentError(
                f"a pickle of {what} was asked for, and pickles hold functions by their names in "
                f"modules, which {name} has not ({error}); {way}"
            ) from None


def refused(what: str, way: str) -> ArgumentError:
    """The error of what is never pickled."""
    return ArgumentError(f"a pickle of {what} was asked for; {way}")
