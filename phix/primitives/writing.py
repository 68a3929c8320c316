"""Ops that write at slices and rows, and the gradients of tables of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.attrs import check_number
from phix.core.conversion import to_tensor
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.index_ranges import IndexRange
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import check_fits
from phix.primitives.indexing import check_index
from phix.primitives.positions import is_row, masked, nothing, to_axis
from phix.primitives.slicing import strided_slice_attrs, strided_slice_meta
from phix.primitives.widening import as_dtype, widened


# -- index_add ---------------------------------------------------------------------------------
@rules.normalize("index_add")
def index_add_attrs(x: MetaTensor, index: MetaTensor, add_value: MetaTensor, axis: int) -> Any:
    if not x.ndim:
        raise ShapeError(f"{x} has no axis to add along; reshape it to [1] first")
    return (ax.positive(axis, x.ndim),)


@rules.indices("index_add")
def index_add_indices(
    x: MetaTensor, index: MetaTensor, add_value: MetaTensor, axis: int
) -> list[IndexRange]:
    return [IndexRange("index", (x.dims[axis],), f"axis {axis}")]


@rules.infer_meta("IndexAddInferMeta")
def index_add_meta(
    x: MetaTensor, index: MetaTensor, add_value: MetaTensor, axis: int
) -> MetaTensor:
    check_index(index)
    if index.ndim != 1:
        raise ShapeError(f"index must have one axis, found {index}; reshape it")
    wanted = (*x.dims[:axis], index.dims[0], *x.dims[axis + 1 :])
    if add_value.ndim != x.ndim or not all(map(dm.may_equal, add_value.dims, wanted)):
        raise ShapeError(
            f"add_value for {x} at index {index} along axis {axis} must have shape "
            f"{dm.shape_text(wanted)}, found {add_value}"
        )
    if dm.is_zero(x.dims[axis]) and dm.is_known(index.size) and not dm.is_zero(index.size):
        raise ShapeError(f"axis {axis} of {x} is empty, so nothing can be added there")
    return x


@rules.decompose("index_add")
def index_add(x: Any, index: Any, add_value: Any, axis: int) -> Any:
    return ops.index_put(x, [index], to_axis(add_value, axis, 0), True, (axis,))


# -- slices ------------------------------------------------------------------------------------
class _Slice(NamedTuple):
    """Where values are written: attributes of the ops, in their order."""

    starts: Any
    ends: Any
    steps: Any
    axes: Any
    decrease_axes: Any
    none_axes: Any

    @property
    def bounds(self) -> tuple[Any, ...]:
        """As the ops of slices take them."""
        return self.axes, self.starts, self.ends, self.steps


@rules.normalize("set_value_with_tensor")
def set_value_attrs(x: MetaTensor, values: MetaTensor, *given: Any) -> Any:
    at = _Slice(*given)
    at = at._replace(steps=at.steps or (1,) * len(at.axes))
    axes, starts, ends, steps = strided_slice_attrs(x, *at.bounds)
    decrease = tuple(sorted(ax.all_positive(at.decrease_axes, x.ndim, "decrease_axes")))
    if any(a < 0 for a in at.none_axes):
        raise AttributeValueError(f"none_axes {at.none_axes} count from 0")
    return starts, ends, steps, axes, decrease, tuple(sorted(at.none_axes))


def _seen(dims: Any, decrease: Any, none_axes: Any) -> list[int | None]:
    """The axes of the slice as values see them: a number of x's, or None for one of 1."""
    found: list[int | None] = []
    added = list(none_axes)
    for axis in range(len(dims)):
        while added and added[0] <= axis:
            found.append(None)
            added.pop(0)
        if axis not in decrease:
            found.append(axis)
    return found + [None] * len(added)


@rules.infer_meta("SetValueInferMeta")
def set_value_meta(x: MetaTensor, values: MetaTensor, *given: Any) -> MetaTensor:
    at = _Slice(*given)
    dims = strided_slice_meta(x, *at.bounds).dims
    for axis in at.decrease_axes:
        if not dm.may_equal(dims[axis], 1):
            raise ShapeError(
                f"decrease_axes drops axis {axis}, of which {dm.dim_text(dims[axis])} elements are "
                "taken; only an axis of one element can go (is an index out of range?)"
            )
    seen = [1 if a is None else dims[a] for a in _seen(dims, at.decrease_axes, at.none_axes)]
    extra = max(values.ndim - len(seen), 0)
    if not all(dm.may_equal(d, 1) for d in values.dims[:extra]):
        raise ShapeError(f"values must broadcast to {dm.shape_text(tuple(seen))}, found {values}")
    check_fits(values.with_dims(values.dims[extra:]), tuple(seen), "values")
    return x


@rules.decompose("set_value_with_tensor")
def set_value_with_tensor(x: Any, values: Any, *given: Any) -> Any:
    at = _Slice(*given)
    seen = _seen(x.meta.dims, at.decrease_axes, at.none_axes)
    have = values.meta.dims
    have = (*(1,) * (len(seen) - len(have)), *have[max(len(have) - len(seen), 0) :])
    by_axis = {axis: size for axis, size in zip(seen, have) if axis is not None}
    values = ops.reshape(values, [by_axis.get(axis, 1) for axis in range(x.ndim)])
    return ops.slice_put(x, values, *at.bounds)


@rules.normalize("set_value")
def set_value_of_numbers_attrs(x: MetaTensor, *given: Any) -> Any:
    *at, shape, values = given
    if dm.product(shape) != len(values):
        raise ShapeError(
            f"shape {dm.shape_text(shape)} takes {dm.product(shape)} values, found {len(values)}"
        )
    for value in values:
        check_number(value, x.dtype)
    return *set_value_attrs(x, x, *at), shape, values


@rules.infer_meta("SetValueWithScalarsInferMeta")
def set_value_of_numbers_meta(x: MetaTensor, *given: Any) -> MetaTensor:
    *at, shape, _ = given
    return set_value_meta(x, x.with_dims(shape), *at)


@rules.decompose("set_value")
def set_value_of_numbers(x: Any, *attrs: Any) -> Any:
    *at, shape, values = attrs
    numbers = to_tensor(np.array(values).astype(x.dtype).reshape(shape))
    return set_value_with_tensor(x, numbers, *at)


# -- rows of tables ----------------------------------------------------------------------------
@rules.indices("embedding_with_scaled_gradient")
def scaled_embedding_indices(
    x: MetaTensor, weight: MetaTensor, padding_idx: int
) -> list[IndexRange]:
    ignored = None if padding_idx == -1 else padding_idx
    rows = weight.dims[:1]
    return [IndexRange("x", rows, "the rows of weight,", ignored=ignored)] if rows else []


@rules.decompose("embedding_with_scaled_gradient_grad")
def scaled_embedding_grad(x: Any, weight: Any, out_grad: Any, padding_idx: int) -> Any:
    wide = widened(out_grad)
    one = ops.full((), 1, wide.dtype)
    counts = ops.index_put(nothing(wide, weight.meta.dims[:1]), [x], one, True, (), "clip")
    often = ops.gather(counts, x)
    share = wide / ops.reshape(often, (*x.meta.dims, 1))
    return as_dtype(_added(nothing(wide, weight.meta.dims), x, share, padding_idx), out_grad.dtype)


def _added(table: Any, index: Any, rows: Any, padding_idx: int) -> Any:
    """The table with rows added where the index says, but for those of padding_idx."""
    if padding_idx != -1:
        rows = masked(~is_row(index, padding_idx, table.meta.dims[0]), rows)
    return ops.index_put(table, [index], rows, True, (), "clip")


def _check_rows(index: MetaTensor, table: MetaTensor, rows: MetaTensor, name: str) -> None:
    check_index(index, name)
    if table.ndim != 2:
        raise ShapeError(f"a table of rows has two axes, found {table}")
    wanted = (*index.dims, table.dims[1])
    if rows.ndim != len(wanted) or not all(map(dm.may_equal, rows.dims, wanted)):
        raise ShapeError(f"out_grad must have shape {dm.shape_text(wanted)}, found {rows}")
    if dm.is_zero(table.dims[0]) and dm.is_known(index.size) and not dm.is_zero(index.size):
        raise ShapeError(f"{table} has no rows, so nothing can be added to them")


@rules.indices("embedding_grad_dense")
def embedding_grad_indices(
    x: MetaTensor, weight: MetaTensor, out_grad: MetaTensor, padding_idx: int, sparse: bool
) -> list[IndexRange]:
    return scaled_embedding_indices(x, weight, padding_idx)


@rules.normalize("embedding_grad_dense")
def embedding_grad_attrs(
    x: MetaTensor, weight: MetaTensor, out_grad: MetaTensor, padding_idx: int, sparse: bool
) -> Any:
    if sparse:
        raise AttributeValueError("its result is dense; leave sparse False")
    return padding_idx, sparse


@rules.infer_meta("EmbeddingGradDenseInferMeta")
def embedding_grad_meta(
    x: MetaTensor, weight: MetaTensor, out_grad: MetaTensor, padding_idx: int, sparse: bool
) -> MetaTensor:
    _check_rows(x, weight, out_grad, "x")
    return weight


@rules.decompose("embedding_grad_dense")
def embedding_grad(x: Any, weight: Any, out_grad: Any, padding_idx: int, sparse: bool) -> Any:
    wide = widened(out_grad)
    found = _added(nothing(wide, weight.meta.dims), x, wide, padding_idx)
    return as_dtype(found, weight.dtype)


@rules.indices("embedding_grad_add_to")
def embedding_grad_add_to_indices(
    token_indices: MetaTensor, main_grad_: MetaTensor, out_grad: MetaTensor
) -> list[IndexRange]:
    rows = main_grad_.dims[:1]
    return [IndexRange("token_indices", rows, "the rows of main_grad_,")] if rows else []


@rules.infer_meta("EmbeddingGradAddToInferMeta")
def embedding_grad_add_to_meta(
    token_indices: MetaTensor, main_grad_: MetaTensor, out_grad: MetaTensor
) -> MetaTensor:
    _check_rows(token_indices, main_grad_, out_grad, "token_indices")
    return main_grad_


@rules.decompose("embedding_grad_add_to")
def embedding_grad_add_to(token_indices: Any, main_grad_: Any, out_grad: Any) -> Any:
    return _added(main_grad_, token_indices, as_dtype(out_grad, main_grad_.dtype), -1)
