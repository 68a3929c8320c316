"""Scalar expressions as CUDA C++: one table by operation.

What C leaves open is closed here or in the prelude: ints wrap, a division by zero is 0, shifts
by the width or more shift everything out, conversions of floats saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.scalar.language import CHOICES, Expr

_INTS = {1: "signed char", 2: "short", 4: "int", 8: "long long"}
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_FLOATS = {4: "float", 8: "double"}


def type_of(dtype: np.dtype) -> str:
    """The C++ type of a scalar in a register; a 16-bit float is its bits, and so are dtypes
    of storage."""
    if dtype in (dt.float16, dt.bfloat16):
        return "unsigned short"
    if dtype in dt.STORAGE:
        return "unsigned char"
    table = {"b": {1: "bool"}, "i": _INTS, "u": _UNSIGNED, "f": _FLOATS}[dtype.kind]
    return table[dtype.itemsize]


def memory_type(dtype: np.dtype) -> str:
    """The C++ type of a scalar in memory; a complex number is two."""
    real = dt.real_dtype(dtype)
    return "unsigned char" if real.kind == "b" else type_of(real)


def constant(value: Any, dtype: np.dtype) -> str:
    """A number as a C++ literal that reads back as exactly it."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return _integer(int(value), dtype)
    with np.errstate(over="ignore"):
        number = float(np.float32(value)) if dtype == dt.float32 else float(value)
    if not math.isfinite(number):
        name = "NAN" if math.isnan(number) else "INFINITY"
        sign = "-" if math.copysign(1.0, number) < 0 and name == "INFINITY" else ""
        return f"({sign}PHIX_{name}_{'F' if dtype == dt.float32 else 'D'})"
    text = f"{number!r}{'f' if dtype == dt.float32 else ''}"
    return f"({text})" if text[0] == "-" else text


def _integer(value: int, dtype: np.dtype) -> str:
    value &= (1 << dtype.itemsize * 8) - 1
    if dtype.kind == "u":
        suffix = "ULL" if dtype.itemsize == 8 else "u"
        text = f"{value}{suffix}"
    else:
        if value >> (dtype.itemsize * 8 - 1):
            value -= 1 << dtype.itemsize * 8
        suffix = "LL" if dtype.itemsize == 8 else ""
        text = f"{value}{suffix}"
        if value == -(1 << dtype.itemsize * 8 - 1):
            text = f"({value + 1}{suffix} - 1)"
    if dtype.itemsize < 4:
        return f"({type_of(dtype)}){text}"
    return f"({text})" if text[0] == "-" else text


def loaded(dtype: np.dtype, place: str) -> str:
    """The scalar at ``place``, widened as the scalar language asks."""
    real = dt.real_dtype(dtype)
    if real.kind == "b":
        return f"({place} != 0)"
    if real == dt.float16:
        return f"phix_from_half({place})"
    return f"phix_from_bfloat16({place})" if real == dt.bfloat16 else place


def stored(dtype: np.dtype, value: str) -> str:
    """A value rounded to the dtype in memory."""
    real = dt.real_dtype(dtype)
    if real == dt.float16:
        return f"phix_to_half({value})"
    return f"phix_to_bfloat16({value})" if real == dt.bfloat16 else value


# -- operations ------------------------------------------------------------------------------
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# fn -> the name in C for float64; float32 takes an f behind it
_MATH = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
         "copysign": "copysign", "fma": "fma"}  # fmt: skip
_HELPERS = {"quotient": "phix_quotient", "rest": "phix_rest", "shl": "phix_shl",
            "shr": "phix_shr", "maximum": "phix_maximum", "minimum": "phix_minimum"}  # fmt: skip
# what C's own operator does right for a constant second operand
_PLAIN = {"quotient": "/", "rest": "%", "shl": "<<", "shr": ">>"}


def _is_plain(expr: Expr) -> bool:
    by = expr.args[1]
    if by.fn != "const":
        return False
    if expr.fn in ("quotient", "rest"):
        return by.data not in (0, -1)
    return 0 <= by.data < expr.dtype.itemsize * 8


def emit(expr: Expr, operands: list[str]) -> str:
    """The C++ expression of one operation on the texts of its operands."""
    special = _SPECIAL.get(expr.fn)
    if special is not None:
        return special(expr, operands)
    dtype = expr.args[0].dtype
    if expr.fn in _COMPARE:
        return f"({operands[0]} {_COMPARE[expr.fn]} {operands[1]})"
    if expr.fn in _PLAIN and _is_plain(expr):
        wide = f"({_UNSIGNED[max(dtype.itemsize, 4)]})" if expr.fn == "shl" else ""
        return f"({type_of(dtype)})({wide}{operands[0]} {_PLAIN[expr.fn]} {operands[1]})"
    if expr.fn in _HELPERS:
        return f"{_HELPERS[expr.fn]}({', '.join(operands)})"
    if expr.fn in _MATH and dtype.kind == "f":
        return f"{_MATH[expr.fn]}{'f' if dtype == dt.float32 else ''}({', '.join(operands)})"
    if expr.fn in _MATH:  # rounding an int
        return operands[0]
    return _arithmetic(INFIX[expr.fn], dtype, operands)


def _arithmetic(sign: str, dtype: np.dtype, operands: list[str]) -> str:
    x, y = operands
    if dtype.kind == "f":
        return f"({x} {sign} {y})"
    if sign in "&|^" or dtype.kind == "b":
        return f"({type_of(dtype)})({x} {sign} {y})"
    # signed overflow is undefined in C; small ints are computed as ints, and cut off
    wide = _UNSIGNED[max(dtype.itemsize, 4)]
    return f"({type_of(dtype)})(({wide}){x} {sign} ({wide}){y})"


def _select(expr: Expr, operands: list[str]) -> str:
    return f"({operands[0]} ? {operands[1]} : {operands[2]})"


def _neg(expr: Expr, operands: list[str]) -> str:
    if expr.dtype.kind == "f":
        return f"(-{operands[0]})"
    wide = _UNSIGNED[max(expr.dtype.itemsize, 4)]
    return f"({type_of(expr.dtype)})(({wide})0 - ({wide}){operands[0]})"


def _not(expr: Expr, operands: list[str]) -> str:
    if expr.dtype.kind == "b":
        return f"(!{operands[0]})"
    return f"({type_of(expr.dtype)})(~{operands[0]})"


def _fabs(expr: Expr, operands: list[str]) -> str:
    if expr.dtype.kind == "f":
        return f"fabs{'f' if expr.dtype == dt.float32 else ''}({operands[0]})"
    if expr.dtype.kind in "bu":
        return operands[0]
    return f"phix_absolute({operands[0]})"


def _bitcast(expr: Expr, operands: list[str]) -> str:
    if type_of(expr.args[0].dtype) == type_of(expr.dtype):
        return operands[0]
    return f"phix_bits<{type_of(expr.dtype)}>({operands[0]})"


def _call(expr: Expr, operands: list[str]) -> str:
    return f"{expr.data}({', '.join(operands)})"


def _cast(expr: Expr, operands: list[str]) -> str:
    source, target, x = expr.args[0].dtype, expr.dtype, operands[0]
    if source in (dt.float16, dt.bfloat16):
        x, source = loaded(source, x), dt.float32
    if target in (dt.float16, dt.bfloat16):
        if (source, target) == (dt.float64, dt.float16):
            return f"phix_double_to_half({x})"
        return stored(target, x if source == dt.float32 else _converted(x, source, dt.float32))
    return _converted(x, source, target)


def _converted(x: str, source: np.dtype, target: np.dtype) -> str:
    """A value of one scalar dtype as another."""
    if source == target:
        return x
    if target.kind == "b":
        return f"({x} != 0)"
    if source.kind != "f" or target.kind == "f":
        return f"({type_of(target)}){x}"
    if target == dt.uint64:
        return f"phix_to_uint64({x})"
    # as C code on a CPU does it: the wider int saturates, and is cut off
    wide = "phix_to_int64" if target in (dt.int64, dt.uint32) else "phix_to_int32"
    return f"({type_of(target)}){wide}({x})"


_SPECIAL: dict[str, Callable[[Expr, list[str]], str]] = {
    **dict.fromkeys(CHOICES, _select),
    "neg": _neg,
    "not": _not,
    "fabs": _fabs,
    "bitcast": _bitcast,
    "call": _call,
    "cast": _cast,
}
