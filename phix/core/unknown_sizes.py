"""What an unknown size does among numbers, and refuses: whatever Python needs its value for.

Quotients, powers and floats with it are numbers that are computed in each run, as weak as those
that Python computes.

A size that ``jit`` found to vary is a number for the user's code, which may not know of unknown
dims. It refuses more: to be hashed, printed, asked for its class, given to NumPy's functions, or
compared with another one, where an answer that is right for a symbol would be wrong for the number.
``jit`` then traces with the number.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core.errors import UnknownDimError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMBERS = (int, float, complex)
_MOST_FACTORS = 16  # of a power that is a product of sizes


class UnknownSize:
    """An int-like object without a value; what it does as a symbol is in subclasses."""

    __slots__ = ("own_class",)

    # What stands for it among Python's numbers, or the error for what asked: ``core/weak.py``.
    as_number: Callable[[str], Any]

    @property
    def is_learnt(self) -> bool:
        """Whether the user's code may take it for a number."""
        raise NotImplementedError

    def as_text(self) -> str:
        raise NotImplementedError

    def no_value(self, asked: str) -> UnknownDimError:
        from phix.core.source import at_user_line

        where = at_user_line()
        error = UnknownDimError(
            f"{asked} needs the value of the dim {self.as_text()!r}, which is unknown while "
            f"tracing{where}. Shapes and arithmetic may use it (x.shape[0] * 2, "
            "reshape(x, [n, 2])); for a decision in Python trace with a known size, or make the "
            "argument static"
        )
        error.dim, error.need = self, f"{asked} needs its value{where}"
        return error

    def refuse_outside(self, asked: str) -> None:
        """Raise if the user's code asks a size that it takes for a number: two frames up."""
        if not sys._getframe(2).f_code.co_filename.startswith(_PACKAGE) and self.is_learnt:
            raise self.no_value(asked)

    # What isinstance asks for, at the speed of C: tracing asks each size many times.
    __class__: Any = property(operator.attrgetter("own_class"))

    def __getattr__(self, name: str) -> Any:
        if name != "own_class":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if not self.is_learnt:
            self.own_class = type(self)
        elif not sys._getframe(1).f_code.co_filename.startswith(_PACKAGE):
            raise self.no_value("isinstance")
        return type(self)

    def __index__(self) -> int:
        raise self.no_value("an int")

    __int__ = __index__

    def __float__(self) -> float:
        raise self.no_value("a float")

    def __bool__(self) -> bool:
        raise self.no_value("a truth value")

    def __lt__(self, other: object) -> bool:
        raise self.no_value("a comparison")

    __le__ = __gt__ = __ge__ = __lt__

    def _inexact(self, operation: Callable[[Any, Any], Any], other: Any) -> Any:
        """An operator with what is no int."""
        is_float = isinstance(other, (float, complex))
        return _of_numbers(operation, self, other) if is_float else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return _of_numbers(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _of_numbers(operator.truediv, other, self)

    def __pow__(self: Any, other: Any) -> Any:
        if isinstance(other, UnknownSize) or (type(other) is int and other > _MOST_FACTORS):
            raise self.no_value("a power that may not fit into an int (write n ** 20.0)")
        if type(other) is not int or other < 0:
            return _of_numbers(operator.pow, self, other)
        found: Any = 1
        for _ in range(other):
            found = found * self
        return found

    def __rpow__(self, other: Any) -> Any:
        if isinstance(other, int):
            raise self.no_value(f"an int to its power (write {other}.0 ** n for a float)")
        return _of_numbers(operator.pow, other, self)

    def __rmod__(self: Any, other: Any) -> Any:
        return other - other // self * self

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self

    def __abs__(self) -> Any:
        raise self.no_value("an absolute value")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        """Arithmetic that Python's operators do; functions of numbers refuse it by name."""
        others = (v for v in inputs if not isinstance(v, (UnknownSize, np.ndarray, np.generic)))
        if any(hasattr(v, "__array_ufunc__") for v in others):
            return NotImplemented
        boxed = [np.asarray(v, object) if isinstance(v, UnknownSize) else v for v in inputs]
        try:
            if all(isinstance(v, (int, UnknownSize)) or _has_ints(v) for v in inputs):
                return getattr(ufunc, method)(*boxed, **settings)
        except (TypeError, UnknownDimError):
            pass
        asked = f"numpy.{ufunc.__name__}"
        if self.is_learnt:
            raise self.no_value(asked)
        numbers = [v.as_number(asked) if isinstance(v, UnknownSize) else v for v in inputs]
        number = next(v for v, given in zip(numbers, inputs) if isinstance(given, UnknownSize))
        return number.__array_ufunc__(ufunc, method, *numbers, **settings)

    def __str__(self) -> str:
        self.refuse_outside("a text")
        return self.as_text()

    def __repr__(self) -> str:
        self.refuse_outside("a text")
        return self.as_text()

    def __format__(self, spec: str) -> str:
        self.refuse_outside("a text")
        return format(self.as_text(), spec)


def _of_numbers(operation: Callable[[Any, Any], Any], *operands: Any) -> Any:
    """An operator on sizes and Python's numbers."""
    if not all(isinstance(v, (*_NUMBERS, UnknownSize)) for v in operands):
        return NotImplemented
    asked = "a number that is no sum of products of sizes"
    return operation(*(v.as_number(asked) if isinstance(v, UnknownSize) else v for v in operands))


def _has_ints(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iubO"
