"""NumPy's polynomials: vectors of coefficients, that of the highest power first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import linalg, ops
from phix.array_functions.algebra import lstsq
from phix.array_functions.numpy_arguments import floating, tensor
from phix.array_functions.signals import convolve
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.numpy_protocol import NotOfferedError

Function = Callable[..., Any]


def _vector(name: str, p: Any) -> Any:
    x = tensor(p)
    if x.ndim > 1:
        raise ShapeError(f"{name} takes a vector of coefficients, found {x.meta}")
    return ops.reshape(x, [-1])


def polyval(p: Any, x: Any) -> Any:
    """p[0] * x ** (n - 1) + ... + p[n - 1], by Horner's rule."""
    factors, at = _vector("polyval", p), tensor(x)
    count = factors.shape[0]
    if not isinstance(count, int):
        raise NotOfferedError("coefficients of an unknown number")
    found = ops.full_like(at, 0)
    for number in range(count):
        found = found * at + factors[number]
    return found


def _longer(x: Any, count: int) -> Any:
    return ops.pad(x, [count - x.shape[0], 0], 0)


def _added(name: str, a1: Any, a2: Any, function: Function) -> Any:
    x, y = _vector(name, a1), _vector(name, a2)
    count = max(x.shape[0], y.shape[0])
    return function(_longer(x, count), _longer(y, count))


def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    return _added("polyadd", a1, a2, ops.add)


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    return _added("polysub", a1, a2, ops.subtract)


def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials."""
    return convolve(_vector("polymul", a1), _vector("polymul", a2))


def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient and the rest of two polynomials, the latter without leading numbers up to 1e-8;
    in compiled programs, which do not know these, with one number less than v, or all of u."""
    x, y = floating(_vector("polydiv", u)), floating(_vector("polydiv", v))
    dtype = dt.promote(x.dtype, y.dtype)
    rest, y = x.astype(dtype), y.astype(dtype)
    steps = x.shape[0] - y.shape[0] + 1
    whole = []
    for number in range(steps):
        factor = rest[number] / y[0]
        whole.append(factor)
        rest = rest - ops.pad(factor * y, [number, x.shape[0] - y.shape[0] - number], 0)
    zero = ops.full((1,), 0, dtype)
    if steps > 0:  # the leading ones are 0 but for rounding
        rest = rest[steps:] if y.shape[0] > 1 else zero
    if not is_traced(rest) and rest.shape[0]:
        held = np.flatnonzero(~(np.abs(beneath(rest).numpy()) <= 1e-8))
        rest = rest[int(held[0]) if held.size else rest.shape[0] - 1 :]
    return ops.stack(whole, 0) if whole else zero, rest


def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial."""
    if m < 0:
        raise AttributeValueError(f"polyder: m is at least 0, found {m}")
    x = _vector("polyder", p)
    for _ in range(m):
        count = x.shape[0]
        x = x[:-1] * ops.arange(count - 1, 0, -1, dt.int64) if count else x
    return x


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th antiderivative, whose constants are k, 0 unless they are given."""
    if m < 0:
        raise AttributeValueError(f"polyint: m is at least 0, found {m}")
    x = floating(_vector("polyint", p))
    constants = ops.full((m,), 0, x.dtype) if k is None else floating(k).astype(x.dtype)
    constants = ops.expand(ops.reshape(constants, [-1]), [m])
    for number in range(m):
        powers = ops.arange(x.shape[0], 0, -1, dt.int64).astype(x.dtype)
        x = ops.concat([x / powers, constants[number : number + 1]], 0)
    return x


def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with these roots; of a matrix its characteristic one."""
    x = floating(seq_of_zeros)
    if x.ndim == 2:
        is_complex = dt.is_complex(x.dtype)
        found = poly(linalg.eigvals(x))
        return found if is_complex else ops.real(found)
    x = ops.reshape(x, [-1])
    found = ops.full((1,), 1, x.dtype)
    for number in range(x.shape[0]):
        longer = ops.pad(found, [0, 1], 0)
        found = longer - ops.pad(found, [1, 0], 0) * x[number]
    return found


def roots(p: Any) -> Any:
    """The roots of a polynomial as complex numbers: the eigenvalues of its companion matrix. As
    many as its degree: leading zeros must not be there in compiled programs."""
    x = floating(_vector("roots", p))
    held = None if is_traced(x) else np.flatnonzero(beneath(x).numpy())
    last = x.shape[0]
    if held is not None:
        if not held.size:
            return ops.full((0,), 0, dt.complex_dtype(x.dtype))
        x, last = x[int(held[0]) : int(held[-1]) + 1], last - 1 - int(held[-1])
    else:
        last = 0
    count = x.shape[0] - 1
    zeros = ops.full((last,), 0, dt.complex_dtype(x.dtype))
    if count < 1:
        return zeros
    top = ops.reshape(-x[1:] / x[0], (1, count))
    below = ops.eye(count - 1, count, x.dtype) if count > 1 else ops.full((0, count), 0, x.dtype)
    found = linalg.eigvals(ops.concat([top, below], 0))
    return ops.concat([found, zeros], 0) if last else found


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The powers of a vector as columns, the highest first unless ``increasing``."""
    base = tensor(x)
    if base.ndim != 1:
        raise ShapeError(f"vander takes a vector, found {base.meta}")
    count = base.shape[0] if N is None else N
    if count == 0:
        return ops.full((base.shape[0], 0), 0, base.dtype)
    first = ops.full_like(ops.unsqueeze(base, [1]), 1)
    if count == 1:
        return first
    same = ops.expand(ops.unsqueeze(base, [1]), (base.shape[0], count - 1))
    found = ops.cumprod(ops.concat([first, same], 1), 1)
    return found if increasing else ops.flip(found, [1])


def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None,
    cov: Any = False,
) -> Any:  # fmt: skip
    """The polynomial of degree ``deg`` next to the points in least squares; with ``full`` what
    lstsq gives beside it, and rcond, with ``cov`` the covariances of its coefficients."""
    at, values, count = floating(x), floating(y), int(deg) + 1
    if at.ndim != 1 or values.ndim not in (1, 2):
        raise ShapeError(
            f"polyfit: x is a vector, y one or a matrix; found {at.meta}, {values.meta}"
        )
    if count < 1:
        raise AttributeValueError(f"polyfit: deg is at least 0, found {deg}")
    matrix = vander(at, count)
    if w is not None:
        weight = floating(w)
        refusal = f"polyfit: w is a vector like x, found {weight.meta} and {at.meta}"
        weight = expect_dims(weight, refusal, at.meta.dims)
        matrix = matrix * ops.unsqueeze(weight, [1])
        values = values * (weight if values.ndim == 1 else ops.unsqueeze(weight, [1]))
    size = ops.sqrt(ops.sum(matrix * matrix, [0]))
    size = ops.where(size == 0, 1.0, size)
    matrix = matrix / size
    if rcond is None and isinstance(at.shape[0], int):
        rcond = at.shape[0] * float(np.finfo(at.dtype).eps)
    solved = lstsq(matrix, values, rcond)
    found = solved[0] / (size if values.ndim == 1 else ops.unsqueeze(size, [1]))
    if full:
        return found, *solved[1:], rcond
    return (found, _covariances(matrix, values, size, found, cov)) if cov else found


def _covariances(matrix: Any, values: Any, size: Any, found: Any, cov: Any) -> Any:
    """inv(V^T V) of V = matrix * size, times what is left of the squares over the freedom, unless
    cov is "unscaled"; of each column of values on a last axis."""
    base = linalg.inv(ops.matmul(ops.transpose(matrix, [1, 0]), matrix)) / linalg.outer(size, size)
    shape = base.shape if values.ndim == 1 else (*base.shape, 1)
    base = ops.reshape(base, shape)
    if isinstance(cov, str) and cov == "unscaled":
        return base
    free = matrix.shape[0] - matrix.shape[1]
    if isinstance(free, int) and free < 1:
        raise ShapeError(
            f"polyfit: cov needs more points than coefficients, found {matrix.shape[0]} points for "
            f"{matrix.shape[1]}; write cov='unscaled'"
        )
    scaled = found * (size if values.ndim == 1 else ops.unsqueeze(size, [1]))
    away = ops.matmul(matrix, scaled) - values
    return base * (ops.sum(away * away, [0]) / free)


NAMES: dict[str, Function] = {
    "polyval": polyval, "polyadd": polyadd, "polysub": polysub, "polymul": polymul,
    "polydiv": polydiv, "polyder": polyder, "polyint": polyint, "poly": poly, "roots": roots,
    "vander": vander, "polyfit": polyfit,
}  # fmt: skip
