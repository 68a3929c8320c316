"""Index tensors that rules are made of: counts, joined index tensors, which are in range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dispatch
from phix.core import dtypes as dt
from phix.core.dims import DimLike, Shape
from phix.core.index_ranges import as_int64
from phix.core.rules import OPS


def numbers(count: DimLike) -> Any:
    """0, 1, ..., count - 1, of int64."""
    return dispatch.bind(OPS["arange"], (), (0, count, 1, dt.int64, None))


def numbers_along(axis: int, dims: Shape) -> Any:
    """The position along ``axis``, with dims of 1 for the other axes."""
    return ops.reshape(numbers(dims[axis]), [d if i == axis else 1 for i, d in enumerate(dims)])


def joined(indices: Sequence[Any], batch: Shape) -> Any:
    """Index tensors broadcast to ``batch`` and stacked on a last axis, as gather_nd reads them."""
    wide = [ops.expand(as_int64(i), batch) for i in indices]
    return ops.stack(wide, len(batch))


def within(indices: Sequence[Any], sizes: Sequence[DimLike]) -> Any:
    """Where all index tensors, which broadcast, are in range of the axes of these sizes."""
    found = None
    for index, size in zip(map(as_int64, indices), sizes):
        is_in = ops.logical_and(index >= -size, index < size)
        found = is_in if found is None else ops.logical_and(found, is_in)
    return found


def nothing(like: Any, dims: Shape | None = None) -> Any:
    """Zeros of the dtype of ``like``."""
    return ops.full(like.meta.dims if dims is None else dims, 0, like.dtype)


def with_places(x: Any, axes: Sequence[int]) -> Any:
    """``x`` with at least one place along each of the axes, of zeros where there was none."""
    paddings: list[DimLike] = [0] * (2 * x.ndim)
    for axis in axes:
        size = x.meta.dims[axis]
        if not dm.is_never_negative(size - 1):
            paddings[2 * axis + 1] = dm.maximum(size, 1) - size
    return x if all(map(dm.is_zero, paddings)) else ops.pad(x, paddings)


def masked(mask: Any, x: Any) -> Any:
    """``x`` where ``mask``, else 0; the mask has the first axes of x."""
    dims = mask.meta.dims
    wide = ops.reshape(mask, (*dims, *(1,) * (x.ndim - len(dims))))
    return ops.where(wide, x, ops.full((), 0, x.dtype))


def is_row(x: Any, row: Any, height: DimLike) -> Any:
    """Where ``x`` names a row: by its number, or counted back from the end."""
    number = as_int64(x)
    return ops.where(number < 0, number + height, number) == row


def to_axis(x: Any, source: int, target: int) -> Any:
    """``x`` with axis ``source`` moved to ``target``."""
    if source == target:
        return x
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return ops.transpose(x, order)
