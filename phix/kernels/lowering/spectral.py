"""Lowerings of factorisations with orthonormal factors and eigenvalues: a library computes them,
and those of small real matrices loops.

What no output of the program is made of is not computed: singular values alone take a fraction of
the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.kernel_registry import provides
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering import householder, jacobi, lapack
from phix.kernels.lowering.contraction import BLAS_DTYPES
from phix.kernels.lowering.host_steps import SPECTRAL, host
from phix.kernels.lowering.lanes import choice
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc

for _name in SPECTRAL:
    provides(_name, "NUMPY", BLAS_DTYPES)


# What a LAPACK does by itself, in compiled code.
_NATIVE: dict[str, Callable[..., None]] = {"qr": lapack.qr, "svd": lapack.svd, "eigh": lapack.eigh}
# What loops do for many small matrices at once.
_LANES: dict[str, Callable[..., None]] = {
    "qr": householder.qr,
    "svd": jacobi.svd,
    "eigh": jacobi.eigh,
}


def _factors(name: str, vectors: tuple[int, ...], *attrs: str) -> None:
    """Lower an op by the function of its name; ``vectors`` are the outputs that cost extra."""

    @lowering(name, "whole")
    def rule(b: Builder, x: Value, *values: Any, task: Task) -> tuple[Value, ...]:
        given = dict(zip(attrs, values))
        given["vectors"] = any(task.is_read[place] for place in vectors)
        if b.target.factors_by_lapack and name in _NATIVE:
            write = partial(_native, b, name, x, tuple(given.values()))
            return b.written(task.metas, write)
        return host(b, task, name, partial(_run, name, given), x, **given)


def _native(b: Builder, name: str, x: Value, attrs: tuple[Any, ...], *out: Buffer) -> None:
    """By the loops for small matrices or a LAPACK; for sizes not known, by what they turn out."""
    ways = [partial(table[name], b, x, *attrs, *out) for table in (_NATIVE, _LANES)]
    is_small = choice(b, x)
    if isinstance(is_small, bool):
        ways[is_small]()
        return
    b.contiguous(x)  # for both
    chosen, lists = b.temp((), dt.int64), []
    b.fill(chosen, Value((), dt.int64, lambda _: sc.cast(is_small, dt.int64)))
    for way in ways:
        with b.nested() as steps:
            way()
        lists.append(steps)
    b.steps.append(ir.SwitchStep(chosen, lists))


def _run(name: str, attrs: dict[str, Any], x: np.ndarray, *out: np.ndarray) -> None:
    SPECTRAL[name](np, x, out, **attrs)


_factors("qr", (0,), "mode")
_factors("svd", (0, 2), "full_matrices")
_factors("eigh", (1,), "uplo")
_factors("eig", (1,))
_factors("schur", (1,))
