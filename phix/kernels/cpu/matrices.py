"""Matrices of SciPy around memory that is there."""

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
