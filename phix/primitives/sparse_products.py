"""Sums of rows whose entries stand together, and products of two sparse matrices by rows
(Gustavson, ACM TOMS 4, 1978).

How many places each row of such a product has, which they are, and the sums of the terms there are
three ops. The third is linear in the values of both matrices, and so are its derivatives, which are
the same op with the sums taken at other places.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.dims import DimLike
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.index_ranges import NO_END, IndexRange
from phix.core.meta import MetaTensor
from phix.primitives.indexing import check_index
from phix.primitives.pointwise import conj
from phix.primitives.positions import masked, nothing, to_axis

# What the sums are taken of -> what x and y are the values of, and so what the derivatives are of.
_OPERANDS = {
    "product": ("left", "right"), "left": ("right", "product"), "right": ("left", "product"),
}  # fmt: skip


def _check_rows(starts: MetaTensor, cols: MetaTensor, name: str) -> None:
    """That ints can be where rows begin, and in which column each entry is."""
    joint = f"{name}_" if name else ""
    for meta, part in ((starts, "starts"), (cols, "cols")):
        check_index(meta, f"{joint}{part}")
        if meta.ndim != 1:
            raise ShapeError(f"{joint}{part} must have one axis, found {meta}; reshape it to [-1]")
    if dm.is_zero(starts.dims[0]):
        raise ShapeError(f"{joint}starts must have one entry more than there are rows, found none")


def _check_size(value: DimLike, name: str) -> None:
    if isinstance(value, int) and value < 0:
        raise AttributeValueError(f"{name} {value} must be 0 or more")


def _ranges(
    x_starts: MetaTensor, x_cols: MetaTensor, y_starts: MetaTensor, y_cols: MetaTensor, *rest: Any
) -> list[IndexRange]:
    """Each column of the left matrix is a row of the right one."""
    if any(meta.ndim != 1 for meta in (x_starts, x_cols, y_starts, y_cols)):
        return []
    columns = next(r for r in rest if not isinstance(r, MetaTensor))
    sizes = ((x_cols, "x_cols", y_starts.dims[0] - 1, "the rows of y"),
             (y_cols, "y_cols", columns, "the columns"))  # fmt: skip
    return [
        IndexRange(name, (size,), what, counts_back=False)
        for meta, name, size, what in sizes
        if not dm.is_zero(meta.dims[0])
    ] + [IndexRange(name, (NO_END,), "the entries", counts_back=False)
         for name in ("x_starts", "y_starts")]  # fmt: skip


# -- sums of rows --------------------------------------------------------------------------------
@rules.indices("segment_sum_csr")
def segment_sum_ranges(x: MetaTensor, starts: MetaTensor) -> list[IndexRange]:
    ends = [d + 1 for d in x.dims[:1]]
    return [IndexRange("starts", (end,), "the rows of x", counts_back=False) for end in ends]


@rules.infer_meta("SegmentSumCsrInferMeta")
def segment_sum_meta(x: MetaTensor, starts: MetaTensor) -> MetaTensor:
    if not x.ndim:
        raise ShapeError(f"{x} has no rows to add up; reshape it to [1] first")
    check_index(starts, "starts")
    if starts.ndim != 1 or dm.is_zero(starts.dims[0]):
        raise ShapeError(f"starts must have one entry more than there are sums, found {starts}")
    return x.with_dims((starts.dims[0] - 1, *x.dims[1:]))


@rules.decompose("segment_sum_csr_grad")
def segment_sum_grad(x: Any, starts: Any, out_grad: Any) -> Any:
    """Each row of x has the cotangent of its sum; those before the first and behind the last 0."""
    (count, *own), sums = x.meta.dims, out_grad.meta.dims[0]
    if dm.is_zero(sums):
        return nothing(out_grad, x.meta.dims)
    ones = ops.full(starts.meta.dims, 1, dt.int64)
    begun = ops.index_put(ops.full((count + 1,), 0, dt.int64), [starts], ones, True, (0,))
    owner = ops.cumsum(ops.slice(begun, [0], [0], [count]), 0) - 1
    last = ops.full((), sums, dt.int64) - 1
    is_owned = ops.logical_and(owner >= 0, owner <= last)
    if not isinstance(sums, int):  # there may be none
        out_grad = ops.concat([out_grad, nothing(out_grad, (1, *own))], 0)
    within = ops.minimum(ops.maximum(owner, 0), ops.maximum(last, 0))
    return masked(is_owned, ops.gather(out_grad, within))


@rules.batch("segment_sum_csr")
def segment_sum_batch(batched: Any, x: Any, starts: Any) -> Any:
    if batched[1]:
        return NotImplemented
    return to_axis(ops.segment_sum_csr(to_axis(x, 0, 1), starts), 1, 0)


# -- products ------------------------------------------------------------------------------------
rules.indices("sparse_product_counts")(_ranges)
rules.indices("sparse_product_columns")(_ranges)


@rules.indices("sparse_product_terms")
def terms_ranges(x: MetaTensor, y: MetaTensor, *rest: Any) -> list[IndexRange]:
    return _ranges(*rest)


@rules.infer_meta("SparseProductCountsInferMeta")
def counts_meta(
    x_starts: MetaTensor,
    x_cols: MetaTensor,
    y_starts: MetaTensor,
    y_cols: MetaTensor,
    columns: DimLike,
) -> MetaTensor:
    _check_rows(x_starts, x_cols, "x")
    _check_rows(y_starts, y_cols, "y")
    _check_size(columns, "columns")
    return MetaTensor((x_starts.dims[0] - 1,), dt.int64)


@rules.infer_meta("SparseProductColumnsInferMeta")
def columns_meta(
    x_starts: MetaTensor,
    x_cols: MetaTensor,
    y_starts: MetaTensor,
    y_cols: MetaTensor,
    starts: MetaTensor,
    columns: DimLike,
    size: DimLike,
) -> MetaTensor:
    counts_meta(x_starts, x_cols, y_starts, y_cols, columns)
    _check_size(size, "size")
    check_index(starts, "starts")
    if starts.ndim != 1 or not dm.may_equal(starts.dims[0], x_starts.dims[0]):
        raise ShapeError(f"starts must be as many as x_starts, {x_starts}, found {starts}")
    return MetaTensor((size,), dt.int64)


@rules.infer_meta("SparseProductTermsInferMeta")
def terms_meta(
    x: MetaTensor,
    y: MetaTensor,
    x_starts: MetaTensor,
    x_cols: MetaTensor,
    y_starts: MetaTensor,
    y_cols: MetaTensor,
    starts: MetaTensor,
    cols: MetaTensor,
    columns: DimLike,
    of: str,
) -> MetaTensor:
    if of not in _OPERANDS:
        raise AttributeValueError(f"of must be one of {', '.join(_OPERANDS)}, found {of!r}")
    size = cols.dims[0] if cols.ndim else 0
    columns_meta(x_starts, x_cols, y_starts, y_cols, starts, columns, size)
    _check_rows(starts, cols, "")
    sizes = {"left": x_cols.dims, "right": y_cols.dims, "product": cols.dims}
    for meta, name, side in zip((x, y), "xy", _OPERANDS[of]):
        (wanted,) = sizes[side]
        if meta.ndim != 1 or not dm.may_equal(meta.dims[0], wanted):
            raise ShapeError(
                f"{name} must have one value for each entry of the {side}, "
                f"[{dm.dim_text(wanted)}], found {meta}"
            )
    return x.with_dims(sizes[of])


@rules.decompose("sparse_product_terms_grad")
def terms_grad(
    x: Any,
    y: Any,
    x_starts: Any,
    x_cols: Any,
    y_starts: Any,
    y_cols: Any,
    starts: Any,
    cols: Any,
    out_grad: Any,
    columns: DimLike,
    of: str,
) -> Any:
    """Each of the three values of a term is a factor of the derivative in another one."""
    held = {of: out_grad, _OPERANDS[of][0]: conj(x), _OPERANDS[of][1]: conj(y)}
    places = (x_starts, x_cols, y_starts, y_cols, starts, cols, columns)

    def along(side: str) -> Any:
        first, second = (held[name] for name in _OPERANDS[side])
        return ops.sparse_product_terms(first, second, *places, side)

    return tuple(map(along, _OPERANDS[of]))
