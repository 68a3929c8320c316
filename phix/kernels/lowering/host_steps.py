"""Host steps of ops that libraries compute, and what NumPy does in them.

An engine that has another library for a step looks it up by the step's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
