"""Windows laid side by side, and added up again where they lay: each is the other's transpose.

Along one axis window ``q`` has its element ``i`` at ``q * step + i * apart - before``. An axis of
an image becomes two, (elements, windows); the way back adds what lies at one place. Both are
gathers, so that no two writes meet.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.records import dataclass
from phix.primitives import axes as ax
from phix.primitives.convolution import MOST
from phix.primitives.positions import numbers, to_axis
from phix.primitives.widening import as_dtype, widened
from phix.primitives.window_spans import whole


@dataclass(frozen=True)
class _Row:
    """The windows along an axis of ``size`` elements."""

    size: dm.DimLike
    taps: Any
    count: dm.DimLike
    step: Any
    apart: Any = 1
    before: Any = 0


def _slid(x: Any, axis: int, row: _Row) -> Any:
    """``axis`` as two, (elements, windows); off the image are zeros."""
    at = ops.reshape(numbers(row.taps) * whole(row.apart), (row.taps, 1)) + (
        numbers(row.count) * whole(row.step) - whole(row.before)
    )
    if dm.is_zero(row.size):  # all that a gather may read then is padding
        x = ops.pad(x, [int(i == 2 * axis) for i in range(2 * x.ndim)], 0)
    inside = ops.minimum(ops.maximum(at, 0), whole(dm.maximum(row.size - 1, 0)))
    found = ops.gather(x, inside, axis)
    if dm.is_zero(row.before) and dm.is_known(row.size, row.count) and _fits(row):
        return found
    is_in = (at >= 0) & (at < whole(row.size))
    dims: list[Any] = [1] * found.ndim
    dims[axis : axis + 2] = [row.taps, row.count]
    return ops.where(ops.reshape(is_in, dims), found, ops.full((), 0, x.dtype))


def _fits(row: _Row) -> bool:
    return bool((row.count - 1) * row.step + (row.taps - 1) * row.apart < row.size)


def _added(x: Any, axis: int, row: _Row) -> Any:
    """The axes (elements, windows) from ``axis`` on as one of ``row.size``."""
    dims = x.meta.dims
    flat = ops.reshape(x, (*dims[:axis], row.taps * row.count, *dims[axis + 2 :]))
    place = ops.reshape(numbers(row.size) + whole(row.before), (row.size, 1))
    if row.apart == 1:  # the last window that begins up to a place, and those before it
        most = dm.floordiv(row.taps + row.step - 1, row.step)
        window = ops.floor_divide(place, whole(row.step)) - numbers(most)
        element = place - window * whole(row.step)
        is_there = element < whole(row.taps)
    else:
        most = row.taps
        element = numbers(most)
        start = place - element * whole(row.apart)
        window = ops.floor_divide(start, whole(row.step))
        is_there = start == window * whole(row.step)
    is_there = is_there & (window >= 0) & (window < whole(row.count))
    at = element * whole(row.count) + window
    last = whole(dm.maximum(row.taps * row.count - 1, 0))
    found = ops.gather(flat, ops.minimum(ops.maximum(at, 0), last), axis)
    wide: list[Any] = [1] * found.ndim
    wide[axis : axis + 2] = [row.size, most]
    found = ops.where(ops.reshape(is_there, wide), found, ops.full((), 0, x.dtype))
    return as_dtype(ops.sum(widened(found), (axis + 1,)), x.dtype)


# -- unfold, fold ------------------------------------------------------------------------------
def _rows(size: Any, kernel: Any, strides: Any, paddings: Any, dilations: Any) -> list[_Row]:
    """The windows along height and width; paddings are (top, left, bottom, right) or two."""
    pairs = {"kernel_sizes": (kernel, 1), "strides": (strides, 1), "dilations": (dilations, 1)}
    for name, (values, least) in pairs.items():
        if len(values) != 2 or any(dm.is_known(v) and not least <= v <= MOST for v in values):
            raise AttributeValueError(f"{name} must be two ints of 1 or more, found {list(values)}")
    sides = tuple(paddings) * 2 if len(paddings) == 2 else tuple(paddings)
    if len(sides) != 4 or any(dm.is_known(p) and not 0 <= p <= MOST for p in sides):
        raise AttributeValueError(
            "paddings must be (height, width) or (top, left, bottom, right), each 0 or more, found "
            f"{list(paddings)}"
        )
    rows = []
    for n, k, s, d, p, q in zip(size, kernel, strides, dilations, sides[:2], sides[2:]):
        count = dm.floordiv(n + p + q - (k - 1) * d - 1, s) + 1
        if isinstance(count, int) and count < 1:
            raise ShapeError(
                f"a window of {dm.dim_text(k)} elements, {d} apart, does not fit on "
                f"{dm.dim_text(n)} with paddings {(p, q)}; pad more, or use a smaller one"
            )
        rows.append(_Row(n, k, count, s, d, p))
    return rows


def _unfolded(x: Any, *attrs: Any) -> Any:
    if x.ndim != 4:
        raise ShapeError(f"x must be images with 4 axes, found {x.meta}; reshape it")
    n, c, *size = x.meta.dims
    down, across = _rows(size, *attrs)
    windows = _slid(_slid(x, 3, across), 2, down)
    parts = ops.transpose(windows, (0, 1, 2, 4, 3, 5))
    return ops.reshape(parts, (n, c * down.taps * across.taps, down.count * across.count))


def _folded(x: Any, output_sizes: Any, *attrs: Any) -> Any:
    if x.ndim != 3:
        raise ShapeError(f"x must be [n, channels * taps, windows], found {x.meta}; reshape it")
    if len(output_sizes) != 2 or any(dm.is_known(v) and v < 1 for v in output_sizes):
        raise AttributeValueError(
            f"output_sizes must be two ints of 1 or more, found {list(output_sizes)}"
        )
    down, across = _rows(output_sizes, *attrs)
    n, taps, windows = x.meta.dims
    each = down.taps * across.taps
    if not dm.may_equal(windows, down.count * across.count) or (
        dm.is_known(taps, each) and taps % each
    ):
        raise ShapeError(
            f"windows of {dm.shape_text((down.taps, across.taps))} on images of "
            f"{dm.shape_text(tuple(output_sizes))} make [n, channels * {dm.dim_text(each)}, "
            f"{dm.dim_text(down.count * across.count)}], found {x.meta}"
        )
    c = dm.floordiv(taps, each)
    parts = ops.reshape(x, (n, c, down.taps, across.taps, down.count, across.count))
    windows = ops.transpose(parts, (0, 1, 2, 4, 3, 5))
    return _added(_added(windows, 4, across), 2, down)


@rules.decompose("unfold")
def unfold(x: Any, *attrs: Any) -> Any:
    return _unfolded(x, *attrs)


@rules.decompose("unfold_grad")
def unfold_grad(x: Any, out_grad: Any, *attrs: Any) -> Any:
    return ops.fold(out_grad, x.meta.dims[2:], *attrs)


@rules.decompose("fold")
def fold(x: Any, *attrs: Any) -> Any:
    return _folded(x, *attrs)


@rules.decompose("fold_grad")
def fold_grad(x: Any, out_grad: Any, output_sizes: Any, *attrs: Any) -> Any:
    return ops.unfold(out_grad, *attrs)


# -- along one axis ----------------------------------------------------------------------------
def _counted(size: dm.DimLike, taps: Any, step: Any, names: tuple[str, str]) -> _Row:
    for name, value in zip(names, (taps, step)):
        if dm.is_known(value) and not 1 <= value <= MOST:
            raise AttributeValueError(f"{name} must be 1 or more, found {value}")
    count = dm.floordiv(size - taps, step) + 1
    if isinstance(count, int) and count < 1:
        raise ShapeError(
            f"{names[0]} {dm.dim_text(taps)} is more than the axis has, {dm.dim_text(size)}"
        )
    return _Row(size, taps, count, step)


_UNFOLDED = ("size", "step")
_FRAMED = ("frame_length", "hop_length")


@rules.decompose("tensor_unfold")
def tensor_unfold(input: Any, axis: int, size: Any, step: Any) -> Any:
    if not input.ndim:
        raise ShapeError(f"{input.meta} has no axis to unfold; reshape it")
    axis = ax.positive(axis, input.ndim)
    row = _counted(input.meta.dims[axis], size, step, _UNFOLDED)
    return to_axis(_slid(input, axis, row), axis, input.ndim)


@rules.decompose("tensor_unfold_grad")
def tensor_unfold_grad(input: Any, out_grad: Any, axis: int, size: Any, step: Any) -> Any:
    axis = ax.positive(axis, input.ndim)
    row = _counted(input.meta.dims[axis], size, step, _UNFOLDED)
    return _added(to_axis(out_grad, input.ndim, axis), axis, row)


def _end(x: Any, axis: int, least: int) -> bool:
    """Whether ``axis`` is the last of x, not the first."""
    if axis not in (0, -1):
        raise AttributeValueError(f"axis must be 0 or -1, found {axis}")
    if x.ndim < least:
        raise ShapeError(f"x must have {least} axes or more, found {x.meta}; reshape it")
    return axis == -1


def _turned(x: Any, is_last: bool) -> Any:
    """The frames' axes exchanged where they stand in front: (frames, elements, ...)."""
    return x if is_last else ops.transpose(x, (1, 0, *range(2, x.ndim)))


@rules.decompose("frame")
def frame(x: Any, frame_length: int, hop_length: int, axis: int) -> Any:
    is_last = _end(x, axis, 1)
    row = _counted(x.meta.dims[axis], frame_length, hop_length, _FRAMED)
    return _turned(_slid(x, x.ndim - 1 if is_last else 0, row), is_last)


@rules.decompose("frame_grad")
def frame_grad(x: Any, out_grad: Any, frame_length: int, hop_length: int, axis: int) -> Any:
    row = _counted(x.meta.dims[axis], frame_length, hop_length, _FRAMED)
    is_last = axis == -1
    return _added(_turned(out_grad, is_last), x.ndim - 1 if is_last else 0, row)


@rules.decompose("overlap_add")
def overlap_add(x: Any, hop_length: int, axis: int) -> Any:
    is_last = _end(x, axis, 2)
    windows = _turned(x, is_last)
    first = x.ndim - 2 if is_last else 0
    taps, count = windows.meta.dims[first : first + 2]
    if dm.is_known(hop_length) and not 1 <= hop_length <= MOST:
        raise AttributeValueError(f"hop_length must be 1 or more, found {hop_length}")
    if dm.is_zero(taps) or dm.is_zero(count):
        raise ShapeError(f"{x.meta} has no frames to add")
    size = (count - 1) * hop_length + taps
    return _added(windows, first, _Row(size, taps, count, hop_length))


@rules.decompose("overlap_add_grad")
def overlap_add_grad(x: Any, out_grad: Any, hop_length: int, axis: int) -> Any:
    taps = x.meta.dims[-2 if axis == -1 else 1]
    return ops.frame(out_grad, taps, hop_length, axis)


@rules.decompose("stft")
def stft(x: Any, window: Any, n_fft: int, hop_length: int, normalized: bool, onesided: bool) -> Any:
    if not x.ndim or window.ndim != 1 or not dm.may_equal(window.meta.dims[0], n_fft):
        raise ShapeError(
            f"x must be [..., n] and window have n_fft = {n_fft} elements, found {x.meta} and "
            f"{window.meta}"
        )
    frames = ops.frame(x, n_fft, hop_length, -1) * ops.reshape(window, (n_fft, 1))
    norm = "ortho" if normalized else "backward"
    return ops.fft_r2c(frames, (frames.ndim - 2,), norm, True, onesided)
