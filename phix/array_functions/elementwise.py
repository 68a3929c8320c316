"""NumPy's ufuncs, and its other elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import floating, operand, refuse, tensor, with_dtype
from phix.array_functions.selection import nonzero
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import TensorBase

Function = Callable[..., Any]


# -- what phix has under another name, or as an expression ---------------------------------------
def _power(x: Any, y: Any) -> Any:
    return x**y if isinstance(x, TensorBase) else ops.elementwise_pow(x, y)


def _float_power(x: Any, y: Any) -> Any:
    wide = [v.astype(dt.promote(v.dtype, dt.float64)) for v in (tensor(x), tensor(y))]
    return ops.elementwise_pow(*wide)


def _hypot(x: Any, y: Any) -> Any:
    """As a modulus: nothing overflows, and the gradient at 0 is 0."""
    return ops.abs(ops.complex(*_together(x, y)))


def _logaddexp(x: Any, y: Any) -> Any:
    pair = ops.broadcast_tensors(_together(x, y))
    return ops.logsumexp(ops.stack(list(pair), 0), [0])


def _logaddexp2(x: Any, y: Any) -> Any:
    x, y = _together(x, y)
    return _logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def _together(x: Any, y: Any) -> list[Any]:
    """Two floats of one dtype."""
    pair = [v if isinstance(v, (int, float)) else floating(v) for v in (x, y)]
    if not any(isinstance(v, TensorBase) for v in pair):
        pair = [floating(v) for v in pair]
    both = next(v for v in pair if isinstance(v, TensorBase))
    tensors = [v if isinstance(v, TensorBase) else ops.full((), v, both.dtype) for v in pair]
    dtype = dt.promote(tensors[0].dtype, tensors[1].dtype)
    return [v.astype(dtype) for v in tensors]


def _fmod(x: Any, y: Any) -> Any:
    """The rest with the sign of x."""
    return ops.where(ops.less_than(x, 0), -1, 1) * ops.remainder(ops.abs(x), ops.abs(y))


def _divmod(x: Any, y: Any) -> Any:
    return ops.floor_divide(x, y), ops.remainder(x, y)


def _modf(x: Any) -> Any:
    whole = ops.trunc(x)
    return ops.where(ops.isinf(x), 0.0, x - whole), whole


def _cbrt(x: Any) -> Any:
    return ops.sign(x) * ops.pow(ops.abs(x), 1 / 3)


_FLOAT: dict[str, Function] = {  # of one array to floats
    "sin": ops.sin, "cos": ops.cos, "tan": ops.tan,
    "arcsin": ops.asin, "arccos": ops.acos, "arctan": ops.atan,
    "sinh": ops.sinh, "cosh": ops.cosh, "tanh": ops.tanh,
    "arcsinh": ops.asinh, "arccosh": ops.acosh, "arctanh": ops.atanh,
    "exp": ops.exp, "expm1": ops.expm1, "exp2": lambda x: ops.elementwise_pow(2.0, x),
    "log": ops.log, "log1p": ops.log1p, "log2": ops.log2, "log10": ops.log10,
    "sqrt": ops.sqrt, "cbrt": _cbrt, "fabs": ops.abs, "rint": ops.round, "modf": _modf,
    "deg2rad": lambda x: x * (math.pi / 180), "radians": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi), "degrees": lambda x: x * (180 / math.pi),
}  # fmt: skip
_OTHER: dict[str, Function] = {
    "absolute": ops.abs, "negative": lambda x: -x, "positive": lambda x: x,
    "square": ops.square, "reciprocal": ops.reciprocal, "sign": ops.sign,
    "conjugate": ops.conj, "floor": ops.floor, "ceil": ops.ceil, "trunc": ops.trunc,
    "isfinite": ops.isfinite, "isinf": ops.isinf, "isnan": ops.isnan,
    "add": ops.add, "subtract": ops.subtract, "multiply": ops.multiply, "divide": ops.divide,
    "floor_divide": ops.floor_divide, "remainder": ops.remainder, "fmod": _fmod,
    "divmod": _divmod, "power": _power, "float_power": _float_power,
    "maximum": ops.maximum, "minimum": ops.minimum, "fmax": ops.fmax, "fmin": ops.fmin,
    "arctan2": ops.atan2, "heaviside": ops.heaviside, "hypot": _hypot,
    "logaddexp": _logaddexp, "logaddexp2": _logaddexp2,
    "equal": ops.equal, "not_equal": ops.not_equal, "less": ops.less_than,
    "less_equal": ops.less_equal, "greater": ops.greater_than, "greater_equal": ops.greater_equal,
    "logical_and": ops.logical_and, "logical_or": ops.logical_or, "logical_xor": ops.logical_xor,
    "logical_not": ops.logical_not,
    "bitwise_and": ops.bitwise_and, "bitwise_or": ops.bitwise_or, "bitwise_xor": ops.bitwise_xor,
    "invert": ops.bitwise_not, "left_shift": ops.bitwise_left_shift,
    "right_shift": ops.bitwise_right_shift, "matmul": ops.matmul,
}  # fmt: skip
_TRUTHS = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isfinite", "isinf",
    "isnan", "logical_and", "logical_or", "logical_xor", "logical_not",
})  # fmt: skip


def _ufunc(name: str, function: Function) -> Function:
    to_floats, to_truths = name in _FLOAT, name in _TRUTHS

    def called(*inputs: Any, dtype: Any = None) -> Any:
        given = [floating(v) if to_floats else operand(v) for v in inputs]
        if dtype is None:
            return function(*given)
        if to_truths:
            raise NotOfferedError("dtype=")
        return function(*(with_dtype(tensor(v), dtype) for v in given))

    return called


def _outer(function: Function) -> Function:
    """``function`` of each element of the one array with each of the other."""

    def outer(a: Any, b: Any, *, dtype: Any = None) -> Any:
        x, y = tensor(a), tensor(b)
        return function(ops.reshape(x, (*x.shape, *(1,) * y.ndim)), y, dtype=dtype)

    return outer


# -- functions that are no ufuncs ----------------------------------------------------------------
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    holds = tensor(condition)
    if x is None and y is None:
        return nonzero(holds)
    if x is None or y is None:
        raise NotOfferedError("two arguments: one to choose from, and none beside it")
    return ops.where(holds if holds.dtype == dt.bool_ else holds != 0, operand(x), operand(y))


def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
    max: Any = None,
) -> Any:  # fmt: skip
    refuse(out=out)
    x = tensor(a)
    low, high = (
        v if v is not None and v is not np._NoValue else w for v, w in ((a_min, min), (a_max, max))
    )
    if low is not None:
        x = ops.maximum(x, operand(low))
    return x if high is None else ops.minimum(x, operand(high))


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    refuse(out=out)
    return ops.round(tensor(a), decimals)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    x = tensor(x)
    if not dt.is_float(x.dtype):
        return x
    most = float(np.finfo(x.dtype).max)
    known = ops.where(ops.isnan(x), nan, x)
    known = ops.where(ops.equal(x, math.inf), most if posinf is None else posinf, known)
    return ops.where(ops.equal(x, -math.inf), -most if neginf is None else neginf, known)


def sinc(x: Any) -> Any:
    t = floating(x) * math.pi
    is_zero = t == 0
    safe = ops.where(is_zero, 1.0, t)
    near = 1.0  # at 0 the series has the value and the first thirteen derivatives
    for k in range(12, 0, -2):
        near = 1.0 - t * t / (k * (k + 1)) * near
    return ops.where(is_zero, near, ops.sin(safe) / safe)


def angle(z: Any, deg: bool = False) -> Any:
    z = floating(z)
    found = ops.atan2(imag(z), real(z))
    return found * (180 / math.pi) if deg else found


def real(val: Any) -> Any:
    x = tensor(val)
    return ops.real(x) if dt.is_complex(x.dtype) else x


def imag(val: Any) -> Any:
    x = tensor(val)
    return ops.imag(x) if dt.is_complex(x.dtype) else ops.full_like(x, 0)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    x, y = tensor(a), tensor(b)
    near = ops.less_equal(ops.abs(x - y), atol + rtol * ops.abs(y))
    near = ops.logical_or(ops.logical_and(near, ops.isfinite(y)), ops.equal(x, y))
    both = ops.logical_and(ops.isnan(x), ops.isnan(y))
    return ops.logical_or(near, both) if equal_nan else near


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    return bool(ops.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    x, y = tensor(a1), tensor(a2)
    if equal_nan:
        raise NotOfferedError("equal_nan=")
    return x.shape == y.shape and bool(ops.all(ops.equal(x, y)))


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear, as many comparisons for an x as there are points."""
    refuse(period=period)
    at, points, values = floating(x), floating(xp), floating(fp)
    if points.ndim != 1 or values.shape != points.shape:
        raise ArgumentError(f"interp: xp and fp are 1-d, found {points.meta} and {values.meta}")
    count = points.shape[0]
    passed = ops.cast(ops.greater_equal(ops.unsqueeze(at, [-1]), points), dt.int64)
    number = ops.minimum(ops.maximum(ops.sum(passed, [-1]) - 1, 0), count - 2)
    x0, x1, y0, y1 = (v[n] for v in (points, values) for n in (number, number + 1))
    inside = y0 + (at - x0) * ((y1 - y0) / (x1 - x0))
    low, high = (values[0] if left is None else left), (values[-1] if right is None else right)
    found = ops.where(ops.less_than(at, points[0]), low, inside)
    found = ops.where(ops.greater_equal(at, points[-1]), values[-1], found)
    return ops.where(ops.greater_than(at, points[-1]), high, found)


def shape(a: Any) -> Any:
    return tensor(a).shape


def ndim(a: Any) -> int:
    return int(tensor(a).ndim)


def iscomplexobj(x: Any) -> bool:
    return dt.is_complex(tensor(x).dtype)


def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


def size(a: Any, axis: Any = None) -> Any:
    x = tensor(a)
    return x.size if axis is None else x.shape[axis]


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return owned_tensor(a)


UFUNCS: dict[str, Function] = {n: _ufunc(n, f) for n, f in (_FLOAT | _OTHER).items()}
_PLAIN: dict[str, Function] = {
    "where": where, "clip": clip, "round": round, "around": round, "nan_to_num": nan_to_num,
    "fix": lambda x: ops.trunc(tensor(x)), "sinc": sinc, "angle": angle, "real": real,
    "imag": imag, "isclose": isclose, "allclose": allclose, "array_equal": array_equal,
    "interp": interp, "size": size, "copy": copy, "shape": shape, "ndim": ndim,
    "iscomplexobj": iscomplexobj, "isrealobj": isrealobj,
}  # fmt: skip
FUNCTIONS: dict[Any, Function] = {
    **{getattr(np, n): f for n, f in UFUNCS.items()},
    **{(getattr(np, n), "outer"): _outer(f) for n, f in UFUNCS.items()
       if n != "matmul" and getattr(np, n).nin == 2},
    **{getattr(np, n): f for n, f in _PLAIN.items() if hasattr(np, n)},
}  # fmt: skip
