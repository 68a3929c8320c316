"""Lowerings of factorisations with orthonormal factors and eigenvalues: a library computes them.

What no output of the program is made of is not computed: singular values alone take a fraction of
the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phix.core.kernel_registry import provides
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.lowering import lapack
from phix.kernels.lowering.contraction import BLAS_DTYPES
from phix.kernels.lowering.host_steps import SPECTRAL, host
from phix.kernels.lowering.registry import Task, lowering

for _name in SPECTRAL:
    provides(_name, "NUMPY", BLAS_DTYPES)


# What a LAPACK does by itself, in compiled code.
_NATIVE: dict[str, Callable[..., None]] = {"qr": lapack.qr, "svd": lapack.svd, "eigh": lapack.eigh}


def _factors(name: str, vectors: tuple[int, ...], *attrs: str) -> None:
    """Lower an op by the function of its name; ``vectors`` are the outputs that cost extra."""

    @lowering(name, "whole")
    def rule(b: Builder, x: Value, *values: Any, task: Task) -> tuple[Value, ...]:
        given = dict(zip(attrs, values))
        given["vectors"] = any(task.is_read[place] for place in vectors)
        if b.target.factors_by_lapack and name in _NATIVE:
            every = given.values()
            return b.written(task.metas, lambda *out: _NATIVE[name](b, x, *every, *out))
        return host(b, task, name, partial(_run, name, given), x, **given)


def _run(name: str, attrs: dict[str, Any], x: np.ndarray, *out: np.ndarray) -> None:
    SPECTRAL[name](np, x, out, **attrs)


_factors("qr", (0,), "mode")
_factors("svd", (0, 2), "full_matrices")
_factors("eigh", (1,), "uplo")
_factors("eig", (1,))
