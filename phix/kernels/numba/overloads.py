"""Overloads for Numba from outside of it: code that stands in no function that calls it."""

from __future__ import annotations

from typing import Any

_LIBRARY = "numba"
# How many templates have been looked at, and what those of others are for.
_looked_at = {"functions": 0, "attributes": 0}
_functions: dict[int, list[Any]] = {}
_attributes: dict[str, list[Any]] = {}


def of(function: Any) -> list[Any]:
    """The overloads of a function that are none of Numba's own."""
    _look()
    return _functions.get(id(function), [])


def of_attribute(name: str) -> list[Any]:
    """Those of methods and attributes of a name, of any type."""
    _look()
    return _attributes.get(name, [])


def _look() -> None:
    """Look at what was registered since."""
    from numba.core.typing.templates import builtin_registry

    for kind, seen in _looked_at.items():
        templates = getattr(builtin_registry, kind)
        for template in templates[seen:]:
            overload = getattr(template, "_overload_func", None)
            if overload is None or _root(overload) == _LIBRARY:
                continue
            if kind == "functions":
                _functions.setdefault(id(template.key), []).append(overload)
            else:
                _attributes.setdefault(template._attr, []).append(overload)
        _looked_at[kind] = len(templates)


def _root(function: Any) -> str:
    """The package a function is from; Numba makes some from text, which have none."""
    return (function.__module__ or _LIBRARY).partition(".")[0]
