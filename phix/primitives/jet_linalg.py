"""Jets of linear algebra: recurrences that factor the value of a matrix once.

Coefficient k of a product of series is the sum of the products of coefficients j and k - j. Solved
for the coefficient k of the unknown, that is a linear system with the value of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.primitives.jet_series import Series, constant, each, is_constant, plus
from phix.primitives.linalg import (
    adjoint,
    are_vectors,
    as_column,
    check_square,
    from_right,
    half_lower,
    identity,
    solved,
    triangle,
)
from phix.primitives.pointwise import conj


def _products(a: Series, b: Series, k: int, first: int, last: int, transpose: bool = False) -> Any:
    """The matrix products a_j b_(k-j), or of the transposes of a_j, summed over first .. last."""
    total: Any = None
    for j in range(first, last + 1):
        if a[j] is not None and b[k - j] is not None:
            total = plus(total, ops.matmul(a[j], b[k - j], transpose, False))
    return total


def _minus(a: Any, b: Any) -> Any:
    return a if b is None else -b if a is None else a - b


def _solved(solve: Callable[[Any], Any], a: Series, y: Series, transpose: bool) -> Series:
    """The series of z with op(a) z = y: a_0 z_k = y_k - the sum of a_j z_(k-j), j = 1 .. k."""
    z: Series = []
    for k in range(len(y)):
        rest = _minus(y[k], _products(a, z, k, 1, k, transpose))
        z.append(None if rest is None else solve(rest))
    return z


@rules.jet("solve")
def solve_jet(x: Series, y: Series, transpose: bool) -> Series:
    check_square(x[0])
    factors, pivots, _ = ops.lu(x[0])
    is_vector = are_vectors(x[0], y[0])
    sides = each(as_column, y) if is_vector else y
    found = _solved(lambda s: solved(factors, pivots, s, transpose, False), x, sides, transpose)
    if not is_vector:
        return found
    return each(lambda c: ops.reshape(c, c.meta.dims[:-1]), found)


@rules.jet("inverse")
def inverse_jet(x: Series) -> Series:
    eye = identity(x[0].meta.dims[-1], x[0].dtype)
    return solve_jet(x, constant(eye, x), False)


@rules.jet("triangular_solve")
def triangular_solve_jet(
    x: Series, y: Series, upper: bool, transpose: bool, unitriangular: bool
) -> Series:
    parts = each(lambda c: triangle(c, upper, unitriangular), x[1:])

    def solve(side: Any) -> Any:
        return ops.triangular_solve(x[0], side, upper, transpose, unitriangular)

    return _solved(solve, [x[0], *parts], y, transpose)


@rules.jet("lu_solve")
def lu_solve_jet(b: Series, lu: Series, pivots: Series, trans: str) -> Series:
    if not is_constant(lu):
        return NotImplemented
    return each(lambda c: ops.lu_solve(c, lu[0], pivots[0], trans), b)


@rules.jet("lu")
def lu_jet(x: Series, pivot: bool) -> Any:
    """The exchanges stand still: with F = L_0^-1 (P^T x_k - the sum of L_j U_(k-j)) U_0^-1,
    L_k is L_0 times what F has below the diagonal, and U_k the rest of F times U_0."""
    rows, columns = x[0].meta.dims[-2:]
    if not dm.same(rows, columns):
        return NotImplemented
    out, pivots, infos = ops.lu(x[0], pivot)
    pmat, lower, upper = ops.lu_unpack(out, pivots)
    factors: tuple[Series, Series] = ([lower], [upper])
    found = [out]
    for k in range(1, len(x)):
        given = None if x[k] is None else ops.matmul(pmat, x[k], True, False)
        rest = _minus(given, _products(*factors, k, 1, k - 1))
        if rest is None:
            terms: tuple[Any, Any] = (None, None)
        else:
            inner = from_right(
                out, ops.triangular_solve(out, rest, False, False, True), True, False
            )
            terms = (ops.matmul(lower, ops.tril(inner, -1)), ops.matmul(ops.triu(inner), upper))
        for series, term in zip(factors, terms):
            series.append(term)
        found.append(plus(*terms))
    return found, constant(pivots, x), constant(infos, x)


@rules.jet("cholesky")
def cholesky_jet(x: Series, upper: bool) -> Series:
    """L_k = L_0 half(L_0^-1 (x_k - the sum of L_j L_(k-j)^H, j = 1 .. k-1) L_0^-H)."""
    out = ops.cholesky(x[0], False)
    lower: Series = [out]
    adjoints: Series = [adjoint(out)]
    for k in range(1, len(x)):
        given = None if x[k] is None else 0.5 * (x[k] + adjoint(x[k]))
        rest = _minus(given, _products(lower, adjoints, k, 1, k - 1))
        if rest is None:
            term = None
        else:
            left = ops.triangular_solve(out, rest, False)
            inner = from_right(conj(out), left, False, True)
            term = ops.matmul(out, half_lower(inner))
        lower.append(term)
        adjoints.append(None if term is None else adjoint(term))
    return adjoints if upper else lower
