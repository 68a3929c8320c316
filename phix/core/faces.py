"""Faces: the modules that users call, in which ``dir`` shows what is public and nothing else.

A face says once what it offers, in ``__all__``; ``from face import *``, type checkers and, by::

    __dir__ = face(__all__)

``dir`` and the completion of names in editors and notebooks all go by that list. A name that is not
there is answered with what to write instead: see :mod:`phix.core.hints`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

MODULES: dict[str, Sequence[str]] = {}  # what each face that is imported offers
_answer: Callable[[str, str], AttributeError]


def provide_answer(answer: Callable[[str, str], AttributeError]) -> None:
    """Say what the error is for a name that a module has not: ``core.hints`` does."""
    global _answer
    _answer = answer


def missing_name(module_name: str, name: str) -> AttributeError:
    """The error for a name that a face has not."""
    if name.startswith("_"):  # asked for by Python itself, and by tools that look around
        return AttributeError(f"module {module_name!r} has no attribute {name!r}")
    return _answer(module_name, name)


def face(names: Sequence[str]) -> Callable[[], list[str]]:
    """The ``__dir__`` of the module that calls this and offers ``names``, its ``__all__``, which
    may grow. The module gets a ``__getattr__`` for names that are missing, out of sight of type
    checkers, which would take every name for one of its own."""
    scope = sys._getframe(1).f_globals
    module_name = scope["__name__"]
    MODULES[module_name] = names

    def missing(name: str) -> Any:
        raise missing_name(module_name, name)

    scope.setdefault("__getattr__", missing)
    return lambda: sorted(names)
