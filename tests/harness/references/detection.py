"""Boxes of detectors, one box after the other."""

from __future__ import annotations

from typing import Any

import numpy as np


def box_codes(
    prior: np.ndarray, var: Any, target: np.ndarray, code: str, normalised: bool, axis: int,
    variance: Any,
) -> np.ndarray:  # fmt: skip
    extra = 0 if normalised else 1
    size = prior[:, 2:] - prior[:, :2] + extra
    centre = prior[:, :2] + size / 2
    scales = var if var is not None else np.broadcast_to(variance or [1.0] * 4, prior.shape)
    if code.startswith("encode"):
        out = np.zeros((len(target), len(prior), 4))
        for i, j in np.ndindex(*out.shape[:2]):
            t = target[i]
            out[i, j, :2] = ((t[:2] + t[2:]) / 2 - centre[j]) / size[j]
            out[i, j, 2:] = np.log(np.abs((t[2:] - t[:2] + extra) / size[j]))
            out[i, j] /= scales[j]
        return out
    out = np.zeros(target.shape)
    for i, j in np.ndindex(*out.shape[:2]):
        p = i if axis else j
        c = target[i, j] * scales[p]
        middle, half = c[:2] * size[p] + centre[p], np.exp(c[2:]) * size[p] / 2
        out[i, j] = [*(middle - half), *(middle + half - extra)]
    return out


def clipped_boxes(boxes: np.ndarray, info: np.ndarray) -> np.ndarray:
    out = boxes.reshape(-1, *boxes.shape[-2:]).copy()
    if len(out) != len(info):
        raise ValueError("images that do not fit")
    for image, (height, width, scale) in zip(out, info):
        last = np.rint([width / scale, height / scale] * 2) - 1
        image[:] = np.maximum(np.minimum(image, last), 0)
    return out.reshape(boxes.shape)


def prior_boxes(
    grid: Any, image: Any, least: Any, most: Any, ratios: Any, variances: Any, flip: bool,
    clip: bool, steps: Any, offset: float, extremes_first: bool,
) -> Any:  # fmt: skip
    every = [1.0]
    for r in ratios:
        if r not in every:
            every += [r, 1 / r] if flip else [r]
    sides = []
    for i, size in enumerate(least):
        own = [(size * r**0.5, size / r**0.5) for r in every]
        square = [((size * most[i]) ** 0.5,) * 2] if most else []
        sides += own[:1] + square + own[1:] if extremes_first else own + square
    out = np.zeros((*grid, len(sides), 4))
    for row, column, p in np.ndindex(*out.shape[:3]):
        x = (column + offset) * (steps[1] or image[1] / grid[1])
        y = (row + offset) * (steps[0] or image[0] / grid[0])
        w, h = sides[p]
        out[row, column, p] = [x - w / 2, y - h / 2, x + w / 2, y + h / 2]
    out /= [image[1], image[0]] * 2
    return np.clip(out, 0, 1) if clip else out, np.broadcast_to(variances, out.shape)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def yolo_boxes(
    x: np.ndarray, sizes: np.ndarray, anchors: Any, classes: int, least: float, ratio: int,
    clip: bool, scale: float, aware: bool, factor: float,
) -> Any:  # fmt: skip
    (images, _, rows, columns), count = x.shape, len(anchors) // 2
    if sizes.shape != (images, 2):
        raise ValueError("sizes that do not fit")
    boxes = np.zeros((images, count, rows, columns, 4))
    scores = np.zeros((images, count, rows, columns, classes))
    for n, a, r, c in np.ndindex(*boxes.shape[:4]):
        t = x[n, count if aware else 0 :].reshape(count, 5 + classes, rows, columns)[a, :, r, c]
        height, width = sizes[n]
        conf = _sigmoid(t[4])
        if aware:
            conf = conf ** (1 - factor) * _sigmoid(x[n, a, r, c]) ** factor
        if conf < least:
            continue
        cx = (c + _sigmoid(t[0]) * scale - (scale - 1) / 2) / columns * width
        cy = (r + _sigmoid(t[1]) * scale - (scale - 1) / 2) / rows * height
        w = np.exp(t[2]) * anchors[2 * a] / (ratio * columns) * width
        h = np.exp(t[3]) * anchors[2 * a + 1] / (ratio * rows) * height
        box = np.array([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
        if clip:
            box[:2] = np.maximum(box[:2], 0)
            box[2:] = np.minimum(box[2:], [width - 1, height - 1])
        boxes[n, a, r, c], scores[n, a, r, c] = box, conf * _sigmoid(t[5:])
    return boxes.reshape(images, -1, 4), scores.reshape(images, -1, classes)


def yolo_head(x: np.ndarray, classes: int) -> np.ndarray:
    if not x.shape[1]:
        raise ValueError("no anchors")
    parted = x.reshape(len(x), x.shape[1] // (5 + classes), 5 + classes, *x.shape[2:])
    out = _sigmoid(parted)
    out[:, :, 2:4] = np.exp(parted[:, :, 2:4])
    return out.reshape(x.shape)
