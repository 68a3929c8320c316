"""Scalar expressions as Python that means the same to Numba and to Python itself.

Numba computes with small ints in 64 bits, so that each result is brought back to its dtype; a
float32 meets no number that is not one. 16-bit floats are uint16 in memory, their bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import KernelNotFoundError
from phix.kernels.loops import linked
from phix.kernels.numba.printed.prelude import Prelude
from phix.kernels.numba.printed.routines import missing
from phix.kernels.scalar.language import CHOICES, Expr

# fn -> its sign and how strongly it binds, as in Python.
_INFIX = {
    "eq": ("==", 2), "ne": ("!=", 2), "lt": ("<", 2), "le": ("<=", 2), "gt": (">", 2),
    "ge": (">=", 2), "or": ("|", 3), "xor": ("^", 4), "and": ("&", 5), "shl": ("<<", 6),
    "shr": (">>", 6), "add": ("+", 7), "sub": ("-", 7), "mul": ("*", 8), "div": ("/", 8),
}  # fmt: skip
_SELECT, _NOT, _COMPARE, _NEGATIVE, _ATOM = 0, 1, 2, 9, 10
_NARROW = (dt.float16, dt.bfloat16)


class Code(str):
    """The text of an expression, and how strongly its outermost operation binds."""

    level = _ATOM


def code(text: str, level: int) -> Code:
    found = Code(text)
    found.level = level
    return found


def inside(text: str, level: int) -> str:
    """A text as an operand of what binds so strongly: in brackets, if it binds less."""
    return text if getattr(text, "level", _ATOM) >= level else f"({text})"


def word(dtype: np.dtype) -> str:
    """The name of a dtype in memory; complex numbers are pairs, narrow floats are bits."""
    if dtype in _NARROW:
        return "np.uint16"
    if dtype in dt.STORAGE:
        return "np.uint8"
    return "np.bool_" if dtype.kind == "b" else f"np.{dt.real_dtype(dtype)}"


def number(value: Any, dtype: np.dtype) -> str:
    """A number; of float64 and int64, as Python's own."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind in "iu":
        return str(int(value)) if dtype == dt.int64 else f"{word(dtype)}({int(value)})"
    with np.errstate(over="ignore"):
        value = float(np.float32(value)) if dtype == dt.float32 else float(value)
    text = repr(value) if math.isfinite(value) else f"np.{abs(value)}"
    if value == -math.inf:
        text = f"-{text}"
    if dtype == dt.float32:
        short = str(np.float32(value))
        is_same = math.isfinite(value) and np.float32(float(short)) == np.float32(value)
        return f"np.float32({short if is_same else text})"
    return code(text, _NEGATIVE) if text.startswith("-") else text


def loaded(prelude: Prelude, dtype: np.dtype, place: str) -> str:
    """What memory holds, as the scalar language has it."""
    return f"{prelude.name(f'from_{dtype}')}({place})" if dtype in _NARROW else place


def stored(prelude: Prelude, dtype: np.dtype, value: str) -> str:
    """A value as memory of a dtype holds it."""
    return f"{prelude.name(f'to_{dtype}')}({value})" if dtype in _NARROW else value


def emit(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    """One operation."""
    if e.fn in (*CHOICES, "call") or all(a.fn == "const" for a in e.args):
        operands = [_numpy_float(a, text) for a, text in zip(e.args, operands)]
    special = _SPECIAL.get(e.fn)
    if special is not None:
        return special(prelude, e, operands)
    if e.fn in _INFIX:
        return _infix(e, operands)
    return f"np.{e.fn}({', '.join(operands)})"


def _numpy_float(e: Expr, text: str) -> str:
    """An operand, if a constant then as one of NumPy's: by Python's own, Python does not divide."""
    return f"np.float64({text})" if e.fn == "const" and e.dtype == dt.float64 else text


def _infix(e: Expr, operands: list[str]) -> str:
    sign, level = _INFIX[e.fn]
    x, y = operands
    right = level + (e.fn not in ("and", "or", "xor"))
    left = level + (level == _COMPARE)
    return _kept(e, code(f"{inside(x, left)} {sign} {inside(y, right)}", level))


def _kept(e: Expr, text: str) -> str:
    """An int result in its own dtype."""
    if e.dtype.kind in "iu" and e.dtype.itemsize < 8:
        return f"{word(e.dtype)}({text})"
    return text


def _call(text: str, operands: list[str]) -> str:
    return f"{text}({', '.join(operands)})"


def _select(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    c, x, y = operands
    return code(f"{inside(x, 1)} if {inside(c, 1)} else {y}", _SELECT)


def _neg(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    return _kept(e, code(f"-{inside(operands[0], _NEGATIVE)}", _NEGATIVE))


def _not(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    if e.dtype.kind == "b":
        return code(f"not {inside(operands[0], _NOT)}", _NOT)
    return _kept(e, code(f"~{inside(operands[0], _NEGATIVE)}", _NEGATIVE))


def _fabs(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    return operands[0] if e.dtype.kind in "bu" else _kept(e, _call("abs", operands))


def _extreme(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    if e.dtype.kind == "b":
        sign, level = _INFIX["or" if e.fn == "maximum" else "and"]
        return code(f" {sign} ".join(inside(o, level) for o in operands), level)
    return _call(prelude.name(e.fn) if e.dtype.kind == "f" else e.fn[:3], operands)


def _helper(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    return _call(prelude.name(e.fn, e.dtype), operands)


def _shift(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    by = e.args[1]
    if by.fn == "const" and 0 <= by.data < 8 * e.dtype.itemsize:
        return _infix(e, [operands[0], str(by.data)])
    return _helper(prelude, e, operands)


def _bitcast(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    source, (x,) = e.args[0], operands
    if source.dtype in dt.STORAGE or e.dtype in dt.STORAGE:
        return x
    if source.dtype in _NARROW or e.dtype in _NARROW:
        return x if e.dtype != dt.int16 else f"np.int16({x})"
    # Numba wants to see the dtype of what is viewed
    is_typed = x.startswith(f"{word(source.dtype)}(") and getattr(x, "level", _ATOM) == _ATOM
    typed = x if is_typed else f"{word(source.dtype)}({x})"
    return f"{typed}.view({word(e.dtype)})"


def _typed(e: Expr, text: str) -> str:
    """A value with NumPy's methods and casts, where Python's own number may stand."""
    if e.dtype not in (dt.int64, dt.float64, dt.bool_) or e.fn == "load":
        return inside(text, _ATOM)
    return f"{word(e.dtype)}({text})"


def _cast(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    source, target, (x,) = e.args[0].dtype, e.dtype, operands
    if source in _NARROW:
        x, source = f"{prelude.name(f'from_{source}')}({x})", dt.float32
        if target == dt.float32:
            return x
    if target in _NARROW:
        x = x if source == dt.float32 else f"np.float32({x})"
        return stored(prelude, target, x)
    if target.kind == "b":
        return code(f"{inside(x, _COMPARE + 1)} != 0", _COMPARE)
    if source.kind == "f" and target.kind in "iu":
        return _to_int(prelude, target, x)
    if target.kind in "iu" and source == dt.int64:
        x = _typed(e.args[0], x)
    return f"{word(target)}({x})"


def _to_int(prelude: Prelude, target: np.dtype, x: str) -> str:
    if target == dt.uint64:
        return f"{prelude.name('uint64')}({x})"
    wide = dt.int64 if target in (dt.int64, dt.uint32) else dt.int32
    text = f"{prelude.name('int', wide)}({x})"
    return text if wide == target else f"{word(target)}({text})"


def _library(prelude: Prelude, e: Expr, operands: list[str]) -> str:
    if not isinstance(e.data, str):  # the body of an op
        return _call(prelude.bodies[e.data], operands)
    is_single = e.dtype == dt.float32 and not linked.is_linked(e.data)
    name = e.data.removesuffix("f") if is_single else e.data
    if name not in _C_MATH:
        raise KernelNotFoundError(missing(name))
    return _call(_C_MATH[name], operands)


_C_MATH = {"pow": "np.power", "fmod": "np.fmod"}
_SPECIAL: dict[str, Callable[[Prelude, Expr, list[str]], str]] = {
    **dict.fromkeys(CHOICES, _select), "neg": _neg, "not": _not, "fabs": _fabs, "maximum": _extreme,
    "minimum": _extreme, "quotient": _helper, "rest": _helper, "fma": _helper, "shl": _shift,
    "shr": _shift, "bitcast": _bitcast, "cast": _cast, "call": _library,
}  # fmt: skip
