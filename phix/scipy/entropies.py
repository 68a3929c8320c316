"""Entropies, computed in float64, with the limits that their formulas miss.

At those limits themselves, where the functions are chosen values, the slopes are those of these
values: that of ``entr`` at 0 is 0, not infinite, so that gradients of sums stay finite.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.api.custom import custom_jvp
from phix.core import dtypes as dt
from phix.core.conversion import common_dtype, owned_tensor
from phix.core.errors import DTypeError
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.core.weak import weak_kind


def floats(*values: Any) -> list[Any]:
    """Tensors of one float dtype: Python's numbers take that of the others, ints the default."""
    tensors = [owned_tensor(v) if weak_kind(v) is None else v for v in values]
    dtype = common_dtype(tensors)
    dtype = dt.default_float() if dt.kind(dtype) in ("int", "bool") else dtype
    if dt.is_complex(dtype):
        raise DTypeError(f"takes real numbers, found {dtype}; write it for x.real and x.imag")
    return [ops.cast(v, dtype) for v in tensors]


def in_wide(*values: Any) -> tuple[list[Any], Any]:
    """The values in float64, and the dtype that they have together."""
    own = floats(*values)
    return [ops.cast(v, dt.float64) for v in own], own[0].dtype


@takes()
def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(y), and 0 where x is 0 and y no NaN.

    >>> import phix
    >>> phix.scipy.special.xlogy([0.0, 2.0], [0.0, 1.0]).tolist()
    [0.0, 0.0]
    """
    (a, b), dtype = in_wide(x, y)
    none = (a == 0) & ((b <= 0) | ops.isinf(b))  # elsewhere the product is 0, with its slopes
    return ops.cast(ops.where(none, 0.0, a * ops.log(ops.where(none, 1.0, b))), dtype)


@takes()
def xlog1py(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(1 + y), and 0 where x is 0 and y no NaN.

    >>> import phix
    >>> phix.scipy.special.xlog1py([0.0, 2.0], [-1.0, 0.0]).tolist()
    [0.0, 0.0]
    """
    (a, b), dtype = in_wide(x, y)
    none = (a == 0) & ((b <= -1) | ops.isinf(b))
    return ops.cast(ops.where(none, 0.0, a * ops.log1p(ops.where(none, 0.0, b))), dtype)


@takes()
def entr(x: TensorLike) -> Tensor:
    """-x log(x); 0 at 0, and -inf below.

    >>> import phix
    >>> phix.scipy.special.entr([0.0, -1.0]).tolist()
    [0.0, -inf]
    """
    (a,), dtype = in_wide(x)
    known = (a > 0) | ops.isnan(a)
    safe = ops.where(known, a, 1.0)
    edge = ops.where(a == 0, 0.0, -math.inf)
    return ops.cast(ops.where(known, -safe * ops.log(safe), edge), dtype)


@takes()
def rel_entr(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(x / y) for x and y above 0; 0 for x = 0 and y from 0 on, else inf.

    >>> import phix
    >>> phix.scipy.special.rel_entr([0.0, 1.0, 1.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, inf]
    """
    (a, b), dtype = in_wide(x, y)
    known, p, q = _above_zero(a, b)
    edge = ops.where((a == 0) & (b >= 0), 0.0, ops.full_like(a + b, math.inf))
    found = p * _log_of_quotient(p, q, dtype)
    if dtype == dt.float64:  # next to x = y the quotient has rounded away what the logarithm is of
        near = (ops.abs(q - p) < 0.1 * p + 0.1 * q) & (p > 1e-290) & (p < 1e290)
        found = ops.where(near, _divergence(near, p, q, dtype) - (q - p), found)
    return ops.cast(ops.where(known, found, edge), dtype)


@takes()
def kl_div(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(x / y) - x + y for x and y above 0; y for x = 0 and y from 0 on, else inf.

    >>> import phix
    >>> phix.scipy.special.kl_div([0.0, 1.0, 1.0], [3.0, 1.0, 0.0]).tolist()
    [3.0, 0.0, inf]
    """
    (a, b), dtype = in_wide(x, y)
    known, p, q = _above_zero(a, b)
    more = q - p
    near = ops.abs(more) < 0.2 * p + 0.2 * q
    found = p * _log_of_quotient(p, q, dtype) + more
    found = ops.where(near, _divergence(near, p, q, dtype), found)
    edge = ops.where((a == 0) & (b >= 0), b - a, math.inf)
    return ops.cast(ops.where(known, found, edge), dtype)


def _above_zero(a: Any, b: Any) -> tuple[Any, Any, Any]:
    known = ((a > 0) & (b > 0)) | ops.isnan(a) | ops.isnan(b)
    return known, ops.where(known, a, 1.0), ops.where(known, b, 1.0)


_LIFT, _LOG_OF_LIFTS = 2.0**600, 1200 * math.log(2)


def _in_range(p: Any, q: Any) -> Any:
    return ops.log(p / q)


def _in_all_ranges(p: Any, q: Any) -> Any:
    """Quotients of float64 may overflow, or be subnormal."""
    ratio = p / q
    low, high = (ratio < 1e-300) & (q < math.inf), (ratio > 1e300) & (p < math.inf)
    up = ops.where(low, p * _LIFT, ops.where(high, p / _LIFT, p))
    down = ops.where(low, q / _LIFT, ops.where(high, q * _LIFT, q))
    log = ops.log(up / down)
    return ops.where(low, log - _LOG_OF_LIFTS, ops.where(high, log + _LOG_OF_LIFTS, log))


def _with_slopes(function: Any) -> Any:
    """That of the quotient would overflow where those of the logarithm do not."""
    found: Any = custom_jvp(function)
    found.defjvp(lambda at, along: (found(*at), along[0] / at[0] - along[1] / at[1]))
    return found


_of_narrow, _of_wide = _with_slopes(_in_range), _with_slopes(_in_all_ranges)


def _log_of_quotient(p: Any, q: Any, dtype: Any) -> Any:
    """Of numbers above 0, which had the dtype given."""
    return _of_wide(p, q) if dtype == dt.float64 else _of_narrow(p, q)


def _divergence(near: Any, p: Any, q: Any, dtype: Any) -> Any:
    """p log(p / q) - p + q by the series in s = (q - p) / (q + p) of the logarithm, -2 p times that
    of s + s^3 / 3 + s^5 / 5 + ...: what it starts with and q - p cancel."""
    half = 0.5 * ops.where(near, q - p, 0.0)
    s = half / ops.where(near, 0.5 * p + 0.5 * q, 1.0)
    square = s * s
    total: Any = 0.0
    for k in reversed(range(13 if dtype == dt.float64 else 7)):
        total = total * square + 1 / (2 * k + 3)
    return 2 * (half * s - ops.where(near, p, 0.0) * (s * square * total))
