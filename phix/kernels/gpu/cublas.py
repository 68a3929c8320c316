"""Matrix products by cuBLAS, called by ctypes: CuPy's own wrapper refuses to be recorded."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import DeviceError
from phix.core.precision import matmul_precision
from phix.kernels.gpu import libraries
from phix.kernels.gpu.runtime import Batch

# cudaDataType, cublasComputeType_t and cublasOperation_t
_TYPES = {dt.float32: 0, dt.float64: 1, dt.float16: 2, dt.complex64: 4, dt.complex128: 5,
          dt.bfloat16: 14}  # fmt: skip
_COMPUTE_32F, _COMPUTE_32F_FAST_TF32, _COMPUTE_64F = 68, 77, 70
_PLAIN, _TRANSPOSED = 0, 1
_DEFAULT_ALGORITHM = -1
# What cuBLAS wants of its own memory on Hopper; given once, it can be recorded.
WORKSPACE = 32 << 20
_LARGEST = 2**31 - 1

_INT, _LONG, _POINTER = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p


@cache
def library() -> Any:
    """The loaded library, its functions declared.

    Raises:
        DeviceError: there is none.
    """
    found = libraries.load("cublas", "cublas", "matrices are multiplied by cuBLAS on GPUs")
    found.cublasCreate_v2.argtypes = [ctypes.POINTER(_POINTER)]
    found.cublasSetStream_v2.argtypes = [_POINTER, _POINTER]
    found.cublasSetWorkspace_v2.argtypes = [_POINTER, _POINTER, ctypes.c_size_t]
    matrix = [_POINTER, _INT, _INT, _LONG]
    found.cublasGemmStridedBatchedEx.argtypes = [
        _POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER, *matrix, *matrix, _POINTER, *matrix,
        _INT, _INT, _INT,
    ]  # fmt: skip
    return found


def _check(status: int, what: str) -> None:
    if status:
        raise DeviceError(f"cuBLAS: {what} failed with status {status}")


class Handle:
    """A handle of the current device."""

    def __init__(self) -> None:
        self._handle = _POINTER()
        _check(library().cublasCreate_v2(ctypes.byref(self._handle)), "creating a handle")

    def multiply(self, batch: Batch, stream: int, workspace: int) -> None:
        """Start the products of a batch on a stream; ``workspace`` is the address of WORKSPACE
        bytes, which no products use that may run at the same time."""
        b = batch
        (m, n, k), (x, y, out) = b.sizes, b.addresses
        if max(*b.sizes, *b.pitches, b.count) > _LARGEST:
            raise DeviceError(f"cuBLAS takes matrices of at most {_LARGEST} rows and columns")
        _check(library().cublasSetStream_v2(self._handle, stream), "setting the stream")
        status = library().cublasSetWorkspace_v2(self._handle, workspace, WORKSPACE)
        _check(status, "setting the workspace")
        one, zero, compute = _scalars(b.dtype)
        kind = _TYPES[b.dtype]
        # the rows of C-ordered matrices are columns here: out.T = op(y).T op(x).T
        status = library().cublasGemmStridedBatchedEx(
            self._handle,
            _TRANSPOSED if b.transpose_y else _PLAIN,
            _TRANSPOSED if b.transpose_x else _PLAIN,
            n, m, k, ctypes.addressof(one),
            y, kind, max(b.pitches[1], 1), b.steps[1],
            x, kind, max(b.pitches[0], 1), b.steps[0],
            ctypes.addressof(one if b.accumulate else zero),
            out, kind, max(b.pitches[2], 1), b.steps[2],
            b.count, compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        _check(status, f"a product of {b.dtype} matrices, {m} x {k} by {k} x {n},")


@cache
def _numbers(dtype: np.dtype) -> tuple[Any, Any]:
    """1 and 0 in the dtype of the sums."""
    is_double = dt.real_dtype(dtype) == dt.float64
    kind = (ctypes.c_double if is_double else ctypes.c_float) * 2  # complex ones have two parts
    return kind(1, 0), kind(0, 0)


def _scalars(dtype: np.dtype) -> tuple[Any, Any, int]:
    one, zero = _numbers(dtype)
    if dt.real_dtype(dtype) == dt.float64:
        return one, zero, _COMPUTE_64F
    is_fast = dt.real_dtype(dtype) == dt.float32 and matmul_precision() == "high"
    return one, zero, _COMPUTE_32F_FAST_TF32 if is_fast else _COMPUTE_32F
