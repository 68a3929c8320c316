"""Which library serves which op: kernels are chosen by backend, layout and dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class KernelKey:
    """Backend (a place and a library: CPU, BLAS, NUMPY, GPU, GPUDNN), layout, dtype."""

    backend: str
    layout: str
    dtype: np.dtype


# op name -> the keys it has kernels for, in the order of preference
_KERNELS: dict[str, dict[KernelKey, Any]] = {}


def register_kernel(
    op_name: str,
    backend: str,
    dtypes: tuple[np.dtype, ...],
    layout: str = "any",
    kernel: Any = None,
) -> None:
    """Say that ``backend`` has a kernel for the op in these dtypes; the first one said wins."""
    known = _KERNELS.setdefault(op_name, {})
    for dtype in dtypes:
        known[KernelKey(backend, layout, dtype)] = kernel


def select_kernel(
    op_name: str, dtype: np.dtype, backends: tuple[str, ...], layout: str = "any"
) -> tuple[KernelKey, Any] | None:
    """The first of ``backends`` with a kernel for the op and dtype: its key and kernel."""
    known = _KERNELS.get(op_name, {})
    for backend in backends:
        for place in (layout, "any"):
            key = KernelKey(backend, place, dtype)
            if key in known:
                return key, known[key]
    return None


def kernel_keys(op_name: str) -> tuple[KernelKey, ...]:
    """The keys the op has library kernels for."""
    return tuple(_KERNELS.get(op_name, ()))
