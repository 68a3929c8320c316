"""NumPy's products, and what np.linalg and np.fft have that phix has too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import fft, linalg, ops
from phix.array_functions.arrangement import matrix_transpose, moveaxis
from phix.array_functions.arrangement import ravel as flat
from phix.array_functions.numpy_arguments import axes_of, floating, named, refuse, tensor
from phix.core import dtypes as dt
from phix.core.numpy_protocol import NotOfferedError

Function = Callable[..., Any]


# -- products ------------------------------------------------------------------------------------
def dot(a: Any, b: Any, out: Any = None) -> Any:
    refuse(out=out)
    x, y = tensor(a), tensor(b)
    if not x.ndim or not y.ndim:
        return x * y
    if x.ndim <= 2 and y.ndim <= 2:
        return ops.matmul(x, y)
    return ops.tensordot(x, y, [x.ndim - 1], [max(y.ndim - 2, 0)])


def vdot(a: Any, b: Any, /) -> Any:
    x, y = flat(a), flat(b)
    return ops.matmul(ops.conj(x) if dt.is_complex(x.dtype) else x, y)


def inner(a: Any, b: Any, /) -> Any:
    x, y = tensor(a), tensor(b)
    if not x.ndim or not y.ndim:
        return x * y
    return ops.tensordot(x, y, [x.ndim - 1], [y.ndim - 1])


def outer(a: Any, b: Any, out: Any = None) -> Any:
    refuse(out=out)
    return ops.reshape(flat(a), (-1, 1)) * flat(b)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = tensor(a), tensor(b)
    if isinstance(axes, int):
        return ops.tensordot(x, y, range(x.ndim - axes, x.ndim), range(axes))
    return ops.tensordot(x, y, axes_of(axes[0], x.ndim), axes_of(axes[1], y.ndim))


def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> Any:
    refuse(out=out)
    if not isinstance(operands[0], str):
        raise NotOfferedError("axes as lists of ints")
    return ops.einsum([tensor(x) for x in operands[1:]], operands[0])


def kron(a: Any, b: Any) -> Any:
    return ops.kron(tensor(a), tensor(b))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """Of vectors of three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise NotOfferedError("vectors of two elements")
    (a0, a1, a2), (b0, b1, b2) = ([v[..., i] for i in range(3)] for v in (x, y))
    parts = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    return moveaxis(ops.stack(parts, -1), -1, axisc)


# -- np.linalg -----------------------------------------------------------------------------------
def _of_floats(function: Function) -> Function:
    """A function of phix.linalg of one array; ints become float64, as in NumPy."""

    def call(a: Any, *args: Any) -> Any:
        return function(floating(a), *args)

    return call


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return linalg.norm(floating(x), ord, axis, keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return linalg.vector_norm(floating(x), axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return linalg.matrix_norm(floating(x), keepdims=keepdims, ord=ord)


def cond(x: Any, p: Any = None) -> Any:
    return linalg.cond(floating(x), p)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return linalg.matrix_rank(floating(A), tol, hermitian, rtol=rtol)


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    return linalg.lstsq(floating(a), floating(b), rcond)


def qr(a: Any, mode: str = "reduced") -> Any:
    return linalg.qr(floating(a), mode)


def eigh(a: Any, UPLO: str = "L") -> Any:
    return linalg.eigh(floating(a), UPLO)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return linalg.eigvalsh(floating(a), UPLO)


def vector_product(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return linalg.cross(tensor(x1), tensor(x2), axis)


def matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    refuse(dtype=dtype)
    return linalg.trace(tensor(x), offset)


def vector_outer(x1: Any, x2: Any, /) -> Any:
    return linalg.outer(tensor(x1), tensor(x2))


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    refuse(hermitian=hermitian or None)
    return linalg.svd(floating(a), full_matrices, compute_uv)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    given = rcond if rtol is None or rtol is np._NoValue else rtol
    return linalg.pinv(floating(a), given, hermitian)


def solve(a: Any, b: Any) -> Any:
    return linalg.solve(floating(a), floating(b))


def inv(a: Any) -> Any:
    return linalg.inv(floating(a))


def det(a: Any) -> Any:
    return linalg.det(floating(a))


def slogdet(a: Any) -> Any:
    return linalg.slogdet(floating(a))


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return linalg.cholesky(floating(a), upper=upper)


def matrix_power(a: Any, n: int) -> Any:
    return linalg.matrix_power(tensor(a), n)


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    refuse(out=out)
    return linalg.multi_dot([tensor(a) for a in arrays])


# -- np.fft --------------------------------------------------------------------------------------
def _transform(function: Function) -> Function:
    def transform(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        return function(floating(a), n, axis, norm)

    return transform


def _transform_n(function: Function, axes: Any = None) -> Function:
    default = axes

    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None) -> Any:
        return function(floating(a), s, axes, norm)

    return transform


def _shift(function: Function) -> Function:
    def shift(x: Any, axes: Any = None) -> Any:
        return function(tensor(x), axes)

    return shift


_LINALG: dict[str, Function] = {
    "norm": norm, "solve": solve, "inv": inv, "det": det, "slogdet": slogdet,
    "cholesky": cholesky, "matrix_power": matrix_power, "multi_dot": multi_dot,
    "matrix_transpose": matrix_transpose, "svd": svd, "pinv": pinv,
    "qr": qr, "eigh": eigh, "eigvalsh": eigvalsh, "matrix_rank": matrix_rank, "cond": cond,
    "lstsq": lstsq, "vector_norm": vector_norm, "matrix_norm": matrix_norm,
    "cross": vector_product, "trace": matrix_trace, "outer": vector_outer, "tensordot": tensordot,
    **{n: _of_floats(getattr(linalg, n)) for n in ("svdvals", "eig", "eigvals")},
}  # fmt: skip
_FFT: dict[str, Function] = {
    **{n: _transform(getattr(fft, n)) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{n: _transform_n(getattr(fft, n)) for n in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{n: _transform_n(getattr(fft, n), (-2, -1)) for n in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{n: _shift(getattr(fft, n)) for n in ("fftshift", "ifftshift")},
}
FUNCTIONS: dict[Any, Function] = {
    **named(
        {
            "dot": dot, "vdot": vdot, "inner": inner, "outer": outer, "tensordot": tensordot,
            "einsum": einsum, "kron": kron, "cross": cross,
        },
        np,
    ),
    **named(_LINALG, np.linalg),
    **named(_FFT, np.fft),
}  # fmt: skip
