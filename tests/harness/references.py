"""What the ``ref`` of an entry may use: NumPy, scipy.special, and references longer than a line.

All images are in the layout that ``data_format`` names: NCHW or NHWC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special


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


def recurrence(a: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """out_k = a_k * out_{k-1} + x_k along the axis."""
    factors, terms = np.moveaxis(a, axis, 0), np.moveaxis(x, axis, 0)
    rows = [terms[:1]]
    for k in range(1, len(terms)):
        rows.append(factors[k : k + 1] * rows[-1] + terms[k : k + 1])
    return np.moveaxis(np.concatenate(rows), 0, axis)


def running(extreme: np.ufunc, x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The extreme elements so far along the axis, and where each stands, the last of equals."""
    out = extreme.accumulate(x, axis)
    is_new = (x == out) | np.isnan(x)
    shape = [-1 if k == axis % x.ndim else 1 for k in range(x.ndim)]
    places = np.where(is_new, np.arange(x.shape[axis]).reshape(shape), 0)
    return out, np.maximum.accumulate(places, axis)


def random_bits(key: np.ndarray, shape: Sequence[int], width: int) -> np.ndarray:
    """Threefry-2x32 of the counters 0, 1, ... under each key (Salmon et al., 2011)."""
    size = int(np.prod(shape, dtype=np.int64))
    keys = [k[..., None] for k in np.moveaxis(key, -1, 0)]
    low = np.broadcast_to(np.arange(size, dtype=np.uint32), (*key.shape[:-1], size))
    first, second = threefry2x32(*keys, np.zeros_like(low), low)
    if width == 64:
        first = first.astype(np.uint64) << np.uint64(32) | second
    return first.reshape(*key.shape[:-1], *shape)


def threefry2x32(
    k0: np.ndarray, k1: np.ndarray, c0: np.ndarray, c1: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two words of random bits from a key and a counter of two words, in 20 rounds."""
    keys = [k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA)]
    x, y = c0 + k0, c1 + k1
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def channels_first(x: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(x, 3, 1) if data_format == "NHWC" else x


def channels_back(x: np.ndarray, data_format: str) -> np.ndarray:
    return np.moveaxis(x, 1, 3) if data_format == "NHWC" else x


def sliced(
    x: np.ndarray,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
) -> np.ndarray:
    """The elements in Python's slices of the axes named."""
    return x[slices(x, axes, starts, ends, strides)]


def slices(
    x: np.ndarray,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
) -> tuple[slice, ...]:
    """Python's slices of the axes named, as an index; without strides every element."""
    index = [slice(None)] * x.ndim
    for axis, *bounds in zip(axes, starts, ends, strides or [1] * len(axes)):
        index[axis] = slice(*bounds)
    return tuple(index)


def put_at(
    x: np.ndarray,
    index: Any,
    values: np.ndarray,
    combine: Any = None,
    axes: Sequence[int] = (),
) -> np.ndarray:
    """A copy of x with values put at the index, or combined with what is there.

    The index is of the first axes, or of those in ``axes``.
    """
    out = x.copy()
    view = np.moveaxis(out, axes, range(len(axes))) if axes else out
    if combine is None:
        view[index] = values
    else:
        combine.at(view, index, values)
    return out


def scatter(x: np.ndarray, index: np.ndarray, updates: np.ndarray, overwrite: bool) -> np.ndarray:
    """Rows replaced by updates, or by the sum of the updates to the row."""
    if overwrite:
        return put_at(x, index, updates)
    cleared = put_at(x, index, np.zeros((), x.dtype))
    return put_at(cleared, index, updates, np.logical_or if x.dtype == bool else np.add)


_COMBINE = {"add": np.add, "mul": np.multiply, "amax": np.maximum, "amin": np.minimum,
            "mean": np.add}  # fmt: skip


def put_along_axis(
    arr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    axis: int,
    reduce: str,
    include_self: bool,
) -> np.ndarray:
    """Values put along the axis one by one."""
    where = list(np.ogrid[tuple(slice(d) for d in indices.shape)])
    where[axis] = indices
    index, values = tuple(where), np.broadcast_to(values, indices.shape)
    if reduce == "assign":
        return put_at(arr, index, values)
    combine = _COMBINE[reduce]
    if arr.dtype == bool:
        combine = {"add": np.logical_or, "mul": np.logical_and}.get(reduce, combine)
    if include_self:
        out, counts = arr, np.ones(arr.shape)
    else:
        first = {"mul": 1, "amax": -np.inf, "amin": np.inf}.get(reduce, 0)
        out, counts = put_at(arr, index, first), put_at(np.ones(arr.shape), index, 0)
    out = put_at(out, index, values, combine)
    if reduce == "mean":
        return out / put_at(counts, index, 1, np.add)
    return out


def argsort(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    """The stable order, NaN the largest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backward, axis)


def ct(x: np.ndarray) -> np.ndarray:
    """The conjugate transposes of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def cholesky(x: np.ndarray, upper: bool) -> np.ndarray:
    """The Cholesky factor of the Hermitian part."""
    lower = np.linalg.cholesky((x + ct(x)) / 2)
    return ct(lower) if upper else lower


def triangular_solve(
    x: np.ndarray, y: np.ndarray, upper: bool, transpose: bool, unitriangular: bool
) -> np.ndarray:
    """A general solution with the triangle alone."""
    triangle = np.triu(x) if upper else np.tril(x)
    if unitriangular:
        diagonal = np.arange(x.shape[-1])
        triangle[..., diagonal, diagonal] = 1
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if transpose else triangle, y)


def lu(x: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian elimination, row by row, with the largest element of the column as pivot."""
    out = np.array(x)
    steps = min(x.shape[-2:])
    pivots = np.broadcast_to(np.arange(1, steps + 1, dtype=np.int32), (*x.shape[:-2], steps)).copy()
    infos = np.zeros(x.shape[:-2], np.int32)
    for at in np.ndindex(*x.shape[:-2]):
        a = out[at]
        for k in range(steps):
            if pivot:
                largest = k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)))
                a[[k, largest]] = a[[largest, k]]
                pivots[at][k] = largest + 1
            if a[k, k] == 0:
                infos[at] = infos[at] or k + 1
                continue
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return out, pivots, infos


def lu_permutation(x: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The exchanges made one after the other on the numbers of the rows."""
    rows, pivots = x.shape[-2], pivots.astype(int)
    out = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for at in np.ndindex(*pivots.shape[:-1]):
        for k, other in enumerate(pivots[at]):
            out[at][[k, other - 1]] = out[at][[other - 1, k]]
    return out


def lu_unpack(
    x: np.ndarray, y: np.ndarray, unpack_ludata: bool, unpack_pivots: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, L and U."""
    rows, columns = x.shape[-2:]
    size, empty = min(rows, columns), np.zeros(0)
    if y.shape[-1] != size:
        raise ValueError("pivots of another matrix")
    pmat = np.swapaxes(np.eye(rows)[lu_permutation(x, y)], -1, -2)
    lower = np.tril(x[..., :size], -1) + np.eye(rows, size)
    upper = np.triu(x[..., :size, :])
    found = (lower, upper) if unpack_ludata else (empty, empty)
    return (pmat if unpack_pivots else empty, *found)


def lu_solve(b: np.ndarray, lu: np.ndarray, pivots: np.ndarray, trans: str) -> np.ndarray:
    """A general solution with the product of the factors."""
    pmat, lower, upper = lu_unpack(lu, pivots, True, True)
    a = pmat @ lower @ upper
    change = {"N": np.array, "T": lambda m: np.swapaxes(m, -1, -2), "C": ct}
    return np.linalg.solve(change[trans](a), b)


def attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None, scale: float,
    causal: bool,
) -> np.ndarray:  # fmt: skip
    """The mean of the values, weighted by the exponentials of the scores; unseen keys have none."""
    scores = np.einsum("...qd,...kd->...qk", query, key) * scale
    seen: Any = np.tri(*scores.shape[-2:], dtype=bool) if causal else True
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    elif mask is not None:
        if np.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
            raise ValueError("a mask of more axes than the scores")
        scores = scores + mask
    weights = np.where(seen, np.exp(scores), 0)
    sums = np.einsum("...qk,...kd->...qd", weights, value)
    return sums / weights.sum(-1)[..., None] if key.shape[-2] else sums


def dft(
    x: np.ndarray, axes: Sequence[int], norm: str, forward: bool, onesided: bool = False
) -> np.ndarray:
    """The Fourier transform as it is written: the matrix exp(-+2 pi i j k / n) along each axis."""
    if not axes or 0 in (x.shape[a] for a in axes):
        raise ValueError("nothing to transform")
    count = np.prod([x.shape[a] for a in axes])
    divisors = {"ortho": np.sqrt(count), "forward" if forward else "backward": count}
    sizes = [x.shape[a] for a in axes]
    for n, axis in zip(sizes, axes):
        points = np.arange(n)
        turns = np.outer(points, points) * (-2j if forward else 2j) * np.pi / n
        x = np.moveaxis(np.tensordot(np.exp(turns), x, (1, axis)), 0, axis)
    x = x.take(range(sizes[-1] // 2 + 1), axes[-1]) if onesided else x
    return x / divisors.get(norm, 1)


def dft_c2r(
    x: np.ndarray, axes: Sequence[int], norm: str, forward: bool, size: int = 0
) -> np.ndarray:
    """The transform over the last axis of the points and the conjugates of those missing."""
    *others, last = axes
    size = size or 2 * (x.shape[last] - 1)
    if size < 1 or x.shape[last] != size // 2 + 1:
        raise ValueError("another number of points")
    x = dft(x, others, norm, forward) if others else x
    mirrored = np.conj(x.take([size - k for k in range(x.shape[last], size)], last))
    return dft(np.concatenate([x, mirrored], last), [last], norm, forward).real


NAMES: dict[str, Any] = {
    "dft": dft,
    "dft_c2r": dft_c2r,
    "attention": attention,
    "ct": ct,
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "lu": lu,
    "lu_permutation": lu_permutation,
    "lu_unpack": lu_unpack,
    "lu_solve": lu_solve,
    "np": np,
    "sliced": sliced,
    "slices": slices,
    "put_at": put_at,
    "scatter": scatter,
    "put_along_axis": put_along_axis,
    "argsort": argsort,
    "sp": scipy.special,
    "random_bits": random_bits,
    "recurrence": recurrence,
    "running": running,
    "conv2d": conv2d,
    "conv2d_transpose": conv2d_transpose,
    "max_pool2d": max_pool2d,
    "avg_pool2d": avg_pool2d,
}
