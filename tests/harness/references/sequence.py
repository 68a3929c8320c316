"""Sequences: sums over all alignments one by one, tables filled cell by cell."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def _log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _merged(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


def ctc(logits: Any, label: Any, times: Any, counts: Any, blank: int) -> np.ndarray:
    """-log of the probabilities of all paths that give the label."""
    steps, batch, classes = logits.shape
    if not classes:
        raise ValueError("no class to be a blank")
    loss = np.zeros((batch, 1))
    for b in range(batch):
        end = steps if times is None else int(times[b])
        wanted = label[b, : label.shape[1] if counts is None else int(counts[b])].tolist()
        p = _log_softmax(logits[:end, b])
        paths = itertools.product(range(classes), repeat=end)
        rights = (path for path in paths if _merged(path, blank) == wanted)
        total = sum(np.exp(sum(p[t, k] for t, k in enumerate(path))) for path in rights)
        loss[b, 0] = -np.log(total) if total else np.inf
    return loss


def rnnt(x: Any, label: Any, times: Any, counts: Any, blank: int) -> np.ndarray:
    """-log of the sum over all ways through the lattice."""

    if label.shape[1] + 1 != x.shape[2] or not x.shape[1]:
        raise ValueError("no lattice")

    def ways(b: int, t: int, u: int) -> float:
        """The sum over what leads from a node to the end."""
        stay = np.exp(x[b, t, u, blank])
        if t + 1 == times[b] and u == counts[b]:
            return float(stay)
        total = stay * ways(b, t + 1, u) if t + 1 < times[b] else 0.0
        return total + (np.exp(x[b, t, u, label[b, u]]) * ways(b, t, u + 1) if u < counts[b] else 0)

    return np.array([-np.log(ways(b, 0, 0)) for b in range(len(x))])


def ctc_align(x: Any, lengths: Any, blank: int, merge: bool, padding: int) -> Any:
    """The label of each path, padded, and the lengths."""
    out, counts = np.full_like(x, padding), np.zeros((len(x), 1), x.dtype)
    for b, row in enumerate(x):
        path = row if lengths is None else row[: int(lengths.ravel()[b])]
        kept = _merged(tuple(path), blank) if merge else [k for k in path if k != blank]
        out[b, : len(kept)] = kept
        counts[b] = len(kept)
    return out, counts


def edit_distance(hyps: Any, refs: Any, h_lengths: Any, r_lengths: Any, normalized: bool) -> Any:
    out = np.zeros((len(hyps), 1), np.float32)
    for b in range(len(hyps)):
        one = hyps[b, : hyps.shape[1] if h_lengths is None else int(h_lengths[b])]
        two = refs[b, : refs.shape[1] if r_lengths is None else int(r_lengths[b])]
        if h_lengths is not None and (len(one) != h_lengths[b] or len(two) != r_lengths[b]):
            out[b] = np.nan
            continue
        d = np.add.outer(np.arange(len(one) + 1), np.arange(len(two) + 1))
        for i, j in np.ndindex(len(one), len(two)):
            changed = d[i, j] + (one[i] != two[j])
            d[i + 1, j + 1] = min(d[i, j + 1] + 1, d[i + 1, j] + 1, changed)
        out[b] = d[-1, -1] / (np.float32(len(two)) if normalized else 1)
    return np.array([len(hyps)]), out


def _best(scores: np.ndarray, between: np.ndarray, stop: np.ndarray) -> tuple[float, list[int]]:
    """The best path of one sequence; what is added at its start is in scores."""
    total, came = scores[0], []
    for row in scores[1:]:
        each = total[:, None] + between
        came.append(each.argmax(0))
        total = each.max(0) + row
    total = total + stop
    path = [int(total.argmax())]
    for row in came[::-1]:
        path.insert(0, int(row[path[0]]))
    return float(total.max()), path


def viterbi(potentials: Any, transition: Any, lengths: Any, tagged: bool) -> Any:
    batch, steps, tags = potentials.shape
    if not steps or not tags:
        raise ValueError("no path")
    scores, paths = np.zeros(batch), np.zeros((batch, steps), np.int64)
    start, stop = (transition[-1], transition[-2]) if tagged else (np.zeros(tags), np.zeros(tags))
    for b in range(batch):
        end = max(int(lengths[b]), 1)
        rows = potentials[b, :end].copy()
        rows[0] += start
        scores[b], path = _best(rows, transition, stop if lengths[b] else np.zeros(tags))
        paths[b, : int(lengths[b])] = path[: int(lengths[b])]
    return scores, paths


def crf_decoding(emission: Any, transition: Any, label: Any, length: Any) -> np.ndarray:
    rows = emission if length is not None else emission[None]
    if len(transition) != rows.shape[2] + 2 or 0 in rows.shape[1:]:
        raise ValueError("no path")
    ends = [rows.shape[1]] if length is None else [int(n) for n in length.ravel()]
    out = np.zeros(rows.shape[:2], np.int64)
    for b, end in enumerate(ends):
        if end:
            scores = rows[b, :end].copy()
            scores[0] += transition[0]
            path = np.array(_best(scores, transition[2:], transition[1])[1])
            right = path if label is None else path == label.reshape(out.shape)[b, :end]
            out[b, :end] = right
    return out if length is not None else out.reshape(-1, 1)


def gather_tree(ids: np.ndarray, parents: np.ndarray) -> np.ndarray:
    out = np.zeros_like(ids)
    for b, beam in np.ndindex(ids.shape[1:]):
        at = beam
        for t in range(len(ids))[::-1]:
            out[t, b, beam] = ids[t, b, at]
            at = parents[t, b, at]
    return out


_TAGS = {"IOB": 2, "IOE": 2, "IOBES": 4, "plain": 1}


def _chunks(row: list[int], scheme: str, types: int) -> set[tuple[int, int, int]]:
    """Begin, end and type of each chunk of one sequence."""
    tags = _TAGS[scheme]
    first = {"IOB": "0", "IOBES": "03"}.get(scheme, "")
    last = {"IOE": "1", "IOBES": "23"}.get(scheme, "")
    found, begin = set(), None
    marks = [(k // tags, str(k % tags)) for k in row]
    for i, (kind, tag) in enumerate(marks):
        if kind == types:
            continue
        before = marks[i - 1] if i else (types, "")
        if before[0] != kind or tag in first or before[1] in last:
            begin = i
        after = marks[i + 1] if i + 1 < len(row) else (types, "")
        if after[0] != kind or after[1] in first or tag in last:
            found.add((begin, i, kind))
    return found


def chunk_eval(inference: Any, label: Any, lengths: Any, types: int, scheme: str, out: Any) -> Any:
    """Precision, recall, f1 and the numbers of chunks found, wanted and right."""
    rows = [
        x.reshape(1, -1) if lengths is None else x.reshape(x.shape[:2]) for x in (inference, label)
    ]
    ends = [rows[0].shape[1]] if lengths is None else [int(n) for n in lengths.ravel()]
    sets = [
        {(b, *c) for b, end in enumerate(ends) for c in _chunks(x[b, :end].tolist(), scheme, types)}
        for x in rows
    ]
    found, wanted = ({c for c in s if c[3] not in out} for s in sets)
    right = len(found & wanted)
    p, r = (np.float32(right / len(s)) if s else np.float32(0) for s in (found, wanted))
    f1 = 2 * p * r / (p + r) if right else np.float32(0)
    counts = (np.array([n]) for n in (len(found), len(wanted), right))
    return (*(np.array([v], np.float32) for v in (p, r, f1)), *counts)


def sequence_pool(x: np.ndarray, pooltype: str, pad_value: float) -> np.ndarray:
    if not len(x):
        return np.full((1, x.shape[1]), pad_value)
    pools = {
        "SUM": lambda: x.sum(0),
        "AVERAGE": lambda: x.mean(0),
        "SQRT": lambda: x.sum(0) / np.sqrt(len(x)),
        "MAX": lambda: x.max(0),
        "FIRST": lambda: x[0],
        "LAST": lambda: x[-1],
    }
    return np.asarray(pools[pooltype]())[None]


def sequence_conv(x: Any, edges: Any, w: Any, length: int, start: int) -> np.ndarray:
    steps, width = x.shape
    above = max(0, -start)
    out = np.zeros((steps, w.shape[1]))
    for t, j in np.ndindex(steps, length):
        at, part = t + start + j, w[j * width : (j + 1) * width]
        if 0 <= at < steps:
            out[t] += x[at] @ part
        elif edges is not None:
            out[t] += edges[above + at if at < 0 else above + at - steps] @ part
    if len(w) != length * width:
        raise ValueError("a filter of another size")
    return out


def im2sequence(x: Any, kernels: Any, strides: Any, paddings: Any) -> np.ndarray:
    up, left, down, right = paddings
    wide = np.pad(x, ((0, 0), (0, 0), (up, down), (left, right)))
    seen = np.lib.stride_tricks.sliding_window_view(wide, kernels, axis=(2, 3))
    seen = seen[:, :, :: strides[0], :: strides[1]].transpose(0, 2, 3, 1, 4, 5)
    return seen.reshape(np.prod(seen.shape[:3]), np.prod(seen.shape[3:]))
