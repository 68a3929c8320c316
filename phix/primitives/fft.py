"""Fourier transforms: metas, derivatives and batching rules.

All are linear. The adjoint of a transform goes in the other direction and leaves undivided what
the transform divided, and the other way round; a real side takes the real part.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.positions import numbers_along

# normalization -> that of the adjoint, which goes in the other direction
_OF_ADJOINT = {"backward": "forward", "ortho": "ortho", "forward": "backward"}

Axes = tuple[int, ...]


# -- what all of them ask for --------------------------------------------------------------------
def _transformed_axes(x: MetaTensor, axes: Axes) -> Axes:
    if not axes:
        raise AttributeValueError(f"axes is empty; name the axes of {x} to transform")
    if not x.ndim:
        raise ShapeError(f"x must have an axis to transform, found {x}; reshape it")
    return ax.all_positive(axes, x.ndim, "axes")


def _check_normalization(normalization: str) -> None:
    if normalization not in _OF_ADJOINT:
        raise AttributeValueError(
            f"normalization must be one of {', '.join(map(repr, _OF_ADJOINT))}, "
            f"found {normalization!r}"
        )


def _check_sizes(x: MetaTensor, axes: Axes) -> None:
    for axis in axes:
        if dm.is_zero(x.dims[axis]):
            raise ShapeError(f"axis {axis} of {x} has no elements; a transform takes one or more")


@rules.normalize("fft_c2c")
def fft_c2c_attrs(x: MetaTensor, axes: Axes, normalization: str, forward: bool) -> Any:
    _check_normalization(normalization)
    return tuple(sorted(_transformed_axes(x, axes))), normalization, forward


@rules.normalize("fft_r2c")
@rules.normalize("fft_c2r")
def real_side_attrs(
    x: MetaTensor, axes: Axes, normalization: str, forward: bool, real_side: Any
) -> Any:
    """The axes stay in order: one side of the last has half of it."""
    _check_normalization(normalization)
    return _transformed_axes(x, axes), normalization, forward, real_side


# -- complex to complex --------------------------------------------------------------------------
@rules.infer_meta("FFTC2CInferMeta")
def fft_c2c_meta(x: MetaTensor, axes: Axes, normalization: str, forward: bool) -> MetaTensor:
    _check_sizes(x, axes)
    return x


@rules.decompose("fft_c2c_grad")
def fft_c2c_grad(out_grad: Any, axes: Axes, normalization: str, forward: bool) -> Any:
    return ops.fft_c2c(out_grad, axes, _OF_ADJOINT[normalization], not forward)


@rules.batch("fft_c2c")
def fft_c2c_batch(batched: Any, x: Any, axes: Axes, *attrs: Any) -> Any:
    return ops.fft_c2c(x, [a + 1 for a in axes], *attrs)


# -- real to complex -----------------------------------------------------------------------------
@rules.infer_meta("FFTR2CInferMeta")
def fft_r2c_meta(
    x: MetaTensor, axes: Axes, normalization: str, forward: bool, onesided: bool
) -> MetaTensor:
    _check_sizes(x, axes)
    dims = list(x.dims)
    if onesided:
        dims[axes[-1]] = _half(dims[axes[-1]])
    return MetaTensor(tuple(dims), dt.complex_dtype(x.dtype))


def _half(size: dm.DimLike) -> dm.DimLike:
    """How many points of a transform of real numbers are not conjugates of others."""
    return dm.floordiv(size, 2) + 1


@rules.decompose("fft_r2c_grad")
def fft_r2c_grad(
    x: Any, out_grad: Any, axes: Axes, normalization: str, forward: bool, onesided: bool
) -> Any:
    """The real part of the adjoint, where points that are not there count as 0.

    A transform to real numbers counts points twice that stand for their conjugates too.
    """
    adjoint = (_OF_ADJOINT[normalization], not forward)
    if not onesided:
        return ops.real(ops.fft_c2c(out_grad, axes, *adjoint))
    size = x.meta.dims[axes[-1]]
    return ops.fft_c2r(_pairs_times(0.5, out_grad, axes[-1], size), axes, *adjoint, size)


def _pairs_times(factor: float, half: Any, axis: int, size: dm.DimLike) -> Any:
    """``half`` with the points times ``factor`` that stand for their conjugates too: all along
    the axis but 0 and, if there is one, size / 2."""
    at = numbers_along(axis, half.meta.dims)
    is_pair = ops.logical_and(at > 0, 2 * at != size)
    return ops.where(is_pair, ops.scale(half, factor), half)


@rules.batch("fft_r2c")
def fft_r2c_batch(batched: Any, x: Any, axes: Axes, *attrs: Any) -> Any:
    return ops.fft_r2c(x, [a + 1 for a in axes], *attrs)


# -- complex to real -----------------------------------------------------------------------------
@rules.infer_meta("FFTC2RInferMeta")
def fft_c2r_meta(
    x: MetaTensor, axes: Axes, normalization: str, forward: bool, last_dim_size: dm.DimLike
) -> MetaTensor:
    last = axes[-1]
    _check_sizes(x, axes)
    found = x.dims[last]
    size = 2 * (found - 1) if dm.is_zero(last_dim_size) else last_dim_size
    if dm.is_known(size) and size < 1:
        raise AttributeValueError(
            f"last_dim_size {last_dim_size} would give axis {last} of the result {size} elements, "
            f"of {x}; write how many, 1 or more"
        )
    if not dm.may_equal(found, _half(size)):
        raise ShapeError(
            f"axis {last} of {x} must have last_dim_size // 2 + 1 = {dm.dim_text(_half(size))} "
            f"elements, with last_dim_size {dm.dim_text(size)}; slice or pad it"
        )
    dims = [size if a == last else d for a, d in enumerate(x.dims)]
    return MetaTensor(tuple(dims), dt.real_dtype(x.dtype))


@rules.decompose("fft_c2r_grad")
def fft_c2r_grad(
    out_grad: Any, axes: Axes, normalization: str, forward: bool, last_dim_size: dm.DimLike
) -> Any:
    size = out_grad.meta.dims[axes[-1]]
    half = ops.fft_r2c(out_grad, axes, _OF_ADJOINT[normalization], not forward, True)
    return _pairs_times(2.0, half, axes[-1], size)


@rules.batch("fft_c2r")
def fft_c2r_batch(batched: Any, x: Any, axes: Axes, *attrs: Any) -> Any:
    return ops.fft_c2r(x, [a + 1 for a in axes], *attrs)
