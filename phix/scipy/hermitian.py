"""Eigenvalues of Hermitian matrices under SciPy's names: what ``phix.scipy.linalg`` has of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.given import FLAG, between, takes
from phix.core.tensor import TensorLike
from phix.linalg.arguments import floating
from phix.scipy.matrix_systems import IGNORED, adjoint, alike, from_triangle, square


def _bounds(name: str, given: Any, kinds: tuple[type, ...], says: str) -> tuple[Any, Any]:
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    if not is_pair or not all(isinstance(v, kinds) for v in given):
        raise ArgumentError(f"{name} is two {says}, found {given!r:.80}")
    return given[0], given[1]


def _by_index(bounds: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """The eigenvalues of numbers from the first of the bounds up to the second, and what is with
    them."""
    size = w.meta.dims[-1]
    first, last = map(int, _bounds("subset_by_index", bounds, (int, np.integer), "ints"))
    if not isinstance(size, int) or not 0 <= first <= last < size:
        raise AttributeValueError(f"subset_by_index is (low, high), 0 <= low <= high < {size}, "
                                  f"found {bounds!r:.80}")  # fmt: skip
    return w[..., first : last + 1], v[..., first : last + 1]


def _by_value(bounds: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """The eigenvalues above the first of the bounds and not above the second."""
    kinds = (int, float, np.integer, np.floating)
    low, high = _bounds("subset_by_value", bounds, kinds, "numbers")
    if not low < high:
        raise AttributeValueError(
            f"subset_by_value is (low, high), low below high, found {bounds!r:.80}"
        )
    if w.ndim > 1:
        raise ShapeError(
            f"subset_by_value takes one matrix [n, n], as each has as many eigenvalues there as it "
            f"has, found a batch, eigenvalues {w.meta}; give the matrices one after the other"
        )
    chosen = (w > float(low)) & (w <= float(high))
    return w[chosen], v[:, chosen]


def _factored(matrix: Any, metric: Any, kind: int) -> tuple[Any, Callable[[Any], Any]]:
    """A Hermitian matrix with the eigenvalues of two, and what makes their vectors of its own. For
    the lower factor L of the metric they are those of L^-1 a L^-H, else of L^H a L."""
    factor = ops.cholesky(metric, False)

    def back(v: Any) -> Any:
        return ops.triangular_solve(adjoint(factor), v, True, False, False)

    if kind != 1:
        inner = ops.matmul(ops.matmul(adjoint(factor), matrix), factor)
        return inner, back if kind == 2 else lambda v: ops.matmul(factor, v)
    half = ops.triangular_solve(factor, matrix, False, False, False)
    return ops.triangular_solve(factor, adjoint(half), False, False, False), back


@takes(lower=FLAG, eigvals_only=FLAG, type=between(1, 3), **IGNORED)
def eigh(
    a: TensorLike,
    b: TensorLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    subset_by_index: Any = None,
    *,
    type: int = 1,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """The eigenvalues w, ascending, and eigenvectors v of a v = b v diag(w), with v^H b v = I.

    Args:
        a: Hermitian [..., n, n].
        b: positive definite [..., n, n]; without it, the identity.
        lower: which triangle of a, and of b, is read.
        eigvals_only: give w alone.
        overwrite_a, overwrite_b, check_finite, driver: without effect.
        subset_by_index: (low, high): give the eigenvalues of these numbers and those between. All
            are computed.
        type: 2: of a b v = v diag(w), with v^H b v = I; 3: of b a v = v diag(w), with
            v^H b^-1 v = I.
        subset_by_value: (low, high): give the eigenvalues above low and not above high, of one
            matrix; all are computed. How many there are depends on the numbers, in ``jit`` too.

    Raises:
        ArgumentError: subset_by_index is no pair of ints, subset_by_value no pair of numbers, or
            both are given.
        AttributeValueError: one of them is out of range.
        ShapeError: a or b does not hold square matrices, or subset_by_value is given for a batch.

    >>> import phix
    >>> phix.scipy.linalg.eigh([[2.0, 1.0], [1.0, 2.0]], eigvals_only=True).tolist()
    [1.0, 3.0]
    """
    if subset_by_index is not None and subset_by_value is not None:
        raise ArgumentError(
            "eigh takes subset_by_index or subset_by_value, found both; leave one out"
        )
    matrix, uplo = square(a, "a"), "L" if lower else "U"
    back: Callable[[Any], Any] = lambda v: v  # noqa: E731
    if b is not None:
        matrix, metric = alike(matrix, square(b, "b"))
        hermitian, metric = from_triangle(matrix, lower), from_triangle(metric, lower)
        (matrix, back), uplo = _factored(hermitian, metric, type), "L"
    w, v = ops.eigh(matrix, uplo)
    if subset_by_index is not None:
        w, v = _by_index(subset_by_index, w, v)
    if subset_by_value is not None:
        w, v = _by_value(subset_by_value, w, v)
    return w if eigvals_only else (w, back(v))


@takes(eigvals_only=FLAG)
def eigh_tridiagonal(d: TensorLike, e: TensorLike, eigvals_only: bool = False) -> Any:
    """The eigenvalues, ascending, and eigenvectors of a symmetric tridiagonal matrix.

    The matrix is made: n^2 numbers, n^3 steps.

    Args:
        d: the diagonal [n], real.
        e: the diagonals beside it [n - 1], real.
        eigvals_only: give the eigenvalues alone.

    Raises:
        ShapeError: d or e is no vector, or e has not one number less than d.

    >>> import phix
    >>> phix.scipy.linalg.eigh_tridiagonal([2.0, 2.0], [1.0], eigvals_only=True).tolist()
    [1.0, 3.0]
    """
    main, beside = alike(floating(d), floating(e))
    refusal = f"eigh_tridiagonal takes d [n] and e [n - 1], found {main.meta} and {beside.meta}"
    if main.ndim != 1:
        raise ShapeError(refusal)
    beside = expect_dims(beside, refusal, (main.meta.dims[0] - 1,))
    # one triangle is read, but the slopes of eigh are those of a number that stands in both
    matrix = ops.diag(main) + ops.diag(beside, -1) + ops.diag(beside, 1)
    w, v = ops.eigh(matrix, "L")
    return w if eigvals_only else (w, v)
