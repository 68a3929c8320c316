"""Pooling: reductions over windows of images.

Along each spatial axis the slices of the image that hold the first, the second, ... element of
every window are combined. A gradient goes back the same way: the windows' values are put where
the windows begin, zeros between, and each element of the image reads those of the windows it
lies in. Windows that neither overlap nor leave anything between them are cut out by a reshape.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.windows import Pads, explicit_paddings, window_counts
from phix.primitives.convolution import COUNTS, MOST, check_windows
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, widened

# Each element of a window is a few ops of its own, where windows overlap; of larger ones along an
# axis, what elements in a row come to is computed for 8 of them, 64 and so on.
_MOST_TAPS, _FEW_TAPS, _TOGETHER = 1 << 14, 32, 8


def _combined(parts: list[Any], combine: Any) -> Any:
    """All parts as one: halves of them first, so that no chain is as long as a window is wide."""
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


def spatial(x: Any, data_format: str) -> tuple[int, ...]:
    """The axes of (depth,) height and width."""
    return tuple(range(1, x.ndim - 1) if data_format in ("NHWC", "NDHWC") else range(2, x.ndim))


class Windows:
    """Where the windows of a pooling lie along the spatial axes of ``x`` (a tensor or meta)."""

    def __init__(
        self,
        x: Any,
        kernel: Any,
        strides: Any,
        paddings: Any,
        ceil_mode: bool,
        data_format: str,
        algorithm: str,
    ) -> None:
        if x.ndim != len(kernel) + 2:
            raise ShapeError(
                f"x must be images with {len(kernel) + 2} axes, found {x.meta}; reshape it"
            )
        self.dense = (1,) * len(kernel)
        self.axes = spatial(x, data_format)
        self.size = tuple(x.meta.dims[a] for a in self.axes)
        self.kernel, self.strides = kernel, strides
        self.pads: Pads = explicit_paddings(
            algorithm, paddings, self.size, kernel, strides, self.dense
        )
        self.counts = self._counted(ceil_mode, algorithm)
        # a single window takes no step, and zeros are not put behind it
        self.strides = tuple(
            1 if dm.is_one(n) and s > k else s for n, s, k in zip(self.counts, strides, kernel)
        )
        if any(isinstance(n, int) and n < 1 for n in self.counts):
            raise ShapeError(
                f"a window of {list(kernel)} does not fit on an image of "
                f"{dm.shape_text(self.size)}; pad more, or use a smaller one"
            )
        for k, pad in zip(kernel, self.pads):
            if any(isinstance(p, int) and p >= k for p in pad):
                raise AttributeValueError(
                    f"paddings {pad} must be below the window size {k}, or some windows would hold "
                    "padding alone"
                )

        if not self.tile() and any(k > _MOST_TAPS for k in kernel):
            raise AttributeValueError(
                f"a window of {list(kernel)} is larger than {_MOST_TAPS} along an axis, and does "
                "not cut images of a known size (under jit) into equal parts; use a smaller one, "
                "or pool twice"
            )

    def _counted(self, ceil_mode: bool, algorithm: str) -> dm.Shape:
        """How many windows there are; rounded up, the last still begins before the image ends."""
        pads = self.pads
        if ceil_mode:  # rounding up is the same as more padding behind, by stride - 1
            pads = [(p, q + (s - 1)) for (p, q), s in zip(pads, self.strides)]
        counts = window_counts(algorithm, pads, self.size, self.kernel, self.strides, self.dense)
        if not ceil_mode:
            return counts
        begun = [
            dm.floordiv(n + p - 1, s) + 1 for n, (p, _), s in zip(self.size, pads, self.strides)
        ]
        return tuple(
            count if dm.is_known(k, q) and q < k else dm.minimum(count, most)
            for count, most, k, (_, q) in zip(counts, begun, self.kernel, pads)
        )

    def tile(self) -> bool:
        """Whether the windows are known to cut the images into equal parts."""
        return (
            self.kernel == self.strides
            and all(isinstance(p, int) and p == 0 for pad in self.pads for p in pad)
            and dm.is_known(*self.size, *self.counts)
            and all(n == c * k for n, c, k in zip(self.size, self.counts, self.kernel))
        )

    def reduced(self, x: Any, fill: float, reduce: Any, combine: Any) -> Any:
        """``reduce(windows, axes)`` of x, padded with ``fill``; ``combine`` does it for two."""
        if self.tile():
            return reduce(self._tiles(x), self._within())
        x = self._padded(x, fill)
        for number in range(len(self.axes)):
            parts = self._parts(x, number, combine, self._part)
            x = _combined(parts, combine)
        return x

    def _parts(self, x: Any, number: int, combine: Any, seen: Any) -> list[Any]:
        """What windows along one axis are made of; ``seen(x, number, i)`` is, for all of
        them, what begins at their ``i``-th element."""
        k, axis = self.kernel[number], self.axes[number]
        if k <= _FEW_TAPS:
            return [seen(x, number, i) for i in range(k)]
        parts: list[Any] = []
        begin, width = 0, 1
        while True:
            for _ in range(k // width % _TOGETHER):
                parts.append(seen(x, number, begin))
                begin += width
            if begin == k:
                return parts
            end = x.meta.dims[axis] - (_TOGETHER - 1) * width
            starts = [n * width for n in range(_TOGETHER)]
            x = _combined([ops.slice(x, [axis], [n], [n + end]) for n in starts], combine)
            width *= _TOGETHER

    def _tiles(self, x: Any) -> Any:
        return ops.reshape(x, self._parted(x.meta.dims, self.kernel))

    def _parted(self, dims: dm.Shape, sizes: Any) -> dm.Shape:
        """The dims of images with the spatial ones as windows of ``sizes``."""
        first, last = self.axes[0], self.axes[-1]
        parted = [p for n, k in zip(self.counts, sizes) for p in (n, k)]
        return (*dims[:first], *parted, *dims[last + 1 :])

    def _within(self) -> list[int]:
        """The axes of the tiles that lie within a window."""
        return [a + i + 1 for i, a in enumerate(self.axes)]

    def _taps(self, number: int) -> range:
        return range(self.kernel[number])

    def _padded(self, x: Any, fill: float) -> Any:
        paddings: list[Any] = [0] * (2 * x.ndim)
        for number, axis in enumerate(self.axes):
            before, after = self.pads[number]
            last = (self.counts[number] - 1) * self.strides[number]  # where the last one begins
            reach = last + self.kernel[number] - before - self.size[number]
            paddings[2 * axis : 2 * axis + 2] = before, dm.maximum(reach, after)
        return x if all(dm.is_zero(p) for p in paddings) else ops.pad(x, paddings, fill)

    def _part(self, x: Any, number: int, i: int) -> Any:
        """The ``i``-th element of every window along one axis of padded images."""
        axis, stride, count = self.axes[number], self.strides[number], self.counts[number]
        if stride == 1:
            return ops.slice(x, [axis], [i], [i + count])
        return ops.strided_slice(x, [axis], [i], [i + (count - 1) * stride + 1], [stride])

    def _begun(self, values: Any) -> Any:
        """The windows' values where the windows begin, zeros around: see ``_lying_in``."""
        paddings: list[Any] = [0] * (2 * values.ndim)
        for number, axis in enumerate(self.axes):
            k, stride = self.kernel[number], self.strides[number]
            values = _apart(values, axis, stride)
            before = k - 1 - self.pads[number][0]
            after = self.size[number] + k - 1 - before - self.counts[number] * stride
            paddings[2 * axis : 2 * axis + 2] = before, dm.maximum(after, 0)
        return ops.pad(values, paddings, 0)

    def _lying_in(self, begun: Any, number: int, i: int) -> Any:
        """For each element along one axis, what the window has whose ``i``-th element it is."""
        start = self.kernel[number] - 1 - i
        return ops.slice(begun, [self.axes[number]], [start], [start + self.size[number]])

    def _lying_from(self, begun: Any, number: int, i: int) -> Any:
        """The same, the first window first that an element lies in."""
        return self._lying_in(begun, number, self.kernel[number] - 1 - i)

    def back(self, values: Any, like: Any) -> Any:
        """The sum over the windows an element lies in: the gradient of sums over windows."""
        if self.tile():
            dims = like.meta.dims
            values = ops.reshape(values, self._parted(dims, self.dense))
            return ops.reshape(ops.expand(values, self._parted(dims, self.kernel)), dims)
        values = self._begun(values)
        for number in range(len(self.axes)):
            parts = self._parts(values, number, ops.add, self._lying_from)
            values = _combined(parts, ops.add)
        return values

    def back_to_largest(self, x: Any, out: Any, grad: Any) -> Any:
        """The gradient of the maxima ``out``, split evenly among the elements that are largest."""
        if self.tile():
            return self._back_to_largest_of_tiles(x, out, grad)
        if math.prod(self.kernel) > _MOST_TAPS:
            raise AttributeValueError(
                f"the gradient of the maxima of overlapping windows of {list(self.kernel)} would "
                f"look at more than {_MOST_TAPS} elements each; use a smaller window"
            )
        taps = list(itertools.product(*map(self._taps, range(len(self.axes)))))
        padded, inside = self._padded(x, -math.inf), self._padded(ops.full_like(x, 1), 0.0)
        parts = ((self._each(self._part, p, tap) for p in (padded, inside)) for tap in taps)
        ties = functools.reduce(ops.add, (ops.where(p == out, own, 0.0) for p, own in parts))
        largest, shares = self._begun(out), self._begun(grad / ties)
        total: Any = None
        for tap in taps:
            value, share = (self._each(self._lying_in, v, tap) for v in (largest, shares))
            part = ops.where(x == value, share, 0.0)
            total = part if total is None else total + part
        return total

    def _each(self, slices: Any, x: Any, tap: tuple[int, ...]) -> Any:
        """``slices`` of x along each spatial axis, of the elements ``tap`` of the windows."""
        for number, i in enumerate(tap):
            x = slices(x, number, i)
        return x

    def _back_to_largest_of_tiles(self, x: Any, out: Any, grad: Any) -> Any:
        tiles, axes = self._tiles(x), self._within()
        seen = self._parted(x.meta.dims, self.dense)
        hits = ops.cast(tiles == ops.reshape(out, seen), x.dtype)
        shares = ops.reshape(grad, seen) / ops.sum(hits, axes, keepdim=True)
        return ops.reshape(hits * shares, x.meta.dims)

    def sizes(self, exclusive: bool, like: Any) -> Any:
        """How many elements of the image, or of it with its padding, each window holds."""
        along = [self._sizes_along(i, exclusive) for i in range(len(self.axes))]
        if all(isinstance(n, int) for n in along):
            return float(math.prod(along))
        total: Any = 1.0
        for axis, n in zip(self.axes, along):
            if not isinstance(n, int):
                dims = [n.meta.dims[0] if i == axis else 1 for i in range(like.ndim)]
                n = as_dtype(ops.reshape(n, dims), like.dtype)
            total = total * n
        return total

    def _sizes_along(self, number: int, exclusive: bool) -> Any:
        k, stride, count = self.kernel[number], self.strides[number], self.counts[number]
        before, after = self.pads[number]
        size = self.size[number]
        end = size if exclusive else size + after
        fits = dm.is_known(count, end, before) and (count - 1) * stride - before + k <= end
        if fits and (not exclusive or dm.is_zero(before)):
            return k
        begin = numbers(count) * stride - ops.full((), before, "int64")
        stop = ops.minimum(begin + k, ops.full((), end, "int64"))
        begin = ops.maximum(begin, 0) if exclusive else begin
        return ops.maximum(stop - begin, 1)


def _apart(x: Any, axis: int, stride: int) -> Any:
    """Zeros put behind each element along an axis, so that elements stand ``stride`` apart."""
    if stride == 1:
        return x
    dims = x.meta.dims
    cells = ops.reshape(x, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
    along = [stride if k == axis + 1 else 1 for k in range(x.ndim + 1)]
    is_first = ops.reshape(numbers(stride), along) == 0
    apart = ops.where(is_first, cells, ops.full((), 0, x.dtype))
    return ops.reshape(apart, (*dims[:axis], dims[axis] * stride, *dims[axis + 1 :]))


# -- attributes, meta --------------------------------------------------------------------------
def check(
    kernel: Any, strides: Any, paddings: Any, data_format: str, algorithm: str, count: int = 2
) -> Any:
    """Kernel and strides an axis each: one number stands for all, no strides for the kernel."""
    kernel = kernel * count if len(kernel) == 1 else kernel
    strides = strides * count if len(strides) == 1 else strides or kernel
    paddings = paddings * count if len(paddings) == 1 else paddings
    if len(kernel) != count or any(dm.is_known(k) and not 1 <= k <= MOST for k in kernel):
        raise AttributeValueError(
            f"kernel_size must be {COUNTS[count]} ints from 1 to {MOST}, found {list(kernel)}"
        )
    check_windows(strides, paddings, algorithm, (1,) * count, data_format, count)
    return kernel, strides, paddings


def _attrs(count: int) -> Any:
    def rule(x: MetaTensor, kernel_size: Any, strides: Any, paddings: Any, *how: Any) -> Any:
        *_, data_format, algorithm = how
        return *check(kernel_size, strides, paddings, data_format, algorithm, count), *how

    return rule


for _count in (2, 3):
    rules.normalize(f"max_pool{_count}d")(_attrs(_count))
    rules.normalize(f"avg_pool{_count}d")(_attrs(_count))


@rules.infer_meta("PoolWindowsInferMeta")
def pool_meta(x: MetaTensor, *attrs: Any) -> MetaTensor:
    windows = Windows(x, *attrs)
    found = dict(zip(windows.axes, windows.counts))
    return x.with_dims([found.get(i, d) for i, d in enumerate(x.dims)])


# -- decompositions ----------------------------------------------------------------------------
@rules.decompose("max_pool2d")
@rules.decompose("max_pool3d")
def max_pool(x: Any, *attrs: Any) -> Any:
    return Windows(x, *attrs).reduced(x, -math.inf, ops.max, ops.maximum)


@rules.decompose("max_pool2d_grad")
@rules.decompose("max_pool3d_grad")
def max_pool_grad(x: Any, out: Any, out_grad: Any, *attrs: Any) -> Any:
    return Windows(x, *attrs).back_to_largest(x, out, out_grad)


def _averaging(x: Any, *attrs: Any) -> tuple[Windows, bool]:
    """The windows, and whether padding is left out of their sizes."""
    sizes, exclusive, layout = attrs[:4], attrs[4], attrs[5:]
    return Windows(x, *sizes, *layout), exclusive


@rules.decompose("avg_pool2d")
@rules.decompose("avg_pool3d")
def avg_pool(x: Any, *attrs: Any) -> Any:
    windows, exclusive = _averaging(x, *attrs)
    wide = widened(x)
    total = windows.reduced(wide, 0.0, ops.sum, ops.add)
    return as_dtype(total / windows.sizes(exclusive, wide), x.dtype)


@rules.decompose("avg_pool2d_grad")
@rules.decompose("avg_pool3d_grad")
def avg_pool_grad(x: Any, out_grad: Any, *attrs: Any) -> Any:
    windows, exclusive = _averaging(x, *attrs)
    grad = widened(out_grad)
    return as_dtype(windows.back(grad / windows.sizes(exclusive, grad), x), x.dtype)
