"""What is made of singular values and eigenvalues: ranks, least squares, pseudoinverses; and the
exponential and the square root of a matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError
from phix.core.expectations import expect_equal
from phix.primitives.control_flow import looped
from phix.primitives.linalg import adjoint, check_matrix, check_square, identity
from phix.primitives.pointwise import conj
from phix.primitives.spectral import (
    column,
    diagonal_matrix,
    greatest,
    product,
    real_part,
    rounding_of,
    row,
    with_adjoint,
)

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


# -- ranks ---------------------------------------------------------------------------------------
def _sizes(x: Any, hermitian: bool) -> Any:
    """The singular values, of a Hermitian matrix from its eigenvalues: in no order."""
    check_matrix(x)
    return ops.abs(ops.eigvalsh(x, "L", True)[0]) if hermitian else ops.svdvals(x)


def default_tolerance(x: Any) -> Any:
    """eps max(m, n): what is below it, times the largest, may be 0 but for rounding."""
    return rounding_of(dm.maximum(*x.meta.dims[-2:]), dt.real_dtype(x.dtype))


def _count_above(sizes: Any, tolerance: Any) -> Any:
    """How many are above a tolerance, [...] or a number."""
    least = tolerance if isinstance(tolerance, (int, float)) else column(tolerance)
    return ops.sum(ops.cast(sizes > least, dt.int64), [-1])


def _largest(sizes: Any) -> Any:
    """The largest, of no values 0: [...]."""
    return ops.squeeze(greatest(sizes), [-1])


@rules.decompose("matrix_rank")
def matrix_rank(x: Any, tol: float, use_default_tol: bool, hermitian: bool) -> Any:
    sizes = _sizes(x, hermitian)
    return _count_above(sizes, _largest(sizes) * default_tolerance(x) if use_default_tol else tol)


@rules.decompose("matrix_rank_tol")
def matrix_rank_tol(x: Any, atol_tensor: Any, use_default_tol: bool, hermitian: bool) -> Any:
    sizes = _sizes(x, hermitian)
    least = ops.cast(atol_tensor, sizes.dtype)
    if use_default_tol:
        least = ops.maximum(least, _largest(sizes) * default_tolerance(x))
    return _count_above(sizes, least)


@rules.decompose("matrix_rank_atol_rtol")
def matrix_rank_atol_rtol(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    sizes = _sizes(x, hermitian)
    least = ops.cast(atol, sizes.dtype)
    if rtol is None:
        ratio = ops.where(least == 0, default_tolerance(x), ops.full((), 0, sizes.dtype))
    else:
        ratio = ops.cast(rtol, sizes.dtype)
    return _count_above(sizes, ops.maximum(least, ratio * _largest(sizes)))


# -- pinv, lstsq ---------------------------------------------------------------------------------
@rules.decompose("pinv")
def pinv(x: Any, rtol: Any, hermitian: bool) -> Any:
    if hermitian:
        values, left = ops.eigh(x, "L")
        right = left
    else:
        left, values, vh = ops.svd(x)
        right = adjoint(vh)
    sizes = ops.abs(values)
    least = column(ops.cast(rtol, values.dtype)) * greatest(sizes)
    is_kept = sizes > least
    inverse = ops.where(is_kept, 1.0 / ops.where(is_kept, values, 1.0), 0.0)
    return ops.matmul(right * row(inverse), adjoint(left))


@rules.decompose("pinv_grad")
def pinv_grad(x: Any, out: Any, out_grad: Any, hermitian: bool) -> Any:
    """With P the result, G^H its cotangent and rests E = 1 - x P, F = 1 - P x:

    (E G P P^H + P^H P G F - P G P)^H, the last conjugated; Golub and Pereyra's formula.
    """
    if hermitian:
        x = _of_lower(x)
    grad = adjoint(out_grad)  # [m, n], as x is
    ph = adjoint(out)
    left = product(grad - product(x, product(out, grad)), out, ph)
    right = product(ph, out, grad - product(product(grad, out), x))
    found = left + right - product(ph, out_grad, ph)
    return _to_lower(found) if hermitian else found


def _of_lower(x: Any) -> Any:
    """The Hermitian matrix with this lower triangle."""
    lower = ops.tril(x, -1)
    return lower + adjoint(lower) + diagonal_matrix(_diagonal(x), x.dtype)


def _to_lower(grad: Any) -> Any:
    """What the lower triangle gets of a cotangent of the whole of a Hermitian matrix."""
    return (
        ops.tril(grad, -1)
        + ops.tril(adjoint(grad), -1)
        + diagonal_matrix(_diagonal(grad), grad.dtype)
    )


def _diagonal(x: Any) -> Any:
    return real_part(ops.diagonal(x, 0, -2, -1))


@rules.decompose("lstsq")
def lstsq(x: Any, y: Any, rcond: Any, driver: str) -> Any:
    if driver not in _DRIVERS:
        raise AttributeValueError(f"driver must be one of {', '.join(_DRIVERS)}, found {driver!r}")
    check_matrix(x)
    check_matrix(y, "y")
    refusal = f"y must have as many rows as x, found {x.meta} and {y.meta}"
    x = expect_equal(x, refusal, (x.meta.dims[-2], y.meta.dims[-2]))
    rows, columns = x.meta.dims[-2:]
    real = dt.real_dtype(x.dtype)
    rank, values = ops.full((0,), 0, dt.int32), ops.full((0,), 0, real)
    if driver == "gels":
        found = _of_full_rank(x, y)
    else:
        found, rank, sizes = _of_any_rank(x, y, rcond)
        values = values if driver == "gelsy" else sizes
    rest = ops.matmul(x, found) - y
    size = ops.abs(rest) if dt.is_complex(x.dtype) else rest
    is_tall = dm.minimum(1, dm.maximum(0, rows - columns))
    residuals = ops.sum(size * size, [-2])
    if not dm.is_one(is_tall):
        residuals = residuals[..., : residuals.meta.dims[-1] * is_tall]
    return found, residuals, rank, values


def _of_full_rank(x: Any, y: Any) -> Any:
    rows, columns = x.meta.dims[-2:]
    if not dm.is_known(rows, columns):
        rtol = ops.full((), 1.0, dt.real_dtype(x.dtype)) * default_tolerance(x)
        return ops.matmul(ops.pinv(x, rtol), y)
    if rows >= columns:
        q, r = ops.qr(x)
        return ops.triangular_solve(r, with_adjoint(q, y), True)
    q, r = ops.qr(adjoint(x))
    return ops.matmul(q, ops.triangular_solve(conj(r), y, True, True))


def _of_any_rank(x: Any, y: Any, rcond: Any) -> tuple[Any, Any, Any]:
    """The solution, the rank and the singular values."""
    sizes = ops.svdvals(x)
    ratio = ops.full((), 1, sizes.dtype) * rcond
    ratio = ops.where(ratio < 0, float(np.finfo(sizes.dtype).eps), ratio)
    is_kept = sizes > greatest(sizes) * ratio
    rank = ops.cast(ops.sum(ops.cast(is_kept, dt.int64), [-1]), dt.int32)
    return ops.matmul(ops.pinv(x, ratio), y), rank, sizes


# -- expm ----------------------------------------------------------------------------------------
# Coefficients of the diagonal Pade approximant of degree 13, and the norm up to which it is exact
# to the last bit of a float64: Higham, The scaling and squaring method, 2005. How far that norm may
# be passed by matrices whose powers grow more slowly: Al-Mohy and Higham, A new scaling and
# squaring algorithm, 2009. The logarithm of one over the first coefficient of its error, of x^27.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152
_PADE_ERROR = math.log2(113250775606021113483283660800000000)
_MOST_SQUARINGS = 1100  # of the largest float64


@rules.decompose("expm")
def expm(x: Any) -> Any:
    check_square(x)
    real = dt.real_dtype(x.dtype)
    norm = _norm(x)
    wanted = ops.ceil(ops.log2(ops.maximum(norm / _PADE_NORM, 1.0)))
    wanted = ops.where(ops.isfinite(norm), ops.minimum(wanted, float(_MOST_SQUARINGS)), 0.0)

    def scaled(squarings: Any) -> Any:
        scale = ops.elementwise_pow(ops.full((), 2, real), -squarings)
        return x * column(column(ops.cast(scale, x.dtype)))

    small = scaled(wanted)
    powers = _powers(small)
    fewer = ops.stop_gradient(_left_out(small, powers, wanted))
    wanted = wanted - fewer
    start = _pade(*_powers_of_fewer(scaled(wanted), powers, fewer))
    flat = ops.reshape(wanted, (dm.product(wanted.meta.dims),))
    most = ops.cast(ops.squeeze(greatest(flat), [0]), dt.int64)
    squarings = column(column(ops.cast(wanted, dt.int64)))

    def test(k: Any, power: Any, squarings: Any, most: Any) -> Any:
        return [k < most]

    def step(k: Any, power: Any, squarings: Any, most: Any) -> Any:
        return [k + 1, ops.where(k < squarings, ops.matmul(power, power), power)]

    return looped(test, step, [ops.full((), 0, dt.int64), start], [squarings, most])[1]


def _norm(x: Any) -> Any:
    """The largest sum of absolute values down a column."""
    return _largest(ops.sum(ops.abs(x), [-2]))


def _powers(x: Any) -> list[Any]:
    """The second, the fourth and the sixth."""
    x2 = ops.matmul(x, x)
    x4 = ops.matmul(x2, x2)
    return [x2, x4, ops.matmul(x4, x2)]


def _left_out(x: Any, powers: list[Any], squarings: Any) -> Any:
    """How many of the squarings that the norm asks for the powers of the matrix do not need.

    Each loses digits. The error is bound by the larger of the roots that are of the norms of the
    fourth and the sixth power, and rounding does no harm while abs(x)^27 is small enough.
    """
    real = squarings.dtype
    least = 256 * float(np.finfo(real).tiny)  # smaller products are lost
    _, *higher = powers
    roots = [
        ops.elementwise_pow(ops.maximum(_norm(p), least), 1 / k) for p, k in zip(higher, (4, 6))
    ]
    by_powers = ops.log2(_PADE_NORM / ops.maximum(*roots))
    size = ops.abs(x)
    sums = ops.sum(size, [-2], None, True)

    def step(k: Any, sums: Any, size: Any) -> Any:
        return [k + 1, ops.matmul(sums, size)]

    start = [ops.full((), 1, dt.int64), sums]
    far = looped(lambda k, sums, size: [k < 27], step, start, [size])[1]
    grown = ops.log2(_largest(ops.squeeze(far, [-2])) / _largest(ops.squeeze(sums, [-2])))
    digits = -float(np.log2(np.finfo(real).eps)) + 1
    by_rounding = (_PADE_ERROR - digits - grown) / 26
    most = ops.floor(ops.minimum(by_powers, by_rounding))
    return ops.where(squarings > 0, ops.minimum(ops.maximum(most, 0.0), squarings), 0.0)


def _powers_of_fewer(x: Any, powers: list[Any], fewer: Any) -> list[Any]:
    """x and its powers; where squarings are left out, these are not those that are known."""
    flat = ops.reshape(fewer, (dm.product(fewer.meta.dims),))
    turns = ops.cast(ops.squeeze(greatest(flat), [0]) > 0, dt.int64)

    def step(k: Any, x2: Any, x4: Any, x6: Any, x: Any, turns: Any) -> Any:
        return [k + 1, *_powers(x)]

    start = [ops.full((), 0, dt.int64), *powers]
    return [x, *looped(lambda k, *rest: [k < rest[-1]], step, start, [x, turns])[1:]]


def _pade(x: Any, x2: Any, x4: Any, x6: Any) -> Any:
    """p(-x)^-1 p(x), even and odd powers of p apart."""
    c = [v / _PADE[0] for v in _PADE]
    one = identity(x.meta.dims[-1], x.dtype)
    high_odd = ops.matmul(x6, c[13] * x6 + c[11] * x4 + c[9] * x2)
    high_even = ops.matmul(x6, c[12] * x6 + c[10] * x4 + c[8] * x2)
    odd = ops.matmul(x, high_odd + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one)
    even = high_even + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    return ops.solve(even - odd, even + odd)


def _with_rate(function: Any, x: Any, rate: Any) -> tuple[Any, Any]:
    """f(x) and its derivative along ``rate``: the blocks above in f([[x, rate], [0, x]]).

    The rate is brought to size 1, as it would else be what the number of steps is chosen by.
    """
    size = x.meta.dims[-1]
    largest = ops.stop_gradient(greatest(ops.max(_with_zero_row(ops.abs(rate)), [-2])))
    unit = column(ops.where(ops.logical_and(largest > 0, ops.isfinite(largest)), largest, 1.0))
    nothing = ops.full(x.meta.dims, 0, x.dtype)
    above = ops.concat([x, rate / ops.cast(unit, x.dtype)], -1)
    below = ops.concat([nothing, x], -1)
    found = function(ops.concat([above, below], -2))
    return found[..., :size, :size], found[..., :size, size:] * ops.cast(unit, x.dtype)


def _with_zero_row(x: Any) -> Any:
    *lead, _, columns = x.meta.dims
    return ops.concat([x, ops.full((*lead, 1, columns), 0, x.dtype)], -2)


@rules.decompose("expm_grad")
def expm_grad(x: Any, out_grad: Any) -> Any:
    """The derivative of exp at x^H along the cotangent."""
    return _with_rate(ops.expm, adjoint(x), out_grad)[1]


@rules.jvp("expm")
def expm_jvp(primals: Any, tangents: Any) -> Any:
    return _with_rate(ops.expm, primals[0], tangents[0])


# -- sqrtm ---------------------------------------------------------------------------------------
_MOST_STEPS = 60
_NEAR = 1e-2  # how near 1 the iteration is where it needs no scaling any more


@rules.decompose("sqrtm")
def sqrtm(x: Any) -> Any:
    """Denman and Beavers' iteration in its product form, scaled by determinants: Higham, Functions
    of Matrices, 6.29. m goes to 1, and root to the square root of x.

    What does not get there, or whose square is not x, is nan.
    """
    check_square(x)
    real = dt.real_dtype(x.dtype)
    one = identity(x.meta.dims[-1], x.dtype)
    size = ops.full((), x.meta.dims[-1], real)
    eps = float(np.finfo(real).eps)

    def distance(m: Any) -> Any:
        return _size(m - one)

    def test(k: Any, m: Any, root: Any, gap: Any) -> list[Any]:
        is_far = ops.any(gap > eps * size, list(range(gap.ndim)), False)
        return [ops.logical_and(k < _MOST_STEPS, is_far)]

    def step(k: Any, m: Any, root: Any, gap: Any) -> list[Any]:
        inverse = ops.inverse(m)
        logarithm = column(column(ops.slogdet_v2(m)[1]))
        scale = ops.where(gap > _NEAR, ops.exp(-0.5 * logarithm / size), 1.0)
        scale = ops.cast(scale, x.dtype)
        turned = inverse / (scale * scale)
        root = 0.5 * scale * ops.matmul(root, one + turned)
        m = 0.5 * (one + 0.5 * (scale * scale * m + turned))
        return [k + 1, m, root, distance(m)]

    start = [ops.full((), 0, dt.int64), x, x, ops.full_like(distance(x), np.inf)]
    _, _, root, gap = looped(test, step, start, [])
    rest = _size(ops.matmul(root, root) - x)
    most = float(np.sqrt(eps))
    is_root = ops.logical_and(gap <= most, rest <= most * ops.square(_size(root)))
    return ops.where(is_root, root, float("nan"))


def _size(x: Any) -> Any:
    """The norm of Frobenius, [..., 1, 1]."""
    sizes = ops.abs(ops.stop_gradient(x))  # it is compared alone
    return ops.sqrt(ops.sum(sizes * sizes, [-2, -1], None, True))


@rules.decompose("sqrtm_grad")
def sqrtm_grad(x: Any, out_grad: Any) -> Any:
    """The derivative of the root at x^H along the cotangent."""
    return _with_rate(ops.sqrtm, adjoint(x), out_grad)[1]


@rules.jvp("sqrtm")
def sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    return _with_rate(ops.sqrtm, primals[0], tangents[0])
