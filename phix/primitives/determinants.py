"""Determinants: of small matrices written out, of others from their LU factors; and derivatives
that are finite where a matrix is singular."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.primitives.branches import branched
from phix.primitives.linalg import adjoint, check_square, identity, identity_for, transposed
from phix.primitives.pointwise import conj
from phix.primitives.spectral import column, greatest, product, rounding


# -- det -----------------------------------------------------------------------------------------
@rules.decompose("det")
def det(x: Any) -> Any:
    check_square(x)
    size = _written_out(x)
    if size == 1:
        return x[..., 0, 0]
    if size == 2:
        return x[..., 0, 0] * x[..., 1, 1] - x[..., 0, 1] * x[..., 1, 0]
    return _det_of_3(x) if size == 3 else _from_factors(x)


def _written_out(x: Any) -> int:
    """The size of a matrix whose determinant is a formula; 0 for others."""
    size = next((d for d in x.meta.dims[-2:] if dm.is_known(d)), 0)
    return int(size) if size <= 3 else 0


def _det_of_3(x: Any) -> Any:
    return ops.sum(x[..., 0, :] * _cross(x[..., 1, :], x[..., 2, :]), [-1])


def _cofactors_of_3(x: Any) -> Any:
    rows = [x[..., i, :] for i in range(3)]
    return ops.stack([_cross(rows[i - 2], rows[i - 1]) for i in range(3)], -2)


def _cross(a: Any, b: Any) -> Any:
    """The vector product along the last axis."""

    def turned(t: Any, by: int) -> Any:
        return ops.roll(t, (by,), (-1,))

    return turned(a, -1) * turned(b, 1) - turned(a, 1) * turned(b, -1)


def _from_factors(x: Any) -> Any:
    factors, pivots, _ = ops.lu(x)
    parity = ops.cast(_parity(pivots), x.dtype)
    return parity * ops.prod(ops.diagonal(factors, 0, -2, -1), [-1])


def _parity(pivots: Any) -> Any:
    """-1 to the number of exchanges."""
    steps = pivots.meta.dims[-1]
    stays = pivots == ops.arange(1, steps + 1, 1, pivots.dtype)
    return ops.prod(ops.where(stays, 1, -1), [-1])


# -- its derivative ------------------------------------------------------------------------------
@rules.decompose("det_grad")
def det_grad(x: Any, out: Any, out_grad: Any) -> Any:
    """The cofactors, conjugated: written out for small matrices; of others det(x) inverse(x)^T, or
    where one is singular, or nearly so, from their singular values."""
    size, xc = _written_out(x), conj(x)
    grad = column(column(out_grad))
    if any(dm.is_known(d) and d == 0 for d in x.meta.dims[-2:]):
        return ops.full_like(x, 0)
    if size == 1:
        return grad
    if size == 2:
        swapped = ops.flip(ops.flip(xc, (-1,)), (-2,))
        signs = 2 * identity(2, x.dtype) - 1
        return grad * (swapped * signs)
    if size == 3:
        return grad * _cofactors_of_3(xc)

    near = _near_singular(xc)
    apart = ops.where(column(column(near)), identity_for(xc), xc)
    regular = column(column(conj(out))) * ops.solve(apart, identity_for(xc), True)

    def none(x: Any, near: Any, regular: Any) -> list[Any]:
        return [regular]

    def few(x: Any, near: Any, regular: Any) -> list[Any]:
        return [_with_cofactors_of_few(x, near, regular)]

    def many(x: Any, near: Any, regular: Any) -> list[Any]:
        return [_cofactors(x)]

    count = ops.sum(ops.cast(near, dt.int64), list(range(near.ndim)), dt.int64, False)
    has_few = dm.is_known(near.meta.size) and near.meta.size > _FEW
    ways = [none, few, many] if has_few else [none, many]
    which = ops.cast(count > 0, dt.int64)
    which = which + ops.cast(count > _FEW, dt.int64) if has_few else which
    return grad * branched(which, [xc, near, regular], ways)[0]


# Of so many matrices of a batch the singular values are computed apart from the others.
_FEW = 16


def _with_cofactors_of_few(x: Any, near: Any, regular: Any) -> Any:
    """``regular``, with the cofactors in the place of those of the few matrices that are named."""
    size = x.meta.dims[-1]
    count = near.meta.size
    matrices, found = (ops.reshape(t, (count, size, size)) for t in (x, regular))
    which = ops.true_positions(ops.reshape(near, (count,)), _FEW, count)
    some = ops.gather(matrices, ops.minimum(which, count - 1), 0)
    room = ops.concat([found, ops.full((1, size, size), 0, x.dtype)], 0)  # for those that are none
    return ops.reshape(ops.index_put(room, [which], _cofactors(some))[:count], x.meta.dims)


@rules.batch("det_grad")
def det_grad_batch(batched: Any, x: Any, out: Any, out_grad: Any) -> Any:
    """One branch for all lanes, which would else go into both; matrices that are the same in all
    lanes have their cofactors computed once."""
    if not batched[0]:
        one = ops.full(x.meta.dims[:-2], 1, x.dtype)
        alike = out if not batched[1] else ops.det(x)
        return column(column(out_grad)) * ops.det_grad(x, alike, one)
    lead = x.meta.dims[:-2]
    out, out_grad = (ops.expand(t, lead) for t in (out, out_grad))
    return ops.det_grad(x, out, out_grad)


def _near_singular(x: Any) -> Any:
    """Of which matrices a pivot is so small beside the others that the derivative of
    det(x) inverse(x)^T would cancel."""
    factors, _, _ = ops.lu(ops.stop_gradient(x))
    sizes = ops.abs(ops.diagonal(factors, 0, -2, -1))
    least = greatest(sizes) * float(np.sqrt(np.finfo(dt.real_dtype(x.dtype)).eps))
    return ops.any(ops.logical_and(sizes <= least, ops.isfinite(least)), [-1], False)


def _cofactors(x: Any) -> Any:
    """The derivatives of det(x) by the elements of x, which is scaled before: no singular value is
    small because a row or a column is."""
    rows = _exponents(x, -1)
    columns = _exponents(x * _power_of_2(-rows, x.dtype), -2)
    found = _cofactors_of_scaled(x * _power_of_2(-rows, x.dtype) * _power_of_2(-columns, x.dtype))
    both = ops.sum(rows, [-2], None, True) + ops.sum(columns, [-1], None, True)
    return found * _power_of_2(both - rows - columns, x.dtype)


def _exponents(x: Any, axis: int) -> Any:
    """The powers of 2 below the largest elements along an axis, which stays; of none it is 0."""
    *lead, rows, columns = x.meta.dims
    sizes = ops.abs(ops.stop_gradient(x))
    nothing = (*lead, 1, columns) if axis == -2 else (*lead, rows, 1)
    sizes = ops.max(ops.concat([sizes, ops.full(nothing, 0, sizes.dtype)], axis), [axis], True)
    return ops.floor(ops.log2(ops.where(sizes == 0, 1.0, sizes)))


def _power_of_2(exponents: Any, dtype: Any) -> Any:
    return ops.cast(ops.elementwise_pow(ops.full((), 2, exponents.dtype), exponents), dtype)


def _cofactors_of_scaled(x: Any) -> Any:
    """The same for matrices that are scaled.

    With the singular vectors u, v of x as constants, y = u^H x v is diagonal here, whatever x does
    nearby, the largest elements first. Of y = [[a, b], [c, d]], d of size 3, det(y) = det(a) det(s)
    with s = d - c a^-1 b, which divides by no small singular value if there are up to three, and
    det(s) is a formula. Of matrices of rank n - 4 and below all this is 0, and so are the
    derivatives of det up to the third.
    """
    rows = x.meta.dims[-1]
    if not dm.is_known(rows):
        x = _with_identity(x)
    u, sizes, vh = ops.svd(ops.stop_gradient(x))
    y = product(adjoint(u), x, adjoint(vh))
    size = x.meta.dims[-1] - 3
    small = ops.any(sizes[..., :size] <= rounding(sizes, size + 3), [-1], False)
    small = column(column(small))
    a = ops.where(small, identity(size, x.dtype), y[..., :size, :size])
    b, c, d = y[..., :size, size:], y[..., size:, :size], y[..., size:, size:]
    right, left = ops.solve(a, b), ops.solve(a, transposed(c), True)
    s = d - ops.matmul(c, right)
    whole = column(column(_from_factors(a)))
    minus = -ops.expand(identity(3, x.dtype), d.meta.dims)
    left, right = ops.concat([left, minus], -2), ops.concat([right, minus], -2)
    found = product(left, whole * _cofactors_of_3(s), transposed(right))
    of_a = whole * column(column(_det_of_3(s))) * ops.solve(a, identity_for(a), True)
    found = ops.where(small, 0.0, found + _in_corner(of_a))
    phase = column(column(ops.det(u) * ops.det(vh)))
    found = phase * product(conj(u), found, conj(vh))
    return found if dm.is_known(rows) else found[..., :rows, :rows]


def _in_corner(x: Any) -> Any:
    """With three rows and three columns of 0 behind."""
    *lead, rows, columns = x.meta.dims
    x = ops.concat([x, ops.full((*lead, rows, 3), 0, x.dtype)], -1)
    return ops.concat([x, ops.full((*lead, 3, columns + 3), 0, x.dtype)], -2)


def _with_identity(x: Any) -> Any:
    """[[x, 0], [0, 1]], of three rows more: the determinant is the same."""
    size = x.meta.dims[-1]
    is_new = ops.arange(0, size + 3, 1, dt.int64) >= size
    return _in_corner(x) + identity(size + 3, x.dtype) * ops.cast(is_new, x.dtype)


# -- slogdet -------------------------------------------------------------------------------------
@rules.decompose("slogdet_v2")
def slogdet_v2(x: Any) -> Any:
    check_square(x)
    factors, pivots, _ = ops.lu(x)
    diagonal = ops.diagonal(factors, 0, -2, -1)
    sizes = ops.abs(diagonal)
    phases = diagonal / ops.where(sizes == 0, 1.0, sizes)
    sign = ops.cast(_parity(pivots), x.dtype) * ops.prod(phases, [-1])
    return sign, ops.sum(ops.log(sizes), [-1])


@rules.decompose("slogdet_v2_grad")
def slogdet_v2_grad(x: Any, sign: Any, sign_grad: Any, logdet_grad: Any) -> Any:
    """With c = trace(x^-1 dx): dlogdet = Re c, and dsign = i Im(c) sign."""
    weight = logdet_grad
    if dt.is_complex(x.dtype):
        turn = ops.imag(conj(sign) * sign_grad)
        weight = ops.complex(logdet_grad, turn)
    weight = ops.reshape(weight, (*weight.meta.dims, 1, 1))
    return weight * ops.solve(conj(x), identity_for(x), True)


@rules.decompose("slogdet")
def slogdet(x: Any) -> Any:
    sign, logdet = ops.slogdet_v2(x)
    return ops.stack([sign, ops.cast(logdet, sign.dtype)], 0)
