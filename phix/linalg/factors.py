"""Singular values, eigenvalues, orthonormal factors, and what is made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops
from phix.core import dtypes as dt
from phix.core.given import FLAG, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg.arguments import floating, matrices, rounding, tensor


class QRResult(NamedTuple):
    """Factors of a matrix: ``Q`` with orthonormal columns, ``R`` upper triangular.

    >>> import phix
    >>> phix.linalg.QRResult(1.0, 2.0).R
    2.0
    """

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Left singular vectors, singular values, and right singular vectors as rows.

    >>> import phix
    >>> phix.linalg.SVDResult(1.0, 2.0, 3.0).S
    2.0
    """

    U: Any
    S: Any
    Vh: Any


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns.

    >>> import phix
    >>> phix.linalg.EigResult(1.0, 2.0).eigenvalues
    1.0
    """

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a Hermitian matrix.

    >>> import phix
    >>> phix.linalg.EighResult(1.0, 2.0).eigenvectors
    2.0
    """

    eigenvalues: Any
    eigenvectors: Any


class LstsqResult(NamedTuple):
    """What a problem of least squares comes to, in NumPy's order.

    >>> import phix
    >>> phix.linalg.LstsqResult(1.0, 2.0, 3, 4.0).rank
    3
    """

    x: Any
    residuals: Any
    rank: Any
    s: Any


# -- factors -------------------------------------------------------------------------------------
@takes(mode=one_of("reduced", "complete", "r"))
def qr(a: TensorLike, mode: str = "reduced") -> Any:
    """The factors of a = Q R: orthonormal columns, and an upper triangle.

    Derivatives take the first min(m, n) columns of a as independent: inf or nan if they are not.

    Args:
        a: [..., m, n].
        mode: "reduced": Q is [..., m, k], R [..., k, n], k = min(m, n); "complete": [..., m, m]
            and [..., m, n]; "r": R alone, not in a tuple.

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> q, r = phix.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> abs(r[0, 0]).item()
    5.0
    """
    if mode == "r":
        return ops.qr(a, "reduced")[1]
    return QRResult(*ops.qr(a, mode))


@takes(full_matrices=FLAG, compute_uv=FLAG)
def svd(a: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The singular values s, from the largest down, and the factors of a = u diag(s) vh.

    Args:
        a: [..., m, n].
        full_matrices: u is [..., m, m] and vh [..., n, n]; else there are min(m, n) of each.
        compute_uv: if False, s alone is given, not in a tuple.

    Returns:
        U, S [..., min(m, n)], which is real, and Vh.

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> phix.linalg.svd([[0.0, 2.0], [1.0, 0.0]]).S.tolist()
    [2.0, 1.0]
    """
    return SVDResult(*ops.svd(a, full_matrices)) if compute_uv else ops.svdvals(a)


@takes()
def svdvals(a: TensorLike) -> Tensor:
    """The singular values of a [..., m, n], from the largest down: [..., min(m, n)], real.

    Their gradient is that of singular values that differ; of a sum over equal ones it is right.

    Raises:
        ShapeError: a does not hold matrices.

    >>> import phix
    >>> phix.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [2.0, 1.0]
    """
    return ops.svdvals(a)


@takes(UPLO=one_of("L", "U"))
def eigh(a: TensorLike, UPLO: str = "L") -> EighResult:
    """The eigenvalues w, ascending, and eigenvectors v of a Hermitian matrix: a = v diag(w) v^H.

    Args:
        a: [..., n, n].
        UPLO: which triangle is read. Gradients are Hermitian: those of functions on such matrices.

    Returns:
        ``eigenvalues`` [..., n], real, and ``eigenvectors`` [..., n, n], columns of length 1.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.eigh([[2.0, 1.0], [1.0, 2.0]]).eigenvalues.tolist()
    [1.0, 3.0]
    """
    return EighResult(*ops.eigh(a, UPLO))


@takes(UPLO=one_of("L", "U"))
def eigvalsh(a: TensorLike, UPLO: str = "L") -> Tensor:
    """The eigenvalues of a Hermitian matrix a [..., n, n], ascending: [..., n], real.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).tolist()
    [1.0, 3.0]
    """
    return ops.eigvalsh(a, UPLO, True)[0]


@takes()
def eig(a: TensorLike) -> EigResult:
    """The complex eigenvalues w, in no order, and eigenvectors v of a matrix: a v = v diag(w).

    Derivatives are nan where a has no n independent eigenvectors.

    Args:
        a: [..., n, n].

    Returns:
        ``eigenvalues`` [..., n] and ``eigenvectors`` [..., n, n], columns of length 1; complex
        even if all are real.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.eig([[0.0, -1.0], [1.0, 0.0]]).eigenvalues.tolist()
    [1j, -1j]
    """
    return EigResult(*ops.eig(a))


@takes()
def eigvals(a: TensorLike) -> Tensor:
    """The complex eigenvalues of a [..., n, n], in no order: [..., n].

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]).tolist()
    [1j, -1j]
    """
    return ops.eigvals(a)


# -- what is made of them ------------------------------------------------------------------------
@takes(hermitian=FLAG)
def matrix_rank(
    A: TensorLike, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Tensor:
    """How many singular values are above a tolerance: int64, [...].

    Args:
        A: [..., m, n].
        tol: the tolerance, a number or [...]; by default rtol times the largest singular value.
        hermitian: take the sizes of eigenvalues of the lower triangle, which is faster.
        rtol: a number or [...]; by default eps max(m, n).

    Raises:
        ShapeError: A does not hold matrices, or square ones if hermitian.

    >>> import phix
    >>> phix.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    found = matrices(A)
    real = dt.real_dtype(found.dtype)
    if tol is not None:
        return ops.matrix_rank_tol(found, ops.cast(tensor(tol), real), False, hermitian)
    ratio = rounding(found) if rtol is None else ops.cast(tensor(rtol), real)
    return ops.matrix_rank_atol_rtol(found, ops.full((), 0, real), ratio, hermitian)


@takes(hermitian=FLAG)
def pinv(a: TensorLike, rcond: Any = None, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose pseudoinverse v diag(1 / s) u^H, 1 / s being 0 for small s.

    Derivatives are those at a rank that stays as it is, whether singular values are equal or not.

    Args:
        a: [..., m, n].
        rcond: a singular value is small up to that times the largest; a number or [...], by
            default eps max(m, n).
        hermitian: take eigenvalues of the lower triangle, which is faster.

    Returns:
        [..., n, m].

    Raises:
        ShapeError: a does not hold matrices, or square ones if hermitian.

    >>> import phix
    >>> phix.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    found = matrices(a)
    real = dt.real_dtype(found.dtype)
    ratio = rounding(found) if rcond is None else ops.cast(tensor(rcond), real)
    return ops.pinv(found, ratio, hermitian)


@takes()
def lstsq(a: TensorLike, b: TensorLike, rcond: Any = None) -> LstsqResult:
    """The shortest x of those with the least sum(abs(a x - b) ** 2).

    Args:
        a: [..., m, n].
        b: a vector [m], or matrices [..., m, k].
        rcond: singular values up to that times the largest count as 0; by default eps max(m, n).

    Returns:
        ``x`` [..., n] or [..., n, k]; ``residuals``, that least sum, [...] or [..., k], empty
        where m <= n; ``rank``, int32 [...]; ``s``, the singular values of a.

    Raises:
        ShapeError: a does not hold matrices, or b has another number of rows.

    >>> import phix
    >>> line = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    >>> [round(v, 5) for v in phix.linalg.lstsq(line, [1.0, 3.0, 5.0]).x.tolist()]
    [2.0, 1.0]
    """
    matrix, sides = matrices(a), floating(b)
    is_vector = sides.ndim == 1
    columns = ops.reshape(sides, (*sides.meta.dims, 1)) if is_vector else sides
    ratio = rounding(matrix) if rcond is None else rcond
    x, residuals, rank, s = ops.lstsq(matrix, columns, ratio, "gelsd")
    return LstsqResult(ops.squeeze(x, [-1]) if is_vector else x, residuals, rank, s)


@takes()
def expm(A: TensorLike) -> Tensor:
    """The exponential of a matrix, sum_k A^k / k!, by scaling and squaring.

    Args:
        A: [..., n, n].

    Raises:
        ShapeError: A does not hold square matrices.

    >>> import phix
    >>> phix.linalg.expm([[0.0, 3.0], [0.0, 0.0]]).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    return ops.expm(A)


@takes()
def sqrtm(A: TensorLike) -> Tensor:
    """The principal square root of a matrix: R R = A, R's eigenvalues having positive real parts.

    By Denman and Beavers' iteration. Derivatives of any order are those of the block above in the
    root of [[A, dA], [0, A]]. SciPy's function gives other matrices roots too, complex ones of real
    matrices as well.

    Args:
        A: [..., n, n].

    Returns:
        [..., n, n] in the dtype of A; nan where A is singular, or has an eigenvalue below 0.

    Raises:
        ShapeError: A does not hold square matrices.

    >>> import phix
    >>> phix.linalg.sqrtm([[4.0, 4.0], [0.0, 4.0]]).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    return ops.sqrtm(A)
