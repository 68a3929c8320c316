"""Scalar expressions as LLVM instructions: one table by operation."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.scalar.language import CHOICES, Expr

# Every operation rounds, as it does in an eager call: what is computed in two places, and compared,
# is the same in both. Only where a term is added to a sum, which is made once, may a product and
# its sum be one instruction.
FREE_ORDER = "reassoc contract"  # not nsz: a sum that starts at 0.0 and meets -0.0 is 0.0
CONTRACT = "contract"


# Flags of the operations of an expression: none.
NO_FLAGS: Mapping[Expr, str] = MappingProxyType({})


def terms(value: Expr, start: Expr) -> Mapping[Expr, str]:
    """The flags of ``start + term + ...``, a sum that goes on: what adds its terms, and products
    among these, may be one instruction. No other value does, for it may be computed elsewhere too.
    """
    flags: dict[Expr, str] = {}
    e = value
    while e.fn == "add" and e is not start:
        flags[e] = CONTRACT
        flags.update((a, CONTRACT) for a in e.args if a.fn == "mul")
        left, right = e.args
        e = right if right is start else left
    return flags if e is start else NO_FLAGS


class Printer(Protocol):
    """What the functions here need of a printer."""

    def let(self, text: str) -> str:
        """Name the result of an instruction."""

    def declare(self, text: str) -> None:
        """Ask for a declaration at the head of the module."""


# The LLVM type of a scalar in a register; bfloat16 is its bits.
TYPES: dict[np.dtype, str] = {
    dt.bool_: "i1", dt.int8: "i8", dt.uint8: "i8", dt.int16: "i16", dt.uint16: "i16",
    dt.int32: "i32", dt.uint32: "i32", dt.int64: "i64", dt.uint64: "i64",
    dt.bfloat16: "i16", dt.float16: "half", dt.float32: "float", dt.float64: "double",
    **dict.fromkeys(dt.STORAGE, "i8"),
}  # fmt: skip


def memory_type(dtype: np.dtype) -> str:
    """The LLVM type of a scalar in memory."""
    return "i8" if dtype.kind == "b" else TYPES[dtype]


def constant(value: Any, dtype: np.dtype) -> str:
    """A number as LLVM writes it; floats as the bits of the double they are equal to."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(value))
    with np.errstate(over="ignore"):
        exact = float(np.float32(value)) if dtype == dt.float32 else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"


def load(p: Printer, dtype: np.dtype, address: str, known: str = "") -> str:
    """Load one scalar, widened as the scalar language asks; LLVM is told what is ``known``."""
    dtype = dt.real_dtype(dtype)
    raw = p.let(f"load {memory_type(dtype)}, ptr {address}{known}")
    if dtype.kind == "b":
        return p.let(f"icmp ne i8 {raw}, 0")
    return _widen(p, raw, dtype) if dtype in (dt.float16, dt.bfloat16) else raw


def store(p: Any, dtype: np.dtype, value: str, address: str, known: str = "") -> None:
    """Store one scalar, rounded to the dtype in memory."""
    dtype = dt.real_dtype(dtype)
    if dtype.kind == "b":
        value = p.let(f"zext i1 {value} to i8")
    elif dtype in (dt.float16, dt.bfloat16):
        value = _narrow(p, value, dtype)
    p.lines.append(f"  store {memory_type(dtype)} {value}, ptr {address}{known}")


def _widen(p: Printer, raw: str, dtype: np.dtype) -> str:
    if dtype == dt.float16:
        return p.let(f"fpext half {raw} to float")
    wide = p.let(f"shl i32 {p.let(f'zext i16 {raw} to i32')}, 16")
    return p.let(f"bitcast i32 {wide} to float")


def _narrow(p: Printer, value: str, dtype: np.dtype) -> str:
    """Round a float to 16 bits, half to even; a NaN stays one."""
    if dtype == dt.float16:
        return p.let(f"fptrunc float {value} to half")
    bits = p.let(f"bitcast float {value} to i32")
    odd = p.let(f"and i32 {p.let(f'lshr i32 {bits}, 16')}, 1")
    rounded = p.let(f"add i32 {p.let(f'add i32 {bits}, 32767')}, {odd}")
    is_nan = p.let(f"fcmp uno float {value}, {value}")
    quiet = p.let(f"or i32 {bits}, 4194304")
    chosen = p.let(f"select i1 {is_nan}, i32 {quiet}, i32 {rounded}")
    return p.let(f"trunc i32 {p.let(f'lshr i32 {chosen}, 16')} to i16")


# -- operations ------------------------------------------------------------------------------
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_ORDER = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_INTRINSICS = {
    "sqrt": "sqrt", "fabs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "rint", "copysign": "copysign", "fma": "fma",
    "maximum": "maximum", "minimum": "minimum",
}  # fmt: skip


def emit(p: Printer, expr: Expr, operands: list[str], flags: str | None) -> str:
    """The instructions of one operation; ``flags`` are fast-math flags."""
    special = _SPECIAL.get(expr.fn)
    if special is not None:
        return special(p, expr, operands)
    dtype = expr.args[0].dtype
    is_float = dtype.kind not in "biu"
    if expr.fn in _FLOAT_COMPARE:
        return _compare(p, expr.fn, dtype, operands)
    kind = TYPES[dtype]
    if is_float and expr.fn in _FLOAT:
        return p.let(
            f"{_FLOAT[expr.fn]} {flags + ' ' if flags else ''}{kind} {', '.join(operands)}"
        )
    if expr.fn in _INTRINSICS and is_float:
        return intrinsic(p, f"llvm.{_INTRINSICS[expr.fn]}", dtype, operands, flags)
    return p.let(f"{_INT[expr.fn]} {kind} {', '.join(operands)}")


def intrinsic(
    p: Printer, name: str, dtype: np.dtype, operands: list[str], flags: str | None = None
) -> str:
    """A call of an LLVM intrinsic that is overloaded on one type."""
    kind = TYPES[dtype]
    suffix = f"f{dtype.itemsize * 8}" if dtype.kind == "f" else kind
    p.declare(f"declare {kind} @{name}.{suffix}({', '.join([kind] * len(operands))})")
    arguments = f"{kind} " + f", {kind} ".join(operands)
    return p.let(f"call {flags + ' ' if flags else ''}{kind} @{name}.{suffix}({arguments})")


def _compare(p: Printer, fn: str, dtype: np.dtype, operands: list[str]) -> str:
    kind = TYPES[dtype]
    if dtype.kind not in "biu":
        return p.let(f"fcmp {_FLOAT_COMPARE[fn]} {kind} {', '.join(operands)}")
    predicate = fn if fn in ("eq", "ne") else ("s" if dtype.kind == "i" else "u") + _ORDER[fn]
    return p.let(f"icmp {predicate} {kind} {', '.join(operands)}")


def _select(p: Printer, expr: Expr, operands: list[str]) -> str:
    kind = TYPES[expr.dtype]
    condition, x, y = operands
    return p.let(f"select i1 {condition}, {kind} {x}, {kind} {y}")


def _neg(p: Printer, expr: Expr, operands: list[str]) -> str:
    kind = TYPES[expr.dtype]
    if expr.dtype.kind == "f":
        return p.let(f"fneg {kind} {operands[0]}")
    return p.let(f"sub {kind} 0, {operands[0]}")


def _not(p: Printer, expr: Expr, operands: list[str]) -> str:
    return p.let(f"xor {TYPES[expr.dtype]} {operands[0]}, -1")


def _fabs(p: Printer, expr: Expr, operands: list[str]) -> str:
    if expr.dtype.kind == "f":
        return intrinsic(p, "llvm.fabs", expr.dtype, operands)
    if expr.dtype.kind in "bu":
        return operands[0]
    kind = TYPES[expr.dtype]
    p.declare(f"declare {kind} @llvm.abs.{kind}({kind}, i1)")
    return p.let(f"call {kind} @llvm.abs.{kind}({kind} {operands[0]}, i1 false)")


def _extreme(p: Printer, expr: Expr, operands: list[str]) -> str:
    dtype = expr.dtype
    if dtype.kind == "f":
        return intrinsic(p, f"llvm.{expr.fn}", dtype, operands)
    if dtype.kind == "b":
        return p.let(f"{'or' if expr.fn == 'maximum' else 'and'} i1 {', '.join(operands)}")
    name = ("s" if dtype.kind == "i" else "u") + expr.fn[:3]
    return intrinsic(p, f"llvm.{name}", dtype, operands)


def _divide_ints(p: Printer, expr: Expr, operands: list[str]) -> str:
    """Integer quotient or rest; by 0 it is 0, and the least int by -1 wraps, without a trap."""
    x, y = operands
    kind, signed = TYPES[expr.dtype], expr.dtype.kind == "i"
    word = ("s" if signed else "u") + ("div" if expr.fn == "quotient" else "rem")
    divisor = expr.args[1]
    if divisor.fn == "const" and divisor.data not in (0, -1):
        return p.let(f"{word} {kind} {x}, {y}")
    odd = is_zero = p.let(f"icmp eq {kind} {y}, 0")
    if signed:
        is_minus = p.let(f"icmp eq {kind} {y}, -1")
        odd = p.let(f"or i1 {is_zero}, {is_minus}")
    safe = p.let(f"select i1 {odd}, {kind} 1, {kind} {y}")
    result = p.let(f"{word} {kind} {x}, {safe}")
    if signed and expr.fn == "quotient":
        minus = p.let(f"sub {kind} 0, {x}")
        result = p.let(f"select i1 {is_minus}, {kind} {minus}, {kind} {result}")
    return p.let(f"select i1 {is_zero}, {kind} 0, {kind} {result}")


def _shift(p: Printer, expr: Expr, operands: list[str]) -> str:
    """Shifts; by the width or more they shift everything out."""
    x, y = operands
    kind, bits = TYPES[expr.dtype], expr.dtype.itemsize * 8
    arithmetic = expr.fn == "shr" and expr.dtype.kind == "i"
    word = "shl" if expr.fn == "shl" else "ashr" if arithmetic else "lshr"
    if expr.args[1].fn == "const" and 0 <= expr.args[1].data < bits:
        return p.let(f"{word} {kind} {x}, {y}")
    fits = p.let(f"icmp ult {kind} {y}, {bits}")
    safe = p.let(f"select i1 {fits}, {kind} {y}, {kind} {bits - 1}")
    result = p.let(f"{word} {kind} {x}, {safe}")
    return result if arithmetic else p.let(f"select i1 {fits}, {kind} {result}, {kind} 0")


def _bitcast(p: Printer, expr: Expr, operands: list[str]) -> str:
    source = expr.args[0].dtype
    if TYPES[source] == TYPES[expr.dtype]:
        return operands[0]
    return p.let(f"bitcast {TYPES[source]} {operands[0]} to {TYPES[expr.dtype]}")


def _call(p: Printer, expr: Expr, operands: list[str]) -> str:
    kind = TYPES[expr.dtype]
    types = ", ".join(TYPES[a.dtype] for a in expr.args)
    p.declare(f"declare {kind} @{expr.data}({types}) #1")
    arguments = ", ".join(f"{TYPES[a.dtype]} {o}" for a, o in zip(expr.args, operands))
    return p.let(f"call {kind} @{expr.data}({arguments})")


def _cast(p: Printer, expr: Expr, operands: list[str]) -> str:
    source, target, x = expr.args[0].dtype, expr.dtype, operands[0]
    if source in (dt.float16, dt.bfloat16):
        x, source = _widen(p, x, source), dt.float32
        if target == dt.float32:
            return x
    if target in (dt.float16, dt.bfloat16):
        if (source, target) == (dt.float64, dt.float16):
            return p.let(f"fptrunc double {x} to half")
        return _narrow(p, convert(p, x, source, dt.float32), target)
    return convert(p, x, source, target)


def convert(p: Printer, x: str, source: np.dtype, target: np.dtype) -> str:
    """A value of one scalar dtype as another."""
    if source == target:
        return x
    a, b = TYPES[source], TYPES[target]
    if target.kind == "b":
        return p.let(f"fcmp une {a} {x}, 0.0" if source.kind == "f" else f"icmp ne {a} {x}, 0")
    if source.kind == "f":
        if target.kind == "f":
            return p.let(f"{'fpext' if a == 'float' else 'fptrunc'} {a} {x} to {b}")
        return _float_to_int(p, x, source, target)
    if target.kind == "f":
        return p.let(f"{'sitofp' if source.kind == 'i' else 'uitofp'} {a} {x} to {b}")
    if a == b:
        return x
    if source.itemsize > target.itemsize and source.kind != "b":
        return p.let(f"trunc {a} {x} to {b}")
    return p.let(f"{'sext' if source.kind == 'i' else 'zext'} {a} {x} to {b}")


def _float_to_int(p: Printer, x: str, source: np.dtype, target: np.dtype) -> str:
    """Toward zero. What does not fit saturates in 32 or 64 bits, and wraps in fewer, as C code
    does on this CPU; NaN is 0."""
    if target == dt.uint64:
        low = _saturate(p, "fptosi", x, source, 64)
        high = _saturate(p, "fptoui", x, source, 64)
        negative = p.let(f"fcmp olt {TYPES[source]} {x}, 0.0")
        return p.let(f"select i1 {negative}, i64 {low}, i64 {high}")
    width = 64 if target in (dt.int64, dt.uint32) else 32
    value = _saturate(p, "fptosi", x, source, width)
    bits = target.itemsize * 8
    return value if width == bits else p.let(f"trunc i{width} {value} to i{bits}")


def _saturate(p: Printer, word: str, x: str, source: np.dtype, bits: int) -> str:
    """``word``, fptosi or fptoui, toward zero; the nearest int where none fits, 0 of NaN.

    LLVM has this as one instruction, which it takes apart into one for each element of a vector.
    """
    is_signed = word == "fptosi"
    kind, to = TYPES[source], f"i{bits}"
    least, most = (-(1 << (bits - 1)), 1 << (bits - 1)) if is_signed else (0, 1 << bits)
    below, limit = constant(least if is_signed else -1.0, source), constant(most, source)
    is_above = p.let(f"fcmp {'oge' if is_signed else 'ogt'} {kind} {x}, {below}")
    is_below = p.let(f"fcmp olt {kind} {x}, {limit}")
    fits = p.let(f"and i1 {is_above}, {is_below}")
    inside = p.let(f"select i1 {fits}, {kind} {x}, {kind} 0.0")
    value = p.let(f"{word} {kind} {inside} to {to}")
    is_much = p.let(f"fcmp oge {kind} {x}, {limit}")
    value = p.let(f"select i1 {is_much}, {to} {most - 1}, {to} {value}")
    if not is_signed:
        return value
    is_little = p.let(f"fcmp olt {kind} {x}, {below}")
    return p.let(f"select i1 {is_little}, {to} {least}, {to} {value}")


_SPECIAL: dict[str, Callable[[Printer, Expr, list[str]], str]] = {
    **dict.fromkeys(CHOICES, _select),
    "neg": _neg,
    "not": _not,
    "fabs": _fabs,
    "maximum": _extreme,
    "minimum": _extreme,
    "quotient": _divide_ints,
    "rest": _divide_ints,
    "shl": _shift,
    "shr": _shift,
    "bitcast": _bitcast,
    "call": _call,
    "cast": _cast,
}
