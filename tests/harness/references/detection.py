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


def _shared(a: Any, b: Any, extra: float = 0.0) -> float:
    """Intersection over union of two boxes."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    if np.any(high < low):
        return 0.0
    both = np.prod(high - low + extra)
    union = sum(np.prod(p[2:] - p[:2] + extra) for p in (a, b)) - both
    return float(both / union) if union > 0 else 0.0


def kept_boxes(boxes: np.ndarray, threshold: float) -> np.ndarray:
    kept: list[int] = []
    assert boxes.shape[1] == 4
    for i in range(len(boxes)):
        if all(_shared(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(i)
    return np.array(kept, np.int64)


def _decayed(boxes: Any, gaussian: bool, sigma: float, extra: float) -> list[float]:
    found, most = [], []
    for i in range(len(boxes)):
        shared = [_shared(boxes[i], boxes[j], extra) for j in range(i)]
        factors = [1.0]
        for s, m in zip(shared, most):
            if gaussian:
                factors.append(np.exp((m * m - s * s) * sigma))
            elif m < 1:
                factors.append((1 - s) / (1 - m))
        most.append(max(shared, default=0.0))
        found.append(min(factors))
    return found


def matrix_kept(
    bboxes: np.ndarray, scores: np.ndarray, least: float, top: int, keep: int, post: float,
    gaussian: bool, sigma: float, background: int, normalised: bool,
) -> Any:  # fmt: skip
    rows, index, counts = [], [], []
    size = bboxes.shape[1]
    for n, boxes in enumerate(bboxes):
        found = []
        for c in range(scores.shape[1]):
            order = np.argsort(-scores[n, c], kind="stable")
            order = [i for i in order if scores[n, c, i] > least and c != background]
            order = order if top < 0 else order[:top]
            decay = _decayed(boxes[order], gaussian, sigma, 0.0 if normalised else 1.0)
            all_of = [(scores[n, c, i] * d, c, i) for i, d in zip(order, decay)]
            found += [f for f in all_of if f[0] > post]
        found.sort(key=lambda f: -f[0])
        found = found if keep < 0 else found[:keep]
        rows += [[c, score, *boxes[i]] for score, c, i in found]
        index += [[n * size + i] for _, _, i in found]
        counts.append(len(found))
    out = np.array(rows).reshape(-1, 6)
    return out, np.array(index, np.int32).reshape(-1, 1), np.array(counts, np.int32)


def kept_by_class(
    bboxes: np.ndarray, scores: np.ndarray, rois_num: Any, least: float, top: int, keep: int,
    threshold: float, normalised: bool, eta: float, background: int,
) -> Any:  # fmt: skip
    """One image after the other, one class after the other."""
    if rois_num is None:
        images = [(b, s.T, 0) for b, s in zip(bboxes, scores, strict=True)]
    else:
        ends = np.cumsum(rois_num)
        assert np.sum(rois_num) == len(bboxes)
        images = [(bboxes[e - n : e], scores[e - n : e], e - n) for e, n in zip(ends, rois_num)]
    rows, index, counts = [], [], []
    for number, (boxes, marks, first) in enumerate(images):
        found = []
        for c in range(scores.shape[1]):
            own = boxes if boxes.ndim == 2 else boxes[:, c]
            order = [i for i in np.argsort(-marks[:, c], kind="stable") if marks[i, c] > least]
            order = [] if c == background else order[: None if top < 0 else top]
            kept = _greedy(own, order, threshold, eta, 0.0 if normalised else 1.0)
            found += [(marks[i, c], c, i, own[i]) for i in kept]
        found = sorted(found, key=lambda f: -f[0])[: None if keep < 0 else keep]
        found.sort(key=lambda f: f[1] if rois_num is None else (f[1], f[2]))
        rows += [[c, mark, *box] for mark, c, _, box in found]
        for _, c, i, _ in found:
            at = number * bboxes.shape[1] + i
            index.append([at if rois_num is None else (first + i) * scores.shape[1] + c])
        counts.append(len(found))
    out = np.array(rows, bboxes.dtype).reshape(-1, 6)
    return out, np.array(index, np.int32).reshape(-1, 1), np.array(counts, np.int32)


def _greedy(boxes: Any, order: Any, threshold: float, eta: float, extra: float) -> list[int]:
    kept: list[int] = []
    for i in order:
        if all(_shared(boxes[i], boxes[j], extra) <= threshold for j in kept):
            kept.append(i)
            if eta < 1 and threshold > 0.5:
                threshold *= eta
    return kept


def proposals(
    scores: np.ndarray, deltas: np.ndarray, im_shape: np.ndarray, anchors: np.ndarray,
    variances: np.ndarray, pre: int, post: int, threshold: float, least: float, eta: float,
    offset: bool,
) -> Any:  # fmt: skip
    assert deltas.shape[1] == 4 * scores.shape[1] and im_shape.shape[1] == 2
    extra, rows, probs, counts = float(offset), [], [], []
    anchors, variances = anchors.reshape(-1, 4), variances.reshape(-1, 4)
    for mark, delta, (height, width) in zip(scores, deltas, im_shape, strict=True):
        mark = mark.transpose(1, 2, 0).ravel()
        delta = delta.transpose(1, 2, 0).reshape(-1, 4)
        order = np.argsort(-mark, kind="stable")[: pre if pre > 0 else None]
        boxes = np.zeros((len(mark), 4))
        for i in order:
            size = anchors[i, 2:] - anchors[i, :2] + extra
            code = variances[i] * delta[i]
            centre = anchors[i, :2] + size / 2 + code[:2] * size
            half = np.exp(np.minimum(code[2:], np.log(1000 / 16))) * size / 2
            most = np.array([width, height]) - extra
            low, high = (np.clip(c, 0, most) for c in (centre - half, centre + half - extra))
            boxes[i] = [*low, *high]
        size = boxes[:, 2:] - boxes[:, :2] + extra
        fits = np.all(size >= max(least, 1), 1)
        if offset:
            fits &= np.all(boxes[:, :2] + size / 2 <= [width, height], 1)
        order = [i for i in order if fits[i]]
        if not order:
            rows, probs, counts = [*rows, np.zeros(4)], [*probs, 0.0], [*counts, 1]
            continue
        if threshold > 0:
            order = _greedy(boxes, order, threshold, eta, extra)[: post if post > 0 else None]
        rows, probs = rows + list(boxes[order]), probs + list(mark[order])
        counts.append(len(order))
    shape = (-1, 4)
    return np.array(rows).reshape(shape), np.array(probs)[:, None], np.array(counts, np.int32)


def collected(rois: Any, scores: Any, counts: Any, top: int) -> Any:
    images = 1 if counts is None else len(counts[0])
    found = []
    for level, (boxes, marks) in enumerate(zip(rois, scores)):
        assert boxes.shape[1] == 4
        own = np.zeros(len(boxes)) if counts is None else np.repeat(range(images), counts[level])
        found += list(zip(own, np.ravel(marks), boxes, strict=True))
    best = sorted(found, key=lambda f: -f[1])[:top]
    best.sort(key=lambda f: f[0])
    numbers = [sum(f[0] == i for f in best) for i in range(images)]
    return np.array([f[2] for f in best]).reshape(-1, 4), np.array(numbers, np.int32)


def distributed(
    rois: np.ndarray, rois_num: Any, low: int, high: int, refer: int, scale: int, offset: bool
) -> Any:
    images = 1 if rois_num is None else len(rois_num)
    owner = np.zeros(len(rois)) if rois_num is None else np.repeat(range(images), rois_num)
    assert len(owner) == len(rois)
    levels: list[list[int]] = [[] for _ in range(low, high + 1)]
    for i, (left, top, right, bottom) in enumerate(rois):
        proper = right >= left and bottom >= top
        area = (right - left + offset) * (bottom - top + offset) if proper else 0.0
        level = int(np.floor(refer + np.log2(np.sqrt(area) / scale + 1e-6)))
        levels[min(max(level, low), high) - low].append(i)
    order = [i for level in levels for i in level]
    restore = np.array([order.index(i) for i in range(len(rois))], np.int32).reshape(-1, 1)
    numbers = [np.array([sum(owner[p] == i) for i in range(images)], np.int32) for p in levels]
    return *(rois[np.array(p, int)] for p in levels), *numbers, restore
