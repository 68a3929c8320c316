"""Rows of products, of linear algebra and of Fourier transforms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from phix import ops
from tests.drawn.case import Case, Draw, Run, Shape, row, rows


def swapped(shape: Shape, is_transposed: bool) -> Shape:
    return (*shape[:-2], *shape[:-3:-1]) if is_transposed and len(shape) > 1 else shape


def turned(x: np.ndarray, is_transposed: bool) -> np.ndarray:
    return np.swapaxes(x, -1, -2) if is_transposed and x.ndim > 1 else x


@row
def matmul(draw: Draw) -> Case:
    lead, n, m, k = draw.shape(0, 2), draw.size(), draw.size(), draw.size()
    kinds = draw.one_of((2, 2), (2, 2), (2, 2), (1, 2), (2, 1), (1, 1))
    t = draw.flags("transpose_x", "transpose_y")
    x = swapped((*draw.thinned(lead), n, k), t["transpose_x"]) if kinds[0] == 2 else (k,)
    y = swapped((*draw.thinned(lead), k, m), t["transpose_y"]) if kinds[1] == 2 else (k,)
    return Case(
        lambda x, y: ops.matmul(x, y, **t),
        [draw.numbers(*x), draw.numbers(*y)],
        lambda x, y: np.matmul(turned(x, t["transpose_x"]), turned(y, t["transpose_y"])),
    )


def added_product(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        lead = (draw.size(),) if name == "baddbmm" else ()
        n, m, k = draw.size(), draw.size(), draw.size()
        beta, alpha = draw.one_of(1.0, 0.0, -0.7), draw.one_of(1.0, 0.0, 1.9)
        first = draw.thinned((*lead, n, m))
        return Case(
            lambda c, x, y: getattr(ops, name)(c, x, y, beta, alpha),
            [draw.numbers(*first), draw.numbers(*lead, n, k), draw.numbers(*lead, k, m)],
            lambda c, x, y: beta * c + alpha * (x @ y),
        )

    return draw_case


rows("addmm baddbmm", added_product)


@row
def bmm(draw: Draw) -> Case:
    b, n, k, m = (draw.size() for _ in range(4))
    return Case(ops.bmm, [draw.numbers(b, n, k), draw.numbers(b, k, m)], np.matmul)


@row
def mv(draw: Draw) -> Case:
    n, k = draw.size(), draw.size()
    return Case(ops.mv, [draw.numbers(n, k), draw.numbers(k)], np.matmul)


@row
def dot(draw: Draw) -> Case:
    shape = draw.shape(1, 2)
    return Case(
        ops.dot,
        [draw.numbers(*shape), draw.numbers(*shape)],
        lambda x, y: np.sum(x * y, -1),
    )


@row
def cross(draw: Draw) -> Case:
    shape = list(draw.shape(1))
    axis = draw.axis(len(shape))
    shape[axis] = 3
    given = draw.one_of(axis, axis, 9)
    found = shape.index(3) if given == 9 else axis
    return Case(
        lambda x, y: ops.cross(x, y, given),
        [draw.numbers(*shape), draw.numbers(*shape)],
        lambda x, y: np.cross(x, y, axis=found),
    )


EQUATIONS = (
    "ij,jk->ik", "ij,ij->", "ii->i", "ii->", "ij->ji", "ij,j", "bij,bjk->bik", "i,j->ij",
    "ij,kj->ki", "...ij,...jk->...ik", "ijk->k", "ij,i->j", "iij->j", "ij,jk,kl->il", "ij,j,i->",
    "...i,i->...", "i...->...", "iji->ij", "ij,ij->ij", "a,b,c->cab", "ij,kl->", "i,i,i->i",
    "i...,i...->i", "bi,bj,ij->b",
)  # fmt: skip


@row
def einsum(draw: Draw) -> Case:
    equation, sizes = draw.one_of(*EQUATIONS), {c: draw.size() for c in "abcijkl"}
    lead, shapes = draw.shape(0, 2), []
    for part in equation.partition("->")[0].split(","):
        wide = part.replace("...", ".")
        dims = [draw.thinned(lead) if c == "." else (sizes[c],) for c in wide]
        shapes.append(tuple(n for d in dims for n in d))
    return Case(
        lambda *x: ops.einsum(list(x), equation),
        [draw.numbers(*s) for s in shapes],
        lambda *x: np.einsum(equation, *x),
    )


@row
def tensordot(draw: Draw) -> Case:
    shape, other = draw.shape(0, 3), list(draw.shape(0, 3))
    count = draw.below(min(len(shape), len(other)) + 1)
    axes_x = [int(a) for a in draw.rng.permutation(len(shape))[:count]]
    axes_y = [int(a) for a in draw.rng.permutation(len(other))[:count]]
    for a, b in zip(axes_x, axes_y):
        other[b] = shape[a]
    return Case(
        lambda x, y: ops.tensordot(x, y, axes_x, axes_y),
        [draw.numbers(*shape), draw.numbers(*other)],
        lambda x, y: np.tensordot(x, y, (axes_x, axes_y)),
    )


@row
def kron(draw: Draw) -> Case:
    shape, other = draw.shape(0, 3), draw.shape(0, 3)
    return Case(ops.kron, [draw.numbers(*shape), draw.numbers(*other)], np.kron)


@row
def bilinear(draw: Draw) -> Case:
    b, n, m, k = (draw.size() for _ in range(4))
    bias = [draw.numbers(1, k)] if draw.is_true() else []
    return Case(
        ops.bilinear, [draw.numbers(b, n), draw.numbers(b, m), draw.numbers(k, n, m), *bias]
    )


@row
def linear(draw: Draw) -> Case:
    shape, k = draw.shape(1, 3), draw.size()
    bias = [draw.numbers(k)] if draw.is_true() else []
    return Case(
        ops.linear,
        [draw.numbers(*shape), draw.numbers(shape[-1], k), *bias],
        lambda x, w, b=0.0: x @ w + b,
    )


@row
def linear_v2(draw: Draw) -> Case:
    shape, k, turn = draw.shape(2, 3), draw.size(), draw.is_true()
    return Case(
        lambda x, w, b: ops.linear_v2(x, w, b, turn),
        [
            draw.numbers(*shape),
            draw.numbers(*((k, shape[-1]) if turn else (shape[-1], k))),
            draw.numbers(k),
        ],
        lambda x, w, b: x @ (w.T if turn else w) + b,
    )


@row
def fused_gemm_epilogue(draw: Draw) -> Case:
    n, k, m = draw.size(), draw.size(), draw.size()
    t, u, activation = draw.is_true(), draw.is_true(), draw.one_of("none", "relu", "gelu")
    return Case(
        lambda x, y, b: ops.fused_gemm_epilogue(x, y, b, t, u, activation)[0],
        [draw.numbers(*swapped((n, k), t)), draw.numbers(*swapped((k, m), u)), draw.numbers(m)],
        order=1,
    )


@row
def multi_dot(draw: Draw) -> Case:
    sizes = [draw.size() for _ in range(3 + draw.below(2))]
    shapes: list[Shape] = list(itertools.pairwise(sizes))
    if draw.below(3) == 0:
        shapes[0] = shapes[0][1:]
    if draw.below(3) == 0:
        shapes[-1] = shapes[-1][:1]
    return Case(
        lambda *x: ops.multi_dot(list(x)),
        [draw.numbers(*s) for s in shapes],
        lambda *x: np.linalg.multi_dot(x),
    )


# -- linear algebra --------------------------------------------------------------------------------
def matrix(draw: Draw, *lead: int, size: int) -> np.ndarray:
    """Well-conditioned ones."""
    return draw.numbers(*lead, size, size) / 3 + 2.5 * np.eye(size)


def symmetric(draw: Draw, *lead: int, size: int) -> np.ndarray:
    """With positive eigenvalues that are apart."""
    x = draw.numbers(*lead, size, size) / 9
    return x + np.swapaxes(x, -1, -2) + np.diag(1.0 + np.arange(size))


def lead_and_size(draw: Draw) -> tuple[Shape, int]:
    return draw.shape(0, 2), draw.size()


@row
def cholesky(draw: Draw) -> Case:
    (lead, n), upper = lead_and_size(draw), draw.is_true()
    return Case(
        lambda x: ops.cholesky(x + ops.transpose(x, [*range(len(lead)), -1, -2]), upper),
        [symmetric(draw, *lead, size=n)],
        lambda x: turned(np.linalg.cholesky(x + turned(x, True)), upper),
    )


@row
def cholesky_solve(draw: Draw) -> Case:
    (lead, n), upper = lead_and_size(draw), draw.is_true()

    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        half = np.triu(y) if upper else np.tril(y)
        whole = turned(half, True) @ half if upper else half @ turned(half, True)
        return np.linalg.solve(whole, x)

    shape = (*draw.thinned(lead), n, draw.size())
    return Case(
        lambda x, y: ops.cholesky_solve(x, y, upper),
        [draw.numbers(*shape), matrix(draw, *draw.thinned(lead), size=n)],
        reference,
    )


@row
def triangular_solve(draw: Draw) -> Case:
    (lead, n), flags = lead_and_size(draw), draw.flags("upper", "transpose", "unitriangular")

    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x = np.triu(x) if flags["upper"] else np.tril(x)
        x = np.where(np.eye(n, dtype=bool), 1.0, x) if flags["unitriangular"] else x
        return np.linalg.solve(turned(x, flags["transpose"]), y)

    shape = (*draw.thinned(lead), n, draw.size())
    return Case(
        lambda x, y: ops.triangular_solve(x, y, **flags),
        [matrix(draw, *draw.thinned(lead), size=n), draw.numbers(*shape)],
        reference,
    )


@row
def solve(draw: Draw) -> Case:
    (lead, n), turn = lead_and_size(draw), draw.is_true()
    shape = (n,) if draw.below(4) == 0 else (*draw.thinned(lead), n, draw.size())
    return Case(
        lambda x, y: ops.solve(x, y, turn),
        [matrix(draw, *draw.thinned(lead), size=n), draw.numbers(*shape)],
    )


@row
def lu(draw: Draw) -> Case:
    lead, n, m, pivot = draw.shape(0, 2), draw.size(), draw.size(), draw.is_true()
    x = draw.numbers(*lead, n, m) / 3 + 2.5 * np.eye(n, m)
    return Case(lambda x: ops.lu(x, pivot)[0], [x])


@row
def lu_unpack(draw: Draw) -> Case:
    lead, n, m = draw.shape(0, 2), draw.size(), draw.size()
    flags = draw.flags("unpack_ludata", "unpack_pivots")

    def run(x: Any) -> Any:
        packed, pivots, _ = ops.lu(x)
        return [p for p in ops.lu_unpack(packed, pivots, **flags) if p is not None]

    return Case(run, [draw.numbers(*lead, n, m)])


@row
def lu_solve(draw: Draw) -> Case:
    (lead, n), trans = lead_and_size(draw), draw.one_of("N", "T")

    def run(b: Any, x: Any) -> Any:
        packed, pivots, _ = ops.lu(x)
        return ops.lu_solve(b, packed, pivots, trans)

    shape = (*draw.thinned(lead), n, draw.size())
    return Case(
        run,
        [draw.numbers(*shape), matrix(draw, *draw.thinned(lead), size=n)],
        lambda b, x: np.linalg.solve(turned(x, trans == "T"), b),
    )


@row
def qr(draw: Draw) -> Case:
    lead, n, m = draw.shape(0, 2), draw.size(), draw.size()
    mode = draw.one_of("reduced", "complete", "r")
    if mode != "r" or n < m:
        n, m = (n, min(n, m)) if mode == "reduced" else (n, n) if mode == "complete" else (m, n)
    return Case(
        lambda x: [p for p in ops.qr(x, mode) if p is not None],
        [draw.numbers(*lead, n, m) / 3 + 2.5 * np.eye(n, m)],
        order=1,
    )


@row
def svd(draw: Draw) -> Case:
    lead, n, m, full = draw.shape(0, 2), draw.size(), draw.size(), draw.below(4) == 0
    if full:
        m = n

    def run(x: Any) -> Any:
        u, s, vh = ops.svd(x, full)
        k = min(n, m)
        return s, ops.matmul(ops.unsqueeze(s, [-2]) * u[..., :k], vh[..., :k, :])

    x = draw.numbers(*lead, n, m) / 9 + np.eye(n, m) * (1.0 + np.arange(m))
    return Case(run, [x], lambda x: np.linalg.svd(x)[1])


@row
def pinv(draw: Draw) -> Case:
    lead, n, m, hermitian = draw.shape(0, 2), draw.size(), draw.size(), draw.below(3) == 0
    x = draw.numbers(*lead, n, m) / 9 + np.eye(n, m) * (1.0 + np.arange(m))
    x = symmetric(draw, *lead, size=n) if hermitian else x

    def run(x: Any) -> Any:
        turns = [*range(len(lead)), -1, -2]
        x = 0.5 * (x + ops.transpose(x, turns)) if hermitian else x
        return ops.pinv(x, np.float64(1e-15), hermitian)

    return Case(run, [x], np.linalg.pinv)


@row
def lstsq(draw: Draw) -> Case:
    lead, n, m, k = draw.shape(0, 1), draw.size(), draw.size(), draw.size()
    driver = draw.one_of("gels", "gelsd", "gelss", "gelsy")
    x = draw.numbers(*lead, n, m) / 9 + np.eye(n, m) * (1.0 + np.arange(m))
    return Case(
        lambda x, y: ops.lstsq(x, y, 0.0, driver)[0],
        [x, draw.numbers(*lead, n, k)],
        lambda x, y: np.linalg.pinv(x) @ y,
    )


@row
def matrix_power(draw: Draw) -> Case:
    (lead, n), power = lead_and_size(draw), draw.below(9) - 4
    return Case(
        lambda x: ops.matrix_power(x, power),
        [matrix(draw, *lead, size=n) / 2],
        lambda x: np.linalg.matrix_power(x, power),
    )


def of_a_matrix(name: str) -> Run:
    references: dict[str, Run] = {"det": np.linalg.det, "inverse": np.linalg.inv}

    def draw_case(draw: Draw) -> Case:
        lead, n = lead_and_size(draw)
        x = matrix(draw, *lead, size=n) if draw.is_true() else draw.numbers(*lead, n, n)
        x = matrix(draw, *lead, size=n) if name == "inverse" else x
        return Case(getattr(ops, name), [x], references.get(name))

    return draw_case


rows("det slogdet slogdet_v2 inverse expm", of_a_matrix)


def of_symmetric(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        (lead, n), side = lead_and_size(draw), draw.one_of("L", "U")

        def run(x: Any) -> Any:
            turns = [*range(len(lead)), -1, -2]
            x = 0.5 * (x + ops.transpose(x, turns))
            return ops.eigh(x, side)[0] if name == "eigh" else ops.eigvalsh(x, side, False)

        return Case(run, [symmetric(draw, *lead, size=n)], np.linalg.eigvalsh)

    return draw_case


rows("eigh eigvalsh", of_symmetric)


@row
def spectral_norm(draw: Draw) -> Case:
    shape = draw.shape(2, 4, size=1)
    dim, iterations = draw.one_of(0, 1), 0  # further ones have no derivatives
    rest = int(np.prod(shape)) // shape[dim]
    u, v = draw.numbers(shape[dim]), draw.numbers(rest)  # that have no derivatives
    u, v = (x / np.linalg.norm(x) for x in (u, v))
    return Case(
        lambda w: ops.spectral_norm(w, u, v, dim, iterations), [draw.numbers(*shape)], order=1
    )


# -- Fourier transforms ----------------------------------------------------------------------------
NORMS = ("backward", "ortho", "forward")


def spectrum_axes(draw: Draw, rank: int) -> tuple[int, ...]:
    return tuple(a % rank for a in draw.axes(rank, 1))


@row
def fft_c2c(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    axes, norm, forward = spectrum_axes(draw, len(shape)), draw.one_of(*NORMS), draw.is_true()
    by_name = np.fft.fftn if forward else np.fft.ifftn
    return Case(
        lambda x: ops.fft_c2c(x, axes, norm, forward),
        [draw.complex(*shape)],
        (lambda x: by_name(x, axes=axes, norm=norm)) if forward else None,
    )


@row
def fft_r2c(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    axes, norm = spectrum_axes(draw, len(shape)), draw.one_of(*NORMS)
    forward, onesided = draw.is_true(), draw.is_true()
    by_name = np.fft.rfftn if onesided else np.fft.fftn
    return Case(
        lambda x: ops.fft_r2c(x, axes, norm, forward, onesided),
        [draw.numbers(*shape)],
        (lambda x: by_name(x, axes=axes, norm=norm)) if forward else None,
    )


@row
def fft_c2r(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    axes, norm = spectrum_axes(draw, len(shape)), draw.one_of(*NORMS)
    forward, size = draw.is_true(), draw.one_of(0, 1, 2, 3, 4, 5, 6)
    dims = list(shape)
    dims[axes[-1]] = size // 2 + 1 if size else max(dims[axes[-1]], 2)
    return Case(lambda x: ops.fft_c2r(x, axes, norm, forward, size), [draw.complex(*dims)])


@row
def stft(draw: Draw) -> Case:
    shape, hop, n_fft = draw.shape(1, 2), 1 + draw.below(3), 1 + draw.below(4)
    flags = draw.flags("normalized", "onesided")
    return Case(
        lambda x, w: ops.stft(x, w, n_fft, hop, **flags),
        [draw.numbers(*shape[:-1], shape[-1] + n_fft), draw.numbers(n_fft)],
    )


def of_complex(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        if name == "as_complex":
            return Case(ops.as_complex, [draw.numbers(*shape, 2)])
        return Case(getattr(ops, name), [draw.complex(*shape)])

    return draw_case


rows("as_complex as_real real imag conj abs angle", of_complex)


@row
def complex_(draw: Draw) -> Case:
    shape = draw.shape()
    return Case(
        ops.complex,
        [draw.numbers(*draw.thinned(shape)), draw.numbers(*draw.thinned(shape))],
        lambda x, y: x + 1j * y,
    )
