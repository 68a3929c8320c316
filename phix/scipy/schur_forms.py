"""Schur factors under SciPy's names, and functions of matrices by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.api.control_flow import fori_loop
from phix.api.custom import custom_jvp, stop_gradient
from phix.api.implicit import custom_linear_solve
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError
from phix.core.expectations import expect_dims
from phix.core.given import FLAG, FUNCTION, one_of, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.scipy.matrix_systems import adjoint, alike, of_each, square
from phix.scipy.smoothness import like


# -- factors --------------------------------------------------------------------------------------
@custom_jvp
def factors(a: Any) -> Any:
    """T and Z."""
    return tuple(ops.schur(a))


@factors.defjvp
def _(primals: Any, tangents: Any) -> Any:
    found = factors(*primals)
    if any(map(dm.is_zero, found[0].meta.dims)):
        return found, tangents * 2
    return found, of_each(_tangents, *found, tangents[0])


def _tangents(t: Any, z: Any, way: Any) -> tuple[Any, Any]:
    """How the factors move: with Z the skew X = Z^H dZ, that is 0 on the diagonal, for which
    M = Z^H dA Z = dT + X T - T X has no part below it that is not that of X T - T X."""
    turned_way = ops.matmul(ops.matmul(adjoint(z), way), z)

    def apply(x: Any) -> Any:
        low = ops.tril(x, -1)
        return ops.tril(ops.matmul(low, t) - ops.matmul(t, low), -1) + ops.triu(x)

    low = custom_linear_solve(
        apply, ops.tril(turned_way, -1), lambda _, g: _solved(t, g), lambda _, g: _solved_back(t, g)
    )
    if not dt.is_complex(t.dtype):  # where blocks are on the diagonal there is more to solve
        is_bare = ops.all(ops.diagonal(t, -1) == 0)
        low = ops.where(is_bare, low, float("nan"))
    turn = low - adjoint(low)
    inner = turned_way - ops.matmul(turn, t) + ops.matmul(t, turn)
    return ops.triu(inner), ops.matmul(z, turn)


def _solved(t: Any, g: Any) -> Any:
    """The x below the diagonal with x t - t x = g there, from the first column to the last."""
    n = t.shape[0]
    places, eye = ops.arange(0, n, 1, dt.int64), ops.eye(n, n, t.dtype)

    def step(k: Any, x: Any) -> Any:
        below = places > k
        right = ops.where(below, g[:, k] - ops.matmul(x, t[:, k]), 0.0)
        left = ops.where(ops.unsqueeze(below, [1]), t[k, k] * eye - t, eye)
        column = ops.triangular_solve(left, ops.unsqueeze(right, [1]), True, False, False)
        return x.at[:, k].set(column[:, 0])

    return ops.triu(g) + fori_loop(0, n, step, ops.zeros_like(g))


def _solved_back(t: Any, g: Any) -> Any:
    """The same for t^H, from the last column to the first."""
    n, turned = t.shape[0], adjoint(t)
    places, eye = ops.arange(0, n, 1, dt.int64), ops.eye(n, n, t.dtype)

    def step(i: Any, x: Any) -> Any:
        k = n - 1 - i
        below = places > k
        right = ops.where(below, g[:, k] - ops.matmul(x, turned[:, k]), 0.0)
        both = ops.unsqueeze(below, [1]) & ops.unsqueeze(below, [0])
        left = ops.where(both, turned[k, k] * eye - turned, eye)
        column = ops.triangular_solve(left, ops.unsqueeze(right, [1]), False, False, False)
        return x.at[:, k].set(column[:, 0])

    return ops.triu(g) + fori_loop(0, n, step, ops.zeros_like(g))


@takes(output=one_of("real", "complex", "r", "c"), overwrite_a=FLAG, check_finite=FLAG)
def schur(
    a: TensorLike, output: str = "real", lwork: Any = None, overwrite_a: bool = False,
    sort: None = None, check_finite: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The factors T and Z of a = Z T Z^H: Z is unitary, and T an upper triangle with the
    eigenvalues of a on its diagonal.

    Of a real matrix T is real, and nearly a triangle: each two complex eigenvalues, which are
    conjugate, make a block of 2 by 2 on the diagonal. A LAPACK computes them, on the CPU.

    Args:
        a: [..., n, n].
        output: "complex" or "c": factors that are complex, of a real matrix too.
        lwork, overwrite_a, check_finite: without effect.
        sort: an order of the eigenvalues, which is not there.

    Returns:
        T and Z [..., n, n], of the dtype of a or the complex one of its digits; NaN where a is not
        finite. Derivatives of any order are those at which the diagonal of Z^H dZ is 0, as the
        phases of Z are free; they are NaN where eigenvalues are equal, and where T has blocks, for
        which "complex" has some.

    Raises:
        ArgumentError: sort is asked for.
        ShapeError: a does not hold square matrices.

    >>> import phix
    >>> t, z = phix.scipy.linalg.schur([[2.0, 1.0], [1.0, 2.0]])
    >>> t.round(decimals=4).tolist()
    [[3.0, 0.0], [0.0, 1.0]]
    """
    if sort is not None:
        raise ArgumentError(
            f"schur: sort asks for an order of the eigenvalues, which is not there, found "
            f"{sort!r:.80}; leave it out"
        )
    matrix = square(a, "a")
    found: Any = factors(_complex(matrix) if output in ("complex", "c") else matrix)
    return found


def _complex(a: Any) -> Any:
    return ops.cast(a, dt.complex_dtype(a.dtype))


@takes(check_finite=FLAG)
def rsf2csf(T: TensorLike, Z: TensorLike, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Complex Schur factors of real ones: T becomes a triangle.

    Each block of 2 by 2 is turned, from the last to the first, so that its eigenvector for the
    eigenvalue with the larger imaginary part is the first axis (G. Golub and C. Van Loan, "Matrix
    Computations", 7.4).

    Args:
        T, Z: [..., n, n], as :func:`schur` gives them.
        check_finite: without effect.

    Returns:
        T and Z, complex: Z T Z^H is what it was.

    Raises:
        ShapeError: T or Z does not hold square matrices, or Z has other dims than T.

    >>> import phix
    >>> t, z = phix.scipy.linalg.rsf2csf([[0.0, 1.0], [-1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> phix.ops.diagonal(t).imag.round(decimals=3).tolist()
    [1.0, -1.0]
    """
    t, z = alike(square(T, "T"), square(Z, "Z"))
    refusal = f"rsf2csf: T and Z must have the same dims, found {t.meta} and {z.meta}"
    t, z = _complex(t), _complex(expect_dims(z, refusal, t.meta.dims))
    return of_each(_triangle, t, z)


def _triangle(t: Any, z: Any) -> Any:
    n = t.shape[0]
    eps = float(np.finfo(t.dtype).eps)

    def step(k: Any, carry: Any) -> Any:
        t, z = carry
        at = n - 1 - k
        (a, b), (c, d) = ([t[i, j] for j in (at - 1, at)] for i in (at - 1, at))
        half = (a - d) / 2.0
        root = ops.sqrt(half * half + b * c)
        root = ops.where(ops.imag(root) < 0.0, -root, root)
        # (first, c) is the vector of the eigenvalue; where c is 0 but for rounding, the axis is one
        is_bare = ops.abs(c) <= eps * (ops.abs(a) + ops.abs(d))
        first, second = ops.where(is_bare, 1.0, half + root), ops.where(is_bare, 0.0, c)
        size = ops.sqrt(_square(first) + _square(second))
        v = first / ops.cast(size, t.dtype), second / ops.cast(size, t.dtype)
        t, z = _turned(t, at, v), _turned(z, at, v)
        t = adjoint(_turned(adjoint(t), at, v))
        return t.at[at, at - 1].set(0.0), z

    return fori_loop(0, n - 1, step, (t, z)) if _may_turn(n) else (t, z)


def _may_turn(n: Any) -> bool:
    return not isinstance(n, int) or n > 1


def _square(x: Any) -> Any:
    return ops.square(ops.real(x)) + ops.square(ops.imag(x))


def _turned(x: Any, at: Any, v: tuple[Any, Any]) -> Any:
    """x times the unitary matrix whose columns before and at a place have the first axis v."""
    (p, q), left, right = v, x[:, at - 1], x[:, at]
    x = x.at[:, at - 1].set(left * p + right * q)
    return x.at[:, at].set(right * ops.conj(p) - left * ops.conj(q))


# -- functions ------------------------------------------------------------------------------------
@takes(func=FUNCTION, disp=FLAG)
def funm(A: TensorLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of numbers, of a matrix: V diag(func(w)) V^-1 where A = V diag(w) V^-1.

    By complex Schur factors A = Z T Z^H and F T = T F for F = func(T), column after column (B.
    Parlett, "A recurrence among the elements of functions of triangular matrices", 1976). Digits
    are lost where eigenvalues lie close together and their vectors do not lie apart; where two are
    equal and their vectors are tied, what func gives of them does not tell F, which is NaN:
    ``expm`` and ``sqrtm`` are right there. Derivatives, of any order, are those by eigenvectors
    and the slopes of func: NaN where A has no n independent ones, or equal eigenvalues.

    Args:
        A: [..., n, n].
        func: of a vector of the eigenvalues, complex numbers [n], to their values [n].
        disp: if False, give how far F may be off, too.

    Returns:
        F [..., n, n], complex, of a real matrix too: write ``.real`` where it is known to be; with
        an estimate of its relative error in the 1-norm, [...], if ``disp`` is False.

    Raises:
        ShapeError: A does not hold square matrices, or func gives another shape.

    >>> import phix
    >>> f = phix.scipy.linalg.funm([[1.0, 3.0], [1.0, 4.0]], lambda w: w * w)
    >>> f.real.round(decimals=3).tolist()
    [[4.0, 15.0], [5.0, 19.0]]
    """
    matrix = _complex(square(A, "A"))

    def values(w: Any) -> Any:
        found = func(w)
        found = found if isinstance(found, TensorBase) else owned_tensor(found)
        refusal = f"funm: func must give a number for each of {w.meta}, found {found.meta}"
        return ops.cast(expect_dims(found, refusal, w.meta.dims), w.dtype)

    if any(map(dm.is_zero, matrix.meta.dims)):
        return matrix if disp else (matrix, ops.real(ops.sum(matrix, [-2, -1])))
    found, error = of_each(lambda a: _by_columns(values, a), stop_gradient(matrix))
    found = like(found, of_each(lambda a: _by_vectors(values, a), matrix))
    return found if disp else (found, error)


def _by_vectors(values: Callable[[Any], Any], a: Any) -> Any:
    w, v = ops.eig(a)
    scaled = v * ops.unsqueeze(values(w), [0])
    return adjoint(ops.solve(adjoint(v), adjoint(scaled)))


def _by_columns(values: Callable[[Any], Any], a: Any) -> tuple[Any, Any]:
    t, z = ops.schur(a)
    w = ops.diagonal(t)
    n, f = t.shape[0], values(w)
    places = ops.arange(0, n, 1, dt.int64)
    eps = float(np.finfo(t.dtype).eps)
    strict = ops.triu(t, 1)
    sizes = ops.abs(strict)
    # elements that are more than rounding tie eigenvalues, and so do several of them in a row
    ties = ops.cast(sizes > eps * ops.sum(sizes), sizes.dtype)

    def step(k: Any, carry: Any) -> Any:
        found, tied = carry
        before = places < k
        apart = w - w[k]
        is_equal = before & (apart == 0)
        columns = ops.where(ops.unsqueeze(before, [0]), strict, 0.0)
        left = columns + ops.diag(ops.where(before & ~is_equal, apart, 1.0))
        column = ops.where(before, t[:, k], 0.0)
        right = ops.matmul(found, column) - f[k] * column
        solved = ops.triangular_solve(left, ops.unsqueeze(right, [1]), True, False, False)[:, 0]
        ends = ops.sign(ops.matmul(tied, ties[:, k]) + ties[:, k])
        solved = ops.where(is_equal & (ends > 0), float("nan"), solved)
        found = found.at[:, k].add(ops.where(before, solved, 0.0))
        return found, tied.at[:, k].set(ends)

    found, _ = fori_loop(0, n, step, (ops.diag(f), ops.zeros_like(ties)))
    return ops.matmul(ops.matmul(z, found), adjoint(z)), _error(sizes, w, eps)


def _error(sizes: Any, w: Any, eps: float) -> Any:
    """How far off F may be: by what it is divided by, the least difference of eigenvalues."""
    inf, real = float("inf"), sizes.dtype
    nothing = ops.full((1,), 0.0, real)
    apart = ops.abs(ops.unsqueeze(w, [1]) - ops.unsqueeze(w, [0]))
    apart = apart + ops.diag(ops.full((w.shape[0],), inf, real))
    least = ops.min(ops.concat([ops.reshape(apart, (-1,)), nothing + inf], 0))
    most = ops.max(ops.concat([ops.sum(sizes, [0]), nothing], 0))
    error = ops.where(most == 0, 0.0, eps * most / least)
    return ops.clip(error, eps, 1.0)
