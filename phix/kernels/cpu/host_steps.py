"""Host steps that SciPy does better than NumPy: in float32 where that is asked for, by threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from phix.kernels.cpu.threads import thread_count

# Transforms of fewer points are done before a thread has started.
_SHARED_POINTS = 1 << 15


def _workers(size: int) -> int:
    return thread_count() if size >= _SHARED_POINTS else 1


def _fft_c2c(attrs: Mapping[str, Any], x: np.ndarray, out: np.ndarray) -> None:
    from scipy import fft

    transform = fft.fftn if attrs["forward"] else fft.ifftn
    out[...] = x  # which the transform may then write over
    found = transform(
        out,
        axes=attrs["axes"],
        norm=attrs["normalization"],
        overwrite_x=True,
        workers=_workers(x.size),
    )
    if not np.may_share_memory(found, out):
        out[...] = found


def _fft_r2c(attrs: Mapping[str, Any], x: np.ndarray, out: np.ndarray) -> None:
    from scipy import fft

    one_sided, two_sided = (fft.rfftn, fft.fftn) if attrs["forward"] else (fft.ihfftn, fft.ifftn)
    transform = one_sided if attrs["onesided"] else two_sided
    out[...] = transform(
        x, axes=attrs["axes"], norm=attrs["normalization"], workers=_workers(x.size)
    )


def _fft_c2r(attrs: Mapping[str, Any], x: np.ndarray, out: np.ndarray) -> None:
    from scipy import fft

    axes = attrs["axes"]
    transform = fft.hfftn if attrs["forward"] else fft.irfftn
    sizes = [out.shape[a] for a in axes]
    out[...] = transform(x, sizes, axes, attrs["normalization"], workers=_workers(x.size))


_STEPS: dict[str, Callable[..., None]] = {
    "fft_c2c": _fft_c2c, "fft_r2c": _fft_r2c, "fft_c2r": _fft_c2r,
}  # fmt: skip


def find(name: str, attrs: Mapping[str, Any]) -> Callable[..., None] | None:
    """``step(*input arrays, *output arrays)`` for a host step, or None."""
    step = _STEPS.get(name)
    return None if step is None else lambda *arrays: step(attrs, *arrays)
