"""Targets of detectors, one pair or box after the other."""

from __future__ import annotations

from typing import Any

import numpy as np


def matched_columns(dist: np.ndarray, how: str, least: float) -> Any:
    rows, columns = dist.shape
    out, free = np.full(columns, -1), set(range(rows))
    while free:
        pairs = [
            (dist[r, c], -c, -r) for r in free for c in range(columns)
            if out[c] < 0 and dist[r, c] >= 1e-6
        ]  # fmt: skip
        if not pairs:
            break
        _, c, r = max(pairs)
        out[-c] = -r
        free.remove(-r)
    if how == "per_prediction" and rows:
        for c in range(columns):
            if out[c] < 0 and dist[:, c].max() >= max(least, 1e-6):
                out[c] = dist[:, c].argmax()
    found = [dist[r, c] if r >= 0 else 0 for c, r in enumerate(out)]
    return out[None].astype(np.int32), np.array(found).reshape(1, columns)


def _overlap(a: Any, b: Any) -> float:
    sides = [
        max(min(a[k] + a[k + 2] / 2, b[k] + b[k + 2] / 2)
            - max(a[k] - a[k + 2] / 2, b[k] - b[k + 2] / 2), 0) for k in range(2)
    ]  # fmt: skip
    inter = sides[0] * sides[1]
    return inter / (a[2] * a[3] + b[2] * b[3] - inter)


def _entropy(logit: float, label: float) -> float:
    p = 1 / (1 + np.exp(-logit))
    return -label * np.log(p) - (1 - label) * np.log1p(-p)


def yolo_losses(
    x: np.ndarray, boxes: np.ndarray, labels: np.ndarray, scores: Any, anchors: Any, mask: Any,
    classes: int, ignored: float, ratio: int, smooths: bool, scale: float,
) -> np.ndarray:  # fmt: skip
    images, _, rows, columns = x.shape
    t = x.reshape(images, len(mask), 5 + classes, rows, columns)
    if boxes.shape[0] != images or boxes.shape[2] != 4 or labels.shape != boxes.shape[:2]:
        raise ValueError("boxes that do not fit")
    if scores is not None and scores.shape != labels.shape:
        raise ValueError("scores that do not fit")
    sizes = [(anchors[2 * a] / (ratio * columns), anchors[2 * a + 1] / (ratio * rows))
             for a in range(len(anchors) // 2)]  # fmt: skip
    low = min(1 / classes, 1 / 40) if smooths else 0
    loss, objects = np.zeros(images), np.zeros((images, len(mask), rows, columns))
    for n, m, r, c in np.ndindex(*objects.shape):
        p, (w, h) = t[n, m, :, r, c], sizes[mask[m]]
        place = 1 / (1 + np.exp(-p[:2])) * scale - (scale - 1) / 2
        own = ((c + place[0]) / columns, (r + place[1]) / rows, np.exp(p[2]) * w, np.exp(p[3]) * h)
        if any(b[2] > 0 and b[3] > 0 and _overlap(own, b) > ignored for b in boxes[n]):
            objects[n, m, r, c] = -1
    for n, i in np.ndindex(*boxes.shape[:2]):
        b = boxes[n, i]
        if b[2] <= 0 or b[3] <= 0:
            continue
        best = int(np.argmax([_overlap((0, 0, *b[2:]), (0, 0, *s)) for s in sizes]))
        if best not in mask:
            continue
        score = 1 if scores is None else scores[n, i]
        m, c, r = mask.index(best), int(b[0] * columns), int(b[1] * rows)
        p = t[n, m, :, r, c]
        far = sum(abs(np.log(b[2 + k] / sizes[best][k]) - p[2 + k]) for k in range(2))
        place = _entropy(p[0], b[0] * columns - c) + _entropy(p[1], b[1] * rows - r)
        loss[n] += (far + place) * (2 - b[2] * b[3]) * score
        for k in range(classes):
            loss[n] += _entropy(p[5 + k], 1 - low if labels[n, i] == k else low) * score
        objects[n, m, r, c] = score
    for at in np.ndindex(*objects.shape):
        n, m, r, c = at
        if objects[at] > 1e-5:
            loss[n] += _entropy(t[n, m, 4, r, c], 1) * objects[at]
        elif objects[at] > -0.5:
            loss[n] += _entropy(t[n, m, 4, r, c], 0)
    return loss
