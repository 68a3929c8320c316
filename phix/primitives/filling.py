"""Ops that write over a tensor: all of it, its diagonal, or another tensor in its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import check_number
from phix.core.conversion import to_tensor
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import check_fits
from phix.primitives.positions import numbers_along
from phix.primitives.rearrangement import diagonal_grad, diagonal_meta


@rules.decompose("assign")
def assign(x: Any) -> Any:
    return x


@rules.decompose("assign_out_")
def assign_out(x: Any, output: Any) -> Any:
    have, want = x.meta.dims, output.meta.dims
    if len(have) != len(want) or not all(map(dm.may_equal, have, want)):
        raise ShapeError(f"{x.meta} does not have the dims of output {output.meta}; reshape it")
    return x


@rules.decompose("assign_value_")
def assign_value(output: Any, shape: Any, dtype: Any, values: Any, place: Any) -> Any:
    size = dm.product(shape)
    if size != len(values):
        raise ShapeError(f"shape {dm.shape_text(shape)} takes {size} values, found {len(values)}")
    for value in values:
        check_number(value, dtype)
    out = to_tensor(np.array(values).astype(dtype).reshape(shape))
    return out if place is None else out.to(place)


@rules.decompose("full_")
def full_over(output: Any, shape: Any, value: Any, dtype: Any, place: Any) -> Any:
    return ops.full(shape, value, dtype or dt.default_float(), place)


@rules.normalize("fill")
def fill_attrs(x: MetaTensor, value: Any) -> Any:
    check_number(value, x.dtype)
    return (value,)


@rules.decompose("fill")
def fill(x: Any, value: Any) -> Any:
    return ops.full(x.meta.dims, value, x.dtype)


# -- diagonals ---------------------------------------------------------------------------------
@rules.infer_meta("FillDiagonalInferMeta")
def fill_diagonal_meta(x: MetaTensor, value: float, offset: int, wrap: bool) -> MetaTensor:
    if x.ndim < 2:
        raise ShapeError(f"{x} has no diagonal; it takes at least two axes")
    if x.ndim > 2 and not all(dm.may_equal(d, x.dims[0]) for d in x.dims):
        raise ShapeError(f"of more than two axes all must be equally long, found {x}")
    return x


@rules.decompose("fill_diagonal")
def fill_diagonal(x: Any, value: float, offset: int, wrap: bool) -> Any:
    dims: Any = fill_diagonal_meta(x.meta, 0.0, offset, wrap).dims  # looked at here for tensors
    row, *places = (numbers_along(i, dims) for i in range(len(dims)))
    column = places.pop() - offset
    hits = (column >= 0) & (column < dims[-1])
    if wrap and len(dims) == 2:  # each step goes on by a row and a column, over the row's end
        hits = hits & (ops.remainder(column - row, dims[1] + 1) == 0)
    else:
        for place in (*places, column):
            hits = hits & (place == row)
    return ops.where(hits, _element(value, x.dtype), x)


def _element(value: float, dtype: Any) -> Any:
    """The number as a 0-d tensor; to ints it loses its fraction."""
    if dt.kind(dtype) in ("bool", "int"):
        return ops.full((), bool(value) if dtype == dt.bool_ else int(value), dtype)
    return ops.full((), value, dtype)


@rules.normalize("fill_diagonal_tensor")
def fill_diagonal_tensor_attrs(
    x: MetaTensor, y: MetaTensor, offset: int, dim1: int, dim2: int
) -> Any:
    if x.ndim < 2:
        raise ShapeError(f"{x} has no diagonal; it takes at least two axes")
    return offset, *ax.all_positive((dim1, dim2), x.ndim, "dim1, dim2:")


@rules.infer_meta("FillDiagonalTensorInferMeta")
def fill_diagonal_tensor_meta(
    x: MetaTensor, y: MetaTensor, offset: int, dim1: int, dim2: int
) -> MetaTensor:
    wanted = diagonal_meta(x, offset, dim1, dim2)
    if y.ndim != wanted.ndim:
        raise ShapeError(f"y must have the dims of the diagonal, {wanted}, found {y}")
    check_fits(y, wanted.dims, "y")
    return x


@rules.decompose("fill_diagonal_tensor")
def fill_diagonal_tensor(x: Any, y: Any, offset: int, dim1: int, dim2: int) -> Any:
    dims = x.meta.dims
    wanted = diagonal_meta(x.meta, offset, dim1, dim2).dims
    spread = diagonal_grad(x.meta, ops.expand(y, wanted), offset, dim1, dim2)
    hits = numbers_along(dim2, dims) - numbers_along(dim1, dims) == offset
    return ops.where(hits, spread, x)


@rules.infer_meta("DiagInferMeta")
def diag_meta(x: MetaTensor, offset: int, padding_value: float) -> MetaTensor:
    if x.ndim > 2:
        raise ShapeError(f"diag takes a vector or a matrix, found {x}; diag_embed takes any")
    if x.ndim == 2:
        return diagonal_meta(x, offset, 0, 1)
    size = x.size + abs(offset)
    return x.with_dims((size, size))


@rules.decompose("diag")
def diag(x: Any, offset: int, padding_value: float) -> Any:
    if x.ndim == 2:
        return ops.diagonal(x, offset)
    matrix = diag_embed(ops.reshape(x, (x.meta.size,)), offset, 0, 1)
    if not padding_value:
        return matrix
    dims = matrix.meta.dims
    hits = numbers_along(1, dims) - numbers_along(0, dims) == offset
    return ops.where(hits, matrix, _element(padding_value, x.dtype))


@rules.normalize("diag_embed")
def diag_embed_attrs(input: MetaTensor, offset: int, dim1: int, dim2: int) -> Any:
    if not input.ndim:
        raise ShapeError(f"{input} has no axis for a diagonal; reshape it to [1] first")
    return offset, *ax.all_positive((dim1, dim2), input.ndim + 1, "dim1, dim2:")


@rules.infer_meta("DiagEmbedInferMeta")
def diag_embed_meta(input: MetaTensor, offset: int, dim1: int, dim2: int) -> MetaTensor:
    size = input.dims[-1] + abs(offset)
    dims = list(input.dims[:-1])
    for axis in sorted((dim1, dim2)):
        dims.insert(axis, size)
    return input.with_dims(dims)


@rules.decompose("diag_embed")
def diag_embed(input: Any, offset: int, dim1: int, dim2: int) -> Any:
    whole = diag_embed_meta(input.meta, offset, dim1, dim2)
    return diagonal_grad(whole, input, offset, dim1, dim2)


# -- shards ------------------------------------------------------------------------------------
@rules.normalize("shard_index")
def shard_index_attrs(
    input: MetaTensor, index_num: int, nshards: int, shard_id: int, ignore_value: int
) -> Any:
    if index_num < 1 or nshards < 1:
        raise AttributeValueError(f"index_num {index_num} and nshards {nshards} must be 1 or more")
    if not 0 <= shard_id < nshards:
        raise AttributeValueError(f"shard_id {shard_id} must be one of 0..{nshards - 1}")
    check_number(ignore_value, input.dtype, "ignore_value")
    return index_num, nshards, shard_id, ignore_value


@rules.decompose("shard_index")
def shard_index(input: Any, index_num: int, nshards: int, shard_id: int, ignore_value: int) -> Any:
    size = -(-index_num // nshards)
    wide = ops.cast(input, dt.int64)
    first = shard_id * size
    mine = (wide >= first) & (wide < first + size)
    own = ops.cast(ops.where(mine, wide - first, 0), input.dtype)
    return ops.where(mine, own, ops.full((), ignore_value, input.dtype))
