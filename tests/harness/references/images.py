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

    def matrix(number: int, n: int, want: int) -> Any:
        ratio = _ratio(n, want, scales[number], corners) if want > 1 else 0.0
        return np.eye(n) if n == want else _matrix(method, n, want, ratio, corners, mode)

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

    def matrix(number: int, n: int, want: int) -> Any:
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
