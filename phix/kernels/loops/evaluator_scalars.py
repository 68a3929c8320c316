"""What the scalar language means: each function on Python numbers.

A bool is a bool, an int of any width an int that wraps, a float64 a float; float32 and the 16-bit
floats are NumPy's scalars. Memory that nothing was stored to holds :class:`Poison`, which goes
through arithmetic as NaN does, but is found out where a decision, an index or a result needs it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.loops import linked
from phix.kernels.scalar.language import CHOICES, Expr

Number = Any
Function = Callable[..., Number]


class EvaluationError(Exception):
    """A loop program does what none may do."""


class Poison:
    """The value of memory that nothing was stored to; ``name`` is the buffer's."""

    __slots__ = ("name",)
    __array_ufunc__ = None  # NumPy's scalars leave operators to this class

    def __init__(self, name: str) -> None:
        self.name = name

    def _same(self, *_: Any) -> Poison:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _same

    def _and(self, other: Any) -> Any:
        return other if isinstance(other, (bool, np.bool_)) and not other else self

    def _or(self, other: Any) -> Any:
        return other if isinstance(other, (bool, np.bool_)) and other else self

    __and__ = __rand__ = _and  # what is false whatever it is
    __or__ = __ror__ = _or
    __truediv__ = __rtruediv__ = __xor__ = __rxor__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _same  # type: ignore[assignment]
    __mod__ = __rmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _same
    __hash__ = None  # type: ignore[assignment]

    def found(self, *_: Any) -> Any:
        raise EvaluationError(f"{self.name} is read where nothing was stored")

    __bool__ = __int__ = __float__ = __index__ = found


def strict(function: Function) -> Function:
    """``function``, giving poison for any poison."""

    def apply(*args: Number) -> Number:
        for a in args:
            if type(a) is Poison:
                return a
        return function(*args)

    return apply


# -- numbers of a dtype --------------------------------------------------------------------------
def constant(value: Number, dtype: np.dtype) -> Number:
    """A number as a scalar of a dtype."""
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu":
        return wrapper(dtype)(int(value))
    return float(value) if dtype == dt.float64 else dtype.type(value)


def wrapper(dtype: np.dtype) -> Callable[[int], int]:
    """What makes any int one of a dtype."""
    bits = 8 * dtype.itemsize
    if dtype.kind == "u":
        mask = (1 << bits) - 1
        return lambda x: x & mask
    half, every = 1 << (bits - 1), 1 << bits
    return lambda x: (x + half) % every - half


def cast(source: np.dtype, target: np.dtype) -> Function:
    """Conversion of a value: to an int toward zero, NaN as 0; what does not fit saturates in 32
    and 64 bits, and wraps in fewer."""
    if target.kind == "b":
        return bool
    if target.kind in "iu" and source.kind in "biu":
        wrap = wrapper(target)
        return lambda x: wrap(int(x))
    if target.kind in "iu":
        return _to_int(target)
    if source.kind in "iu" and target == dt.float32:
        return lambda x: np.float32(source.type(x))  # a Python int would be rounded twice
    return float if target == dt.float64 else lambda x: target.type(x)


def _to_int(target: np.dtype) -> Function:
    wide = target if target.itemsize == 8 or target.kind == "i" else dt.int64
    wide = dt.int32 if target.itemsize < 4 else wide
    least = -(1 << 63) if target == dt.uint64 else int(np.iinfo(wide).min)
    most, wrap = int(np.iinfo(wide).max), wrapper(target)

    def convert(x: Number) -> int:
        if x != x:
            return 0
        if math.isinf(x):
            return wrap(most if x > 0 else least)
        return wrap(min(max(int(x), least), most))

    return convert


# A product with it parts a float64 into halves.
_HALVES = 2.0**27 + 1


# -- functions -----------------------------------------------------------------------------------
def _divided(x: Number, y: Number) -> Number:
    if y:
        return x / y
    if not x or x != x or y != y:
        return float("nan")
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _quotient(x: int, y: int) -> int:
    """Toward zero; 0 by 0."""
    if not y:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _rest(x: int, y: int) -> int:
    return x - y * _quotient(x, y) if y else 0


def _fma64(x: float, y: float, z: float) -> float:
    """x * y + z rounded once, but where the parts of the product leave the range."""
    product = x * y
    total = product + z
    high, other = x * _HALVES, y * _HALVES
    high, other = high - (high - x), other - (other - y)
    low, rest = x - high, y - other
    lost = ((high * other - product) + high * rest + low * other) + low * rest
    back = total - product
    found = total + (lost + ((product - (total - back)) + (z - back)))
    return found if math.isfinite(found) and found else total


def _fma32(x: np.float32, y: np.float32, z: np.float32) -> np.float32:
    """The product is exact in float64; of a sum in float64, rounding twice is rarely seen."""
    return np.float32(float(x) * float(y) + float(z))


def _larger(x: Number, y: Number) -> Number:
    if x != x or y != y:
        return x if x != x else y
    if x == y and not x and type(x) not in (int, bool):
        return y if math.copysign(1.0, x) < 0 else x
    return x if x > y else y


def _smaller(x: Number, y: Number) -> Number:
    if x != x or y != y:
        return x if x != x else y
    if x == y and not x and type(x) not in (int, bool):
        return x if math.copysign(1.0, x) < 0 else y
    return x if x < y else y


def _shifted_left(bits: int) -> Function:
    return lambda x, n: x << n if 0 <= n < bits else 0


def _shifted_right(bits: int) -> Function:
    """A negative count is read as an unsigned one: too large."""
    return lambda x, n: x >> n if 0 <= n < bits else (-1 if x < 0 else 0)


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FLOATS: dict[str, Function] = {
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "copysign": np.copysign,
}  # fmt: skip
_PLAIN: dict[str, Function] = {
    "neg": operator.neg, "fabs": abs, "quotient": _quotient, "rest": _rest, "maximum": _larger,
    "minimum": _smaller,
}  # fmt: skip


_C_MATH: dict[str, Function] = {"fmod": np.fmod, "pow": np.power}


def infix(e: Expr) -> str | None:
    """Python's operator for an operation that is one, but for ints that are to wrap."""
    if e.args and e.args[0].dtype.kind == "b" and e.fn in ("add", "sub", "mul"):
        raise EvaluationError(f"{e.fn} of bools")
    return _INFIX.get(e.fn)


def wraps(e: Expr) -> bool:
    """Whether an operation may leave the range of its int dtype."""
    return e.dtype.kind in "iu" and e.fn in ("add", "sub", "mul", "neg", "shl", "fabs", "quotient")


def meaning(e: Expr) -> Function:
    """What an operation does to its operands."""
    sign = infix(e)
    found = _OPERATORS[sign] if sign is not None else strict(_named(e))
    if not wraps(e):
        return found
    wrap = wrapper(e.dtype)
    return lambda *args: wrap(found(*args))


def _named(e: Expr) -> Function:
    """The function of an operation that has no sign in Python."""
    dtype = e.dtype
    if e.fn in CHOICES:
        return lambda condition, x, y: x if condition else y
    if e.fn == "cast":
        return cast(e.args[0].dtype, dtype)
    if e.fn == "bitcast":
        return _reread(e.args[0].dtype, dtype)
    if e.fn == "call":
        return _called(e.data, dtype)
    if e.fn == "fma":
        return _fma64 if dtype == dt.float64 else _fma32
    if e.fn == "div":
        return _divided if dtype == dt.float64 else operator.truediv
    if e.fn in ("shl", "shr"):
        bits = 8 * dtype.itemsize
        return _shifted_left(bits) if e.fn == "shl" else _shifted_right(bits)
    if e.fn in _FLOATS:
        apply = _FLOATS[e.fn]
        return (lambda *args: float(apply(*args))) if dtype == dt.float64 else apply
    if e.fn == "not":
        return operator.not_ if dtype.kind == "b" else wrapped(operator.invert, dtype)
    return _PLAIN[e.fn]


def _reread(source: np.dtype, target: np.dtype) -> Function:
    if source in dt.STORAGE or target in dt.STORAGE:
        return lambda x: x  # a byte
    return lambda x: constant(np.array([x], source).view(target)[0], target)


def wrapped(apply: Function, dtype: np.dtype) -> Function:
    """``apply``, its ints made ints of a dtype."""
    wrap = wrapper(dtype)
    return lambda *args: wrap(apply(*args))


def _called(name: str, dtype: np.dtype) -> Function:
    """A C math function, float32 with an f behind its name, or one from outside phix."""
    if linked.is_linked(name):
        meaning = linked.find(name).meaning
        return lambda *args: constant(meaning(*args), dtype)
    apply = _C_MATH[name.removesuffix("f") if dtype == dt.float32 else name]
    return lambda *args: constant(apply(*args), dtype)
