"""Factors of matrices by Householder's reflections, column after column, in the order and with the
signs that LAPACK has."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.api.control_flow import fori_loop
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.given import FLAG, takes
from phix.core.tensor import Tensor, TensorLike
from phix.scipy.matrix_systems import of_each, square


def _places(count: Any) -> Any:
    return ops.arange(0, count, 1, dt.int64)


def _square_sums(x: Any) -> Any:
    """Of the columns, or of a vector."""
    if dt.is_complex(x.dtype):
        return ops.sum(ops.square(ops.real(x)) + ops.square(ops.imag(x)), [0])
    return ops.sum(ops.square(x), [0])


def _scale(a: Any) -> Any:
    """What a matrix is divided by, so that squares of its elements are numbers: a constant."""
    most = ops.stop_gradient(ops.max(ops.abs(a)))
    return ops.cast(ops.where((most > 0) & (most < math.inf), most, 1.0), a.dtype)


def _reflected(x: Any, place: Any) -> tuple[Any, Any]:
    """(u, s) for which (I - s u u^H) x has one element, a real one, at a place. x is 0 before it.

    Where x is such a vector, s is 0. There u has no direction, and derivatives of s are NaN.
    """
    is_there = _places(x.shape[0]) == place
    first = ops.gather(x, ops.cast(place, dt.int64), 0)
    rest = _square_sums(ops.where(is_there, 0, x))
    is_bare = rest == 0
    if dt.is_complex(x.dtype):
        is_bare = is_bare & (ops.imag(first) == 0)
    size = ops.sqrt(ops.where(is_bare, 1.0, _square_sums(x)))
    side = ops.copysign(ops.ones_like(size), ops.stop_gradient(ops.real(first)))  # -0.0 is below
    beta = ops.cast(-side * size, x.dtype)
    u = x - ops.where(is_there, beta, 0)
    # 0, without a slope
    undefined = ops.cast(0.0 * ops.sqrt(ops.where(is_bare, rest, 1.0)), x.dtype)
    s = 1 / ops.where(is_bare, 1, beta * (beta - first))
    return u, ops.where(is_bare, undefined, s)


def _times(a: Any, u: Any, s: Any) -> Any:
    """a (I - s u u^H)."""
    return a - s * ops.unsqueeze(ops.matmul(a, u), [1]) * ops.unsqueeze(ops.conj(u), [0])


def _turned(a: Any) -> Any:
    """a^H of one matrix."""
    return ops.conj(ops.transpose(a, [1, 0]))


@takes(calc_q=FLAG, overwrite_a=FLAG, check_finite=FLAG)
def hessenberg(
    a: TensorLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Tensor | tuple[Tensor, Tensor]:
    """H of a = Q H Q^H, which is 0 below the first diagonal under the main one; Q is unitary.

    By Householder's reflections, with LAPACK's signs. It is differentiable, but where a column is
    as it shall be already, as of a triangle: Q jumps there, and derivatives are NaN.

    Args:
        a: [..., n, n].
        calc_q: give (H, Q).
        overwrite_a, check_finite: without effect.

    Returns:
        H [..., n, n], or H and Q [..., n, n].

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> a = phix.to_tensor([[2.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
    >>> h, q = phix.scipy.linalg.hessenberg(a, calc_q=True)
    >>> h.round(decimals=3).tolist()[1:], (q @ h @ q.T - a).abs().max().item() < 1e-5
    ([[-5.0, 1.0, 0.0], [0.0, 0.0, 1.0]], True)
    """
    matrix = square(a, "a")
    size = matrix.meta.dims[-1]
    if isinstance(size, int) and size <= 2:
        h, q = matrix, ops.expand(ops.eye(size, size, matrix.dtype), matrix.shape)
    else:
        h, q = of_each(_hessenberg, matrix)
    return (h, q) if calc_q else h


def _hessenberg(a: Any) -> tuple[Any, Any]:
    n, scale = a.shape[0], _scale(a)

    def step(k: Any, carry: Any) -> Any:
        h, q = carry
        u, s = _reflected(ops.where(_places(n) > k, h[:, k], 0), k + 1)
        # from the left by I - s u u^H, from the right by its adjoint
        h = _turned(_times(_turned(h), u, ops.conj(s)))
        return _times(h, u, ops.conj(s)), _times(q, u, ops.conj(s))

    # the last element under the diagonal may be complex yet
    count = dm.maximum(n - (1 if dt.is_complex(a.dtype) else 2), 0)
    h, q = fori_loop(0, count, step, (a / scale, ops.eye(n, n, a.dtype)))
    return ops.triu(h, -1) * scale, q


def pivoted(a: Any) -> tuple[Any, Any]:
    """Matrices with the columns in the order of the pivots of a QR factorisation, and that order:
    each time the column comes next of which most is left beside those before it."""
    if any(map(dm.is_zero, a.meta.dims)):
        order = ops.expand(_places(a.shape[-1]), (*a.shape[:-2], a.shape[-1]))
        return a, ops.cast(order, dt.int32)
    order = of_each(_pivots, ops.stop_gradient(a))
    places = ops.expand(ops.unsqueeze(order, [-2]), a.shape)
    return ops.take_along_axis(a, places, a.ndim - 1), ops.cast(order, dt.int32)


def _pivots(a: Any) -> Any:
    m, n = a.shape

    def step(k: Any, carry: Any) -> Any:
        rest, order = carry
        is_below = _places(m) >= k
        left = _square_sums(ops.where(ops.unsqueeze(is_below, [1]), rest, 0))
        chosen = ops.argmax(ops.where(_places(n) >= k, left, -1.0))
        swap = _places(n).at[k].set(chosen).at[chosen].set(k)
        rest, order = ops.gather(rest, swap, 1), ops.gather(order, swap, 0)
        u, s = _reflected(ops.where(is_below, rest[:, k], 0), k)
        return _turned(_times(_turned(rest), u, ops.conj(s))), order

    return fori_loop(0, dm.minimum(m, n), step, (a / _scale(a), _places(n)))[1]
