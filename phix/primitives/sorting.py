"""Sorting: metas, derivatives and batching rules. The order is stable; NaN is the largest."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.positions import nothing


def put_back(x: Any, indices: Any, out_grad: Any, axis: int) -> Any:
    """Each gradient where its element came from; no two indices of a row are equal."""
    if not x.ndim:
        return out_grad
    return ops.put_along_axis(nothing(out_grad, x.meta.dims), indices, out_grad, axis, "add")


def taken(tangent: Any, indices: Any, axis: int) -> Any:
    """The tangents of the elements that the indices name."""
    return ops.take_along_axis(tangent, indices, axis) if tangent.ndim else tangent


def as_row(x: Any) -> tuple[Any, Any]:
    """A batch of numbers as a batch of rows of one, and what undoes that for an output."""
    if x.ndim > 1:
        return x, lambda y: y
    return ops.reshape(x, (x.meta.dims[0], 1)), lambda y: ops.reshape(y, (y.meta.dims[0],))


# -- argsort, sort -----------------------------------------------------------------------------
@rules.normalize("argsort")
def argsort_attrs(x: MetaTensor, axis: int, descending: bool, stable: bool) -> Any:
    return ax.positive(axis, x.ndim), descending, stable


def _check_length(x: MetaTensor, axis: int) -> None:
    """Places in a row are counted in 32 bits."""
    size = x.dims[axis] if x.ndim else 1
    if isinstance(size, int) and size >= 1 << 32:
        raise ShapeError(
            f"axis {axis} of {x} is too long: rows of up to 2**32 - 1 elements can be sorted; "
            "sort it in parts"
        )


@rules.infer_meta("SortInferMeta")
def sort_meta(x: MetaTensor, axis: int, descending: bool) -> MetaTensor:
    _check_length(x, axis)
    return x


@rules.infer_meta("ArgsortInferMeta")
def argsort_meta(x: MetaTensor, axis: int, descending: bool, stable: bool) -> Any:
    _check_length(x, axis)
    return x, x.with_dtype(dt.int64)


@rules.decompose("argsort_grad")
def argsort_grad(
    indices: Any, x: Any, out_grad: Any, axis: int, descending: bool, stable: bool
) -> Any:
    return put_back(x, indices, out_grad, axis)


@rules.jvp("argsort")
def argsort_jvp(primals: Any, tangents: Any, axis: int, descending: bool, stable: bool) -> Any:
    out, indices = ops.argsort(primals[0], axis, descending, stable)
    return (out, indices), (taken(tangents[0], indices, axis), None)


@rules.batch("argsort")
def argsort_batch(batched: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    rows, undo = as_row(x)
    return tuple(map(undo, ops.argsort(rows, axis + 1, descending, stable)))


@rules.normalize("sort")
def sort_attrs(x: MetaTensor, axis: int, descending: bool) -> Any:
    return ax.positive(axis, x.ndim), descending


@rules.decompose("sort_grad")
def sort_grad(x: Any, out_grad: Any, axis: int, descending: bool) -> Any:
    return put_back(x, ops.argsort(x, axis, descending)[1], out_grad, axis)


@rules.jvp("sort")
def sort_jvp(primals: Any, tangents: Any, axis: int, descending: bool) -> Any:
    out, indices = ops.argsort(primals[0], axis, descending)
    return out, taken(tangents[0], indices, axis)


@rules.batch("sort")
def sort_batch(batched: Any, x: Any, axis: int, descending: bool) -> Any:
    rows, undo = as_row(x)
    return undo(ops.sort(rows, axis + 1, descending))


# -- topk --------------------------------------------------------------------------------------
@rules.normalize("topk")
def topk_attrs(x: MetaTensor, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    if isinstance(k, int) and k < 0:
        raise AttributeValueError(f"k {k} must be 0 or more")
    if not x.ndim and dm.is_known(k):
        k = max(k, 1)  # as in Paddle, a number is its own first
    return k, ax.positive(axis, x.ndim), largest, sorted


@rules.infer_meta("TopKInferMeta")
def topk_meta(x: MetaTensor, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    _check_length(x, axis)
    size = x.dims[axis] if x.ndim else 1
    if dm.is_known(k, size) and k > size:
        raise AttributeValueError(f"k {k} is more than the {size} elements of axis {axis} of {x}")
    out = x.with_dims((*x.dims[:axis], k, *x.dims[axis + 1 :])) if x.ndim else x
    return out, out.with_dtype(dt.int64)


@rules.decompose("topk_grad")
def topk_grad(
    x: Any, indices: Any, out_grad: Any, k: Any, axis: int, largest: bool, sorted: bool
) -> Any:
    return put_back(x, indices, out_grad, axis)


@rules.jvp("topk")
def topk_jvp(primals: Any, tangents: Any, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    out, indices = ops.topk(primals[0], k, axis, largest, sorted)
    return (out, indices), (taken(tangents[0], indices, axis), None)


@rules.batch("topk")
def topk_batch(batched: Any, x: Any, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    rows, undo = as_row(x)
    return tuple(map(undo, ops.topk(rows, k, axis + 1, largest, sorted)))
