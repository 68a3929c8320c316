"""Convolutions and correlations of arrays of any number of axes, direct and by Fourier transforms.

Of sizes n and m there are n + m - 1 sums along an axis. A mode is a span of them, and the direct
method makes no others.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from phix import fft, ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import common_dtype, owned_tensor
from phix.core.errors import ShapeError
from phix.core.expectations import expect
from phix.core.given import INTS, NONE, Kind, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.fft.arguments import axes_of

_MODE = one_of("full", "same", "valid")
_METHOD = one_of("auto", "direct", "fft")
_BOUNDARY = one_of("fill", "wrap", "symm")
_NUMBER = Kind("a number", lambda v: isinstance(v, (int, float, complex, np.number)))
_MANY_TAPS = 128  # more of them take longer than transforms do, by measurement
Spans = list[tuple[Any, Any]]


# -- what is given -------------------------------------------------------------------------------
def _operands(in1: Any, in2: Any) -> tuple[Any, Any]:
    """The two in one dtype of floats or complex numbers, of as many axes, and not empty."""
    dtype = common_dtype([in1, in2])
    dtype = dtype if dt.is_differentiable(dtype) else dt.default_float()
    x, y = (ops.cast(owned_tensor(v), dtype) for v in (in1, in2))
    if x.ndim != y.ndim:
        raise ShapeError(
            f"in1 and in2 must have as many axes, found {x.meta} and {y.meta}; reshape one"
        )
    return _some("in1", x), _some("in2", y)


def _some(what: str, x: Any) -> Any:
    return expect(x, f"{what} must hold an element, found {x.meta}", *(n - 1 for n in x.meta.dims))


def _turned(y: Any) -> Any:
    """What a convolution with is a correlation with ``y``."""
    y = ops.conj(y) if dt.is_complex(y.dtype) else y
    return ops.flip(y, list(range(y.ndim))) if y.ndim else y


def _one_fits(mode: str, x: Any, y: Any, axes: Any) -> Any:
    """``x``, for sizes by which mode "valid" has sums."""
    refusal = (
        "mode 'valid' is for one array that is not smaller than the other along any axis, "
        f"found {x.meta} and {y.meta}; write mode 'full' or 'same'"
    )
    more = [x.meta.dims[a] - y.meta.dims[a] for a in axes]
    pairs = itertools.combinations(more if mode == "valid" else [], 2)
    return expect(x, refusal, *(a * b for a, b in pairs))


def _spans(mode: str, x: Any, y: Any, axes: Any) -> Spans:
    """Along each axis, the first of all sums that is asked for, and how many are."""
    sizes = [(x.meta.dims[a], y.meta.dims[a]) for a in axes]
    if mode == "full":
        return [(0, n + m - 1) for n, m in sizes]
    if mode == "same":
        return [((m - 1) // 2, n) for n, m in sizes]
    ends = [(dm.minimum(n, m) - 1, dm.maximum(n, m)) for n, m in sizes]
    return [(low, high - low) for low, high in ends]


# -- direct --------------------------------------------------------------------------------------
def _direct(x: Any, y: Any, spans: Spans) -> Any:
    """The sums in these spans, of products one by one."""
    x, y = _larger_first(x, y)
    pads: list[Any] = []
    for axis, (start, count) in enumerate(spans):
        n, m = x.meta.dims[axis], y.meta.dims[axis]
        pads += [m - 1 - start, start + count - n]
    if any(dm.is_known(p) and p < 0 for p in pads):  # what no sum needs
        x = ops.pad(x, [p if dm.is_known(p) and p < 0 else 0 for p in pads], 0)
        pads = [dm.maximum(p, 0) if dm.is_known(p) else p for p in pads]
    return _inner(x, ops.flip(y, list(range(y.ndim))), pads)


def _larger_first(x: Any, y: Any) -> tuple[Any, Any]:
    is_swapped = dm.is_known(*x.meta.dims, *y.meta.dims) and x.size < y.size
    return (y, x) if is_swapped else (x, y)


def _inner(x: Any, taps: Any, pads: list[Any]) -> Any:
    """The sums of products of the taps and what of x, with zeros around, is under them."""
    if x.ndim > 3:
        return _in_lines(ops.pad(x, pads, 0), taps)
    missing = max(2 - x.ndim, 0)
    image, filters = (
        ops.reshape(v, (1, 1, *(1,) * missing, *v.meta.dims)) for v in (x, taps)
    )  # fmt: skip
    convolve = ops.conv3d if x.ndim == 3 else ops.conv2d
    out = convolve(image, filters, paddings=[0, 0] * missing + pads)
    return ops.reshape(out, out.meta.dims[2 + missing :])


def _in_lines(x: Any, taps: Any) -> Any:
    """Of more axes: all but the last two are one, in which the taps have the distances that they
    have in x; sums that go over an edge are left out."""
    merged = x.ndim - 2
    inner, tail = x.meta.dims[1:merged], list(x.meta.dims[merged:])
    sizes = taps.meta.dims
    counts = [n - m + 1 for n, m in zip(x.meta.dims, sizes)]
    more = [0, 0] + [v for n, m in zip(inner, sizes[1:]) for v in (0, n - m)] + [0] * 4
    stride = dm.product(inner)
    lines = ops.reshape(x, [x.meta.dims[0] * stride, *tail])
    spread = ops.reshape(ops.pad(taps, more, 0), [sizes[0] * stride, *sizes[merged:]])
    last = 1  # the taps end there
    for axis in range(merged):
        last = last + (sizes[axis] - 1) * dm.product(x.meta.dims[axis + 1 : merged])
    out = _inner(lines, spread[:last], [0] * 6)
    found = counts[0] * stride
    out = ops.pad(out, [0, found - out.meta.dims[0], 0, 0, 0, 0], 0)
    out = ops.reshape(out, [counts[0], *inner, *out.meta.dims[1:]])
    return out[tuple(slice(0, count) for count in counts)]


# -- by transforms -------------------------------------------------------------------------------
def _quick_size(n: Any) -> Any:
    """The least size from n on with the prime factors 2, 3 and 5 alone; an unknown one as it is."""
    if not dm.is_known(n):
        return n
    reach = range(n.bit_length() + 1)
    odd = (3**a * 5**b for a in reach for b in reach)
    return min(f << max((-(-n // f) - 1).bit_length(), 0) for f in odd)


def _transformed(x: Any, y: Any, axes: list[int], spans: Spans) -> Any:
    """The sums in these spans along the axes, as the transform of a product of transforms."""
    wanted = x.dtype
    over, cut = [], [slice(None)] * x.ndim
    for axis, (start, count) in zip(axes, spans):
        if not (dm.is_one(x.meta.dims[axis]) or dm.is_one(y.meta.dims[axis])):  # else a product
            over.append(axis)
        cut[axis] = slice(start, start + count)
    if not over:
        return (x * y)[tuple(cut)] if cut else x * y
    sizes = [_quick_size(x.meta.dims[a] + y.meta.dims[a] - 1) for a in over]
    forward, back = (
        (fft.fftn, fft.ifftn) if dt.is_complex(wanted) else (fft.rfftn, fft.irfftn)
    )  # fmt: skip
    found = back(forward(x, sizes, over) * forward(y, sizes, over), sizes, over)
    return ops.cast(found[tuple(cut)], wanted)


def _by(method: str, x: Any, y: Any, mode: str) -> Any:
    axes = list(range(x.ndim))
    x = _one_fits(mode, x, y, axes)
    spans = _spans(mode, x, y, axes)
    if not axes:
        return x * y
    sizes = [v.size for v in (x, y)]
    if method == "auto":
        method = "fft" if dm.is_known(*sizes) and min(sizes) > _MANY_TAPS else "direct"
    return _transformed(x, y, axes, spans) if method == "fft" else _direct(x, y, spans)


# -- as users call them --------------------------------------------------------------------------
@takes(mode=_MODE, method=_METHOD)
def convolve(in1: TensorLike, in2: TensorLike, mode: str = "full", method: str = "auto") -> Tensor:
    """The sums of in1[j] in2[k - j] over j, of arrays of as many axes.

    Args:
        in1: a tensor of floats or complex numbers; ints become the default float.
        in2: a tensor of as many axes.
        mode: "full": all n + m - 1 sums along each axis; "same": as many as in1 has, from the
            middle; "valid": the abs(n - m) + 1 that meet no edge, of two arrays of which one is
            not smaller along any axis.
        method: "direct": products one by one; "fft": by transforms, in n log n steps, with
            roundings as large as those of the largest sum; "auto": "direct" where a size is not
            known or the smaller one has no more than 128 elements, else "fft".

    Returns:
        In the dtype that in1 and in2 have together.

    Raises:
        ShapeError: they have other numbers of axes, one is empty, or mode "valid" has none.

    >>> import phix
    >>> phix.scipy.signal.convolve([1.0, 2.0, 3.0], [0.5, 1.0]).tolist()
    [0.5, 2.0, 3.5, 3.0]
    """
    return _by(method, *_operands(in1, in2), mode)


@takes(mode=_MODE, method=_METHOD)
def correlate(in1: TensorLike, in2: TensorLike, mode: str = "full", method: str = "auto") -> Tensor:
    """The sums of in1[j] conj(in2[j - k]) over j, for k from 1 - m on: m is the size of in2.

    Args:
        in1: a tensor of floats or complex numbers; ints become the default float.
        in2: a tensor of as many axes.
        mode: as for :func:`convolve`.
        method: as for :func:`convolve`.

    Returns:
        In the dtype that in1 and in2 have together.

    Raises:
        ShapeError: they have other numbers of axes, one is empty, or mode "valid" has none.

    >>> import phix
    >>> phix.scipy.signal.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).tolist()
    [0.5, 2.0, 3.5, 3.0, 0.0]
    """
    x, y = _operands(in1, in2)
    return _by(method, x, _turned(y), mode)


@takes(mode=_MODE, axes=INTS | NONE)
def fftconvolve(in1: TensorLike, in2: TensorLike, mode: str = "full", axes: Any = None) -> Tensor:
    """:func:`convolve` by Fourier transforms, along some axes: n log n steps.

    Args:
        in1: a tensor of floats or complex numbers; ints become the default float.
        in2: a tensor of as many axes.
        mode: as for :func:`convolve`, along the axes.
        axes: one or several; by default all. The others broadcast.

    Returns:
        In the dtype that in1 and in2 have together.

    Raises:
        ShapeError: they have other numbers of axes, others of them do not broadcast, one is
            empty, or mode "valid" has no sums.
        AttributeValueError: an axis is out of range or named twice.

    >>> import phix
    >>> x = phix.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> phix.scipy.signal.fftconvolve(x, [[1.0, 1.0]], axes=1).round(decimals=3).tolist()
    [[1.0, 3.0, 2.0], [3.0, 7.0, 4.0]]
    """
    x, y = _operands(in1, in2)
    over = list(axes_of("fftconvolve", x, axes, None)) if x.ndim else []
    for a in set(range(x.ndim)) - set(over):
        n, m = x.meta.dims[a], y.meta.dims[a]
        if not (dm.may_equal(n, m) or dm.is_one(n) or dm.is_one(m)):
            raise ShapeError(
                f"fftconvolve: axis {a} of {x.meta} and {y.meta} is not among the axes, so it "
                "must have one size, or 1; name it in axes, or repeat one"
            )
    return _transformed(_one_fits(mode, x, y, over), y, over, _spans(mode, x, y, over))


def _positions(boundary: str, n: Any, before: Any, behind: Any) -> Any:
    """Where in an axis of n what is before it, in it and behind it is found."""
    at = ops.arange(-before, n + behind, 1, dt.int64)
    if boundary == "wrap":
        return ops.remainder(at, n)
    at = ops.remainder(at, 2 * n)
    return ops.minimum(at, 2 * n - 1 - at)


def _of_images(
    x: Any, y: Any, mode: str, boundary: str, fillvalue: Any, is_turned: bool = False
) -> Any:
    if x.ndim != 2:
        raise ShapeError(
            f"in1 and in2 must have two axes, found {x.meta} and {y.meta}; write "
            "convolve or correlate for other numbers of them"
        )
    x = _one_fits(mode, x, y, (0, 1))
    spans = _spans(mode, x, y, (0, 1))
    if is_turned and mode == "same":  # as SciPy has it, for images alone
        spans = [(m // 2, n) for n, m in zip(x.meta.dims, y.meta.dims)]
    if mode == "valid" or (boundary == "fill" and fillvalue == 0):
        return _direct(x, y, spans)
    pads: list[Any] = []
    for axis, (start, count) in enumerate(spans):
        n, m = x.meta.dims[axis], y.meta.dims[axis]
        pads += [m - 1 - start, start + count - n]
    if boundary == "fill":
        value = fillvalue.item() if isinstance(fillvalue, np.generic) else fillvalue
        x = ops.pad(x, pads, value)
    else:
        for axis in (0, 1):
            at = _positions(boundary, x.meta.dims[axis], *pads[2 * axis : 2 * axis + 2])
            x = ops.index_select(x, at, axis)
    return _inner(x, ops.flip(y, [0, 1]), [0] * 4)


@takes(mode=_MODE, boundary=_BOUNDARY, fillvalue=_NUMBER)
def convolve2d(
    in1: TensorLike, in2: TensorLike, mode: str = "full", boundary: str = "fill",
    fillvalue: Any = 0,
) -> Tensor:  # fmt: skip
    """:func:`convolve` of two images, with a choice of what is around the first one.

    Args:
        in1: [h, w], of floats or complex numbers; ints become the default float.
        in2: [i, j].
        mode: as for :func:`convolve`.
        boundary: "fill": in1 has ``fillvalue`` around it; "wrap": it is repeated; "symm": it is
            mirrored at its edges, which stand twice.
        fillvalue: a number.

    Returns:
        In the dtype that in1 and in2 have together.

    Raises:
        ShapeError: one has not two axes, or is empty, or mode "valid" has no sums.

    >>> import phix
    >>> x = phix.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> phix.scipy.signal.convolve2d(x, [[1.0, 1.0]], "same", boundary="wrap").tolist()
    [[3.0, 3.0], [7.0, 7.0]]
    """
    return _of_images(*_operands(in1, in2), mode, boundary, fillvalue)


@takes(mode=_MODE, boundary=_BOUNDARY, fillvalue=_NUMBER)
def correlate2d(
    in1: TensorLike, in2: TensorLike, mode: str = "full", boundary: str = "fill",
    fillvalue: Any = 0,
) -> Tensor:  # fmt: skip
    """:func:`correlate` of two images, with a choice of what is around the first one.

    Args:
        in1: [h, w], of floats or complex numbers; ints become the default float.
        in2: [i, j].
        mode: as for :func:`convolve`.
        boundary: as for :func:`convolve2d`.
        fillvalue: a number.

    Returns:
        In the dtype that in1 and in2 have together.

    Raises:
        ShapeError: one has not two axes, or is empty, or mode "valid" has no sums.

    >>> import phix
    >>> x = phix.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> phix.scipy.signal.correlate2d(x, [[0.0, 1.0]], "valid").tolist()
    [[2.0], [4.0]]
    """
    x, y = _operands(in1, in2)
    return _of_images(x, _turned(y), mode, boundary, fillvalue, is_turned=True)
