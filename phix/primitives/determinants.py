"""Determinants: of small matrices written out, of others from their LU factors; and derivatives
that are finite where a matrix is singular."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ShapeError
from phix.core.transforms import transforms
from phix.primitives.branches import branched
from phix.primitives.flat import batch_size
from phix.primitives.linalg import adjoint, check_square, identity, identity_for, transposed
from phix.primitives.pointwise import conj
from phix.primitives.spectral import column, greatest, product, rounding, row


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


# -- its derivatives -----------------------------------------------------------------------------
@rules.decompose("det_grad")
def det_grad(x: Any, out: Any, out_grad: Any) -> Any:
    """The cofactors, conjugated: written out for small matrices."""
    grad, xc = column(column(out_grad)), conj(x)
    if _is_empty(x):
        return ops.full_like(x, 0)
    size = _written_out(x)
    return grad * (_written_cofactors(xc, size) if size else ops.cofactors(xc, []))


def _is_empty(x: Any) -> bool:
    return any(dm.is_known(d) and d == 0 for d in x.meta.dims[-2:])


def _written_cofactors(x: Any, size: int) -> Any:
    if size == 1:
        return ops.full_like(x, 1)
    if size == 2:
        swapped = ops.flip(ops.flip(x, (-1,)), (-2,))
        signs = 2 * identity(2, x.dtype) - 1
        return swapped * signs
    return _cofactors_of_3(x)


@rules.decompose("cofactors")
def cofactors(x: Any, directions: Any) -> Any:
    """det(x) inverse(x)^T and its derivatives; of matrices that are singular, or nearly so, from
    their singular values."""
    _check_directions(x, directions)
    if _is_empty(x):
        return ops.full_like(x, 0)
    size = _written_out(x)
    if size:
        return _along(lambda t: _written_cofactors(t, size), x, directions)

    near, whole, factors, pivots = _near_singular(x, len(directions))
    factors = ops.where(column(column(near)), identity_for(x), factors)
    steps = ops.arange(1, x.meta.dims[-1] + 1, 1, pivots.dtype)
    inverse = ops.lu_solve(identity_for(x), factors, ops.where(column(near), steps, pivots), "T")
    regular = _regular(inverse, column(column(whole)), directions)

    def none(x: Any, near: Any, regular: Any, *directions: Any) -> list[Any]:
        return [regular]

    def few(x: Any, near: Any, regular: Any, *directions: Any) -> list[Any]:
        return [_with_cofactors_of_few(x, near, regular, directions)]

    def many(x: Any, near: Any, regular: Any, *directions: Any) -> list[Any]:
        return [_singular(x, directions)]

    count = ops.sum(ops.cast(near, dt.int64), list(range(near.ndim)), dt.int64, False)
    has_few = dm.is_known(near.meta.size) and near.meta.size > _FEW
    ways = [none, few, many] if has_few else [none, many]
    which = ops.cast(count > 0, dt.int64)
    which = which + ops.cast(count > _FEW, dt.int64) if has_few else which
    return branched(which, [x, near, regular, *directions], ways)[0]


def _check_directions(x: Any, directions: Any) -> None:
    check_square(x)
    for each in directions:
        if each.ndim != x.ndim or not all(map(dm.may_equal, each.meta.dims, x.meta.dims)):
            raise ShapeError(f"directions must have the shape of x {x.meta}, found {each.meta}")


# Of so many matrices of a batch the singular values are computed apart from the others.
_FEW = 16


def _with_cofactors_of_few(x: Any, near: Any, regular: Any, directions: Any) -> Any:
    """``regular``, with the cofactors in the place of those of the few matrices that are named."""
    size = x.meta.dims[-1]
    count = near.meta.size
    which = ops.true_positions(ops.reshape(near, (count,)), _FEW, count)
    last = ops.minimum(which, count - 1)

    def flat(t: Any) -> Any:
        return ops.reshape(t, (count, size, size))

    some, *along = (ops.gather(flat(t), last, 0) for t in (x, *directions))
    room = ops.full((1, size, size), 0, x.dtype)  # for those that are none
    found = ops.concat([flat(regular), room], 0)
    found = ops.index_put(found, [which], _singular(some, along))
    return ops.reshape(found[:count], x.meta.dims)


@rules.vjp("cofactors")
def cofactors_vjp(active: Any, x: Any, directions: Any) -> Any:
    """Derivatives of one function of x are symmetric: the cotangent is one direction more, or
    takes the place of one."""

    def pull(ct: Any) -> Any:
        def along(others: Any) -> Any:
            return conj(ops.cofactors(x, [*others, conj(ct)]))

        each = [
            along([*directions[:i], *directions[i + 1 :]]) if on else None
            for i, on in enumerate(active[1])
        ]
        return along(directions) if active[0] else None, each

    return ops.cofactors(x, directions), pull


@rules.jvp("cofactors")
def cofactors_jvp(primals: Any, tangents: Any) -> Any:
    (x, directions), (x_t, directions_t) = primals, tangents
    terms = [] if x_t is None else [ops.cofactors(x, [*directions, x_t])]
    for i, t in enumerate(directions_t):
        if t is not None:
            terms.append(ops.cofactors(x, [*directions[:i], t, *directions[i + 1 :]]))
    return ops.cofactors(x, directions), functools.reduce(ops.add, terms)


@rules.jet("det")
def det_jet(x: Any) -> Any:
    """By its derivative: the LU factors of singular matrices have none."""
    return NotImplemented


@rules.batch("cofactors")
def cofactors_batch(batched: Any, x: Any, directions: Any) -> Any:
    """One branch for all lanes, which would else go into all; matrices that are the same in all
    lanes are factorised once."""
    if not batched[0]:
        size = batch_size(directions, batched[1])
        outs, _ = transforms().batch(
            lambda *each: [cofactors(each[0], each[1:])],
            [x, *directions],
            [False, *batched[1]],
            size,
        )
        return outs[0]
    return ops.cofactors(x, [ops.expand(t, x.meta.dims) for t in directions])


def _near_singular(x: Any, order: int) -> tuple[Any, Any, Any, Any]:
    """Of which matrices a pivot is so small beside the others that ``_regular`` would cancel, the
    determinants of all, and their factors and pivots.

    It divides by the smallest singular value once more for each direction, and what is left
    of the digits must be half of them.
    """
    factors, pivots, _ = ops.lu(x)
    diagonal = ops.diagonal(factors, 0, -2, -1)
    sizes = ops.abs(diagonal)
    eps = float(np.finfo(dt.real_dtype(x.dtype)).eps)
    least = greatest(sizes) * eps ** (0.5 / max(order, 1))
    near = ops.any(ops.logical_and(sizes <= least, ops.isfinite(least)), [-1], False)
    whole = ops.cast(_parity(pivots), x.dtype) * ops.prod(diagonal, [-1])
    return near, whole, factors, pivots


def _regular(inverse: Any, whole: Any, directions: Any) -> Any:
    """The derivatives of whole w for whole = det(x), w = inverse(x)^T along the directions a_i;
    ``inverse`` is w.

    With w_S, d_S for those of w and of det along all of a set S: w_S is minus the sum over i in S
    of w a_i^T w_(S - i), and for any one i of S d_S is the sum over parts U of S - i of
    d_U <w_(S - i - U), a_i>.
    """
    steps = [ops.matmul(inverse, transposed(a)) for a in directions]
    w, d = {frozenset[int](): inverse}, {frozenset[int](): whole}
    for last, a in enumerate(directions):
        for before in list(w):
            w_terms = [ops.matmul(steps[i], w_of) for i, w_of in _less_one(w, before | {last})]
            d_terms = [
                d[part] * ops.sum(w[before - part] * a, [-2, -1], None, True)
                for part in _parts(before)
            ]
            w[before | {last}] = -functools.reduce(ops.add, w_terms)
            d[before | {last}] = functools.reduce(ops.add, d_terms)
    every = frozenset(range(len(directions)))
    return functools.reduce(ops.add, [d[part] * w[every - part] for part in _parts(every)])


def _less_one(values: Any, members: frozenset[int]) -> list[tuple[int, Any]]:
    return [(i, values[members - {i}]) for i in sorted(members)]


def _parts(members: frozenset[int]) -> list[frozenset[int]]:
    """All subsets, in one order."""
    sizes = range(len(members) + 1)
    return [frozenset(p) for k in sizes for p in itertools.combinations(sorted(members), k)]


def _along(f: Any, x: Any, directions: Any) -> Any:
    """The derivative of f at x along each of the directions, one after the other."""
    for direction in directions:
        f = _slope(f, direction)
    return f(x)


def _slope(f: Any, direction: Any) -> Any:
    def slope(x: Any) -> Any:
        (out,), (tangent,) = transforms().jvp(lambda t: [f(t)], [x], [direction])
        return ops.full_like(out, 0) if tangent is None else tangent

    return slope


def _singular(x: Any, directions: Any) -> Any:
    """The same for singular matrices. As many singular values as det is differentiated times stay
    out of quotients (see ``_cofactors_of_scaled``)."""
    few = max(3, len(directions) + 1)
    rows, columns = _scales(x, directions)
    down = _power_of_2(-rows, x.dtype), _power_of_2(-columns, x.dtype)
    found = _along(lambda t: _cofactors_of_scaled(t * down[0] * down[1], few), x, directions)
    both = ops.sum(rows, [-2], None, True) + ops.sum(columns, [-1], None, True)
    return found * _power_of_2(both - rows - columns, x.dtype)


def _scales(x: Any, directions: Any) -> tuple[Any, Any]:
    """Powers of 2 by which rows and columns are divided: no singular value is small because a row
    or a column is, and no row of a direction becomes so large that its digits cancel."""
    sizes, whole = ops.abs(x), None
    if directions:
        totals = [ops.sum(ops.abs(t), [-2, -1], None, True) for t in (x, *directions)]
        totals = [ops.where(t == 0, 1.0, t) for t in totals]
        whole = ops.floor(ops.log2(totals[0]))
        shares = [ops.abs(t) / total for t, total in zip((x, *directions), totals)]
        sizes = functools.reduce(ops.maximum, shares)
    rows = _exponents(sizes, -1)
    columns = _exponents(sizes * _power_of_2(-rows, sizes.dtype), -2)
    return (rows if whole is None else rows + whole), columns


def _exponents(sizes: Any, axis: int) -> Any:
    """The powers of 2 below the largest along an axis, which stays; of none it is 0."""
    *lead, rows, columns = sizes.meta.dims
    nothing = (*lead, 1, columns) if axis == -2 else (*lead, rows, 1)
    sizes = ops.max(ops.concat([sizes, ops.full(nothing, 0, sizes.dtype)], axis), [axis], True)
    return ops.floor(ops.log2(ops.where(sizes == 0, 1.0, sizes)))


def _power_of_2(exponents: Any, dtype: Any) -> Any:
    return ops.cast(ops.elementwise_pow(ops.full((), 2, exponents.dtype), exponents), dtype)


def _cofactors_of_scaled(x: Any, few: int) -> Any:
    """The same for matrices that are scaled.

    With the singular vectors u, v of x as constants, y = u^H x v is diagonal here, whatever x does
    nearby, the largest elements first. Of y = [[a, b], [c, d]], d of size ``few``, det(y) =
    det(a) det(s) with s = d - c a^-1 b, which divides by no small singular value if there are up to
    ``few``, and det(s) is a polynomial. Of matrices with more of them, whose rank is below
    n - few, the derivatives of det up to the order ``few`` are 0.
    """
    rows = x.meta.dims[-1]
    if dm.is_known(rows) and rows <= few:
        return _of_block(x, int(rows))[1]
    if not dm.is_known(rows):
        x = _with_identity(x, few)
    u, sizes, vh = ops.svd(ops.stop_gradient(x))
    y = product(adjoint(u), x, adjoint(vh))
    size = x.meta.dims[-1] - few
    small = ops.any(sizes[..., :size] <= rounding(sizes, size + few), [-1], False)
    small = column(column(small))
    a = ops.where(small, identity(size, x.dtype), y[..., :size, :size])
    b, c, d = y[..., :size, size:], y[..., size:, :size], y[..., size:, size:]
    right, left = ops.solve(a, b), ops.solve(a, transposed(c), True)
    det_of_s, of_s = _of_block(d - ops.matmul(c, right), few)
    whole = column(column(_from_factors(a)))
    minus = -ops.expand(identity(few, x.dtype), d.meta.dims)
    left, right = ops.concat([left, minus], -2), ops.concat([right, minus], -2)
    found = product(left, whole * of_s, transposed(right))
    of_a = whole * column(column(det_of_s)) * ops.solve(a, identity_for(a), True)
    found = ops.where(small, 0.0, found + _in_corner(of_a, few))
    phase = column(column(_from_factors(ops.matmul(u, vh))))  # of the unit circle
    found = phase * product(conj(u), found, conj(vh))
    return found if dm.is_known(rows) else found[..., :rows, :rows]


def _of_block(x: Any, size: int) -> tuple[Any, Any]:
    """Determinant and cofactors of matrices of a known size, by products and sums alone."""
    if size == 3:
        return _det_of_3(x), _cofactors_of_3(x)
    (out,), pull = transforms().vjp(lambda t: [_det_by_products(t, size)], [x])
    return out, conj(pull([ops.full_like(out, 1)])[0])


def _det_by_products(x: Any, size: int) -> Any:
    """Bird's formula (Information Processing Letters 111, 2011), for matrices of a known size.

    With f(y) for y above its diagonal, 0 below, and on it minus the sum of the elements of the
    diagonal further down: y_1 = x, y_(k+1) = f(y_k) x, and det(x) = (-1)^(n-1) y_n[0, 0].
    """
    place = ops.arange(0, size, 1, dt.int64)
    above = ops.cast(column(place) < place, x.dtype)
    y = x
    for _ in range(size - 1):
        further = ops.sum(above * row(ops.diagonal(y, 0, -2, -1)), [-1], None, True)
        y = ops.matmul(above * y - identity(size, x.dtype) * further, x)
    return y[..., 0, 0] * (-1) ** (size - 1)


def _in_corner(x: Any, few: int) -> Any:
    """With so many rows and columns of 0 behind."""
    *lead, rows, columns = x.meta.dims
    x = ops.concat([x, ops.full((*lead, rows, few), 0, x.dtype)], -1)
    return ops.concat([x, ops.full((*lead, few, columns + few), 0, x.dtype)], -2)


def _with_identity(x: Any, few: int) -> Any:
    """[[x, 0], [0, 1]], of so many rows more: the determinant is the same."""
    size = x.meta.dims[-1]
    is_new = ops.arange(0, size + few, 1, dt.int64) >= size
    return _in_corner(x, few) + identity(size + few, x.dtype) * ops.cast(is_new, x.dtype)


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
