"""The frequencies that the points of a transform stand for, and their order."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.errors import AttributeValueError
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.fft.arguments import Axes, as_tensor, axes_of, size_of


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
    n = size_of("fftfreq", n)
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
    n = size_of("rfftfreq", n)
    return _frequencies("rfftfreq", ops.arange(0, n // 2 + 1, 1, dt.int64), n, d, dtype)


def _frequencies(name: str, k: Any, n: Any, d: Any, dtype: Any) -> Any:
    if not isinstance(d, TensorBase) and d == 0:
        raise AttributeValueError(
            f"{name}: d is 0, and there is no frequency of samples at one time; write the time "
            "from one sample to the next"
        )
    dtype = dt.default_float() if dtype is None else dtype
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
    x = as_tensor(x)
    over = axes_of(name, x, axes, None)
    return ops.roll(x, [direction * (x.meta.dims[a] // 2) for a in over], over) if over else x
