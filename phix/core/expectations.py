"""What a function asks of the sizes of its arguments, where these may be unknown.

Known sizes are looked at at once. Unknown ones become an op in the graph, ``expect_sizes``, which
goes with the tensor through every transformation, computes nothing, and is asked again for the
sizes of each call, as all ops are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix.core import dims as dm
from phix.core.dims import DimLike, Shape
from phix.core.errors import ShapeError
from phix.core.later import call_op


def expect(x: Any, refusal: str, *from_zero: DimLike) -> Any:
    """``x``, for sizes of which none of the numbers computed from them is negative.

    Raises:
        ShapeError: one is, with the text of the refusal: here if it is known, else where the
            program is called for such sizes.
    """
    if any(isinstance(n, int) and n < 0 for n in from_zero):
        raise ShapeError(refusal)
    unknown = tuple([n for n in from_zero if not dm.is_never_negative(n)])
    return call_op("expect_sizes", x, attrs=(unknown, refusal)) if unknown else x


def expect_equal(x: Any, refusal: str, *pairs: tuple[DimLike, DimLike]) -> Any:
    """As :func:`expect`, for sizes of which those of each pair are equal."""
    return expect(x, refusal, *[d for a, b in pairs for d in (a - b, b - a)])


def expect_none_of_one(x: Any, refusal: str, *sizes: DimLike) -> Any:
    """As :func:`expect`, for sizes none of which is 1: axes of one element are left out there, and
    a program gives results of one rank."""
    return expect(x, refusal, *[(d - 1) * (d - 1) - 1 for d in sizes])


def expect_within(x: Any, refusal: str, dims: Shape) -> Any:
    """As :func:`expect`, for a tensor that broadcasts to those dims and does not widen them."""
    have = x.meta.dims
    if len(have) > len(dims):
        raise ShapeError(refusal)
    pairs = [(d, n) for d, n in zip(have[::-1], dims[::-1]) if not dm.same(d, 1)]
    return expect_equal(x, refusal, *pairs)


def never_empty(x: Any, value: float, axes: Sequence[int]) -> Any:
    """``x`` with one more slice of ``value`` behind each of the axes that may hold nothing: what a
    reduction gives of the value alone, it gives there."""
    for axis in axes:
        if dm.may_equal(x.meta.dims[axis], 0):
            dims = [1 if i == axis % x.ndim else d for i, d in enumerate(x.meta.dims)]
            more = call_op("full", attrs=(tuple(dims), value, x.dtype, None))
            x = call_op("concat", (x, more), attrs=(axis % x.ndim,))
    return x


def expect_dims(x: Any, refusal: str, dims: Shape) -> Any:
    """As :func:`expect`, for a tensor that turns out to have those dims; from here on it has."""
    if x.ndim != len(dims):
        raise ShapeError(refusal)
    x = expect_equal(x, refusal, *zip(x.meta.dims, dims))
    return x if dm.same_shape(x.meta.dims, dims) else call_op("reshape", x, attrs=(tuple(dims),))
