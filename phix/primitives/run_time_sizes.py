"""Ops whose results have a size that their data tell.

Each computes the size, makes an unknown dim of it (``as_dim``), and fills arrays of that size with
ops that know it. So what a program computes with such results runs in the same program, and
derivatives and the rest follow from the ops it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim
from phix.core.dims import DimLike
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.positions import numbers


def flat(x: Any) -> Any:
    """``x`` as one axis."""
    return x if x.ndim == 1 else ops.reshape(x, (x.meta.size,))


def count_true(mask: Any) -> Any:
    """How many elements of a bool tensor are true, as one int64."""
    return ops.sum(ops.cast(mask, dt.int64), list(range(mask.ndim)), dt.int64, False)


def chosen(mask: Any) -> Any:
    """The flat positions of all true elements: as many as the program finds."""
    mask = flat(mask)
    return ops.true_positions(mask, as_dim(count_true(mask)))


def _check_mask(mask: MetaTensor) -> None:
    if mask.dtype != dt.bool_:
        raise DTypeError(f"mask must be a bool tensor, found {mask}; compare or cast it")


# -- true_positions ------------------------------------------------------------------------------
@rules.infer_meta("TruePositionsInferMeta")
def true_positions_meta(mask: MetaTensor, size: DimLike, fill: int) -> MetaTensor:
    _check_mask(mask)
    if isinstance(size, int) and size < 0:
        raise AttributeValueError(f"size {size} must be 0 or more")
    return MetaTensor((size,), dt.int64)


@rules.decompose("true_positions")
def true_positions(mask: Any, size: DimLike, fill: int) -> Any:
    """Each true element puts its position where its turn is; the others put theirs behind."""
    mask = flat(mask)
    turn = ops.cumsum(ops.cast(mask, dt.int64), 0, False, True, False)
    end = ops.full((), size, dt.int64)
    turn = ops.where(mask, ops.minimum(turn, end), end)
    places = ops.full((size + 1,), fill, dt.int64)
    places = ops.index_put(places, [turn], numbers(mask.meta.dims[0]))
    return ops.slice(places, [0], [0], [size])


# -- nonzero, masked_select ----------------------------------------------------------------------
@rules.infer_meta("NonZeroInferMeta")
def nonzero_meta(condition: MetaTensor) -> MetaTensor:
    if not condition.ndim:
        raise ShapeError(f"condition must have an axis, found {condition}; reshape it to [1]")
    return MetaTensor((dm.symbol(), condition.ndim), dt.int64)


@rules.decompose("nonzero")
def nonzero(condition: Any) -> Any:
    mask = condition if condition.dtype == dt.bool_ else condition != 0
    return unraveled(chosen(mask), mask.meta.dims)


def unraveled(positions: Any, dims: Sequence[Any]) -> Any:
    """Flat positions as rows of indices, one for each of ``dims``."""
    columns: list[Any] = []
    for number, dim in reversed(list(enumerate(dims))):
        columns.append(ops.remainder(positions, dim) if number else positions)
        positions = ops.floor_divide(positions, dim) if number else positions
    return ops.stack(columns[::-1], 1)


@rules.infer_meta("MaskedSelectInferMeta")
def masked_select_meta(x: MetaTensor, mask: MetaTensor) -> MetaTensor:
    _check_mask(mask)
    broadcast_shapes(x.dims, mask.dims)
    return x.with_dims((dm.symbol(),))


@rules.decompose("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    dims = broadcast_shapes(x.meta.dims, mask.meta.dims)
    x, mask = (v if dm.same_shape(v.meta.dims, dims) else ops.expand(v, dims) for v in (x, mask))
    return ops.gather(flat(x), chosen(mask), 0)
