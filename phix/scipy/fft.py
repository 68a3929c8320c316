"""Transforms under SciPy's names: Fourier's, see :mod:`phix.fft`, and by these those of cosines.

With n points, and sums over j from 0 to n - 1:

    type 1:  y_k = x_0 + (-1)^k x_(n-1) + 2 sum x_j cos(pi j k / (n - 1)), of 0 < j < n - 1
    type 2:  y_k = 2 sum x_j cos(pi (2 j + 1) k / (2 n))
    type 3:  y_k = x_0 + 2 sum x_j cos(pi j (2 k + 1) / (2 n)), of j > 0
    type 4:  y_k = 2 sum x_j cos(pi (2 j + 1) (2 k + 1) / (4 n))

Types 1 and 4 are their own inverses and types 2 and 3 each other's, but for a factor of 2 n, for
type 1 of 2 (n - 1). ``norm`` says where it is divided by: ``"backward"`` (also None) in the
inverse, ``"forward"`` in the transform that is none, ``"ortho"`` by its root in both, in which
points at the ends are divided and multiplied by sqrt(2) as well, so that the matrix is orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from phix import fft as fourier
from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ShapeError
from phix.core.faces import face
from phix.core.given import NONE, between, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.fft import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from phix.fft.arguments import Axes, Sizes, fitted, one_size, prepared
from phix.scipy.ranks import with_axis_at

_TYPE = between(1, 4)
_NORM = one_of("backward", "ortho", "forward") | NONE


# -- along the last axis -------------------------------------------------------------------------
def _turn(n: Any, count: Any, real: Any, offset: float = 0.0) -> Any:
    """exp(-i pi (k + offset) / (2 n)) for k from 0 on."""
    k = ops.cast(ops.arange(0, count, 1, dt.int64), dt.float64)
    angle = (k + offset) * (-0.5 * math.pi) / n
    return ops.complex(*(ops.cast(f(angle), real) for f in (ops.cos, ops.sin)))


def _first(x: Any, n: Any) -> Any:
    """Of type 1: what is mirrored at both ends has a real transform."""
    inner = _padded(x, -1, -1)  # unlike a slice, refuses one point where n was not known
    return ops.real(fourier.rfft(ops.concat([x, ops.flip(inner, [-1])], -1)))


def _second(x: Any, n: Any) -> Any:
    """Of type 2: even points, then odd ones backwards, have a transform that is it turned."""
    order = ops.concat([x[..., ::2], ops.flip(x[..., 1::2], [-1])], -1)
    turned = fourier.fft(order) * _turn(n, n, x.dtype)
    return 2.0 * ops.real(turned)


def _third(x: Any, n: Any) -> Any:
    """Of type 3: the steps of type 2 backwards."""
    half = n // 2 + 1
    mirrored = _padded(ops.flip(x[..., 1:], [-1]), 1, 0)  # x_(n-k), with no x_n
    points = ops.complex(x[..., :half], -mirrored[..., :half])
    order = fourier.irfft(points * ops.conj(_turn(n, half, x.dtype)), n, norm="forward")
    middle = (n + 1) // 2
    odd = _padded(ops.flip(order[..., middle:], [-1]), 0, middle - n // 2)
    pairs = ops.stack([order[..., :middle], odd], -1)
    return ops.reshape(pairs, [*x.meta.dims[:-1], 2 * middle])[..., :n]


def _fourth(x: Any, n: Any) -> Any:
    """Of type 4: of points that are turned, as many zeros behind them."""
    turned = ops.cast(x, dt.complex_dtype(x.dtype)) * _turn(n, n, x.dtype)
    found = fourier.fft(turned, 2 * n)[..., :n]
    return 2.0 * ops.real(found * _turn(n, n, x.dtype, 0.5))


def _padded(x: Any, before: Any, behind: Any) -> Any:
    return ops.pad(x, [0] * (2 * x.ndim - 2) + [before, behind], 0)


_TRANSFORMS: dict[int, Callable[[Any, Any], Any]] = {
    1: _first, 2: _second, 3: _third, 4: _fourth,
}  # fmt: skip
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_BACK = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
_ROOT = math.sqrt(2.0)
# Ends that "ortho" multiplies by sqrt(2) before, and divides by it behind: the first, and the last.
_BEFORE = {1: (_ROOT, _ROOT), 2: (1.0, 1.0), 3: (_ROOT, 1.0), 4: (1.0, 1.0)}
_BEHIND = {1: (1 / _ROOT, 1 / _ROOT), 2: (1 / _ROOT, 1.0), 3: (1.0, 1.0), 4: (1.0, 1.0)}


def _ends(x: Any, n: Any, factors: tuple[float, float]) -> Any:
    """``x`` with its first and last points times these."""
    if factors == (1.0, 1.0):
        return x
    k = ops.arange(0, n, 1, dt.int64)
    weights = ops.ones_like(ops.cast(k, dt.float64))
    for end, factor in zip((0, n - 1), factors):
        weights = ops.where(k == end, factor * weights, weights)  # of one point, both
    return x * ops.cast(weights, x.dtype)


def _last(x: Any, kind: int, norm: str | None) -> Any:
    n = x.meta.dims[-1]
    if dt.is_complex(x.dtype):
        return ops.complex(*(_last(v, kind, norm) for v in (ops.real(x), ops.imag(x))))
    whole = 2 * (n - 1) if kind == 1 else 2 * n
    if norm == "ortho":
        x = _ends(x, n, _BEFORE[kind])
    found = _TRANSFORMS[kind](x, n)
    if norm == "ortho":
        size = ops.sqrt(ops.full((), whole, dt.float64))
        return _ends(found / ops.cast(size, x.dtype), n, _BEHIND[kind])
    return found / whole if norm == "forward" else found


def _cosines(
    name: str, x: Any, kind: int, s: Sizes | None, axes: Axes | None, norm: str | None
) -> Any:  # fmt: skip
    x, over, sizes = prepared(name, x, s, axes)
    x = fitted(x, over, sizes)
    for axis, n in zip(over, sizes):
        if dm.is_zero(n) or (kind == 1 and dm.is_one(n)):
            raise ShapeError(
                f"{name}: type {kind} is of {1 + (kind == 1)} points or more, found {x.meta} "
                f"along axis {axis}"
            )
        x = with_axis_at(_last(with_axis_at(x, axis, -1), kind, norm), -1, axis)
    return x


# -- as users call them --------------------------------------------------------------------------
@takes(type=_TYPE, norm=_NORM)
def dct(
    x: TensorLike, type: int = 2, n: Any = None, axis: int = -1, norm: str | None = None
) -> Tensor:
    """The cosine transform of one of the four types, along an axis.

    Args:
        x: [..., m, ...], of floats or complex numbers; ints, and floats of 16 bits, are taken as
            the default float.
        type: 1 to 4, see :mod:`phix.scipy.fft`.
        n: how many points are transformed; by default m. x is cropped, or filled up with zeros.
        axis: which axis.
        norm: None or "backward": no division; "forward": by 2 n, for type 1 by 2 (n - 1);
            "ortho": such that the transform is orthogonal.

    Returns:
        [..., n, ...], in the dtype of x.

    Raises:
        ShapeError: x has no axis, or too few points: one, for type 1 two.
        AttributeValueError: axis is out of range, or n is below 1.

    >>> import phix
    >>> phix.scipy.fft.dct([1.0, 1.0, 1.0, 1.0], norm="ortho").round(decimals=3).tolist()
    [2.0, 0.0, 0.0, 0.0]
    """
    return _cosines("dct", x, type, one_size(n), (axis,), norm)


@takes(type=_TYPE, norm=_NORM)
def idct(
    x: TensorLike, type: int = 2, n: Any = None, axis: int = -1, norm: str | None = None
) -> Tensor:
    """The inverse of ``dct`` of the same type and norm; arguments, result and errors as there.

    >>> import phix
    >>> phix.scipy.fft.idct([8.0, 0.0, 0.0, 0.0]).round(decimals=3).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    kind, back = _INVERSE[type], _BACK[norm]
    return _cosines("idct", x, kind, one_size(n), (axis,), back)


@takes(type=_TYPE, norm=_NORM)
def dctn(
    x: TensorLike, type: int = 2, s: Sizes | None = None, axes: Axes | None = None,
    norm: str | None = None,
) -> Tensor:  # fmt: skip
    """``dct`` over several axes.

    Args:
        x: of floats or complex numbers; ints, and floats of 16 bits, are taken as the default
            float.
        type: 1 to 4, see :mod:`phix.scipy.fft`.
        s: how many points are transformed along each axis; by default its size.
        axes: which; by default the last ``len(s)``, and without s all.
        norm: as for ``dct``.

    Returns:
        Of the shape of x but for s, in the dtype of x.

    Raises:
        ShapeError: x has no axis, or too few points along one.
        AttributeValueError: an axis is out of range or named twice, s and axes differ in length,
            or a size is below 1.

    >>> import phix
    >>> phix.scipy.fft.dctn([[1.0, 1.0], [1.0, 1.0]]).round(decimals=3).tolist()
    [[16.0, 0.0], [0.0, 0.0]]
    """
    return _cosines("dctn", x, type, s, axes, norm)


@takes(type=_TYPE, norm=_NORM)
def idctn(
    x: TensorLike, type: int = 2, s: Sizes | None = None, axes: Axes | None = None,
    norm: str | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``dctn`` of the same type and norm; arguments, result and errors as there.

    >>> import phix
    >>> phix.scipy.fft.idctn([[16.0, 0.0], [0.0, 0.0]]).round(decimals=3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _cosines("idctn", x, _INVERSE[type], s, axes, _BACK[norm])


__all__ = [
    "dct", "dctn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "idct", "idctn", "ifft",
    "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = face(__all__)
