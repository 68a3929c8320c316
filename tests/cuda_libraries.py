"""Stand-ins, on the host, for CuPy's modules of cuSOLVER and cuBLAS: SciPy's LAPACK and BLAS.

They have the names and arguments of the functions that CuPy calls for ``cupy.linalg``, and work on
memory of the host: what they show is that the engine calls them right, not that the libraries do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

_DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
HANDLES = (11, 22)  # of cuSOLVER and cuBLAS


def memory(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The host memory at an address, as a Fortran-ordered array."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape, order="F")


class _Module:
    """The functions ``<letter><routine>`` by attribute."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        letter, routine = name[0], name[1:]
        if letter not in _DTYPES or not hasattr(type(self), f"_{routine}"):
            raise AttributeError(name)
        self.calls.append(name)
        return lambda *args: getattr(self, f"_{routine}")(letter, *args)


class Cusolver(_Module):
    def _potrf_bufferSize(
        self, letter: str, handle: int, uplo: int, n: int, a: int, lda: int
    ) -> int:
        assert handle == HANDLES[0] and lda >= n
        return 1

    def _potrf(self, letter: str, handle: int, uplo: int, n: int, a: int, lda: int, work: int,
               size: int, info: int) -> None:  # fmt: skip
        assert handle == HANDLES[0] and lda == n and size == 1 and work
        matrix = memory(a, (n, n), _DTYPES[letter])
        factor, failed = getattr(lapack, f"{letter}potrf")(
            matrix, lower=uplo == Cublas.CUBLAS_FILL_MODE_LOWER, clean=False
        )
        matrix[...] = factor
        memory(info, (1,), np.int32)[0] = failed

    def _getrf_bufferSize(self, letter: str, handle: int, m: int, n: int, a: int, lda: int) -> int:
        assert handle == HANDLES[0] and lda >= m
        return 1

    def _getrf(self, letter: str, handle: int, m: int, n: int, a: int, lda: int, work: int,
               pivots: int, info: int) -> None:  # fmt: skip
        assert handle == HANDLES[0] and lda == m and work
        matrix = memory(a, (m, n), _DTYPES[letter])
        factors, rows, failed = getattr(lapack, f"{letter}getrf")(matrix)
        matrix[...] = factors
        memory(pivots, (min(m, n),), np.int32)[...] = rows + 1
        memory(info, (1,), np.int32)[0] = failed


class Cublas(_Module):
    CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER = 0, 1
    CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT = 0, 1
    CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C = 0, 1, 2
    CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT = 0, 1

    def _trsm(self, letter: str, handle: int, side: int, uplo: int, trans: int, diag: int, m: int,
              n: int, alpha: int, a: int, lda: int, b: int, ldb: int) -> None:  # fmt: skip
        assert handle == HANDLES[1] and ldb == m
        size = n if side == self.CUBLAS_SIDE_RIGHT else m
        assert lda == size
        right = memory(b, (m, n), _DTYPES[letter])
        right[...] = getattr(blas, f"{letter}trsm")(
            memory(alpha, (1,), _DTYPES[letter])[0], memory(a, (size, size), _DTYPES[letter]),
            right, side=side, lower=uplo == self.CUBLAS_FILL_MODE_LOWER, trans_a=trans, diag=diag,
        )  # fmt: skip
