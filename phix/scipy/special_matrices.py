"""Matrices that a few numbers make: what ``phix.scipy.linalg`` has of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, ShapeError
from phix.core.expectations import expect, expect_dims
from phix.core.given import NONE, at_least, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg.arguments import floating, tensor

_COUNT = {"n": at_least(0)}


def _vectors(x: Any, name: str) -> Any:
    """A tensor [..., n] of any dtype, n being above 0."""
    found = tensor(x)
    refusal = f"{name} must be a vector [..., n], n above 0, found {found.meta}"
    return expect(found, refusal, (found.shape[-1] if found.ndim else 0) - 1)


def _vector(x: Any, name: str) -> Any:
    found = floating(_vectors(x, name))
    if found.ndim != 1:
        raise ShapeError(f"{name} must be a vector [n], found {found.meta}; use vmap for several")
    return found


def _positions(rows: Any, columns: Any, sign: int) -> Any:
    """j + sign i for row i and column j."""
    i, j = ops.arange(0, rows, 1, "int64"), ops.arange(0, columns, 1, "int64")
    return ops.unsqueeze(j, [0]) + sign * ops.unsqueeze(i, [1])


def _made(values: Any) -> Tensor:
    """A matrix of numbers in the default float."""
    return owned_tensor(np.asarray(values, np.float64)).astype(dt.default_float())


# -- along diagonals ------------------------------------------------------------------------------
@takes()
def toeplitz(c: TensorLike, r: TensorLike | None = None) -> Tensor:
    """The matrix that is constant along diagonals: element (i, j) is c[i - j], or r[j - i].

    Args:
        c: the first column [..., m].
        r: the first row [..., n], of which r[0] is not looked at; by default the conjugate of c.

    Returns:
        [..., m, n].

    Raises:
        ShapeError: c or r is no vector.

    >>> import phix
    >>> phix.scipy.linalg.toeplitz([1, 2, 3], [1, 4]).tolist()
    [[1, 4], [2, 1], [3, 2]]
    """
    column = _vectors(c, "c")
    row = (ops.conj(column) if dt.is_complex(column.dtype) else column) if r is None else r
    row = _vectors(row, "r")
    m, n = column.shape[-1], row.shape[-1]
    both = ops.concat(_side_by_side(ops.flip(column, [-1]), row[..., 1:]), -1)
    return _gathered(both, _positions(m, n, -1) + (m - 1))


def _side_by_side(*parts: Any) -> list[Any]:
    """Tensors of one dtype, and of the same axes in front of the last."""
    dtype = parts[0].dtype
    for part in parts:
        dtype = dt.promote(dtype, part.dtype)
    lead = np.broadcast_shapes(*(p.shape[:-1] for p in parts)) if parts[0].ndim > 1 else ()
    return [ops.expand(ops.cast(p, dtype), [*lead, p.shape[-1]]) for p in parts]


def _gathered(values: Any, positions: Any) -> Tensor:
    """The values along the last axis at a matrix of positions."""
    flat = ops.gather(values, ops.reshape(positions, [-1]), values.ndim - 1)
    return ops.reshape(flat, [*values.shape[:-1], *positions.shape])


@takes()
def hankel(c: TensorLike, r: TensorLike | None = None) -> Tensor:
    """The matrix that is constant along antidiagonals: element (i, j) is c[i + j], then r goes on.

    Args:
        c: the first column [..., m].
        r: the last row [..., n], of which r[0] is not looked at; by default zeros, as many as c.

    Returns:
        [..., m, n].

    Raises:
        ShapeError: c or r is no vector.

    >>> import phix
    >>> phix.scipy.linalg.hankel([1, 2], [9, 3, 4]).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    column = _vectors(c, "c")
    row = ops.zeros_like(column) if r is None else _vectors(r, "r")
    both = ops.concat(_side_by_side(column, row[..., 1:]), -1)
    return _gathered(both, _positions(column.shape[-1], row.shape[-1], 1))


@takes()
def circulant(c: TensorLike) -> Tensor:
    """The matrix with the first column c, each column being that before, one further down.

    Args:
        c: [..., n].

    Returns:
        [..., n, n].

    Raises:
        ShapeError: c is no vector.

    >>> import phix
    >>> phix.scipy.linalg.circulant([1, 2, 3]).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    column = _vectors(c, "c")
    n = column.shape[-1]
    return _gathered(column, ops.remainder(-_positions(n, n, -1), n))


@takes(n=at_least(1), mode=one_of("full", "same", "valid"))
def convolution_matrix(a: TensorLike, n: int, mode: str = "full") -> Tensor:
    """The matrix A with A @ v = convolve(a, v, mode) for vectors v of n numbers.

    Args:
        a: a vector [m].
        n: the length of v.
        mode: "full": m + n - 1 rows; "same": max(m, n); "valid": max(m, n) - min(m, n) + 1.

    Raises:
        ShapeError: a is no vector.

    >>> import phix
    >>> phix.scipy.linalg.convolution_matrix([1, 2], 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    values = _vectors(a, "a")
    if values.ndim != 1:
        raise ShapeError(f"a must be a vector [m], found {values.meta}; use vmap for several")
    (m,) = values.shape
    zeros = ops.zeros([n - 1], values.dtype)
    full = toeplitz(ops.concat([values, zeros], 0), ops.concat([values[:1], zeros], 0))
    if mode == "full":
        return full
    if not isinstance(m, int):
        raise ShapeError(f"convolution_matrix: mode {mode!r} takes a known length, found {m}")
    first = (min(m, n) - 1) // 2 if mode == "same" else min(m, n) - 1
    return full[first : first + (max(m, n) if mode == "same" else max(m, n) - min(m, n) + 1)]


@takes()
def block_diag(*arrs: TensorLike) -> Tensor:
    """The matrix with these matrices along the diagonal, and zeros beside.

    Args:
        *arrs: matrices [m, n]; a vector is a row, a number [1, 1].

    Raises:
        ShapeError: one has more than two axes.

    >>> import phix
    >>> phix.scipy.linalg.block_diag([[1.0]], [[2.0, 3.0]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 2.0, 3.0]]
    """
    parts = [_matrix(a) for a in arrs] or [ops.zeros([1, 0], dt.default_float())]
    dtype = parts[0].dtype
    for part in parts:
        dtype = dt.promote(dtype, part.dtype)
    width = sum(p.shape[1] for p in parts)
    rows, before = [], 0
    for part in parts:
        after = width - before - part.shape[1]
        rows.append(ops.pad(ops.cast(part, dtype), [0, 0, before, after], 0))
        before = before + part.shape[1]
    return ops.concat(rows, 0)


def _matrix(a: Any) -> Any:
    found = tensor(a)
    if found.ndim > 2:
        raise ShapeError(f"block_diag takes matrices, vectors and numbers, found {found.meta}")
    return ops.reshape(found, [*[1] * (2 - found.ndim), *found.shape])


# -- of polynomials, populations, distances -------------------------------------------------------
@takes()
def companion(a: TensorLike) -> Tensor:
    """The matrix [n, n] whose eigenvalues are the roots of a[0] x^n + ... + a[n].

    Args:
        a: coefficients [n + 1], the highest power first; a[0] is not 0.

    Raises:
        ShapeError: a is no vector of two numbers or more.

    >>> import phix
    >>> phix.scipy.linalg.companion([1.0, -10.0, 31.0, -30.0]).tolist()
    [[10.0, -31.0, 30.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    values = _coefficients(a)
    return _below(-values[1:] / values[0], ops.ones([values.shape[0] - 2], values.dtype))


def _coefficients(a: TensorLike) -> Any:
    values = _vector(a, "a")
    n = values.shape[0]
    if isinstance(n, int) and n < 2:
        raise ShapeError(f"a must have two coefficients or more, found {values.meta}")
    return values


@takes()
def fiedler_companion(a: TensorLike) -> Tensor:
    """The matrix [n, n] with five diagonals whose eigenvalues are the roots of
    a[0] x^n + ... + a[n].

    Source: M. Fiedler, "A note on companion matrices".

    Args:
        a: coefficients [n + 1], the highest power first; a[0] is not 0.

    Raises:
        ShapeError: a is no vector of two numbers or more.

    >>> import phix
    >>> phix.scipy.linalg.fiedler_companion([1.0, -10.0, 31.0, -30.0]).tolist()
    [[10.0, -31.0, 1.0], [1.0, 0.0, 0.0], [0.0, 30.0, 0.0]]
    """
    values = _coefficients(a)
    rest = -values[1:] / values[0]
    n = rest.shape[0]
    row, column = (ops.unsqueeze(ops.arange(0, n, 1, dt.int64), [at]) for at in (1, 0))
    is_even, step = ops.remainder(row, 2) == 0, column - row
    # even rows have coefficients on both sides of the diagonal, but for the first one
    has_own = ops.where(row == 0, (step == 0) | (step == 1), is_even & (ops.abs(step) == 1))
    own = ops.where(row == 0, column, row + ops.where(step == 1, 1, 0))
    has_one = ops.where(is_even, step == 2, step == -2) | ((row == 1) & (column == 0))
    found = ops.gather(rest, ops.reshape(ops.minimum(own, n - 1), [-1]), 0)
    whole = ops.where(has_own, ops.reshape(found, own.shape), 0)
    return ops.where(has_one, ops.full([], 1, rest.dtype), whole)


def _below(row: Any, diagonal: Any) -> Tensor:
    """The square matrix with a first row, and a diagonal below the main one."""
    return ops.concat([ops.unsqueeze(row, [0]), ops.diag(diagonal, -1)[1:]], 0)


@takes()
def leslie(f: TensorLike, s: TensorLike) -> Tensor:
    """The matrix [n, n] of a population by ages: f in the first row, s below the diagonal.

    Args:
        f: fecundities [n].
        s: shares that survive [n - 1].

    Raises:
        ShapeError: they are no such vectors.

    >>> import phix
    >>> phix.scipy.linalg.leslie([0.1, 2.0], [0.5]).tolist()[1]
    [0.5, 0.0]
    """
    births, survivals = _vector(f, "f"), floating(s)
    refusal = f"leslie takes f [n] and s [n - 1], found {births.meta}, {survivals.meta}"
    survivals = expect_dims(survivals, refusal, (births.meta.dims[0] - 1,))
    dtype = dt.promote(births.dtype, survivals.dtype)
    return _below(ops.cast(births, dtype), ops.cast(survivals, dtype))


@takes()
def fiedler(a: TensorLike) -> Tensor:
    """The distances abs(a[i] - a[j]) of numbers: [..., n, n].

    Args:
        a: [..., n].

    Raises:
        ShapeError: a is no vector.

    >>> import phix
    >>> phix.scipy.linalg.fiedler([1.0, 4.0]).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    values = _vectors(a, "a")
    return ops.abs(ops.unsqueeze(values, [-1]) - ops.unsqueeze(values, [-2]))


# -- of a size alone ------------------------------------------------------------------------------
@takes(n=at_least(0), scale=one_of("sqrtn", "n") | NONE)
def dft(n: int, scale: str | None = None) -> Tensor:
    """The matrix of the Fourier transform: element (j, k) is exp(-2 pi i j k / n).

    Args:
        n: its size.
        scale: divide by sqrt(n), "sqrtn", or n, "n".

    Returns:
        [n, n], complex, of the default float.

    >>> import phix
    >>> phix.scipy.linalg.dft(2).real.tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    turns = (np.outer(np.arange(n), np.arange(n)) % max(n, 1)) / max(n, 1)
    size = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale] or 1.0
    found = np.exp(-2j * np.pi * turns) / size
    is_double = dt.default_float() == dt.float64
    return owned_tensor(found).astype("complex128" if is_double else "complex64")


@takes(n=at_least(1))
def hadamard(n: int) -> Tensor:
    """Sylvester's matrix [n, n] of 1 and -1 with rows at right angles, in the default float.

    Raises:
        ArgumentError: n is no power of 2.

    >>> import phix
    >>> phix.scipy.linalg.hadamard(2).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    if n & (n - 1):
        raise ArgumentError(f"hadamard: n must be a power of 2, found {n}")
    found = np.ones((1, 1))
    while len(found) < n:
        found = np.block([[found, found], [found, -found]])
    return _made(found)


@takes(n=at_least(1))
def helmert(n: int, full: bool = False) -> Tensor:
    """Helmert's matrix: row k is at right angles to ones, and compares number k with those before.

    Args:
        n: its columns.
        full: with the row of ones, divided by sqrt(n), in front.

    Returns:
        [n - 1, n], or [n, n], in the default float.

    >>> import phix
    >>> [round(v, 3) for v in phix.scipy.linalg.helmert(2)[0].tolist()]
    [0.707, -0.707]
    """
    found = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n, dtype=float))
    found[0] = 1.0
    found /= np.sqrt((found**2).sum(1, keepdims=True))
    return _made(found if full else found[1:])


@takes(**_COUNT)
def hilbert(n: int) -> Tensor:
    """Hilbert's matrix [n, n], 1 / (i + j + 1), in the default float.

    >>> import phix
    >>> phix.scipy.linalg.hilbert(2).tolist()[1][0]
    0.5
    """
    return _made(1.0 / (np.arange(n)[:, None] + np.arange(n) + 1.0))


@takes(**_COUNT)
def invhilbert(n: int) -> Tensor:
    """The inverse of Hilbert's matrix [n, n], whose elements are whole, in the default float.

    >>> import phix
    >>> phix.scipy.linalg.invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """

    def element(i: int, j: int) -> int:
        binomials = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
        return (-1) ** (i + j) * (i + j + 1) * binomials * math.comb(i + j, i) ** 2

    return _made([[element(i, j) for j in range(n)] for i in range(n)] or np.zeros((0, 0)))


@takes(n=at_least(0), kind=one_of("symmetric", "lower", "upper"))
def pascal(n: int, kind: str = "symmetric") -> Tensor:
    """Pascal's triangle as a matrix [n, n], in the default float.

    Args:
        n: its size.
        kind: "lower": binomials (i over j); "upper": its transpose; "symmetric": their product.

    >>> import phix
    >>> phix.scipy.linalg.pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    return _made(_binomials(n, kind, 1))


@takes(n=at_least(0), kind=one_of("symmetric", "lower", "upper"))
def invpascal(n: int, kind: str = "symmetric") -> Tensor:
    """The inverse of :func:`pascal`, in the default float.

    >>> import phix
    >>> phix.scipy.linalg.invpascal(2, "lower").tolist()
    [[1.0, 0.0], [-1.0, 1.0]]
    """
    return _made(_binomials(n, kind, -1))


def _binomials(n: int, kind: str, sign: int) -> Any:
    """The triangle, or its inverse, which has the same numbers with signs."""
    lower = np.array(
        [[sign ** (i + j) * math.comb(i, j) for j in range(n)] for i in range(n)], object
    ).reshape(n, n)
    if kind == "symmetric":
        return lower @ lower.T if sign == 1 else lower.T @ lower
    return lower if kind == "lower" else lower.T
