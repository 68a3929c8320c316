"""Windows of images and signals, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def _sides(paddings: Sequence[int]) -> tuple[int, int, int, int]:
    top, left, bottom, right = tuple(paddings) * (2 if len(paddings) == 2 else 1)
    return top, left, bottom, right


def _places(
    size: Sequence[int], kernel: Sequence[int], strides: Any, paddings: Any, dilations: Any
) -> Iterator[tuple[slice, slice]]:
    """Where each window lies on the padded image."""
    top, left, bottom, right = _sides(paddings)
    around = ((size[0] + top + bottom), (size[1] + left + right))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    for y in range(0, around[0] - reach[0] + 1, strides[0]):
        for x in range(0, around[1] - reach[1] + 1, strides[1]):
            yield (
                slice(y, y + reach[0], dilations[0]),
                slice(x, x + reach[1], dilations[1]),
            )


def unfold(
    x: np.ndarray, kernel: Sequence[int], strides: Any, paddings: Any, dilations: Any
) -> np.ndarray:
    n, c, *size = x.shape
    top, left, bottom, right = _sides(paddings)
    x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    places = _places(size, kernel, strides, paddings, dilations)
    taps = kernel[0] * kernel[1]
    return np.stack([x[:, :, a, b].reshape(n, c * taps) for a, b in places], -1)


def fold(
    x: np.ndarray,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Any,
    paddings: Any,
    dilations: Any,
) -> np.ndarray:
    n, taps, _ = x.shape
    c = taps // (kernel[0] * kernel[1])
    top, left, bottom, right = _sides(paddings)
    out = np.zeros((n, c, size[0] + top + bottom, size[1] + left + right), x.dtype)
    for number, (a, b) in enumerate(_places(size, kernel, strides, paddings, dilations)):
        out[:, :, a, b] += x[:, :, number].reshape(n, c, *kernel)
    return out[:, :, top : top + size[0], left : left + size[1]]


def frame(x: np.ndarray, length: int, hop: int, axis: int) -> np.ndarray:
    signal = x if axis == -1 else np.moveaxis(x, 0, -1)
    begins = range(0, signal.shape[-1] - length + 1, hop)
    frames = np.stack([signal[..., b : b + length] for b in begins], -1)
    return frames if axis == -1 else np.moveaxis(frames, (-1, -2), (0, 1))


def overlap_add(x: np.ndarray, hop: int, axis: int) -> np.ndarray:
    frames = x if axis == -1 else np.moveaxis(x, (0, 1), (-1, -2))
    *batch, length, count = frames.shape
    if not length or not count:
        raise ValueError("no frames")
    out = np.zeros((*batch, (count - 1) * hop + length), x.dtype)
    for number in range(count):
        out[..., number * hop : number * hop + length] += frames[..., number]
    return out if axis == -1 else np.moveaxis(out, -1, 0)


def stft(
    x: np.ndarray, window: np.ndarray, n_fft: int, hop: int, normalized: bool, onesided: bool
) -> np.ndarray:
    frames = frame(x, n_fft, hop, -1) * window[:, None]
    transform = np.fft.rfft if onesided else np.fft.fft
    return transform(frames, axis=-2, norm="ortho" if normalized else "backward")
