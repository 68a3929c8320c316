"""What library calls in loops mean, in NumPy.

A call gets its numbers and its :class:`Memory`s in the order of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.loops import linked
from phix.kernels.loops.evaluator_scalars import EvaluationError
from phix.kernels.loops.target import PARTS


class Memory(Protocol):
    """Memory from one element on."""

    dtype: np.dtype

    def read(self, count: int, pitch: int = 1) -> np.ndarray:
        """``count`` elements, ``pitch`` apart."""

    def write(self, values: np.ndarray, pitch: int = 1) -> None:
        """Store elements, ``pitch`` apart."""


def find(name: str) -> Callable[..., None]:
    """The routine of a name, such as ``gemm_float32``."""
    if linked.is_linked(name):
        return linked.find(name).meaning
    if name not in _ROUTINES and name.partition("_")[0] not in _ROUTINES:
        raise EvaluationError(f"no meaning is known of the routine {name}")
    return _ROUTINES.get(name) or _ROUTINES[name.partition("_")[0]]


def _matrix(place: Memory, rows: int, columns: int, pitch: int) -> np.ndarray:
    found = np.empty((rows, columns), place.dtype)
    for r in range(rows):
        found[r] = _from(place, r * pitch).read(columns)
    return found


def _put(place: Memory, values: np.ndarray, pitch: int) -> None:
    for r, row in enumerate(values):
        _from(place, r * pitch).write(row)


def _from(place: Any, offset: int) -> Any:
    return place.shifted(offset)


def _wide(dtype: np.dtype) -> np.dtype:
    return dt.float32 if dtype.itemsize == 2 else dtype


def _gemm(
    tx: int, ty: int, add: int, m: int, n: int, k: int, lx: int, ly: int, lo: int,
    x: Memory, y: Memory, out: Memory,
) -> None:  # fmt: skip
    left = _matrix(x, *((k, m) if tx else (m, k)), lx)
    right = _matrix(y, *((n, k) if ty else (k, n)), ly)
    wide = _wide(left.dtype)
    a, b = (v.astype(wide) for v in (left.T if tx else left, right.T if ty else right))
    total = a @ b
    if add:
        total = total + _matrix(out, m, n, lo).astype(wide)
    _put(out, total.astype(out.dtype), lo)


def _trsm(
    upper: int, transpose: int, unit: int, n: int, k: int, factors: Memory, out: Memory
) -> None:
    """op(A) X = B in place of B, for a triangle of A."""
    a, found = _matrix(factors, n, n, n), _matrix(out, n, k, k)
    if transpose:
        a, upper = a.T, not upper
    order = list(range(n))[:: -1 if upper else 1]
    for at, i in enumerate(order):
        for j in order[:at]:
            found[i] -= a[i, j] * found[j]
        if not unit:
            found[i] /= a[i, i]
    _put(out, found, k)


def _potrf(upper: int, n: int, a: Memory, info: Memory) -> None:
    """L L^H in place of a triangle: LAPACK sees the transpose, so for ``upper`` its lower one."""
    whole = _matrix(a, n, n, n)
    seen = whole.T if upper else np.conj(whole)  # whose lower triangle is factored
    factor, code = np.tril(seen), 0
    for j in range(n):
        factor[j:, j] -= factor[j:, :j] @ np.conj(factor[j, :j])
        if not factor[j, j].real > 0:
            code = j + 1
            break
        factor[j:, j] /= np.sqrt(factor[j, j].real)
    made = factor.T if upper else np.conj(factor)
    _put(a, np.where(np.tri(n, dtype=bool).T if upper else np.tri(n, dtype=bool), made, whole), n)
    info.write(np.array([code], info.dtype))


def _getrf(m: int, n: int, columns: Memory, pivots: Memory, info: Memory) -> None:
    """In place of a matrix that lies column by column; pivots are the largest by |re| + |im|."""
    found = _matrix(columns, n, m, m).T.copy()
    places, code = np.zeros(min(m, n), pivots.dtype), 0
    for k in range(min(m, n)):
        sizes = np.abs(found[k:, k].real) + np.abs(found[k:, k].imag)
        place = k + int(np.argmax(np.nan_to_num(sizes, nan=-1.0)))
        places[k] = place + 1
        found[[k, place]] = found[[place, k]]
        if found[k, k] == 0:
            code = code or k + 1
            continue
        found[k + 1 :, k] /= found[k, k]
        found[k + 1 :, k + 1 :] -= np.outer(found[k + 1 :, k], found[k, k + 1 :])
    _put(columns, found.T, m)
    pivots.write(places)
    info.write(np.array([code], info.dtype))


def _geqrf(
    m: int, n: int, room: int, a: Memory, scales: Memory, work: Memory, info: Memory
) -> None:
    """In place of a matrix that lies column by column: R, and the reflections that make Q."""
    columns, tau = np.linalg.qr(_matrix(a, n, m, m).T, "raw")
    _put(a, columns, m)
    scales.write(tau.astype(scales.dtype))
    info.write(np.zeros(1, info.dtype))


def _orgqr(
    m: int, n: int, k: int, room: int, a: Memory, scales: Memory, work: Memory, info: Memory
) -> None:
    """The first n columns of the product of k reflections, in place of these."""
    reflections = _matrix(a, n, m, m)
    found = np.eye(m, n, dtype=reflections.dtype)
    for i, scale in reversed(list(enumerate(scales.read(k)))):
        v = np.concatenate([np.zeros(i), [1], reflections[i, i + 1 :]]).astype(found.dtype)
        found -= scale * np.outer(v, np.conj(v) @ found)
    _put(a, found.T, m)
    info.write(np.zeros(1, info.dtype))


def _gesdd(job: int, m: int, n: int, ldv: int, room: int, *places: Memory) -> None:
    """Of a matrix that lies column by column, as do its factors."""
    a, values, left, right, *_, info = places
    matrix = _matrix(a, n, m, m).T
    if job == ord("N"):
        values.write(np.linalg.svd(matrix, compute_uv=False))
    else:
        u, s, vh = np.linalg.svd(matrix, job == ord("A"))
        values.write(s)
        _put(left, u.T, m)
        _put(right, vh.T, ldv)
    info.write(np.zeros(1, info.dtype))


def _syevd(vectors: int, upper: int, n: int, *rest: Any) -> None:
    """Of a matrix that lies column by column; its vectors take its place."""
    a, values, *_, info = (r for r in rest if not isinstance(r, (int, np.integer)))
    found, columns = np.linalg.eigh(_matrix(a, n, n, n).T, "U" if upper else "L")
    values.write(found)
    if vectors:
        _put(a, columns.T, n)
    info.write(np.zeros(1, info.dtype))


def _stream(to: Memory, source: Memory, size: int) -> None:
    to.write(source.read(size // to.dtype.itemsize))


def _fetch(source: Memory, size: int) -> None:
    """What is asked for is read later, or not at all."""


# -- attention -----------------------------------------------------------------------------------
def _scores(
    numbers: tuple[int, ...], scale: float, causal: bool, query: Memory, key: Memory,
    mask: Memory | None,
) -> np.ndarray:  # fmt: skip
    rows, keys, size, _, down, across = numbers
    wide = dt.float64 if query.dtype == dt.float64 else dt.float32
    q, k = (_matrix(p, n, size, size).astype(wide) for p, n in ((query, rows), (key, keys)))
    scores = q @ k.T * wide.type(scale)
    if mask is not None:
        for r in range(rows):
            for c in range(keys):
                (number,) = _from(mask, r * down + c * across).read(1)
                is_choice = mask.dtype == dt.bool_
                scores[r, c] = (scores[r, c] if number else -np.inf) if is_choice \
                    else scores[r, c] + wide.type(number)  # fmt: skip
    if causal:
        scores[np.arange(rows)[:, None] < np.arange(keys)] = -np.inf
    return scores


def _attention(*arguments: Any) -> None:
    (*numbers, scale, causal), places = arguments[:8], arguments[8:]
    rows, keys, _, width, *_ = numbers
    query, key, value, out, *mask = places
    scores = _scores(tuple(numbers), scale, causal, query, key, *(mask or [None]))
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    v = _matrix(value, keys, width, width).astype(scores.dtype)
    made = weights @ v / weights.sum(-1, keepdims=True) if keys else np.zeros((rows, width))
    _put(out, made.astype(out.dtype), width)


def _query_gradient(*arguments: Any) -> None:
    """Also, of each row: the logarithm of the sum of exponentials, and the mean of the slopes."""
    (*numbers, scale, causal), places = arguments[:8], arguments[8:]
    rows, keys, size, width, *_ = numbers
    query, key, value, cotangent, level, mean, out, *mask = places
    scores = _scores(tuple(numbers), scale, causal, query, key, *(mask or [None]))
    wide = scores.dtype
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    weights = np.exp(scores - top) / total
    v, g = (_matrix(p, n, width, width).astype(wide) for p, n in ((value, keys), (cotangent, rows)))
    slopes = g @ v.T
    means = (weights * slopes).sum(-1)
    level.write((top + np.log(total))[:, 0].astype(level.dtype))
    mean.write(means.astype(mean.dtype))
    to_scores = weights * (slopes - means[:, None])
    k = _matrix(key, keys, size, size).astype(wide)
    _put(out, (to_scores @ k * wide.type(scale)).astype(out.dtype), size)


def _key_gradient(*arguments: Any) -> None:
    (*numbers, scale, causal), places = arguments[:8], arguments[8:]
    rows, keys, size, width, *_ = numbers
    query, key, value, cotangent, level, mean, to_key, to_value, *mask = places
    scores = _scores(tuple(numbers), scale, causal, query, key, *(mask or [None]))
    wide = scores.dtype
    weights = np.exp(scores - level.read(rows).astype(wide)[:, None])
    v, g = (_matrix(p, n, width, width).astype(wide) for p, n in ((value, keys), (cotangent, rows)))
    slopes = weights * (g @ v.T - mean.read(rows).astype(wide)[:, None])
    q = _matrix(query, rows, size, size).astype(wide)
    _put(to_key, (slopes.T @ q * wide.type(scale)).astype(to_key.dtype), size)
    _put(to_value, (weights.T @ g).astype(to_value.dtype), width)


# -- convolution ---------------------------------------------------------------------------------
def _convolution(*arguments: Any) -> None:
    """One group; the sums over taps in parts, each with a result of its own."""
    (images, rows, out_h, out_w, channels, kh, kw, h, w, image_pitch, out_pitch, part_pitch, parts,
     down, across, above, left, dy, dx, source, filters, out) = arguments  # fmt: skip
    wide = dt.float64 if source.dtype == dt.float64 else dt.float32
    weights = _matrix(filters, rows, channels * kh * kw, channels * kh * kw).astype(wide)
    area = out_h * out_w
    for image in range(images):
        plane = _from(source, image * image_pitch).read(channels * h * w)
        plane = plane.astype(wide).reshape(channels, h, w)
        taps = np.zeros((channels, kh, kw, out_h, out_w), wide)
        for ky in range(kh):
            for kx in range(kw):
                for oy in range(out_h):
                    for ox in range(out_w):
                        y, x = oy * down + ky * dy - above, ox * across + kx * dx - left
                        if 0 <= y < h and 0 <= x < w:
                            taps[:, ky, kx, oy, ox] = plane[:, y, x]
        columns = taps.reshape(channels * kh * kw, area)
        for part in range(parts):
            own = slice(part, None, parts)  # which taps a part has is the routine's own affair
            made = (weights[:, own] @ columns[own]).astype(out.dtype)
            _put(_from(out, part * part_pitch + image * out_pitch), made, area)


# -- sorts ---------------------------------------------------------------------------------------
def _sort(n: int, keys: Memory, room: Memory) -> None:
    keys.write(np.sort(keys.read(n)))


def _split(
    n: int, keys: Memory, room: Memory, pivots: Memory, ends: Memory, places: Memory
) -> None:
    """Each key goes to the part whose number is that of the pivots which are no larger; all of
    them in order, to both, so that each part is where it is looked for."""
    found = keys.read(n)
    part = np.searchsorted(pivots.read(PARTS - 1), found, "right")
    ordered = found[np.argsort(part, kind="stable")]
    keys.write(ordered)
    room.write(ordered)
    behind = np.cumsum(np.bincount(part, minlength=PARTS))
    ends.write(behind)
    places.write(np.concatenate([[0], behind[:-1]]))


# -- transforms ----------------------------------------------------------------------------------
def _fft(
    kind: int, forward: int, points: int, outer: int, inner: int, divisor: int, rooted: int,
    x: Memory, out: Memory,
) -> None:  # fmt: skip
    """Of C2C, R2C, C2R and R2ALL, along the middle one of three axes; divided by a number or its
    root."""
    half = points // 2 + 1
    own, made = (half if kind == 2 else points), (half if kind == 1 else points)
    given = x.read(outer * own * inner).reshape(outer, own, inner)
    found: Any
    if kind == 0:
        found = np.fft.fft(given, axis=1) if forward else np.fft.ifft(given, axis=1) * points
    elif kind in (1, 3):
        found = np.fft.rfft(given, axis=1) if kind == 1 else np.fft.fft(given, axis=1)
        found = found if forward else found.conj()
    else:
        found = np.fft.irfft(given.conj() if forward else given, points, 1) * points
    found = found / (np.sqrt(divisor) if rooted else divisor)
    out.write(found.astype(out.dtype).reshape(outer * made * inner))


_ROUTINES: dict[str, Callable[..., None]] = {
    "gemm": _gemm, "trsm": _trsm, "potrf": _potrf, "getrf": _getrf, "stream": _stream,
    "fetch": _fetch,
    "geqrf": _geqrf, "orgqr": _orgqr, "ungqr": _orgqr, "gesdd": _gesdd, "syevd": _syevd,
    "heevd": _syevd,
    "attention": _attention, "querygrad": _query_gradient, "keygrad": _key_gradient,
    "convolution": _convolution, "fft": _fft, "sort": _sort,
    "split": _split,
}  # fmt: skip
