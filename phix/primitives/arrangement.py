"""Ops that cut, pad, repeat and choose among tensors, made of the movement primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.indexing import check_index
from phix.primitives.positions import numbers
from phix.primitives.slicing import concat_meta, pad_meta
from phix.primitives.widening import as_dtype, widened


# -- crop --------------------------------------------------------------------------------------
@rules.normalize("crop")
def crop_attrs(x: MetaTensor, shape: Any, offsets: Any) -> Any:
    offsets = offsets or (0,) * x.ndim
    if not len(shape) == len(offsets) == x.ndim:
        raise AttributeValueError(
            f"shape {dm.shape_text(shape)} and offsets {offsets} must have one number for each "
            f"axis of {x}"
        )
    rest = [d - o for d, o in zip(x.dims, offsets)]
    dims = (r if isinstance(d, int) and d == -1 else d for d, r in zip(shape, rest))
    return tuple(dims), offsets


@rules.infer_meta("CropInferMeta")
def crop_meta(x: MetaTensor, shape: Any, offsets: Any) -> MetaTensor:
    for have, size, offset in zip(x.dims, shape, offsets):
        known = [v for v in (size, offset) if isinstance(v, int)]
        is_outside = dm.is_known(have, size, offset) and offset + size > have
        if is_outside or any(v < 0 for v in known):
            raise ShapeError(
                f"a box of {dm.shape_text(shape)} at {offsets} does not lie in {x}; write offsets "
                "from 0, and sizes that fit"
            )
    return x.with_dims(shape)


@rules.decompose("crop")
def crop(x: Any, shape: Any, offsets: Any) -> Any:
    ends = [o + d for o, d in zip(offsets, shape)]
    return ops.slice(x, list(range(x.ndim)), list(offsets), ends)


# -- pad3d -------------------------------------------------------------------------------------
def _reflected(places: Any, size: Any) -> Any:
    last = size - 1
    return last - ops.abs(last - ops.abs(places))


_PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "reflect": _reflected,
    "replicate": lambda places, size: ops.minimum(ops.maximum(places, 0), size - 1),
    "circular": ops.remainder,
}
_FIRST_AXIS = {"NCDHW": 2, "NDHWC": 1}


@rules.normalize("pad3d")
def pad3d_attrs(x: MetaTensor, paddings: Any, mode: str, pad_value: float, data_format: str) -> Any:
    if mode != "constant" and mode not in _PLACES:
        raise AttributeValueError(
            f"mode {mode!r} is not known; write constant, {', '.join(_PLACES)}"
        )
    if data_format not in _FIRST_AXIS:
        raise AttributeValueError(f"data_format must be NCDHW or NDHWC, found {data_format!r}")
    if x.ndim != 5 or len(paddings) != 6:
        raise ShapeError(f"pad3d takes a tensor of 5 axes and 6 paddings, found {x} and {paddings}")
    return paddings, mode, pad_value, data_format


def _by_axis(paddings: Any, data_format: str) -> dict[int, tuple[Any, Any]]:
    """(before, behind) of depth, height and width, which the paddings name from the last on."""
    first = _FIRST_AXIS[data_format]
    return {first + i: (paddings[4 - 2 * i], paddings[5 - 2 * i]) for i in range(3)}


@rules.infer_meta("Pad3dInferMeta")
def pad3d_meta(
    x: MetaTensor, paddings: Any, mode: str, pad_value: float, data_format: str
) -> MetaTensor:
    pads = _by_axis(paddings, data_format)
    for axis, pair in pads.items():
        size = x.dims[axis]
        least = 1 if mode == "reflect" else 0  # a reflection leaves the edge out
        for p in pair:
            if mode == "reflect" and dm.is_known(p, size) and p > size - least:
                raise ShapeError(
                    f"reflect has at most {size - least} elements for each side of axis {axis} of "
                    f"{x}, found padding {p}"
                )
        if mode in ("replicate", "circular") and dm.is_zero(size) and sum(pair):
            raise ShapeError(f"axis {axis} of {x} is empty, so {mode} has nothing to pad it with")
    return pad_meta(x, [p for i in range(x.ndim) for p in pads.get(i, (0, 0))], 0)


@rules.decompose("pad3d")
def pad3d(x: Any, paddings: Any, mode: str, pad_value: float, data_format: str) -> Any:
    pads = _by_axis(paddings, data_format)
    if mode == "constant":
        value = pad_value if dt.is_differentiable(x.dtype) else int(pad_value)
        return ops.pad(x, [p for i in range(x.ndim) for p in pads.get(i, (0, 0))], value)
    for axis, (before, behind) in pads.items():
        if dm.is_zero(before) and dm.is_zero(behind):
            continue
        size = x.meta.dims[axis]
        places = numbers(size + before + behind) - before
        x = ops.gather(x, _PLACES[mode](places, size), axis)
    return x


# -- repeating, turning round ------------------------------------------------------------------
@rules.normalize("repeat_interleave")
def repeat_interleave_attrs(x: MetaTensor, repeats: Any, axis: int) -> Any:
    if isinstance(repeats, int) and repeats < 0:
        raise AttributeValueError(f"repeats must be 0 or more, found {repeats}")
    if not x.ndim:
        raise ShapeError(f"{x} has no axis to repeat along; reshape it to [1] first")
    return repeats, ax.positive(axis, x.ndim)


@rules.infer_meta("RepeatInterleaveInferMeta")
def repeat_interleave_meta(x: MetaTensor, repeats: Any, axis: int) -> MetaTensor:
    return x.with_dims([d * repeats if i == axis else d for i, d in enumerate(x.dims)])


@rules.decompose("repeat_interleave")
def repeat_interleave(x: Any, repeats: Any, axis: int) -> Any:
    dims = x.meta.dims
    front, behind = dims[: axis + 1], dims[axis + 1 :]
    spread = ops.expand(ops.reshape(x, (*front, 1, *behind)), (*front, repeats, *behind))
    return ops.reshape(spread, (*dims[:axis], dims[axis] * repeats, *behind))


@rules.normalize("reverse")
def reverse_attrs(x: MetaTensor, axis: Any) -> Any:
    return (ax.all_positive(axis, x.ndim),)


@rules.infer_meta("ReverseInferMeta")
def reverse_meta(x: MetaTensor, axis: Any) -> MetaTensor:
    return x


@rules.decompose("reverse")
def reverse(x: Any, axis: Any) -> Any:
    return ops.flip(x, axis)


# -- of several tensors ------------------------------------------------------------------------
def _same_dims(tensors: Any, what: str) -> MetaTensor:
    """The meta of tensors of one shape; of each dim what is known of it in one of them."""
    if not tensors:
        raise ShapeError(f"{what} takes at least one tensor, found none")
    first = tensors[0]
    dims = list(first.dims)
    for other in tensors[1:]:
        if other.ndim != first.ndim or not all(map(dm.may_equal, dims, other.dims)):
            raise ShapeError(f"{what} takes tensors of one shape, found {first} and {other}")
        dims = [e if dm.is_known(e) else d for d, e in zip(dims, other.dims)]
    return first.with_dims(dims)


@rules.infer_meta("AddNInferMeta")
def add_n_meta(inputs: Any) -> MetaTensor:
    return _same_dims(inputs, "add_n")


@rules.decompose("add_n")
def add_n(inputs: Any) -> Any:
    first, *rest = inputs
    if not rest:
        return first
    total = widened(first)
    for x in rest:
        total = total + widened(x)
    return as_dtype(total, first.dtype)


@rules.indices("multiplex")
def multiplex_indices(inputs: Any, index: MetaTensor) -> list[IndexRange]:
    return [IndexRange("index", (len(inputs),), "the inputs,", counts_back=False)]


@rules.infer_meta("MultiplexInferMeta")
def multiplex_meta(inputs: Any, index: MetaTensor) -> MetaTensor:
    check_index(index)
    found = _same_dims(inputs, "multiplex")
    is_column = index.ndim == 2 and dm.may_equal(index.dims[1], 1)
    if not found.ndim or not (index.ndim == 1 or is_column):
        raise ShapeError(
            f"multiplex chooses rows by an index of [rows] or [rows, 1], found {found} and {index}"
        )
    if not dm.may_equal(found.dims[0], index.dims[0]):
        raise ShapeError(f"index must number an input for each row of {found}, found {index}")
    return found


@rules.decompose("multiplex")
def multiplex(inputs: Any, index: Any) -> Any:
    rows = index.meta.dims[0]
    chosen = ops.minimum(ops.maximum(as_int64(ops.reshape(index, (rows,))), 0), len(inputs) - 1)
    places = ops.stack([chosen, numbers(rows)], 1)
    return ops.gather_nd(ops.stack(list(inputs), 0), places)


def _columns(x: Any, start: int, length: int) -> tuple[Any, Any]:
    """First and last but one of the columns meant, in a matrix of one meta."""
    if x.ndim != 2:
        raise ShapeError(f"each tensor must have two axes, found {x}; reshape it")
    size = x.dims[1]
    first = start + size if start < 0 else start
    end = size if length < 0 else first + length
    if dm.is_known(size) and not 0 <= first <= end <= size:
        raise ShapeError(
            f"start_index {start} and length {length} lead out of the {size} columns of {x}"
        )
    return first, end


@rules.infer_meta("PartialConcatInferMeta")
def partial_concat_meta(x: Any, start_index: int, length: int) -> MetaTensor:
    _same_dims(x, "partial_concat")
    bounds = [_columns(part, start_index, length) for part in x]
    return concat_meta([p.with_dims((p.dims[0], e - s)) for p, (s, e) in zip(x, bounds)], 1)


def _parts(x: Any, start: int, length: int) -> list[Any]:
    bounds = (_columns(part.meta, start, length) for part in x)
    return [ops.slice(part, [1], [s], [e]) for part, (s, e) in zip(x, bounds)]


@rules.decompose("partial_concat")
def partial_concat(x: Any, start_index: int, length: int) -> Any:
    return ops.concat(_parts(x, start_index, length), 1)


@rules.infer_meta("PartialSumInferMeta")
def partial_sum_meta(x: Any, start_index: int, length: int) -> MetaTensor:
    found = _same_dims(x, "partial_sum")
    first, end = _columns(found, start_index, length)
    return found.with_dims((found.dims[0], end - first))


@rules.decompose("partial_sum")
def partial_sum(x: Any, start_index: int, length: int) -> Any:
    return add_n(_parts(x, start_index, length))
