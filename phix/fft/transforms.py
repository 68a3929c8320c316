"""The transforms along one axis and along several."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError, DTypeError
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.fft.arguments import Axes, Sizes, fitted, norm_of, one_size, prepared


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
    >>> phix.fft.fft([1.0, 0.0, -1.0, 0.0]).real.tolist()
    [0.0, 2.0, 0.0, 2.0]
    >>> power = lambda x: (phix.fft.fft(x).abs() ** 2).sum()
    >>> phix.grad(power)(phix.to_tensor([1.0, 2.0, 0.0, 0.0])).tolist()
    [8.0, 16.0, 0.0, 0.0]
    """
    return _complex("fft", x, one_size(n), (axis,), norm, True)


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
    >>> phix.fft.ifft([0.0, 2.0, 0.0, 2.0]).real.tolist()
    [1.0, 0.0, -1.0, 0.0]
    """
    return _complex("ifft", x, one_size(n), (axis,), norm, False)


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
    return _from_real("rfft", x, one_size(n), (axis,), norm, True)


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
    return _to_real("irfft", x, one_size(n), (axis,), norm, False)


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
    return _to_real("hfft", x, one_size(n), (axis,), norm, True)


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
    return _from_real("ihfft", x, one_size(n), (axis,), norm, False)


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
    >>> phix.fft.fftn([[1.0, 2.0], [3.0, 4.0]]).real.tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _complex("fftn", x, s, axes, norm, True)


@takes()
def ifftn(
    x: TensorLike, s: Sizes | None = None, axes: Axes | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of ``fftn``; arguments, result and errors as there, norm as for ``ifft``.

    >>> import phix
    >>> phix.fft.ifftn([[10.0, -2.0], [-4.0, 0.0]]).real.tolist()
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
    >>> phix.fft.fft2([[[1.0, 2.0], [3.0, 4.0]]]).real.tolist()
    [[[10.0, -2.0], [-4.0, 0.0]]]
    """
    return _complex("fft2", x, s, axes, norm, True)


@takes()
def ifft2(
    x: TensorLike, s: Sizes | None = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """``ifftn`` over the last two axes.

    >>> import phix
    >>> phix.fft.ifft2([[[10.0, -2.0], [-4.0, 0.0]]]).real.tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    return _complex("ifft2", x, s, axes, norm, False)


@takes()
def rfft2(
    x: TensorLike, s: Sizes | None = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """``rfftn`` over the last two axes.

    >>> import phix
    >>> phix.fft.rfft2([[1.0, 2.0], [3.0, 4.0]]).real.tolist()
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


# -- the transforms ------------------------------------------------------------------------------
def _complex(
    name: str, x: Any, s: Sizes | None, axes: Axes | None, norm: str | None, forward: bool
) -> Any:
    """To complex numbers; those of real ones are half as much work."""
    x, over, sizes = prepared(name, x, s, axes)
    x = fitted(x, over, sizes)
    if dt.is_complex(x.dtype):
        return ops.fft_c2c(x, over, norm_of(name, norm), forward)
    return ops.fft_r2c(x, over, norm_of(name, norm), forward, False)


def _from_real(
    name: str, x: Any, s: Sizes | None, axes: Axes | None, norm: str | None, forward: bool
) -> Any:
    x, over, sizes = prepared(name, x, s, axes)
    if dt.is_complex(x.dtype):
        raise DTypeError(
            f"{name} takes real numbers, found {x.meta}; take x.real, or write "
            "fft, fftn or ifft for all points of complex ones"
        )
    return ops.fft_r2c(fitted(x, over, sizes), over, norm_of(name, norm), forward, True)


def _to_real(
    name: str, x: Any, s: Sizes | None, axes: Axes | None, norm: str | None, forward: bool
) -> Any:
    x, over, sizes = prepared(name, x, s, axes)
    last = sizes[-1] if s is not None and s[-1] is not None else 2 * (sizes[-1] - 1)
    if dm.is_known(last) and last < 1:
        raise AttributeValueError(
            f"{name}: of {x.meta} the result would have {last} elements along axis {over[-1]}; "
            "write how many, 1 or more"
        )
    x = fitted(x, over, (*sizes[:-1], last // 2 + 1))
    x = ops.cast(x, dt.complex_dtype(x.dtype))
    return ops.fft_c2r(x, over, norm_of(name, norm), forward, last)
