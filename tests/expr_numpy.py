"""Evaluates DAGs of the scalar language on NumPy arrays, for the tests of the bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from phix.kernels.scalar import bodies
from phix.kernels.scalar.language import Complex, Expr, var

_SPLITTER = 2.0**27 + 1


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z, rounded once (up to double rounding in rare cases)."""
    if x.dtype == np.float32:
        wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
        return wide.astype(np.float32)
    p = x * y
    xh, yh = _head(x), _head(y)
    xl, yl = x - xh, y - yh
    low = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
    s = p + z
    t = s - p
    lost = (p - (s - t)) + (z - t)
    result = s + (lost + low)
    return np.where(np.isfinite(result), result, (x.astype("longdouble") * y + z).astype(x.dtype))


def _head(x: np.ndarray) -> np.ndarray:
    c = x * _SPLITTER
    return c - (c - x)


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    assert (y != 0).all()
    low = np.iinfo(x.dtype).min
    assert low == 0 or not ((x == low) & (y == -1)).any()
    q = x // y
    return q + ((x % y != 0) & ((x < 0) != (y < 0))).astype(x.dtype)


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        assert ((n >= 0) & (n < 8 * x.dtype.itemsize)).all()
        return function(x, n)

    return apply


def _neg(x: np.ndarray) -> np.ndarray:
    return np.negative(x)


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": _neg,
    "fma": _fma, "quotient": _quotient, "rest": lambda x, y: x - y * _quotient(x, y),
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": _shift(np.left_shift), "shr": _shift(np.right_shift),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "select": np.where, "rarely": np.where,
    "sqrt": np.sqrt, "fabs": np.fabs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "copysign": np.copysign, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
_C_MATH: dict[str, Callable[..., Any]] = {
    "fmod": np.fmod, "pow": np.power,
}  # fmt: skip


def evaluate(root: Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The value of ``root`` with its variables at ``values``, arrays of one shape."""
    done: dict[Expr, np.ndarray] = {}
    stack = [root]
    with np.errstate(all="ignore"):
        while stack:
            e = stack[-1]
            missing = [a for a in e.args if a not in done]
            if missing:
                stack.extend(missing)
            else:
                done[e] = _step(e, [done[a] for a in e.args], values)
                stack.pop()
    return done[root]


def _step(e: Expr, args: list[np.ndarray], values: Mapping[str, np.ndarray]) -> np.ndarray:
    if e.fn == "const":
        return np.array(e.data, e.dtype)
    if e.fn == "var":
        return np.asarray(values[e.data], e.dtype)
    if e.fn == "cast":
        return args[0].astype(e.dtype)
    if e.fn == "bitcast":
        return np.ascontiguousarray(args[0]).view(e.dtype).reshape(args[0].shape)
    if e.fn == "call":
        name = e.data[:-1] if e.dtype == np.float32 else e.data
        result = _C_MATH[name](*args)
    else:
        result = _NUMPY[e.fn](*args)
    result = np.asarray(result)
    assert result.dtype == e.dtype, f"{e.fn} gave {result.dtype}, not {e.dtype}"
    return result


def scalars(name: str, dtype: np.dtype) -> Expr | Complex:
    """A variable of this dtype, as the bodies take it."""
    if dtype.kind == "c":
        part = np.dtype(f"float{4 * dtype.itemsize}")
        return Complex(var(f"{name}.real", part), var(f"{name}.imag", part))
    return var(name, dtype)


def run_body(name: str, *arrays: np.ndarray, **attrs: Any) -> np.ndarray:
    """The body of the primitive ``name`` on whole arrays."""
    values: dict[str, np.ndarray] = {}
    inputs = []
    for i, a in enumerate(arrays):
        inputs.append(scalars(f"x{i}", a.dtype))
        if a.dtype.kind == "c":
            values[f"x{i}.real"], values[f"x{i}.imag"] = a.real, a.imag
        else:
            values[f"x{i}"] = a
    result = bodies.get(name)(*inputs, **attrs)
    if isinstance(result, Complex):
        real, imag = evaluate(result.real, values), evaluate(result.imag, values)
        real, imag = np.broadcast_arrays(real, imag)
        out = np.empty(real.shape, result.dtype)
        out.real, out.imag = real, imag
        return out
    return evaluate(result, values)
