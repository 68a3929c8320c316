"""Linear algebra under SciPy's names and arguments, on tensors [..., m, n], where axes in front are
a batch. Nothing is overwritten and nothing looked at beforehand, whatever ``overwrite_a`` and
``check_finite`` say: a matrix that is singular, or not positive definite, gives inf or nan.
"""

from __future__ import annotations

from typing import Any

from phix import linalg as plain
from phix import ops
from phix.api.gradients import jvp
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError
from phix.core.faces import face
from phix.core.given import FLAG, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg import expm, norm, sqrtm
from phix.linalg.arguments import matrices
from phix.scipy.hermitian import eigh, eigh_tridiagonal
from phix.scipy.matrix_equations import (
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_sylvester,
)
from phix.scipy.matrix_systems import (
    IGNORED,
    adjoint,
    alike,
    cho_factor,
    cho_solve,
    cholesky,
    lu_factor,
    lu_solve,
    solve,
    solve_triangular,
    square,
)
from phix.scipy.reflections import hessenberg, pivoted
from phix.scipy.schur_forms import funm, rsf2csf, schur
from phix.scipy.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)


# -- factors --------------------------------------------------------------------------------------
@takes(permute_l=FLAG, overwrite_a=FLAG, check_finite=FLAG, p_indices=FLAG)
def lu(
    a: TensorLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The factors of a = P L U: a permutation, a unit lower and an upper triangle.

    Args:
        a: [..., m, n].
        permute_l: give (P L, U).
        overwrite_a, check_finite: without effect.
        p_indices: give the rows of L U that a has, p [..., m], int32, in place of P: a = (L U)[p]
            for one matrix. ``permute_l`` goes before.

    Returns:
        P [..., m, m], of reals, L [..., m, k] and U [..., k, n], k = min(m, n).

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> p, l, u = phix.scipy.linalg.lu([[1.0, 2.0], [2.0, 2.0]])
    >>> p.tolist(), l.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]])
    """
    factors, pivots, _ = ops.lu(matrices(a), True)
    p, lower, upper = ops.lu_unpack(factors, pivots, True, True)
    if permute_l:
        return ops.matmul(p, lower), upper
    if p_indices:  # where each row of the matrix went
        _, p = ops.argsort(ops.lu_permutation(factors, pivots), -1)
        return ops.cast(p, dt.int32), lower, upper
    return ops.real(p), lower, upper


@takes(mode=one_of("full", "economic", "r"), overwrite_a=FLAG, pivoting=FLAG, check_finite=FLAG)
def qr(
    a: TensorLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Tensor, ...]:
    """The factors of a = Q R: orthonormal columns, and an upper triangle.

    Args:
        a: [..., m, n].
        overwrite_a, lwork, check_finite: without effect.
        mode: "full": Q is [..., m, m]; "economic": [..., m, min(m, n)]; "r": (R,) alone.
        pivoting: take the columns in the order P [..., n], ints, in which each is the one of which
            most is left beside those before it: a[..., P] = Q R, and the sizes on the diagonal of
            R fall. P comes last. Derivatives are those in that order.

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> q, r = phix.scipy.linalg.qr([[3.0], [4.0]], mode="economic")
    >>> abs(r).tolist()
    [[5.0]]
    """
    matrix, order = pivoted(matrices(a)) if pivoting else (matrices(a), None)
    q, r = ops.qr(matrix, "reduced" if mode == "economic" else "complete")
    found = (r,) if mode == "r" else (q, r)
    return found if order is None else (*found, order)


@takes(full_matrices=FLAG, compute_uv=FLAG, overwrite_a=FLAG, check_finite=FLAG)
def svd(
    a: TensorLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Any:
    """The factors U, s and Vh of a = U diag(s) Vh, s from the largest down.

    Args:
        a: [..., m, n].
        full_matrices: U is [..., m, m] and Vh [..., n, n]; else there are min(m, n) of each.
        compute_uv: if False, s alone is given, not in a tuple.
        overwrite_a, check_finite: without effect.

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> phix.scipy.linalg.svd([[0.0, 2.0], [1.0, 0.0]], compute_uv=False).tolist()
    [2.0, 1.0]
    """
    matrix = matrices(a)
    return tuple(ops.svd(matrix, full_matrices)) if compute_uv else ops.svdvals(matrix)


@takes(side=one_of("right", "left"))
def polar(a: TensorLike, side: str = "right") -> tuple[Tensor, Tensor]:
    """The factors of a = U P, or a = P U: U with orthonormal columns, or rows, and P Hermitian with
    no eigenvalue below 0.

    By singular values, so derivatives are nan where two of these are equal.

    Args:
        a: [..., m, n].
        side: where P stands.

    Returns:
        U [..., m, n], and P [..., n, n], or [..., m, m] on the left.

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> u, p = phix.scipy.linalg.polar([[0.0, -2.0], [3.0, 0.0]])
    >>> [[round(v, 4) + 0.0 for v in row] for row in p.tolist()]
    [[3.0, 0.0], [0.0, 2.0]]
    """
    u, s, vh = ops.svd(matrices(a), False)
    basis = adjoint(vh) if side == "right" else u
    scaled = basis * ops.cast(ops.unsqueeze(s, [-2]), basis.dtype)
    return ops.matmul(u, vh), ops.matmul(scaled, adjoint(basis))


# -- eigenvalues, functions -----------------------------------------------------------------------
def _refuse_pair(b: Any, homogeneous_eigvals: bool) -> None:
    if b is not None or homogeneous_eigvals:
        raise ArgumentError(
            "there are no eigenvalues of two matrices; where b is no singular one, those of a v = "
            "b v diag(w) are those of solve(b, a); of Hermitian ones, b positive definite, write "
            "eigh(a, b)"
        )


@takes(left=FLAG, right=FLAG, homogeneous_eigvals=FLAG, **IGNORED)
def eig(
    a: TensorLike,
    b: None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """The complex eigenvalues w, in no order, and eigenvectors v of a v = v diag(w).

    Derivatives are nan where a has no n independent eigenvectors.

    Args:
        a: [..., n, n].
        b, homogeneous_eigvals: eigenvalues of two matrices, which are not there.
        left: vectors on the left, which are not there.
        right: give v too, else w alone.
        overwrite_a, overwrite_b, check_finite: without effect.

    Returns:
        w [..., n] and v [..., n, n], columns of length 1; complex even if all are real.

    Raises:
        ArgumentError: b, homogeneous_eigvals or left is asked for.
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> w, v = phix.scipy.linalg.eig([[0.0, -1.0], [1.0, 0.0]])
    >>> w.tolist()
    [1j, -1j]
    """
    _refuse_pair(b, homogeneous_eigvals)
    if left:
        raise ArgumentError(
            "there are no vectors on the left; they are the vectors of the adjoint, a.mT.conj()"
        )
    return plain.eig(a) if right else plain.eigvals(a)


@takes(homogeneous_eigvals=FLAG, overwrite_a=FLAG, check_finite=FLAG)
def eigvals(
    a: TensorLike,
    b: None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Tensor:
    """The complex eigenvalues of a [..., n, n], in no order: [..., n].

    Args:
        a: [..., n, n].
        b, homogeneous_eigvals: eigenvalues of two matrices, which are not there.
        overwrite_a, check_finite: without effect.

    Raises:
        ArgumentError: b or homogeneous_eigvals is asked for.
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.scipy.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]).tolist()
    [1j, -1j]
    """
    _refuse_pair(b, homogeneous_eigvals)
    return plain.eigvals(a)


@takes(overwrite_a=FLAG, check_finite=FLAG)
def det(a: TensorLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The determinant of a [..., n, n]: [...].

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.scipy.linalg.det([[2.0, 1.0], [1.0, 2.0]], check_finite=False).item()
    3.0
    """
    return plain.det(a)


@takes(overwrite_a=FLAG, check_finite=FLAG)
def inv(a: TensorLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The inverse of a [..., n, n].

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.scipy.linalg.inv([[2.0, 0.0], [0.0, 4.0]], overwrite_a=True).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return plain.inv(a)


@takes(overwrite_a=FLAG, check_finite=FLAG)
def svdvals(a: TensorLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The singular values of a [..., m, n], from the largest down: [..., min(m, n)].

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> phix.scipy.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]], check_finite=False).tolist()
    [2.0, 1.0]
    """
    return plain.svdvals(a)


@takes(compute_expm=FLAG)
def expm_frechet(A: TensorLike, E: TensorLike, *, compute_expm: bool = True) -> Any:
    """``expm(A)``, and its derivative along E.

    Args:
        A: [..., n, n].
        E: as A.
        compute_expm: give both; else the derivative alone.

    Raises:
        ShapeError: A does not hold square matrices, or E has other dims.

    >>> import phix
    >>> phix.scipy.linalg.expm_frechet([[0.0]], [[2.0]], compute_expm=False).tolist()
    [[2.0]]
    """
    matrix, way = alike(square(A, "A"), square(E, "E"))
    out, tangent = jvp(ops.expm, (matrix,), (way,))
    return (out, tangent) if compute_expm else tangent


__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion",
    "convolution_matrix", "det", "dft", "eig", "eigh", "eigh_tridiagonal", "eigvals", "expm",
    "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel", "helmert",
    "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor",
    "lu_solve", "norm", "pascal", "polar", "qr", "rsf2csf", "schur", "solve",
    "solve_continuous_lyapunov", "solve_discrete_lyapunov", "solve_sylvester", "solve_triangular",
    "sqrtm", "svd", "svdvals", "toeplitz",
]  # fmt: skip
__dir__ = face(__all__)
