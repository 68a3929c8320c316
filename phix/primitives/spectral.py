"""Factorisations with orthonormal factors and eigenvalues: metas, derivatives, batching.

Derivatives divide by differences of eigenvalues, or of singular values. Where two are equal, as far
as their rounding tells, 0 stands for the quotient if the vectors of the two take no part, as in
functions of the values alone; if they do, what values and vectors tell does not determine the
derivative, and it is nan (``undetermined``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError
from phix.core.meta import MetaTensor
from phix.primitives.linalg import (
    adjoint,
    check_matrix,
    check_square,
    from_right,
    identity,
)
from phix.primitives.pointwise import conj

_MODES = ("reduced", "complete", "r")


# -- what they have in common --------------------------------------------------------------------
def row(x: Any) -> Any:
    """Vectors as matrices of one row, which scale the columns of others."""
    return ops.reshape(x, (*x.meta.dims[:-1], 1, x.meta.dims[-1]))


def column(x: Any) -> Any:
    return ops.reshape(x, (*x.meta.dims, 1))


def product(*factors: Any) -> Any:
    """The matrix product of all."""
    found = factors[0]
    for factor in factors[1:]:
        found = ops.matmul(found, factor)
    return found


def with_adjoint(x: Any, y: Any) -> Any:
    """x^H y."""
    return ops.matmul(conj(x), y, True, False)


def real_part(x: Any) -> Any:
    return ops.real(x) if dt.is_complex(x.dtype) else x


def diagonal_matrix(x: Any, dtype: Any) -> Any:
    size = x.meta.dims[-1]
    return ops.cast(column(x), dtype) * identity(size, dtype)


def greatest(sizes: Any) -> Any:
    """The largest along the last axis, which stays, of numbers from 0 up; of none it is 0."""
    nothing = ops.full((*sizes.meta.dims[:-1], 1), 0, sizes.dtype)
    return ops.max(ops.concat([sizes, nothing], -1), [-1], True)


def rounding_of(size: dm.DimLike, dtype: Any) -> Any:
    """How far apart, relative to the largest, values of a matrix of that size may be that are
    equal but for rounding."""
    return ops.full((), float(np.finfo(dtype).eps), dtype) * size


def rounding(values: Any, size: dm.DimLike) -> Any:
    """How far apart values may be that are equal but for rounding: of [..., k], [..., 1]."""
    top = greatest(ops.abs(values))
    return top * rounding_of(size, top.dtype)


def inverse_or_zero(x: Any, least: Any) -> Any:
    """1 / x, and 0 where abs(x) is at most ``least``."""
    is_zero = ops.abs(x) <= least
    return ops.where(is_zero, 0.0, 1.0 / ops.where(is_zero, 1.0, x))


def differences(values: Any, size: dm.DimLike) -> Any:
    """1 / (values_j - values_i) in row i and column j, and 0 where they are equal."""
    return inverse_or_zero(row(values) - column(values), column(rounding(values, size)))


def turns(x: Any, values: Any, size: dm.DimLike) -> Any:
    """nan where ``x`` says that a function depends on two vectors of equal values, else 0."""
    return ops.undetermined(x, _are_equal(values, size))


def _are_equal(values: Any, size: dm.DimLike) -> Any:
    """Which of the values are equal to others."""
    apart = ops.abs(row(values) - column(values))
    others = ops.logical_not(identity(values.meta.dims[-1], dt.bool_))
    return ops.logical_and(apart <= column(rounding(values, size)), others)


@rules.decompose("undetermined")
def undetermined(x: Any, mask: Any) -> Any:
    sizes = ops.abs(x)
    *front, rows, columns = sizes.meta.dims
    top = greatest(ops.reshape(sizes, (*front, 1, rows * columns)))
    is_there = sizes > top * (64 * rounding_of(x.meta.dims[-1], sizes.dtype))
    return ops.where(ops.logical_and(mask, is_there), float("nan"), ops.zeros_like(x))


@rules.decompose("undetermined_grad")
def undetermined_grad(x: Any, mask: Any, out_grad: Any) -> Any:
    return ops.undetermined(out_grad, mask)


def _leading(x: Any, size: dm.DimLike) -> tuple[Any, Any]:
    """The first ``size`` columns, and the others; None if there are none."""
    if dm.same(x.meta.dims[-1], size):
        return x, None
    return x[..., :, :size], x[..., :, size:]


def _with_others(x: Any, x_grad: Any, size: dm.DimLike) -> tuple[Any, Any]:
    """The first columns of a unitary matrix, and a cotangent of them that stands for that of all:
    the others turn as little as they can, by dX2 = -X1 (X2^H dX1)^H."""
    first, others = _leading(x, size)
    grad, grad_of_others = _leading(x_grad, size)
    if others is not None:
        grad = grad - ops.matmul(others, with_adjoint(grad_of_others, first))
    return first, grad


# -- qr ------------------------------------------------------------------------------------------
@rules.infer_meta("QrInferMeta")
def qr_meta(x: MetaTensor, mode: str) -> tuple[MetaTensor, MetaTensor]:
    if mode not in _MODES:
        raise AttributeValueError(f"mode must be 'reduced', 'complete' or 'r', found {mode!r}")
    check_matrix(x)
    *lead, rows, columns = x.dims
    size = rows if mode == "complete" else dm.minimum(rows, columns)
    q = (*lead, 0) if mode == "r" else (*lead, rows, size)
    return MetaTensor(q, x.dtype), MetaTensor((*lead, size, columns), x.dtype)


@rules.decompose("qr_grad")
def qr_grad(x: Any, q: Any, r: Any, q_grad: Any, r_grad: Any, mode: str) -> Any:
    """With x = q [r1, r2], r1 square and up the triangle that begins at the diagonal:

    of the columns of r1: (g + q herm(up(R r1^H - q^H g))) r1^-H, where g is the cotangent of q
    and what r2 = q^H x2 adds to it; of the others q times the cotangent of r2.
    """
    if mode == "r":
        q = ops.qr(x, "reduced")[0]
        q_grad = ops.full(q.meta.dims, 0, q.dtype)
    size = dm.minimum(*x.meta.dims[-2:])
    q, grad = _with_others(q, q_grad, size)
    if mode == "complete":
        r, r_grad = r[..., :size, :], r_grad[..., :size, :]
    (r1, r2), (grad1, grad2) = _leading(r, size), _leading(ops.triu(r_grad), size)
    if r2 is not None:
        grad = grad + product(q, r2, adjoint(grad2))
    upper = ops.triu(ops.matmul(grad1, adjoint(ops.triu(r1))) - with_adjoint(q, grad))
    both = upper + adjoint(upper) - diagonal_matrix(_real_diagonal(upper), x.dtype)
    found = from_right(conj(r1), grad + ops.matmul(q, both), True, True)
    return found if r2 is None else ops.concat([found, ops.matmul(q, grad2)], -1)


def _real_diagonal(x: Any) -> Any:
    return real_part(ops.diagonal(x, 0, -2, -1))


@rules.batch("qr")
def qr_batch(batched: Any, x: Any, mode: str) -> Any:
    return ops.qr(x, mode)


# -- svd -----------------------------------------------------------------------------------------
@rules.infer_meta("SvdInferMeta")
def svd_meta(x: MetaTensor, full_matrices: bool) -> tuple[MetaTensor, MetaTensor, MetaTensor]:
    check_matrix(x)
    *lead, rows, columns = x.dims
    size = dm.minimum(rows, columns)
    u = (*lead, rows, rows if full_matrices else size)
    vh = (*lead, columns if full_matrices else size, columns)
    values = MetaTensor((*lead, size), dt.real_dtype(x.dtype))
    return MetaTensor(u, x.dtype), values, MetaTensor(vh, x.dtype)


@rules.decompose("svd_grad")
def svd_grad(
    x: Any,
    u: Any,
    vh: Any,
    s: Any,
    u_grad: Any,
    vh_grad: Any,
    s_grad: Any,
    full_matrices: bool,
) -> Any:
    """For P = u^H U and Q = v^H V of the cotangents U and V, and skew(M) = M - M^H:

    u (diag(S) + skew(P + Q) / 2 / (s_j - s_i) + skew(P - Q) / 2 / (s_i + s_j)) v^H, and what is
    orthogonal: (U - u P) diag(1 / s) v^H + u diag(1 / s) (V - v Q)^H.

    Sums and differences stand apart, so that u v^H, as in the slope of a nuclear norm, does not
    depend on the differences at all.
    """
    rows, columns = x.meta.dims[-2:]
    size = dm.minimum(rows, columns)
    u, u_grad = _with_others(u, u_grad, size)
    v, v_grad = _with_others(adjoint(vh), adjoint(vh_grad), size)
    left, right = with_adjoint(u, u_grad), with_adjoint(v, v_grad)
    longest = dm.maximum(rows, columns)
    least = rounding(s, longest)
    sums = inverse_or_zero(row(s) + column(s), column(least))
    inner = _skew(left + right) * (0.5 * differences(s, longest)) + _skew(left - right) * (
        0.5 * sums
    )
    inner = inner + diagonal_matrix(s_grad, x.dtype)
    both = left + right
    inner = inner + turns(both + adjoint(both), s, longest)
    found = product(u, inner, adjoint(v))
    scale = row(inverse_or_zero(s, least))
    if not dm.same(rows, size):
        found = found + ops.matmul((u_grad - ops.matmul(u, left)) * scale, adjoint(v))
    if not dm.same(columns, size):
        found = found + ops.matmul(u * scale, adjoint(v_grad - ops.matmul(v, right)))
    return found


def _skew(x: Any) -> Any:
    return x - adjoint(x)


@rules.batch("svd")
def svd_batch(batched: Any, x: Any, full_matrices: bool) -> Any:
    return ops.svd(x, full_matrices)


@rules.decompose("svdvals")
def svdvals(x: Any) -> Any:
    return ops.svd(x)[1]


@rules.decompose("svdvals_grad")
def svdvals_grad(x: Any, s_grad: Any) -> Any:
    """u diag(S) v^H."""
    u, _, vh = ops.svd(x)
    return ops.matmul(u * row(s_grad), vh)


# -- eigh ----------------------------------------------------------------------------------------
@rules.infer_meta("EighInferMeta")
def eigh_meta(x: MetaTensor, uplo: str) -> tuple[MetaTensor, MetaTensor]:
    if uplo not in ("L", "U"):
        raise AttributeValueError(f"UPLO must be 'L' or 'U', found {uplo!r}")
    check_square(x)
    return MetaTensor(x.dims[:-1], dt.real_dtype(x.dtype)), x


@rules.decompose("eigh_grad")
def eigh_grad(out_w: Any, out_v: Any, out_w_grad: Any, out_v_grad: Any) -> Any:
    """v (diag(W) + skew(v^H V) / 2 / (w_j - w_i)) v^H for the cotangents W and V."""
    turn, size = with_adjoint(out_v, out_v_grad), out_w.meta.dims[-1]
    inner = _skew(turn) * (0.5 * differences(out_w, size))
    inner = inner + diagonal_matrix(out_w_grad, out_v.dtype)
    inner = inner + turns(turn + adjoint(turn), out_w, size)
    return product(out_v, inner, adjoint(out_v))


@rules.batch("eigh")
def eigh_batch(batched: Any, x: Any, uplo: str) -> Any:
    return ops.eigh(x, uplo)


@rules.decompose("eigvalsh")
def eigvalsh(x: Any, uplo: str, is_test: bool) -> Any:
    values, vectors = ops.eigh(x, uplo)
    return values, ops.full((0,), 0, x.dtype) if is_test else vectors


# -- eig -----------------------------------------------------------------------------------------
@rules.infer_meta("EigInferMeta")
def eig_meta(x: MetaTensor) -> tuple[MetaTensor, MetaTensor]:
    check_square(x)
    dtype = dt.complex_dtype(x.dtype)
    return MetaTensor(x.dims[:-1], dtype), MetaTensor(x.dims, dtype)


@rules.decompose("eig_grad")
def eig_grad(x: Any, out_w: Any, out_v: Any, out_w_grad: Any, out_v_grad: Any) -> Any:
    """v^-H (diag(W) + (v^H V - v^H v diag(Re v^H V)) / conj(w_j - w_i)) v^H for the cotangents W
    and V: columns keep their length. It is nan where two of w are equal: what depends on their
    vectors cannot be told from what does not, since v and its inverse may hide it."""
    product_of_grad = with_adjoint(out_v, out_v_grad)
    lengths = ops.cast(_real_diagonal(product_of_grad), out_v.dtype)
    turn = product_of_grad - with_adjoint(out_v, out_v) * row(lengths)
    size = out_w.meta.dims[-1]
    rates = ops.where(_are_equal(out_w, size), float("nan"), differences(out_w, size))
    inner = turn * conj(rates) + diagonal_matrix(out_w_grad, out_v.dtype)
    return _from_basis(x, out_v, inner)


def _from_basis(x: Any, vectors: Any, inner: Any) -> Any:
    """v^-H inner v^H, real if x is."""
    found = ops.solve(conj(vectors), ops.matmul(inner, adjoint(vectors)), True)
    return found if dt.is_complex(x.dtype) else ops.real(found)


@rules.batch("eig")
def eig_batch(batched: Any, x: Any) -> Any:
    return ops.eig(x)


# -- schur ---------------------------------------------------------------------------------------
@rules.infer_meta("SchurInferMeta")
def schur_meta(x: MetaTensor) -> tuple[MetaTensor, MetaTensor]:
    check_square(x)
    return x, x


@rules.batch("schur")
def schur_batch(batched: Any, x: Any) -> Any:
    return ops.schur(x)


# -- eigvals -------------------------------------------------------------------------------------
@rules.decompose("eigvals")
def eigvals(x: Any) -> Any:
    return ops.eig(x)[0]


@rules.decompose("eigvals_grad")
def eigvals_grad(x: Any, out_grad: Any) -> Any:
    """v^-H diag(W) v^H."""
    vectors = ops.eig(x)[1]
    return _from_basis(x, vectors, diagonal_matrix(out_grad, vectors.dtype))
