"""What np.linalg and np.fft have that phix has too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from phix import fft, linalg, ops
from phix.array_functions.arrangement import matrix_transpose
from phix.array_functions.numpy_arguments import (
    floating,
    given,
    of_truths,
    operand,
    refuse,
    tensor,
    titled,
)
from phix.array_functions.products import tensordot
from phix.array_functions.reductions import sum as total
from phix.array_functions.ufuncs import vecdot
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.axes import axes_of
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError

Function = Callable[..., Any]


# -- np.linalg -----------------------------------------------------------------------------------
def _of_floats(function: Function) -> Function:
    """A function of phix.linalg of one array; ints become floats."""

    def call(a: Any) -> Any:
        return function(floating(a))

    return titled(call, function.__name__, _first_of(function))


def _first_of(function: Function) -> str:
    """The first paragraph of a function's text."""
    return (function.__doc__ or "").partition("\n\n")[0]


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or matrices: by default the root of the sum of squares."""
    return linalg.norm(floating(x), ord, axis, keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """A norm of vectors along the axes."""
    return linalg.vector_norm(floating(x), axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of the matrices in the last two axes."""
    return linalg.matrix_norm(floating(x), keepdims=keepdims, ord=ord)


def cond(x: Any, p: Any = None) -> Any:
    """The condition number: norm(x) * norm(inv(x))."""
    return linalg.cond(floating(x), p)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """How many singular values are above the tolerance; of a vector 1, or of zeros 0."""
    x = floating(A)
    if given(tol) and given(rtol):
        raise ArgumentError("matrix_rank: tol and rtol are given; the rank goes by one of them")
    if x.ndim < 2:
        return ops.any(ops.not_equal(x, ops.full((), 0, x.dtype))).astype(dt.int64)
    return linalg.matrix_rank(x, tol, hermitian, rtol=rtol)


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The x with the least norm(a @ x - b), residuals, rank, singular values. There are residuals
    where the rank is the number of columns, and in compiled programs, which do not know it."""
    x = floating(a)
    found = linalg.lstsq(x, floating(b), rcond)
    if x.ndim == 2 and not is_traced(found.rank) and beneath(found.rank).item() != x.shape[1]:
        return found._replace(residuals=ops.full((0,), 0, found.residuals.dtype))
    return found


def qr(a: Any, mode: str = "reduced") -> Any:
    """Of a = q @ r the orthogonal q and the upper triangular r."""
    return linalg.qr(floating(a), mode)


def eigh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues and vectors of Hermitian matrices, of which one triangle is read."""
    return linalg.eigh(floating(a), UPLO)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of Hermitian matrices, in order."""
    return linalg.eigvalsh(floating(a), UPLO)


def vector_product(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product of vectors of three elements along an axis."""
    return linalg.cross(tensor(x1), tensor(x2), axis)


def matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of the diagonal of the matrices in the last two axes."""
    return total(matrix_diagonal(x, offset=offset), -1, dtype)


def matrix_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes."""
    return ops.diagonal(tensor(x), offset, -2, -1)


def matmul(x1: Any, x2: Any, /) -> Any:
    """The product of matrices, the last two axes; those before broadcast."""
    x, y = operand(x1), operand(x2)
    return of_truths(ops.matmul(x, y), x, y)


def matrix_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum of conj(x1) * x2 along one axis of both."""
    return vecdot(x1, x2, axis=axis)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The x with tensordot(a, x, x.ndim) == b; ``axes`` of a go to its end first."""
    x, y = floating(a), floating(b)
    if axes is not None:
        last = axes_of(axes, x.ndim)
        x = ops.transpose(x, [*(i for i in range(x.ndim) if i not in last), *last])
    dims = x.shape[y.ndim - x.ndim :] if x.ndim > y.ndim else ()
    count = math.prod(dims)
    if count != y.size:
        raise ShapeError(f"tensorsolve: {x.meta} is no square matrix for {y.meta}")
    found = linalg.solve(ops.reshape(x, (count, count)), ops.reshape(y, (count,)))
    return ops.reshape(found, dims)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of tensordot with a over its axes from ``ind`` on."""
    x = floating(a)
    if ind < 1:
        raise AttributeValueError(f"tensorinv: ind is at least 1, found {ind}")
    front, back = x.shape[:ind], x.shape[ind:]
    count = math.prod(front)
    found = linalg.inv(ops.reshape(x, (count, -1)))
    return ops.reshape(found, (*back, *front))


def vector_outer(x1: Any, x2: Any, /) -> Any:
    """The product of each element of x1 with each of x2."""
    return linalg.outer(tensor(x1), tensor(x2))


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Of a = u @ diag(s) @ vh the factors u, s, vh; s alone without ``compute_uv``."""
    refuse(hermitian=hermitian or None)
    return linalg.svd(floating(a), full_matrices, compute_uv)


def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, the largest first."""
    return linalg.svdvals(floating(x))


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The pseudo-inverse: that of Moore and Penrose."""
    if given(rcond) and given(rtol):
        raise ArgumentError("pinv: rcond and rtol are given, which are the same; write one of them")
    return linalg.pinv(floating(a), rtol if given(rtol) else rcond, hermitian)


def solve(a: Any, b: Any) -> Any:
    """The x with a @ x == b; a b of one axis is a vector, others are matrices."""
    x, y = floating(a), floating(b)
    if 1 < y.ndim < x.ndim:
        y = ops.unsqueeze(y, list(range(x.ndim - y.ndim)))
    return linalg.solve(x, y)


def inv(a: Any) -> Any:
    """The inverse of matrices."""
    return linalg.inv(floating(a))


def det(a: Any) -> Any:
    """The determinant of matrices."""
    return linalg.det(floating(a))


def slogdet(a: Any) -> Any:
    """The sign and the logarithm of the absolute value of the determinant."""
    return linalg.slogdet(floating(a))


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular L with a == L @ L^H, or with ``upper`` U with a == U^H @ U."""
    return linalg.cholesky(floating(a), upper=upper)


def matrix_power(a: Any, n: int) -> Any:
    """The n-th power of square matrices; of the inverse where n is negative."""
    x = tensor(a)
    if dt.is_differentiable(x.dtype) or n < 0:
        return linalg.matrix_power(x, n)
    found = linalg.matrix_power(x, 0).astype(x.dtype)  # refuses what is not square
    while n:  # of ints the product is exact, of bools it is `or` of `and`
        if n & 1:
            found = ops.matmul(found, x).astype(x.dtype)
        n >>= 1
        x = ops.matmul(x, x).astype(x.dtype) if n else x
    return found


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of several matrices, in the order that takes the least work."""
    refuse(out=out)
    factors = [tensor(a) for a in arrays]
    return of_truths(linalg.multi_dot(factors), *factors)


# -- np.fft --------------------------------------------------------------------------------------
def _transform(function: Function) -> Function:
    def transform(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        refuse(out=out)
        return function(floating(a), n, axis, norm)

    return titled(transform, function.__name__, _first_of(function))


def _transform_n(function: Function, axes: Any = None) -> Function:
    default = axes

    def transform(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None
    ) -> Any:
        refuse(out=out)
        x = floating(a)
        return function(x, _own_sizes(x, s, axes), axes, norm)

    return titled(transform, function.__name__, _first_of(function))


def _own_sizes(x: Any, s: Any, axes: Any) -> Any:
    """The sizes that are transformed, with that of x where -1 stands."""
    if not isinstance(s, Sequence) or -1 not in s:
        return s
    over = range(-len(s), 0) if axes is None else axes
    return [x.shape[axis] if size == -1 else size for size, axis in zip(s, over)]


def _shift(function: Function) -> Function:
    def shift(x: Any, axes: Any = None) -> Any:
        return function(tensor(x), axes)

    return titled(shift, function.__name__, _first_of(function))


LINALG: dict[str, Function] = {
    "svdvals": svdvals,
    "norm": norm, "solve": solve, "inv": inv, "det": det, "slogdet": slogdet,
    "cholesky": cholesky, "matrix_power": matrix_power, "multi_dot": multi_dot,
    "matrix_transpose": matrix_transpose, "svd": svd, "pinv": pinv,
    "qr": qr, "eigh": eigh, "eigvalsh": eigvalsh, "matrix_rank": matrix_rank, "cond": cond,
    "lstsq": lstsq, "vector_norm": vector_norm, "matrix_norm": matrix_norm,
    "cross": vector_product, "trace": matrix_trace, "diagonal": matrix_diagonal,
    "matmul": matmul, "vecdot": matrix_vecdot, "tensorsolve": tensorsolve, "tensorinv": tensorinv,
    "outer": vector_outer, "tensordot": tensordot,
    **{n: _of_floats(getattr(linalg, n)) for n in ("eig", "eigvals")},
}  # fmt: skip
FFT: dict[str, Function] = {
    **{n: _transform(getattr(fft, n)) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{n: _transform_n(getattr(fft, n)) for n in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{n: _transform_n(getattr(fft, n), (-2, -1)) for n in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{n: _shift(getattr(fft, n)) for n in ("fftshift", "ifftshift")},
}
