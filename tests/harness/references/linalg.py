"""Factors of matrices, and what solves with them."""

from __future__ import annotations

import itertools

import numpy as np


def ct(x: np.ndarray) -> np.ndarray:
    """The conjugate transposes of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def cholesky(x: np.ndarray, upper: bool) -> np.ndarray:
    """The Cholesky factor of the Hermitian part."""
    lower = np.linalg.cholesky((x + ct(x)) / 2)
    return ct(lower) if upper else lower


def triangular_solve(
    x: np.ndarray, y: np.ndarray, upper: bool, transpose: bool, unitriangular: bool
) -> np.ndarray:
    """A general solution with the triangle alone."""
    triangle = np.triu(x) if upper else np.tril(x)
    if unitriangular:
        diagonal = np.arange(x.shape[-1])
        triangle[..., diagonal, diagonal] = 1
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if transpose else triangle, y)


def solved(x: np.ndarray, y: np.ndarray, transpose: bool) -> np.ndarray:
    """The solutions of systems: of vectors where y has the dims of x but for the last."""
    x = np.swapaxes(x, -1, -2) if transpose else x
    if y.ndim > 1 and y.shape == x.shape[:-1]:
        return np.linalg.solve(x, y[..., None])[..., 0]
    return np.linalg.solve(x, y)


def lu(x: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian elimination, row by row, with the largest element of the column as pivot."""
    out = np.array(x)
    steps = min(x.shape[-2:])
    pivots = np.broadcast_to(np.arange(1, steps + 1, dtype=np.int32), (*x.shape[:-2], steps)).copy()
    infos = np.zeros(x.shape[:-2], np.int32)
    for at in np.ndindex(*x.shape[:-2]):
        a = out[at]
        for k in range(steps):
            if pivot:
                largest = k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)))
                a[[k, largest]] = a[[largest, k]]
                pivots[at][k] = largest + 1
            if a[k, k] == 0:
                infos[at] = infos[at] or k + 1
                continue
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return out, pivots, infos


def lu_permutation(x: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The exchanges made one after the other on the numbers of the rows."""
    rows, pivots = x.shape[-2], pivots.astype(int)
    out = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for at in np.ndindex(*pivots.shape[:-1]):
        for k, other in enumerate(pivots[at]):
            out[at][[k, other - 1]] = out[at][[other - 1, k]]
    return out


def lu_unpack(
    x: np.ndarray, y: np.ndarray, unpack_ludata: bool, unpack_pivots: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, L and U."""
    rows, columns = x.shape[-2:]
    size, empty = min(rows, columns), np.zeros(0)
    if y.shape[-1] != size:
        raise ValueError("pivots of another matrix")
    pmat = np.swapaxes(np.eye(rows)[lu_permutation(x, y)], -1, -2)
    lower = np.tril(x[..., :size], -1) + np.eye(rows, size)
    upper = np.triu(x[..., :size, :])
    found = (lower, upper) if unpack_ludata else (empty, empty)
    return (pmat if unpack_pivots else empty, *found)


def lu_solve(b: np.ndarray, lu: np.ndarray, pivots: np.ndarray, trans: str) -> np.ndarray:
    """A general solution with the product of the factors."""
    pmat, lower, upper = lu_unpack(lu, pivots, True, True)
    a = pmat @ lower @ upper
    change = {"N": np.array, "T": lambda m: np.swapaxes(m, -1, -2), "C": ct}
    return np.linalg.solve(change[trans](a), b)


# -- singular values and eigenvalues -------------------------------------------------------------
def matrix_rank(x: np.ndarray, atol: object, rtol: object, use_default_tol: bool) -> np.ndarray:
    """Singular values counted; without ``rtol`` its default stands where ``atol`` is 0."""
    sizes = np.linalg.svd(x, compute_uv=False)
    default = np.finfo(np.float32).eps * max(x.shape[-2:])
    atol = np.asarray(atol, np.float64)
    ratio = np.where(atol == 0, default, 0.0) if rtol is None else np.asarray(rtol, np.float64)
    ratio = default if use_default_tol else ratio
    least = np.maximum(atol, ratio * sizes.max(-1))
    return (sizes > least[..., None]).sum(-1)


def pinv(x: np.ndarray, rtol: np.ndarray, hermitian: bool) -> np.ndarray:
    """The pseudoinverse of x, or of the Hermitian matrix with its lower triangle."""
    if hermitian:
        lower = np.tril(x, -1)
        x = lower + ct(lower) + np.eye(x.shape[-1]) * x.real
    return np.linalg.pinv(x, rtol)


def lstsq(x: np.ndarray, y: np.ndarray, rcond: float, driver: str) -> tuple[np.ndarray, ...]:
    """Matrix by matrix, of full rank."""
    (*lead, rows, columns), sizes = x.shape, np.linalg.svd(x, compute_uv=False)
    found = np.linalg.pinv(x) @ y
    rest = (np.abs(x @ found - y) ** 2).sum(-2) if rows > columns else np.zeros((*lead, 0))
    rank = np.full(lead, min(rows, columns), np.int32)
    rank = np.zeros(0, np.int32) if driver == "gels" else rank
    return found, rest, rank, sizes if driver in ("gelsd", "gelss") else np.zeros(0)


def expm(x: np.ndarray) -> np.ndarray:
    """The exponential by its series, of x / 2^12, squared 12 times, in long doubles."""
    wide = x.astype(np.clongdouble if np.iscomplexobj(x) else np.longdouble)
    wide = wide / np.longdouble(2) ** 12
    term = found = np.broadcast_to(np.eye(x.shape[-1], dtype=wide.dtype), x.shape)
    for k in range(1, 25):
        term = term @ wide / k
        found = found + term
    for _ in range(12):
        found = found @ found
    return found.astype(x.dtype)


def sqrtm(x: np.ndarray) -> np.ndarray:
    """By eigenvectors, as these are independent."""
    values, vectors = np.linalg.eig(x)
    found = vectors * np.sqrt(values.astype(complex))[..., None, :] @ np.linalg.inv(vectors)
    return found if np.iscomplexobj(x) else found.real


def spectral_norm(
    weight: np.ndarray, u: np.ndarray, v: np.ndarray, dim: int, power_iters: int, eps: float
) -> np.ndarray:
    """weight over its largest singular value, as a few steps of the power method find it."""
    matrix = np.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1)
    u, v = u.reshape(-1), v.reshape(-1)
    for _ in range(power_iters):
        v = matrix.T @ u
        v = v / (np.linalg.norm(v) + eps)
        u = matrix @ v
        u = u / (np.linalg.norm(u) + eps)
    return weight / (u @ matrix @ v)


def derivatives_of_cofactors(x, directions):
    """The sum over ways to take one row of each direction, in the place of one of x, and of the
    cofactors of what is left: expansions by minors, no quotient."""

    def det(a):
        if not len(a):
            return 1.0
        rest = [np.delete(a[1:], j, 1) for j in range(len(a))]
        return sum((-1) ** j * a[0, j] * det(rest[j]) for j in range(len(a)))

    def of_one(x, *directions):
        out = np.zeros_like(x)
        for i, j in np.ndindex(*x.shape):
            others = [r for r in range(len(x)) if r != i]
            for rows in itertools.permutations(others, len(directions)):
                replaced = x.copy()
                for row, direction in zip(rows, directions):
                    replaced[row] = direction[row]
                minor = np.delete(np.delete(replaced, i, 0), j, 1)
                out[i, j] += (-1) ** (i + j) * det(minor)
        return out

    n = x.shape[-1]
    flat = zip(*[t.reshape(-1, n, n) for t in (x, *directions)])
    return np.stack([of_one(*each) for each in flat]).reshape(x.shape)
