"""``scipy.ndimage``'s values of images between their pixels: :func:`map_coordinates`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike
from phix.core.conversion import common_dtype, owned_tensor
from phix.core.dims import Dim
from phix.core.errors import DTypeError, ShapeError, described
from phix.core.expectations import expect
from phix.core.faces import face
from phix.core.given import FLAG, Kind, is_int, one_of, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.core.weak import weak_kind
from phix.scipy.entropies import floats
from phix.scipy.grids import Side, at_corners, clamped, indices, picked

__all__ = ["map_coordinates"]
__dir__ = face(__all__)

_ORDER = Kind(
    "0 (the nearest element) or 1 (linear); splines of higher order are not there",
    lambda v: is_int(v) and 0 <= v <= 1,
)


def _number(size: Any, like: Any) -> Any:
    """A size as a float beside coordinates."""
    return ops.cast(ops.full((), size, dt.int64), like.dtype)


def _rest(x: Any, period: Any) -> Any:
    """x less whole periods, of x from 0; its slope is 1."""
    return x - period * ops.floor(x / period)


def _mirrored(x: Any, size: Any) -> Any:
    """For x from 0 on up to ``size``, for :func:`_inside`: what lies right behind the last element
    SciPy rounds before it reflects it."""
    period = _number(dm.maximum(2 * size - 2, 1), x)
    rest = _rest(ops.where(x < 0, -x, x), period)
    end = ops.where(x < 0, _number(size - 1, x), _number(size, x))
    return ops.where(rest >= end, period - rest, rest)


def _inside(x: Any, size: Any, mode: str) -> Any:
    """From 0 to size - 1."""
    if mode == "mirror":
        x = ops.where(x > _number(size - 1, x), _number(2 * size - 2, x) - x, x)
    return clamped(x, size)


def _reflected(x: Any, size: Any) -> Any:
    period = _number(2 * size, x)
    rest = _rest(ops.where(x < 0, -1 - x, x), period)
    return ops.where(rest >= _number(size, x), period - 1 - rest, rest)


def _wrapped(x: Any, size: Any) -> Any:
    """The last element lies on the first: SciPy takes the last one below 0, the first above."""
    period = _number(dm.maximum(size - 1, 1), x)
    below = x + period * (ops.floor(-x / period) + 1)
    above = ops.where(x > _number(size - 1, x), _rest(x, period), x)
    return ops.where(x < 0, below, above)


def _wrapped_cells(x: Any, size: Any) -> Any:
    return _rest(x, _number(size, x))


def _as_it_is(x: Any, size: Any) -> Any:
    return x


# Where the image is read instead of a coordinate beside it.
_PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "constant": _as_it_is,
    "nearest": _as_it_is,
    "mirror": _mirrored,
    "reflect": _reflected,
    "wrap": _wrapped,
    "grid-constant": _as_it_is,
    "grid-mirror": _reflected,
    "grid-wrap": _wrapped_cells,
}


def _side(x: Any, size: Any, mode: str) -> Side:
    """The two indices around coordinates, and how far between them these lie."""
    place = _PLACES[mode](x, size)
    if mode.startswith("grid-") and mode != "grid-mirror":
        lower = ops.floor(place)
        return _in_cells(lower, place - lower, size, mode)
    place = _inside(place, size, mode)
    # the last element ends the last cell, so that it has the slope of that cell
    lower = ops.minimum(ops.floor(place), _number(dm.maximum(size - 2, 0), x))
    at = indices(lower)
    return Side(at, clamped(at + 1, size), place - lower)


def _in_cells(lower: Any, fraction: Any, size: Any, mode: str) -> Side:
    """As _side, where the cell behind the last element counts too."""
    if mode == "grid-wrap":
        low = indices(lower)
        low, high = (ops.where(at >= size, at - size, at) for at in (low, low + 1))
        return Side(low, high, fraction)
    ends = [lower, lower + 1]
    inside = [(at >= 0) & (at <= _number(size - 1, at)) for at in ends]
    low, high = (indices(clamped(at, size)) for at in ends)
    return Side(low, high, fraction, (inside[0], inside[1]))


def _nearest(x: Any, size: Any, mode: str) -> tuple[Any, Any]:
    """The index nearest to coordinates, the upper one of two, and whether there is one."""
    at = ops.floor(_PLACES[mode](x, size) + 0.5)
    if mode == "grid-wrap":
        return indices(ops.where(at >= _number(size, x), 0.0, at)), None
    inside = (at >= 0) & (at <= _number(size - 1, x)) if mode == "grid-constant" else None
    return indices(_inside(at, size, mode)), inside


def _coordinates(given: Any, rank: int) -> list[Any]:
    """One tensor for each axis, all of one shape, of floats of 32 bits or more."""
    if isinstance(given, (list, tuple)):
        parts = list(given)
    else:
        whole = given if isinstance(given, TensorBase) else owned_tensor(given)
        if not whole.ndim or isinstance(whole.shape[0], Dim):
            raise ShapeError(
                f"map_coordinates: coordinates must be [{rank}, ...], a row for each axis of "
                f"input, or a list of tensors; found {whole.meta}"
            )
        parts = list(ops.unbind(whole, 0)) if whole.shape[0] else []
    if len(parts) != rank:
        raise ShapeError(
            f"map_coordinates: coordinates must be {rank}, one for each axis of input, found "
            f"{len(parts)}"
        )
    parts = floats(*parts)
    wide = dt.promote(parts[0].dtype, dt.float32)
    shared = parts if rank == 1 else ops.broadcast_tensors(parts)
    return [ops.cast(p, wide) for p in shared]


def _image(given: Any) -> Any:
    image = given if isinstance(given, TensorBase) else owned_tensor(given)
    refusal = f"map_coordinates: input must have axes, each of elements, found {image.meta}"
    image = expect(image, refusal, *(n - 1 for n in image.meta.dims or (0,)))
    if dt.kind(image.dtype) == "bool":
        raise DTypeError(f"map_coordinates: input must be numbers, found {image.meta}; cast it")
    return image


def _rounded(x: Any, dtype: Any) -> Any:
    """To the nearest int, halves away from 0, and the nearest that the dtype has."""
    if dt.is_differentiable(dtype):
        return ops.cast(x, dtype)
    x, ends = ops.trunc(ops.where(x < 0, x - 0.5, x + 0.5)), np.iinfo(dtype)
    # no float64 is the largest of 64 bits
    return ops.cast(ops.clip(x, ends.min, ends.max if ends.bits < 64 else None), dtype)


def _checked_output(dtype: Any, output: Any) -> Any:
    if output is None:
        return dtype
    wanted = dt.as_dtype(output)
    if dt.kind(wanted) == "bool" or (dt.is_complex(dtype) and not dt.is_complex(wanted)):
        raise DTypeError(
            f"map_coordinates: output must be a dtype of numbers that holds those of input, found "
            f"{wanted} for {dtype}; take the real part, or compare the result"
        )
    return wanted


@takes(order=_ORDER, mode=one_of(*_PLACES), prefilter=FLAG)
def map_coordinates(
    input: TensorLike, coordinates: TensorLike | Sequence[TensorLike], order: int,
    mode: str = "constant", cval: TensorLike = 0.0, *, output: DTypeLike | None = None,
    prefilter: bool = True,
) -> Tensor:  # fmt: skip
    """The values of an image at coordinates, which count its elements from 0 along each axis.

    ``order=1`` is linear between elements (the sum over the corners of the cell), ``order=0`` takes
    the nearest element, of two the upper one. Beside the image, of n elements along an axis:

    ==================  ===================================================================
    ``"constant"``      ``cval``, as soon as a coordinate is below 0 or above n - 1
    ``"nearest"``       the element at the end: a a a | a b c | c c c
    ``"mirror"``        reflected about the element at the end: c b | a b c | b a
    ``"reflect"``       reflected about the edge behind it: b a | a b c | c b (``"grid-mirror"``)
    ``"wrap"``          from the other end, the last element upon the first: period n - 1
    ``"grid-wrap"``     from the other end, the first element behind the last: period n
    ``"grid-constant"`` all elements there are ``cval``: linear towards it
    ==================  ===================================================================

    These are SciPy's. What ``jax.scipy`` calls "constant" and "wrap" are "grid-constant" and
    "grid-wrap" here.

    Args:
        input: the image, with axes, ints, floats or complex numbers.
        coordinates: ``[input.ndim, ...]``, or a list of ``input.ndim`` tensors of one shape (or
            that broadcast to one); ints become the default float.
        order: 0 or 1.
        mode: see above.
        cval: the value beside the image, a number or a tensor of one.
        output: the dtype of the result, by default that of ``input``.
        prefilter: without effect: it is for orders above 1.

    Returns:
        A tensor of the shape of one of the coordinates, in the dtype of ``input`` or ``output``;
        of ints, the nearest int. A NaN among the coordinates makes it NaN where floats are
        interpolated.

    It is differentiable in ``input``, ``coordinates`` and ``cval``. In the coordinates, the slope
    at an element is that behind it, at the last one of the image that before it; that of
    ``order=0`` is 0.

    Raises:
        ShapeError: ``input`` has no elements or no axes, or ``coordinates`` other parts than axes.
        DTypeError: ``input`` holds bools, or ``coordinates`` complex numbers, or ``output`` is
            bool, or real where ``input`` is complex.
        ArgumentError: another ``order`` or ``mode``.

    >>> import phix
    >>> image = phix.to_tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> phix.scipy.ndimage.map_coordinates(image, [[0.5, 1.0], [0.5, 0.25]], order=1).tolist()
    [1.5, 2.25]
    >>> phix.scipy.ndimage.map_coordinates(image, [[-0.5], [0.0]], 1, "nearest").tolist()
    [0.0]
    """
    image = _image(input)
    return _mapped(image, _checked_output(image.dtype, output), coordinates, order, mode, cval)


def _mapped(
    image: Any, dtype: Any, coordinates: Any, order: int, mode: str, cval: Any
) -> Any:  # fmt: skip
    """In a dtype that need not be that of the image: computed in one that holds both, and rounded
    once, at the end."""
    if dtype != image.dtype:
        wide = dt.promote(image.dtype, dtype if dt.is_differentiable(dtype) else dt.float64)
        whole = _mapped(ops.cast(image, wide), wide, coordinates, order, mode, cval)
        return _rounded(whole, dtype)
    parts = _coordinates(coordinates, image.ndim)
    outside = _number_beside(cval, image.dtype)
    found = _linear if order else _of_the_nearest
    if mode != "constant":
        return found(image, parts, mode, outside)
    beside = _beside(parts, image.meta.dims)
    inner = [ops.where(beside, 0.0, x) for x in parts]
    return ops.where(beside, _rounded(outside, image.dtype), found(image, inner, mode, outside))


def _beside(parts: list[Any], sizes: Any) -> Any:
    """Whether any of the coordinates lies beside the image."""
    each = [(x < 0) | (x > _number(size - 1, x)) for x, size in zip(parts, sizes)]
    return functools.reduce(operator.or_, each)


def _linear(image: Any, parts: list[Any], mode: str, outside: Any) -> Any:
    sides = [_side(x, size, mode) for x, size in zip(parts, image.meta.dims)]
    found = at_corners(ops.cast(image, outside.dtype), sides, outside)
    return _rounded(found, image.dtype)


def _of_the_nearest(image: Any, parts: list[Any], mode: str, outside: Any) -> Any:
    places = [_nearest(x, size, mode) for x, size in zip(parts, image.meta.dims)]
    found, outside = picked(image, [at for at, _ in places]), _rounded(outside, image.dtype)
    for x, (_, inside) in zip(parts, places):
        found = found if inside is None else ops.where(inside, found, outside)
        if dt.is_differentiable(image.dtype):
            found = ops.where(ops.isnan(x), float("nan"), found)
    return found


def _number_beside(cval: Any, dtype: Any) -> Any:
    """cval, a tensor of no axes, in the dtype that an image is interpolated in."""
    value = owned_tensor(cval) if weak_kind(cval) is None else cval
    if getattr(value, "ndim", 0):
        raise ShapeError(f"map_coordinates: cval must be one number, found {described(cval)}")
    wide = dtype if dt.is_differentiable(dtype) else dt.float64
    if dt.is_complex(common_dtype([value])) and not dt.is_complex(wide):
        raise DTypeError(f"map_coordinates: cval is complex, and input {dtype} is not")
    return ops.cast(value, wide)
