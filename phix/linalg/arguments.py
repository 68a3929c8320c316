"""What the functions of linear algebra make of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ShapeError
from phix.core.given import Kind, is_int
from phix.core.tensor import TensorBase

TRANS = Kind(
    "0, 1, 2, 'N', 'T' or 'C'",
    lambda v: v in ("N", "T", "C") if isinstance(v, str) else is_int(v) and 0 <= v <= 2,
)


def letter(trans: int | str) -> str:
    """How a matrix is taken: N, as it is, T, transposed, or C, the conjugate of that."""
    return trans if isinstance(trans, str) else "NTC"[trans]


def tensor(x: Any) -> Any:
    """``x`` as a tensor."""
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def floating(x: Any) -> Any:
    """``x`` as a tensor of floats or complex numbers; ints become the default float."""
    x = tensor(x)
    return x if dt.is_differentiable(x.dtype) else ops.cast(x, dt.default_float())


def matrices(x: Any) -> Any:
    """As ``floating``, of 2 axes or more.

    Raises:
        ShapeError: it has fewer.
    """
    x = floating(x)
    if x.ndim < 2:
        raise ShapeError(f"matrices, [..., m, n], are asked for, found {x.meta}; reshape it")
    return x


def rounding(x: Any) -> Any:
    """eps max(m, n) of matrices, as a 0-d tensor: what singular values that are 0 may come to,
    relative to the largest."""
    real = dt.real_dtype(x.dtype)
    rows, columns = x.meta.dims[-2:]
    sizes = ops.maximum(ops.full((), rows, dt.int64), ops.full((), columns, dt.int64))
    return ops.cast(sizes, real) * float(np.finfo(real).eps)
