"""Systems of equations under SciPy's names: what ``phix.scipy.linalg`` has of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.batching import vmap
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError
from phix.core.expectations import expect_dims
from phix.core.given import FLAG, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg import solve_triangular as _solve_triangular
from phix.linalg.arguments import TRANS, floating, letter, matrices

IGNORED = {"overwrite_a": FLAG, "overwrite_b": FLAG, "check_finite": FLAG}


def square(a: Any, what: str) -> Any:
    found = matrices(a)
    refusal = f"{what} must hold square matrices, [..., n, n], found {found.meta}"
    *lead, rows, _ = found.meta.dims
    return expect_dims(found, refusal, (*lead, rows, rows))


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the dtype that they have together."""
    dtype = dt.promote(a.dtype, b.dtype)
    return ops.cast(a, dtype), ops.cast(b, dtype)


def of_each(function: Callable[..., Any], *matrices: Any) -> Any:
    """A function of matrices, of each of a batch, with the same axes in front."""
    for _ in range(matrices[0].ndim - 2):
        function = vmap(function)
    return function(*matrices)


def _columns(b: Any) -> tuple[Any, bool]:
    """Right sides as columns, and whether they were one vector."""
    sides = floating(b)
    if sides.ndim == 1:
        return ops.unsqueeze(sides, [-1]), True
    return sides, False


def adjoint(a: Any) -> Any:
    last = list(range(a.ndim))
    turned = ops.transpose(a, [*last[:-2], last[-1], last[-2]])
    return ops.conj(turned) if dt.is_complex(a.dtype) else turned


def from_triangle(a: Any, lower: bool, hermitian: bool = True) -> Any:
    """The matrix of which one triangle is given."""
    half = ops.tril(a, -1) if lower else ops.triu(a, 1)
    last = list(range(a.ndim))
    other = adjoint(half) if hermitian else ops.transpose(half, [*last[:-2], last[-1], last[-2]])
    diagonal = ops.diagonal(a, 0, -2, -1)
    if hermitian and dt.is_complex(a.dtype):
        diagonal = ops.cast(ops.real(diagonal), a.dtype)
    return half + other + ops.diag_embed(diagonal, 0, -2, -1)


# -- of positive definite matrices ----------------------------------------------------------------
@takes(lower=FLAG, overwrite_a=FLAG, check_finite=FLAG)
def cholesky(
    a: TensorLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Tensor:
    """The upper triangular U with a positive diagonal and U^H U = a; L = U^H if ``lower``.

    Args:
        a: [..., n, n], of which the Hermitian part is taken.
        lower: give L, with L L^H = a.
        overwrite_a, check_finite: without effect.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.scipy.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    return ops.cholesky(square(a, "a"), not lower)


@takes(lower=FLAG, overwrite_a=FLAG, check_finite=FLAG)
def cho_factor(
    a: TensorLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """What :func:`cho_solve` takes: the factor of :func:`cholesky`, and ``lower``.

    Args:
        a: [..., n, n].
        lower: the factor is the lower one.
        overwrite_a, check_finite: without effect.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> factor = phix.scipy.linalg.cho_factor([[4.0, 2.0], [2.0, 5.0]])
    >>> phix.scipy.linalg.cho_solve(factor, [6.0, 7.0]).tolist()
    [1.0, 1.0]
    """
    return cholesky(a, lower), lower


@takes(overwrite_b=FLAG, check_finite=FLAG)
def cho_solve(
    c_and_lower: tuple[TensorLike, bool],
    b: TensorLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """The x with a x = b, by the factor of a that :func:`cho_factor` gave.

    Args:
        c_and_lower: a factor [..., n, n], of which one triangle counts, and whether it is lower.
        b: a vector [n], or matrices [..., n, k].
        overwrite_b, check_finite: without effect.

    Raises:
        ShapeError: the factor is not square, or b has another number of rows.
        ArgumentError: c_and_lower is no pair.

    >>> import phix
    >>> phix.scipy.linalg.cho_solve(([[2.0, 0.0], [1.0, 2.0]], True), [6.0, 7.0]).tolist()
    [1.0, 1.0]
    """
    factor, lower = _pair(c_and_lower, "c_and_lower", "cho_factor")
    if not isinstance(lower, bool):
        raise ArgumentError(f"c_and_lower must be (c, lower), lower a bool, found {lower!r}")
    columns, is_vector = _columns(b)
    factor, columns = alike(square(factor, "c"), columns)
    out = ops.cholesky_solve(columns, factor, not lower)
    return ops.squeeze(out, [-1]) if is_vector else out


def _pair(value: Any, name: str, maker: str) -> tuple[Any, Any]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentError(f"{name} must be the pair that {maker} gives, found {value!r}")
    return value[0], value[1]


# -- systems --------------------------------------------------------------------------------------
@takes(lower=FLAG, assume_a=one_of("gen", "sym", "her", "pos"), **IGNORED)
def solve(
    a: TensorLike,
    b: TensorLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Tensor:
    """The x with a x = b.

    Args:
        a: [..., n, n].
        b: a vector [n], or matrices [..., n, k].
        lower: of a matrix that is assumed to be symmetric the lower triangle counts, not the upper.
        overwrite_a, overwrite_b, check_finite: without effect.
        assume_a: "gen"; "sym", "her" and "pos" for a symmetric, Hermitian or positive definite a,
            of which one triangle counts; the last is solved by Cholesky factors.

    Raises:
        ShapeError: a does not hold square matrices, or b has another number of rows.

    >>> import phix
    >>> phix.scipy.linalg.solve([[4.0, 2.0], [0.0, 5.0]], [6.0, 7.0], assume_a="pos").tolist()
    [1.0, 1.0]
    """
    columns, is_vector = _columns(b)
    matrix, columns = alike(square(a, "a"), columns)
    if assume_a != "gen":
        matrix = from_triangle(matrix, lower, assume_a != "sym")
    if assume_a == "pos":
        out = ops.cholesky_solve(columns, ops.cholesky(matrix, False), False)
    else:
        out = ops.solve(matrix, columns)
    return ops.squeeze(out, [-1]) if is_vector else out


@takes(trans=TRANS, lower=FLAG, unit_diagonal=FLAG, overwrite_b=FLAG, check_finite=FLAG)
def solve_triangular(
    a: TensorLike,
    b: TensorLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """The x with a x = b, where only one triangle of a counts.

    Args:
        a: [..., n, n].
        b: a vector [n], or matrices [..., n, k].
        trans: 0 or "N"; 1 or "T" for the transpose of a; 2 or "C" for its conjugate transpose.
        lower: the lower triangle counts, not the upper one.
        unit_diagonal: take the diagonal of a as 1.
        overwrite_b, check_finite: without effect.

    Raises:
        ShapeError: a does not hold square matrices, or b has another number of rows.

    >>> import phix
    >>> phix.scipy.linalg.solve_triangular([[2.0, 1.0], [0.0, 4.0]], [2.0, 5.0], trans=1).tolist()
    [1.0, 1.0]
    """
    matrix, sides = alike(square(a, "a"), floating(b))
    return _solve_triangular(matrix, sides, lower=lower, trans=trans, unit_diagonal=unit_diagonal)


@takes(overwrite_a=FLAG, check_finite=FLAG)
def lu_factor(
    a: TensorLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, Tensor]:
    """What :func:`lu_solve` takes: L and U of a = P L U in one matrix, and the rows exchanged.

    Args:
        a: [..., m, n].
        overwrite_a, check_finite: without effect.

    Returns:
        lu [..., m, n], and piv, int32 [..., min(m, n)]: row i was exchanged with row piv[i].

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> lu, piv = phix.scipy.linalg.lu_factor([[1.0, 2.0], [2.0, 2.0]])
    >>> lu.tolist(), piv.tolist()
    ([[2.0, 2.0], [0.5, 1.0]], [1, 1])
    """
    factors, pivots, _ = ops.lu(matrices(a), True)
    return factors, pivots - 1


@takes(trans=TRANS, overwrite_b=FLAG, check_finite=FLAG)
def lu_solve(
    lu_and_piv: tuple[TensorLike, TensorLike],
    b: TensorLike,
    trans: int | str = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """The x with a x = b, by the factors of a that :func:`lu_factor` gave.

    Args:
        lu_and_piv: the factors and pivots.
        b: a vector [n], or matrices [..., n, k].
        trans: 0; 1 for the transpose of a; 2 for its conjugate transpose.
        overwrite_b, check_finite: without effect.

    Raises:
        ShapeError: the factors are not square, or b has another number of rows.
        ArgumentError: lu_and_piv is no pair.

    >>> import phix
    >>> factors = phix.scipy.linalg.lu_factor([[1.0, 2.0], [2.0, 2.0]])
    >>> phix.scipy.linalg.lu_solve(factors, [3.0, 4.0]).tolist()
    [1.0, 1.0]
    """
    factors, pivots = _pair(lu_and_piv, "lu_and_piv", "lu_factor")
    columns, is_vector = _columns(b)
    factors, columns = alike(square(factors, "lu"), columns)
    rows = ops.cast(pivots, "int32") + 1
    out = ops.lu_solve(columns, factors, rows, letter(trans))
    return ops.squeeze(out, [-1]) if is_vector else out
