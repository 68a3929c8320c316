"""Convolutions and pools. All images are in the layout that ``data_format`` names: NCHW or NHWC."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def windows(
    x: np.ndarray,
    size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    fill: float = 0.0,
) -> np.ndarray:
    """The windows of images [n, c, h, w], as [n, c, rows, columns, size[0], size[1]].

    ``paddings`` has one entry an axis, or two (before and after each): (top, bottom, left, right).
    """
    pads = list(paddings) if len(paddings) == 4 else [p for p in paddings for _ in range(2)]
    x = np.pad(x, [(0, 0), (0, 0), pads[:2], pads[2:]], constant_values=fill)
    reach = [d * (s - 1) + 1 for s, d in zip(size, dilations)]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    return views[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> np.ndarray:
    """The cross-correlation of images with filters [out, in / groups, kh, kw]."""
    x = channels_first(x, data_format)
    _check_filters(w, x.shape[1], w.shape[1] * groups)
    out = []
    for part, filters in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        seen = windows(part, w.shape[2:], strides, paddings, dilations)
        out.append(np.einsum("ncijkl,ockl->noij", seen, filters))
    return channels_back(np.concatenate(out, 1), data_format)


def _check_filters(w: np.ndarray, have: int, want: int) -> None:
    if have != want or 0 in w.shape:
        raise ValueError(f"filters {w.shape} for {have} channels in place of {want}")


def conv2d_transpose(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    paddings: Sequence[int],
    output_padding: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Each element times its filter [in, out / groups, kh, kw], added up where they overlap."""
    n, c, h, wide = x.shape
    _check_filters(w, c, w.shape[0])
    _, per_group, kh, kw = w.shape
    size = [
        (length - 1) * s + (k - 1) * d + 1
        for length, s, k, d in zip((h, wide), strides, (kh, kw), dilations)
    ]
    out = np.zeros((n, per_group * groups, size[0] + 8, size[1] + 8), x.dtype)
    for channel, i, j in np.ndindex(c, kh, kw):
        first = channel // (c // groups) * per_group
        rows = slice(i * dilations[0], i * dilations[0] + h * strides[0], strides[0])
        columns = slice(j * dilations[1], j * dilations[1] + wide * strides[1], strides[1])
        term = x[:, channel, None] * w[channel, None, :, i, j, None, None]
        out[:, first : first + per_group, rows, columns] += term
    more = tuple(output_padding) or (0, 0)
    ends = [s - p + e for s, p, e in zip(size, paddings, more)]
    return out[:, :, paddings[0] : ends[0], paddings[1] : ends[1]]


def conv3d(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    data_format: str,
) -> np.ndarray:
    """The sum of convolutions of the slices by the slices of the filters."""
    x = np.moveaxis(x, 4, 1) if data_format == "NDHWC" else x
    _check_filters(w, x.shape[1], w.shape[1] * groups)
    pads = list(paddings) if len(paddings) == 6 else [p for p in paddings for _ in range(2)]
    x = np.pad(x, [(0, 0), (0, 0), pads[:2], (0, 0), (0, 0)])
    reach = dilations[0] * (w.shape[2] - 1) + 1
    slices = []
    for first in range(0, x.shape[2] - reach + 1, strides[0]):
        taps = (
            conv2d(
                x[:, :, first + i * dilations[0]], w[:, :, i], strides[1:], pads[2:],
                dilations[1:], groups,
            )
            for i in range(w.shape[2])
        )  # fmt: skip
        slices.append(sum(taps))
    out = np.stack(slices, 2)
    return np.moveaxis(out, 1, 4) if data_format == "NDHWC" else out


def conv3d_transpose(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    paddings: Sequence[int],
    output_padding: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Transposed convolutions of the slices, added up where they overlap."""
    _check_filters(w, x.shape[1], w.shape[0])
    more = tuple(output_padding) or (0, 0, 0)
    depth, taps = x.shape[2], w.shape[2]
    size = (depth - 1) * strides[0] + (taps - 1) * dilations[0] + 1
    total: dict[int, np.ndarray] = {}
    for d in range(depth):
        for i in range(taps):
            sizes = (strides[1:], paddings[1:], more[1:], dilations[1:], groups)
            part = conv2d_transpose(x[:, :, d], w[:, :, i], *sizes)
            at = d * strides[0] + i * dilations[0]
            total[at] = total.get(at, 0) + part
    nothing = np.zeros_like(next(iter(total.values())))
    slices = [total.get(i, nothing) for i in range(size + more[0])]
    return np.stack(slices[paddings[0] : size - paddings[0] + more[0]], 2)


def max_pool2d(
    x: np.ndarray,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int] = (0, 0),
    data_format: str = "NCHW",
) -> np.ndarray:
    """The largest value of each window; padding never wins."""
    seen = windows(channels_first(x, data_format), kernel_size, strides, paddings, fill=-np.inf)
    return channels_back(seen.max((4, 5)), data_format)


def avg_pool2d(
    x: np.ndarray,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int] = (0, 0),
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> np.ndarray:
    """The mean of each window; ``exclusive`` leaves the padding out of the count."""
    images = channels_first(x, data_format)
    total = windows(images, kernel_size, strides, paddings).sum((4, 5))
    inside = windows(np.ones_like(images), kernel_size, strides, paddings).sum((4, 5))
    count = inside if exclusive else kernel_size[0] * kernel_size[1]
    return channels_back(total / count, data_format)


def channels_first(x: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(x, 3, 1) if data_format == "NHWC" else x


def channels_back(x: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(x, 1, 3) if data_format == "NHWC" else x


# -- any number of spatial axes, window by window --------------------------------------------------
Spans = list[list[tuple[int, int]]]


def _sliding(
    size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], paddings: Sequence[int]
) -> Spans:
    return [
        [(i * s - p, i * s - p + k) for i in range((n + 2 * p - k) // s + 1)]
        for n, k, s, p in zip(size, kernel, strides, paddings)
    ]


def _adaptive(size: Sequence[int], counts: Sequence[int]) -> Spans:
    return [[(i * n // c, -(-(i + 1) * n // c)) for i in range(c)] for n, c in zip(size, counts)]


def _spans(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    is_global: bool,
    is_adaptive: bool,
) -> Spans:
    if 0 in size:
        raise ValueError("nothing to pool")
    if is_global:
        return [[(0, n)] for n in size]
    return _adaptive(size, kernel) if is_adaptive else _sliding(size, kernel, strides, paddings)


def _each(
    x: np.ndarray, spans: Spans, value: Callable[[np.ndarray, list[tuple[int, int]]], Any]
) -> np.ndarray:
    """``value(window, spans)`` for the part of each window that lies on images [n, c, ...]."""
    out: Any = np.empty((*x.shape[:2], *map(len, spans)), object)
    for place in np.ndindex(*out.shape):
        window = [span[i] for span, i in zip(spans, place[2:])]
        on = tuple(slice(max(a, 0), b) for a, b in window)
        out[place] = value(x[place[:2]][on], window)
    return out.astype(type(out.flat[0]) if out.size else x.dtype)


def pooled(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    exclusive: bool,
    data_format: str,
    kind: str,
    is_global: bool = False,
    is_adaptive: bool = False,
) -> np.ndarray:
    """max, avg or sum of each window."""
    last = data_format[-1] == "C"
    x = np.moveaxis(x, -1, 1) if last else x
    spans = _spans(x.shape[2:], kernel, strides, paddings, is_global, is_adaptive)

    def value(window: np.ndarray, span: list[tuple[int, int]]) -> Any:
        whole = window.size if exclusive else math.prod(b - a for a, b in span)
        return {"max": np.max, "sum": np.sum, "avg": lambda w: w.sum() / whole}[kind](window)

    out = _each(x, spans, value)
    return np.moveaxis(out, 1, -1) if last else out


def indexed_maxima(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    is_global: bool = False,
    is_adaptive: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The maxima of the windows and their places."""
    return _maxima(x, _spans(x.shape[2:], kernel, strides, paddings, is_global, is_adaptive))


def _maxima(x: np.ndarray, spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    def place(window: np.ndarray, span: list[tuple[int, int]]) -> int:
        at = np.unravel_index(window.argmax(), window.shape)
        on = [max(a, 0) + int(i) for (a, _), i in zip(span, at)]
        return int(np.ravel_multi_index(on, x.shape[2:]))

    return _each(x, spans, lambda w, _: w.max()), _each(x, spans, place).astype(np.int32)


def fractional_maxima(
    x: np.ndarray, counts: Sequence[int], kernel: Sequence[int], u: float
) -> tuple[np.ndarray, np.ndarray]:
    """The maxima of windows that begin at multiples of a fraction."""
    spans = []
    for n, c, k in zip(x.shape[2:], counts, kernel):
        if not n:
            raise ValueError("nothing to pool")
        a = (n - k) / (c - 1) if k else n / c
        v = u if k else u * min((n // c + 2) / a - 1, (n + 1 - n // c) / a - (c - 1))
        begin = [int((i + v) * a) - int(v * a) for i in range(c + 1)]
        spans.append([(begin[i], begin[i] + k if k else begin[i + 1]) for i in range(c)])
    return _maxima(x, spans)


def unpooled(x: np.ndarray, indices: np.ndarray, size: Sequence[int]) -> np.ndarray:
    if min(size) < 1:
        raise ValueError("nothing to put x into")
    out = np.zeros((*x.shape[:2], math.prod(size)), x.dtype)
    for place in np.ndindex(*x.shape):
        out[(*place[:2], indices[place])] = x[place]
    return out.reshape(*x.shape[:2], *size)
