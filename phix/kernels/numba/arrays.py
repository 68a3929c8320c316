"""What wrappers for Numba call: arrays of memory that is given, which kernels may not write."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic


@intrinsic
def read_only(typing_context: Any, array: Any) -> Any:
    """The array, as one whose elements cannot be set: Numba refuses what tries to."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    frozen = types.Array(array.dtype, array.ndim, array.layout, readonly=True)
    return frozen(array), codegen
