"""Fourier transforms under NumPy's names, differentiable to any order.

    fft:   X_k = sum_j x_j exp(-2 pi i j k / n),           k = 0, ..., n - 1
    ifft:  x_j = (1 / n) sum_k X_k exp(2 pi i j k / n),    j = 0, ..., n - 1

Over several axes one transform follows the other, and n is the product of their sizes. ``norm``
says where the sums are divided: ``"backward"`` (also None), as above, in the inverse; ``"forward"``
in the transform that is none; ``"ortho"`` by sqrt(n) in both, which are then unitary.

The functions take float32, float64, complex64 and complex128, and give that precision back; bools,
ints and floats of 16 bits are taken as float32. ``n`` and ``s`` are the sizes that are transformed:
what is longer is cropped at its end, what is shorter filled up with zeros. A size may be an unknown
dim, such as ``x.shape[0]``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.core.faces import face
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorBase, TensorLike

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = face(__all__)

Sizes = Sequence[Any]
Axes = Sequence[int]


# -- one axis ------------------------------------------------------------------------------------
@takes()
def fft(x: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform X_k = sum_j x_j exp(-2 pi i j k / n) along an axis.

    Args:
        x: [..., m, ...], real or complex.
        n: how many points are transformed; by default m.
        axis: which axis.
        norm: None or "backward": no division; "ortho": by sqrt(n); "forward": by n.

    Returns:
        Complex, [..., n, ...].

    Raises:
        ShapeError: x has no axis, or the axis no elements.
        AttributeValueError: axis is out of range, n is below 1, or norm is none of the three.

    >>> import phix
    >>> phix.fft.fft([1.0, 0.0, -1.0, 0.0]).real().tolist()
    [0.0, 2.0, 0.0, 2.0]
    >>> power = lambda x: (phix.fft.fft(x).abs() ** 2).sum()
    >>> phix.grad(power)(phix.to_tensor([1.0, 2.0, 0.0, 0.0])).tolist()
    [8.0, 16.0, 0.0, 0.0]
    """
    return _complex("fft", x, _one(n), (axis,), norm, True)


@takes()
def ifft(x: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``, x_j = (1 / n) sum_k X_k exp(2 pi i j k / n).

    Args:
        x: [..., m, ...], real or complex.
        n: how many points are transformed; by default m.
        axis: which axis.
        norm: None or "backward": divided by n; "ortho": by sqrt(n); "forward": not at all.

    Returns:
        Complex, [..., n, ...].

    Raises:
        ShapeError: x has no axis, or the axis no elements.
        AttributeValueError: axis is out of range, n is below 1, or norm is none of the three.

    >>> import phix
    >>> phix.fft.ifft([0.0, 2.0, 0.0, 2.0]).real().tolist()
    [1.0, 0.0, -1.0, 0.0]
    """
    return _complex("ifft", x, _one(n), (axis,), norm, False)


@takes()
def rfft(x: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The points k = 0, ..., n // 2 of ``fft`` of real numbers; the others are their conjugates.

    Args:
        x: [..., m, ...], real.
        n: how many points are transformed; by default m.
        axis: which axis.
        norm: as for ``fft``.

    Returns:
        Complex, [..., n // 2 + 1, ...].

    Raises:
        DTypeError: x is complex.
        ShapeError: x has no axis, or the axis no elements.
        AttributeValueError: axis is out of range, n is below 1, or norm is none of the three.

    >>> import phix
    >>> phix.fft.rfft([1.0, 0.0, -1.0, 0.0]).tolist()
    [0j, (2+0j), 0j]
    """
    return _from_real("rfft", x, _one(n), (axis,), norm, True)


@takes()
def irfft(x: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``: real numbers from the points k = 0, ..., n // 2.

    The imaginary parts of the points 0 and n / 2, which ``rfft`` makes 0, count for nothing.

    Args:
        x: [..., m, ...], cropped or filled up to n // 2 + 1 points.
        n: the size of the result, which x does not tell: 2 (m - 1) by default. Of an odd size,
            name it.
        axis: which axis.
        norm: as for ``ifft``.

    Returns:
        Real, [..., n, ...].

    Raises:
        ShapeError: x has no axis.
        AttributeValueError: axis is out of range, n is below 1, or norm is none of the three.

    >>> import phix
    >>> phix.fft.irfft(phix.fft.rfft([1.0, 2.0, 3.0, 2.0])).tolist()
    [1.0, 2.0, 3.0, 2.0]
    >>> phix.fft.irfft(phix.fft.rfft([3.0, 0.0, 0.0]), 3).tolist()
    [3.0, 0.0, 0.0]
    """
    return _to_real("irfft", x, _one(n), (axis,), norm, False)


@takes()
def hfft(x: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """``fft`` of what is its own conjugate when mirrored, x_(n - j) = conj(x_j): real numbers.

    Args:
        x: [..., m, ...], the points j = 0, ..., n // 2, cropped or filled up to as many.
        n: the size of the result, 2 (m - 1) by default.
        axis: which axis.
        norm: as for ``fft``.

    Returns:
        Real, [..., n, ...].

    Raises:
        ShapeError: x has no axis.
        AttributeValueError: axis is out of range, n is below 1, or norm is none of the three.

    >>> import phix
    >>> phix.fft.hfft([1.0, 2.0, 1.0]).tolist()
    [6.0, 0.0, -2.0, 0.0]
    """
    return _to_real("hfft", x, _one(n), (axis,), norm, True)


@takes()
def ihfft(x: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``: the points j = 0, ..., n // 2 of ``ifft`` of real numbers.

    Args:
        x: [..., m, ...], real.
        n: how many points are transformed; by default m.
        axis: which axis.
        norm: as for ``ifft``.

    Returns:
        Complex, [..., n // 2 + 1, ...].

    Raises:
        DTypeError: x is complex.
        ShapeError: x has no axis, or the axis no elements.
        AttributeValueError: axis is out of range, n is below 1, or norm is none of the three.

    >>> import phix
    >>> abs(phix.fft.ihfft([6.0, 0.0, -2.0, 0.0])).tolist()
    [1.0, 2.0, 1.0]
    """
    return _from_real("ihfft", x, _one(n), (axis,), norm, False)


# -- several axes --------------------------------------------------------------------------------
@takes()
def fftn(
    x: TensorLike, s: Sizes | None = None, axes: Axes | None = None, norm: str | None = None
) -> Tensor:
    """``fft`` over several axes.

    Args:
        x: real or complex.
        s: how many points are transformed along each axis; by default its size.
        axes: which; by default the last ``len(s)``, and without s all.
        norm: as for ``fft``, n the product of the sizes.

    Returns:
        Complex, of the shape of x but for s.

    Raises:
        ShapeError: x has no axis, or one of the axes no elements.
        AttributeValueError: an axis is out of range or named twice, s and axes differ in length,
            a size is below 1, or norm is none of the three.

    >>> import phix
    >>> phix.fft.fftn([[1.0, 2.0], [3.0, 4.0]]).real().tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _complex("fftn", x, s, axes, norm, True)


@takes()
def ifftn(
    x: TensorLike, s: Sizes | None = None, axes: Axes | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of ``fftn``; arguments, result and errors as there, norm as for ``ifft``.

    >>> import phix
    >>> phix.fft.ifftn([[10.0, -2.0], [-4.0, 0.0]]).real().tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _complex("ifftn", x, s, axes, norm, False)


@takes()
def rfftn(
    x: TensorLike, s: Sizes | None = None, axes: Axes | None = None, norm: str | None = None
) -> Tensor:
    """``rfft`` over the last of the axes, then ``fft`` over the others.

    Args:
        x: real.
        s, axes, norm: as for ``fftn``.

    Returns:
        Complex; along the last of the axes k = 0, ..., n // 2.

    Raises:
        DTypeError: x is complex.
        ShapeError, AttributeValueError: as for ``fftn``.

    >>> import phix
    >>> phix.fft.rfftn([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]).shape
    (2, 2)
    """
    return _from_real("rfftn", x, s, axes, norm, True)


@takes()
def irfftn(
    x: TensorLike, s: Sizes | None = None, axes: Axes | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of ``rfftn``: ``ifft`` over all but the last of the axes, then ``irfft``.

    Args:
        x: real or complex.
        s: the sizes of the result along the axes; the last is 2 (m - 1) by default.
        axes: which; by default the last ``len(s)``, and without s all.
        norm: as for ``ifft``.

    Returns:
        Real, of the shape of x but for s.

    Raises:
        ShapeError, AttributeValueError: as for ``fftn``.

    >>> import phix
    >>> x = [[1.0, 2.0, 3.0], [3.0, 4.0, 6.0]]
    >>> phix.fft.irfftn(phix.fft.rfftn(x), (2, 3)).shape
    (2, 3)
    """
    return _to_real("irfftn", x, s, axes, norm, False)


@takes()
def fft2(
    x: TensorLike, s: Sizes | None = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """``fftn`` over the last two axes.

    >>> import phix
    >>> phix.fft.fft2([[[1.0, 2.0], [3.0, 4.0]]]).real().tolist()
    [[[10.0, -2.0], [-4.0, 0.0]]]
    """
    return _complex("fft2", x, s, axes, norm, True)


@takes()
def ifft2(
    x: TensorLike, s: Sizes | None = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """``ifftn`` over the last two axes.

    >>> import phix
    >>> phix.fft.ifft2([[[10.0, -2.0], [-4.0, 0.0]]]).real().tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    return _complex("ifft2", x, s, axes, norm, False)


@takes()
def rfft2(
    x: TensorLike, s: Sizes | None = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """``rfftn`` over the last two axes.

    >>> import phix
    >>> phix.fft.rfft2([[1.0, 2.0], [3.0, 4.0]]).real().tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _from_real("rfft2", x, s, axes, norm, True)


@takes()
def irfft2(
    x: TensorLike, s: Sizes | None = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """``irfftn`` over the last two axes.

    >>> import phix
    >>> phix.fft.irfft2([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _to_real("irfft2", x, s, axes, norm, False)


# -- frequencies and their order -----------------------------------------------------------------
@takes()
def fftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of the points of ``fft``: 0, 1, ..., -2, -1, each divided by n d.

    Args:
        n: how many points.
        d: the time from one sample to the next.
        dtype: of the result; by default the default float.

    Returns:
        [n]: the first (n + 1) // 2 are not negative.

    Raises:
        AttributeValueError: n is below 1, or d is 0.

    >>> import phix
    >>> phix.fft.fftfreq(4, 0.5).tolist()
    [0.0, 0.5, -1.0, -0.5]
    """
    n = _size("fftfreq", n)
    k = ops.arange(0, n, 1, dt.int64)
    return _frequencies("fftfreq", ops.where(k < (n + 1) // 2, k, k - n), n, d, dtype)


@takes()
def rfftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of the points of ``rfft``: 0, 1, ..., n // 2, each divided by n d.

    Args:
        n: how many points are transformed.
        d: the time from one sample to the next.
        dtype: of the result; by default the default float.

    Returns:
        [n // 2 + 1].

    Raises:
        AttributeValueError: n is below 1, or d is 0.

    >>> import phix
    >>> phix.fft.rfftfreq(4, 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    n = _size("rfftfreq", n)
    return _frequencies("rfftfreq", ops.arange(0, n // 2 + 1, 1, dt.int64), n, d, dtype)


def _frequencies(name: str, k: Any, n: Any, d: Any, dtype: Any) -> Any:
    if not isinstance(d, TensorBase) and d == 0:
        raise AttributeValueError(
            f"{name}: d is 0, and there is no frequency of samples at one time; write the time "
            "from one sample to the next"
        )
    dtype = dt.DEFAULT_FLOAT if dtype is None else dtype
    step = d if isinstance(d, TensorBase) else ops.full((), d, dtype)
    return ops.cast(k, dtype) / (ops.cast(step, dtype) * n)


@takes()
def fftshift(x: TensorLike, axes: int | Axes | None = None) -> Tensor:
    """The order of ``fft`` changed to that of the frequencies: the point 0 comes to size // 2.

    Args:
        x: of any dtype.
        axes: one or several; by default all.

    Returns:
        Of the shape and dtype of x.

    Raises:
        AttributeValueError: an axis is out of range or named twice.

    >>> import phix
    >>> phix.fft.fftshift(phix.fft.fftfreq(5, 0.2)).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    return _shifted("fftshift", x, axes, 1)


@takes()
def ifftshift(x: TensorLike, axes: int | Axes | None = None) -> Tensor:
    """The inverse of ``fftshift``: the point at size // 2 comes to 0.

    Args:
        x: of any dtype.
        axes: one or several; by default all.

    Returns:
        Of the shape and dtype of x.

    Raises:
        AttributeValueError: an axis is out of range or named twice.

    >>> import phix
    >>> phix.fft.ifftshift([-2.0, -1.0, 0.0, 1.0, 2.0]).tolist()
    [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: int | Axes | None, direction: int) -> Any:
    x = _tensor(x)
    over = _axes(name, x, axes, None)
    return ops.roll(x, [direction * (x.meta.dims[a] // 2) for a in over], over) if over else x


# -- the transforms ------------------------------------------------------------------------------
def _complex(
    name: str, x: Any, s: Sizes | None, axes: Axes | None, norm: str | None, forward: bool
) -> Any:
    """To complex numbers; those of real ones are half as much work."""
    x, over, sizes = _prepared(name, x, s, axes)
    x = _fitted(x, over, sizes)
    if dt.is_complex(x.dtype):
        return ops.fft_c2c(x, over, _norm(name, norm), forward)
    return ops.fft_r2c(x, over, _norm(name, norm), forward, False)


def _from_real(
    name: str, x: Any, s: Sizes | None, axes: Axes | None, norm: str | None, forward: bool
) -> Any:
    x, over, sizes = _prepared(name, x, s, axes)
    if dt.is_complex(x.dtype):
        raise DTypeError(
            f"{name} takes real numbers, found {x.meta}; take x.real(), or write "
            "fft, fftn or ifft for all points of complex ones"
        )
    return ops.fft_r2c(_fitted(x, over, sizes), over, _norm(name, norm), forward, True)


def _to_real(
    name: str, x: Any, s: Sizes | None, axes: Axes | None, norm: str | None, forward: bool
) -> Any:
    x, over, sizes = _prepared(name, x, s, axes)
    last = sizes[-1] if s is not None and s[-1] is not None else 2 * (sizes[-1] - 1)
    if dm.is_known(last) and last < 1:
        raise AttributeValueError(
            f"{name}: of {x.meta} the result would have {last} elements along axis {over[-1]}; "
            "write how many, 1 or more"
        )
    x = _fitted(x, over, (*sizes[:-1], last // 2 + 1))
    x = ops.cast(x, dt.complex_dtype(x.dtype))
    return ops.fft_c2r(x, over, _norm(name, norm), forward, last)


# -- arguments -----------------------------------------------------------------------------------
def _one(n: Any) -> Sizes | None:
    return None if n is None else (n,)


def _tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def _prepared(
    name: str, x: Any, s: Sizes | None, axes: Axes | None
) -> tuple[Any, tuple[int, ...], tuple[Any, ...]]:
    """The tensor in a dtype that is transformed, the axes from the front, and the sizes of these:
    those asked for, else its own."""
    x = _tensor(x)
    if s is not None and not np.iterable(s):
        raise ArgumentError(f"{name}: s has one size for each axis, found {s!r}; write ({s},)")
    if not x.ndim:
        raise ShapeError(f"{name}: x must have an axis to transform, found {x.meta}; reshape it")
    over = _axes(name, x, axes, s)
    if not over:
        raise AttributeValueError(f"{name}: axes is empty; name the axes of {x.meta} to transform")
    wide = dt.is_complex(x.dtype) or x.dtype in (dt.float32, dt.float64)
    x = x if wide else ops.cast(x, dt.DEFAULT_FLOAT)
    own = [x.meta.dims[a] for a in over]
    if s is None:
        return x, over, tuple(own)
    return x, over, tuple(d if n is None else _size(name, n) for n, d in zip(s, own))


def _axes(name: str, x: Any, axes: int | Axes | None, s: Sizes | None) -> tuple[int, ...]:
    rank = x.ndim
    count = rank if s is None else len(s)
    axes = range(-count, 0) if axes is None else _ints(name, axes)
    if s is not None and len(axes) != count:
        raise AttributeValueError(
            f"{name}: s {tuple(s)} must have one size for each axis in {tuple(axes)}"
        )
    for axis in axes:
        if not -rank <= axis < rank:
            raise AttributeValueError(
                f"{name}: axis {axis} is out of range for {x.meta}; "
                f"write one of {-rank}..{rank - 1}"
            )
    over = tuple(a % rank for a in axes)
    if len(set(over)) != len(over):
        raise AttributeValueError(f"{name}: axes {tuple(axes)} name an axis twice")
    return over


def _ints(name: str, axes: Any) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, axes if np.iterable(axes) else (axes,)))
    except TypeError:
        raise ArgumentError(
            f"{name}: an axis is an int, axes are several, found {axes!r}"
        ) from None


def _size(name: str, n: Any) -> Any:
    try:
        size = n if isinstance(n, dm.Dim) else operator.index(n)
    except TypeError:
        raise ArgumentError(f"{name}: a size is an int or an unknown dim, found {n!r}") from None
    if dm.is_known(size) and size < 1:
        raise AttributeValueError(f"{name}: a size of {size} was asked for; write 1 or more")
    return size


def _norm(name: str, norm: str | None) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise AttributeValueError(
            f"{name}: norm must be None, 'backward', 'ortho' or 'forward', found {norm!r}"
        )
    return norm or "backward"


def _fitted(x: Any, axes: tuple[int, ...], sizes: tuple[Any, ...]) -> Any:
    """``x`` cropped at the end, or filled up with zeros, to these sizes along the axes."""
    kept = [slice(None)] * x.ndim
    missing: list[Any] = [0] * (2 * x.ndim)
    for axis, size in zip(axes, sizes):
        have = x.meta.dims[axis]
        common = dm.minimum(have, size)
        if not dm.same(common, have):
            kept[axis] = slice(0, common)
        missing[2 * axis + 1] = size - common
    x = x if kept == [slice(None)] * x.ndim else x[tuple(kept)]
    return x if all(map(dm.is_zero, missing)) else ops.pad(x, missing, 0)
