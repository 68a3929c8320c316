"""Images resized, sampled and rearranged: each element of a result from its definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


# -- resizing ----------------------------------------------------------------------------------
def _keys(d: float, a: float) -> float:
    d = abs(d)
    if d < 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def _ratio(have: int, want: int, scale: float, corners: bool) -> float:
    if corners:
        return (have - 1) / (want - 1) if want > 1 else 0.0
    return 1 / scale if scale else have / want


def _sizes(
    have: Sequence[int], outs: Sequence[int], scale: Sequence[float]
) -> tuple[list[int], list[float]]:
    if 0 in have:
        raise ValueError("nothing to interpolate between")
    scales = list(scale) * len(have) if len(scale) == 1 else list(scale) or [0.0] * len(have)
    if scale:
        return [math.floor(n * s + 1e-6) for n, s in zip(have, scales)], scales
    return list(outs)[-len(have) :], scales


def _matrix(method: str, have: int, want: int, ratio: float, corners: bool, mode: int) -> Any:
    """[want, have]: what each element of the result takes of each of the axis."""
    found = np.zeros((want, have))

    def add(k: int, i: int, weight: float) -> None:
        found[k, min(max(i, 0), have - 1)] += weight

    for k in range(want):
        half = (k + 0.5) * ratio - 0.5
        if method == "nearest":
            add(k, math.floor(np.float32(ratio) * k + (0.5 if corners else 0)), 1)
        elif method == "linear":
            at = max(half, 0.0) if mode == 0 and not corners else k * ratio
            add(k, math.floor(at), 1 - at % 1)
            add(k, math.floor(at) + 1, at % 1)
        else:
            at = k * ratio if corners else half
            for i in range(math.floor(at) - 1, math.floor(at) + 3):
                add(k, i, _keys(at - i, -0.75))
    return found


def _resized(
    x: np.ndarray, data_format: str, sizes: Sequence[int], matrix: Callable[..., Any]
) -> np.ndarray:
    last = data_format[-1] == "C"
    for axis, want in enumerate(sizes, 1 if last else 2):
        weights = matrix(axis - (1 if last else 2), x.shape[axis], want)
        if x.dtype.kind not in "fc":
            x = np.take(x, weights.argmax(1), axis)
        else:
            x = np.moveaxis(np.tensordot(weights, x, (1, axis)), 0, axis)
    return x


def interpolate(
    x: np.ndarray,
    method: str,
    data_format: str,
    outs: Sequence[int],
    scale: Sequence[float],
    corners: bool,
    mode: int,
    out_size: Any = None,
    size_tensor: Any = None,
    scale_tensor: Any = None,
) -> np.ndarray:
    """Each axis by a matrix of weights."""
    have = x.shape[1:-1] if data_format[-1] == "C" else x.shape[2:]
    sizes, scales = _sizes(have, outs, scale)
    is_kept = sizes == list(have)  # all of them, as in Paddle, whatever the scales

    def matrix(number: int, n: int, want: int) -> Any:
        ratio = _ratio(n, want, scales[number], corners) if want > 1 else 0.0
        return np.eye(n) if is_kept else _matrix(method, n, want, ratio, corners, mode)

    return _resized(x, data_format, sizes, matrix)


def antialiased(
    x: np.ndarray,
    method: str,
    data_format: str,
    outs: Sequence[int],
    scale: Sequence[float],
    corners: bool,
) -> np.ndarray:
    """Each axis by a matrix of weights of a kernel as wide as the image gets smaller."""
    have = x.shape[1:-1] if data_format[-1] == "C" else x.shape[2:]
    sizes, scales = _sizes(have, outs, scale)
    is_kept = sizes == list(have)

    def matrix(number: int, n: int, want: int) -> Any:
        if is_kept:
            return np.eye(n)
        ratio = _ratio(n, want, scales[number], corners)
        wide = max(ratio, 1.0)
        support = wide * (1 if method == "bilinear" else 2)
        found = np.zeros((want, n))
        for k in range(want):
            middle = (k + 0.5) * ratio
            first = max(math.floor(middle - support + 0.5), 0)
            for i in range(first, min(math.floor(middle + support + 0.5), n)):
                d = (i + 0.5 - middle) / wide
                found[k, i] = max(1 - abs(d), 0) if method == "bilinear" else _keys(d, -0.5)
        return found / found.sum(1, keepdims=True)

    return _resized(x, data_format, sizes, matrix)


# -- rearranging -------------------------------------------------------------------------------
def _first(x: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(x, -1, 1) if data_format == "NHWC" else x


def _back(x: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(x, 1, -1) if data_format == "NHWC" else x


def pixel_shuffle(x: np.ndarray, r: int, data_format: str) -> np.ndarray:
    x = _first(x, data_format)
    n, c, h, w = x.shape
    out = np.empty((n, c // r**2, h * r, w * r), x.dtype)
    for i, j in np.ndindex(r, r):
        out[:, :, i::r, j::r] = x[:, i * r + j :: r * r]
    return _back(out, data_format)


def pixel_unshuffle(x: np.ndarray, r: int, data_format: str) -> np.ndarray:
    x = _first(x, data_format)
    n, c, h, w = x.shape
    out = np.empty((n, c * r**2, h // r, w // r), x.dtype)
    for i, j in np.ndindex(r, r):
        out[:, i * r + j :: r * r] = x[:, :, i::r, j::r]
    return _back(out, data_format)


def channel_shuffle(x: np.ndarray, groups: int, data_format: str) -> np.ndarray:
    x = _first(x, data_format)
    each = x.shape[1] // groups
    order = [g * each + i for i in range(each) for g in range(groups)]
    return _back(x[:, order], data_format)


def temporal_shift(x: np.ndarray, count: int, ratio: float, data_format: str) -> np.ndarray:
    x = _first(x, data_format)
    first, second = int(x.shape[1] * ratio), int(x.shape[1] * ratio * 2)
    out = np.zeros_like(x)
    for number, channel in np.ndindex(*x.shape[:2]):
        place = number % count
        source = place - 1 if channel < first else place + 1 if channel < second else place
        if 0 <= source < count:
            out[number, channel] = x[number - place + source, channel]
    return _back(out, data_format)


# -- sampling ----------------------------------------------------------------------------------
def _pixel(image: np.ndarray, at: Sequence[int]) -> float:
    """An element of an image, 0 off it."""
    on = all(0 <= i < n for i, n in zip(at, image.shape))
    return float(image[tuple(at)]) if on else 0.0


def _between(image: np.ndarray, at: Sequence[float]) -> float:
    """Multilinear between the elements around a place."""
    total = 0.0
    for corner in np.ndindex(*(2,) * len(at)):
        places = [math.floor(a) + up for a, up in zip(at, corner)]
        total += _pixel(image, places) * math.prod(1 - abs(a - p) for a, p in zip(at, places))
    return total


def _reflect(at: float, low: float, high: float) -> float:
    if low == high:
        return low
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def grid_sample(
    x: np.ndarray, grid: np.ndarray, mode: str, padding: str, corners: bool
) -> np.ndarray:
    if 0 in x.shape[2:] or grid.shape[-1] != x.ndim - 2:
        raise ValueError("nothing to sample, or no places")
    out = np.empty((*x.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(*grid.shape[:-1]):
        at = []
        for g, n in zip(grid[place][::-1], x.shape[2:]):
            p = (g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2
            if padding == "reflection":
                p = _reflect(p, 0, n - 1) if corners else _reflect(p, -0.5, n - 0.5)
            at.append(p if padding == "zeros" else min(max(p, 0), n - 1))
        for c in range(x.shape[1]):
            image = x[place[0], c]
            value = (
                _between(image, at) if mode == "bilinear" else _pixel(image, [round(p) for p in at])
            )
            out[(place[0], c, *place[1:])] = value
    return out


def affine_grid(matrices: np.ndarray, shape: Sequence[int], corners: bool) -> np.ndarray:
    rank = len(shape) - 2
    out = np.empty((shape[0], *shape[2:], rank))
    for place in np.ndindex(*out.shape[:-1]):
        at = [
            (2 * i / (n - 1) - 1 if n > 1 else 0) if corners else (2 * i + 1) / n - 1
            for i, n in zip(place[1:], shape[2:])
        ]
        out[place] = matrices[place[0]] @ [*at[::-1], 1]
    return out


def correlation(
    a: np.ndarray, b: np.ndarray, pad: int, kernel: int, most: int, step: int, apart: int
) -> np.ndarray:
    n, c, h, w = a.shape
    reach, moves = kernel // 2, most // apart
    oh, ow = (math.ceil((d + 2 * (pad - reach - most)) / step) for d in (h, w))
    if min(oh, ow) < 1 or not c:
        raise ValueError("nothing is left")
    out = np.zeros((n, (2 * moves + 1) ** 2, oh, ow))
    for image, channel, y, x in np.ndindex(*out.shape):
        down, across = (int(i) - moves for i in np.unravel_index(channel, (2 * moves + 1,) * 2))
        for k, i, j in np.ndindex(c, kernel, kernel):
            at = [v * step + most - pad + t - reach for v, t in ((y, i), (x, j))]
            other = [at[0] + down * apart, at[1] + across * apart]
            out[image, channel, y, x] += _pixel(a[image, k], at) * _pixel(b[image, k], other)
    return out / (c * kernel**2)


def deformable_conv(
    x: np.ndarray,
    offset: np.ndarray,
    w: np.ndarray,
    mask: np.ndarray | None,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    parts: int,
    groups: int,
) -> np.ndarray:
    n, c = x.shape[:2]
    o, per_group, kh, kw = w.shape
    oh, ow = offset.shape[2:]
    if c != per_group * groups or 0 in (*w.shape, *x.shape[1:]):
        raise ValueError("filters that do not fit")
    out = np.zeros((n, o, oh, ow))
    for image, f, i, a, b, y, z in np.ndindex(n, o, per_group, kh, kw, oh, ow):
        channel = f // (o // groups) * per_group + i
        tap = (channel // (c // parts) * kh + a) * kw + b
        at = (
            y * strides[0] - paddings[0] + a * dilations[0] + offset[image, 2 * tap, y, z],
            z * strides[1] - paddings[1] + b * dilations[1] + offset[image, 2 * tap + 1, y, z],
        )
        weight = w[f, i, a, b] * (1 if mask is None else mask[image, tap, y, z])
        out[image, f, y, z] += _between(x[image, channel], at) * weight
    return out
