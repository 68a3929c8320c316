"""Sparse tensors beside SciPy's, in the column of NumPy, and torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, normal, row
from benchmarks.peers import Lazy, torch
from phix import sparse

scipy_sparse: Any = Lazy("scipy.sparse")
_SIZE, _EACH = 4000, 8  # rows and columns, and values in each row


def _matrix(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """crows, cols and values of a square matrix."""
    rng = np.random.default_rng(seed)
    cols = np.sort([rng.choice(_SIZE, _EACH, replace=False) for _ in range(_SIZE)], 1).reshape(-1)
    crows = np.arange(_SIZE + 1, dtype=np.int64) * _EACH
    return crows, cols, rng.standard_normal(len(cols)).astype(np.float32)


def _of_phix(crows: Any, cols: Any, values: Any) -> Any:
    return sparse.SparseCsrTensor(crows, cols, values, (_SIZE, _SIZE), True)


def _of_torch(crows: Any, cols: Any, values: Any) -> Any:
    return torch.sparse_csr_tensor(crows, cols, values, (_SIZE, _SIZE))


def _of_scipy(crows: Any, cols: Any, values: Any) -> Any:
    return scipy_sparse.csr_array((values, cols, crows), (_SIZE, _SIZE))


_NAME = f"{_SIZE} x {_SIZE} with {_EACH} values a row"


@row(f"sparse @ dense, {_NAME}, 64 columns", torch=0.8)
def times_dense() -> Case:
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda r, c, v, d: _of_phix(r, c, v) @ d,
        "torch": lambda r, c, v, d: _of_torch(r, c, v) @ d,
        "numpy": lambda r, c, v, d: _of_scipy(r, c, v) @ d,
    }
    return Case((*_matrix(0), normal(_SIZE, 64)), functions)


@row(f"sparse @ sparse, summed over the columns, {_NAME}")
def times_sparse() -> Case:
    """The sums are taken because the libraries give the columns in other orders."""

    def sums(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *p: make(*p[:3]) @ make(*p[3:6]) @ p[6]

    functions = {"phix": sums(_of_phix), "torch": sums(_of_torch), "numpy": sums(_of_scipy)}
    ones = np.ones(_SIZE, np.float32)
    return Case((*_matrix(0), *_matrix(1), ones), functions)


@row("coalesce, 64000 values of which half come twice", numpy=0.8, torch=0.8)
def coalesced() -> Case:
    crows, cols, values = _matrix(0)
    rows = np.repeat(np.arange(_SIZE), np.diff(crows))
    order = np.random.default_rng(2).permutation(2 * len(cols))
    places = np.stack([np.tile(rows, 2), np.tile(cols, 2)])[:, order]

    def of_phix(places: Any, values: Any) -> Any:
        return sparse.SparseCooTensor(places, values, (_SIZE, _SIZE)).coalesce().values

    def of_torch(places: Any, values: Any) -> Any:
        return torch.sparse_coo_tensor(places, values, (_SIZE, _SIZE)).coalesce().values()

    def of_scipy(places: Any, values: Any) -> Any:
        found = scipy_sparse.coo_array((values, tuple(places)), (_SIZE, _SIZE))
        found.sum_duplicates()
        return found.tocsr().data

    functions = {"phix": of_phix, "torch": of_torch, "numpy": of_scipy}
    return Case((places, np.tile(values, 2)[order]), functions)


@row(f"sparse to dense, {_NAME}", numpy=0.8, torch=0.8)
def to_dense() -> Case:
    functions: dict[str, Callable[..., Any]] = {
        "phix": lambda *p: _of_phix(*p).to_dense(),
        "torch": lambda *p: _of_torch(*p).to_dense(),
        "numpy": lambda *p: _of_scipy(*p).toarray(),
    }
    return Case(_matrix(0), functions)
