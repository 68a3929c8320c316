"""Entropies, computed in float64, with the limits that their formulas miss.

At those limits themselves, where the functions are chosen values, the slopes are those of these
values: that of ``entr`` at 0 is 0, not infinite, so that gradients of sums stay finite.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
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
    return ops.cast(_relative(a, b, ops.zeros_like(a + b)), dtype)


@takes()
def kl_div(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(x / y) - x + y for x and y above 0; y for x = 0 and y from 0 on, else inf.

    >>> import phix
    >>> phix.scipy.special.kl_div([0.0, 1.0, 1.0], [3.0, 1.0, 0.0]).tolist()
    [3.0, 0.0, inf]
    """
    (a, b), dtype = in_wide(x, y)
    return ops.cast(_relative(a, b, b - a), dtype)


def _relative(a: Any, b: Any, more: Any) -> Any:
    known = ((a > 0) & (b > 0)) | ops.isnan(a) | ops.isnan(b)
    p, q = ops.where(known, a, 1.0), ops.where(known, b, 1.0)
    edge = (a == 0) & (b >= 0)
    ratio = p / q
    near = (ratio > 1e-300) & (ratio < 1e300)
    log = ops.log(ops.where(near, p, 1.0) / ops.where(near, q, 1.0))
    log = ops.where(near, log, ops.log(p) - ops.log(q))
    return ops.where(known, p * log + more, ops.where(edge, more, math.inf))
