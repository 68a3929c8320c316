"""The scalar language that kernel bodies are written in.

A body is a Python function over :class:`Expr`. It runs once, when a kernel is built, and leaves
a typed expression DAG, which one engine prints as LLVM IR and another as CUDA C++. Equal
expressions are one object, so common subexpressions are shared without a pass.

Scalars are bool, the (u)ints, float32 and float64. float16 and bfloat16 exist in memory alone:
a load widens them to float32, a store rounds. A complex scalar is a :class:`Complex`, a pair.
"""

from __future__ import annotations

import weakref
from typing import Any, Union

import numpy as np

from phix.core import dtypes as dt

Number = Union[bool, int, float]

# fn name -> number of operands. Integer ops wrap; div is for floats, quotient and rest for ints
# (C semantics: toward zero; the caller keeps the divisor off 0). Comparisons are ordered: false
# on NaN, except ne. shr is arithmetic on signed ints, logical on unsigned ones. maximum and
# minimum propagate NaN, and engines vectorise them in reductions. rarely is a select.
FUNCTIONS: dict[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "fma": 3, "quotient": 2, "rest": 2,
    "and": 2, "or": 2, "xor": 2, "not": 1, "shl": 2, "shr": 2,
    "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2, "maximum": 2, "minimum": 2,
    "select": 3, "rarely": 3,
    "sqrt": 1, "fabs": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "copysign": 2,
    "cast": 1, "bitcast": 1,
}  # fmt: skip
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
CHOICES = ("select", "rarely")


class _Entry(weakref.ref["Expr"]):
    """An expression in the table of all, which it leaves when it goes. A WeakValueDictionary does
    the same in twice the time, which was a tenth of what lowering and its passes take."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_interned: dict[tuple[Any, ...], _Entry] = {}


def _leave(entry: _Entry, table: dict[tuple[Any, ...], _Entry] = _interned) -> None:
    if table.get(entry.key) is entry:  # another thread may have made it anew
        del table[entry.key]


class Expr:
    """One typed scalar value.

    ``fn`` is a key of FUNCTIONS, or one of: ``const`` (``data`` is the number), ``var`` (``data``
    is a name: a loop index, an accumulator), ``load`` (``data`` is a loop_ir.Buffer, ``args`` the
    indices, int64), ``call`` (``data`` is the name of a C math function of these argument types).
    """

    __slots__ = ("__weakref__", "args", "data", "dtype", "fn", "operand_loads")

    fn: str
    args: tuple[Expr, ...]
    dtype: np.dtype
    data: Any
    operand_loads: tuple[Expr, ...]  # the loads below, each once; asked for much more than made

    def __new__(cls, fn: str, args: tuple[Expr, ...], dtype: np.dtype, data: Any = None) -> Expr:
        # repr tells -0.0 from 0.0 and NaN from NaN-free constants, which == does not
        key = (fn, args, dtype, repr(data) if isinstance(data, float) else data)
        entry = _interned.get(key)
        found = None if entry is None else entry()
        if found is None:
            found = super().__new__(cls)
            found.fn, found.args, found.dtype, found.data = fn, args, dtype, data
            loads: tuple[Expr, ...] = ()
            for arg in args:  # not a function of its own: no other is called as often
                more = (*arg.operand_loads, arg) if arg.fn == "load" else arg.operand_loads
                if more and more != loads:
                    loads = tuple(dict.fromkeys((*loads, *more))) if loads else more
            found.operand_loads = loads
            entry = _Entry(found, _leave)
            entry.key = key
            other = _interned.setdefault(key, entry)()
            if other is None:  # one that has just gone
                _interned[key] = entry
            found = other or found
        return found

    # Arithmetic. A Python number takes the dtype of the Expr beside it.
    def __add__(self, other: Scalar) -> Expr:
        return binary("add", self, other)

    def __sub__(self, other: Scalar) -> Expr:
        return binary("sub", self, other)

    def __mul__(self, other: Scalar) -> Expr:
        return binary("mul", self, other)

    def __truediv__(self, other: Scalar) -> Expr:
        return binary("div", self, other)

    def __radd__(self, other: Scalar) -> Expr:
        return binary("add", other, self)

    def __rsub__(self, other: Scalar) -> Expr:
        return binary("sub", other, self)

    def __rmul__(self, other: Scalar) -> Expr:
        return binary("mul", other, self)

    def __rtruediv__(self, other: Scalar) -> Expr:
        return binary("div", other, self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __and__(self, other: Scalar) -> Expr:
        return binary("and", self, other)

    def __or__(self, other: Scalar) -> Expr:
        return binary("or", self, other)

    def __xor__(self, other: Scalar) -> Expr:
        return binary("xor", self, other)

    def __invert__(self) -> Expr:
        return unary("not", self)

    def __lshift__(self, other: Scalar) -> Expr:
        return binary("shl", self, other)

    def __rshift__(self, other: Scalar) -> Expr:
        return binary("shr", self, other)

    def __lt__(self, other: Scalar) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: Scalar) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: Scalar) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Scalar) -> Expr:
        return binary("ge", self, other)

    @property
    def loads(self) -> tuple[Expr, ...]:
        """The loads in this expression, itself included, each once."""
        return (*self.operand_loads, self) if self.fn == "load" else self.operand_loads

    # == and hash stay by identity (Exprs are interned): write eq(a, b) and ne(a, b).

    def __repr__(self) -> str:
        if self.fn == "const":
            return repr(self.data)
        if self.fn == "var":
            return str(self.data)
        if self.fn == "load":
            return f"{self.data.name}[{', '.join(map(repr, self.args))}]"
        head = self.fn if self.fn != "call" else self.data
        if self.fn in ("cast", "bitcast"):
            head += f"<{self.dtype}>"
        return f"{head}({', '.join(map(repr, self.args))})"


Scalar = Union[Expr, Number]


def const(value: Number, dtype: np.dtype) -> Expr:
    if dtype.kind == "b":
        value = bool(value)
    elif dtype.kind in "iu":
        value = int(value)
    else:
        value = float(value)
    return Expr("const", (), dtype, value)


def var(name: str, dtype: np.dtype = dt.int64) -> Expr:
    return Expr("var", (), dtype, name)


def unary(fn: str, x: Expr) -> Expr:
    return Expr(fn, (x,), x.dtype)


def lifted(*values: Scalar) -> list[Expr]:
    """The values, of which one at least is an Expr, the numbers in its dtype."""
    for value in values:
        if isinstance(value, Expr):
            dtype = value.dtype
            break
    found: list[Expr] = []
    for value in values:  # no comprehensions, whose frames the many calls would show
        found.append(value if isinstance(value, Expr) else const(value, dtype))
    return found


def binary(fn: str, x: Scalar, y: Scalar) -> Expr:
    a = x if isinstance(x, Expr) else const(x, y.dtype)  # type: ignore[union-attr]
    b = y if isinstance(y, Expr) else const(y, a.dtype)
    assert a.dtype == b.dtype, f"{fn} of {a.dtype} and {b.dtype}: cast one of them"
    folded = _fold_index(fn, a, b) if a.dtype == dt.int64 else None
    if folded is not None:
        return folded
    return Expr(fn, (a, b), dt.bool_ if fn in _COMPARISONS else a.dtype)


_HALF_TURN = 1 << 63  # int64 wraps around at it


def _fold_index(fn: str, a: Expr, b: Expr) -> Expr | None:
    """Fold integer index arithmetic; floats are left as written."""
    x = a.data if a.fn == "const" else None
    y = b.data if b.fn == "const" else None
    if (x is None and y is None) or fn not in ("add", "sub", "mul"):
        return None
    if x is not None and y is not None:
        exact = x + y if fn == "add" else x - y if fn == "sub" else x * y
        return const((exact + _HALF_TURN) % (2 * _HALF_TURN) - _HALF_TURN, dt.int64)
    if fn in ("add", "sub") and y == 0:
        return a
    if fn == "add" and x == 0:
        return b
    if fn == "mul" and 1 in (x, y):
        return b if x == 1 else a
    if fn == "mul" and 0 in (x, y):
        return const(0, dt.int64)
    return None


def eq(x: Scalar, y: Scalar) -> Expr:
    return binary("eq", x, y)


def ne(x: Scalar, y: Scalar) -> Expr:
    return binary("ne", x, y)


def select(condition: Expr, x: Scalar, y: Scalar) -> Expr:
    """``x`` where the condition holds, else ``y``; both are evaluated."""
    a, b = (x, y) if isinstance(x, Expr) and isinstance(y, Expr) else lifted(x, y)
    return Expr("select", (condition, a, b), a.dtype)


def rarely(condition: Expr, costly: Expr, usual: Expr) -> Expr:
    """``costly`` where the condition holds, which is hardly ever, else ``usual``.

    Engines may compute ``costly`` for such elements alone, which takes longer for them; nothing
    but its own operands, and what ``usual`` and the condition are made of, is handed over.
    """
    return Expr("rarely", (condition, costly, usual), usual.dtype)


def usual_operands(e: Expr) -> tuple[Expr, ...]:
    """The operands that are computed for every element."""
    return (e.args[0], e.args[2]) if e.fn == "rarely" else e.args


def fma(x: Scalar, y: Scalar, z: Scalar) -> Expr:
    """``x * y + z`` with one rounding."""
    operands = lifted(x, y, z)
    return Expr("fma", tuple(operands), operands[0].dtype)


def cast(x: Expr, dtype: np.dtype) -> Expr:
    """Conversion of the value (C rules; to bool: x != 0)."""
    return x if x.dtype == dtype else Expr("cast", (x,), dtype)


def bitcast(x: Expr, dtype: np.dtype) -> Expr:
    """The same bits read as another dtype of that width."""
    return x if x.dtype == dtype else Expr("bitcast", (x,), dtype)


def call(name: str, *args: Expr) -> Expr:
    """A C math function (``fmod``, ``pow``): float64 by its name, float32 with an f behind."""
    dtype = args[0].dtype
    return Expr("call", args, dtype, name + "f" if dtype == dt.float32 else name)


def sqrt(x: Expr) -> Expr:
    return unary("sqrt", x)


def fabs(x: Expr) -> Expr:
    return unary("fabs", x)


def floor(x: Expr) -> Expr:
    return unary("floor", x)


def ceil(x: Expr) -> Expr:
    return unary("ceil", x)


def trunc(x: Expr) -> Expr:
    return unary("trunc", x)


def rint(x: Expr) -> Expr:
    """Round half to even."""
    return unary("rint", x)


def copysign(x: Expr, sign: Scalar) -> Expr:
    return binary("copysign", x, sign)


class Complex:
    """A complex scalar as two Exprs. Bodies that take complex input are written on it."""

    __slots__ = ("imag", "real")

    def __init__(self, real: Expr, imag: Expr) -> None:
        self.real, self.imag = real, imag

    @property
    def dtype(self) -> np.dtype:
        return dt.complex_dtype(self.real.dtype)

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def scaled(self, factor: Scalar) -> Complex:
        return Complex(self.real * factor, self.imag * factor)
