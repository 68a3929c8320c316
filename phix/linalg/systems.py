"""Linear systems, determinants, powers."""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core.errors import ShapeError
from phix.core.given import FLAG, INT, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg.arguments import TRANS, letter, tensor


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant.

    >>> import phix
    >>> phix.linalg.SlogdetResult(1.0, 0.5).logabsdet
    0.5
    """

    sign: Any
    logabsdet: Any


@takes(upper=FLAG)
def cholesky(a: TensorLike, *, upper: bool = False) -> Tensor:
    """The lower triangular L with a positive diagonal and L L^H = a.

    Args:
        a: [..., n, n], of which the Hermitian part (a + a^H) / 2 is taken.
        upper: give L^H in place of L.

    Returns:
        [..., n, n]; nan where a is not positive definite.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return ops.cholesky(a, upper)


@takes()
def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The x with a @ x = b, by LU factorisation with partial pivoting.

    Derivatives solve further systems with the same factors: for a cotangent g, b gets
    w = a^-H g, and a gets -w x^H.

    Args:
        a: [..., n, n].
        b: a vector [n], or matrices [..., n, k].

    Returns:
        [..., n] or [..., n, k]; inf or nan where a is singular.

    Raises:
        ShapeError: a does not hold square matrices, b has another number of rows, or has all dims
            of a but the last, which NumPy took for vectors once and for matrices now;
            ``phix.ops.solve`` takes them for vectors, as Paddle does.

    >>> import phix
    >>> phix.linalg.solve([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0]).tolist()
    [1.0, 1.0]
    >>> total = lambda b: phix.linalg.solve([[2.0, 0.0], [0.0, 4.0]], b).sum()
    >>> phix.grad(total)(phix.to_tensor([2.0, 5.0])).tolist()
    [0.5, 0.25]
    """
    matrix, sides = tensor(a), tensor(b)
    dims, lead = sides.meta.dims, matrix.meta.dims[:-1]
    if len(dims) == len(lead) > 1 and all(map(dm.may_equal, dims, lead)):
        raise ShapeError(
            f"solve: b {sides.meta} may be a vector for each of a {matrix.meta}, or matrices for "
            "all of it; write b[..., None] for vectors, which come out as columns, or b[None] for "
            "matrices"
        )
    return ops.solve(matrix, sides)


@takes(lower=FLAG, trans=TRANS, unit_diagonal=FLAG)
def solve_triangular(
    a: TensorLike,
    b: TensorLike,
    *,
    lower: bool = False,
    trans: int | str = "N",
    unit_diagonal: bool = False,
) -> Tensor:
    """The x with a @ x = b, where only one triangle of a counts; SciPy's name and arguments.

    Args:
        a: [..., n, n].
        b: a vector [n], or matrices [..., n, k].
        lower: the lower triangle counts, not the upper one.
        trans: "N" or 0; "T" or 1 for the transpose of a; "C" or 2 for its conjugate transpose.
        unit_diagonal: take the diagonal of a as 1, whatever it holds.

    Returns:
        [..., n] or [..., n, k]; inf or nan where the diagonal has a 0.

    Raises:
        ShapeError: a does not hold square matrices, or b has another number of rows.

    >>> import phix
    >>> phix.linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0], lower=True).tolist()
    [1.0, 1.0]
    """
    matrix, sides = tensor(a), tensor(b)
    how = letter(trans)
    if how == "C" and matrix.dtype.kind == "c":
        matrix = ops.conj(matrix)
    is_vector = sides.ndim == 1
    columns = ops.reshape(sides, (*sides.meta.dims, 1)) if is_vector else sides
    out = ops.triangular_solve(matrix, columns, not lower, how != "N", unit_diagonal)
    return ops.reshape(out, out.meta.dims[:-1]) if is_vector else out


@takes()
def inv(a: TensorLike) -> Tensor:
    """The inverse matrix; to solve a system, ``solve`` is faster and more accurate.

    Args:
        a: [..., n, n].

    Returns:
        [..., n, n]; inf or nan where a is singular.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return ops.inverse(a)


@takes()
def det(a: TensorLike) -> Tensor:
    """The determinant.

    Its gradient, the matrix of cofactors, is right for singular matrices too, and so are its
    derivatives of every order.

    Args:
        a: [..., n, n].

    Returns:
        [...].

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.det([[1.0, 2.0], [3.0, 4.0]]).item()
    -2.0
    """
    return ops.det(a)


@takes()
def slogdet(a: TensorLike) -> SlogdetResult:
    """Sign and logarithm of the absolute value of the determinant, which overflows less easily.

    Args:
        a: [..., n, n].

    Returns:
        ``sign`` [...], of a complex matrix the phase, and ``logabsdet`` [...], real; 0 and -inf
        where a is singular.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> sign, logabsdet = phix.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """
    return SlogdetResult(*ops.slogdet_v2(a))


@takes(n=INT)
def matrix_power(a: TensorLike, n: int) -> Tensor:
    """The product of n times the matrix a, by repeated squaring.

    Args:
        a: [..., m, m].
        n: an int; for n < 0 the inverse of a is taken, for n = 0 the result is the identity.

    Raises:
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> phix.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    return ops.matrix_power(a, n)
