"""Matrices of SciPy around memory that is there, and factors that it alone has."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core.later import maker


@maker("scipy.csr_array")
def csr_array(values: np.ndarray, cols: np.ndarray, crows: np.ndarray, shape: Any) -> Any:
    from scipy import sparse

    return sparse.csr_array((values, cols, crows), shape)


@maker("scipy.coo_array")
def coo_array(values: np.ndarray, places: tuple[np.ndarray, ...], shape: Any) -> Any:
    from scipy import sparse

    return sparse.coo_array((values, places), shape)


@maker("scipy.schur")
def schur(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t and z of matrices [..., n, n], finite ones.

    Raises:
        LinAlgError: the algorithm does not end.
    """
    from scipy import linalg

    t, z = np.empty_like(a), np.empty_like(a)
    if a.size:
        output = "complex" if np.iscomplexobj(a) else "real"
        for at in np.ndindex(a.shape[:-2]):
            t[at], z[at] = linalg.schur(a[at], output, check_finite=False)
    return t, z
