"""Large factorisations by cuSOLVER, triangular systems by cuBLAS, through CuPy's bindings.

The bindings are those that ``cupy.linalg`` and ``cupyx.scipy.linalg`` call; they take addresses. A
C-ordered matrix is its transpose to them, as to any LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.gpu.runtime import FactorCall

_LETTERS = {dt.float32: "s", dt.float64: "d", dt.complex64: "c", dt.complex128: "z"}


class Solver:
    """Does a :class:`FactorCall` by libraries on the current device and stream.

    ``solver`` and ``blas`` are CuPy's modules ``cusolver`` and ``cublas``; ``handles`` gives
    the handles of the two; ``room`` gives memory of some elements and its address.
    """

    def __init__(
        self,
        solver: Any,
        blas: Any,
        handles: Callable[[], tuple[int, int]],
        room: Callable[[int, np.dtype], tuple[Any, int]],
    ) -> None:
        self.solver, self.blas, self.handles, self.room = solver, blas, handles, room

    def __call__(self, call: FactorCall) -> None:
        """Start the work; matrices without elements need none."""
        if all(call.sizes):
            _ROUTINES[call.routine](self, call)

    def function(self, library: Any, call: FactorCall, more: str = "") -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(library, f"{_LETTERS[call.dtype]}{call.routine}{more}")
        return found

    def fill(self, is_lower: bool) -> int:
        blas = self.blas
        return int(blas.CUBLAS_FILL_MODE_LOWER if is_lower else blas.CUBLAS_FILL_MODE_UPPER)

    def potrf(self, call: FactorCall) -> None:
        (upper,), (n,), (matrix, info) = call.flags, call.sizes, call.addresses
        handle, _ = self.handles()
        where = (handle, self.fill(upper), n, matrix, n)
        size = self.function(self.solver, call, "_bufferSize")(*where)
        kept, work = self.room(size, call.dtype)
        self.function(self.solver, call)(*where, work, size, info)
        del kept  # the pool hands it out again in the order of the stream

    def getrf(self, call: FactorCall) -> None:
        (m, n), (matrix, pivots, info) = call.sizes, call.addresses
        handle, _ = self.handles()
        size = self.function(self.solver, call, "_bufferSize")(handle, m, n, matrix, m)
        kept, work = self.room(size, call.dtype)
        self.function(self.solver, call)(handle, m, n, matrix, m, work, pivots, info)
        del kept

    def trsm(self, call: FactorCall) -> None:
        upper, transpose, unit = call.flags
        (n, columns), (matrix, right), blas = call.sizes, call.addresses, self.blas
        _, handle = self.handles()
        one = np.ones((), call.dtype)
        self.function(blas, call)(
            handle,
            blas.CUBLAS_SIDE_RIGHT,
            self.fill(upper),
            blas.CUBLAS_OP_T if transpose else blas.CUBLAS_OP_N,
            blas.CUBLAS_DIAG_UNIT if unit else blas.CUBLAS_DIAG_NON_UNIT,
            columns, n, one.ctypes.data, matrix, n, right, columns,
        )  # fmt: skip


_ROUTINES: dict[str, Callable[[Solver, FactorCall], None]] = {
    "potrf": Solver.potrf,
    "getrf": Solver.getrf,
    "trsm": Solver.trsm,
}
