"""NumPy's functions of samples: convolutions, windows, gradients, phases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import default_float, floating, given, operand, tensor
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axes_of, axis_of
from phix.core.dims import Dim
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.expectations import expect

Function = Callable[..., Any]


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The sums of a[m] * v[n - m] over m, of two vectors."""
    return _convolved("convolve", a, v, mode, False)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The sums of a[m + n] * conj(v[m]) over m, of two vectors."""
    y = tensor(v)
    return _convolved("correlate", a, ops.conj(y) if dt.is_complex(y.dtype) else y, mode, True)


def _convolved(name: str, a: Any, v: Any, mode: str, is_turned: bool) -> Any:
    if mode not in ("full", "same", "valid"):
        raise AttributeValueError(f"{name}: mode is full, same or valid, found {mode!r:.80}")
    x, y = tensor(a), tensor(v)
    if x.ndim > 1 or y.ndim > 1:
        raise ShapeError(f"{name} takes vectors, found {x.meta} and {y.meta}")
    dtype = dt.promote(x.dtype, y.dtype)
    if dtype in (dt.float16, dt.bfloat16):  # as in products of matrices, the sum alone is rounded
        wide = x.astype(dt.float32), y.astype(dt.float32)
        return _convolved(name, wide[0], wide[1], mode, is_turned).astype(dtype)
    x, y = (ops.reshape(w.astype(dtype), [-1]) for w in (x, y))
    n, m = x.shape[0], y.shape[0]
    x, y = (expect(v, f"{name}: a vector is empty", v.shape[0] - 1) for v in (x, y))
    y = ops.flip(y, [0]) if is_turned else y
    is_known = dm.is_known(n, m)
    is_swapped = is_known and n < m
    long, short = (y, x) if is_swapped else (x, y)
    more, few = dm.maximum(n, m), dm.minimum(n, m)
    if mode == "valid":
        return _whole_sums(long, short) if is_known else _sums(x, y)[few - 1 : more]
    found = _every_sum(long, short)
    if mode == "full":
        return found
    # of what is turned, the middle depends on which is the longer one
    is_other = dm.minimum(dm.maximum(m - n, 0), 1) if is_turned else 0
    start = (few - 1 + is_other) // 2
    return found[start : start + more]


def _whole_sums(x: Any, y: Any) -> Any:
    """The sums that have a term for each element of the shorter ``y``."""
    n, m = x.shape[0], y.shape[0]
    if x.dtype not in (dt.float32, dt.float64) or not (isinstance(n, int) and isinstance(m, int)):
        return _sums(x, y)[m - 1 : n]
    image, taps = ops.reshape(x, (1, 1, 1, n)), ops.reshape(ops.flip(y, [0]), (1, 1, 1, m))
    return ops.reshape(ops.conv2d(image, taps), (-1,))


def _every_sum(x: Any, y: Any) -> Any:
    """The full convolution; there is no term where one of the vectors has no element, as 0 times
    infinity is none."""
    n, m = x.shape[0], y.shape[0]
    is_long = isinstance(n, int) and isinstance(m, int) and m > 1 and 2 * m <= n
    if not is_long or x.dtype not in (dt.float32, dt.float64):
        return _sums(x, y)
    first, last = _sums(x[: m - 1], y)[: m - 1], _sums(x[n - m + 1 :], y)[m - 1 :]
    return ops.concat([first, _whole_sums(x, y), last])


def _sums(x: Any, y: Any) -> Any:
    """The full convolution: each of the outer products one place further in the next row."""
    n, m = x.shape[0], y.shape[0]
    rows = ops.unsqueeze(y, [1]) * x
    rows = ops.pad(rows, [0, 0, 0, m], 0)
    flat = ops.reshape(rows, (-1,))[: m * (n + m - 1)]
    summed = ops.sum(ops.reshape(flat, (m, n + m - 1)), [0])
    return summed.astype(x.dtype) if dt.kind(x.dtype) in ("bool", "int") else summed


# -- windows -------------------------------------------------------------------------------------
def _from_end_to_end(count: Any) -> Any:
    """2 k / (M - 1) - 1 for k below M; 0 where there is but one."""
    count = dm.maximum(count if isinstance(count, Dim) else int(count), 0)
    last = ops.full((), count - 1, dt.int64)
    part = 2 * ops.arange(0, count, 1, dt.int64) - last
    return part.astype(dt.float64) / ops.maximum(last, 1).astype(dt.float64)


def _window(name: str, doc: str, shape: Callable[[Any], Any]) -> Function:
    """A window of a function of 2 k / (M - 1) - 1, from -1 to 1."""

    def window(M: Any) -> Any:
        return shape(_from_end_to_end(M)).astype(default_float())

    window.__name__ = window.__qualname__ = name
    window.__doc__ = doc
    return window


bartlett = _window("bartlett", "The triangular window.", lambda t: 1 - ops.abs(t))
hanning = _window("hanning", "0.5 + 0.5 cos(pi t) for t from -1 to 1.",
                  lambda t: 0.5 + 0.5 * ops.cos(math.pi * t))  # fmt: skip
hamming = _window("hamming", "0.54 + 0.46 cos(pi t) for t from -1 to 1.",
                  lambda t: 0.54 + 0.46 * ops.cos(math.pi * t))  # fmt: skip
blackman = _window(
    "blackman", "0.42 + 0.5 cos(pi t) + 0.08 cos(2 pi t) for t from -1 to 1.",
    lambda t: 0.42 + 0.5 * ops.cos(math.pi * t) + 0.08 * ops.cos(2 * math.pi * t),
)  # fmt: skip


def kaiser(M: Any, beta: Any) -> Any:
    """i0(beta * sqrt(1 - t ** 2)) / i0(beta) for t from -1 to 1."""
    size = beta if isinstance(beta, (int, float)) else tensor(beta)
    part = _from_end_to_end(M)
    at = (
        ops.full((), size, dt.float64) if isinstance(size, (int, float)) else size.astype("float64")
    )
    root = ops.sqrt(ops.maximum(1 - part * part, 0.0))
    # scaled, so that nothing overflows: i0e(x) = i0(x) exp(-abs(x))
    scale = ops.exp(ops.abs(at) * (root - 1))
    return (ops.i0e(at * root) / ops.i0e(at) * scale).astype(default_float())


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind and order 0."""
    return ops.i0(floating(x))


# -- along an axis -------------------------------------------------------------------------------
def _cut(x: Any, axis: int, start: Any, stop: Any) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _one(x: Any, axis: int, index: int) -> Any:
    """The elements there, which must be some: a size that is not known yet is looked at later."""
    return ops.unsqueeze(x[(slice(None),) * axis + (index,)], [axis])


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The slopes along the axes by central differences, at the ends by one-sided ones; varargs
    are the distances of samples, or their coordinates."""
    x = floating(f)
    axes = axes_of(axis, x.ndim)
    if edge_order not in (1, 2):
        raise AttributeValueError(f"gradient: edge_order is 1 or 2, found {edge_order}")
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 and not np.ndim(steps[0]) else steps
    if len(steps) != len(axes):
        raise ArgumentError(f"gradient: {len(axes)} axes, found {len(varargs)} distances")
    for at in axes:  # of all before any: a program may take the slopes along one of them alone
        refusal = f"gradient: at least {edge_order + 1} samples along axis {at}, found {x.meta}"
        x = expect(x, refusal, x.meta.dims[at] - (edge_order + 1))
    found = [_slopes(x, at, operand(step), edge_order) for at, step in zip(axes, steps)]
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(x: Any, at: int, step: Any, order: int) -> Any:
    low, middle, high = (_cut(x, at, *ends) for ends in ((0, -2), (1, -1), (2, None)))
    if getattr(step, "ndim", 0) == 1:
        apart, is_even = _distances(x, at, step)
        before, after = _cut(apart, at, 0, -1), _cut(apart, at, 1, None)
        first, last = (_cut(apart, at, *ends) for ends in ((0, 1), (-1, None)))
        second, other = (_cut(apart, at, *ends) for ends in ((1, 2), (-2, -1)))
        middle = ops.where(is_even, 0.0, middle)  # it has no weight then, NaN or not
        both = before + after
        inner = (
            before / both * high / after
            + (after - before) / after * middle / before
            - after / both * low / before
        )
    else:
        first = last = second = other = step
        inner = 0.5 * (high - low) / step
    ends = [_one(x, at, k) for k in range(order + 1)]
    tail = [_one(x, at, -k - 1) for k in range(order + 1)]
    if order == 1:
        start, end = (ends[1] - ends[0]) / first, (tail[0] - tail[1]) / last
    else:
        start, end = _one_sided(ends, first, second), -_one_sided(tail, last, other)
    return ops.concat([start, inner, end], at)


def _distances(x: Any, at: int, points: Any) -> tuple[Any, Any]:
    """How far the points along an axis are apart, in the dtype of x, and whether all are alike."""
    apart = floating(points)
    apart = apart[1:] - apart[:-1]
    is_even = ops.all(apart == apart[:1])
    apart = ops.reshape(apart, [-1 if i == at else 1 for i in range(x.ndim)])
    return apart.astype(dt.real_dtype(x.dtype)), is_even


def _one_sided(values: list[Any], h: Any, k: Any) -> Any:
    """The slope at the first of three values h and k apart, by their parabola: in quotients of
    distances, as products of tiny ones are 0."""
    part, ratio = h / (h + k), h / k
    return ((ratio + 1) * values[1] - (part + 1) * values[0] - ratio * part * values[2]) / h


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    """Phases with multiples of the period added, so that neighbours are at most half of it
    apart; jumps below ``discont`` stay."""
    x = tensor(p)
    whole = dt.kind(x.dtype) == "int" and isinstance(period, (int, np.integer))
    x = x if whole else floating(x)
    at = axis_of(axis, x.ndim)
    step = _cut(x, at, 1, None) - _cut(x, at, 0, -1)
    half = period // 2 if whole else period / 2
    low = -(period // 2) if whole else -half
    moved = ops.remainder(step - low, period) + low
    if not whole or period % 2 == 0:
        is_up = ops.logical_and(moved == low, step > 0)
        moved = ops.where(is_up, half, moved)
    limit = half if not given(discont) else discont
    more = ops.where(ops.abs(step) < limit, 0, moved - step)
    return ops.concat([_cut(x, at, 0, 1), _cut(x, at, 1, None) + ops.cumsum(more, at)], at)


NAMES: dict[str, Function] = {
    "convolve": convolve, "correlate": correlate, "i0": i0, "gradient": gradient, "unwrap": unwrap,
}  # fmt: skip
# What is made of a size alone, so that NumPy never hands it over.
MADE: dict[str, Function] = {
    "bartlett": bartlett, "blackman": blackman, "hamming": hamming, "hanning": hanning,
    "kaiser": kaiser,
}  # fmt: skip
