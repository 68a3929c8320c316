"""Regions of interest, one bin of one box at a time."""

from __future__ import annotations

from typing import Any

import numpy as np


def _images_of(boxes: np.ndarray, counts: Any, x: np.ndarray) -> np.ndarray:
    images = len(x)
    if not x.shape[2] * x.shape[3]:
        raise ValueError("images without pixels")
    if counts is None:
        return np.zeros(len(boxes), int)
    if len(counts) != images or boxes.shape[1] != 4 or counts.sum() != len(boxes):
        raise ValueError("counts or boxes that do not fit")
    return np.repeat(np.arange(images), counts)


def _point(image: np.ndarray, y: float, x: float) -> Any:
    """All channels at a point, 0 more than a pixel outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    a, b = int(y), int(x)
    c, d = min(a + 1, height - 1), min(b + 1, width - 1)
    p, q = y - a, x - b
    above = image[:, a, b] * (1 - q) + image[:, a, d] * q
    return above * (1 - p) + (image[:, c, b] * (1 - q) + image[:, c, d] * q) * p


def aligned_regions(
    x: np.ndarray, boxes: np.ndarray, counts: Any, down: int, across: int, scale: float,
    ratio: int, aligned: bool,
) -> np.ndarray:  # fmt: skip
    out = np.zeros((len(boxes), x.shape[1], down, across))
    for r, n in enumerate(_images_of(boxes, counts, x)):
        left, top, right, bottom = boxes[r] * scale - (0.5 if aligned else 0)
        size = np.array([bottom - top, right - left])
        own = (size if aligned else np.maximum(size, 1)) / (down, across)
        rows, columns = (ratio if ratio > 0 else int(np.ceil(s)) for s in own)
        for i, j in np.ndindex(down, across):
            points = [
                _point(x[n], top + (i + (a + 0.5) / rows) * own[0],
                       left + (j + (b + 0.5) / columns) * own[1])
                for a in range(rows) for b in range(columns)
            ]  # fmt: skip
            if points:
                out[r, :, i, j] = np.mean(points, 0)
    return out


def _bin(low: float, own: float, i: int, size: int) -> slice:
    start, end = np.floor(low + i * own), np.ceil(low + (i + 1) * own)
    return slice(int(np.clip(start, 0, size)), int(np.clip(end, 0, size)))


def _away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(0.5, x))


def pooled_regions(
    x: np.ndarray, boxes: np.ndarray, counts: Any, down: int, across: int, scale: float
) -> Any:
    out = np.zeros((len(boxes), x.shape[1], down, across))
    where = np.full(out.shape, -1)
    for r, n in enumerate(_images_of(boxes, counts, x)):
        left, top, right, bottom = _away(boxes[r] * scale)
        own = max(bottom - top + 1, 1) / down, max(right - left + 1, 1) / across
        for c, i, j in np.ndindex(*out.shape[1:]):
            rows, columns = _bin(top, own[0], i, x.shape[2]), _bin(left, own[1], j, x.shape[3])
            part = x[n, c, rows, columns]
            if part.size:
                a, b = np.unravel_index(part.argmax(), part.shape)
                out[r, c, i, j] = part[a, b]
                where[r, c, i, j] = (rows.start + a) * x.shape[3] + columns.start + b
    return out, where


def mean_regions(
    x: np.ndarray, boxes: np.ndarray, counts: Any, down: int, across: int, channels: int,
    scale: float,
) -> np.ndarray:  # fmt: skip
    if x.shape[1] != channels * down * across:
        raise ValueError("channels that do not fit")
    out = np.zeros((len(boxes), channels, down, across))
    for r, n in enumerate(_images_of(boxes, counts, x)):
        left, top = _away(boxes[r, :2]) * scale
        right, bottom = (_away(boxes[r, 2:]) + 1) * scale
        own = max(bottom - top, 0.1) / down, max(right - left, 0.1) / across
        for c, i, j in np.ndindex(*out.shape[1:]):
            rows, columns = _bin(top, own[0], i, x.shape[2]), _bin(left, own[1], j, x.shape[3])
            part = x[n, (c * down + i) * across + j, rows, columns]
            out[r, c, i, j] = part.mean() if part.size else 0
    return out
