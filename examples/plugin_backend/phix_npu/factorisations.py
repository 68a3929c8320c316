"""Linear algebra of the card: stacks of matrices, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

Array = np.ndarray


def _each(function: Callable[..., Any], *stacks: Array) -> tuple[Array, ...]:
    """The results of a function of matrices (or rows), for stacks with the same axes in front."""
    front = stacks[0].shape[:-2]
    found = [function(*(s[place] for s in stacks)) for place in np.ndindex(*front)]
    return tuple(np.stack(f).reshape((*front, *np.shape(f[0]))) for f in zip(*found))


def _or_nan(function: Callable[..., Array], *matrices: Array) -> Array:
    """What the function gives; NaN where a matrix is singular or not positive definite."""
    try:
        return function(*matrices)
    except np.linalg.LinAlgError:
        return np.full_like(matrices[-1], np.nan)


def cholesky(x: Array, upper: bool) -> Array:
    if not x.size:
        return x
    half = (x + np.conj(np.swapaxes(x, -1, -2))) / 2
    (lower,) = _each(lambda a: (_or_nan(np.linalg.cholesky, a),), half)
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


def triangular_solve(
    x: Array, y: Array, upper: bool, transpose: bool, unitriangular: bool
) -> Array:
    triangle = np.triu(x) if upper else np.tril(x)
    if unitriangular:
        eye = np.eye(x.shape[-1], dtype=bool)
        triangle = np.where(eye, np.ones_like(x), triangle)
    return _solve(np.swapaxes(triangle, -1, -2) if transpose else triangle, y)


def _solve(a: Array, y: Array) -> Array:
    front = np.broadcast_shapes(a.shape[:-2], y.shape[:-2])
    a, y = (np.broadcast_to(v, (*front, *v.shape[-2:])) for v in (a, y))
    if not y.size:
        return y
    return _each(lambda m, r: (_or_nan(np.linalg.solve, m, r),), a, y)[0]


def lu(x: Array, pivot: bool) -> tuple[Array, Array, Array]:
    rows = min(x.shape[-2:])
    if not x.size:
        return x, np.zeros((*x.shape[:-2], rows), np.int32), np.zeros(x.shape[:-2], np.int32)
    return _each(_factored if pivot else _eliminated, x)  # type: ignore[return-value]


def _factored(a: Array) -> tuple[Array, Array, Any]:
    (getrf,) = lapack.get_lapack_funcs(("getrf",), (a,))
    out, pivots, info = getrf(a)
    return out, (pivots + 1).astype(np.int32), np.int32(info)


def _eliminated(a: Array) -> tuple[Array, Array, Any]:
    """Without exchanges of rows."""
    out, info = a.copy(), 0
    rows = min(a.shape)
    for k in range(rows):
        info = info or (k + 1 if out[k, k] == 0 else 0)
        out[k + 1 :, k] /= out[k, k]
        out[k + 1 :, k + 1 :] -= np.outer(out[k + 1 :, k], out[k, k + 1 :])
    return out, np.arange(1, rows + 1, dtype=np.int32), np.int32(info)


def lu_permutation(x: Array, pivots: Array) -> Array:
    front, rows = pivots.shape[:-1], x.shape[-2]
    order = np.broadcast_to(np.arange(rows), (*front, rows)).copy()
    for place in np.ndindex(*front):
        for i, p in enumerate(pivots[place]):
            order[place][[i, p - 1]] = order[place][[p - 1, i]]
    return order


def lu_solve(b: Array, factors: Array, pivots: Array, trans: str) -> Array:
    order = lu_permutation(factors, pivots)
    front = np.broadcast_shapes(b.shape[:-2], factors.shape[:-2], pivots.shape[:-1])
    b = np.broadcast_to(b, (*front, *b.shape[-2:]))
    order = np.broadcast_to(order, (*front, order.shape[-1]))[..., None]
    if trans == "N":
        part = triangular_solve(factors, np.take_along_axis(b, order, -2), False, False, True)
        return triangular_solve(factors, part, True, False, False)
    factors = np.conj(factors) if trans == "C" else factors
    part = triangular_solve(factors, b, True, True, False)
    part = triangular_solve(factors, part, False, True, True)
    out = np.empty_like(part)
    np.put_along_axis(out, np.broadcast_to(order, part.shape), part, -2)
    return out


# -- orthonormal factors and eigenvalues -----------------------------------------------------------
def qr(x: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return np.zeros((*x.shape[:-2], 0), x.dtype), np.linalg.qr(x, "r")
    q, r = np.linalg.qr(x, mode)
    return q, r


def _where_finite(function: Callable[..., Any], x: Array) -> tuple[Array, ...]:
    """The factors of a stack, NaN for matrices with NaN or infinities."""
    finite = np.isfinite(x).all((-2, -1))
    found = function(np.where(finite[..., None, None], x, x.dtype.type(0)))
    for part in found:
        part[~finite] = np.nan
    return tuple(found)


def svd(x: Array, full_matrices: bool) -> tuple[Array, ...]:
    return _where_finite(lambda a: [np.array(p) for p in np.linalg.svd(a, full_matrices)], x)


def eigh(x: Array, uplo: str) -> tuple[Array, ...]:
    return _where_finite(lambda a: [np.array(p) for p in np.linalg.eigh(a, uplo)], x)


def eig(x: Array) -> tuple[Array, ...]:
    dtype = np.result_type(x.dtype, np.complex64)
    return _where_finite(lambda a: [np.array(p, dtype) for p in np.linalg.eig(a)], x)


def schur(x: Array) -> tuple[Array, ...]:
    if not x.size:
        return x, x
    kind = "complex" if np.iscomplexobj(x) else "real"
    return _where_finite(lambda a: _each(lambda m: scipy.linalg.schur(m, kind), a), x)


FACTORISATIONS = {
    "cholesky": cholesky,
    "lu_permutation": lu_permutation,
    "lu_solve": lu_solve,
    "triangular_solve": triangular_solve,
}
