"""NumPy's histograms: how many elements lie between edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import floating, tensor
from phix.array_functions.sorting import is_rising, searchsorted
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.expectations import never_empty
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import TensorBase

Function = Callable[..., Any]


def _is_count(bins: Any) -> bool:
    return isinstance(bins, (int, np.integer)) and not isinstance(bins, bool)


def _edges(name: str, x: Any, bins: Any, ends: Any) -> Any:
    """The edges of the bins over the values of x."""
    if isinstance(bins, str):
        raise NotOfferedError(f"bins={bins!r}")
    if not _is_count(bins):
        edges = tensor(bins)
        if not edges.ndim and dt.has_ints_alone(edges.dtype) and not is_traced(edges):
            return _edges(name, x, int(edges), ends)
        if edges.ndim != 1 or dm.is_zero(edges.meta.dims[0]):
            raise ShapeError(
                f"{name}: bins are an int or a vector of one edge or more, found {edges.meta}"
            )
        if is_rising(edges) is False:
            raise AttributeValueError(f"{name}: edges go up, found {bins!r:.80}")
        return edges
    if bins < 1:
        raise AttributeValueError(f"{name}: bins is at least 1, found {bins}")
    values = floating(x)
    if ends is not None:
        low, high = (tensor(v).astype(values.dtype) for v in ends)
    else:
        low, high = _least_and_greatest(ops.reshape(values, [-1]))
    _check_ends(name, low, high)
    is_point = low == high
    low, high = ops.where(is_point, low - 0.5, low), ops.where(is_point, high + 0.5, high)
    part = ops.arange(0, bins + 1, 1, dt.int64).astype(values.dtype) / bins
    # as np.linspace: the last edge is exact
    return ops.where(part == 1, high, low + (high - low) * part)


def _least_and_greatest(values: Any) -> tuple[Any, Any]:
    """Those of a vector: 0 and 1 of none."""
    low = ops.min(never_empty(values, math.inf, [0]))
    high = ops.max(never_empty(values, -math.inf, [0]))
    is_empty = ops.full((), values.meta.dims[0], dt.int64) == 0
    return ops.where(is_empty, 0.0, low), ops.where(is_empty, 1.0, high)


def _check_ends(name: str, low: Any, high: Any) -> None:
    """Refuse a range that is none, where it is known; the edges of a compiled one are NaN."""
    if is_traced(low) or is_traced(high):
        return
    ends = [float(beneath(v)) for v in (low, high)]
    if not np.isfinite(ends).all():
        raise AttributeValueError(
            f"{name}: no bins lie between {ends[0]} and {ends[1]}; give range=(low, high), or "
            "leave NaN and infinities out of the values"
        )
    if ends[0] > ends[1]:
        raise AttributeValueError(f"{name}: range goes up, found ({ends[0]}, {ends[1]})")


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges that :func:`histogram` takes."""
    return _edges("histogram_bin_edges", ops.reshape(tensor(a), [-1]), bins, range)


def _numbers(x: Any, edges: Any) -> Any:
    """The bin of each element, from 0; -1 and one more than there are outside. The last edge is
    in the last bin."""
    count = edges.shape[0] - 1
    found = searchsorted(edges, x, "right") - 1
    found = ops.where(x == edges[-1], count - 1, found)
    return ops.where(ops.isnan(x), -1, found) if dt.is_float(x.dtype) else found


def _summed(number: Any, inside: Any, count: Any, weights: Any) -> Any:
    """How much lies in each of ``count`` bins."""
    what = ops.full_like(number, 1) if weights is None else weights
    if dm.is_zero(count):  # between the edges lies nothing
        return ops.full((0,), 0, what.dtype)
    what = ops.where(inside, what, ops.full((), 0, what.dtype))
    place = ops.unsqueeze(ops.where(inside, number, 0), [-1])
    return ops.scatter_nd_add(ops.full((count,), 0, what.dtype), place, what)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the edges of the bins; with ``density`` divided by
    the whole and the widths."""
    x = ops.reshape(tensor(a), [-1])
    edges = _edges("histogram", x, bins, range)
    w = None if weights is None else ops.reshape(tensor(weights), [-1])
    number, count = _numbers(x, edges), edges.shape[0] - 1
    inside = ops.logical_and(number >= 0, number < count)
    found = _summed(number, inside, count, w)
    if not density:
        return found, edges
    return found / (edges[1:] - edges[:-1]) / ops.sum(found), edges


def _length(bins: Any) -> Any:
    """For how many axes ``bins`` speak, one by one; None where for all at once."""
    if isinstance(bins, (TensorBase, np.ndarray)):
        return bins.shape[0] if bins.ndim else None
    return len(bins) if isinstance(bins, Sequence) and not isinstance(bins, str) else None


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, tuple[Any, ...]]:
    """How many rows of the sample lie in each box, and the edges along each axis."""
    points = tensor(sample) if not isinstance(sample, (list, tuple)) else ops.stack(
        [tensor(v) for v in sample], -1
    )  # fmt: skip
    points = ops.unsqueeze(points, [-1]) if points.ndim == 1 else points
    if points.ndim != 2:
        raise ShapeError(f"histogramdd: a sample has a row for each point, found {points.meta}")
    rank = points.shape[1]
    each = list(bins) if _length(bins) is not None else [bins] * rank
    if len(each) != rank or (range is not None and len(range) != rank):
        raise AttributeValueError(f"histogramdd: {rank} axes, found bins for {len(each)}")
    ends = [None] * rank if range is None else list(range)
    edges = [_edges("histogramdd", points[:, i], each[i], ends[i]) for i in _count(rank)]
    numbers = [_numbers(points[:, i], e) for i, e in enumerate(edges)]
    sizes = [e.shape[0] - 1 for e in edges]
    place, inside = ops.full_like(numbers[0], 0), ops.full_like(numbers[0], True, dt.bool_)
    for number, size in zip(numbers, sizes):
        place = place * size + number
        inside = ops.logical_and(inside, ops.logical_and(number >= 0, number < size))
    w = None if weights is None else ops.reshape(tensor(weights), [-1])
    found = ops.reshape(_summed(place, inside, math.prod(sizes), w), sizes)
    found = floating(found)
    if density:
        total = ops.sum(found)
        for i, e in enumerate(edges):
            width = ops.reshape(e[1:] - e[:-1], [-1 if i == k else 1 for k in _count(rank)])
            found = found / width
        found = found / total
    return found, tuple(edges)


_count = range


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """How many of the points (x, y) lie in each rectangle, and the edges along both axes."""
    each = bins if _length(bins) in (None, 2) else [bins, bins]
    found, edges = histogramdd([x, y], each, range, density, weights)
    return found, edges[0], edges[1]


NAMES: dict[str, Function] = {
    "histogram": histogram, "histogram_bin_edges": histogram_bin_edges,
    "histogramdd": histogramdd, "histogram2d": histogram2d,
}  # fmt: skip
