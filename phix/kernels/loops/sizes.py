"""The values of dims and indices at run time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from phix.kernels.scalar.language import Expr


def _quotient(a: int, b: int) -> int:
    """Toward zero; 0 for a division by 0."""
    return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# What the builder makes of unknown dims, on Python's ints.
_INTEGERS: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "quotient": _quotient, "rest": lambda a, b: a - b * _quotient(a, b),
    "maximum": max, "minimum": min, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "cast": int,
    "select": lambda condition, x, y: x if condition else y,
}  # fmt: skip


def integer(expr: Expr, numbers: Mapping[str, int]) -> int:
    """The value of an expression of dims and indices, given those by name."""
    if expr.fn == "const":
        return int(expr.data)
    if expr.fn == "var":
        return numbers[expr.data]
    return int(_INTEGERS[expr.fn](*(integer(x, numbers) for x in expr.args)))
