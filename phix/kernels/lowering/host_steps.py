"""Host steps of ops that libraries compute, and what NumPy does in them.

An engine that has another library for a step looks it up by the step's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core.later import make
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.registry import Task

# norm -> the one that divides in the other direction
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def host(
    b: Builder, task: Task, name: str, function: Callable[..., Any], *inputs: Value, **attrs: Any
) -> tuple[Value, ...]:
    """The outputs of the equation, computed by ``function(*input arrays, *output arrays)``."""

    def write(*out: Buffer) -> None:
        b.host(name, function, inputs, out, **attrs)

    return b.written(task.metas, write)


# -- Fourier transforms: ``fft`` has the functions of numpy.fft ----------------------------------
def fft_c2c(
    fft: Any, x: Any, out: Any, axes: tuple[int, ...], normalization: str, forward: bool
) -> None:
    """See the op of that name."""
    transform = fft.fftn if forward else fft.ifftn
    out[...] = transform(x, axes=axes, norm=normalization)


def fft_r2c(
    fft: Any,
    x: Any,
    out: Any,
    axes: tuple[int, ...],
    normalization: str,
    forward: bool,
    onesided: bool,
) -> None:
    """See the op of that name."""
    if not onesided:
        fft_c2c(fft, x, out, axes, normalization, forward)
        return
    norm = normalization if forward else _SWAPPED[normalization]
    half = fft.rfftn(x, axes=axes, norm=norm)
    out[...] = half if forward else half.conj()


def fft_c2r(
    fft: Any, x: Any, out: Any, axes: tuple[int, ...], normalization: str, forward: bool
) -> None:
    """See the op of that name.

    The last axis by itself: several at once, cuFFT relies on what the others make symmetric.
    """
    *others, last = axes
    norm = _SWAPPED[normalization] if forward else normalization
    x = x.conj() if forward else x
    x = fft.ifftn(x, axes=others, norm=norm) if others else x
    out[...] = fft.irfft(x, out.shape[last], last, norm)


FOURIER: dict[str, Callable[..., None]] = {
    "fft_c2c": fft_c2c, "fft_r2c": fft_r2c, "fft_c2r": fft_c2r,
}  # fmt: skip


# -- factorisations: ``xp`` is numpy or cupy -----------------------------------------------------
def qr(xp: Any, x: Any, out: Any, mode: str, vectors: bool) -> None:
    """See the op of that name; ``vectors``: q is wanted, too."""
    if mode == "r" or (mode == "reduced" and not vectors):
        out[1][...] = xp.linalg.qr(x, "r")
        return
    out[0][...], out[1][...] = xp.linalg.qr(x, mode)


def svd(xp: Any, x: Any, out: Any, full_matrices: bool, vectors: bool) -> None:
    """See the op of that name; ``vectors``: u and vh are wanted, too."""
    if vectors:
        _put(xp, lambda a: xp.linalg.svd(a, full_matrices), x, out)
    else:
        _put(xp, lambda a: (xp.linalg.svd(a, compute_uv=False),), x, out[1:2])


def eigh(xp: Any, x: Any, out: Any, uplo: str, vectors: bool) -> None:
    """See the op of that name; ``vectors``: they are wanted, too."""
    x = xp.tril(x) if uplo == "L" else xp.triu(x)  # what is in the other triangle is not asked
    if vectors:
        _put(xp, lambda a: xp.linalg.eigh(a, uplo), x, out)
    else:
        _put(xp, lambda a: (xp.linalg.eigvalsh(a, uplo),), x, out[:1])


def eig(xp: Any, x: Any, out: Any, vectors: bool) -> None:
    """See the op of that name; ``vectors``: they are wanted, too."""
    if vectors:
        _put(xp, xp.linalg.eig, x, out)
    else:
        _put(xp, lambda a: (xp.linalg.eigvals(a),), x, out[:1])


def schur(xp: Any, x: Any, out: Any, vectors: bool) -> None:
    """See the op of that name; ``vectors``: z is wanted, too, which a LAPACK makes anyway."""
    _put(xp, lambda a: make("scipy.schur", a), x, out)


def _put(xp: Any, factors: Callable[[Any], Any], x: Any, out: Any) -> None:
    """Fill ``out`` with the factors of matrices, and with nan those of matrices that have none:
    with inf or nan in them, which libraries refuse, or where the algorithm does not end."""
    is_bad = ~xp.isfinite(x).all((-2, -1))
    if is_bad.any():
        x = xp.where(is_bad[..., None, None], x.dtype.type(0), x)
    try:
        found = factors(x)
    except np.linalg.LinAlgError:
        if x.ndim > 2:
            for place in np.ndindex(x.shape[:-2]):
                _put(xp, factors, x[place], [to[place] for to in out])
        else:
            is_bad = xp.asarray(True)
        found = out
    for to, value in zip(out, found):
        if value is not to:
            to[...] = value
        if is_bad.any():
            to[is_bad] = xp.nan


SPECTRAL: dict[str, Callable[..., None]] = {
    "qr": qr, "svd": svd, "eigh": eigh, "eig": eig, "schur": schur,
}  # fmt: skip
