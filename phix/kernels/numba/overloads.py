"""Overloads for Numba from outside of it: code that stands in no function that calls it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

_LIBRARY = "numba"
# Instructions, with what they say of themselves, that call functions of ``operator`` by no name,
# and bool where code branches; Python 3.10 has an instruction for each sign.
_SIGNS = {
    "add": "+", "mul": "*", "matmul": "@", "sub": "-", "truediv": "/", "floordiv": "//", "mod": "%",
    "pow": "**", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_WORDS = {
    "mul": "MULTIPLY", "matmul": "MATRIX_MULTIPLY", "sub": "SUBTRACT", "truediv": "TRUE_DIVIDE",
    "floordiv": "FLOOR_DIVIDE", "mod": "MODULO", "pow": "POWER",
}  # fmt: skip
_INSTRUCTIONS = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "^COMPARE_"),
    **dict.fromkeys(("getitem", "setitem", "delitem"), r"_SUBSCR|_SLICE|BINARY_OP \["),
    **dict.fromkeys(("not_", "truth", "bool"), "^UNARY_NOT|JUMP|^TO_BOOL"),
    **dict.fromkeys(("neg", "pos", "invert", "inv"), "^UNARY_|^CALL_INTRINSIC"),
    "contains": "^CONTAINS_OP", "is_": "^IS_OP", "is_not": "^IS_OP",
}  # fmt: skip
for _name, _sign in _SIGNS.items():
    _word = _WORDS.get(_name, _name.strip("_").upper())
    _both = rf"^BINARY_OP {re.escape(_sign)}=?$|^(BINARY|INPLACE)_{_word} "
    _INSTRUCTIONS |= dict.fromkeys((_name, f"i{_name.strip('_')}"), _both)
# How many templates have been looked at, and what those of others are for.
_looked_at = {"functions": 0, "attributes": 0}
_functions: dict[int, list[Any]] = {}
_attributes: dict[str, list[Any]] = {}
_operators: dict[str, list[Any]] = {}


def of(function: Any) -> list[Any]:
    """The overloads of a function that are none of Numba's own."""
    _look()
    return _functions.get(id(function), [])


def of_operators(code_has: Callable[[str], bool]) -> list[Any]:
    """Those of operators that stand in code by sign, which ``code_has`` instructions that a pattern
    finds of."""
    _look()
    return [
        overload
        for name, found in _operators.items()
        if code_has(_INSTRUCTIONS.get(name, "^$"))
        for overload in found
    ]


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
                name = getattr(template.key, "__name__", "")
                if template.key in (bool, getattr(operator, name, None)):
                    _operators.setdefault(name, []).append(overload)
            else:
                _attributes.setdefault(template._attr, []).append(overload)
        _looked_at[kind] = len(templates)


def _root(function: Any) -> str:
    """The package a function is from; Numba makes some from text, which have none."""
    return (function.__module__ or _LIBRARY).partition(".")[0]
